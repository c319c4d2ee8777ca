/* nmt_decode.c - see nmt_decode.h. */
#include "model/nmt_decode.h"

#include "model/nmt_parts.h"

#include <inttypes.h>
#include <stdio.h>

static ebb_status output(ir_graph *g, ir_val v, const char *name) {
    g->values[v].output = true;
    return ebb__ir_name(g, v, name);
}

/* A copy: one state of the encoder may start several layers. */
static ebb_status output_start(ir_graph *g, ir_val v, const char *what, int32_t layer) {
    char name[64];
    ir_val copy = IR_NONE;
    if (v == IR_NONE) {
        return EBB_OK;
    }
    (void)snprintf(name, sizeof name, "%s.%s%d", NMT_READ_START, what, layer);
    TRY(ebb__op_emit(g, OP_COPY, &v, 1, NULL, &copy));
    return output(g, copy, name);
}

ebb_status ebb__nmt_decode_read(ir_graph *graph, const nmt_decode *d, int64_t rows) {
    nmt_model m = d->model;
    nmt_builder b;
    m.batch = rows;
    m.tgt_len = 1;
    TRY(ebb__nmt_begin(graph, &m, &b));
    TRY(ebb__model_layer(&b.b, "data"));
    TRY(ebb__nmt_input(&b, NMT_READ_SRC, (int32_t)(m.src_len * rows), &b.src));
    TRY(ebb__nmt_input(&b, NMT_READ_LEN, (int32_t)rows, &b.src_len));
    TRY(ebb__nmt_tables(&b));
    TRY(ebb__nmt_encode(&b));
    TRY(output(graph, b.a.memory, NMT_READ_MEMORY));
    TRY(ebb__nmt_keys(&b));
    TRY(output(graph, b.a.keys, NMT_READ_KEYS));
    for (int32_t l = 0; m.init_decoder && l < (int32_t)m.dec_layers; l++) {
        cell_state start = ebb__nmt_start(&b, l);
        TRY(output_start(graph, start.h, "h", l));
        TRY(output_start(graph, start.c, "c", l));
    }
    return EBB_OK;
}

/* A state variable [K*B, H], its rows put in the order of the hypotheses' parents. */
static ebb_status read_state(nmt_builder *b, const char *what, int32_t layer, ir_val parent,
                             ir_val *variable, ir_val *out) {
    char name[64];
    int32_t rows = b->b.g->values[parent].type.dim[0];
    (void)snprintf(name, sizeof name, "%s.%s%d", NMT_STEP_STATE, what, layer);
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
    TRY(ebb__model_variable(&b->b, IR_INPUT, name, IR_F32, most * b->B, b->H, out));
    return ebb__op_slice(b->b.g, *out, 0, (most - b->S) * b->B, b->S * b->B, out);
}

static ebb_status offer(nmt_builder *b, const nmt_decode *d, ir_val hs) {
    ir_graph *g = b->b.g;
    ir_attr attr = {.i = {(int32_t)d->offers}};
    ir_val logits = IR_NONE, top[2];
    TRY(ebb__nmt_project(b, hs, &logits));
    TRY(ebb__op_emit(g, OP_TOP_LOGS, &logits, 1, &attr, top));
    TRY(output(g, top[0], NMT_STEP_LOGS));
    return output(g, top[1], NMT_STEP_IDS);
}

static ebb_status build_step(nmt_builder *b, const nmt_decode *d) {
    ir_graph *g = b->b.g;
    int32_t beam = (int32_t)d->beam, rows = beam * b->B, n = (int32_t)b->m->dec_layers;
    ir_val token = IR_NONE, parent = IR_NONE, x = IR_NONE, fed = IR_NONE, carried_fed = IR_NONE;
    nmt_layer *layers = NULL;
    step_state *carried = NULL;
    ir_val *weights = NULL, all = IR_NONE;
    TRY(REGION_ARRAYS(&g->region, ARRAY(layers, (size_t)n), ARRAY(carried, (size_t)n),
                      ARRAY(weights, (size_t)beam)));
    TRY(ebb__model_layer(&b->b, "data"));
    TRY(ebb__nmt_input(b, NMT_STEP_TOKEN, rows, &token));
    TRY(ebb__nmt_input(b, NMT_STEP_PARENT, rows, &parent));
    TRY(ebb__nmt_input(b, NMT_STEP_LEN, b->B, &b->src_len));
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
        TRY(ebb__op_join(g, 0, weights, beam, &all));
        TRY(output(g, all, NMT_STEP_ATTENTION));
    }
    return offer(b, d, fed);
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
