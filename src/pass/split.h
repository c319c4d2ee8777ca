/* split.h - a region of row-wise nodes repeated for ranges of rows (the `rows` column), so that
 * what lies inside it never exists for all rows at once.
 *
 * Split operands become slices, split results stacks, and sums over rows (weight gradients) a chain
 * from range to range, which is the same chain of additions as before: no bit changes. The ranges
 * follow each other where the region stood, each finished before the next begins. Rows are those of
 * matrices or the images of maps, which are cut between groups of them.
 *
 * How a pass goes about it: open; for each region its nodes (takes, admit), is_convex, its ranges
 * in chunks[], region; forget; finish in the end. Where `stale` is set, a node reads what was split
 * since open: finish, and open anew. */
#ifndef PASS_SPLIT_H
#define PASS_SPLIT_H

#include "pass/pass.h"

/* Rows [begin, begin + len), of a span that begins at `time`; -1: of none, done with forward. */
typedef struct split_range {
    int32_t begin, len, time;
} split_range;
enum {
    SPLIT_BY_PHASE = -2, /* a time: nodes are done when their phases say */
    SPLIT_AT_ONCE = -3,  /* likewise: with forward, as soon as forward has come to the rows */
};

/* A part of a stack and the row where it begins. */
typedef struct split_mark {
    int32_t part, row;
} split_mark;

/* What is known of the graph is found once for all regions; what depends on one region alone takes
 * no more time than it has nodes. */
typedef struct pass_split {
    pass_unit *unit;
    ir_graph *graph;
    int32_t rows;    /* of the whole; set by the caller before nodes are taken */
    bool *member;    /* by node */
    bool *after;     /* by value: depends on the region through a node outside it */
    ir_node *region; /* members; in graph order from is_convex on */
    int32_t n_region;
    int32_t *reader_first; /* readers by value: reader_list[reader_first[v] .. reader_first[v+1]) */
    ir_node *reader_list;
    int32_t *position; /* of a node in the order; -1: not in it */
    int32_t n_values;  /* before splitting */
    split_range *chunks;
    int32_t n_chunks;
    alloc_region scratch; /* of one region */
    ir_val *part;         /* by value: the chunk's share of it, or IR_NONE */
    split_mark *marks;    /* by value */
    ir_val *carry; /* by value, of all regions: what stands for it after the last chunk so far */
    int64_t *keys; /* by node, for the sort in the end */
    size_t cap_keys;
    bool split; /* any region was, since the graph was indexed */
    bool stale; /* a region came upon what was split */
} pass_split;

/* What it holds is the unit's scratch, and gone after finish or a failure, but for `scratch`, which
 * forget lets go. */
ebb_status ebb__split_open(pass_split *split, pass_unit *unit) EBB_MUST_CHECK;
/* Whether the node can be part of a region, and how it takes part. */
bool ebb__split_takes(pass_split *split, ir_node n, pass_roles *roles);
void ebb__split_admit(pass_split *split, ir_node n);
/* No path may leave the region and come back: its ranges would wait for each other. */
bool ebb__split_is_convex(pass_split *split);
/* Repeats the region for all of split->chunks. */
ebb_status ebb__split_region(pass_split *split) EBB_MUST_CHECK;
/* Before the next region. */
void ebb__split_forget(pass_split *split);
/* Puts everything in order; nothing that is indexed holds any more. */
ebb_status ebb__split_finish(pass_split *split) EBB_MUST_CHECK;

#endif
