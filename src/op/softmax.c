/* softmax.c - softmax over the last axis. For a loss use xent, which never stores probabilities. */
#include "op/define.h"

#define REF_FAMILY "op/ref/softmax.inc"
#include "op/ref/twice.h"

static ebb_status softmax_grad(op_grad *g) {
    return ebb__op_grad_emit(g, 0, OP_SOFTMAX_GRAD, (ir_val[]){g->dy, g->node.out}, 2, NULL);
}

static const op_sample samples_softmax[] = {
    {IN(F2(1, 1))},     {IN(F1(7))},       {IN(F2(3, 17))},
    {IN(F3(2, 5, 33))}, {IN(F2(20, 128))}, {IN(F2(301, 65))},
};

OP_DEFINE(softmax, .n_in = 1, .n_out = 1, .infer = ebb__op_infer_same, .grad = softmax_grad,
          INPLACE({0, 0}), .work.flops = 20, .rows = ebb__op_rows_split, SAMPLES(samples_softmax));

static const op_sample samples_softmax_grad[] = {
    {IN(F2(1, 1), F2(1, 1)), .fill = {FILL_NORMAL, FILL_UNIT}},
    {IN(F2(3, 17), F2(3, 17)), .fill = {FILL_NORMAL, FILL_UNIT}},
    {IN(F3(2, 5, 33), F3(2, 5, 33)), .fill = {FILL_NORMAL, FILL_UNIT}},
    {IN(F2(20, 128), F2(20, 128)), .fill = {FILL_NORMAL, FILL_UNIT}},
    {IN(F2(301, 65), F2(301, 65)), .fill = {FILL_NORMAL, FILL_UNIT}},
};

OP_DEFINE(softmax_grad, .n_in = 2, .n_out = 1, .flags = OPF_NOGRAD, .infer = ebb__op_infer_same,
          INPLACE({0, 0}, {1, 0}), .work.flops = 4, .rows = ebb__op_rows_split,
          SAMPLES(samples_softmax_grad));
