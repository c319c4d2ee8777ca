/* elem.c - elementwise ops: sums, products, activations and the gradients of activations.
 *
 * Every one may be computed in the bytes of an operand of the result's type. Activations keep
 * their result, not their operand: tanh' and sigmoid' are cheap in terms of y.
 */
#include "op/define.h"

#define REF_FAMILY "op/ref/elem.inc"
#include "op/ref/twice.h"

/* ---- gradients ---- */

static ebb_status add_grad(op_grad *g) {
    TRY(ebb__op_grad_add(g, 0, g->dy));
    return ebb__op_grad_add(g, 1, g->dy);
}

static ebb_status sub_grad(op_grad *g) {
    TRY(ebb__op_grad_add(g, 0, g->dy));
    return ebb__op_grad_emit(g, 1, OP_SCALE, &g->dy, 1, &(ir_attr){.f = {-1.0f}});
}

static ebb_status mul_grad(op_grad *g) {
    ir_val a = op_grad_in(g, 0), b = op_grad_in(g, 1);
    TRY(ebb__op_grad_emit(g, 0, OP_MUL, (ir_val[]){g->dy, b}, 2, NULL));
    return ebb__op_grad_emit(g, 1, OP_MUL, (ir_val[]){g->dy, a}, 2, NULL);
}

static ebb_status scale_grad(op_grad *g) {
    return ebb__op_grad_emit(g, 0, OP_SCALE, &g->dy, 1, &g->node.attr);
}

static ebb_status add_row_grad(op_grad *g) {
    TRY(ebb__op_grad_add(g, 0, g->dy));
    return ebb__op_grad_sum(g, 1, OP_SUM_ROWS, &g->dy, 1, NULL);
}

/* op(dy, y) for an activation y. */
static ebb_status activation_grad(op_grad *g, op_code op) {
    return ebb__op_grad_emit(g, 0, op, (ir_val[]){g->dy, g->node.out}, 2, NULL);
}
static ebb_status tanh_grad(op_grad *g) {
    return activation_grad(g, OP_TANH_GRAD);
}
static ebb_status sigmoid_grad(op_grad *g) {
    return activation_grad(g, OP_SIGMOID_GRAD);
}
static ebb_status relu_grad(op_grad *g) {
    return activation_grad(g, OP_RELU_GRAD);
}
static ebb_status leaky_relu_grad(op_grad *g) {
    return ebb__op_grad_emit(g, 0, OP_LEAKY_RELU_GRAD, (ir_val[]){g->dy, g->node.out}, 2,
                             &g->node.attr);
}

/* ---- types, rows, cost ---- */

static ebb_status infer_scale(const ir_graph *graph, const ir_node_rec *node, ir_type *out) {
    if (!isfinite(node->attr.f[0])) {
        return ebb__op_bad(graph, node, "factor must be finite");
    }
    return ebb__op_infer_same(graph, node, out);
}

/* y is above 0 where x is, so that the gradient can go by y: not so with a slope below 0. */
static ebb_status infer_leaky(const ir_graph *graph, const ir_node_rec *node, ir_type *out) {
    TRY(ebb__op_need_slope(graph, node));
    return ebb__op_infer_same(graph, node, out);
}

static ebb_status infer_add_row(const ir_graph *graph, const ir_node_rec *node, ir_type *out) {
    TRY(ebb__op_need(graph, node, 0, IR_F32));
    out[0] = *op_in_type(graph, node, 0);
    return ebb__op_need_list(graph, node, 1, IR_F32, ir_cols(&out[0]));
}

static void rows_add_row(const ir_graph *graph, const ir_node_rec *node, op_row_role *in,
                         op_row_role *out) {
    ebb__op_rows_split(graph, node, in, out);
    in[1] = ROWS_WHOLE;
}

/* Signs are of any tensor alike; the slope goes with the reader. */
static void leaky_coded(const ir_graph *graph, const ir_node_rec *node, op_coded_attr *out) {
    (void)graph;
    out->reader = node->attr;
}

/* ---- samples ---- */

/* Of probabilities, as it is used. */
static const op_sample samples_log[] = {
    {IN(F2(1, 1)), .fill = {FILL_UNIT}},    {IN(F1(7)), .fill = {FILL_POSITIVE}},
    {IN(F2(3, 17)), .fill = {FILL_UNIT}},   {IN(F3(2, 5, 33)), .fill = {FILL_POSITIVE}},
    {IN(F2(301, 19)), .fill = {FILL_UNIT}},
};

static const op_sample samples_one[] = {
    {IN(F2(1, 1))},
    {IN(F1(7))},
    {IN(F2(3, 17))},
    {IN(F3(2, 5, 33))},
    {IN(F2(24, 64))},
    {IN(F2(301, 19))},
    {IN(MAP(2, 2, 3, 5, 4, 8))},
};
static const op_sample samples_two[] = {
    {IN(F2(1, 1), F2(1, 1))},
    {IN(F1(7), F1(7))},
    {IN(F2(3, 17), F2(3, 17))},
    {IN(F3(2, 5, 33), F3(2, 5, 33))},
    {IN(F2(24, 64), F2(24, 64))},
    {IN(F2(301, 19), F2(301, 19))},
    {IN(MAP(2, 2, 3, 5, 4, 8), MAP(2, 2, 3, 5, 4, 8))},
};
/* dy, and y in the range of a sigmoid. */
static const op_sample samples_grad[] = {
    {IN(F2(1, 1), F2(1, 1)), .fill = {FILL_NORMAL, FILL_UNIT}},
    {IN(F2(3, 17), F2(3, 17)), .fill = {FILL_NORMAL, FILL_UNIT}},
    {IN(F2(13, 65), F2(13, 65)), .fill = {FILL_NORMAL, FILL_UNIT}},
    {IN(F2(301, 19), F2(301, 19)), .fill = {FILL_NORMAL, FILL_UNIT}},
};
static const op_sample samples_scale[] = {
    {IN(F2(1, 1)), .attr = {.f = {-1.0f}}},
    {IN(F2(3, 17)), .attr = {.f = {0.3f}}},
    {IN(F2(33, 40)), .attr = {.f = {2.0f}}},
    {IN(F2(301, 19)), .attr = {.f = {1e-3f}}},
};
static const op_sample samples_leaky[] = {
    {IN(F2(1, 1)), .attr = {.f = {0.1f}}},   {IN(F1(7)), .attr = {.f = {0.25f}}},
    {IN(F2(3, 17)), .attr = {.f = {0.1f}}},  {IN(F3(2, 5, 33)), .attr = {.f = {0.01f}}},
    {IN(F2(24, 64)), .attr = {.f = {0.2f}}}, {IN(F2(301, 19)), .attr = {.f = {0.1f}}},
};
static const op_sample samples_leaky_grad[] = {
    {IN(F2(1, 1), F2(1, 1)), .attr = {.f = {0.1f}}},
    {IN(F1(7), F1(7)), .attr = {.f = {0.25f}}},
    {IN(F2(3, 17), F2(3, 17)), .attr = {.f = {0.1f}}},
    {IN(F3(2, 5, 33), F3(2, 5, 33)), .attr = {.f = {0.01f}}},
    {IN(F2(301, 19), F2(301, 19)), .attr = {.f = {0.1f}}},
};
static const op_sample samples_add_row[] = {
    {IN(F2(1, 1), F1(1))},    {IN(F2(3, 17), F1(17))},   {IN(F3(2, 5, 33), F1(33))},
    {IN(F2(24, 64), F1(64))}, {IN(F2(301, 19), F1(19))},
};

/* ---- definitions ---- */

#define POINTWISE(more_flags)                                                                      \
    .n_out = 1, .flags = OPF_ELEMENTWISE | (more_flags), .layout = LAYOUT_FOLDED,                  \
    .rows = ebb__op_rows_split, .units = ebb__op_units_columns

OP_DEFINE(add, POINTWISE(0), .n_in = 2, .zeros = ZEROS_SUM, .infer = ebb__op_infer_same,
          .grad = add_grad, INPLACE({0, 0}, {1, 0}), .work.flops = 1, SAMPLES(samples_two));

OP_DEFINE(sub, POINTWISE(0), .n_in = 2, .infer = ebb__op_infer_same, .grad = sub_grad,
          INPLACE({0, 0}, {1, 0}), .work.flops = 1, SAMPLES(samples_two));

OP_DEFINE(mul, POINTWISE(0), .n_in = 2, .infer = ebb__op_infer_same, .grad = mul_grad,
          INPLACE({0, 0}, {1, 0}), .work.flops = 1, SAMPLES(samples_two));

OP_DEFINE(scale, .schema.floats = {"factor"}, POINTWISE(0), .n_in = 1, .infer = infer_scale,
          .grad = scale_grad, INPLACE({0, 0}), .work.flops = 1, .stash = {STASH_AGAIN},
          SAMPLES(samples_scale));

OP_DEFINE(add_row, .n_in = 2, .n_out = 1, .infer = infer_add_row, .grad = add_row_grad,
          INPLACE({0, 0}), .work.flops = 1, .rows = rows_add_row, .units = ebb__op_units_columns,
          .stash = {STASH_AGAIN}, SAMPLES(samples_add_row));

OP_DEFINE(tanh, POINTWISE(0), .n_in = 1, .infer = ebb__op_infer_same, .grad = tanh_grad,
          INPLACE({0, 0}), .work.flops = 20, .stash = {STASH_AGAIN}, SAMPLES(samples_one));

OP_DEFINE(log, POINTWISE(OPF_NOGRAD), .n_in = 1, .infer = ebb__op_infer_same, INPLACE({0, 0}),
          .work.flops = 20, SAMPLES(samples_log));

OP_DEFINE(tanh_grad, POINTWISE(OPF_NOGRAD), .n_in = 2, .infer = ebb__op_infer_same,
          INPLACE({0, 0}, {1, 0}), .work.flops = 1, SAMPLES(samples_grad));

OP_DEFINE(sigmoid, POINTWISE(0), .n_in = 1, .infer = ebb__op_infer_same, .grad = sigmoid_grad,
          INPLACE({0, 0}), .work.flops = 20, .stash = {STASH_AGAIN}, SAMPLES(samples_one));

OP_DEFINE(sigmoid_grad, POINTWISE(OPF_NOGRAD), .n_in = 2, .infer = ebb__op_infer_same,
          INPLACE({0, 0}, {1, 0}), .work.flops = 1, SAMPLES(samples_grad));

OP_DEFINE(relu, POINTWISE(0), .n_in = 1, .zeros = ZEROS_CUT, .infer = ebb__op_infer_same,
          .grad = relu_grad, INPLACE({0, 0}), .work.flops = 1, .stash = {STASH_EITHER},
          SAMPLES(samples_one));

OP_DEFINE(relu_grad, POINTWISE(OPF_NOGRAD), .n_in = 2, .reads = {[1] = READ_SIGN},
          .coded = {.code = OP_SIGN_BITS, .reader = OP_RELU_GRAD_BITS, .in = 1},
          .infer = ebb__op_infer_same, INPLACE({0, 0}, {1, 0}), .work.flops = 1,
          SAMPLES(samples_two));

OP_DEFINE(leaky_relu, .schema.floats = {"slope"}, POINTWISE(0), .n_in = 1, .infer = infer_leaky,
          .grad = leaky_relu_grad, INPLACE({0, 0}), .work.flops = 1, .stash = {STASH_AGAIN},
          SAMPLES(samples_leaky));

OP_DEFINE(leaky_relu_grad, .schema.floats = {"slope"}, POINTWISE(OPF_NOGRAD), .n_in = 2,
          .reads = {[1] = READ_SIGN},
          .coded = {.code = OP_SIGN_BITS,
                    .reader = OP_LEAKY_RELU_GRAD_BITS,
                    .in = 1,
                    .attr = leaky_coded},
          .infer = infer_leaky, INPLACE({0, 0}, {1, 0}), .work.flops = 1,
          SAMPLES(samples_leaky_grad));
