/* move.c - ops that compute nothing: slice, stack, concat, copy, to_host, to_device, regroup,
 * fill. Any dtype.
 *
 * slice, stack (first axis) and concat (any axis) are aliases: the planner places operands and
 * results on the same bytes.
 */
#include "op/define.h"

#define REF_FAMILY "op/ref/move.inc"
#include "op/ref/twice.h"

static op_cost cost_alias(const ir_graph *graph, const ir_node_rec *node) {
    (void)graph, (void)node;
    return (op_cost){.flops = 0, .bytes = 0};
}

/* ---- slice ---- */

enum { AXIS, BEGIN, LEN };

/* Stretches of a part lie at most so far apart, counted in elements, that a view can say it. */
static ebb_status check_axis(const ir_graph *graph, const ir_node_rec *node, const ir_type *whole,
                             int32_t axis) {
    int64_t apart = 1;
    for (int32_t d = axis; d < whole->rank && apart <= INT32_MAX; d++) {
        apart *= whole->dim[d];
    }
    return axis == 0 || apart <= INT32_MAX
               ? EBB_OK
               : ebb__op_bad(graph, node, "axis %d and those behind it are too large", axis);
}

static ebb_status infer_slice(const ir_graph *graph, const ir_node_rec *node, ir_type *out) {
    const int32_t *i = node->attr.i;
    out[0] = *op_in_type(graph, node, 0);
    if (i[AXIS] < 0 || i[AXIS] >= out[0].rank) {
        return ebb__op_bad(graph, node, "axis must be 0 to %d", out[0].rank - 1);
    }
    int32_t extent = out[0].dim[i[AXIS]];
    if (i[BEGIN] < 0 || i[LEN] < 1 || i[LEN] > extent - i[BEGIN]) {
        return ebb__op_bad(graph, node, "[%d, +%d) is not within an axis of %d", i[BEGIN], i[LEN],
                           extent);
    }
    TRY(check_axis(graph, node, out, i[AXIS]));
    out[0].dim[i[AXIS]] = i[LEN];
    return EBB_OK;
}

static ebb_status slice_grad(op_grad *g) {
    const int32_t *i = g->node.attr.i;
    return ebb__adjoint_add_range(g->adjoint, op_grad_in(g, 0), i[AXIS], i[BEGIN], g->dy);
}

static const op_sample samples_slice[] = {
    {IN(F2(1, 1)), .attr = {.i = {0, 0, 1}}},
    {IN(F1(17)), .attr = {.i = {0, 3, 5}}},
    {IN(F2(9, 33)), .attr = {.i = {0, 4, 5}}},
    {IN(F2(9, 33)), .attr = {.i = {1, 16, 17}}},
    {IN(F3(4, 3, 5)), .attr = {.i = {0, 1, 2}}},
    {IN(F3(4, 3, 5)), .attr = {.i = {2, 2, 3}}},
    {IN(F3(4, 7, 5)), .attr = {.i = {1, 2, 3}}},
    {IN({IR_F32, 6, {2, 3, 1, 5, 2, 3}}), .attr = {.i = {3, 1, 2}}},
    {IN(F2(301, 40)), .attr = {.i = {1, 30, 10}}},
    {IN(I1(12)), .fill = {FILL_SMALL_INT}, .attr = {.i = {0, 4, 4}}},
};

OP_DEFINE(slice, .schema.ints = {"axis", "begin", "len"}, .n_in = 1, .n_out = 1, .flags = OPF_ALIAS,
          .infer = infer_slice, .grad = slice_grad, .cost = cost_alias, SAMPLES(samples_slice));

/* ---- stack and concat ---- */

/* Everything but `axis` is equal; out[0] has the sum along it. */
static ebb_status infer_join(const ir_graph *graph, const ir_node_rec *node, int32_t axis,
                             ir_type *out) {
    out[0] = *op_in_type(graph, node, 0);
    int64_t sum = out[0].dim[axis];
    for (int32_t i = 1; i < node->n_in; i++) {
        ir_type part = *op_in_type(graph, node, i);
        sum += axis < part.rank ? part.dim[axis] : 0;
        part.dim[axis] = out[0].dim[axis];
        if (!ebb__ir_type_equal(&part, &out[0])) {
            return ebb__op_bad(graph, node, "operand %d does not go with operand 0", i);
        }
        if (sum > INT32_MAX) {
            return ebb__op_bad(graph, node, "the result would be too large");
        }
    }
    out[0].dim[axis] = (int32_t)sum;
    return check_axis(graph, node, out, axis);
}

static ebb_status infer_stack(const ir_graph *graph, const ir_node_rec *node, ir_type *out) {
    return infer_join(graph, node, 0, out);
}
static ebb_status infer_concat(const ir_graph *graph, const ir_node_rec *node, ir_type *out) {
    int32_t axis = node->attr.i[AXIS], rank = op_in_type(graph, node, 0)->rank;
    return axis >= 0 && axis < rank ? infer_join(graph, node, axis, out)
                                    : ebb__op_bad(graph, node, "axis must be 0 to %d", rank - 1);
}

/* Each operand's gradient is a slice of dy. */
static ebb_status join_grad(op_grad *g) {
    op_part part = {0};
    for (int32_t i = 0; ebb__op_next_part(g->graph, &g->node, &part); i++) {
        ir_attr attr = {.i = {part.axis, (int32_t)part.begin, (int32_t)part.len}};
        TRY(ebb__op_grad_emit(g, i, OP_SLICE, &g->dy, 1, &attr));
    }
    return EBB_OK;
}

static const op_sample samples_stack[] = {
    {IN(F2(1, 1))},
    {IN(F1(3), F1(7))},
    {IN(F2(2, 17), F2(1, 17), F2(5, 17))},
    {IN(F3(2, 3, 5), F3(1, 3, 5))},
    {IN(F2(4, 33), F2(4, 33), F2(4, 33), F2(4, 33), F2(4, 33), F2(4, 33))},
    {IN(F2(300, 8), F2(1, 8))},
    {IN(I1(3), I1(5)), .fill = {FILL_SMALL_INT, FILL_SMALL_INT}},
};

OP_DEFINE(stack, .n_in = 1, .n_out = 1, .flags = OPF_ALIAS | OPF_VARIADIC, .infer = infer_stack,
          .grad = join_grad, .cost = cost_alias, SAMPLES(samples_stack));

static const op_sample samples_concat[] = {
    {IN(F2(1, 1)), .attr = {.i = {1}}},
    {IN(F1(3), F1(7))},
    {IN(F2(5, 17), F2(5, 1), F2(5, 8)), .attr = {.i = {1}}},
    {IN(F3(2, 3, 5), F3(2, 3, 4)), .attr = {.i = {2}}},
    {IN(F3(2, 3, 5), F3(2, 1, 5), F3(2, 4, 5)), .attr = {.i = {1}}},
    {IN(F2(20, 33), F2(20, 33), F2(20, 33), F2(20, 33)), .attr = {.i = {1}}},
    {IN(F2(301, 8), F2(301, 3)), .attr = {.i = {1}}},
};

OP_DEFINE(concat, .schema.ints = {"axis"}, .n_in = 1, .n_out = 1, .flags = OPF_ALIAS | OPF_VARIADIC,
          .infer = infer_concat, .grad = join_grad, .cost = cost_alias, SAMPLES(samples_concat));

/* ---- copy ---- */

static ebb_status infer_copy(const ir_graph *graph, const ir_node_rec *node, ir_type *out) {
    out[0] = *op_in_type(graph, node, 0);
    return EBB_OK;
}

static ebb_status copy_grad(op_grad *g) {
    return ebb__op_grad_add(g, 0, g->dy);
}

static const op_sample samples_copy[] = {
    {IN(F2(1, 1))},
    {IN(F1(17))},
    {IN(F3(2, 5, 33))},
    {IN(F2(301, 19))},
    {IN(I1(7)), .fill = {FILL_SMALL_INT}},
    {IN(D1(3))},
};

OP_DEFINE(copy, .n_in = 1, .n_out = 1, .layout = LAYOUT_FOLDED, .infer = infer_copy,
          .grad = copy_grad, .rows = ebb__op_rows_split, .stash = {STASH_EITHER},
          SAMPLES(samples_copy));

/* ---- out of the device's memory, and back ---- */

OP_DEFINE(to_host, .n_in = 1, .n_out = 1, .flags = OPF_NOGRAD, .transfer = TRANSFER_OUT,
          .layout = LAYOUT_DENSE, .infer = infer_copy, SAMPLES(samples_copy));

OP_DEFINE(to_device, .n_in = 1, .n_out = 1, .flags = OPF_NOGRAD | OPF_DECODES,
          .transfer = TRANSFER_BACK, .layout = LAYOUT_DENSE, .infer = infer_copy,
          SAMPLES(samples_copy));

/* ---- regroup ---- */

/* The first axis is `outer` groups of `inner` blocks; the result `inner` groups of `outer` blocks:
 * block (i, o) is the operand's (o, i). So rows by time and then shard become rows by shard. */
enum { OUTER, INNER };

static ebb_status infer_regroup(const ir_graph *graph, const ir_node_rec *node, ir_type *out) {
    const int32_t *i = node->attr.i;
    out[0] = *op_in_type(graph, node, 0);
    if (i[OUTER] < 1 || i[INNER] < 1 || out[0].dim[0] % ((int64_t)i[OUTER] * i[INNER]) != 0) {
        return ebb__op_bad(graph, node, "%d rows are not %d times %d blocks", out[0].dim[0],
                           i[OUTER], i[INNER]);
    }
    return EBB_OK;
}

static ebb_status regroup_grad(op_grad *g) {
    ir_attr back = {.i = {g->node.attr.i[INNER], g->node.attr.i[OUTER]}};
    return ebb__op_grad_emit(g, 0, OP_REGROUP, &g->dy, 1, &back);
}

static const op_sample samples_regroup[] = {
    {IN(F2(1, 1)), .attr = {.i = {1, 1}}},
    {IN(F1(24)), .attr = {.i = {3, 2}}},
    {IN(F2(30, 17)), .attr = {.i = {5, 3}}},
    {IN(F3(8, 3, 5)), .attr = {.i = {2, 4}}},
    {IN(F2(300, 8)), .attr = {.i = {1, 10}}},
    {IN(I1(42)), .fill = {FILL_SMALL_INT}, .attr = {.i = {7, 3}}},
};

OP_DEFINE(regroup, .schema.ints = {"outer", "inner"}, .n_in = 1, .n_out = 1, .infer = infer_regroup,
          .grad = regroup_grad, .stash = {STASH_EITHER}, SAMPLES(samples_regroup));

/* ---- fill ---- */

static ebb_status infer_fill(const ir_graph *graph, const ir_node_rec *node, ir_type *out) {
    int32_t dtype = node->attr.i[OP_ATTR_DTYPE];
    float value = node->attr.f[0];
    if (dtype != IR_F32 && dtype != IR_I32 && dtype != IR_F64) {
        return ebb__op_bad(graph, node, "dtype must be %d, %d or %d", IR_F32, IR_I32, IR_F64);
    }
    if (dtype == IR_I32 && !(value > -2147483648.0f && value < 2147483648.0f)) {
        return ebb__op_bad(graph, node, "value does not fit i32");
    }
    return ebb__op_infer_attr(graph, node, out);
}

static void rows_fill(const ir_graph *graph, const ir_node_rec *node, op_row_role *in,
                      op_row_role *out) {
    (void)graph, (void)node, (void)in;
    out[0] = ROWS_BATCH;
}

static const op_sample samples_fill[] = {
    {.attr = {.i = {1, 1}, .f = {1.0f}}},
    {.attr = {.i = {2, 3, 17}, .f = {0.0f}}},
    {.attr = {.i = {3, 2, 5, 33}, .f = {-2.5f}}},
    {.attr = {.i = {6, 2, 1, 3, 2, 2, 5}, .f = {0.75f}}},
    {.attr = {.i = {2, 301, 19}, .f = {0.1f}}},
    {.attr = {.i = {1, 7, [OP_ATTR_DTYPE] = IR_I32}, .f = {-1.0f}}},
    {.attr = {.i = {1, 5, [OP_ATTR_DTYPE] = IR_F64}, .f = {0.5f}}},
};

OP_DEFINE(fill, .schema.ints = {OP_ATTR_TYPE_NAMES, "dtype"}, .schema.floats = {"value"}, .n_in = 0,
          .n_out = 1, .flags = OPF_NOGRAD, .layout = LAYOUT_FOLDED, .batch_rows_attr = 1 + 1,
          /* d0 */ .infer = infer_fill, .rows = rows_fill, SAMPLES(samples_fill));
