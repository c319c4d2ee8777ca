/* words.c - see words.h. */
#include "score/words.h"

#include "base/alloc.h"
#include "score/ngram.h"

#include <string.h>
#include <xxhash.h>

struct word_slot {
    const char *word; /* in the reference; NULL: free */
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
    ebb__free(ctx, symbols->hyp);
    ebb__free(ctx, symbols->ref);
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

static ebb_status characters(ebb_ctx *ctx, const score_text *line, uint32_t **symbols, size_t *n,
                             size_t *room) {
    *n = 0;
    TRY(grow(ctx, *symbols, room, line->used, sizeof **symbols, symbols));
    for (size_t at = 0, bytes = 0; at < line->used; at += bytes) {
        uint32_t code = code_point(line->bytes + at, &bytes);
        (*symbols)[*n] = code;
        *n += !is_space(code);
    }
    return EBB_OK;
}

ebb_status ebb__score_characters(ebb_ctx *ctx, score_symbols *symbols, const score_text *hyp,
                                 const score_text *ref) {
    TRY(characters(ctx, hyp, &symbols->hyp, &symbols->n, &symbols->hyp_room));
    return characters(ctx, ref, &symbols->ref, &symbols->m, &symbols->ref_room);
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

ebb_status ebb__score_words(ebb_ctx *ctx, score_symbols *symbols, const score_text *hyp,
                            const score_text *ref) {
    const char *word;
    size_t bytes, at = 0, slots = 2;
    uint32_t numbers = 0;
    symbols->n = count_words(hyp);
    symbols->m = count_words(ref);
    while (slots < 2 * symbols->m) {
        slots *= 2;
    }
    TRY(grow(ctx, symbols->hyp, &symbols->hyp_room, symbols->n, sizeof *symbols->hyp,
             &symbols->hyp));
    TRY(grow(ctx, symbols->ref, &symbols->ref_room, symbols->m, sizeof *symbols->ref,
             &symbols->ref));
    TRY(grow(ctx, symbols->slots, &symbols->n_slots, slots, sizeof *symbols->slots,
             &symbols->slots));
    memset(symbols->slots, 0, slots * sizeof *symbols->slots);
    for (size_t i = 0; next_word(ref, &at, &word, &bytes); i++) {
        word_slot *slot = find_word(symbols->slots, slots - 1, word, bytes);
        if (slot->word == NULL) {
            *slot = (word_slot){word, bytes, numbers++};
        }
        symbols->ref[i] = slot->symbol;
    }
    at = 0;
    for (size_t i = 0; next_word(hyp, &at, &word, &bytes); i++) {
        const word_slot *slot = find_word(symbols->slots, slots - 1, word, bytes);
        symbols->hyp[i] = slot->word != NULL ? slot->symbol : NGRAM_NEVER;
    }
    return EBB_OK;
}
