/* progress.h - what a run carries from step to step beside tensors: how far it is, what validation
 * said, sums for the next metrics line. Stored in every checkpoint, so that a resumed run goes on
 * as if it had never been broken. */
#ifndef TRAIN_PROGRESS_H
#define TRAIN_PROGRESS_H

#include "store/checkpoint.h"
#include "train/kind.h"
#include "store/tensorboard.h"

typedef struct progress_state {
    int64_t step;           /* steps done */
    int64_t windows;        /* of an epoch; 0: not known yet */
    int64_t validated;      /* step of the last validation; -1: none */
    double lr;              /* before schedules that depend on the step */
    kind_scores best, last; /* each the best by itself; settings->valid_metric decides */
    int64_t since_best;     /* validations without improvement: plateau, which resets it */
    int64_t stale;          /* the same: patience, which does not */
    double gradient_norm;   /* of the last step; < 0: none */
    double loss;            /* of the last metrics line; < 0: none */
    double loss_sum;        /* since then */
    int64_t loss_count;
    uint64_t metrics_bytes;
    tensorboard_mark events;
    uint64_t measured_bytes, planned_bytes; /* of the plan that it was saved under; 0: not known */
    json_t *overrides; /* settings that were changed on the way: [step, was, is], ...; NULL: none */
} progress_state;

progress_state ebb__progress_start(const train_settings *s);

/* Takes in a validation at the present step; true if its weights are the best so far. */
bool ebb__progress_validated(progress_state *at, const train_settings *s, kind_scores scores);
/* Whether validation has just failed to improve for the patience of the settings. */
bool ebb__progress_exhausted(const progress_state *at, const train_settings *s);
/* Mean since the last metrics line, else that line's; NaN before the first step. */
double ebb__progress_loss(const progress_state *at);

/* {"strategy", "padded_share", "shapes": [[source, target, rows], ...]}; of one text sources are 0.
 * NULL: no memory. */
json_t *ebb__buckets_pack(const job_buckets *buckets);

/* The `train` object of a checkpoint; NULL: no memory. `math_text` are the settings that change the
 * mathematics, a line each. */
json_t *ebb__progress_pack(const progress_state *at, const corpus *text, const char *math_text);
/* And back, with what the corpus must be compared with. EBB_MODEL if the object contradicts itself,
 * EBB_USAGE naming both values where the run was started with other settings, unless the settings
 * say that it may be so (override), which is then noted. at->overrides is to be released. */
ebb_status ebb__progress_unpack(ebb_ctx *ctx, const char *dir, const checkpoint_info *found,
                                const char *math_text, corpus *text,
                                progress_state *at) EBB_MUST_CHECK;

#endif
