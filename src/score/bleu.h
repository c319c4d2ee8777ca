/* bleu.h - BLEU of a corpus with a reference a sentence or several, equal to sacreBLEU's: orders 1
 * to 4, orders without any match smoothed exponentially, no effective order.
 *
 * Symbols are words given as numbers, equal iff the words are; what is a word is told elsewhere
 * (corpus.h). */
#ifndef SCORE_BLEU_H
#define SCORE_BLEU_H

#include "score/ngram.h"

enum { BLEU_ORDERS = 4 };
/* A symbol from here on never matches (two different unknown words). */
#define BLEU_NEVER NGRAM_NEVER

/* Sums over sentences; start from zeros. */
typedef struct bleu_counts {
    uint64_t match[BLEU_ORDERS], total[BLEU_ORDERS];
    uint64_t hyp_len, ref_len;
} bleu_counts;

/* Counts one sentence, with `n_refs` references, one at least; of their lengths the nearest counts,
 * of two that are as near the shorter. On failure the sums are of no use any more. */
ebb_status ebb__bleu_add(ebb_ctx *ctx, bleu_counts *counts, ngram_text hyp, const ngram_text *refs,
                         size_t n_refs) EBB_MUST_CHECK;

typedef struct bleu_parts {
    double bleu;                   /* 0 to 100 */
    double precision[BLEU_ORDERS]; /* 0 to 100, smoothed */
    double brevity_penalty;
    double ratio; /* of the lengths, hypotheses to references; 0 without a reference */
} bleu_parts;
bleu_parts ebb__bleu_parts(const bleu_counts *counts);
double ebb__bleu_score(const bleu_counts *counts); /* parts.bleu */

#endif
