/* corpus.c - see corpus.h. */
#include "score/corpus.h"

#include "score/files.h"
#include "score/tok13a.h"

typedef struct score_job {
    ebb_ctx *ctx;
    score_files files;
    score_text tokens[2]; /* hypothesis and reference, with 13a */
    score_symbols symbols;
} score_job;

static ebb_status add_bleu(score_job *job, score_tok tok, bleu_counts *counts) {
    const score_text *hyp = &job->files.hyp.line, *ref = &job->files.ref.line;
    if (tok == SCORE_13A) {
        TRY(ebb__tok13a(job->ctx, hyp->bytes, hyp->used, &job->tokens[0]));
        TRY(ebb__tok13a(job->ctx, ref->bytes, ref->used, &job->tokens[1]));
        hyp = &job->tokens[0];
        ref = &job->tokens[1];
    }
    const score_symbols *s = &job->symbols;
    TRY(ebb__score_words(job->ctx, &job->symbols, hyp, ref));
    return ebb__bleu_add(job->ctx, counts, s->hyp, s->n, s->ref, s->m);
}

static ebb_status add_chrf(score_job *job, chrf_counts *counts) {
    const score_symbols *s = &job->symbols;
    TRY(ebb__score_characters(job->ctx, &job->symbols, &job->files.hyp.line, &job->files.ref.line));
    return ebb__chrf_add(job->ctx, counts, s->hyp, s->n, s->ref, s->m);
}

static void end_job(score_job *job) {
    ebb__score_close(&job->files);
    ebb__score_text_free(job->ctx, &job->tokens[0]);
    ebb__score_text_free(job->ctx, &job->tokens[1]);
    ebb__score_symbols_free(job->ctx, &job->symbols);
}

/* One of `bleu` and `chrf` is given. */
static ebb_status score(ebb_ctx *ctx, const char *hyp, const char *ref, score_tok tok,
                        bleu_counts *bleu, chrf_counts *chrf, uint64_t *sentences) {
    score_job job = {.ctx = ctx};
    bool got = true;
    TRY(ebb__score_open(ctx, hyp, ref, &job.files));
    ebb_status status = ebb__score_next(&job.files, &got);
    while (status == EBB_OK && got) {
        status = bleu != NULL ? add_bleu(&job, tok, bleu) : add_chrf(&job, chrf);
        status = status == EBB_OK ? ebb__score_next(&job.files, &got) : status;
    }
    *sentences = job.files.hyp.lines;
    end_job(&job);
    return status;
}

ebb_status ebb__score_bleu(ebb_ctx *ctx, const char *hyp, const char *ref, score_tok tok,
                           bleu_counts *out, uint64_t *sentences) {
    *out = (bleu_counts){0};
    return score(ctx, hyp, ref, tok, out, NULL, sentences);
}

ebb_status ebb__score_chrf(ebb_ctx *ctx, const char *hyp, const char *ref, chrf_counts *out,
                           uint64_t *sentences) {
    *out = (chrf_counts){0};
    return score(ctx, hyp, ref, SCORE_NONE, NULL, out, sentences);
}
