/* test_sample.c - tokens drawn among the likeliest: beside a reference that sorts all of them. */
#include "unit/data_help.h"

#include "base/rng.h"
#include "kind/lm/sample.h"

#include <math.h>

enum { MOST = 40 };

/* The i-th likeliest token, of equal ones the lower id, by looking at all. */
static void sort_all(const float *logits, int n, int *order) {
    for (int i = 0; i < n; i++) {
        int before = 0;
        for (int j = 0; j < n; j++) {
            before += logits[j] > logits[i] || (logits[j] == logits[i] && j < i);
        }
        order[before] = i;
    }
}

/* How many of the likeliest are drawn among, and what they weigh. */
static int kept_of(const sample_options *o, const float *logits, const int *order, int n,
                   double *weights) {
    double total = 0, sum = 0;
    int most = o->top_k > 0 && o->top_k < n ? (int)o->top_k : n, kept = 0;
    for (int i = 0; i < most; i++) {
        weights[i] = exp(((double)logits[order[i]] - (double)logits[order[0]]) / o->temperature);
        total += weights[i];
    }
    while (kept < most && sum < o->top_p * total) {
        sum += weights[kept++];
    }
    return kept;
}

static void draws_among_the_likeliest(void **state) {
    (void)state;
    help_dice dice = {.key = ebb__rng_key(1, "sample")};
    for (int round = 0; round < 4000; round++) {
        float logits[MOST];
        sample_token room[MOST];
        int order[MOST], n = 2 + (int)help_throw(&dice, MOST - 1);
        double weights[MOST], sum = 0, all = 0;
        sample_options o = {.temperature = 0.25 * (1 + help_throw(&dice, 8)),
                            .top_k = 1 + help_throw(&dice, (uint32_t)n - 1),
                            .top_p = help_throw(&dice, 2) ? 1 : 0.1 * (1 + help_throw(&dice, 9))};
        for (int i = 0; i < n; i++) {
            logits[i] = (float)help_throw(&dice, 30) * 0.25F; /* some are equal */
        }
        sort_all(logits, n, order);
        int kept = kept_of(&o, logits, order, n, weights);
        for (int i = 0; i < kept; i++) {
            all += weights[i];
        }
        for (int i = 0; i < kept; i++) { /* a draw in the middle of each token's share */
            double draw = (sum + weights[i] / 2) / all;
            sum += weights[i];
            assert_int_equal(ebb__sample(&o, logits, n, draw, room), order[i]);
        }
    }
}

static void draws_among_all(void **state) {
    (void)state;
    const float logits[] = {0, 1, 3, 2};
    sample_token room[4];
    const sample_options greedy = {.temperature = 0, .top_k = 2, .top_p = 0.5};
    const sample_options all = {.temperature = 1, .top_k = 0, .top_p = 1};
    const sample_options more = {.temperature = 1, .top_k = 9, .top_p = 1};
    int seen = 0;
    for (int i = 0; i < 1000; i++) {
        double draw = i / 1000.0;
        int token = ebb__sample(&all, logits, 4, draw, room);
        assert_int_equal(ebb__sample(&more, logits, 4, draw, room), token);
        assert_int_equal(ebb__sample(&greedy, logits, 4, draw, room), 2);
        seen |= 1 << token;
    }
    assert_int_equal(seen, 15);
}

/* Whatever a broken model predicts, a token of the vocabulary is drawn. */
static void stays_in_the_vocabulary(void **state) {
    (void)state;
    const float odd[] = {NAN, INFINITY, -INFINITY, NAN, 0};
    sample_token room[5];
    for (int k = 0; k <= 5; k++) {
        for (int p = 1; p <= 4; p++) {
            sample_options o = {1, k, 0.25 * p};
            for (int n = 1; n <= 5; n++) {
                int token = ebb__sample(&o, odd, n, 0.5, room);
                assert_true(token >= 0 && token < n);
            }
        }
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(draws_among_the_likeliest),
        cmocka_unit_test(draws_among_all),
        cmocka_unit_test(stays_in_the_vocabulary),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
