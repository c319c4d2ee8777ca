/* vexp.h - the sum of the exponentials of a row, over the lanes of vlanes.h. */
#ifndef DEVICE_CPU_VEXP_H
#define DEVICE_CPU_VEXP_H

#include "device/cpu/vlanes.h"
#include "device/cpu/vmath.h"

#include <stddef.h>

/* Adds exp(x - shift) of m <= 16 columns, m constant but for the last, and stores it to `terms`
 * unless it is NULL. exp(-inf) = 0: absent columns add nothing (a lane is never -0). The columns
 * themselves go to `plain` unless it is NULL. */
static INLINE void add_exp(lanes *sum, const float *x, int64_t m, float shift, float *terms,
                           lanes *plain) {
    lanes part = lanes_load(x, m, -__builtin_inff());
    if (plain != NULL && m >= LANES) {
        for (int q = 0; q < LANE_VECTORS; q++) {
            plain->v[q] += part.v[q];
        }
    } else if (plain != NULL) {
        LANES_REST(*plain, m, lane + x[l]);
    }
    for (int q = 0; q < LANE_VECTORS; q++) {
        part.v[q] = v_exp(part.v[q] - shift);
        sum->v[q] += part.v[q];
    }
    if (terms != NULL) {
        lanes_store(terms, part, m);
    }
}

/* Adds exp(x - shift) of a row to its lanes; `terms` and `plain` as above. */
static INLINE void row_add_exp(lanes *sum, const float *x, int64_t n, float shift, float *terms,
                               lanes *plain) {
    int64_t j = 0;
    for (; j + LANES <= n; j += LANES) {
        add_exp(sum, x + j, LANES, shift, terms != NULL ? terms + j : NULL, plain);
    }
    if (j < n) {
        add_exp(sum, x + j, n - j, shift, terms != NULL ? terms + j : NULL, plain);
    }
}

/* The sum of them. */
static INLINE float row_sum_exp(const float *x, int64_t n, float shift, float *terms,
                                lanes *plain) {
    lanes sum = lanes_all(0.0f);
    row_add_exp(&sum, x, n, shift, terms, plain);
    return lanes_sum(sum);
}

#endif
