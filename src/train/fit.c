/* fit.c - the largest batch whose plan fits the budget.
 *
 * A batch changes the mathematics, so that it must not depend on what was measured on this machine:
 * plans are probed with built-in times only. The least bytes of a plan grow nearly in a straight
 * line with the batch: the line through the last two probes says where to look next, halving ends
 * the search where it does not. What is counted are rows (with shards, all of the same rows, those
 * of one) or, of sentences of a text, the tokens of a batch: each probe then has the shapes and
 * rows that a run of so many tokens has. Of several processes all must fit, each what it may take.
 */
#include "train/job_int.h"

#include "base/file.h"
#include "pass/pass.h"
#include "store/checkpoint.h"
#include "store/folder.h"

#include <stdlib.h>
#include <string.h>

/* Rows are tried one by one up to FINE_ROWS, in multiples of COARSE_ROWS above. */
enum { FINE_ROWS = 16, COARSE_ROWS = 8, FIRST_ROWS = 16, FIRST_TOKENS = 512 };
enum { MOST_GROWTH = 4, MOST_GUESSES = 4, MOST_BATCH = 1000000, MOST_TOKENS = 1000000000 };

typedef struct fit_search {
    ebb_ctx *ctx;
    train_settings trial;
    job_request request;
    corpus *text; /* NULL: there is none */
    bool tokens;  /* are counted, else rows */
    int64_t shards;
    int64_t fits, fails;       /* the most known to, or 0; the least known to */
    bool full;                 /* the text cannot fill more than `fits` */
    data_shapes shapes;        /* of what fits */
    double size[2], share[2];  /* of the last two plans, the later first: of what they may take */
    int32_t n_seen, n_guessed; /* plans; guesses by the line through them */
} fit_search;

/* How far numbers that are tried lie apart around n. */
static int64_t grain(const fit_search *f, int64_t n) {
    int64_t apart = 1;
    if (!f->tokens) {
        return n <= FINE_ROWS ? 1 : COARSE_ROWS;
    }
    while (n / apart > JOB_FINE_TOKENS) {
        apart *= 2;
    }
    return apart;
}

static int64_t round_down(const fit_search *f, int64_t n) {
    return n - n % grain(f, n);
}

static int64_t next_size(const fit_search *f, int64_t n) {
    int64_t more = n + grain(f, n), apart = grain(f, more);
    return more + (apart - more % apart) % apart;
}

/* Where the line through the last two plans meets the budget; < 0: there is no such line. */
static double meet(const fit_search *f) {
    double slope = (f->share[0] - f->share[1]) / (f->size[0] - f->size[1]);
    double more = 1 - f->share[0];
    return f->n_seen >= 2 && slope > 0 ? f->size[0] + more / slope : -1;
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
    n = round_down(f, n < f->fails ? n : f->fails - 1);
    return n > f->fits ? n : next_size(f, f->fits);
}

/* One process's plan; *share: the least that it could take, of what it may. */
static ebb_status make_plan(fit_search *f, int64_t rank, double *share) {
    ebb_plan *plan = NULL;
    job_request request = ebb__job_request_of(&f->trial, &f->request, rank);
    f->trial.rank = rank;
    ebb_status status = ebb__job_compile(f->ctx, &f->trial, &request, &plan);
    if (plan != NULL) {
        double own = (double)plan->least_bytes / (double)plan->budget_bytes;
        *share = own > *share ? own : *share;
    }
    ebb__plan_free(plan);
    return status;
}

/* *share: of the process with the least room; < 0: there is no plan. */
static ebb_status make_plans(fit_search *f, int64_t n, double *share) {
    f->trial.batch_tokens = f->tokens ? n : 0;
    f->trial.batch = f->tokens ? 0 : n * f->shards;
    *share = -1;
    if (f->text != NULL) {
        TRY(f->text->calls->choose(f->text, &f->request));
    }
    for (int64_t rank = 0; rank < f->trial.ranks || rank == 0; rank++) {
        TRY(make_plan(f, rank, share));
    }
    return EBB_OK;
}

/* Plans with so much. Sizes that no plan can have do not fit either. */
static ebb_status probe(fit_search *f, int64_t n) {
    double share = -1;
    ebb_status status = make_plans(f, n, &share);
    if (share >= 0) {
        f->size[1] = f->size[0];
        f->share[1] = f->share[0];
        f->size[0] = (double)n;
        f->share[0] = share;
        f->n_seen++;
    }
    if (status == EBB_OK) {
        f->fits = n;
        f->full = f->tokens && (uint64_t)n >= f->request.most_batch;
        f->fails = f->full ? next_size(f, n) : f->fails;
        f->shapes = f->request.shapes;
    } else if (n > 1 && (status == EBB_BUDGET || status == EBB_USAGE)) {
        f->fails = n;
        ebb__ctx_clear(f->ctx);
        status = EBB_OK;
    }
    return status;
}

static ebb_status search(fit_search *f) {
    int64_t first = f->tokens ? FIRST_TOKENS : FIRST_ROWS;
    ebb_status status = probe(f, f->fails > first ? first : f->fails - 1);
    while (status == EBB_OK && next_size(f, f->fits) < f->fails) {
        status = probe(f, guess(f));
    }
    if (status == EBB_OK && f->full && (uint64_t)f->fits > f->request.most_batch) {
        status = probe(f, (int64_t)f->request.most_batch); /* the same with a smaller number */
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

/* A number of the settings that a run stores, a line each; 0: there is none up to `most`. */
static int64_t stored_number(const char *line, const char *key, int64_t most) {
    size_t bytes = strlen(key);
    while (line != NULL && strncmp(line, key, bytes) != 0) {
        line = strchr(line, '\n');
        line = line != NULL ? line + 1 : NULL;
    }
    long long n = line != NULL ? strtoll(line + bytes, NULL, 10) : 0;
    return n >= 1 && n <= most ? n : 0;
}

static void recall_batch(train_settings *settings, const char *lines) {
    settings->batch_tokens = stored_number(lines, "batch-tokens = ", MOST_TOKENS);
    settings->batch = settings->batch_tokens > 0 ? 0 : stored_number(lines, "batch = ", MOST_BATCH);
}

static void recall_shards(train_settings *settings, const char *lines) {
    settings->shards = stored_number(lines, "shards = ", IR_MAX_SHARDS);
}

/* What the run in the folder was started with, if there is one: `take` is given its settings. */
static ebb_status recall(ebb_ctx *ctx, const char *dir, train_settings *settings,
                         void (*take)(train_settings *settings, const char *lines)) {
    checkpoint_info found = {0};
    file_lock lock;
    if (!ebb__file_exists(dir)) {
        return EBB_OK;
    }
    TRY(ebb__folder_lock(ctx, dir, &lock));
    ebb_log_fn log = ctx->log;
    ctx->log = NULL; /* what is damaged is said when the run is opened */
    ebb_status status = ebb__checkpoint_peek(ctx, dir, &found);
    ctx->log = log;
    if (status == EBB_OK && found.found) {
        take(settings, json_string_value(json_object_get(found.train, "settings")));
    }
    ebb__checkpoint_info_fini(&found);
    ebb__file_unlock(&lock);
    return status;
}

ebb_status ebb__job_recall_shards(ebb_ctx *ctx, const char *dir, train_settings *settings) {
    bool asked = settings->shards == 0 && !settings->fresh;
    return asked ? recall(ctx, dir, settings, recall_shards) : EBB_OK;
}

static bool by_sentence(const train_settings *s) {
    return s->train_path != NULL && s->kind->sentences != NULL && s->kind->sentences(s);
}

/* What to plan, and with that how far to search. */
static ebb_status measure(fit_search *f, job_fit *out) {
    int64_t most = f->tokens ? JOB_MOST_FIT_TOKENS : JOB_MOST_FIT;
    if (f->trial.train_path == NULL) {
        TRY(ebb__job_plain_sizes(f->ctx, &f->trial, &f->request));
    } else {
        TRY(ebb__corpus_new(f->ctx, &f->trial, NULL, &f->text));
        f->text->silent = true;
        if (f->tokens) {
            f->trial.batch_tokens = 1;
        } else if (by_sentence(&f->trial)) {
            f->trial.batch = f->shards;
        }
        TRY(ebb__corpus_measure(f->text, ebb__job_list_bytes(&f->trial), &f->request));
    }
    if (!f->tokens && f->request.most_batch > 0 && f->request.most_batch < JOB_MOST_FIT) {
        most = (int64_t)f->request.most_batch;
        out->by_text = true;
    }
    if (!f->tokens) {
        most = round_down(f, most > f->shards ? most / f->shards : 1);
    }
    f->fails = next_size(f, most);
    return EBB_OK;
}

ebb_status ebb__job_fit(ebb_ctx *ctx, train_settings *settings, const char *dir, job_fit *out) {
    *out = (job_fit){0};
    if (dir != NULL && !settings->fresh) {
        TRY(recall(ctx, dir, settings, recall_batch));
        out->recalled = settings->batch > 0 || settings->batch_tokens > 0;
        if (out->recalled) {
            return EBB_OK;
        }
    }
    /* What is free changes from moment to moment: one number for all probes and the run. */
    settings->budget = ebb__job_budget(settings);
    fit_search f = {.ctx = ctx,
                    .trial = *settings,
                    .request = {.train = true, .valid = kind_validates(settings)},
                    /* Batches of a pool have any length, and all as many rows. */
                    .tokens = by_sentence(settings) && settings->bucket != BUCKET_POOL,
                    .shards = settings->shards > 0 ? settings->shards : 1};
    if (ebb__settings_ranks(settings) > 1) {
        f.trial.ranks = ebb__settings_ranks(settings);
        f.trial.threads = ebb__job_threads(settings);
        f.trial.link = NULL;
    }
    f.trial.tune_folder = NULL;
    f.trial.explain = false;
    f.trial.dump_after = 0;
    f.trial.disabled |= 1U << PASS_VERIFY; /* none of these plans is run */
    ebb_status status = measure(&f, out);
    int64_t limit = f.fails;
    if (status == EBB_OK) {
        status = search(&f);
    }
    ebb__corpus_free(f.text);
    TRY(status);
    if (f.tokens) {
        settings->batch_tokens = f.fits;
        out->shapes = f.shapes;
        out->by_text = f.full;
    } else {
        settings->batch = f.fits * f.shards;
    }
    out->most = f.full || next_size(&f, f.fits) == limit;
    ebb__log(ctx, EBB_LOG_DEBUG, "%d plans made to find the batch", (int)f.n_seen);
    return EBB_OK;
}
