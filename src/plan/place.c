/* place.c - a byte offset for every transient block in one arena.
 *
 * A block is rigid but not a rectangle: its pieces live at different times. Placement from two ends
 * (ends.c) comes first, under a ceiling that starts at the load, the lower bound; where it leaves
 * a gap, first fit in several orders is tried too and the lowest top wins. Variables are laid out
 * by the plan.
 */
#include "plan/fit.h"
#include "plan/passes.h"

/* First fit looks at every pair of neighbours in time: too slow for very long programs. */
enum { FIRST_FIT_BLOCKS = 3000 };

static uint64_t by_span(const plan_placement *p, const plan_block *block) {
    plan_span span = ebb__plan_span(p, block);
    return (uint64_t)(span.death - span.birth);
}

static uint64_t by_bytes(const plan_placement *p, const plan_block *block) {
    (void)p;
    return block->bytes;
}

static uint64_t by_area(const plan_placement *p, const plan_block *block) {
    double area = 0;
    for (int32_t i = block->first; i < block->first + block->n; i++) {
        const plan_piece *piece = &p->pieces[i];
        area += (double)(piece->hi - piece->lo) * (piece->death - piece->birth + 1);
    }
    return (uint64_t)area;
}

static ebb_status place_first_fit(pass_unit *unit, plan_placement *p, plan_key_fn key,
                                  uint64_t *top) {
    plan_fit fit;
    int32_t *blocks = NULL, n = 0;
    *top = 0;
    ebb_status status = ebb__fit_init(&fit, unit->ctx, p);
    if (status != EBB_OK) {
        goto out;
    }
    TRY_OUT(ebb__plan_rank(p, &fit.region, key, &blocks, &n));
    for (int32_t i = 0; i < n; i++) {
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
    static const uint64_t slack_permille[] = {1, 4, 10, 20, 40, 80, 160, 320, 1000};
    static const plan_key_fn orders[] = {by_span, by_bytes, by_area};
    uint64_t enough = p->load_bytes + p->load_bytes / 200; /* not worth another try */
    for (size_t i = 0; i < sizeof slack_permille / sizeof *slack_permille; i++) {
        uint64_t ceiling = plan_align(p->load_bytes + p->load_bytes * slack_permille[i] / 1000),
                 top;
        TRY(ebb__plan_place_ends(unit, p, ceiling, &top));
        keep_if_better(p, top, best);
        if (best->top != UINT64_MAX) {
            break;
        }
    }
    bool few = p->n_blocks <= FIRST_FIT_BLOCKS;
    for (size_t i = 0; i < sizeof orders / sizeof *orders; i++) {
        uint64_t top = 0;
        if (best->top <= enough || (!few && best->top != UINT64_MAX)) {
            break;
        }
        TRY(place_first_fit(unit, p, orders[i], &top));
        keep_if_better(p, top, best);
    }
    return EBB_OK;
}

static ebb_status run(pass_unit *unit) {
    plan_placement *p = NULL;
    best_placement best = {.top = UINT64_MAX};
    TRY(ebb__region_alloc(&unit->region, 1, sizeof *p, &p));
    TRY(ebb__plan_storage(unit, p));
    TRY(ebb__plan_load(unit, p, NULL, &p->load_bytes));
    TRY(ebb__region_alloc(&unit->region, (size_t)p->n_blocks + 1, sizeof *best.offsets,
                          &best.offsets));
    TRY(find_best(unit, p, &best));
    /* Variables get provisional offsets here; a plan of several programs lays them out again. */
    for (int32_t b = 0; b < p->n_blocks; b++) {
        plan_block *block = &p->blocks[b];
        block->offset = best.offsets[b];
        if (block->variable != IR_NONE) {
            block->offset = p->transient_base;
            p->transient_base += plan_align(block->bytes);
        }
    }
    p->transient_bytes = best.top;
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
            /* Its own bytes, not those of others between its rows. */
            uint64_t own = piece->own;
            change[piece->birth] += (int64_t)own;
            change[piece->death + 1] -= (int64_t)own;
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
