/* lm.c - language models: one text, read in contiguous columns (data/batcher.h) or, with
 * --by-sentence, line by line, on a few shapes (sentence_set.h). */
#include "kind/lm/lm.h"

#include "kind/kinds.h"
#include "kind/lm/sample.h"
#include "kind/text/options.h"
#include "kind/text/use.h"
#include "model/word_lm.h"

#include <stdio.h>

/* ---- the model ---- */

static data_shape plain_shape(const train_settings *s) {
    return s->by_sentence ? ebb__sentence_shape(s, 0, s->bptt)
                          : (data_shape){.target = (uint32_t)s->bptt};
}

static void vocab_sizes(const train_settings *s, job_request *request) {
    request->vocab = s->vocab;
}

static ebb_status build(ir_graph *graph, const train_settings *s, const job_request *request,
                        data_shape shape, job_use use) {
    word_lm model = {.cell = s->cell,
                     .layers = s->layers,
                     .hidden = s->hidden,
                     .embed = s->embed > 0 ? s->embed : s->hidden,
                     .vocab = request->vocab,
                     .batch = ebb__sentence_rows(s, shape),
                     .steps = shape.target,
                     .tie = s->tie,
                     .dropout = use == JOB_TRAIN ? s->dropout : 0,
                     .seed = s->seed,
                     .state = use == JOB_VALID ? "valid" : "state",
                     .scratch = use == JOB_VALID,
                     .predict = use == JOB_PREDICT,
                     .losses = use == JOB_SCORE};
    if (s->by_sentence && use != JOB_PREDICT && use != JOB_SCORE) {
        model.state = NULL;
    }
    return ebb__word_lm_build(graph, &model);
}

static uint64_t staging(const train_settings *s, const job_request *request) {
    if (request->predict) {
        return (uint64_t)request->vocab * sizeof(sample_token); /* to draw among them */
    }
    return s->by_sentence ? ebb__sentence_staging(request)
                          : (uint64_t)ebb__batcher_bytes((uint32_t)s->bptt);
}

static ebb_status randomise(run_session *session, const train_settings *s) {
    TRY(ebb__job_random_ids(session, LM_INPUTS, s->vocab, s->seed, "bench.inputs"));
    return ebb__job_random_ids(session, LM_TARGETS, s->vocab, s->seed, "bench.targets");
}

static void set_longest(train_settings *s, int64_t source, int64_t target) {
    (void)source;
    s->bptt = target;
}

/* ---- its text ---- */

typedef struct lm_corpus {
    text_corpus texts;
    lm_windows train_windows, valid_windows; /* not by sentence */
} lm_corpus;

/* More columns than the text has windows would only be padding. */
static ebb_status count_columns(const corpus *c, uint64_t *out) {
    text_reader reader;
    text_token token = {.kind = TEXT_TOKEN};
    uint64_t bptt = (uint64_t)c->s->bptt;
    TRY(ebb__text_open(c->ctx, c->s->train_path, c->s->tokens, "count tokens", NULL, &reader));
    ebb_status status = ebb__text_cut_with(
        &reader, ebb__vocabs_codes(&((const text_corpus *)c)->vocabs, KIND_TARGET));
    while (status == EBB_OK && token.kind != TEXT_END) {
        status = ebb__text_next(&reader, &token);
    }
    *out = reader.tokens > bptt ? (reader.tokens - 1 + bptt - 1) / bptt : 1;
    ebb__text_close(&reader);
    return status;
}

static ebb_status choose(corpus *c, job_request *request) {
    text_corpus *t = (text_corpus *)c;
    if (c->s->by_sentence) {
        return ebb__sentence_sets_choose(c, &t->train, &t->valid, request);
    }
    return c->s->batch == 0 ? count_columns(c, &request->most_batch) : EBB_OK;
}

const sentence_inputs ebb__lm_inputs = {.inputs = LM_INPUTS, .labels = LM_TARGETS};

static ebb_status fill(const job_reader *reader, uint64_t step, int32_t *program, uint64_t *words) {
    const lm_windows *w = reader->batches;
    void *to[2];
    *program = w->program;
    TRY(ebb__run_map_all(w->session, w->places, 2, DEVICE_WRITE, to));
    ebb_status status =
        ebb__batcher_fill(&w->batches, step % reader->n_batches, to[0], to[1], words);
    ebb_status unmapped = ebb__run_unmap_all(w->session, w->places, 2, DEVICE_WRITE, to);
    return status == EBB_OK ? unmapped : status;
}

ebb_status ebb__lm_read_windows(const train_settings *s, const tokens_reader *tokens,
                                run_session *session, job_use use, lm_windows *w, job_reader *out) {
    w->session = session;
    w->program = ebb__plan_program(session->plan, (int32_t)use, 0);
    w->places[0] = ebb__run_find(session, LM_INPUTS);
    w->places[1] = ebb__run_find(session, LM_TARGETS);
    TRY(ebb__batcher_init(session->ctx, tokens, (uint32_t)s->bptt, (uint32_t)s->batch,
                          ebb__run_host(session, JOB_STAGING, NULL), &w->batches));
    *out = (job_reader){.n_batches = w->batches.windows, .batches = w, .fill = fill};
    return EBB_OK;
}

static ebb_status open_reader(corpus *c, sentence_set *set, run_session *session, job_use use,
                              lm_windows *windows, job_reader *out) {
    return c->s->by_sentence
               ? ebb__sentence_set_reader(set, session, use, &ebb__lm_inputs, out)
               : ebb__lm_read_windows(c->s, &set->tokens[KIND_TARGET], session, use, windows, out);
}

static ebb_status begin(corpus *c, run_session *session) {
    lm_corpus *lm = (lm_corpus *)c;
    TRY(open_reader(c, &lm->texts.train, session, JOB_TRAIN, &lm->train_windows, &c->train));
    return c->s->valid_path == NULL ? EBB_OK
                                    : open_reader(c, &lm->texts.valid, session, JOB_VALID,
                                                  &lm->valid_windows, &c->valid);
}

static const char *vocab_file(const train_settings *s, kind_side side) {
    (void)s;
    return side == KIND_TARGET ? "vocab.txt" : NULL;
}

/* ---- the kind ---- */

static ebb_status score(corpus *c, run_session *session, const job_observer *observer, double loss,
                        kind_scores *out, bool *stopped) {
    (void)c, (void)session, (void)observer, (void)stopped;
    out->at[METRIC_PERPLEXITY] = ebb__text_perplexity(loss);
    return EBB_OK;
}

static ebb_status check(ebb_ctx *ctx, const train_settings *s) {
    return ebb__text_check(ctx, s, NULL);
}

static bool sentences(const train_settings *s) {
    return s->by_sentence;
}

static const char *const word_rows[] = {"embed.weight", "out.weight", "out.bias", NULL};

static const kind_metric metrics[] = {
    {"perplexity", "valid ppl", "validation perplexity", .exponential = true}};
static const char *const size_options[] = {"cell",  "layers", "hidden", "embed",
                                           "batch", "bptt",   "vocab",  NULL};

const model_kind ebb__kind_lm = {.name = "lm",
                                 .title = "Language model",
                                 .what = "a language model",
                                 .used_by = "generate or ebb eval lm",
                                 .unit = "words",
                                 .missing =
                                     "ebb train lm needs --train FILE, the text to learn from",
                                 .commands = ebb__lm_commands,
                                 .n_commands = LM_COMMANDS,
                                 .describe = ebb__lm_describe,
                                 .options = &ebb__lm_options,
                                 .metrics = metrics,
                                 .n_metrics = 1,
                                 .timed = true,
                                 .nats = true,
                                 .resolve = ebb__lm_resolve,
                                 .check = check,
                                 .lacks = ebb__lm_lacks,
                                 .sentences = sentences,
                                 .size_options = size_options,
                                 .usual = ebb__lm_usual,
                                 .corpus = {.measure = ebb__texts_measure,
                                            .save = ebb__texts_save,
                                            .store = ebb__texts_store,
                                            .adopt = ebb__texts_adopt,
                                            .compare = ebb__texts_compare,
                                            .close = ebb__texts_close,
                                            .bytes = sizeof(lm_corpus),
                                            .choose = choose,
                                            .begin = begin,
                                            .score = score},
                                 .labels = LM_TARGETS,
                                 .vocab_file = vocab_file,
                                 .word_rows = word_rows,
                                 .shape = plain_shape,
                                 .vocab_sizes = vocab_sizes,
                                 .staging = staging,
                                 .build = build,
                                 .randomise = randomise,
                                 .set_longest = set_longest,
                                 .eval = ebb__lm_eval,
                                 .generate_open = ebb__lm_generate_open,
                                 .generate = ebb__lm_generate,
                                 .score_open = ebb__lm_score_open,
                                 .score = ebb__lm_score};
