/* train.c - a training run in a folder, of any kind of model: start, resume, or find it finished.
 *
 * The loop is a function of the step number alone: step s trains batch s mod W of epoch s / W.
 * Everything it carries (position, rate, best score, sums for the next metrics line) is in the
 * checkpoint, so that a killed run ends with the same bits as an unbroken one. At a step: validate
 * if due, save if due, then train the next batch.
 */
#include "train/job.h"

#include "base/file.h"
#include "base/host.h"
#include "train/checkpoint.h"
#include "train/metrics.h"

#include <float.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

enum { DEFAULT_EPOCHS = 10, DEFAULT_LOG_EVERY = 100 };

/* What the run carries from step to step beside tensors: stored in every checkpoint. */
typedef struct progress_state {
    int64_t step;       /* steps done */
    int64_t validated;  /* step of the last validation; -1: none */
    double lr;          /* before warm-up */
    double best, last;  /* validation perplexity; < 0: none */
    int64_t since_best; /* validations without improvement (plateau) */
    double loss;        /* of the last metrics line; < 0: none */
    double loss_sum;    /* since then */
    int64_t loss_count;
    uint64_t metrics_bytes;
} progress_state;

typedef struct train_run {
    ebb_ctx *ctx;
    const train_settings *s;
    const job_observer *observer;
    const char *config_text, *math_text;
    char dir[JOB_PATH_BYTES / 2];
    int lock;
    corpus *text;
    int64_t windows; /* of an epoch; 0: not known yet */
    run_session *session;
    job_buffers data;
    metrics_log metrics;
    checkpoint_info found;
    progress_state at;
    int64_t total;       /* steps of the whole run */
    int64_t saved;       /* step of the newest checkpoint; -1: none */
    double busy_seconds; /* of training since the last report */
    int64_t busy_words;
    double step_seconds; /* running mean, for the time left */
} train_run;

/* ---- what a checkpoint says ---- */

static json_t *state_to_json(const train_run *r) {
    const progress_state *at = &r->at;
    return json_pack("{s:I,s:I,s:f,s:f,s:f,s:I,s:f,s:f,s:I,s:I,s:s,s:I,s:I,s:I,s:I,s:I}", "step",
                     (json_int_t)at->step, "validated", (json_int_t)at->validated, "lr", at->lr,
                     "best", at->best, "last", at->last, "since_best", (json_int_t)at->since_best,
                     "loss", at->loss, "loss_sum", at->loss_sum, "loss_count",
                     (json_int_t)at->loss_count, "metrics_bytes", (json_int_t)at->metrics_bytes,
                     "settings", r->math_text, "vocab_hash", (json_int_t)r->text->vocab_hash,
                     "train_tokens", (json_int_t)r->text->train_count, "train_hash",
                     (json_int_t)r->text->train_hash, "valid_hash", (json_int_t)r->text->valid_hash,
                     "windows", (json_int_t)r->windows);
}

/* Settings that change the mathematics are compared line by line; both values are shown. */
static ebb_status compare_settings(train_run *r, const char *stored) {
    const char *a = stored, *b = r->math_text;
    while (*a != '\0' || *b != '\0') {
        size_t na = strcspn(a, "\n"), nb = strcspn(b, "\n");
        if (na != nb || memcmp(a, b, na) != 0) {
            return ebb__fail(r->ctx, EBB_USAGE,
                             "%s: the run was started with '%.*s', now it is '%.*s'; use the same "
                             "value, another --out, or --fresh",
                             r->dir, (int)na, a, (int)nb, b);
        }
        a += na + (a[na] == '\n');
        b += nb + (b[nb] == '\n');
    }
    return EBB_OK;
}

static ebb_status state_from_json(train_run *r) {
    progress_state *at = &r->at;
    json_int_t step, validated, since, count, bytes, vocab_hash, tokens, hash, valid, windows = 0;
    const char *stored = NULL;
    json_error_t error;
    if (json_unpack_ex(r->found.train, &error, 0,
                       "{s:I,s:I,s:F,s:F,s:F,s:I,s:F,s:F,s:I,s:I,s:s,s:I,s:I,s:I,s:I,s?I}", "step",
                       &step, "validated", &validated, "lr", &at->lr, "best", &at->best, "last",
                       &at->last, "since_best", &since, "loss", &at->loss, "loss_sum",
                       &at->loss_sum, "loss_count", &count, "metrics_bytes", &bytes, "settings",
                       &stored, "vocab_hash", &vocab_hash, "train_tokens", &tokens, "train_hash",
                       &hash, "valid_hash", &valid, "windows", &windows) != 0) {
        return ebb__fail(r->ctx, EBB_MODEL, "%s: checkpoint of step %" PRIu64 ": %s", r->dir,
                         r->found.step, error.text);
    }
    if (step < 0 || (uint64_t)step != r->found.step || bytes < 0 || count < 0 || tokens < 1 ||
        windows < 0) {
        return ebb__fail(r->ctx, EBB_MODEL, "%s: checkpoint of step %" PRIu64 " contradicts itself",
                         r->dir, r->found.step);
    }
    at->step = step;
    at->validated = validated;
    at->since_best = since;
    at->loss_count = count;
    at->metrics_bytes = (uint64_t)bytes;
    r->text->resumed = true;
    r->text->vocab_hash = (uint64_t)vocab_hash;
    r->text->train_count = (uint64_t)tokens; /* compared with the text's once that is open */
    r->text->train_hash = (uint64_t)hash;
    r->text->valid_hash = (uint64_t)valid;
    r->windows = windows;
    r->saved = step;
    return compare_settings(r, stored);
}

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

static ebb_status check_step(train_run *r, int32_t program, float loss) {
    double norm = *(const double *)ebb__run_output(r->session, program, UPDATE_NORM);
    int32_t bad = *(const int32_t *)ebb__run_output(r->session, program, UPDATE_BAD);
    const ebb_plan *plan = r->session->plan;
    if (!isfinite(loss)) {
        return diverged(r, r->at.step + 1, "the loss", NULL);
    }
    for (int32_t i = 0, k = 0; i < plan->n_variables && bad >= 0; i++) {
        if (plan->variables[i].role == IR_PARAM && k++ == bad) {
            return diverged(r, r->at.step + 1, "the gradient of ", plan->variables[i].name);
        }
    }
    return isfinite(norm) ? EBB_OK : diverged(r, r->at.step + 1, "the gradient's norm", NULL);
}

/* An update can overflow though its gradient did not: such weights must not become the newest
 * checkpoint, or going on from there could only fail again. */
static ebb_status check_weights(train_run *r, const st_entry *weights, size_t n) {
    for (size_t i = 0; i < n; i++) {
        const float *data = weights[i].data;
        int64_t count = 1;
        for (int d = 0; d < weights[i].rank; d++) {
            count *= weights[i].dims[d];
        }
        for (int64_t k = 0; k < count; k++) {
            if (!isfinite(data[k])) {
                return diverged(r, r->at.step, "the updated ", weights[i].name);
            }
        }
    }
    return EBB_OK;
}

static ebb_status save(train_run *r, bool is_best) {
    alloc_region region;
    st_entry *weights = NULL, *state = NULL;
    size_t n_weights = 0, n_state = 0;
    json_t *train = NULL;
    ebb_status status;
    ebb__region_init(&region, r->ctx);
    TRY_OUT(ebb__job_entries(r->session, 1U << IR_PARAM, &region, &weights, &n_weights));
    TRY_OUT(check_weights(r, weights, n_weights));
    TRY_OUT(ebb__metrics_sync(&r->metrics));
    r->at.metrics_bytes = r->metrics.bytes;
    TRY_OUT(ebb__job_entries(r->session, (1U << IR_SLOT) | (1U << IR_STATE), &region, &state,
                             &n_state));
    train = state_to_json(r);
    if (train == NULL) {
        status = ebb__fail(r->ctx, EBB_NOMEM, "no memory to describe the checkpoint");
        goto out;
    }
    TRY_OUT(ebb__checkpoint_save(r->ctx, r->dir, (uint64_t)r->at.step, weights, n_weights, state,
                                 n_state, train, is_best));
    r->saved = r->at.step;
out:
    json_decref(train);
    ebb__region_fini(&region);
    return status;
}

/* ---- starting ---- */

static ebb_status open_folder(train_run *r) {
    int n = snprintf(r->dir, sizeof r->dir, "%s", r->s->out_dir);
    if (n <= 0 || (size_t)n >= sizeof r->dir) {
        return ebb__fail(r->ctx, EBB_USAGE, "--out: the path is empty or too long");
    }
    TRY(ebb__file_make_dir(r->ctx, r->dir));
    TRY(ebb__file_lock_dir(r->ctx, r->dir, &r->lock));
    if (r->s->fresh) {
        return EBB_OK; /* what is there goes once it is known that the new run can start */
    }
    TRY(ebb__checkpoint_peek(r->ctx, r->dir, &r->found));
    return r->found.found ? state_from_json(r) : EBB_OK;
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

static int64_t total_steps(const train_settings *s, int64_t windows) {
    int64_t epochs = s->epochs > 0 ? s->epochs : s->steps > 0 ? 0 : DEFAULT_EPOCHS, total;
    if (epochs == 0) {
        return s->steps;
    }
    if (__builtin_mul_overflow(epochs, windows, &total)) {
        total = INT64_MAX;
    }
    return s->steps > 0 && s->steps < total ? s->steps : total;
}

/* The plan comes before any token file is written: a budget that does not fit costs nothing. */
static ebb_status open_data_and_plan(train_run *r, ebb_plan **plan) {
    job_request request = {.train = true, .valid = r->s->valid_path != NULL};
    TRY(ebb__corpus_measure(r->text, ebb__job_list_bytes(r->s), &request));
    TRY(ebb__job_compile(r->ctx, r->s, &request, plan));
    return r->text->kind->store(r->text);
}

static ebb_status load_tensors(train_run *r) {
    st_reader reader = {0};
    ebb_status status;
    if (r->found.found) {
        TRY(ebb__checkpoint_open_weights(r->ctx, r->dir, &r->found, &reader));
        status = ebb__job_load(r->session, 1U << IR_PARAM, &reader);
        ebb__safetensors_close(&reader);
        if (status != EBB_OK) {
            return status;
        }
        TRY(ebb__checkpoint_open_state(r->ctx, r->dir, &r->found, &reader));
        status = ebb__job_load(r->session, (1U << IR_SLOT) | (1U << IR_STATE), &reader);
        ebb__safetensors_close(&reader);
        return status;
    }
    ebb__job_init_weights(r->session, r->s);
    if (r->s->init_path != NULL) {
        TRY(ebb__safetensors_open(r->ctx, r->s->init_path, &reader));
        status = ebb__job_load(r->session, 1U << IR_PARAM, &reader);
        ebb__safetensors_close(&reader);
        return status;
    }
    return EBB_OK;
}

/* What a kill between two system calls may have left: half generations, names one step behind. */
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
    }
    TRY(repair_folder(r));
    if (!r->found.found) {
        TRY(r->text->kind->adopt(r->text));
    }
    TRY(write_text(r, "config", r->config_text));
    TRY(ebb__job_path(r->ctx, r->dir, "metrics.jsonl", path));
    return ebb__metrics_open(r->ctx, path, r->at.metrics_bytes, r->at.step, &r->metrics);
}

static ebb_status start(train_run *r, ebb_plan *plan) {
    TRY(ebb__run_new(r->ctx, plan, &r->session)); /* owns the plan from here on */
    r->data = ebb__job_buffers(r->session);
    TRY(r->text->kind->begin(r->text, r->session));
    r->windows = (int64_t)r->text->train.windows;
    TRY(load_tensors(r));
    return take_folder(r);
}

/* ---- reporting ---- */

static double rate_at(const train_run *r, int64_t step) {
    double lr = r->at.lr;
    if (r->s->schedule == SCHEDULE_WARMUP && step < r->s->warmup) {
        lr *= (double)(step + 1) / (double)r->s->warmup;
    }
    return lr;
}

static void notify(train_run *r, const char *phase, double loss, double words_per_second,
                   double perplexity, bool tick) {
    if (r->observer == NULL || r->observer->progress == NULL) {
        return;
    }
    int64_t windows = r->windows, done = r->at.step;
    job_progress p = {.epoch = done > 0 ? (done - 1) / windows + 1 : 1,
                      .epochs = (r->total + windows - 1) / windows,
                      .step = done,
                      .steps = r->total,
                      .loss = loss,
                      .lr = rate_at(r, done > 0 ? done - 1 : 0),
                      .words_per_second = words_per_second,
                      .memory_bytes = r->session->measured_bytes,
                      .budget_bytes = r->session->plan->budget_bytes,
                      .seconds_left = r->step_seconds * (double)(r->total - done),
                      .valid_perplexity = perplexity,
                      .phase = phase};
    r->observer->progress(r->observer->user, &p, tick);
}

/* Since the last metrics line, else that line's; NaN before the first step. */
static double mean_loss(const train_run *r) {
    return r->at.loss_count > 0 ? r->at.loss_sum / (double)r->at.loss_count
           : r->at.loss >= 0    ? r->at.loss
                                : (double)NAN;
}

/* One metrics line and one report; the sums start again. perplexity < 0: not validated here. */
static ebb_status report(train_run *r, double perplexity) {
    int64_t windows = r->windows;
    double loss = mean_loss(r);
    double speed = r->busy_seconds > 0 ? (double)r->busy_words / r->busy_seconds : 0;
    metrics_field fields[6] = {METRICS_INT("step", r->at.step),
                               METRICS_INT("epoch", (r->at.step - 1) / windows + 1),
                               METRICS_REAL("loss", loss),
                               METRICS_REAL("lr", rate_at(r, r->at.step - 1)),
                               METRICS_REAL("words_per_second", speed),
                               METRICS_REAL("valid_perplexity", perplexity)};
    TRY(ebb__metrics_write(&r->metrics, fields, perplexity < 0 ? 5 : 6));
    notify(r, perplexity < 0 ? "train" : "valid", loss, speed, perplexity, false);
    r->at.loss = loss;
    r->at.loss_sum = 0;
    r->at.loss_count = 0;
    r->busy_seconds = 0;
    r->busy_words = 0;
    return EBB_OK;
}

/* ---- the loop ---- */

static ebb_status train_step(train_run *r) {
    const job_reader *reader = &r->text->train;
    int32_t program = 0;
    uint64_t words = 0;
    double begin = ebb__clock_seconds();
    if (r->at.step % r->windows == 0) {
        ebb__job_reset_state(r->session, "state");
    }
    TRY(reader->fill(reader, r->session, (uint64_t)r->at.step, &program, &words));
    ebb__job_hyper(r->s, rate_at(r, r->at.step), r->at.step + 1, r->data.hyper);
    if (r->data.step != NULL) {
        *r->data.step = (int32_t)r->at.step;
    }
    ebb__run_step(r->session, program);
    float loss = *(const float *)ebb__run_output(r->session, program, JOB_LOSS);
    TRY(check_step(r, program, loss));
    double seconds = ebb__clock_seconds() - begin;
    r->busy_seconds += seconds;
    r->busy_words += (int64_t)words;
    r->step_seconds = r->step_seconds > 0 ? 0.95 * r->step_seconds + 0.05 * seconds : seconds;
    r->at.loss_sum += (double)loss;
    r->at.loss_count++;
    r->at.step++;
    notify(r, "train", (double)loss, (double)words / seconds, -1, true);
    return EBB_OK;
}

static void note_perplexity(train_run *r, double perplexity, bool *is_best) {
    *is_best = r->at.best < 0 || perplexity < r->at.best;
    r->at.last = perplexity;
    if (*is_best) {
        r->at.best = perplexity;
        r->at.since_best = 0;
    } else if (r->s->schedule == SCHEDULE_PLATEAU && ++r->at.since_best > r->s->patience) {
        r->at.lr *= r->s->lr_factor;
        r->at.since_best = 0;
    }
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
    double perplexity = fmin(exp(loss), DBL_MAX); /* JSON has no infinity */
    TRY(report(r, perplexity));
    r->at.validated = r->at.step;
    note_perplexity(r, perplexity, is_best);
    return EBB_OK;
}

static ebb_status stop_here(train_run *r, bool is_best) {
    if (r->saved != r->at.step) {
        TRY(save(r, is_best));
    }
    return ebb__fail(r->ctx, EBB_STOPPED,
                     "stopped after step %" PRId64 " of %" PRId64
                     "; state saved in %s: the same command goes on",
                     r->at.step, r->total, r->dir);
}

static ebb_status loop(train_run *r) {
    int64_t windows = r->windows;
    int64_t log_every = r->s->log_every > 0 ? r->s->log_every : DEFAULT_LOG_EVERY;
    for (;;) {
        bool boundary = r->at.step > 0 && (r->at.step % windows == 0 || r->at.step >= r->total);
        bool due = boundary ||
                   (r->s->save_every > 0 && r->at.step > 0 && r->at.step % r->s->save_every == 0);
        /* Where nothing was ever validated, the newest is the best. */
        bool is_best = r->text->valid_hash == 0, stopped = false, news = false;
        if (boundary && r->s->valid_path != NULL && r->at.validated != r->at.step) {
            TRY(validate(r, &is_best, &stopped));
            if (stopped) {
                return stop_here(r, false);
            }
            news = true; /* what was saved at this step did not know the validation */
        } else if (r->at.loss_count > 0 && (boundary || r->at.step % log_every == 0)) {
            TRY(report(r, -1));
        }
        if (due && (news || r->saved != r->at.step)) {
            TRY(save(r, is_best));
        }
        if (r->at.step >= r->total) {
            return EBB_OK;
        }
        if (job_should_stop(r->observer)) {
            return stop_here(r, is_best);
        }
        TRY(train_step(r));
    }
}

/* ---- the whole ---- */

static void close_run(train_run *r) {
    ebb__run_free(r->session);
    ebb__metrics_close(&r->metrics);
    ebb__corpus_free(r->text);
    ebb__checkpoint_info_fini(&r->found);
    ebb__file_close(r->lock);
}

static ebb_status check_settings(ebb_ctx *ctx, const train_settings *s) {
    if (s->train_path == NULL) {
        return ebb__fail(ctx, EBB_USAGE, "train needs a text: --train FILE");
    }
    if (s->model == MODEL_NMT &&
        (s->train_target == NULL || (s->valid_path == NULL) != (s->valid_target == NULL))) {
        return ebb__fail(ctx, EBB_USAGE, "texts of a translation model come in pairs");
    }
    if (s->schedule == SCHEDULE_PLATEAU && s->valid_path == NULL) {
        return ebb__fail(ctx, EBB_USAGE, "--schedule plateau needs --valid FILE to look at");
    }
    return EBB_OK;
}

static void fill_result(const train_run *r, job_train_result *out) {
    out->steps = r->at.step;
    out->epochs = r->windows > 0 ? r->at.step / r->windows : 0;
    out->loss = mean_loss(r);
    out->valid_perplexity = r->at.last;
    out->best_perplexity = r->at.best;
    out->resumed = r->found.found;
    if (r->session != NULL) {
        out->planned_peak_bytes = r->session->plan->peak_bytes;
        out->measured_peak_bytes = r->session->measured_bytes;
    }
}

static ebb_status run(train_run *r, job_train_result *out) {
    ebb_plan *plan = NULL;
    TRY(open_folder(r));
    if (r->windows > 0) {
        r->total = total_steps(r->s, r->windows);
        bool validated = r->s->valid_path == NULL || r->at.validated == r->at.step;
        if (r->at.step >= r->total && validated) {
            TRY(repair_folder(r)); /* changes nothing unless the last save was cut short */
            fill_result(r, out);
            out->already_done = true;
            return EBB_OK;
        }
    }
    ebb_status status = open_data_and_plan(r, &plan);
    /* Without a plan, and EBB_BUDGET, where already the list of words is too long. */
    if (plan != NULL && (status == EBB_OK || status == EBB_BUDGET) && r->observer != NULL &&
        r->observer->planned != NULL) {
        r->observer->planned(r->observer->user, plan);
    }
    if (status != EBB_OK) {
        ebb__plan_free(plan);
        return status;
    }
    TRY(start(r, plan));
    r->total = total_steps(r->s, r->windows);
    status = loop(r);
    fill_result(r, out);
    return status;
}

ebb_status ebb__job_train(ebb_ctx *ctx, const train_settings *settings, const char *config_text,
                          const char *math_text, const job_observer *observer,
                          job_train_result *out) {
    *out = (job_train_result){0};
    TRY(check_settings(ctx, settings));
    train_run *r = NULL;
    TRY(ebb__alloc(ctx, 1, sizeof *r, &r));
    *r = (train_run){
        .ctx = ctx,
        .s = settings,
        .observer = observer,
        .config_text = config_text,
        .math_text = math_text,
        .lock = -1,
        .metrics.fd = -1,
        .saved = -1,
        .at = {.validated = -1, .lr = settings->lr, .loss = -1, .best = -1, .last = -1}};
    ebb_status status = ebb__corpus_new(ctx, settings, r->dir, &r->text);
    if (status == EBB_OK) {
        status = run(r, out);
    }
    close_run(r);
    ebb__free(ctx, r);
    return status;
}
