/* test_infer.c - wrong operands and attributes are refused when the node is made: EBB_USAGE, one
 * sentence beginning with the op's name, no node added. */
#include "sample.h"

#include "op/define.h"

#include <stdio.h>

typedef struct wrong {
    op_code op;
    int32_t n_in;
    ir_type in[5];
    ir_attr attr;
} wrong;

static const wrong cases[] = {
    {OP_EMBED, 2, {F1(5), I1(2)}, {.i = {0}}},
    {OP_EMBED_GRAD, 3, {F2(4, 3), I1(2), F2(2, 3)}, {.i = {5}}}, /* c is not [vocab, E] */
    {OP_EMBED_GRAD, 3, {F2(5, 3), I1(3), F2(2, 3)}, {.i = {5}}},
    {OP_EMBED_GRAD, 3, {F2(5, 3), I1(2), F2(2, 3)}, {.i = {-5}}},
    {OP_EMBED_SQUARES, 2, {I1(3), F2(2, 3)}, {.i = {5}}},
    {OP_EMBED_SQUARES, 2, {I1(2), F3(1, 2, 3)}, {.i = {5}}},
    {OP_EMBED_SQUARES, 2, {I1(2), F2(2, 3)}, {.i = {0}}},
    {OP_EMBED_SQUARES, 2, {I1(2), F2(2, INT32_MAX)}, {.i = {INT32_MAX}}},
    {OP_EMBED_SGD, 5, {F2(5, 3), I1(3), F2(2, 3), F1(1), F1(4)}, {.i = {0}}},
    {OP_EMBED_SGD, 5, {F2(5, 4), I1(2), F2(2, 3), F1(1), F1(4)}, {.i = {0}}}, /* E */
    {OP_EMBED_SGD, 5, {F2(5, 3), I1(2), F2(2, 3), F1(2), F1(4)}, {.i = {0}}},
    {OP_EMBED_SGD, 5, {F2(5, 3), I1(2), F2(2, 3), F1(1), F1(3)}, {.i = {0}}},
    {OP_MATMUL, 3, {F1(2), F2(2, 3), F2(2, 3)}, {.i = {0, 0}}}, /* inner sizes */
    {OP_MATMUL, 3, {F1(2), F2(2, 3), F2(3, 2)}, {.i = {0, 1}}},
    {OP_MATMUL, 3, {F1(3), F2(2, 3), F2(3, 2)}, {.i = {0, 0}}}, /* bias of another size */
    {OP_MATMUL, 3, {F2(3, 2), F2(2, 3), F2(3, 2)}, {.i = {0, 0}}},
    {OP_MATMUL, 3, {F1(2), F1(3), F2(3, 2)}, {.i = {0, 0}}},
    {OP_MATMUL, 3, {F1(2), F2(2, 6), F3(2, 3, 2)}, {.i = {0, 0}}},
    {OP_MATMUL, 3, {F1(9), F2(2, 3), F2(3, 9)}, {.i = {0, 0, 2}}}, /* groups do not divide */
    {OP_MATMUL, 3, {F1(9), F2(2, 3), F2(3, 9)}, {.i = {0, 0, -1}}},
    {OP_MATMUL,
     3,
     {F1(40), F2(2, 3), F2(1, 96)},
     {.i = {0, 0, 1, 40, 32}}}, /* two panels, not one */
    {OP_MATMUL, 3, {F1(40), F2(2, 3), F2(2, 95)}, {.i = {0, 0, 1, 40, 32}}},
    {OP_MATMUL, 3, {F1(40), F2(2, 3), F2(2, 96)}, {.i = {0, 1, 1, 40, 32}}},
    {OP_MATMUL, 3, {F1(40), F2(2, 3), F2(1, 120)}, {.i = {0, 0, 5, 40, 8}}},
    {OP_MATMUL, 3, {F1(40), F2(2, 3), F2(2, 96)}, {.i = {0, 0, 1, -40, 32}}},
    {OP_TRANSPOSE, 1, {F3(2, 3, 4)}, {.i = {0}}},
    {OP_MATMUL, 3, {F1(40), F2(2, 3), F2(40, 3)}, {.i = {0, 0, 1, 40, 0}}},
    {OP_PACK, 1, {F3(2, 3, 4)}, {.i = {0, 1, 32}}},
    {OP_PACK, 1, {F2(3, 9)}, {.i = {0, 2, 8}}},
    {OP_PACK, 1, {F2(3, 10)}, {.i = {0, 5, 8}}},
    {OP_PACK, 1, {F2(10, 3)}, {.i = {1, -1, 32}}},
    {OP_PACK, 1, {F2(3, 8)}, {.i = {0, 1, 0}}},
    {OP_PACK, 1, {F2(3, 8)}, {.i = {0, 1, 1025}}},
    {OP_PACK, 1, {F2(1 << 27, 8)}, {.i = {0, 1, 32}}}, /* a panel of 2^32 elements */
    {OP_ADD, 2, {F2(2, 3), F2(3, 2)}, {.i = {0}}},
    {OP_ADD, 2, {F2(2, 3), F1(6)}, {.i = {0}}},
    {OP_SCALE, 1, {F1(2)}, {.f = {NAN}}},
    {OP_LEAKY_RELU, 1, {F1(2)}, {.f = {-0.1f}}}, /* y would not have the signs of x */
    {OP_LEAKY_RELU, 1, {F1(2)}, {.f = {INFINITY}}},
    {OP_LEAKY_RELU_GRAD, 2, {F1(2), F1(2)}, {.f = {NAN}}},
    {OP_LEAKY_RELU_GRAD, 2, {F1(2), F1(3)}, {.f = {0.1f}}},
    {OP_LEAKY_RELU_GRAD_BITS, 2, {F2(2, 9), {IR_U8, 2, {2, 1}}}, {.f = {0.1f}}},
    {OP_ADD_ROW, 2, {F2(2, 3), F1(2)}, {.i = {0}}},
    {OP_LSTM_GATES, 2, {F2(2, 7), F2(2, 2)}, {.i = {0}}},
    {OP_LSTM_GATES, 2, {F2(3, 8), F2(2, 2)}, {.i = {0}}},
    {OP_GRU_CELL, 3, {F2(2, 6), F2(2, 8), F2(2, 2)}, {.i = {0}}},
    {OP_DROPOUT, 2, {F2(2, 3), I1(1)}, {.i = {0, 0, 0, 0, 1}, .f = {1.0f}}},
    {OP_DROPOUT, 2, {F2(2, 3), I1(1)}, {.i = {0, 0, 0, 0, 1}, .f = {-0.1f}}},
    {OP_DROPOUT, 2, {F2(2, 3), I1(1)}, {.i = {0, 0, 0, 0, 1}, .f = {NAN}}},
    {OP_DROPOUT, 2, {F2(2, 3), I1(1)}, {.i = {0, 0, 0, 0, 0}, .f = {0.5f}}},
    {OP_DROPOUT, 2, {F2(2, 3), I1(2)}, {.i = {0, 0, 0, 0, 1}, .f = {0.5f}}},
    {OP_SLICE, 1, {F2(4, 3)}, {.i = {0, 3, 2}}},
    {OP_SLICE, 1, {F2(4, 3)}, {.i = {0, -1, 2}}},
    {OP_SLICE, 1, {F2(4, 3)}, {.i = {1, 0, 0}}},
    {OP_SLICE, 1, {F2(4, 3)}, {.i = {1, INT32_MAX, 1}}},
    {OP_SLICE, 1, {F2(4, 3)}, {.i = {0, 1, INT32_MAX}}},
    {OP_SLICE, 1, {F2(4, 3)}, {.i = {2, 0, 1}}},
    {OP_STACK, 2, {F2(4, 3), F2(4, 2)}, {.i = {0}}},
    {OP_STACK, 2, {F2(4, 3), F1(3)}, {.i = {0}}},
    {OP_STACK, 2, {F1(4), I1(4)}, {.i = {0}}},
    {OP_SLICE, 1, {F3(1 << 8, 1 << 16, 1 << 15)}, {.i = {1, 0, 1}}},
    {OP_CONCAT, 2, {F2(4, 3), F2(3, 3)}, {.i = {1}}},
    {OP_CONCAT, 2, {F2(4, 3), F3(1, 4, 3)}, {.i = {1}}},
    {OP_CONCAT, 2, {F2(4, 3), F2(4, 3)}, {.i = {2}}},
    {OP_CONCAT, 2, {F2(4, 3), F2(4, 3)}, {.i = {-1}}},
    {OP_REGROUP, 1, {F2(6, 3)}, {.i = {4, 1}}},
    {OP_REGROUP, 1, {F1(6)}, {.i = {0, 2}}},
    {OP_REGROUP, 1, {F1(6)}, {.i = {INT32_MAX, INT32_MAX}}},
    {OP_FILL, 0, {F1(1)}, {.i = {7, 1, 1, 1, 1, 1, 1}}},
    {OP_FILL, 0, {F1(1)}, {.i = {2, 3, 0}}},
    {OP_FILL, 0, {F1(1)}, {.i = {1, 3, [OP_ATTR_DTYPE] = IR_U8}}},
    {OP_FILL, 0, {F1(1)}, {.i = {1, 3, [OP_ATTR_DTYPE] = IR_I32}, .f = {3e9f}}},
    {OP_SUM_ROWS, 2, {F1(2), F2(2, 3)}, {.i = {0}}},
    {OP_SOFTMAX_GRAD, 2, {F2(2, 3), F2(3, 3)}, {.i = {0}}},
    {OP_ADD_EACH, 2, {F2(7, 3), F2(2, 3)}, {.i = {0}}}, /* no whole blocks */
    {OP_ADD_EACH, 2, {F2(6, 3), F2(2, 4)}, {.i = {0}}},
    {OP_ADD_EACH, 2, {F3(3, 2, 3), F2(2, 3)}, {.i = {0}}},
    {OP_SUM_EACH, 1, {F2(6, 3)}, {.i = {4}}},
    {OP_SUM_EACH, 1, {F2(6, 3)}, {.i = {0}}},
    {OP_SUM_EACH, 1, {F2(6, 3)}, {.i = {-2}}},
    {OP_DOT_ROWS, 2, {F2(6, 3), F1(3)}, {.i = {4}}},
    {OP_DOT_ROWS, 2, {F2(6, 3), F1(2)}, {.i = {2}}},
    {OP_OUTER_ROWS, 2, {F1(6), F1(3)}, {.i = {0}}},
    {OP_OUTER_ROWS, 2, {F2(6, 2), F2(1, 3)}, {.i = {0}}},
    {OP_OUTER_ROWS, 2, {F2(1 << 20, 1 << 12), F1(1)}, {.i = {0}}}, /* 2^32 rows */
    {OP_MASK_SOFTMAX, 2, {F2(3, 2), I1(3)}, {.i = {0}}},
    {OP_MASK_SOFTMAX, 2, {F1(2), I1(2)}, {.i = {0}}},
    {OP_MASK_SOFTMAX_GRAD, 2, {F2(3, 2), F2(2, 3)}, {.i = {0}}},
    {OP_WEIGHTED_SUM, 2, {F2(3, 2), F2(5, 4)}, {.i = {0}}},
    {OP_WEIGHTED_SUM, 2, {F2(3, 2), F3(3, 2, 4)}, {.i = {0}}},
    {OP_DOT_EACH, 2, {F2(6, 4), F2(2, 3)}, {.i = {0}}},
    {OP_DOT_EACH, 2, {F2(6, 4), F2(4, 4)}, {.i = {0}}},
    {OP_OUTER_EACH, 3, {F2(6, 4), F2(3, 2), F2(3, 4)}, {.i = {0}}},
    {OP_OUTER_EACH, 3, {F2(5, 4), F2(3, 2), F2(2, 4)}, {.i = {0}}}, /* c */
    {OP_MASK_ROWS, 2, {F2(2, 3), I1(3)}, {.i = {1}}},
    {OP_MASK_ROWS, 2, {F2(2, 3), I1(2)}, {.i = {-1}}},
    {OP_SCORE_TANH, 3, {F2(7, 3), F2(2, 3), F1(3)}, {.i = {0}}}, /* no whole blocks */
    {OP_SCORE_TANH, 3, {F2(6, 3), F2(2, 4), F1(3)}, {.i = {0}}},
    {OP_SCORE_TANH, 3, {F2(6, 3), F2(2, 3), F1(2)}, {.i = {0}}},
    {OP_SCORE_TANH_GRAD, 5, {F2(6, 3), F2(2, 3), F2(6, 3), F2(2, 3), F1(3)}, {.i = {0}}},
    {OP_SCORE_TANH_GRAD, 5, {F2(6, 2), F2(3, 2), F2(6, 3), F2(2, 3), F1(3)}, {.i = {0}}}, /* c */
    {OP_LAYER_NORM, 3, {F2(6, 3), F1(3), F1(2)}, {.f = {1e-5f}}},
    {OP_LAYER_NORM, 3, {F2(6, 3), F1(2), F1(3)}, {.f = {1e-5f}}},
    {OP_LAYER_NORM, 3, {F2(6, 3), F1(3), F1(3)}, {.f = {0.0f}}},
    {OP_LAYER_NORM, 3, {F2(6, 3), F1(3), F1(3)}, {.f = {NAN}}},
    {OP_LAYER_NORM, 3, {F2(6, 3), F1(3), F1(3)}, {.i = {4}, .f = {1e-5f}}}, /* batch */
    {OP_LAYER_NORM, 3, {F2(6, 3), F1(3), F1(3)}, {.i = {-1}, .f = {1e-5f}}},
    {OP_LAYER_NORM, 3, {F1(3), F1(3), F1(3)}, {.f = {1e-5f}}},
    {OP_LAYER_NORM_GRAD, 4, {F2(6, 3), F2(6, 2), F1(3), F2(6, 2)}, {.i = {0}}},
    {OP_LAYER_NORM_GRAD, 4, {F2(6, 3), F2(6, 3), F1(3), F2(6, 1)}, {.i = {0}}},
    {OP_LAYER_NORM_GAIN, 3, {F2(6, 3), F2(6, 3), F2(5, 2)}, {.i = {0}}},
    {OP_LAYER_NORM_GAIN, 3, {F2(6, 3), F2(6, 3), F2(6, 2)}, {.i = {5}}},
    {OP_XENT, 2, {F2(2, 3), I1(3)}, {.i = {0}}},
    {OP_XENT, 2, {F2(2, 3), I1(2)}, {.f = {-0.1f}}},
    {OP_XENT, 2, {F2(2, 3), I1(2)}, {.f = {1.1f}}},
    {OP_XENT_GRAD, 4, {F2(2, 3), I1(2), F1(2), F1(2)}, {.f = {NAN}}},
    {OP_XENT, 2, {F1(3), I1(1)}, {.i = {0}}},
    {OP_XENT_GRAD, 4, {F2(2, 3), I1(2), F1(2), F1(3)}, {.i = {0}}},
    {OP_MEAN_VALID, 2, {F1(2), I1(3)}, {.i = {0}}},
    {OP_MEAN_VALID_GRAD, 2, {F1(2), I1(3)}, {.i = {0}}},
    {OP_TOP_LOGS, 1, {F2(2, 5)}, {.i = {0}}},
    {OP_TOP_LOGS, 1, {F2(2, 5)}, {.i = {6}}},
    {OP_TOP_LOGS, 1, {F2(2, 200)}, {.i = {129}}},
    {OP_CLIP_SCALE, 1, {D1(2)}, {.f = {NAN}}},
    {OP_SGD, 4, {F1(2), F1(3), F1(1), F1(4)}, {.f = {0}}},
    {OP_SGD, 4, {F1(2), F1(2), F1(1), F1(3)}, {.f = {0}}},
    {OP_SGD, 4, {F1(2), F1(2), F1(2), F1(4)}, {.f = {0}}},
    {OP_SGD, 4, {F1(2), F1(2), F1(1), F1(4)}, {.f = {-1}}},
    {OP_FLATTEN, 1, {F2(2, 3)}, {.i = {0}}},
    {OP_FLATTEN, 1, {MAP(1, 1 << 11, 1 << 8, 1 << 8, 1, 1 << 5)}, {.i = {0}}}, /* 2^32 columns */
    {OP_UNFLATTEN, 1, {F2(4, 36)}, {.i = {3, 2, 3, 3, 2}}},                    /* lanes */
    {OP_UNFLATTEN, 1, {F2(4, 36)}, {.i = {3, 2, 3, 2, 3}}},
    {OP_UNFLATTEN, 1, {F2(4, 36)}, {.i = {-3, -2, 3, 2, 2}}},
    {OP_UNFLATTEN, 1, {F2(1, 1)}, {.i = {1 << 30, 1 << 30, 1 << 30, 1, 1 << 30}}},
    {OP_IMAGES, 3, {{IR_U8, 4, {4, 2, 2, 3}}, F1(3), F1(3)}, {.i = {3, 3}}},
    {OP_IMAGES, 3, {{IR_U8, 4, {4, 2, 2, 3}}, F1(3), F1(3)}, {.i = {0, 3}}},
    {OP_IMAGES, 3, {{IR_U8, 4, {4, 2, 2, 3}}, F1(3), F1(2)}, {.i = {2, 3}}},
    {OP_IMAGES, 3, {{IR_U8, 3, {4, 2, 3}}, F1(3), F1(3)}, {.i = {2, 3}}},
    {OP_IMAGES, 3, {{IR_U8, 4, {4, 2, 2, 3}}, F1(3), F1(3)}, {.i = {2, 2}}},
    {OP_MAX_POOL, 1, {F2(6, 6)}, {.i = {2, 2, 2, 0, 3, 3}}},
    {OP_MAX_POOL, 1, {MAP(1, 1, 6, 6, 1, 1)}, {.i = {2, 2, 2, 0, 4, 3}}}, /* one window outside */
    {OP_MAX_POOL, 1, {MAP(1, 1, 6, 6, 1, 1)}, {.i = {2, 2, 2, 0, 3, 4}}},
    {OP_MAX_POOL, 1, {MAP(1, 1, 6, 6, 1, 1)}, {.i = {2, 3, 2, 2, 3, 3}}},
    {OP_MAX_POOL, 1, {MAP(1, 1, 6, 6, 1, 1)}, {.i = {3, 2, 2, 2, 3, 3}}},
    {OP_MAX_POOL, 1, {MAP(1, 1, 6, 6, 1, 1)}, {.i = {2, 2, 2, -1, 2, 2}}},
    {OP_MAX_POOL, 1, {MAP(1, 1, 6, 6, 1, 1)}, {.i = {2, 2, 0, 0, 3, 3}}},
    {OP_MAX_POOL, 1, {MAP(1, 1, 6, 6, 1, 1)}, {.i = {0, 2, 2, 0, 3, 3}}},
    {OP_MAX_POOL, 1, {MAP(1, 1, 6, 6, 1, 1)}, {.i = {2, 1 << 30, 2, 0, 3, 3}}},
    {OP_AVG_POOL, 1, {MAP(1, 1, 6, 6, 1, 1)}, {.i = {2, 2, 2, 0, 0, 3}}},
    {OP_AVG_POOL, 1, {MAP(1, 1, 6, 6, 1, 1)}, {.i = {2, 2, 1 << 12, 0, INT32_MAX, 1}}},
    {OP_MAX_POOL_GRAD, 2, {MAP(1, 1, 3, 3, 1, 2), MAP(1, 2, 6, 6, 1, 1)}, {.i = {2, 2, 2, 0}}},
    {OP_MAX_POOL_GRAD, 2, {MAP(1, 1, 4, 3, 1, 1), MAP(1, 1, 6, 6, 1, 1)}, {.i = {2, 2, 2, 0}}},
    {OP_AVG_POOL_GRAD, 1, {MAP(1, 1, 3, 3, 1, 1)}, {.i = {2, 2, 2, 0, 6, 4}}},
    {OP_AVG_POOL_GRAD, 1, {MAP(1, 1, 1, 1, 1, 1)}, {.i = {2, 2, 2, 0, 0, 4}}},
    {OP_BATCH_NORM, 3, {F2(6, 6), F1(6), F1(6)}, {.f = {1e-5f}}},
    {OP_BATCH_NORM, 3, {MAP(1, 2, 6, 6, 1, 3), F1(6), F1(5)}, {.f = {1e-5f}}},
    {OP_BATCH_NORM, 3, {MAP(1, 2, 6, 6, 1, 3), F1(3), F1(6)}, {.f = {1e-5f}}},
    {OP_BATCH_NORM, 3, {MAP(1, 2, 6, 6, 1, 3), F1(6), F1(6)}, {.f = {0}}},
    {OP_BATCH_STAT, 1, {MAP(1, 2, 6, 6, 1, 3)}, {.f = {INFINITY}}},
    {OP_BATCH_STAT, 1, {MAP(1, 1 << 20, 1, 1, 1, 1 << 12)}, {.f = {1e-5f}}}, /* 2^32 channels */
    {OP_BATCH_APPLY, 4, {MAP(1, 2, 6, 6, 1, 3), F2(2, 6), F1(6), F1(6)}, {.i = {0}}},
    {OP_BATCH_APPLY, 4, {MAP(1, 2, 6, 6, 1, 3), F2(3, 5), F1(6), F1(6)}, {.i = {0}}},
    {OP_BATCH_GRAD_SUMS, 3, {MAP(1, 2, 6, 6, 1, 3), MAP(1, 1, 6, 6, 1, 6), F2(3, 6)}, {.i = {0}}},
    {OP_BATCH_GRAD, /* fewer images than there are */
     5,
     {MAP(2, 1, 1, 1, 2, 3), MAP(2, 1, 1, 1, 2, 3), F2(3, 3), F1(3), {IR_F64, 2, {2, 3}}},
     {.i = {3}}},
    {OP_BATCH_GRAD,
     5,
     {MAP(2, 1, 1, 1, 2, 3), MAP(2, 1, 1, 1, 2, 3), F2(3, 3), F1(3), {IR_F64, 2, {3, 2}}},
     {.i = {4}}},
    {OP_BATCH_GRAD_AFFINE, 1, {D1(2)}, {.i = {0}}},
    {OP_BATCH_TRACK, 3, {F1(2), F1(3), F2(3, 2)}, {.f = {0.1f}}},
    {OP_BATCH_TRACK, 3, {F1(2), F1(2), F2(3, 3)}, {.f = {0.1f}}},
    {OP_BATCH_TRACK, 3, {F1(2), F1(2), F2(3, 2)}, {.f = {1.1f}}},
    {OP_BATCH_KNOWN, 2, {F2(2, 2), F1(2)}, {.f = {1e-5f}}},
    {OP_BATCH_KNOWN, 2, {F1(2), F1(2)}, {.f = {-1}}},
    {OP_LRN, 1, {F2(6, 6)}, {.i = {5}, .f = {1e-4f, 1}}},
    {OP_LRN, 1, {MAP(1, 1, 6, 6, 1, 1)}, {.i = {0}, .f = {1e-4f, 1}}},
    {OP_LRN, 1, {MAP(1, 1, 6, 6, 1, 1)}, {.i = {5}, .f = {1e-4f, 0}}},
    {OP_LRN, 1, {MAP(1, 1, 6, 6, 1, 1)}, {.i = {5}, .f = {NAN, 1}}},
    {OP_LRN_GRAD, 2, {MAP(1, 1, 6, 6, 1, 1), MAP(1, 1, 6, 5, 1, 1)}, {.i = {5}, .f = {1, 1}}},
    {OP_RELU_GRAD_BITS, 2, {F2(3, 17), {IR_U8, 2, {3, 2}}}, {.i = {0}}},
    {OP_RELU_GRAD_BITS, 2, {F2(3, 16), {IR_U8, 2, {3, 3}}}, {.i = {0}}},
    {OP_RELU_GRAD_BITS, 2, {F2(3, 17), {IR_U8, 2, {2, 3}}}, {.i = {0}}},
    {OP_RELU_GRAD_BITS, 2, {F2(3, 17), {IR_U8, 1, {9}}}, {.i = {0}}},
    {OP_POOL_INDEX, 1, {F2(6, 6)}, {.i = {2, 2, 2, 0, 0, 3, 3}}},
    {OP_POOL_INDEX, 1, {MAP(1, 1, 6, 6, 1, 1)}, {.i = {2, 2, 2, 0, 0, 4, 3}}},
    {OP_POOL_INDEX, 1, {MAP(1, 1, 20, 20, 1, 1)}, {.i = {17, 16, 1, 0, 0, 1, 1}}}, /* 272 taps */
    {OP_POOL_INDEX, 1, {MAP(1, 1 << 30, 1, 1, 1, 1 << 12)}, {.i = {16, 16, 1, 15, 15, 16, 16}}},
    {OP_POOL_INDEX,
     1,
     {MAP(1, 1 << 20, 1, 1, 1, 1 << 14)},
     {.i = {2, 2, 1, 0, 0, 1, 1}}}, /* bytes */
    {OP_MAX_POOL_GRAD_AT,
     2,
     {MAP(1, 1, 3, 3, 1, 1), {IR_U8, 2, {1, 3}}},
     {.i = {2, 2, 2, 0, 0, 6, 4}}},
    {OP_MAX_POOL_GRAD_AT,
     2,
     {MAP(1, 1, 3, 3, 1, 1), {IR_U8, 2, {1, 2}}},
     {.i = {2, 2, 2, 0, 0, 6, 6}}},
    {OP_ROUND_TO, 1, {F2(3, 4)}, {.i = {0}}},
    {OP_ROUND_TO, 1, {F2(3, 4)}, {.i = {9}}},
    {OP_NARROW, 1, {F2(3, 4)}, {.i = {32}}},
    {OP_NARROW, 1, {F3(1, 1 << 20, 1 << 12)}, {.i = {8}}}, /* 2^32 codes a row */
    {OP_WIDEN, 1, {{IR_U8, 2, {3, 4}}}, {.i = {16, 2, 4}}},
    {OP_WIDEN, 1, {{IR_U8, 2, {3, 4}}}, {.i = {8, 2, 5}}},
    {OP_WIDEN, 1, {{IR_U8, 2, {3, 4}}}, {.i = {10, 2, 4}}},
    {OP_WIDEN, 1, {{IR_U8, 2, {3, 4}}}, {.i = {8, 7, 4}}},
    {OP_WIDEN, 1, {{IR_U8, 2, {3, 4}}}, {.i = {8, 2, 0}}},
    {OP_WIDEN, 1, {{IR_U8, 2, {3, 4}}}, {.i = {8, 6, 1 << 30, 1 << 30, 1 << 30, 1 << 30, 1}}},
    {OP_WIDEN, 1, {{IR_U8, 2, {3, 4}}}, {.i = {7, 2, 4}}},
    {OP_SEND, 2, {F2(3, 4), I1(1)}, {.i = {-1, 0}}},
    {OP_SEND, 2, {F2(3, 4), I1(1)}, {.i = {0, -1}}},
    {OP_SEND, 2, {F2(3, 4), I1(2)}, {.i = {0, 0}}},
    {OP_SENT, 3, {I1(2), F2(3, 4), I1(1)}, {.i = {0}}},
    {OP_RECV, 2, {I1(1), F1(1)}, {.i = {7, 3}}},
    {OP_RECV, 2, {I1(1), F1(1)}, {.i = {1, 3, [8] = -1}}},
    {OP_GOT, 3, {F2(3, 4), F1(1), I1(1)}, {.i = {0}}},
};

static void refused(ebb_ctx *ctx, ir_graph *graph, op_code op, const ir_val *in, int32_t n_in,
                    const ir_attr *attr, const char *what) {
    ir_val out[IR_MAX_OUT];
    int32_t nodes = graph->n_nodes, values = graph->n_values;
    ebb__ctx_clear(ctx);
    if (ebb__op_emit(graph, op, in, n_in, attr, out) != EBB_USAGE) {
        fail_msg("%s: %s was not refused", ebb__op((int)op)->schema.name, what);
    }
    const char *name = ebb__op((int)op)->schema.name, *text = ebb_last_error(ctx);
    assert_int_equal(strncmp(text, name, strlen(name)), 0);
    assert_null(strchr(text, '\n'));
    assert_int_equal(graph->n_nodes, nodes);
    assert_int_equal(graph->n_values, values);
}

static void wrong_shapes_and_attributes(void **state) {
    (void)state;
    for (size_t k = 0; k < sizeof cases / sizeof *cases; k++) {
        const wrong *w = &cases[k];
        ebb_ctx *ctx;
        ir_graph graph;
        ir_val in[5];
        char what[32];
        assert_int_equal(ebb_ctx_new(&ctx), EBB_OK);
        ebb__op_graph_init(&graph, ctx);
        for (int32_t i = 0; i < w->n_in; i++) {
            char name[] = "in0";
            name[2] = (char)('0' + i);
            assert_int_equal(ebb__ir_add_variable(&graph, IR_INPUT, name, &w->in[i], &in[i]),
                             EBB_OK);
        }
        snprintf(what, sizeof what, "case %zu", k);
        refused(ctx, &graph, w->op, in, w->n_in, &w->attr, what);
        ebb__ir_fini(&graph);
        ebb_ctx_free(ctx);
    }
}

/* An operand of another dtype: only ops that move bytes take any, and then all alike. */
static void wrong_dtypes(void **state) {
    (void)state;
    for (int code = 0; code < OP_COUNT; code++) {
        const op_def *op = ebb__op(code);
        for (int32_t i = 0; i < op->n_in; i++) {
            const op_sample *sample = &op->samples[0];
            for (int32_t s = 0; s < op->n_samples && sample->fill[i] == FILL_ABSENT; s++) {
                sample = &op->samples[s];
            }
            op_case c;
            ir_val in[OP_MAX_SAMPLE_IN], other;
            bool message = (code == OP_SEND && i == 0) || (code == OP_SENT && i == 1) ||
                           (code == OP_RECV && i == 1) || (code == OP_GOT && i == 0);
            if (code == OP_SLICE || code == OP_STACK || code == OP_CONCAT || code == OP_COPY ||
                code == OP_REGROUP || code == OP_TO_HOST || code == OP_TO_DEVICE || message) {
                continue;
            }
            case_open(&c, code, sample);
            memcpy(in, c.in, sizeof in);
            ir_type type = sample->in[i];
            type.dtype = type.dtype == IR_I32 ? IR_F32 : IR_I32;
            assert_int_equal(ebb__ir_add_variable(&c.graph, IR_INPUT, "other", &type, &other),
                             EBB_OK);
            in[i] = other;
            refused(c.ctx, &c.graph, (op_code)code, in, sample->n_in, &sample->attr, "a dtype");
            case_close(&c);
        }
    }
}

/* A graph whose stored types are not what its ops infer does not verify. */
static void verify_infers_again(void **state) {
    (void)state;
    op_case c;
    case_open(&c, OP_ADD, &ebb__op(OP_ADD)->samples[2]);
    assert_int_equal(ebb__op_verify(&c.graph), EBB_OK);
    c.graph.values[c.node.out].type.dim[0]++;
    assert_int_not_equal(ebb__op_verify(&c.graph), EBB_OK);
    case_close(&c);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(wrong_shapes_and_attributes),
        cmocka_unit_test(wrong_dtypes),
        cmocka_unit_test(verify_infers_again),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
