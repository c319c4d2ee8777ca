/* decisions.c - what recomputation was decided, by layer, read off the compiled graph: how many
 * nodes are done again, the bytes of their results, and what they take. */
#include "plan/plan.h"

#include <stdio.h>
#include <stdlib.h>

int32_t ebb__plan_recomputed(const pass_unit *unit) {
    const ir_graph *g = &unit->graph;
    int32_t n = 0;
    for (int32_t i = 0; i < g->n_order; i++) {
        ir_node at = g->order[i];
        n += g->nodes[at].label.phase == IR_RECOMPUTE && unit->kernels[at] != DEVICE_KERNEL_NONE;
    }
    return n;
}

static uint64_t bytes_of_results(const ir_graph *g, const ir_node_rec *node) {
    uint64_t bytes = 0;
    for (int32_t k = 0; k < node->n_out; k++) {
        bytes += ebb__ir_type_bytes(&g->values[node->out + k].type);
    }
    return bytes;
}

static int more_bytes(const void *a, const void *b) {
    const plan_decision *x = a, *y = b;
    return (x->bytes < y->bytes) - (x->bytes > y->bytes);
}

ebb_status ebb__plan_list_decisions(ebb_plan *plan) {
    const pass_unit *unit = &plan->programs[plan->lead].unit;
    const ir_graph *g = &unit->graph;
    plan_decision *list = NULL;
    int32_t n = 0;
    TRY(ebb__alloc(plan->ctx, (size_t)g->n_layers + 1, sizeof *list, &list));
    for (int32_t i = 0; i < g->n_order; i++) {
        const ir_node_rec *node = &g->nodes[g->order[i]];
        plan_decision *d = &list[node->label.layer];
        bool runs = unit->kernels[g->order[i]] != DEVICE_KERNEL_NONE;
        if (node->label.phase == IR_RECOMPUTE && runs) {
            d->nodes++;
            d->bytes += bytes_of_results(g, node);
            d->seconds += ebb__cost_expected(unit->config->pace, unit->dev, g, node,
                                             unit->kernels[g->order[i]], unit->config->members);
        }
    }
    for (int32_t layer = 0; layer < g->n_layers; layer++) {
        if (list[layer].nodes > 0) {
            list[n] = list[layer];
            (void)snprintf(list[n].layer, sizeof list[n].layer, "%s", g->layers[layer]);
            n++;
        }
    }
    qsort(list, (size_t)n, sizeof *list, more_bytes);
    plan->decisions = list;
    plan->n_decisions = n;
    return EBB_OK;
}
