/* fuse.c - runs of nodes that members carry out together without meeting in between.
 *
 * The cell after a recurrent product, the gate gradients after the product that gives dh: each
 * element of the later node needs only the same hidden unit of the earlier ones. So a member takes
 * its own units through the whole run, a block of them at a time while they are in its cache, and
 * all meet once at the end: one barrier a time step. A run begins anywhere (a product always begins
 * one) and goes on as long as kernels take ranges of the same number of units and nobody reads
 * other units of what the run itself has written. Units of maps are rows of pixels: norm, sum and
 * relu go over a map once.
 *
 * The pass only marks nodes; storage then keeps what a run reads and writes apart until it ends.
 */
#include "op/map.h"
#include "pass/pass.h"

typedef struct fuser {
    pass_unit *unit;
    const ir_graph *g;
    int32_t *born; /* by value: number of the run that writes it, or last wrote to it if it is a
                      stack; 0: none */
    ir_val *stack; /* by value: the stack or concat that it lies in; IR_NONE */
    int32_t run, length, units;
    bool maps; /* whose units these are */
} fuser;

static bool is_map(const fuser *f, ir_node n) {
    return op_is_map(&f->g->values[f->g->nodes[n].out].type);
}

/* Does no map that the node reads or makes have gaps? */
static bool is_gapless(const fuser *f, const ir_node_rec *node) {
    bool gapless = true;
    for (int32_t k = 0; f->unit->lays != NULL && k < node->n_in + node->n_out; k++) {
        ir_val v = k < node->n_in ? ir_in(f->g, node, k) : node->out + k - node->n_in;
        gapless = gapless &&
                  (v == IR_NONE || ebb__op_is_gapless(&f->g->values[v].type, f->unit->lays[v]));
    }
    return gapless;
}

static int32_t units_of(const fuser *f, ir_node n, uint32_t *whole) {
    const ir_node_rec *node = &f->g->nodes[n];
    const op_def *def = ebb__op(node->op);
    int32_t k = f->unit->kernels[n];
    *whole = 0;
    /* Only units that are columns: a run cannot change from one kind to the other. */
    if (k < 0 || !f->unit->dev->kernels[k].ranges || def->units == NULL || def->unit_rows ||
        ebb__pass_fold(f->unit, node) >= 0 || (is_map(f, n) && !is_gapless(f, node))) {
        return 0;
    }
    return def->units(f->g, node, whole);
}

/* Is unit u of v, as far as the run has written v, unit u of what was written? Columns may be cut
 * only at multiples of the units, maps not at all. */
static bool keeps_units(const fuser *f, ir_val v, bool *fresh) {
    const ir_graph *g = f->g;
    ir_node def = g->values[v].def;
    op_range range;
    int32_t axis;
    if (def == IR_NONE) {
        return true;
    }
    if (ebb__op_is_slice(&g->nodes[def], &range)) {
        bool inner = false, kept = keeps_units(f, ir_in(g, &g->nodes[def], 0), &inner);
        bool cut = range.axis == g->values[v].type.rank - 1;
        *fresh = *fresh || inner;
        bool even = !cut || (range.begin % f->units == 0 && range.len % f->units == 0);
        return kept && (!inner || (even && !f->maps));
    }
    if (ebb__op_is_join(&g->nodes[def], &axis)) {
        bool kept = true;
        if (f->born[v] != f->run) {
            return true;
        }
        for (int32_t k = 0; k < g->nodes[def].n_in && kept; k++) {
            ir_val x = ir_in(g, &g->nodes[def], k);
            bool inner = false;
            kept = keeps_units(f, x, &inner);
            bool even =
                axis != g->values[x].type.rank - 1 || ir_cols(&g->values[x].type) % f->units == 0;
            kept = kept && (!inner || (even && !f->maps));
            *fresh = *fresh || inner;
        }
        return kept;
    }
    *fresh = *fresh || f->born[v] == f->run;
    return true;
}

static bool continues_run(const fuser *f, ir_node n, int32_t units, uint32_t whole,
                          const bool *is_next) {
    const ir_graph *g = f->g;
    const ir_node_rec *node = &g->nodes[n];
    bool joins = f->length > 0 && f->length < DEVICE_MAX_RUN && units == f->units && units > 0 &&
                 is_map(f, n) == f->maps && (ebb__op(node->op)->flags & OPF_HEAVY) == 0;
    for (int32_t k = 0; joins && k < node->n_in; k++) {
        bool fresh = false;
        if (ir_in(g, node, k) != IR_NONE) {
            joins = keeps_units(f, ir_in(g, node, k), &fresh) && !(fresh && (whole >> k & 1) != 0);
        }
    }
    for (int32_t k = 0; joins && k < node->n_out; k++) {
        joins = !is_next[node->out + k]; /* writes a variable that others of the run may read */
    }
    return joins;
}

static void note_birth(fuser *f, ir_val v) {
    for (; v != IR_NONE; v = f->stack[v]) {
        f->born[v] = f->run;
    }
}

/* A value lies in at most one (pass alias). */
static void find_stacks(fuser *f) {
    const ir_graph *g = f->g;
    int32_t axis;
    for (int32_t i = 0; i < g->n_order; i++) {
        const ir_node_rec *node = &g->nodes[g->order[i]];
        for (int32_t k = 0; ebb__op_is_join(node, &axis) && k < node->n_in; k++) {
            f->stack[ir_in(g, node, k)] = node->out;
        }
    }
}

static ebb_status run(pass_unit *unit) {
    const ir_graph *g = &unit->graph;
    fuser f = {.unit = unit, .g = g};
    bool *is_next = NULL;
    size_t nv = (size_t)g->n_values + 1;
    TRY(REGION_ARRAYS(&unit->scratch, ARRAY(f.born, nv), ARRAY_NONE(f.stack, nv),
                      ARRAY(is_next, nv)));
    TRY(REGION_ARRAYS(&unit->region, ARRAY(unit->joined, (size_t)g->n_nodes + 1)));
    find_stacks(&f);
    for (ir_val v = 0; v < g->n_values; v++) {
        if (g->values[v].next != IR_NONE) {
            is_next[g->values[v].next] = true;
        }
    }
    for (int32_t i = 0; i < g->n_order; i++) {
        ir_node n = g->order[i];
        const ir_node_rec *node = &g->nodes[n];
        uint32_t whole;
        if (unit->kernels[n] == DEVICE_KERNEL_NONE) {
            continue;
        }
        int32_t units = units_of(&f, n, &whole);
        unit->joined[n] = continues_run(&f, n, units, whole, is_next);
        if (!unit->joined[n]) {
            f.run++;
            f.length = 0;
            f.units = units;
            f.maps = is_map(&f, n);
        }
        f.length++;
        for (int32_t k = 0; k < node->n_out; k++) {
            note_birth(&f, node->out + k);
        }
    }
    return EBB_OK;
}

const pass_def ebb__pass_fuse = {.id = PASS_FUSE, .run = run};
