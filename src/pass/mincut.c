/* mincut.c - see mincut.h. Taken choices end on the source's side: an arc from the source is what
 * is lost by not taking a choice, an arc to the sink what is paid for taking it. */
#include "pass/mincut.h"

#include <string.h>

ebb_status ebb__mincut_new(mincut *cut, alloc_region *region, int32_t n) {
    size_t vertices = (size_t)n + 2;
    *cut = (mincut){.region = region, .n = n};
    TRY(REGION_ARRAYS(region, ARRAY_NONE(cut->first, vertices), ARRAY(cut->level, vertices),
                      ARRAY(cut->at, vertices), ARRAY(cut->queue, vertices)));
    return EBB_OK;
}

static ebb_status add_arc(mincut *cut, int32_t from, int32_t to, int64_t room) {
    TRY(ebb__region_grow(cut->region, &cut->arcs, &cut->cap_arcs, (size_t)cut->n_arcs + 2,
                         sizeof *cut->arcs));
    cut->arcs[cut->n_arcs] = (mincut_arc){to, cut->first[from], room};
    cut->first[from] = cut->n_arcs++;
    cut->arcs[cut->n_arcs] = (mincut_arc){from, cut->first[to], 0};
    cut->first[to] = cut->n_arcs++;
    return EBB_OK;
}

ebb_status ebb__mincut_cost(mincut *cut, int32_t choice, int64_t cost) {
    return cost < 0   ? add_arc(cut, cut->n, choice, -cost)
           : cost > 0 ? add_arc(cut, choice, cut->n + 1, cost)
                      : EBB_OK;
}

ebb_status ebb__mincut_requires(mincut *cut, int32_t choice, int32_t needs) {
    return add_arc(cut, choice, needs, MINCUT_NEVER);
}

/* Distances from the source along arcs with room; false if the sink is out of reach. */
static bool find_levels(mincut *cut) {
    int32_t head = 0, tail = 0;
    memset(cut->level, 0xff, ((size_t)cut->n + 2) * sizeof *cut->level);
    cut->level[cut->n] = 0;
    cut->queue[tail++] = cut->n;
    while (head < tail) {
        int32_t v = cut->queue[head++];
        for (int32_t a = cut->first[v]; a >= 0; a = cut->arcs[a].next) {
            int32_t to = cut->arcs[a].to;
            if (cut->arcs[a].room > 0 && cut->level[to] < 0) {
                cut->level[to] = cut->level[v] + 1;
                cut->queue[tail++] = to;
            }
        }
    }
    return cut->level[cut->n + 1] >= 0;
}

/* One path to the sink along rising levels, pushed full. `path` holds its arcs. */
static bool push_path(mincut *cut, int32_t *path) {
    int32_t v = cut->n, depth = 0;
    while (v != cut->n + 1) {
        int32_t a = cut->at[v];
        while (a >= 0 &&
               !(cut->arcs[a].room > 0 && cut->level[cut->arcs[a].to] == cut->level[v] + 1)) {
            a = cut->arcs[a].next;
        }
        cut->at[v] = a;
        if (a >= 0) {
            path[depth++] = a;
            v = cut->arcs[a].to;
        } else if (depth == 0) {
            return false;
        } else { /* a dead end: back, and past the arc that led here */
            v = cut->arcs[path[--depth] ^ 1].to;
            cut->at[v] = cut->arcs[cut->at[v]].next;
        }
    }
    int64_t least = MINCUT_NEVER;
    for (int32_t i = 0; i < depth; i++) {
        int64_t room = cut->arcs[path[i]].room;
        least = room < least ? room : least;
    }
    for (int32_t i = 0; i < depth; i++) {
        cut->arcs[path[i]].room -= least;
        cut->arcs[path[i] ^ 1].room += least;
    }
    return true;
}

ebb_status ebb__mincut_solve(mincut *cut, bool *taken) {
    int32_t *path = NULL;
    TRY(ebb__region_alloc(cut->region, (size_t)cut->n + 2, sizeof *path, &path));
    while (find_levels(cut)) {
        memcpy(cut->at, cut->first, ((size_t)cut->n + 2) * sizeof *cut->at);
        while (push_path(cut, path)) {
        }
    }
    for (int32_t v = 0; v < cut->n; v++) {
        taken[v] = cut->level[v] >= 0; /* reached from the source: the smallest cheapest set */
    }
    return EBB_OK;
}
