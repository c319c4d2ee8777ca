/* layout.c - how weights lie in memory for the products that read them.
 *
 * Weights keep PyTorch's [out, in]. A product of a few rows cannot hide the packing of its weight,
 * and a recurrent one is repeated at every time step. So, where the plan affords it, a packed copy
 * of the weight is made once a step, just before its first reader, and all time steps read that
 * (EcoRNN's data layout; Paddle's packed weights): one for W in forward, one for its transpose in
 * backward. The copy is an ordinary value: placed, counted and freed like any other.
 *
 * A product whose result is the gates of a cell is marked with their number, so that it can be cut
 * by hidden units (op_def.units) and packed in panels of all gates of a few units.
 */
#include "op/pack.h"
#include "pass/pass.h"

enum { FEW_ROWS = 256 };

/* A weight, as one kind of product reads it. */
typedef struct layout_copy {
    ir_val weight;
    int32_t trans, groups, readers;
    int32_t older; /* another copy of the same weight; -1: none */
    ir_val packed;
} layout_copy;

typedef struct layout_copies {
    layout_copy *copies;
    int32_t n;
    int32_t *newest; /* by value: the copy of it made last; -1 */
} layout_copies;

static bool is_step_product(const ir_graph *g, const ir_node_rec *node) {
    return node->op == OP_MATMUL && node->label.at >= 0 && node->attr.i[MATMUL_TRANS_A] == 0 &&
           node->attr.i[MATMUL_PACKED] == 0 && op_in_type(g, node, 2)->rank == 2;
}

/* Of a stage that goes through time in chunks: a product of all steps of one, repeated for the next
 * (batch_time). Of many rows the weight is packed on the way. */
static bool is_chunk_product(const pass_unit *unit, const ir_node_rec *node) {
    const ir_graph *g = &unit->graph;
    return pass_chunk_steps(&unit->config->ranks) > 0 && node->op == OP_MATMUL &&
           node->label.at < 0 && node->attr.i[MATMUL_TRANS_A] == 0 &&
           node->attr.i[MATMUL_PACKED] == 0 && op_in_type(g, node, 2)->rank == 2 &&
           g->values[node->out].type.dim[0] <= FEW_ROWS;
}

static bool is_repeated(const pass_unit *unit, const ir_node_rec *node) {
    return is_step_product(&unit->graph, node) || is_chunk_product(unit, node);
}

/* Products whose only reader cuts them by units. */
static void mark_groups(ir_graph *g, const ir_node_rec *reader) {
    const op_def *def = ebb__op(reader->op);
    uint32_t whole = 0;
    int32_t units = def->units == NULL || def->unit_rows ? 0 : def->units(g, reader, &whole);
    for (int32_t k = 0; k < reader->n_in && units > 0; k++) {
        ir_val v = ir_in(g, reader, k);
        ir_node def_node = v == IR_NONE ? (ir_node)IR_NONE : g->values[v].def;
        if (def_node == IR_NONE || (whole >> k & 1) != 0) {
            continue;
        }
        ir_node_rec *node = &g->nodes[def_node];
        int64_t n = ir_cols(&g->values[v].type);
        if (is_step_product(g, node) && n > units && n % units == 0 && n / units <= OP_MAX_GROUPS) {
            node->attr.i[MATMUL_GROUPS] = (int32_t)(n / units);
        }
    }
}

static layout_copy *find_copy(layout_copies *all, const ir_graph *g, const ir_node_rec *node) {
    ir_val weight = ir_in(g, node, 2);
    int32_t trans = node->attr.i[MATMUL_TRANS_B], groups = node->attr.i[MATMUL_GROUPS];
    for (int32_t i = all->newest[weight]; i >= 0; i = all->copies[i].older) {
        layout_copy *c = &all->copies[i];
        if (c->trans == trans && c->groups == groups) {
            return c;
        }
    }
    all->copies[all->n] = (layout_copy){weight, trans, groups, 0, all->newest[weight], IR_NONE};
    all->newest[weight] = all->n;
    return &all->copies[all->n++];
}

static ebb_status pack_operand(ir_graph *g, ir_node n, int32_t lanes, layout_copy *copy) {
    if (copy->packed == IR_NONE) {
        ir_attr attr = {.i = {copy->trans, copy->groups, lanes}};
        g->label = g->nodes[n].label;
        g->label.at = -1;
        TRY(ebb__op_emit(g, OP_PACK, &copy->weight, 1, &attr, &copy->packed));
    }
    ir_node_rec *node = &g->nodes[n];
    ir_set_in(g, node, 2, copy->packed);
    node->attr.i[MATMUL_TRANS_B] = 0;
    node->attr.i[MATMUL_PACKED] = (int32_t)ir_cols(&g->values[node->out].type);
    node->attr.i[MATMUL_PANEL_LANES] = lanes;
    return EBB_OK;
}

static ebb_status run(pass_unit *unit) {
    ir_graph *g = &unit->graph;
    int32_t n_order = g->n_order;
    layout_copies all = {.n = 0};
    size_t values = (size_t)g->n_values + 1;
    int64_t *keys = NULL;
    for (int32_t i = 0; i < n_order; i++) {
        mark_groups(g, &g->nodes[g->order[i]]);
    }
    if (!unit->config->knobs.pack || unit->dev->panel_lanes == 0) {
        return EBB_OK;
    }
    TRY(REGION_ARRAYS(&unit->scratch, ARRAY(all.copies, (size_t)n_order + 1),
                      ARRAY_NONE(all.newest, values)));
    /* At most one copy a node is added. */
    TRY(ebb__pass_keys(g, &unit->scratch, (size_t)g->n_nodes + (size_t)n_order, 2, &keys));
    for (int32_t i = 0; i < n_order; i++) {
        if (is_repeated(unit, &g->nodes[g->order[i]])) {
            find_copy(&all, g, &g->nodes[g->order[i]])->readers++;
        }
    }
    for (int32_t i = 0; i < n_order; i++) {
        ir_node n = g->order[i];
        if (!is_repeated(unit, &g->nodes[n])) {
            continue;
        }
        layout_copy *copy = find_copy(&all, g, &g->nodes[n]);
        if (copy->readers > 1) {
            keys[g->n_nodes] = 2 * (int64_t)i - 1; /* of the copy, if this is its first reader */
            bool gates = copy->groups > 1;
            TRY(pack_operand(g, n, gates ? unit->dev->gate_lanes : unit->dev->panel_lanes, copy));
        }
    }
    return ebb__pass_sort(g, keys);
}

const pass_def ebb__pass_layout = {.id = PASS_LAYOUT, .run = run};
