/* lengths.h - how long the sentences of a text are, or of two texts whose lines belong together: a
 * list of the lengths that occur and how often each does. One reading, in memory that depends on
 * the different lengths and not on the text.
 *
 * A line is a sentence. Its length counts its end, which becomes <eos>: a source is read with it,
 * and what is predicted goes up to it. Lines without a token, and pairs with such a side, are left
 * out, as are those with more tokens than allowed; both are counted. The long lines of one text can
 * be split instead: each part is a sentence, of which only the last has the line's end. */
#ifndef DATA_LENGTHS_H
#define DATA_LENGTHS_H

#include "data/text.h"

typedef struct lengths_texts {
    const char *source, *target; /* files; source NULL: one text */
    text_mode mode;
    uint32_t max_len; /* tokens of a sentence without its end */
    bool split;       /* of one text: longer ones are split, else they are left out */
    const struct data_codes *source_codes, *target_codes; /* of TEXT_BPE */
    /* Of TEXT_BPE, where sentences will be cut anew in every epoch (codes_drop.h): with which
     * probability pairs are passed over. Lengths are then the larger of those with and without, but
     * whether a sentence can be used is decided without. */
    double drop;
    uint64_t seed;
} lengths_texts;

/* Whether a pair of these lengths, ends included, is used at all. */
static inline bool ebb__lengths_usable(uint64_t source, uint64_t target, uint32_t max_len) {
    return source > 1 && target > 1 && source - 1 <= max_len && target - 1 <= max_len;
}

/* Into how many parts a long line is split, and how long each is: as few and as equal as can be.
 * The length counts the line's end, and a part has no more than max_len + 1. */
static inline uint64_t ebb__lengths_parts(uint64_t length, uint32_t max_len) {
    uint64_t most = (uint64_t)max_len + 1;
    return length / most + (length % most != 0);
}
static inline uint64_t ebb__lengths_part(uint64_t length, uint64_t parts, uint64_t number) {
    return length / parts + (number < length % parts);
}

typedef struct lengths_cell {
    uint32_t source, target; /* with their ends; source 0: one text */
    uint64_t count;
} lengths_cell;

/* A finished list has its cells in the order in which a pool sorts its sentences (buckets.h): by
 * the longer side, ascending. Among cells of one longer side n, the shorter side goes up to n and
 * down again: if n is even, the source is the shorter side at first and the target later; if n is
 * odd it is the other way round. So neighbours in the list are alike on both sides. */
typedef struct data_lengths {
    ebb_ctx *ctx;
    bool pairs, split;
    uint32_t max_len;
    uint64_t lines, used;        /* used: sentences, which parts of lines are too */
    uint64_t parted;             /* lines that were split */
    uint64_t empty, first_empty; /* lines left out for having no token; number of the first */
    uint64_t over, first_over;   /* lines left out for being too long */
    lengths_cell *cells;
    size_t n_cells;
    size_t capacity; /* a power of two while cells are added, then n_cells */
} data_lengths;

/* That order, as a comparison. */
int ebb__lengths_compare(uint32_t source, uint32_t target, uint32_t other_source,
                         uint32_t other_target);

/* From numbers. Set `split` before adding. Free also after a failure; add nothing after
 * ebb__lengths_finish. */
ebb_status ebb__lengths_init(ebb_ctx *ctx, bool pairs, uint32_t max_len,
                             data_lengths *out) EBB_MUST_CHECK;
/* The next line, or pair; lengths with their ends. */
ebb_status ebb__lengths_add(data_lengths *lengths, uint64_t source, uint64_t target) EBB_MUST_CHECK;
ebb_status ebb__lengths_finish(data_lengths *lengths) EBB_MUST_CHECK;
void ebb__lengths_free(data_lengths *lengths);

/* From files, finished. EBB_DATA if two texts have not the same number of lines, if one holds the
 * word <eos>, or if nothing is left that can be used. Free also after a failure. */
ebb_status ebb__lengths_scan(ebb_ctx *ctx, const lengths_texts *texts,
                             data_lengths *out) EBB_MUST_CHECK;

#endif
