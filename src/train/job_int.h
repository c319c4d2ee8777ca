/* job_int.h - what the jobs share, for them and the kinds of models alone: settings to graphs,
 * graphs to a plan, a plan to a session with its named buffers. The command uses job.h. */
#ifndef TRAIN_JOB_INT_H
#define TRAIN_JOB_INT_H

#include "run/ranks.h"
#include "run/tensors.h"
#include "run/trainer.h"
#include "train/kind.h"

#define JOB_STAGING "data.staging"
#define JOB_VOCAB "data.vocab"
#define JOB_LINES "data.lines"

/* Budget in bytes and number of threads that the settings stand for on this machine. */
uint64_t ebb__job_budget(const train_settings *settings);
int ebb__job_threads(const train_settings *settings);
/* Bytes that a list of words may take. A small one fits the fixed overhead, and then the plan can
 * name the least budget. */
uint64_t ebb__job_list_bytes(const train_settings *settings);

/* What the settings stand for: programs, whose graphs are built when they are looked at, and how to
 * plan them. On the heap, since a plan goes on building programs from it. */
typedef struct job_programs {
    ebb_ctx *ctx;
    train_settings settings;
    job_request request;
    plan_request list[PLAN_MAX_PROGRAMS];
    struct job_program {
        char name[16];
        job_use use;
        data_shape shape;
    } at[PLAN_MAX_PROGRAMS];
    int32_t n;
    plan_options options;
    cost_table table;
    alloc_region stages; /* options.ranks.layers, where they were chosen */
} job_programs;
ebb_status ebb__job_programs_new(ebb_ctx *ctx, const train_settings *settings,
                                 const job_request *request, job_programs **out) EBB_MUST_CHECK;
void ebb__job_programs_free(void *programs);

/* tune.c: what was measured on this machine, from the store, into programs->table; what is missing
 * is measured first if the settings give it time and the result can be stored. */
ebb_status ebb__job_measured(job_programs *programs) EBB_MUST_CHECK;

/* bench.c: what to plan where there is no text. */
ebb_status ebb__job_plain_sizes(ebb_ctx *ctx, const train_settings *settings,
                                job_request *request) EBB_MUST_CHECK;
/* The same of the texts, if there are any. */
ebb_status ebb__job_sizes(ebb_ctx *ctx, const train_settings *settings,
                          job_request *request) EBB_MUST_CHECK;
/* What a rank plans where the first one plans `request`: only that one has the data. */
job_request ebb__job_request_of(const train_settings *settings, const job_request *request,
                                int64_t rank);
/* *plan is given also with EBB_BUDGET. One that is to be run is compiled by ebb__job_compile_run:
 * that refuses programs of more than JOB_MANY_NODES nodes if planning them took more memory than
 * the process may have, which is what the plan takes (or a budget that the user gave), and
 * RUN_OVERHEAD_BYTES. */
enum { JOB_MANY_NODES = 50000 };
ebb_status ebb__job_compile_run(ebb_ctx *ctx, const train_settings *settings,
                                const job_request *request, ebb_plan **plan) EBB_MUST_CHECK;
ebb_status ebb__job_compile(ebb_ctx *ctx, const train_settings *settings,
                            const job_request *request, ebb_plan **plan) EBB_MUST_CHECK;

run_trainer ebb__job_trainer(run_session *session, const train_settings *settings);
/* Ids below `vocab` for the whole of an input. */
ebb_status ebb__job_random_ids(run_session *session, const char *name, int64_t vocab, uint64_t seed,
                               const char *site) EBB_MUST_CHECK;
/* ranks.c: of the first of several processes, tells the others what to plan; NULL: nothing is to be
 * done. */
ebb_status ebb__job_share(const train_settings *s, const job_request *request) EBB_MUST_CHECK;
/* What a process made of its part of the plan; if one of them could not, none goes on. */
ebb_status ebb__job_agree(const train_settings *s, ebb_status mine) EBB_MUST_CHECK;
/* Ties a session to the processes that share it, whose messages are proved to fit together; with a
 * virtual clock if the settings say so. */
ebb_status ebb__job_join_ranks(const train_settings *s, run_session *session) EBB_MUST_CHECK;
/* The same; the first one leads from then on. */
ebb_status ebb__job_open_ranks(const train_settings *s, run_session *session) EBB_MUST_CHECK;
/* stages.c: which process does which layers, where several share them: *out points to *ways, whose
 * layers are in `region`, or is NULL where there is nothing to choose. */
ebb_status ebb__job_choose_stages(ebb_ctx *ctx, const train_settings *settings,
                                  const job_request *request, alloc_region *region,
                                  pass_stages *ways, const pass_stages **out) EBB_MUST_CHECK;
/* The first process chooses for all that share the run. */
ebb_status ebb__job_share_stages(ebb_ctx *ctx, const train_settings *settings,
                                 const job_request *request, alloc_region *region,
                                 pass_stages *ways, const pass_stages **out) EBB_MUST_CHECK;
/* reduce.c: who adds up and applies gradients, where --reduce auto leaves that open: slices or
 * copies, whichever is forecast to have the shorter step of those that fit each process; by
 * built-in times, so that it is the same every time. All processes are planned here; */
struct job_reduce;
ebb_status ebb__job_choose_reduce(ebb_ctx *ctx, const train_settings *settings,
                                  const job_request *request,
                                  struct job_reduce *out) EBB_MUST_CHECK;
/* or each by itself, and the first one chooses for all that share the run. */
ebb_status ebb__job_share_reduce(ebb_ctx *ctx, const train_settings *settings,
                                 const job_request *request, train_reduce *out) EBB_MUST_CHECK;
/* Messages within one host, as measured: the kernel copies them from process to process, out of
 * memory. Bytes a second, seconds. */
#define JOB_MEMORY_RATE 5.9e9
#define JOB_MEMORY_LATENCY 1e-6
/* Roles of what a checkpoint holds beside the model. */
#define JOB_CARRIED ((1U << IR_SLOT) | (1U << IR_STATE))

/* Mean loss over every batch of one epoch of the reader, whose programs' state starts as zeros.
 * *stopped if the observer asked to stop on the way. */
typedef struct job_score {
    double loss_sum; /* nats */
    uint64_t tokens;
    bool stopped;
} job_score;
ebb_status ebb__job_score(run_session *session, const job_reader *reader,
                          const job_observer *observer, job_score *out) EBB_MUST_CHECK;

static inline bool job_should_stop(const job_observer *observer) {
    return observer != NULL && observer->stop != NULL && observer->stop(observer->user);
}

/* ---- corpus.c: what the kinds' texts share ---- */

/* An empty one of the settings' kind. `dir` must outlive it. Free with ebb__corpus_free. */
ebb_status ebb__corpus_new(ebb_ctx *ctx, const train_settings *settings, const char *dir,
                           corpus **out) EBB_MUST_CHECK;
void ebb__corpus_free(corpus *c);
/* kind->measure, kind->choose. */
ebb_status ebb__corpus_measure(corpus *c, uint64_t most, job_request *request) EBB_MUST_CHECK;

/* "DIR/NAME" into JOB_PATH_BYTES; EBB_USAGE if that is too long. */
ebb_status ebb__job_path(ebb_ctx *ctx, const char *dir, const char *name, char *out) EBB_MUST_CHECK;
/* EBB_USAGE if the run was started, or validated, with another text; notes it otherwise. `what`
 * `count` counts. */
ebb_status ebb__corpus_same(corpus *c, const char *path, uint64_t count, uint64_t hash,
                            const char *what) EBB_MUST_CHECK;
ebb_status ebb__corpus_same_valid(corpus *c, const char *path, uint64_t hash) EBB_MUST_CHECK;

#endif
