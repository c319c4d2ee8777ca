/* chrf.h - chrF of a corpus with a reference a sentence or several, equal to sacreBLEU's by
 * default: runs of 1 to 6 characters (code points) with white space left out, no words, beta 2,
 * averaged over the orders that both sides have. */
#ifndef SCORE_CHRF_H
#define SCORE_CHRF_H

#include "score/ngram.h"

enum { CHRF_ORDERS = 6 };

/* Sums over sentences; start from zeros. */
typedef struct chrf_counts {
    uint64_t hyp[CHRF_ORDERS], ref[CHRF_ORDERS], match[CHRF_ORDERS];
} chrf_counts;

/* Counts one sentence beside the reference, of `n_refs`, that it scores best with: the characters
 * that are no white space. On failure the sums are of no use any more. */
ebb_status ebb__chrf_add(ebb_ctx *ctx, chrf_counts *counts, ngram_text hyp, const ngram_text *refs,
                         size_t n_refs) EBB_MUST_CHECK;
double ebb__chrf_score(const chrf_counts *counts); /* 0 to 100 */

#endif
