/* tokens.h - a text as a file of ids, made once and read by position, and the lengths of its lines.
 *
 *   [ ids, 32 bits each | lengths of lines, 32 bits each | trailer, 112 bytes ]    little-endian
 *
 * A line is what goes up to an <eos>, which its length counts; bytes may end without one, and then
 * what is left is a line too. Lengths add up to the number of ids.
 *
 * What would be a header stands at the end, since its counts and hashes are known only then;
 * position i of the text is byte 4 i of the file. The trailer names the text (size, XXH3-64), the
 * vocabulary (XXH3-64, entries) and the mode it was made of, and the XXH3-64 of the ids, of the
 * lengths and of itself. A file that is stale, damaged or foreign is made again, never trusted. */
#ifndef DATA_TOKENS_H
#define DATA_TOKENS_H

#include "data/vocab.h"

typedef struct tokens_reader {
    ebb_ctx *ctx;
    int fd;
    char path[1024];
    uint64_t count;      /* tokens */
    uint64_t lines;      /* of the text */
    uint64_t words;      /* white-space words and line ends: perplexity per word divides by it */
    uint64_t text_bytes; /* of the text, unpacked */
    uint64_t unknown;    /* tokens that are <unk> */
    uint64_t ids_hash;   /* XXH3-64 of all ids: the same text to a model */
    uint64_t file_bytes;
    uint32_t vocab_count; /* every id is below */
    bool made;            /* just now; else found whole */
} tokens_reader;

/* Opens tokens_path if it holds exactly text_path under this mode and vocabulary, every id and
 * every length checked; makes it first otherwise. On failure nothing is held, and the old file
 * stays. */
ebb_status ebb__tokens_ensure(ebb_ctx *ctx, const char *text_path, text_mode mode,
                              const data_vocab *vocab, const char *tokens_path,
                              tokens_reader *out) EBB_MUST_CHECK;
/* The same in a file that has no name, and is gone when it is closed: see ebb__file_create_unnamed.
 */
ebb_status ebb__tokens_unnamed(ebb_ctx *ctx, const char *text_path, text_mode mode,
                               const data_vocab *vocab, const char *path,
                               tokens_reader *out) EBB_MUST_CHECK;
/* tokens_reader.ids_hash of the file that would be made. Writes nothing. */
ebb_status ebb__tokens_hash(ebb_ctx *ctx, const char *text_path, text_mode mode,
                            const data_vocab *vocab, uint64_t *out) EBB_MUST_CHECK;
/* Ids of positions [first, first + count) in host order; EBB_DATA if the file no longer holds
 * what was checked. Allocates nothing. */
ebb_status ebb__tokens_read(const tokens_reader *reader, uint64_t first, size_t count,
                            uint32_t *ids) EBB_MUST_CHECK;
/* The same of lines [first, first + count): their lengths. */
ebb_status ebb__tokens_lengths(const tokens_reader *reader, uint64_t first, size_t count,
                               uint32_t *lengths) EBB_MUST_CHECK;
/* EBB_DATA: the file no longer holds what was checked. */
ebb_status ebb__tokens_changed(const tokens_reader *reader) EBB_MUST_CHECK;
void ebb__tokens_close(tokens_reader *reader);

#endif
