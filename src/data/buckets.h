/* buckets.h - batches of sentences of different lengths: which shapes they are padded to, and how
 * much padding that costs. The result is a function of the lengths that occur (lengths.h), the
 * options and a seed, and of nothing else. A strategy groups the sentences:
 *
 *   none        there is one shape, as long as the longest sentence
 *   static      the user lists the lengths; longer sentences share one more shape
 *   greedy      lengths ascend, and a shape is closed as soon as its sentences fill one batch
 *   percentile  every shape has about the same number of sentences
 *   width       the bounds between shapes lie at equal distances
 *   optimal     the bounds are those with the fewest padded tokens
 *   pool        there are no bounds: sentences are shuffled into pools, each pool is sorted by
 *               length and cut into batches, and each batch is padded to its own longest sentence
 *
 * Pairs of sentences are grouped by the longer of their two sides. `optimal` tries a second way as
 * well: it cuts the targets into bands and the sources of each band into parts, where bands may
 * have different numbers of parts, and makes each part a shape. It gives the better of the two.
 * (If more than BUCKETS_GRID different lengths occur on a side, only BUCKETS_GRID of them, well
 * chosen, are considered as bounds.)
 *
 * With every strategy a shape is as long, on both sides, as the longest of its own sentences, and
 * every sentence belongs to exactly one shape: nothing is dropped.
 *
 * Shapes are run by programs, of which there are at most as many as the options ask for. A sentence
 * (with `pool`, a batch) runs on the smallest program that holds it. If a strategy makes more
 * shapes than there may be programs, more tokens are computed than the shapes alone would pad. */
#ifndef DATA_BUCKETS_H
#define DATA_BUCKETS_H

#include "data/lengths.h"
#include "data/shape.h"

typedef enum bucket_strategy {
    BUCKET_NONE,
    BUCKET_STATIC,
    BUCKET_GREEDY,
    BUCKET_PERCENTILE,
    BUCKET_WIDTH,
    BUCKET_OPTIMAL,
    BUCKET_POOL,
    BUCKET_STRATEGIES,
    BUCKET_AUTO = BUCKET_STRATEGIES /* none of them yet: that with the shortest epoch is taken */
} bucket_strategy;
const char *ebb__bucket_name(bucket_strategy strategy);

enum {
    BUCKETS_MOST_LISTED = DATA_MOST_SHAPES - 1, /* and one for what is longer */
    BUCKETS_GRID = 100,
    BUCKETS_POOL = 100 /* batches of a pool */
};

/* How many sentences a batch has: a fixed number, or as many as keep the padded tokens (of pairs:
 * those of the longer side) at or below `tokens`, but at least one. The number is a multiple of
 * `multiple` unless that is 0. */
typedef struct bucket_batch {
    int64_t sentences; /* 0: by tokens */
    int64_t tokens;
    int64_t multiple;
} bucket_batch;
int64_t ebb__bucket_rows(const bucket_batch *batch, uint32_t source, uint32_t target);

typedef struct bucket_options {
    bucket_strategy strategy;
    int32_t shapes; /* at most, 1 .. DATA_MOST_SHAPES; greedy makes more, but no more programs */
    bucket_batch batch;
    data_shape list[BUCKETS_MOST_LISTED]; /* of static: lengths alone */
    int32_t n_listed;
    uint64_t seed; /* of pool: of its shuffles */
} bucket_options;

/* A list as people write it: "8,16,24", for pairs also "8x10,16x20" (source x target); lengths
 * count the end mark. EBB_USAGE says what is wrong. */
ebb_status ebb__buckets_list(ebb_ctx *ctx, const char *text, bool pairs,
                             bucket_options *out) EBB_MUST_CHECK;

/* Which sentences may be members of a shape: longer side, target and source at most so long. */
typedef struct bucket_limit {
    uint32_t longer, band, cut;
} bucket_limit;
typedef struct bucket_shape {
    data_shape as;
    bucket_limit limit;
    uint64_t empty_rows; /* of partial batches: without a sentence */
} bucket_shape;

typedef struct bucket_plan {
    ebb_ctx *ctx;
    bucket_strategy strategy;
    bool pairs;
    bucket_shape *shapes; /* see ebb__bucket_find; of pool its programs */
    int32_t n_shapes;
    /* What to compile, at most options.shapes, of static as many as listed: the shapes themselves;
     * where greedy makes more, those of optimal; of pool, the optimal ones for the batches of one
     * epoch and one as long as the longest on both sides, which holds any. Smallest first. */
    data_shapes programs;
    uint64_t sentences;                  /* all of them: used once an epoch */
    uint64_t real_tokens, padded_tokens; /* of rows with a sentence; sources and targets */
    uint64_t batches, empty_rows;
    uint64_t steps, computed_tokens; /* as run on programs; of pool, in one shuffled epoch */
} bucket_plan;

/* EBB_DATA without a sentence, EBB_USAGE with options that make no sense. Free also after a
 * failure. */
ebb_status ebb__buckets_make(const data_lengths *lengths, const bucket_options *options,
                             bucket_plan *out) EBB_MUST_CHECK;
void ebb__buckets_free(bucket_plan *plan);

/* The shape that a sentence belongs to, which is the first whose limits and lengths hold it (with
 * `pool`, the smallest that holds it). The sentence may be one that was not counted when the plan
 * was made, such as one of the validation text; -1: no shape holds it. */
int32_t ebb__bucket_find(const bucket_plan *plan, uint32_t source, uint32_t target);
/* The share of padding in all processed tokens, rows without a sentence not counted. The first
 * function takes batches as long as their shape (with `pool`, as their longest sentence), the
 * second as long as the program that runs them. */
double ebb__bucket_padded_share(const bucket_plan *plan);
double ebb__bucket_computed_share(const bucket_plan *plan);

/* ---- pool ---- */

/* How many sentences a pool has: those of BUCKETS_POOL batches of so many rows, or all there are.
 * The last pool of an epoch may have fewer. */
static inline uint64_t ebb__bucket_pool_size(uint64_t sentences, uint64_t rows) {
    return sentences / BUCKETS_POOL < rows ? sentences : rows * BUCKETS_POOL;
}
/* A plan is made of lengths alone and does not know which sentence has which, so it draws example
 * pools from a list of n sentences in the order of the cells of lengths.h. Training draws its own
 * from the text (sentence_batches.h): other sentences, as many, in the same order of lengths. */
/* The places in that list of pool number `pool` of an epoch, ascending, which is by length; gives
 * their number. `out` has room for twice `size`, the second half of which is scratch. Every
 * sentence is in one pool of an epoch. */
uint64_t ebb__bucket_pool(uint64_t seed, uint64_t epoch, uint64_t n, uint64_t size, uint64_t pool,
                          uint64_t *out);

/* ---- optimal.c, for buckets.c and tests ---- */

/* Limits of at most k shapes with the fewest padded tokens; gives their number. */
ebb_status ebb__buckets_optimal(const data_lengths *lengths, int32_t k, bucket_limit *out,
                                int32_t *n) EBB_MUST_CHECK;

#endif
