/* agree.c - ranks that share a step give it up together. What does not fit a heap of one of them
 * (heap.c) makes all do the step once more, by programs without heaps, so before any of them has
 * changed a variable each must know how it stands with the others.
 *
 * Every rank votes, and reads all votes, where the norm of the gradients is known and nothing is
 * updated yet: all messages of the gradients are over by then (cut.c sees to that), so that nobody
 * is left waiting for one that is never sent. Votes are messages like others, and there whatever
 * plan a rank takes; one without heaps has nothing against it. */
#include "pass/ranks.h"

#include "grad/update.h"
#include "op/heap.h"

#include <string.h>

static ir_val find_norm(const ir_graph *g) {
    ir_val norm = IR_NONE;
    for (ir_val v = 0; v < g->n_values; v++) {
        const ir_value *value = &g->values[v];
        bool named = value->output && value->name != NULL && strcmp(value->name, UPDATE_NORM) == 0;
        norm = named ? v : norm;
    }
    return norm;
}

/* All variables that the step changes, behind the votes: their writers come later. */
static int32_t list_changed(const ir_graph *g, ir_val *list) {
    int32_t n = 0;
    for (ir_val v = 0; v < g->n_values; v++) {
        if (g->values[v].role != IR_TEMP && g->values[v].next != IR_NONE) {
            list[n++] = v;
        }
    }
    return n;
}

ebb_status ebb__cut_agree(rank_cutter *c) {
    ir_graph *g = c->g;
    const pass_config *config = c->unit->config;
    const ir_val norm = find_norm(g);
    ir_attr vote = {.i = {[GIVE_UP_LATER] = 1}}, all = {.i = {[GIVE_UP_STATES] = c->ranks}};
    ir_val *in = NULL, out;
    c->agreed = IR_NONE;
    if (!config->training || config->density.cut <= 0 || norm == IR_NONE) {
        return EBB_OK;
    }
    TRY(ebb__region_alloc(c->region, (size_t)(c->ranks + g->n_values) + 2, sizeof *in, &in));
    g->label = g->nodes[g->values[norm].def].label;
    for (int32_t r = 0; r < c->ranks; r++) {
        ir_node made = g->n_nodes;
        TRY(ebb__op_emit(g, OP_GIVE_UP, NULL, 0, &vote, &in[r]));
        TRY(ebb__cut_settle(c, made, r));
    }
    in[c->ranks] = norm;
    int32_t n = c->ranks + 1 + list_changed(g, in + c->ranks + 1);
    c->agreed = g->n_nodes;
    TRY(ebb__op_emit(g, OP_GIVE_UP, in, n, &all, &out));
    g->values[out].output = true; /* so that it stays */
    return ebb__cut_settle(c, c->agreed, HOME_ALL);
}
