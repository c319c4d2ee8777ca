/* alias.c - makes the alias rule true: a value lies in at most one stack, is not at once part of
 * one value and of another, and variables lie nowhere but in their own bytes. Where the graph asks
 * for more, an explicit copy is put right behind the value's producer or in front of the reader.
 * What goes to another rank, or comes from one, or leaves the device's memory and comes back, is no
 * columns of a wider value.
 * fold.c then finds how values lie that are cut or joined along an axis in the middle. */
#include "pass/pass.h"

typedef struct legalizer {
    ir_graph *graph;
    int64_t *keys;
    bool *bound; /* by value: its address already follows from another value */
    bool *dense; /* by value: it is a message, or holds one, whose rows must follow each other */
} legalizer;

static ebb_status copy_operand(void *user, ir_node n, int32_t operand) {
    legalizer *l = user;
    ir_graph *g = l->graph;
    ir_val x = ir_in(g, &g->nodes[n], operand), copy = IR_NONE;
    int64_t at = l->keys[n] - 1;
    g->label = g->nodes[n].label;
    l->keys[g->n_nodes] = at;
    TRY(ebb__op_emit(g, OP_COPY, &x, 1, NULL, &copy));
    ir_set_in(g, &g->nodes[n], operand, copy);
    l->bound[copy] = true;
    return EBB_OK;
}

static ebb_status legalize_join(legalizer *l, ir_node n) {
    ir_graph *g = l->graph;
    int32_t axis = 0;
    (void)ebb__op_is_join(&g->nodes[n], &axis);
    for (int32_t k = 0; k < g->nodes[n].n_in; k++) {
        ir_val x = ir_in(g, &g->nodes[n], k);
        if (g->values[x].role != IR_TEMP || l->bound[x] || (l->dense[x] && axis > 0)) {
            TRY(copy_operand(l, n, k));
        } else {
            l->bound[x] = true;
            l->dense[g->nodes[n].out] = l->dense[g->nodes[n].out] || l->dense[x];
        }
    }
    return EBB_OK;
}

void ebb__pass_mark_messages(const ir_graph *g, bool *dense) {
    for (int32_t i = 0; i < g->n_order; i++) {
        const ir_node_rec *node = &g->nodes[g->order[i]];
        op_message message = ebb__op(node->op)->message;
        op_transfer transfer = ebb__op(node->op)->transfer;
        if (message == MESSAGE_SEND || transfer == TRANSFER_OUT) {
            dense[ir_in(g, node, 0)] = true;
        } else if (message == MESSAGE_RECV || message == MESSAGE_GOT || transfer == TRANSFER_BACK) {
            dense[node->out] = true;
        }
    }
    for (int32_t i = g->n_order - 1; i >= 0; i--) {
        const ir_node_rec *node = &g->nodes[g->order[i]];
        op_range range;
        if (ebb__op_is_slice(node, &range) && dense[node->out]) {
            dense[ir_in(g, node, 0)] = true;
        }
    }
}

/* Is it columns of another value? */
static bool has_columns(const ir_graph *g, ir_val v) {
    op_range range = {0};
    while (g->values[v].def != IR_NONE && ebb__op_is_slice(&g->nodes[g->values[v].def], &range) &&
           range.axis == 0) {
        v = ir_in(g, &g->nodes[g->values[v].def], 0);
    }
    return range.axis > 0;
}

/* Columns are sent as a copy, which stays until they were sent. */
static ebb_status legalize_messages(legalizer *l, alloc_region *scratch) {
    ir_graph *g = l->graph;
    ir_val *copies = NULL; /* by ticket */
    TRY(REGION_ARRAYS(scratch, ARRAY_NONE(copies, (size_t)g->n_values + 1)));
    for (int32_t i = 0; i < g->n_order; i++) {
        ir_node n = g->order[i];
        const ir_node_rec node = g->nodes[n];
        op_message message = ebb__op(node.op)->message;
        if (message == MESSAGE_SEND && has_columns(g, ir_in(g, &node, 0))) {
            TRY(copy_operand(l, n, 0));
            copies[node.out] = ir_in(g, &node, 0);
        } else if (message == MESSAGE_SENT && copies[ir_in(g, &node, 0)] != IR_NONE) {
            ir_set_in(g, &node, 1, copies[ir_in(g, &node, 0)]);
        }
    }
    ebb__pass_mark_messages(g, l->dense);
    return EBB_OK;
}

/* A variable's next value must own its bytes: not a view, not part of a stack, not shared. */
static ebb_status legalize_next(legalizer *l, ir_val variable) {
    ir_graph *g = l->graph;
    ir_val next = g->values[variable].next, copy = IR_NONE;
    ir_node def = g->values[next].def;
    bool view = (ebb__op(g->nodes[def].op)->flags & OPF_ALIAS) != 0;
    if (!view && !l->bound[next] && !g->values[next].output) {
        l->bound[next] = true;
        return EBB_OK;
    }
    g->label = g->nodes[def].label;
    l->keys[g->n_nodes] = INT64_MAX; /* after everything that reads the variable */
    TRY(ebb__op_emit(g, OP_COPY, &next, 1, NULL, &copy));
    g->values[variable].next = copy;
    l->bound[copy] = true;
    return EBB_OK;
}

/* Outputs are read by address as dense rows: not a view, not part of a join. */
static ebb_status legalize_output(legalizer *l, ir_val value) {
    ir_graph *g = l->graph;
    ir_node def = g->values[value].def;
    ir_val copy = IR_NONE;
    if ((ebb__op(g->nodes[def].op)->flags & OPF_ALIAS) == 0 && !l->bound[value]) {
        return EBB_OK;
    }
    g->label = g->nodes[def].label;
    l->keys[g->n_nodes] = l->keys[def] + 1;
    TRY(ebb__op_emit(g, OP_COPY, &value, 1, NULL, &copy));
    g->values[copy].output = true;
    g->values[copy].name = g->values[value].name;
    g->values[value].output = false;
    g->values[value].name = NULL;
    g->loss = g->loss == value ? copy : g->loss;
    l->bound[copy] = true;
    return EBB_OK;
}

static ebb_status run(pass_unit *unit) {
    ir_graph *g = &unit->graph;
    legalizer l = {.graph = g};
    int32_t n_order = g->n_order, n_values = g->n_values;
    bool lays = ebb__pass_needs_lays(g);
    /* One copy for each operand, variable or output at most; with lays, of each copy some more. */
    size_t room = ((size_t)g->n_operands + (size_t)n_values) * (lays ? 4 : 1);
    TRY(ebb__pass_keys(g, &unit->scratch, (size_t)g->n_nodes + room, 2, &l.keys));
    TRY(REGION_ARRAYS(&unit->scratch, ARRAY(l.bound, (size_t)n_values + room + 1),
                      ARRAY(l.dense, (size_t)n_values + room + 1)));
    for (int32_t i = 0; i < n_order; i++) {
        const ir_node_rec *node = &g->nodes[g->order[i]];
        uint32_t flags = ebb__op(node->op)->flags;
        if ((flags & OPF_ALIAS) != 0 && (flags & OPF_VARIADIC) == 0) {
            l.bound[node->out] = true; /* a slice lies inside its operand */
        }
    }
    TRY(legalize_messages(&l, &unit->scratch));
    for (int32_t i = 0; i < n_order; i++) {
        uint32_t flags = ebb__op(g->nodes[g->order[i]].op)->flags;
        if ((flags & OPF_ALIAS) != 0 && (flags & OPF_VARIADIC) != 0) {
            TRY(legalize_join(&l, g->order[i]));
        }
    }
    for (ir_val v = 0; v < n_values; v++) {
        if (g->values[v].next != IR_NONE) {
            TRY(legalize_next(&l, v));
        }
    }
    for (ir_val v = 0; v < n_values; v++) {
        if (g->values[v].role == IR_TEMP && g->values[v].output) {
            TRY(legalize_output(&l, v));
        }
    }
    if (lays) {
        TRY(ebb__pass_find_lays(unit, (size_t)n_values + room + 1, copy_operand, &l));
    }
    return ebb__pass_sort(g, l.keys);
}

const pass_def ebb__pass_alias = {.id = PASS_ALIAS, .run = run};
