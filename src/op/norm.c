/* norm.c - layer norm of every row, as PyTorch's: biased variance, gain and bias for each column.
 *
 * The gradient comes from x and stat, the {mean, 1 / standard deviation} of each row. Gains and
 * biases of a stack of blocks of `batch` rows (attention) are summed over the blocks first, batch
 * row by batch row, so that only [batch,H] is carried on to the sum over rows; batch 0: no blocks,
 * all rows are summed alike.
 */
#include "op/define.h"

#define REF_FAMILY "op/ref/norm.inc"
#include "op/ref/twice.h"

enum { BATCH };

/* x, operand i, is rows of H columns, in blocks if there is a batch. */
static ebb_status need_rows(const ir_graph *graph, const ir_node_rec *node, int32_t i) {
    int32_t batch = node->attr.i[BATCH];
    const ir_type *x = op_in_type(graph, node, i);
    TRY(ebb__op_need_matrix(graph, node, i));
    if (batch < 0 || (batch > 0 && x->dim[0] % batch != 0)) {
        return ebb__op_bad(graph, node, "operand %d must be blocks of as many rows as the batch",
                           i);
    }
    return EBB_OK;
}

static ebb_status need_stat(const ir_graph *graph, const ir_node_rec *node, int32_t i,
                            const ir_type *x) {
    const ir_type want = op_with_cols(x, 2), *stat = op_in_type(graph, node, i);
    return ebb__ir_type_equal(stat, &want)
               ? EBB_OK
               : ebb__op_bad(graph, node, "operand %d must have two numbers for each row", i);
}

static ebb_status infer_layer_norm(const ir_graph *graph, const ir_node_rec *node, ir_type *out) {
    TRY(need_rows(graph, node, 0));
    out[0] = *op_in_type(graph, node, 0);
    out[1] = op_with_cols(&out[0], 2);
    TRY(ebb__op_need_list(graph, node, 1, IR_F32, out[0].dim[1]));
    TRY(ebb__op_need_list(graph, node, 2, IR_F32, out[0].dim[1]));
    if (!(node->attr.f[0] > 0.0f && isfinite(node->attr.f[0]))) {
        return ebb__op_bad(graph, node, "eps must be above 0 and finite");
    }
    return EBB_OK;
}

/* dy, x, gain, stat. */
static ebb_status infer_layer_norm_grad(const ir_graph *graph, const ir_node_rec *node,
                                        ir_type *out) {
    TRY(need_rows(graph, node, 0));
    out[0] = *op_in_type(graph, node, 0);
    TRY(ebb__op_need_same(graph, node, 1, 0));
    TRY(ebb__op_need_list(graph, node, 2, IR_F32, out[0].dim[1]));
    return need_stat(graph, node, 3, &out[0]);
}

/* dy, x, stat. */
static ebb_status infer_layer_norm_gain(const ir_graph *graph, const ir_node_rec *node,
                                        ir_type *out) {
    TRY(need_rows(graph, node, 0));
    TRY(ebb__op_need_same(graph, node, 1, 0));
    TRY(need_stat(graph, node, 2, op_in_type(graph, node, 0)));
    out[0] = *op_in_type(graph, node, 0);
    out[0].dim[0] = node->attr.i[BATCH] > 0 ? node->attr.i[BATCH] : out[0].dim[0];
    return EBB_OK;
}

/* ---- gradient ---- */

static ebb_status layer_norm_grad(op_grad *g) {
    ir_val x = op_grad_in(g, 0), gain = op_grad_in(g, 1), stat = g->node.out + 1, rows = g->dy;
    const ir_attr batch = {.i = {g->node.attr.i[BATCH]}};
    if (ebb__op_grad_wanted(g, 2)) {
        if (batch.i[BATCH] > 0) {
            TRY(ebb__op_emit(g->graph, OP_SUM_EACH, &g->dy, 1, &batch, &rows));
        }
        TRY(ebb__op_grad_sum(g, 2, OP_SUM_ROWS, &rows, 1, NULL));
    }
    if (ebb__op_grad_wanted(g, 1)) {
        ir_val in[] = {g->dy, x, stat};
        TRY(ebb__op_emit(g->graph, OP_LAYER_NORM_GAIN, in, 3, &batch, &rows));
        TRY(ebb__op_grad_sum(g, 1, OP_SUM_ROWS, &rows, 1, NULL));
    }
    ir_val in[] = {g->dy, x, gain, stat};
    return ebb__op_grad_emit(g, 0, OP_LAYER_NORM_GRAD, in, 4, &batch);
}

/* ---- other columns ---- */

/* Row by row; in blocks, only by batch rows: chunks need not be of whole blocks. */
static void rows_norm(const ir_graph *graph, const ir_node_rec *node, op_row_role *in,
                      op_row_role *out) {
    op_row_role role = node->attr.i[BATCH] > 0 ? ROWS_BATCH : ROWS_SPLIT;
    for (int32_t i = 0; i < node->n_in; i++) {
        bool list = op_in_type(graph, node, i)->rank == 1; /* gain, bias */
        in[i] = list ? ROWS_WHOLE : role;
    }
    for (int32_t i = 0; i < node->n_out; i++) {
        out[i] = role;
    }
}

/* Batch rows, where there are blocks. */
static int32_t units_norm(const ir_graph *graph, const ir_node_rec *node, uint32_t *whole) {
    (void)graph;
    *whole = 1u << 1 | 1u << 2;
    return node->attr.i[BATCH];
}
static int32_t units_norm_grad(const ir_graph *graph, const ir_node_rec *node, uint32_t *whole) {
    (void)graph;
    *whole = 1u << 2;
    return node->attr.i[BATCH];
}
static int32_t units_gain(const ir_graph *graph, const ir_node_rec *node, uint32_t *whole) {
    (void)graph;
    *whole = 0;
    return node->attr.i[BATCH];
}

/* R rows, H columns, batch. */
#define SIZES(X)                                                                                   \
    X(1, 1, 1), X(3, 17, 0), X(10, 33, 5), X(27, 64, 3), X(20, 130, 0), X(301, 19, 0),             \
        X(561, 37, 17)

/* clang-format off */
#define NORM(r, h, b) \
    {IN(F2(r, h), F1(h), F1(h)), .attr = {.i = {b}, .f = {1e-5f}}}
#define NORM_GRAD(r, h, b) \
    {IN(F2(r, h), F2(r, h), F1(h), F2(r, 2)), \
     .fill = {FILL_NORMAL, FILL_NORMAL, FILL_NORMAL, FILL_POSITIVE}, .attr = {.i = {b}}}
#define NORM_GAIN(r, h, b) \
    {IN(F2(r, h), F2(r, h), F2(r, 2)), \
     .fill = {FILL_NORMAL, FILL_NORMAL, FILL_POSITIVE}, .attr = {.i = {b}}}
/* clang-format on */
static const op_sample samples_norm[] = {SIZES(NORM)};
static const op_sample samples_norm_grad[] = {SIZES(NORM_GRAD)};
static const op_sample samples_gain[] = {SIZES(NORM_GAIN)};

OP_DEFINE(layer_norm, .schema.ints = {"batch"}, .schema.floats = {"eps"}, .n_in = 3, .n_out = 2,
          .batch_rows_attr = 1 + BATCH, .infer = infer_layer_norm, .grad = layer_norm_grad,
          .take = {TAKE_WHOLE, TAKE_NONE}, INPLACE({0, 0}), .work = {7, OPERAND(0)},
          .rows = rows_norm, .units = units_norm, .unit_rows = true,
          .stash = {STASH_AGAIN, STASH_EXACT}, SAMPLES(samples_norm));

OP_DEFINE(layer_norm_grad, .schema.ints = {"batch"}, .n_in = 4, .n_out = 1, .flags = OPF_NOGRAD,
          .infer = infer_layer_norm_grad, INPLACE({0, 0}, {1, 0}), .work = {12, OPERAND(0)},
          .rows = rows_norm, .units = units_norm_grad, .unit_rows = true,
          SAMPLES(samples_norm_grad));

OP_DEFINE(layer_norm_gain, .schema.ints = {"batch"}, .n_in = 3, .n_out = 1, .flags = OPF_NOGRAD,
          .infer = infer_layer_norm_gain, .work = {4, OPERAND(0)}, .rows = rows_norm,
          .units = units_gain, .unit_rows = true, SAMPLES(samples_gain));
