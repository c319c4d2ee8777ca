/* attention.c - what the words of translations attended to: a line of JSON a sentence, and a
 * picture of the first ones, a matrix each: a row for every word written, a column for every word
 * read. */
#include "page/attention.h"

#include "page/svg.h"
#include "data/vocab.h"
#include "decode/words.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

ebb_status ebb__attention_open(ebb_ctx *ctx, const char *path, int32_t wanted, attention_log *out) {
    *out = (attention_log){.ctx = ctx, .text = {.ctx = ctx}, .wanted = wanted};
    ebb__region_init(&out->region, ctx);
    if (path == NULL) {
        return EBB_OK;
    }
    char real[1024];
    TRY(ebb__file_follow(ctx, path, real));
    TRY(ebb__sink_open(ctx, real, &out->sink));
    out->to_file = true;
    return EBB_OK;
}

ebb_status ebb__attention_commit(attention_log *log) {
    return log->to_file ? ebb__sink_commit(&log->sink) : EBB_OK;
}

void ebb__attention_close(attention_log *log) {
    ebb__sink_close(&log->sink);
    ebb__region_fini(&log->region);
    ebb__page_text_fini(&log->text);
}

ebb_status ebb__attention_text(const char *bytes, size_t n, page_text *out) {
    for (size_t i = 0, step; i < n; i += step) {
        unsigned char first = (unsigned char)bytes[i];
        step = ebb__utf8_length((const unsigned char *)bytes + i, n - i);
        bool text = step > 0 && first >= ' ' && first != 0x7f;
        step = step > 0 ? step : 1;
        TRY(text ? ebb__page_put(out, "%.*s", (int)step, bytes + i)
                 : ebb__page_put(out, "\xef\xbf\xbd"));
    }
    return EBB_OK;
}

/* ---- JSON ---- */

/* A source or, with `of`, a translation. */
typedef struct side {
    const decode_result *result;
    const translate_hypothesis *of;
    int32_t n;
    bool ended; /* <eos> follows */
} side;

static ebb_status put_word(const side *s, int32_t i, page_text *out) {
    const decode_result *r = s->result;
    size_t n = 0;
    const char *word = s->of == NULL
                           ? ebb__vocab_token(r->source, (uint32_t)r->found->source[i], &n)
                       : i < s->n ? ebb__decode_word(r, s->of, i, &n)
                                  : ebb__vocab_token(r->target, VOCAB_EOS, &n);
    return ebb__attention_text(word, n, out);
}

static int32_t length_of(const side *s) {
    return s->n + s->ended;
}

static ebb_status put_words(attention_log *log, const char *key, const side *s) {
    page_text word = {.ctx = log->ctx};
    ebb_status status = ebb__page_put(&log->text, ",\"%s\":[", key);
    for (int32_t i = 0; status == EBB_OK && i < length_of(s); i++) {
        word.used = 0;
        TRY_OUT(ebb__page_put(&word, "%s", ""));
        TRY_OUT(put_word(s, i, &word));
        TRY_OUT(ebb__page_put(&log->text, i > 0 ? ",\"" : "\""));
        for (const char *at = word.bytes; *at != '\0'; at++) {
            TRY_OUT(ebb__page_put(&log->text, *at == '"' || *at == '\\' ? "\\%c" : "%c", *at));
        }
        TRY_OUT(ebb__page_put(&log->text, "\""));
    }
    if (status == EBB_OK) {
        status = ebb__page_put(&log->text, "]");
    }
out:
    ebb__page_text_fini(&word);
    return status;
}

static ebb_status put_json(attention_log *log, uint64_t line, const side *from, const side *to,
                           const float *weights) {
    page_text *text = &log->text;
    text->used = 0;
    TRY(ebb__page_put(text, "{\"line\":%" PRIu64, line));
    TRY(put_words(log, "source", from));
    TRY(put_words(log, "target", to));
    TRY(ebb__page_put(text, ",\"weights\":["));
    for (int32_t row = 0; row < length_of(to); row++) {
        for (int32_t i = 0; i < from->n; i++) {
            TRY(ebb__page_put(text, "%s%.6g",
                              i > 0     ? ","
                              : row > 0 ? ",["
                                        : "[",
                              (double)weights[(size_t)row * (size_t)from->n + (size_t)i]));
        }
        TRY(ebb__page_put(text, "]"));
    }
    TRY(ebb__page_put(text, "]}\n"));
    return ebb__sink_put(&log->sink, text->bytes, text->used);
}

/* ---- what is kept for the picture ---- */

static ebb_status keep_words(attention_log *log, const side *s, int32_t n, char ***out) {
    TRY(ebb__region_alloc(&log->region, (size_t)n, sizeof **out, out));
    for (int32_t i = 0; i < n; i++) {
        log->text.used = 0;
        TRY(ebb__page_put(&log->text, "%s", ""));
        TRY(put_word(s, i, &log->text));
        TRY(ebb__region_strdup(&log->region, log->text.bytes, &(*out)[i]));
    }
    return EBB_OK;
}

static int32_t at_most(int32_t n, int32_t most) {
    return n < most ? n : most;
}

static ebb_status keep(attention_log *log, uint64_t line, const side *from, const side *to,
                       const float *weights) {
    attention_matrix *m = &log->matrices[log->n_matrices];
    *m = (attention_matrix){.line = line,
                            .n_source = at_most(from->n, ATTENTION_SIDE),
                            .n_target = at_most(length_of(to), ATTENTION_SIDE)};
    TRY(keep_words(log, from, m->n_source, &m->source));
    TRY(keep_words(log, to, m->n_target, &m->target));
    TRY(ebb__region_alloc(&log->region, (size_t)m->n_target * (size_t)m->n_source,
                          sizeof *m->weights, &m->weights));
    for (int32_t row = 0; row < m->n_target; row++) {
        memcpy(m->weights + (size_t)row * (size_t)m->n_source,
               weights + (size_t)row * (size_t)from->n, (size_t)m->n_source * sizeof *weights);
    }
    log->n_matrices++;
    return EBB_OK;
}

ebb_status ebb__attention_add(attention_log *log, const decode_result *result) {
    const translate_result *found = result->found;
    const translate_hypothesis *best = &found->best[0];
    side from = {result, NULL, found->source_length, false};
    side to = {result, best, best->length, best->ended};
    if (found->source_length <= 1) { /* nothing was read, nothing written */
        to = (side){result, best, 0, false};
    }
    if (log->to_file) {
        TRY(put_json(log, result->line, &from, &to, best->attention));
    }
    return log->n_matrices < log->wanted && length_of(&to) > 0
               ? keep(log, result->line, &from, &to, best->attention)
               : EBB_OK;
}

/* ---- the picture ---- */

enum { WIDTH = 900, MARGIN = 24, GAP = 30, HEAD = 74, CELL = 25, LEAST_CELL = 7, LETTERS = 18 };
static const double tilt = -50; /* degrees, of the words along the top */

typedef struct panel {
    const attention_matrix *m;
    double x, y;                      /* of its corner */
    double cell, left, above, beside; /* words at the left, along the top, beyond the last column */
    double width, height;
} panel;

typedef struct word_text {
    char text[5 * LETTERS + 8];
} word_text;

/* A word, or its beginning. */
static word_text shorten(const char *word) {
    word_text out = {""};
    size_t used = 0;
    int letters = 0;
    while (word[used] != '\0' && letters < LETTERS) {
        used += ebb__utf8_length((const unsigned char *)word + used, 4);
        letters++;
    }
    (void)snprintf(out.text, sizeof out.text, "%.*s%s", (int)used, word,
                   word[used] != '\0' ? "\xe2\x80\xa6" : "");
    return out;
}

static double widest(char *const *words, int32_t n, double size) {
    double most = 0;
    for (int32_t i = 0; i < n; i++) {
        most = fmax(most, ebb__svg_text_width(shorten(words[i]).text, size));
    }
    return most;
}

static double font_of(const panel *p) {
    return fmin(12, 0.8 * p->cell + 2);
}

static panel measure(const attention_matrix *m) {
    panel p = {.m = m, .cell = CELL};
    double room = WIDTH - 2 * MARGIN, angle = -tilt * M_PI / 180;
    double along = widest(m->source, m->n_source, 12) + 8;
    p.left = fmax(widest(m->target, m->n_target, 12) + 10, 50);
    p.above = along * sin(angle) + 8;
    p.beside = fmax(0, along * cos(angle) - CELL / 2.0);
    p.cell = fmax(LEAST_CELL, fmin(CELL, (room - p.left - p.beside) / m->n_source));
    p.width = p.left + p.cell * m->n_source + p.beside;
    p.height = p.above + p.cell * m->n_target;
    return p;
}

/* From left to right, row by row; gives the height of all. Matrices of a row begin at one level. */
static double arrange(panel *panels, int32_t n) {
    double y = HEAD;
    for (int32_t first = 0, end; first < n; first = end) {
        double x = MARGIN, above = 0, below = 0;
        for (end = first; end < n && (end == first || x + panels[end].width <= WIDTH - MARGIN);
             end++) {
            panels[end].x = x;
            x += panels[end].width + GAP;
            above = fmax(above, panels[end].above);
            below = fmax(below, panels[end].height - panels[end].above);
        }
        for (int32_t i = first; i < end; i++) {
            panels[i].y = y + above - panels[i].above;
        }
        y += above + below + GAP;
    }
    return y;
}

static void draw_cell(svg_page *page, const panel *p, int32_t row, int32_t column) {
    const attention_matrix *m = p->m;
    double weight = (double)m->weights[(size_t)row * (size_t)m->n_source + (size_t)column];
    if (!(weight >= 0.005)) {
        return;
    }
    ebb__svg_put(page,
                 "<rect x=\"%.1f\" y=\"%.1f\" width=\"%.1f\" height=\"%.1f\" rx=\"2\" "
                 "class=\"ours\" fill-opacity=\"%.3f\"><title>",
                 p->x + p->left + column * p->cell + 0.5, p->y + p->above + row * p->cell + 0.5,
                 p->cell - 1, p->cell - 1, fmin(weight, 1));
    ebb__svg_escape(page, shorten(m->target[row]).text);
    ebb__svg_put(page, " from ");
    ebb__svg_escape(page, shorten(m->source[column]).text);
    ebb__svg_put(page, ": %.3f</title></rect>\n", weight);
}

static void draw_panel(svg_page *page, const panel *p) {
    const attention_matrix *m = p->m;
    double left = p->x + p->left, top = p->y + p->above, size = font_of(p);
    ebb__svg_words(page, &(svg_words){p->x, top - 8, 11, .class = "muted"}, "line %" PRIu64,
                   m->line);
    ebb__svg_rect(page, left, top, p->cell * m->n_source, p->cell * m->n_target, "cells", 3);
    for (int32_t i = 0; i < m->n_source; i++) {
        ebb__svg_words(page,
                       &(svg_words){left + (i + 0.5) * p->cell + 3, top - 7, size, .turn = tilt},
                       "%s", shorten(m->source[i]).text);
    }
    for (int32_t i = 0; i < m->n_target; i++) {
        ebb__svg_words(page,
                       &(svg_words){left - 8, top + (i + 0.5) * p->cell + 0.35 * size, size,
                                    .anchor = SVG_END},
                       "%s", shorten(m->target[i]).text);
        for (int32_t k = 0; k < m->n_source; k++) {
            draw_cell(page, p, i, k);
        }
    }
}

ebb_status ebb__attention_draw(attention_log *log, const char *path, page_text *into) {
    static const svg_colour slate = {0x5B6672, 0x8793A0};
    const svg_rule rules[] = {{"cells", ebb__svg_tint(slate, 0.1)}};
    panel panels[ATTENTION_PICTURES];
    svg_page page;
    for (int32_t i = 0; i < log->n_matrices; i++) {
        panels[i] = measure(&log->matrices[i]);
    }
    ebb__svg_begin(&page, log->ctx, WIDTH, arrange(panels, log->n_matrices),
                   "What each word attended to", rules, 1);
    ebb__svg_words(&page, &(svg_words){MARGIN, 30, 17, .bold = true}, "What each word attended to");
    ebb__svg_words(&page, &(svg_words){MARGIN, 51, 12, .class = "muted"}, "%s",
                   log->n_matrices > 0 ? "a row for every word written, a column for every word "
                                         "read; the stronger the colour, the more weight"
                                       : "there was nothing to translate");
    for (int32_t i = 0; i < log->n_matrices; i++) {
        draw_panel(&page, &panels[i]);
    }
    ebb_status status = ebb__svg_end(&page, path, into);
    ebb__svg_free(&page);
    return status;
}
