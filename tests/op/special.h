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

/* Ops whose sums end in a NaN where everything is special: here one number in eight is, and half of
 * the weights, an operand whose exact zeros skip what they weigh, are zeros of either sign. -1: the
 * op has no such operand. */
typedef struct special_mix {
    op_code op;
    int32_t numbers, weights;
} special_mix;

static inline const special_mix *special_mix_of(op_code code) {
    static const special_mix mixes[] = {
        {OP_ADD_EACH, 0, -1},        {OP_SUM_EACH, 0, -1},     {OP_DOT_ROWS, 0, -1},
        {OP_OUTER_ROWS, 0, -1},      {OP_MASK_SOFTMAX, 0, -1}, {OP_MASK_SOFTMAX_GRAD, 1, 0},
        {OP_WEIGHTED_SUM, 1, 0},     {OP_DOT_EACH, 0, -1},     {OP_OUTER_EACH, 2, 1},
        {OP_MASK_ROWS, 0, -1},       {OP_SCORE_TANH, 0, -1},   {OP_SCORE_TANH_GRAD, 2, 1},
        {OP_SCORE_SLOPE, 2, 0},      {OP_LAYER_NORM, 0, -1},   {OP_LAYER_NORM_GRAD, 0, -1},
        {OP_LAYER_NORM_GAIN, 0, -1}, {OP_XENT_PART, 1, -1},    {OP_XENT_END, 0, -1},
        {OP_ROW_MAX, 0, -1},         {OP_TOP_LOGS, 0, -1},     {OP_SOFTMAX, 0, -1},
        {OP_SOFTMAX_GRAD, 0, -1},    {OP_SUM_ROWS, 1, -1},     {OP_XENT, 0, -1},
    };
    for (size_t i = 0; i < sizeof mixes / sizeof *mixes; i++) {
        if (mixes[i].op == code) {
            return &mixes[i];
        }
    }
    return NULL;
}

static inline void mix_special(tensor *t, bool is_weights) {
    draw d = {11};
    tensor all = tensor_make(&t->view.type, false, 0);
    fill_special(&all);
    for (int64_t i = 0; i < tensor_count(t); i++) {
        uint64_t bits = draw_bits(&d);
        if (is_weights && bits % 2 == 0) {
            tensor_set(t, i, bits % 4 == 0 ? 0.0 : -0.0);
        } else if (!is_weights && bits % 8 == 0) {
            tensor_set(t, i, tensor_get(&all, i));
        }
    }
    tensor_free(&all);
}

/* Whether the op has operands for special numbers; they are then filled with them. */
static inline bool make_special(op_code code, op_data *data) {
    const special_mix *mix = special_mix_of(code);
    int32_t operand = special_operand(code);
    if (mix != NULL) {
        mix_special(&data->in[mix->numbers], false);
        if (mix->weights >= 0) {
            mix_special(&data->in[mix->weights], true);
        }
        return true;
    }
    if (operand < 0 || data->in[operand].block == NULL) {
        return false;
    }
    fill_special(&data->in[operand]);
    return true;
}

#endif
