/* sample.c - see sample.h. The likeliest tokens come from a heap, as many as are wanted: a large
 * vocabulary is never sorted whole. */
#include "kind/lm/sample.h"

#include <math.h>
#include <stdbool.h>

/* ---- among all ---- */

static int32_t likeliest(const float *logits, int64_t n) {
    int32_t best = 0;
    for (int64_t i = 1; i < n; i++) {
        best = logits[i] > logits[best] ? (int32_t)i : best;
    }
    return best;
}

/* What a token weighs beside the likeliest one, which weighs 1. */
static double weight(const sample_options *o, float logit, float most) {
    return exp(((double)logit - (double)most) / o->temperature);
}

static double weight_of_all(const sample_options *o, const float *logits, int64_t n, float most) {
    double total = 0;
    for (int64_t i = 0; i < n; i++) {
        total += weight(o, logits[i], most);
    }
    return total;
}

static int32_t draw_of_all(const sample_options *o, const float *logits, int64_t n, double draw) {
    int32_t best = likeliest(logits, n);
    double total = weight_of_all(o, logits, n, logits[best]), sum = 0;
    for (int64_t i = 0; i < n; i++) {
        sum += weight(o, logits[i], logits[best]);
        if (sum > draw * total) {
            return (int32_t)i;
        }
    }
    return best;
}

/* ---- among the likeliest ---- */

static bool is_likelier(sample_token a, sample_token b) {
    return a.logit != b.logit ? a.logit > b.logit : a.id < b.id;
}

static void sift(sample_token *heap, int64_t n, int64_t at) {
    sample_token moved = heap[at];
    for (;;) {
        int64_t child = 2 * at + 1;
        if (child >= n) {
            break;
        }
        child += child + 1 < n && is_likelier(heap[child + 1], heap[child]);
        if (!is_likelier(heap[child], moved)) {
            break;
        }
        heap[at] = heap[child];
        at = child;
    }
    heap[at] = moved;
}

/* Takes the likeliest of the heap's n tokens; it then stands behind the others. */
static sample_token take(sample_token *heap, int64_t n) {
    sample_token first = heap[0];
    heap[0] = heap[n - 1];
    heap[n - 1] = first;
    sift(heap, n - 1, 0);
    return first;
}

/* A logit that is no number is as unlikely as can be, so that there is an order. */
static void make_heap(const float *logits, int64_t n, sample_token *heap) {
    for (int64_t i = 0; i < n; i++) {
        heap[i] = (sample_token){isnan(logits[i]) ? -INFINITY : logits[i], (int32_t)i};
    }
    for (int64_t i = n / 2 - 1; i >= 0; i--) {
        sift(heap, n, i);
    }
}

/* Takes at most `most` tokens of the heap, until they weigh `enough`: room[n - 1 - i] becomes the
 * i-th likeliest. Gives their number, *sum what they weigh. */
static int64_t take_likeliest(const sample_options *o, sample_token *room, int64_t n, int64_t most,
                              double enough, double *sum) {
    float best = room[0].logit;
    int64_t kept = 0;
    *sum = 0;
    while (kept < most && !(*sum >= enough)) {
        *sum += weight(o, take(room, n - kept).logit, best);
        kept++;
    }
    return kept;
}

/* How many of the tokens taken weigh `enough`, or more than that where it is `exceeded`; *sum then
 * is what they weigh. */
static int64_t reach(const sample_options *o, const sample_token *room, int64_t n, int64_t kept,
                     double enough, bool exceeded, double *sum) {
    int64_t i = 0;
    *sum = 0;
    while (i < kept && !(exceeded ? *sum > enough : *sum >= enough)) {
        *sum += weight(o, room[n - 1 - i].logit, room[n - 1].logit);
        i++;
    }
    return i;
}

int32_t ebb__sample(const sample_options *o, const float *logits, int64_t n, double draw,
                    sample_token *room) {
    int64_t most = o->top_k > 0 && o->top_k < n ? o->top_k : n;
    bool some = o->top_p > 0 && o->top_p < 1;
    double enough = (double)INFINITY, sum = 0;
    if (o->temperature <= 0) {
        return likeliest(logits, n);
    }
    if (most == n && !some) {
        return draw_of_all(o, logits, n, draw);
    }
    make_heap(logits, n, room);
    if (most == n) {
        enough = o->top_p * weight_of_all(o, logits, n, room[0].logit);
    }
    int64_t kept = take_likeliest(o, room, n, most, enough, &sum);
    if (most < n && some) { /* the share is that of the top_k */
        kept = reach(o, room, n, kept, o->top_p * sum, false, &sum);
    }
    int64_t drawn = reach(o, room, n, kept, draw * sum, true, &sum);
    return room[n - (drawn > 0 ? drawn : 1)].id;
}
