/* tokens.h - a text as a file of ids, made once and read by position.
 *
 *   [ count ids, 32 bits each | trailer, 96 bytes ]      everything little-endian
 *
 * What would be a header stands at the end, since its counts and hashes are known only then and
 * the file is written in one stream; position i of the text is byte 4 i of the file. The trailer
 * names the text (size, XXH3-64), the vocabulary (XXH3-64, entries) and the mode it was made of,
 * and the XXH3-64 of the ids and of itself. A file that is stale, damaged or foreign is made
 * again, never trusted. */
#ifndef DATA_TOKENS_H
#define DATA_TOKENS_H

#include "data/vocab.h"

typedef struct tokens_reader {
    ebb_ctx *ctx;
    int fd;
    char path[1024];
    uint64_t count;       /* tokens */
    uint64_t words;       /* white-space words and line ends: perplexity per word divides by it */
    uint64_t text_bytes;  /* of the text, unpacked */
    uint64_t unknown;     /* tokens that are <unk> */
    uint64_t ids_hash;    /* XXH3-64 of all ids: the same text to a model */
    uint32_t vocab_count; /* every id is below */
} tokens_reader;

/* Opens tokens_path if it holds exactly text_path under this mode and vocabulary, every id
 * checked; makes it first otherwise. On failure nothing is held, and the old file stays. */
ebb_status ebb__tokens_ensure(ebb_ctx *ctx, const char *text_path, text_mode mode,
                              const data_vocab *vocab, const char *tokens_path,
                              tokens_reader *out) EBB_MUST_CHECK;
/* Ids of positions [first, first + count) in host order; EBB_DATA if the file no longer holds
 * what was checked. Allocates nothing. */
ebb_status ebb__tokens_read(const tokens_reader *reader, uint64_t first, size_t count,
                            uint32_t *ids) EBB_MUST_CHECK;
void ebb__tokens_close(tokens_reader *reader);

#endif
