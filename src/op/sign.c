/* sign.c - which elements are above zero, in a bit each, and the gradients that read no more. */
#include "op/code.h"
#include "op/define.h"

#define REF_FAMILY "op/ref/sign.inc"
#include "op/ref/twice.h"

/* ---- types ---- */

static ebb_status infer_sign_bits(const ir_graph *graph, const ir_node_rec *node, ir_type *out) {
    const ir_type *x = op_in_type(graph, node, 0);
    TRY(ebb__op_need(graph, node, 0, IR_F32));
    return ebb__op_code_type(graph, node, x, IR_U8, op_code_bytes(op_step_elements(x), 1), &out[0]);
}

/* dy, bits. */
static ebb_status infer_relu_grad_bits(const ir_graph *graph, const ir_node_rec *node,
                                       ir_type *out) {
    const ir_type *dy = op_in_type(graph, node, 0);
    TRY(ebb__op_need(graph, node, 0, IR_F32));
    out[0] = *dy;
    return ebb__op_need_code(graph, node, 1, dy, IR_U8, op_code_bytes(op_step_elements(dy), 1));
}

static ebb_status infer_leaky_bits(const ir_graph *graph, const ir_node_rec *node, ir_type *out) {
    TRY(ebb__op_need_slope(graph, node));
    return infer_relu_grad_bits(graph, node, out);
}

/* ---- samples ---- */

/* clang-format off */
#define BITS(d, w) {IR_U8, 2, {d, w}}
/* X(tensor, steps of its first axis, bytes of a step) */
#define SIZES(X)                          \
    X(F2(1, 1), 1, 1)                     \
    X(F1(7), 7, 1)                        \
    X(F2(3, 17), 3, 3)                    \
    X(F3(2, 5, 33), 2, 21)                \
    X(F2(24, 64), 24, 8)                  \
    X(F2(2, 1301), 2, 163)                \
    X(MAP(1, 1, 1, 1, 1, 1), 1, 1)        \
    X(MAP(2, 1, 3, 5, 8, 32), 2, 480)     \
    X(MAP(3, 2, 3, 2, 5, 3), 3, 23)
#define SIGN(x, d, w) {IN(x)},
#define GRAD(x, d, w) {IN(x, BITS(d, w)), .fill = {FILL_NORMAL, FILL_BYTE}},
#define LEAKY(x, d, w)                                                    \
    {IN(x, BITS(d, w)), .fill = {FILL_NORMAL, FILL_BYTE}, .attr = {.f = {0.1f}}},
/* clang-format on */
static const op_sample samples_sign[] = {SIZES(SIGN)};
static const op_sample samples_grad[] = {SIZES(GRAD)};
static const op_sample samples_leaky[] = {SIZES(LEAKY)};

/* ---- definitions ---- */

OP_DEFINE(sign_bits, .n_in = 1, .n_out = 1, .flags = OPF_NOGRAD, .layout = LAYOUT_STEPS,
          .form = "sign", .reads = {READ_SIGN}, .infer = infer_sign_bits, .work = {1, OPERAND(0)},
          .rows = ebb__op_rows_split, SAMPLES(samples_sign));

OP_DEFINE(relu_grad_bits, .n_in = 2, .n_out = 1, .flags = OPF_NOGRAD, .layout = LAYOUT_STEPS,
          .infer = infer_relu_grad_bits, INPLACE({0, 0}), .work.flops = 1,
          .rows = ebb__op_rows_split, SAMPLES(samples_grad));

OP_DEFINE(leaky_relu_grad_bits, .schema.floats = {"slope"}, .n_in = 2, .n_out = 1,
          .flags = OPF_NOGRAD, .layout = LAYOUT_STEPS, .infer = infer_leaky_bits, INPLACE({0, 0}),
          .work.flops = 1, .rows = ebb__op_rows_split, SAMPLES(samples_leaky));
