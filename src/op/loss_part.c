/* loss_part.c - xent whose classes lie in parts: each has the logits of some of them, from number
 * `first` on. The bits are those of xent over all of them. What goes from part to part, in the
 * order of classes, is a row of sums: 16 lanes of exponentials, the label's logit, and for
 * smoothing 16 lanes of the logits themselves. A part before the last has a multiple of 16 classes,
 * so that each stays in its lane. The largest logits of rows do not depend on an order: those of
 * all parts, K lists one behind the other, go to every part.
 *
 * The `split` pass makes these nodes after differentiation: they have no gradient. That of the
 * logits is xent_grad's, which knows of parts too. */
#include "op/define.h"
#include "op/loss_part.h"

#define REF_FAMILY "op/ref/loss_part.inc"
#include "op/ref/twice.h"

static ebb_status infer_row_max(const ir_graph *graph, const ir_node_rec *node, ir_type *out) {
    TRY(ebb__op_need_matrix(graph, node, 0));
    out[0] = op_list(IR_F32, op_in_type(graph, node, 0)->dim[0]);
    return EBB_OK;
}

static const op_sample samples_row_max[] = {
    {IN(F2(1, 1))}, {IN(F2(3, 17))}, {IN(F2(20, 130))}, {IN(F2(301, 19))}, {IN(F2(5, 64))},
};

OP_DEFINE(row_max, .n_in = 1, .n_out = 1, .flags = OPF_NOGRAD, .infer = infer_row_max,
          .work = {1, OPERAND(0)}, .rows = ebb__op_rows_split, SAMPLES(samples_row_max));

/* ---- xent_part ---- */

/* Operand i is a list of one number or more for each of `rows` rows. */
static ebb_status need_lists(const ir_graph *graph, const ir_node_rec *node, int32_t i,
                             int32_t rows) {
    const ir_type *tops = op_in_type(graph, node, i);
    TRY(ebb__op_need(graph, node, i, IR_F32));
    return tops->rank != 1 || tops->dim[0] % rows != 0
               ? ebb__op_bad(graph, node, "operand %d must be lists of %d numbers", i, rows)
               : EBB_OK;
}

static ebb_status need_smooth(const ir_graph *graph, const ir_node_rec *node) {
    return node->attr.f[0] >= 0.0f && node->attr.f[0] <= 1.0f
               ? EBB_OK
               : ebb__op_bad(graph, node, "smooth must be at least 0 and at most 1");
}

/* Operand i are the sums of `rows` rows. */
static ebb_status need_sums(const ir_graph *graph, const ir_node_rec *node, int32_t i,
                            int32_t rows) {
    int32_t wide = loss_part_wide(node->attr.f[0]);
    const ir_type *sums = op_in_type(graph, node, i);
    TRY(ebb__op_need(graph, node, i, IR_F32));
    return sums->rank != 2 || sums->dim[0] != rows || sums->dim[1] != wide
               ? ebb__op_bad(graph, node, "operand %d must be [%d,%d]", i, rows, wide)
               : EBB_OK;
}

static ebb_status infer_xent_part(const ir_graph *graph, const ir_node_rec *node, ir_type *out) {
    TRY(ebb__op_need_matrix(graph, node, 1));
    TRY(need_smooth(graph, node));
    int32_t rows = op_in_type(graph, node, 1)->dim[0];
    TRY(ebb__op_need_list(graph, node, 2, IR_I32, rows));
    TRY(need_lists(graph, node, 3, rows));
    out[0] = (ir_type){.dtype = IR_F32, .rank = 2, .dim = {rows, loss_part_wide(node->attr.f[0])}};
    return op_in_type(graph, node, 0) == NULL ? EBB_OK : need_sums(graph, node, 0, rows);
}

/* Samples: rows, columns, lists of largest logits, first class, classes, smooth. */
/* clang-format off */
#define PART(r, n, k, from, all, smooth, wide, with) \
    {IN(F2(r, wide), F2(r, n), I1(r), F1((r) * (k))), \
     .fill = {with, FILL_NORMAL, FILL_LABEL}, .limit = all, \
     .attr = {.i = {from}, .f = {smooth}}}
/* clang-format on */
static const op_sample samples_xent_part[] = {
    PART(1, 1, 1, 0, 1, 0.0f, 17, FILL_ABSENT),     PART(3, 17, 2, 32, 49, 0.0f, 17, FILL_NORMAL),
    PART(20, 130, 3, 16, 146, 0.0f, 17, FILL_UNIT), PART(301, 16, 1, 0, 40, 0.1f, 33, FILL_ABSENT),
    PART(9, 50, 4, 64, 114, 0.2f, 33, FILL_NORMAL),
};

OP_DEFINE(xent_part, .schema.ints = {"first"}, .schema.floats = {"smooth"}, .n_in = 4,
          .optional = 1u << 0, .n_out = 1, .flags = OPF_NOGRAD, .reads = {[2] = READ_INDEX},
          .infer = infer_xent_part, INPLACE({0, 0}), .work = {20, OPERAND(1)},
          SAMPLES(samples_xent_part));

/* ---- xent_end ---- */

static ebb_status infer_xent_end(const ir_graph *graph, const ir_node_rec *node, ir_type *out) {
    const ir_type *labels = op_in_type(graph, node, 1);
    TRY(need_smooth(graph, node));
    if (node->attr.i[0] < 1) {
        return ebb__op_bad(graph, node, "classes must be at least 1");
    }
    TRY(ebb__op_need_list(graph, node, 1, IR_I32, labels->dim[0]));
    TRY(need_sums(graph, node, 0, labels->dim[0]));
    TRY(need_lists(graph, node, 2, labels->dim[0]));
    out[0] = out[1] = op_list(IR_F32, labels->dim[0]);
    return EBB_OK;
}

/* clang-format off */
#define END(r, k, all, smooth, wide) \
    {IN(F2(r, wide), I1(r), F1((r) * (k))), .fill = {FILL_POSITIVE, FILL_LABEL, FILL_NORMAL}, \
     .limit = all, .attr = {.i = {all}, .f = {smooth}}}
/* clang-format on */
static const op_sample samples_xent_end[] = {
    END(1, 1, 1, 0.0f, 17),
    END(7, 2, 40, 0.0f, 17),
    END(33, 3, 9, 0.1f, 33),
    END(301, 8, 10000, 0.3f, 33),
};

OP_DEFINE(xent_end, .schema.ints = {"classes"}, .schema.floats = {"smooth"}, .n_in = 3, .n_out = 2,
          .flags = OPF_NOGRAD, .reads = {[1] = READ_INDEX}, .infer = infer_xent_end,
          .work = {4, OPERAND(0)}, SAMPLES(samples_xent_end));
