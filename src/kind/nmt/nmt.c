/* nmt.c - translation with attention: pairs of sentences, on a few shapes (sentence_set.h). */
#include "kind/nmt/nmt.h"

#include "kind/kinds.h"
#include "kind/text/options.h"
#include "model/nmt_decode.h"

#include <float.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

/* ---- the model ---- */

static int64_t vocab_of(int64_t side, const train_settings *s) {
    return side > 0 ? side : s->vocab;
}

static data_shape plain_shape(const train_settings *s) {
    return ebb__sentence_shape(s, s->src_len, s->tgt_len);
}

static void sizes(const train_settings *s, job_request *request) {
    request->vocab = vocab_of(s->tgt_vocab, s);
    request->src_vocab = vocab_of(s->src_vocab, s);
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
                    .attention = o->attention};
    d.model.src_vocab = request->src_vocab;
    d.model.tgt_vocab = request->vocab;
    d.model.src_len = length;
    d.model.batch = o->slots;
    return use == JOB_DECODE_STEP ? ebb__nmt_decode_step(graph, &d)
                                  : ebb__nmt_decode_read(graph, &d, ebb__translate_rows(o));
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
    sizes(s, &request);
    TRY(ebb__job_random_ids(session, NMT_SRC, request.src_vocab, s->seed, "bench.src"));
    TRY(ebb__job_random_ids(session, NMT_TGT_IN, request.vocab, s->seed, "bench.tgt_in"));
    TRY(ebb__job_random_ids(session, NMT_TGT_OUT, request.vocab, s->seed, "bench.tgt_out"));
    TRY(ebb__run_map(session, place, DEVICE_WRITE, &lengths));
    for (int64_t b = 0; b < s->batch; b++) {
        lengths[b] = (int32_t)s->src_len;
    }
    return ebb__run_unmap(session, place, DEVICE_WRITE, lengths);
}

static void planned(train_settings *s, int64_t source, int64_t target) {
    s->src_len = source;
    s->tgt_len = target;
}

/* ---- its texts ---- */

const sentence_inputs ebb__nmt_inputs = {
    .source = NMT_SRC, .lengths = NMT_SRC_LEN, .inputs = NMT_TGT_IN, .labels = NMT_TGT_OUT};

typedef struct nmt_corpus {
    corpus base;
    data_vocab vocab[KIND_SIDES]; /* from measure() to store(); a joint one is the first */
    sentence_set train, valid;
    translate_options translate; /* slots 0: validation sentences are not translated */
} nmt_corpus;

static int32_t n_vocabs(const corpus *c) {
    return c->s->tie_src ? 1 : KIND_SIDES;
}

static const char *vocab_file(const train_settings *s, kind_side side) {
    return s->tie_src ? "vocab.txt" : side == KIND_SOURCE ? "vocab.src.txt" : "vocab.tgt.txt";
}

static const char *fresh_vocab_file(const train_settings *s, kind_side side) {
    return s->tie_src ? "vocab.new" : side == KIND_SOURCE ? "vocab.src.new" : "vocab.tgt.new";
}

static ebb_status open_vocab(nmt_corpus *nmt, int side, uint64_t most) {
    const corpus *c = &nmt->base;
    const train_settings *s = c->s;
    char path[JOB_PATH_BYTES];
    if (c->resumed) {
        TRY(ebb__job_path(c->ctx, c->dir, vocab_file(c->s, (kind_side)side), path));
        return ebb__vocab_load(c->ctx, path, &nmt->vocab[side]);
    }
    vocab_options options = {
        .mode = s->tokens,
        .also = s->tie_src ? s->train_target : NULL,
        .limit = (size_t)vocab_of(side == KIND_SOURCE ? s->src_vocab : s->tgt_vocab, s),
        .max_bytes = most};
    return ebb__vocab_build(c->ctx, side == KIND_SOURCE ? s->train_path : s->train_target, &options,
                            &nmt->vocab[side]);
}

static const data_vocab *vocab_at(const nmt_corpus *nmt, int side) {
    return &nmt->vocab[nmt->base.s->tie_src ? 0 : side];
}

/* Validation sentences are translated greedily, for their BLEU or to show some. */
static translate_options translation_of(const nmt_corpus *nmt) {
    enum { MOST_SLOTS = 64 };
    const train_settings *s = nmt->base.s;
    if (s->valid_path == NULL || (s->valid_metric != METRIC_BLEU && s->samples == 0)) {
        return (translate_options){0};
    }
    uint32_t longest = 1;
    for (int32_t i = 0; i < nmt->valid.options.shapes.n; i++) {
        longest = num_larger32(longest, nmt->valid.options.shapes.at[i].source);
    }
    const data_shape *largest = &nmt->train.options.shapes.at[0];
    int64_t rows = ebb__sentence_rows(s, ebb__sentence_shape(s, largest->source, largest->target));
    return (translate_options){.slots = rows < MOST_SLOTS ? (int32_t)rows : MOST_SLOTS,
                               .beam = 1,
                               .nbest = 1,
                               .max_src = (int32_t)longest,
                               .alpha = 1,
                               .ratio = 2};
}

/* Words are needed where translations are shown. */
static bool shows_words(const nmt_corpus *nmt) {
    return nmt->translate.slots > 0 && nmt->base.s->samples > 0;
}

static ebb_status measure(corpus *c, uint64_t most, job_request *request) {
    nmt_corpus *nmt = (nmt_corpus *)c;
    const train_settings *s = c->s;
    const char *train[] = {s->train_path, s->train_target};
    const char *valid[] = {s->valid_path, s->valid_target};
    ebb__sentence_set_init(&nmt->train);
    ebb__sentence_set_init(&nmt->valid);
    c->sets[0] = &nmt->train, c->sets[1] = &nmt->valid;
    TRY(ebb__sentence_set_scan(c->ctx, s, train, c->silent, &nmt->train));
    nmt->train.options.shuffle = true;
    if (s->valid_path != NULL) {
        TRY(ebb__sentence_set_scan(c->ctx, s, valid, c->silent, &nmt->valid));
    }
    for (int side = 0; side < n_vocabs(c); side++) {
        TRY(open_vocab(nmt, side, most));
    }
    uint64_t hash = ebb__kind_join_hashes(ebb__vocab_hash(vocab_at(nmt, KIND_SOURCE)),
                                          ebb__vocab_hash(vocab_at(nmt, KIND_TARGET)));
    if (c->resumed && hash != c->vocab_hash) {
        return ebb__fail(c->ctx, EBB_MODEL,
                         "%s: its vocabularies are not those the run was started with", c->dir);
    }
    c->vocab_hash = hash;
    TRY(ebb__use_check_init(c));
    request->src_vocab = vocab_at(nmt, KIND_SOURCE)->count;
    request->vocab = vocab_at(nmt, KIND_TARGET)->count;
    return EBB_OK;
}

static ebb_status choose(corpus *c, job_request *request) {
    nmt_corpus *nmt = (nmt_corpus *)c;
    TRY(ebb__sentence_sets_choose(c, &nmt->train, &nmt->valid, request));
    request->decode = nmt->translate = translation_of(nmt);
    request->vocab_bytes = 0;
    for (int side = 0; shows_words(nmt) && side < n_vocabs(c); side++) {
        request->vocab_bytes += ebb__vocab_room(&nmt->vocab[side]);
    }
    return EBB_OK;
}

static ebb_status store_set(const nmt_corpus *nmt, const char *name,
                            const char *const texts[KIND_SIDES], sentence_set *set) {
    static const char *const parts[] = {"src.tokens", "tgt.tokens", "index"};
    const corpus *c = &nmt->base;
    char file[64], path[KIND_SIDES + 1][JOB_PATH_BYTES];
    const char *const paths[] = {path[0], path[1], path[2]};
    const data_vocab *vocabs[] = {vocab_at(nmt, KIND_SOURCE), vocab_at(nmt, KIND_TARGET)};
    for (int i = 0; i <= KIND_SIDES; i++) {
        (void)snprintf(file, sizeof file, "%s.%s", name, parts[i]);
        TRY(ebb__job_path(c->ctx, c->dir, file, path[i]));
    }
    return ebb__sentence_set_store(c->ctx, c->s, texts, vocabs, paths, true, set);
}

static uint64_t set_hash(const sentence_set *set) {
    return ebb__kind_join_hashes(set->tokens[KIND_SOURCE].ids_hash,
                                 set->tokens[KIND_TARGET].ids_hash);
}

static ebb_status save(corpus *c) {
    nmt_corpus *nmt = (nmt_corpus *)c;
    char path[JOB_PATH_BYTES];
    for (int side = 0; side < n_vocabs(c); side++) {
        TRY(ebb__job_path(c->ctx, c->dir, fresh_vocab_file(c->s, (kind_side)side), path));
        TRY(ebb__vocab_save(&nmt->vocab[side], path));
    }
    return EBB_OK;
}

static ebb_status store(corpus *c) {
    nmt_corpus *nmt = (nmt_corpus *)c;
    const train_settings *s = c->s;
    const char *train[] = {s->train_path, s->train_target};
    const char *valid[] = {s->valid_path, s->valid_target};
    TRY(store_set(nmt, "train", train, &nmt->train));
    TRY(ebb__corpus_same(c, s->train_path, nmt->train.sentences, set_hash(&nmt->train), "pairs"));
    TRY(ebb__sentence_set_held(&nmt->train, c->dir));
    if (s->valid_path != NULL) {
        TRY(store_set(nmt, "valid", valid, &nmt->valid));
        TRY(ebb__corpus_same_valid(c, s->valid_path, set_hash(&nmt->valid)));
    }
    TRY(c->resumed ? EBB_OK : save(c));
    for (int side = 0; side < n_vocabs(c); side++) {
        ebb__vocab_free(&nmt->vocab[side]);
    }
    return EBB_OK;
}

static ebb_status adopt(corpus *c) {
    for (int side = 0; side < n_vocabs(c); side++) {
        TRY(ebb__corpus_adopt(c, fresh_vocab_file(c->s, (kind_side)side),
                              vocab_file(c->s, (kind_side)side)));
    }
    return EBB_OK;
}

/* The words again, now where they were planned to be. */
static ebb_status load_words(nmt_corpus *nmt, run_session *session) {
    const corpus *c = &nmt->base;
    char path[JOB_PATH_BYTES], *to = ebb__run_host(session, JOB_VOCAB, NULL);
    for (int side = 0; side < n_vocabs(c); side++) {
        const char *file = c->resumed ? vocab_file(c->s, (kind_side)side)
                                      : fresh_vocab_file(c->s, (kind_side)side);
        TRY(ebb__job_path(c->ctx, c->dir, file, path));
        TRY(ebb__vocab_load(c->ctx, path, &nmt->vocab[side]));
        ebb__vocab_move(&nmt->vocab[side], to);
        to += ebb__vocab_room(&nmt->vocab[side]);
    }
    return EBB_OK;
}

static ebb_status score(corpus *c, run_session *session, const job_observer *observer, double loss,
                        kind_scores *out, bool *stopped) {
    const nmt_corpus *nmt = (const nmt_corpus *)c;
    nmt_validation v = {.session = session,
                        .options = nmt->translate,
                        .pairs = &nmt->valid.batches,
                        .characters = c->s->tokens == TEXT_CHAR,
                        .samples = (uint64_t)c->s->samples,
                        .observer = observer};
    out->at[METRIC_PERPLEXITY] = fmin(exp(loss), DBL_MAX); /* JSON has no infinity */
    for (int side = 0; shows_words(nmt) && side < KIND_SIDES; side++) {
        v.vocabs[side] = vocab_at(nmt, side);
    }
    return nmt->translate.slots > 0 ? ebb__nmt_validate(c->ctx, &v, &out->at[METRIC_BLEU], stopped)
                                    : EBB_OK;
}

static ebb_status begin(corpus *c, run_session *session) {
    nmt_corpus *nmt = (nmt_corpus *)c;
    TRY(ebb__sentence_set_reader(&nmt->train, session, JOB_TRAIN, &ebb__nmt_inputs, &c->train));
    if (c->s->valid_path != NULL) {
        TRY(ebb__sentence_set_reader(&nmt->valid, session, JOB_VALID, &ebb__nmt_inputs, &c->valid));
    }
    return shows_words(nmt) ? load_words(nmt, session) : EBB_OK;
}

static void close_corpus(corpus *c) {
    nmt_corpus *nmt = (nmt_corpus *)c;
    ebb__vocab_free(&nmt->vocab[KIND_SOURCE]);
    ebb__vocab_free(&nmt->vocab[KIND_TARGET]);
    ebb__sentence_set_close(&nmt->train);
    ebb__sentence_set_close(&nmt->valid);
}

/* ---- the kind ---- */

static bool sentences(const train_settings *s) {
    (void)s;
    return true;
}

static const kind_metric metrics[] = {
    [METRIC_PERPLEXITY] = {"perplexity", "valid ppl", "validation perplexity", .higher = false},
    [METRIC_BLEU] = {"bleu", "BLEU", "BLEU", .higher = true}};

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
    .nats = true,
    .resolve = ebb__nmt_resolve,
    .check = ebb__nmt_check,
    .sentences = sentences,
    .corpus = {sizeof(nmt_corpus), measure, choose, save, store, adopt, begin, score,
               ebb__texts_compare, close_corpus},
    .labels = NMT_TGT_OUT,
    .vocab_file = vocab_file,
    .shape = plain_shape,
    .sizes_of = sizes,
    .staging = staging,
    .build = build,
    .randomise = randomise,
    .planned = planned,
    .eval = ebb__nmt_eval,
    .decode = ebb__nmt_decode};
