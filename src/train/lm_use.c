/* lm_use.c - using a trained language model: perplexity of a text, and generated text. The weights
 * are the best of the folder's generations; vocabulary, batch and program lie inside the plan like
 * everything else.
 */
#include "train/job.h"

#include "base/file.h"
#include "base/rng.h"
#include "data/batcher.h"
#include "model/word_lm.h"
#include "train/checkpoint.h"

#include <math.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

typedef struct lm_use {
    ebb_ctx *ctx;
    train_settings s;
    data_vocab vocab;
    run_session *session;
    job_buffers data;
} lm_use;

/* The weights must be those that the newest whole generation names, and the vocabulary theirs. */
static ebb_status check_weights(lm_use *u, const char *dir, const char *path, bool best) {
    checkpoint_info info = {0};
    st_reader named = {0};
    st_sum expected, found;
    json_int_t vocab_hash = 0;
    ebb_status status;
    TRY_OUT(ebb__checkpoint_peek(u->ctx, dir, &info));
    if (!info.found) {
        goto out; /* weights from elsewhere */
    }
    info.step = best ? info.best_step : info.step;
    TRY_OUT(ebb__checkpoint_open_weights(u->ctx, dir, &info, &named));
    TRY_OUT(ebb__safetensors_sum(u->ctx, named.path, &expected));
    TRY_OUT(ebb__safetensors_sum(u->ctx, path, &found));
    if (strcmp(expected.xxh3, found.xxh3) != 0) {
        status = ebb__fail(u->ctx, EBB_MODEL, "not the weights that the checkpoint names");
    } else if (json_unpack(info.train, "{s:I}", "vocab_hash", &vocab_hash) != 0 ||
               (uint64_t)vocab_hash != ebb__vocab_hash(&u->vocab)) {
        status = ebb__fail(u->ctx, EBB_MODEL, "vocab.txt is not the vocabulary of these weights");
    }
out:
    ebb__safetensors_close(&named);
    ebb__checkpoint_info_fini(&info);
    return status;
}

/* The best weights; the last ones where none was validated yet. */
static ebb_status open_weights(lm_use *u, const char *dir, st_reader *reader) {
    char path[JOB_PATH_BYTES], why[256];
    TRY(ebb__job_path(u->ctx, dir, "best.safetensors", path));
    bool best = ebb__file_exists(path);
    if (!best) {
        TRY(ebb__job_path(u->ctx, dir, "last.safetensors", path));
    }
    if (!ebb__file_exists(path)) {
        return ebb__fail(u->ctx, EBB_MODEL,
                         "%s: holds no weights: neither best nor last.safetensors", dir);
    }
    TRY(ebb__safetensors_open(u->ctx, path, reader));
    ebb_status status = check_weights(u, dir, path, best);
    if (status == EBB_MODEL) {
        (void)snprintf(why, sizeof why, "%s", ebb_last_error(u->ctx));
        ebb__ctx_clear(u->ctx);
        status = ebb__fail(u->ctx, EBB_MODEL, "%s: cannot be trusted: %s", path, why);
    }
    if (status != EBB_OK) {
        ebb__safetensors_close(reader);
    }
    return status;
}

/* Loads the vocabulary, plans with it inside, moves it there before the arena is touched (so that
 * it never counts twice), reads the weights. */
static ebb_status open_model(lm_use *u, const char *dir, job_request request) {
    char path[JOB_PATH_BYTES];
    ebb_plan *plan = NULL;
    st_reader reader = {0};
    TRY(ebb__job_path(u->ctx, dir, "vocab.txt", path));
    TRY(ebb__vocab_load(u->ctx, path, &u->vocab));
    request.vocab = u->vocab.count;
    request.vocab_bytes = ebb__vocab_bytes(&u->vocab);
    ebb_status status = ebb__job_compile(u->ctx, &u->s, &request, &plan);
    if (status != EBB_OK) {
        ebb__plan_free(plan);
        return status;
    }
    TRY(ebb__run_open(u->ctx, plan, &u->session));
    u->data = ebb__job_buffers(u->session);
    ebb__vocab_move(&u->vocab, u->data.vocab);
    ebb__run_touch(u->session);
    TRY(open_weights(u, dir, &reader));
    status = ebb__job_load(u->session, 1U << IR_PARAM, &reader);
    ebb__safetensors_close(&reader);
    return status;
}

static void close_model(lm_use *u) {
    ebb__vocab_free(&u->vocab);
    ebb__run_free(u->session);
}

/* ---- evaluation ---- */

static ebb_status evaluate(lm_use *u, tokens_reader *tokens, const job_observer *observer,
                           lm_eval_result *out) {
    data_batcher batches;
    job_score score;
    TRY(ebb__batcher_init(u->ctx, tokens, (uint32_t)u->s.bptt, (uint32_t)u->s.batch,
                          u->data.staging, &batches));
    job_reader reader = {batches.windows, 0, &batches, ebb__lm_fill};
    TRY(ebb__job_score(u->session, &reader, observer, &score));
    if (score.stopped) {
        return ebb__fail(u->ctx, EBB_STOPPED, "stopped before the whole text was read");
    }
    /* The first token is given, not predicted: words and bytes count in the same share. */
    double share = (double)score.tokens / (double)tokens->count;
    *out = (lm_eval_result){
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

ebb_status ebb__lm_eval(ebb_ctx *ctx, const train_settings *settings, const char *dir,
                        const char *file, const job_observer *observer, lm_eval_result *out) {
    lm_use u = {.ctx = ctx, .s = *settings};
    tokens_reader tokens = {.fd = -1};
    char path[JOB_PATH_BYTES], name[48];
    ebb_status status;
    TRY_OUT(open_model(&u, dir, (job_request){.valid = true}));
    (void)snprintf(name, sizeof name, "eval-%ld.tokens", (long)getpid());
    /* A model that may only be read is measured all the same. */
    TRY_OUT(ebb__job_path(ctx, access(dir, W_OK) == 0 ? dir : "/tmp", name, path));
    TRY_OUT(ebb__tokens_ensure(ctx, file, (text_mode)u.s.tokens, &u.vocab, path, &tokens));
    TRY_OUT(
        ebb__file_remove(ctx, path)); /* still open: nobody else's, and gone with this process */
    TRY_OUT(evaluate(&u, &tokens, observer, out));
out:
    ebb__tokens_close(&tokens);
    close_model(&u);
    return status;
}

/* ---- generation ---- */

/* The token whose share of the distribution the number `draw` in [0, 1) falls into. */
static int32_t sample(const float *logits, int64_t n, double temperature, double draw) {
    int32_t best = 0;
    for (int64_t i = 1; i < n; i++) {
        best = logits[i] > logits[best] ? (int32_t)i : best;
    }
    if (temperature <= 0) {
        return best;
    }
    double total = 0, sum = 0;
    for (int64_t i = 0; i < n; i++) {
        total += exp(((double)logits[i] - (double)logits[best]) / temperature);
    }
    for (int64_t i = 0; i < n; i++) {
        sum += exp(((double)logits[i] - (double)logits[best]) / temperature);
        if (sum > draw * total) {
            return (int32_t)i;
        }
    }
    return best;
}

typedef struct text_sink {
    lm_emit_fn emit;
    void *user;
    bool line_start, wanted;
} text_sink;

static void put_text(text_sink *sink, const char *text, size_t bytes) {
    sink->wanted = sink->wanted && sink->emit(sink->user, text, bytes);
}

static void put_token(const lm_use *u, text_sink *sink, int32_t token) {
    size_t n = 0;
    const char *text = ebb__vocab_token(&u->vocab, (uint32_t)token, &n);
    if (token == VOCAB_EOS) {
        put_text(sink, "\n", 1);
    } else {
        if (u->s.tokens == TOKENS_WORD && !sink->line_start) {
            put_text(sink, " ", 1);
        }
        put_text(sink, text, n);
    }
    sink->line_start = token == VOCAB_EOS;
}

static const float *predict(lm_use *u, int32_t token) {
    *(int32_t *)ebb__run_variable(u->session, LM_INPUTS, NULL) = token;
    ebb__run_step(u->session, 0);
    return ebb__run_output(u->session, 0, LM_LOGITS);
}

/* The next token of the prompt, split as texts are: a line end is <eos>, words stand between white
 * space, else code points or bytes. Advances *text; false at its end. */
static bool next_token(const lm_use *u, const char **text, int32_t *token) {
    const char *at = *text;
    bool words = u->s.tokens == TOKENS_WORD;
    at += words ? strspn(at, " \t\r") : at[0] == '\r' && at[1] == '\n';
    size_t n = words ? strcspn(at, " \t\r\n") : at[0] != '\0';
    if (*at == '\n') {
        *token = VOCAB_EOS;
        *text = at + 1;
        return true;
    }
    while (u->s.tokens == TOKENS_CHAR && n > 0 && ((unsigned char)at[n] & 0xC0U) == 0x80U) {
        n++;
    }
    *token = (int32_t)ebb__vocab_find(&u->vocab, at, n);
    *text = at + n;
    return n > 0;
}

static void generate(lm_use *u, const lm_generate_options *o, text_sink *sink) {
    rng_key key = ebb__rng_key(o->seed, "generate");
    const float *logits = predict(u, VOCAB_EOS);
    int32_t token = VOCAB_EOS;
    for (const char *p = o->prompt != NULL ? o->prompt : ""; next_token(u, &p, &token);) {
        put_token(u, sink, token);
        logits = predict(u, token);
    }
    for (int64_t i = 0; i < o->tokens && sink->wanted; i++) {
        rng_block block = ebb__rng_block(key, (uint32_t)i, (uint32_t)(i >> 32), 0, 0);
        double draw = ((double)block.word[0] + (double)block.word[1] * 0x1p-32) * 0x1p-32;
        token = sample(logits, u->vocab.count, o->temperature, draw);
        put_token(u, sink, token);
        logits = predict(u, token);
    }
    if (!sink->line_start) {
        put_text(sink, "\n", 1);
    }
}

ebb_status ebb__lm_generate(ebb_ctx *ctx, const train_settings *settings, const char *dir,
                            const lm_generate_options *options, lm_emit_fn emit, void *user) {
    lm_use u = {.ctx = ctx, .s = *settings};
    u.s.batch = 1;
    u.s.bptt = 1;
    ebb_status status = open_model(&u, dir, (job_request){.predict = true});
    if (status == EBB_OK) {
        generate(&u, options, &(text_sink){emit, user, .line_start = true, .wanted = true});
    }
    close_model(&u);
    return status;
}
