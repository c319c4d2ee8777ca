/* codes_words.h - a text as codes are learnt from it and applied to it: words, and what is between
 * them, as subword-nmt has both.
 *
 * Words are parted by spaces and line ends alone (a tab is a letter like others). A line ends with
 * \n or \r, or behind one of the characters that Python's splitlines knows beside these (\v \f, 1c
 * to 1e, U+0085, U+2028, U+2029), which belongs to the word before it. Any bytes will do. */
#ifndef DATA_CODES_WORDS_H
#define DATA_CODES_WORDS_H

#include "data/source.h"

#include "data/codes.h"

typedef enum words_kind {
    WORDS_END,
    WORDS_WORD,
    WORDS_SPACES, /* `count` of them */
    WORDS_BREAK,  /* a byte that ends a line */
    WORDS_PAUSE   /* a stream has no more at the moment */
} words_kind;

typedef struct words_item {
    words_kind kind;
    const char *bytes; /* of a word; valid until the next call */
    uint32_t length;
    uint64_t count;
    char byte;   /* of a break */
    bool closes; /* a word that ends its line */
} words_item;

typedef struct words_reader {
    data_source source;
    bool stream; /* standard input, or another that is read as it comes */
    char *buffer;
    size_t cursor, end;
    bool ended, pending; /* pending: something was given since the last pause */
    uint64_t line;       /* from 1, as editors count: only \n */
} words_reader;

/* `path` "-" is standard input. */
ebb_status ebb__words_open(ebb_ctx *ctx, const char *path, const char *phase,
                           words_reader *out) EBB_MUST_CHECK;
/* EBB_DATA for a word of more than TEXT_TOKEN_LIMIT bytes. */
ebb_status ebb__words_next(words_reader *reader, words_item *out) EBB_MUST_CHECK;
void ebb__words_close(words_reader *reader);

/* ---- counting ---- */

/* Words and how often they occur, in the order of their first occurrence. */
typedef struct words_count {
    uint64_t count;
    uint32_t offset, length;
} words_count;
typedef struct words_list {
    ebb_ctx *ctx;
    alloc_region region;
    words_count *words;
    char *pool;
    uint32_t *table; /* word + 1; 0 = free */
    size_t n, pool_bytes, words_room, pool_room, table_room;
    uint32_t mask;
    uint64_t most; /* bytes; EBB_BUDGET above; 0: no bound */
} words_list;

void ebb__words_list_init(ebb_ctx *ctx, uint64_t most, words_list *out);
ebb_status ebb__words_list_add(words_list *list, const char *word, size_t length) EBB_MUST_CHECK;
void ebb__words_list_free(words_list *list);
/* All words of a text. */
ebb_status ebb__words_list_read(words_list *list, const char *path) EBB_MUST_CHECK;

/* ---- codes_learn.c ---- */

/* The `n` pairs that are most frequent one after the other, or as many as occur at least twice.
 * EBB_BUDGET if that takes more than `most` bytes beside the list (0: no bound). */
ebb_status ebb__codes_learn(const words_list *words, uint64_t n, uint64_t most,
                            data_codes *out) EBB_MUST_CHECK;

/* ---- codes_apply.c ---- */

/* The text `from` with its words cut, as `to`; "-" are the standard streams. Codes of bytes: a line
 * of pieces, written with letters, or of the numbers that `ids` has for them. */
struct gpt2_ids;
typedef struct codes_applied {
    uint64_t words, pieces, bytes;
} codes_applied;
ebb_status ebb__codes_apply(const data_codes *codes, const struct gpt2_ids *ids, const char *from,
                            const char *to, codes_applied *out) EBB_MUST_CHECK;

#endif
