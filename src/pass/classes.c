/* classes.c - see classes.h. */
#include "pass/classes.h"

#include "op/pack.h"

#include <stdio.h>

enum { GRAIN = 16 }; /* classes: as many as xent sums up side by side (op/loss_part.h) */

static int32_t count_readers(const ir_graph *g, ir_val v) {
    int32_t n = 0;
    for (int32_t i = 0; i < g->n_order; i++) {
        const ir_node_rec *node = &g->nodes[g->order[i]];
        for (int32_t k = 0; k < node->n_in; k++) {
            n += ir_in(g, node, k) == v;
        }
    }
    return n;
}

/* A parameter of the layer that one node alone reads. */
static bool is_own(const ir_graph *g, ir_val v, int32_t rank, int32_t layer) {
    const ir_value *value = &g->values[v];
    return value->role == IR_PARAM && value->layer == layer && value->type.rank == rank &&
           value->next == IR_NONE && count_readers(g, v) == 1;
}

bool ebb__classes_find(const ir_graph *graph, classes_output *out) {
    ir_node loss = IR_NONE;
    int32_t n = 0;
    for (int32_t i = 0; i < graph->n_order; i++) {
        bool found = graph->nodes[graph->order[i]].op == OP_XENT;
        n += found;
        loss = found ? graph->order[i] : loss;
    }
    ir_val logits = n == 1 ? ir_in(graph, &graph->nodes[loss], 0) : (ir_val)IR_NONE;
    ir_node def = logits == IR_NONE ? (ir_node)IR_NONE : graph->values[logits].def;
    if (def == IR_NONE || graph->nodes[def].op != OP_MATMUL || graph->values[logits].output ||
        graph->values[logits].type.rank != 2 || count_readers(graph, logits) != 1 ||
        graph->nodes[loss].label.at >= 0) {
        return false;
    }
    const ir_node_rec *node = &graph->nodes[def];
    ir_val lse = graph->nodes[loss].out + 1;
    bool plain = node->attr.i[MATMUL_TRANS_A] == 0 && node->attr.i[MATMUL_TRANS_B] != 0 &&
                 node->attr.i[MATMUL_GROUPS] == 0 && node->attr.i[MATMUL_PACKED] == 0;
    *out = (classes_output){ir_in(graph, node, 2), ir_in(graph, node, 0), node->label.layer};
    return plain && is_own(graph, out->weight, 2, out->layer) &&
           (out->bias == IR_NONE || is_own(graph, out->bias, 1, out->layer)) &&
           !graph->values[graph->nodes[loss].out].output && !graph->values[lse].output &&
           count_readers(graph, lse) == 0;
}

void ebb__classes_layer(const char *layer, int32_t stage, char *out, size_t bytes) {
    (void)snprintf(out, bytes, "%.100s/%d", layer, stage);
}

/* What fits under the level. */
static double room_below(double level, const double *before, int32_t stages) {
    double room = 0;
    for (int32_t s = 0; s < stages; s++) {
        room += level > before[s] ? level - before[s] : 0;
    }
    return room;
}

bool ebb__classes_share(int32_t classes, double seconds, const double *before, int32_t stages,
                        int32_t *ends) {
    enum { HALVINGS = 60 };
    double low = 0, high = seconds > 0 ? seconds : 1, filled = 0;
    int32_t at = 0, parts = 0;
    for (int32_t s = 0; s < stages; s++) {
        high += before[s];
    }
    double all = room_below(high, before, stages),
           goal = seconds > 0 && seconds < all ? seconds : all;
    for (int k = 0; k < HALVINGS; k++) {
        double middle = (low + high) / 2;
        *(room_below(middle, before, stages) >= goal ? &high : &low) = middle;
    }
    all = room_below(high, before, stages);
    for (int32_t s = 0; s < stages; s++) {
        filled += high > before[s] ? high - before[s] : 0;
        int32_t end = (int32_t)(filled / all * classes / GRAIN + 0.5) * GRAIN;
        end = s + 1 == stages || end > classes ? classes : end;
        end = end < at ? at : end;
        parts += end > at;
        ends[s] = at = end;
    }
    return parts > 1;
}
