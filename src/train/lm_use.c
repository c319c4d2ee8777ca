/* lm_use.c - using a trained language model: perplexity of a text, and generated text. The weights
 * are DIR/best.safetensors; vocabulary, batch and program lie inside the plan like everything else.
 */
#include "train/lm_job.h"

#include "base/file.h"
#include "base/rng.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

enum { PATH_BYTES = 1024 };

typedef struct lm_use {
    ebb_ctx *ctx;
    train_settings s;
    data_vocab vocab;
    run_session *session;
    lm_buffers data;
} lm_use;

static ebb_status path_of(ebb_ctx *ctx, const char *dir, const char *name, char *out) {
    int n = snprintf(out, PATH_BYTES, "%s/%s", dir, name);
    return n > 0 && n < PATH_BYTES
               ? EBB_OK
               : ebb__fail(ctx, EBB_USAGE, "the path is too long: %.60s...", dir);
}

/* Loads the vocabulary, plans with it inside, moves it there, reads the weights. */
static ebb_status open_model(lm_use *u, const char *dir, lm_request request) {
    char path[PATH_BYTES];
    ebb_plan *plan = NULL;
    st_reader reader = {0};
    TRY(path_of(u->ctx, dir, "vocab.txt", path));
    TRY(ebb__vocab_load(u->ctx, path, &u->vocab));
    request.vocab = u->vocab.count;
    request.vocab_bytes = ebb__vocab_bytes(&u->vocab);
    ebb_status status = ebb__lm_compile(u->ctx, &u->s, &request, &plan);
    if (status != EBB_OK) {
        ebb__plan_free(plan);
        return status;
    }
    TRY(ebb__run_new(u->ctx, plan, &u->session));
    u->data = ebb__lm_buffers(u->session);
    ebb__vocab_move(&u->vocab, u->data.vocab);
    TRY(path_of(u->ctx, dir, "best.safetensors", path));
    TRY(ebb__safetensors_open(u->ctx, path, &reader));
    status = ebb__lm_load(u->session, 1U << IR_PARAM, &reader);
    ebb__safetensors_close(&reader);
    return status;
}

static void close_model(lm_use *u) {
    ebb__vocab_free(&u->vocab);
    ebb__run_free(u->session);
}

/* ---- evaluation ---- */

static ebb_status evaluate(lm_use *u, tokens_reader *tokens, const lm_observer *observer,
                           lm_eval_result *out) {
    data_batcher batches;
    lm_score score;
    TRY(ebb__batcher_init(u->ctx, tokens, (uint32_t)u->s.bptt, (uint32_t)u->s.batch,
                          u->data.staging, &batches));
    TRY(ebb__lm_score(u->session, 0, &batches, observer, &score));
    if (score.stopped) {
        return ebb__fail(u->ctx, EBB_STOPPED, "stopped before the whole text was read");
    }
    *out = (lm_eval_result){.tokens = score.tokens,
                            .words = tokens->words,
                            .bytes = tokens->text_bytes,
                            .unknown = tokens->unknown,
                            .loss = score.loss_sum / (double)score.tokens,
                            .token_perplexity = exp(score.loss_sum / (double)score.tokens),
                            .word_perplexity = exp(score.loss_sum / (double)tokens->words),
                            .bits_per_byte = score.loss_sum / log(2.0) / (double)tokens->text_bytes,
                            .planned_peak_bytes = u->session->plan->peak_bytes,
                            .measured_peak_bytes = u->session->measured_bytes};
    return EBB_OK;
}

ebb_status ebb__lm_eval(ebb_ctx *ctx, const train_settings *settings, const char *dir,
                        const char *file, const lm_observer *observer, lm_eval_result *out) {
    lm_use u = {.ctx = ctx, .s = *settings};
    tokens_reader tokens = {.fd = -1};
    char path[PATH_BYTES];
    ebb_status status;
    TRY_OUT(open_model(&u, dir, (lm_request){.valid = true}));
    TRY_OUT(path_of(ctx, dir, "eval.tokens", path));
    TRY_OUT(ebb__tokens_ensure(ctx, file, (text_mode)u.s.tokens, &u.vocab, path, &tokens));
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

static void emit_token(const lm_use *u, int32_t token, bool *line_start, lm_emit_fn emit,
                       void *user) {
    size_t n = 0;
    bool words = u->s.tokens == TOKENS_WORD;
    const char *text = ebb__vocab_token(&u->vocab, (uint32_t)token, &n);
    if (token == VOCAB_EOS) {
        emit(user, "\n", 1);
        *line_start = true;
        return;
    }
    if (words && !*line_start) {
        emit(user, " ", 1);
    }
    emit(user, text, n);
    *line_start = false;
}

static const float *predict(lm_use *u, int32_t token) {
    u->data.inputs[0] = token;
    ebb__run_step(u->session, 0);
    return ebb__run_output(u->session, 0, LM_LOGITS);
}

/* Splits the prompt as the text was: words at white space, else code points or bytes. */
static size_t next_piece(const lm_use *u, const char *text, size_t *skip) {
    *skip = 0;
    if (u->s.tokens == TOKENS_WORD) {
        *skip = strspn(text, " \t\r\n");
        return strcspn(text + *skip, " \t\r\n");
    }
    if (text[0] == '\0' || u->s.tokens == TOKENS_BYTE) {
        return text[0] != '\0';
    }
    size_t n = 1;
    while (((unsigned char)text[n] & 0xC0U) == 0x80U) {
        n++;
    }
    return n;
}

static ebb_status generate(lm_use *u, const lm_generate_options *o, lm_emit_fn emit, void *user) {
    rng_key key = ebb__rng_key(o->seed, "generate");
    bool line_start = true;
    const float *logits = predict(u, VOCAB_EOS);
    size_t skip = 0, n;
    for (const char *p = o->prompt != NULL ? o->prompt : ""; (n = next_piece(u, p, &skip)) > 0;
         p += skip + n) {
        uint32_t token = ebb__vocab_find(&u->vocab, p + skip, n);
        emit_token(u, (int32_t)token, &line_start, emit, user);
        logits = predict(u, (int32_t)token);
    }
    for (int64_t i = 0; i < o->tokens; i++) {
        rng_block block = ebb__rng_block(key, (uint32_t)i, (uint32_t)(i >> 32), 0, 0);
        double draw = ((double)block.word[0] + (double)block.word[1] * 0x1p-32) * 0x1p-32;
        int32_t token = sample(logits, u->vocab.count, o->temperature, draw);
        emit_token(u, token, &line_start, emit, user);
        logits = predict(u, token);
    }
    if (!line_start) {
        emit(user, "\n", 1);
    }
    return EBB_OK;
}

ebb_status ebb__lm_generate(ebb_ctx *ctx, const train_settings *settings, const char *dir,
                            const lm_generate_options *options, lm_emit_fn emit, void *user) {
    lm_use u = {.ctx = ctx, .s = *settings};
    u.s.batch = 1;
    u.s.bptt = 1;
    ebb_status status = open_model(&u, dir, (lm_request){.predict = true});
    if (status == EBB_OK) {
        status = generate(&u, options, emit, user);
    }
    close_model(&u);
    return status;
}
