/* tok13a.c - see tok13a.h.
 *
 * sacreBLEU replaces texts one after the other, then applies four regular expressions, each to the
 * result of the one before. The replacements never lengthen a line and are done in place. Each
 * expression looks at two neighbours at most, so that all run at once: a character goes through
 * four stages, and a stage holds one back until it has seen the next. What an expression has
 * matched is not looked at again, which is why a stage holds nothing after a match.
 *
 * Bytes will do for characters: all that is looked for is ASCII, and "not a digit" is as true of
 * the nearest byte of a longer character as of the character. */
#include "score/tok13a.h"

#include "base/alloc.h"

#include <string.h>

/* In this order. */
static const struct {
    const char *from, *to;
} replacements[] = {{"<skipped>", ""}, {"-\n", ""},   {"\n", " "},  {"&quot;", "\""},
                    {"&amp;", "&"},    {"&lt;", "<"}, {"&gt;", ">"}};

static size_t replace_all(char *text, size_t bytes, const char *from, const char *to) {
    size_t from_bytes = strlen(from), to_bytes = strlen(to), kept = 0, at = 0;
    while (at < bytes) {
        if (text[at] == from[0] && bytes - at >= from_bytes &&
            memcmp(text + at, from, from_bytes) == 0) {
            memcpy(text + kept, to, to_bytes);
            kept += to_bytes;
            at += from_bytes;
        } else {
            text[kept++] = text[at++];
        }
    }
    return kept;
}

enum { STAGE_SYMBOL, STAGE_AFTER, STAGE_BEFORE, STAGE_DASH, STAGES };

typedef struct tok_state {
    char held[STAGES];
    bool holds[STAGES];
    score_text *out; /* has room */
} tok_state;

static bool is_digit(char c) {
    return c >= '0' && c <= '9';
}

static bool is_point(char c) {
    return c == '.' || c == ',';
}

/* [\{-\~\[-\` -\&\(-\+\:-\@\/] */
static bool is_symbol(char c) {
    return (c >= '{' && c <= '~') || (c >= '[' && c <= '`') || (c >= ' ' && c <= '&') ||
           (c >= '(' && c <= '+') || (c >= ':' && c <= '@') || c == '/';
}

/* What separates two neighbours at a stage: ([^0-9])([\.,]) and ([0-9])(-) become "\1 \2 ",
 * ([\.,])([^0-9]) becomes " \1 \2". */
static bool splits(int stage, char first, char second) {
    return stage == STAGE_AFTER    ? !is_digit(first) && is_point(second)
           : stage == STAGE_BEFORE ? is_point(first) && !is_digit(second)
                                   : is_digit(first) && second == '-';
}

static void put(tok_state *t, int stage, char c) {
    if (stage == STAGES) {
        t->out->bytes[t->out->used++] = c;
    } else if (stage == STAGE_SYMBOL) {
        const char spaced[] = {' ', c, ' '};
        for (int i = is_symbol(c) ? 0 : 1; i < (is_symbol(c) ? 3 : 2); i++) {
            put(t, stage + 1, spaced[i]);
        }
    } else if (!t->holds[stage]) {
        t->held[stage] = c;
        t->holds[stage] = true;
    } else if (!splits(stage, t->held[stage], c)) {
        put(t, stage + 1, t->held[stage]);
        t->held[stage] = c;
    } else {
        char first = t->held[stage];
        const char before[] = {' ', first, ' ', c}, after[] = {first, ' ', c, ' '};
        t->holds[stage] = false;
        for (int i = 0; i < 4; i++) {
            put(t, stage + 1, stage == STAGE_BEFORE ? before[i] : after[i]);
        }
    }
}

ebb_status ebb__tok13a(ebb_ctx *ctx, const char *line, size_t bytes, score_text *out) {
    /* At most four spaces a character, around a point; then the copy that is replaced in. */
    size_t padded = 0, most = 0;
    if (!ebb__add_size(bytes, 2, &padded) || !ebb__mul_size(padded, 6, &most)) {
        return ebb__fail(ctx, EBB_NOMEM, "a line of %zu bytes is too long to split", bytes);
    }
    out->used = 0;
    TRY(ebb__score_reserve(ctx, out, most));
    char *copy = out->bytes + 5 * padded;
    memcpy(copy, line, bytes);
    for (size_t i = 0; i < sizeof replacements / sizeof *replacements; i++) {
        bytes = replace_all(copy, bytes, replacements[i].from, replacements[i].to);
    }
    tok_state t = {.out = out};
    put(&t, STAGE_SYMBOL, ' ');
    for (size_t i = 0; i < bytes; i++) {
        put(&t, STAGE_SYMBOL, copy[i]);
    }
    put(&t, STAGE_SYMBOL, ' ');
    for (int stage = STAGE_AFTER; stage < STAGES; stage++) {
        if (t.holds[stage]) {
            put(&t, stage + 1, t.held[stage]);
        }
    }
    return EBB_OK;
}
