/* lengths.c - see lengths.h. */
#include "page/lengths.h"

#include "page/svg.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

enum { WIDTH = 900, HEIGHT = 560, LEFT = 76, RIGHT = 32, TOP = 84, BOTTOM = 64 };
enum { PLOT_WIDTH = WIDTH - LEFT - RIGHT, PLOT_HEIGHT = HEIGHT - TOP - BOTTOM };
enum { MAP_WIDTH = 720, MAP_HEIGHT = 720, MAP_RIGHT = 120, SHADES = 8 };

typedef struct lengths_picture {
    svg_page page;
    const data_lengths *lengths;
    const bucket_plan *plan, *one;
    double left, foot, wide, high; /* of the plot */
    svg_axis x, y;
    uint64_t most; /* sentences of one cell or bar */
} lengths_picture;

static double x_at(const lengths_picture *p, double value) {
    return p->left + p->wide * (value - p->x.low) / (p->x.high - p->x.low);
}

static double y_at(const lengths_picture *p, double value) {
    return p->foot - p->high * (value - p->y.low) / (p->y.high - p->y.low);
}

static void head(lengths_picture *p, const char *what) {
    svg_page *page = &p->page;
    const bucket_plan *plan = p->plan;
    const char *name = ebb__bucket_name(plan->strategy);
    ebb__svg_words(page, &(svg_words){.x = LEFT, .y = 34, .size = 19, .bold = true},
                   "%s %s by length", ebb__svg_count((int64_t)plan->sentences).text, what);
    ebb__svg_words(page, &(svg_words){.x = LEFT, .y = 58, .size = 14, .class = "muted"},
                   "%s, %" PRId32 " shape%s: %.1f%% of what a batch holds is padding (%.1f%% with "
                   "one shape for all)",
                   name, plan->n_shapes, plan->n_shapes == 1 ? "" : "s",
                   100 * ebb__bucket_padded_share(plan), 100 * ebb__bucket_padded_share(p->one));
}

/* Whole ones: an axis may end before the next. */
static int n_steps(const svg_axis *axis) {
    return (int)((axis->high - axis->low) / axis->step + 1e-9);
}

static void axes(lengths_picture *p, const char *x_title, const char *y_title) {
    svg_page *page = &p->page;
    for (int i = 0; i <= n_steps(&p->x); i++) {
        double v = p->x.low + i * p->x.step;
        ebb__svg_line(page, x_at(p, v), p->foot, x_at(p, v), p->foot + 4, "muted", 1, NULL);
        ebb__svg_words(page,
                       &(svg_words){.x = x_at(p, v),
                                    .y = p->foot + 19,
                                    .size = 12,
                                    .anchor = SVG_MIDDLE,
                                    .class = "muted"},
                       "%s", ebb__svg_count((int64_t)v).text);
    }
    for (int i = 0; i <= n_steps(&p->y); i++) {
        double v = p->y.low + i * p->y.step;
        ebb__svg_line(page, p->left, y_at(p, v), p->left + p->wide, y_at(p, v), "grid", 1, NULL);
        ebb__svg_words(page,
                       &(svg_words){.x = p->left - 8,
                                    .y = y_at(p, v) + 4,
                                    .size = 12,
                                    .anchor = SVG_END,
                                    .class = "muted"},
                       "%s", ebb__svg_count((int64_t)v).text);
    }
    ebb__svg_line(page, p->left, p->foot, p->left + p->wide, p->foot, "muted", 1, NULL);
    ebb__svg_words(page,
                   &(svg_words){.x = p->left + p->wide / 2,
                                .y = p->foot + 44,
                                .size = 13,
                                .anchor = SVG_MIDDLE,
                                .class = "muted"},
                   "%s", x_title);
    ebb__svg_words(page,
                   &(svg_words){.x = 20,
                                .y = p->foot - p->high / 2,
                                .size = 13,
                                .anchor = SVG_MIDDLE,
                                .class = "muted",
                                .turn = -90},
                   "%s", y_title);
}

/* ---- one text: bars ---- */

/* Bounds so near the one before that their labels would touch are left to the colours. */
static void bounds(lengths_picture *p) {
    double free_from = 0, room = ebb__svg_text_width("0000", 12) / 2;
    for (int32_t i = 0; i < p->plan->n_shapes; i++) {
        double at = x_at(p, (double)p->plan->shapes[i].as.target + 0.5);
        if (at - room < free_from) {
            continue;
        }
        ebb__svg_line(&p->page, at, p->foot, at, p->foot - p->high - 4, "ink", 1, "3 3");
        ebb__svg_words(&p->page,
                       &(svg_words){.x = at,
                                    .y = p->foot - p->high - 9,
                                    .size = 12,
                                    .anchor = SVG_MIDDLE,
                                    .bold = true},
                       "%" PRIu32, p->plan->shapes[i].as.target);
        free_from = at + room;
    }
}

static void draw_bars(lengths_picture *p) {
    static const svg_rule rules[] = {{"even", {0x0072B2, 0x3B93D0}}, {"odd", {0x7FB8D8, 0x1F5A85}}};
    uint32_t longest = p->lengths->cells[p->lengths->n_cells - 1].target;
    ebb__svg_begin(&p->page, p->lengths->ctx, WIDTH, HEIGHT, "Sentences by length", rules, 2);
    p->left = LEFT;
    p->foot = HEIGHT - BOTTOM;
    p->wide = PLOT_WIDTH;
    p->high = PLOT_HEIGHT - 16;
    p->x = ebb__svg_axis(0, (double)longest + 1, 10, false);
    p->x.high = (double)longest + 1;
    p->y = ebb__svg_axis(0, (double)p->most, 6, false);
    head(p, "sentences");
    axes(p, "length, end mark included", "sentences");
    double bar = x_at(p, 1) - x_at(p, 0), gap = bar > 6 ? 1 : 0;
    for (size_t i = 0; i < p->lengths->n_cells; i++) {
        const lengths_cell *cell = &p->lengths->cells[i];
        int32_t shape = ebb__bucket_find(p->plan, 0, cell->target);
        double top = y_at(p, (double)cell->count);
        ebb__svg_rect(&p->page, x_at(p, (double)cell->target - 0.5) + gap / 2, top, bar - gap,
                      p->foot - top, shape % 2 == 0 ? "even" : "odd", 0);
    }
    bounds(p);
}

/* ---- pairs: a map ---- */

/* By the logarithm: most cells hold few, a few hold most. */
static int shade_of(const lengths_picture *p, uint64_t count) {
    double share = log((double)count) / log((double)p->most + 1);
    int shade = (int)(share * SHADES);
    return shade < SHADES ? shade : SHADES - 1;
}

/* What the shades stand for, beside the map. */
static void legend(lengths_picture *p) {
    double x = p->left + p->wide + 24, y = p->foot - p->high + 8;
    ebb__svg_words(&p->page, &(svg_words){.x = x, .y = y, .size = 12, .class = "muted"},
                   "pairs, from");
    for (int i = SHADES - 1; i >= 0; i--) {
        double from = ceil(exp(log((double)p->most + 1) * i / SHADES) - 1e-9);
        y += 22;
        char name[12];
        (void)snprintf(name, sizeof name, "heat%d", i);
        ebb__svg_rect(&p->page, x, y - 11, 16, 16, name, 2);
        ebb__svg_words(&p->page,
                       &(svg_words){.x = x + 24, .y = y + 2, .size = 12, .class = "muted"}, "%s",
                       ebb__svg_count((int64_t)from).text);
    }
}

static void rectangles(lengths_picture *p) {
    for (int32_t i = 0; i < p->plan->n_shapes; i++) {
        const data_shape *shape = &p->plan->shapes[i].as;
        double x = x_at(p, (double)shape->source + 0.5), y = y_at(p, (double)shape->target + 0.5);
        ebb__svg_put(&p->page,
                     "<path d=\"M%.1f %.1fL%.1f %.1fL%.1f %.1f\" class=\"ours-line\" "
                     "stroke-width=\"1.5\"/>\n",
                     p->left, y, x, y, x, p->foot);
    }
    double last_x = -100, last_y = -100;
    for (int32_t i = 0; i < p->plan->n_shapes; i++) { /* over all lines */
        const data_shape *shape = &p->plan->shapes[i].as;
        double x = x_at(p, (double)shape->source + 0.5), y = y_at(p, (double)shape->target + 0.5);
        if (fabs(x - last_x) < 44 && fabs(y - last_y) < 14) {
            continue;
        }
        ebb__svg_words(
            &p->page,
            &(svg_words){
                .x = x - 3, .y = y - 4, .size = 11, .anchor = SVG_END, .bold = true, .halo = true},
            "%" PRIu32 "\u00d7%" PRIu32, shape->source, shape->target);
        last_x = x;
        last_y = y;
    }
}

static void draw_map(lengths_picture *p) {
    static const svg_colour hot = {0xB5442A, 0xE0795F};
    svg_rule rules[SHADES] = {{"", {0, 0}}};
    uint32_t source = 0, target = 0;
    for (int i = 0; i < SHADES; i++) {
        (void)snprintf(rules[i].name, sizeof rules[i].name, "heat%d", i);
        rules[i].colour = ebb__svg_tint(hot, 0.12 + 0.88 * i / (SHADES - 1));
    }
    for (size_t i = 0; i < p->lengths->n_cells; i++) {
        const lengths_cell *cell = &p->lengths->cells[i];
        source = cell->source > source ? cell->source : source;
        target = cell->target > target ? cell->target : target;
    }
    ebb__svg_begin(&p->page, p->lengths->ctx, MAP_WIDTH, MAP_HEIGHT, "Pairs by length", rules,
                   SHADES);
    p->left = LEFT;
    p->foot = MAP_HEIGHT - BOTTOM;
    p->wide = MAP_WIDTH - LEFT - MAP_RIGHT;
    p->high = MAP_HEIGHT - TOP - BOTTOM;
    p->x = ebb__svg_axis(0, (double)source + 1, 10, false);
    p->x.high = (double)source + 1;
    p->y = ebb__svg_axis(0, (double)target + 1, 10, false);
    p->y.high = (double)target + 1;
    head(p, "pairs");
    axes(p, "source length, end mark included", "target length");
    double wide = x_at(p, 1) - x_at(p, 0), high = y_at(p, 0) - y_at(p, 1);
    for (size_t i = 0; i < p->lengths->n_cells; i++) {
        const lengths_cell *cell = &p->lengths->cells[i];
        ebb__svg_rect(&p->page, x_at(p, (double)cell->source - 0.5),
                      y_at(p, (double)cell->target + 0.5), wide, high,
                      rules[shade_of(p, cell->count)].name, 0);
    }
    rectangles(p);
    legend(p);
}

ebb_status ebb__draw_lengths(const data_lengths *lengths, const bucket_plan *plan,
                             const bucket_plan *one, const char *path) {
    lengths_picture p = {.lengths = lengths, .plan = plan, .one = one};
    for (size_t i = 0; i < lengths->n_cells; i++) {
        p.most = lengths->cells[i].count > p.most ? lengths->cells[i].count : p.most;
    }
    if (lengths->pairs) {
        draw_map(&p);
    } else {
        draw_bars(&p);
    }
    ebb_status status = ebb__svg_end(&p.page, path, NULL);
    ebb__svg_free(&p.page);
    return status;
}
