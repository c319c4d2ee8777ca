/* epoch_cost.c - see epoch_cost.h. */
#include "kind/text/epoch_cost.h"

#include "pass/pass.h"
#include "train/job_int.h"

#include <math.h>

/* ---- cost ---- */

/* Lengths of the shapes that are planned: long enough for what happens once a step not to drown
 * the rest, short enough to be planned in no time. */
enum { LONG = 24, SHORT_PART = 4 };

typedef struct corner_values {
    double seconds, bytes;
} corner_values;

/* One shape as a program without recomputation and chunks, which would be chosen by size. */
static ebb_status price(ebb_ctx *ctx, const train_settings *settings, const job_request *sizes,
                        int64_t rows, data_shape shape, corner_values *out) {
    train_settings trial = *settings;
    job_request request = {.train = true,
                           .vocab = sizes->vocab,
                           .src_vocab = sizes->src_vocab,
                           .shapes = {.n = 1, .at = {shape}}};
    ebb_plan *plan = NULL;
    trial.batch = rows;
    trial.memory = (train_memory){.form = MEMORY_BYTES, .bytes = UINT64_MAX / 2};
    trial.disabled |= 1U << PASS_RECOMPUTE | 1U << PASS_CHUNK | 1U << PASS_VERIFY; /* not run */
    trial.tune_folder = NULL;
    trial.explain = false;
    trial.dump_after = 0;
    ebb_status status = ebb__job_compile(ctx, &trial, &request, &plan);
    if (status == EBB_OK) {
        *out = (corner_values){plan->seconds_per_step, (double)plan->peak_bytes};
    }
    ebb__plan_free(plan);
    return status;
}

/* Through values at (s[0], t[0]), (s[1], t[0]), (s[0], t[1]), (s[1], t[1]). */
static epoch_plane plane_of(const double f[4], const int64_t s[2], const int64_t t[2]) {
    double ds = (double)(s[1] - s[0]), dt = (double)(t[1] - t[0]);
    double s0 = (double)s[0], t0 = (double)t[0];
    double area = ds > 0 ? (f[3] - f[2] - f[1] + f[0]) / (ds * dt) : 0;
    double source = ds > 0 ? (f[1] - f[0]) / ds - area * t0 : 0;
    double target = (f[2] - f[0]) / dt - area * s0;
    return (epoch_plane){{f[0] - source * s0 - target * t0 - area * s0 * t0, source, target, area}};
}

/* Two lengths of a side; of one that does not exist 0. */
static void pick_lengths(uint32_t longest, int64_t out[2]) {
    out[1] = longest < LONG ? longest : LONG;
    out[0] = out[1] / SHORT_PART > 0 ? out[1] / SHORT_PART : longest > 0;
}

ebb_status ebb__epoch_cost_make(ebb_ctx *ctx, const train_settings *settings,
                                const job_request *sizes, const epoch_range *range,
                                epoch_cost *out) {
    int64_t s[2], t[2];
    pick_lengths(range->longest.source, s);
    pick_lengths(range->longest.target, t);
    *out = (epoch_cost){.rows = {range->rows[0], range->rows[1]}};
    for (int i = 0; i < 2; i++) {
        double seconds[4] = {0}, bytes[4] = {0};
        if (i == 1 && range->rows[1] == range->rows[0]) {
            out->seconds[1] = out->seconds[0];
            out->bytes[1] = out->bytes[0];
            break;
        }
        for (int corner = 0; corner < 4; corner++) {
            corner_values found;
            if (corner % 2 == 1 && range->longest.source == 0) {
                continue; /* one text */
            }
            data_shape shape = {.source = (uint32_t)s[corner % 2],
                                .target = (uint32_t)t[corner / 2]};
            TRY(price(ctx, settings, sizes, range->rows[i], shape, &found));
            seconds[corner] = found.seconds;
            bytes[corner] = found.bytes;
        }
        out->seconds[i] = plane_of(seconds, s, t);
        out->bytes[i] = plane_of(bytes, s, t);
    }
    return EBB_OK;
}

/* Of one step. */
static double plane_at(const epoch_cost *cost, const epoch_plane planes[2],
                       const data_shape *shape) {
    double s = shape->source, t = shape->target, at[4] = {1, s, t, s * t};
    double span = (double)(cost->rows[1] - cost->rows[0]);
    double share = span > 0 ? (double)(shape->rows - cost->rows[0]) / span : 0, value = 0;
    for (int i = 0; i < 4; i++) {
        value += at[i] * ((1 - share) * planes[0].at[i] + share * planes[1].at[i]);
    }
    return value > 0 ? value : 0;
}

double ebb__epoch_seconds(const epoch_cost *cost, const bucket_plan *plan) {
    double seconds = 0;
    for (int32_t i = 0; i < plan->programs.n; i++) {
        const data_shape *shape = &plan->programs.at[i];
        seconds += (double)shape->batches * plane_at(cost, cost->seconds, shape);
    }
    return seconds;
}

uint64_t ebb__epoch_bytes(const epoch_cost *cost, const data_shape *shape) {
    double bytes = plane_at(cost, cost->bytes, shape);
    return bytes < 0x1p63 ? (uint64_t)bytes : (uint64_t)INT64_MAX;
}

/* ---- which strategy ---- */

static ebb_status make_plan(const train_settings *s, const data_lengths *lengths,
                            bucket_strategy strategy, bucket_plan *out) {
    bucket_options options = {.strategy = strategy,
                              .shapes = (int32_t)s->shapes,
                              .batch = {.sentences = s->batch_tokens > 0 ? 0 : s->batch,
                                        .tokens = s->batch_tokens,
                                        .multiple = s->shards},
                              .seed = s->seed};
    *out = (bucket_plan){.ctx = lengths->ctx};
    if (strategy == BUCKET_STATIC) {
        const char *list = s->shape_list != NULL ? s->shape_list : TRAIN_SHAPE_LIST;
        TRY(ebb__buckets_list(lengths->ctx, list, lengths->pairs, &options));
    }
    return ebb__buckets_make(lengths, &options, out);
}

static void widen(epoch_range *range, const bucket_plan *plan) {
    for (int32_t i = 0; i < plan->programs.n; i++) {
        const data_shape *to = &plan->programs.at[i];
        data_shape_widen(&range->longest, to->source, to->target);
        int64_t rows = to->rows, *most = range->rows;
        most[0] = most[0] == 0 || rows < most[0] ? rows : most[0];
        most[1] = rows > most[1] ? rows : most[1];
    }
}

/* Sentences of a pool's batch are the most alike, which is no help to learning: a pool is taken
 * only if it saves this part of an epoch. */
static const double POOL_GAIN = 0.02;

/* The shortest epoch of those that can be trained. Which one that is must not depend on the threads
 * of a machine or on passes that were left out: prices are those of one thread. */
static ebb_status choose_auto(const train_settings *settings, const job_request *sizes,
                              const epoch_range *range, bucket_report *out) {
    train_settings plain = *settings;
    epoch_cost cost;
    double least = (double)INFINITY;
    plain.threads = 1;
    plain.disabled = 0;
    TRY(ebb__epoch_cost_make(out->plans[0].ctx, &plain, sizes, range, &cost));
    for (int i = 0; i < BUCKET_STRATEGIES; i++) {
        const bucket_plan *plan = &out->plans[i];
        double seconds = ebb__epoch_seconds(&cost, plan) * (i == BUCKET_POOL ? 1 + POOL_GAIN : 1);
        bool trained = i != BUCKET_POOL || settings->batch_tokens == 0;
        bool own = plan->programs.n == plan->n_shapes; /* else greedy runs as optimal does */
        if (trained && own && seconds < least) {
            least = seconds;
            out->chosen = (bucket_strategy)i;
        }
    }
    return EBB_OK;
}

static ebb_status make_plans(const train_settings *settings, const data_lengths *lengths,
                             epoch_range *range, bucket_report *out) {
    *range = (epoch_range){.rows = {0, 0}};
    *out = (bucket_report){.chosen = BUCKET_NONE};
    for (int i = 0; i < BUCKET_STRATEGIES; i++) {
        TRY(make_plan(settings, lengths, (bucket_strategy)i, &out->plans[i]));
        widen(range, &out->plans[i]);
    }
    return EBB_OK;
}

ebb_status ebb__bucket_report_make(const train_settings *settings, const job_request *sizes,
                                   const data_lengths *lengths, bucket_report *out) {
    epoch_range range;
    TRY(make_plans(settings, lengths, &range, out));
    TRY(ebb__epoch_cost_make(lengths->ctx, settings, sizes, &range, &out->cost));
    for (int i = 0; i < BUCKET_STRATEGIES; i++) {
        out->seconds[i] = ebb__epoch_seconds(&out->cost, &out->plans[i]);
    }
    out->chosen = settings->bucket;
    return settings->bucket == BUCKET_AUTO ? choose_auto(settings, sizes, &range, out) : EBB_OK;
}

void ebb__bucket_report_free(bucket_report *report) {
    for (int i = 0; i < BUCKET_STRATEGIES; i++) {
        if (report->plans[i].ctx != NULL) {
            ebb__buckets_free(&report->plans[i]);
        }
    }
}

ebb_status ebb__bucket_choose(const train_settings *settings, const job_request *sizes,
                              const data_lengths *lengths, bucket_plan *out) {
    bucket_report report;
    epoch_range range;
    if (settings->bucket != BUCKET_AUTO) {
        return make_plan(settings, lengths, settings->bucket, out);
    }
    ebb_status status = make_plans(settings, lengths, &range, &report);
    if (status == EBB_OK) {
        status = choose_auto(settings, sizes, &range, &report);
    }
    *out = report.plans[report.chosen];
    out->ctx = lengths->ctx;
    report.plans[report.chosen] = (bucket_plan){.ctx = NULL};
    ebb__bucket_report_free(&report);
    return status;
}
