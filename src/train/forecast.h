/* forecast.h - what a run on several processes would take, found without them: all are planned one
 * after the other, and their steps played (plan/forecast.h). */
#ifndef TRAIN_FORECAST_H
#define TRAIN_FORECAST_H

#include "plan/forecast.h"
#include "train/settings.h"

/* What the user said himself, which is not to be changed to see whether it would be better. */
typedef struct forecast_asked {
    bool shards;
    bool way; /* stages, or who reduces */
} forecast_asked;

/* Who adds up and applies gradients; where that was open (--reduce auto), the seconds of a step by
 * TRAIN_REDUCE_SLICES and by TRAIN_REDUCE_COPIES that it was chosen by: HUGE_VAL where that does
 * not fit what each process may take, 0 where there was nothing to choose. */
typedef struct job_reduce {
    train_reduce way; /* never auto */
    double slices, copies;
} job_reduce;

typedef enum forecast_advice { ADVICE_NEITHER, ADVICE_DATA, ADVICE_STAGES } forecast_advice;

/* One of the processes; seconds, messages and bytes are those of the mean step. */
typedef struct forecast_part {
    int32_t stage;
    uint64_t planned_peak_bytes;
    double busy_seconds, waiting_seconds; /* together the step; copying is waiting too */
    double sent_bytes, messages;
} forecast_part;

/* A way to share the work; stages 0: it cannot be done. */
typedef struct forecast_way {
    int64_t stages, shards;
    uint64_t largest_bytes; /* of its processes */
    double seconds;         /* of a step */
} forecast_way;

typedef struct job_forecast {
    alloc_region region;
    int32_t ranks;
    job_reduce reduce;
    int threads; /* of each */
    forecast_network network;
    forecast_part *parts;
    forecast_way way;          /* as asked for */
    double words_per_step;     /* in the mean */
    double bubble_share;       /* of the time of all processes: waiting */
    double exposed_share;      /* the same of the process that waits most */
    double message_share;      /* of the step: what it would be shorter if messages took no time */
    forecast_way one;          /* process alone; largest_bytes also where that does not fit */
    bool one_fits;             /* the budget; else its seconds mean nothing */
    forecast_way data, stages; /* what advice compares */
    forecast_advice advice;
    forecast_list *lists; /* by rank, of the leading program */
    forecast_step step;   /* and how it goes */
    double plan_seconds;
} job_forecast;

/* EBB_USAGE, EBB_BUDGET (with the process that has too little) as for a run. Free with
 * ebb__job_forecast_free, also after a failure. */
ebb_status ebb__job_forecast(ebb_ctx *ctx, const train_settings *settings, forecast_asked asked,
                             job_forecast *out) EBB_MUST_CHECK;
void ebb__job_forecast_free(job_forecast *forecast);

/* "1G,50us"; NULL: shared memory. EBB_USAGE if it is no network. */
ebb_status ebb__job_network(ebb_ctx *ctx, const char *text, forecast_network *out) EBB_MUST_CHECK;

static inline double forecast_speedup(const job_forecast *f, const forecast_way *way) {
    return f->one_fits && way->stages > 0 ? f->one.seconds / way->seconds : 0;
}

#endif
