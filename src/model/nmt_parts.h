/* nmt_parts.h - pieces of the translation model that its graphs share: the one that learns (nmt.c)
 * and those that translate (nmt_decode.c). */
#ifndef MODEL_NMT_PARTS_H
#define MODEL_NMT_PARTS_H

#include "model/nmt.h"

typedef struct nmt_attender {
    int32_t layer, mix_layer;         /* labels */
    ir_val memory, keys;              /* [S*B, H] */
    ir_val w_query, b_query, w_score; /* [H, H], [H], [H]; MLP only */
    ir_val gain, bias;                /* [H]; layer norm only */
    ir_val mix_h, mix_c, mix_bias;    /* columns of mix.weight, [H, H] each; [H] */
} nmt_attender;

typedef struct nmt_layer {
    int32_t layer; /* label */
    cell_params p; /* of layer 0 with feeding, w_ih is the embedding's columns */
    ir_val w_feed; /* [G*H, H]: the other columns */
    cell_state s;
} nmt_layer;

typedef struct nmt_builder {
    model_builder b;
    const nmt_model *m;
    int32_t E, H, B, S, T;
    ir_val src, src_len, tgt_in, tgt_out;
    ir_val src_table, tgt_table;
    cell_state *finals; /* [enc_layers], [B, H]: of the encoder, with init_decoder */
    nmt_attender a;
} nmt_builder;

/* Everything but the sizes checked; B, S, T are the model's. */
ebb_status ebb__nmt_begin(ir_graph *graph, const nmt_model *model, nmt_builder *out) EBB_MUST_CHECK;
ebb_status ebb__nmt_input(nmt_builder *b, const char *name, int32_t count,
                          ir_val *out) EBB_MUST_CHECK;
ebb_status ebb__nmt_tables(nmt_builder *b) EBB_MUST_CHECK;
/* Reads b->src; makes b->a.memory and, with init_decoder, b->finals. */
ebb_status ebb__nmt_encode(nmt_builder *b) EBB_MUST_CHECK;
/* Parameters of the attention and of what mixes its result in; ebb__nmt_keys makes b->a.keys of the
 * memory. */
ebb_status ebb__nmt_attention(nmt_builder *b) EBB_MUST_CHECK;
ebb_status ebb__nmt_keys(nmt_builder *b) EBB_MUST_CHECK;
/* What decoder layer l starts from: the state of the encoder's layer of that number, or its last.
 */
cell_state ebb__nmt_start(const nmt_builder *b, int32_t l);
/* Parameters of decoder layer l; where `fresh`, its state starts: as zeros or ebb__nmt_start. */
ebb_status ebb__nmt_layer(nmt_builder *b, int32_t l, bool fresh, nmt_layer *d) EBB_MUST_CHECK;
/* One step of all layers and of the attention, for `groups` hypotheses of each of the B sentences:
 * rows are [groups*B]. z [., G*H] is the embedding's part of the first one's gates, *fed [., H] the
 * vector fed back, then the new one. weights, if not NULL: [groups] values [S, B]. */
ebb_status ebb__nmt_step(nmt_builder *b, nmt_layer *layers, int32_t t, int32_t groups, ir_val z,
                         ir_val *fed, ir_val *weights) EBB_MUST_CHECK;
/* hs [N, H] to logits [N, Vt]. */
ebb_status ebb__nmt_project(nmt_builder *b, ir_val hs, ir_val *logits) EBB_MUST_CHECK;

#endif
