/* encode_norm.c - what batch norm gives, and the relu behind it, does not wait for backward.
 *
 * The gradient of a batch norm reads what it normalised. So that is there when the gradient of the
 * next convolution's weights asks for the normalised map, which takes a few operations a number to
 * make of it (Rota Bulo et al. 2018, "In-Place Activated BatchNorm", the other way round): the
 * convolution's loops do that, row by row, and the map itself is gone as soon as forward is done
 * with it. The relu's gradient needs its signs only. */
#include "op/conv.h"
#include "pass/pass.h"

typedef struct rebuilder {
    ir_graph *g;
    bool *late; /* by value: a late node reads it that will go on to do so */
    ir_val *now;
} rebuilder;

static const ir_node_rec *forward_def(const ir_graph *g, ir_val v, op_code op) {
    ir_node def = v == IR_NONE ? (ir_node)IR_NONE : g->values[v].def;
    bool found = def != IR_NONE && g->nodes[def].op == op && !pass_is_late(&g->nodes[def]);
    return found ? &g->nodes[def] : NULL;
}

/* The batch norm whose result, or its relu, the late node multiplies with; NULL: there is none, or
 * nobody else keeps what it normalised. */
static const ir_node_rec *find_norm(const rebuilder *r, const ir_node_rec *reader, bool *relu) {
    const ir_graph *g = r->g;
    if (reader->op != OP_CONV_WEIGHTS || !pass_is_late(reader)) {
        return NULL;
    }
    ir_val x = ir_in(g, reader, 2);
    const ir_node_rec *cut = forward_def(g, x, OP_RELU);
    const ir_node_rec *norm = forward_def(g, cut != NULL ? ir_in(g, cut, 0) : x, OP_BATCH_APPLY);
    *relu = cut != NULL;
    return norm != NULL && r->late[ir_in(g, norm, 0)] ? norm : NULL;
}

static ebb_status rebuild(rebuilder *r, ir_node n) {
    ir_graph *g = r->g;
    const ir_node_rec reader = g->nodes[n];
    bool relu;
    const ir_node_rec *norm = find_norm(r, &reader, &relu);
    if (norm == NULL || g->values[reader.out].output) {
        return EBB_OK;
    }
    ir_val in[6] = {ir_in(g, &reader, 0), ir_in(g, &reader, 1)}, out;
    ir_attr attr = reader.attr;
    for (int32_t k = 0; k < 4; k++) {
        in[2 + k] = ir_in(g, norm, k);
    }
    attr.i[CONV_NORM_RELU] = relu;
    g->label = reader.label;
    TRY(ebb__op_emit(g, OP_CONV_WEIGHTS_NORM, in, 6, &attr, &out));
    g->values[out].param_grad = g->values[reader.out].param_grad;
    r->now[reader.out] = out;
    return EBB_OK;
}

ebb_status ebb__encode_norm(pass_unit *unit) {
    ir_graph *g = &unit->graph;
    rebuilder r = {.g = g};
    int32_t n_values = g->n_values, n_order = g->n_order, n_nodes = g->n_nodes;
    int64_t *keys = NULL;
    size_t room = (size_t)g->n_nodes;
    TRY(ebb__region_alloc(&unit->scratch, (size_t)n_values + 1, sizeof *r.late, &r.late));
    TRY(ebb__pass_same(g, &unit->scratch, &r.now));
    TRY(ebb__pass_keys(g, &unit->scratch, room, 1, &keys));
    for (int32_t i = 0; i < n_order; i++) {
        const ir_node_rec *node = &g->nodes[g->order[i]];
        for (int32_t k = 0; k < node->n_in && pass_is_late(node); k++) {
            if (ir_in(g, node, k) != IR_NONE) {
                r.late[ir_in(g, node, k)] = true;
            }
        }
    }
    for (int32_t i = 0; i < n_order; i++) {
        ir_node first = g->n_nodes;
        TRY(rebuild(&r, g->order[i]));
        TRY(ebb__pass_set_keys(g, &unit->scratch, &keys, &room, first, keys[g->order[i]]));
    }
    if (g->n_nodes == n_nodes) {
        return EBB_OK;
    }
    ebb__pass_rewire(g, r.now, n_values);
    TRY(ebb__pass_sort(g, keys));
    return ebb__pass_drop_dead(g);
}
