/* ngram.h - runs of symbols that a sequence has in common with others, counted exactly: what BLEU
 * and chrF are made of. */
#ifndef SCORE_NGRAM_H
#define SCORE_NGRAM_H

#include "base/ctx.h"

/* A symbol from here on equals none, not even itself: two unknown words are not the same word. */
#define NGRAM_NEVER 0x80000000U

/* A sequence of symbols. */
typedef struct ngram_text {
    const uint32_t *at;
    size_t n;
} ngram_text;

/* Adds to match[k], for k below `orders`, how many runs of k + 1 symbols of `hyp` are in the
 * references too. Each is used as often as the reference that has it most often has it. Takes time
 * and memory in proportion to all symbols; EBB_DATA with 2^31 of them or more. */
ebb_status ebb__ngram_match(ebb_ctx *ctx, ngram_text hyp, const ngram_text *refs, size_t n_refs,
                            int orders, uint64_t *match) EBB_MUST_CHECK;

/* How many runs of k + 1 symbols a sequence of n has. */
static inline uint64_t ebb__ngram_count(size_t n, int k) {
    return n > (size_t)k ? n - (size_t)k : 0;
}

#endif
