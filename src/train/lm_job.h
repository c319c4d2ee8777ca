/* lm_job.h - what the language-model jobs share: settings to graphs, graphs to a plan, a plan to a
 * session with its named buffers. */
#ifndef TRAIN_LM_JOB_H
#define TRAIN_LM_JOB_H

#include "data/batcher.h"
#include "model/word_lm.h"
#include "run/session.h"
#include "train/lm.h"
#include "train/safetensors.h"

/* Code and libraries on top of the plan (libxsmm alone is 13 MiB): what auto and percentages leave.
 */
#define LM_OVERHEAD_BYTES ((uint64_t)32 << 20)
#define LM_STAGING "data.staging"
#define LM_VOCAB "data.vocab"

typedef struct lm_request {
    int64_t vocab;
    bool train;           /* program 0: training step */
    bool valid;           /* last program: loss only, own state */
    bool predict;         /* program 0: logits of one position */
    uint64_t vocab_bytes; /* planned for the vocabulary, if it is needed while running */
} lm_request;

/* Budget in bytes and number of threads that the settings stand for on this machine. */
uint64_t ebb__lm_budget(const train_settings *settings);
int ebb__lm_threads(const train_settings *settings);

/* What the settings stand for: graphs and how to plan them. Free also after a failure. */
typedef struct lm_programs {
    ir_graph graphs[2];
    plan_request list[2];
    int32_t n;
    plan_options options;
} lm_programs;
ebb_status ebb__lm_programs_make(ebb_ctx *ctx, const train_settings *settings,
                                 const lm_request *request, lm_programs *out) EBB_MUST_CHECK;
void ebb__lm_programs_fini(lm_programs *programs);

/* lm_tune.c: what was measured on this machine, from the store; what is missing is measured first
 * if the settings give it time and the result can be stored. */
ebb_status ebb__lm_measured(ebb_ctx *ctx, const train_settings *settings,
                            const lm_programs *programs, cost_table *table) EBB_MUST_CHECK;

/* *plan is given also with EBB_BUDGET. */
ebb_status ebb__lm_compile(ebb_ctx *ctx, const train_settings *settings, const lm_request *request,
                           ebb_plan **plan) EBB_MUST_CHECK;

/* Where a step's data lies in the arena; NULL where the plan has none. */
typedef struct lm_buffers {
    int32_t *inputs, *targets, *step;
    float *hyper;
    void *staging, *vocab;
} lm_buffers;
lm_buffers ebb__lm_buffers(run_session *session);

/* What the optimisers read beside the gradients (UPDATE_HYPER); t counts steps from 1. */
void ebb__lm_hyper(const train_settings *settings, double lr, int64_t t, float *hyper);
void ebb__lm_init_weights(run_session *session, const train_settings *settings);
/* Sets every state variable whose name starts with `prefix` to zero. */
void ebb__lm_reset_state(run_session *session, const char *prefix);
/* XXH3-64 over names sorted, each with its row-major fp32 bytes. */
ebb_status ebb__lm_weights_hash(run_session *session, uint64_t *out) EBB_MUST_CHECK;

/* Tensors of all variables with one of the roles in `roles` (bit per ir_role), sorted by name; in
 * memory of `region`. */
ebb_status ebb__lm_entries(run_session *session, uint32_t roles, alloc_region *region,
                           st_entry **out, size_t *n) EBB_MUST_CHECK;
/* Reads every such variable from a file; EBB_MODEL if one is missing or has another shape. */
ebb_status ebb__lm_load(run_session *session, uint32_t roles,
                        const st_reader *reader) EBB_MUST_CHECK;

/* Mean loss over every window of a batcher by program `index`, whose state starts as zeros.
 * *stopped if the observer asked to stop on the way. */
typedef struct lm_score {
    double loss_sum; /* nats */
    uint64_t tokens;
    bool stopped;
} lm_score;
ebb_status ebb__lm_score(run_session *session, int32_t index, const data_batcher *batcher,
                         const lm_observer *observer, lm_score *out) EBB_MUST_CHECK;

static inline bool lm_should_stop(const lm_observer *observer) {
    return observer != NULL && observer->stop != NULL && observer->stop(observer->user);
}

#endif
