/* validate.c - greedy translations of validation sources, their BLEU against the targets, and some
 * of them to look at: see nmt.h. */
#include "kind/nmt/nmt.h"

#include "score/bleu.h"

#include <string.h>

typedef struct validator {
    ebb_ctx *ctx;
    const nmt_validation *v;
    bleu_counts counts;
    uint64_t next; /* pair to read */
    uint32_t *ids; /* [most]: a target, then a translation's symbols */
    uint32_t most;
    bool stopped;
} validator;

static ebb_status read_source(void *user, int32_t *ids, int32_t room, int32_t *n,
                              translate_next *got) {
    validator *r = user;
    uint32_t length = 0;
    *got = r->next < r->v->pairs->sentences ? TRANSLATE_SENTENCE : TRANSLATE_END;
    if (*got == TRANSLATE_END) {
        return EBB_OK;
    }
    /* With its line end it is one longer than the room for it. */
    TRY(ebb__sentence_read(r->v->pairs, r->next++, false, (uint32_t *)ids, (uint32_t)room + 1,
                           &length));
    *n = (int32_t)length - 1;
    return EBB_OK;
}

/* Words as a text of its own; the caller's to free. */
static ebb_status text_of(const validator *r, kind_side side, const int32_t *ids, int32_t n,
                          char **out) {
    const data_vocab *vocab = r->v->vocabs[side];
    size_t bytes = 1, length = 0;
    for (int32_t i = 0; i < n; i++) {
        (void)ebb__vocab_token(vocab, (uint32_t)ids[i], &length);
        bytes += length + 1;
    }
    TRY(ebb__alloc(r->ctx, bytes, 1, out));
    char *to = *out;
    for (int32_t i = 0; i < n; i++) {
        const char *token = ebb__vocab_token(vocab, (uint32_t)ids[i], &length);
        if (i > 0 && !r->v->characters) {
            *to++ = ' ';
        }
        memcpy(to, token, length);
        to += length;
    }
    *to = '\0';
    return EBB_OK;
}

static ebb_status show(const validator *r, const translate_result *result, const uint32_t *target,
                       uint32_t n) {
    char *source = NULL, *reference = NULL, *translation = NULL;
    const translate_hypothesis *best = &result->best[0];
    ebb_status status;
    TRY_OUT(text_of(r, KIND_SOURCE, result->source, result->source_length - 1, &source));
    TRY_OUT(text_of(r, KIND_TARGET, (const int32_t *)target, (int32_t)n, &reference));
    TRY_OUT(text_of(r, KIND_TARGET, best->tokens, best->length, &translation));
    r->v->observer->sample(r->v->observer->user, &(job_sample){source, reference, translation});
out:
    ebb__free(r->ctx, source);
    ebb__free(r->ctx, reference);
    ebb__free(r->ctx, translation);
    return status;
}

/* Samples are spread evenly. */
static bool is_sample(const nmt_validation *v, uint64_t number) {
    uint64_t every = v->samples > 0 ? (v->pairs->sentences + v->samples - 1) / v->samples : 0;
    return every > 0 && number % every == every / 2 && v->vocabs[KIND_TARGET] != NULL &&
           v->observer != NULL && v->observer->sample != NULL;
}

static ebb_status score_translation(void *user, const translate_result *result) {
    validator *r = user;
    const translate_hypothesis *best = &result->best[0];
    uint32_t n = 0;
    TRY(ebb__sentence_read(r->v->pairs, result->number, true, r->ids, r->most, &n));
    n--; /* its line end */
    if (is_sample(r->v, result->number)) {
        TRY(show(r, result, r->ids, n));
    }
    /* Every word that the vocabulary has not is another one: none matches. */
    for (uint32_t i = 0; i < n; i++) {
        r->ids[i] = r->ids[i] == VOCAB_UNK ? BLEU_NEVER : r->ids[i];
    }
    ngram_text hyp = {(const uint32_t *)best->tokens, (size_t)best->length};
    return ebb__bleu_add(r->ctx, &r->counts, hyp, &(ngram_text){r->ids, n}, 1);
}

static bool should_stop(void *user) {
    validator *r = user;
    const job_observer *observer = r->v->observer;
    r->stopped = observer != NULL && observer->stop != NULL && observer->stop(observer->user);
    return r->stopped;
}

ebb_status ebb__nmt_validate(ebb_ctx *ctx, const nmt_validation *v, double *bleu, bool *stopped) {
    validator r = {.ctx = ctx, .v = v};
    translate_io io = {&r, read_source, score_translation, should_stop};
    for (int32_t i = 0; i < v->pairs->shapes.n; i++) {
        r.most = num_larger32(r.most, v->pairs->shapes.at[i].target);
    }
    TRY(ebb__alloc(ctx, r.most, sizeof *r.ids, &r.ids));
    ebb_status status = ebb__translate(
        v->session, (translate_uses){JOB_DECODE_STEP, JOB_DECODE_READ}, &v->options, &io);
    if (r.stopped && status == EBB_STOPPED) {
        ebb__ctx_clear(ctx);
        status = EBB_OK;
    }
    *bleu = ebb__bleu_score(&r.counts);
    *stopped = r.stopped;
    ebb__free(ctx, r.ids);
    return status;
}
