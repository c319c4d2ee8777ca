/* corpus.c - see corpus.h. */
#include "score/corpus.h"

#include "base/alloc.h"
#include "score/files.h"
#include "score/tok13a.h"

typedef struct score_job {
    ebb_ctx *ctx;
    score_files files;
    score_text *tokens;       /* [files.n]: the lines as 13a splits them */
    const score_text **lines; /* [files.n]: what is scored */
    score_symbols symbols;
} score_job;

static ebb_status start_job(score_job *job, const char *const *paths, size_t n) {
    TRY(ebb__alloc(job->ctx, n, sizeof *job->tokens, &job->tokens));
    TRY(ebb__alloc(job->ctx, n, sizeof *job->lines, &job->lines));
    TRY(ebb__score_open(job->ctx, paths, n, &job->files));
    for (size_t i = 0; i < n; i++) {
        job->lines[i] = &job->files.at[i].line;
    }
    return EBB_OK;
}

static ebb_status add_bleu(score_job *job, score_tok tok, bleu_counts *counts) {
    size_t n = job->files.n;
    for (size_t i = 0; tok == SCORE_13A && i < n; i++) {
        const score_text *line = &job->files.at[i].line;
        TRY(ebb__tok13a(job->ctx, line->bytes, line->used, &job->tokens[i]));
        job->lines[i] = &job->tokens[i];
    }
    TRY(ebb__score_words(job->ctx, &job->symbols, job->lines, n - 1));
    return ebb__bleu_add(job->ctx, counts, job->symbols.hyp, job->symbols.refs, n - 1);
}

static ebb_status add_chrf(score_job *job, chrf_counts *counts) {
    size_t n = job->files.n;
    TRY(ebb__score_characters(job->ctx, &job->symbols, job->lines, n - 1));
    return ebb__chrf_add(job->ctx, counts, job->symbols.hyp, job->symbols.refs, n - 1);
}

static void end_job(score_job *job, size_t n) {
    ebb__score_close(&job->files);
    for (size_t i = 0; job->tokens != NULL && i < n; i++) {
        ebb__score_text_free(job->ctx, &job->tokens[i]);
    }
    ebb__free(job->ctx, job->tokens);
    ebb__free(job->ctx, job->lines);
    ebb__score_symbols_free(job->ctx, &job->symbols);
}

/* One of `bleu` and `chrf` is given. */
static ebb_status score(ebb_ctx *ctx, const char *const *paths, size_t n, score_tok tok,
                        bleu_counts *bleu, chrf_counts *chrf, uint64_t *sentences) {
    score_job job = {.ctx = ctx, .files = {.ctx = ctx}};
    bool got = true;
    ebb_status status;
    TRY_OUT(start_job(&job, paths, n));
    TRY_OUT(ebb__score_next(&job.files, &got));
    while (got) {
        TRY_OUT(bleu != NULL ? add_bleu(&job, tok, bleu) : add_chrf(&job, chrf));
        TRY_OUT(ebb__score_next(&job.files, &got));
    }
    *sentences = job.files.at[0].lines;
out:
    end_job(&job, n);
    return status;
}

ebb_status ebb__score_bleu(ebb_ctx *ctx, const char *const *paths, size_t n, score_tok tok,
                           bleu_counts *out, uint64_t *sentences) {
    *out = (bleu_counts){0};
    return score(ctx, paths, n, tok, out, NULL, sentences);
}

ebb_status ebb__score_chrf(ebb_ctx *ctx, const char *const *paths, size_t n, chrf_counts *out,
                           uint64_t *sentences) {
    *out = (chrf_counts){0};
    return score(ctx, paths, n, SCORE_NONE, NULL, out, sentences);
}
