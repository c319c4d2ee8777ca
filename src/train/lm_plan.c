/* lm_plan.c - planning and benchmarking: jobs that need no data. */
#include "train/lm_job.h"

#include "base/host.h"
#include "base/rng.h"

#include <stdlib.h>

/* Entries of the vocabulary: of the text if there is one, else as many as asked for. */
static ebb_status count_vocab(ebb_ctx *ctx, const train_settings *s, int64_t *out) {
    *out = s->vocab;
    if (s->train_path == NULL) {
        return s->vocab > 0 ? EBB_OK
                            : ebb__fail(ctx, EBB_USAGE,
                                        "--vocab 0 means all words of the text: give --train");
    }
    data_vocab vocab;
    vocab_options options = {.mode = (text_mode)s->tokens, .limit = (size_t)s->vocab};
    TRY(ebb__vocab_build(ctx, s->train_path, &options, &vocab));
    *out = vocab.count;
    ebb__vocab_free(&vocab);
    return EBB_OK;
}

ebb_status ebb__lm_plan(ebb_ctx *ctx, const train_settings *settings, ebb_plan **out) {
    lm_request request = {.train = true, .valid = settings->valid_path != NULL};
    *out = NULL;
    TRY(count_vocab(ctx, settings, &request.vocab));
    return ebb__lm_compile(ctx, settings, &request, out);
}

/* ---- bench ---- */

static void random_tokens(int32_t *ids, int64_t n, int64_t vocab, rng_key key) {
    for (int64_t i = 0; i < n; i++) {
        uint32_t word = ebb__rng_block(key, (uint32_t)i, 0, 0, 0).word[0];
        ids[i] = (int32_t)((uint64_t)word * (uint64_t)vocab >> 32);
    }
}

static int compare_doubles(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

enum { WARM_UP = 2 };

/* What a step reads beside tokens; steps count from 0. */
static void set_step(const train_settings *s, const lm_buffers *data, int64_t step) {
    ebb__lm_hyper(s, s->lr, step + 1, data->hyper);
    if (data->step != NULL) {
        *data->step = (int32_t)step;
    }
}

static ebb_status run_bench(run_session *session, const train_settings *s, int64_t steps,
                            double *seconds, lm_bench_result *out) {
    lm_buffers data = ebb__lm_buffers(session);
    int64_t positions = s->batch * s->bptt;
    uint64_t calls = 0;
    ebb__lm_init_weights(session, s);
    random_tokens(data.inputs, positions, s->vocab, ebb__rng_key(s->seed, "bench.inputs"));
    random_tokens(data.targets, positions, s->vocab, ebb__rng_key(s->seed, "bench.targets"));
    for (int64_t i = 0; i < WARM_UP + steps; i++) {
        double start = ebb__clock_seconds();
        set_step(s, &data, i);
        ebb__run_step(session, 0);
        if (i >= WARM_UP) {
            seconds[i - WARM_UP] = ebb__clock_seconds() - start;
        }
        if (i == 0) {
            calls = session->ctx->mem.calls;
        }
    }
    out->allocations_after_first_step = session->ctx->mem.calls - calls;
    qsort(seconds, (size_t)steps, sizeof *seconds, compare_doubles);
    out->seconds_per_step = seconds[steps / 2];
    out->words_per_second = (double)positions / out->seconds_per_step;
    out->loss = (double)*(const float *)ebb__run_output(session, 0, LM_LOSS);
    return ebb__lm_weights_hash(session, &out->weights_hash);
}

/* Observed steps and others take turns, so that what else the machine does meets both alike. */
static ebb_status run_profiled(run_session *session, const train_settings *s, int64_t steps,
                               lm_bench_result *out) {
    lm_buffers data = ebb__lm_buffers(session);
    const ebb_plan *plan = session->plan;
    run_profile *profile = out->profile;
    uint64_t calls = session->ctx->mem.calls;
    for (int64_t i = 0; i < 2 * steps; i++) {
        set_step(s, &data, WARM_UP + steps + i);
        if (i % 2 != 0) {
            ebb__profile_step(profile, session, 0);
            continue;
        }
        double start = ebb__clock_seconds();
        ebb__run_step(session, 0);
        double seconds = ebb__clock_seconds() - start;
        profile->step_seconds =
            i == 0 || seconds < profile->step_seconds ? seconds : profile->step_seconds;
    }
    out->allocations_after_first_step += session->ctx->mem.calls - calls;
    ebb__profile_finish(profile);
    return plan->dev->measure_peak(session->ctx, plan->members, &profile->peak_flops);
}

ebb_status ebb__lm_bench(ebb_ctx *ctx, const train_settings *settings, int64_t steps,
                         lm_bench_result *out) {
    ebb_plan *plan = NULL;
    run_session *session = NULL;
    double *seconds = NULL;
    lm_request request = {.train = true, .vocab = settings->vocab};
    *out = (lm_bench_result){0};
    if (settings->vocab < 1) {
        return ebb__fail(ctx, EBB_USAGE, "bench needs --vocab of at least 1");
    }
    ebb_status status = ebb__lm_compile(ctx, settings, &request, &plan);
    if (status == EBB_OK && settings->profile) {
        status = ebb__profile_new(plan, 0, &out->profile);
    }
    if (status != EBB_OK) {
        ebb__plan_free(plan);
        return status;
    }
    TRY_OUT(ebb__run_new(ctx, plan, &session));
    TRY_OUT(ebb__alloc(ctx, (size_t)steps, sizeof *seconds, &seconds));
    TRY_OUT(run_bench(session, settings, steps, seconds, out));
    if (out->profile != NULL) {
        TRY_OUT(run_profiled(session, settings, steps, out));
    }
    out->planned_peak_bytes = plan->peak_bytes;
    out->measured_peak_bytes = session->measured_bytes;
    out->vm_hwm_bytes = ebb__host_peak_resident();
    out->threads = plan->members;
    out->plan_hash = plan->hash;
out:
    if (status != EBB_OK) {
        ebb__profile_free(out->profile);
        out->profile = NULL;
    }
    ebb__free(ctx, seconds);
    ebb__run_free(session);
    return status;
}
