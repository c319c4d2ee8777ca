/* curve.c - time against memory: every plan worth taking, from the fastest to the smallest, drawn.
 *
 * The fastest plan that fits a budget sets the pace, so between two plans the curve is a step: more
 * bytes buy nothing until the next plan fits. */
#include "page/picture.h"

#include "page/svg.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

curve_name ebb__curve_name(const plan_choice *choice) {
    curve_name out = {""};
    ebb__knobs_describe(&choice->knobs, choice->size.recomputed_nodes > 0, out.text,
                        sizeof out.text);
    return out;
}

/* ---- the picture ---- */

enum { WIDTH = 900, HEIGHT = 540, LEFT = 92, RIGHT = 76, TOP = 104, BOTTOM = 66 };
enum { FOOT = HEIGHT - BOTTOM, END = WIDTH - RIGHT };
enum { MOST_BOXES = 2 * PLAN_MAX_CHOICES + 8 };
static const double BEYOND = 1.35;     /* a budget beyond this many times what is drawn is named */
static const double LEAST_RANGE = 1.1; /* no molehill is drawn as a mountain */

typedef struct box {
    double left, top, right, bottom;
} box;

typedef struct curve_picture {
    const ebb_plan *plan;
    const page_picture *how;
    svg_page page;
    double low_bytes, high_bytes, low_seconds, high_seconds; /* of the axes */
    box boxes[MOST_BOXES];                                   /* where labels and points are */
    int n_boxes;
} curve_picture;

static double x_at(const curve_picture *c, double bytes) {
    return LEFT + (END - LEFT) * (bytes - c->low_bytes) / (c->high_bytes - c->low_bytes);
}

/* Equal factors are equal heights. */
static double y_at(const curve_picture *c, double seconds) {
    return FOOT -
           (FOOT - TOP) * log(seconds / c->low_seconds) / log(c->high_seconds / c->low_seconds);
}

static const plan_choice *least(const ebb_plan *plan) {
    return &plan->choices[plan->n_choices - 1];
}

static uint64_t held_always(const ebb_plan *plan) {
    const uint64_t *bytes = plan->bytes_by_kind;
    return bytes[IR_WEIGHTS] + bytes[IR_OPTIMIZER] + bytes[IR_DATA] + bytes[IR_PROGRAM];
}

static bool has_budget(const curve_picture *c) {
    return c->how->budget && c->plan->budget_bytes < UINT64_MAX;
}

/* Bytes from 0 where that leaves the curve at least half of the width. */
static void set_scale(curve_picture *c) {
    const ebb_plan *plan = c->plan;
    double high = (double)plan->keep_all_bytes, low = (double)least(plan)->peak_bytes;
    double fastest = plan->choices[0].seconds,
           slowest = fmax(least(plan)->seconds, plan->seconds_per_step_keep_all);
    high = fmax(high, (double)plan->choices[0].peak_bytes);
    if (has_budget(c)) {
        double budget = (double)plan->budget_bytes;
        high = budget <= BEYOND * high ? fmax(high, budget) : high;
        low = budget >= low / 2 ? fmin(low, budget) : low;
    }
    c->low_bytes = low < 0.5 * high ? 0 : fmax(0, low - 0.35 * (high - low) - 0.02 * high);
    c->high_bytes = high + 0.06 * (high - c->low_bytes) + 1;
    fastest = fmax(fmin(fastest, plan->seconds_per_step_keep_all), 1e-9);
    double range = fmax(slowest / fastest, LEAST_RANGE);
    c->low_seconds = fastest * pow(range, -0.28);
    c->high_seconds = fastest * pow(range, 1.15);
}

/* Round multiples of the fastest, as far as there is room; the roundest come first. */
static void draw_times(curve_picture *c) {
    static const double multiples[] = {1,  2,  4,  1.5, 3,  1.2, 1.1, 1.05, 1.02, 8,    6,    10,
                                       16, 30, 50, 100, 20, 1.3, 1.4, 1.75, 2.5,  1.15, 1.25, 5};
    enum { N = sizeof multiples / sizeof *multiples, GAP = 30 };
    double taken[N] = {0};
    int n = 0;
    for (int i = 0; i < N; i++) {
        double seconds = multiples[i] * c->plan->choices[0].seconds, y = y_at(c, seconds);
        bool room = y >= TOP && y <= FOOT;
        for (int k = 0; k < n; k++) {
            room = room && fabs(y - taken[k]) >= GAP;
        }
        if (!room) {
            continue;
        }
        taken[n++] = y;
        ebb__svg_line(&c->page, LEFT, y, END, y, "grid", 1, NULL);
        ebb__svg_words(&c->page, &(svg_words){LEFT - 8, y + 4, 12, SVG_END, .class = "muted"}, "%s",
                       ebb__svg_seconds(seconds, 0).text);
        ebb__svg_words(&c->page, &(svg_words){END + 8, y + 4, 12, .class = "muted"}, "%gx",
                       multiples[i]);
    }
}

static void draw_axes(curve_picture *c) {
    draw_times(c);
    svg_axis x = ebb__svg_axis(c->low_bytes, c->high_bytes, 6, true);
    for (int i = 0; x.low + i * x.step <= c->high_bytes; i++) {
        double bytes = x.low + i * x.step, at = x_at(c, bytes);
        if (bytes < c->low_bytes) {
            continue;
        }
        ebb__svg_line(&c->page, at, FOOT, at, FOOT + 5, "muted", 1, NULL);
        ebb__svg_words(&c->page, &(svg_words){at, FOOT + 20, 12, SVG_MIDDLE, .class = "muted"},
                       "%s", ebb__svg_bytes(bytes).text);
    }
    ebb__svg_line(&c->page, LEFT, FOOT, END, FOOT, "muted", 1, NULL);
    ebb__svg_words(&c->page,
                   &(svg_words){(LEFT + END) / 2.0, HEIGHT - 18, 13, .anchor = SVG_MIDDLE},
                   "bytes it may take");
    ebb__svg_words(&c->page, &(svg_words){LEFT - 8, TOP - 14, 12, .anchor = SVG_END},
                   "a step takes");
    ebb__svg_words(&c->page, &(svg_words){END + 8, TOP - 14, 12, .anchor = SVG_START},
                   "of fastest");
}

/* What no plan can have: the bytes held all the time, and those below the least budget. */
static void draw_floor(curve_picture *c) {
    double start = LEFT, edge = x_at(c, (double)least(c->plan)->peak_bytes);
    double held = fmin(edge, x_at(c, (double)held_always(c->plan)));
    if (edge > start) {
        ebb__svg_rect(&c->page, start, TOP, edge - start, FOOT - TOP, "bare", 0);
    }
    if (held > start) {
        ebb__svg_rect(&c->page, start, TOP, held - start, FOOT - TOP, "held", 0);
    }
    if (held - start > 150) {
        ebb__svg_words(
            &c->page, &(svg_words){(start + held) / 2, FOOT - 26, 11, SVG_MIDDLE, .class = "muted"},
            "weights, optimizer,");
        ebb__svg_words(
            &c->page, &(svg_words){(start + held) / 2, FOOT - 12, 11, SVG_MIDDLE, .class = "muted"},
            "data and programs");
    }
    if (edge - fmax(held, start) > 70) {
        ebb__svg_words(&c->page,
                       &(svg_words){(fmax(held, start) + edge) / 2, FOOT - 12, 11, SVG_MIDDLE,
                                    .class = "muted"},
                       "no plan fits");
    }
}

static void put_steps(curve_picture *c) {
    const ebb_plan *plan = c->plan;
    for (int32_t i = 0; i < plan->n_choices; i++) {
        ebb__svg_put(&c->page, "V%.1fH%.1f", y_at(c, plan->choices[i].seconds),
                     x_at(c, (double)plan->choices[i].peak_bytes));
    }
}

/* The steps, the area under them, and where they go on beyond any time. */
static void draw_steps(curve_picture *c) {
    const plan_choice *last = least(c->plan);
    double x = x_at(c, (double)last->peak_bytes);
    ebb__svg_put(&c->page, "<path class=\"area\" d=\"M%d %d", END, FOOT);
    put_steps(c);
    ebb__svg_put(&c->page,
                 "V%dZ\"/>\n<path class=\"ours-line\" stroke-width=\"2.4\" "
                 "stroke-linejoin=\"round\" d=\"M%d %.1f",
                 FOOT, END, y_at(c, c->plan->choices[0].seconds));
    put_steps(c);
    ebb__svg_put(&c->page, "\"/>\n");
    ebb__svg_line(&c->page, x, y_at(c, last->seconds), x, TOP, "ours", 1.4, "2 4");
}

/* ---- labels: where there is room ---- */

static void take(curve_picture *c, box b) {
    if (c->n_boxes < MOST_BOXES) {
        c->boxes[c->n_boxes++] = b;
    }
}

static bool is_free(const curve_picture *c, box b) {
    for (int i = 0; i < c->n_boxes; i++) {
        const box *o = &c->boxes[i];
        if (b.left < o->right && o->left < b.right && b.top < o->bottom && o->top < b.bottom) {
            return false;
        }
    }
    return b.right <= END && b.left >= LEFT && b.top >= TOP - 40 && b.bottom <= FOOT - 2;
}

typedef struct label {
    double x, y;         /* of the point */
    const char *line[2]; /* the second may be NULL */
    const char *class;
    bool bold, must; /* must: also where it is crowded */
    bool below;
} label;

/* Above the point to the right, or below it to the left: there the curve never is. */
static bool try_label(curve_picture *c, const label *l, double dy) {
    double width = ebb__svg_text_width(l->line[0], 12), rows = l->line[1] != NULL ? 2 : 1;
    double dx = dy < 0 ? 9 : -9;
    if (l->line[1] != NULL) {
        width = fmax(width, ebb__svg_text_width(l->line[1], 12));
    }
    double left = dy < 0 ? l->x + dx : l->x + dx - width;
    double last = dy < 0 ? l->y + dy : l->y + dy + 15 * (rows - 1); /* base of the last line */
    box b = {left - 2, last - 11 - 15 * (rows - 1), left + width + 2, last + 4};
    if (!is_free(c, b)) {
        return false;
    }
    take(c, b);
    if (fabs(dy) > 30) {
        ebb__svg_line(&c->page, l->x, l->y + (dy < 0 ? -9 : 9), l->x, l->y + dy + (dy < 0 ? 4 : -4),
                      "muted", 0.8, NULL);
    }
    for (int i = 0; i < (int)rows; i++) {
        ebb__svg_words(&c->page,
                       &(svg_words){l->x + dx, last - 15 * (rows - 1 - i), 12,
                                    dy < 0 ? SVG_START : SVG_END, l->class,
                                    .bold = l->bold && i == 0, .halo = dy < 0},
                       "%s", l->line[i]);
    }
    return true;
}

static void draw_label(curve_picture *c, const label *l) {
    static const double heights[] = {-9, 21, -34, 44, -54, 64, -76, 88, -100, -124, -150};
    if (l->below && try_label(c, l, 21)) {
        return;
    }
    for (size_t i = 0; i < sizeof heights / sizeof *heights && (i == 0 || l->must); i++) {
        if (try_label(c, l, heights[i])) {
            return;
        }
    }
    label shorter = *l;
    shorter.line[1] = NULL;
    if (l->must && l->line[1] != NULL) {
        draw_label(c, &shorter);
    }
}

/* ---- points ---- */

static void draw_point(curve_picture *c, int32_t index) {
    const ebb_plan *plan = c->plan;
    const plan_choice *p = &plan->choices[index];
    double x = x_at(c, (double)p->peak_bytes), y = y_at(c, p->seconds);
    bool chosen = index == plan->chosen;
    double r = chosen ? 7 : 4;
    ebb__svg_put(&c->page,
                 "<g><title>%s, %.6g s a step: ", ebb__svg_bytes((double)p->peak_bytes).text,
                 p->seconds);
    ebb__svg_escape(&c->page, ebb__curve_name(p).text);
    ebb__svg_put(&c->page, "</title>");
    ebb__svg_dot(&c->page, x, y, r, "ours");
    if (chosen) {
        ebb__svg_put(&c->page, "<circle cx=\"%.1f\" cy=\"%.1f\" r=\"3\" class=\"ground\"/>", x, y);
    }
    ebb__svg_put(&c->page, "</g>\n");
    take(c, (box){x - r, y - r, x + r, y + r});
}

static void label_point(curve_picture *c, int32_t index, bool must) {
    const ebb_plan *plan = c->plan;
    const plan_choice *p = &plan->choices[index];
    bool chosen = index == plan->chosen, last = index == plan->n_choices - 1;
    curve_name name = ebb__curve_name(p), first;
    (void)snprintf(first.text, sizeof first.text, "%s%s%s, %s", chosen ? "taken: " : "",
                   last ? "least " : "", ebb__svg_bytes((double)p->peak_bytes).text,
                   ebb__svg_seconds(p->seconds, 0).text);
    label l = {.x = x_at(c, (double)p->peak_bytes),
               .y = y_at(c, p->seconds),
               .line = {must ? first.text : name.text, must ? name.text : NULL},
               .class = must ? "ink" : "muted",
               .bold = must,
               .must = must};
    draw_label(c, &l);
}

/* Keeping all is a plan too, if seldom one worth taking. */
static void draw_keep_all(curve_picture *c) {
    const ebb_plan *plan = c->plan;
    double x = x_at(c, (double)plan->keep_all_bytes), y = y_at(c, plan->seconds_per_step_keep_all);
    ebb__svg_line(&c->page, x, y, x, FOOT, "muted", 1, "2 4");
    ebb__svg_put(&c->page,
                 "<circle cx=\"%.1f\" cy=\"%.1f\" r=\"6.5\" class=\"muted-line\" "
                 "stroke-width=\"1.6\"/>\n",
                 x, y);
}

static void label_keep_all(curve_picture *c) {
    const ebb_plan *plan = c->plan;
    curve_name text;
    (void)snprintf(text.text, sizeof text.text, "keeping all: %s, %s",
                   ebb__svg_bytes((double)plan->keep_all_bytes).text,
                   ebb__svg_seconds(plan->seconds_per_step_keep_all, 0).text);
    label l = {.x = x_at(c, (double)plan->keep_all_bytes),
               .y = y_at(c, plan->seconds_per_step_keep_all),
               .line = {text.text},
               .class = "muted",
               .must = true,
               .below = true};
    draw_label(c, &l);
}

/* All points, then their labels: first those that must be there. */
static void draw_points(curve_picture *c) {
    const ebb_plan *plan = c->plan;
    int32_t last = plan->n_choices - 1;
    bool kept = plan->choices[0].peak_bytes == plan->keep_all_bytes; /* one label is enough */
    for (int32_t i = 0; i <= last; i++) {
        draw_point(c, i);
    }
    draw_keep_all(c);
    label_point(c, plan->chosen, true);
    if (plan->chosen != last) {
        label_point(c, last, true);
    }
    label_keep_all(c);
    for (int32_t i = 0; i < last; i++) {
        if (i != plan->chosen && !(i == 0 && kept)) {
            label_point(c, i, i == 0);
        }
    }
}

static void draw_budget(curve_picture *c) {
    if (!has_budget(c)) {
        return;
    }
    double budget = (double)c->plan->budget_bytes, x = x_at(c, budget);
    bool far = budget > c->high_bytes;
    x = far ? END : fmax(x, LEFT);
    if (!far) {
        ebb__svg_line(&c->page, x, TOP - 6, x, FOOT, "warn", 1.6, NULL);
    }
    bool right = x < (LEFT + END) / 2.0;
    box b = {right ? x : x - 130, TOP - 24, right ? x + 130 : x, TOP - 6};
    take(c, b);
    ebb__svg_words(&c->page,
                   &(svg_words){x + (right ? 6 : -6), TOP - 10, 12, right ? SVG_START : SVG_END,
                                "warn", .bold = true, .halo = true},
                   "budget %s%s", ebb__svg_bytes((double)c->plan->budget_bytes).text,
                   far ? " \xe2\x86\x92" : "");
}

static void draw_title(curve_picture *c) {
    const ebb_plan *plan = c->plan;
    double saved = (double)plan->keep_all_bytes / (double)least(plan)->peak_bytes;
    ebb__svg_words(&c->page, &(svg_words){24, 30, 17, .bold = true}, "%s", c->how->model);
    ebb__svg_words(
        &c->page, &(svg_words){24, 51, 12, .class = "muted"},
        "%" PRId32
        " plan%s worth taking on %d thread%s, from %s to %s: down to 1/%.2f of keeping all, "
        "for %.2f times the time of the fastest",
        plan->n_choices, plan->n_choices == 1 ? "" : "s", plan->members,
        plan->members == 1 ? "" : "s", ebb__svg_bytes((double)plan->choices[0].peak_bytes).text,
        ebb__svg_bytes((double)least(plan)->peak_bytes).text, saved,
        plan->choices[0].seconds > 0 ? least(plan)->seconds / plan->choices[0].seconds : 1);
}

ebb_status ebb__draw_curve(const ebb_plan *plan, const page_picture *picture) {
    static const svg_colour slate = {0x5B6672, 0x8793A0}, blue = {0x0072B2, 0x4DB2F0};
    const svg_rule rules[] = {{"area", ebb__svg_tint(blue, 0.07)},
                              {"held", ebb__svg_tint(slate, 0.22)},
                              {"bare", ebb__svg_tint(slate, 0.09)}};
    curve_picture c = {.plan = plan, .how = picture};
    set_scale(&c);
    ebb__svg_begin(&c.page, plan->ctx, WIDTH, HEIGHT, picture->model, rules,
                   sizeof rules / sizeof *rules);
    draw_title(&c);
    draw_floor(&c);
    draw_axes(&c);
    draw_steps(&c);
    draw_budget(&c);
    draw_points(&c);
    ebb_status status = ebb__svg_end(&c.page, picture->path, picture->into);
    ebb__svg_free(&c.page);
    return status;
}
