/* fit.h - first fit: the lowest offset where a block's pieces meet nothing alive at the same time.
 */
#ifndef PLAN_FIT_H
#define PLAN_FIT_H

#include "plan/storage.h"

enum { FIT_BUCKETS = 64 };

/* Bytes [lo, hi) of a block during [birth, death]: pieces that follow each other in the same bytes
 * (an accumulation in place) are one. */
typedef struct fit_rect {
    int32_t block, birth, death;
    uint64_t lo, hi;
} fit_rect;

typedef struct fit_interval {
    int64_t lo, hi; /* offsets the block must not start at: lo < offset < hi */
} fit_interval;

typedef struct fit_bucket {
    int32_t *rects;
    int32_t n;
    size_t capacity;
} fit_bucket;

typedef struct plan_fit {
    const plan_placement *p;
    alloc_region region;
    fit_rect *rects;                 /* grouped by block */
    int32_t *first;                  /* by block: its first rect; [n_blocks] ends the last */
    fit_bucket buckets[FIT_BUCKETS]; /* placed rects alive in a stretch of time, lowest first */
    int32_t *stamp;                  /* by rect: last question in which it was seen */
    int32_t stamps;
    fit_interval *taken;
    int32_t n_taken;
    size_t cap_taken;
} plan_fit;

ebb_status ebb__fit_init(plan_fit *fit, ebb_ctx *ctx,
                         const plan_placement *placement) EBB_MUST_CHECK;
void ebb__fit_fini(plan_fit *fit);
/* Lowest aligned offset for the block among those added so far. */
ebb_status ebb__fit_lowest(plan_fit *fit, int32_t block, uint64_t *offset) EBB_MUST_CHECK;
/* Makes the block, whose offset is set, an obstacle. */
ebb_status ebb__fit_add(plan_fit *fit, int32_t block) EBB_MUST_CHECK;

/* What a block's pieces amount to. */
typedef struct plan_span {
    int32_t birth, death;
    uint64_t end; /* highest byte of a piece */
    bool stash, gradient;
} plan_span;
plan_span ebb__plan_span(const plan_placement *placement, const plan_block *block);

/* ends.c: gradients and other lasting values grow from the bottom as they are born, what crosses
 * from forward to backward hangs from the ceiling, the rest goes between. *top = highest byte;
 * UINT64_MAX if they do not fit. Time is linear in blocks and their spans. */
ebb_status ebb__plan_place_ends(pass_unit *unit, plan_placement *placement, uint64_t ceiling,
                                uint64_t *top) EBB_MUST_CHECK;

/* Blocks to be placed, largest key first (ties: lower index), as indices in memory of `region`. */
typedef uint64_t (*plan_key_fn)(const plan_placement *placement, const plan_block *block);
ebb_status ebb__plan_rank(const plan_placement *placement, alloc_region *region, plan_key_fn key,
                          int32_t **blocks, int32_t *n) EBB_MUST_CHECK;

#endif
