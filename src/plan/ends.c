/* ends.c - placement from two ends, made for training: the stash is freed from its young end as
 * backward goes on, gradients stay to the end, so they grow towards each other. The stash, by far
 * the most blocks, is a skyline over time: for nested lifetimes it has no gaps and costs no search.
 * The rest is first fit from below, gradients and other lasting values first. Neither end knows of
 * the other; how high the ceiling must be for them not to meet is found as blocks are placed.
 *
 *   ceiling  ┌────────────────────────────┐
 *            │ stash of step 0 ▓▓▓▓▓▓▓▓▓▓ │
 *            │   stash of step 1 ▓▓▓▓▓▓   │   depth(t): how far down it hangs
 *            │        transients          │
 *            │            ░░░░░░░░░░░░░░░ │   gradients, as they are born
 *         0  └──────── time ──────────────┘
 */
#include "base/num.h"
#include "plan/fit.h"

/* Depths in a binary tree over time: [1] is all of it, [2 * i], [2 * i + 1] the halves of [i], the
 * last n the single positions. */
typedef struct skyline {
    plan_placement *p;
    int32_t n;
    uint64_t *all;  /* a depth that everything below has */
    uint64_t *most; /* the greatest depth of anything below */
    uint64_t ceiling;
} skyline;

static ebb_status new_skyline(skyline *s, plan_placement *p, alloc_region *region) {
    *s = (skyline){.p = p, .n = 1};
    while (s->n <= p->n_positions) {
        s->n *= 2;
    }
    TRY(ebb__region_alloc(region, 2 * (size_t)s->n, sizeof *s->all, &s->all));
    return ebb__region_alloc(region, 2 * (size_t)s->n, sizeof *s->most, &s->most);
}

/* The greatest depth during [birth, death]. */
static uint64_t depth_of(const skyline *s, int32_t birth, int32_t death) {
    int32_t l = birth + s->n, r = death + s->n;
    uint64_t depth = num_larger(s->most[l], s->most[r]);
    for (; l / 2 != r / 2; l /= 2, r /= 2) { /* what lies between them */
        depth = (l & 1) == 0 ? num_larger(depth, s->most[l + 1]) : depth;
        depth = (r & 1) == 1 ? num_larger(depth, s->most[r - 1]) : depth;
        depth = num_larger(depth, num_larger(s->all[l / 2], s->all[r / 2]));
    }
    for (; l > 1; l /= 2) { /* l and r are halves of the same from here on */
        depth = num_larger(depth, s->all[l / 2]);
    }
    return depth;
}

static void deepen_one(skyline *s, int32_t at, uint64_t depth) {
    s->all[at] = num_larger(s->all[at], depth);
    s->most[at] = num_larger(s->most[at], depth);
}

static void deepen(skyline *s, int32_t birth, int32_t death, uint64_t depth) {
    int32_t l = birth + s->n, r = death + s->n;
    deepen_one(s, l, depth);
    deepen_one(s, r, depth);
    for (; l / 2 != r / 2; l /= 2, r /= 2) {
        if ((l & 1) == 0) {
            deepen_one(s, l + 1, depth);
        }
        if ((r & 1) == 1) {
            deepen_one(s, r - 1, depth);
        }
        s->most[l / 2] = num_larger(s->most[l / 2], depth);
        s->most[r / 2] = num_larger(s->most[r / 2], depth);
    }
    for (; l > 1; l /= 2) {
        s->most[l / 2] = num_larger(s->most[l / 2], depth);
    }
}

/* ---- the two ends ---- */

static bool lasts(const plan_placement *p, const plan_span *span) {
    return span->death - span->birth > p->n_positions / 64;
}

static bool stands(const plan_placement *p, const plan_span *span) {
    return span->gradient || (!span->stash && lasts(p, span)) || span->death >= p->n_positions - 1;
}

static bool hangs(const plan_placement *p, const plan_span *span) {
    return span->stash && lasts(p, span) && !stands(p, span);
}

/* What hangs, longest first; then what stands, as it is born or the largest first; then the rest by
 * size. Gradients of weights are many, and stay as they come; those of maps between segments of a
 * net grow as backward goes on, and each is gone before the next but one. */
static const uint64_t HANGS = (uint64_t)2 << 61, STANDS = (uint64_t)1 << 61,
                      SMALL = (uint64_t)1 << 60;
enum { SMALL_PART = 1024 }; /* of the load */

static uint64_t key_of(const plan_placement *p, const plan_block *block) {
    plan_span span = ebb__plan_span(p, block);
    return hangs(p, &span)    ? HANGS + (uint64_t)(span.death - span.birth)
           : stands(p, &span) ? STANDS + (uint64_t)(INT32_MAX - span.birth)
                              : block->bytes;
}

/* Small ones go below all others, however long they stay, and not on top of the largest. */
static uint64_t key_of_large(const plan_placement *p, const plan_block *block) {
    plan_span span = ebb__plan_span(p, block);
    uint64_t first = block->bytes < p->load_bytes / SMALL_PART ? SMALL : 0;
    return hangs(p, &span) || !stands(p, &span) ? key_of(p, block) : STANDS + first + block->bytes;
}

/* Gives the block's distance from the ceiling down to its first byte. */
static uint64_t hang(skyline *s, const plan_fit *fit, int32_t block) {
    uint64_t depth = 0;
    for (int32_t i = fit->first[block]; i < fit->first[block + 1]; i++) {
        const fit_rect *rect = &fit->rects[i];
        depth = num_larger(depth, depth_of(s, rect->birth, rect->death) + rect->hi);
    }
    depth = plan_align(depth);
    for (int32_t i = fit->first[block]; i < fit->first[block + 1]; i++) {
        const fit_rect *rect = &fit->rects[i];
        deepen(s, rect->birth, rect->death, depth - rect->lo);
    }
    s->ceiling = num_larger(s->ceiling, depth);
    return depth;
}

/* Raises the ceiling until the block, whose offset is set, does not reach what hangs. */
static void raise_ceiling(skyline *s, const plan_fit *fit, int32_t block) {
    uint64_t offset = s->p->blocks[block].offset;
    for (int32_t i = fit->first[block]; i < fit->first[block + 1]; i++) {
        const fit_rect *rect = &fit->rects[i];
        s->ceiling =
            num_larger(s->ceiling, offset + rect->hi + depth_of(s, rect->birth, rect->death));
    }
}

static ebb_status place_all(skyline *s, plan_fit *fit, plan_key_fn key, uint64_t *top) {
    plan_placement *p = s->p;
    int32_t *blocks = NULL, n = 0, n_hanging = 0;
    TRY(ebb__plan_rank(p, &fit->region, key, &blocks, &n));
    for (int32_t i = 0; i < n; i++) {
        plan_block *block = &p->blocks[blocks[i]];
        if (n_hanging == i && key(p, block) >= HANGS) {
            block->offset = hang(s, fit, blocks[i]);
            n_hanging++;
            continue;
        }
        TRY(ebb__fit_lowest(fit, blocks[i], &block->offset));
        TRY(ebb__fit_add(fit, blocks[i]));
        raise_ceiling(s, fit, blocks[i]);
    }
    s->ceiling = plan_align(s->ceiling);
    *top = 0;
    for (int32_t i = 0; i < n; i++) {
        plan_block *block = &p->blocks[blocks[i]];
        block->offset = i < n_hanging ? s->ceiling - block->offset : block->offset;
        *top = num_larger(*top, block->offset + ebb__plan_span(p, block).end);
    }
    return EBB_OK;
}

ebb_status ebb__plan_place_ends(pass_unit *unit, plan_placement *p, bool large_first,
                                uint64_t *top) {
    skyline s;
    plan_fit fit;
    ebb_status status = ebb__fit_init(&fit, unit->ctx, p);
    if (status == EBB_OK) {
        status = new_skyline(&s, p, &fit.region);
    }
    if (status == EBB_OK) {
        status = place_all(&s, &fit, large_first ? key_of_large : key_of, top);
    }
    ebb__fit_fini(&fit);
    return status;
}
