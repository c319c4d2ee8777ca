/* reduce.c - sums over rows, over everything, and of squares; spread, which is what the gradient of
 * a sum over everything needs.
 *
 * sum_rows continues from c, as matmul does, so that bias gradients need no extra buffer.
 */
#include "op/define.h"
#include "op/squares.h"

#define REF_FAMILY "op/ref/reduce.inc"
#include "op/ref/twice.h"

/* ---- sum_rows ---- */

static ebb_status infer_sum_rows(const ir_graph *graph, const ir_node_rec *node, ir_type *out) {
    const ir_type *x = op_in_type(graph, node, 1);
    TRY(ebb__op_need(graph, node, 1, IR_F32));
    out[0] = op_list(IR_F32, (int32_t)ir_cols(x));
    return ebb__op_need_list(graph, node, 0, IR_F32, ir_cols(x));
}

static void rows_sum_rows(const ir_graph *graph, const ir_node_rec *node, op_row_role *in,
                          op_row_role *out) {
    (void)graph, (void)node;
    in[0] = out[0] = ROWS_CARRY;
    in[1] = ROWS_SPLIT;
}

static const op_sample samples_sum_rows[] = {
    {IN(F1(1), F2(1, 1)), .fill = {FILL_ABSENT}},      {IN(F1(17), F2(3, 17))},
    {IN(F1(33), F3(2, 5, 33)), .fill = {FILL_ABSENT}}, {IN(F1(65), F2(20, 65))},
    {IN(F1(40), F2(301, 40)), .fill = {FILL_ABSENT}},  {IN(F1(3), F2(301, 3))},
};

OP_DEFINE(sum_rows, .n_in = 2, .optional = 1u << 0, .n_out = 1, .flags = OPF_NOGRAD,
          .infer = infer_sum_rows, INPLACE({0, 0}), .work = {1, OPERAND(1)}, .rows = rows_sum_rows,
          SAMPLES(samples_sum_rows));

/* ---- sum_all ---- */

static ebb_status infer_sum_all(const ir_graph *graph, const ir_node_rec *node, ir_type *out) {
    out[0] = op_list(IR_F32, 1);
    return ebb__op_need(graph, node, 0, IR_F32);
}

static ebb_status sum_all_grad(op_grad *g) {
    const ir_attr attr = ebb__op_attr_of(op_grad_type(g, 0));
    return ebb__op_grad_emit(g, 0, OP_SPREAD, &g->dy, 1, &attr);
}

static const op_sample samples_sum_all[] = {
    {IN(F2(1, 1))}, {IN(F1(17))}, {IN(F2(3, 33))}, {IN(F3(2, 5, 65))}, {IN(F2(301, 40))},
};

OP_DEFINE(sum_all, .n_in = 1, .n_out = 1, .infer = infer_sum_all, .grad = sum_all_grad,
          .work = {1, OPERAND(0)}, .rows = ebb__op_rows_any, SAMPLES(samples_sum_all));

/* ---- spread: one number everywhere ---- */

static ebb_status infer_spread(const ir_graph *graph, const ir_node_rec *node, ir_type *out) {
    TRY(ebb__op_infer_attr(graph, node, out));
    return ebb__op_need_list(graph, node, 0, IR_F32, 1);
}

static ebb_status spread_grad(op_grad *g) {
    return ebb__op_grad_emit(g, 0, OP_SUM_ALL, &g->dy, 1, NULL);
}

static const op_sample samples_spread[] = {
    {IN(F1(1)), .attr = {.i = {1, 1}}},
    {IN(F1(1)), .attr = {.i = {2, 3, 17}}},
    {IN(F1(1)), .attr = {.i = {3, 2, 5, 33}}},
    {IN(F1(1)), .attr = {.i = {6, 2, 1, 3, 2, 2, 8}}},
};

OP_DEFINE(spread, .schema.ints = {OP_ATTR_TYPE_NAMES}, .n_in = 1, .n_out = 1, .infer = infer_spread,
          .grad = spread_grad, SAMPLES(samples_spread));

/* ---- sum_squares ---- */

static ebb_status infer_sum_squares(const ir_graph *graph, const ir_node_rec *node, ir_type *out) {
    TRY(ebb__op_need(graph, node, 0, IR_F32));
    int64_t blocks = squares_blocks(ebb__op_elements(op_in_type(graph, node, 0)));
    if (blocks > INT32_MAX) {
        return ebb__op_bad(graph, node, "operand is too large");
    }
    out[0] = op_list(IR_F64, (int32_t)blocks);
    return EBB_OK;
}

static const op_sample samples_sum_squares[] = {
    {IN(F2(1, 1))},    {IN(F1(17))},      {IN(F2(33, 65))},
    {IN(F2(128, 64))}, {IN(F2(8, 1027))}, {IN(F2(1000, 19))},
};

OP_DEFINE(sum_squares, .n_in = 1, .n_out = 1, .flags = OPF_NOGRAD, .infer = infer_sum_squares,
          .work = {1, OPERAND(0)}, SAMPLES(samples_sum_squares));

/* ---- sum_squares_part ---- */

/* Element 0 of x is number `first`, a multiple of 16, of a block whose sums so far are c. The last
 * of the sums is that of a block which may go on in the next part: then `lanes` says how. */
static ebb_status infer_sum_squares_part(const ir_graph *graph, const ir_node_rec *node,
                                         ir_type *out) {
    TRY(ebb__op_need(graph, node, 1, IR_F32));
    int64_t first = node->attr.i[0];
    int64_t blocks = squares_blocks(first + ebb__op_elements(op_in_type(graph, node, 1)));
    if (first < 0 || first >= SQUARES_BLOCK || first % SQUARES_LANES != 0 || blocks > INT32_MAX) {
        return ebb__op_bad(graph, node, "first must be a multiple of %d below %d", SQUARES_LANES,
                           SQUARES_BLOCK);
    }
    out[0] = op_list(IR_F64, (int32_t)blocks);
    out[1] = op_list(IR_F64, SQUARES_LANES);
    return op_in_type(graph, node, 0) == NULL
               ? EBB_OK
               : ebb__op_need_list(graph, node, 0, IR_F64, SQUARES_LANES);
}

static const op_sample samples_sum_squares_part[] = {
    {IN(D1(16), F2(1, 1)), .fill = {FILL_ABSENT}},
    {IN(D1(16), F1(17)), .attr = {.i = {8176}}},
    {IN(D1(16), F2(33, 65)), .attr = {.i = {4096}}},
    {IN(D1(16), F2(128, 64)), .fill = {FILL_ABSENT}},
    {IN(D1(16), F2(8, 1027)), .attr = {.i = {16}}},
    {IN(D1(16), F2(1000, 19)), .attr = {.i = {512}}},
};

OP_DEFINE(sum_squares_part, .schema.ints = {"first"}, .n_in = 2, .optional = 1u << 0, .n_out = 2,
          .flags = OPF_NOGRAD, .infer = infer_sum_squares_part, .work = {1, OPERAND(1)},
          SAMPLES(samples_sum_squares_part));
