/* fit.h - first fit: the lowest offset where a block's pieces meet nothing alive at the same time.
 */
#ifndef PLAN_FIT_H
#define PLAN_FIT_H

#include "plan/storage.h"

/* Bytes [lo, hi) of a block during [birth, death]: pieces that follow each other in the same bytes
 * (an accumulation in place) are one. */
typedef struct fit_rect {
    int32_t birth, death;
    uint64_t lo, hi;
} fit_rect;

typedef struct fit_run {
    uint64_t lo, hi;
} fit_run;

/* A set of bytes: disjoint runs, lowest first, that do not touch. */
typedef struct fit_bytes {
    fit_run *runs;
    size_t capacity;
    int32_t n;
} fit_bytes;

/* A stretch of time in a binary tree of them. */
typedef struct fit_stretch {
    fit_bytes always; /* taken during all of it, by what is not taken during all of its parent's */
    fit_bytes ever;   /* taken at some time in it, by whatever does not outlast its parent */
} fit_stretch;

/* Placed rects that begin or end within a leaf of the tree. */
typedef struct fit_leaf {
    fit_rect *rects; /* lo, hi: in the arena */
    size_t capacity;
    int32_t n;
} fit_leaf;

/* What one rect of the block that is asked for may meet, wherever it lies. */
typedef struct fit_question {
    int32_t first_set, n_sets; /* in plan_fit.sets */
    const fit_leaf *ends[2];
    int32_t n_ends;
} fit_question;

typedef struct plan_fit {
    const plan_placement *p;
    alloc_region region;
    fit_rect *rects;        /* grouped by block */
    int32_t *first;         /* by block: its first rect; [n_blocks] ends the last */
    fit_stretch *stretches; /* [1] is all of time, [2 * i], [2 * i + 1] the halves of [i] */
    fit_leaf *leaves;
    int32_t n_leaves;        /* a power of 2 */
    fit_question *questions; /* by rect of the block */
    const fit_bytes **sets;
    int32_t n_sets;
    size_t cap_questions, cap_sets;
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

/* ends.c: gradients and other lasting values grow from the bottom as they are born, or the largest
 * first, what crosses from forward to backward hangs from the ceiling, the rest goes between; the
 * ceiling is as low as that allows. *top = highest byte. */
ebb_status ebb__plan_place_ends(pass_unit *unit, plan_placement *placement, bool large_first,
                                uint64_t *top) EBB_MUST_CHECK;

/* Blocks to be placed, largest key first (ties: lower index), as indices in memory of `region`. */
typedef uint64_t (*plan_key_fn)(const plan_placement *placement, const plan_block *block);
ebb_status ebb__plan_rank(const plan_placement *placement, alloc_region *region, plan_key_fn key,
                          int32_t **blocks, int32_t *n) EBB_MUST_CHECK;

#endif
