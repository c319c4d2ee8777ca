/* interp.c - see interp.h. Views are copies here: their reference kernels copy where the planner
 * would alias. */
#include "support/interp.h"

#include <string.h>

ebb_status ebb__interp_init(run_interp *interp, const ir_graph *graph) {
    *interp = (run_interp){.graph = graph};
    ebb__region_init(&interp->region, graph->ctx);
    TRY(ebb__region_alloc(&interp->region, (size_t)graph->n_values + 1, sizeof *interp->data,
                          &interp->data));
    for (ir_val v = 0; v < graph->n_values; v++) {
        TRY(ebb__region_alloc(&interp->region, (size_t)ebb__ir_type_bytes(&graph->values[v].type),
                              1, &interp->data[v]));
    }
    return EBB_OK;
}

void ebb__interp_fini(run_interp *interp) {
    ebb__region_fini(&interp->region);
}

static op_view view_of(const run_interp *interp, ir_val v) {
    if (v == IR_NONE) {
        return (op_view){0};
    }
    const ir_type *type = &interp->graph->values[v].type;
    return (op_view){.data = interp->data[v], .type = *type, .ld = (int32_t)ir_cols(type)};
}

ebb_status ebb__interp_step(run_interp *interp) {
    const ir_graph *g = interp->graph;
    op_view *views = NULL;
    int32_t most = 0;
    for (int32_t i = 0; i < g->n_order; i++) {
        int32_t n = g->nodes[g->order[i]].n_in + IR_MAX_OUT;
        most = n > most ? n : most;
    }
    TRY(ebb__alloc(g->ctx, (size_t)most + 1, sizeof *views, &views));
    for (int32_t i = 0; i < g->n_order; i++) {
        const ir_node_rec *node = &g->nodes[g->order[i]];
        for (int32_t k = 0; k < node->n_in + node->n_out; k++) {
            views[k] =
                view_of(interp, k < node->n_in ? ir_in(g, node, k) : node->out + k - node->n_in);
        }
        op_call call = {.in = views,
                        .out = views + node->n_in,
                        .n_in = node->n_in,
                        .n_out = node->n_out,
                        .attr = &node->attr,
                        .members = 1};
        ebb__op(node->op)->ref(&call);
    }
    for (ir_val v = 0; v < g->n_values; v++) {
        if (g->values[v].next != IR_NONE) {
            memcpy(interp->data[v], interp->data[g->values[v].next],
                   (size_t)ebb__ir_type_bytes(&g->values[v].type));
        }
    }
    ebb__free(g->ctx, views);
    return EBB_OK;
}
