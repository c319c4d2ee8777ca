/* bleu.c - see bleu.h. The arithmetic is that of compute_bleu() in sacreBLEU, in its order. */
#include "score/bleu.h"

#include <math.h>

static size_t nearest_length(size_t n, const ngram_text *refs, size_t n_refs) {
    size_t best = refs[0].n;
    for (size_t r = 1; r < n_refs; r++) {
        size_t m = refs[r].n, far = m > n ? m - n : n - m, least = best > n ? best - n : n - best;
        best = far < least || (far == least && m < best) ? m : best;
    }
    return best;
}

ebb_status ebb__bleu_add(ebb_ctx *ctx, bleu_counts *counts, ngram_text hyp, const ngram_text *refs,
                         size_t n_refs) {
    for (int k = 0; k < BLEU_ORDERS; k++) {
        counts->total[k] += ebb__ngram_count(hyp.n, k);
    }
    counts->hyp_len += hyp.n;
    counts->ref_len += nearest_length(hyp.n, refs, n_refs);
    return ebb__ngram_match(ctx, hyp, refs, n_refs, BLEU_ORDERS, counts->match);
}

static double brevity_penalty(const bleu_counts *counts) {
    if (counts->hyp_len >= counts->ref_len) {
        return 1;
    }
    return counts->hyp_len > 0 ? exp(1 - (double)counts->ref_len / (double)counts->hyp_len) : 0;
}

static bool any_match(const bleu_counts *counts) {
    for (int k = 0; k < BLEU_ORDERS; k++) {
        if (counts->match[k] > 0) {
            return true;
        }
    }
    return false;
}

bleu_parts ebb__bleu_parts(const bleu_counts *counts) {
    bleu_parts parts = {.brevity_penalty = brevity_penalty(counts)};
    parts.ratio = counts->ref_len > 0 ? (double)counts->hyp_len / (double)counts->ref_len : 0;
    if (!any_match(counts)) {
        return parts;
    }
    double smooth = 1, logs = 0;
    bool all = true; /* there are runs of every order */
    for (int k = 0; k < BLEU_ORDERS && all; k++) {
        double total = (double)counts->total[k];
        all = counts->total[k] > 0;
        if (all && counts->match[k] == 0) {
            smooth *= 2;
            parts.precision[k] = 100 / (smooth * total);
        } else if (all) {
            parts.precision[k] = 100 * (double)counts->match[k] / total;
        }
        logs += all ? log(parts.precision[k]) : 0;
    }
    parts.bleu = all ? parts.brevity_penalty * exp(logs / BLEU_ORDERS) : 0;
    return parts;
}

double ebb__bleu_score(const bleu_counts *counts) {
    return ebb__bleu_parts(counts).bleu;
}
