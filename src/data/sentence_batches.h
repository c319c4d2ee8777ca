/* sentence_batches.h - batches of sentences, or of pairs of sentences, each padded to one of a few
 * shapes.
 *
 * A sentence belongs to the smallest shape that holds it. The sentences of a shape are shuffled and
 * cut in batches of its B rows, the batches of all shapes are shuffled again: every sentence is
 * used once an epoch, and a batch is a function of seed and step alone. Where B does not divide the
 * sentences of a shape, the last batch has empty rows.
 *
 * The other way is to pool them: all sentences are shuffled and cut into pools of BUCKETS_POOL
 * batches. The sentences of a pool are sorted by length (lengths.h) and cut into batches, which
 * come in shuffled order, each on the smallest shape that holds it. Here, too, every sentence is
 * used once an epoch and a batch is a function of seed and step; only the last batch of an epoch
 * has empty rows.
 *
 * Pools may be of sentences that are cut anew in every epoch (codes_drop.h): their lengths are then
 * those of the epoch. One that is too long for all shapes stays as it is stored.
 *
 * Some tokens may be blanked, others in every epoch: what is read has <unk> there, labels do not.
 *
 * The positions and lengths of the sentences lie, shape by shape, in a file without a name that is
 * made at the start; their tokens lie in the token files. One pool at a time is in memory. */
#ifndef DATA_SENTENCE_BATCHES_H
#define DATA_SENTENCE_BATCHES_H

#include "data/buckets.h"
#include "data/codes_drop.h"
#include "data/sentence_index.h"

/* One pool, of `epoch`: entries in the order of lengths. */
typedef struct sentence_pool {
    uint64_t epoch, number; /* epoch UINT64_MAX: none */
    uint64_t count;
    sentence_entry entries[];
} sentence_pool;
/* Bytes of the largest; a multiple of 8. */
uint64_t ebb__sentence_pool_bytes(uint64_t sentences, uint64_t rows);

typedef struct sentence_batches {
    ebb_ctx *ctx;
    const tokens_reader *source, *target; /* source NULL: one text */
    int index;                            /* descriptor */
    char path[1024];
    data_shapes shapes;               /* with what an epoch has of each */
    uint64_t first[DATA_MOST_SHAPES]; /* entry of each shape in the index */
    uint64_t windows;                 /* batches of an epoch */
    uint64_t sentences;               /* of all shapes */
    uint64_t seed;                    /* of the order */
    bool shuffle;                     /* else as in the text, shape by shape */
    bool pooled;
    double blank;        /* as in the options */
    uint32_t *staging;   /* the caller's; room for the longest sentence and one more */
    sentence_pool *pool; /* the caller's, if they are pooled: none, in so many bytes */
    codes_drop *drop;    /* [2]: the caller's, source and target, of pooled pairs that are cut anew
                            in every epoch; each has room for the longest shape. NULL: they are not */
} sentence_batches;

typedef struct sentence_options {
    uint32_t max_len;   /* as scanned */
    bool split;         /* likewise */
    data_shapes shapes; /* every sentence has one that holds it */
    uint64_t seed;
    bool shuffle;
    double
        drop; /* share of pairs that are passed over when sentences are cut anew; 0: they are not */
    double blank; /* share of tokens that are blanked */
    bool pooled; /* shapes have the same rows, and one is as long as all others on both sides */
} sentence_options;

/* Makes the index, in a file without a name in the folder of `path`, of one token file (source
 * NULL) or two. Close also after a failure. */
ebb_status ebb__sentence_batches_open(ebb_ctx *ctx, const tokens_reader *source,
                                      const tokens_reader *target, const sentence_options *options,
                                      const char *path, sentence_batches *out) EBB_MUST_CHECK;
void ebb__sentence_batches_close(sentence_batches *batches);

/* The batch of a step: its shape, and its number among the batches of that shape; if sentences are
 * pooled, its number among all batches of the epoch. */
typedef struct sentence_place {
    int32_t shape;
    uint64_t epoch, batch;
} sentence_place;
/* Reads the pool, if it is not the one in memory. Allocates nothing. */
ebb_status ebb__sentence_place(const sentence_batches *batches, uint64_t step,
                               sentence_place *out) EBB_MUST_CHECK;

/* The memory that a batch is written to; S, T and B are those of its shape. Time descends by blocks
 * of B rows, as in batcher.h. With one text, only inputs and labels are written. */
typedef struct sentence_target {
    int32_t *source;  /* [S*B]; padding is <eos> */
    int32_t *lengths; /* [B]; 0: an empty row */
    int32_t *inputs;  /* [T*B]: the token before (<eos>, but for later parts), then the target's */
    int32_t *labels;  /* [T*B]: the target's tokens, then <eos>; -1: padding */
} sentence_target;
/* Writes the batch of the place that ebb__sentence_place gave last. Allocates nothing. *words: the
 * number of labels that are not padding. */
ebb_status ebb__sentence_fill(const sentence_batches *batches, const sentence_place *place,
                              const sentence_target *to, uint64_t *words) EBB_MUST_CHECK;

/* Reads one sentence by its number in the index (shape by shape, not shuffled): the ids of its
 * source or target with the line end, *n of them, at most `room`. */
ebb_status ebb__sentence_read(const sentence_batches *batches, uint64_t number, bool target,
                              uint32_t *ids, uint32_t room, uint32_t *n) EBB_MUST_CHECK;

#endif
