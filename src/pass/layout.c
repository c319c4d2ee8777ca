/* layout.c - how weights are stored for the matrix products that read them.
 *
 * Weights keep PyTorch's [out, in]; y = x W^T reads them transposed, and a kernel would have to
 * pack them again at every time step. Where the plan affords it, one transposed copy a step is made
 * just before its first reader and read by all (EcoRNN's data layout, Paddle's packed weights).
 * The copy is an ordinary value: it is placed, counted and freed like any other.
 */
#include "pass/pass.h"

/* Products of at most this many rows cannot hide the packing of their weight. */
enum { NARROW_ROWS = 128 };

static bool reads_transposed(const ir_graph *g, const ir_node_rec *node, pass_transpose policy) {
    if (node->op != OP_MATMUL || node->attr.i[1] == 0 || node->attr.i[0] != 0) {
        return false;
    }
    return policy == TRANSPOSE_ALL || ebb__ir_rows(&g->values[node->out].type) <= NARROW_ROWS;
}

static ebb_status run(pass_unit *unit) {
    ir_graph *g = &unit->graph;
    pass_transpose policy = unit->config->transpose;
    int32_t n_order = g->n_order, n_nodes = g->n_nodes;
    ir_val *copies = NULL; /* by value: its transposed copy */
    int64_t *keys = NULL;
    if (policy == TRANSPOSE_NONE) {
        return EBB_OK;
    }
    TRY(ebb__region_alloc(&unit->region, (size_t)g->n_values + 1, sizeof *copies, &copies));
    for (ir_val v = 0; v < g->n_values; v++) {
        copies[v] = IR_NONE;
    }
    /* At most one copy a node is added. */
    TRY(ebb__pass_keys(g, &unit->region, (size_t)n_nodes + (size_t)n_order, 2, &keys));
    for (int32_t i = 0; i < n_order; i++) {
        ir_node n = g->order[i];
        if (!reads_transposed(g, &g->nodes[n], policy)) {
            continue;
        }
        ir_val weight = ir_in(g, &g->nodes[n], 2);
        if (copies[weight] == IR_NONE) {
            g->label = (ir_label){g->nodes[n].label.layer, -1, IR_FORWARD};
            keys[g->n_nodes] = 2 * (int64_t)i - 1;
            TRY(ebb__op_emit(g, OP_TRANSPOSE, &weight, 1, NULL, &copies[weight]));
        }
        ir_set_in(g, &g->nodes[n], 2, copies[weight]);
        g->nodes[n].attr.i[1] = 0;
    }
    return ebb__pass_sort(g, keys);
}

const pass_def ebb__pass_layout = {.id = PASS_LAYOUT, .run = run};
