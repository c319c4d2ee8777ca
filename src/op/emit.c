/* emit.c - nodes by what they mean: whoever builds a graph need not know which attribute stands
 * where, nor which few ops make a cell. */
#include "op/op.h"

#include "base/rng.h"

ebb_status ebb__op_copy(ir_graph *graph, ir_val x, ir_val *out) {
    return ebb__op_emit(graph, OP_COPY, &x, 1, NULL, out);
}

ebb_status ebb__op_regroup(ir_graph *graph, ir_val x, int32_t outer, int32_t inner, ir_val *out) {
    ir_attr attr = {.i = {outer, inner}};
    return ebb__op_emit(graph, OP_REGROUP, &x, 1, &attr, out);
}

ebb_status ebb__op_linear(ir_graph *graph, ir_val c, ir_val x, ir_val w, ir_val *out) {
    ir_attr attr = {.i = {0, 1}}; /* only w is transposed */
    return ebb__op_emit(graph, OP_MATMUL, (ir_val[]){c, x, w}, 3, &attr, out);
}

ebb_status ebb__op_dropout(ir_graph *graph, ir_val x, ir_val step, const op_dropout *how,
                           ir_val *out) {
    rng_key key = ebb__rng_key(how->seed, how->site);
    ir_attr attr = {.i = {(int32_t)key.word[0], (int32_t)key.word[1], how->time, 0, how->rows, 0},
                    .f = {(float)how->p}};
    return ebb__op_emit(graph, OP_DROPOUT, (ir_val[]){x, step}, 2, &attr, out);
}

ebb_status ebb__op_lstm(ir_graph *graph, ir_val z, ir_val c_prev, ir_val *h, ir_val *c) {
    ir_val out[2], o = IR_NONE; /* out: gates [B, 4H], c [B, H]; o [B, H] */
    TRY(ebb__op_emit(graph, OP_LSTM_GATES, (ir_val[]){z, c_prev}, 2, NULL, out));
    const ir_type *type = &graph->values[out[1]].type;
    int32_t units = (int32_t)ir_cols(type);
    TRY(ebb__op_slice(graph, out[0], type->rank - 1, 3 * units, units, &o));
    *c = out[1];
    return ebb__op_emit(graph, OP_LSTM_OUT, (ir_val[]){o, *c}, 2, NULL, h);
}
