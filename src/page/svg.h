/* svg.h - a picture as SVG text: self-contained, told apart with any colour vision, following the
 * reader's light or dark scheme. The look is that of bench/chart.py.
 *
 * Drawing never fails at the spot: the first failure is kept, and ebb__svg_end reports it.
 * Classes: ground, ink, muted (fills); grid, axis, edge (strokes); what a picture adds itself. */
#ifndef PAGE_SVG_H
#define PAGE_SVG_H

#include "page/text.h"

typedef struct svg_page {
    page_text text;
    ebb_status status;
    double width, height;
} svg_page;

typedef enum svg_anchor { SVG_START, SVG_MIDDLE, SVG_END } svg_anchor;

/* A class of its own: a fill and a stroke colour, in the light scheme and in the dark one. */
typedef struct svg_colour {
    uint32_t light, dark; /* 0xRRGGBB */
} svg_colour;
/* `share` of the colour on the ground: 1 is the colour itself. */
svg_colour ebb__svg_tint(svg_colour colour, double share);
extern const svg_colour ebb__svg_hues[];
enum { SVG_HUES = 8 };

/* Rules that a picture adds to the style sheet: .NAME for fills, .NAME-line for strokes. */
typedef struct svg_rule {
    char name[12];
    svg_colour colour;
} svg_rule;

/* Free with ebb__svg_free, whatever became of it. */
void ebb__svg_begin(svg_page *page, ebb_ctx *ctx, double width, double height, const char *title,
                    const svg_rule *rules, int32_t n_rules);
/* As it stands; numbers and markup only. */
void ebb__svg_put(svg_page *page, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* Text that is escaped; the same for any text of markup. */
void ebb__svg_escape(svg_page *page, const char *text);
ebb_status ebb__svg_escape_text(page_text *to, const char *text) EBB_MUST_CHECK;

typedef struct svg_words {
    double x, y, size;
    svg_anchor anchor;
    const char *class; /* NULL: ink */
    bool bold, halo;   /* halo: readable across lines */
    double turn;       /* degrees, clockwise, around x, y */
} svg_words;
void ebb__svg_words(svg_page *page, const svg_words *at, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
void ebb__svg_line(svg_page *page, double x1, double y1, double x2, double y2, const char *class,
                   double width, const char *dash);
void ebb__svg_rect(svg_page *page, double x, double y, double width, double height,
                   const char *class, double radius);
/* A disc with a rim of the ground's colour, so that it stands out on lines and areas. */
void ebb__svg_dot(svg_page *page, double x, double y, double radius, const char *class);

/* About how wide UTF-8 text is, in pixels: enough to keep labels apart. */
double ebb__svg_text_width(const char *text, double size);

/* Ends the picture and appends it to `into` or, where that is NULL, writes it to the file `path`,
 * replacing what is there. */
ebb_status ebb__svg_end(svg_page *page, const char *path, page_text *into) EBB_MUST_CHECK;
void ebb__svg_free(svg_page *page);

/* ---- axes ---- */

/* Values with an equal, round distance: from the last at or below `low` to the first at or above
 * `high`, about `wanted` steps. Bytes are round in powers of two. */
typedef struct svg_axis {
    double low, high, step;
} svg_axis;
svg_axis ebb__svg_axis(double low, double high, int wanted, bool bytes);

typedef struct svg_label {
    char text[32];
} svg_label;
svg_label ebb__svg_bytes(double bytes); /* "96 MiB", "1.5 GiB" */
svg_label ebb__svg_seconds(double seconds,
                           double step); /* "12.5 ms": digits for that step; 0: three */
svg_label ebb__svg_count(int64_t n);     /* "12,345" */

#endif
