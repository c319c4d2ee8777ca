/* fit.c - the largest batch whose plan fits the budget.
 *
 * A batch changes the mathematics, so that it must not depend on what was measured on this machine:
 * plans are probed with built-in times only. The least bytes of a plan grow nearly in a straight
 * line with the batch: the line through the last two probes says where to look next, halving ends
 * the search where it does not. With shards, all of the same rows, those rows are counted. */
#include "train/job.h"

#include "base/file.h"
#include "train/checkpoint.h"

#include <stdlib.h>
#include <string.h>

/* Rows of a shard are tried one by one up to FINE, in multiples of COARSE above. */
enum { FINE = 16, COARSE = 8, FIRST = 16, MOST_GROWTH = 4, MOST_GUESSES = 4, MOST_BATCH = 1000000 };

typedef struct fit_search {
    ebb_ctx *ctx;
    train_settings trial;
    const job_request *request;
    int64_t shards;
    int64_t fits, fails;       /* rows of a shard: the most known to, or 0; the least known to */
    double rows[2], bytes[2];  /* of the last two plans, the later first */
    int32_t n_seen, n_guessed; /* plans; guesses by the line through them */
} fit_search;

static int64_t round_down(int64_t n) {
    return n <= FINE ? n : n - n % COARSE;
}

static int64_t next_rows(int64_t n) {
    return n < FINE ? n + 1 : round_down(n) + COARSE;
}

/* Where the line through the last two plans meets the budget; < 0: there is no such line. */
static double meet(const fit_search *f) {
    double slope = (f->bytes[0] - f->bytes[1]) / (f->rows[0] - f->rows[1]);
    double more = (double)f->trial.budget - f->bytes[0];
    return f->n_seen >= 2 && slope > 0 ? f->rows[0] + more / slope : -1;
}

/* Something between `fits` and `fails`, which are not neighbours. */
static int64_t guess(fit_search *f) {
    double line = f->n_guessed < MOST_GUESSES ? meet(f) : -1;
    int64_t n = f->fits + (f->fails - f->fits) / 2;
    if (line >= 0) {
        f->n_guessed++;
        n = line < (double)f->fails ? (int64_t)line : f->fails;
    } else if (f->n_seen < 2) {
        n = f->fits > 0 ? 2 * f->fits : f->fails / 2;
    }
    /* Plans of large batches take longer to make: not far beyond what is known. */
    n = f->fits > 0 && n > MOST_GROWTH * f->fits ? MOST_GROWTH * f->fits : n;
    n = round_down(n < f->fails ? n : f->fails - 1);
    return n > f->fits ? n : next_rows(f->fits);
}

/* Plans with so many rows. Sizes that no plan can have do not fit either. */
static ebb_status probe(fit_search *f, int64_t rows) {
    ebb_plan *plan = NULL;
    f->trial.batch = rows * f->shards;
    ebb_status status = ebb__job_compile(f->ctx, &f->trial, f->request, &plan);
    if (plan != NULL) {
        f->rows[1] = f->rows[0];
        f->bytes[1] = f->bytes[0];
        f->rows[0] = (double)rows;
        f->bytes[0] = (double)plan->least_bytes;
        f->n_seen++;
    }
    ebb__plan_free(plan);
    if (status == EBB_OK) {
        f->fits = rows;
    } else if (rows > 1 && (status == EBB_BUDGET || status == EBB_USAGE)) {
        f->fails = rows;
        ebb__ctx_clear(f->ctx);
        status = EBB_OK;
    }
    return status;
}

static ebb_status search(fit_search *f) {
    ebb_status status = probe(f, f->fails > FIRST ? FIRST : f->fails - 1);
    while (status == EBB_OK && next_rows(f->fits) < f->fails) {
        status = probe(f, guess(f));
    }
    if (status == EBB_BUDGET) {
        char why[512];
        (void)snprintf(why, sizeof why, "%s", ebb_last_error(f->ctx));
        ebb__ctx_clear(f->ctx);
        status = ebb__fail(f->ctx, EBB_BUDGET, "--batch auto: not even a batch of %lld fits: %s",
                           (long long)f->shards, why);
    }
    return status;
}

/* The batch that the run in the folder was started with; 0: there is none. */
static ebb_status recall(ebb_ctx *ctx, const char *dir, int64_t *batch) {
    static const char key[] = "batch = ";
    checkpoint_info found = {0};
    int lock = -1;
    *batch = 0;
    if (!ebb__file_exists(dir)) {
        return EBB_OK;
    }
    TRY(ebb__file_lock_dir(ctx, dir, &lock));
    ebb_log_fn log = ctx->log;
    ctx->log = NULL; /* what is damaged is said when the run is opened */
    ebb_status status = ebb__checkpoint_peek(ctx, dir, &found);
    ctx->log = log;
    const char *line = status == EBB_OK && found.found
                           ? json_string_value(json_object_get(found.train, "settings"))
                           : NULL;
    while (line != NULL && strncmp(line, key, sizeof key - 1) != 0) {
        line = strchr(line, '\n');
        line = line != NULL ? line + 1 : NULL;
    }
    if (line != NULL) {
        long long n = strtoll(line + sizeof key - 1, NULL, 10);
        *batch = n >= 1 && n <= MOST_BATCH ? n : 0;
    }
    ebb__checkpoint_info_fini(&found);
    ebb__file_close(lock);
    return status;
}

ebb_status ebb__job_fit(ebb_ctx *ctx, train_settings *settings, const char *dir, job_fit *out) {
    job_request request = {.train = true, .valid = settings->valid_path != NULL};
    int64_t most = JOB_MOST_FIT;
    int64_t shards = settings->shards > 0 ? settings->shards : 1;
    *out = (job_fit){0};
    if (dir != NULL && !settings->fresh) {
        TRY(recall(ctx, dir, &settings->batch));
        out->recalled = settings->batch > 0;
        if (out->recalled) {
            return EBB_OK;
        }
    }
    /* What is free changes from moment to moment: one number for all probes and the run. */
    settings->budget = ebb__job_budget(settings);
    TRY(ebb__job_measure(ctx, settings, true, &request));
    if (request.most_batch > 0 && request.most_batch < JOB_MOST_FIT) {
        most = (int64_t)request.most_batch;
        out->by_text = true;
    }
    most = round_down(most > shards ? most / shards : 1);
    fit_search f = {.ctx = ctx,
                    .trial = *settings,
                    .request = &request,
                    .shards = shards,
                    .fails = next_rows(most)};
    f.trial.tune_folder = NULL;
    f.trial.explain = false;
    f.trial.dump_after = 0;
    TRY(search(&f));
    settings->batch = f.fits * shards;
    out->most = f.fits == most;
    ebb__log(ctx, EBB_LOG_DEBUG, "%d plans made to find the batch", (int)f.n_seen);
    return EBB_OK;
}
