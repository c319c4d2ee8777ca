/* test_schedule.c - the length of a run and the rate of every step, and what validations change in
 * a run's state: the best scores, the plateau's rate, the end by patience. */
#include "kind/kinds.h"
#include "kind/text/options.h"
#include "support/graphs.h"

#include "train/progress.h"
#include "train/schedule.h"

#include <math.h>

static double rate(const train_settings *s, int64_t step, int64_t total) {
    return ebb__schedule_rate(s, s->lr, step, total);
}

static void length_of_a_run(void **state) {
    (void)state;
    assert_int_equal(ebb__schedule_steps(&(train_settings){.epochs = 3}, 7), 21);
    assert_int_equal(ebb__schedule_steps(&(train_settings){.steps = 5}, 7), 5);
    assert_int_equal(ebb__schedule_steps(&(train_settings){.steps = 50}, 7), 50);
    assert_int_equal(ebb__schedule_steps(&(train_settings){.epochs = 3, .steps = 20}, 7), 20);
    assert_int_equal(ebb__schedule_steps(&(train_settings){.epochs = 3, .steps = 22}, 7), 21);
    assert_int_equal(ebb__schedule_steps(&(train_settings){0}, 7), 70);
    assert_true(ebb__schedule_steps(&(train_settings){.epochs = 1000000000}, INT64_MAX / 2) ==
                INT64_MAX);
}

static void warm_up_comes_before_every_schedule(void **state) {
    (void)state;
    for (train_schedule schedule = SCHEDULE_CONSTANT; schedule <= SCHEDULE_INVERSE; schedule++) {
        train_settings s = {.schedule = schedule, .lr = 0.5, .warmup = 4};
        assert_true(rate(&s, 0, 20) == 0.125);
        assert_true(rate(&s, 1, 20) == 0.25);
        assert_true(rate(&s, 2, 20) == 0.375);
        assert_true(rate(&s, 3, 20) == 0.5);
        assert_true(rate(&s, 4, 20) <= 0.5);
        assert_true(rate(&s, 1, 2) == 0.25); /* it may be longer than the run */
        assert_true(rate(&s, 3, 4) == 0.5);
    }
}

static void constant_rates(void **state) {
    (void)state;
    const train_schedule kinds[] = {SCHEDULE_CONSTANT, SCHEDULE_PLATEAU, SCHEDULE_WARMUP};
    for (size_t i = 0; i < 3; i++) {
        train_settings s = {.schedule = kinds[i], .lr = 0.5};
        for (int64_t step = 0; step < 30; step++) {
            assert_true(rate(&s, step, 30) == 0.5);
        }
        s.warmup = 7;
        assert_true(rate(&s, 7, 30) == 0.5 && rate(&s, 29, 30) == 0.5);
    }
}

static void cosine(void **state) {
    (void)state;
    train_settings s = {.schedule = SCHEDULE_COSINE, .lr = 2};
    assert_true(rate(&s, 0, 8) == 2);
    assert_true(fabs(rate(&s, 2, 8) - (1 + sqrt(0.5))) < 1e-15);
    assert_true(fabs(rate(&s, 4, 8) - (1)) < 1e-15);
    assert_true(fabs(rate(&s, 6, 8) - (1 - sqrt(0.5))) < 1e-15);
    assert_true(fabs(rate(&s, 7, 8) + rate(&s, 1, 8) - 2) < 1e-15);
    assert_true(rate(&s, 7, 8) > 0);
    /* After the warm-up the same curve over what is left. */
    train_settings warm = s;
    warm.warmup = 3;
    for (int64_t step = 0; step < 8; step++) {
        assert_true(rate(&warm, step + 3, 11) == rate(&s, step, 8));
    }
    for (int64_t step = 1; step < 1000; step++) {
        assert_true(rate(&s, step, 1000) < rate(&s, step - 1, 1000));
    }
}

static void inverse_square_root(void **state) {
    (void)state;
    train_settings s = {.schedule = SCHEDULE_INVERSE, .lr = 0.5, .warmup = 4};
    assert_true(rate(&s, 15, 100) == 0.25);
    assert_true(rate(&s, 63, 100) == 0.125);
    assert_true(rate(&s, 63, 1000000) == 0.125); /* whatever the length of the run */
    assert_true(rate(&s, 4, 100) == 0.5 * sqrt(0.8));
    s.warmup = 0;
    assert_true(rate(&s, 0, 100) == 0.5);
    assert_true(rate(&s, 3, 100) == 0.25);
}

/* ---- validations ---- */

static bool validated(progress_state *at, const train_settings *s, double perplexity, double bleu) {
    at->step += 10;
    return ebb__progress_validated(at, s, (kind_scores){{perplexity, bleu, -1, -1}});
}

static void perplexity_decides(void **state) {
    (void)state;
    train_settings s = {.kind = &ebb__kind_nmt, .lr = 1, .patience = 2};
    progress_state at = ebb__progress_start(&s);
    assert_false(ebb__progress_exhausted(&at, &s));
    assert_true(validated(&at, &s, 9, 1));
    assert_false(validated(&at, &s, 9, 5)); /* as good is no improvement */
    assert_false(ebb__progress_exhausted(&at, &s));
    assert_true(validated(&at, &s, 8, 0));
    assert_false(validated(&at, &s, 8.5, -1));
    assert_false(validated(&at, &s, 8.25, -1));
    assert_true(ebb__progress_exhausted(&at, &s));
    assert_true(at.best.at[0] == 8 && at.last.at[0] == 8.25);
    assert_true(at.best.at[1] == 5 && at.last.at[1] == -1);
    assert_int_equal(at.validated, 50);
    s.patience = 3;
    assert_false(ebb__progress_exhausted(&at, &s));
    s.patience = 0;
    assert_false(ebb__progress_exhausted(&at, &s));
    s.patience = 1;
    at.step++; /* only right after a validation: in between, the next one may improve */
    assert_false(ebb__progress_exhausted(&at, &s));
}

static void bleu_decides(void **state) {
    (void)state;
    train_settings s = {
        .kind = &ebb__kind_nmt, .lr = 1, .valid_metric = METRIC_BLEU, .patience = 2};
    progress_state at = ebb__progress_start(&s);
    assert_true(validated(&at, &s, 9, 0)); /* the first is the best so far, however bad */
    assert_false(validated(&at, &s, 8, 0));
    assert_true(validated(&at, &s, 10, 30));
    assert_false(validated(&at, &s, 7, 29));
    assert_false(ebb__progress_exhausted(&at, &s));
    assert_false(validated(&at, &s, 6, 30));
    assert_true(ebb__progress_exhausted(&at, &s));
    assert_true(at.best.at[1] == 30 && at.best.at[0] == 6);
}

/* The plateau starts to count anew when it lowers the rate; patience does not. */
static void patience_and_plateau_count_apart(void **state) {
    (void)state;
    train_settings s = {.kind = &ebb__kind_nmt,
                        .lr = 1,
                        .schedule = SCHEDULE_PLATEAU,
                        .lr_patience = 1,
                        .lr_factor = 0.5,
                        .patience = 5};
    static const double rates[] = {1, 1, 0.5, 0.5, 0.25, 0.25};
    progress_state at = ebb__progress_start(&s);
    for (int i = 0; i < 6; i++) {
        assert_false(ebb__progress_exhausted(&at, &s));
        assert_true(validated(&at, &s, 9, -1) == (i == 0));
        assert_true(at.lr == rates[i]);
    }
    assert_true(ebb__progress_exhausted(&at, &s));
    assert_true(validated(&at, &s, 8, -1));
    assert_true(at.stale == 0 && at.since_best == 0 && at.lr == 0.25);
}

/* ---- as JSON ---- */

static void state_survives_a_checkpoint(void **state) {
    (void)state;
    ebb_ctx *ctx = test_ctx_new();
    train_settings s = {.kind = &ebb__kind_nmt, .lr = 0.1};
    corpus text = {
        .s = &s, .vocab_hash = UINT64_MAX, .train_count = 5, .train_hash = 6, .valid_hash = 7};
    progress_state at = {.step = 40,
                         .windows = 12,
                         .validated = 36,
                         .lr = 0.1,
                         .best = {{3.25, 1.0 / 3, -1, -1}},
                         .last = {{4, 0, -1, -1}},
                         .since_best = 1,
                         .stale = 2,
                         .gradient_norm = 0.1 + 0.2,
                         .loss = 2,
                         .loss_sum = 1e-300,
                         .loss_count = 4,
                         .metrics_bytes = 1234,
                         .events = {.name = "events.out.tfevents.1.a.2.3", .bytes = 99}};
    checkpoint_info found = {.found = true, .step = 40};
    found.train = ebb__progress_pack(&at, &text, "a = 1\n");
    assert_non_null(found.train);
    progress_state back = ebb__progress_start(&s);
    corpus again = {.s = &s};
    assert_ok(ctx, ebb__progress_unpack(ctx, "DIR", &found, "a = 1\n", &again, &back));
    assert_memory_equal(&back, &at, sizeof at);
    assert_true(again.resumed && again.silent && again.vocab_hash == UINT64_MAX);
    assert_true(again.train_count == 5 && again.train_hash == 6 && again.valid_hash == 7);
    assert_refused(ctx, ebb__progress_unpack(ctx, "DIR", &found, "a = 2\n", &again, &back),
                   EBB_USAGE, "'a = 1', now it is 'a = 2'");
    /* A checkpoint from before there was BLEU. */
    static const char *const later[] = {"best_bleu",     "last_bleu", "stale",
                                        "gradient_norm", "events",    "events_bytes"};
    for (size_t i = 0; i < sizeof later / sizeof *later; i++) {
        assert_int_equal(json_object_del(found.train, later[i]), 0);
    }
    back = ebb__progress_start(&s);
    assert_ok(ctx, ebb__progress_unpack(ctx, "DIR", &found, "a = 1\n", &again, &back));
    assert_true(back.best.at[1] == -1 && back.last.at[1] == -1 && back.stale == 0);
    assert_true(back.gradient_norm == -1 && back.events.name[0] == '\0');
    assert_true(back.best.at[0] == 3.25 && back.step == 40);
    /* What no run can have written. */
    assert_int_equal(json_object_set_new(found.train, "stale", json_string("x")), 0);
    assert_refused(ctx, ebb__progress_unpack(ctx, "DIR", &found, "a = 1\n", &again, &back),
                   EBB_MODEL, "DIR: checkpoint of step 40");
    assert_int_equal(json_object_del(found.train, "stale"), 0);
    found.step = 41;
    assert_refused(ctx, ebb__progress_unpack(ctx, "DIR", &found, "a = 1\n", &again, &back),
                   EBB_MODEL, "contradicts itself");
    json_decref(found.train);
    test_ctx_free(ctx);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(length_of_a_run),
        cmocka_unit_test(warm_up_comes_before_every_schedule),
        cmocka_unit_test(constant_rates),
        cmocka_unit_test(cosine),
        cmocka_unit_test(inverse_square_root),
        cmocka_unit_test(perplexity_decides),
        cmocka_unit_test(bleu_decides),
        cmocka_unit_test(patience_and_plateau_count_apart),
        cmocka_unit_test(state_survives_a_checkpoint),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
