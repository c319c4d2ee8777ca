/* pair_batches.h - batches of sentence pairs, each padded to one of a few shapes.
 *
 * A pair belongs to the smallest shape that holds it. The pairs of a shape are shuffled and cut in
 * batches of B, the batches of all shapes are shuffled again: every pair is used once an epoch, and
 * a batch is a function of seed and step alone. Where B does not divide the pairs of a shape, the
 * last batch has empty rows.
 *
 * Nothing is kept in memory: positions and lengths of the pairs, by shape, lie in a file without a
 * name, made at the start, and the tokens in their token files. */
#ifndef DATA_PAIR_BATCHES_H
#define DATA_PAIR_BATCHES_H

#include "data/buckets.h"
#include "data/tokens.h"

typedef struct pair_class {
    bucket_bound shape;
    uint64_t first, count, batches; /* first entry of the index, pairs, batches */
} pair_class;

typedef struct pair_batches {
    ebb_ctx *ctx;
    const tokens_reader *source, *target;
    int index; /* descriptor */
    char path[1024];
    pair_class classes[BUCKETS_MOST_SHAPES];
    int32_t n_classes;
    uint32_t rows;     /* B */
    uint64_t windows;  /* batches of an epoch */
    uint64_t pairs;    /* of all classes */
    uint64_t seed;     /* of the order */
    bool shuffle;      /* else as in the text, shape by shape */
    uint32_t *staging; /* the caller's; room for the longest sentence */
} pair_batches;

typedef struct pair_options {
    uint32_t max_len; /* as scanned */
    bucket_bound shapes[BUCKETS_MOST_SHAPES];
    int32_t n_shapes; /* every pair has one that holds it */
    uint32_t rows;
    uint64_t seed;
    bool shuffle;
} pair_options;

/* Makes the index at `path`, which vanishes again, of two token files. Close also after a failure.
 */
ebb_status ebb__pair_batches_open(ebb_ctx *ctx, const tokens_reader *source,
                                  const tokens_reader *target, const pair_options *options,
                                  const char *path, pair_batches *out) EBB_MUST_CHECK;
void ebb__pair_batches_close(pair_batches *batches);

/* Which batch a step is: its class, and its number among those. */
typedef struct pair_place {
    int32_t class;
    uint64_t epoch, batch;
} pair_place;
pair_place ebb__pair_place(const pair_batches *batches, uint64_t step);

/* Where a batch goes; S, T of its class. Time descends by blocks of B rows, as in batcher.h. */
typedef struct pair_target {
    int32_t *source;  /* [S*B]; padding is <eos> */
    int32_t *lengths; /* [B]; 0: an empty row */
    int32_t *inputs;  /* [T*B]: <eos>, then the target's tokens */
    int32_t *labels;  /* [T*B]: the target's tokens, then <eos>; -1: padding */
} pair_target;
/* Allocates nothing. *words: labels that are not padding. */
ebb_status ebb__pair_fill(const pair_batches *batches, const pair_place *place,
                          const pair_target *to, uint64_t *words) EBB_MUST_CHECK;

/* Pairs by number, shape by shape, whatever the shuffling: the ids of one side with its line end,
 * *n of them, at most `room`. */
ebb_status ebb__pair_read(const pair_batches *batches, uint64_t number, bool target, uint32_t *ids,
                          uint32_t room, uint32_t *n) EBB_MUST_CHECK;

/* Place of i in a shuffled list of n; a pure function. For tests. */
uint64_t ebb__pair_shuffle(uint64_t seed, uint64_t epoch, uint32_t list, uint64_t i, uint64_t n);

#endif
