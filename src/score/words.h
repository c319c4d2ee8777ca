/* words.h - lines as symbols: words between white space, or characters. White space is what
 * Python's str.split() takes for it; a line is well-formed UTF-8 and may hold NUL bytes. */
#ifndef SCORE_WORDS_H
#define SCORE_WORDS_H

#include "base/ctx.h"

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
/* Two lines as symbols, and the memory for it, which grows with the longest. Zeros to begin with.
 */
typedef struct score_symbols {
    uint32_t *hyp, *ref;
    size_t n, m;                        /* how many */
    size_t hyp_room, ref_room, n_slots; /* how many fit */
    word_slot *slots;
} score_symbols;

/* Words are numbered for this pair alone: those of the reference get numbers, and words that only
 * the hypothesis has never match. */
ebb_status ebb__score_words(ebb_ctx *ctx, score_symbols *symbols, const score_text *hyp,
                            const score_text *ref) EBB_MUST_CHECK;
/* Code points that are no white space. */
ebb_status ebb__score_characters(ebb_ctx *ctx, score_symbols *symbols, const score_text *hyp,
                                 const score_text *ref) EBB_MUST_CHECK;
void ebb__score_symbols_free(ebb_ctx *ctx, score_symbols *symbols);

#endif
