/* bleu.c - see bleu.h. The arithmetic is that of compute_bleu() in sacreBLEU, in its order. */
#include "score/bleu.h"

#include <math.h>

ebb_status ebb__bleu_add(ebb_ctx *ctx, bleu_counts *counts, const uint32_t *hyp, size_t n,
                         const uint32_t *ref, size_t m) {
    for (int k = 0; k < BLEU_ORDERS; k++) {
        counts->total[k] += ebb__ngram_count(n, k);
    }
    counts->hyp_len += n;
    counts->ref_len += m;
    return ebb__ngram_match(ctx, hyp, n, ref, m, BLEU_ORDERS, counts->match);
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
