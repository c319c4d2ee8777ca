/* grad.c - the reverse walk. It knows no op: each emits the gradient of its operands from that of
 * its results, and is asked only if something arrived there and something is wanted. */
#include "grad/grad.h"

/* Takes the gradients of the node's results; *any: something arrived. */
static ebb_status take_gradients(op_grad *g, const op_take *take, bool *any) {
    for (int32_t i = 0; i < g->node.n_out; i++) {
        ir_val result = g->node.out + i;
        bool arrived = ebb__adjoint_arrived(g->adjoint, result);
        g->d[i] = IR_NONE;
        if (arrived && take[i] == TAKE_NONE) {
            return ebb__op_bad(g->graph, &g->node,
                               "result %d has no gradient: do not use it in the loss", i);
        }
        if (take[i] == TAKE_WHOLE) {
            TRY(ebb__adjoint_take(g->adjoint, result, &g->d[i]));
        }
        *any = *any || arrived;
    }
    g->dy = g->d[0];
    return EBB_OK;
}

static ebb_status emit_gradient(op_adjoint *adjoint, ir_graph *graph, ir_node n) {
    op_grad g = {.adjoint = adjoint, .graph = graph, .node = graph->nodes[n]};
    const op_def *def = ebb__op(g.node.op);
    bool wanted = false, any = false;
    for (int32_t k = 0; k < g.node.n_in; k++) {
        wanted = wanted || ebb__adjoint_wanted(adjoint, ir_in(graph, &g.node, k));
    }
    if (!wanted || def->grad == NULL) {
        return EBB_OK;
    }
    graph->label = g.node.label;
    graph->label.phase = IR_BACKWARD;
    TRY(take_gradients(&g, def->take, &any));
    return any ? def->grad(&g) : EBB_OK;
}

ebb_status ebb__grad_build(ir_graph *graph, const ir_val *of, const ir_val *seeds, int32_t n_seeds,
                           ir_val *grads) {
    op_adjoint *adjoint = NULL;
    ebb_status status = ebb__adjoint_new(graph, &adjoint);
    int32_t n_values = graph->n_values, n_order = graph->n_order;
    ir_label label = graph->label;
    if (status != EBB_OK) {
        return status;
    }
    for (int32_t i = 0; i < n_seeds; i++) {
        TRY_OUT(ebb__adjoint_add(adjoint, of[i], seeds[i]));
    }
    for (int32_t i = n_order - 1; i >= 0; i--) {
        TRY_OUT(emit_gradient(adjoint, graph, graph->order[i]));
    }
    for (ir_val v = 0; v < n_values; v++) {
        grads[v] = IR_NONE;
        if (graph->values[v].role == IR_PARAM) {
            graph->label =
                (ir_label){.layer = graph->values[v].layer, .at = -1, .phase = IR_BACKWARD};
            TRY_OUT(ebb__adjoint_take(adjoint, v, &grads[v]));
            if (grads[v] != IR_NONE) {
                graph->values[grads[v]].param_grad = true;
            }
        }
    }
out:
    graph->label = label;
    ebb__adjoint_free(adjoint);
    return status;
}
