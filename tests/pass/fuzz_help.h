/* fuzz_help.h - what the tests of random graphs share: random pass subsets, threads and budgets
 * under which the verifier accepts, bytes handed out are the planned ones, and three training steps
 * give the bits of the reference interpreter. EBB_FUZZ_ROUNDS and EBB_FUZZ_SEED make longer or
 * other runs, EBB_FUZZ_ONLY names the one test to run where there are several. */
#ifndef TESTS_PASS_FUZZ_HELP_H
#define TESTS_PASS_FUZZ_HELP_H

#include "support/twin.h"

#include <stdio.h>

static inline grad_update_settings some_update(test_dice *dice) {
    test_dice aside = {~dice->state}; /* of its own: seeds stay what they were */
    bool average = test_below(&aside, 4) == 0;
    return (grad_update_settings){.optimizer = (grad_optimizer)test_below(dice, 3),
                                  .average = average,
                                  .momentum = test_below(dice, 2) ? 0.9F : 0,
                                  .beta1 = 0.9F,
                                  .beta2 = 0.99F,
                                  .eps = 1e-6F,
                                  .weight_decay = test_below(dice, 2) ? 0.01F : 0,
                                  .clip = test_below(dice, 2) ? 0.5F : 0};
}

static inline uint32_t some_passes(test_dice *dice) {
    uint32_t off = 0;
    for (int id = 0; id < PASS_COUNT; id++) {
        off |= ebb__pass_optional((pass_id)id) && test_below(dice, 4) == 0 ? 1U << id : 0;
    }
    return off;
}

static inline pass_knobs some_knobs(test_dice *dice) {
    const double prices[] = {0, 1e-12, 1e-9, 1e-6};
    return (pass_knobs){.pack = test_below(dice, 2) != 0,
                        .chunk_rows = test_below(dice, 12),
                        .chunk_images = 8 * test_below(dice, 3),
                        .chunk_net = test_below(dice, 2) != 0,
                        .encode = test_below(dice, 4),
                        .price = prices[test_below(dice, 4)],
                        .merge = test_below(dice, 4),
                        .scan = test_below(dice, 4),
                        .span = test_below(dice, 3) == 0 ? 0 : 1 + test_below(dice, 4),
                        .outer = test_below(dice, 4),
                        .heavy = test_below(dice, 2) != 0,
                        .replay = test_below(dice, 2) != 0,
                        .decode = test_below(dice, 2) != 0,
                        .offload = 50 * test_below(dice, 3),
                        .offload_least = 1};
}

/* Some steps do not fit, or none does. */
static inline pass_density some_density(test_dice *dice) {
    const double cut[] = {0.2, 0.5, 0.6, 0.9};
    double share = cut[test_below(dice, 4)];
    return (pass_density){share, share};
}

static inline ebb_plan *by_budget(ebb_ctx *ctx, const plan_request *request, plan_options *options,
                                  test_dice *dice) {
    ebb_plan *plan = NULL;
    options->budget = UINT64_MAX;
    assert_ok(ctx, ebb__plan_make(ctx, request, 1, NULL, 0, options, &plan));
    uint64_t least = plan->least_bytes, most = plan->peak_bytes;
    assert_true(least <= most);
    ebb__plan_free(plan);
    options->budget = least + test_roll(dice) % (most - least + 1);
    assert_ok(ctx, ebb__plan_make(ctx, request, 1, NULL, 0, options, &plan));
    assert_true(plan->peak_bytes <= options->budget);
    return plan;
}

/* EBB_FUZZ_SHOW=1 prints the graphs, to look into one failing seed. */
static inline void show(void *user, const char *pass, const char *text) {
    (void)user;
    (void)fprintf(stderr, "--- after %s\n%s", pass, text);
}

/* A graph that `make` draws, run for three steps; gives in how many parts its batch is done. */
typedef int32_t (*fuzz_make)(ebb_ctx *ctx, test_dice *dice, bool training, ir_graph *out);

static inline void fuzz_round(uint64_t seed, fuzz_make make) {
    ebb_ctx *ctx = test_ctx_new();
    test_dice dice = {seed};
    bool training = test_below(&dice, 5) > 0;
    ir_graph g, parted;
    int32_t shards = make(ctx, &dice, training, &g);
    grad_update_settings update = some_update(&dice);
    const int32_t formats[] = {0, 0, 0, 16, 16, 10, 8, 8};
    int32_t stash = formats[test_below(&dice, 8)];
    plan_options options = {
        .stash = stash,
        .members = 1 + test_below(&dice, 5),
        .disabled = some_passes(&dice),
        .update = update,
        .density = some_density(&dice),
        .disk = test_below(&dice, 2) == 0 ? "/tmp" : NULL,
        .dump_after = getenv("EBB_FUZZ_SHOW") != NULL ? 1U << PASS_INFER | 1U << PASS_SCHEDULE : 0,
        .dump = show};
    plan_request request = {.name = "fuzz", .graph = &g, .training = training, .shards = shards};
    ebb_plan *plan = NULL;
    if (test_below(&dice, 2) == 0) {
        plan = by_budget(ctx, &request, &options, &dice);
    } else {
        pass_config config = {.disabled = options.disabled,
                              .knobs = some_knobs(&dice),
                              .members = options.members,
                              .stash = stash,
                              .density = options.density,
                              .update = update,
                              .dump_after = options.dump_after,
                              .dump = show};
        plan = test_compile(ctx, &request, &config);
    }
    uint64_t sum = 0;
    for (int k = 0; k < IR_KINDS; k++) {
        sum += plan->bytes_by_kind[k];
    }
    assert_int_equal(sum, plan->peak_bytes);
    assert_ok(ctx, ebb__ir_copy(&g, &parted)); /* the plan may still compile g, its fallback */
    test_shard(&parted, shards);
    test_run_equal(plan, &parted, training, &update, seed, 3);
    ebb__ir_fini(&parted);
    ebb__ir_fini(&g);
    test_ctx_free(ctx);
}

/* As many rounds as usual, or as asked for. */
static inline void fuzz_rounds(uint64_t usual, void (*round)(uint64_t seed, fuzz_make make),
                               fuzz_make make) {
    uint64_t rounds = test_asked("EBB_FUZZ_ROUNDS", usual);
    uint64_t seed = test_asked("EBB_FUZZ_SEED", 1);
    for (uint64_t i = 0; i < rounds; i++) {
        char now[64];
        (void)snprintf(now, sizeof now, "%llu", (unsigned long long)(seed + i));
        (void)setenv("EBB_FUZZ_NOW", now, 1); /* shown by whoever looks at a crash */
        round(seed + i, make);
    }
}

#endif
