/* random.c - dropout without a mask: the gradient draws the same numbers again.
 *
 * A row is lane `row % lanes` at time `time0 + dtime * (row / lanes)`, so that one op over stacked
 * rows of many time steps draws what one op a step would have drawn. row0 is the number of the
 * first row: a chunk of rows keeps its numbers.
 */
#include "op/define.h"

#include "base/rng.h"

#define REF_FAMILY "op/ref/random.inc"
#include "op/ref/twice.h"

enum { KEY0, KEY1, TIME0, DTIME, LANES, ROW0 };

static ebb_status infer_dropout(const ir_graph *graph, const ir_node_rec *node, ir_type *out) {
    const int32_t *i = node->attr.i;
    float p = node->attr.f[0];
    TRY(ebb__op_need(graph, node, 0, IR_F32));
    TRY(ebb__op_need_list(graph, node, 1, IR_I32, 1));
    if (!(p >= 0.0f && p < 1.0f)) {
        return ebb__op_bad(graph, node, "p must be at least 0 and below 1");
    }
    if (i[LANES] < 1 || i[ROW0] < 0) {
        return ebb__op_bad(graph, node, "lanes must be at least 1 and row0 not negative");
    }
    out[0] = *op_in_type(graph, node, 0);
    return EBB_OK;
}

static ebb_status dropout_grad(op_grad *g) {
    ir_val in[] = {g->dy, op_grad_in(g, 1)};
    return ebb__op_grad_emit(g, 0, OP_DROPOUT, in, 2, &g->node.attr);
}

static void rows_dropout(const ir_graph *graph, const ir_node_rec *node, op_row_role *in,
                         op_row_role *out) {
    ebb__op_rows_split(graph, node, in, out);
    in[1] = ROWS_WHOLE;
}

static int32_t units_dropout(const ir_graph *graph, const ir_node_rec *node, uint32_t *whole) {
    *whole = 1u << 1; /* the step's number */
    return (int32_t)ir_cols(op_in_type(graph, node, 0));
}

#define DROP(r, n, rate, ...)                                                                      \
    IN(F2(r, n), I1(1)), .fill = {FILL_NORMAL, FILL_SMALL_INT},                                    \
                         .attr = {.i = {__VA_ARGS__}, .f = {rate}}
static const op_sample samples_dropout[] = {
    {DROP(1, 1, 0.5f, 1, 2, 0, 0, 1, 0)},      {DROP(3, 17, 0.0f, 7, -8, 5, 0, 3, 0)},
    {DROP(20, 65, 0.2f, -1, 99, 0, 1, 4, 0)},  {DROP(33, 48, 0.65f, 12345, 678, 34, -1, 5, 15)},
    {DROP(301, 19, 0.5f, 4, 5, 2, 1, 20, 40)},
};

OP_DEFINE(dropout, .schema.ints = {"key0", "key1", "time0", "dtime", "lanes", "row0"},
          .schema.floats = {"p"}, .n_in = 2, .n_out = 1, .flags = OPF_RANDOM,
          .first_row_attr = 1 + ROW0, .infer = infer_dropout, .grad = dropout_grad, INPLACE({0, 0}),
          .work.flops = 20,
          /* ten rounds of Philox make four numbers */ .rows = rows_dropout, .units = units_dropout,
          .stash = {STASH_AGAIN}, SAMPLES(samples_dropout));
