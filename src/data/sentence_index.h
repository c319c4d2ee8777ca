/* sentence_index.h - an index of the sentences of a text, or of the pairs of two texts whose lines
 * belong together: where each lies in its token file. Entries are gathered by shape; a sentence
 * belongs to the smallest shape that holds it.
 *
 *   index file: [ entries of class 0 | entries of class 1 | ... ], 24 bytes each
 *
 * The file has no name once it is made, and is gone with the process. */
#ifndef DATA_SENTENCE_INDEX_H
#define DATA_SENTENCE_INDEX_H

#include "data/tokens.h"

typedef struct sentence_shape {
    uint32_t source, target; /* positions S and T; source 0: one text, which is the target */
    uint32_t rows;           /* B */
} sentence_shape;

typedef struct sentence_class {
    sentence_shape shape;
    uint64_t first, count, batches; /* first entry of the index, sentences, batches */
} sentence_class;

typedef struct sentence_entry {
    uint64_t source, target;         /* position of the first token */
    uint32_t source_len, target_len; /* with the line end, which parts but the last have not */
} sentence_entry;

typedef struct sentence_lists {
    const tokens_reader *source, *target; /* source NULL: one text */
    uint32_t max_len;             /* as scanned: longer sentences, and empty ones, have no entry */
    const sentence_shape *shapes; /* a sentence that none holds has no entry either */
    int32_t n_shapes;             /* at most BUCKETS_MOST_SHAPES */
    bool split;                   /* of one text: each part of a longer sentence has an entry */
} sentence_lists;

/* The smallest shape that holds so many positions, the first of equals; n_classes: none does. */
int32_t ebb__sentence_class(const sentence_class *classes, int32_t n_classes, uint32_t source,
                            uint32_t target);

/* Makes the index, in a file without a name in the folder of `path`, and one class a shape. *fd is
 * -1 after a failure, else to be closed. EBB_DATA if two texts have not the same number of lines.
 */
ebb_status ebb__sentence_index_open(ebb_ctx *ctx, const sentence_lists *lists, const char *path,
                                    sentence_class *classes, int *fd) EBB_MUST_CHECK;

#endif
