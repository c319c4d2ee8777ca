/* loss.c - softmax cross-entropy row by row, and the mean over rows.
 *
 * A label below 0 marks a row that does not count (padding). Probabilities are never stored: the
 * gradient comes from the logits and one log-sum-exp a row. Labels are trusted to be below V.
 * `smooth` spreads that part of the label evenly over all V classes (label smoothing, as
 * PyTorch's).
 */
#include "op/define.h"

#define REF_FAMILY "op/ref/loss.inc"
#include "op/ref/twice.h"

/* ---- xent ---- */

/* logits any rank, its rows numbered through; labels one for each row. */
static ebb_status need_logits(const ir_graph *graph, const ir_node_rec *node) {
    const ir_type *logits = op_in_type(graph, node, 0);
    TRY(ebb__op_need(graph, node, 0, IR_F32));
    if (!(node->attr.f[0] >= 0.0f && node->attr.f[0] <= 1.0f)) {
        return ebb__op_bad(graph, node, "smooth must be at least 0 and at most 1");
    }
    if (logits->rank < 2 || ebb__ir_rows(logits) > INT32_MAX) {
        return ebb__op_bad(graph, node, "logits must be a matrix [R,V]");
    }
    return ebb__op_need_list(graph, node, 1, IR_I32, ebb__ir_rows(logits));
}

static ebb_status infer_xent(const ir_graph *graph, const ir_node_rec *node, ir_type *out) {
    TRY(need_logits(graph, node));
    out[0] = out[1] = op_list(IR_F32, (int32_t)ebb__ir_rows(op_in_type(graph, node, 0)));
    return EBB_OK;
}

static ebb_status xent_grad(op_grad *g) {
    ir_val in[] = {op_grad_in(g, 0), op_grad_in(g, 1), g->node.out + 1, g->dy};
    return ebb__op_grad_emit(g, 0, OP_XENT_GRAD, in, 4, &g->node.attr);
}

/* Samples: logits, their rows, labels below, smooth. */
/* clang-format off */
#define XENT_SIZES(X) \
    X(F2(1, 1), 1, 1, 0.0f), X(F2(3, 17), 3, 17, 0.0f), X(F3(2, 5, 33), 10, 33, 0.0f), \
    X(F2(20, 130), 20, 100, 0.0f), X(F2(301, 19), 301, 3, 0.0f), X(F2(20, 37), 20, 37, 0.1f), \
    X(F2(9, 96), 9, 9, 1.0f)
#define XENT(logits, r, top, smooth) \
    {IN(logits, I1(r)), .fill = {FILL_NORMAL, FILL_LABEL}, .limit = top, .attr = {.f = {smooth}}}
#define XENT_GRAD(logits, r, top, smooth) \
    {IN(logits, I1(r), F1(r), F1(r)), .fill = {FILL_NORMAL, FILL_LABEL, FILL_POSITIVE}, \
     .limit = top, .attr = {.f = {smooth}}}
/* clang-format on */
static const op_sample samples_xent[] = {XENT_SIZES(XENT)};
#define XENT_GRAD_PART(logits, r, from, all, smooth)                                               \
    {                                                                                              \
        IN(logits, I1(r), F1(r), F1(r)), .fill = {FILL_NORMAL, FILL_LABEL, FILL_POSITIVE},         \
                                         .limit = all, .attr = {                                   \
                                             .i = {from, all},                                     \
                                             .f = {smooth}                                         \
                                         }                                                         \
    }
static const op_sample samples_xent_grad[] = {
    XENT_SIZES(XENT_GRAD),
    XENT_GRAD_PART(F2(20, 37), 20, 16, 70, 0.0f),
    XENT_GRAD_PART(F2(33, 64), 33, 0, 100, 0.1f),
};

OP_DEFINE(xent, .schema.floats = {"smooth"}, .n_in = 2, .n_out = 2, .flags = OPF_LOSS,
          .reads = {[1] = READ_INDEX}, .infer = infer_xent, .grad = xent_grad,
          .take = {TAKE_WHOLE, TAKE_NONE}, .work = {20, OPERAND(0)}, .rows = ebb__op_rows_split,
          .stash = {STASH_EXACT, STASH_EXACT}, SAMPLES(samples_xent));

/* Of parts of the classes (loss_part.c), `first` is the number of the first one, and `classes` how
 * many there are in all; 0: as many as columns. */
static ebb_status infer_xent_grad(const ir_graph *graph, const ir_node_rec *node, ir_type *out) {
    TRY(need_logits(graph, node));
    if (node->attr.i[0] < 0 || node->attr.i[1] < 0) {
        return ebb__op_bad(graph, node, "first and classes must not be below 0");
    }
    out[0] = *op_in_type(graph, node, 0);
    TRY(ebb__op_need_list(graph, node, 2, IR_F32, ebb__ir_rows(&out[0])));
    return ebb__op_need_list(graph, node, 3, IR_F32, ebb__ir_rows(&out[0]));
}

OP_DEFINE(xent_grad, .schema.ints = {"first", "classes"}, .schema.floats = {"smooth"}, .n_in = 4,
          .n_out = 1, .flags = OPF_NOGRAD, .reads = {[1] = READ_INDEX}, .infer = infer_xent_grad,
          INPLACE({0, 0}), .work = {20, OPERAND(0)}, .rows = ebb__op_rows_split,
          SAMPLES(samples_xent_grad));

/* ---- mean_valid ---- */

static ebb_status infer_mean_valid(const ir_graph *graph, const ir_node_rec *node, ir_type *out) {
    const ir_type *labels = op_in_type(graph, node, 1);
    TRY(ebb__op_need_list(graph, node, 0, IR_F32, labels->dim[0]));
    TRY(ebb__op_need_list(graph, node, 1, IR_I32, labels->dim[0]));
    out[0] = op_list(IR_F32, 1);
    return EBB_OK;
}

static ebb_status mean_valid_grad(op_grad *g) {
    ir_val in[] = {g->dy, op_grad_in(g, 1)};
    return ebb__op_grad_emit(g, 0, OP_MEAN_VALID_GRAD, in, 2, NULL);
}

/* Samples: losses, labels, labels below; of 0 no row counts. */
/* clang-format off */
#define MEAN(losses, labels, top) \
    {IN(F1(losses), I1(labels)), .fill = {FILL_NORMAL, FILL_LABEL}, .limit = top}
/* clang-format on */
static const op_sample samples_mean_valid[] = {MEAN(1, 1, 1), MEAN(17, 17, 3), MEAN(33, 33, 0),
                                               MEAN(301, 301, 5)};

OP_DEFINE(mean_valid, .n_in = 2, .n_out = 1, .layout = LAYOUT_DENSE, .infer = infer_mean_valid,
          .grad = mean_valid_grad, .work = {1, OPERAND(1)}, .rows = ebb__op_rows_any,
          .stash = {STASH_EXACT}, SAMPLES(samples_mean_valid));

static ebb_status infer_mean_valid_grad(const ir_graph *graph, const ir_node_rec *node,
                                        ir_type *out) {
    const ir_type *labels = op_in_type(graph, node, 1);
    TRY(ebb__op_need_list(graph, node, 0, IR_F32, 1));
    TRY(ebb__op_need_list(graph, node, 1, IR_I32, labels->dim[0]));
    out[0] = op_list(IR_F32, labels->dim[0]);
    return EBB_OK;
}

static const op_sample samples_mean_valid_grad[] = {MEAN(1, 1, 1), MEAN(1, 17, 3), MEAN(1, 33, 0),
                                                    MEAN(1, 301, 5)};

OP_DEFINE(mean_valid_grad, .n_in = 2, .n_out = 1, .flags = OPF_NOGRAD, .layout = LAYOUT_DENSE,
          .infer = infer_mean_valid_grad, .work = {1, OPERAND(1)},
          SAMPLES(samples_mean_valid_grad));
