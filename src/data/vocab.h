/* vocab.h - tokens and their ids: 0 is <unk>, 1 is <eos> (a line end), then the tokens of the
 * training text by descending count, ties in byte order.
 *
 * A vocabulary is one block of memory of a size known beforehand,
 *   [ offsets: count + 1 | hash table: slots | token bytes ]
 * so that it can be planned, and moved into planned memory. Its file has one token a line, the
 * line number (from 0) being the id; see ebb__vocab_save. */
#ifndef DATA_VOCAB_H
#define DATA_VOCAB_H

#include "data/text.h"

enum { VOCAB_UNK = 0, VOCAB_EOS = 1, VOCAB_SPECIALS = 2 };
enum { VOCAB_TABLE_BYTES = 16 << 20, VOCAB_MOST = 1 << 23 /* entries */ };

typedef struct vocab_options {
    text_mode mode;
    const struct data_codes *codes; /* of TEXT_BPE */
    double drop;                    /* as in tally.h, and its seed */
    uint64_t seed;
    const char *also;               /* a second text to count together with the first; NULL: none */
    size_t limit;                   /* entries in all, the two special ones included; 0 = all */
    size_t table_bytes; /* for counting; 0 = VOCAB_TABLE_BYTES. Changes speed, not the result */
    uint64_t max_bytes; /* EBB_BUDGET if the list of tokens would take more; 0 = no bound */
} vocab_options;

typedef struct data_vocab {
    ebb_ctx *ctx;
    void *block;
    size_t bytes;
    bool owned; /* the block is ours to free */
    uint32_t count, slots;
    uint32_t *offsets; /* token i: pool[offsets[i] .. offsets[i + 1]) */
    uint32_t *table;   /* id + 1; 0 = free */
    char *pool;
    size_t pool_bytes;              /* room in the pool */
    const struct data_codes *codes; /* whose pieces the tokens are; NULL: they are not. Not ours */
} data_vocab;

/* Reads the text once or, where its distinct tokens exceed the counting table, several times. */
ebb_status ebb__vocab_build(ebb_ctx *ctx, const char *path, const vocab_options *options,
                            data_vocab *out) EBB_MUST_CHECK;
void ebb__vocab_free(data_vocab *vocab);
/* Adds the most frequent tokens of the text that are not there yet, options->limit of them, behind
 * the others. */
ebb_status ebb__vocab_extend(data_vocab *vocab, const char *path,
                             const vocab_options *options) EBB_MUST_CHECK;

/* Memory: what a vocabulary takes, and giving it another home of at least that many bytes,
 * aligned to 4; its own is then freed, and the new one must outlive it. */
uint64_t ebb__vocab_bytes_for(uint64_t count, uint64_t pool_bytes);
void ebb__vocab_move(data_vocab *vocab, void *memory);

/* VOCAB_UNK if it is not there. */
uint32_t ebb__vocab_find(const data_vocab *vocab, const char *bytes, size_t length);
/* Not NUL-terminated; id < count. */
const char *ebb__vocab_token(const data_vocab *vocab, uint32_t id, size_t *length);
/* XXH3-64 of all tokens with their lengths: equal iff the vocabularies are. */
uint64_t ebb__vocab_hash(const data_vocab *vocab);
/* The same of vocabulary and codes; where there are none, of the vocabulary alone. */
uint64_t ebb__vocab_hash_with_codes(const data_vocab *vocab);

/* The file is UTF-8 text. Written as escapes are: backslash \\, space \s, other ASCII control
 * bytes \xHH, and, in a token that is not well-formed UTF-8, every byte from 80 on \xHH. */
ebb_status ebb__vocab_save(const data_vocab *vocab, const char *path) EBB_MUST_CHECK;
/* Anything but a well-formed file is EBB_MODEL, with file:line. */
ebb_status ebb__vocab_load(ebb_ctx *ctx, const char *path, data_vocab *out) EBB_MUST_CHECK;

/* For vocab_file.c: an empty vocabulary with room for exactly so much; then its tokens by id.
 * Adding gives false if the token is already there. */
ebb_status ebb__vocab_init(ebb_ctx *ctx, uint64_t count, uint64_t pool_bytes,
                           data_vocab *out) EBB_MUST_CHECK;
bool ebb__vocab_add(data_vocab *vocab, const char *bytes, size_t length);

#endif
