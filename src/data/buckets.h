/* buckets.h - sentences of like length share batches: which shapes batches are padded to, and what
 * that costs. A pure function of the lengths that occur (lengths.h), the options and a seed.
 *
 *   none        one shape, as long as the longest
 *   static      the user's list; what is longer than all of it gets one more shape
 *   greedy      ascending lengths; a shape is closed as soon as it holds one batch
 *   percentile  as many sentences in every shape
 *   width       bounds at equal distances
 *   optimal     the bounds with the fewest padded tokens
 *   pool        no bounds: pools of shuffled sentences are sorted and cut in batches, each padded
 *               to its own longest
 *
 * Pairs are grouped by their longer side. With `optimal` that is one way; the other cuts targets in
 * bands and each band's sources in parts, a shape each, where every band may have another number of
 * parts. The result is the best of both families. (Where more than BUCKETS_GRID different lengths
 * occur on a side, only the best BUCKETS_GRID of them can be bounds.)
 *
 * Whatever the strategy, a shape is as long as the longest of its own members, on both sides, and
 * every sentence is a member of exactly one: nothing is dropped.
 *
 * What is run are programs, at most so many as were asked for: a sentence, or a batch of a pool,
 * runs on the smallest that holds it. Where a strategy makes more shapes than there may be
 * programs, what is computed is more than what its shapes pad. */
#ifndef DATA_BUCKETS_H
#define DATA_BUCKETS_H

#include "data/lengths.h"

typedef enum bucket_strategy {
    BUCKET_NONE,
    BUCKET_STATIC,
    BUCKET_GREEDY,
    BUCKET_PERCENTILE,
    BUCKET_WIDTH,
    BUCKET_OPTIMAL,
    BUCKET_POOL,
    BUCKET_STRATEGIES
} bucket_strategy;
const char *ebb__bucket_name(bucket_strategy strategy);

enum {
    BUCKETS_MOST_SHAPES = 32,                      /* asked for; greedy makes as many as it makes */
    BUCKETS_MOST_LISTED = BUCKETS_MOST_SHAPES - 1, /* and one for what is longer */
    BUCKETS_GRID = 100,
    BUCKETS_POOL = 100 /* batches of a pool */
};

/* Sentences of a batch: a number, or as many as have no more than so many padded tokens, of pairs
 * on the longer side; at least one. A multiple of `multiple`, if that is not 0. */
typedef struct bucket_batch {
    int64_t sentences; /* 0: by tokens */
    int64_t tokens;
    int64_t multiple;
} bucket_batch;
int64_t ebb__bucket_rows(const bucket_batch *batch, uint32_t source, uint32_t target);

typedef struct bucket_bound {
    uint32_t source, target; /* of one text source is 0 */
} bucket_bound;

typedef struct bucket_options {
    bucket_strategy strategy;
    int32_t shapes; /* at most, 1 .. BUCKETS_MOST_SHAPES; also programs to compile */
    bucket_batch batch;
    bucket_bound list[BUCKETS_MOST_LISTED]; /* of static */
    int32_t n_listed;
    uint64_t seed; /* of pool: of its shuffles */
} bucket_options;

/* A list as people write it: "8,16,24", for pairs also "8x10,16x20" (source x target); lengths
 * count the end mark. EBB_USAGE says what is wrong. */
ebb_status ebb__buckets_list(ebb_ctx *ctx, const char *text, bool pairs,
                             bucket_options *out) EBB_MUST_CHECK;

typedef struct bucket_shape {
    uint32_t source, target;    /* padded to */
    uint32_t longer, band, cut; /* members: longer side, target and source at most so long */
    int64_t rows;               /* of a batch */
    uint64_t sentences, batches;
    uint64_t empty_rows; /* of partial batches: without a sentence */
} bucket_shape;

/* Compiled; what an epoch runs on it. */
typedef struct bucket_program {
    uint32_t source, target;
    int64_t rows;
    uint64_t sentences, batches;
} bucket_program;

typedef struct bucket_plan {
    ebb_ctx *ctx;
    bucket_strategy strategy;
    bool pairs;
    bucket_shape *shapes; /* see ebb__bucket_find; of pool its programs */
    int32_t n_shapes;
    /* What to compile, at most options.shapes, of static as many as listed: the shapes themselves;
     * where greedy makes more, those of optimal; of pool, the optimal ones for the batches of one
     * epoch and one as long as the longest on both sides, which holds any. Smallest first. */
    bucket_program programs[BUCKETS_MOST_SHAPES];
    int32_t n_programs;
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

/* The shape that a sentence belongs to: the first whose limits and lengths hold it. Of a sentence
 * that was not counted (validation), the same; -1: no shape holds it. Of pool, the smallest. */
int32_t ebb__bucket_find(const bucket_plan *plan, uint32_t source, uint32_t target);
/* The smallest program that holds batches of these lengths; -1: none does. */
int32_t ebb__bucket_program(const bucket_plan *plan, uint32_t source, uint32_t target);
/* Padding of all processed tokens, rows without a sentence not counted: of batches as long as their
 * shape, of pool as their longest sentence; and as run on programs. */
double ebb__bucket_padded_share(const bucket_plan *plan);
double ebb__bucket_computed_share(const bucket_plan *plan);

/* ---- pool ---- */

/* Pools are drawn from a list of n sentences in the order of the cells of lengths.h. Sentences of a
 * pool; the last one may have fewer. */
uint64_t ebb__bucket_pool_size(const data_lengths *lengths, const bucket_batch *batch);
/* Places in that list of pool number `pool` of an epoch, ascending, which is by length; gives their
 * number. `out` has room for twice `size`, the second half of which is scratch. Every sentence is
 * in one pool of an epoch. */
uint64_t ebb__bucket_pool(uint64_t seed, uint64_t epoch, uint64_t n, uint64_t size, uint64_t pool,
                          uint64_t *out);

/* ---- optimal.c, for buckets.c and tests ---- */

typedef struct bucket_limit {
    uint32_t longer, band, cut;
} bucket_limit;
/* Limits of at most k shapes with the fewest padded tokens; gives their number. */
ebb_status ebb__buckets_optimal(const data_lengths *lengths, int32_t k, bucket_limit *out,
                                int32_t *n) EBB_MUST_CHECK;

#endif
