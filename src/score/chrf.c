/* chrf.c - see chrf.h. The arithmetic is that of sacreBLEU's CHRF, in its order. */
#include "score/chrf.h"

ebb_status ebb__chrf_add(ebb_ctx *ctx, chrf_counts *counts, const uint32_t *hyp, size_t n,
                         const uint32_t *ref, size_t m) {
    for (int k = 0; k < CHRF_ORDERS; k++) {
        uint64_t wanted = ebb__ngram_count(m, k);
        /* What a reference is too short for is not held against the hypothesis. */
        counts->hyp[k] += wanted > 0 ? ebb__ngram_count(n, k) : 0;
        counts->ref[k] += wanted;
    }
    return ebb__ngram_match(ctx, hyp, n, ref, m, CHRF_ORDERS, counts->match);
}

double ebb__chrf_score(const chrf_counts *counts) {
    const double factor = 2 * 2; /* beta squared */
    double precision = 0, recall = 0;
    int orders = 0;
    for (int k = 0; k < CHRF_ORDERS; k++) {
        if (counts->hyp[k] > 0 && counts->ref[k] > 0) {
            precision += (double)counts->match[k] / (double)counts->hyp[k];
            recall += (double)counts->match[k] / (double)counts->ref[k];
            orders++;
        }
    }
    if (precision + recall <= 0) {
        return 0;
    }
    precision /= orders;
    recall /= orders;
    return 100 * ((1 + factor) * precision * recall / (factor * precision + recall));
}
