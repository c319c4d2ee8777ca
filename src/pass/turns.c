/* turns.c - the parts of the batch take turns: forward and backward of one shard come before
 * forward of the next, so that only one shard's activations exist at a time. Which rows are a
 * shard, and in which order their gradients are added up, is fixed before (shard.c): labels tell
 * them apart here. What belongs to no shard, such as adding two shards' gradients, is done as soon
 * as it can be. */
#include "pass/pass.h"

/* A parameter's gradient is the sum of its shards': those are gradients too. */
static void mark_gradients(ir_graph *g) {
    for (int32_t i = g->n_order - 1; i >= 0; i--) {
        const ir_node_rec *node = &g->nodes[g->order[i]];
        bool sum = (ebb__op(node->op)->flags & OPF_ELEMENTWISE) != 0;
        for (int32_t k = 0; sum && g->values[node->out].param_grad && k < node->n_in; k++) {
            ir_val v = ir_in(g, node, k);
            if (v != IR_NONE && g->values[v].role == IR_TEMP) {
                g->values[v].param_grad = true;
            }
        }
    }
}

static ebb_status run(pass_unit *unit) {
    ir_graph *g = &unit->graph;
    int64_t *keys = NULL, all = g->n_order;
    bool any = false;
    TRY(ebb__pass_keys(g, &unit->scratch, (size_t)g->n_nodes, 1, &keys));
    for (int32_t i = 0; i < g->n_order; i++) {
        const ir_label *label = &g->nodes[g->order[i]].label;
        any = any || label->shard > 0;
        keys[g->order[i]] += all * (label->phase == IR_UPDATE ? IR_MAX_SHARDS : label->shard);
    }
    if (!any) {
        return EBB_OK;
    }
    mark_gradients(g);
    return ebb__pass_sort(g, keys);
}

const pass_def ebb__pass_turns = {.id = PASS_TURNS, .run = run};
