/* fit.c - see fit.h.
 *
 * Placed rects lie in a binary tree over time. Each is written to the few stretches that it fills
 * and whose parents it does not (`always`), to every stretch that it meets without outlasting the
 * parent (`ever`), and where it begins or ends within a leaf, to the leaf. A rect meets: what its
 * window's stretches ever hold, what the stretches around them always hold, and of the leaves at
 * its ends what is alive at the same time. These are sets of bytes, mostly a few long runs, so a
 * place above them is found in a few steps, however many rects they consist of.
 */
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
        if (plan_is_transient(&p->blocks[b]) && p->blocks[b].n > 0) {
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
            fit->rects[at + i] = (fit_rect){piece->birth, piece->death, piece->lo, piece->hi};
        }
        at += join(&fit->rects[at], block->n);
    }
    fit->first[p->n_blocks] = at;
}

/* ---- sets of bytes ---- */

/* The first run that ends behind an address. */
static int32_t find_run(const fit_bytes *set, uint64_t address) {
    int32_t lo = 0, hi = set->n;
    while (lo < hi) {
        int32_t mid = lo + (hi - lo) / 2;
        if (set->runs[mid].hi <= address) {
            lo = mid + 1;
        } else {
            hi = mid;
        }
    }
    return lo;
}

static ebb_status add_run(plan_fit *fit, fit_bytes *set, fit_run run) {
    int32_t i = run.lo > 0 ? find_run(set, run.lo - 1) : 0, end = i; /* touching counts */
    while (end < set->n && set->runs[end].lo <= run.hi) {
        end++;
    }
    if (end == i) {
        TRY(ebb__region_grow(&fit->region, &set->runs, &set->capacity, (size_t)set->n + 1,
                             sizeof *set->runs));
        memmove(&set->runs[i + 1], &set->runs[i], (size_t)(set->n - i) * sizeof *set->runs);
        set->runs[i] = run;
        set->n++;
        return EBB_OK;
    }
    run.lo = set->runs[i].lo < run.lo ? set->runs[i].lo : run.lo;
    run.hi = set->runs[end - 1].hi > run.hi ? set->runs[end - 1].hi : run.hi;
    set->runs[i] = run;
    if (end > i + 1) {
        memmove(&set->runs[i + 1], &set->runs[end], (size_t)(set->n - end) * sizeof *set->runs);
        set->n -= end - i - 1;
    }
    return EBB_OK;
}

/* ---- the tree ---- */

enum { LEAF_POSITIONS = 16 };

ebb_status ebb__fit_init(plan_fit *fit, ebb_ctx *ctx, const plan_placement *p) {
    *fit = (plan_fit){.p = p, .n_leaves = 1};
    ebb__region_init(&fit->region, ctx);
    alloc_region *r = &fit->region;
    while ((int64_t)fit->n_leaves * LEAF_POSITIONS <= p->n_positions) {
        fit->n_leaves *= 2;
    }
    size_t leaves = (size_t)fit->n_leaves;
    TRY(REGION_ARRAYS(r, ARRAY(fit->leaves, leaves), ARRAY(fit->stretches, 2 * leaves),
                      ARRAY(fit->rects, (size_t)p->n_pieces + 1),
                      ARRAY(fit->first, (size_t)p->n_blocks + 1)));
    make_rects(fit);
    return EBB_OK;
}

void ebb__fit_fini(plan_fit *fit) {
    ebb__region_fini(&fit->region);
}

/* Positions [begin, end) of stretch `at`. */
typedef struct place_in_time {
    int32_t at, begin, end;
} place_in_time;

static place_in_time all_time(const plan_fit *fit) {
    return (place_in_time){1, 0, fit->n_leaves * LEAF_POSITIONS};
}

static place_in_time half_of(place_in_time t, int32_t which) {
    int32_t mid = t.begin + (t.end - t.begin) / 2;
    return (place_in_time){2 * t.at + which, which == 0 ? t.begin : mid, which == 0 ? mid : t.end};
}

static ebb_status insert(plan_fit *fit, place_in_time t, const fit_rect *rect) {
    fit_stretch *stretch = &fit->stretches[t.at];
    /* Blocks begin at multiples of the alignment: many small ones are one run. */
    fit_run run = {rect->lo, plan_align(rect->hi)};
    TRY(add_run(fit, &stretch->ever, run));
    if (rect->birth <= t.begin && rect->death >= t.end - 1) {
        return add_run(fit, &stretch->always, run);
    }
    if (t.at >= fit->n_leaves) {
        fit_leaf *leaf = &fit->leaves[t.at - fit->n_leaves];
        TRY(ebb__region_grow(&fit->region, &leaf->rects, &leaf->capacity, (size_t)leaf->n + 1,
                             sizeof *leaf->rects));
        leaf->rects[leaf->n++] = *rect;
        return EBB_OK;
    }
    for (int32_t i = 0; i < 2; i++) {
        place_in_time half = half_of(t, i);
        if (rect->birth < half.end && rect->death >= half.begin) {
            TRY(insert(fit, half, rect));
        }
    }
    return EBB_OK;
}

ebb_status ebb__fit_add(plan_fit *fit, int32_t block) {
    uint64_t offset = fit->p->blocks[block].offset;
    for (int32_t i = fit->first[block]; i < fit->first[block + 1]; i++) {
        fit_rect rect = fit->rects[i];
        rect.lo += offset;
        rect.hi += offset;
        TRY(insert(fit, all_time(fit), &rect));
    }
    return EBB_OK;
}

/* ---- first fit ---- */

/* A window has at most two ends in a level of the tree, so there are at most four sets a level. */
enum { MOST_SETS = 4 * 32 };

static void add_set(plan_fit *fit, fit_question *q, const fit_bytes *set) {
    if (set->n > 0) {
        fit->sets[fit->n_sets++] = set;
        q->n_sets++;
    }
}

static void gather(plan_fit *fit, place_in_time t, const fit_rect *rect, fit_question *q) {
    const fit_stretch *stretch = &fit->stretches[t.at];
    if (stretch->ever.n == 0) {
        return;
    }
    if (rect->birth <= t.begin && rect->death >= t.end - 1) {
        add_set(fit, q, &stretch->ever);
        return;
    }
    add_set(fit, q, &stretch->always);
    if (t.at >= fit->n_leaves) {
        q->ends[q->n_ends++] = &fit->leaves[t.at - fit->n_leaves];
        return;
    }
    for (int32_t i = 0; i < 2; i++) {
        place_in_time half = half_of(t, i);
        if (rect->birth < half.end && rect->death >= half.begin) {
            gather(fit, half, rect, q);
        }
    }
}

static ebb_status gather_all(plan_fit *fit, int32_t block) {
    int32_t begin = fit->first[block], n = fit->first[block + 1] - begin;
    TRY(ebb__region_grow(&fit->region, &fit->questions, &fit->cap_questions, (size_t)n,
                         sizeof *fit->questions));
    fit->n_sets = 0;
    for (int32_t i = 0; i < n; i++) {
        TRY(ebb__region_grow(&fit->region, &fit->sets, &fit->cap_sets,
                             (size_t)fit->n_sets + MOST_SETS, sizeof(void *)));
        fit->questions[i] = (fit_question){.first_set = fit->n_sets};
        gather(fit, all_time(fit), &fit->rects[begin + i], &fit->questions[i]);
    }
    return EBB_OK;
}

/* Raises *at, the block's offset, until the rect is clear of the set; true if it had to. */
static bool rise_above(const fit_bytes *set, const fit_rect *rect, uint64_t *at) {
    uint64_t before = *at;
    for (int32_t i = find_run(set, *at + rect->lo); i < set->n && set->runs[i].lo < *at + rect->hi;
         i++) {
        if (set->runs[i].hi > *at + rect->lo) {
            *at = plan_align(set->runs[i].hi - rect->lo);
        }
    }
    return *at != before;
}

static bool rise_above_leaf(const fit_leaf *leaf, const fit_rect *rect, uint64_t *at) {
    uint64_t before = *at;
    for (int32_t i = 0; i < leaf->n; i++) {
        const fit_rect *o = &leaf->rects[i];
        if (o->birth <= rect->death && o->death >= rect->birth && o->lo < *at + rect->hi &&
            o->hi > *at + rect->lo) {
            *at = plan_align(o->hi - rect->lo);
        }
    }
    return *at != before;
}

static bool rise(const plan_fit *fit, const fit_question *q, const fit_rect *rect, uint64_t *at) {
    uint64_t before = *at;
    bool moved = true;
    while (moved) {
        moved = false;
        for (int32_t i = q->first_set; i < q->first_set + q->n_sets; i++) {
            moved = rise_above(fit->sets[i], rect, at) || moved;
        }
        for (int32_t i = 0; i < q->n_ends; i++) {
            moved = rise_above_leaf(q->ends[i], rect, at) || moved;
        }
    }
    return *at != before;
}

ebb_status ebb__fit_lowest(plan_fit *fit, int32_t block, uint64_t *offset) {
    const fit_rect *rects = &fit->rects[fit->first[block]];
    int32_t n = fit->first[block + 1] - fit->first[block], i = 0, clear = 0;
    TRY(gather_all(fit, block));
    *offset = 0;
    while (clear < n) { /* rects in turn, until none has to rise */
        clear = rise(fit, &fit->questions[i], &rects[i], offset) ? 1 : clear + 1;
        i = i + 1 < n ? i + 1 : 0;
    }
    return EBB_OK;
}
