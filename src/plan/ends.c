/* ends.c - placement from two ends, made for training: the stash is freed from its young end as
 * backward goes on, gradients stay to the end, so they grow towards each other. The stash, by far
 * the most blocks, is a skyline over time: for nested lifetimes it has no gaps and costs no search.
 * The rest is first fit below it, gradients and other lasting values first.
 *
 *   ceiling  ┌────────────────────────────┐
 *            │ stash of step 0 ▓▓▓▓▓▓▓▓▓▓ │
 *            │   stash of step 1 ▓▓▓▓▓▓   │   low[t]: lowest byte of what hangs
 *            │        transients          │
 *            │            ░░░░░░░░░░░░░░░ │   gradients, as they are born
 *         0  └──────── time ──────────────┘
 */
#include "plan/fit.h"

typedef struct skyline {
    plan_placement *p;
    uint64_t *low; /* by position */
    uint64_t top;
} skyline;

static bool lasts(const plan_placement *p, const plan_span *span) {
    return span->death - span->birth > p->n_positions / 64;
}

static bool stands(const plan_placement *p, const plan_span *span) {
    return span->gradient || (!span->stash && lasts(p, span)) || span->death >= p->n_positions - 1;
}

static bool hangs(const plan_placement *p, const plan_span *span) {
    return span->stash && lasts(p, span) && !stands(p, span);
}

/* What hangs, longest first; then what stands, as it is born; then the rest by size. */
static uint64_t key_of(const plan_placement *p, const plan_block *block) {
    plan_span span = ebb__plan_span(p, block);
    return hangs(p, &span)    ? ((uint64_t)2 << 61) + (uint64_t)(span.death - span.birth)
           : stands(p, &span) ? ((uint64_t)1 << 61) + (uint64_t)(INT32_MAX - span.birth)
                              : block->bytes;
}

/* Highest offset below what hangs, over all rects; negative if there is none. */
static int64_t roof_of(const skyline *s, const plan_fit *fit, int32_t block) {
    int64_t offset = INT64_MAX;
    for (int32_t i = fit->first[block]; i < fit->first[block + 1]; i++) {
        const fit_rect *rect = &fit->rects[i];
        uint64_t least = UINT64_MAX;
        for (int32_t t = rect->birth; t <= rect->death; t++) {
            least = s->low[t] < least ? s->low[t] : least;
        }
        int64_t most = (int64_t)least - (int64_t)rect->hi;
        offset = most < offset ? most : offset;
    }
    return offset < 0 ? -1 : offset / PLAN_ALIGN * PLAN_ALIGN;
}

static void lower_roof(skyline *s, const plan_fit *fit, int32_t block) {
    for (int32_t i = fit->first[block]; i < fit->first[block + 1]; i++) {
        const fit_rect *rect = &fit->rects[i];
        uint64_t start = s->p->blocks[block].offset + rect->lo;
        for (int32_t t = rect->birth; t <= rect->death; t++) {
            s->low[t] = start < s->low[t] ? start : s->low[t];
        }
    }
}

static ebb_status place_one(skyline *s, plan_fit *fit, int32_t block, bool *fits) {
    uint64_t *offset = &s->p->blocks[block].offset;
    plan_span span = ebb__plan_span(s->p, &s->p->blocks[block]);
    int64_t roof = roof_of(s, fit, block);
    *fits = roof >= 0;
    if (!*fits) {
        return EBB_OK;
    }
    if (hangs(s->p, &span)) {
        *offset = (uint64_t)roof;
        lower_roof(s, fit, block);
    } else {
        TRY(ebb__fit_lowest(fit, block, offset));
        TRY(ebb__fit_add(fit, block));
        *fits = *offset <= (uint64_t)roof;
    }
    s->top = *offset + span.end > s->top ? *offset + span.end : s->top;
    return EBB_OK;
}

ebb_status ebb__plan_place_ends(pass_unit *unit, plan_placement *p, uint64_t ceiling,
                                uint64_t *top) {
    skyline s = {.p = p};
    plan_fit fit;
    int32_t *blocks = NULL, n = 0;
    bool fits = true;
    ebb_status status = ebb__fit_init(&fit, unit->ctx, p);
    if (status != EBB_OK) {
        goto out;
    }
    TRY_OUT(ebb__region_alloc(&fit.region, (size_t)p->n_positions + 1, sizeof *s.low, &s.low));
    TRY_OUT(ebb__plan_rank(p, &fit.region, key_of, &blocks, &n));
    for (int32_t t = 0; t <= p->n_positions; t++) {
        s.low[t] = ceiling;
    }
    for (int32_t i = 0; i < n && fits; i++) {
        TRY_OUT(place_one(&s, &fit, blocks[i], &fits));
    }
    *top = fits ? s.top : UINT64_MAX;
out:
    ebb__fit_fini(&fit);
    return status;
}
