/* rnn_cell.c - what an LSTM or GRU cell does after its GEMMs.
 *
 * An LSTM step is two ops: pre-activations and c_{t-1} to gates and c_t; o and c_t to h_t. So only
 * gates and c are kept, tanh(c) is computed again, and c can be rebuilt from gates alone. A GRU
 * step is one op that also gives s, the four things its gradient needs.
 */
#include "op/define.h"

#define REF_FAMILY "op/ref/rnn_cell.inc"
#include "op/ref/twice.h"

static ebb_status need_all_f32(const ir_graph *graph, const ir_node_rec *node) {
    for (int32_t i = 0; i < node->n_in; i++) {
        TRY(ebb__op_need(graph, node, i, IR_F32));
    }
    return EBB_OK;
}

/* The last operand of every cell op is a state, [B,H]; all others and the results have H columns or
 * gates of H columns each, and a unit reads nothing but itself. */
static int32_t units_cell(const ir_graph *graph, const ir_node_rec *node, uint32_t *whole) {
    *whole = 0;
    return (int32_t)ir_cols(op_in_type(graph, node, node->n_in - 1));
}

/* Samples: B, H. */
#define SIZES(X)                                                                                   \
    {X(1, 1)}, {X(3, 7)}, {X(5, 17)}, {X(20, 65)}, {X(64, 32)}, {                                  \
        X(301, 3)                                                                                  \
    }

/* ---- LSTM: gates ---- */

static ebb_status infer_lstm_gates(const ir_graph *graph, const ir_node_rec *node, ir_type *out) {
    TRY(need_all_f32(graph, node));
    TRY(ebb__op_need_wide(graph, node, 0, 1, 4));
    out[0] = *op_in_type(graph, node, 0);
    out[1] = *op_in_type(graph, node, 1);
    return EBB_OK;
}

static ebb_status or_zeros(ir_graph *graph, const ir_type *type, ir_val *value) {
    return *value != IR_NONE ? EBB_OK : ebb__op_fill(graph, type, 0.0f, value);
}

/* i, f and g act through c alone; only o is read from the gates. */
static ebb_status lstm_gates_grad(op_grad *g) {
    ir_val cp = op_grad_in(g, 1), gates = g->node.out, d_o, d_c = g->d[1], d[2];
    const ir_type type = *op_grad_type(g, 1);
    int32_t h = (int32_t)ir_cols(&type);
    TRY(ebb__adjoint_take_columns(g->adjoint, gates, 3 * h, h, &d_o));
    TRY(or_zeros(g->graph, &type, &d_o));
    TRY(or_zeros(g->graph, &type, &d_c));
    TRY(ebb__op_emit(g->graph, OP_LSTM_GATES_GRAD, (ir_val[]){d_o, d_c, gates, cp}, 4, NULL, d));
    TRY(ebb__op_grad_add(g, 0, d[0]));
    return ebb__op_grad_add(g, 1, d[1]);
}

#define GATES_SAMPLE(b, h) IN(F2(b, 4 * h), F2(b, h))
static const op_sample samples_lstm_gates[] = {SIZES(GATES_SAMPLE)};

OP_DEFINE(lstm_gates, .n_in = 2, .n_out = 2, .infer = infer_lstm_gates, .grad = lstm_gates_grad,
          .take = {TAKE_LATER, TAKE_WHOLE}, INPLACE({0, 0}, {1, 1}),
          .rebuild = {.n_in = 1, .out = 1, .op = OP_LSTM_STATE, .in = {1}}, .work.flops = 20,
          .rows = ebb__op_rows_split, .units = units_cell, SAMPLES(samples_lstm_gates));

/* ---- LSTM: c again, from gates that were kept ---- */

static ebb_status infer_lstm_state(const ir_graph *graph, const ir_node_rec *node, ir_type *out) {
    TRY(need_all_f32(graph, node));
    TRY(ebb__op_need_wide(graph, node, 0, 1, 4));
    out[0] = *op_in_type(graph, node, 1);
    return EBB_OK;
}

#define STATE_SAMPLE(b, h) IN(F2(b, 4 * h), F2(b, h)), .fill = {FILL_UNIT, FILL_NORMAL}
static const op_sample samples_lstm_state[] = {SIZES(STATE_SAMPLE)};

OP_DEFINE(lstm_state, .n_in = 2, .n_out = 1, .flags = OPF_NOGRAD, .infer = infer_lstm_state,
          INPLACE({1, 0}), .work.flops = 1, .rows = ebb__op_rows_split, .units = units_cell,
          SAMPLES(samples_lstm_state));

/* ---- LSTM: gradient of the gates ---- */

static ebb_status infer_lstm_gates_grad(const ir_graph *graph, const ir_node_rec *node,
                                        ir_type *out) {
    TRY(need_all_f32(graph, node));
    TRY(ebb__op_need_same(graph, node, 0, 3));
    TRY(ebb__op_need_same(graph, node, 1, 3));
    TRY(ebb__op_need_wide(graph, node, 2, 3, 4));
    out[0] = *op_in_type(graph, node, 2);
    out[1] = *op_in_type(graph, node, 3);
    return EBB_OK;
}

#define GATES_GRAD(b, h)                                                                           \
    IN(F2(b, h), F2(b, h), F2(b, 4 * h), F2(b, h)),                                                \
        .fill = {FILL_NORMAL, FILL_NORMAL, FILL_UNIT, FILL_NORMAL}
static const op_sample samples_lstm_gates_grad[] = {SIZES(GATES_GRAD)};

OP_DEFINE(lstm_gates_grad, .n_in = 4, .n_out = 2, .flags = OPF_NOGRAD,
          .infer = infer_lstm_gates_grad, INPLACE({2, 0}, {1, 1}), .work.flops = 4,
          .rows = ebb__op_rows_split, .units = units_cell, SAMPLES(samples_lstm_gates_grad));

/* ---- LSTM: output ---- */

static ebb_status lstm_out_grad(op_grad *g) {
    ir_val o = op_grad_in(g, 0), c = op_grad_in(g, 1), d[2];
    ir_val in[] = {ebb__adjoint_withdraw(g->adjoint, c), g->dy, o, c};
    TRY(ebb__op_emit(g->graph, OP_LSTM_OUT_GRAD, in, 4, NULL, d));
    TRY(ebb__op_grad_add(g, 0, d[0]));
    return ebb__op_grad_add(g, 1, d[1]);
}

#define OUT_SAMPLE(b, h) IN(F2(b, h), F2(b, h)), .fill = {FILL_UNIT, FILL_NORMAL}
static const op_sample samples_lstm_out[] = {SIZES(OUT_SAMPLE)};

OP_DEFINE(lstm_out, .n_in = 2, .n_out = 1, .flags = OPF_ELEMENTWISE, .infer = ebb__op_infer_same,
          .grad = lstm_out_grad, .work.flops = 20, .rows = ebb__op_rows_split, .units = units_cell,
          SAMPLES(samples_lstm_out));

static ebb_status infer_lstm_out_grad(const ir_graph *graph, const ir_node_rec *node,
                                      ir_type *out) {
    TRY(ebb__op_need(graph, node, 1, IR_F32));
    for (int32_t i = 0; i < 4; i++) {
        TRY(ebb__op_need_same(graph, node, i, 1));
    }
    out[0] = out[1] = *op_in_type(graph, node, 1);
    return EBB_OK;
}

#define OUT_GRAD(b, h, dc)                                                                         \
    IN(F2(b, h), F2(b, h), F2(b, h), F2(b, h)), .fill = {dc, FILL_NORMAL, FILL_UNIT, FILL_NORMAL}
static const op_sample samples_lstm_out_grad[] = {
    {OUT_GRAD(1, 1, FILL_ABSENT)},   {OUT_GRAD(3, 7, FILL_NORMAL)},
    {OUT_GRAD(5, 17, FILL_ABSENT)},  {OUT_GRAD(20, 65, FILL_NORMAL)},
    {OUT_GRAD(64, 32, FILL_ABSENT)}, {OUT_GRAD(301, 3, FILL_NORMAL)},
};

OP_DEFINE(lstm_out_grad, .n_in = 4, .optional = 1u << 0, .n_out = 2,
          .flags = OPF_ELEMENTWISE | OPF_NOGRAD, .infer = infer_lstm_out_grad,
          INPLACE({0, 1}, {1, 0}), .work.flops = 20, .rows = ebb__op_rows_split,
          .units = units_cell, SAMPLES(samples_lstm_out_grad));

/* ---- GRU ---- */

static ebb_status infer_gru_cell(const ir_graph *graph, const ir_node_rec *node, ir_type *out) {
    TRY(need_all_f32(graph, node));
    TRY(ebb__op_need_wide(graph, node, 0, 2, 3));
    TRY(ebb__op_need_wide(graph, node, 1, 2, 3));
    out[0] = *op_in_type(graph, node, 2);
    if (ir_cols(&out[0]) > INT32_MAX / 4) {
        return ebb__op_bad(graph, node, "too many columns");
    }
    out[1] = op_with_cols(&out[0], 4 * (int32_t)ir_cols(&out[0]));
    return EBB_OK;
}

static ebb_status gru_cell_grad(op_grad *g) {
    ir_val in[] = {g->dy, g->node.out + 1, op_grad_in(g, 2)}, d[3];
    TRY(ebb__op_emit(g->graph, OP_GRU_CELL_GRAD, in, 3, NULL, d));
    for (int32_t i = 0; i < 3; i++) {
        TRY(ebb__op_grad_add(g, i, d[i]));
    }
    return EBB_OK;
}

#define GRU(b, h) IN(F2(b, 3 * h), F2(b, 3 * h), F2(b, h))
static const op_sample samples_gru_cell[] = {SIZES(GRU)};

OP_DEFINE(gru_cell, .n_in = 3, .n_out = 2, .infer = infer_gru_cell, .grad = gru_cell_grad,
          .take = {TAKE_WHOLE, TAKE_NONE}, INPLACE({2, 0}), .work.flops = 20,
          .rows = ebb__op_rows_split, .units = units_cell, SAMPLES(samples_gru_cell));

static ebb_status infer_gru_cell_grad(const ir_graph *graph, const ir_node_rec *node,
                                      ir_type *out) {
    TRY(need_all_f32(graph, node));
    TRY(ebb__op_need_same(graph, node, 0, 2));
    TRY(ebb__op_need_wide(graph, node, 1, 2, 4));
    out[2] = *op_in_type(graph, node, 2);
    out[0] = out[1] = op_with_cols(&out[2], 3 * (int32_t)ir_cols(&out[2]));
    return EBB_OK;
}

#define GRU_GRAD(b, h)                                                                             \
    IN(F2(b, h), F2(b, 4 * h), F2(b, h)), .fill = {FILL_NORMAL, FILL_UNIT, FILL_NORMAL}
static const op_sample samples_gru_cell_grad[] = {SIZES(GRU_GRAD)};

OP_DEFINE(gru_cell_grad, .n_in = 3, .n_out = 3, .flags = OPF_NOGRAD, .infer = infer_gru_cell_grad,
          INPLACE({0, 2}), .work.flops = 4, .rows = ebb__op_rows_split, .units = units_cell,
          SAMPLES(samples_gru_cell_grad));
