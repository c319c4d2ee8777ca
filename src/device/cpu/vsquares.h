/* vsquares.h - sums of squares over the vectors of vec.h: 16 lanes of doubles whatever the vector
 * length. A square of a float is exact in double, so fused or not are the same bits. */
#ifndef DEVICE_CPU_VSQUARES_H
#define DEVICE_CPU_VSQUARES_H

#include "device/cpu/vec.h"
#include "op/squares.h"

/* Half vectors widen to full vectors of doubles. */
typedef float half_float __attribute__((vector_size(VBYTES / 2)));
typedef double full_double __attribute__((vector_size(VBYTES)));
enum { WIDE = VLEN / 2, WIDE_VECTORS = SQUARES_LANES / WIDE };

/* 16 elements, one a lane. */
static INLINE void add_squares(full_double sum[WIDE_VECTORS], const float *x) {
    for (int w = 0; w < WIDE_VECTORS; w++) {
        half_float part;
        __builtin_memcpy(&part, x + w * WIDE, sizeof part);
        full_double wide = __builtin_convertvector(part, full_double);
#if VBYTES == 32
        sum[w] = (full_double)_mm256_fmadd_pd((__m256d)wide, (__m256d)wide, (__m256d)sum[w]);
#else
        sum[w] += wide * wide;
#endif
    }
}

/* The upper half of the lanes is folded on the lower until one is left. */
static INLINE double fold_squares(const full_double sum[WIDE_VECTORS]) {
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
