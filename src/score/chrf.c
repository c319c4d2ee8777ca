/* chrf.c - see chrf.h. The arithmetic is that of sacreBLEU's CHRF, in its order. */
#include "score/chrf.h"

static ebb_status count_one(ebb_ctx *ctx, chrf_counts *counts, ngram_text hyp, ngram_text ref) {
    for (int k = 0; k < CHRF_ORDERS; k++) {
        uint64_t wanted = ebb__ngram_count(ref.n, k);
        /* What a reference is too short for is not held against the hypothesis. */
        counts->hyp[k] = wanted > 0 ? ebb__ngram_count(hyp.n, k) : 0;
        counts->ref[k] = wanted;
    }
    return ebb__ngram_match(ctx, hyp, &ref, 1, CHRF_ORDERS, counts->match);
}

ebb_status ebb__chrf_add(ebb_ctx *ctx, chrf_counts *counts, ngram_text hyp, const ngram_text *refs,
                         size_t n_refs) {
    chrf_counts best = {0};
    double best_score = -1;
    for (size_t r = 0; r < n_refs; r++) {
        chrf_counts one = {0};
        TRY(count_one(ctx, &one, hyp, refs[r]));
        double score = ebb__chrf_score(&one);
        if (score > best_score) {
            best_score = score;
            best = one;
        }
    }
    for (int k = 0; k < CHRF_ORDERS; k++) {
        counts->hyp[k] += best.hyp[k];
        counts->ref[k] += best.ref[k];
        counts->match[k] += best.match[k];
    }
    return EBB_OK;
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
