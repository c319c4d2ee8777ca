/* train.c - a training run in a folder, of any kind of model: start, resume, or find it finished.
 *
 * The loop is a function of the step number alone: step s trains batch s mod W of epoch s / W.
 * Everything it carries (position, rate, best score, sums for the next metrics line) is in the
 * checkpoint, so that a killed run ends with the same bits as an unbroken one. At a step: validate
 * if due, save if due, then train the next batch.
 */
#include "train/job_int.h"

#include "base/file.h"
#include "base/host.h"
#include "data/buckets.h"
#include "store/folder.h"
#include "store/kept.h"
#include "store/metrics.h"
#include "train/progress.h"
#include "train/schedule.h"
#include "train/weights.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

enum { DEFAULT_LOG_EVERY = 100 };

typedef struct train_run {
    ebb_ctx *ctx;
    const train_settings *s;
    const job_observer *observer;
    const char *config_text, *math_text;
    char dir[JOB_PATH_BYTES / 2];
    file_lock lock;
    corpus *text;
    run_session *session;
    run_trainer trainer;
    metrics_log metrics;
    uint64_t told_fallbacks; /* steps of run_session.fallback_steps that metrics lines have */
    tensorboard_log events;  /* fd -1: not asked for */
    checkpoint_info found;
    progress_state at;
    int64_t total;       /* steps of the whole run */
    int64_t saved;       /* step of the newest checkpoint; -1: none */
    double busy_seconds; /* of training since the last report */
    int64_t busy_words;
    uint64_t words[DEVICE_MARKS]; /* of steps that were begun and not ended, the oldest first */
    double since;                 /* when the oldest of them had the device to itself */
    double step_seconds;          /* running mean, for the time left */
} train_run;

static const kind_scores no_scores = {{-1, -1, -1, -1}};

/* ---- divergence ---- */

/* `what` of the tensor (NULL: of none) is not finite after `step` steps. */
static ebb_status diverged(train_run *r, int64_t step, const char *what, const char *tensor) {
    char kept[64] = "no checkpoint yet";
    if (r->saved >= 0) {
        (void)snprintf(kept, sizeof kept, "last good checkpoint: step %" PRId64, r->saved);
    }
    return ebb__fail(r->ctx, EBB_DIVERGED,
                     "step %" PRId64 ": %s%s is not finite; %s; try a lower --lr or --clip", step,
                     what, tensor != NULL ? tensor : "", kept);
}

/* An update can overflow though its gradient did not: such weights must not become the newest
 * checkpoint, or going on from there could only fail again. */
static ebb_status check_weights(train_run *r) {
    char bad[TENSORS_NAME];
    TRY(ebb__tensors_not_finite(r->session, bad));
    return bad[0] == '\0' ? EBB_OK : diverged(r, r->at.step, "the updated ", bad);
}

/* A folder, or a log in it, that was removed under the run: whatever is written now is lost. */
static ebb_status check_folder(train_run *r) {
    TRY(ebb__file_lock_check(r->ctx, r->dir, &r->lock));
    return ebb__file_named(r->ctx, r->metrics.fd, r->metrics.path);
}

/* Averages take the place of the weights where these are looked at or saved, and give it back; in a
 * checkpoint, too, the weights are then where averages are otherwise. */
static ebb_status swap_averages(const train_run *r) {
    return r->s->average > 0 ? ebb__ranks_swap_averages(r->session) : EBB_OK;
}

static ebb_status save_as_it_is(train_run *r, bool is_best) {
    alloc_region region;
    st_entry *weights = NULL, *state = NULL;
    checkpoint_parts parts = {0};
    weights_lore lore;
    json_t *train = NULL;
    ebb_status status;
    TRY(check_folder(r));
    TRY(ebb__ranks_check(r->session));
    ebb__region_init(&region, r->ctx);
    TRY_OUT(check_weights(r));
    TRY_OUT(
        ebb__weights_list(r->session, r->s->kind, r->at.step, &region, &weights, &parts.n_weights));
    TRY_OUT(ebb__metrics_sync(&r->metrics));
    r->at.metrics_bytes = r->metrics.bytes;
    r->at.measured_bytes = r->session->measured_bytes;
    r->at.planned_bytes = r->session->plan->peak_bytes;
    if (r->events.fd >= 0) {
        TRY_OUT(ebb__tensorboard_sync(&r->events));
        r->at.events = r->events.mark;
    }
    TRY_OUT(ebb__tensors_list(r->session, JOB_CARRIED, &region, &state, &parts.n_state));
    train = ebb__progress_pack(&r->at, r->text, r->math_text);
    if (train == NULL) {
        status = ebb__fail(r->ctx, EBB_NOMEM, "no memory to describe the checkpoint");
        goto out;
    }
    parts.weights = weights;
    parts.state = state;
    parts.notes = ebb__weights_lore(r->text, &lore, &parts.n_notes);
    TRY_OUT(ebb__checkpoint_save(r->ctx, r->dir, (uint64_t)r->at.step, &parts, train, is_best));
    r->saved = r->session->saved_step = r->at.step;
    if (r->s->keep > 0) {
        TRY_OUT(ebb__kept_add(r->ctx, r->dir, (uint64_t)r->at.step, (uint64_t)r->s->keep));
    }
out:
    json_decref(train);
    ebb__region_fini(&region);
    return status;
}

static ebb_status save(train_run *r, bool is_best) {
    TRY(swap_averages(r));
    TRY(save_as_it_is(r, is_best));
    return swap_averages(r);
}

/* ---- starting ---- */

static ebb_status open_folder(train_run *r) {
    int n = snprintf(r->dir, sizeof r->dir, "%s", r->s->out_dir);
    if (n <= 0 || (size_t)n >= sizeof r->dir) {
        return ebb__fail(r->ctx, EBB_USAGE, "--out: the path is empty or too long");
    }
    TRY(ebb__file_make_dir(r->ctx, r->dir));
    TRY(ebb__folder_lock(r->ctx, r->dir, &r->lock));
    if (r->s->fresh) {
        return EBB_OK; /* what is there goes once it is known that the new run can start */
    }
    TRY(ebb__checkpoint_peek(r->ctx, r->dir, &r->found));
    if (!r->found.found) {
        return EBB_OK;
    }
    r->saved = (int64_t)r->found.step;
    return ebb__progress_unpack(r->ctx, r->dir, &r->found, r->math_text, r->text, &r->at);
}

static ebb_status write_text(train_run *r, const char *name, const char *text) {
    char path[JOB_PATH_BYTES];
    file_writer writer;
    TRY(ebb__job_path(r->ctx, r->dir, name, path));
    TRY(ebb__file_create(r->ctx, path, &writer));
    ebb_status status = ebb__file_write(&writer, text, strlen(text));
    if (status == EBB_OK) {
        status = ebb__file_commit(&writer);
    }
    ebb__file_abandon(&writer);
    return status;
}

/* The plan comes before any token file is written: a budget that does not fit costs nothing. */
static ebb_status open_data_and_plan(train_run *r, ebb_plan **plan) {
    job_request request = {.train = true, .valid = kind_validates(r->s)};
    TRY(ebb__corpus_measure(r->text, ebb__job_list_bytes(r->s), &request));
    TRY(ebb__job_share(r->s, &request));
    ebb_status own = ebb__job_compile_run(r->ctx, r->s, &request, plan);
    ebb_status all = ebb__job_agree(r->s, own);
    if (all != EBB_OK) {
        if (own == EBB_OK) { /* another process's plan does not fit: this one is of no interest */
            ebb__plan_free(*plan);
            *plan = NULL;
        }
        return all;
    }
    return r->text->calls->store(r->text);
}

static ebb_status load_tensors(train_run *r) {
    st_reader reader = {0};
    ebb_status status;
    if (r->found.found) {
        TRY(ebb__checkpoint_open_weights(r->ctx, r->dir, &r->found, &reader));
        status = ebb__tensors_load_weights(r->session, &reader);
        ebb__safetensors_close(&reader);
        if (status != EBB_OK) {
            return status;
        }
        TRY(ebb__checkpoint_open_state(r->ctx, r->dir, &r->found, &reader));
        status = ebb__tensors_load(r->session, JOB_CARRIED, &reader);
        ebb__safetensors_close(&reader);
        return status == EBB_OK ? swap_averages(r) : status;
    }
    TRY(ebb__ranks_draw(r->session, r->s->seed));
    TRY(r->s->init_path == NULL ? EBB_OK : ebb__weights_load(r->session, r->s, r->s->init_path));
    return r->s->average > 0 ? ebb__ranks_start_averages(r->session) : EBB_OK;
}

/* What a kill between two system calls may have left: half generations, names one step behind. What
 * is damaged was said when the folder was opened. */
static ebb_status repair_folder(train_run *r) {
    checkpoint_info repaired = {0};
    TRY(ebb__checkpoint_find(r->ctx, r->dir, &repaired));
    ebb__checkpoint_info_fini(&repaired);
    return EBB_OK;
}

/* From here on the folder is this run's: until now a run that was there before is untouched. */
static ebb_status take_folder(train_run *r) {
    char path[JOB_PATH_BYTES];
    if (r->s->fresh) {
        TRY(ebb__checkpoint_clear(r->ctx, r->dir));
        TRY(ebb__kept_prune(r->ctx, r->dir, 0));
    }
    TRY(repair_folder(r));
    if (!r->found.found) {
        TRY(r->text->calls->adopt(r->text));
    }
    TRY(write_text(r, "config", r->config_text));
    TRY(ebb__job_path(r->ctx, r->dir, "metrics.jsonl", path));
    TRY(ebb__metrics_open(r->ctx, path, r->at.metrics_bytes, r->at.step, &r->metrics));
    if (r->s->tensorboard == NULL) {
        return EBB_OK;
    }
    TRY(ebb__job_path(r->ctx, r->dir, "events", path));
    return ebb__tensorboard_open(r->ctx, r->s->tensorboard, path, &r->at.events, r->at.step,
                                 &r->events);
}

/* What the run had measured before it was broken, as long as its plan is the same: some programs
 * run only now and then. */
static void recall_bytes(train_run *r) {
    uint64_t before = r->at.measured_bytes;
    if (r->at.planned_bytes == r->session->plan->peak_bytes && before <= r->at.planned_bytes &&
        before > r->session->measured_bytes) {
        r->session->measured_bytes = before;
    }
}

static ebb_status start(train_run *r, ebb_plan *plan) {
    TRY(ebb__run_new(r->ctx, plan, &r->session)); /* owns the plan from here on */
    TRY(ebb__job_open_ranks(r->s, r->session));
    r->session->saved_step = r->saved;
    r->trainer = ebb__job_trainer(r->session, r->s);
    TRY(r->text->calls->begin(r->text, r->session));
    r->at.windows = (int64_t)r->text->train.n_batches;
    recall_bytes(r);
    TRY(load_tensors(r));
    return take_folder(r);
}

/* ---- reporting ---- */

static double rate_at(const train_run *r, int64_t step) {
    return ebb__schedule_rate(r->s, r->at.lr, step, r->total);
}

/* What an observer is told; from 1 on epochs, of which the last one done is meant. */
static job_progress describe(const train_run *r) {
    int64_t windows = r->at.windows, done = r->at.step;
    return (job_progress){.epoch = done > 0 ? (done - 1) / windows + 1 : 1,
                          .epochs = (r->total - 1) / windows + 1,
                          .step = done,
                          .steps = r->total,
                          .lr = rate_at(r, done > 0 ? done - 1 : 0),
                          .memory_bytes = r->session->measured_bytes,
                          .budget_bytes = r->session->plan->budget_bytes,
                          .seconds_left = r->step_seconds * (double)(r->total - done),
                          .valid = no_scores,
                          .gradient_norm = r->at.gradient_norm,
                          .phase = "train"};
}

static void notify(const train_run *r, const job_progress *now, bool tick) {
    if (r->observer != NULL && r->observer->progress != NULL) {
        r->observer->progress(r->observer->user, now, tick);
    }
}

/* "valid_perplexity", or after a slash "valid/perplexity". */
typedef struct score_name {
    char text[64];
} score_name;
static score_name name_score(const kind_metric *metric, char between) {
    score_name name;
    (void)snprintf(name.text, sizeof name.text, "valid%c%s", between, metric->name);
    return name;
}

/* "words_per_second", or after a prefix "train/words_per_second". */
static score_name name_rate(const train_run *r, const char *before) {
    score_name name;
    (void)snprintf(name.text, sizeof name.text, "%s%s_per_second", before, r->s->kind->unit);
    return name;
}

static ebb_status write_line(train_run *r, const job_progress *now) {
    score_name rate = name_rate(r, "");
    metrics_field fields[8 + KIND_MOST_METRICS] = {
        METRICS_INT("step", now->step), METRICS_INT("epoch", now->epoch),
        METRICS_REAL("loss", now->loss), METRICS_REAL("lr", now->lr)};
    score_name names[KIND_MOST_METRICS];
    size_t n = 4;
    if (now->gradient_norm >= 0) {
        fields[n++] = METRICS_REAL("gradient_norm", now->gradient_norm);
    }
    fields[n++] = METRICS_REAL(rate.text, now->words_per_second);
    fields[n++] = METRICS_INT("memory_bytes", now->memory_bytes);
    if (r->session->fallback_steps > r->told_fallbacks) {
        fields[n++] = METRICS_INT("fallback_steps", r->session->fallback_steps - r->told_fallbacks);
        r->told_fallbacks = r->session->fallback_steps;
    }
    for (int32_t i = 0; i < r->s->kind->n_metrics; i++) {
        names[i] = name_score(&r->s->kind->metrics[i], '_');
        if (now->valid.at[i] >= 0) {
            fields[n++] = METRICS_REAL(names[i].text, now->valid.at[i]);
        }
    }
    return ebb__metrics_write(&r->metrics, fields, n);
}

static ebb_status write_event(train_run *r, const job_progress *now) {
    score_name rate = name_rate(r, "train/");
    tensorboard_scalar all[5 + KIND_MOST_METRICS] = {{"train/loss", now->loss},
                                                     {"train/learning_rate", now->lr},
                                                     {rate.text, now->words_per_second},
                                                     {"memory/bytes", (double)now->memory_bytes}};
    score_name names[KIND_MOST_METRICS];
    size_t n = 4; /* from here on those that there may not be */
    if (now->gradient_norm >= 0) {
        all[n++] = (tensorboard_scalar){"train/gradient_norm", now->gradient_norm};
    }
    for (int32_t i = 0; i < r->s->kind->n_metrics; i++) {
        names[i] = name_score(&r->s->kind->metrics[i], '/');
        if (now->valid.at[i] >= 0) {
            all[n++] = (tensorboard_scalar){names[i].text, now->valid.at[i]};
        }
    }
    return r->events.fd < 0 ? EBB_OK : ebb__tensorboard_write(&r->events, now->step, all, n);
}

/* One metrics line, one event and one report; the sums start again. */
static ebb_status report(train_run *r, kind_scores valid) {
    job_progress now = describe(r);
    now.loss = ebb__progress_loss(&r->at);
    now.words_per_second = r->busy_seconds > 0 ? (double)r->busy_words / r->busy_seconds : 0;
    now.valid = valid;
    now.phase = valid.at[0] < 0 ? "train" : "valid";
    TRY(write_line(r, &now));
    TRY(write_event(r, &now));
    notify(r, &now, false);
    r->at.loss = now.loss;
    r->at.loss_sum = 0;
    r->at.loss_count = 0;
    r->busy_seconds = 0;
    r->busy_words = 0;
    return EBB_OK;
}

/* ---- the loop ---- */

/* Of the virtual clock, if there is one. */
static double seconds_now(const train_run *r) {
    comm_time clock = {.seconds = -1};
    if (r->s->virtual_clock && r->session->link != NULL) {
        clock = ebb__comm_virtual_time(r->session->link);
    }
    return clock.seconds >= 0 ? clock.seconds : ebb__clock_seconds();
}

/* A step is begun when the device has its work, and ended when its loss is known: on a device that
 * works by itself the next one is begun before that. at.step counts those that were ended. */
static int64_t begun_steps(const train_run *r) {
    return r->at.step + r->trainer.n_begun;
}

static ebb_status begin_step(train_run *r) {
    const job_reader *reader = &r->text->train;
    run_trainer *t = &r->trainer;
    int64_t step = begun_steps(r);
    int32_t program = 0;
    uint64_t words = 0;
    if (t->n_begun == 0) {
        r->since = seconds_now(r);
    }
    if (step % r->at.windows == 0) {
        TRY(ebb__ranks_zero(r->session, IR_STATE));
    }
    TRY(reader->fill(reader, (uint64_t)step, &program, &words));
    r->words[t->n_begun] = words;
    t->steps = (uint64_t)r->at.step;
    return ebb__trainer_begin(t, program, rate_at(r, step));
}

static ebb_status end_step(train_run *r) {
    run_trainer *t = &r->trainer;
    uint64_t words = r->words[0];
    ebb_status status = ebb__trainer_end(t);
    if (status == EBB_DIVERGED) {
        ebb__ctx_clear(r->ctx); /* the sentence here says also what to do */
        return diverged(r, r->at.step + 1, t->bad, t->tensor);
    }
    TRY(status);
    double now_seconds = seconds_now(r), seconds = now_seconds - r->since;
    r->since = now_seconds;
    r->words[0] = r->words[1];
    r->busy_seconds += seconds;
    r->busy_words += (int64_t)words;
    r->step_seconds = r->step_seconds > 0 ? 0.95 * r->step_seconds + 0.05 * seconds : seconds;
    r->at.gradient_norm = t->norm;
    r->at.loss_sum += t->loss;
    r->at.loss_count++;
    r->at.step++;
    job_progress now = describe(r);
    now.loss = t->loss;
    now.words_per_second = (double)words / seconds;
    notify(r, &now, true);
    return EBB_OK;
}

/* All but so many of those that were begun. */
static ebb_status end_steps(train_run *r, int32_t but) {
    while (r->trainer.n_begun > but) {
        TRY(end_step(r));
    }
    return EBB_OK;
}

static ebb_status validate(train_run *r, bool *is_best, bool *stopped) {
    job_score score;
    TRY(ebb__job_score(r->session, &r->text->valid, r->observer, &score));
    *stopped = score.stopped;
    if (score.stopped) {
        return EBB_OK;
    }
    double loss = score.loss_sum / (double)score.tokens;
    if (!isfinite(loss)) {
        return diverged(r, r->at.step, "the validation loss", NULL);
    }
    kind_scores scores = no_scores;
    TRY(r->text->calls->score(r->text, r->session, r->observer, loss, &scores, stopped));
    if (*stopped) {
        return EBB_OK;
    }
    TRY(report(r, scores));
    *is_best = ebb__progress_validated(&r->at, r->s, scores);
    return EBB_OK;
}

/* A signal may also be how mpirun ends what others have given up. */
static ebb_status stop_here(train_run *r, bool is_best) {
    TRY(ebb__ranks_check(r->session));
    if (r->saved != r->at.step) {
        TRY(save(r, is_best));
    }
    return ebb__fail(r->ctx, EBB_STOPPED,
                     "stopped after step %" PRId64 " of %" PRId64
                     "; state saved in %s: the same command goes on",
                     r->at.step, r->total, r->dir);
}

/* Whether a step is the last one, or one of every so many. */
static bool is_due(const train_run *r, int64_t step, int64_t every) {
    return step > 0 && every > 0 && (step % every == 0 || step >= r->total);
}

/* What is to be done between two steps. */
typedef struct train_stop {
    bool boundary, looks, logs, saves; /* end of an epoch, validation, metrics line, checkpoint */
} train_stop;

static train_stop stop_at(const train_run *r, int64_t step) {
    int64_t log_every = r->s->log_every > 0 ? r->s->log_every : DEFAULT_LOG_EVERY;
    int64_t valid_every = r->s->valid_every > 0 ? r->s->valid_every : r->at.windows;
    train_stop stop = {.boundary = is_due(r, step, r->at.windows),
                       .looks = kind_validates(r->s) && is_due(r, step, valid_every)};
    stop.logs = stop.boundary || step % log_every == 0;
    stop.saves = stop.boundary || stop.looks || is_due(r, step, r->s->save_every);
    return stop;
}

/* All steps have ended: validates, reports and saves what is due. */
static ebb_status look_around(train_run *r, bool *is_best, bool *stopped) {
    train_stop stop = stop_at(r, r->at.step);
    bool news = false;
    if (stop.looks && r->at.validated != r->at.step) {
        TRY(swap_averages(r));
        TRY(validate(r, is_best, stopped));
        TRY(swap_averages(r));
        if (*stopped) {
            return stop_here(r, false);
        }
        news = true; /* what was saved at this step did not know the validation */
    } else if (r->at.loss_count > 0 && stop.logs) {
        TRY(report(r, no_scores));
    }
    return stop.saves && (news || r->saved != r->at.step) ? save(r, *is_best) : EBB_OK;
}

static ebb_status loop(train_run *r) {
    for (;;) {
        /* Where nothing was ever validated, the newest is the best. */
        bool is_best = r->text->valid_hash == 0, stopped = false;
        train_stop stop = stop_at(r, begun_steps(r));
        bool rests = stop.logs || stop.saves || begun_steps(r) >= r->total;
        TRY(end_steps(r, rests ? 0 : DEVICE_MARKS));
        if (r->trainer.n_begun == 0) {
            TRY(look_around(r, &is_best, &stopped));
            if (r->at.step >= r->total || ebb__progress_exhausted(&r->at, r->s)) {
                return EBB_OK;
            }
        }
        if (job_should_stop(r->observer)) {
            TRY(end_steps(r, 0));
            return stop_here(r, is_best);
        }
        TRY(begin_step(r));
        TRY(end_steps(r, ebb__trainer_ahead(&r->trainer)));
    }
}

/* ---- the whole ---- */

static void close_run(train_run *r) {
    ebb__run_free(r->session);
    ebb__metrics_close(&r->metrics);
    ebb__tensorboard_close(&r->events);
    ebb__corpus_free(r->text);
    ebb__checkpoint_info_fini(&r->found);
    json_decref(r->at.overrides);
    ebb__file_unlock(&r->lock);
}

/* Before a folder is made. */
static ebb_status check_settings(ebb_ctx *ctx, const train_settings *s) {
    if (s->valid_metric >= (unsigned)s->kind->n_metrics) {
        return ebb__fail(ctx, EBB_USAGE, "models of kind %s have no such metric", s->kind->name);
    }
    if (s->kind->check != NULL) {
        TRY(s->kind->check(ctx, s));
    }
    return s->tensorboard != NULL ? ebb__tensorboard_check(ctx, s->tensorboard) : EBB_OK;
}

static void fill_result(const train_run *r, job_train_result *out) {
    out->steps = r->at.step;
    out->epochs = r->at.windows > 0 ? r->at.step / r->at.windows : 0;
    out->loss = ebb__progress_loss(&r->at);
    out->valid = r->at.last;
    out->best = r->at.best;
    out->stopped_early = r->at.step < r->total && ebb__progress_exhausted(&r->at, r->s);
    out->resumed = r->found.found;
    out->buckets = r->text->buckets;
    if (r->session != NULL) {
        out->reduce = job_reduced(r->session->plan);
        out->planned_peak_bytes = r->session->plan->peak_bytes;
        out->measured_peak_bytes = r->session->measured_bytes;
    }
}

static void tell_buckets(const train_run *r) {
    const job_buckets *b = &r->text->buckets;
    if (b->shapes.n > 0) {
        ebb__log(r->ctx, EBB_LOG_INFO, "buckets: %s, %d shape%s, %.1f%% padding",
                 ebb__bucket_name(b->strategy), (int)b->shapes.n, b->shapes.n == 1 ? "" : "s",
                 100 * b->padded_share);
    }
}

/* There is nothing to do, but only for the texts that the run was started with: whoever names
 * others must not be told that they were learnt. */
static ebb_status finish(train_run *r, job_train_result *out) {
    bool train = false, valid = false;
    TRY(r->s->kind->corpus.compare(r->text, r->dir, &train, &valid));
    if (!train || !valid) {
        return ebb__fail(r->ctx, EBB_USAGE,
                         "%s: is not the %s that the finished run in %s was %s; use that, "
                         "another --out, or --fresh",
                         train && r->s->valid_path != NULL ? r->s->valid_path : r->s->train_path,
                         kind_data(r->s), r->dir, train ? "validated on" : "started with");
    }
    TRY(repair_folder(r)); /* changes nothing unless the last save was cut short */
    fill_result(r, out);
    out->already_done = true;
    return ebb__job_share(r->s, NULL);
}

static ebb_status run(train_run *r, job_train_result *out) {
    ebb_plan *plan = NULL;
    TRY(open_folder(r));
    if (r->at.windows > 0) {
        r->total = ebb__schedule_steps(r->s, r->at.windows);
        bool validated = !kind_validates(r->s) || r->at.validated == r->at.step;
        bool ended = r->at.step >= r->total && validated;
        if (ended || ebb__progress_exhausted(&r->at, r->s)) {
            return finish(r, out);
        }
    }
    ebb_status status = open_data_and_plan(r, &plan);
    /* Without a plan, and EBB_BUDGET, where already the list of words is too long. */
    if (plan != NULL && (status == EBB_OK || status == EBB_BUDGET) && r->observer != NULL &&
        r->observer->planned != NULL) {
        ebb_status told = r->observer->planned(r->observer->user, plan);
        status = status == EBB_OK ? told : status;
    }
    if (status != EBB_OK) {
        ebb__plan_free(plan);
        return status;
    }
    tell_buckets(r);
    TRY(start(r, plan));
    r->ctx->stop = NULL; /* from here on the loop looks, and saves first */
    r->total = ebb__schedule_steps(r->s, r->at.windows);
    status = loop(r);
    fill_result(r, out);
    if (status == EBB_OK || status == EBB_STOPPED) {
        TRY(ebb__ranks_end(r->session, status));
    }
    return status == EBB_OK ? check_folder(r) : status;
}

ebb_status ebb__job_train(ebb_ctx *ctx, const train_settings *settings, const char *config_text,
                          const char *math_text, const job_observer *observer,
                          job_train_result *out) {
    *out = (job_train_result){0};
    TRY(check_settings(ctx, settings));
    train_run *r = NULL;
    TRY(ebb__alloc(ctx, 1, sizeof *r, &r));
    *r = (train_run){.ctx = ctx,
                     .s = settings,
                     .observer = observer,
                     .config_text = config_text,
                     .math_text = math_text,
                     .lock = FILE_UNLOCKED,
                     .metrics.fd = -1,
                     .events.fd = -1,
                     .saved = -1,
                     .at = ebb__progress_start(settings)};
    ctx->stop = observer != NULL ? observer->stop_planning : NULL;
    ctx->stop_user = observer != NULL ? observer->user : NULL;
    ebb_status status = ebb__corpus_new(ctx, settings, r->dir, &r->text);
    if (status == EBB_OK) {
        status = ebb__ranks_lost(r->session, run(r, out));
    }
    ctx->stop = NULL;
    close_run(r);
    ebb__free(ctx, r);
    return status;
}
