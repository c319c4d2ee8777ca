/* special.h - numbers that kernels of elements must take as the reference does, and where. */
#ifndef TESTS_OP_SPECIAL_H
#define TESTS_OP_SPECIAL_H

#include "sample.h"

/* Which operand may hold any number: the first of pointwise ops, of codes and of what reads one;
 * the map of those that take the largest or a sum of pixels; -1: the op is none of them. */
static inline int32_t special_operand(op_code code) {
    if (code == OP_SIGN_BITS || code == OP_RELU_GRAD_BITS || code == OP_POOL_INDEX ||
        code == OP_MAX_POOL_GRAD_AT || code == OP_NARROW) {
        return 0;
    }
    if (code == OP_SPARSE_PUSH) {
        return 1;
    }
    bool pool =
        code == OP_MAX_POOL || code == OP_AVG_POOL || code == OP_AVG_POOL_GRAD || code == OP_LRN;
    return code == OP_MAX_POOL_GRAD || code == OP_LRN_GRAD         ? 1
           : pool || (ebb__op((int)code)->flags & OPF_ELEMENTWISE) ? 0
                                                                   : -1;
}

/* Zeros of both signs, infinities, NaN, subnormals, and the thresholds of our functions; drawn
 * often enough that many are equal to a neighbour. */
static inline void fill_special(tensor *t) {
    static const float special[] = {0.0f,    -0.0f,   INFINITY, -INFINITY, NAN,    1e-42f, -1e-42f,
                                    88.72f,  88.73f,  -87.4f,   -103.9f,   -104.f, 0.625f, -0.625f,
                                    0.6249f, 3.4e38f, -3.4e38f, 9.1f,      1.0f};
    const int64_t n = sizeof special / sizeof *special;
    draw d = {9};
    for (int64_t i = 0; i < tensor_count(t); i++) {
        int64_t which = i < n ? i : (int64_t)(draw_bits(&d) % (uint64_t)n);
        tensor_set(t, i, (double)special[which]);
    }
}

#endif
