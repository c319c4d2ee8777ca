/* ranks.h - what the two files of the cut pass share: who does a node, and how new ones are made.
 */
#ifndef PASS_RANKS_H
#define PASS_RANKS_H

#include "pass/pass.h"

enum { HOME_ALL = -1 }; /* done by every rank that wants its results */

typedef struct rank_cutter {
    pass_unit *unit;
    ir_graph *g;
    alloc_region *region;
    int32_t me, ranks, shards;
    int32_t stages;     /* rank g * stages + s does stage s of group g's shards */
    int32_t *stage;     /* by layer */
    double loss_slower; /* where stages are chosen: by how much the last layer is than it seems */
    int32_t *home;      /* by node: the rank that does it, or HOME_ALL */
    size_t cap_home;
    uint64_t *owned; /* by rank: bytes of gradients that it applies */
} rank_cutter;

static inline bool rank_has(uint64_t mask, int32_t rank) {
    return (mask >> rank & 1) != 0;
}
/* What a rank has only for layers of its stage. */
static inline bool rank_keeps(const ir_value *value) {
    return value->role != IR_TEMP && value->role != IR_INPUT && value->role != IR_SLOT;
}
static inline int32_t rank_home(const rank_cutter *c, ir_val v) {
    ir_node def = c->g->values[v].def;
    return def == IR_NONE ? HOME_ALL : c->home[def];
}
/* All nodes from `first` on are the rank's. */
ebb_status ebb__cut_settle(rank_cutter *c, ir_node first, int32_t home) EBB_MUST_CHECK;

/* stages.c: finds c->stage. */
ebb_status ebb__cut_stages(rank_cutter *c) EBB_MUST_CHECK;
/* reduce.c: sums of gradients over ranks are added up, and updates done, by their owners. */
ebb_status ebb__cut_reduce(rank_cutter *c) EBB_MUST_CHECK;
/* The norm, and updates: whoever has a parameter wants them, also where one rank alone has made one
 * of the gradients. */
bool ebb__cut_is_for_all(const ir_node_rec *node);

#endif
