/* grad.c - the reverse walk. Knows no op: each emits its own gradient. */
#include "grad/grad.h"

static ebb_status emit_gradient(op_adjoint *adjoint, ir_graph *graph, ir_node n) {
    const op_def *def = ebb__op(graph->nodes[n].op);
    ir_label label = graph->nodes[n].label;
    bool wanted = false;
    for (int32_t k = 0; k < graph->nodes[n].n_in; k++) {
        wanted = wanted || ebb__adjoint_wanted(adjoint, ir_in(graph, &graph->nodes[n], k));
    }
    if (!wanted || def->grad == NULL) {
        return EBB_OK;
    }
    label.phase = IR_BACKWARD;
    graph->label = label;
    return def->grad(adjoint, n);
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
                (ir_label){.layer = graph->values[v].layer, .time = -1, .phase = IR_BACKWARD};
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
