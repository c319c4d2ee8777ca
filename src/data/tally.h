/* tally.h - the most frequent tokens of a text, counted exactly in bounded memory.
 *
 * If the distinct tokens do not fit the counting table, the text is read again, each time
 * counting only the tokens of one hash class: the result is the same whatever the table's size. */
#ifndef DATA_TALLY_H
#define DATA_TALLY_H

#include "data/text.h"

enum { TALLY_LEAST_BYTES = 2 * TEXT_BUFFER_BYTES }; /* room for the longest token */

typedef struct tally_entry {
    uint64_t count;
    uint32_t offset, length; /* in the pool */
} tally_entry;

typedef struct tally_list {
    tally_entry *entries; /* descending count, ties in ascending byte order */
    size_t count;
    char *pool;
    size_t pool_bytes;
} tally_list;

typedef struct tally_options {
    text_mode mode;
    const struct data_codes *codes; /* of TEXT_BPE */
    double drop;   /* of TEXT_BPE: tokens of texts are counted also as they are where so large a
                      share of pairs is passed over */
    uint64_t seed; /* of that */
    const char *also;               /* a second text, counted together with the first; NULL: none */
    size_t keep;                    /* at most so many entries; 0 = all */
    size_t table_bytes;             /* for counting; raised to TALLY_LEAST_BYTES */
    uint64_t list_bytes;            /* EBB_BUDGET if the list would take more; 0 = 4 GiB */
} tally_options;

/* Line ends and the words "<unk>" and "<eos>" are not counted. In byte mode every byte but the
 * newline is listed, with count 0 if it does not occur. *passes: how often the text was read. */
ebb_status ebb__tally_text(ebb_ctx *ctx, const char *path, const tally_options *options,
                           tally_list *out, uint32_t *passes) EBB_MUST_CHECK;
void ebb__tally_free(ebb_ctx *ctx, tally_list *list);

#endif
