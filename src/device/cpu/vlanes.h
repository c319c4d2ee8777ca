/* vlanes.h - reductions along a row over the vectors of vec.h: 16 lanes whatever the vector length.
 * Lane l takes columns l, l+16, ... ascending, then the upper half is folded on the lower until one
 * is left. */
#ifndef DEVICE_CPU_VLANES_H
#define DEVICE_CPU_VLANES_H

#include "device/cpu/vec.h"

enum { LANES = 16, LANE_VECTORS = LANES / VLEN };

typedef struct lanes {
    vf v[LANE_VECTORS];
} lanes;

static INLINE lanes lanes_all(float x) {
    lanes all;
    for (int q = 0; q < LANE_VECTORS; q++) {
        all.v[q] = v_all(x);
    }
    return all;
}

/* 16 columns of which m >= 0 exist; the others read as `absent`. */
static INLINE lanes lanes_load(const float *p, int64_t m, float absent) {
    lanes all;
    if (m >= LANES) {
        for (int q = 0; q < LANE_VECTORS; q++) {
            all.v[q] = v_load(p + q * VLEN, VLEN);
        }
        return all;
    }
    float part[LANES];
    for (int l = 0; l < LANES; l++) {
        part[l] = l < m ? p[l] : absent;
    }
    __builtin_memcpy(&all, part, sizeof all);
    return all;
}

static INLINE void lanes_store(float *p, lanes all, int64_t m) {
    __builtin_memcpy(p, &all, (size_t)(m < LANES ? m : LANES) * sizeof(float));
}

/* Whole vectors first, then what is left inside the last one. */
static INLINE float lanes_sum(lanes all) {
    float s[VLEN];
    for (int half = LANE_VECTORS / 2; half > 0; half /= 2) {
        for (int q = 0; q < half; q++) {
            all.v[q] += all.v[q + half];
        }
    }
    __builtin_memcpy(s, &all.v[0], sizeof s);
    for (int half = VLEN / 2; half > 0; half /= 2) {
        for (int l = 0; l < half; l++) {
            s[l] += s[l + half];
        }
    }
    return s[0];
}

/* For the columns beyond the last 16: lane l becomes `next`, an expression of `lane`, its value so
 * far, and l, for l < m. Lanes without a column stay as they are, down to the sign of a zero. */
#define LANES_REST(all, m, next)                                                                   \
    do {                                                                                           \
        float rest_[LANES];                                                                        \
        __builtin_memcpy(rest_, &(all), sizeof rest_);                                             \
        for (int64_t l = 0; l < (m); l++) {                                                        \
            const float lane = rest_[l];                                                           \
            rest_[l] = (next);                                                                     \
        }                                                                                          \
        __builtin_memcpy(&(all), rest_, sizeof rest_);                                             \
    } while (0)

#endif
