/* job.h - what can be done with a model: plan, train, bench, evaluate, generate, decode. What the
 * command calls.
 */
#ifndef TRAIN_JOB_H
#define TRAIN_JOB_H

#include "plan/plan.h"
#include "run/profile.h"
#include "train/settings.h"
#include "decode/translate.h"

/* What a validation found, by metric of the kind (kind.h); < 0: not looked at. */
enum { KIND_MOST_METRICS = 4 };
typedef struct kind_scores {
    double at[KIND_MOST_METRICS];
} kind_scores;

/* ---- shapes ---- */

/* How sentences are put in batches: what the order of training depends on, stored with the run. */
typedef struct job_buckets {
    bucket_strategy strategy; /* taken: never auto */
    double padded_share;      /* ebb__bucket_computed_share, not _padded_share */
    data_shapes shapes;       /* longest first, each with its rows; n 0: not by sentence */
} job_buckets;

/* ---- plan and bench: no data needed, the vocabulary has exactly settings->vocab entries ---- */

/* Of a run whose settings->batch is 0: finds the largest batch whose plan fits the budget (the next
 * one tried does not) and puts it there. With `dir`, the run in that folder decides instead, if
 * there is one to go on with. EBB_BUDGET with the least budget if not even a batch of 1 fits. The
 * batch depends on the settings, the budget and the threads, on no measured time. EBB_STOPPED where
 * ctx->stop says so.
 *
 * Sentences of a text come in shapes, and short ones in larger batches: there what is found are
 * settings->batch_tokens, of which each shape takes as many sentences as have no more. Up to
 * JOB_FINE_TOKENS any number, above that multiples of a power of two, at least JOB_FINE_TOKENS / 2
 * of it. Else it is a number of rows: every one up to 16, above that multiples of 8. */
enum { JOB_MOST_FIT = 4096, JOB_MOST_FIT_TOKENS = 1 << 17, JOB_FINE_TOKENS = 128 };
typedef struct job_fit {
    bool recalled;      /* the batch is that of the run in the folder */
    bool most;          /* a larger one was not tried: */
    bool by_text;       /* the text has no more to fill it with */
    data_shapes shapes; /* where it was found in tokens: how many sentences of which length */
} job_fit;
ebb_status ebb__job_fit(ebb_ctx *ctx, train_settings *settings, const char *dir,
                        job_fit *out) EBB_MUST_CHECK;

/* The plan of the training run that `settings` describe. With settings->train_path set, the text is
 * scanned for its vocabulary first (nothing is written); a validation program is planned if
 * settings->valid_path is set. *out is given also with EBB_BUDGET (see ebb__plan_make). */
ebb_status ebb__job_plan(ebb_ctx *ctx, const train_settings *settings,
                         ebb_plan **out) EBB_MUST_CHECK;

/* One of the processes that share a run. */
typedef struct job_rank {
    int rank, stage;
    char host[64];
    uint64_t planned_peak_bytes, measured_peak_bytes, vm_hwm_bytes;
    uint64_t allocations_after_first_step;
    /* In a timed step, in the mean: */
    double sent_bytes, messages, busy_seconds, waiting_seconds;
    double cpu_seconds;     /* of the process */
    double virtual_seconds; /* with a core of its own; 0: nobody asked */
} job_rank;

typedef struct job_bench_result {
    double words_per_second, seconds_per_step; /* median over the timed steps */
    double cpu_seconds;                        /* of the process, a timed step */
    double joules; /* of the processor packages, a timed step; < 0: cannot be read */
    uint64_t planned_peak_bytes, measured_peak_bytes, vm_hwm_bytes;
    double loss;           /* of the last step */
    uint64_t weights_hash; /* after the last step */
    uint64_t allocations_after_first_step;
    /* Of sparse values: planned, and used by the last step; steps, of all, that did not fit. */
    uint64_t sparse_reserved_bytes, sparse_used_bytes, fallback_steps;
    /* Of a device with a memory of its own (device_bytes > 0): planned, allocated, of the host; in
     * a timed step, in the mean: launches, copies, waits for the device, those inside the step. */
    uint64_t device_bytes, device_bytes_allocated, host_bytes;
    double launches, copies, waits, host_syncs;
    /* Of values that wait outside the device's memory: planned, used; bytes moved in a step, both
     * ways together. */
    uint64_t offloaded_bytes, offloaded_bytes_used;
    double moved_bytes;
    int threads;
    uint64_t plan_hash;
    plan_form forms[FORMS_MOST]; /* as in ebb_plan */
    int32_t n_forms;
    int32_t chunk_images; /* done at a time; 0: all at once */
    run_profile *profile; /* finished, the caller's to free; NULL if not asked for */
    job_rank *ranks; /* on rank 0 of processes that mpirun started: all; the caller's to free */
    int n_ranks;
    pass_reduce reduce; /* how they share gradients */
} job_bench_result;
/* `steps` timed steps after 2 warm-up steps, on random tokens. With settings->profile as many again
 * are observed, in turn with as many that are not, after everything else has been noted. */
ebb_status ebb__job_bench(ebb_ctx *ctx, const train_settings *settings, int64_t steps,
                          job_bench_result *out) EBB_MUST_CHECK;

/* ---- tune ---- */

/* What tuning found; lives as long as the call of the function it is given to. */
typedef struct job_tune_report {
    const char *store; /* path of the file */
    const cost_survey *survey;
    const cost_table *table;
    cost_tuned tuned;
    int threads;
} job_tune_report;
typedef struct job_tune_observer {
    void *user;
    void (*progress)(void *user, int32_t done, int32_t total); /* products */
    ebb_status (*report)(void *user, const job_tune_report *report);
} job_tune_observer;
/* Measures the products of all `n` models for at most tune_seconds of the first one's settings and
 * stores the times in its tune_folder; with its `fresh` also those that are stored already. EBB_IO
 * if they cannot be stored. */
ebb_status ebb__job_tune(ebb_ctx *ctx, const train_settings *models, int32_t n,
                         const job_tune_observer *observer) EBB_MUST_CHECK;

/* ---- several processes ---- */

/* How those that share a plan add up and apply gradients, and the names of the ways. */
extern const char *const ebb__job_reduces[]; /* by pass_reduce */
static inline pass_reduce job_reduced(const ebb_plan *plan) {
    return plan->programs[plan->lead].config.ranks.reduce;
}

/* Of settings that say no number of shards: takes that of the run in the folder, if there is one.
 * It is part of what is computed, and processes may be more or fewer than when it was started. */
ebb_status ebb__job_recall_shards(ebb_ctx *ctx, const char *dir,
                                  train_settings *settings) EBB_MUST_CHECK;

/* Of all but the first: makes its part of the plan and does its part of the steps, until the first
 * one says that this is the end. */
ebb_status ebb__job_follow(ebb_ctx *ctx, const train_settings *settings) EBB_MUST_CHECK;

/* ---- train ---- */

typedef struct job_progress {
    int64_t epoch, epochs; /* from 1; epochs 0: unknown */
    int64_t step, steps;   /* done, total */
    double loss;           /* mean since the last report */
    double lr;
    double words_per_second;
    uint64_t memory_bytes, budget_bytes;
    double seconds_left;  /* < 0: unknown */
    kind_scores valid;    /* < 0: not validated here, or not looked at */
    double gradient_norm; /* before clipping, of the last step; < 0: none yet */
    const char *phase;    /* "train"; "valid": step and steps count windows of the text */
} job_progress;

/* A translation of a validation sentence. */
typedef struct job_sample {
    const char *source, *target, *translation;
} job_sample;

typedef struct job_observer {
    void *user;
    /* Once, before the first step: the plan that will be run. May be NULL. */
    ebb_status (*planned)(void *user, const ebb_plan *plan);
    /* Every log_every steps, at validation and at the end; and, with `tick` true, cheaply after
     * every step for a live bar. May be NULL. */
    void (*progress)(void *user, const job_progress *progress, bool tick);
    /* Polled between steps and during validation: true asks to save and stop. May be NULL. */
    bool (*stop)(void *user);
    /* The same while texts are read and plans made, when there is nothing new to save. May be
     * NULL. */
    bool (*stop_planning)(void *user);
    void (*sample)(void *user, const job_sample *sample); /* may be NULL */
    /* Of an evaluation of pairs: the log probability of each line of the targets, in their order;
     * NaN: the line was left out. NULL: they are not wanted. */
    ebb_status (*line)(void *user, double log_prob);
} job_observer;

typedef struct job_train_result {
    int64_t steps, epochs;
    double loss;
    kind_scores valid, best;                          /* < 0: none */
    uint64_t planned_peak_bytes, measured_peak_bytes; /* 0: already done, nothing was planned */
    bool resumed, already_done;
    bool stopped_early;  /* ended by --patience, before the last step */
    pass_reduce reduce;  /* of several processes: how they shared gradients */
    job_buckets buckets; /* as used, or as stored where the run is already done */
} job_train_result;

/* Runs, resumes or finds finished the run in settings->out_dir. `config_text` is the dump of all
 * settings (key = value lines) to store as DIR/config; `math_text` the dump of those that change
 * the mathematics, which must match on resume. EBB_STOPPED after a requested stop with state saved,
 * or before there was any. */
ebb_status ebb__job_train(ebb_ctx *ctx, const train_settings *settings, const char *config_text,
                          const char *math_text, const job_observer *observer,
                          job_train_result *out) EBB_MUST_CHECK;

/* ---- use ---- */

typedef struct generate_options {
    int64_t tokens;     /* how many */
    double temperature; /* 0: always the likeliest */
    uint64_t seed;
    const char *prompt; /* NULL: start after <eos> */
    int64_t top_k;      /* draw among so many of the likeliest only; 0: all */
    double top_p;       /* of these among the fewest that have this share together; 0, 1: all */
    bool stop_at_eos;   /* end with the first <eos> that is drawn */
} generate_options;
/* False: nobody wants more, and generating ends. */
typedef bool (*generate_fn)(void *user, const char *text, size_t bytes);

/* What becomes of <unk> in a translation: the source word that it attended to most; never written,
 * the next likeliest token instead; as it is. */
typedef enum decode_unk { DECODE_UNK_REPLACE, DECODE_UNK_BAN, DECODE_UNK_KEEP } decode_unk;
typedef struct decode_options {
    int64_t beam, nbest;
    double alpha, max_ratio; /* see translate.h */
    bool attention;
    bool fixed_batch; /* settings->batch sentences at once, or none fit; else fewer if need be */
    decode_unk unk;
    const char *const *more; /* folders of runs whose probabilities are averaged with this one's,
                              * all of the same settings of the model; they outlive the use */
    int32_t n_more;
} decode_options;
typedef struct decode_line {
    const char *text; /* without its line end; valid until the next is read */
    size_t bytes;
} decode_line;
typedef struct decode_io {
    void *user;
    ebb_status (*read)(void *user, decode_line *line, translate_next *got);
    ebb_status (*write)(void *user, const decode_result *result);
    bool (*stop)(void *user); /* NULL: never */
} decode_io;
typedef struct decode_summary {
    uint64_t lines, tokens, unknown; /* of sources */
    uint64_t cut, first_cut;         /* lines too long for the budget, and the first one's number */
    uint64_t most_tokens;            /* of a source that can be read whole */
    int64_t batch;                   /* sentences at once */
    double seconds;                  /* of translating */
    uint64_t planned_peak_bytes, measured_peak_bytes;
} decode_summary;

/* How likely lines are, by a language model, or translations of lines: each by itself, with its
 * line end. */
typedef struct score_found {
    double log_prob;          /* natural; NaN: it is longer than the model can read at once */
    uint64_t tokens, unknown; /* line end included; tokens that the vocabulary has not */
} score_found;
typedef struct score_request {
    const decode_line *sources; /* [n]; NULL: there are none */
    const decode_line *lines;   /* [n] */
    size_t n;
    bool (*stop)(void *user); /* NULL: never; then EBB_STOPPED */
    void *user;
    score_found *found; /* [n]: filled in */
} score_request;

/* What an image shows, by a net that tells images apart. */
typedef struct predict_options {
    const char *const *paths; /* [n] files; NULL: */
    const uint8_t *pixels;    /* u8 [n, height, width, channels], of 1 (grey) or 3 channels */
    uint32_t height, width, channels;
    size_t n;
    bool (*stop)(void *user); /* NULL: never; then EBB_STOPPED */
    void *stop_user;
    int64_t top; /* classes to name, the likeliest first; at most as many as there are */
} predict_options;
typedef struct predict_guess {
    int32_t label;
    const char *name; /* NULL: it has none */
    double probability;
} predict_guess;
/* Lives until the function returns. */
typedef struct predict_answer {
    size_t image;              /* its number, from 0 */
    const char *path;          /* NULL: it has none */
    const predict_guess *best; /* [n] */
    int64_t n;
} predict_answer;
typedef ebb_status (*predict_fn)(void *user, const predict_answer *answer);
typedef struct predict_summary {
    uint64_t images, left_out; /* answered; could not be decoded */
    uint64_t planned_peak_bytes, measured_peak_bytes;
} predict_summary;

/* The uses of a trained run (model_kind), opened for one time. */
ebb_status ebb__job_decode(ebb_ctx *ctx, const train_settings *settings, const char *dir,
                           const decode_options *options, const decode_io *io,
                           decode_summary *out) EBB_MUST_CHECK;
ebb_status ebb__job_generate(ebb_ctx *ctx, const train_settings *settings, const char *dir,
                             const generate_options *options, generate_fn emit,
                             void *user) EBB_MUST_CHECK;
ebb_status ebb__job_predict(ebb_ctx *ctx, const train_settings *settings, const char *dir,
                            const predict_options *options, predict_fn emit, void *user,
                            predict_summary *out) EBB_MUST_CHECK;

#endif
