/* svg.c - SVG text: style sheet, words, lines, axes, and the file. */
#include "page/svg.h"

#include "data/text.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

/* Okabe and Ito's, made fit for areas; neighbours in the list differ most. */
const svg_colour ebb__svg_hues[SVG_HUES] = {
    {0x0072B2, 0x3B93D0}, {0xD9822B, 0xD98A45}, {0x00866A, 0x2FA883}, {0xB0609A, 0xBF7BAE},
    {0xC4A90E, 0xC4AF3C}, {0x7A5230, 0xA87E58}, {0xB5442A, 0xCB6650}, {0x6B5FB5, 0x8D83D6}};

static const svg_colour ground = {0xFFFFFF, 0x0D1117};

static uint32_t mix(uint32_t colour, uint32_t under, double share) {
    uint32_t out = 0;
    for (int shift = 0; shift < 24; shift += 8) {
        double a = (double)(colour >> shift & 0xFF), b = (double)(under >> shift & 0xFF);
        out |= (uint32_t)lround(share * a + (1 - share) * b) << shift;
    }
    return out;
}

svg_colour ebb__svg_tint(svg_colour colour, double share) {
    return (svg_colour){mix(colour.light, ground.light, share),
                        mix(colour.dark, ground.dark, share)};
}

static void keep_failure(svg_page *page, ebb_status status) {
    page->status = page->status == EBB_OK ? status : page->status;
}

void ebb__svg_put(svg_page *page, const char *format, ...) {
    char part[512];
    va_list args;
    va_start(args, format);
    int n = vsnprintf(part, sizeof part, format, args);
    va_end(args);
    if (n < 0 || (size_t)n >= sizeof part) {
        keep_failure(page,
                     ebb__fail(page->text.ctx, EBB_INTERNAL, "a part of a picture is too long"));
        return;
    }
    keep_failure(page, ebb__page_put(&page->text, "%s", part));
}

/* Bytes of the first character of a text; 0: no document may hold it, written in whatever way, and
 * one that does is not shown at all. */
static size_t character(const char *text) {
    size_t n = ebb__utf8_length((const unsigned char *)text, strnlen(text, 4));
    bool control = (unsigned char)*text < ' ' && strchr("\t\n\r", *text) == NULL;
    bool none =
        n == 3 && (memcmp(text, "\xef\xbf\xbe", 3) == 0 || memcmp(text, "\xef\xbf\xbf", 3) == 0);
    return control || none ? 0 : n;
}

ebb_status ebb__svg_escape_text(page_text *to, const char *text) {
    while (*text != '\0') {
        size_t plain = 0, n = 1;
        while (n > 0 && text[plain] != '\0' && strchr("<>&\"", text[plain]) == NULL) {
            n = character(text + plain);
            plain += n;
        }
        TRY(ebb__page_put(to, "%.*s", (int)plain, text));
        text += plain;
        if (n == 0) {
            TRY(ebb__page_put(to, "\xef\xbf\xbd")); /* the sign for what cannot be shown */
            text += ebb__utf8_length((const unsigned char *)text, strnlen(text, 4)) == 3 ? 3 : 1;
        } else if (*text != '\0') {
            TRY(ebb__page_put(to, "&#%d;", *text++));
        }
    }
    return EBB_OK;
}

void ebb__svg_escape(svg_page *page, const char *text) {
    keep_failure(page, ebb__svg_escape_text(&page->text, text));
}

/* ---- the page ---- */

/* Of this picture alone: on a page, a notebook's say, rules hold for whatever else is drawn there.
 */
#define OWN_CLASS "ebb-picture"

static void put_rules(svg_page *page, bool dark, const svg_rule *rules, int32_t n) {
    static const svg_rule own[] = {{"ink", {0x1F2328, 0xE6EDF3}},  {"muted", {0x59636E, 0x9AA4AE}},
                                   {"grid", {0xE4E8EC, 0x262C34}}, {"edge", {0xFFFFFF, 0x0D1117}},
                                   {"warn", {0xC24E00, 0xF28E4B}}, {"ours", {0x0072B2, 0x4DB2F0}}};
    enum { OWN = sizeof own / sizeof *own };
    uint32_t under = dark ? ground.dark : ground.light;
    ebb__svg_put(page, "." OWN_CLASS " .ground{fill:#%06x}." OWN_CLASS " .halo{stroke:#%06x}",
                 under, under);
    for (int32_t i = 0; i < OWN + n; i++) {
        const svg_rule *rule = i < OWN ? &own[i] : &rules[i - OWN];
        uint32_t colour = dark ? rule->colour.dark : rule->colour.light;
        ebb__svg_put(
            page, "." OWN_CLASS " .%s{fill:#%06x}." OWN_CLASS " .%s-line{stroke:#%06x;fill:none}",
            rule->name, colour, rule->name, colour);
    }
}

void ebb__svg_begin(svg_page *page, ebb_ctx *ctx, double width, double height, const char *title,
                    const svg_rule *rules, int32_t n_rules) {
    *page = (svg_page){.text = {.ctx = ctx}, .width = width, .height = height};
    ebb__svg_put(page,
                 "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 %g %g\" width=\"%g\" "
                 "height=\"%g\" role=\"img\" class=\"" OWN_CLASS "\">\n<title>",
                 width, height, width, height);
    ebb__svg_escape(page, title);
    ebb__svg_put(page, "</title>\n<style>." OWN_CLASS " text{font-family:system-ui,-apple-system,"
                       "'Segoe UI',Roboto,'DejaVu Sans',sans-serif}." OWN_CLASS
                       " .halo{paint-order:stroke;stroke-width:4;stroke-linejoin:round}");
    put_rules(page, false, rules, n_rules);
    ebb__svg_put(page, "\n@media (prefers-color-scheme:dark){");
    put_rules(page, true, rules, n_rules);
    ebb__svg_put(page, "}</style>\n<rect class=\"ground\" width=\"%g\" height=\"%g\"/>\n", width,
                 height);
}

ebb_status ebb__svg_end(svg_page *page, const char *path, page_text *into) {
    ebb__svg_put(page, "</svg>\n");
    TRY(page->status);
    return into != NULL ? ebb__page_put(into, "%s", page->text.bytes)
                        : ebb__page_save(&page->text, path);
}

void ebb__svg_free(svg_page *page) {
    ebb__page_text_fini(&page->text);
}

/* ---- parts ---- */

void ebb__svg_words(svg_page *page, const svg_words *at, const char *format, ...) {
    static const char *const anchors[] = {"start", "middle", "end"};
    char words[256];
    va_list args;
    va_start(args, format);
    (void)vsnprintf(words, sizeof words, format, args);
    va_end(args);
    ebb__svg_put(page,
                 "<text x=\"%.1f\" y=\"%.1f\" font-size=\"%g\" text-anchor=\"%s\" class=\"%s%s\"%s",
                 at->x, at->y, at->size, anchors[at->anchor], at->class != NULL ? at->class : "ink",
                 at->halo ? " halo" : "", at->bold ? " font-weight=\"600\"" : "");
    if (at->turn != 0) {
        ebb__svg_put(page, " transform=\"rotate(%g %.1f %.1f)\"", at->turn, at->x, at->y);
    }
    ebb__svg_put(page, ">");
    ebb__svg_escape(page, words);
    ebb__svg_put(page, "</text>\n");
}

void ebb__svg_line(svg_page *page, double x1, double y1, double x2, double y2, const char *class,
                   double width, const char *dash) {
    ebb__svg_put(page, "<path d=\"M%.1f %.1fL%.1f %.1f\" class=\"%s-line\" stroke-width=\"%g\"", x1,
                 y1, x2, y2, class, width);
    if (dash != NULL) {
        ebb__svg_put(page, " stroke-dasharray=\"%s\"", dash);
    }
    ebb__svg_put(page, "/>\n");
}

void ebb__svg_rect(svg_page *page, double x, double y, double width, double height,
                   const char *class, double radius) {
    ebb__svg_put(page,
                 "<rect x=\"%.1f\" y=\"%.1f\" width=\"%.1f\" height=\"%.1f\" rx=\"%g\" "
                 "class=\"%s\"/>\n",
                 x, y, width, height, radius, class);
}

void ebb__svg_dot(svg_page *page, double x, double y, double radius, const char *class) {
    ebb__svg_put(page,
                 "<circle cx=\"%.1f\" cy=\"%.1f\" r=\"%g\" class=\"ground\"/>"
                 "<circle cx=\"%.1f\" cy=\"%.1f\" r=\"%g\" class=\"%s\"/>\n",
                 x, y, radius + 1.5, x, y, radius, class);
}

double ebb__svg_text_width(const char *text, double size) {
    int points = 0;
    for (; *text != '\0'; text++) {
        points += ((unsigned char)*text & 0xC0) != 0x80; /* not in the middle of one */
    }
    return 0.55 * size * points;
}

/* ---- axes ---- */

svg_axis ebb__svg_axis(double low, double high, int wanted, bool bytes) {
    double rough = (high - low) / wanted, step;
    if (bytes) {
        step = exp2(round(log2(rough > 1 ? rough : 1)));
    } else {
        double ten = pow(10, floor(log10(rough)));
        step = rough <= ten       ? ten
               : rough <= 2 * ten ? 2 * ten
               : rough <= 5 * ten ? 5 * ten
                                  : 10 * ten;
    }
    return (svg_axis){floor(low / step + 1e-9) * step, ceil(high / step - 1e-9) * step, step};
}

svg_label ebb__svg_bytes(double bytes) {
    static const char *const units[] = {"B", "KiB", "MiB", "GiB", "TiB", "PiB"};
    svg_label out;
    int unit = 0;
    while (bytes >= 1024 && unit < 5) {
        bytes /= 1024;
        unit++;
    }
    (void)snprintf(out.text, sizeof out.text, "%.4g %s", bytes, units[unit]);
    return out;
}

svg_label ebb__svg_seconds(double seconds, double step) {
    svg_label out;
    double unit = seconds < 0.9995 ? 1e3 : 1;
    int digits = 0;
    if (step <= 0) {
        step = unit * seconds >= 100 ? 1 / unit : unit * seconds >= 10 ? 0.1 / unit : 0.01 / unit;
    }
    while (digits < 6 && fabs(unit * step - round(unit * step * pow(10, digits)) /
                                                pow(10, digits)) > 1e-6 * unit * step) {
        digits++;
    }
    (void)snprintf(out.text, sizeof out.text, "%.*f %s", digits, unit * seconds,
                   unit > 1 ? "ms" : "s");
    return out;
}

svg_label ebb__svg_count(int64_t n) {
    svg_label out = {""};
    char digits[24];
    int length = snprintf(digits, sizeof digits, "%lld", (long long)n), used = 0;
    for (int i = 0; i < length; i++) {
        if (i > 0 && (length - i) % 3 == 0) {
            out.text[used++] = ',';
        }
        out.text[used++] = digits[i];
    }
    return out;
}
