/* step.c - the bytes of the arena over one step, as an SVG picture: what is held all the time
 * lies at the bottom, on it the transient bytes, kind by kind and in each kind layer by layer; of
 * nets only the stash, by the forms that it is in. */
#include "page/picture.h"

#include "base/num.h"
#include "page/svg.h"
#include "page/units.h"
#include "plan/timeline.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

enum { WIDTH = 900, HEIGHT = 560, LEFT = 84, RIGHT = 216, TOP = 84, BOTTOM = 76 };
enum {
    PLOT_WIDTH = WIDTH - LEFT - RIGHT,
    PLOT_HEIGHT = HEIGHT - TOP - BOTTOM,
    FOOT = HEIGHT - BOTTOM
};
_Static_assert((int)PICTURE_HUES == (int)SVG_HUES, "a name for every hue");
enum { KINDS = 3, OTHERS = SVG_HUES, FIXED = 4, MOST_COLUMNS = PLOT_WIDTH };

/* From the bottom up; transient kinds by shade. */
static const ir_kind fixed_kinds[FIXED] = {IR_WEIGHTS, IR_OPTIMIZER, IR_DATA, IR_PROGRAM};
static const ir_kind kinds[KINDS] = {IR_STASH, IR_GRADIENTS, IR_WORKSPACE};
static const double shades[KINDS] = {0.95, 0.58, 0.3};
static const char letters[KINDS + 1] = "sgw"; /* of their classes */

typedef struct layer_row {
    const char *name;
    uint64_t most;    /* sum over kinds of the most it ever holds: who gets a hue */
    uint64_t at_peak; /* at the fullest moment */
    int32_t hue;
} layer_row;

typedef struct step_picture {
    const ebb_plan *plan;
    const page_picture *how;
    plan_timeline time;
    svg_page page;
    op_forms forms;
    layer_row *layers; /* in the model's order; or forms of stash, see page_picture.by_form */
    int32_t n_layers;
    uint64_t *stack[KINDS][SVG_HUES + 1]; /* by column; NULL: nothing */
    uint64_t *below;                      /* by column: what is drawn already */
    uint64_t fixed_bytes;
    double top_bytes; /* of the axis */
} step_picture;

static double x_at(const step_picture *s, int32_t instr) {
    return LEFT + (double)PLOT_WIDTH * instr / (s->time.n_instrs > 0 ? s->time.n_instrs : 1);
}

static double y_at(const step_picture *s, double bytes) {
    return FOOT - PLOT_HEIGHT * bytes / s->top_bytes;
}

static const char *layer_name(const char *name) {
    return name[0] != '\0' ? name : "other";
}

/* ---- bands: layers get hues, small ones share the last ---- */

static int32_t find_layer(step_picture *s, const char *name) {
    for (int32_t i = 0; i < s->n_layers; i++) {
        if (strcmp(s->layers[i].name, name) == 0) {
            return i;
        }
    }
    s->layers[s->n_layers].name = name;
    return s->n_layers++;
}

/* What a band is coloured by. */
static int32_t row_of(step_picture *s, const plan_band *band) {
    if (!s->how->by_form) {
        return find_layer(s, band->layer);
    }
    return find_layer(s, band->kind == IR_STASH ? s->forms.names[band->form] : "all layers");
}

/* Each form has its hue, whatever else is there; what is not stash has none. */
static void hue_forms(step_picture *s) {
    for (int32_t i = 0; i < s->n_layers; i++) {
        s->layers[i].hue = OTHERS;
        for (int32_t form = 0; form < s->forms.n && form < SVG_HUES; form++) {
            if (strcmp(s->layers[i].name, s->forms.names[form]) == 0) {
                s->layers[i].hue = form;
            }
        }
    }
}

/* The hues of another picture; layers without one there share the last. */
static void take_hues(step_picture *s, const page_hues *hues) {
    for (int32_t i = 0; i < s->n_layers; i++) {
        s->layers[i].hue = OTHERS;
        for (int32_t k = 0; k < hues->n; k++) {
            if (strcmp(hues->layers[k], s->layers[i].name) == 0) {
                s->layers[i].hue = k;
            }
        }
    }
}

static void give_hues(step_picture *s) {
    page_hues own = {.n = 0}, *hues = s->how->hues != NULL ? s->how->hues : &own;
    for (int32_t i = 0; i < s->n_layers && hues->n < SVG_HUES; i++) {
        int32_t above = 0;
        for (int32_t k = 0; k < s->n_layers; k++) {
            above += s->layers[k].most > s->layers[i].most ||
                     (k < i && s->layers[k].most == s->layers[i].most);
        }
        if (above < SVG_HUES) {
            (void)snprintf(hues->layers[hues->n++], sizeof *hues->layers, "%s", s->layers[i].name);
        }
    }
    take_hues(s, hues);
}

static ebb_status gather_bands(step_picture *s) {
    plan_timeline *t = &s->time;
    size_t columns = (size_t)t->n_columns + 1;
    TRY(ebb__region_alloc(&t->region, (size_t)t->n_bands + 1, sizeof *s->layers, &s->layers));
    TRY(ebb__region_alloc(&t->region, columns, sizeof *s->below, &s->below));
    for (int32_t b = 0; b < t->n_bands; b++) {
        layer_row *layer = &s->layers[row_of(s, &t->bands[b])];
        layer->most += t->bands[b].most;
        layer->at_peak += t->n_columns > 0 ? t->bands[b].bytes[t->fullest] : 0;
    }
    if (s->how->by_form) {
        hue_forms(s);
    } else if (s->how->hues != NULL && s->how->hues->n > 0) {
        take_hues(s, s->how->hues);
    } else {
        give_hues(s);
    }
    for (int32_t b = 0; b < t->n_bands; b++) {
        int kind = 0;
        while (kind < KINDS - 1 && kinds[kind] != t->bands[b].kind) {
            kind++;
        }
        uint64_t **to = &s->stack[kind][s->layers[row_of(s, &t->bands[b])].hue];
        if (*to == NULL) {
            TRY(ebb__region_alloc(&t->region, columns, sizeof **to, to));
        }
        for (int32_t i = 0; i < t->n_columns; i++) {
            (*to)[i] += t->bands[b].bytes[i];
        }
    }
    return EBB_OK;
}

static int32_t make_rules(svg_rule *rules) {
    static const svg_colour grey = {0x7A828C, 0x8A929C}, slate = {0x5B6672, 0x8793A0};
    static const svg_colour gold = {0xE0A800, 0xE8C547};
    static const double greys[FIXED] = {0.5, 0.38, 0.27, 0.18};
    static const double steps[IR_PHASES] = {
        [IR_FORWARD] = 0.3, [IR_BACKWARD] = 0.6, [IR_UPDATE] = 1};
    int32_t n = 0;
    for (int k = 0; k < KINDS; k++) {
        for (int hue = 0; hue <= SVG_HUES; hue++) {
            svg_rule *rule = &rules[n++];
            (void)snprintf(rule->name, sizeof rule->name, "%c%d", letters[k], hue);
            rule->colour = ebb__svg_tint(hue < SVG_HUES ? ebb__svg_hues[hue] : grey, shades[k]);
        }
    }
    for (int i = 0; i < FIXED; i++) {
        svg_rule *rule = &rules[n++];
        (void)snprintf(rule->name, sizeof rule->name, "f%d", i);
        rule->colour = ebb__svg_tint(slate, greys[i]);
    }
    for (int i = 0; i < IR_PHASES; i++) {
        svg_rule *rule = &rules[n++];
        (void)snprintf(rule->name, sizeof rule->name, "p%d", i);
        rule->colour = i == IR_RECOMPUTE ? gold : ebb__svg_tint(slate, steps[i]);
    }
    return n;
}
enum { N_RULES = KINDS * (SVG_HUES + 1) + FIXED + IR_PHASES };

/* One run of columns in which the band holds something: its top from left to right, then what it
 * lies on from right to left. */
static void draw_run(step_picture *s, const uint64_t *bytes, int32_t from, int32_t to) {
    const plan_column *c = s->time.columns;
    double y = y_at(s, (double)(s->below[from] + bytes[from]));
    ebb__svg_put(&s->page, "M%.1f %.1f", x_at(s, c[from].first), y);
    for (int32_t i = from + 1; i < to; i++) {
        double next = y_at(s, (double)(s->below[i] + bytes[i]));
        if (fabs(next - y) >= 0.05) {
            ebb__svg_put(&s->page, "H%.1fV%.1f", x_at(s, c[i].first), next);
            y = next;
        }
    }
    y = y_at(s, (double)s->below[to - 1]);
    ebb__svg_put(&s->page, "H%.1fV%.1f", x_at(s, c[to - 1].first + c[to - 1].n), y);
    for (int32_t i = to - 2; i >= from; i--) {
        double next = y_at(s, (double)s->below[i]);
        if (fabs(next - y) >= 0.05) {
            ebb__svg_put(&s->page, "H%.1fV%.1f", x_at(s, c[i + 1].first), next);
            y = next;
        }
    }
    ebb__svg_put(&s->page, "H%.1fZ", x_at(s, c[from].first));
}

static const char *hue_name(const step_picture *s, int32_t hue) {
    for (int32_t i = 0; hue < OTHERS && i < s->n_layers; i++) {
        if (s->layers[i].hue == hue) {
            return layer_name(s->layers[i].name);
        }
    }
    return s->how->by_form ? "all layers" : "other layers";
}

static void draw_band(step_picture *s, int kind, int hue) {
    const uint64_t *bytes = s->stack[kind][hue];
    int32_t n = s->time.n_columns;
    uint64_t most = 0;
    ebb__svg_put(&s->page, "<path class=\"%c%d\" d=\"", letters[kind], hue);
    for (int32_t from = 0; from < n;) {
        int32_t to = from;
        while (to < n && bytes[to] > 0) {
            most = num_larger(most, bytes[to++]);
        }
        if (to > from) {
            draw_run(s, bytes, from, to);
        }
        from = to + 1;
    }
    for (int32_t i = 0; i < n; i++) {
        s->below[i] += bytes[i];
    }
    ebb__svg_put(&s->page, "\"><title>");
    ebb__svg_escape(&s->page, hue_name(s, hue));
    ebb__svg_put(&s->page, ", %s: at most %s</title></path>\n", ebb__ir_kind_name(kinds[kind]),
                 ebb__unit_bytes(most).text);
}

static void draw_bands(step_picture *s) {
    double left = LEFT, width = PLOT_WIDTH;
    uint64_t at = 0;
    for (int i = 0; i < FIXED; i++) {
        uint64_t bytes = s->time.fixed[fixed_kinds[i]];
        char class[4] = {'f', (char)('0' + i), '\0'};
        ebb__svg_rect(&s->page, left, y_at(s, (double)(at + bytes)), width,
                      y_at(s, (double)at) - y_at(s, (double)(at + bytes)), class, 0);
        at += bytes;
    }
    for (int32_t i = 0; i < s->time.n_columns; i++) {
        s->below[i] = at;
    }
    for (int k = 0; k < KINDS; k++) {
        for (int hue = 0; hue <= SVG_HUES; hue++) {
            if (s->stack[k][hue] != NULL) {
                draw_band(s, k, hue);
            }
        }
    }
}

/* ---- axes and lines ---- */

static bool has_budget(const step_picture *s) {
    return s->how->budget && s->plan->budget_bytes < UINT64_MAX;
}

/* What lies far above the peak would leave no room for what happens below it: it is named, with an
 * arrow, instead of drawn to scale. */
static bool to_scale(const step_picture *s, uint64_t bytes) {
    return bytes <= s->how->high || (double)bytes <= 3.2 * (double)s->plan->peak_bytes;
}

static void set_scale(step_picture *s) {
    uint64_t most = s->plan->peak_bytes;
    if (to_scale(s, s->plan->keep_all_bytes)) {
        most = num_larger(most, s->plan->keep_all_bytes);
    }
    if (has_budget(s) && to_scale(s, s->plan->budget_bytes)) {
        most = num_larger(most, s->plan->budget_bytes);
    }
    s->top_bytes = 1.1 * (double)num_larger(num_larger(most, s->how->high), 1);
    for (int i = 0; i < FIXED; i++) {
        s->fixed_bytes += s->time.fixed[fixed_kinds[i]];
    }
}

static void draw_axis(step_picture *s) {
    svg_axis axis = ebb__svg_axis(0, s->top_bytes, 5, true);
    for (int i = 0; i * axis.step <= s->top_bytes; i++) {
        double bytes = i * axis.step, y = y_at(s, bytes);
        ebb__svg_line(&s->page, LEFT, y, LEFT + PLOT_WIDTH, y, "grid", 1, NULL);
        ebb__svg_words(&s->page,
                       &(svg_words){LEFT - 8, y + 4, 12, .anchor = SVG_END, .class = "muted"}, "%s",
                       ebb__svg_bytes(bytes).text);
    }
}

typedef struct level {
    const char *name, *class, *dash;
    uint64_t bytes;
    double x; /* of the label */
    svg_anchor anchor;
} level;

static double level_y(const step_picture *s, uint64_t bytes) {
    return to_scale(s, bytes) ? y_at(s, (double)bytes) : TOP;
}

/* Is another line where the label above this one would be? */
static bool crowded(const step_picture *s, double y) {
    const ebb_plan *plan = s->plan;
    double others[] = {level_y(s, plan->keep_all_bytes), level_y(s, plan->peak_bytes),
                       has_budget(s) ? level_y(s, plan->budget_bytes) : FOOT};
    bool found = false;
    for (size_t i = 0; i < sizeof others / sizeof *others; i++) {
        found = found || (others[i] < y - 0.5 && others[i] > y - 18);
    }
    return found;
}

static void draw_level(step_picture *s, const level *l, const char *more) {
    double y = level_y(s, l->bytes);
    ebb__svg_line(&s->page, LEFT, y, LEFT + PLOT_WIDTH, y, l->class, 1.4, l->dash);
    ebb__svg_words(&s->page,
                   &(svg_words){l->x, crowded(s, y) ? y + 15 : y - 6, 12, l->anchor, l->class,
                                .bold = true, .halo = true},
                   "%s%s %s%s", to_scale(s, l->bytes) ? "" : "\xe2\x86\x91 ", l->name,
                   ebb__svg_bytes((double)l->bytes).text, more);
}

static void draw_levels(step_picture *s) {
    const ebb_plan *plan = s->plan;
    char times[40];
    (void)snprintf(times, sizeof times, ", %.2f times the peak",
                   (double)plan->keep_all_bytes / (double)num_larger(plan->peak_bytes, 1));
    level keep_all = {"keeping all",         "muted", "6 4", plan->keep_all_bytes,
                      LEFT + PLOT_WIDTH - 6, SVG_END};
    level budget = {"budget",  "warn", NULL, plan->budget_bytes, LEFT + 0.3 * PLOT_WIDTH,
                    SVG_MIDDLE};
    level peak = {"peak", "ink", NULL, plan->peak_bytes, LEFT + 6, SVG_START};
    draw_level(s, &keep_all, times);
    if (has_budget(s)) {
        draw_level(s, &budget, "");
    }
    draw_level(s, &peak, "");
    if (s->time.n_columns > 0) {
        const plan_column *c = &s->time.columns[s->time.fullest];
        double x = (x_at(s, c->first) + x_at(s, c->first + c->n)) / 2;
        ebb__svg_dot(&s->page, x, y_at(s, (double)(s->fixed_bytes + c->bytes)), 3.5, "ink");
    }
}

/* ---- phases ---- */

static void draw_phase_runs(step_picture *s) {
    const plan_column *c = s->time.columns;
    for (int32_t from = 0, to; from < s->time.n_columns; from = to) {
        for (to = from + 1; to < s->time.n_columns && c[to].phase == c[from].phase;) {
            to++;
        }
        char class[4] = {'p', (char)('0' + (int)c[from].phase), '\0'};
        double x = x_at(s, c[from].first), end = x_at(s, c[to - 1].first + c[to - 1].n);
        ebb__svg_rect(&s->page, x, FOOT + 5, end - x, 7, class, 0);
    }
}

typedef struct phase_label {
    char text[48];
    double x, width; /* x: middle */
    int phase;
} phase_label;

/* Where the columns of a phase lie on average; labels then give way to each other. */
static int place_phases(const step_picture *s, phase_label labels[IR_PHASES]) {
    int n = 0;
    for (int k = 0; k < IR_PHASES; k++) {
        double sum = 0, count = 0;
        for (int32_t i = 0; i < s->time.n_columns; i++) {
            const plan_column *c = &s->time.columns[i];
            if (c->phase == (ir_phase)k) {
                sum += (x_at(s, c->first) + x_at(s, c->first + c->n)) / 2;
                count++;
            }
        }
        if (s->time.instrs[k] == 0) {
            continue;
        }
        phase_label label = {.x = count > 0 ? sum / count : LEFT + PLOT_WIDTH, .phase = k};
        (void)snprintf(label.text, sizeof label.text, "%s %s", ebb__ir_phase_name((ir_phase)k),
                       ebb__svg_count(s->time.instrs[k]).text);
        label.width = ebb__svg_text_width(label.text, 12) + 30;
        int at = n++;
        for (; at > 0 && labels[at - 1].x > label.x; at--) {
            labels[at] = labels[at - 1];
        }
        labels[at] = label;
    }
    double end = LEFT;
    for (int i = 0; i < n; i++) {
        labels[i].x = fmax(labels[i].x, end + labels[i].width / 2);
        end = labels[i].x + labels[i].width / 2;
    }
    end = LEFT + PLOT_WIDTH;
    for (int i = n - 1; i >= 0; i--) {
        labels[i].x = fmin(labels[i].x, end - labels[i].width / 2);
        end = labels[i].x - labels[i].width / 2;
    }
    return n;
}

static void draw_phases(step_picture *s) {
    phase_label labels[IR_PHASES];
    int n = place_phases(s, labels);
    draw_phase_runs(s);
    for (int i = 0; i < n; i++) {
        char class[4] = {'p', (char)('0' + labels[i].phase), '\0'};
        double x = labels[i].x - labels[i].width / 2 + 8;
        ebb__svg_rect(&s->page, x, FOOT + 24, 9, 9, class, 2);
        ebb__svg_words(&s->page, &(svg_words){x + 14, FOOT + 33, 12, .anchor = SVG_START}, "%s",
                       labels[i].text);
    }
    ebb__svg_words(
        &s->page,
        &(svg_words){LEFT + PLOT_WIDTH / 2.0, HEIGHT - 16, 12, SVG_MIDDLE, .class = "muted"},
        "the %s instructions of one training step, in order",
        ebb__svg_count(s->time.n_instrs).text);
}

/* ---- legend: who holds what at the fullest moment ---- */

enum { ROW = 18, LEGEND = LEFT + PLOT_WIDTH + 20, VALUES = WIDTH - 16 };

static void legend_row(step_picture *s, double y, const char *name, uint64_t bytes, bool bold) {
    ebb__svg_words(&s->page, &(svg_words){LEGEND + 20, y, 12, .bold = bold}, "%.16s", name);
    ebb__svg_words(&s->page,
                   &(svg_words){VALUES, y, 12, SVG_END, bold ? "ink" : "muted", .bold = bold}, "%s",
                   ebb__unit_bytes(bytes).text);
}

static void legend_head(step_picture *s, double y, const char *text) {
    ebb__svg_words(&s->page, &(svg_words){LEGEND, y, 11, .class = "muted"}, "%s", text);
}

static double legend_layers(step_picture *s, double y) {
    uint64_t others = 0;
    bool has_others = false;
    legend_head(s, y, s->how->by_form ? "colour: form of the stash" : "colour: layer");
    for (int32_t i = s->n_layers - 1; i >= 0; i--) {
        const layer_row *layer = &s->layers[i];
        if (layer->hue == OTHERS) {
            others += layer->at_peak;
            has_others = !s->how->by_form; /* else all that is no stash, which has shades */
            continue;
        }
        char class[4] = {'s', (char)('0' + layer->hue), '\0'};
        y += ROW;
        ebb__svg_rect(&s->page, LEGEND, y - 10, 12, 12, class, 2);
        legend_row(s, y, layer_name(layer->name), layer->at_peak, false);
    }
    if (has_others) {
        y += ROW;
        ebb__svg_rect(&s->page, LEGEND, y - 10, 12, 12, "s8", 2);
        legend_row(s, y, "other layers", others, false);
    }
    return y + ROW + 8;
}

/* Any hue in that shade: stripes of the first three; what has no hues, in the shade itself. */
static double legend_kinds(step_picture *s, double y) {
    legend_head(s, y, "shade: kind");
    for (int k = KINDS - 1; k >= 0; k--) {
        uint64_t bytes = 0;
        y += ROW;
        for (int hue = 0; hue <= SVG_HUES; hue++) {
            bool plain = s->how->by_form && k > 0;
            char class[4] = {letters[k], (char)('0' + (plain ? OTHERS : hue)), '\0'};
            if (hue < 3) {
                ebb__svg_rect(&s->page, LEGEND + 4 * hue, y - 10, 4, 12, class, 0);
            }
            bytes += s->stack[k][hue] != NULL && s->time.n_columns > 0
                         ? s->stack[k][hue][s->time.fullest]
                         : 0;
        }
        legend_row(s, y, ebb__ir_kind_name(kinds[k]), bytes, false);
    }
    return y + ROW + 8;
}

static double legend_fixed(step_picture *s, double y) {
    uint64_t used = s->fixed_bytes + s->time.load, peak = s->plan->peak_bytes;
    legend_head(s, y, "held all the time");
    for (int i = FIXED - 1; i >= 0; i--) {
        char class[4] = {'f', (char)('0' + i), '\0'};
        y += ROW;
        ebb__svg_rect(&s->page, LEGEND, y - 10, 12, 12, class, 2);
        legend_row(s, y, ebb__ir_kind_name(fixed_kinds[i]), s->time.fixed[fixed_kinds[i]], false);
    }
    y += ROW + 8;
    legend_row(s, y, "unused", peak > used ? peak - used : 0, false);
    ebb__svg_line(&s->page, LEGEND, y + 6, VALUES, y + 6, "grid", 1, NULL);
    y += ROW + 3;
    legend_row(s, y, "peak", peak, true);
    return y;
}

static void draw_title(step_picture *s) {
    const ebb_plan *plan = s->plan;
    const ir_graph *g = &plan->programs[plan->lead].unit.graph;
    ebb__svg_words(&s->page, &(svg_words){24, 30, 17, .bold = true}, "%s", s->how->model);
    char where[160] = "";
    if (s->time.n_columns > 0) {
        const plan_column *c = &s->time.columns[s->time.fullest];
        const ir_node_rec *node = &g->nodes[c->node];
        (void)snprintf(where, sizeof where, "; fullest at instruction %s (%.40s, %s, %s)",
                       ebb__svg_count(c->fullest + 1).text,
                       layer_name(g->layers[node->label.layer]), g->schemas[node->op]->name,
                       ebb__ir_phase_name(node->label.phase));
    }
    ebb__svg_words(&s->page, &(svg_words){24, 51, 12, .class = "muted"},
                   "%s bytes planned, %.4g s a step predicted%s",
                   ebb__svg_count((int64_t)plan->peak_bytes).text, plan->seconds_per_step, where);
    ebb__svg_words(&s->page, &(svg_words){LEGEND, 70, 11, .class = "muted"},
                   "bytes when it is fullest");
}

ebb_status ebb__draw_step(const ebb_plan *plan, const page_picture *picture) {
    step_picture s = {.plan = plan, .how = picture, .page = {.text = {.ctx = plan->ctx}}};
    s.forms = ebb__op_forms();
    svg_rule rules[N_RULES];
    ebb_status status = ebb__timeline_make(plan, MOST_COLUMNS, &s.time);
    if (status != EBB_OK) {
        goto out;
    }
    TRY_OUT(gather_bands(&s));
    set_scale(&s);
    ebb__svg_begin(&s.page, plan->ctx, WIDTH, HEIGHT, picture->model, rules, make_rules(rules));
    draw_title(&s);
    draw_axis(&s);
    draw_bands(&s);
    draw_levels(&s);
    draw_phases(&s);
    legend_fixed(&s, legend_kinds(&s, legend_layers(&s, TOP + 8)));
    TRY_OUT(ebb__svg_end(&s.page, picture->path, picture->into));
out:
    ebb__svg_free(&s.page);
    ebb__timeline_free(&s.time);
    return status;
}
