/* place.c - a byte offset for every transient block in one arena.
 *
 * A block is rigid but not a rectangle: its pieces live at different times. Blocks are placed one
 * by one at the lowest offset where no piece meets a piece alive at the same time. Placing the
 * longest-lived first is optimal where lifetimes nest (forward values freed in reverse order).
 * Training crosses two families: the stash, freed from its young end as backward goes on, and
 * gradients, which stay to the end. TWO_ENDED lets them grow towards each other under a ceiling.
 * Several orders are tried and the lowest top wins. Variables are laid out by the plan.
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
    bucket
        buckets[TIME_BUCKETS]; /* placed pieces alive in a stretch of time, lowest address first */
    int32_t *stamp;            /* by piece: last question in which it was seen */
    int32_t stamps;
    interval *taken;
    int32_t n_taken;
    size_t cap_taken;
    uint64_t ceiling; /* TWO_ENDED: stash is placed down from here, nothing may pass it */
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

typedef enum strategy { BY_SPAN, BY_BYTES, BY_AREA, TWO_ENDED, STRATEGIES } strategy;

typedef struct block_span {
    int32_t birth, death;
    bool stash, gradient;
} block_span;

static block_span span_of(const plan_placement *p, const plan_block *block) {
    block_span span = {.birth = INT32_MAX};
    for (int32_t i = block->first; i < block->first + block->n; i++) {
        const plan_piece *piece = &p->pieces[i];
        span.birth = piece->birth < span.birth ? piece->birth : span.birth;
        span.death = piece->death > span.death ? piece->death : span.death;
        span.stash = span.stash || piece->kind == IR_STASH;
        span.gradient = span.gradient || piece->kind == IR_GRADIENTS;
    }
    return span;
}

/* TWO_ENDED: gradients and what else stays long grow from the bottom as they are born; what
 * crosses from forward to backward hangs from the top. */
static bool stays(const plan_placement *p, const block_span *span) {
    bool lasting = !span->stash && span->death - span->birth > p->n_positions / 16;
    return span->gradient || lasting || span->death == p->n_positions - 1;
}

static bool crosses(const plan_placement *p, const plan_block *block) {
    block_span span = span_of(p, block);
    return span.stash && !stays(p, &span);
}

static uint64_t block_key(const plan_placement *p, const plan_block *block, strategy how) {
    block_span span = span_of(p, block);
    double area = 0;
    for (int32_t i = block->first; i < block->first + block->n; i++) {
        const plan_piece *piece = &p->pieces[i];
        area += (double)(piece->hi - piece->lo) * (piece->death - piece->birth + 1);
    }
    switch (how) {
    case BY_SPAN:
        return (uint64_t)(span.death - span.birth);
    case BY_BYTES:
        return block->bytes;
    case BY_AREA:
        return (uint64_t)area;
    default:
        return stays(p, &span)     ? ((uint64_t)2 << 61) + (uint64_t)(INT32_MAX - span.birth)
               : crosses(p, block) ? ((uint64_t)1 << 61) + (uint64_t)(span.death - span.birth)
                                   : block->bytes;
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

static ebb_status remember(placer *pl, bucket *list, int32_t piece) {
    const plan_piece *pieces = pl->p->pieces;
    uint64_t start = pl->p->blocks[pieces[piece].block].offset + pieces[piece].lo;
    int32_t lo = 0, hi = list->n;
    TRY(ebb__region_grow(&pl->region, &list->pieces, &list->capacity, (size_t)list->n + 1,
                         sizeof *list->pieces));
    while (lo < hi) {
        int32_t mid = (lo + hi) / 2;
        const plan_piece *other = &pieces[list->pieces[mid]];
        if (pl->p->blocks[other->block].offset + other->lo <= start) {
            lo = mid + 1;
        } else {
            hi = mid;
        }
    }
    memmove(&list->pieces[lo + 1], &list->pieces[lo],
            (size_t)(list->n - lo) * sizeof *list->pieces);
    list->pieces[lo] = piece;
    list->n++;
    return EBB_OK;
}

static uint64_t block_end(const plan_placement *p, const plan_block *block) {
    uint64_t end = 0;
    for (int32_t i = block->first; i < block->first + block->n; i++) {
        end = p->pieces[i].hi > end ? p->pieces[i].hi : end;
    }
    return end;
}

static int64_t lowest_gap(placer *pl, bool sorted) {
    int64_t offset = 0;
    if (!sorted) {
        qsort(pl->taken, (size_t)pl->n_taken, sizeof *pl->taken, compare_intervals);
    }
    for (int32_t i = 0; i < pl->n_taken && pl->taken[i].lo < offset; i++) {
        if (offset < pl->taken[i].hi) {
            offset = (int64_t)plan_align((uint64_t)pl->taken[i].hi);
        }
    }
    return offset;
}

static int compare_ends(const void *a, const void *b) {
    const interval *x = a, *y = b;
    return (x->hi < y->hi) - (x->hi > y->hi);
}

/* The highest offset below the ceiling; negative if there is none. */
static int64_t highest_gap(placer *pl, const plan_block *block) {
    int64_t offset = (int64_t)pl->ceiling - (int64_t)block_end(pl->p, block);
    offset = offset < 0 ? offset : offset / PLAN_ALIGN * PLAN_ALIGN;
    qsort(pl->taken, (size_t)pl->n_taken, sizeof *pl->taken, compare_ends);
    for (int32_t i = 0; i < pl->n_taken && offset >= 0 && pl->taken[i].hi > offset; i++) {
        if (pl->taken[i].lo < offset) {
            offset = pl->taken[i].lo < 0 ? -1 : pl->taken[i].lo / PLAN_ALIGN * PLAN_ALIGN;
        }
    }
    return offset;
}

/* Raises *top to the block's end; UINT64_MAX if it does not fit under the ceiling. */
static ebb_status place_block(placer *pl, int32_t b, uint64_t *top) {
    plan_block *block = &pl->p->blocks[b];
    const plan_piece *only = &pl->p->pieces[block->first];
    bool sorted = block->n == 1 && bucket_of(pl, only->birth) == bucket_of(pl, only->death);
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
    int64_t offset =
        pl->ceiling > 0 && crosses(pl->p, block) ? highest_gap(pl, block) : lowest_gap(pl, sorted);
    if (offset < 0) {
        *top = UINT64_MAX;
        return EBB_OK;
    }
    block->offset = (uint64_t)offset;
    uint64_t end = block->offset + block_end(pl->p, block);
    *top = pl->ceiling > 0 && end > pl->ceiling ? UINT64_MAX : end > *top ? end : *top;
    for (int32_t i = block->first; i < block->first + block->n; i++) {
        const plan_piece *mine = &pl->p->pieces[i];
        for (int32_t t = bucket_of(pl, mine->birth); t <= bucket_of(pl, mine->death); t++) {
            TRY(remember(pl, &pl->buckets[t], i));
        }
    }
    return EBB_OK;
}

/* ---- trials ---- */

static ebb_status try_strategy(pass_unit *unit, plan_placement *p, strategy how, uint64_t ceiling,
                               uint64_t *top) {
    placer pl = {.unit = unit, .p = p, .ceiling = ceiling};
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
    for (size_t i = 0; i < n && *top != UINT64_MAX; i++) {
        TRY_OUT(place_block(&pl, ranks[i].block, top));
    }
out:
    ebb__region_fini(&pl.region);
    return status;
}

static ebb_status keep_if_better(pass_unit *unit, plan_placement *p, strategy how, uint64_t ceiling,
                                 uint64_t *best, uint64_t *best_top) {
    uint64_t top = 0;
    TRY(try_strategy(unit, p, how, ceiling, &top));
    if (top < *best_top) {
        *best_top = top;
        for (int32_t b = 0; b < p->n_blocks; b++) {
            best[b] = p->blocks[b].offset;
        }
    }
    return EBB_OK;
}

static ebb_status run(pass_unit *unit) {
    static const int slack_permille[] = {2, 5, 10, 20, 40};
    plan_placement *p = NULL;
    uint64_t *best = NULL, best_top = UINT64_MAX;
    TRY(ebb__region_alloc(&unit->region, 1, sizeof *p, &p));
    TRY(ebb__plan_storage(unit, p));
    TRY(ebb__plan_load(unit, p, NULL, &p->load_bytes));
    TRY(ebb__region_alloc(&unit->region, (size_t)p->n_blocks + 1, sizeof *best, &best));
    /* Rounding up to PLAN_ALIGN alone may cost a little: a tenth of a percent is good enough. */
    uint64_t enough = p->load_bytes + p->load_bytes / 1024;
    for (int how = 0; how < TWO_ENDED && best_top > enough; how++) {
        TRY(keep_if_better(unit, p, (strategy)how, 0, best, &best_top));
    }
    for (size_t i = 0; i < sizeof slack_permille / sizeof *slack_permille; i++) {
        uint64_t ceiling = p->load_bytes + p->load_bytes / 1000 * (uint64_t)slack_permille[i];
        if (ceiling >= best_top) {
            break;
        }
        TRY(keep_if_better(unit, p, TWO_ENDED, plan_align(ceiling), best, &best_top));
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
