/* The profile of a step: every instruction counted once, in the phase it belongs to whatever the
 * passes made of the graph; tables that sum to the step; no memory but its own. */
#include "kind/kinds.h"
#include "kind/text/options.h"
#include "run/profile.h"

#include "plan/passes.h"
#include "train/job_int.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

enum { LAYERS = 2, STEPS = 5, BATCH = 3, HIDDEN = 8, VOCAB = 40 };

static train_settings small(lm_cell cell, uint32_t disabled) {
    return (train_settings){.kind = &ebb__kind_lm,
                            .vocab = VOCAB,
                            .cell = cell,
                            .layers = LAYERS,
                            .hidden = HIDDEN,
                            .embed = HIDDEN,
                            .dropout = 0.25,
                            .batch = BATCH,
                            .bptt = STEPS,
                            .lr = 1,
                            .clip = 5,
                            .seed = 1,
                            .threads = 1,
                            .profile = true,
                            .memory = {.form = MEMORY_BYTES, .bytes = 64U << 20},
                            .disabled = disabled};
}

static uint32_t all_optional(void) {
    uint32_t set = 0;
    for (int id = 0; id < PASS_COUNT; id++) {
        set |= ebb__pass_optional((pass_id)id) ? 1U << id : 0;
    }
    return set;
}

static ebb_ctx *new_ctx(void) {
    ebb_ctx *ctx;
    assert_int_equal(ebb_ctx_new(&ctx), EBB_OK);
    return ctx;
}

static void drop_ctx(ebb_ctx *ctx) {
    assert_int_equal(ctx->mem.live_bytes, 0);
    ebb_ctx_free(ctx);
}

static ebb_plan *make_plan(ebb_ctx *ctx, const train_settings *s) {
    ebb_plan *plan = NULL;
    job_request request = {.train = true, .vocab = s->vocab};
    assert_int_equal(ebb__job_compile(ctx, s, &request, &plan), EBB_OK);
    return plan;
}

static const profile_row *phase(const run_profile *p, const char *name) {
    for (int32_t i = 0; i < p->n_phases; i++) {
        if (strcmp(p->phases[i].name, name) == 0) {
            return &p->phases[i];
        }
    }
    fail_msg("no phase %s", name);
    return NULL;
}

/* But for the rounding of sums in another order. */
static void assert_close(double a, double b) {
    assert_true(fabs(a - b) <= 1e-9 * fabs(b));
}

static profile_row sum_of(const profile_row *rows, int32_t n) {
    profile_row sum = {0};
    for (int32_t i = 0; i < n; i++) {
        sum.calls += rows[i].calls;
        sum.seconds += rows[i].seconds;
        sum.flops += rows[i].flops;
        sum.bytes += rows[i].bytes;
    }
    return sum;
}

/* Without passes that merge or split, a layer has one product of each sort a time step; but the
 * gradient of the state before the first step is nobody's. */
static void phases_count_what_the_model_says(void **state) {
    (void)state;
    const lm_cell cells[] = {LM_LSTM, LM_GRU, LM_RNN};
    const int64_t each = (int64_t)LAYERS * STEPS;
    for (size_t c = 0; c < 3; c++) {
        ebb_ctx *ctx = new_ctx();
        train_settings s = small(cells[c], all_optional());
        job_bench_result r;
        assert_int_equal(ebb__job_bench(ctx, &s, 1, &r), EBB_OK);
        const run_profile *p = r.profile;
        assert_int_equal(phase(p, "embedding")->calls, 2 * STEPS);
        assert_int_equal(phase(p, "input GEMM")->calls, each);
        assert_int_equal(phase(p, "recurrent GEMM")->calls, each);
        assert_int_equal(phase(p, "recurrent-gradient GEMM")->calls, LAYERS * (STEPS - 1));
        assert_int_equal(phase(p, "input-gradient GEMM")->calls, each);
        assert_int_equal(phase(p, "weight-gradient GEMM")->calls, 2 * each);
        assert_int_equal(phase(p, "bias gradient")->calls, cells[c] == LM_GRU ? 2 * each : each);
        assert_int_equal(phase(p, "output: projection")->calls, 1);
        assert_int_equal(phase(p, "output: gradients")->calls, 3);
        assert_true(phase(p, "pointwise")->calls >= 4 * each); /* cell and dropout, and back */
        assert_true(phase(p, "output: loss")->calls >= 3);
        assert_true(phase(p, "optimiser")->calls > 0);
        assert_int_equal(phase(p, "waiting, other")->calls, 0);
        ebb__profile_free(r.profile);
        drop_ctx(ctx);
    }
}

/* Merging time steps, chunking the loss and packing weights leave every sort of product its work.
 */
static void passes_do_not_move_work_between_phases(void **state) {
    (void)state;
    static const char *const names[] = {
        "input GEMM",          "recurrent GEMM",       "recurrent-gradient GEMM",
        "input-gradient GEMM", "weight-gradient GEMM", "output: projection"};
    const lm_cell cells[] = {LM_LSTM, LM_GRU, LM_RNN};
    for (size_t c = 0; c < 3; c++) {
        ebb_ctx *ctx = new_ctx();
        train_settings plain = small(cells[c], all_optional()), full = small(cells[c], 0);
        job_bench_result a, b;
        assert_int_equal(ebb__job_bench(ctx, &plain, 1, &a), EBB_OK);
        assert_int_equal(ebb__job_bench(ctx, &full, 1, &b), EBB_OK);
        for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
            assert_true(phase(a.profile, names[i])->flops > 0);
            assert_close(phase(a.profile, names[i])->flops, phase(b.profile, names[i])->flops);
        }
        ebb__profile_free(a.profile);
        ebb__profile_free(b.profile);
        drop_ctx(ctx);
    }
}

static void tables_sum_to_the_step(void **state) {
    (void)state;
    for (int64_t threads = 1; threads <= 2; threads++) {
        ebb_ctx *ctx = new_ctx();
        train_settings s = small(LM_LSTM, 0);
        s.threads = threads;
        ebb_plan *plan = make_plan(ctx, &s);
        int32_t n_instrs = plan->programs[0].size.n_instrs;
        run_profile *p;
        run_session *session;
        assert_int_equal(ebb__profile_new(plan, 0, &p), EBB_OK);
        assert_int_equal(ebb__run_new(ctx, plan, &session), EBB_OK);
        run_trainer trainer = ebb__trainer(session, 0.9, 0.999);
        uint64_t calls = ctx->mem.calls;
        for (int i = 0; i < 4; i++) {
            assert_int_equal(ebb__profile_step(p, &trainer, 0, 0), EBB_OK);
        }
        ebb__profile_finish(p);
        assert_int_equal(ctx->mem.calls, calls);
        assert_null(session->observe);
        assert_true(session->measured_bytes <= plan->peak_bytes);

        profile_row by_phase = sum_of(p->phases, p->n_phases);
        profile_row by_layer = sum_of(p->layers, p->n_layers);
        assert_int_equal(by_phase.calls, n_instrs);
        assert_int_equal(by_layer.calls, n_instrs);
        assert_close(by_phase.flops, p->flops);
        assert_close(by_layer.flops, p->flops);
        assert_close(by_phase.bytes, by_layer.bytes);
        assert_true(p->observed_seconds > 0);
        assert_close(by_phase.seconds, p->observed_seconds);
        assert_close(by_layer.seconds + p->phases[p->n_phases - 1].seconds, p->observed_seconds);
        ebb__profile_free(p);
        ebb__run_free(session);
        drop_ctx(ctx);
    }
}

/* Groups hold what is alike: as many calls of one as the model has time steps, largest first. */
static void groups_are_the_work_of_a_layer(void **state) {
    (void)state;
    ebb_ctx *ctx = new_ctx();
    train_settings s = small(LM_RNN, all_optional());
    job_bench_result r;
    bool found = false;
    assert_int_equal(ebb__job_bench(ctx, &s, 2, &r), EBB_OK);
    const run_profile *p = r.profile;
    assert_int_equal(p->n_top, PROFILE_TOP);
    for (int32_t i = 0; i + 1 < p->n_top; i++) {
        assert_true(p->groups[p->top[i]].row.seconds >= p->groups[p->top[i + 1]].row.seconds);
    }
    for (int32_t i = 0; i < p->n_groups; i++) {
        const profile_group *g = &p->groups[i];
        assert_true(g->row.seconds <= p->groups[p->top[0]].row.seconds);
        if (strcmp(p->phases[g->phase].name, "recurrent GEMM") == 0 &&
            strcmp(p->layers[g->layer].name, "rnn.l1") == 0) {
            assert_int_equal(g->row.calls, STEPS);
            assert_string_equal(g->shape, "3x8 k=8");
            assert_memory_equal(g->kernel, "matmul.", 7);
            assert_close(g->row.flops, 2.0 * STEPS * BATCH * HIDDEN * HIDDEN);
            assert_false(found);
            found = true;
        }
    }
    assert_true(found);
    ebb__profile_free(r.profile);
    drop_ctx(ctx);
}

/* Four bytes a node, a little over two hundred a group, in mappings of at least 256 KiB. */
static void its_memory_is_small_and_counted(void **state) {
    (void)state;
    ebb_ctx *ctx = new_ctx();
    train_settings s = small(LM_LSTM, 0);
    ebb_plan *plan = make_plan(ctx, &s);
    run_profile *p;
    uint64_t before = ctx->mem.live_bytes;
    assert_int_equal(ebb__profile_new(plan, 0, &p), EBB_OK);
    assert_int_equal(ctx->mem.live_bytes - before, p->memory_bytes);
    assert_in_range(p->memory_bytes, 1, 300U << 10);
    ebb__profile_free(p);
    assert_int_equal(ctx->mem.live_bytes, before);
    ebb__plan_free(plan);
    drop_ctx(ctx);
}

static void without_memory_there_is_no_profile(void **state) {
    (void)state;
    ebb_ctx *ctx = new_ctx();
    train_settings s = small(LM_GRU, 0);
    ebb_plan *plan = make_plan(ctx, &s);
    uint64_t before = ctx->mem.live_bytes;
    ebb_status status = EBB_INTERNAL;
    for (uint64_t n = 1; status != EBB_OK; n++) {
        run_profile *p = NULL;
        assert_in_range(n, 1, 100);
        ctx->mem.fail_at = n;
        status = ebb__profile_new(plan, 0, &p);
        ctx->mem.fail_at = 0;
        assert_int_equal(status == EBB_OK, p != NULL);
        assert_true(status == EBB_OK ? n > 1 : status == EBB_NOMEM);
        ebb__profile_free(p);
        ebb__ctx_clear(ctx);
        assert_int_equal(ctx->mem.live_bytes, before);
    }
    ebb__plan_free(plan);
    drop_ctx(ctx);
}

static void peak_is_measured_or_refused(void **state) {
    (void)state;
    const device *dev = ebb__device_default();
    for (int members = 1; members <= 3; members += 2) {
        ebb_ctx *ctx = new_ctx();
        ebb_status status = EBB_INTERNAL;
        double flops = -1;
        for (uint64_t n = 1; status != EBB_OK; n++) {
            assert_in_range(n, 1, 100);
            ctx->mem.fail_at = n;
            status = dev->measure_peak(dev, ctx, members, &flops);
            ctx->mem.fail_at = 0;
            assert_true(status == EBB_OK ? flops > 1e6 && n > 1 : status == EBB_NOMEM);
            ebb__ctx_clear(ctx);
            assert_int_equal(ctx->mem.live_bytes, 0);
        }
        drop_ctx(ctx);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(phases_count_what_the_model_says),
        cmocka_unit_test(passes_do_not_move_work_between_phases),
        cmocka_unit_test(tables_sum_to_the_step),
        cmocka_unit_test(groups_are_the_work_of_a_layer),
        cmocka_unit_test(its_memory_is_small_and_counted),
        cmocka_unit_test(without_memory_there_is_no_profile),
        cmocka_unit_test(peak_is_measured_or_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
