/* corpus.h - scores of whole files: translations and their references, line by line (files.h). */
#ifndef SCORE_CORPUS_H
#define SCORE_CORPUS_H

#include "score/bleu.h"
#include "score/chrf.h"

typedef enum score_tok {
    SCORE_13A, /* tok13a.h */
    SCORE_NONE /* words stand between white space */
} score_tok;

/* paths[0] holds the translations, the `n - 1` others a reference of each line; n is 2 or more. */
ebb_status ebb__score_bleu(ebb_ctx *ctx, const char *const *paths, size_t n, score_tok tok,
                           bleu_counts *out, uint64_t *sentences) EBB_MUST_CHECK;
ebb_status ebb__score_chrf(ebb_ctx *ctx, const char *const *paths, size_t n, chrf_counts *out,
                           uint64_t *sentences) EBB_MUST_CHECK;

#endif
