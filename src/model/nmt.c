/* nmt.c - see nmt.h. The encoder goes layer by layer, then time; the decoder time by time, then
 * layer, because with feeding a step needs all of the one before. */
#include "model/nmt_parts.h"

#include <inttypes.h>
#include <stdio.h>

#define NORM_EPS 1e-5F /* nn.LayerNorm's */
enum { MOST_CELLS = 2000000, MOST_SIZE = INT32_MAX / 4 };

/* A parameter of a layer with so many inputs. */
static ebb_status param(nmt_builder *b, const char *name, int64_t rows, int32_t cols,
                        int32_t inputs, ir_val *out) {
    return ebb__model_param(&b->b, name, (int32_t)rows, cols, ebb__model_uniform(inputs), out);
}

ebb_status ebb__nmt_input(nmt_builder *b, const char *name, int32_t count, ir_val *out) {
    return ebb__model_variable(&b->b, IR_INPUT, name, IR_I32, 0, count, out);
}

static void label(nmt_builder *b, int32_t layer, int32_t time) {
    b->b.g->label.layer = layer;
    b->b.g->label.at = time;
}

/* ---- what comes in ---- */

static ebb_status add_inputs(nmt_builder *b) {
    TRY(ebb__model_layer(&b->b, "data"));
    TRY(ebb__nmt_input(b, NMT_SRC, b->S * b->B, &b->src));
    TRY(ebb__nmt_input(b, NMT_SRC_LEN, b->B, &b->src_len));
    TRY(ebb__nmt_input(b, NMT_TGT_IN, b->T * b->B, &b->tgt_in));
    if (!b->m->predict) {
        TRY(ebb__nmt_input(b, NMT_TGT_OUT, b->T * b->B, &b->tgt_out));
    }
    return b->m->dropout > 0 ? ebb__nmt_input(b, NMT_STEP, 1, &b->b.step) : EBB_OK;
}

ebb_status ebb__nmt_tables(nmt_builder *b) {
    const ir_start normal = {.draw = IR_NORMAL, .scale = 1.0F};
    TRY(ebb__model_layer(&b->b, "tgt.embed"));
    TRY(ebb__model_param(&b->b, "tgt_embed.weight", (int32_t)b->m->tgt_vocab, b->E,
                         b->m->tie ? ebb__model_uniform(b->H) : normal, &b->tgt_table));
    b->src_table = b->tgt_table;
    if (b->m->tie_src) {
        return EBB_OK;
    }
    TRY(ebb__model_layer(&b->b, "src.embed"));
    return ebb__model_param(&b->b, "src_embed.weight", (int32_t)b->m->src_vocab, b->E, normal,
                            &b->src_table);
}

/* xs: [n] values [B, E], one for each block of B ids, which stand with time descending. */
static ebb_status embed(nmt_builder *b, const char *layer, ir_val table, ir_val ids, int32_t n,
                        ir_val *xs) {
    char site[32];
    (void)snprintf(site, sizeof site, "%s.drop", layer);
    TRY(ebb__model_layer(&b->b, layer));
    for (int32_t t = 0; t < n; t++) {
        ir_val at = IR_NONE;
        b->b.g->label.at = t;
        TRY(ebb__op_slice(b->b.g, ids, 0, (n - 1 - t) * b->B, b->B, &at));
        TRY(ebb__op_emit(b->b.g, OP_EMBED, (ir_val[]){table, at}, 2, NULL, &xs[t]));
        TRY(ebb__model_dropout(&b->b, site, t, &xs[t]));
    }
    return EBB_OK;
}

/* ---- encoder ---- */

/* After padding a state is zero: the reverse direction starts at a sentence's last token, and no
 * reader sees what padding holds. */
static ebb_status mask(nmt_builder *b, int32_t position, ir_val *x) {
    ir_attr attr = {.i = {position}};
    if (*x == IR_NONE) {
        return EBB_OK;
    }
    return ebb__op_emit(b->b.g, OP_MASK_ROWS, (ir_val[]){*x, b->src_len}, 2, &attr, x);
}

/* Adds x [B, H], of position t and zero in padding, to *sum where t is a source's last: what is not
 * zero at t but would be at t + 1 if that were asked. */
static ebb_status add_last(nmt_builder *b, int32_t t, ir_val x, ir_val *sum) {
    ir_val beyond = x, last = IR_NONE;
    if (x == IR_NONE) {
        return EBB_OK;
    }
    TRY(mask(b, t + 1, &beyond));
    TRY(ebb__op_emit(b->b.g, OP_SUB, (ir_val[]){x, beyond}, 2, NULL, &last));
    if (*sum == IR_NONE) {
        *sum = last;
        return EBB_OK;
    }
    return ebb__op_emit(b->b.g, OP_ADD, (ir_val[]){*sum, last}, 2, NULL, sum);
}

/* One direction of one layer: xs [S] values [B, in] to ys [S] values [B, hidden]; *final, if not
 * NULL, is its state after the last token it reads. All projections come first, in the order of
 * positions whatever the direction: sums over time then run the same way, and both directions share
 * one stack of inputs. */
static ebb_status build_direction(nmt_builder *b, const char *label_name, int32_t layer,
                                  bool reverse, int32_t hidden, const ir_val *xs, ir_val *ys,
                                  cell_state *final) {
    ir_graph *g = b->b.g;
    cell_params p;
    cell_state s;
    TRY(ebb__model_layer(&b->b, label_name));
    TRY(ebb__cell_params(&b->b, "enc", layer, reverse ? "_reverse" : "", layer == 0 ? b->E : b->H,
                         hidden, &p));
    TRY(ebb__cell_zeros(&b->b, b->B, hidden, &s));
    for (int32_t t = 0; t < b->S; t++) {
        g->label.at = t;
        TRY(ebb__cell_input(&b->b, &p, xs[t], &ys[t]));
    }
    for (int32_t i = 0; i < b->S; i++) {
        int32_t t = reverse ? b->S - 1 - i : i;
        g->label.at = t;
        TRY(ebb__cell_step(&b->b, &p, ys[t], &s));
        TRY(mask(b, t, &s.h));
        TRY(mask(b, t, &s.c));
        ys[t] = s.h;
        if (final != NULL && !reverse) {
            TRY(add_last(b, t, s.h, &final->h));
            TRY(add_last(b, t, s.c, &final->c));
        }
    }
    if (final != NULL && reverse) {
        *final = s;
    }
    return EBB_OK;
}

/* Both directions, half of the units each: ys [S] values [B, H]; more: room for 2 S. */
static ebb_status build_both(nmt_builder *b, int32_t layer, const ir_val *xs, ir_val *ys,
                             ir_val *more) {
    char forward[32], backward[32];
    ir_graph *g = b->b.g;
    cell_state last[2] = {{IR_NONE, IR_NONE}, {IR_NONE, IR_NONE}}, *to = b->finals;
    (void)snprintf(forward, sizeof forward, "enc.l%d.fwd", layer);
    (void)snprintf(backward, sizeof backward, "enc.l%d.rev", layer);
    TRY(build_direction(b, forward, layer, false, b->H / 2, xs, more, to ? &last[0] : NULL));
    TRY(build_direction(b, backward, layer, true, b->H / 2, xs, more + b->S, to ? &last[1] : NULL));
    for (int32_t t = 0; t < b->S; t++) {
        g->label.at = t;
        TRY(ebb__op_join(g, 1, (ir_val[]){more[t], more[b->S + t]}, 2, &ys[t]));
    }
    if (to == NULL) {
        return EBB_OK;
    }
    g->label.at = 0;
    TRY(ebb__op_join(g, 1, (ir_val[]){last[0].h, last[1].h}, 2, &to[layer].h));
    return last[0].c == IR_NONE
               ? EBB_OK
               : ebb__op_join(g, 1, (ir_val[]){last[0].c, last[1].c}, 2, &to[layer].c);
}

/* xs: [S] values, replaced by the layer's outputs [B, H]; ys: room for 3 S. */
static ebb_status build_encoder_layer(nmt_builder *b, int32_t layer, ir_val *xs, ir_val *ys) {
    char name[32], site[32];
    ir_graph *g = b->b.g;
    (void)snprintf(name, sizeof name, "enc.l%d", layer);
    (void)snprintf(site, sizeof site, "enc.l%d.drop", layer);
    if (layer == 0 || b->m->bidirectional) {
        TRY(build_both(b, layer, xs, ys, ys + b->S));
    } else {
        TRY(build_direction(b, name, layer, false, b->H, xs, ys,
                            b->finals != NULL ? &b->finals[layer] : NULL));
    }
    for (int32_t t = 0; t < b->S; t++) {
        g->label.at = t;
        if (layer > 0 && b->m->residual) {
            TRY(ebb__op_emit(g, OP_ADD, (ir_val[]){ys[t], xs[t]}, 2, NULL, &ys[t]));
        }
        xs[t] = ys[t];
        if (layer + 1 < b->m->enc_layers) {
            TRY(ebb__model_dropout(&b->b, site, t, &xs[t]));
        }
    }
    return EBB_OK;
}

ebb_status ebb__nmt_encode(nmt_builder *b) {
    alloc_region *region = &b->b.g->region;
    int32_t layers = (int32_t)b->m->enc_layers;
    ir_val *xs = NULL;
    TRY(ebb__region_alloc(region, 4 * (size_t)b->S, sizeof *xs, &xs));
    if (b->m->init_decoder) {
        TRY(ebb__region_alloc(region, (size_t)layers, sizeof *b->finals, &b->finals));
        for (int32_t l = 0; l < layers; l++) {
            b->finals[l] = (cell_state){IR_NONE, IR_NONE};
        }
    }
    TRY(embed(b, "src.embed", b->src_table, b->src, b->S, xs));
    for (int32_t l = 0; l < layers; l++) {
        TRY(build_encoder_layer(b, l, xs, xs + b->S));
    }
    b->b.g->label.at = -1;
    ebb__model_reverse(xs, b->S);
    return ebb__op_join(b->b.g, 0, xs, b->S, &b->a.memory);
}

/* ---- attention ---- */

static ebb_status norm(nmt_builder *b, ir_val *x) {
    ir_val out[2]; /* y, and what its gradient reads */
    ir_attr attr = {.i = {b->B}, .f = {NORM_EPS}};
    if (!b->m->layer_norm) {
        return EBB_OK;
    }
    TRY(ebb__op_emit(b->b.g, OP_LAYER_NORM, (ir_val[]){*x, b->a.gain, b->a.bias}, 3, &attr, out));
    *x = out[0];
    return EBB_OK;
}

ebb_status ebb__nmt_attention(nmt_builder *b) {
    nmt_attender *a = &b->a;
    ir_val weight = IR_NONE;
    TRY(ebb__model_layer(&b->b, "attn"));
    a->layer = b->b.g->label.layer;
    if (b->m->attention == NMT_MLP) {
        TRY(param(b, "attn.query.weight", b->H, b->H, b->H, &a->w_query));
        TRY(param(b, "attn.query.bias", 0, b->H, b->H, &a->b_query));
        TRY(param(b, "attn.score.weight", 0, b->H, b->H, &a->w_score));
    }
    if (b->m->layer_norm) {
        const ir_start one = {.draw = IR_CONSTANT, .scale = 1}, zero = {.draw = IR_CONSTANT};
        TRY(ebb__model_param(&b->b, "attn.norm.weight", 0, b->H, one, &a->gain));
        TRY(ebb__model_param(&b->b, "attn.norm.bias", 0, b->H, zero, &a->bias));
    }
    TRY(ebb__model_layer(&b->b, "mix"));
    a->mix_layer = b->b.g->label.layer;
    TRY(param(b, "mix.weight", b->H, 2 * b->H, 2 * b->H, &weight));
    TRY(param(b, "mix.bias", 0, b->H, 2 * b->H, &a->mix_bias));
    TRY(ebb__op_slice(b->b.g, weight, 1, 0, b->H, &a->mix_h));
    return ebb__op_slice(b->b.g, weight, 1, b->H, b->H, &a->mix_c);
}

ebb_status ebb__nmt_keys(nmt_builder *b) {
    ir_val weight = IR_NONE;
    TRY(ebb__model_layer(&b->b, "keys"));
    TRY(param(b, "attn.key.weight", b->H, b->H, b->H, &weight));
    return ebb__op_linear(b->b.g, IR_NONE, b->a.memory, weight, &b->a.keys);
}

/* What scores are made of: of h [N, H] the query [N, H]. */
static ebb_status query(nmt_builder *b, ir_val h, ir_val *out) {
    if (b->m->attention == NMT_DOT) {
        *out = h;
        return norm(b, out);
    }
    return ebb__op_linear(b->b.g, b->a.b_query, h, b->a.w_query, out);
}

/* A query [B, H] to the scores of all source positions, [S, B]. */
static ebb_status score(nmt_builder *b, ir_val q, ir_val *out) {
    ir_graph *g = b->b.g;
    const nmt_attender *a = &b->a;
    ir_attr attr = {.i = {b->B}};
    ir_val x = IR_NONE; /* [S*B, H] */
    if (b->m->attention == NMT_DOT) {
        return ebb__op_emit(g, OP_DOT_EACH, (ir_val[]){a->keys, q}, 2, NULL, out);
    }
    TRY(ebb__op_emit(g, OP_ADD_EACH, (ir_val[]){a->keys, q}, 2, NULL, &x));
    TRY(norm(b, &x));
    TRY(ebb__op_emit(g, OP_TANH, &x, 1, NULL, &x));
    return ebb__op_emit(g, OP_DOT_ROWS, (ir_val[]){x, a->w_score}, 2, &attr, out);
}

/* A query [B, H] to the weights of all positions, [S, B], and what they sum the memory to. */
static ebb_status look(nmt_builder *b, ir_val q, ir_val *weights, ir_val *context) {
    ir_graph *g = b->b.g;
    ir_val s = IR_NONE; /* [S, B] */
    TRY(score(b, q, &s));
    TRY(ebb__op_emit(g, OP_MASK_SOFTMAX, (ir_val[]){s, b->src_len}, 2, NULL, weights));
    return ebb__op_emit(g, OP_WEIGHTED_SUM, (ir_val[]){*weights, b->a.memory}, 2, NULL, context);
}

/* The same for groups of B rows, which attend to the same B sentences. */
static ebb_status look_all(nmt_builder *b, int32_t groups, ir_val q, ir_val *weights,
                           ir_val *context) {
    ir_graph *g = b->b.g;
    ir_val *contexts = NULL, part = IR_NONE, w = IR_NONE;
    if (groups == 1) {
        return look(b, q, weights != NULL ? weights : &w, context);
    }
    TRY(ebb__region_alloc(&g->region, (size_t)groups, sizeof *contexts, &contexts));
    for (int32_t k = 0; k < groups; k++) {
        TRY(ebb__op_slice(g, q, 0, k * b->B, b->B, &part));
        TRY(look(b, part, weights != NULL ? &weights[k] : &w, &contexts[k]));
    }
    return ebb__op_join(g, 0, contexts, groups, context);
}

/* h [N, H] and what it attends to, mixed: y [N, H]. */
static ebb_status attend(nmt_builder *b, int32_t t, int32_t groups, ir_val h, ir_val *y,
                         ir_val *weights) {
    const nmt_attender *a = &b->a;
    ir_val q = IR_NONE, context = IR_NONE; /* [N, H] */
    label(b, a->layer, t);
    TRY(query(b, h, &q));
    TRY(look_all(b, groups, q, weights, &context));
    label(b, a->mix_layer, t);
    TRY(ebb__op_linear(b->b.g, a->mix_bias, h, a->mix_h, y));
    TRY(ebb__op_linear(b->b.g, *y, context, a->mix_c, y));
    return ebb__op_emit(b->b.g, OP_TANH, y, 1, NULL, y);
}

/* ---- decoder ---- */

cell_state ebb__nmt_start(const nmt_builder *b, int32_t l) {
    int32_t last = (int32_t)b->m->enc_layers - 1;
    return b->finals[l < last ? l : last];
}

ebb_status ebb__nmt_layer(nmt_builder *b, int32_t l, bool fresh, nmt_layer *d) {
    char name[32];
    bool fed = l == 0 && b->m->feed;
    ir_val weight = IR_NONE;
    (void)snprintf(name, sizeof name, "dec.l%d", l);
    TRY(ebb__model_layer(&b->b, name));
    d->layer = b->b.g->label.layer;
    TRY(ebb__cell_params(&b->b, "dec", l, "",
                         l > 0 ? b->H
                         : fed ? b->E + b->H
                               : b->E,
                         b->H, &d->p));
    if (fresh && b->m->init_decoder) {
        d->s = ebb__nmt_start(b, l);
    } else if (fresh) {
        TRY(ebb__cell_zeros(&b->b, b->B, b->H, &d->s));
    }
    if (fed) {
        weight = d->p.w_ih;
        TRY(ebb__op_slice(b->b.g, weight, 1, 0, b->E, &d->p.w_ih));
        TRY(ebb__op_slice(b->b.g, weight, 1, b->E, b->H, &d->w_feed));
    }
    return EBB_OK;
}

ebb_status ebb__nmt_step(nmt_builder *b, nmt_layer *layers, int32_t t, int32_t groups, ir_val z,
                         ir_val *fed, ir_val *weights) {
    ir_val x = IR_NONE;
    for (int32_t l = 0; l < (int32_t)b->m->dec_layers; l++) {
        nmt_layer *d = &layers[l];
        char site[32];
        label(b, d->layer, t);
        if (l > 0) {
            (void)snprintf(site, sizeof site, "dec.l%d.drop", l - 1);
            TRY(ebb__model_dropout(&b->b, site, t, &x));
            TRY(ebb__cell_input(&b->b, &d->p, x, &z));
        } else if (b->m->feed) {
            TRY(ebb__op_linear(b->b.g, z, *fed, d->w_feed, &z));
        }
        TRY(ebb__cell_step(&b->b, &d->p, z, &d->s));
        if (l > 0 && b->m->residual) {
            TRY(ebb__op_emit(b->b.g, OP_ADD, (ir_val[]){d->s.h, x}, 2, NULL, &x));
        } else {
            x = d->s.h;
        }
    }
    return attend(b, t, groups, x, fed, weights);
}

/* ys: [T] values, first the embeddings [B, E], then what the projection reads [B, H]. */
static ebb_status build_decoder(nmt_builder *b, ir_val *ys) {
    nmt_layer *layers = NULL;
    ir_val fed = IR_NONE;
    TRY(ebb__region_alloc(&b->b.g->region, (size_t)b->m->dec_layers, sizeof *layers, &layers));
    for (int32_t l = 0; l < (int32_t)b->m->dec_layers; l++) {
        TRY(ebb__nmt_layer(b, l, true, &layers[l]));
    }
    label(b, layers[0].layer, -1);
    if (b->m->feed) {
        TRY(ebb__model_zeros(&b->b, b->B, b->H, &fed));
    }
    for (int32_t t = 0; t < b->T; t++) {
        b->b.g->label.at = t;
        TRY(ebb__cell_input(&b->b, &layers[0].p, ys[t], &ys[t]));
    }
    for (int32_t t = 0; t < b->T; t++) {
        TRY(ebb__nmt_step(b, layers, t, 1, ys[t], &fed, NULL));
        ys[t] = fed;
        TRY(ebb__model_dropout(&b->b, "out.drop", t, &ys[t]));
    }
    return EBB_OK;
}

ebb_status ebb__nmt_project(nmt_builder *b, ir_val hs, ir_val *logits) {
    ir_val weight = b->tgt_table, bias = IR_NONE;
    TRY(ebb__model_layer(&b->b, "out"));
    if (!b->m->tie) {
        TRY(param(b, "out.weight", b->m->tgt_vocab, b->H, b->H, &weight));
    }
    TRY(param(b, "out.bias", 0, (int32_t)b->m->tgt_vocab, b->H, &bias));
    return ebb__op_linear(b->b.g, bias, hs, weight, logits);
}

static ebb_status build_output(nmt_builder *b, ir_val *ys) {
    ir_attr smooth = {.f = {(float)b->m->smoothing}};
    ir_val hs = IR_NONE, logits = IR_NONE; /* [T*B, H], [T*B, Vt] */
    ir_val rows[2];
    TRY(ebb__model_layer(&b->b, "out"));
    ebb__model_reverse(ys, b->T);
    TRY(ebb__op_join(b->b.g, 0, ys, b->T, &hs));
    TRY(ebb__nmt_project(b, hs, &logits));
    if (b->m->predict) {
        b->b.g->values[logits].output = true;
        return ebb__ir_name(b->b.g, logits, NMT_LOGITS);
    }
    TRY(ebb__op_emit(b->b.g, OP_XENT, (ir_val[]){logits, b->tgt_out}, 2, &smooth, rows));
    if (b->m->losses) {
        b->b.g->values[rows[0]].output = true;
        TRY(ebb__ir_name(b->b.g, rows[0], NMT_LOSSES));
    }
    return ebb__model_loss(&b->b, rows[0], b->tgt_out, NMT_LOSS);
}

/* ---- sizes ---- */

static ebb_status check_lengths(const ir_graph *g, const nmt_model *m) {
    const struct {
        const char *name;
        int64_t length, cells;
    } sides[] = {{"src-len", m->src_len, (m->enc_layers + 1) * m->src_len},
                 {"tgt-len", m->tgt_len, (m->dec_layers + 1) * m->tgt_len}};
    for (size_t i = 0; i < sizeof sides / sizeof *sides; i++) {
        if (sides[i].length * m->batch > MOST_SIZE) {
            return ebb__fail(g->ctx, EBB_USAGE,
                             "--%s %" PRId64 " times --batch %" PRId64 " is more than %d positions",
                             sides[i].name, sides[i].length, m->batch, MOST_SIZE);
        }
    }
    if (sides[0].cells + sides[1].cells > MOST_CELLS) {
        return ebb__fail(g->ctx, EBB_USAGE,
                         "--src-len %" PRId64 " and --tgt-len %" PRId64
                         " with these layers make %" PRId64 " cells, more than %d",
                         m->src_len, m->tgt_len, sides[0].cells + sides[1].cells, MOST_CELLS);
    }
    return EBB_OK;
}

static ebb_status check_switches(const ir_graph *g, const nmt_model *m) {
    if (m->hidden % 2 != 0) {
        return ebb__fail(g->ctx, EBB_USAGE,
                         "--hidden %" PRId64
                         " is odd; each way of the first encoder layer takes half of it",
                         m->hidden);
    }
    if (m->tie && m->embed != m->hidden) {
        return ebb__fail(g->ctx, EBB_USAGE,
                         "--tie needs --embed equal to --hidden (%" PRId64 " and %" PRId64 ")",
                         m->embed, m->hidden);
    }
    if (m->tie_src && m->src_vocab != m->tgt_vocab) {
        return ebb__fail(g->ctx, EBB_USAGE,
                         "--tie-src needs as many source as target words (%" PRId64 " and %" PRId64
                         ")",
                         m->src_vocab, m->tgt_vocab);
    }
    if (!(m->dropout >= 0 && m->dropout < 1)) {
        return ebb__fail(g->ctx, EBB_USAGE, "--dropout %g is not in [0, 1)", m->dropout);
    }
    if (!(m->smoothing >= 0 && m->smoothing < 1)) {
        return ebb__fail(g->ctx, EBB_USAGE, "--smoothing %g is not in [0, 1)", m->smoothing);
    }
    return EBB_OK;
}

static ebb_status check(const ir_graph *g, const nmt_model *m) {
    const struct {
        const char *name;
        int64_t value;
    } sizes[] = {
        {"enc-layers", m->enc_layers}, {"dec-layers", m->dec_layers}, {"hidden", m->hidden},
        {"embed", m->embed},           {"src-vocab", m->src_vocab},   {"tgt-vocab", m->tgt_vocab},
        {"batch", m->batch},           {"src-len", m->src_len},       {"tgt-len", m->tgt_len}};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        if (sizes[i].value < 1 || sizes[i].value > MOST_SIZE) {
            return ebb__fail(g->ctx, EBB_USAGE, "--%s %" PRId64 " is not in 1..%d", sizes[i].name,
                             sizes[i].value, MOST_SIZE);
        }
    }
    TRY(check_switches(g, m));
    return check_lengths(g, m);
}

ebb_status ebb__nmt_begin(ir_graph *graph, const nmt_model *m, nmt_builder *out) {
    TRY(check(graph, m));
    *out = (nmt_builder){.b = {.g = graph,
                               .cell = m->cell,
                               .batch = (int32_t)m->batch,
                               .dropout = m->dropout,
                               .seed = m->seed,
                               .step = IR_NONE},
                         .m = m,
                         .E = (int32_t)m->embed,
                         .H = (int32_t)m->hidden,
                         .B = (int32_t)m->batch,
                         .S = (int32_t)m->src_len,
                         .T = (int32_t)m->tgt_len};
    return EBB_OK;
}

ebb_status ebb__nmt_build(ir_graph *graph, const nmt_model *m) {
    nmt_builder b;
    ir_val *ys = NULL;
    TRY(ebb__nmt_begin(graph, m, &b));
    TRY(ebb__region_alloc(&graph->region, (size_t)m->tgt_len, sizeof *ys, &ys));
    TRY(add_inputs(&b));
    TRY(ebb__nmt_tables(&b));
    TRY(ebb__nmt_encode(&b));
    TRY(ebb__nmt_attention(&b));
    TRY(ebb__nmt_keys(&b));
    TRY(embed(&b, "tgt.embed", b.tgt_table, b.tgt_in, b.T, ys));
    TRY(build_decoder(&b, ys));
    return build_output(&b, ys);
}
