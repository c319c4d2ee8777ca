/* use.c - using a trained language model: perplexity of a text, and generated text. */
#include "kind/text/use.h"

#include "base/file.h"
#include "base/rng.h"
#include "kind/lm/lm.h"
#include "kind/lm/sample.h"
#include "model/word_lm.h"

#include <math.h>
#include <string.h>

/* ---- evaluation ---- */

static ebb_status evaluate(model_use *u, tokens_reader *tokens, const job_observer *observer,
                           text_eval_result *out) {
    lm_windows windows;
    job_reader reader;
    job_score score;
    TRY(ebb__lm_read_windows(&u->s, tokens, u->session, JOB_VALID, &windows, &reader));
    TRY(ebb__job_score(u->session, &reader, observer, &score));
    if (score.stopped) {
        return ebb__fail(u->ctx, EBB_STOPPED, "stopped before the whole text was read");
    }
    /* The first token is given, not predicted: words and bytes count in the same share. */
    double share = (double)score.tokens / (double)tokens->count;
    *out = (text_eval_result){
        .tokens = score.tokens,
        .words = tokens->words,
        .bytes = tokens->text_bytes,
        .unknown = tokens->unknown,
        .loss = score.loss_sum / (double)score.tokens,
        .token_perplexity = exp(score.loss_sum / (double)score.tokens),
        .word_perplexity = exp(score.loss_sum / ((double)tokens->words * share)),
        .bits_per_byte = score.loss_sum / log(2.0) / ((double)tokens->text_bytes * share),
        .planned_peak_bytes = u->session->plan->peak_bytes,
        .measured_peak_bytes = u->session->measured_bytes};
    return EBB_OK;
}

ebb_status ebb__lm_measure(ebb_ctx *ctx, const train_settings *settings, const char *dir,
                           const char *file, const job_observer *observer, text_eval_result *out) {
    const char *const texts[KIND_SIDES] = {[KIND_TARGET] = file};
    model_use u = {.ctx = ctx, .s = *settings};
    tokens_reader tokens = {.fd = -1};
    char path[JOB_PATH_BYTES];
    ebb_status status;
    if (settings->by_sentence) {
        status = ebb__sentence_eval(&u, dir, texts, &ebb__lm_inputs, observer, out);
        goto out;
    }
    TRY_OUT(ebb__use_open(&u, dir, (job_request){.valid = true}));
    TRY_OUT(ebb__job_path(ctx, dir, "eval.tokens", path));
    TRY_OUT(
        ebb__tokens_unnamed(ctx, file, u.s.tokens, ebb__use_vocab(&u, KIND_TARGET), path, &tokens));
    TRY_OUT(evaluate(&u, &tokens, observer, out));
out:
    ebb__tokens_close(&tokens);
    ebb__use_close(&u);
    return status;
}

ebb_status ebb__lm_eval(ebb_ctx *ctx, const train_settings *s, const char *const *words,
                        const job_observer *observer, kind_facts *out) {
    text_eval_result found;
    TRY(ebb__lm_measure(ctx, s, words[0], words[1], observer, &found));
    ebb__text_facts(&found, "sentences", out);
    return EBB_OK;
}

/* ---- generation ---- */

typedef struct text_sink {
    generate_fn emit;
    void *user;
    text_joint joint; /* of the line that is being written */
    bool wanted;
} text_sink;

static void put_text(text_sink *sink, const char *text, size_t bytes) {
    sink->wanted = sink->wanted && sink->emit(sink->user, text, bytes);
}

/* `text` is the token's, of `n` bytes; of one that the vocabulary does not have, what was typed. */
static void put_word(text_sink *sink, int32_t token, const char *text, size_t n) {
    bool space = false;
    if (token == VOCAB_EOS) {
        put_text(sink, "\n", 1);
        sink->joint = (text_joint){.mode = sink->joint.mode, .plain = sink->joint.plain};
        return;
    }
    n = ebb__text_join(&sink->joint, text, n, &space);
    if (space) {
        put_text(sink, " ", 1);
    }
    put_text(sink, text, n);
}

static void put_token(const model_use *u, text_sink *sink, int32_t token) {
    size_t n = 0;
    const char *text = ebb__vocab_token(ebb__use_vocab(u, KIND_TARGET), (uint32_t)token, &n);
    put_word(sink, token, text, n);
}

static ebb_status predict(model_use *u, int32_t token) {
    if (u->s.by_sentence && token == VOCAB_EOS) {
        TRY(ebb__ranks_zero(u->session, IR_STATE)); /* as every sentence starts */
    }
    TRY(ebb__run_write(u->session, ebb__run_find(u->session, LM_INPUTS), &token));
    return ebb__run_step(u->session, 0);
}

/* A token of what was predicted. */
static ebb_status draw_token(model_use *u, const sample_options *how, double draw, int32_t *token) {
    run_place place = ebb__run_find_output(u->session, 0, LM_LOGITS);
    const float *logits = NULL;
    TRY(ebb__run_map(u->session, place, DEVICE_READ, &logits));
    *token = ebb__sample(how, logits, ebb__use_vocab(u, KIND_TARGET)->count, draw,
                         ebb__run_host(u->session, JOB_STAGING, NULL));
    return ebb__run_unmap(u->session, place, DEVICE_READ, logits);
}

/* Reads the prompt, and shows it; a line end is <eos>. */
static ebb_status read_prompt(model_use *u, const char *prompt, text_sink *sink) {
    use_line line = {.at = prompt, .end = prompt + strlen(prompt)};
    use_token token;
    for (;;) {
        TRY(ebb__use_next_token(u, KIND_TARGET, &line, &token));
        if (token.bytes == 0 && line.at == line.end) {
            return EBB_OK;
        }
        line.at += token.bytes == 0; /* the line end */
        put_word(sink, (int32_t)token.id, token.text, token.bytes);
        TRY(predict(u, (int32_t)token.id));
    }
}

static ebb_status generate(model_use *u, const generate_options *o, text_sink *sink) {
    rng_key key = ebb__rng_key(o->seed, "generate");
    sample_options how = {o->temperature, o->top_k, o->top_p};
    int32_t token = 0;
    bool ended = false;
    TRY(predict(u, VOCAB_EOS));
    TRY(read_prompt(u, o->prompt != NULL ? o->prompt : "", sink));
    for (int64_t i = 0; i < o->tokens && sink->wanted && !ended; i++) {
        rng_block block = ebb__rng_block(key, (uint32_t)i, (uint32_t)(i >> 32), 0, 0);
        double draw = ((double)block.word[0] + (double)block.word[1] * 0x1p-32) * 0x1p-32;
        TRY(draw_token(u, &how, draw, &token));
        put_token(u, sink, token);
        ended = o->stop_at_eos && token == VOCAB_EOS;
        TRY(predict(u, token));
    }
    if (sink->joint.inside) {
        put_text(sink, "\n", 1);
    }
    return EBB_OK;
}

typedef struct generator {
    kind_open base;
    model_use u;
} generator;

static void close_generator(kind_open *open) {
    generator *g = (generator *)open;
    ebb_ctx *ctx = g->u.ctx;
    ebb__use_close(&g->u);
    ebb__free(ctx, g);
}

ebb_status ebb__lm_generate_open(ebb_ctx *ctx, const train_settings *settings, const char *dir,
                                 kind_open **out) {
    generator *g = NULL;
    TRY(ebb__alloc(ctx, 1, sizeof *g, &g));
    *g = (generator){.base = {.close = close_generator}, .u = {.ctx = ctx, .s = *settings}};
    g->u.s.batch = g->u.s.shards = 1;
    g->u.s.batch_tokens = 0;
    g->u.s.bptt = 1;
    ebb_status status = ebb__use_open(&g->u, dir, (job_request){.predict = true});
    if (status != EBB_OK) {
        close_generator(&g->base);
        return status;
    }
    g->base.session = g->u.session;
    *out = &g->base;
    return EBB_OK;
}

ebb_status ebb__lm_generate(kind_open *open, const generate_options *options, generate_fn emit,
                            void *user) {
    generator *g = (generator *)open;
    text_joint joint = codes_joint(g->u.s.tokens, ebb__use_vocab(&g->u, KIND_TARGET)->codes);
    TRY(ebb__ranks_zero(g->u.session, IR_STATE));
    return generate(&g->u, options, &(text_sink){emit, user, joint, .wanted = true});
}
