/* text.h - a text file as a stream of tokens, through one buffer of 64 KiB.
 *
 *   mode   token                          line end
 *   word   run of bytes that are not      every line gives <eos>, an empty one and an
 *          ASCII white space              unfinished last one too
 *   char   one Unicode code point         the same; a carriage return before the newline is
 *          (strict UTF-8)                 part of the line end, not a character
 *   bpe    piece of a word, cut by        the same as of words
 *          codes (codes.h); one that     (with codes of bytes \r before \n is part of the line
 *          its word goes on after ends   end, and all other white space is in the pieces)
 *          in @@
 *   byte   one byte, nothing added or     the newline byte is <eos>; an unfinished last line
 *          left out: tokens = bytes       has none
 *
 * Texts but those of bytes may start with a UTF-8 byte order mark, which is skipped, and may not
 * hold NUL bytes. The word "<unk>" is the unknown token and the word "<eos>" the same as a line
 * end; that follows from the vocabulary, not from here. */
#ifndef DATA_TEXT_H
#define DATA_TEXT_H

#include "data/source.h"

typedef enum text_mode { TEXT_WORD, TEXT_CHAR, TEXT_BPE, TEXT_BYTE } text_mode;
struct data_codes;
struct codes_cutter;

enum {
    TEXT_BUFFER_BYTES = 65536,
    TEXT_TOKEN_LIMIT = TEXT_BUFFER_BYTES - 1, /* a longer word is EBB_DATA */
};

typedef enum text_kind { TEXT_END, TEXT_EOS, TEXT_TOKEN } text_kind;

typedef struct text_token {
    text_kind kind;
    uint32_t length;   /* of a TEXT_TOKEN: at least 1 */
    const char *bytes; /* valid until the next call; not NUL-terminated */
} text_token;

typedef struct text_reader {
    data_source source;
    text_mode mode;
    unsigned char *buffer;
    size_t cursor, end; /* unread bytes of the buffer */
    bool ended;         /* the source has no more */
    bool line_open;     /* something was read since the last line end */
    bool word_open;     /* the last byte was not white space (char, byte) */
    /* What has been read so far. A word is a white-space word or a line end, in every mode. */
    uint64_t tokens, words, bytes;
    uint64_t line; /* of the next byte, from 1 */
    /* Of TEXT_BPE: the word that is being given, and which piece comes next. */
    const struct data_codes *codes;
    struct codes_cutter *cutter;
    const char *word;
    size_t piece;
    struct codes_throws *throws; /* NULL: no pair is passed over */
    uint64_t plain;              /* pieces that there would have been so far without throws */
} text_reader;

/* `phase` and `tap` as in source.h. A text without any byte is EBB_DATA. */
ebb_status ebb__text_open(ebb_ctx *ctx, const char *path, text_mode mode, const char *phase,
                          struct XXH3_state_s *tap, text_reader *out) EBB_MUST_CHECK;
/* Of TEXT_BPE, before the first token: what words are cut with, which must outlive the reader. */
ebb_status ebb__text_cut_with(text_reader *reader, const struct data_codes *codes) EBB_MUST_CHECK;
/* After that: pairs of the codes are passed over with this probability (codes.h), by throws that are
 * a function of seed, site and line. */
ebb_status ebb__text_drop(text_reader *reader, double share, uint64_t seed,
                          const char *site) EBB_MUST_CHECK;
/* TEXT_END at the end, and again when called again. Errors name file:line. */
ebb_status ebb__text_next(text_reader *reader, text_token *out) EBB_MUST_CHECK;
void ebb__text_close(text_reader *reader);

/* ---- lines in memory, and tokens as text again ---- */

/* The next word or, of other modes, token of a line in memory, and what is behind it; gives its
 * bytes, 0 at the end of the line (*at is then there: at `end` or at a newline). The rules are
 * those of a file, but nothing is refused: a NUL, bytes that are no UTF-8 and words of any length
 * are tokens, which no vocabulary knows. */
size_t ebb__text_split(text_mode mode, const char **at, const char *end, const char **token);

/* Tokens one after the other as a text: whether a space goes before the next one, and how many of
 * its bytes are shown. Starts as zeroes but for the mode. */
typedef struct text_joint {
    text_mode mode;
    bool inside; /* the line has a token */
    bool open;   /* the last one goes on in the next */
    bool plain;  /* tokens hold the text's white space (codes.h: codes_joint) */
} text_joint;
size_t ebb__text_join(text_joint *joint, const char *token, size_t length, bool *space);

/* White space between words. */
static inline bool text_is_space(unsigned char c) {
    return c == ' ' || (c >= '\t' && c <= '\r');
}

/* Bytes of the byte order mark that a text starts with: 3, or 0 if there is none. */
size_t ebb__utf8_mark(const void *bytes, size_t available);
/* Bytes of the code point that starts here, 1 to 4; 0 if it is not well-formed UTF-8. */
size_t ebb__utf8_length(const unsigned char *bytes, size_t available);

#endif
