/* pairs.h - two texts whose lines belong together: line n of the target is the translation of line
 * n of the source. What they hold is found in one reading of both, side by side, in memory that
 * depends on the longest sentence allowed and not on the texts.
 *
 * A sentence's length counts its line end, which becomes <eos>: the source is read with it, and the
 * target is predicted up to it. */
#ifndef DATA_PAIRS_H
#define DATA_PAIRS_H

#include "data/text.h"

typedef struct pairs_texts {
    const char *source, *target; /* files */
    text_mode mode;              /* word or char */
    uint32_t max_len;            /* tokens of a sentence without its line end */
} pairs_texts;

/* Pairs whose longer side has this length. */
typedef struct pairs_length {
    uint64_t count;
    uint32_t source, target; /* the longest among them */
} pairs_length;

typedef struct pairs_scan {
    ebb_ctx *ctx;
    uint64_t lines, used;
    uint64_t empty, first_empty; /* pairs with a side that has no token; number of the first line */
    uint64_t over, first_over;   /* pairs with a side longer than allowed */
    uint32_t most;               /* longest length allowed */
    pairs_length *lengths;       /* [most + 1] */
} pairs_scan;

/* EBB_DATA if the texts have not the same number of lines, if one holds the word <eos>, or if no
 * pair is left that can be used. Free with ebb__pairs_scan_free, also after a failure. */
ebb_status ebb__pairs_scan(ebb_ctx *ctx, const pairs_texts *texts, pairs_scan *out) EBB_MUST_CHECK;
void ebb__pairs_scan_free(pairs_scan *scan);

/* Whether a pair of these lengths, line ends included, is used at all. */
static inline bool ebb__pairs_usable(uint64_t source, uint64_t target, uint32_t max_len) {
    return source > 1 && target > 1 && source - 1 <= max_len && target - 1 <= max_len;
}

/* Lengths that batches are padded to. */
typedef struct pairs_shape {
    uint32_t source, target;
} pairs_shape;
enum { PAIRS_MOST_SHAPES = 4 };
/* At most PAIRS_MOST_SHAPES shapes that hold all pairs, the largest first, made from quantiles of
 * the lengths; gives their number. */
int32_t ebb__pairs_shapes(const pairs_scan *scan, pairs_shape out[PAIRS_MOST_SHAPES]);

#endif
