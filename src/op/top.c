/* top.c - the k largest logits of every row: their natural log-softmax, descending, and their
 * columns. What a search through likely tokens reads of the logits, so that these need not be kept.
 *
 * Of equal logits the lower column comes first. A NaN is smaller than everything, so it is among
 * the k only where fewer than k columns hold a number; it makes all logarithms of its row NaN, as
 * does a logit of +inf, or a row of nothing but -inf.
 */
#include "op/define.h"

#define REF_FAMILY "op/ref/top.inc"
#include "op/ref/twice.h"

enum { TOP_MOST = 128 };

static ebb_status infer_top_logs(const ir_graph *graph, const ir_node_rec *node, ir_type *out) {
    const ir_type *logits = op_in_type(graph, node, 0);
    int32_t k = node->attr.i[0];
    TRY(ebb__op_need(graph, node, 0, IR_F32));
    if (k < 1 || k > TOP_MOST || k > ir_cols(logits)) {
        return ebb__op_bad(graph, node, "k must be 1 to %d and at most the columns", TOP_MOST);
    }
    out[0] = out[1] = op_with_cols(logits, k);
    out[1].dtype = IR_I32;
    return EBB_OK;
}

/* Groups of columns (device/cpu/top_body.h) begin at 64. */
static const op_sample samples_top_logs[] = {
    {IN(F2(1, 1)), .attr = {.i = {1}}},     {IN(F1(7)), .attr = {.i = {7}}},
    {IN(F2(3, 17)), .attr = {.i = {4}}},    {IN(F3(2, 5, 65)), .attr = {.i = {1}}},
    {IN(F2(4, 64)), .attr = {.i = {64}}},   {IN(F2(5, 1003)), .attr = {.i = {128}}},
    {IN(F2(20, 130)), .attr = {.i = {33}}}, {IN(F2(301, 199)), .attr = {.i = {10}}},
};

OP_DEFINE(top_logs, .schema.ints = {"k"}, .n_in = 1, .n_out = 2, .flags = OPF_NOGRAD | OPF_LOSS,
          .infer = infer_top_logs, .work = {20, OPERAND(0)}, .rows = ebb__op_rows_split,
          SAMPLES(samples_top_logs));
