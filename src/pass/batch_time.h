/* batch_time.h - what the two files of the pass share: batch_find.c finds the nodes that can be
 * merged, batch_time.c merges them. */
#ifndef PASS_BATCH_TIME_H
#define PASS_BATCH_TIME_H

#include "pass/pass.h"

typedef struct batch {
    ir_node first, last; /* members, linked by next_member */
    int32_t n;
    int32_t carry;  /* operand that carries a sum from member to member; -1: an independent set */
    int32_t older;  /* set that was begun before it, of the same hash; -1: none */
    int32_t slot;   /* scratch of the question whether members depend on each other */
    bool dissolved; /* members stay apart */
    ir_node merged;
} batch;

typedef struct batcher {
    pass_unit *unit;
    ir_graph *g;
    int32_t n_values, n_order; /* before the pass */
    alloc_region scratch;      /* of all but the batches; empty before nodes are put in order */
    batch *batches;
    int32_t n_batches;
    int32_t *batch_of; /* by node; -1 */
    int32_t *newest;   /* by hash: the set that was begun last; -1 */
    size_t n_hashes;   /* a power of 2 */
    ir_node *next_member;
    int32_t *n_readers;  /* by value; outputs and next values count */
    ir_val *succ, *pred; /* by value: neighbours in its sequence */
    ir_val *far;         /* by value at the end of a sequence: the other end */
    ir_val *join;        /* by value: the stack of its sequence, once made */
    int32_t *join_row;   /* by value: its first row there */
    ir_val *same;        /* by value: what stands for it now */
    ir_val *list;        /* scratch: a list, and behind it room for as much again */
    pass_edge *edges;    /* from the stacks of sequences to those who wait for them */
    pass_edge *kept;     /* those of sequences that are kept */
    int32_t n_edges;
    size_t cap_edges;
    ir_val *stacks; /* of sequences, as made */
    int32_t n_stacks;
    size_t cap_stacks;
    bool *split; /* by value: a stack whose sequence is not kept */
} batcher;

/* Lists the batches; those that cannot be merged, all of them together, are dissolved. */
ebb_status ebb__batch_find(batcher *b) EBB_MUST_CHECK;
/* Would the graph have an order with all batches merged and these edges? */
ebb_status ebb__batch_has_order(const batcher *b, const pass_edge *extra, int32_t n_extra,
                                bool *out) EBB_MUST_CHECK;

/* Of `n` things that do not all work together, switches on as many as do: halves of what fails are
 * tried apart, so that a few bad ones cost few questions. set() switches one on or off; works()
 * asks about those that are on. All are on at first. */
typedef struct batch_choice {
    batcher *b;
    int32_t n;
    void (*set)(batcher *b, int32_t index, bool on);
    ebb_status (*works)(batcher *b, bool *out);
    int32_t questions; /* asked so far */
} batch_choice;
ebb_status ebb__batch_choose(batch_choice *choice) EBB_MUST_CHECK;

#endif
