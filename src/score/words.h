/* words.h - lines as symbols: words between white space, or characters. White space is what
 * Python's str.split() takes for it; a line is well-formed UTF-8 and may hold NUL bytes. */
#ifndef SCORE_WORDS_H
#define SCORE_WORDS_H

#include "score/ngram.h"

/* Bytes that grow; free with ebb__score_text_free. */
typedef struct score_text {
    char *bytes;
    size_t used, capacity;
} score_text;
/* Makes room for `capacity` bytes in all; those in use stay. */
ebb_status ebb__score_reserve(ebb_ctx *ctx, score_text *text, size_t capacity) EBB_MUST_CHECK;
void ebb__score_text_free(ebb_ctx *ctx, score_text *text);

/* Bytes of the white-space character that starts here; 0 if there is none. */
size_t ebb__score_space(const char *at, size_t available);
/* Bytes of the line without the white space at its end. */
size_t ebb__score_strip(const char *line, size_t bytes);

typedef struct word_slot word_slot;
/* A line and its references as symbols, and the memory for it, which grows with the longest. Zeros
 * to begin with. */
typedef struct score_symbols {
    ngram_text hyp, *refs;
    uint32_t *all;                       /* symbols of the hypothesis, then of each reference */
    size_t all_room, refs_room, n_slots; /* how many fit */
    word_slot *slots;
} score_symbols;

/* lines[0] is the hypothesis, its `n_refs` references follow. Words are numbered for these alone:
 * those of the references get numbers, and words that only the hypothesis has never match. */
ebb_status ebb__score_words(ebb_ctx *ctx, score_symbols *symbols, const score_text *const *lines,
                            size_t n_refs) EBB_MUST_CHECK;
/* Code points that are no white space. */
ebb_status ebb__score_characters(ebb_ctx *ctx, score_symbols *symbols,
                                 const score_text *const *lines, size_t n_refs) EBB_MUST_CHECK;
void ebb__score_symbols_free(ebb_ctx *ctx, score_symbols *symbols);

#endif
