/* word_lm.c - see word_lm.h. Layers outermost, time inside: layer l reads all of layer l-1. */
#include "model/word_lm.h"

#include "base/rng.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

typedef struct builder {
    ir_graph *g;
    const word_lm *m;
    int32_t L, H, E, V, B, T, gates; /* gates: rows of a recurrent weight, in H */
    ir_val step;
} builder;

static ebb_status add(builder *b, ir_role role, const char *name, ir_dtype dtype, int32_t rows,
                      int32_t cols, ir_val *out) {
    ir_type type = {.dtype = dtype, .rank = rows > 0 ? 2 : 1};
    type.dim[0] = rows > 0 ? rows : cols;
    type.dim[1] = rows > 0 ? cols : 0;
    return ebb__ir_add_variable(b->g, role, name, &type, out);
}

static ebb_status add_layer_param(builder *b, const char *what, int32_t layer, int32_t rows,
                                  int32_t cols, ir_val *out) {
    char name[64];
    (void)snprintf(name, sizeof name, "rnn.%s_l%d", what, layer);
    return add(b, IR_PARAM, name, IR_F32, rows, cols, out);
}

/* y = c + x w^T; x [B, K], w [N, K], c a bias [N], a sum so far [B, N], or absent. */
static ebb_status linear(builder *b, ir_val c, ir_val x, ir_val w, ir_val *y) {
    ir_attr attr = {.i = {0, 1}};
    return ebb__op_emit(b->g, OP_MATMUL, (ir_val[]){c, x, w}, 3, &attr, y);
}

static ebb_status dropout(builder *b, const char *site, int32_t time, ir_val *x) {
    if (b->m->dropout <= 0) {
        return EBB_OK;
    }
    rng_key key = ebb__rng_key(b->m->seed, site);
    ir_attr attr = {.i = {(int32_t)key.word[0], (int32_t)key.word[1], time, 0, b->B, 0},
                    .f = {(float)b->m->dropout}};
    return ebb__op_emit(b->g, OP_DROPOUT, (ir_val[]){*x, b->step}, 2, &attr, x);
}

typedef struct layer_params {
    ir_val w_ih, w_hh, b_ih, b_hh; /* [G*H, in], [G*H, H], [G*H], [G*H] */
    ir_val bias;                   /* b_ih + b_hh; the GRU keeps them apart */
} layer_params;

typedef struct cell_state {
    ir_val h, c; /* [B, H]; c only of the LSTM */
} cell_state;

static ebb_status add_params(builder *b, int32_t layer, layer_params *p) {
    int32_t rows = b->gates * b->H;
    TRY(add_layer_param(b, "weight_ih", layer, rows, layer == 0 ? b->E : b->H, &p->w_ih));
    TRY(add_layer_param(b, "weight_hh", layer, rows, b->H, &p->w_hh));
    TRY(add_layer_param(b, "bias_ih", layer, 0, rows, &p->b_ih));
    TRY(add_layer_param(b, "bias_hh", layer, 0, rows, &p->b_hh));
    p->bias = IR_NONE;
    if (b->m->cell != LM_GRU) {
        TRY(ebb__op_emit(b->g, OP_ADD, (ir_val[]){p->b_ih, p->b_hh}, 2, NULL, &p->bias));
    }
    return EBB_OK;
}

static ebb_status lstm(builder *b, const layer_params *p, ir_val x, cell_state *s) {
    ir_val z = IR_NONE, out[2], o = IR_NONE; /* z, out[0]: [B, 4H]; out[1]: c [B, H] */
    TRY(linear(b, p->bias, x, p->w_ih, &z));
    TRY(linear(b, z, s->h, p->w_hh, &z));
    TRY(ebb__op_emit(b->g, OP_LSTM_GATES, (ir_val[]){z, s->c}, 2, NULL, out));
    TRY(ebb__op_slice(b->g, out[0], 1, 3 * b->H, b->H, &o));
    s->c = out[1];
    return ebb__op_emit(b->g, OP_LSTM_OUT, (ir_val[]){o, s->c}, 2, NULL, &s->h);
}

static ebb_status gru(builder *b, const layer_params *p, ir_val x, cell_state *s) {
    ir_val gx = IR_NONE, gh = IR_NONE, out[2]; /* [B, 3H] both */
    TRY(linear(b, p->b_ih, x, p->w_ih, &gx));
    TRY(linear(b, p->b_hh, s->h, p->w_hh, &gh));
    TRY(ebb__op_emit(b->g, OP_GRU_CELL, (ir_val[]){gx, gh, s->h}, 3, NULL, out));
    s->h = out[0];
    return EBB_OK;
}

static ebb_status tanh_rnn(builder *b, const layer_params *p, ir_val x, cell_state *s) {
    ir_val z = IR_NONE; /* [B, H] */
    TRY(linear(b, p->bias, x, p->w_ih, &z));
    TRY(linear(b, z, s->h, p->w_hh, &z));
    return ebb__op_emit(b->g, OP_TANH, &z, 1, NULL, &s->h);
}

static ebb_status add_state(builder *b, const char *what, int32_t layer, ir_val *out) {
    char name[96];
    (void)snprintf(name, sizeof name, "%.32s.%s.%d", b->m->state, what, layer);
    return add(b, IR_STATE, name, IR_F32, b->B, b->H, out);
}

/* The last step's state becomes the next window's first; backward still reads the old one. */
static ebb_status carry(builder *b, ir_val variable, ir_val last) {
    ir_val copy = IR_NONE; /* not into the graph's own array: emitting may move it */
    TRY(ebb__op_emit(b->g, OP_COPY, &last, 1, NULL, &copy));
    b->g->values[variable].next = copy;
    return EBB_OK;
}

/* xs: [T] values [B, in], replaced by the layer's outputs after dropout. */
static ebb_status build_layer(builder *b, int32_t layer, ir_val *xs) {
    char name[32], site[32];
    layer_params p;
    cell_state first = {IR_NONE, IR_NONE}, s;
    (void)snprintf(name, sizeof name, "rnn.l%d", layer);
    (void)snprintf(site, sizeof site, layer + 1 == b->L ? "out.drop" : "rnn.l%d.drop", layer);
    TRY(ebb__ir_layer(b->g, name, &b->g->label.layer));
    b->g->label.time = -1;
    TRY(add_params(b, layer, &p));
    TRY(add_state(b, "h", layer, &first.h));
    if (b->m->cell == LM_LSTM) {
        TRY(add_state(b, "c", layer, &first.c));
    }
    s = first;
    for (int32_t t = 0; t < b->T; t++) {
        b->g->label.time = t;
        switch (b->m->cell) {
        case LM_LSTM:
            TRY(lstm(b, &p, xs[t], &s));
            break;
        case LM_GRU:
            TRY(gru(b, &p, xs[t], &s));
            break;
        default:
            TRY(tanh_rnn(b, &p, xs[t], &s));
            break;
        }
        xs[t] = s.h;
        TRY(dropout(b, site, t, &xs[t]));
    }
    b->g->label.time = -1;
    TRY(carry(b, first.h, s.h));
    return first.c == IR_NONE ? EBB_OK : carry(b, first.c, s.c);
}

static ebb_status build_embedding(builder *b, ir_val *table, ir_val *xs) {
    ir_val ids = IR_NONE;
    TRY(ebb__ir_layer(b->g, "data", &b->g->label.layer));
    TRY(add(b, IR_INPUT, LM_INPUTS, IR_I32, 0, b->T * b->B, &ids));
    if (b->m->dropout > 0) {
        TRY(add(b, IR_INPUT, LM_STEP, IR_I32, 0, 1, &b->step));
    }
    TRY(ebb__ir_layer(b->g, "embed", &b->g->label.layer));
    TRY(add(b, IR_PARAM, "embed.weight", IR_F32, b->V, b->E, table));
    for (int32_t t = 0; t < b->T; t++) {
        ir_val at = IR_NONE;
        b->g->label.time = t;
        TRY(ebb__op_slice(b->g, ids, 0, (b->T - 1 - t) * b->B, b->B, &at));
        TRY(ebb__op_emit(b->g, OP_EMBED, (ir_val[]){*table, at}, 2, NULL, &xs[t]));
        TRY(dropout(b, "embed.drop", t, &xs[t]));
    }
    b->g->label.time = -1;
    return EBB_OK;
}

static ebb_status build_output(builder *b, ir_val table, ir_val *xs) {
    ir_graph *g = b->g;
    ir_val weight = table, bias = IR_NONE, hs = IR_NONE, logits = IR_NONE, y = IR_NONE;
    ir_val rows[2], loss = IR_NONE;
    TRY(ebb__ir_layer(g, "out", &g->label.layer));
    if (!b->m->tie) {
        TRY(add(b, IR_PARAM, "out.weight", IR_F32, b->V, b->H, &weight));
    }
    TRY(add(b, IR_PARAM, "out.bias", IR_F32, 0, b->V, &bias));
    for (int32_t i = 0; i < b->T / 2; i++) { /* time descending */
        ir_val x = xs[i];
        xs[i] = xs[b->T - 1 - i];
        xs[b->T - 1 - i] = x;
    }
    TRY(ebb__op_join(g, 0, xs, b->T, &hs));    /* [T*B, H] */
    TRY(linear(b, bias, hs, weight, &logits)); /* [T*B, V] */
    if (b->m->predict) {
        g->values[logits].output = true;
        return ebb__ir_name(g, logits, LM_LOGITS);
    }
    TRY(add(b, IR_INPUT, LM_TARGETS, IR_I32, 0, b->T * b->B, &y));
    TRY(ebb__op_emit(g, OP_XENT, (ir_val[]){logits, y}, 2, NULL, rows));
    TRY(ebb__op_emit(g, OP_MEAN_VALID, (ir_val[]){rows[0], y}, 2, NULL, &loss));
    g->loss = loss;
    g->values[loss].output = true;
    return ebb__ir_name(g, loss, LM_LOSS);
}

static ebb_status check(const ir_graph *g, const word_lm *m) {
    const struct {
        const char *name;
        int64_t value;
    } sizes[] = {{"layers", m->layers}, {"hidden", m->hidden}, {"embed", m->embed},
                 {"vocab", m->vocab},   {"batch", m->batch},   {"bptt", m->steps}};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        if (sizes[i].value < 1 || sizes[i].value > INT32_MAX / 4) {
            return ebb__fail(g->ctx, EBB_USAGE, "--%s %" PRId64 " is not in 1..%d", sizes[i].name,
                             sizes[i].value, INT32_MAX / 4);
        }
    }
    if (m->batch * m->steps > INT32_MAX / 4) {
        return ebb__fail(g->ctx, EBB_USAGE,
                         "--batch %" PRId64 " times --bptt %" PRId64 " is more than %d positions",
                         m->batch, m->steps, INT32_MAX / 4);
    }
    if (m->layers * m->steps > 2000000) {
        return ebb__fail(g->ctx, EBB_USAGE,
                         "--layers %" PRId64 " times --bptt %" PRId64
                         " is more than 2000000 cells; use a shorter --bptt",
                         m->layers, m->steps);
    }
    if (m->tie && m->embed != m->hidden) {
        return ebb__fail(g->ctx, EBB_USAGE,
                         "--tie needs --embed equal to --hidden (%" PRId64 " and %" PRId64 ")",
                         m->embed, m->hidden);
    }
    if (!(m->dropout >= 0 && m->dropout < 1)) {
        return ebb__fail(g->ctx, EBB_USAGE, "--dropout %g is not in [0, 1)", m->dropout);
    }
    return EBB_OK;
}

ebb_status ebb__word_lm_build(ir_graph *graph, const word_lm *m) {
    TRY(check(graph, m));
    builder b = {.g = graph,
                 .m = m,
                 .L = (int32_t)m->layers,
                 .H = (int32_t)m->hidden,
                 .E = (int32_t)m->embed,
                 .V = (int32_t)m->vocab,
                 .B = (int32_t)m->batch,
                 .T = (int32_t)m->steps,
                 .gates = m->cell == LM_LSTM  ? 4
                          : m->cell == LM_GRU ? 3
                                              : 1,
                 .step = IR_NONE};
    ir_val *xs = NULL, table = IR_NONE;
    TRY(ebb__region_alloc(&graph->region, (size_t)m->steps, sizeof *xs, &xs));
    TRY(build_embedding(&b, &table, xs));
    for (int32_t l = 0; l < b.L; l++) {
        TRY(build_layer(&b, l, xs));
    }
    return build_output(&b, table, xs);
}

/* Box-Muller on one block of random words: the first of the pair. */
static float normal(rng_block block) {
    double u = ((double)block.word[0] + 1.0) * 0x1p-32, v = (double)block.word[1] * 0x1p-32;
    return (float)(sqrt(-2.0 * log(u)) * cos(6.283185307179586 * v));
}

void ebb__word_lm_init(const char *name, float *data, uint64_t count, int64_t hidden, bool tie,
                       uint64_t seed) {
    bool is_normal = !tie && strcmp(name, "embed.weight") == 0;
    float bound = 1.0F / sqrtf((float)hidden);
    rng_key key = ebb__rng_key(seed, name);
    for (uint64_t i = 0; i < count; i++) {
        uint64_t at = is_normal ? i : i / 4;
        rng_block block = ebb__rng_block(key, (uint32_t)at, (uint32_t)(at >> 32), 0, 0);
        data[i] =
            is_normal ? normal(block) : (2.0F * ebb__rng_unit(block.word[i % 4]) - 1.0F) * bound;
    }
}
