/* ranks.h - what the files of the cut pass share: who does a node, and how new ones are made.
 */
#ifndef PASS_RANKS_H
#define PASS_RANKS_H

#include "pass/pass.h"

/* The end of the chain of a rank's messages, which is held like an output; nobody reads it. */
#define PASS_MESSAGES "train.messages"

enum { HOME_ALL = -1 }; /* done by every rank that wants its results */

typedef struct rank_cutter {
    pass_unit *unit;
    ir_graph *g;
    alloc_region *region;
    int32_t me, ranks, shards;
    int32_t stages; /* rank g * stages + s does stage s of group g's shards */
    int32_t *stage; /* by layer */
    bool *is_part;  /* by layer: a part of the output layer's classes */
    int32_t *home;  /* by node: the rank that does it, or HOME_ALL */
    size_t cap_home;
    bool *needed;    /* by node, from ebb__cut_align: gradients are made of what it gives */
    uint64_t *owned; /* by rank: bytes of gradients that it applies */
    ir_node agreed;  /* where ranks find out whether all go on with the step; IR_NONE: nowhere */
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
static inline int32_t rank_groups(const rank_cutter *c) {
    return c->ranks / c->stages;
}

static inline int32_t rank_group_of_shard(const rank_cutter *c, int32_t shard) {
    return (int32_t)((((int64_t)shard + 1) * rank_groups(c) - 1) / c->shards);
}

static inline int32_t rank_first_shard(const rank_cutter *c, int32_t group) {
    return (int32_t)((int64_t)group * c->shards / rank_groups(c));
}

static inline int32_t rank_group(const rank_cutter *c) {
    return c->me / c->stages;
}

/* The shard of a node; -1: none. */
static inline int32_t rank_shard(const ir_node_rec *node) {
    return node->label.phase == IR_UPDATE ? -1 : node->label.shard;
}

static inline bool rank_is_part(const rank_cutter *c, const ir_node_rec *node) {
    return c->is_part[node->label.layer];
}

/* All nodes from `first` on are the rank's. */
ebb_status ebb__cut_settle(rank_cutter *c, ir_node first, int32_t home) EBB_MUST_CHECK;

/* cut_order.c: sorts the graph; then moves sums over ranks to where there is work before them. */
ebb_status ebb__cut_align(rank_cutter *c) EBB_MUST_CHECK;
ebb_status ebb__cut_lag(rank_cutter *c) EBB_MUST_CHECK;
/* cut_schedule.c: keys of an order of nodes of shards, where time goes in so many chunks of steps;
 * *found: there is one. */
ebb_status ebb__cut_schedule(const rank_cutter *c, int32_t steps, int32_t chunks, int64_t *keys,
                             bool *found) EBB_MUST_CHECK;
/* stages.c: finds c->stage. */
ebb_status ebb__cut_stages(rank_cutter *c) EBB_MUST_CHECK;
/* reduce.c: sums of gradients over ranks are added up, and updates done, by their owners. */
ebb_status ebb__cut_reduce(rank_cutter *c) EBB_MUST_CHECK;
/* cut_states.c: makes them rows of states where it can. */
ebb_status ebb__cut_states(rank_cutter *c) EBB_MUST_CHECK;
/* agree.c: finds c->agreed, which all ranks do. */
ebb_status ebb__cut_agree(rank_cutter *c) EBB_MUST_CHECK;
/* The norm, and updates: whoever has a parameter wants them, also where one rank alone has made one
 * of the gradients. */
bool ebb__cut_is_for_all(const ir_node_rec *node);
/* A sum that another rank may have begun: it is done where its second operand is. */
bool ebb__cut_continues(const ir_node_rec *node);

#endif
