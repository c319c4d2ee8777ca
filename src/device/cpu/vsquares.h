/* vsquares.h - sums of squares over the vectors of vec.h: 16 lanes of doubles whatever the vector
 * length. */
#ifndef DEVICE_CPU_VSQUARES_H
#define DEVICE_CPU_VSQUARES_H

#include "device/cpu/vec.h"
#include "op/squares.h"

enum { WIDE_VECTORS = SQUARES_LANES / WIDE };

/* 16 elements, one a lane. */
static INLINE void add_squares(vd sum[WIDE_VECTORS], const float *x) {
    for (int w = 0; w < WIDE_VECTORS; w++) {
        vd wide = vd_wide(vh_load(x + w * WIDE));
        sum[w] = vd_fma(wide, wide, sum[w]);
    }
}

/* The upper half of the lanes is folded on the lower until one is left. */
static INLINE double fold_squares(const vd sum[WIDE_VECTORS]) {
    double s[SQUARES_LANES];
    __builtin_memcpy(s, sum, sizeof s);
    for (int half = SQUARES_LANES / 2; half > 0; half /= 2) {
        for (int l = 0; l < half; l++) {
            s[l] += s[l + half];
        }
    }
    return s[0];
}

#endif
