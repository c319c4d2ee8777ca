/* nmt_decode.c - see nmt_decode.h. */
#include "model/nmt_decode.h"

#include "model/nmt_parts.h"

#include <inttypes.h>
#include <stdio.h>

static ebb_status output(ir_graph *g, ir_val v, const char *name) {
    g->values[v].output = true;
    return ebb__ir_name(g, v, name);
}

nmt_name ebb__nmt_member(const char *name, int32_t member) {
    nmt_name own;
    (void)snprintf(own.text, sizeof own.text, member > 0 ? "%s.of%d" : "%s", name, member);
    return own;
}

static int32_t members_of(const nmt_decode *d) {
    return d->members > 1 ? d->members : 1;
}

/* A copy: one state of the encoder may start several layers. */
static ebb_status output_start(const nmt_builder *b, ir_val v, const char *what, int32_t layer) {
    ir_graph *g = b->b.g;
    char name[96];
    ir_val copy = IR_NONE;
    if (v == IR_NONE) {
        return EBB_OK;
    }
    (void)snprintf(name, sizeof name, "%s.%s%d", ebb__nmt_member(NMT_READ_START, b->b.member).text,
                   what, layer);
    TRY(ebb__op_emit(g, OP_COPY, &v, 1, NULL, &copy));
    return output(g, copy, name);
}

/* What one member makes of the sources. */
static ebb_status build_read(nmt_builder *b) {
    ir_graph *g = b->b.g;
    TRY(ebb__nmt_tables(b));
    TRY(ebb__nmt_encode(b));
    TRY(output(g, b->a.memory, ebb__nmt_member(NMT_READ_MEMORY, b->b.member).text));
    TRY(ebb__nmt_keys(b));
    TRY(output(g, b->a.keys, ebb__nmt_member(NMT_READ_KEYS, b->b.member).text));
    for (int32_t l = 0; b->m->init_decoder && l < (int32_t)b->m->dec_layers; l++) {
        cell_state start = ebb__nmt_start(b, l);
        TRY(output_start(b, start.h, "h", l));
        TRY(output_start(b, start.c, "c", l));
    }
    return EBB_OK;
}

ebb_status ebb__nmt_decode_read(ir_graph *graph, const nmt_decode *d, int64_t rows) {
    nmt_model m = d->model;
    nmt_builder first, b;
    m.batch = rows;
    m.tgt_len = 1;
    TRY(ebb__nmt_begin(graph, &m, &first));
    TRY(ebb__model_layer(&first.b, "data"));
    TRY(ebb__nmt_input(&first, NMT_READ_SRC, (int32_t)(m.src_len * rows), &first.src));
    TRY(ebb__nmt_input(&first, NMT_READ_LEN, (int32_t)rows, &first.src_len));
    for (int32_t member = 0; member < members_of(d); member++) {
        b = first;
        b.b.member = member;
        TRY(build_read(&b));
    }
    return EBB_OK;
}

/* A state variable [K*B, H], its rows put in the order of the hypotheses' parents. */
static ebb_status read_state(nmt_builder *b, const char *what, int32_t layer, ir_val parent,
                             ir_val *variable, ir_val *out) {
    char name[96];
    int32_t rows = b->b.g->values[parent].type.dim[0];
    (void)snprintf(name, sizeof name, "%s.%s%d", ebb__nmt_member(NMT_STEP_STATE, b->b.member).text,
                   what, layer);
    TRY(ebb__model_variable(&b->b, IR_SCRATCH, name, IR_F32, rows, b->H, variable));
    return ebb__op_emit(b->b.g, OP_EMBED, (ir_val[]){*variable, parent}, 2, NULL, out);
}

typedef struct step_state {
    ir_val h, c;
} step_state;

static ebb_status build_layers(nmt_builder *b, ir_val parent, nmt_layer *layers,
                               step_state *carried) {
    for (int32_t l = 0; l < (int32_t)b->m->dec_layers; l++) {
        TRY(ebb__nmt_layer(b, l, false, &layers[l]));
        layers[l].s = (cell_state){IR_NONE, IR_NONE};
        TRY(read_state(b, "h", l, parent, &carried[l].h, &layers[l].s.h));
        if (b->m->cell == LM_LSTM) {
            TRY(read_state(b, "c", l, parent, &carried[l].c, &layers[l].s.c));
        }
    }
    return EBB_OK;
}

/* What the next step starts from. */
static void carry(ir_graph *g, int32_t n, const nmt_layer *layers, const step_state *carried,
                  bool cells) {
    for (int32_t l = 0; l < n; l++) {
        g->values[carried[l].h].next = layers[l].s.h;
        if (cells) {
            g->values[carried[l].c].next = layers[l].s.c;
        }
    }
}

/* The memory of all slots, and the part of it that sources of at most S positions fill. */
static ebb_status add_memory(nmt_builder *b, const nmt_decode *d, const char *name, ir_val *out) {
    int32_t most = (int32_t)d->most;
    TRY(ebb__model_variable(&b->b, IR_INPUT, ebb__nmt_member(name, b->b.member).text, IR_F32,
                            most * b->B, b->H, out));
    return ebb__op_slice(b->b.g, *out, 0, (most - b->S) * b->B, b->S * b->B, out);
}

/* The mean of values that the members have, in place of the first. */
static ebb_status average(ir_graph *g, ir_val *values, int32_t n) {
    ir_attr share = {.f = {1.0F / (float)n}};
    for (int32_t i = 1; i < n; i++) {
        TRY(ebb__op_emit(g, OP_ADD, (ir_val[]){values[0], values[i]}, 2, NULL, &values[0]));
    }
    return n > 1 ? ebb__op_emit(g, OP_SCALE, &values[0], 1, &share, &values[0]) : EBB_OK;
}

/* The logarithms of the mean probabilities are the logits of an ensemble. */
static ebb_status offer(ir_graph *g, const nmt_decode *d, ir_val *logits) {
    ir_attr attr = {.i = {(int32_t)d->offers}};
    int32_t n = members_of(d);
    ir_val top[2];
    for (int32_t i = 0; n > 1 && i < n; i++) {
        TRY(ebb__op_emit(g, OP_SOFTMAX, &logits[i], 1, NULL, &logits[i]));
    }
    TRY(average(g, logits, n));
    if (n > 1) {
        TRY(ebb__op_emit(g, OP_LOG, &logits[0], 1, NULL, &logits[0]));
    }
    TRY(ebb__op_emit(g, OP_TOP_LOGS, &logits[0], 1, &attr, top));
    TRY(output(g, top[0], NMT_STEP_LOGS));
    return output(g, top[1], NMT_STEP_IDS);
}

/* What a member makes of the token: logits and, if asked for, attention weights. */
static ebb_status build_member(nmt_builder *b, const nmt_decode *d, ir_val token, ir_val parent,
                               ir_val *logits, ir_val *attention) {
    ir_graph *g = b->b.g;
    int32_t beam = (int32_t)d->beam, n = (int32_t)b->m->dec_layers;
    ir_val x = IR_NONE, fed = IR_NONE, carried_fed = IR_NONE;
    nmt_layer *layers = NULL;
    step_state *carried = NULL;
    ir_val *weights = NULL;
    TRY(REGION_ARRAYS(&g->region, ARRAY(layers, (size_t)n), ARRAY(carried, (size_t)n),
                      ARRAY(weights, (size_t)beam)));
    TRY(ebb__model_layer(&b->b, "data"));
    TRY(add_memory(b, d, NMT_STEP_MEMORY, &b->a.memory));
    TRY(add_memory(b, d, NMT_STEP_KEYS, &b->a.keys));
    TRY(ebb__nmt_tables(b));
    TRY(ebb__nmt_attention(b));
    TRY(build_layers(b, parent, layers, carried));
    if (b->m->feed) {
        TRY(read_state(b, "fed", 0, parent, &carried_fed, &fed));
    }
    TRY(ebb__model_layer(&b->b, "tgt.embed"));
    TRY(ebb__op_emit(g, OP_EMBED, (ir_val[]){b->tgt_table, token}, 2, NULL, &x));
    g->label.layer = layers[0].layer;
    TRY(ebb__cell_input(&b->b, &layers[0].p, x, &x));
    TRY(ebb__nmt_step(b, layers, 0, beam, x, &fed, weights));
    carry(g, n, layers, carried, b->m->cell == LM_LSTM);
    if (b->m->feed) {
        g->values[carried_fed].next = fed;
    }
    if (d->attention) {
        TRY(ebb__op_join(g, 0, weights, beam, attention));
    }
    return ebb__nmt_project(b, fed, logits);
}

static ebb_status build_step(const nmt_builder *first, const nmt_decode *d) {
    ir_graph *g = first->b.g;
    nmt_builder b = *first;
    int32_t rows = (int32_t)d->beam * b.B;
    ir_val token = IR_NONE, parent = IR_NONE, logits[NMT_MOST_MEMBERS], weights[NMT_MOST_MEMBERS];
    TRY(ebb__model_layer(&b.b, "data"));
    TRY(ebb__nmt_input(&b, NMT_STEP_TOKEN, rows, &token));
    TRY(ebb__nmt_input(&b, NMT_STEP_PARENT, rows, &parent));
    TRY(ebb__nmt_input(&b, NMT_STEP_LEN, b.B, &b.src_len));
    for (int32_t member = 0; member < members_of(d); member++) {
        nmt_builder own = b;
        own.b.member = member;
        TRY(build_member(&own, d, token, parent, &logits[member], &weights[member]));
    }
    if (d->attention) {
        TRY(average(g, weights, members_of(d)));
        TRY(output(g, weights[0], NMT_STEP_ATTENTION));
    }
    return offer(g, d, logits);
}

ebb_status ebb__nmt_decode_step(ir_graph *graph, const nmt_decode *d) {
    nmt_model m = d->model;
    nmt_builder b;
    m.tgt_len = 1;
    TRY(ebb__nmt_begin(graph, &m, &b));
    if (d->beam * m.batch > INT32_MAX / 4 || d->most * m.batch > INT32_MAX / 4) {
        return ebb__fail(graph->ctx, EBB_USAGE,
                         "--batch %" PRId64 " is too large for %" PRId64 " hypotheses and %" PRId64
                         " positions of each sentence",
                         m.batch, d->beam, d->most);
    }
    return build_step(&b, d);
}
