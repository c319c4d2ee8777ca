/* score.c - the scores of attention and their gradient as one node each: what the contract pass
 * makes of the small ops of attend.c, so that no value [S*B,H] between them is ever stored.
 *
 * x is a stack of S blocks of B rows [S*B,H], q [B,H], v [H]; scores are [S,B]. Batch rows have
 * nothing to do with each other: they are the units.
 */
#include "op/define.h"

#define REF_FAMILY "op/ref/score.inc"
#include "op/ref/twice.h"

/* ---- types ---- */

/* Operands i .. i + 2 are x, q, v; gives the type of the scores. */
static ebb_status need_terms(const ir_graph *graph, const ir_node_rec *node, int32_t i,
                             ir_type *scores) {
    TRY(ebb__op_need_matrix(graph, node, i));
    TRY(ebb__op_need_matrix(graph, node, i + 1));
    const ir_type *x = op_in_type(graph, node, i), *q = op_in_type(graph, node, i + 1);
    if (x->dim[0] % q->dim[0] != 0) {
        return ebb__op_bad(graph, node, "operand %d must be blocks of as many rows as the batch",
                           i);
    }
    if (x->dim[1] != q->dim[1]) {
        return ebb__op_bad(graph, node, "operands %d and %d must have as many columns", i, i + 1);
    }
    *scores = (ir_type){.dtype = IR_F32, .rank = 2, .dim = {x->dim[0] / q->dim[0], q->dim[0]}};
    return ebb__op_need_list(graph, node, i + 2, IR_F32, x->dim[1]);
}

static ebb_status infer_score_tanh(const ir_graph *graph, const ir_node_rec *node, ir_type *out) {
    return need_terms(graph, node, 0, &out[0]);
}

/* c, ds, x, q, v to dx, dq, and the terms of dv that each batch row gives. */
static ebb_status infer_score_tanh_grad(const ir_graph *graph, const ir_node_rec *node,
                                        ir_type *out) {
    ir_type scores;
    TRY(need_terms(graph, node, 2, &scores));
    TRY(ebb__op_need(graph, node, 1, IR_F32));
    if (!ebb__ir_type_equal(op_in_type(graph, node, 1), &scores)) {
        return ebb__op_bad(graph, node, "operand 1 must have one weight for each row of operand 2");
    }
    out[0] = *op_in_type(graph, node, 2);
    out[1] = out[2] = *op_in_type(graph, node, 3);
    return op_in_type(graph, node, 0) != NULL ? ebb__op_need_same(graph, node, 0, 2) : EBB_OK;
}

/* ds, v, a to what reaches the argument of the tanh a. */
static ebb_status infer_score_slope(const ir_graph *graph, const ir_node_rec *node, ir_type *out) {
    TRY(ebb__op_need_matrix(graph, node, 0));
    TRY(ebb__op_need_matrix(graph, node, 2));
    const ir_type *ds = op_in_type(graph, node, 0), *a = op_in_type(graph, node, 2);
    if ((int64_t)ds->dim[0] * ds->dim[1] != a->dim[0]) {
        return ebb__op_bad(graph, node, "operand 0 must have one weight for each row of operand 2");
    }
    *out = *a;
    return ebb__op_need_list(graph, node, 1, IR_F32, a->dim[1]);
}

/* ---- cost, units ---- */

/* v, the last operand, is read whole; before it stands q [B,H]. */
static int32_t units_score(const ir_graph *graph, const ir_node_rec *node, uint32_t *whole) {
    *whole = 1u << (node->n_in - 1);
    return op_in_type(graph, node, node->n_in - 2)->dim[0];
}

static int32_t units_slope(const ir_graph *graph, const ir_node_rec *node, uint32_t *whole) {
    *whole = 1u << 1;
    return op_in_type(graph, node, 0)->dim[1];
}

/* ---- samples: S, B, H ---- */

/* clang-format off */
#define SIZES(X) X(1, 1, 1), X(3, 2, 17), X(2, 5, 33), X(9, 3, 64), X(5, 20, 65), X(33, 17, 19)

#define SCORE(s, b, h) {IN(F2((s) * (b), h), F2(b, h), F1(h))}
static const op_sample samples_score[] = {SIZES(SCORE)};
#define SCORE_GRAD(s, b, h) \
    {IN(F2((s) * (b), h), F2(s, b), F2((s) * (b), h), F2(b, h), F1(h))}, \
    {IN(F2((s) * (b), h), F2(s, b), F2((s) * (b), h), F2(b, h), F1(h)), .fill = {FILL_ABSENT}}
static const op_sample samples_score_grad[] = {SIZES(SCORE_GRAD)};
#define SLOPE(s, b, h) {IN(F2(s, b), F1(h), F2((s) * (b), h))}
static const op_sample samples_slope[] = {SIZES(SLOPE)};
/* clang-format on */

/* ---- definitions: made after differentiation, so they have no gradient ---- */

OP_DEFINE(score_tanh, .n_in = 3, .n_out = 1, .flags = OPF_NOGRAD, .infer = infer_score_tanh,
          .work = {25, OPERAND(0)}, .units = units_score, .unit_rows = true,
          SAMPLES(samples_score));

OP_DEFINE(score_tanh_grad, .n_in = 5, .optional = 1u << 0, .n_out = 3, .flags = OPF_NOGRAD,
          .infer = infer_score_tanh_grad, INPLACE({0, 0}), .work = {35, OPERAND(2)},
          .units = units_score, .unit_rows = true, SAMPLES(samples_score_grad));

OP_DEFINE(score_slope, .n_in = 3, .n_out = 1, .flags = OPF_NOGRAD, .infer = infer_score_slope,
          INPLACE({2, 0}), .work = {4, OPERAND(2)}, .units = units_slope, .unit_rows = true,
          SAMPLES(samples_slope));
