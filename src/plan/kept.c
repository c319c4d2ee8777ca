/* kept.c - what of each layer waits for backward, by form: the most that it has at one time in the
 * leading program. One sweep over the pieces of stash, in the order in which they come and go. */
#include "plan/plan.h"

#include <stdlib.h>

typedef struct change {
    int32_t position;
    int32_t slot; /* layer and form */
    int64_t bytes;
} change;

/* What goes at a position is gone before something else comes. */
static int in_order(const void *a, const void *b) {
    const change *x = a, *y = b;
    if (x->position != y->position) {
        return x->position < y->position ? -1 : 1;
    }
    return (x->bytes > y->bytes) - (x->bytes < y->bytes);
}

static int32_t list_changes(const pass_unit *unit, const op_forms *forms, change *out) {
    const plan_placement *p = unit->placement;
    const ir_graph *g = &unit->graph;
    int32_t n = 0;
    for (int32_t i = 0; i < p->n_pieces; i++) {
        const plan_piece *piece = &p->pieces[i];
        if (piece->kind != IR_STASH || p->blocks[piece->block].away) {
            continue;
        }
        const ir_node_rec *node = &g->nodes[piece->node];
        int32_t slot = node->label.layer * FORMS_MOST + forms->of[node->op];
        out[n++] = (change){piece->birth, slot, (int64_t)piece->own};
        out[n++] = (change){piece->death + 1, slot, -(int64_t)piece->own};
    }
    return n;
}

ebb_status ebb__plan_kept(const ebb_plan *plan, alloc_region *region, plan_kept **out, int32_t *n) {
    const pass_unit *unit = &plan->programs[plan->lead].unit;
    const ir_graph *g = &unit->graph;
    op_forms forms = ebb__op_forms();
    change *changes = NULL;
    int64_t *now = NULL;
    size_t layers = (size_t)g->n_layers + 1, pieces = (size_t)unit->placement->n_pieces;
    TRY(REGION_ARRAYS(region, ARRAY(*out, layers), ARRAY(changes, 2 * pieces + 1),
                      ARRAY(now, layers * FORMS_MOST)));
    for (int32_t i = 0; i < g->n_layers; i++) {
        (*out)[i].layer = g->layers[i];
    }
    int32_t n_changes = list_changes(unit, &forms, changes);
    qsort(changes, (size_t)n_changes, sizeof *changes, in_order);
    for (int32_t i = 0; i < n_changes; i++) {
        const change *c = &changes[i];
        uint64_t *most = &(*out)[c->slot / FORMS_MOST].bytes[c->slot % FORMS_MOST];
        now[c->slot] += c->bytes;
        *most = (uint64_t)now[c->slot] > *most ? (uint64_t)now[c->slot] : *most;
    }
    *n = g->n_layers;
    return EBB_OK;
}
