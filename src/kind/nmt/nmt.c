/* nmt.c - translation with attention: pairs of sentences, on a few shapes (sentence_set.h). */
#include "kind/nmt/nmt.h"

#include "kind/kinds.h"
#include "kind/text/options.h"
#include "model/nmt_decode.h"

#include <stdio.h>
#include <string.h>

/* ---- the model ---- */

static data_shape plain_shape(const train_settings *s) {
    return ebb__sentence_shape(s, s->src_len, s->tgt_len);
}

static void vocab_sizes(const train_settings *s, job_request *request) {
    request->vocab = s->tgt_vocab;
    request->src_vocab = s->src_vocab;
}

static nmt_model model_of(const train_settings *s) {
    return (nmt_model){.cell = s->cell,
                       .attention = s->attention,
                       .embed = s->embed > 0 ? s->embed : s->hidden,
                       .hidden = s->hidden,
                       .enc_layers = s->enc_layers,
                       .dec_layers = s->dec_layers,
                       .batch = s->batch,
                       .feed = s->feed,
                       .layer_norm = s->layer_norm,
                       .bidirectional = s->bidirectional,
                       .residual = s->residual,
                       .init_decoder = s->init_decoder,
                       .tie = s->tie,
                       .tie_src = s->tie_src,
                       .seed = s->seed};
}

/* A step of translation, or reading sources of at most `length` tokens for it. */
static ebb_status build_decode(ir_graph *graph, const train_settings *s, const job_request *request,
                               int64_t length, job_use use) {
    const translate_options *o = &request->decode;
    nmt_decode d = {.model = model_of(s),
                    .most = o->max_src,
                    .beam = o->beam,
                    .offers = ebb__translate_offers(o, request->vocab),
                    .attention = o->attention || o->attended,
                    .members = o->members};
    d.model.src_vocab = request->src_vocab;
    d.model.tgt_vocab = request->vocab;
    d.model.src_len = length;
    d.model.batch = o->slots;
    return use == JOB_DECODE_STEP ? ebb__nmt_decode_step(graph, &d)
                                  : ebb__nmt_decode_read(graph, &d, ebb__translate_read_rows(o));
}

static ebb_status build(ir_graph *graph, const train_settings *s, const job_request *request,
                        data_shape shape, job_use use) {
    if (use == JOB_DECODE_STEP || use == JOB_DECODE_READ) {
        return build_decode(graph, s, request, shape.source, use);
    }
    nmt_model model = model_of(s);
    model.src_vocab = request->src_vocab;
    model.tgt_vocab = request->vocab;
    model.batch = ebb__sentence_rows(s, shape);
    model.src_len = shape.source;
    model.tgt_len = shape.target;
    model.dropout = use == JOB_TRAIN ? s->dropout : 0;
    model.smoothing = use == JOB_TRAIN ? s->smoothing : 0;
    model.predict = use == JOB_PREDICT;
    model.losses = use == JOB_SCORE || (use == JOB_VALID && request->line_bytes > 0);
    return ebb__nmt_build(graph, &model);
}

static uint64_t staging(const train_settings *s, const job_request *request) {
    job_request plain = {.shapes = {1, {plain_shape(s)}}};
    return ebb__sentence_staging(request->shapes.n > 0 ? request : &plain);
}

static ebb_status randomise(run_session *session, const train_settings *s) {
    job_request request = {0};
    run_place place = ebb__run_find(session, NMT_SRC_LEN);
    int32_t *lengths = NULL;
    vocab_sizes(s, &request);
    TRY(ebb__job_random_ids(session, NMT_SRC, request.src_vocab, s->seed, "bench.src"));
    TRY(ebb__job_random_ids(session, NMT_TGT_IN, request.vocab, s->seed, "bench.tgt_in"));
    TRY(ebb__job_random_ids(session, NMT_TGT_OUT, request.vocab, s->seed, "bench.tgt_out"));
    TRY(ebb__run_map(session, place, DEVICE_WRITE, &lengths));
    for (int64_t b = 0; b < s->batch; b++) {
        lengths[b] = (int32_t)s->src_len;
    }
    return ebb__run_unmap(session, place, DEVICE_WRITE, lengths);
}

static void set_longest(train_settings *s, int64_t source, int64_t target) {
    s->src_len = source;
    s->tgt_len = target;
}

/* ---- its texts ---- */

const sentence_inputs ebb__nmt_inputs = {
    .source = NMT_SRC, .lengths = NMT_SRC_LEN, .inputs = NMT_TGT_IN, .labels = NMT_TGT_OUT};

typedef struct nmt_corpus {
    text_corpus texts;           /* where words are shown, vocabularies from begin() on too */
    translate_options translate; /* slots 0: validation sentences are not translated */
} nmt_corpus;

static const char *vocab_file(const train_settings *s, kind_side side) {
    return s->tie_src ? "vocab.txt" : side == KIND_SOURCE ? "vocab.src.txt" : "vocab.tgt.txt";
}

/* Validation sentences are translated greedily, for their BLEU or to show some. */
static translate_options translation_of(const nmt_corpus *nmt) {
    enum { MOST_SLOTS = 64 };
    const train_settings *s = nmt->texts.base.s;
    if (s->valid_path == NULL || (s->valid_metric != METRIC_BLEU && s->samples == 0)) {
        return (translate_options){0};
    }
    uint32_t longest = 1;
    for (int32_t i = 0; i < nmt->texts.valid.options.shapes.n; i++) {
        longest = num_larger32(longest, nmt->texts.valid.options.shapes.at[i].source);
    }
    const data_shape *largest = &nmt->texts.train.options.shapes.at[0];
    int64_t rows = ebb__sentence_rows(s, ebb__sentence_shape(s, largest->source, largest->target));
    return (translate_options){.slots = rows < MOST_SLOTS ? (int32_t)rows : MOST_SLOTS,
                               .beam = 1,
                               .nbest = 1,
                               .max_src = (int32_t)longest,
                               .alpha = 1,
                               .ratio = 2};
}

/* Words are needed where translations are shown, or pieces of words are scored, or words are cut
 * anew in every epoch. */
static bool needs_words(const nmt_corpus *nmt) {
    const train_settings *s = nmt->texts.base.s;
    return s->codes_dropout > 0 ||
           (nmt->translate.slots > 0 && (s->samples > 0 || s->tokens == TEXT_BPE));
}

static ebb_status choose(corpus *c, job_request *request) {
    nmt_corpus *nmt = (nmt_corpus *)c;
    TRY(ebb__sentence_sets_choose(c, &nmt->texts.train, &nmt->texts.valid, request));
    request->decode = nmt->translate = translation_of(nmt);
    request->vocab_bytes = needs_words(nmt) ? ebb__vocabs_room(&nmt->texts.vocabs) : 0;
    return EBB_OK;
}

static ebb_status score(corpus *c, run_session *session, const job_observer *observer, double loss,
                        kind_scores *out, bool *stopped) {
    const nmt_corpus *nmt = (const nmt_corpus *)c;
    nmt_validation v = {.session = session,
                        .options = nmt->translate,
                        .pairs = &nmt->texts.valid.batches,
                        .tokens = c->s->tokens,
                        .samples = (uint64_t)c->s->samples,
                        .observer = observer};
    out->at[METRIC_PERPLEXITY] = ebb__text_perplexity(loss);
    for (int side = 0; needs_words(nmt) && side < KIND_SIDES; side++) {
        v.vocabs[side] = ebb__vocabs_of(&nmt->texts.vocabs, (kind_side)side);
    }
    return nmt->translate.slots > 0 ? ebb__nmt_validate(c->ctx, &v, &out->at[METRIC_BLEU], stopped)
                                    : EBB_OK;
}

static ebb_status begin(corpus *c, run_session *session) {
    nmt_corpus *nmt = (nmt_corpus *)c;
    text_vocabs *vocabs = &nmt->texts.vocabs;
    if (needs_words(nmt)) { /* the words again, now where they were planned to be */
        TRY(ebb__vocabs_load(c->ctx, c->dir, !c->resumed, vocabs));
        ebb__vocabs_move(vocabs, ebb__run_host(session, JOB_VOCAB, NULL));
        ebb__sentence_set_words(&nmt->texts.train,
                                (const data_vocab *[]){ebb__vocabs_of(vocabs, KIND_SOURCE),
                                                       ebb__vocabs_of(vocabs, KIND_TARGET)});
    }
    TRY(ebb__sentence_set_reader(&nmt->texts.train, session, JOB_TRAIN, &ebb__nmt_inputs,
                                 &c->train));
    return c->s->valid_path == NULL
               ? EBB_OK
               : ebb__sentence_set_reader(&nmt->texts.valid, session, JOB_VALID, &ebb__nmt_inputs,
                                          &c->valid);
}

/* ---- the kind ---- */

static bool sentences(const train_settings *s) {
    (void)s;
    return true;
}

static const char *const word_rows[] = {"src_embed.weight", "tgt_embed.weight", "out.weight",
                                        "out.bias", NULL};

static const kind_metric metrics[] = {
    [METRIC_PERPLEXITY] = {"perplexity", "valid ppl", "validation perplexity", .exponential = true},
    [METRIC_BLEU] = {"bleu", "BLEU", "BLEU of validation text", .higher = true}};

const model_kind ebb__kind_nmt = {
    .name = "nmt",
    .title = "Translation model",
    .what = "a translation model",
    .used_by = "decode or ebb eval nmt",
    .unit = "words",
    .missing = "ebb train nmt needs --train SRC TGT, the texts to learn from",
    .commands = ebb__nmt_commands,
    .n_commands = NMT_COMMANDS,
    .describe = ebb__nmt_describe,
    .options = &ebb__nmt_options,
    .metrics = metrics,
    .n_metrics = 2,
    .timed = true,
    .nats = true,
    .resolve = ebb__nmt_resolve,
    .check = ebb__nmt_check,
    .lacks = ebb__text_lacks,
    .sentences = sentences,
    .corpus = {.measure = ebb__texts_measure,
               .save = ebb__texts_save,
               .store = ebb__texts_store,
               .adopt = ebb__texts_adopt,
               .compare = ebb__texts_compare,
               .close = ebb__texts_close,
               .bytes = sizeof(nmt_corpus),
               .choose = choose,
               .begin = begin,
               .score = score},
    .labels = NMT_TGT_OUT,
    .vocab_file = vocab_file,
    .word_rows = word_rows,
    .shape = plain_shape,
    .vocab_sizes = vocab_sizes,
    .staging = staging,
    .build = build,
    .randomise = randomise,
    .set_longest = set_longest,
    .eval = ebb__nmt_eval,
    .decode_open = ebb__nmt_decode_open,
    .decode = ebb__nmt_decode,
    .score_open = ebb__nmt_score_open,
    .score = ebb__nmt_score};
