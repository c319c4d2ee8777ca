/* place.c - a byte offset for every transient block in one arena.
 *
 * A block is rigid but not a rectangle: its pieces live at different times. Blocks are placed one
 * by one at the lowest offset where no piece meets a piece alive at the same time. Placing the
 * longest-lived first is optimal where lifetimes nest (forward values freed in reverse order);
 * other orders are tried as well and the lowest top wins. Variables are laid out by the plan.
 */
#include "plan/passes.h"

#include <stdlib.h>
#include <string.h>

enum { TIME_BUCKETS = 64 };

typedef struct interval {
    int64_t lo, hi; /* offsets the block must not start at: lo < offset < hi */
} interval;

typedef struct bucket {
    int32_t *pieces;
    int32_t n;
    size_t capacity;
} bucket;

typedef struct placer {
    pass_unit *unit;
    plan_placement *p;
    alloc_region region; /* scratch of one trial */
    bucket buckets[TIME_BUCKETS]; /* placed pieces by the stretch of time they are alive in */
    int32_t *stamp;      /* by piece: last question in which it was seen */
    int32_t stamps;
    interval *taken;
    int32_t n_taken;
    size_t cap_taken;
} placer;

/* ---- order of placement ---- */

typedef struct rank {
    uint64_t key; /* larger first */
    int32_t block;
} rank;

static int compare_ranks(const void *a, const void *b) {
    const rank *x = a, *y = b;
    if (x->key != y->key) {
        return x->key < y->key ? 1 : -1;
    }
    return (x->block > y->block) - (x->block < y->block);
}

typedef enum strategy { BY_SPAN, BY_BYTES, BY_AREA, BY_BIRTH, STRATEGIES } strategy;

static uint64_t block_key(const plan_placement *p, const plan_block *block, strategy how) {
    int32_t birth = INT32_MAX, death = 0;
    double area = 0;
    for (int32_t i = block->first; i < block->first + block->n; i++) {
        const plan_piece *piece = &p->pieces[i];
        birth = piece->birth < birth ? piece->birth : birth;
        death = piece->death > death ? piece->death : death;
        area += (double)(piece->hi - piece->lo) * (piece->death - piece->birth + 1);
    }
    switch (how) {
    case BY_SPAN:
        return (uint64_t)(death - birth);
    case BY_BYTES:
        return block->bytes;
    case BY_AREA:
        return (uint64_t)area;
    default:
        return (uint64_t)(INT32_MAX - birth);
    }
}

/* ---- one block ---- */

static int32_t bucket_of(const placer *pl, int32_t position) {
    return (int32_t)((int64_t)position * TIME_BUCKETS / (pl->p->n_positions + 1));
}

static ebb_status forbid(placer *pl, const plan_piece *mine, const plan_piece *other) {
    uint64_t base = pl->p->blocks[other->block].offset;
    if (other->birth > mine->death || other->death < mine->birth) {
        return EBB_OK;
    }
    TRY(ebb__region_grow(&pl->region, &pl->taken, &pl->cap_taken, (size_t)pl->n_taken + 1,
                         sizeof *pl->taken));
    pl->taken[pl->n_taken++] = (interval){.lo = (int64_t)(base + other->lo) - (int64_t)mine->hi,
                                          .hi = (int64_t)(base + other->hi) - (int64_t)mine->lo};
    return EBB_OK;
}

static int compare_intervals(const void *a, const void *b) {
    const interval *x = a, *y = b;
    return (x->lo > y->lo) - (x->lo < y->lo);
}

static ebb_status place_block(placer *pl, int32_t b) {
    plan_block *block = &pl->p->blocks[b];
    pl->n_taken = 0;
    for (int32_t i = block->first; i < block->first + block->n; i++) {
        const plan_piece *mine = &pl->p->pieces[i];
        int32_t stamp = ++pl->stamps;
        for (int32_t t = bucket_of(pl, mine->birth); t <= bucket_of(pl, mine->death); t++) {
            for (int32_t k = 0; k < pl->buckets[t].n; k++) {
                int32_t other = pl->buckets[t].pieces[k];
                if (pl->stamp[other] != stamp) {
                    pl->stamp[other] = stamp;
                    TRY(forbid(pl, mine, &pl->p->pieces[other]));
                }
            }
        }
    }
    qsort(pl->taken, (size_t)pl->n_taken, sizeof *pl->taken, compare_intervals);
    int64_t offset = 0;
    for (int32_t i = 0; i < pl->n_taken && pl->taken[i].lo < offset; i++) {
        if (offset < pl->taken[i].hi) {
            offset = (int64_t)plan_align((uint64_t)pl->taken[i].hi);
        }
    }
    block->offset = (uint64_t)offset;
    for (int32_t i = block->first; i < block->first + block->n; i++) {
        const plan_piece *mine = &pl->p->pieces[i];
        for (int32_t t = bucket_of(pl, mine->birth); t <= bucket_of(pl, mine->death); t++) {
            bucket *list = &pl->buckets[t];
            TRY(ebb__region_grow(&pl->region, &list->pieces, &list->capacity, (size_t)list->n + 1,
                                 sizeof *list->pieces));
            list->pieces[list->n++] = i;
        }
    }
    return EBB_OK;
}

/* ---- trials ---- */

static ebb_status try_strategy(pass_unit *unit, plan_placement *p, strategy how, uint64_t *top) {
    placer pl = {.unit = unit, .p = p};
    rank *ranks = NULL;
    size_t n = 0;
    ebb_status status;
    *top = 0;
    ebb__region_init(&pl.region, unit->ctx);
    TRY_OUT(ebb__region_alloc(&pl.region, (size_t)p->n_blocks + 1, sizeof *ranks, &ranks));
    TRY_OUT(ebb__region_alloc(&pl.region, (size_t)p->n_pieces + 1, sizeof *pl.stamp, &pl.stamp));
    for (int32_t b = 0; b < p->n_blocks; b++) {
        if (p->blocks[b].variable == IR_NONE && p->blocks[b].n > 0) {
            ranks[n++] = (rank){.key = block_key(p, &p->blocks[b], how), .block = b};
        }
    }
    qsort(ranks, n, sizeof *ranks, compare_ranks);
    for (size_t i = 0; i < n; i++) {
        TRY_OUT(place_block(&pl, ranks[i].block));
        const plan_block *block = &p->blocks[ranks[i].block];
        for (int32_t k = block->first; k < block->first + block->n; k++) {
            uint64_t end = block->offset + p->pieces[k].hi;
            *top = end > *top ? end : *top;
        }
    }
out:
    ebb__region_fini(&pl.region);
    return status;
}

static ebb_status run(pass_unit *unit) {
    plan_placement *p = NULL;
    uint64_t *best = NULL, best_top = UINT64_MAX;
    TRY(ebb__region_alloc(&unit->region, 1, sizeof *p, &p));
    TRY(ebb__plan_storage(unit, p));
    TRY(ebb__plan_load(unit, p, NULL, &p->load_bytes));
    TRY(ebb__region_alloc(&unit->region, (size_t)p->n_blocks + 1, sizeof *best, &best));
    for (int how = 0; how < STRATEGIES && best_top > p->load_bytes; how++) {
        uint64_t top = 0;
        TRY(try_strategy(unit, p, (strategy)how, &top));
        if (top < best_top) {
            best_top = top;
            for (int32_t b = 0; b < p->n_blocks; b++) {
                best[b] = p->blocks[b].offset;
            }
        }
    }
    /* Variables get provisional offsets here; a plan of several programs lays them out again. */
    for (int32_t b = 0; b < p->n_blocks; b++) {
        plan_block *block = &p->blocks[b];
        block->offset = best[b];
        if (block->variable != IR_NONE) {
            block->offset = p->transient_base;
            p->transient_base += plan_align(block->bytes);
        }
    }
    p->transient_bytes = best_top;
    unit->placement = p;
    return EBB_OK;
}

const pass_def ebb__pass_place = {.id = PASS_PLACE, .run = run};

/* ---- load ---- */

ebb_status ebb__plan_load(pass_unit *unit, const plan_placement *p, int32_t *position,
                          uint64_t *bytes) {
    int64_t *change = NULL;
    TRY(ebb__region_alloc(&unit->region, (size_t)p->n_positions + 2, sizeof *change, &change));
    for (int32_t i = 0; i < p->n_pieces; i++) {
        const plan_piece *piece = &p->pieces[i];
        if (p->blocks[piece->block].variable == IR_NONE) {
            change[piece->birth] += (int64_t)(piece->hi - piece->lo);
            change[piece->death + 1] -= (int64_t)(piece->hi - piece->lo);
        }
    }
    int64_t alive = 0, most = 0;
    for (int32_t t = 0; t < p->n_positions; t++) {
        alive += change[t];
        if (alive > most) {
            most = alive;
            if (position != NULL) {
                *position = t;
            }
        }
    }
    *bytes = (uint64_t)most;
    return EBB_OK;
}
