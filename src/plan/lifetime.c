/* lifetime.c - see lifetime.h. */
#include "plan/lifetime.h"

#include <stdlib.h>

bool ebb__plan_is_alias(const ir_graph *graph, ir_val v) {
    ir_node def = graph->values[v].def;
    return def != IR_NONE && (ebb__op(graph->nodes[def].op)->flags & OPF_ALIAS) != 0;
}

bool ebb__plan_is_away(const ir_graph *graph, ir_val v) {
    ir_node def = graph->values[v].def;
    return def != IR_NONE && ebb__op(graph->nodes[def].op)->transfer == TRANSFER_OUT;
}

/* ---- views ---- */

typedef void (*range_fn)(plan_lifetimes *l, ir_val v, int32_t begin, int32_t end, void *user);

static bool joins_rows(const ir_node_rec *node) {
    int32_t axis;
    return ebb__op_is_join(node, &axis) && axis == 0;
}

static void find_starts(plan_lifetimes *l) {
    const ir_graph *g = l->g;
    for (int32_t i = 0; i < g->n_order; i++) {
        const ir_node_rec *node = &g->nodes[g->order[i]];
        int32_t row = 0;
        for (int32_t k = 0; joins_rows(node) && k < node->n_in; k++) {
            l->start[node->in + k] = row;
            row += op_in_type(g, node, k)->dim[0];
        }
    }
}

/* The operand of a join that holds row `row`. */
static int32_t operand_at(const plan_lifetimes *l, const ir_node_rec *node, int32_t row) {
    int32_t lo = 0;
    for (int32_t hi = node->n_in; hi - lo > 1;) {
        int32_t mid = lo + (hi - lo) / 2;
        *(l->start[node->in + mid] <= row ? &lo : &hi) = mid;
    }
    return lo;
}

/* Calls fn for every range of rows of written values that rows [begin, end) of v consist of. */
static void visit_ranges(plan_lifetimes *l, ir_val v, int32_t begin, int32_t end, range_fn fn,
                         void *user) {
    const ir_graph *g = l->g;
    op_range range;
    while (ebb__plan_is_alias(g, v)) {
        const ir_node_rec *node = &g->nodes[g->values[v].def];
        if (!ebb__op_is_slice(node, &range)) {
            break;
        }
        v = ir_in(g, node, 0);
        begin += range.axis == 0 ? range.begin : 0;
        end += range.axis == 0 ? range.begin : 0;
    }
    if (!ebb__plan_is_alias(g, v)) {
        fn(l, v, begin, end, user);
        return;
    }
    const ir_node_rec *node = &g->nodes[g->values[v].def];
    if (!joins_rows(node)) { /* along another axis: these rows of each */
        for (int32_t k = 0; k < node->n_in; k++) {
            visit_ranges(l, ir_in(g, node, k), begin, end, fn, user);
        }
        return;
    }
    for (int32_t k = operand_at(l, node, begin); k < node->n_in; k++) {
        int32_t start = l->start[node->in + k], extent = op_in_type(g, node, k)->dim[0];
        int32_t lo = begin - start, hi = end - start;
        if (hi <= 0) {
            break;
        }
        visit_ranges(l, ir_in(g, node, k), lo > 0 ? lo : 0, hi < extent ? hi : extent, fn, user);
    }
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
    cut_list list = {.region = &unit->scratch};
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
    TRY(REGION_ARRAYS(&unit->scratch, ARRAY(l->tiles, (size_t)g->n_values + list.n + 1)));
    int32_t n = 0;
    size_t at = 0;
    for (ir_val v = 0; v < g->n_values; v++) {
        bool whole = g->values[v].role != IR_TEMP || ebb__plan_is_alias(g, v);
        l->first_tile[v] = n;
        l->tiles[n++] = (plan_tile){.value = v, .whole_run = -1, .read_run = -1, .stamp = -1};
        for (; at < list.n && list.cuts[at].value == v; at++) {
            if (!whole && list.cuts[at].row > l->tiles[n - 1].row) {
                l->tiles[n - 1].rows = list.cuts[at].row - l->tiles[n - 1].row;
                l->tiles[n++] = (plan_tile){.value = v,
                                            .row = list.cuts[at].row,
                                            .whole_run = -1,
                                            .read_run = -1,
                                            .stamp = -1};
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

/* The tiles that rows [begin, end) of a written value consist of. */
static plan_tiles tiles_of(const plan_lifetimes *l, ir_val v, int32_t begin, int32_t end) {
    int32_t lo = l->first_tile[v], last = l->first_tile[v + 1];
    for (int32_t hi = last; hi - lo > 1;) { /* the tile that holds row `begin` */
        int32_t mid = lo + (hi - lo) / 2;
        *(l->tiles[mid].row <= begin ? &lo : &hi) = mid;
    }
    plan_tiles found = {lo, lo + 1};
    while (found.end < last && l->tiles[found.end].row < end) {
        found.end++;
    }
    return found;
}

static void visit_tiles(plan_lifetimes *l, ir_val v, int32_t begin, int32_t end, void *user) {
    const tile_visit *visit = user;
    plan_tiles found = tiles_of(l, v, begin, end);
    for (int32_t t = found.first; t < found.end; t++) {
        visit->fn(&l->tiles[t], visit->user);
    }
}

void ebb__lifetimes_visit(plan_lifetimes *l, ir_val v, plan_tile_fn fn, void *user) {
    tile_visit visit = {fn, user};
    plan_tiles shown = l->shown[v];
    if (shown.first < 0) {
        visit_ranges(l, v, 0, l->g->values[v].type.dim[0], visit_tiles, &visit);
    }
    for (int32_t t = shown.first; t >= 0 && t < shown.end; t++) {
        fn(&l->tiles[t], user);
    }
}

typedef struct shown_range {
    plan_tiles tiles;
    int32_t n;
} shown_range;

static void note_range(plan_lifetimes *l, ir_val v, int32_t begin, int32_t end, void *user) {
    shown_range *range = user;
    range->tiles = tiles_of(l, v, begin, end);
    range->n++;
}

/* Written values and what slices of them show; joins are walked through each time. */
static void find_shown(plan_lifetimes *l) {
    const ir_graph *g = l->g;
    op_range slice;
    for (ir_val v = 0; v < g->n_values; v++) {
        bool view = ebb__plan_is_alias(g, v);
        l->shown[v] =
            view ? (plan_tiles){-1, -1} : (plan_tiles){l->first_tile[v], l->first_tile[v + 1]};
        if (view && l->position[g->values[v].def] >= 0 &&
            ebb__op_is_slice(&g->nodes[g->values[v].def], &slice)) {
            shown_range range = {.n = 0};
            visit_ranges(l, v, 0, g->values[v].type.dim[0], note_range, &range);
            l->shown[v] = range.n == 1 ? range.tiles : l->shown[v];
        }
    }
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

/* Of several visits with positions only the latest matters: it is noted by value first, so that a
 * value of many tiles that many nodes read is walked through once. */
static void note_latest(plan_lifetimes *l, ir_val v, int32_t position) {
    l->latest[v] = position > l->latest[v] ? position : l->latest[v];
}

static void visit_latest(plan_lifetimes *l, plan_tile_fn fn) {
    for (ir_val v = 0; v < l->g->n_values; v++) {
        if (l->latest[v] >= 0) {
            ebb__lifetimes_visit(l, v, fn, &l->latest[v]);
            l->latest[v] = -1;
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
                note_latest(l, ir_in(g, node, k), i);
            }
        }
    }
    for (ir_val v = 0; v < g->n_values; v++) {
        if (g->values[v].output && l->birth[v] >= 0) {
            note_latest(l, v, end);
        }
        if (g->values[v].next != IR_NONE) {
            note_latest(l, g->values[v].next, end);
        }
    }
    visit_latest(l, extend);
}

/* ---- runs ---- */

static void find_runs(plan_lifetimes *l) {
    const ir_graph *g = l->g;
    int32_t end = -1; /* of the run whose first node is still to come */
    for (int32_t i = g->n_order - 1; i >= 0; i--) {
        ir_node n = g->order[i];
        l->run_end[i] = end >= 0 ? end : i;
        if (l->unit->kernels[n] != DEVICE_KERNEL_NONE) {
            end = pass_joined(l->unit, n) ? l->run_end[i] : -1;
        }
    }
}

static void set_whole_run(plan_tile *tile, void *end) {
    int32_t run = *(const int32_t *)end;
    tile->whole_run = run > tile->whole_run ? run : tile->whole_run;
}

typedef struct run_read {
    int32_t run;
    ir_val value;
} run_read;

static void set_read_run(plan_tile *tile, void *user) {
    const run_read *read = user;
    if (read->run > tile->read_run) {
        tile->read_run = read->run;
        tile->read_as = read->value;
    } else if (read->run == tile->read_run) {
        tile->read_as = IR_NONE;
    }
}

/* By value first, as in visit_latest. */
static void find_run_reads(plan_lifetimes *l) {
    const ir_graph *g = l->g;
    for (int32_t i = 0; i < g->n_order; i++) {
        const ir_node_rec *node = &g->nodes[g->order[i]];
        bool alone = l->run_end[i] == i || (ebb__op(node->op)->flags & OPF_ALIAS) != 0;
        for (int32_t k = 0; !alone && k < node->n_in; k++) {
            if (ir_in(g, node, k) != IR_NONE) {
                note_latest(l, ir_in(g, node, k), l->run_end[i]);
            }
        }
    }
    for (ir_val v = 0; v < g->n_values; v++) {
        if (l->latest[v] >= 0) {
            run_read read = {l->latest[v], v};
            ebb__lifetimes_visit(l, v, set_read_run, &read);
            l->latest[v] = -1;
        }
    }
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
                note_latest(l, ir_in(g, node, k), l->run_end[i]);
            }
        }
    }
    visit_latest(l, set_whole_run);
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
                note_latest(l, ir_in(g, node, k), l->run_end[i]);
            }
        }
        for (int32_t k = 0; k < node->n_out; k++) {
            note_latest(l, node->out + k, l->run_end[i]);
        }
    }
    visit_latest(l, extend_unless_handed);
}

ebb_status ebb__lifetimes_find(pass_unit *unit, plan_lifetimes *out) {
    const ir_graph *g = &unit->graph;
    alloc_region *region = &unit->scratch;
    size_t nv = (size_t)g->n_values + 2, nn = (size_t)g->n_nodes + 1;
    *out = (plan_lifetimes){.unit = unit, .g = g};
    TRY(REGION_ARRAYS(region, ARRAY_NONE(out->position, nn), ARRAY(out->run_end, nn),
                      ARRAY(out->birth, nv), ARRAY(out->first_tile, nv),
                      ARRAY_NONE(out->latest, nv), ARRAY(out->shown, nv),
                      ARRAY(out->start, (size_t)g->n_operands + 1)));
    find_starts(out);
    for (int32_t i = 0; i < g->n_order; i++) {
        out->position[g->order[i]] = i;
    }
    TRY(make_tiles(unit, out));
    find_shown(out);
    find_births(out);
    find_runs(out);
    find_deaths(out);
    find_whole_reads(out);
    find_run_reads(out);
    return EBB_OK;
}
