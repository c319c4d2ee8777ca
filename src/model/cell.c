/* cell.c - see cell.h. */
#include "model/cell.h"

#include <math.h>
#include <stdio.h>

/* ---- small parts ---- */

ebb_status ebb__model_variable(model_builder *b, ir_role role, const char *name, ir_dtype dtype,
                               int32_t rows, int32_t cols, ir_val *out) {
    ir_type type = {.dtype = dtype, .rank = rows > 0 ? 2 : 1};
    type.dim[0] = rows > 0 ? rows : cols;
    type.dim[1] = rows > 0 ? cols : 0;
    return ebb__ir_add_variable(b->g, role, name, &type, out);
}

ir_start ebb__model_uniform(int64_t inputs) {
    return (ir_start){.draw = IR_UNIFORM, .scale = 1.0F / sqrtf((float)inputs)};
}

ebb_status ebb__model_param(model_builder *b, const char *name, int32_t rows, int32_t cols,
                            ir_start start, ir_val *out) {
    char own[96];
    (void)snprintf(own, sizeof own, MODEL_MEMBER "%s", b->member, name);
    TRY(ebb__model_variable(b, IR_PARAM, b->member > 0 ? own : name, IR_F32, rows, cols, out));
    b->g->values[*out].start = start;
    return EBB_OK;
}

ebb_status ebb__model_loss(model_builder *b, ir_val rows, ir_val labels, const char *name) {
    ir_graph *g = b->g;
    ir_val loss = IR_NONE;
    TRY(ebb__op_emit(g, OP_MEAN_VALID, (ir_val[]){rows, labels}, 2, NULL, &loss));
    g->loss = loss;
    g->values[loss].output = true;
    return ebb__ir_name(g, loss, name);
}

ebb_status ebb__model_layer(model_builder *b, const char *name) {
    b->g->label.at = -1;
    return ebb__ir_layer(b->g, name, &b->g->label.layer);
}

ebb_status ebb__model_dropout(model_builder *b, const char *site, int32_t time, ir_val *x) {
    op_dropout how = {
        .seed = b->seed, .site = site, .time = time, .rows = b->batch, .p = b->dropout};
    return b->dropout > 0 ? ebb__op_dropout(b->g, *x, b->step, &how, x) : EBB_OK;
}

ebb_status ebb__model_zeros(model_builder *b, int32_t rows, int32_t cols, ir_val *out) {
    ir_type type = {.dtype = IR_F32, .rank = 2, .dim = {rows, cols}};
    return ebb__op_fill(b->g, &type, 0.0F, out);
}

void ebb__model_reverse(ir_val *xs, int32_t n) {
    for (int32_t i = 0; i < n / 2; i++) {
        ir_val x = xs[i];
        xs[i] = xs[n - 1 - i];
        xs[n - 1 - i] = x;
    }
}

/* ---- a recurrent layer ---- */

ebb_status ebb__cell_zeros(model_builder *b, int32_t rows, int32_t hidden, cell_state *out) {
    *out = (cell_state){IR_NONE, IR_NONE};
    TRY(ebb__model_zeros(b, rows, hidden, &out->h));
    return b->cell == LM_LSTM ? ebb__model_zeros(b, rows, hidden, &out->c) : EBB_OK;
}

ebb_status ebb__cell_params(model_builder *b, const char *prefix, int32_t layer, const char *suffix,
                            int32_t inputs, int32_t hidden, cell_params *out) {
    int32_t gates = b->cell == LM_LSTM ? 4 : b->cell == LM_GRU ? 3 : 1;
    const struct {
        const char *what;
        int32_t cols; /* 0: a bias */
        ir_val *to;
    } list[] = {{"weight_ih", inputs, &out->w_ih},
                {"weight_hh", hidden, &out->w_hh},
                {"bias_ih", 0, &out->b_ih},
                {"bias_hh", 0, &out->b_hh}};
    out->bias = IR_NONE;
    for (size_t i = 0; i < sizeof list / sizeof *list; i++) {
        char name[64];
        int32_t rows = gates * hidden;
        (void)snprintf(name, sizeof name, "%s.%s_l%d%s", prefix, list[i].what, layer, suffix);
        TRY(ebb__model_param(b, name, list[i].cols == 0 ? 0 : rows,
                             list[i].cols == 0 ? rows : list[i].cols, ebb__model_uniform(hidden),
                             list[i].to));
    }
    if (b->cell == LM_GRU) {
        return EBB_OK;
    }
    return ebb__op_emit(b->g, OP_ADD, (ir_val[]){out->b_ih, out->b_hh}, 2, NULL, &out->bias);
}

ebb_status ebb__cell_input(model_builder *b, const cell_params *p, ir_val x, ir_val *z) {
    return ebb__op_linear(b->g, b->cell == LM_GRU ? p->b_ih : p->bias, x, p->w_ih, z);
}

static ebb_status lstm(model_builder *b, const cell_params *p, ir_val z, cell_state *s) {
    TRY(ebb__op_linear(b->g, z, s->h, p->w_hh, &z));
    return ebb__op_lstm(b->g, z, s->c, &s->h, &s->c);
}

static ebb_status gru(model_builder *b, const cell_params *p, ir_val gx, cell_state *s) {
    ir_val gh = IR_NONE, out[2]; /* gx, gh: [B, 3H] */
    TRY(ebb__op_linear(b->g, p->b_hh, s->h, p->w_hh, &gh));
    TRY(ebb__op_emit(b->g, OP_GRU_CELL, (ir_val[]){gx, gh, s->h}, 3, NULL, out));
    s->h = out[0];
    return EBB_OK;
}

static ebb_status tanh_rnn(model_builder *b, const cell_params *p, ir_val z, cell_state *s) {
    TRY(ebb__op_linear(b->g, z, s->h, p->w_hh, &z));
    return ebb__op_emit(b->g, OP_TANH, &z, 1, NULL, &s->h);
}

ebb_status ebb__cell_step(model_builder *b, const cell_params *p, ir_val z, cell_state *s) {
    switch (b->cell) {
    case LM_LSTM:
        return lstm(b, p, z, s);
    case LM_GRU:
        return gru(b, p, z, s);
    default:
        return tanh_rnn(b, p, z, s);
    }
}
