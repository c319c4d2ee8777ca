/* ranks.c - what each of several ranks does at which time of a step, as an SVG picture (Gantt
 * chart): a row a rank, a shade for each phase, and what it waits for messages. */
#include "page/picture.h"

#include "page/svg.h"

#include <stdio.h>
#include <string.h>

enum { WIDTH = 900, LEFT = 84, RIGHT = 76, TOP = 76, UNDER = 74 };
enum { PLOT_WIDTH = WIDTH - LEFT - RIGHT, COLUMNS = 2 * PLOT_WIDTH };
enum { FEW_RANKS = 16, HIGH_ROW = 30, LOW_ROW = 12 };

typedef struct ranks_picture {
    const forecast_step *step;
    svg_page page;
    double seconds; /* of the axis */
    int32_t row;    /* pixels from one rank to the next */
    double foot;
} ranks_picture;

static const char *const state_names[FORECAST_STATES] = {
    "forward", "backward", "update", "computed again", "copying messages", "waiting"};

static int32_t make_rules(svg_rule rules[FORECAST_STATES]) {
    static const svg_colour grey = {0x7A828C, 0x8A929C};
    static const struct {
        int hue; /* < 0: grey */
        double share;
    } looks[FORECAST_STATES] = {
        [IR_FORWARD] = {0, 0.5},   [IR_BACKWARD] = {0, 1},         [IR_UPDATE] = {1, 0.9},
        [IR_RECOMPUTE] = {2, 0.8}, [FORECAST_COPYING] = {-1, 0.9}, [FORECAST_WAITING] = {-1, 0.16}};
    for (int i = 0; i < FORECAST_STATES; i++) {
        (void)snprintf(rules[i].name, sizeof rules[i].name, "s%d", i);
        rules[i].colour =
            ebb__svg_tint(looks[i].hue < 0 ? grey : ebb__svg_hues[looks[i].hue], looks[i].share);
    }
    return FORECAST_STATES;
}

static double x_at(const ranks_picture *p, double seconds) {
    return LEFT + PLOT_WIDTH * seconds / p->seconds;
}

/* What a rank does for most of each column. */
static void find_columns(const ranks_picture *p, const forecast_rank *rank,
                         signed char states[COLUMNS]) {
    double width = p->step->seconds / COLUMNS;
    int32_t at = 0;
    for (int c = 0; c < COLUMNS; c++) {
        double from = c * width, to = from + width, most = 0, sums[FORECAST_STATES] = {0};
        while (at < rank->n_spans && rank->spans[at].end <= from) {
            at++;
        }
        states[c] = FORECAST_WAITING;
        for (int32_t i = at; i < rank->n_spans && rank->spans[i].begin < to; i++) {
            const forecast_span *s = &rank->spans[i];
            sums[s->state] += (s->end < to ? s->end : to) - (s->begin > from ? s->begin : from);
            if (sums[s->state] > most) {
                most = sums[s->state];
                states[c] = (signed char)s->state;
            }
        }
    }
}

static double row_y(const ranks_picture *p, int32_t r) {
    return TOP + (double)r * p->row;
}

static void draw_rank(ranks_picture *p, int32_t r, int32_t stages) {
    const forecast_rank *rank = &p->step->ranks[r];
    signed char states[COLUMNS];
    double y = row_y(p, r), high = p->row - (p->row == HIGH_ROW ? 6 : 2);
    double scale = p->step->seconds / p->seconds / 2; /* pixels of a column */
    bool named = p->row == HIGH_ROW || r % 4 == 0;
    find_columns(p, rank, states);
    for (int from = 0, to; from < COLUMNS; from = to) {
        for (to = from + 1; to < COLUMNS && states[to] == states[from];) {
            to++;
        }
        char class[4] = {'s', (char)('0' + states[from]), '\0'};
        ebb__svg_rect(&p->page, LEFT + from * scale, y, (to - from) * scale, high, class, 0);
    }
    if (!named) {
        return;
    }
    svg_words at = {LEFT - 8, y + high / 2 + 4, 12, .anchor = SVG_END};
    ebb__svg_words(&p->page, &at, "rank %d", r);
    if (stages > 1 && p->row == HIGH_ROW) {
        at = (svg_words){LEFT - 8, y + high / 2 + 14, 9, .anchor = SVG_END, .class = "muted"};
        ebb__svg_words(&p->page, &at, "stage %d", r % stages);
    }
    at = (svg_words){LEFT + PLOT_WIDTH + 8, y + high / 2 + 4, 12, .class = "muted"};
    ebb__svg_words(&p->page, &at, "%.0f%% busy",
                   p->step->seconds > 0 ? 100 * forecast_busy(rank) / p->step->seconds : 0);
}

static void draw_axis(ranks_picture *p) {
    svg_axis axis = ebb__svg_axis(0, 1e3 * p->seconds, 8, false);
    for (int i = 0; i * axis.step <= 1e3 * p->seconds * 1.0001; i++) {
        double ms = i * axis.step, x = x_at(p, ms / 1e3);
        ebb__svg_line(&p->page, x, TOP - 4, x, p->foot + 4, "grid", 1, NULL);
        ebb__svg_words(&p->page,
                       &(svg_words){x, p->foot + 19, 12, .anchor = SVG_MIDDLE, .class = "muted"},
                       "%g", ms);
    }
    ebb__svg_words(&p->page,
                   &(svg_words){LEFT + PLOT_WIDTH + 8, p->foot + 19, 12, .class = "muted"}, "ms");
}

static void draw_legend(ranks_picture *p) {
    double x = LEFT, y = p->foot + 48, seconds[FORECAST_STATES] = {0};
    for (int32_t r = 0; r < p->step->n_ranks; r++) {
        for (int i = 0; i < FORECAST_STATES; i++) {
            seconds[i] += p->step->ranks[r].seconds[i];
        }
    }
    for (int i = 0; i < FORECAST_STATES; i++) {
        if (seconds[i] > 0) {
            char class[4] = {'s', (char)('0' + i), '\0'}, text[48];
            (void)snprintf(text, sizeof text, "%s %.1f%%", state_names[i],
                           100 * seconds[i] / (p->step->seconds * p->step->n_ranks));
            ebb__svg_rect(&p->page, x, y - 10, 12, 12, class, 2);
            ebb__svg_words(&p->page, &(svg_words){x + 17, y, 12, .anchor = SVG_START}, "%s", text);
            x += 17 + ebb__svg_text_width(text, 12) + 16;
        }
    }
}

ebb_status ebb__draw_ranks(ebb_ctx *ctx, const forecast_step *step, int32_t stages,
                           const char *what, const page_picture *picture) {
    ranks_picture p = {.step = step,
                       .page = {.text = {.ctx = ctx}},
                       .seconds = step->seconds > 0 ? step->seconds : 1,
                       .row = step->n_ranks <= FEW_RANKS ? HIGH_ROW : LOW_ROW};
    svg_rule rules[FORECAST_STATES];
    p.foot = row_y(&p, step->n_ranks);
    ebb__svg_begin(&p.page, ctx, WIDTH, p.foot + UNDER, picture->model, rules, make_rules(rules));
    ebb__svg_words(&p.page, &(svg_words){24, 30, 17, .bold = true}, "%s", picture->model);
    ebb__svg_words(&p.page, &(svg_words){24, 51, 12, .class = "muted"}, "%s", what);
    draw_axis(&p);
    for (int32_t r = 0; r < step->n_ranks; r++) {
        draw_rank(&p, r, stages);
    }
    draw_legend(&p);
    ebb_status status = ebb__svg_end(&p.page, picture->path, picture->into);
    ebb__svg_free(&p.page);
    return status;
}
