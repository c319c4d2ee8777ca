/* words.c - see words.h. */
#include "score/words.h"

#include "base/alloc.h"

#include <string.h>
#include <xxhash.h>

struct word_slot {
    const char *word; /* in a reference; NULL: free */
    size_t bytes;
    uint32_t symbol;
};

/* ---- memory ---- */

/* Room for `need` items, and a block also for none. */
static ebb_status grow(ebb_ctx *ctx, void *block, size_t *room, size_t need, size_t size,
                       void *out) {
    if (block != NULL && need <= *room) {
        return EBB_OK;
    }
    size_t more = *room < need - *room ? need : *room * 2;
    TRY(ebb__realloc(ctx, block, more, size, out));
    *room = more;
    return EBB_OK;
}

ebb_status ebb__score_reserve(ebb_ctx *ctx, score_text *text, size_t capacity) {
    return grow(ctx, text->bytes, &text->capacity, capacity, 1, &text->bytes);
}

void ebb__score_text_free(ebb_ctx *ctx, score_text *text) {
    ebb__free(ctx, text->bytes);
    *text = (score_text){0};
}

void ebb__score_symbols_free(ebb_ctx *ctx, score_symbols *symbols) {
    ebb__free(ctx, symbols->all);
    ebb__free(ctx, symbols->refs);
    ebb__free(ctx, symbols->slots);
    *symbols = (score_symbols){0};
}

/* ---- characters ---- */

/* The code point that starts here, in well-formed UTF-8, and its bytes. */
static uint32_t code_point(const char *at, size_t *bytes) {
    const unsigned char *u = (const unsigned char *)at;
    if (u[0] < 0x80) {
        *bytes = 1;
        return u[0];
    }
    *bytes = u[0] >= 0xf0 ? 4 : u[0] >= 0xe0 ? 3 : 2;
    uint32_t code = u[0] & (0xffU >> (*bytes + 1));
    for (size_t i = 1; i < *bytes; i++) {
        code = code << 6 | (u[i] & 0x3fU);
    }
    return code;
}

static bool is_space(uint32_t code) {
    return (code >= 0x09 && code <= 0x0d) || (code >= 0x1c && code <= 0x20) || code == 0x85 ||
           code == 0xa0 || code == 0x1680 || (code >= 0x2000 && code <= 0x200a) || code == 0x2028 ||
           code == 0x2029 || code == 0x202f || code == 0x205f || code == 0x3000;
}

size_t ebb__score_space(const char *at, size_t available) {
    size_t bytes = 0;
    return available > 0 && is_space(code_point(at, &bytes)) ? bytes : 0;
}

size_t ebb__score_strip(const char *line, size_t bytes) {
    while (bytes > 0) {
        size_t last = 1;
        while (last < bytes && ((unsigned char)line[bytes - last] & 0xc0U) == 0x80U) {
            last++;
        }
        if (ebb__score_space(line + bytes - last, last) == 0) {
            break;
        }
        bytes -= last;
    }
    return bytes;
}

/* Room for so many symbols of all lines together. */
static ebb_status lay_out(ebb_ctx *ctx, score_symbols *s, size_t symbols, size_t n_refs) {
    TRY(grow(ctx, s->all, &s->all_room, symbols, sizeof *s->all, &s->all));
    return grow(ctx, s->refs, &s->refs_room, n_refs, sizeof *s->refs, &s->refs);
}

/* Line i of the lines are these symbols. */
static void set_line(score_symbols *s, size_t i, const uint32_t *at, size_t n) {
    *(i == 0 ? &s->hyp : &s->refs[i - 1]) = (ngram_text){at, n};
}

ebb_status ebb__score_characters(ebb_ctx *ctx, score_symbols *symbols,
                                 const score_text *const *lines, size_t n_refs) {
    size_t bytes = 0;
    for (size_t i = 0; i <= n_refs; i++) {
        bytes += lines[i]->used;
    }
    TRY(lay_out(ctx, symbols, bytes, n_refs));
    uint32_t *to = symbols->all;
    for (size_t i = 0; i <= n_refs; i++) {
        size_t n = 0;
        for (size_t at = 0, length = 0; at < lines[i]->used; at += length) {
            uint32_t code = code_point(lines[i]->bytes + at, &length);
            to[n] = code;
            n += !is_space(code);
        }
        set_line(symbols, i, to, n);
        to += n;
    }
    return EBB_OK;
}

/* ---- words ---- */

/* The next word from *at on; false if there is none. Leaves *at behind it. */
static bool next_word(const score_text *line, size_t *at, const char **word, size_t *bytes) {
    size_t length = 0;
    while (*at < line->used) {
        size_t space = ebb__score_space(line->bytes + *at, line->used - *at);
        if (space == 0) {
            break;
        }
        *at += space;
    }
    *word = line->bytes + *at;
    while (*at < line->used && !is_space(code_point(line->bytes + *at, &length))) {
        *at += length;
    }
    *bytes = (size_t)(line->bytes + *at - *word);
    return *bytes > 0;
}

static size_t count_words(const score_text *line) {
    size_t at = 0, n = 0, bytes;
    for (const char *word; next_word(line, &at, &word, &bytes);) {
        n++;
    }
    return n;
}

/* The slot of the word, or the free one where it belongs. */
static word_slot *find_word(const word_slot *slots, size_t mask, const char *word, size_t bytes) {
    size_t at = (size_t)XXH3_64bits(word, bytes) & mask;
    while (slots[at].word != NULL &&
           (slots[at].bytes != bytes || memcmp(slots[at].word, word, bytes) != 0)) {
        at = (at + 1) & mask;
    }
    return (word_slot *)&slots[at];
}

/* Words of a line as numbers; of a reference, those that have none yet get one. */
static size_t number_words(score_symbols *s, size_t mask, const score_text *line, uint32_t *numbers,
                           uint32_t *to) {
    const char *word;
    size_t bytes, at = 0, n = 0;
    for (; next_word(line, &at, &word, &bytes); n++) {
        word_slot *slot = find_word(s->slots, mask, word, bytes);
        if (slot->word == NULL && numbers != NULL) {
            *slot = (word_slot){word, bytes, (*numbers)++};
        }
        to[n] = slot->word != NULL ? slot->symbol : NGRAM_NEVER;
    }
    return n;
}

ebb_status ebb__score_words(ebb_ctx *ctx, score_symbols *symbols, const score_text *const *lines,
                            size_t n_refs) {
    size_t slots = 2, own = count_words(lines[0]), others = 0;
    uint32_t numbers = 0;
    for (size_t i = 1; i <= n_refs; i++) {
        others += count_words(lines[i]);
    }
    while (slots < 2 * others) {
        slots *= 2;
    }
    TRY(lay_out(ctx, symbols, own + others, n_refs));
    TRY(grow(ctx, symbols->slots, &symbols->n_slots, slots, sizeof *symbols->slots,
             &symbols->slots));
    memset(symbols->slots, 0, slots * sizeof *symbols->slots);
    uint32_t *to = symbols->all + own;
    for (size_t i = 1; i <= n_refs; i++) {
        size_t n = number_words(symbols, slots - 1, lines[i], &numbers, to);
        set_line(symbols, i, to, n);
        to += n;
    }
    set_line(symbols, 0, symbols->all,
             number_words(symbols, slots - 1, lines[0], NULL, symbols->all));
    return EBB_OK;
}
