/* html.c - `ebb report DIR FILE`: a page about a run, one file that needs nothing else: what came
 * out, the bytes of one step before and after planning, time against memory, how training went,
 * what the model says, and every setting. */
#include "cli/page.h"

#include "cli/svg.h"
#include "train/kind.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

typedef struct report_page {
    cli_call *call;
    const char *dir;
    cli_settings run;
    cli_text text;
    alloc_region region;
    learning_curve learning;
    ebb_plan *plan, *before; /* NULL: cannot be made any more */
    char why[512];           /* then: why */
    cli_hues hues;           /* of both pictures */
} report_page;

static const char style[] =
    ":root{color-scheme:light dark;--ground:#fff;--ink:#1f2328;--muted:#59636e;--line:#e4e8ec;"
    "--card:#f6f8fa;--good:#00745c;--bad:#b0431e;--accent:#0072b2}\n"
    "@media (prefers-color-scheme:dark){:root{--ground:#0d1117;--ink:#e6edf3;--muted:#9aa4ae;"
    "--line:#262c34;--card:#151b23;--good:#4cc9a4;--bad:#f28e4b;--accent:#4db2f0}}\n"
    "*{box-sizing:border-box}\n"
    "body{margin:0 auto;padding:40px 28px 64px;max-width:964px;background:var(--ground);"
    "color:var(--ink);font:16px/1.55 system-ui,-apple-system,'Segoe UI',Roboto,'DejaVu Sans',"
    "sans-serif}\n"
    "h1{font-size:28px;line-height:1.2;margin:0 0 4px;letter-spacing:-.01em}\n"
    "h2{font-size:20px;margin:52px 0 6px;letter-spacing:-.005em}\n"
    "p{margin:6px 0 14px;max-width:72ch}.soft{color:var(--muted)}\n"
    ".cards{display:grid;grid-template-columns:repeat(auto-fit,minmax(190px,1fr));gap:12px;"
    "margin:26px 0 8px}\n"
    ".card{background:var(--card);border:1px solid var(--line);border-radius:10px;"
    "padding:14px 16px}.card b{display:block;font-size:25px;line-height:1.25;font-weight:650;"
    "font-variant-numeric:tabular-nums}.card span{color:var(--muted);font-size:13.5px}\n"
    "figure{margin:14px 0 22px;border:1px solid var(--line);border-radius:10px;overflow:hidden}"
    "figure svg{display:block;width:100%;height:auto}"
    "figcaption{padding:9px 16px;border-top:1px solid var(--line);color:var(--muted);"
    "font-size:14px}\n"
    "table{border-collapse:collapse;width:100%;font-size:14.5px;margin:10px 0 18px}"
    "th{font-weight:600;text-align:left;color:var(--muted);border-bottom:1px solid var(--line);"
    "padding:6px 14px 6px 0}"
    "td{border-bottom:1px solid var(--line);padding:6px 14px 6px 0;vertical-align:top}"
    "td.code{font-family:ui-monospace,SFMono-Regular,Menlo,Consolas,'DejaVu Sans Mono',monospace;"
    "font-size:13.5px}.good{color:var(--good)}.bad{color:var(--bad)}\n"
    ".groups{columns:2;column-gap:40px}.groups div{break-inside:avoid;padding-top:2px}"
    ".groups h3{font-size:14px;margin:12px 0 0;color:var(--muted);font-weight:600}"
    ".groups td{padding:3px 10px 3px 0}.groups td+td{text-align:right;padding-right:0;"
    "overflow-wrap:anywhere}\n"
    "@media (max-width:640px){.groups{columns:1}body{padding:24px 16px}}\n"
    "footer{margin-top:48px;color:var(--muted);font-size:13.5px;border-top:1px solid "
    "var(--line);padding-top:12px}\n";

static ebb_status put_escaped(report_page *p, const char *text) {
    return ebb__svg_escape_text(&p->text, text);
}

/* ---- what came out ---- */

static ebb_status put_card(report_page *p, const char *figure, const char *what) {
    TRY(ebb__cli_put(&p->text, "<div class=\"card\"><b>"));
    TRY(put_escaped(p, figure));
    TRY(ebb__cli_put(&p->text, "</b><span>"));
    TRY(put_escaped(p, what));
    return ebb__cli_put(&p->text, "</span></div>\n");
}

static ebb_status put_memory_cards(report_page *p) {
    const ebb_plan *plan = p->plan;
    char what[160];
    if (plan == NULL) {
        return EBB_OK;
    }
    double times =
        (double)plan->keep_all_bytes / (double)(plan->peak_bytes + (plan->peak_bytes == 0));
    if (p->run.run.memory.form == MEMORY_AUTO) {
        (void)snprintf(what, sizeof what, "memory of training, all told");
    } else {
        (void)snprintf(what, sizeof what, "memory of training, all told; %s were allowed",
                       ebb__cli_bytes(plan->budget_bytes).text);
    }
    TRY(put_card(p, ebb__cli_bytes(plan->peak_bytes).text, what));
    (void)snprintf(what, sizeof what, "if every value were kept: %.2f times as much", times);
    TRY(put_card(p, ebb__cli_bytes(plan->keep_all_bytes).text, what));
    int64_t parameters = 0;
    for (int32_t i = 0; i < plan->n_variables; i++) {
        const plan_variable *v = &plan->variables[i];
        parameters += !v->extra && v->role == IR_PARAM ? (int64_t)(v->bytes / sizeof(float)) : 0;
    }
    return put_card(p, ebb__svg_count(parameters).text, "parameters");
}

static int compare_reals(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static ebb_status median_speed(report_page *p, double *out) {
    const learning_curve *c = &p->learning;
    double *all = NULL;
    TRY(ebb__region_alloc(&p->region, c->n + 1, sizeof *all, &all));
    for (size_t i = 0; i < c->n; i++) {
        all[i] = c->points[i].words_per_second;
    }
    qsort(all, c->n, sizeof *all, compare_reals);
    *out = all[c->n / 2];
    return EBB_OK;
}

static ebb_status put_training_cards(report_page *p) {
    const learning_curve *c = &p->learning;
    double best = -1, bleu = -1, speed = 0;
    char figure[48], what[96];
    if (c->n == 0) {
        return EBB_OK;
    }
    for (size_t i = 0; i < c->n; i++) {
        double ppl = c->points[i].perplexity;
        best = ppl > 0 && (best < 0 || ppl < best) ? ppl : best;
        bleu = fmax(bleu, c->points[i].bleu);
    }
    if (bleu >= 0) {
        (void)snprintf(figure, sizeof figure, "%.2f", bleu);
        TRY(put_card(p, figure, "BLEU of validation text, the best"));
    }
    if (best > 0) {
        (void)snprintf(figure, sizeof figure, best < 10 ? "%.3f" : "%.1f", best);
        TRY(put_card(p, figure, "validation perplexity, the best"));
    }
    const learning_point *last = &c->points[c->n - 1];
    (void)snprintf(what, sizeof what, "steps, %" PRId64 " epoch%s", last->epoch,
                   last->epoch == 1 ? "" : "s");
    TRY(put_card(p, ebb__svg_count(last->step).text, what));
    TRY(median_speed(p, &speed));
    return put_card(p, ebb__cli_rate(speed).text, "words a second while training");
}

static ebb_status put_head(report_page *p) {
    const train_settings *run = &p->run.run;
    train_settings planned = p->plan != NULL ? ebb__kind_planned(run, p->plan) : *run;
    TRY(ebb__cli_put(&p->text,
                     "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n"
                     "<meta name=\"viewport\" content=\"width=device-width,initial-scale=1\">\n"
                     "<title>ebb: "));
    TRY(put_escaped(p, p->dir));
    TRY(ebb__cli_put(&p->text, "</title>\n<style>\n%s</style>\n</head>\n<body>\n<h1>%s <code>",
                     style, run->model == MODEL_NMT ? "Translation model" : "Language model"));
    TRY(put_escaped(p, p->dir));
    TRY(ebb__cli_put(&p->text, "</code></h1>\n<p class=\"soft\">"));
    TRY(put_escaped(p, ebb__cli_model(&planned).text));
    TRY(ebb__cli_put(&p->text, "</p>\n<div class=\"cards\">\n"));
    TRY(put_memory_cards(p));
    TRY(put_training_cards(p));
    return ebb__cli_put(&p->text, "</div>\n");
}

/* ---- the plan ---- */

static ebb_status put_step(report_page *p, const ebb_plan *plan, const char *title,
                           const char *caption) {
    bool in_scale =
        p->run.run.memory.form != MEMORY_AUTO && plan->budget_bytes <= p->before->peak_bytes;
    cli_picture picture = {.into = &p->text,
                           .model = title,
                           .budget = plan == p->plan && in_scale,
                           .high = p->before->peak_bytes,
                           .hues = &p->hues};
    TRY(ebb__cli_put(&p->text, "<figure>\n"));
    TRY(ebb__cli_draw_step(plan, &picture));
    return ebb__cli_put(&p->text, "<figcaption>%s</figcaption></figure>\n", caption);
}

static ebb_status put_plan(report_page *p) {
    TRY(ebb__cli_put(&p->text, "<h2>The bytes of one step</h2>\n"));
    if (p->plan == NULL) {
        TRY(ebb__cli_put(&p->text, "<p class=\"soft\">It cannot be planned again: "));
        TRY(put_escaped(p, p->why));
        return ebb__cli_put(&p->text, "</p>\n");
    }
    double slower = p->plan->seconds_per_step / fmax(p->plan->seconds_per_step_keep_all, 1e-12);
    TRY(ebb__cli_put(&p->text,
                     "<p>A training step computes values forward that it needs again backward. "
                     "Keeping all of them takes %s; this run was given an address for every byte "
                     "beforehand, in %s, for %.2f times the predicted time of a step. Results "
                     "are the same to the last bit.</p>\n",
                     ebb__cli_bytes(p->plan->keep_all_bytes).text,
                     ebb__cli_bytes(p->plan->peak_bytes).text, slower));
    TRY(put_step(p, p->before, "Before: everything is kept",
                 "From left to right the instructions of a step: forward, backward, update. What "
                 "was computed forward piles up until backward has used it."));
    TRY(put_step(p, p->plan, "After: the plan of this run", "The same step at the same scale."));
    cli_picture curve = {.into = &p->text,
                         .model = "Time against memory",
                         .budget = p->run.run.memory.form != MEMORY_AUTO};
    TRY(ebb__cli_put(&p->text, "<h2>What a budget costs</h2>\n<figure>\n"));
    TRY(ebb__cli_draw_curve(p->plan, &curve));
    return ebb__cli_put(
        &p->text, "<figcaption>Every plan worth taking. A budget takes the smallest that "
                  "is at most 2%% slower than the fastest that fits.</figcaption></figure>\n");
}

/* ---- training ---- */

static ebb_status put_learning(report_page *p) {
    TRY(ebb__cli_put(&p->text, "<h2>Training</h2>\n"));
    if (p->learning.n == 0) {
        return ebb__cli_put(&p->text, "<p class=\"soft\">Nothing was noted yet.</p>\n");
    }
    TRY(ebb__cli_put(&p->text, "<figure>\n"));
    TRY(ebb__learning_draw(p->call->ctx, &p->learning, &p->text));
    if (p->run.run.smoothing > 0) {
        TRY(ebb__cli_put(&p->text,
                         "<figcaption>What is trained has smoothed labels (smoothing %g), so the "
                         "line of training lies higher than the perplexity of the words "
                         "alone, which validation measures.</figcaption>",
                         p->run.run.smoothing));
    }
    return ebb__cli_put(&p->text, "</figure>\n");
}

/* ---- translations ---- */

static ebb_status put_sample(report_page *p, const sample_line *line) {
    bool same = strcmp(line->translation, line->target) == 0;
    TRY(ebb__cli_put(&p->text, "<tr><td class=\"code\">"));
    TRY(put_escaped(p, line->source));
    TRY(ebb__cli_put(&p->text, "</td><td class=\"code %s\">", same ? "good" : ""));
    TRY(put_escaped(p, line->translation));
    TRY(ebb__cli_put(&p->text, "</td><td class=\"code\">"));
    TRY(put_escaped(p, line->target));
    return ebb__cli_put(&p->text, "</td></tr>\n");
}

static ebb_status put_translations(report_page *p, sample_set *set) {
    TRY(ebb__cli_put(&p->text, "<table><tr><th>validation text</th><th>translation</th>"
                               "<th>reference</th></tr>\n"));
    for (int32_t i = 0; i < set->n; i++) {
        TRY(put_sample(p, &set->lines[i]));
    }
    TRY(ebb__cli_put(&p->text, "</table>\n<figure>\n"));
    TRY(ebb__attention_draw(&set->attention, NULL, &p->text));
    return ebb__cli_put(&p->text, "</figure>\n");
}

/* A run without weights or whose text is gone has all but this. */
static ebb_status put_samples(report_page *p) {
    const train_settings *run = &p->run.run;
    sample_set set;
    if (run->model != MODEL_NMT || run->valid_path == NULL) {
        return EBB_OK;
    }
    ebb_status status = ebb__samples_make(p->call->ctx, run, p->dir, &set);
    if (status == EBB_NOMEM) {
        goto out;
    }
    bool made = status == EBB_OK;
    TRY_OUT(ebb__cli_put(&p->text, "<h2>Translations</h2>\n"));
    if (made) {
        status = put_translations(p, &set);
        goto out;
    }
    TRY_OUT(ebb__cli_put(&p->text, "<p class=\"soft\">There are none: "));
    TRY_OUT(put_escaped(p, ebb_last_error(p->call->ctx)));
    ebb__ctx_clear(p->call->ctx);
    TRY_OUT(ebb__cli_put(&p->text, "</p>\n"));
out:
    ebb__samples_close(&set);
    return status;
}

/* ---- settings ---- */

static ebb_status put_setting(report_page *p, const char *line, const char **group) {
    char key[64] = "";
    const char *equals = strstr(line, " = "), *end = strchr(line, '\n');
    if (equals == NULL || end == NULL || equals > end || equals - line >= (int)sizeof key) {
        return EBB_OK;
    }
    memcpy(key, line, (size_t)(equals - line));
    const cli_option *option = ebb__cli_find(p->run.run.model, key);
    if (option == NULL) {
        return EBB_OK; /* the kind, which is the page's title */
    }
    if (*group == NULL || strcmp(*group, option->group) != 0) {
        TRY(ebb__cli_put(&p->text, "%s<div><h3>%s</h3><table>\n",
                         *group != NULL ? "</table></div>\n" : "", option->group));
        *group = option->group;
    }
    char value[256];
    (void)snprintf(value, sizeof value, "%.*s", (int)(end - equals - 3), equals + 3);
    TRY(ebb__cli_put(&p->text, "<tr><td>%s</td><td>", key));
    TRY(put_escaped(p, value));
    return ebb__cli_put(&p->text, "</td></tr>\n");
}

static ebb_status put_settings(report_page *p) {
    cli_text config = {.ctx = p->call->ctx};
    const char *group = NULL;
    ebb_status status;
    TRY_OUT(ebb__cli_dump(&p->run, CLI_SHOWN, &config));
    TRY_OUT(ebb__cli_put(&p->text, "<h2>Settings</h2>\n<div class=\"groups\">\n"));
    for (const char *line = config.bytes; line != NULL && *line != '\0';) {
        TRY_OUT(put_setting(p, line, &group));
        line = strchr(line, '\n');
        line = line != NULL ? line + 1 : NULL;
    }
    TRY_OUT(ebb__cli_put(&p->text, "%s</div>\n<footer>ebb %s</footer>\n</body>\n</html>\n",
                         group != NULL ? "</table></div>\n" : "", ebb_version()));
out:
    ebb__cli_text_fini(&config);
    return status;
}

/* ---- all of it ---- */

/* The run's plan, and what the same step takes when nothing is saved. */
static ebb_status make_plans(report_page *p) {
    train_settings run = p->run.run, keep = p->run.run;
    keep.disabled |= 1U << PASS_CHUNK | 1U << PASS_RECOMPUTE;
    keep.memory = (train_memory){MEMORY_BYTES, UINT64_MAX / 4, 0};
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

static ebb_status write_page(report_page *p, const char *path) {
    train_model kind = MODEL_LM;
    TRY(ebb__cli_run_kind(p->call->ctx, p->dir, &kind));
    TRY(ebb__cli_settings_init(p->call->ctx, kind, &p->run));
    TRY(ebb__cli_load_run(&p->call->settings, p->dir, &p->run));
    TRY(ebb__learning_read(p->call->ctx, p->dir, &p->learning));
    TRY(make_plans(p));
    TRY(put_head(p));
    TRY(put_plan(p));
    TRY(put_learning(p));
    TRY(put_samples(p));
    TRY(put_settings(p));
    return ebb__cli_save(&p->text, path);
}

ebb_status ebb__cli_report(cli_call *call) {
    report_page p = {
        .call = call, .dir = call->words[0], .run = {.ctx = call->ctx}, .text = {.ctx = call->ctx}};
    ebb__region_init(&p.region, call->ctx);
    ebb_status status = write_page(&p, call->words[1]);
    ebb__plan_free(p.plan);
    ebb__plan_free(p.before);
    ebb__free(call->ctx, p.learning.points);
    ebb__region_fini(&p.region);
    ebb__cli_text_fini(&p.text);
    ebb__cli_settings_fini(&p.run);
    return status;
}
