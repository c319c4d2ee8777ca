/* sentence_index.h - an index of the sentences of a text, or of the pairs of two texts whose lines
 * belong together: where each lies in its token file. Entries are gathered by shape; a sentence
 * belongs to the smallest shape that holds it.
 *
 *   index file: [ entries of shape 0 | entries of shape 1 | ... ], 24 bytes each
 *
 * The file has no name once it is made, and is gone with the process. */
#ifndef DATA_SENTENCE_INDEX_H
#define DATA_SENTENCE_INDEX_H

#include "data/shape.h"
#include "data/tokens.h"

typedef struct sentence_entry {
    uint64_t source, target;         /* position of the first token */
    uint32_t source_len, target_len; /* with the line end, which parts but the last have not */
} sentence_entry;

typedef struct sentence_lists {
    const tokens_reader *source, *target; /* source NULL: one text */
    uint32_t max_len; /* as scanned: longer sentences, and empty ones, have no entry */
    bool split;       /* of one text: each part of a longer sentence has an entry */
} sentence_lists;

/* Makes the index, in a file without a name in the folder of `path`. Each shape gets the number of
 * its sentences and batches, and first[i] is the first entry of shape i; a sentence that no shape
 * holds has no entry. *fd is -1 after a failure, else to be closed. EBB_DATA if two texts have not
 * the same number of lines. */
ebb_status ebb__sentence_index_open(ebb_ctx *ctx, const sentence_lists *lists, const char *path,
                                    data_shapes *shapes, uint64_t first[DATA_MOST_SHAPES],
                                    int *fd) EBB_MUST_CHECK;

#endif
