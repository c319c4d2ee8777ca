/* bench.c - planning and benchmarking: jobs that need no data. */
#include "train/job_int.h"

#include "base/host.h"
#include "comm/comm.h"
#include "train/meter.h"

#include <stdlib.h>
#include <string.h>

ebb_status ebb__job_plain_sizes(ebb_ctx *ctx, const train_settings *s, job_request *request) {
    s->kind->vocab_sizes(s, request);
    return request->vocab > 0 ? EBB_OK
                              : ebb__fail(ctx, EBB_USAGE,
                                          "--vocab all means all words of a text, and there is "
                                          "none: say how many");
}

ebb_status ebb__job_sizes(ebb_ctx *ctx, const train_settings *settings, job_request *request) {
    corpus *c = NULL;
    if (settings->train_path == NULL) {
        return ebb__job_plain_sizes(ctx, settings, request);
    }
    TRY(ebb__corpus_new(ctx, settings, NULL, &c));
    ebb_status status = ebb__corpus_measure(c, 0, request);
    ebb__corpus_free(c);
    return status;
}

ebb_status ebb__job_plan(ebb_ctx *ctx, const train_settings *settings, ebb_plan **out) {
    job_request request = {.train = true, .valid = kind_validates(settings)};
    *out = NULL;
    TRY(ebb__job_sizes(ctx, settings, &request));
    return ebb__job_compile(ctx, settings, &request, out);
}

/* ---- bench ---- */

static int compare_doubles(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

enum { WARM_UP = 2 };

/* Times count, not what is learnt: random tokens may well diverge. */
static ebb_status unless_diverged(ebb_ctx *ctx, ebb_status status) {
    if (status != EBB_DIVERGED) {
        return status;
    }
    ebb__ctx_clear(ctx);
    return EBB_OK;
}

/* What a process had to do with others until now. */
typedef struct bench_talk {
    double messages, bytes, waiting, seconds, clock;
} bench_talk;

/* By the virtual clock, if there is one. */
static bench_talk talk_of(const run_session *session) {
    bench_talk talk = {.messages = (double)session->messages,
                       .bytes = (double)session->sent_bytes,
                       .waiting = session->waiting_seconds,
                       .seconds = ebb__clock_seconds()};
    comm_time clock = {.seconds = -1};
    if (session->link != NULL) {
        clock = ebb__comm_virtual_time(session->link);
    }
    if (clock.seconds >= 0) {
        talk.clock = talk.seconds = clock.seconds;
        talk.waiting = clock.waiting;
    }
    return talk;
}

static device_counts counts_of(const run_session *session) {
    const device *dev = session->plan->dev;
    return dev->counts != NULL ? dev->counts(dev) : (device_counts){0};
}

/* Of the timed steps. */
static void note_counts(const run_session *session, const device_counts *before, int64_t steps,
                        job_bench_result *out) {
    device_counts now = counts_of(session);
    double n = (double)steps;
    out->offloaded_bytes = session->plan->away_bytes;
    out->offloaded_bytes_used = plan_align(session->away_high);
    out->moved_bytes = (double)session->moved_bytes / (double)(WARM_UP + steps);
    if (!device_apart(session->plan->dev)) {
        return;
    }
    out->device_bytes = session->plan->device_bytes;
    out->host_bytes = session->plan->host_bytes;
    out->device_bytes_allocated = now.allocated_bytes;
    out->launches = (double)(now.launches - before->launches) / n;
    out->copies = (double)(now.copies - before->copies) / n;
    out->waits = (double)(now.waits - before->waits) / n;
    out->host_syncs = (double)(now.syncs - before->syncs) / n;
}

/* Steps follow each other as in training: on a device that works by itself one is begun before the
 * one before it has ended. A step's time is that between two ends. */
typedef struct bench_clock {
    double since, *seconds; /* of timed steps; NULL: none is timed yet */
    int64_t n;
} bench_clock;

static ebb_status end_steps(run_trainer *trainer, int32_t but, bench_clock *clock) {
    while (trainer->n_begun > but) {
        TRY(unless_diverged(trainer->session->ctx, ebb__trainer_end(trainer)));
        double now = ebb__clock_seconds();
        if (clock->seconds != NULL) {
            clock->seconds[clock->n++] = now - clock->since;
        }
        clock->since = now;
    }
    return EBB_OK;
}

static ebb_status run_bench(run_trainer *trainer, const train_settings *s, int64_t steps,
                            double *seconds, job_bench_result *out, bench_talk *of_steps) {
    run_session *session = trainer->session;
    uint64_t calls = 0;
    device_counts counted = {0};
    meter before = {0}, after = {0};
    bench_talk talk = {0};
    bench_clock clock = {0};
    TRY(ebb__ranks_draw(session, s->seed));
    TRY(s->kind->randomise(session, s));
    for (int64_t i = 0; i < WARM_UP + steps; i++) {
        if (i == WARM_UP) {
            TRY(end_steps(trainer, 0, &clock));
            ebb__meter_read(&before);
            talk = talk_of(session);
            counted = counts_of(session);
            clock = (bench_clock){ebb__clock_seconds(), seconds, 0};
        }
        TRY(ebb__trainer_begin(trainer, 0, s->lr));
        TRY(end_steps(trainer, i > 0 ? ebb__trainer_ahead(trainer) : 0, &clock));
        if (i == 0) {
            calls = session->ctx->mem.calls;
        }
    }
    TRY(end_steps(trainer, 0, &clock));
    ebb__meter_read(&after);
    note_counts(session, &counted, steps, out);
    *of_steps = talk_of(session);
    of_steps->messages = (of_steps->messages - talk.messages) / (double)steps;
    of_steps->bytes = (of_steps->bytes - talk.bytes) / (double)steps;
    of_steps->waiting = (of_steps->waiting - talk.waiting) / (double)steps;
    of_steps->seconds = (of_steps->seconds - talk.seconds) / (double)steps;
    of_steps->clock = (of_steps->clock - talk.clock) / (double)steps;
    out->cpu_seconds = ebb__meter_cpu_seconds(&before, &after) / (double)steps;
    out->joules = ebb__meter_joules(&before, &after) / (double)steps;
    out->allocations_after_first_step = session->ctx->mem.calls - calls;
    qsort(seconds, (size_t)steps, sizeof *seconds, compare_doubles);
    out->seconds_per_step = seconds[steps / 2];
    out->words_per_second = (double)ebb__kind_positions(s, session->plan) / out->seconds_per_step;
    out->loss = trainer->loss;
    return EBB_OK;
}

/* The first of several processes asks the others for what it has not itself. */
static ebb_status hash_weights(run_session *session, job_bench_result *out) {
    if (session->link != NULL && ebb__comm_rank(session->link) > 0) {
        return ebb__ranks_follow(session);
    }
    TRY(ebb__ranks_lead(session));
    TRY(ebb__tensors_hash(session, &out->weights_hash));
    TRY(ebb__ranks_end(session, EBB_OK));
    ebb__ranks_free(session); /* from here on each runs its steps by itself again */
    return EBB_OK;
}

/* Observed steps and others take turns, so that what else the machine does meets both alike. */
static ebb_status run_profiled(run_trainer *trainer, const train_settings *s, int64_t steps,
                               job_bench_result *out) {
    run_session *session = trainer->session;
    const ebb_plan *plan = session->plan;
    run_profile *profile = out->profile;
    uint64_t calls = session->ctx->mem.calls;
    for (int64_t i = 0; i < 2 * steps; i++) {
        if (i % 2 != 0) {
            TRY(unless_diverged(session->ctx, ebb__profile_step(profile, trainer, 0, s->lr)));
            continue;
        }
        double start = ebb__clock_seconds();
        TRY(unless_diverged(session->ctx, ebb__trainer_step(trainer, 0, s->lr)));
        double seconds = ebb__clock_seconds() - start;
        profile->step_seconds =
            i == 0 || seconds < profile->step_seconds ? seconds : profile->step_seconds;
    }
    out->allocations_after_first_step += session->ctx->mem.calls - calls;
    ebb__profile_finish(profile);
    return plan->dev->measure_peak(plan->dev, session->ctx, plan->members, &profile->peak_flops);
}

/* What every process found, to rank 0. */
static ebb_status gather_ranks(ebb_ctx *ctx, const train_settings *s, const bench_talk *talk,
                               job_bench_result *out) {
    comm_link *link = s->link;
    if (link == NULL) {
        return EBB_OK;
    }
    int rank = ebb__comm_rank(link), size = ebb__comm_size(link);
    job_rank own = {.rank = rank,
                    .stage = rank % (int)s->stages,
                    .planned_peak_bytes = out->planned_peak_bytes,
                    .measured_peak_bytes = out->measured_peak_bytes,
                    .vm_hwm_bytes = out->vm_hwm_bytes,
                    .allocations_after_first_step = out->allocations_after_first_step,
                    .sent_bytes = talk->bytes,
                    .messages = talk->messages,
                    .busy_seconds = talk->seconds - talk->waiting,
                    .waiting_seconds = talk->waiting,
                    .cpu_seconds = out->cpu_seconds,
                    .virtual_seconds = talk->clock};
    memcpy(own.host, ebb__comm_describe(link, rank)->host, sizeof own.host);
    if (rank == 0) {
        TRY(ebb__alloc(ctx, (size_t)size, sizeof *out->ranks, &out->ranks));
        out->n_ranks = size;
    }
    return ebb__comm_gather(link, 0, &own, out->ranks, sizeof own, s->lost_after);
}

ebb_status ebb__job_bench(ebb_ctx *ctx, const train_settings *settings, int64_t steps,
                          job_bench_result *out) {
    ebb_plan *plan = NULL;
    run_session *session = NULL;
    double *seconds = NULL;
    job_request request = {.train = true};
    *out = (job_bench_result){0};
    TRY(ebb__job_plain_sizes(ctx, settings, &request));
    ebb_status status = ebb__job_compile_run(ctx, settings, &request, &plan);
    if (status == EBB_OK && settings->profile) {
        status = ebb__profile_new(plan, 0, &out->profile);
    }
    status = ebb__job_agree(settings, status);
    if (status != EBB_OK) {
        ebb__profile_free(out->profile);
        out->profile = NULL;
        ebb__plan_free(plan);
        return status;
    }
    TRY_OUT(ebb__run_new(ctx, plan, &session));
    TRY_OUT(ebb__alloc(ctx, (size_t)steps, sizeof *seconds, &seconds));
    run_trainer trainer = ebb__job_trainer(session, settings);
    bench_talk talk = {0};
    session->no_compute = settings->only == TRAIN_ONLY_MESSAGES;
    session->no_messages = settings->only == TRAIN_ONLY_COMPUTE;
    TRY_OUT(ebb__job_join_ranks(settings, session));
    TRY_OUT(run_bench(&trainer, settings, steps, seconds, out, &talk));
    out->measured_peak_bytes = session->measured_bytes; /* as steps go */
    TRY_OUT(hash_weights(session, out));
    if (out->profile != NULL) {
        TRY_OUT(run_profiled(&trainer, settings, steps, out));
    }
    out->sparse_reserved_bytes = plan->programs[plan->lead].size.heap_bytes;
    out->sparse_used_bytes = session->sparse_bytes;
    out->fallback_steps = session->fallback_steps;
    out->planned_peak_bytes = plan->peak_bytes;
    out->vm_hwm_bytes = ebb__host_peak_resident();
    out->threads = plan->members;
    out->plan_hash = plan->hash;
    out->n_forms = plan->n_forms;
    memcpy(out->forms, plan->forms, sizeof out->forms);
    out->chunk_images = plan->choices[plan->chosen].knobs.chunk_images;
    out->reduce = job_reduced(plan);
    TRY_OUT(gather_ranks(ctx, settings, &talk, out));
out:
    status = ebb__ranks_lost(session, status);
    if (status != EBB_OK) {
        ebb__free(ctx, out->ranks);
        out->ranks = NULL;
        ebb__profile_free(out->profile);
        out->profile = NULL;
    }
    ebb__free(ctx, seconds);
    ebb__run_free(session);
    return status;
}
