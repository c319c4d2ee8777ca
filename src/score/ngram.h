/* ngram.h - runs of symbols that two sequences have in common, counted exactly: what BLEU and chrF
 * are made of. */
#ifndef SCORE_NGRAM_H
#define SCORE_NGRAM_H

#include "base/ctx.h"

/* A symbol from here on equals none, not even itself: two unknown words are not the same word. */
#define NGRAM_NEVER 0x80000000U

/* Adds to match[k], for k below `orders`, how many runs of k + 1 symbols of `hyp` are in `ref`
 * too, each run of `ref` being used once. Takes time and memory in proportion to n + m; EBB_DATA
 * with 2^31 symbols or more. */
ebb_status ebb__ngram_match(ebb_ctx *ctx, const uint32_t *hyp, size_t n, const uint32_t *ref,
                            size_t m, int orders, uint64_t *match) EBB_MUST_CHECK;

/* How many runs of k + 1 symbols a sequence of n has. */
static inline uint64_t ebb__ngram_count(size_t n, int k) {
    return n > (size_t)k ? n - (size_t)k : 0;
}

#endif
