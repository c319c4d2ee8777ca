/* embed.c - rows of a table chosen by integers, and the gradient of the table.
 *
 * The gradient is zero but for the rows that were chosen, often few of many. embed_squares and
 * embed_sgd are sum_squares and sgd of embed_grad without its ever being stored: from the ids and
 * the rows' gradients, with the same bits.
 *
 * Ids are trusted to lie in [0, V): whoever writes an input checks them, once.
 */
#include "op/define.h"
#include "op/squares.h"

#define REF_FAMILY "op/ref/embed.inc"
#include "op/ref/twice.h"

static ebb_status infer_embed(const ir_graph *graph, const ir_node_rec *node, ir_type *out) {
    const ir_type *table = op_in_type(graph, node, 0), *ids = op_in_type(graph, node, 1);
    TRY(ebb__op_need(graph, node, 0, IR_F32));
    TRY(ebb__op_need(graph, node, 1, IR_I32));
    if (table->rank != 2 || ids->rank != 1) {
        return ebb__op_bad(graph, node, "takes a table [V,E] and a list of ids");
    }
    out[0] = (ir_type){.dtype = IR_F32, .rank = 2, .dim = {ids->dim[0], table->dim[1]}};
    return EBB_OK;
}

static ebb_status embed_grad(op_grad *g) {
    ir_attr attr = {.i = {op_grad_type(g, 0)->dim[0]}};
    ir_val ids = op_grad_in(g, 1);
    return ebb__op_grad_sum(g, 0, OP_EMBED_GRAD, (ir_val[]){ids, g->dy}, 2, &attr);
}

/* Only the chosen rows are read. */
static op_cost cost_embed(const ir_graph *graph, const ir_node_rec *node) {
    double ids = (double)ebb__ir_type_bytes(op_in_type(graph, node, 1));
    double rows = (double)ebb__ir_type_bytes(&graph->values[node->out].type);
    return (op_cost){.flops = 0, .bytes = ids + 2 * rows};
}

static void rows_embed(const ir_graph *graph, const ir_node_rec *node, op_row_role *in,
                       op_row_role *out) {
    ebb__op_rows_split(graph, node, in, out);
    in[0] = ROWS_WHOLE;
}

/* Columns of the chosen rows; all ids. */
static int32_t units_embed(const ir_graph *graph, const ir_node_rec *node, uint32_t *whole) {
    *whole = 1u << 1;
    return (int32_t)ir_cols(op_in_type(graph, node, 0));
}

static const op_sample samples_embed[] = {
    {IN(F2(1, 1), I1(1)), .fill = {FILL_NORMAL, FILL_INDEX}, .limit = 1},
    {IN(F2(5, 3), I1(7)), .fill = {FILL_NORMAL, FILL_INDEX}, .limit = 5},
    {IN(F2(33, 17), I1(20)), .fill = {FILL_NORMAL, FILL_INDEX}, .limit = 33},
    {IN(F2(65, 40), I1(301)), .fill = {FILL_NORMAL, FILL_INDEX}, .limit = 65},
};

OP_DEFINE(embed, .n_in = 2, .n_out = 1, .reads = {[1] = READ_INDEX}, .infer = infer_embed,
          .grad = embed_grad, .cost = cost_embed, .rows = rows_embed, .units = units_embed,
          .stash = {STASH_AGAIN}, SAMPLES(samples_embed));

static ebb_status infer_embed_grad(const ir_graph *graph, const ir_node_rec *node, ir_type *out) {
    const ir_type *c = op_in_type(graph, node, 0), *dx = op_in_type(graph, node, 2);
    TRY(ebb__op_need(graph, node, 2, IR_F32));
    if (dx->rank != 2 || node->attr.i[0] < 1) {
        return ebb__op_bad(graph, node, "takes dx [R,E] and a vocabulary of at least 1");
    }
    TRY(ebb__op_need_list(graph, node, 1, IR_I32, dx->dim[0]));
    out[0] = (ir_type){.dtype = IR_F32, .rank = 2, .dim = {node->attr.i[0], dx->dim[1]}};
    if (c != NULL && !ebb__ir_type_equal(c, &out[0])) {
        return ebb__op_bad(graph, node, "c must be like the table");
    }
    return EBB_OK;
}

static void rows_embed_grad(const ir_graph *graph, const ir_node_rec *node, op_row_role *in,
                            op_row_role *out) {
    ebb__op_rows_split(graph, node, in, out);
    in[0] = out[0] = ROWS_CARRY;
}

#define SUM(with) .fill = {with, FILL_INDEX, FILL_NORMAL}
static const op_sample samples_embed_grad[] = {
    {IN(F2(1, 1), I1(1), F2(1, 1)), SUM(FILL_ABSENT), .limit = 1, .attr = {.i = {1}}},
    {IN(F2(5, 3), I1(17), F2(17, 3)), SUM(FILL_NORMAL), .limit = 5, .attr = {.i = {5}}},
    {IN(F2(1, 1), I1(65), F2(65, 33)), SUM(FILL_ABSENT), .limit = 20, .attr = {.i = {33}}},
    {IN(F2(65, 40), I1(301), F2(301, 40)), SUM(FILL_NORMAL), .limit = 65, .attr = {.i = {65}}},
};

OP_DEFINE(embed_grad, .schema.ints = {"vocab"}, .n_in = 3, .optional = 1u << 0, .n_out = 1,
          .flags = OPF_NOGRAD, .reads = {[1] = READ_INDEX}, .infer = infer_embed_grad,
          INPLACE({0, 0}), .work = {1, OPERAND(2)}, .rows = rows_embed_grad,
          SAMPLES(samples_embed_grad));

/* ---- what reads the gradient, by chosen rows: ids [R], dx [R,E] ---- */

static ebb_status need_rows(const ir_graph *graph, const ir_node_rec *node, int32_t ids) {
    const ir_type *dx = op_in_type(graph, node, ids + 1);
    TRY(ebb__op_need(graph, node, ids + 1, IR_F32));
    if (dx->rank != 2) {
        return ebb__op_bad(graph, node, "takes dx [R,E]");
    }
    return ebb__op_need_list(graph, node, ids, IR_I32, dx->dim[0]);
}

static ebb_status infer_embed_squares(const ir_graph *graph, const ir_node_rec *node,
                                      ir_type *out) {
    TRY(need_rows(graph, node, 0));
    int64_t cols = ir_cols(op_in_type(graph, node, 1)), vocab = node->attr.i[0];
    if (vocab < 1 || squares_blocks(vocab * cols) > INT32_MAX) {
        return ebb__op_bad(graph, node, "vocabulary is below 1 or too large");
    }
    out[0] = op_list(IR_F64, (int32_t)squares_blocks(vocab * cols));
    return EBB_OK;
}

#define ROWS FILL_INDEX, FILL_NORMAL
static const op_sample samples_embed_squares[] = {
    {IN(I1(1), F2(1, 1)), .fill = {ROWS}, .limit = 1, .attr = {.i = {1}}},
    {IN(I1(17), F2(17, 3)), .fill = {ROWS}, .limit = 5, .attr = {.i = {9}}},
    {IN(I1(9), F2(9, 48)), .fill = {ROWS}, .limit = 700, .attr = {.i = {700}}},
    {IN(I1(65), F2(65, 130)), .fill = {ROWS}, .limit = 203, .attr = {.i = {203}}},
    {IN(I1(4), F2(4, 9001)), .fill = {ROWS}, .limit = 3, .attr = {.i = {4}}},
    {IN(I1(301), F2(301, 37)), .fill = {ROWS}, .limit = 500, .attr = {.i = {500}}},
};

OP_DEFINE(embed_squares, .schema.ints = {"vocab"}, .n_in = 2, .n_out = 1, .flags = OPF_NOGRAD,
          .reads = {READ_INDEX}, .infer = infer_embed_squares, .work = {2, OPERAND(1)},
          SAMPLES(samples_embed_squares));

static ebb_status infer_embed_sgd(const ir_graph *graph, const ir_node_rec *node, ir_type *out) {
    const ir_type *table = op_in_type(graph, node, 0);
    TRY(ebb__op_need(graph, node, 0, IR_F32));
    TRY(need_rows(graph, node, 1));
    if (table->rank != 2 || ir_cols(table) != ir_cols(op_in_type(graph, node, 2))) {
        return ebb__op_bad(graph, node, "takes a table [V,E] and dx [R,E]");
    }
    TRY(ebb__op_need_list(graph, node, 3, IR_F32, 1));
    TRY(ebb__op_need_list(graph, node, 4, IR_F32, 4));
    out[0] = *table;
    return EBB_OK;
}

/* Done in place, as updates are, only the chosen rows of the table are read and written. */
static op_cost cost_embed_sgd(const ir_graph *graph, const ir_node_rec *node) {
    const ir_type *dx = op_in_type(graph, node, 2);
    return (op_cost){.flops = 4 * (double)ebb__op_elements(dx),
                     .bytes = 3 * (double)ebb__ir_type_bytes(dx)};
}

#define SGD(scale, rate) .fill = {FILL_NORMAL, ROWS, scale, rate}
static const op_sample samples_embed_sgd[] = {
    {IN(F2(1, 1), I1(1), F2(1, 1), F1(1), F1(4)), SGD(FILL_ABSENT, FILL_POSITIVE), .limit = 1},
    {IN(F2(33, 17), I1(7), F2(7, 17), F1(1), F1(4)), SGD(FILL_UNIT, FILL_POSITIVE), .limit = 33},
    /* A rate may be negative. */
    {IN(F2(203, 40), I1(65), F2(65, 40), F1(1), F1(4)), SGD(FILL_ABSENT, FILL_NORMAL),
     .limit = 203},
    {IN(F2(9, 130), I1(301), F2(301, 130), F1(1), F1(4)), SGD(FILL_UNIT, FILL_POSITIVE),
     .limit = 5},
};

OP_DEFINE(embed_sgd, .n_in = 5, .optional = 1u << 3, .n_out = 1, .flags = OPF_NOGRAD,
          .reads = {[1] = READ_INDEX}, .infer = infer_embed_sgd, INPLACE({0, 0}),
          .cost = cost_embed_sgd, SAMPLES(samples_embed_sgd));
