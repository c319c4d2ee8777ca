/* tune.c - times of products, measured once and kept: read for every plan, completed by the
 * first run that misses some, filled ahead by `ebb tune`. */
#include "train/job_int.h"

#include "base/file.h"
#include "cost/store.h"

#include <inttypes.h>

/* Tuning must not take more than the run after it: a plan holds at least the parameters, and a
 * process may have a little beside its plan. Nor more than the budget. */
static cost_limits limits_of(const train_settings *s, uint64_t parameters) {
    const uint64_t beside =
        RUN_OVERHEAD_BYTES / 8 * 3; /* the library that it calls takes a third */
    uint64_t budget = ebb__job_budget(s);
    uint64_t bytes = parameters < UINT64_MAX - beside ? parameters + beside : parameters;
    return (cost_limits){.seconds = s->tune_seconds, .bytes = bytes < budget ? bytes : budget};
}

/* Built-in times for what is missing, if the disk does not take measured ones: else the same
 * command would give another plan every time. */
static ebb_status give_up(const cost_survey *survey, cost_table *table, const char *path,
                          ebb_status status) {
    ebb_ctx *ctx = table->ctx;
    bool stale = false;
    if (status != EBB_IO && status != EBB_USAGE) {
        return status;
    }
    ebb__ctx_clear(ctx);
    ebb__log(ctx, EBB_LOG_WARN, "%s cannot be written: using built-in times", path);
    ebb__cost_table_fini(table);
    return ebb__cost_store_load(table, path, &survey->index, &stale);
}

static int32_t count_doubtful(const cost_survey *survey, const cost_table *table) {
    int32_t n = 0;
    for (int32_t i = 0; i < survey->n_samples; i++) {
        const cost_entry *entry = ebb__cost_table_find(table, &survey->samples[i].key);
        n += entry != NULL && cost_entry_doubtful(entry);
    }
    return n;
}

static ebb_status fill(const cost_limits *limits, const cost_survey *survey, cost_table *table,
                       const char *path) {
    ebb_ctx *ctx = survey->ctx;
    cost_tuned tuned;
    int32_t missing = ebb__cost_survey_missing(survey, table, false);
    bool again = missing == count_doubtful(survey, table); /* all are known, if not well */
    if (missing == 0) {
        return EBB_OK;
    }
    /* Writing what is known already tells whether the time would be well spent. */
    ebb_status status = ebb__cost_store_save(table, path);
    if (status == EBB_IO && again) {
        ebb__ctx_clear(ctx);
        return EBB_OK;
    }
    if (status != EBB_OK) {
        return give_up(survey, table, path, status);
    }
    ebb__log(ctx, EBB_LOG_INFO, "tuning %" PRId32 " products for this machine (%s, at most %g s)",
             missing, again ? "again, it was busy before" : "once", limits->seconds);
    TRY(ebb__cost_tune(survey, table, limits, &tuned));
    ebb__log(ctx, EBB_LOG_DEBUG,
             "tuned %" PRId32 ", no time for %" PRId32
             ", %.1f s; runs took %.2f times their least, %.0f%% of it on a core",
             tuned.measured, tuned.left, tuned.seconds, tuned.unrest, 100 * tuned.share);
    status = ebb__cost_store_save(table, path);
    return status == EBB_OK ? EBB_OK : give_up(survey, table, path, status);
}

/* Brings what this run uses to the front of the store. Nothing is lost if that cannot be written.
 */
static ebb_status refresh(cost_table *table, const char *path) {
    ebb_status status = ebb__cost_store_save(table, path);
    if (status == EBB_IO) {
        ebb__ctx_clear(table->ctx);
        status = EBB_OK;
    }
    return status;
}

/* The table of what the survey has: read, and completed where this command may measure. */
static ebb_status look_up(job_programs *p, const char *path, cost_survey *survey) {
    cost_table *table = &p->table;
    uint64_t parameters = 0;
    bool stale = false;
    TRY(ebb__plan_survey(p->ctx, p->list, p->n, &p->options, survey, &parameters));
    TRY(ebb__cost_store_load(table, path, &survey->index, &stale));
    if (p->settings.tune_seconds > 0) {
        cost_limits limits = limits_of(&p->settings, parameters);
        if (stale) {
            TRY(refresh(table, path));
        }
        TRY(fill(&limits, survey, table, path));
    }
    return ebb__cost_survey_pace(survey, table);
}

ebb_status ebb__job_measured(job_programs *p) {
    char path[COST_PATH_BYTES];
    cost_survey survey;
    TRY(ebb__cost_store_path(p->ctx, p->table.dev, p->settings.tune_folder, path));
    if (p->settings.tune_seconds <= 0 && !ebb__file_exists(path)) {
        p->table.pace = 1; /* nothing to look up */
        return EBB_OK;
    }
    ebb__cost_survey_init(&survey, p->ctx, p->table.dev, p->options.members);
    ebb_status status = look_up(p, path, &survey);
    ebb__cost_survey_fini(&survey);
    return status;
}

/* ---- ahead of time ---- */

/* *least: of the parameters of a model. */
static ebb_status survey_model(ebb_ctx *ctx, const train_settings *model, cost_survey *survey,
                               uint64_t *least) {
    job_request request = {.train = true, .valid = true};
    job_programs *p = NULL;
    uint64_t bytes = 0;
    model->kind->vocab_sizes(model, &request);
    TRY(ebb__job_programs_new(ctx, model, &request, &p));
    ebb_status status = ebb__plan_survey(ctx, p->list, p->n, &p->options, survey, &bytes);
    *least = bytes < *least ? bytes : *least;
    ebb__job_programs_free(p);
    return status;
}

ebb_status ebb__job_tune(ebb_ctx *ctx, const train_settings *models, int32_t n,
                         const job_tune_observer *observer) {
    const device *dev = device_or_default(models->dev);
    char path[COST_PATH_BYTES];
    cost_survey survey;
    cost_table table;
    cost_limits limits;
    uint64_t least = UINT64_MAX;
    bool stale = false;
    job_tune_report report = {path, &survey, &table, {0}, ebb__job_threads(models)};
    ebb_status status;
    ebb__cost_survey_init(&survey, ctx, dev, report.threads);
    ebb__cost_table_init(&table, ctx, dev);
    TRY_OUT(ebb__cost_store_path(ctx, dev, models->tune_folder, path));
    for (int32_t i = 0; i < n; i++) {
        TRY_OUT(survey_model(ctx, &models[i], &survey, &least));
    }
    if (!models->fresh) {
        TRY_OUT(ebb__cost_store_load(&table, path, &survey.index, &stale));
    }
    limits = limits_of(models, least);
    limits.again = true;
    limits.done = observer->progress;
    limits.user = observer->user;
    TRY_OUT(ebb__cost_tune(&survey, &table, &limits, &report.tuned));
    TRY_OUT(ebb__cost_store_save(&table, path));
    status = observer->report(observer->user, &report);
out:
    ebb__cost_table_fini(&table);
    ebb__cost_survey_fini(&survey);
    return status;
}
