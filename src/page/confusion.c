/* confusion.c - see confusion.h. */
#include "page/confusion.h"

#include "page/svg.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

enum {
    WIDTH = 900,
    MARGIN = 24,
    HEAD = 66,
    CELL = 44,
    NUMBERED = 26,
    LABEL = 160,
    NAME = 24,
    SHARE = 76
};
static const double tilt = -40; /* degrees, of the columns' names */

typedef struct class_label {
    char text[4 * NAME + 8];
} class_label;

/* The name, cut between characters, or the number. */
static class_label label_of(const confusion_matrix *m, uint32_t k) {
    class_label out;
    const char *name = m->names[k];
    if (name == NULL) {
        (void)snprintf(out.text, sizeof out.text, "%" PRIu32, k);
        return out;
    }
    size_t used = ebb__page_cut(name, NAME, sizeof out.text - 4);
    (void)snprintf(out.text, sizeof out.text, "%.*s%s", (int)used, name,
                   name[used] != '\0' ? "\xe2\x80\xa6" : "");
    return out;
}

typedef struct grid {
    const confusion_matrix *m;
    svg_page *page;
    double left, top, cell, font;
    double beside; /* what the columns' names take beyond the last one */
} grid;

static double widest(const confusion_matrix *m, double size) {
    double most = 0;
    for (uint32_t k = 0; k < m->n; k++) {
        most = fmax(most, ebb__svg_text_width(label_of(m, k).text, size));
    }
    return fmin(most, LABEL);
}

static grid measure(const confusion_matrix *m, svg_page *page) {
    grid g = {.m = m, .page = page};
    double names = widest(m, 12), angle = -tilt * M_PI / 180;
    g.left = MARGIN + names + 12;
    g.top = HEAD + names * sin(angle) + 18;
    g.beside = fmax(names * cos(angle), 16);
    double room = WIDTH - MARGIN - g.left - g.beside - 2 * SHARE;
    g.cell = fmin(CELL, room / m->n);
    g.font = fmin(12, 0.8 * g.cell + 2);
    return g;
}

static void draw_cell(const grid *g, uint32_t row, uint32_t column, uint64_t total) {
    uint64_t times = g->m->counts[(uint64_t)row * g->m->n + column];
    double share = total > 0 ? (double)times / (double)total : 0;
    double x = g->left + column * g->cell, y = g->top + row * g->cell;
    double gap = g->cell > 8 ? 1 : 0;
    if (times == 0) {
        return;
    }
    ebb__svg_put(g->page,
                 "<rect x=\"%.1f\" y=\"%.1f\" width=\"%.1f\" height=\"%.1f\" rx=\"%d\" "
                 "class=\"%s\" fill-opacity=\"%.3f\"><title>",
                 x + gap / 2, y + gap / 2, g->cell - gap, g->cell - gap, g->cell > 8 ? 2 : 0,
                 row == column ? "ours" : "warn",
                 row == column ? 0.1 + 0.45 * share : 0.2 + 0.6 * sqrt(share));
    ebb__svg_escape(g->page, label_of(g->m, row).text);
    ebb__svg_put(g->page, " said to be ");
    ebb__svg_escape(g->page, label_of(g->m, column).text);
    ebb__svg_put(g->page, ": %" PRIu64 " of %" PRIu64 "</title></rect>\n", times, total);
    if (g->cell >= NUMBERED) {
        ebb__svg_words(g->page,
                       &(svg_words){x + g->cell / 2, y + g->cell / 2 + 4, times > 9999 ? 9 : 11,
                                    .anchor = SVG_MIDDLE},
                       "%" PRIu64, times);
    }
}

/* Beside a row, in column 0 or 1: a share, or its heading. */
static void draw_share(const grid *g, uint32_t row, int column, uint64_t part, uint64_t whole) {
    svg_words at = {g->left + g->m->n * g->cell + g->beside + (column + 1) * SHARE,
                    g->top + (row + 0.5) * g->cell + 0.35 * g->font, g->font, .anchor = SVG_END};
    if (row == 0) {
        ebb__svg_words(g->page,
                       &(svg_words){at.x, g->top - 7, 12, .anchor = SVG_END, .class = "muted"},
                       "%s", column == 0 ? "recall" : "precision");
    }
    if (whole > 0) {
        ebb__svg_words(g->page, &at, "%.1f%%", 100 * (double)part / (double)whole);
    }
}

static void draw_row(const grid *g, uint32_t row) {
    uint64_t total = 0, said = 0, n = g->m->n, right = g->m->counts[row * n + row];
    for (uint64_t k = 0; k < n; k++) {
        total += g->m->counts[row * n + k];
        said += g->m->counts[k * n + row];
    }
    draw_share(g, row, 0, right, total);
    draw_share(g, row, 1, right, said);
    ebb__svg_words(g->page,
                   &(svg_words){g->left - 8, g->top + (row + 0.5) * g->cell + 0.35 * g->font,
                                g->font, .anchor = SVG_END},
                   "%s", label_of(g->m, row).text);
    ebb__svg_words(
        g->page,
        &(svg_words){g->left + (row + 0.5) * g->cell + 3, g->top - 7, g->font, .turn = tilt}, "%s",
        label_of(g->m, row).text);
    for (uint32_t k = 0; k < g->m->n; k++) {
        draw_cell(g, row, k, total);
    }
}

ebb_status ebb__confusion_draw(ebb_ctx *ctx, const confusion_matrix *matrix, page_text *into) {
    static const svg_colour slate = {0x5B6672, 0x8793A0};
    static const char title[] = "What is taken for what";
    const svg_rule rules[] = {{"cells", ebb__svg_tint(slate, 0.1)}};
    svg_page page;
    grid g = measure(matrix, &page);
    double side = g.cell * matrix->n;
    ebb__svg_begin(&page, ctx, WIDTH, g.top + side + MARGIN, title, rules, 1);
    ebb__svg_words(&page, &(svg_words){MARGIN, 30, 17, .bold = true}, "%s", title);
    ebb__svg_words(&page, &(svg_words){MARGIN, 51, 12, .class = "muted"},
                   "a row for every class, a column for every class that was said");
    ebb__svg_rect(&page, g.left, g.top, side, side, "cells", 3);
    for (uint32_t row = 0; row < matrix->n; row++) {
        draw_row(&g, row);
    }
    ebb_status status = ebb__svg_end(&page, NULL, into);
    ebb__svg_free(&page);
    return status;
}
