/* epoch_cost.h - how long an epoch takes on the programs that a strategy gives (data/buckets.h),
 * and with that which strategy to take.
 *
 * The time of a step on S source and T target positions is a + b S + c T + d S T (a language model:
 * a + c T): few small shapes are planned, the others follow from them. So do bytes, of plans in
 * which nothing is computed again or cut in chunks: a run needs no more. With batches of several
 * sizes, that is done for the smallest and the largest, with a line between them.
 *
 * Times are the built-in ones: what is chosen changes the mathematics, which must not depend on
 * what was measured on a machine. */
#ifndef KIND_TEXT_EPOCH_COST_H
#define KIND_TEXT_EPOCH_COST_H

#include "data/buckets.h"
#include "train/kind.h"

/* f(S, T) = at[0] + at[1] S + at[2] T + at[3] S T */
typedef struct epoch_plane {
    double at[4];
} epoch_plane;

typedef struct epoch_cost {
    int64_t rows[2]; /* of a batch: the fewest and the most */
    epoch_plane seconds[2], bytes[2];
} epoch_cost;

/* What is to be priced: batches of up to `longest`, of rows[0] to rows[1] sentences. */
typedef struct epoch_range {
    data_shape longest;
    int64_t rows[2];
} epoch_range;

/* Of a training run; `sizes` has its vocabularies. */
ebb_status ebb__epoch_cost_make(ebb_ctx *ctx, const train_settings *settings,
                                const job_request *sizes, const epoch_range *range,
                                epoch_cost *out) EBB_MUST_CHECK;
/* Of one epoch, on the programs. */
double ebb__epoch_seconds(const epoch_cost *cost, const bucket_plan *plan);
uint64_t ebb__epoch_bytes(const epoch_cost *cost, const data_shape *shape);

/* ---- which strategy ---- */

/* All strategies side by side. */
typedef struct bucket_report {
    bucket_plan plans[BUCKET_STRATEGIES];
    double seconds[BUCKET_STRATEGIES]; /* of an epoch */
    epoch_cost cost;
    bucket_strategy chosen; /* settings->bucket; of auto the shortest epoch, see choose_auto */
} bucket_report;
/* Free also after a failure. */
ebb_status ebb__bucket_report_make(const train_settings *settings, const job_request *sizes,
                                   const data_lengths *lengths, bucket_report *out) EBB_MUST_CHECK;
void ebb__bucket_report_free(bucket_report *report);

/* Only the plan to take: nothing is priced where settings->bucket is not auto. Free with
 * ebb__buckets_free, also after a failure. */
ebb_status ebb__bucket_choose(const train_settings *settings, const job_request *sizes,
                              const data_lengths *lengths, bucket_plan *out) EBB_MUST_CHECK;

#endif
