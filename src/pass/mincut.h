/* mincut.h - the least-cost choice among things that imply one another.
 *
 * Every choice has a cost if it is taken (negative: a gain), some must be taken or must not be, and
 * taking one may require another. The cheapest set is a minimum cut (maximum closure, Picard 1976),
 * found by Dinic's algorithm on flat arrays. Of several cheapest sets the smallest is given.
 */
#ifndef PASS_MINCUT_H
#define PASS_MINCUT_H

#include "base/alloc.h"

typedef struct mincut_arc {
    int32_t to;
    int32_t next; /* further arc of the same vertex; -1: none. Arc i and i ^ 1 are a pair. */
    int64_t room; /* capacity that is left */
} mincut_arc;

typedef struct mincut {
    alloc_region *region;
    int32_t n; /* choices; the source is n, the sink n + 1 */
    int32_t *first;
    mincut_arc *arcs;
    int32_t n_arcs;
    size_t cap_arcs;
    int32_t *level, *at, *queue; /* of the search */
} mincut;

/* Costs must stay below MINCUT_NEVER altogether. */
#define MINCUT_NEVER (INT64_C(1) << 60)

ebb_status ebb__mincut_new(mincut *cut, alloc_region *region, int32_t n) EBB_MUST_CHECK;
/* What taking the choice costs; MINCUT_NEVER: it must not be taken, -MINCUT_NEVER: it must. Costs
 * of several calls for one choice add up. */
ebb_status ebb__mincut_cost(mincut *cut, int32_t choice, int64_t cost) EBB_MUST_CHECK;
/* Who takes `choice` must take `needs` too. */
ebb_status ebb__mincut_requires(mincut *cut, int32_t choice, int32_t needs) EBB_MUST_CHECK;
/* Solves; taken[choice] for all. */
ebb_status ebb__mincut_solve(mincut *cut, bool *taken) EBB_MUST_CHECK;

#endif
