/* place.c - a byte offset for every transient block in one arena.
 *
 * A block is rigid but not a rectangle: its pieces live at different times. Placement from two ends
 * (ends.c) comes first; where it leaves a gap above the load, the lower bound, first fit in several
 * orders and the two ends in another are tried too, and the lowest top wins. Variables are laid out
 * by the plan.
 */
#include "plan/fit.h"
#include "plan/passes.h"

/* First fit takes longer than placement from two ends: for long programs one order is tried, for
 * very long ones only if there is a lot to gain. */
enum { SOME_BLOCKS = 3000, MANY_BLOCKS = 20000, ALL_ORDERS = 5 };

static uint64_t by_span(const plan_placement *p, const plan_block *block) {
    plan_span span = ebb__plan_span(p, block);
    return (uint64_t)(span.death - span.birth);
}

static uint64_t by_bytes(const plan_placement *p, const plan_block *block) {
    (void)p;
    return block->bytes;
}

/* Of equal sizes, which chunks of a batch have many of, those that stay longest, or come last. */
static uint64_t and_then(const plan_block *block, int32_t key) {
    enum { BITS = 24, MOST = (1 << BITS) - 1 };
    return block->bytes << BITS | (uint64_t)(key < MOST ? key : MOST);
}

static uint64_t by_bytes_and_span(const plan_placement *p, const plan_block *block) {
    return and_then(block, (int32_t)by_span(p, block));
}

static uint64_t by_bytes_and_birth(const plan_placement *p, const plan_block *block) {
    return and_then(block, ebb__plan_span(p, block).birth);
}

static uint64_t by_area(const plan_placement *p, const plan_block *block) {
    double area = 0;
    for (int32_t i = block->first; i < block->first + block->n; i++) {
        const plan_piece *piece = &p->pieces[i];
        area += (double)(piece->hi - piece->lo) * (piece->death - piece->birth + 1);
    }
    return (uint64_t)area;
}

/* Gives up as soon as it is no better than `enough`. */
static ebb_status place_first_fit(pass_unit *unit, plan_placement *p, plan_key_fn key,
                                  uint64_t enough, uint64_t *top) {
    plan_fit fit;
    int32_t *blocks = NULL, n = 0;
    *top = 0;
    ebb_status status = ebb__fit_init(&fit, unit->ctx, p);
    if (status != EBB_OK) {
        goto out;
    }
    TRY_OUT(ebb__plan_rank(p, &fit.region, key, &blocks, &n));
    for (int32_t i = 0; i < n && *top < enough; i++) {
        plan_block *block = &p->blocks[blocks[i]];
        TRY_OUT(ebb__fit_lowest(&fit, blocks[i], &block->offset));
        TRY_OUT(ebb__fit_add(&fit, blocks[i]));
        uint64_t end = block->offset + ebb__plan_span(p, block).end;
        *top = end > *top ? end : *top;
    }
out:
    ebb__fit_fini(&fit);
    return status;
}

typedef struct best_placement {
    uint64_t *offsets; /* by block */
    uint64_t top;
} best_placement;

static void keep_if_better(const plan_placement *p, uint64_t top, best_placement *best) {
    if (top < best->top) {
        best->top = top;
        for (int32_t b = 0; b < p->n_blocks; b++) {
            best->offsets[b] = p->blocks[b].offset;
        }
    }
}

static ebb_status find_best(pass_unit *unit, plan_placement *p, best_placement *best) {
    static const plan_key_fn orders[ALL_ORDERS] = {by_bytes, by_bytes_and_birth, by_bytes_and_span,
                                                   by_span, by_area};
    uint64_t enough = p->load_bytes + p->load_bytes / 200, top = 0; /* not worth another try */
    TRY(ebb__plan_place_ends(unit, p, false, &top));
    keep_if_better(p, top, best);
    bool much = top > p->load_bytes + p->load_bytes / 10;
    int32_t tries = p->n_blocks <= SOME_BLOCKS           ? ALL_ORDERS
                    : p->n_blocks <= MANY_BLOCKS || much ? 1
                                                         : 0;
    for (int32_t i = 0; i < tries && best->top > enough; i++) {
        TRY(place_first_fit(unit, p, orders[i], best->top, &top));
        keep_if_better(p, top, best);
    }
    if (best->top > enough) {
        TRY(ebb__plan_place_ends(unit, p, true, &top));
        keep_if_better(p, top, best);
    }
    return EBB_OK;
}

ebb_status ebb__place_store(pass_unit *unit) {
    plan_placement *p = NULL;
    TRY(ebb__region_alloc(&unit->region, 1, sizeof *p, &p));
    TRY(ebb__plan_storage(unit, p));
    unit->placement = p;
    return ebb__plan_load(unit, p, NULL, &p->load_bytes);
}

ebb_status ebb__place_offsets(pass_unit *unit) {
    plan_placement *p = unit->placement;
    best_placement best = {.top = UINT64_MAX};
    TRY(REGION_ARRAYS(&unit->scratch, ARRAY(best.offsets, (size_t)p->n_blocks + 1)));
    TRY(find_best(unit, p, &best));
    /* Variables get provisional offsets here; a plan of several programs lays them out again. */
    for (int32_t b = 0; b < p->n_blocks; b++) {
        plan_block *block = &p->blocks[b];
        block->offset = best.offsets[b];
        if (block->variable != IR_NONE) {
            block->offset = p->transient_base;
            p->transient_base += plan_align(block->bytes);
        } else if (block->away) { /* in the order of the values: a file is written from its start on
                                   */
            block->offset = p->away_bytes;
            p->away_bytes += plan_align(block->bytes);
        }
    }
    p->transient_bytes = best.top;
    p->away_base = plan_align(p->transient_base + p->transient_bytes);
    return EBB_OK;
}

static ebb_status run(pass_unit *unit) {
    TRY(ebb__place_store(unit));
    return ebb__place_offsets(unit);
}

const pass_def ebb__pass_place = {.id = PASS_PLACE, .run = run};

/* ---- load ---- */

ebb_status ebb__plan_load(pass_unit *unit, const plan_placement *p, int32_t *position,
                          uint64_t *bytes) {
    int64_t *change = NULL;
    TRY(ebb__region_alloc(&unit->scratch, (size_t)p->n_positions + 2, sizeof *change, &change));
    for (int32_t i = 0; i < p->n_pieces; i++) {
        const plan_piece *piece = &p->pieces[i];
        if (plan_is_transient(&p->blocks[piece->block])) {
            /* Its own bytes, not those of others between its rows. */
            uint64_t own = piece->own;
            change[piece->birth] += (int64_t)own;
            change[piece->death + 1] -= (int64_t)own;
        }
    }
    plan_peak peak = ebb__plan_peak(change, p->n_positions);
    *bytes = peak.bytes;
    if (position != NULL && peak.bytes > 0) {
        *position = peak.position;
    }
    return EBB_OK;
}
