/* learning.c - how training went: the metrics of a run, read back and drawn. */
#include "page/learning.h"

#include "base/file.h"
#include "page/svg.h"

#include <jansson.h>
#include <math.h>
#include <string.h>

enum { METRICS_MOST_BYTES = 256 << 20, FIRST_ROOM = 1024 };
static const json_int_t most_steps = INT64_C(1) << 53; /* as far as doubles count */

/* ---- reading ---- */

static double real_of(const json_t *object, const char *key, double otherwise) {
    const json_t *value = json_object_get(object, key);
    return json_is_number(value) ? json_number_value(value) : otherwise;
}

/* A count; what cannot be one is 0. */
static int64_t count_of(const json_t *object, const char *key) {
    double value = real_of(object, key, 0);
    return value >= 0 && value <= 0x1p53 ? (int64_t)value : 0;
}

static bool read_line(const learning_curve *curve, const char *line, size_t bytes,
                      learning_point *out) {
    json_t *object = json_loadb(line, bytes, 0, NULL);
    const json_t *step = json_object_get(object, "step");
    bool good = json_integer_value(step) > 0 && json_integer_value(step) <= most_steps;
    char key[64] = "";
    if (good) {
        (void)snprintf(key, sizeof key, "%s_per_second", curve->unit != NULL ? curve->unit : "");
        *out = (learning_point){.step = json_integer_value(step),
                                .epoch = count_of(object, "epoch"),
                                .loss = real_of(object, "loss", (double)NAN),
                                .per_second = real_of(object, key, 0)};
    }
    for (int32_t i = 0; good && i < curve->n_metrics; i++) {
        (void)snprintf(key, sizeof key, "valid_%s", curve->metrics[i].name);
        out->valid[i] = real_of(object, key, -1);
    }
    json_decref(object);
    return good;
}

/* Room for as many points as there are, whatever else the file is full of. */
static ebb_status read_points(ebb_ctx *ctx, const char *text, learning_curve *out) {
    size_t room = 0;
    for (const char *line = text, *end; (end = strchr(line, '\n')) != NULL; line = end + 1) {
        learning_point point;
        if (!read_line(out, line, (size_t)(end - line), &point)) {
            continue;
        }
        if (out->n == room) {
            room = room > 0 ? 2 * room : FIRST_ROOM;
            TRY(ebb__realloc(ctx, out->points, room, sizeof *out->points, &out->points));
        }
        out->points[out->n++] = point;
    }
    return EBB_OK;
}

ebb_status ebb__learning_read(ebb_ctx *ctx, const char *dir, learning_curve *out) {
    page_text path = {.ctx = ctx};
    char *text = NULL;
    size_t bytes = 0;
    ebb_status status;
    TRY_OUT(ebb__page_put(&path, "%s/metrics.jsonl", dir));
    if (ebb__file_exists(path.bytes)) {
        TRY_OUT(ebb__file_read_all(ctx, path.bytes, METRICS_MOST_BYTES, &text, &bytes));
        TRY_OUT(read_points(ctx, text, out));
    }
out:
    ebb__free(ctx, text);
    ebb__page_text_fini(&path);
    return status;
}

/* ---- drawing ---- */

enum { WIDTH = 900, LEFT = 70, END = WIDTH - 130, TOP = 62, PLOT = 260, SECOND = 120, GAP = 54 };

typedef struct panel {
    const learning_curve *curve;
    svg_page *page;
    double top, foot;
    double low, high; /* of the axis, as drawn: logarithms of perplexities */
    int64_t steps;
} panel;

static double x_at(const panel *p, int64_t step) {
    return LEFT + (END - LEFT) * (double)step / (double)p->steps;
}

static double y_at(const panel *p, double value) {
    return p->foot - (p->foot - p->top) * (value - p->low) / (p->high - p->low);
}

enum { TRAINED = -1 }; /* in place of a metric's number: the loss of training */

/* As it is drawn; not finite: there is none. */
static double value_at(const learning_curve *c, size_t point, int32_t metric) {
    if (metric == TRAINED) {
        return c->points[point].loss;
    }
    double value = c->points[point].valid[metric];
    return value < 0 ? (double)NAN : c->metrics[metric].exponential ? log(value) : value;
}

static void widen(panel *p, int32_t metric) {
    for (size_t i = 0; i < p->curve->n; i++) {
        double v = value_at(p->curve, i, metric);
        if (isfinite(v)) {
            p->low = fmin(p->low, v);
            p->high = fmax(p->high, v);
        }
    }
}

/* One line; of points that share a pixel the mean. */
static void draw_line(panel *p, int32_t metric, const char *class, double width) {
    const learning_curve *c = p->curve;
    bool started = false;
    ebb__svg_put(p->page,
                 "<path class=\"%s-line\" stroke-width=\"%g\" stroke-linejoin=\"round\" d=\"",
                 class, width);
    for (size_t i = 0, next; i < c->n; i = next) {
        double sum = 0, count = 0, pixel = floor(x_at(p, c->points[i].step));
        for (next = i; next < c->n && floor(x_at(p, c->points[next].step)) <= pixel; next++) {
            double v = value_at(c, next, metric);
            sum += isfinite(v) ? v : 0;
            count += isfinite(v);
        }
        if (count > 0) {
            ebb__svg_put(p->page, "%c%.1f %.1f", started ? 'L' : 'M',
                         x_at(p, c->points[next - 1].step), y_at(p, sum / count));
            started = true;
        }
    }
    ebb__svg_put(p->page, "\"/>\n");
}

/* How high the last point lies; not finite: there is none. */
static double end_of(const panel *p, int32_t metric) {
    double last = (double)NAN;
    for (size_t i = 0; i < p->curve->n; i++) {
        double v = value_at(p->curve, i, metric);
        last = isfinite(v) ? v : last;
    }
    return y_at(p, last);
}

/* How far down a label at `y` moves so that it does not touch the one at `other`, which moves the
 * other way; of two at one height the first of the panel goes up. */
static double make_way(double y, double other, bool first) {
    enum { LABEL = 17 };
    double apart = fabs(y - other);
    if (!(apart < LABEL)) { /* or there is no other */
        return 0;
    }
    bool up = y < other || (y == other && first);
    return (up ? -1 : 1) * (LABEL - apart) / 2;
}

/* Points where they are few, and the last one's value beside its end. */
static void draw_points(panel *p, int32_t metric, const char *class, const char *name, bool log,
                        double shift) {
    const learning_curve *c = p->curve;
    double last = (double)NAN, at = LEFT, n = 0;
    for (size_t i = 0; i < c->n; i++) {
        n += isfinite(value_at(c, i, metric));
    }
    for (size_t i = 0; i < c->n; i++) {
        double v = value_at(c, i, metric);
        if (!isfinite(v)) {
            continue;
        }
        last = v;
        at = x_at(p, c->points[i].step);
        if (n <= 60) {
            ebb__svg_dot(p->page, at, y_at(p, v), 2.6, class);
        }
    }
    if (isfinite(last)) {
        ebb__svg_words(p->page,
                       &(svg_words){at + 9, y_at(p, last) + 4 + shift, 12, .class = class,
                                    .bold = true, .halo = true},
                       "%s%.4g", name, log ? exp(last) : last);
    }
}

static void draw_tick(panel *p, double value, double shown) {
    double y = y_at(p, value);
    ebb__svg_line(p->page, LEFT, y, END, y, "grid", 1, NULL);
    ebb__svg_words(p->page, &(svg_words){LEFT - 8, y + 4, 12, .anchor = SVG_END, .class = "muted"},
                   "%.6g", shown);
}

/* Round perplexities, the roundest first, as far as there is room. */
static void draw_log_axis(panel *p) {
    static const double rounds[] = {1,    10,  100, 1e3, 1e4,  1e5, 1e6, 2,   5,   20,  50,    200,
                                    500,  2e3, 5e3, 2e4, 5e4,  3,   30,  300, 1.5, 1.2, 1.1,   1.05,
                                    1.02, 4,   7,   15,  1.01, 1.3, 2.5, 40,  70,  150, 1.005, 3.5};
    enum { N = sizeof rounds / sizeof *rounds, ROOM = 30 };
    double taken[N] = {0};
    int n = 0;
    for (int i = 0; i < N; i++) {
        double y = y_at(p, log(rounds[i]));
        bool room = y >= p->top && y <= p->foot;
        for (int k = 0; k < n; k++) {
            room = room && fabs(y - taken[k]) >= ROOM;
        }
        if (room) {
            taken[n++] = y;
            draw_tick(p, log(rounds[i]), rounds[i]);
        }
    }
}

static void draw_steps(panel *p, bool named) {
    svg_axis x = ebb__svg_axis(0, (double)p->steps, 8, false);
    ebb__svg_line(p->page, LEFT, p->foot, END, p->foot, "muted", 1, NULL);
    for (int i = 0; i * x.step <= (double)p->steps; i++) {
        double at = x_at(p, (int64_t)(i * x.step));
        ebb__svg_line(p->page, at, p->foot, at, p->foot + 5, "muted", 1, NULL);
        if (named) {
            ebb__svg_words(p->page,
                           &(svg_words){at, p->foot + 20, 12, SVG_MIDDLE, .class = "muted"}, "%s",
                           ebb__svg_count((int64_t)(i * x.step)).text);
        }
    }
}

static bool has(const learning_curve *c, int32_t metric) {
    bool found = false;
    for (size_t i = 0; i < c->n; i++) {
        found = found || isfinite(value_at(c, i, metric));
    }
    return found;
}

/* The metric that is drawn beside the loss of training; TRAINED: none is. */
static int32_t find_exponential(const learning_curve *c) {
    int32_t i = c->n_metrics - 1;
    while (i >= 0 && !c->metrics[i].exponential) {
        i--;
    }
    return i; /* TRAINED is one before the first */
}

/* The loss of training as perplexity, and that of validation. */
static void draw_perplexity(panel *p, int32_t beside, bool named) {
    p->low = HUGE_VAL;
    p->high = -HUGE_VAL;
    widen(p, TRAINED);
    widen(p, beside);
    if (!(p->high >= p->low)) { /* never a finite loss */
        p->low = 0;
        p->high = 1;
    }
    double room = fmax(p->high - p->low, 0.05);
    p->low -= 0.06 * room;
    p->high += 0.06 * room;
    draw_log_axis(p);
    draw_steps(p, named);
    draw_line(p, TRAINED, "ours", 1.8);
    draw_line(p, beside, "warn", 1.8);
    double train = end_of(p, TRAINED), valid = end_of(p, beside);
    draw_points(p, TRAINED, "ours", "training ", true, make_way(train, valid, false));
    draw_points(p, beside, "warn", "validation ", true, make_way(valid, train, true));
}

/* A metric, or the loss of training, in a panel of its own. */
static void draw_alone(panel *p, int32_t metric, bool named) {
    const char *class = metric == TRAINED ? "ours" : "warn";
    p->low = 0;
    p->high = 0;
    widen(p, metric);
    svg_axis y = ebb__svg_axis(0, p->high > 0 ? p->high : 1, 4, false);
    p->low = 0; /* a loss below it is cut off */
    p->high = y.high;
    for (int i = 0; i * y.step <= y.high * (1 + 1e-9); i++) {
        draw_tick(p, i * y.step, i * y.step);
    }
    draw_steps(p, named);
    draw_line(p, metric, class, 1.8);
    draw_points(p, metric, class, "", false, 0);
}

static bool has_own_panel(const learning_curve *c, int32_t metric) {
    return metric != find_exponential(c) && has(c, metric);
}

ebb_status ebb__learning_draw(ebb_ctx *ctx, const learning_curve *curve, page_text *into) {
    int32_t beside = find_exponential(curve), panels = 0;
    const char *title = beside == TRAINED ? "Loss while training" : "Perplexity while training";
    svg_page page;
    panel p = {.curve = curve, .page = &page, .top = TOP, .foot = TOP + PLOT, .steps = 1};
    for (size_t i = 0; i < curve->n; i++) {
        p.steps = curve->points[i].step > p.steps ? curve->points[i].step : p.steps;
    }
    for (int32_t i = 0; i < curve->n_metrics; i++) {
        panels += has_own_panel(curve, i);
    }
    double height = TOP + PLOT + panels * (GAP + SECOND) + 52;
    ebb__svg_begin(&page, ctx, WIDTH, height, title, NULL, 0);
    ebb__svg_words(&page, &(svg_words){24, 30, 17, .bold = true}, "%s", title);
    if (beside != TRAINED) {
        ebb__svg_words(
            &page, &(svg_words){24, 49, 12, .class = "muted"},
            "between how many words the model hesitates; equal factors are equal heights");
    }
    if (beside == TRAINED) {
        draw_alone(&p, TRAINED, panels == 0);
    } else {
        draw_perplexity(&p, beside, panels == 0);
    }
    for (int32_t i = 0; i < curve->n_metrics; i++) {
        if (has_own_panel(curve, i)) {
            p.top = p.foot + GAP;
            p.foot = p.top + SECOND;
            ebb__svg_words(&page, &(svg_words){24, p.top - 18, 14, .bold = true}, "%s",
                           curve->metrics[i].phrase);
            draw_alone(&p, i, --panels == 0);
        }
    }
    ebb__svg_words(&page,
                   &(svg_words){(LEFT + END) / 2.0, height - 12, 12, SVG_MIDDLE, .class = "muted"},
                   "steps");
    ebb_status status = ebb__svg_end(&page, NULL, into);
    ebb__svg_free(&page);
    return status;
}
