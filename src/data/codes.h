/* codes.h - byte-pair codes: pairs of pieces that are joined to one wherever they meet in a word,
 * the earlier pair first. They cut words into pieces that a vocabulary of bounded size has all of.
 *
 * Learning, cutting and files are those of subword-nmt, to the byte. A word starts as its code
 * points (a byte that is no UTF-8 is a piece of its own), the last of which carries the mark </w>;
 * in files of version 0.1 the mark is a piece of its own. A piece that is not the last of its word
 * is written with the joiner @@ behind it.
 *
 * Codes of bytes are GPT-2's: a line is parted into runs by a pattern (codes_bytes.c), a run starts
 * as its bytes, and pieces are written without a joiner, since they hold the text's white space. In
 * files every byte is a letter. They are read and used, not learnt.
 *
 * Codes are one block of memory of a known size,
 *   [ offsets: pieces + 1 | piece table | pairs | pair table | bytes of pieces ]
 * so that they can be planned, and moved into planned memory. */
#ifndef DATA_CODES_H
#define DATA_CODES_H

#include "base/alloc.h"
#include "base/rng.h"
#include "data/text.h"

#define CODES_JOINER "@@"
enum {
    CODES_JOINER_BYTES = 2,
    CODES_MOST_PAIRS = 1 << 20,
    CODES_FILE_LIMIT = 64 << 20, /* bytes of a file that is read */
    CODES_NONE = -1,
};

typedef enum codes_version {
    CODES_MARK_APART = 1,
    CODES_MARK_JOINED = 2,
    CODES_BYTES = 3
} codes_version;

typedef struct codes_pair {
    uint32_t left, right, joined; /* pieces */
} codes_pair;

typedef struct data_codes {
    ebb_ctx *ctx;
    void *block; /* NULL: there are none */
    size_t bytes;
    bool owned; /* the block is ours to free */
    codes_version version;
    uint32_t n_pieces, n_pairs;
    uint32_t piece_slots, pair_slots;
    uint32_t *offsets;     /* piece i: pool[offsets[i] .. offsets[i + 1]) */
    uint32_t *piece_table; /* piece + 1; 0 = free */
    codes_pair *pairs;     /* in the order in which they are joined */
    uint32_t *pair_table;  /* pair + 1, of equal ones the first; 0 = free */
    char *pool;
} data_codes;

void ebb__codes_free(data_codes *codes);
/* Gives them another home of codes->bytes, aligned to 4; their own is then freed, and the new one
 * must outlive them. */
void ebb__codes_move(data_codes *codes, void *memory);
/* XXH3-64 of all pairs: equal iff the codes are. */
uint64_t ebb__codes_hash(const data_codes *codes);
/* Not NUL-terminated; piece < n_pieces. */
const char *ebb__codes_piece(const data_codes *codes, uint32_t piece, size_t *length);

/* ---- files (codes_file.c) ---- */

/* What is no well-formed file, or has a pair of which a part can never occur, is `failure`, with
 * file:line. A folder with GPT-2's files is read as ebb__gpt2_load does (codes_gpt2.h). */
ebb_status ebb__codes_load(ebb_ctx *ctx, const char *path, ebb_status failure,
                           data_codes *out) EBB_MUST_CHECK;
ebb_status ebb__codes_save(const data_codes *codes, const char *path) EBB_MUST_CHECK;
/* A list of pairs of GPT-2, without the vocabulary that belongs to it. */
ebb_status ebb__codes_load_merges(ebb_ctx *ctx, const char *path, ebb_status failure,
                                  data_codes *out) EBB_MUST_CHECK;

/* ---- codes from a list of pairs ---- */

/* Pairs as they are found, each by the bytes of its two pieces. */
typedef struct codes_builder {
    ebb_ctx *ctx;
    alloc_region region;
    codes_version version;
    char *pool;
    uint32_t *ends; /* [2 n_pairs]: of left and right pieces in the pool */
    size_t pool_room, ends_room, n_pairs;
} codes_builder;

void ebb__codes_build_begin(ebb_ctx *ctx, codes_version version, codes_builder *out);
ebb_status ebb__codes_build_add(codes_builder *builder, const char *left, size_t left_bytes,
                                const char *right, size_t right_bytes) EBB_MUST_CHECK;
/* Why the pair cannot have been learnt; *bad is its number. NULL: nothing is wrong. */
ebb_status ebb__codes_build_end(codes_builder *builder, size_t *bad, const char **why,
                                data_codes *out) EBB_MUST_CHECK;
void ebb__codes_build_free(codes_builder *builder);

/* ---- cutting words (codes_cut.c) ---- */

typedef struct codes_node {
    uint32_t piece;         /* UINT32_MAX: none of the codes' */
    uint32_t end;           /* byte of the word that it ends before */
    uint32_t before, after; /* neighbours; UINT32_MAX: none */
    uint32_t rank;          /* of the pair that it makes with `after`; UINT32_MAX: none */
} codes_node;

typedef struct codes_join {
    uint32_t rank, node;
} codes_join;

/* How a short word was cut the last time. */
enum { CODES_SHORT = 31, CODES_KNOWN = 8192 };
typedef struct codes_known {
    uint8_t length, n_ends; /* length 0: nothing is known */
    char word[CODES_SHORT];
    uint8_t ends[CODES_SHORT];
} codes_known;

/* Room for a word's pieces, which grows with the longest. Zeroes, but for the context, are an empty
 * one. It may be used with one set of codes only. */
typedef struct codes_cutter {
    ebb_ctx *ctx;
    codes_known *known; /* [CODES_KNOWN]; NULL: every word is cut anew */
    void *block;
    size_t room; /* nodes */
    codes_node *nodes;
    codes_join *heap;
    uint32_t *fresh; /* nodes that were just joined */
    uint32_t *ends;  /* the result: piece i is bytes ends[i - 1] to ends[i] of the word */
    char *piece;     /* see ebb__codes_token */
    size_t n_heap, n_ends;
    bool plain; /* the word was cut into bytes: pieces have no joiner */
} codes_cutter;

/* Half a MiB, so that words which come again take a fraction of the time. */
ebb_status ebb__codes_cutter_remember(codes_cutter *cutter) EBB_MUST_CHECK;
/* Cuts a word of 1 to TEXT_TOKEN_LIMIT bytes. */
ebb_status ebb__codes_cut(const data_codes *codes, codes_cutter *cutter, const char *word,
                          size_t length) EBB_MUST_CHECK;
/* Throws that decide which pairs are passed over: each is a function of key, place and how many
 * came before it. A pair is passed over with the probability `share`. */
typedef struct codes_throws {
    rng_key key;
    uint32_t place[3];
    uint32_t thrown; /* since the place was set */
    float share;
    rng_block block; /* of which the next come */
} codes_throws;
static inline bool codes_throw(codes_throws *throws) {
    uint32_t at = throws->thrown++;
    if (at % 4 == 0) {
        const uint32_t *place = throws->place;
        throws->block = ebb__rng_block(throws->key, at / 4, place[0], place[1], place[2]);
    }
    return ebb__rng_unit(throws->block.word[at % 4]) <= throws->share;
}
/* The same, but before each join every pair is passed over by a throw, from left to right, and the
 * earliest of those that are left is joined where it was left; where none is left the word stays as
 * it is. This is subword-nmt's --dropout. What was remembered is not used. */
ebb_status ebb__codes_cut_dropping(const data_codes *codes, codes_cutter *cutter, const char *word,
                                   size_t length, codes_throws *throws) EBB_MUST_CHECK;
/* Memory of the caller for words of at most so many bytes, aligned to 8: such words are then cut
 * without allocating anything. The cutter must not be freed. */
size_t ebb__codes_cutter_bytes(size_t letters);
void ebb__codes_cutter_place(codes_cutter *cutter, size_t letters, void *memory);
/* Piece number i of the word that was just cut, with the joiner unless it is the last or of bytes;
 * valid until the next call. */
const char *ebb__codes_token(codes_cutter *cutter, const char *word, size_t i, size_t *length);
void ebb__codes_cutter_free(codes_cutter *cutter);

/* ---- codes of bytes (codes_bytes.c) ---- */

/* Whether these are: NULL are none. */
static inline bool codes_of_bytes(const data_codes *codes) {
    return codes != NULL && codes->version == CODES_BYTES;
}
/* Bytes of the first run of a line; 0: the line ends here (at \n, \r\n, or the end) or, unless the
 * text is `whole`, more of it must be seen. */
size_t ebb__codes_run(const char *start, size_t available, bool whole);
/* The same of a line in memory, as ebb__text_split. */
size_t ebb__codes_split(const char **at, const char *end, const char **run);
/* The letter that stands for a byte, in UTF-8: gives its bytes. */
size_t ebb__codes_letter(unsigned char byte, char out[2]);
/* The bytes that letters stand for, at most as many (`out` may be `text`; NULL: only counted);
 * gives their number, CODES_NONE if a letter stands for none. */
int64_t ebb__codes_from_letters(const char *text, size_t length, char *out);
/* How tokens that these codes made (NULL: none did) are joined to a text. */
static inline text_joint codes_joint(text_mode mode, const data_codes *codes) {
    return (text_joint){.mode = mode, .plain = codes_of_bytes(codes)};
}

/* The pair of two pieces; CODES_NONE if there is none. */
int64_t ebb__codes_find_pair(const data_codes *codes, uint32_t left, uint32_t right);
/* The piece of these bytes; CODES_NONE if there is none. */
int64_t ebb__codes_find_piece(const data_codes *codes, const char *bytes, size_t length);
/* Bytes of the white space that the text starts with, as Python's \s has it; 0: none. */
size_t ebb__codes_space(const char *bytes, size_t available);
/* Bytes of the first code point; of what is no UTF-8 one. */
static inline size_t codes_point(const char *bytes, size_t available) {
    size_t n = ebb__utf8_length((const unsigned char *)bytes, available);
    return n > 0 ? n : 1;
}

#endif
