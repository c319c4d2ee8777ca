/* lifetime.c - see lifetime.h. */
#include "plan/lifetime.h"

#include <stdlib.h>
#include <string.h>

bool ebb__plan_is_alias(const ir_graph *graph, ir_val v) {
    ir_node def = graph->values[v].def;
    return def != IR_NONE && (ebb__op(graph->nodes[def].op)->flags & OPF_ALIAS) != 0;
}

/* ---- views ---- */

typedef void (*range_fn)(plan_lifetimes *l, ir_val v, int32_t begin, int32_t end, void *user);

/* Calls fn for every range of rows of written values that rows [begin, end) of v consist of. */
static void visit_ranges(plan_lifetimes *l, ir_val v, int32_t begin, int32_t end, range_fn fn,
                         void *user) {
    const ir_graph *g = l->g;
    while (ebb__plan_is_alias(g, v)) {
        const ir_node_rec *node = &g->nodes[g->values[v].def];
        op_range range;
        int32_t axis;
        if (ebb__op_is_slice(node, &range)) {
            ir_val x = ir_in(g, node, 0);
            bool first = range.axis == 0 || g->values[x].type.rank == 1;
            begin += first ? range.begin : 0;
            end += first ? range.begin : 0;
            v = x;
            continue;
        }
        (void)ebb__op_is_join(node, &axis);
        bool first = axis == 0 || g->values[v].type.rank == 1;
        int32_t start = 0;
        for (int32_t k = 0; k < node->n_in; k++) {
            ir_val x = ir_in(g, node, k);
            int32_t extent = g->values[x].type.dim[0];
            int32_t lo = first ? begin - start : begin, hi = first ? end - start : end;
            if (lo < extent && hi > 0) {
                visit_ranges(l, x, lo > 0 ? lo : 0, hi < extent ? hi : extent, fn, user);
            }
            start += extent;
        }
        return;
    }
    fn(l, v, begin, end, user);
}

/* ---- tiles ---- */

typedef struct cut {
    ir_val value;
    int32_t row;
} cut;

typedef struct cut_list {
    cut *cuts;
    size_t n, capacity;
    alloc_region *region;
    ebb_status status;
} cut_list;

static void add_cut(cut_list *list, ir_val v, int32_t row) {
    if (list->status == EBB_OK) {
        list->status = ebb__region_grow(list->region, &list->cuts, &list->capacity, list->n + 1,
                                        sizeof *list->cuts);
    }
    if (list->status == EBB_OK) {
        list->cuts[list->n++] = (cut){v, row};
    }
}

static void cut_range(plan_lifetimes *l, ir_val v, int32_t begin, int32_t end, void *user) {
    if (begin > 0) {
        add_cut(user, v, begin);
    }
    if (end < l->g->values[v].type.dim[0]) {
        add_cut(user, v, end);
    }
}

static int compare_cuts(const void *a, const void *b) {
    const cut *x = a, *y = b;
    return x->value != y->value ? (x->value > y->value) - (x->value < y->value)
                                : (x->row > y->row) - (x->row < y->row);
}

/* Variables keep all their bytes all the time: one tile. */
static ebb_status make_tiles(pass_unit *unit, plan_lifetimes *l) {
    const ir_graph *g = l->g;
    cut_list list = {.region = &unit->region};
    for (int32_t i = 0; i < g->n_order; i++) {
        const ir_node_rec *node = &g->nodes[g->order[i]];
        op_range range;
        if (ebb__op_is_slice(node, &range)) {
            visit_ranges(l, node->out, 0, g->values[node->out].type.dim[0], cut_range, &list);
        }
    }
    TRY(list.status);
    if (list.n > 0) {
        qsort(list.cuts, list.n, sizeof *list.cuts, compare_cuts);
    }
    TRY(ebb__region_alloc(&unit->region, (size_t)g->n_values + list.n + 1, sizeof *l->tiles,
                          &l->tiles));
    int32_t n = 0;
    size_t at = 0;
    for (ir_val v = 0; v < g->n_values; v++) {
        bool whole = g->values[v].role != IR_TEMP || ebb__plan_is_alias(g, v);
        l->first_tile[v] = n;
        l->tiles[n++] = (plan_tile){.value = v, .whole_run = -1, .stamp = -1};
        for (; at < list.n && list.cuts[at].value == v; at++) {
            if (!whole && list.cuts[at].row > l->tiles[n - 1].row) {
                l->tiles[n - 1].rows = list.cuts[at].row - l->tiles[n - 1].row;
                l->tiles[n++] =
                    (plan_tile){.value = v, .row = list.cuts[at].row, .whole_run = -1, .stamp = -1};
            }
        }
        l->tiles[n - 1].rows = g->values[v].type.dim[0] - l->tiles[n - 1].row;
    }
    l->first_tile[g->n_values] = n;
    return EBB_OK;
}

typedef struct tile_visit {
    plan_tile_fn fn;
    void *user;
} tile_visit;

static void visit_tiles(plan_lifetimes *l, ir_val v, int32_t begin, int32_t end, void *user) {
    const tile_visit *visit = user;
    int32_t lo = l->first_tile[v], last = l->first_tile[v + 1];
    for (int32_t hi = last; hi - lo > 1;) { /* the tile that holds row `begin` */
        int32_t mid = lo + (hi - lo) / 2;
        *(l->tiles[mid].row <= begin ? &lo : &hi) = mid;
    }
    for (int32_t t = lo; t < last && l->tiles[t].row < end; t++) {
        visit->fn(&l->tiles[t], visit->user);
    }
}

void ebb__lifetimes_visit(plan_lifetimes *l, ir_val v, plan_tile_fn fn, void *user) {
    tile_visit visit = {fn, user};
    visit_ranges(l, v, 0, l->g->values[v].type.dim[0], visit_tiles, &visit);
}

/* ---- lifetimes ---- */

static void extend(plan_tile *tile, void *at) {
    int32_t position = *(const int32_t *)at;
    tile->death = position > tile->death ? position : tile->death;
}

static void find_births(plan_lifetimes *l) {
    const ir_graph *g = l->g;
    for (ir_val v = 0; v < g->n_values; v++) {
        ir_node def = g->values[v].def;
        l->birth[v] = def == IR_NONE ? 0 : l->position[def];
        for (int32_t t = l->first_tile[v]; t < l->first_tile[v + 1]; t++) {
            l->tiles[t].death = def == IR_NONE ? g->n_order : l->birth[v];
        }
    }
}

static void find_deaths(plan_lifetimes *l) {
    const ir_graph *g = l->g;
    int32_t end = g->n_order; /* behind the last node, which may not overwrite what outlives it */
    for (int32_t i = 0; i < g->n_order; i++) {
        const ir_node_rec *node = &g->nodes[g->order[i]];
        if ((ebb__op(node->op)->flags & OPF_ALIAS) != 0) {
            continue; /* reads nothing itself */
        }
        for (int32_t k = 0; k < node->n_in; k++) {
            if (ir_in(g, node, k) != IR_NONE) {
                ebb__lifetimes_visit(l, ir_in(g, node, k), extend, &i);
            }
        }
    }
    for (ir_val v = 0; v < g->n_values; v++) {
        if (g->values[v].output && l->birth[v] >= 0) {
            ebb__lifetimes_visit(l, v, extend, &end);
        }
        if (g->values[v].next != IR_NONE) {
            ebb__lifetimes_visit(l, g->values[v].next, extend, &end);
        }
    }
}

/* ---- runs ---- */

static void find_runs(plan_lifetimes *l) {
    const ir_graph *g = l->g;
    int32_t end = -1; /* of the run whose first node is still to come */
    for (int32_t i = g->n_order - 1; i >= 0; i--) {
        ir_node n = g->order[i];
        l->run_end[i] = end >= 0 ? end : i;
        if (l->unit->kernels[n] != PASS_KERNEL_NONE) {
            end = l->unit->joined != NULL && l->unit->joined[n] ? l->run_end[i] : -1;
        }
    }
}

static void set_whole_run(plan_tile *tile, void *end) {
    tile->whole_run = *(const int32_t *)end;
}

static void find_whole_reads(plan_lifetimes *l) {
    const ir_graph *g = l->g;
    for (int32_t i = 0; i < g->n_order; i++) {
        const ir_node_rec *node = &g->nodes[g->order[i]];
        const op_def *def = ebb__op(node->op);
        uint32_t whole = 0;
        if (l->run_end[i] == i || (def->flags & OPF_ALIAS) != 0 || def->units == NULL) {
            continue;
        }
        (void)def->units(g, node, &whole);
        for (int32_t k = 0; k < node->n_in; k++) {
            if ((whole >> k & 1) != 0 && ir_in(g, node, k) != IR_NONE) {
                ebb__lifetimes_visit(l, ir_in(g, node, k), set_whole_run, &l->run_end[i]);
            }
        }
    }
}

static void extend_unless_handed(plan_tile *tile, void *end) {
    if (!tile->handed) {
        extend(tile, end);
    }
}

void ebb__lifetimes_extend_runs(plan_lifetimes *l) {
    const ir_graph *g = l->g;
    for (int32_t i = 0; i < g->n_order; i++) {
        const ir_node_rec *node = &g->nodes[g->order[i]];
        if (l->run_end[i] == i || (ebb__op(node->op)->flags & OPF_ALIAS) != 0) {
            continue;
        }
        for (int32_t k = 0; k < node->n_in; k++) {
            if (ir_in(g, node, k) != IR_NONE) {
                ebb__lifetimes_visit(l, ir_in(g, node, k), extend_unless_handed, &l->run_end[i]);
            }
        }
        for (int32_t k = 0; k < node->n_out; k++) {
            ebb__lifetimes_visit(l, node->out + k, extend_unless_handed, &l->run_end[i]);
        }
    }
}

ebb_status ebb__lifetimes_find(pass_unit *unit, plan_lifetimes *out) {
    const ir_graph *g = &unit->graph;
    alloc_region *region = &unit->region;
    size_t nv = (size_t)g->n_values + 2, nn = (size_t)g->n_nodes + 1;
    *out = (plan_lifetimes){.unit = unit, .g = g};
    TRY(ebb__region_alloc(region, nn, sizeof *out->position, &out->position));
    TRY(ebb__region_alloc(region, nn, sizeof *out->run_end, &out->run_end));
    TRY(ebb__region_alloc(region, nv, sizeof *out->birth, &out->birth));
    TRY(ebb__region_alloc(region, nv, sizeof *out->first_tile, &out->first_tile));
    memset(out->position, 0xff, nn * sizeof *out->position);
    for (int32_t i = 0; i < g->n_order; i++) {
        out->position[g->order[i]] = i;
    }
    TRY(make_tiles(unit, out));
    find_births(out);
    find_runs(out);
    find_deaths(out);
    find_whole_reads(out);
    return EBB_OK;
}
