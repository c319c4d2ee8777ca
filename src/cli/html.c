/* html.c - `ebb report DIR FILE`: gathers what the page about a run tells (page/html.h). */
#include "cli/command.h"

#include "cli/page_classes.h"
#include "cli/samples.h"
#include "kind/stored.h"
#include "train/kind.h"

#include <string.h>

typedef struct report {
    cli_call *call;
    const char *dir;
    cli_settings run;
    ebb_plan *plan, *before;
    char why[512];
    sample_set samples;
    kind_facts facts; /* of what the run was validated on */
    cli_classes classes;
    learning_metric metrics[LEARNING_MOST_METRICS];
    html_page page;
} report;
_Static_assert((int)KIND_MOST_METRICS <= (int)LEARNING_MOST_METRICS, "all can be drawn");

/* The run's plan, and what the same step takes when nothing is saved. */
static ebb_status make_plans(report *p) {
    train_settings run = p->run.run, keep = p->run.run;
    keep.disabled |= 1U << PASS_CHUNK | 1U << PASS_ENCODE | 1U << PASS_RECOMPUTE;
    keep.memory = (train_memory){.form = MEMORY_BYTES, .bytes = UINT64_MAX / 4};
    ebb_status status = ebb__job_plan(p->call->ctx, &run, &p->plan);
    if (status == EBB_OK) {
        status = ebb__job_plan(p->call->ctx, &keep, &p->before);
    }
    if (status == EBB_OK) {
        return EBB_OK;
    }
    ebb__plan_free(p->plan);
    p->plan = NULL;
    (void)snprintf(p->why, sizeof p->why, "%s", ebb_last_error(p->call->ctx));
    ebb__ctx_clear(p->call->ctx);
    return status == EBB_NOMEM ? status : EBB_OK;
}

/* A run without weights or whose text is gone has all but translations. */
static ebb_status make_samples(report *p) {
    const train_settings *run = &p->run.run;
    if (run->kind->decode == NULL || run->valid_path == NULL) {
        return EBB_OK;
    }
    ebb_status status = ebb__samples_make(p->call->ctx, run, p->dir, &p->samples);
    p->page.samples = p->samples.lines;
    p->page.n_samples = p->samples.n;
    p->page.attention = &p->samples.attention;
    if (status != EBB_OK && status != EBB_NOMEM) {
        TRY(ebb__region_strdup(&p->run.region, ebb_last_error(p->call->ctx), &p->page.no_samples));
        ebb__ctx_clear(p->call->ctx);
        return EBB_OK;
    }
    return status;
}

/* Of a run that tells classes apart: what the best weights take for what. */
static ebb_status make_confusion(report *p) {
    const model_kind *kind = p->run.run.kind;
    page_text path = {.ctx = p->call->ctx};
    ebb_status status = EBB_OK;
    if (kind->held == NULL) {
        return EBB_OK;
    }
    TRY_OUT(ebb__page_put(&path, "%s/%s", p->dir, kind->held));
    status = kind->eval(p->call->ctx, &p->run.run, (const char *const[]){p->dir, path.bytes}, NULL,
                        &p->facts);
    if (status == EBB_OK) {
        ebb__cli_page_classes(&p->classes, &p->facts, "what was validated on", &p->page);
    } else if (status != EBB_OK && status != EBB_NOMEM) {
        (void)snprintf(p->classes.about, sizeof p->classes.about, "Nothing can be said: %s",
                       ebb_last_error(p->call->ctx));
        ebb__ctx_clear(p->call->ctx);
        p->page.about_confusion = p->classes.about;
        status = EBB_OK;
    }
out:
    ebb__page_text_fini(&path);
    return status;
}

static ebb_status put_setting(report *p, const char *line) {
    char key[64] = "", value[256];
    const char *equals = strstr(line, " = "), *end = strchr(line, '\n');
    if (equals == NULL || end == NULL || equals > end || equals - line >= (int)sizeof key) {
        return EBB_OK;
    }
    memcpy(key, line, (size_t)(equals - line));
    const train_option *option = ebb__cli_find(p->run.run.kind, key);
    if (option == NULL) {
        return EBB_OK; /* the kind, which is the page's title */
    }
    (void)snprintf(value, sizeof value, "%.*s", (int)(end - equals - 3), equals + 3);
    return ebb__html_setting(&p->page, option->group, key, value);
}

static ebb_status put_settings(report *p) {
    page_text config = {.ctx = p->call->ctx};
    ebb_status status;
    TRY_OUT(ebb__cli_dump(&p->run, OPTION_SHOWN, &config));
    for (const char *line = config.bytes; line != NULL && *line != '\0';) {
        TRY_OUT(put_setting(p, line));
        line = strchr(line, '\n');
        line = line != NULL ? line + 1 : NULL;
    }
out:
    ebb__page_text_fini(&config);
    return status;
}

static ebb_status write_page(report *p, const char *path) {
    const train_settings *run = &p->run.run;
    const model_kind *kind = NULL;
    TRY(ebb__stored_kind(p->call->ctx, p->dir, &kind));
    TRY(ebb__cli_settings_init(p->call->ctx, kind, &p->run));
    TRY(ebb__cli_load_run(&p->call->settings, p->dir, &p->run));
    for (int32_t i = 0; i < kind->n_metrics; i++) {
        const kind_metric *metric = &kind->metrics[i];
        p->metrics[i] =
            (learning_metric){metric->name, metric->phrase, metric->higher, metric->exponential};
    }
    p->page.learning =
        (learning_curve){.metrics = p->metrics, .n_metrics = kind->n_metrics, .unit = kind->unit};
    TRY(ebb__learning_read(p->call->ctx, p->dir, &p->page.learning));
    TRY(make_plans(p));
    TRY(make_samples(p));
    TRY(make_confusion(p));
    train_settings planned = p->plan != NULL ? ebb__kind_planned(run, p->plan) : *run;
    cli_line model = ebb__cli_model(&planned);
    p->page.kind = kind->title;
    p->page.unit = kind->unit;
    p->page.model = model.text;
    p->page.plan = p->plan;
    p->page.before = p->before;
    p->page.budget = run->memory.form != MEMORY_AUTO;
    p->page.by_form = kind->layers != NULL;
    p->page.smoothing = run->smoothing;
    TRY(ebb__html_begin(&p->page));
    TRY(put_settings(p));
    return ebb__html_end(&p->page, path);
}

ebb_status ebb__cli_report(cli_call *call) {
    report p = {.call = call,
                .dir = call->words[0],
                .run = {.ctx = call->ctx},
                .page = {.text = {.ctx = call->ctx}, .dir = call->words[0]}};
    p.page.why = p.why;
    ebb_status status = write_page(&p, call->words[1]);
    if (p.page.attention != NULL) {
        ebb__samples_close(&p.samples);
    }
    ebb__facts_free(&p.facts);
    ebb__plan_free(p.plan);
    ebb__plan_free(p.before);
    ebb__free(call->ctx, p.page.learning.points);
    ebb__html_fini(&p.page);
    ebb__cli_settings_fini(&p.run);
    return status;
}
