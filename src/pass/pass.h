/* pass.h - a pass: graph in, graph out. The list stands in plan/pipeline.c; each pass is one file.
 *
 * A pass is deterministic, changes the graph only by adding nodes, rewiring operands and
 * reordering, preserves labels, and never changes a bit of any result. Optional passes can be
 * switched off in any combination. After each pass the driver verifies the graph.
 */
#ifndef PASS_PASS_H
#define PASS_PASS_H

#include "cost/cost.h"
#include "device/device.h"
#include "grad/update.h"
#include "op/op.h"

/* Every pass, in the order of the pipeline: enumerator, name, may it be disabled. */
#define PASS_LIST(X)                                                                               \
    X(PASS_INFER, "infer", false)                                                                  \
    X(PASS_SHARD, "shard", false)                                                                  \
    X(PASS_GRAD, "grad", false)                                                                    \
    X(PASS_STASH, "stash", false)                                                                  \
    X(PASS_SIMPLIFY, "simplify", true)                                                             \
    X(PASS_SPLIT, "split", true)                                                                   \
    X(PASS_CUT, "cut", false)                                                                      \
    X(PASS_TURNS, "turns", true)                                                                   \
    X(PASS_CHUNK, "chunk", true)                                                                   \
    X(PASS_ENCODE, "encode", true)                                                                 \
    X(PASS_RECOMPUTE, "recompute", true)                                                           \
    X(PASS_HEAP, "heap", false)                                                                    \
    X(PASS_OFFLOAD, "offload", true)                                                               \
    X(PASS_BATCH_TIME, "batch_time", true)                                                         \
    X(PASS_SPARSE, "sparse", true)                                                                 \
    X(PASS_SLICES, "slices", true)                                                                 \
    X(PASS_CONTRACT, "contract", true)                                                             \
    X(PASS_LAYOUT, "layout", true)                                                                 \
    X(PASS_ALIAS, "alias", false)                                                                  \
    X(PASS_SELECT, "select", false)                                                                \
    X(PASS_SCHEDULE, "schedule", false)                                                            \
    X(PASS_FUSE, "fuse", true)                                                                     \
    X(PASS_PLACE, "place", false)                                                                  \
    X(PASS_TEAM, "team", false)                                                                    \
    X(PASS_VERIFY, "verify", false)
typedef enum pass_id {
#define PASS_ENUM(id, name, optional) id,
    PASS_LIST(PASS_ENUM)
#undef PASS_ENUM
        PASS_COUNT
} pass_id;

typedef void (*pass_dump_fn)(void *user, const char *pass, const char *text);

/* Settings that trade bytes for seconds, which the budget walk varies (plan/knobs.h): type, name,
 * the last pass that reads it.
 *
 * pack        packed copies of weights that several time steps read
 * chunk_rows  rows of a loss chunk; 0: whole
 * chunk_images, chunk_net
 *             images of a chunk of a net over images, segment by segment or the net as a whole; 0:
 *             all at once
 * slices      weight gradients are made and used up a few rows at a time
 * encode      1: what backward needs only the signs of, or the like, waits as a code of that;
 *             2: and what has many zeros without them; 3: which is read where it lies, if it can,
 *             and the gradients of pools are made by halves
 * decode      no product makes what it reads of codes or of what was normalised: that is done as a
 *             whole before it
 * The others say what is computed again instead of being kept from forward to backward:
 * price       seconds that a byte of stash is worth; 0: everything is kept
 * scan        states that only pointwise ops carry on are kept every so many time steps; 0: all
 * span        time steps of a span: forward and backward go from span to span; 0: no spans
 * merge       most time steps whose backward products become one (sums are not limited); 0: all
 * outer       so many spans are recomputed as one longer span as well (nested); 0: none
 * heavy       products (OPF_HEAVY) of a time step may be repeated too
 * places      of a net over images, what is handed on is kept every so many places; 0: there are
 *             none
 * room        or at the ends of groups of places, each of which, repeated as a whole, takes at most
 *             so many times the least that groups can do with beside what is kept before them
 * replay      also those that wait for each other: only states between spans are kept
 * What is kept may wait outside the device's memory:
 * offload     percent of the bytes that wait; 0: none
 * offload_least
 *             bytes of the smallest value that does */
#define PASS_KNOB_LIST(X)                                                                          \
    X(bool, pack, PASS_LAYOUT)                                                                     \
    X(int32_t, chunk_rows, PASS_CHUNK)                                                             \
    X(int32_t, chunk_images, PASS_CHUNK)                                                           \
    X(bool, chunk_net, PASS_CHUNK)                                                                 \
    X(bool, slices, PASS_SLICES)                                                                   \
    X(int32_t, encode, PASS_HEAP)                                                                  \
    X(bool, decode, PASS_ENCODE)                                                                   \
    X(double, price, PASS_RECOMPUTE)                                                               \
    X(int32_t, scan, PASS_RECOMPUTE)                                                               \
    X(int32_t, span, PASS_BATCH_TIME)                                                              \
    X(int32_t, merge, PASS_BATCH_TIME)                                                             \
    X(int32_t, outer, PASS_RECOMPUTE)                                                              \
    X(bool, heavy, PASS_RECOMPUTE)                                                                 \
    X(double, room, PASS_RECOMPUTE)                                                                \
    X(int32_t, places, PASS_RECOMPUTE)                                                             \
    X(bool, replay, PASS_RECOMPUTE)                                                                \
    X(int32_t, offload, PASS_OFFLOAD)                                                              \
    X(int32_t, offload_least, PASS_OFFLOAD)
typedef struct pass_knobs {
#define PASS_KNOB_MEMBER(type, name, last) type name;
    PASS_KNOB_LIST(PASS_KNOB_MEMBER)
#undef PASS_KNOB_MEMBER
} pass_knobs;

/* The share of elements that may be above 0 in what a relu gives, and in what it gives of a sum (0:
 * as residual nets have it), before a step does not fit (knob encode 2). */
typedef struct pass_density {
    double cut, sum;
} pass_density;

/* The ranks that share the parts of a batch, or layers, and which of them this is (cut.c). Who adds
 * up and applies a gradient: the rank that has its part of the optimiser, all of them, or the
 * first. */
typedef enum pass_reduce { REDUCE_SLICES, REDUCE_COPIES, REDUCE_CENTRAL } pass_reduce;
enum { PASS_MOST_RANKS = 64 };
/* Which stage does a layer. */
typedef struct pass_stage {
    char layer[120];
    int32_t stage;
    int32_t end; /* of a part of the output layer (split_classes.c): behind its last class; 0: it is
                    a layer as the graph has it */
} pass_stage;
/* What is chosen of stages: the same for all ranks, and for all programs, which share variables. */
typedef struct pass_stages {
    const pass_stage *layers;
    int32_t n_layers;
    int32_t chunk_steps, sum_steps; /* as below */
    double early;
    double seconds; /* of a step by that, or of the slowest stage alone */
} pass_stages;
typedef struct pass_ranks {
    int32_t rank, count; /* count 0 or 1: one alone */
    int32_t stages;      /* so many ranks, one after the other, are a group, which shares the layers
                            of its parts of the batch; 0: 1 */
    int32_t chunk_steps; /* time steps that stages hand on together, and go through all their layers
                            with; 0: there is no time */
    int32_t sum_steps; /* time steps whose part of a weight's gradient is one product (pass_sum_of),
                          in all stages but the last, which has all in one unless the step is
                          played; a multiple of chunk_steps */
    double early; /* share of the time steps whose loss the last stage does while forward goes on;
                     that of the others waits for backward, which begins with the last steps */
    const pass_stage *layers; /* the same for all programs: they share variables. NULL: as is best
                                 for the graph that is cut */
    int32_t n_layers;
    pass_reduce reduce;
} pass_ranks;

/* Time steps of a chunk, where stages go through time in such; 0: they do not. */
static inline int32_t pass_chunk_steps(const pass_ranks *ranks) {
    return ranks->stages > 1 ? ranks->chunk_steps : 0;
}

/* Which of the products of a weight's gradient has the time step, where stages go from chunk to
 * chunk: the one that backward comes to last is of one chunk, since all wait for it in the end. */
static inline int32_t pass_sum_of(const pass_ranks *ranks, int32_t at) {
    return (at + ranks->sum_steps - ranks->chunk_steps) / ranks->sum_steps;
}

/* The stages share the output layer by its classes: those parts are the last of the list. */
static inline bool pass_has_parts(const pass_ranks *ranks) {
    return ranks->count > 1 && ranks->stages > 1 && ranks->layers != NULL && ranks->n_layers > 0 &&
           ranks->layers[ranks->n_layers - 1].end > 0;
}

/* The order that the cut pass gives is the one to keep: it was found by playing the step
 * (cut_schedule.c). */
static inline bool pass_is_played(const pass_ranks *ranks) {
    return pass_chunk_steps(ranks) > 0 && pass_has_parts(ranks);
}

/* A program that the first rank does alone has variables of its own, by a name with this before it,
 * for those that are in parts. */
#define PASS_WHOLE "whole/"

/* Settings of one compilation. */
typedef struct pass_config {
    uint32_t disabled; /* bit per pass_id */
    pass_id first;     /* the graph has been through the passes before this one */
    pass_knobs knobs;
    const device *dev;       /* NULL: the default */
    int members;             /* threads */
    const cost_table *table; /* measured times, that forms are picked by; NULL: built-in ones */
    double pace;             /* of this machine: see ebb__cost_expected */
    bool training;           /* differentiate the loss and emit updates */
    int32_t stash;           /* bits of the format that what waits for backward is rounded to
                                (op/narrow.h); 0: it is not */
    pass_density density;
    pass_ranks ranks;
    grad_update_settings update;
    uint32_t dump_after; /* bit per pass_id */
    pass_dump_fn dump;
    void *dump_user;
} pass_config;

struct plan_placement;

/* How the members of the team share a node. */
typedef struct pass_share {
    int32_t members;      /* how many take part: the same for all nodes of a run */
    int32_t units, block; /* of the first node of a run of several: units of the run, and how many
                             of them a member takes at a time; else 0 */
    int32_t pieces;       /* of a node that runs by itself: into how many it is cut */
} pass_share;

/* What is being compiled. `region` holds what passes find out, as long as the unit lives; `scratch`
 * what a pass needs only while it runs: the driver empties it after each. */
typedef struct pass_unit {
    ebb_ctx *ctx;
    const pass_config *config;
    const device *dev;
    int32_t shards; /* parts of the batch, for shard; 0 or 1: it stays one */
    bool alone;     /* the first rank does it by itself */
    ir_graph graph;
    alloc_region region, scratch;
    int32_t *era; /* by node < n_eras, from chunk: when it is done. 0: as its phase says;
                     PASS_ERA_FORWARD: in forward; else with the backward of time step era - 1 */
    int32_t n_eras;
    size_t cap_eras;
    op_lay *lays;      /* by value, from alias: how it lies; NULL: all values are plain */
    int32_t *kernels;  /* by node, from select: index in dev->kernels, or DEVICE_KERNEL_* */
    int32_t *forms;    /* by node, from select: how its kernel carries it out */
    size_t *workspace; /* by node, from select: bytes */
    bool *joined;      /* by node, from fuse: there is no barrier between it and the node before
                          it that runs anything; NULL: there always is */
    struct plan_placement *placement; /* from place */
    pass_share *shares;               /* by node, from team */
} pass_unit;

typedef struct pass_def {
    pass_id id;
    ebb_status (*run)(pass_unit *unit);
} pass_def;

/* Is it done after forward: in backward, again for it, or in the update? */
static inline bool pass_is_late(const ir_node_rec *node) {
    return node->label.phase != IR_FORWARD;
}

/* Is a node that runs anything carried out together with the one before it? */
static inline bool pass_joined(const pass_unit *unit, ir_node node) {
    return unit->joined != NULL && unit->joined[node];
}

/* How many of a value's leading axes are rows of memory. */
static inline int32_t pass_fold(const pass_unit *unit, ir_val v) {
    return unit->lays != NULL ? unit->lays[v].fold : unit->graph.values[v].type.rank - 1;
}

enum { PASS_ERA_FORWARD = -1 };

extern const pass_def ebb__pass_infer, ebb__pass_shard, ebb__pass_grad, ebb__pass_stash,
    ebb__pass_simplify, ebb__pass_split, ebb__pass_cut, ebb__pass_turns, ebb__pass_batch_time,
    ebb__pass_sparse, ebb__pass_slices, ebb__pass_contract, ebb__pass_chunk, ebb__pass_encode,
    ebb__pass_recompute, ebb__pass_heap, ebb__pass_offload, ebb__pass_layout, ebb__pass_alias,
    ebb__pass_select, ebb__pass_fuse, ebb__pass_team;

/* ---- tools shared by passes (order.c) ---- */

/* Topological sort of graph->order by ascending keys[node] (among ready nodes the least key, then
 * the lower node id, comes first). Readers of a variable come before the node that defines its next
 * value. In the order as given, a slice of a variable that has a next value must stand before its
 * readers: only then do they wait for the writer. EBB_INTERNAL if there is no such order. */
ebb_status ebb__pass_sort(ir_graph *graph, const int64_t *keys) EBB_MUST_CHECK;
/* keys[node] = position in the order, times `step` (room for nodes to be put between). There is
 * room for `capacity` nodes: those of the graph and those to be added. */
ebb_status ebb__pass_keys(const ir_graph *graph, alloc_region *region, size_t capacity,
                          int64_t step, int64_t **out) EBB_MUST_CHECK;
/* Gives all nodes from `first` on this key; `keys` has room for `*room` nodes and grows in region.
 */
ebb_status ebb__pass_set_keys(const ir_graph *graph, alloc_region *region, int64_t **keys,
                              size_t *room, ir_node first, int64_t key) EBB_MUST_CHECK;
/* Would the graph still have an order if every node were merged with its leader[node], and `to`
 * also waited for `from` of each extra edge? leader[node] (never NULL) is the node itself,
 * or one of the order that is its own leader. */
typedef struct pass_edge {
    ir_node from, to;
} pass_edge;
ebb_status ebb__pass_acyclic(const ir_graph *graph, const ir_node *leader, const pass_edge *extra,
                             int32_t n_extra, bool *out) EBB_MUST_CHECK;
/* How a node's operands and results take part when its rows are split; false: they cannot be. */
typedef struct pass_roles {
    op_row_role in[OP_MAX_SPLIT], out[IR_MAX_OUT];
} pass_roles;
bool ebb__pass_roles(const ir_graph *graph, const ir_node_rec *node, pass_roles *out);
/* The same for the shard pass, which cuts only where the batch is: any role will do. */
bool ebb__pass_batch_roles(const ir_graph *graph, const ir_node_rec *node, pass_roles *out);
/* How many leading axes are rows in all operands and results of a node, because one of them is not
 * plain (fold.c); -1: as its op has it (ebb__op_rows_axes). */
int32_t ebb__pass_fold(const pass_unit *unit, const ir_node_rec *node);
/* Makes a copy of an operand, which the node then reads instead. */
typedef ebb_status (*pass_copy_fn)(void *user, ir_node node, int32_t operand);
bool ebb__pass_needs_lays(const ir_graph *graph); /* else all values are plain */
/* Finds unit->lays, with room for so many values; asks for copies where no op_lay says how a value
 * lies, or kernels cannot read it so. */
ebb_status ebb__pass_find_lays(pass_unit *unit, size_t room, pass_copy_fn copy,
                               void *user) EBB_MUST_CHECK;
/* dense[v]: v goes to another rank or out of the device's memory, or comes back from there, or such
 * is a slice of it: its rows must follow each other (alias.c). */
void ebb__pass_mark_messages(const ir_graph *graph, bool *dense);
/* The kernel for a node, or DEVICE_KERNEL_* (select.c). */
int32_t ebb__pass_kernel(const pass_unit *unit, const ir_node_rec *node);
/* Which stage may do which layer of a forward graph, whose layers take so many seconds each: at
 * most *n ways, the one with the fastest slowest stage first (stages.c). Layers in `region`. */
ebb_status ebb__stages_cuts(pass_unit *unit, const double *seconds, const pass_ranks *ranks,
                            alloc_region *region, pass_stages *cuts, int32_t *n) EBB_MUST_CHECK;
/* Batch norms become statistics and their use (simplify.c). */
ebb_status ebb__pass_part_norms(pass_unit *unit) EBB_MUST_CHECK;
/* What a batch norm gives is made again in the loops that read it (encode_norm.c). */
ebb_status ebb__encode_norm(pass_unit *unit) EBB_MUST_CHECK;
/* The gradient of a pool is made by halves of its channels (encode_pool.c). */
ebb_status ebb__encode_pool(pass_unit *unit) EBB_MUST_CHECK;
/* What is rounded waits in the bits of its format (encode_narrow.c), but, if asked, for what may
 * wait in a heap. */
ebb_status ebb__encode_narrow(pass_unit *unit, bool before_heap) EBB_MUST_CHECK;
/* share[v]: the most elements of v that may be above 0, where it could wait without the others for
 * having none below 0 and many zeros (heap.c); else 0. */
void ebb__heap_shares(const pass_unit *unit, double *share);
/* Forward and backward from span to span (pass_knobs.span) where nothing is repeated (recompute.c).
 */
ebb_status ebb__recompute_sort(pass_unit *unit, const pass_knobs *how) EBB_MUST_CHECK;
/* Moves what is computed again down to its first reader (delay.c). */
ebb_status ebb__pass_delay(ir_graph *graph) EBB_MUST_CHECK;
/* now[v] = v for every value of the graph: nothing is replaced yet. */
ebb_status ebb__pass_same(const ir_graph *graph, alloc_region *region, ir_val **now) EBB_MUST_CHECK;
/* Every reader of value v < n_values reads now[v] instead, which is v for what stays: operands,
 * next values, the loss, which is below n_values. Outputs are the caller's to move. */
void ebb__pass_rewire(ir_graph *graph, const ir_val *now, int32_t n_values);
/* Drops nodes whose results nobody needs from the order, which must be valid. */
ebb_status ebb__pass_drop_dead(ir_graph *graph) EBB_MUST_CHECK;

#endif
