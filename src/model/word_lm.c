/* word_lm.c - see word_lm.h. Layers outermost, time inside: layer l reads all of layer l-1. */
#include "model/word_lm.h"

#include <inttypes.h>
#include <stdio.h>

typedef struct builder {
    model_builder b;
    const word_lm *m;
    int32_t L, H, E, V, B, T;
} builder;

static ebb_status add_state(builder *b, const char *what, int32_t layer, ir_val *out) {
    char name[96];
    (void)snprintf(name, sizeof name, "%.32s.%s.%d", b->m->state, what, layer);
    return ebb__model_variable(&b->b, b->m->scratch ? IR_SCRATCH : IR_STATE, name, IR_F32, b->B,
                               b->H, out);
}

/* The last step's state becomes the next window's first; backward still reads the old one. */
static ebb_status carry(builder *b, ir_val variable, ir_val last) {
    ir_val copy = IR_NONE; /* not into the graph's own array: emitting may move it */
    TRY(ebb__op_copy(b->b.g, last, &copy));
    b->b.g->values[variable].next = copy;
    return EBB_OK;
}

/* What the first step starts from; *carried: the variables of it, none where it is zeros. */
static ebb_status begin_state(builder *b, int32_t layer, cell_state *carried, cell_state *s) {
    *carried = *s = (cell_state){IR_NONE, IR_NONE};
    if (b->m->state == NULL) {
        return ebb__cell_zeros(&b->b, b->B, b->H, s);
    }
    TRY(add_state(b, "h", layer, &s->h));
    TRY(b->m->cell == LM_LSTM ? add_state(b, "c", layer, &s->c) : EBB_OK);
    *carried = *s;
    return EBB_OK;
}

static ebb_status end_state(builder *b, const cell_state *carried, const cell_state *s) {
    if (carried->h != IR_NONE) {
        TRY(carry(b, carried->h, s->h));
    }
    return carried->c == IR_NONE ? EBB_OK : carry(b, carried->c, s->c);
}

/* xs: [T] values [B, in], replaced by the layer's outputs after dropout. */
static ebb_status build_layer(builder *b, int32_t layer, ir_val *xs) {
    char name[32], site[32];
    ir_graph *g = b->b.g;
    cell_params p;
    cell_state carried, s;
    (void)snprintf(name, sizeof name, "rnn.l%d", layer);
    (void)snprintf(site, sizeof site, layer + 1 == b->L ? "out.drop" : "rnn.l%d.drop", layer);
    TRY(ebb__model_layer(&b->b, name));
    TRY(ebb__cell_params(&b->b, "rnn", layer, "", layer == 0 ? b->E : b->H, b->H, &p));
    TRY(begin_state(b, layer, &carried, &s));
    for (int32_t t = 0; t < b->T; t++) {
        ir_val z = IR_NONE; /* [B, G*H] */
        g->label.at = t;
        TRY(ebb__cell_input(&b->b, &p, xs[t], &z));
        TRY(ebb__cell_step(&b->b, &p, z, &s));
        xs[t] = s.h;
        TRY(ebb__model_dropout(&b->b, site, t, &xs[t]));
    }
    g->label.at = -1;
    return end_state(b, &carried, &s);
}

static ebb_status build_embedding(builder *b, ir_val *table, ir_val *xs) {
    ir_graph *g = b->b.g;
    ir_val ids = IR_NONE;
    TRY(ebb__model_layer(&b->b, "data"));
    TRY(ebb__model_variable(&b->b, IR_INPUT, LM_INPUTS, IR_I32, 0, b->T * b->B, &ids));
    if (b->m->dropout > 0) {
        TRY(ebb__model_variable(&b->b, IR_INPUT, LM_STEP, IR_I32, 0, 1, &b->b.step));
    }
    TRY(ebb__model_layer(&b->b, "embed"));
    TRY(ebb__model_param(&b->b, "embed.weight", b->V, b->E,
                         b->m->tie ? ebb__model_uniform(b->H) : (ir_start){IR_NORMAL, 1.0F},
                         table));
    for (int32_t t = 0; t < b->T; t++) {
        ir_val at = IR_NONE;
        g->label.at = t;
        TRY(ebb__op_slice(g, ids, 0, (b->T - 1 - t) * b->B, b->B, &at));
        TRY(ebb__op_emit(g, OP_EMBED, (ir_val[]){*table, at}, 2, NULL, &xs[t]));
        TRY(ebb__model_dropout(&b->b, "embed.drop", t, &xs[t]));
    }
    return EBB_OK;
}

static ebb_status build_output(builder *b, ir_val table, ir_val *xs) {
    ir_graph *g = b->b.g;
    ir_val weight = table, bias = IR_NONE, hs = IR_NONE, logits = IR_NONE, y = IR_NONE;
    ir_val rows[2];
    TRY(ebb__model_layer(&b->b, "out"));
    if (!b->m->tie) {
        TRY(ebb__model_param(&b->b, "out.weight", b->V, b->H, ebb__model_uniform(b->H), &weight));
    }
    TRY(ebb__model_param(&b->b, "out.bias", 0, b->V, ebb__model_uniform(b->H), &bias));
    ebb__model_reverse(xs, b->T);
    TRY(ebb__op_join(g, 0, xs, b->T, &hs));                 /* [T*B, H] */
    TRY(ebb__op_linear(b->b.g, bias, hs, weight, &logits)); /* [T*B, V] */
    if (b->m->predict) {
        g->values[logits].output = true;
        return ebb__ir_name(g, logits, LM_LOGITS);
    }
    TRY(ebb__model_variable(&b->b, IR_INPUT, LM_TARGETS, IR_I32, 0, b->T * b->B, &y));
    TRY(ebb__op_emit(g, OP_XENT, (ir_val[]){logits, y}, 2, NULL, rows));
    if (b->m->losses) {
        g->values[rows[0]].output = true;
        TRY(ebb__ir_name(g, rows[0], LM_LOSSES));
    }
    return ebb__model_loss(&b->b, rows[0], y, LM_LOSS);
}

static ebb_status check(const ir_graph *g, const word_lm *m) {
    const char *length = m->state != NULL ? "bptt" : "max-len";
    const struct {
        const char *name;
        int64_t value;
    } sizes[] = {{"layers", m->layers}, {"hidden", m->hidden}, {"embed", m->embed},
                 {"vocab", m->vocab},   {"batch", m->batch},   {length, m->steps}};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        if (sizes[i].value < 1 || sizes[i].value > INT32_MAX / 4) {
            return ebb__fail(g->ctx, EBB_USAGE, "--%s %" PRId64 " is not in 1..%d", sizes[i].name,
                             sizes[i].value, INT32_MAX / 4);
        }
    }
    if (m->batch * m->steps > INT32_MAX / 4) {
        return ebb__fail(g->ctx, EBB_USAGE,
                         "--batch %" PRId64 " times --%s %" PRId64 " is more than %d positions",
                         m->batch, length, m->steps, INT32_MAX / 4);
    }
    if (m->layers * m->steps > 2000000) {
        return ebb__fail(g->ctx, EBB_USAGE,
                         "--layers %" PRId64 " times --%s %" PRId64
                         " is more than 2000000 cells; use a shorter --%s",
                         m->layers, length, m->steps, length);
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
    builder b = {.b = {.g = graph,
                       .cell = m->cell,
                       .batch = (int32_t)m->batch,
                       .dropout = m->dropout,
                       .seed = m->seed,
                       .step = IR_NONE},
                 .m = m,
                 .L = (int32_t)m->layers,
                 .H = (int32_t)m->hidden,
                 .E = (int32_t)m->embed,
                 .V = (int32_t)m->vocab,
                 .B = (int32_t)m->batch,
                 .T = (int32_t)m->steps};
    ir_val *xs = NULL, table = IR_NONE;
    TRY(ebb__region_alloc(&graph->region, (size_t)m->steps, sizeof *xs, &xs));
    TRY(build_embedding(&b, &table, xs));
    for (int32_t l = 0; l < b.L; l++) {
        TRY(build_layer(&b, l, xs));
    }
    return build_output(&b, table, xs);
}
