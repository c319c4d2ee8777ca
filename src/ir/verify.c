/* verify.c - the structure of a graph: what every pass must leave behind. Types are checked one
 * layer up, where ops are known (ebb__op_verify). */
#include "ir/graph.h"

static const char *op_name(const ir_graph *graph, const ir_node_rec *node) {
    return node->op < graph->n_schemas ? graph->schemas[node->op]->name : "?";
}

static ebb_status check_node(const ir_graph *graph, ir_node n, const bool *defined) {
    const ir_node_rec *node = &graph->nodes[n];
    if (node->op >= graph->n_schemas) {
        return ebb__fail(graph->ctx, EBB_INTERNAL, "verify: node %d has unknown op %d", n,
                         node->op);
    }
    if (node->out < 0 || node->n_out > graph->n_values - node->out || node->label.layer < 0 ||
        node->label.layer >= graph->n_layers) {
        return ebb__fail(graph->ctx, EBB_INTERNAL,
                         "verify: node %d (%s) has results or a layer that do not exist", n,
                         op_name(graph, node));
    }
    for (int32_t i = 0; i < node->n_in; i++) {
        ir_val v = ir_in(graph, node, i);
        if (v == IR_NONE) {
            continue;
        }
        if (v < 0 || v >= graph->n_values) {
            return ebb__fail(graph->ctx, EBB_INTERNAL, "verify: node %d (%s) reads value %d of %d",
                             n, op_name(graph, node), v, graph->n_values);
        }
        if (!defined[v]) {
            return ebb__fail(graph->ctx, EBB_INTERNAL,
                             "verify: node %d (%s) reads value %d before it is defined", n,
                             op_name(graph, node), v);
        }
    }
    return EBB_OK;
}

/* Marks variables as defined; lists those that have a next value, and values that claim to be
 * variables or not to be, wrongly. */
static int32_t find_variables(const ir_graph *graph, bool *defined, ir_val *list) {
    int32_t n = 0;
    for (ir_val v = 0; v < graph->n_values; v++) {
        const ir_value *value = &graph->values[v];
        defined[v] = value->role != IR_TEMP;
        if (value->next != IR_NONE || defined[v] != (value->def == IR_NONE)) {
            list[n++] = v;
        }
    }
    return n;
}

static ebb_status check_variable(const ir_graph *graph, ir_val v, const bool *defined) {
    const ir_value *value = &graph->values[v];
    if ((value->role == IR_TEMP) != (value->def != IR_NONE)) {
        return ebb__fail(graph->ctx, EBB_INTERNAL, "verify: value %d: role and producer differ", v);
    }
    if (value->role == IR_TEMP || value->next < 0 || value->next >= graph->n_values ||
        !defined[value->next] || graph->values[value->next].role != IR_TEMP ||
        !ebb__ir_type_equal(&value->type, &graph->values[value->next].type)) {
        return ebb__fail(graph->ctx, EBB_INTERNAL, "verify: variable %s has a wrong next value",
                         value->name);
    }
    return EBB_OK;
}

ebb_status ebb__ir_verify(const ir_graph *graph) {
    bool *defined = NULL;
    ir_val *variables = NULL;
    int32_t n_variables = 0;
    ebb_status status;
    TRY_OUT(ebb__alloc(graph->ctx, (size_t)graph->n_values + 1, sizeof *defined, &defined));
    TRY_OUT(ebb__alloc(graph->ctx, (size_t)graph->n_values + 1, sizeof *variables, &variables));
    n_variables = find_variables(graph, defined, variables);
    for (int32_t i = 0; i < graph->n_order; i++) {
        ir_node n = graph->order[i];
        if (n < 0 || n >= graph->n_nodes) {
            status = ebb__fail(graph->ctx, EBB_INTERNAL, "verify: order names node %d", n);
            goto out;
        }
        TRY_OUT(check_node(graph, n, defined));
        const ir_node_rec *node = &graph->nodes[n];
        for (int32_t k = 0; k < node->n_out; k++) {
            if (defined[node->out + k] || graph->values[node->out + k].def != n) {
                status = ebb__fail(graph->ctx, EBB_INTERNAL,
                                   "verify: node %d (%s) defines value %d wrongly or twice", n,
                                   op_name(graph, node), node->out + k);
                goto out;
            }
            defined[node->out + k] = true;
        }
    }
    for (int32_t i = 0; i < n_variables; i++) {
        TRY_OUT(check_variable(graph, variables[i], defined));
    }
out:
    ebb__free(graph->ctx, variables);
    ebb__free(graph->ctx, defined);
    return status;
}
