/* fit.c - see fit.h. */
#include "plan/fit.h"

#include <stdlib.h>
#include <string.h>

plan_span ebb__plan_span(const plan_placement *p, const plan_block *block) {
    plan_span span = {.birth = INT32_MAX};
    for (int32_t i = block->first; i < block->first + block->n; i++) {
        const plan_piece *piece = &p->pieces[i];
        span.birth = piece->birth < span.birth ? piece->birth : span.birth;
        span.death = piece->death > span.death ? piece->death : span.death;
        span.end = piece->hi > span.end ? piece->hi : span.end;
        span.stash = span.stash || piece->kind == IR_STASH;
        span.gradient = span.gradient || piece->kind == IR_GRADIENTS;
    }
    return span;
}

/* ---- order ---- */

typedef struct rank {
    uint64_t key;
    int32_t block;
} rank;

static int compare_ranks(const void *a, const void *b) {
    const rank *x = a, *y = b;
    if (x->key != y->key) {
        return x->key < y->key ? 1 : -1;
    }
    return (x->block > y->block) - (x->block < y->block);
}

ebb_status ebb__plan_rank(const plan_placement *p, alloc_region *region, plan_key_fn key,
                          int32_t **blocks, int32_t *n) {
    rank *ranks = NULL;
    TRY(ebb__region_alloc(region, (size_t)p->n_blocks + 1, sizeof *ranks, &ranks));
    TRY(ebb__region_alloc(region, (size_t)p->n_blocks + 1, sizeof **blocks, blocks));
    *n = 0;
    for (int32_t b = 0; b < p->n_blocks; b++) {
        if (p->blocks[b].variable == IR_NONE && p->blocks[b].n > 0) {
            ranks[(*n)++] = (rank){.key = key(p, &p->blocks[b]), .block = b};
        }
    }
    qsort(ranks, (size_t)*n, sizeof *ranks, compare_ranks);
    for (int32_t i = 0; i < *n; i++) {
        (*blocks)[i] = ranks[i].block;
    }
    return EBB_OK;
}

/* ---- rectangles ---- */

static int compare_rects(const void *a, const void *b) {
    const fit_rect *x = a, *y = b;
    if (x->lo != y->lo) {
        return x->lo < y->lo ? -1 : 1;
    }
    if (x->hi != y->hi) {
        return x->hi < y->hi ? -1 : 1;
    }
    return (x->birth > y->birth) - (x->birth < y->birth);
}

/* Sorts a block's rects and joins those that follow each other in the same bytes; their number. */
static int32_t join(fit_rect *rects, int32_t n) {
    int32_t kept = 0;
    qsort(rects, (size_t)n, sizeof *rects, compare_rects);
    for (int32_t i = 0; i < n; i++) {
        fit_rect *last = kept > 0 ? &rects[kept - 1] : NULL;
        if (last != NULL && last->lo == rects[i].lo && last->hi == rects[i].hi &&
            rects[i].birth <= last->death + 1) {
            last->death = rects[i].death > last->death ? rects[i].death : last->death;
        } else {
            rects[kept++] = rects[i];
        }
    }
    return kept;
}

static void make_rects(plan_fit *fit) {
    const plan_placement *p = fit->p;
    int32_t at = 0;
    for (int32_t b = 0; b < p->n_blocks; b++) {
        const plan_block *block = &p->blocks[b];
        fit->first[b] = at;
        for (int32_t i = 0; i < block->n; i++) {
            const plan_piece *piece = &p->pieces[block->first + i];
            fit->rects[at + i] = (fit_rect){b, piece->birth, piece->death, piece->lo, piece->hi};
        }
        at += join(&fit->rects[at], block->n);
    }
    fit->first[p->n_blocks] = at;
}

/* ---- first fit ---- */

ebb_status ebb__fit_init(plan_fit *fit, ebb_ctx *ctx, const plan_placement *p) {
    *fit = (plan_fit){.p = p};
    ebb__region_init(&fit->region, ctx);
    alloc_region *r = &fit->region;
    /* One interval to begin with, so that sorting never sees a null array. */
    TRY(ebb__region_grow(r, &fit->taken, &fit->cap_taken, 1, sizeof *fit->taken));
    TRY(ebb__region_alloc(r, (size_t)p->n_pieces + 1, sizeof *fit->stamp, &fit->stamp));
    TRY(ebb__region_alloc(r, (size_t)p->n_pieces + 1, sizeof *fit->rects, &fit->rects));
    TRY(ebb__region_alloc(r, (size_t)p->n_blocks + 1, sizeof *fit->first, &fit->first));
    make_rects(fit);
    return EBB_OK;
}

void ebb__fit_fini(plan_fit *fit) {
    ebb__region_fini(&fit->region);
}

static int32_t bucket_of(const plan_fit *fit, int32_t position) {
    return (int32_t)((int64_t)position * FIT_BUCKETS / (fit->p->n_positions + 1));
}

static uint64_t start_of(const plan_fit *fit, int32_t rect) {
    return fit->p->blocks[fit->rects[rect].block].offset + fit->rects[rect].lo;
}

static ebb_status forbid(plan_fit *fit, const fit_rect *mine, int32_t other) {
    const fit_rect *o = &fit->rects[other];
    if (o->birth > mine->death || o->death < mine->birth) {
        return EBB_OK;
    }
    int64_t start = (int64_t)start_of(fit, other);
    TRY(ebb__region_grow(&fit->region, &fit->taken, &fit->cap_taken, (size_t)fit->n_taken + 1,
                         sizeof *fit->taken));
    fit->taken[fit->n_taken++] =
        (fit_interval){.lo = start - (int64_t)mine->hi,
                       .hi = start + (int64_t)(o->hi - o->lo) - (int64_t)mine->lo};
    return EBB_OK;
}

static ebb_status gather(plan_fit *fit, int32_t block) {
    fit->n_taken = 0;
    for (int32_t i = fit->first[block]; i < fit->first[block + 1]; i++) {
        const fit_rect *mine = &fit->rects[i];
        int32_t stamp = ++fit->stamps;
        for (int32_t t = bucket_of(fit, mine->birth); t <= bucket_of(fit, mine->death); t++) {
            for (int32_t k = 0; k < fit->buckets[t].n; k++) {
                int32_t other = fit->buckets[t].rects[k];
                if (fit->stamp[other] != stamp) {
                    fit->stamp[other] = stamp;
                    TRY(forbid(fit, mine, other));
                }
            }
        }
    }
    return EBB_OK;
}

static int compare_intervals(const void *a, const void *b) {
    const fit_interval *x = a, *y = b;
    return (x->lo > y->lo) - (x->lo < y->lo);
}

ebb_status ebb__fit_lowest(plan_fit *fit, int32_t block, uint64_t *offset) {
    const fit_rect *first = &fit->rects[fit->first[block]];
    int64_t at = 0;
    TRY(gather(fit, block));
    /* One rect inside one bucket found its obstacles in order already. */
    if (fit->first[block + 1] - fit->first[block] > 1 ||
        bucket_of(fit, first->birth) != bucket_of(fit, first->death)) {
        qsort(fit->taken, (size_t)fit->n_taken, sizeof *fit->taken, compare_intervals);
    }
    for (int32_t i = 0; i < fit->n_taken && fit->taken[i].lo < at; i++) {
        if (at < fit->taken[i].hi) {
            at = (int64_t)plan_align((uint64_t)fit->taken[i].hi);
        }
    }
    *offset = (uint64_t)at;
    return EBB_OK;
}

static ebb_status remember(plan_fit *fit, fit_bucket *bucket, int32_t rect) {
    int32_t lo = 0, hi = bucket->n;
    TRY(ebb__region_grow(&fit->region, &bucket->rects, &bucket->capacity, (size_t)bucket->n + 1,
                         sizeof *bucket->rects));
    while (lo < hi) {
        int32_t mid = (lo + hi) / 2;
        if (start_of(fit, bucket->rects[mid]) <= start_of(fit, rect)) {
            lo = mid + 1;
        } else {
            hi = mid;
        }
    }
    memmove(&bucket->rects[lo + 1], &bucket->rects[lo],
            (size_t)(bucket->n - lo) * sizeof *bucket->rects);
    bucket->rects[lo] = rect;
    bucket->n++;
    return EBB_OK;
}

ebb_status ebb__fit_add(plan_fit *fit, int32_t block) {
    for (int32_t i = fit->first[block]; i < fit->first[block + 1]; i++) {
        const fit_rect *mine = &fit->rects[i];
        for (int32_t t = bucket_of(fit, mine->birth); t <= bucket_of(fit, mine->death); t++) {
            TRY(remember(fit, &fit->buckets[t], i));
        }
    }
    return EBB_OK;
}
