/* attend.c - attention over a stack of S blocks of B rows [S*B,H]: row j*B + b belongs to batch row
 * b, and block j is source position S-1-j (time descends, as everywhere). Scores and weights are
 * [S,B], queries and contexts [B,H].
 *
 * Batch rows have nothing to do with each other: they are the units of these ops. A weight of
 * exactly 0, as mask_softmax gives it to padding, adds nothing whatever its row holds.
 */
#include "op/define.h"

#define REF_FAMILY "op/ref/attend.inc"
#include "op/ref/twice.h"

/* ---- types ---- */

static ir_type matrix(int64_t rows, int64_t cols) {
    return (ir_type){.dtype = IR_F32, .rank = 2, .dim = {(int32_t)rows, (int32_t)cols}};
}

/* Operand i is a stack of blocks of `batch` rows. */
static ebb_status need_blocks(const ir_graph *graph, const ir_node_rec *node, int32_t i,
                              int32_t batch) {
    TRY(ebb__op_need_matrix(graph, node, i));
    if (batch < 1 || op_in_type(graph, node, i)->dim[0] % batch != 0) {
        return ebb__op_bad(graph, node, "operand %d must be blocks of as many rows as the batch",
                           i);
    }
    return EBB_OK;
}

/* Operand i is a stack [S*B,H], operand j [B,H]. */
static ebb_status need_each(const ir_graph *graph, const ir_node_rec *node, int32_t i, int32_t j) {
    TRY(ebb__op_need_matrix(graph, node, j));
    TRY(need_blocks(graph, node, i, op_in_type(graph, node, j)->dim[0]));
    if (op_in_type(graph, node, i)->dim[1] != op_in_type(graph, node, j)->dim[1]) {
        return ebb__op_bad(graph, node, "operands %d and %d must have as many columns", i, j);
    }
    return EBB_OK;
}

/* Of weights [S,B] and rows of `cols` columns; S*B is a number of rows. */
static ebb_status stack_of(const ir_graph *graph, const ir_node_rec *node, const ir_type *weights,
                           int64_t cols, ir_type *out) {
    int64_t rows = (int64_t)weights->dim[0] * weights->dim[1];
    if (rows > INT32_MAX) {
        return ebb__op_bad(graph, node, "%lld rows are too many", (long long)rows);
    }
    *out = matrix(rows, cols);
    return EBB_OK;
}

static ebb_status infer_add_each(const ir_graph *graph, const ir_node_rec *node, ir_type *out) {
    TRY(need_each(graph, node, 0, 1));
    out[0] = *op_in_type(graph, node, 0);
    return EBB_OK;
}

static ebb_status infer_sum_each(const ir_graph *graph, const ir_node_rec *node, ir_type *out) {
    TRY(need_blocks(graph, node, 0, node->attr.i[0]));
    out[0] = matrix(node->attr.i[0], op_in_type(graph, node, 0)->dim[1]);
    return EBB_OK;
}

static ebb_status infer_dot_rows(const ir_graph *graph, const ir_node_rec *node, ir_type *out) {
    int32_t batch = node->attr.i[0];
    TRY(need_blocks(graph, node, 0, batch));
    const ir_type *x = op_in_type(graph, node, 0);
    out[0] = matrix(x->dim[0] / batch, batch);
    return ebb__op_need_list(graph, node, 1, IR_F32, x->dim[1]);
}

static ebb_status infer_outer_rows(const ir_graph *graph, const ir_node_rec *node, ir_type *out) {
    const ir_type *v = op_in_type(graph, node, 1);
    TRY(ebb__op_need_matrix(graph, node, 0));
    TRY(ebb__op_need_list(graph, node, 1, IR_F32, ir_cols(v)));
    return stack_of(graph, node, op_in_type(graph, node, 0), ir_cols(v), &out[0]);
}

static ebb_status infer_mask_softmax(const ir_graph *graph, const ir_node_rec *node, ir_type *out) {
    TRY(ebb__op_need_matrix(graph, node, 0));
    out[0] = *op_in_type(graph, node, 0);
    return ebb__op_need_list(graph, node, 1, IR_I32, out[0].dim[1]);
}

static ebb_status infer_mask_softmax_grad(const ir_graph *graph, const ir_node_rec *node,
                                          ir_type *out) {
    TRY(ebb__op_need_matrix(graph, node, 0));
    TRY(ebb__op_need_same(graph, node, 1, 0));
    out[0] = *op_in_type(graph, node, 0);
    return EBB_OK;
}

static ebb_status infer_weighted_sum(const ir_graph *graph, const ir_node_rec *node, ir_type *out) {
    TRY(ebb__op_need_matrix(graph, node, 0));
    TRY(ebb__op_need_matrix(graph, node, 1));
    const ir_type *a = op_in_type(graph, node, 0), *e = op_in_type(graph, node, 1);
    if ((int64_t)a->dim[0] * a->dim[1] != e->dim[0]) {
        return ebb__op_bad(graph, node, "operand 0 must have one weight for each row of operand 1");
    }
    out[0] = matrix(a->dim[1], e->dim[1]);
    return EBB_OK;
}

static ebb_status infer_dot_each(const ir_graph *graph, const ir_node_rec *node, ir_type *out) {
    TRY(need_each(graph, node, 0, 1));
    int32_t batch = op_in_type(graph, node, 1)->dim[0];
    out[0] = matrix(op_in_type(graph, node, 0)->dim[0] / batch, batch);
    return EBB_OK;
}

static ebb_status infer_outer_each(const ir_graph *graph, const ir_node_rec *node, ir_type *out) {
    const ir_type *c = op_in_type(graph, node, 0);
    TRY(ebb__op_need_matrix(graph, node, 1));
    TRY(ebb__op_need_matrix(graph, node, 2));
    const ir_type *s = op_in_type(graph, node, 1), *d = op_in_type(graph, node, 2);
    if (s->dim[1] != d->dim[0]) {
        return ebb__op_bad(graph, node, "operand 1 must have a column for each row of operand 2");
    }
    TRY(stack_of(graph, node, s, d->dim[1], &out[0]));
    if (c != NULL && !ebb__ir_type_equal(c, &out[0])) {
        return ebb__op_bad(graph, node, "operand 0 must be of the result's type");
    }
    return EBB_OK;
}

static ebb_status infer_mask_rows(const ir_graph *graph, const ir_node_rec *node, ir_type *out) {
    TRY(ebb__op_need_matrix(graph, node, 0));
    out[0] = *op_in_type(graph, node, 0);
    if (node->attr.i[0] < 0) {
        return ebb__op_bad(graph, node, "pos must not be negative");
    }
    return ebb__op_need_list(graph, node, 1, IR_I32, out[0].dim[0]);
}

/* ---- gradients ---- */

/* Adds s[j,b] * d[b] to the gradient of operand i, a stack. */
static ebb_status add_outer(op_grad *g, int32_t i, ir_val s, ir_val d) {
    return ebb__op_grad_sum(g, i, OP_OUTER_EACH, (ir_val[]){s, d}, 2, NULL);
}

static ebb_status add_each_grad(op_grad *g) {
    ir_attr batch = {.i = {op_grad_type(g, 1)->dim[0]}};
    TRY(ebb__op_grad_add(g, 0, g->dy));
    return ebb__op_grad_emit(g, 1, OP_SUM_EACH, &g->dy, 1, &batch);
}

/* Every block of the stack takes dy: an outer product with ones. */
static ebb_status sum_each_grad(op_grad *g) {
    ir_val ones;
    int32_t batch = g->node.attr.i[0], blocks = op_grad_type(g, 0)->dim[0] / batch;
    TRY(ebb__op_fill(g->graph, &(ir_type)F2(blocks, batch), 1.0f, &ones));
    return add_outer(g, 0, ones, g->dy);
}

static ebb_status dot_rows_grad(op_grad *g) {
    ir_val x = op_grad_in(g, 0), v = op_grad_in(g, 1), part;
    TRY(ebb__op_grad_emit(g, 0, OP_OUTER_ROWS, (ir_val[]){g->dy, v}, 2, NULL));
    if (!ebb__op_grad_wanted(g, 1)) {
        return EBB_OK;
    }
    TRY(ebb__op_emit(g->graph, OP_WEIGHTED_SUM, (ir_val[]){g->dy, x}, 2, NULL, &part));
    return ebb__op_grad_sum(g, 1, OP_SUM_ROWS, &part, 1, NULL);
}

static ebb_status mask_softmax_grad(op_grad *g) {
    return ebb__op_grad_emit(g, 0, OP_MASK_SOFTMAX_GRAD, (ir_val[]){g->node.out, g->dy}, 2, NULL);
}

static ebb_status weighted_sum_grad(op_grad *g) {
    ir_val a = op_grad_in(g, 0), e = op_grad_in(g, 1);
    TRY(ebb__op_grad_emit(g, 0, OP_DOT_EACH, (ir_val[]){e, g->dy}, 2, NULL));
    return add_outer(g, 1, a, g->dy);
}

static ebb_status dot_each_grad(op_grad *g) {
    ir_val k = op_grad_in(g, 0), q = op_grad_in(g, 1);
    TRY(add_outer(g, 0, g->dy, q));
    return ebb__op_grad_emit(g, 1, OP_WEIGHTED_SUM, (ir_val[]){g->dy, k}, 2, NULL);
}

static ebb_status mask_rows_grad(op_grad *g) {
    ir_val in[] = {g->dy, op_grad_in(g, 1)};
    return ebb__op_grad_emit(g, 0, OP_MASK_ROWS, in, 2, &g->node.attr);
}

/* ---- cost, units ---- */

/* Two operations for each element of the stack, the largest operand or result. */
static op_cost cost_stack(const ir_graph *graph, const ir_node_rec *node) {
    double most = (double)ebb__op_elements(&graph->values[node->out].type);
    for (int32_t i = 0; i < node->n_in; i++) {
        const ir_type *type = op_in_type(graph, node, i);
        double elements = type != NULL ? (double)ebb__op_elements(type) : 0.0;
        most = elements > most ? elements : most;
    }
    return ebb__op_cost_work(graph, node, 2 * most);
}

/* Batch rows, where the result is [B,H]; where it is [S,B]; where the last operand is [B,H]. */
static int32_t units_result_rows(const ir_graph *graph, const ir_node_rec *node, uint32_t *whole) {
    *whole = 0;
    return graph->values[node->out].type.dim[0];
}
static int32_t units_result_columns(const ir_graph *graph, const ir_node_rec *node,
                                    uint32_t *whole) {
    *whole = 0;
    return graph->values[node->out].type.dim[1];
}
static int32_t units_operand_rows(const ir_graph *graph, const ir_node_rec *node, uint32_t *whole) {
    *whole = 0;
    return op_in_type(graph, node, node->n_in - 1)->dim[0];
}
/* v of dot_rows and the lengths of mask_softmax are read whole. */
static int32_t units_dot_rows(const ir_graph *graph, const ir_node_rec *node, uint32_t *whole) {
    *whole = 1u << 1;
    return graph->values[node->out].type.dim[1];
}
static int32_t units_outer_rows(const ir_graph *graph, const ir_node_rec *node, uint32_t *whole) {
    *whole = 1u << 1;
    return op_in_type(graph, node, 0)->dim[1];
}
/* Columns: a mask cuts like the cells between which it stands. */
static int32_t units_mask_rows(const ir_graph *graph, const ir_node_rec *node, uint32_t *whole) {
    *whole = 1u << 1;
    return graph->values[node->out].type.dim[1];
}

/* ---- rows: how a part of the batch takes part ---- */

#define ROWS(fn, first, second, result)                                                            \
    static void rows_##fn(const ir_graph *graph, const ir_node_rec *node, op_row_role *in,         \
                          op_row_role *out) {                                                      \
        (void)graph, (void)node;                                                                   \
        in[0] = ROWS_##first;                                                                      \
        in[1] = ROWS_##second; /* of none, if there is one operand */                              \
        out[0] = ROWS_##result;                                                                    \
    }
ROWS(add_each, BATCH, BATCH, BATCH)
ROWS(dot_rows, BATCH, WHOLE, COLUMNS)
ROWS(mask_softmax, COLUMNS, BATCH, COLUMNS)
ROWS(weighted_sum, COLUMNS, BATCH, BATCH)
ROWS(dot_each, BATCH, BATCH, COLUMNS)

/* ---- samples: S, B, H ---- */

/* clang-format off */
#define SIZES(X) X(1, 1, 1), X(3, 2, 17), X(2, 5, 33), X(9, 3, 64), X(5, 20, 65), X(33, 17, 19)

#define ADD_EACH(s, b, h) {IN(F2((s) * (b), h), F2(b, h))}
static const op_sample samples_each[] = {SIZES(ADD_EACH)};
#define SUM_EACH(s, b, h) {IN(F2((s) * (b), h)), .attr = {.i = {b}}}
static const op_sample samples_sum_each[] = {SIZES(SUM_EACH)};
#define DOT_ROWS(s, b, h) {IN(F2((s) * (b), h), F1(h)), .attr = {.i = {b}}}
static const op_sample samples_dot_rows[] = {SIZES(DOT_ROWS)};
#define OUTER_ROWS(s, b, h) {IN(F2(s, b), F1(h))}
static const op_sample samples_outer_rows[] = {SIZES(OUTER_ROWS)};
/* Lengths from -1, which counts as 0, to S + 1, which counts as S. */
#define MASK_SOFTMAX(s, b, h) \
    {IN(F2(s, b), I1(b)), .fill = {FILL_NORMAL, FILL_LABEL}, .limit = (s) + 2}
static const op_sample samples_mask_softmax[] = {SIZES(MASK_SOFTMAX)};
#define MASK_SOFTMAX_GRAD(s, b, h) {IN(F2(s, b), F2(s, b)), .fill = {FILL_UNIT, FILL_NORMAL}}
static const op_sample samples_mask_softmax_grad[] = {SIZES(MASK_SOFTMAX_GRAD)};
#define WEIGHTED_SUM(s, b, h) {IN(F2(s, b), F2((s) * (b), h))}
static const op_sample samples_weighted_sum[] = {SIZES(WEIGHTED_SUM)};
#define OUTER_EACH(s, b, h) \
    {IN(F2((s) * (b), h), F2(s, b), F2(b, h))}, \
    {IN(F2((s) * (b), h), F2(s, b), F2(b, h)), .fill = {FILL_ABSENT}}
static const op_sample samples_outer_each[] = {SIZES(OUTER_EACH)};
#define MASK_ROWS(p, b, h) \
    {IN(F2(b, h), I1(b)), .fill = {FILL_NORMAL, FILL_LABEL}, .limit = 2 * (p), \
     .attr = {.i = {(p) - 1}}}
static const op_sample samples_mask_rows[] = {SIZES(MASK_ROWS)};
/* clang-format on */

/* ---- definitions ---- */

#define ATTEND(fn, more_flags)                                                                     \
    .n_out = 1, .flags = (more_flags), .unit_rows = true, .infer = infer_##fn

OP_DEFINE(add_each, ATTEND(add_each, 0), .n_in = 2, .grad = add_each_grad, INPLACE({0, 0}),
          .work = {1, OPERAND(0)}, .rows = rows_add_each, .units = units_operand_rows,
          .stash = {STASH_AGAIN}, SAMPLES(samples_each));

OP_DEFINE(sum_each, .schema.ints = {"batch"}, ATTEND(sum_each, 0), .n_in = 1, .grad = sum_each_grad,
          .work = {1, OPERAND(0)}, .batch_rows_attr = 1, .rows = rows_add_each,
          .units = units_result_rows, SAMPLES(samples_sum_each));

OP_DEFINE(dot_rows, .schema.ints = {"batch"}, ATTEND(dot_rows, 0), .n_in = 2, .grad = dot_rows_grad,
          .cost = cost_stack, .batch_rows_attr = 1, .rows = rows_dot_rows, .units = units_dot_rows,
          SAMPLES(samples_dot_rows));

OP_DEFINE(outer_rows, ATTEND(outer_rows, OPF_NOGRAD), .n_in = 2, .work.flops = 1,
          .units = units_outer_rows, SAMPLES(samples_outer_rows));

OP_DEFINE(mask_softmax, ATTEND(mask_softmax, 0), .n_in = 2, .grad = mask_softmax_grad,
          INPLACE({0, 0}), .work.flops = 20, .rows = rows_mask_softmax, .units = units_dot_rows,
          SAMPLES(samples_mask_softmax));

OP_DEFINE(mask_softmax_grad, ATTEND(mask_softmax_grad, OPF_NOGRAD), .n_in = 2,
          INPLACE({1, 0}, {0, 0}), .work.flops = 4, .units = units_result_columns,
          SAMPLES(samples_mask_softmax_grad));

OP_DEFINE(weighted_sum, ATTEND(weighted_sum, 0), .n_in = 2, .grad = weighted_sum_grad,
          .cost = cost_stack, .rows = rows_weighted_sum, .units = units_result_rows,
          SAMPLES(samples_weighted_sum));

OP_DEFINE(dot_each, ATTEND(dot_each, 0), .n_in = 2, .grad = dot_each_grad, .cost = cost_stack,
          .rows = rows_dot_each, .units = units_result_columns, SAMPLES(samples_each));

OP_DEFINE(outer_each, ATTEND(outer_each, OPF_NOGRAD), .n_in = 3, .optional = 1u << 0,
          INPLACE({0, 0}), .cost = cost_stack, .units = units_operand_rows,
          SAMPLES(samples_outer_each));

OP_DEFINE(mask_rows, .schema.ints = {"pos"}, .n_in = 2, .n_out = 1, .infer = infer_mask_rows,
          .grad = mask_rows_grad, INPLACE({0, 0}), .rows = ebb__op_rows_split,
          .units = units_mask_rows, .stash = {STASH_AGAIN}, SAMPLES(samples_mask_rows));
