/* html.c - see html.h. */
#include "page/html.h"

#include "page/picture.h"
#include "page/svg.h"
#include "page/units.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

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
    ".images{display:grid;grid-template-columns:repeat(auto-fill,minmax(112px,1fr));gap:16px 12px;"
    "margin:14px 0}.images img{display:block;width:112px;height:112px;object-fit:contain;"
    "image-rendering:pixelated;background:var(--card);margin-bottom:4px}"
    ".images div{font-size:13.5px;line-height:1.35;overflow-wrap:anywhere}"
    ".images b,.images span{display:block}\n"
    "@media (max-width:640px){.groups{columns:1}body{padding:24px 16px}}\n"
    "footer{margin-top:48px;color:var(--muted);font-size:13.5px;border-top:1px solid "
    "var(--line);padding-top:12px}\n";

static ebb_status put_escaped(html_page *p, const char *text) {
    return ebb__svg_escape_text(&p->text, text);
}

/* ---- what came out ---- */

static ebb_status put_card(html_page *p, const char *figure, const char *what) {
    TRY(ebb__page_put(&p->text, "<div class=\"card\"><b>"));
    TRY(put_escaped(p, figure));
    TRY(ebb__page_put(&p->text, "</b><span>"));
    TRY(put_escaped(p, what));
    return ebb__page_put(&p->text, "</span></div>\n");
}

static ebb_status put_memory_cards(html_page *p) {
    const ebb_plan *plan = p->plan;
    char what[160];
    if (plan == NULL) {
        return EBB_OK;
    }
    double times =
        (double)plan->keep_all_bytes / (double)(plan->peak_bytes + (plan->peak_bytes == 0));
    if (!p->budget) {
        (void)snprintf(what, sizeof what, "memory of training, all told");
    } else {
        (void)snprintf(what, sizeof what, "memory of training, all told; %s were allowed",
                       ebb__unit_bytes(plan->budget_bytes).text);
    }
    TRY(put_card(p, ebb__unit_bytes(plan->peak_bytes).text, what));
    (void)snprintf(what, sizeof what, "if every value were kept: %.2f times as much", times);
    TRY(put_card(p, ebb__unit_bytes(plan->keep_all_bytes).text, what));
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

static ebb_status median_speed(html_page *p, double *out) {
    const learning_curve *c = &p->learning;
    double *all = NULL;
    TRY(ebb__region_alloc(&p->region, c->n + 1, sizeof *all, &all));
    for (size_t i = 0; i < c->n; i++) {
        all[i] = c->points[i].per_second;
    }
    qsort(all, c->n, sizeof *all, compare_reals);
    *out = all[c->n / 2];
    return EBB_OK;
}

static ebb_status put_training_cards(html_page *p) {
    const learning_curve *c = &p->learning;
    double speed = 0;
    char what[96];
    if (c->n == 0) {
        return EBB_OK;
    }
    for (int32_t m = 0; m < c->n_metrics; m++) {
        double best = -1;
        for (size_t i = 0; i < c->n; i++) {
            double value = c->points[i].valid[m];
            bool better = c->metrics[m].higher ? value > best : value < best;
            best = value >= 0 && (best < 0 || better) ? value : best;
        }
        if (best >= 0) {
            (void)snprintf(what, sizeof what, "%s, the best", c->metrics[m].phrase);
            TRY(put_card(p, ebb__unit_score(best).text, what));
        }
    }
    const learning_point *last = &c->points[c->n - 1];
    (void)snprintf(what, sizeof what, "steps, %" PRId64 " epoch%s", last->epoch,
                   last->epoch == 1 ? "" : "s");
    TRY(put_card(p, ebb__svg_count(last->step).text, what));
    TRY(median_speed(p, &speed));
    (void)snprintf(what, sizeof what, "%s a second while training", p->unit);
    return put_card(p, ebb__unit_rate(speed).text, what);
}

/* Down to what is said below the title. */
static ebb_status put_title(html_page *p) {
    TRY(ebb__page_put(&p->text,
                      "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n"
                      "<meta name=\"viewport\" content=\"width=device-width,initial-scale=1\">\n"
                      "<title>ebb: "));
    TRY(put_escaped(p, p->dir));
    TRY(ebb__page_put(&p->text, "</title>\n<style>\n%s</style>\n</head>\n<body>\n<h1>%s <code>",
                      style, p->kind));
    TRY(put_escaped(p, p->dir));
    TRY(ebb__page_put(&p->text, "</code></h1>\n<p class=\"soft\">"));
    TRY(put_escaped(p, p->model));
    return ebb__page_put(&p->text, "</p>\n");
}

static ebb_status put_head(html_page *p) {
    TRY(put_title(p));
    TRY(ebb__page_put(&p->text, "<div class=\"cards\">\n"));
    TRY(put_memory_cards(p));
    TRY(put_training_cards(p));
    return ebb__page_put(&p->text, "</div>\n");
}

/* ---- the plan ---- */

static ebb_status put_step(html_page *p, const ebb_plan *plan, const char *title,
                           const char *caption) {
    bool in_scale = p->budget && plan->budget_bytes <= p->before->peak_bytes;
    page_picture picture = {.into = &p->text,
                            .model = title,
                            .budget = plan == p->plan && in_scale,
                            .high = p->before->peak_bytes,
                            .hues = &p->hues,
                            .by_form = p->by_form};
    TRY(ebb__page_put(&p->text, "<figure>\n"));
    TRY(ebb__draw_step(plan, &picture));
    return ebb__page_put(&p->text, "<figcaption>%s</figcaption></figure>\n", caption);
}

static ebb_status put_plan(html_page *p) {
    TRY(ebb__page_put(&p->text, "<h2>The bytes of one step</h2>\n"));
    if (p->plan == NULL) {
        TRY(ebb__page_put(&p->text, "<p class=\"soft\">It cannot be planned again: "));
        TRY(put_escaped(p, p->why));
        return ebb__page_put(&p->text, "</p>\n");
    }
    double slower = p->plan->seconds_per_step / fmax(p->plan->seconds_per_step_keep_all, 1e-12);
    TRY(ebb__page_put(&p->text,
                      "<p>A training step computes values forward that it needs again backward. "
                      "Keeping all of them takes %s; this run was given an address for every byte "
                      "beforehand, in %s, for %.2f times the predicted time of a step. Results "
                      "are the same to the last bit.</p>\n",
                      ebb__unit_bytes(p->plan->keep_all_bytes).text,
                      ebb__unit_bytes(p->plan->peak_bytes).text, slower));
    TRY(put_step(p, p->before, "Before: everything is kept",
                 "From left to right the instructions of a step: forward, backward, update. What "
                 "was computed forward piles up until backward has used it."));
    TRY(put_step(p, p->plan, "After: the plan of this run", "The same step at the same scale."));
    page_picture curve = {.into = &p->text, .model = "Time against memory", .budget = p->budget};
    TRY(ebb__page_put(&p->text, "<h2>What a budget costs</h2>\n<figure>\n"));
    TRY(ebb__draw_curve(p->plan, &curve));
    return ebb__page_put(
        &p->text, "<figcaption>Every plan worth taking. A budget takes the smallest that "
                  "is at most 2%% slower than the fastest that fits.</figcaption></figure>\n");
}

/* ---- training ---- */

static ebb_status put_learning(html_page *p) {
    TRY(ebb__page_put(&p->text, "<h2>Training</h2>\n"));
    if (p->learning.n == 0) {
        return ebb__page_put(&p->text, "<p class=\"soft\">Nothing was noted yet.</p>\n");
    }
    TRY(ebb__page_put(&p->text, "<figure>\n"));
    TRY(ebb__learning_draw(p->text.ctx, &p->learning, &p->text));
    if (p->smoothing > 0) {
        TRY(ebb__page_put(&p->text,
                          "<figcaption>What is trained has smoothed labels (smoothing %g), so the "
                          "line of training lies higher than the perplexity of the words "
                          "alone, which validation measures.</figcaption>",
                          p->smoothing));
    }
    return ebb__page_put(&p->text, "</figure>\n");
}

/* ---- translations ---- */

static ebb_status put_sample(html_page *p, const html_sample *line) {
    bool same = strcmp(line->translation, line->target) == 0;
    TRY(ebb__page_put(&p->text, "<tr><td class=\"code\">"));
    TRY(put_escaped(p, line->source));
    TRY(ebb__page_put(&p->text, "</td><td class=\"code %s\">", same ? "good" : ""));
    TRY(put_escaped(p, line->translation));
    TRY(ebb__page_put(&p->text, "</td><td class=\"code\">"));
    TRY(put_escaped(p, line->target));
    return ebb__page_put(&p->text, "</td></tr>\n");
}

static ebb_status put_translations(html_page *p) {
    TRY(ebb__page_put(&p->text, "<table><tr><th>validation text</th><th>translation</th>"
                                "<th>reference</th></tr>\n"));
    for (int32_t i = 0; i < p->n_samples; i++) {
        TRY(put_sample(p, &p->samples[i]));
    }
    TRY(ebb__page_put(&p->text, "</table>\n<figure>\n"));
    TRY(ebb__attention_draw(p->attention, NULL, &p->text));
    return ebb__page_put(&p->text, "</figure>\n");
}

static ebb_status put_samples(html_page *p) {
    if (p->samples == NULL) {
        return EBB_OK;
    }
    TRY(ebb__page_put(&p->text, "<h2>Translations</h2>\n"));
    if (p->no_samples == NULL) {
        return put_translations(p);
    }
    TRY(ebb__page_put(&p->text, "<p class=\"soft\">There are none: "));
    TRY(put_escaped(p, p->no_samples));
    return ebb__page_put(&p->text, "</p>\n");
}

/* ---- classes ---- */

static ebb_status put_confusion(html_page *p) {
    if (p->about_confusion == NULL) {
        return EBB_OK;
    }
    TRY(ebb__page_put(&p->text, "<h2>Classes</h2>\n"));
    if (p->confusion.n > 0) {
        TRY(ebb__page_put(&p->text, "<figure>\n"));
        TRY(ebb__confusion_draw(p->text.ctx, &p->confusion, &p->text));
        TRY(ebb__page_put(&p->text, "<figcaption>"));
        TRY(put_escaped(p, p->about_confusion));
        return ebb__page_put(&p->text, "</figcaption></figure>\n");
    }
    TRY(ebb__page_put(&p->text, "<p class=\"soft\">"));
    TRY(put_escaped(p, p->about_confusion));
    return ebb__page_put(&p->text, "</p>\n");
}

/* Small images stand large, so that their pixels can be seen. */
static ebb_status put_wrong(html_page *p) {
    enum { MOST_SIDE = 112 };
    if (p->n_wrong == 0) {
        return EBB_OK;
    }
    TRY(ebb__page_put(&p->text,
                      "<h2>The surest of the wrong answers</h2>\n<div class=\"images\">\n"));
    for (int32_t i = 0; i < p->n_wrong; i++) {
        const html_wrong *w = &p->wrong[i];
        page_image image;
        TRY(p->show(p->show_user, i, &image));
        TRY(ebb__page_put(&p->text, "<div><img alt=\"image %" PRIu64 "\" src=\"", w->number));
        TRY(ebb__image_put(&p->text, &image, MOST_SIDE));
        TRY(ebb__page_put(&p->text, "\"><b>"));
        TRY(put_escaped(p, w->is));
        TRY(ebb__page_put(&p->text, "</b><span class=\"bad\">"));
        TRY(put_escaped(p, w->said));
        TRY(ebb__page_put(&p->text, " %.1f%%</span></div>\n", 100 * w->probability));
    }
    return ebb__page_put(&p->text,
                         "</div>\n<p class=\"soft\">What an image is of stands in bold, below it "
                         "what it was said to be, and how sure that was.</p>\n");
}

/* ---- settings ---- */

ebb_status ebb__html_setting(html_page *p, const char *group, const char *key, const char *value) {
    if (p->group == NULL || strcmp(p->group, group) != 0) {
        TRY(ebb__page_put(&p->text, "%s<div><h3>%s</h3><table>\n",
                          p->group != NULL ? "</table></div>\n"
                                           : "<h2>Settings</h2>\n<div class=\"groups\">\n",
                          group));
        p->group = group;
    }
    TRY(ebb__page_put(&p->text, "<tr><td>%s</td><td>", key));
    TRY(put_escaped(p, value));
    return ebb__page_put(&p->text, "</td></tr>\n");
}

/* ---- all of it ---- */

ebb_status ebb__html_begin(html_page *p) {
    ebb__region_init(&p->region, p->text.ctx);
    TRY(put_head(p));
    TRY(put_plan(p));
    TRY(put_learning(p));
    TRY(put_confusion(p));
    TRY(put_wrong(p));
    return put_samples(p);
}

ebb_status ebb__html_classes(html_page *p, const char *path) {
    ebb__region_init(&p->region, p->text.ctx);
    TRY(put_title(p));
    TRY(put_confusion(p));
    TRY(put_wrong(p));
    return ebb__html_end(p, path);
}

ebb_status ebb__html_end(html_page *p, const char *path) {
    TRY(ebb__page_put(&p->text, "%s<footer>ebb %s</footer>\n</body>\n</html>\n",
                      p->group != NULL ? "</table></div>\n</div>\n" : "", ebb_version()));
    return ebb__page_save(&p->text, path);
}

void ebb__html_fini(html_page *p) {
    ebb__region_fini(&p->region);
    ebb__page_text_fini(&p->text);
}
