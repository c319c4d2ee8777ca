/* codes_gpt2.h - GPT-2's two files: merges.txt, its codes of bytes, and vocab.json, the number of
 * every piece. Both lie in one folder. */
#ifndef DATA_CODES_GPT2_H
#define DATA_CODES_GPT2_H

#include "data/codes.h"
#include "data/sink.h"
#include "data/vocab.h"

enum { GPT2_MOST_ENTRIES = 1 << 21 };

/* The entries of vocab.json as a vocabulary: behind <unk> and <eos>, by their numbers. An entry
 * that is spelled as one of these two is that one, so it has no place of its own. */
typedef struct gpt2_ids {
    data_vocab pieces;
    uint32_t own[VOCAB_SPECIALS]; /* numbers of such entries, ascending */
    uint32_t n_own;
} gpt2_ids;

/* Whether a path is a folder that holds both files. */
bool ebb__gpt2_is_folder(const char *path);
/* vocab.json of the folder. What is not well-formed is `failure`, with file:line. */
ebb_status ebb__gpt2_load_ids(ebb_ctx *ctx, const char *folder, ebb_status failure,
                              gpt2_ids *out) EBB_MUST_CHECK;
/* Both, checked against each other: every piece that a pair makes, and every byte, has a number.
 * The caller frees both. */
ebb_status ebb__gpt2_load(ebb_ctx *ctx, const char *folder, ebb_status failure, data_codes *codes,
                          gpt2_ids *ids) EBB_MUST_CHECK;
/* The number that vocab.json gives a piece; CODES_NONE if it has none. */
int64_t ebb__gpt2_id(const gpt2_ids *ids, const char *bytes, size_t length);

/* For what writes pieces: those of bytes as letters (codes_file.c). */
ebb_status ebb__codes_put_piece(data_sink *sink, codes_version version, const char *bytes,
                                size_t length) EBB_MUST_CHECK;

#endif
