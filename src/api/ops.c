/* ops.c - public op builders: each is one node, or the few that make a cell or a loss.
 *
 * Types are checked where ops are defined; here only what is needed to name the nodes. */
#include "api/api.h"

#include <string.h>

/* One node with one result, for the public function of that name. */
static ebb_value emit_as(ebb_graph *graph, const char *builder, op_code op, const ebb_value *in,
                         int32_t n, const ir_attr *attr) {
    ir_val out[IR_MAX_OUT] = {IR_NONE};
    if (!ebb__api_open(graph, builder)) {
        return EBB_NO_VALUE;
    }
    ebb_status status = ebb__op_emit(&graph->ir, op, in, n, attr, out);
    return ebb__api_close(graph, status, &out[0]);
}

#define EMIT(graph, op, in, n, attr) emit_as(graph, __func__, op, in, n, attr)

/* ---- one node of one or two operands ---- */

#define OF_ONE(name, op)                                                                           \
    ebb_value name(ebb_graph *graph, ebb_value x) {                                                \
        return EMIT(graph, OP_##op, &x, 1, NULL);                                                  \
    }
OF_ONE(ebb_transpose, TRANSPOSE)
OF_ONE(ebb_tanh, TANH)
OF_ONE(ebb_sigmoid, SIGMOID)
OF_ONE(ebb_relu, RELU)
OF_ONE(ebb_softmax, SOFTMAX)
OF_ONE(ebb_copy, COPY)
OF_ONE(ebb_sum, SUM_ALL)

#define OF_TWO(name, op, a, b)                                                                     \
    ebb_value name(ebb_graph *graph, ebb_value a, ebb_value b) {                                   \
        return EMIT(graph, OP_##op, ((ebb_value[]){a, b}), 2, NULL);                               \
    }
OF_TWO(ebb_embed, EMBED, table, ids)
OF_TWO(ebb_add, ADD, a, b)
OF_TWO(ebb_sub, SUB, a, b)
OF_TWO(ebb_mul, MUL, a, b)
OF_TWO(ebb_add_row, ADD_ROW, x, row)
OF_TWO(ebb_add_each, ADD_EACH, stack, rows)
OF_TWO(ebb_dot_each, DOT_EACH, stack, rows)
OF_TWO(ebb_mask_softmax, MASK_SOFTMAX, scores, lengths)
OF_TWO(ebb_weighted_sum, WEIGHTED_SUM, weights, stack)

/* ---- one node with attributes ---- */

ebb_value ebb_matmul(ebb_graph *graph, ebb_value plus, ebb_value a, ebb_value b, int32_t trans_a,
                     int32_t trans_b) {
    const ir_attr attr = {.i = {trans_a != 0, trans_b != 0}};
    return EMIT(graph, OP_MATMUL, ((ebb_value[]){plus, a, b}), 3, &attr);
}

ebb_value ebb_linear(ebb_graph *graph, ebb_value x, ebb_value weight, ebb_value plus) {
    const ir_attr attr = {.i = {0, 1}};
    return EMIT(graph, OP_MATMUL, ((ebb_value[]){plus, x, weight}), 3, &attr);
}

ebb_value ebb_scale(ebb_graph *graph, ebb_value x, double factor) {
    return EMIT(graph, OP_SCALE, &x, 1, (&(ir_attr){.f = {(float)factor}}));
}

/* ---- dropout ---- */

/* The number of the step is the library's own input, written before each step. */
static ebb_status need_step(ebb_graph *graph) {
    if (graph->step != IR_NONE) {
        return EBB_OK;
    }
    return ebb__api_add_variable(graph, IR_INPUT, TRAINER_STEP, IR_I32, 1, (int64_t[]){1},
                                 &graph->step);
}

static ebb_status dropout(ebb_graph *graph, ebb_value x, double p, const char *site, ir_val *out) {
    ir_graph *ir = &graph->ir;
    TRY(ebb__api_need(graph, x, "dropout"));
    if (!(p >= 0 && (float)p < 1.0F) || site == NULL) {
        return ebb__fail(graph->ctx, EBB_USAGE,
                         "dropout: it needs a site's name and p at least 0 and below 1, not %g", p);
    }
    int64_t rows = ebb__ir_rows(&ir->values[x].type);
    if (rows > INT32_MAX) {
        return ebb__fail(graph->ctx, EBB_USAGE, "dropout: %lld rows are too many", (long long)rows);
    }
    *out = x;
    if (p == 0) {
        return EBB_OK;
    }
    TRY(need_step(graph));
    int32_t time = ir->label.at < 0 ? 0 : ir->label.at;
    op_dropout how = {
        .seed = graph->seed, .site = site, .time = time, .rows = (int32_t)rows, .p = p};
    return ebb__op_dropout(ir, x, graph->step, &how, out);
}

ebb_value ebb_dropout(ebb_graph *graph, ebb_value x, double p, const char *site) {
    ir_val out = IR_NONE;
    return ebb__api_open(graph, __func__)
               ? ebb__api_close(graph, dropout(graph, x, p, site, &out), &out)
               : EBB_NO_VALUE;
}

/* ---- cells ---- */

ebb_value ebb_lstm_cell(ebb_graph *graph, ebb_value z, ebb_value c_prev, ebb_value *h,
                        ebb_value *c) {
    ir_val out[2] = {IR_NONE, IR_NONE};
    ebb_value result = EBB_NO_VALUE;
    if (ebb__api_open(graph, __func__)) {
        ebb_status status = ebb__op_lstm(&graph->ir, z, c_prev, &out[0], &out[1]);
        result = ebb__api_close(graph, status, &out[0]);
    }
    if (h != NULL) {
        *h = result;
    }
    if (c != NULL) {
        *c = result == EBB_NO_VALUE ? EBB_NO_VALUE : out[1];
    }
    return result;
}

ebb_value ebb_gru_cell(ebb_graph *graph, ebb_value gx, ebb_value gh, ebb_value h_prev) {
    return EMIT(graph, OP_GRU_CELL, ((ebb_value[]){gx, gh, h_prev}), 3, NULL);
}

/* ---- views ---- */

/* An axis by its number; -1 is the last. */
static ebb_status find_axis(const ebb_graph *graph, ebb_value x, const char *what, int32_t *axis) {
    int32_t rank = graph->ir.values[x].type.rank;
    if (*axis < -rank || *axis >= rank) {
        return ebb__fail(graph->ctx, EBB_USAGE, "%s: there is no axis %d of %d", what, *axis, rank);
    }
    *axis += *axis < 0 ? rank : 0;
    return EBB_OK;
}

static ebb_status slice(ebb_graph *graph, ebb_value x, int32_t axis, int64_t begin, int64_t len,
                        ir_val *out) {
    TRY(ebb__api_need(graph, x, "slice"));
    TRY(find_axis(graph, x, "slice", &axis));
    int32_t extent = graph->ir.values[x].type.dim[axis];
    if (begin < 0 || len < 1 || begin >= extent || len > extent - begin) {
        return ebb__fail(graph->ctx, EBB_USAGE, "slice: [%lld, +%lld) is not within an axis of %d",
                         (long long)begin, (long long)len, extent);
    }
    return ebb__op_slice(&graph->ir, x, axis, (int32_t)begin, (int32_t)len, out);
}

ebb_value ebb_slice(ebb_graph *graph, ebb_value x, int32_t axis, int64_t begin, int64_t len) {
    ir_val out = IR_NONE;
    return ebb__api_open(graph, __func__)
               ? ebb__api_close(graph, slice(graph, x, axis, begin, len, &out), &out)
               : EBB_NO_VALUE;
}

static ebb_status join(ebb_graph *graph, const char *what, int32_t axis, const ebb_value *values,
                       int32_t n, ir_val *out) {
    if (values == NULL || n < 1) {
        return ebb__fail(graph->ctx, EBB_USAGE, "%s: it takes at least one value", what);
    }
    for (int32_t i = 0; i < n; i++) {
        TRY(ebb__api_need(graph, values[i], what));
    }
    TRY(find_axis(graph, values[0], what, &axis));
    return ebb__op_join(&graph->ir, axis, values, n, out);
}

/* For the public function `builder`, which messages name. */
static ebb_value join_as(ebb_graph *graph, const char *builder, int32_t axis,
                         const ebb_value *values, int32_t n) {
    const char *what = builder + strlen("ebb_");
    ir_val out = IR_NONE;
    return ebb__api_open(graph, builder)
               ? ebb__api_close(graph, join(graph, what, axis, values, n, &out), &out)
               : EBB_NO_VALUE;
}

ebb_value ebb_join(ebb_graph *graph, int32_t axis, const ebb_value *values, int32_t n) {
    return join_as(graph, __func__, axis, values, n);
}

ebb_value ebb_stack(ebb_graph *graph, const ebb_value *values, int32_t n) {
    return join_as(graph, __func__, 0, values, n);
}

ebb_value ebb_concat(ebb_graph *graph, const ebb_value *values, int32_t n) {
    return join_as(graph, __func__, -1, values, n);
}

/* ---- attention ---- */

/* A count as an attribute; what does not fit becomes -1, which no op takes. */
static ir_attr count_attr(int64_t count) {
    return (ir_attr){.i = {count < 0 || count > INT32_MAX ? -1 : (int32_t)count}};
}

ebb_value ebb_sum_each(ebb_graph *graph, ebb_value stack, int64_t batch) {
    const ir_attr attr = count_attr(batch);
    return EMIT(graph, OP_SUM_EACH, &stack, 1, &attr);
}

ebb_value ebb_dot_rows(ebb_graph *graph, ebb_value stack, ebb_value list, int64_t batch) {
    const ir_attr attr = count_attr(batch);
    return EMIT(graph, OP_DOT_ROWS, ((ebb_value[]){stack, list}), 2, &attr);
}

ebb_value ebb_mask_rows(ebb_graph *graph, ebb_value x, ebb_value lengths, int64_t position) {
    const ir_attr attr = count_attr(position);
    return EMIT(graph, OP_MASK_ROWS, ((ebb_value[]){x, lengths}), 2, &attr);
}

ebb_value ebb_layer_norm(ebb_graph *graph, ebb_value x, ebb_value gain, ebb_value bias, double eps,
                         int64_t batch) {
    ir_attr attr = count_attr(batch);
    attr.f[0] = (float)eps;
    return EMIT(graph, OP_LAYER_NORM, ((ebb_value[]){x, gain, bias}), 3, &attr);
}

/* ---- loss ---- */

ebb_value ebb_mean(ebb_graph *graph, ebb_value x) {
    ebb_value sum = EMIT(graph, OP_SUM_ALL, &x, 1, NULL);
    if (sum == EBB_NO_VALUE) {
        return sum;
    }
    const ir_type *type = &graph->ir.values[x].type;
    return ebb_scale(graph, sum, 1.0 / ((double)ebb__ir_rows(type) * (double)ir_cols(type)));
}

static ebb_value cross_entropy(ebb_graph *graph, const char *builder, ebb_value logits,
                               ebb_value labels, double smooth) {
    const ir_attr attr = {.f = {(float)smooth}};
    ebb_value rows = emit_as(graph, builder, OP_XENT, (ebb_value[]){logits, labels}, 2, &attr);
    return emit_as(graph, builder, OP_MEAN_VALID, (ebb_value[]){rows, labels}, 2, NULL);
}

ebb_value ebb_cross_entropy(ebb_graph *graph, ebb_value logits, ebb_value labels) {
    return cross_entropy(graph, __func__, logits, labels, 0.0);
}

ebb_value ebb_cross_entropy_smooth(ebb_graph *graph, ebb_value logits, ebb_value labels,
                                   double smooth) {
    return cross_entropy(graph, __func__, logits, labels, smooth);
}
