/* differentiate.c - the grad pass: the loss gets the gradient 1, src/grad walks back, and the
 * optimiser's nodes follow. Does nothing for programs that only run forward. */
#include "pass/pass.h"

#include "grad/grad.h"

static ebb_status run(pass_unit *unit) {
    ir_graph *graph = &unit->graph;
    if (!unit->config->training) {
        return EBB_OK;
    }
    if (graph->loss == IR_NONE) {
        return ebb__fail(unit->ctx, EBB_USAGE, "grad: the graph has no loss to train");
    }
    ir_val one = IR_NONE, *grads = NULL;
    int32_t n_values = graph->n_values;
    const ir_type *type = &graph->values[graph->loss].type;
    if (type->dtype != IR_F32 || type->rank != 1 || type->dim[0] != 1) {
        return ebb__fail(unit->ctx, EBB_USAGE, "grad: the loss must be one f32 number");
    }
    if (graph->values[graph->loss].role != IR_TEMP) {
        return ebb__fail(unit->ctx, EBB_USAGE, "grad: the loss must be computed, not a variable");
    }
    graph->label = graph->nodes[graph->values[graph->loss].def].label;
    graph->label.phase = IR_BACKWARD;
    TRY(ebb__op_fill(graph, &(ir_type){.dtype = IR_F32, .rank = 1, .dim = {1}}, 1.0F, &one));
    TRY(ebb__region_alloc(&unit->scratch, (size_t)graph->n_values + 1, sizeof *grads, &grads));
    TRY(ebb__grad_build(graph, &graph->loss, &one, 1, grads));
    return ebb__update_build(graph, grads, n_values, &unit->config->update);
}

const pass_def ebb__pass_grad = {.id = PASS_GRAD, .run = run};
