/* heap.c - what has many zeros waits for backward without them (Gist's sparse form).
 *
 * Of a forward value that has no element below 0, and of which backward reads values, the bits of
 * its elements above 0 are kept, and those elements in a heap that it shares with others
 * (op/heap.h). Right before a late reader the value is put together again, unless it can read it
 * where it lies (op_def.heaped), which takes more time and no bytes; who reads nothing but signs
 * takes the bits. Readers get the same bits.
 *
 * How many elements are above 0 is known only when a step runs. So a heap has room for a share of
 * all elements of all its values together (pass_density), and where they do not fit the step is
 * given up: give_up stands behind the last value of the heap and before whatever changes a
 * variable, so that the step can be done once more by a program without heaps (run/session.c).
 * Ranks that share a step do so together, before the first update (agree.c): then give_up only says
 * how it stands.
 *
 * A heap takes up values until the first of them is read. So where a few images go through the
 * whole net before the next, be they a shard or a chunk, their heaps do not exist at once.
 *
 * It grows as it is filled, and shrinks on the way back, which reads the layer that was pushed last
 * first: whatever is pushed with a layer, or before it, keeps to a part of the heap in front, and
 * who reads it is shown no more than that. So bytes that later layers may need are free before they
 * are pushed and after they are read. The part has room for the mean share and SLACK more, since
 * layers differ, and the first ones have none before them that could make up for them.
 *
 * With a stash the values are those that it has rounded, and a heap holds codes of its format: 1
 * bit an element and 8 for those above 0, say, instead of 8 for all. Of what is not taken codes are
 * made here, as encode does of everything else (encode_narrow.c).
 *
 * What is computed again is decided before: only what waits is looked at here.
 */
#include "pass/pass.h"

#include "op/heap.h"

#include <math.h>

enum {
    LEAST_ELEMENTS = OP_HEAP_BLOCK, /* of a value that is worth three instructions */
    MOST_ROOM = 1 << 30,            /* values of a heap: their numbers fit 32 bits */
    NEAR = 16, /* nodes between two readers, up to which they share a decoded value */
    KEY_STEP = 4
};
static const double MOST_SHARE = 0.9; /* beyond it bits and starts take what is saved */
static const double SLACK = 0.1;      /* of the room of layers, beside that of all together */

typedef struct heap {
    int64_t room, front;  /* values; for those that were pushed so far */
    int32_t left;         /* values that are still to be pushed */
    ir_val content, last; /* with all values pushed so far; the starts of the last */
} heap;

/* The last heap that took up a value of the layer, which is told by where its room ends. */
typedef struct front_of_layer {
    int32_t heap; /* IR_NONE: none did */
    int64_t front;
} front_of_layer;

typedef struct heaper {
    pass_unit *unit;
    ir_graph *g;
    int32_t n_values, n_order; /* before the pass */
    ir_node *order;            /* likewise */
    int64_t *keys;             /* by node, for the sort in the end */
    size_t cap_keys;
    double *share;    /* by value: see ebb__heap_shares */
    bool *wanted;     /* by value: a late node reads it in full, by itself or joined to others */
    bool *blocked;    /* by value: it must be there as it is */
    int32_t *heap_of; /* by value; IR_NONE: in none */
    int64_t *front;   /* by value that is in a heap: the room of it and all that came before */
    front_of_layer *layers;
    ir_val *bits, *starts; /* by value that is in a heap; bits also of others that have some */
    ir_val *whole;         /* by value: decoded, for readers up to NEAR behind: */
    int32_t *whole_at;     /* ... this position */
    ir_val *now;           /* by value: what stands for it from now on */
    heap *heaps;
    int32_t n_heaps;
    ir_val *written; /* variables that forward itself changes, behind two of a heap */
    int32_t n_written;
    ir_node vote;   /* where ranks give up together, what this one has to say; else IR_NONE */
    ir_val *states; /* then: of its heaps */
    int32_t n_states;
} heaper;

static bool is_view(const ir_node_rec *node) {
    return (ebb__op(node->op)->flags & OPF_ALIAS) != 0;
}

/* The node that joins v; NULL: v is no join. */
static const ir_node_rec *join_of(const ir_graph *g, ir_val v, int32_t *axis) {
    ir_node def = g->values[v].def;
    return def != IR_NONE && ebb__op_is_join(&g->nodes[def], axis) ? &g->nodes[def] : NULL;
}

/* Whether the node reads nothing of operand k that its bits do not say. */
static bool reads_bits(const ir_node_rec *node, int32_t k) {
    const op_def *def = ebb__op(node->op);
    return def->coded.code != 0 && def->coded.in == k && k < OP_MAX_READS &&
           def->reads[k] == READ_SIGN;
}

/* Whether the node makes a code of nothing but signs. */
static bool makes_bits(const ir_node_rec *node) {
    const op_def *def = ebb__op(node->op);
    return def->form != NULL && node->n_in == 1 && def->reads[0] == READ_SIGN;
}

/* ---- how many zeros there are ---- */

static op_zeros zeros_of(const ir_graph *g, ir_val v) {
    ir_node def = v == IR_NONE ? (ir_node)IR_NONE : g->values[v].def;
    return def == IR_NONE ? ZEROS_UNKNOWN : ebb__op(g->nodes[def].op)->zeros;
}

/* How many sums v is the last of, each but the first of what was cut of the one before. */
static int32_t count_sums(const ir_graph *g, ir_val v) {
    int32_t n = 0;
    while (zeros_of(g, v) == ZEROS_SUM) {
        const ir_node_rec *sum = &g->nodes[g->values[v].def];
        v = IR_NONE;
        for (int32_t k = 0; k < sum->n_in; k++) {
            ir_val x = ir_in(g, sum, k);
            bool cut = zeros_of(g, x) == ZEROS_CUT;
            v = cut ? ir_in(g, &g->nodes[g->values[x].def], 0) : v;
        }
        n++;
    }
    return n;
}

/* What residual blocks hand on has more elements above 0 from block to block. Measured on ResNets
 * of 20 and 110 layers, CIFAR-10 (bench/peers/density_cnn.py): 0.61 behind the first sum where
 * other relus give 0.5, 0.73 behind the third, 0.80 behind the sixth, 0.87 behind the 18th. */
static double share_of_sums(double cut, int32_t sums) {
    return 1 - 0.78 * (1 - cut) * pow(sums, -0.38);
}

static double share_of_cut(const pass_unit *unit, const ir_node_rec *node) {
    const pass_density *d = &unit->config->density;
    ir_val x = ir_in(&unit->graph, node, 0);
    switch (zeros_of(&unit->graph, x)) {
    case ZEROS_SUM:
        return d->sum > 0 ? d->sum : share_of_sums(d->cut, count_sums(&unit->graph, x));
    case ZEROS_FEWER:
        return (1 + d->cut) / 2;
    default:
        return d->cut;
    }
}

/* Of the first result, by what is known of the operands. */
static double share_of(const pass_unit *unit, const ir_node_rec *node, const double *share) {
    double most = 0;
    op_zeros zeros = ebb__op(node->op)->zeros;
    if (zeros == ZEROS_CUT) {
        return share_of_cut(unit, node);
    }
    if (zeros != ZEROS_KEPT && zeros != ZEROS_FEWER && !is_view(node)) {
        return 0;
    }
    for (int32_t k = 0; k < node->n_in; k++) {
        ir_val x = ir_in(&unit->graph, node, k);
        if (x == IR_NONE || share[x] == 0) {
            return 0;
        }
        most = fmax(most, share[x]);
    }
    return zeros == ZEROS_FEWER ? (1 + most) / 2 : most;
}

void ebb__heap_shares(const pass_unit *unit, double *share) {
    const ir_graph *g = &unit->graph;
    const pass_config *config = unit->config;
    bool asked = config->knobs.encode >= 2 && op_heap_dtype(config->stash) != IR_DTYPES;
    for (int32_t i = 0; asked && i < g->n_order; i++) {
        const ir_node_rec *node = &g->nodes[g->order[i]];
        double most = pass_is_late(node) ? 0 : share_of(unit, node, share);
        share[node->out] = most <= MOST_SHARE ? most : 0;
    }
}

/* ---- which values ---- */

static int64_t elements_of(const heaper *h, ir_val v) {
    return (int64_t)(ebb__ir_type_bytes(&h->g->values[v].type) / sizeof(float));
}

static int64_t room_of(const heaper *h, ir_val v) {
    return (int64_t)ceil(h->share[v] * (double)elements_of(h, v));
}

static bool rounds(const heaper *h, ir_val v) {
    return ebb__op_rounds(&h->g->nodes[h->g->values[v].def]) != 0;
}

static bool is_taken(const heaper *h, ir_val v) {
    const ir_value *value = &h->g->values[v];
    return h->share[v] > 0 && h->wanted[v] && !h->blocked[v] && !value->output &&
           !is_view(&h->g->nodes[value->def]) && (h->unit->config->stash == 0 || rounds(h, v)) &&
           elements_of(h, v) >= LEAST_ELEMENTS && room_of(h, v) <= MOST_ROOM;
}

/* Marks v, or all that is joined in it. */
static void mark(const heaper *h, ir_val v, bool *marks) {
    int32_t axis;
    const ir_node_rec *join = join_of(h->g, v, &axis);
    marks[v] = true;
    for (int32_t k = 0; join != NULL && k < join->n_in; k++) {
        mark(h, ir_in(h->g, join, k), marks);
    }
}

/* Is v in heaps, with all that is joined in it? */
static bool all_taken(const heaper *h, ir_val v) {
    int32_t axis;
    const ir_node_rec *join = join_of(h->g, v, &axis);
    bool all = join != NULL || is_taken(h, v);
    for (int32_t k = 0; join != NULL && all && k < join->n_in; k++) {
        all = all_taken(h, ir_in(h->g, join, k));
    }
    return all;
}

/* A late node that reads values, not one that only shows them to others; views that are no joins
 * want them as they are. */
static void find_reads(heaper *h) {
    const ir_graph *g = h->g;
    for (int32_t i = 0; i < h->n_order; i++) {
        const ir_node_rec *node = &g->nodes[h->order[i]];
        int32_t axis;
        if (!pass_is_late(node) || ebb__op_is_join(node, &axis)) {
            continue;
        }
        for (int32_t k = 0; k < node->n_in; k++) {
            ir_val v = ir_in(g, node, k);
            if (v != IR_NONE && is_view(node)) {
                mark(h, v, h->blocked);
            } else if (v != IR_NONE && !reads_bits(node, k)) {
                mark(h, v, h->wanted);
            }
        }
    }
}

/* A join that is read late and of which a part stays as it is stays as it is with all its parts,
 * which may be parts of others. */
static void block_joins(heaper *h) {
    const ir_graph *g = h->g;
    for (bool again = true; again;) {
        again = false;
        for (int32_t i = 0; i < h->n_order; i++) {
            const ir_node_rec *node = &g->nodes[h->order[i]];
            int32_t axis;
            ir_val v = node->out;
            if (ebb__op_is_join(node, &axis) && h->wanted[v] && !h->blocked[v] &&
                !all_taken(h, v)) {
                mark(h, v, h->blocked);
                again = true;
            }
        }
    }
}

/* ---- heaps ---- */

/* Does the node read something of the heap? */
static bool reads_heap(const heaper *h, ir_val v, int32_t number) {
    int32_t axis;
    const ir_node_rec *join = join_of(h->g, v, &axis);
    bool reads = h->heap_of[v] == number;
    for (int32_t k = 0; join != NULL && !reads && k < join->n_in; k++) {
        reads = reads_heap(h, ir_in(h->g, join, k), number);
    }
    return reads;
}

static void give_heap(heaper *h, ir_val v, int32_t *open) {
    int64_t room = room_of(h, v);
    if (*open < 0 || h->heaps[*open].room + room > MOST_ROOM) {
        *open = h->n_heaps++;
        h->heaps[*open] = (heap){.room = OP_HEAP_FIRST, .content = IR_NONE, .last = IR_NONE};
    }
    heap *to = &h->heaps[*open];
    to->room += room;
    to->left++;
    h->heap_of[v] = *open;
    h->front[v] = to->room;
}

/* From the room of every value and those before it to that of its layer, which may come in chunks,
 * and what is slack. Layers may take turns, and a heap does not shrink while it is filled. */
static void set_fronts(heaper *h) {
    const ir_graph *g = h->g;
    for (int32_t i = h->n_order - 1; i >= 0; i--) {
        const ir_node_rec *node = &g->nodes[h->order[i]];
        int32_t number = h->heap_of[node->out];
        front_of_layer *last = &h->layers[node->label.layer];
        if (number < 0) {
            continue;
        }
        if (last->heap != number) {
            *last = (front_of_layer){number, h->front[node->out]};
        }
        h->front[node->out] = last->front;
    }
    for (int32_t i = 0; i < h->n_order; i++) {
        ir_val v = g->nodes[h->order[i]].out;
        if (h->heap_of[v] >= 0) {
            heap *to = &h->heaps[h->heap_of[v]];
            int64_t front = (int64_t)ceil((1 + SLACK) * (double)h->front[v]);
            front = front > to->front ? front : to->front;
            to->front = h->front[v] = front < to->room ? front : to->room;
        }
    }
}

static void give_heaps(heaper *h) {
    const ir_graph *g = h->g;
    int32_t open = IR_NONE, axis;
    for (int32_t i = 0; i < h->n_order; i++) {
        const ir_node_rec *node = &g->nodes[h->order[i]];
        bool reads = pass_is_late(node) && !ebb__op_is_join(node, &axis);
        for (int32_t k = 0; reads && open >= 0 && k < node->n_in; k++) {
            ir_val v = ir_in(g, node, k);
            open = v != IR_NONE && reads_heap(h, v, open) ? IR_NONE : open;
        }
        if (!pass_is_late(node) && is_taken(h, node->out)) {
            give_heap(h, node->out, &open);
        }
    }
}

/* ---- pushing ---- */

static ebb_status set_keys(heaper *h, ir_node first, int64_t key) {
    return ebb__pass_set_keys(h->g, &h->unit->scratch, &h->keys, &h->cap_keys, first, key);
}

/* It reads all that forward writes, so that it comes before that. It is an output only so that it
 * stays. Where ranks give up together, it only says how it stands. */
static ebb_status emit_give_up(heaper *h, const heap *full) {
    ir_attr attr = {.i = {[GIVE_UP_HEAPS] = 1, [GIVE_UP_LATER] = h->vote != IR_NONE}};
    ir_val out;
    h->written[0] = full->last;
    h->written[1] = full->content;
    if (h->vote != IR_NONE) {
        return ebb__op_emit(h->g, OP_GIVE_UP, h->written, 2, &attr, &h->states[h->n_states++]);
    }
    TRY(ebb__op_emit(h->g, OP_GIVE_UP, h->written, 2 + h->n_written, &attr, &out));
    h->g->values[out].output = true;
    return EBB_OK;
}

/* Of a value that is rounded the exact one is pushed: the heap holds codes, which are rounded by
 * that, and bits tell what was above 0 before. It is pushed right where it is made: what rounds it
 * may stand as late as its first reader, behind updates. */
static ebb_status push(heaper *h, ir_val v) {
    ir_graph *g = h->g;
    ir_node first = g->n_nodes, def = g->values[v].def;
    heap *to = &h->heaps[h->heap_of[v]];
    ir_attr attr = {.i = {[HEAP_CAPACITY] = (int32_t)h->front[v]}};
    ir_val x = rounds(h, v) ? ir_in(g, &g->nodes[def], 0) : v;
    int64_t key = h->keys[g->values[x].def] + 1;
    g->label = g->nodes[def].label;
    if (to->content == IR_NONE) {
        TRY(ebb__op_heap(g, op_heap_dtype(h->unit->config->stash), attr.i[HEAP_CAPACITY],
                         &to->content));
    }
    if (h->bits[x] == IR_NONE) {
        TRY(ebb__op_emit(g, OP_SIGN_BITS, &x, 1, NULL, &h->bits[x]));
    } else {
        h->keys[g->values[h->bits[x]].def] = key;
    }
    h->bits[v] = h->bits[x];
    TRY(ebb__op_emit(g, OP_SPARSE_STARTS, (ir_val[]){h->bits[x], to->last}, 2, &attr,
                     &h->starts[v]));
    to->last = h->starts[v];
    TRY(ebb__op_emit(g, OP_SPARSE_PUSH, (ir_val[]){to->content, x, h->bits[x], to->last}, 4, &attr,
                     &to->content));
    if (--to->left == 0) {
        TRY(emit_give_up(h, to));
    }
    return set_keys(h, first, key);
}

/* What the rank has to say: whether one of its heaps was full. */
static ebb_status emit_vote(heaper *h) {
    ir_graph *g = h->g;
    ir_node first = g->n_nodes;
    ir_attr attr = {.i = {[GIVE_UP_STATES] = h->n_states, [GIVE_UP_LATER] = 1}};
    ir_val out;
    g->label = g->nodes[h->vote].label;
    TRY(ebb__op_emit(g, OP_GIVE_UP, h->states, h->n_states, &attr, &out));
    h->now[g->nodes[h->vote].out] = out;
    return set_keys(h, first, h->keys[h->vote]);
}

/* ---- reading ---- */

/* As much of the heap as `front` values need. */
static ebb_status show(heaper *h, const heap *from, int64_t front, ir_val *out) {
    *out = from->content;
    return front == from->room ? EBB_OK
                               : ebb__op_slice(h->g, from->content, 0, 0, (int32_t)front, out);
}

/* v decoded, or a join of what is joined in it. */
static ebb_status pull(heaper *h, ir_val v, int32_t at, ir_val *out) {
    ir_graph *g = h->g;
    int32_t axis;
    const ir_node_rec *join = join_of(g, v, &axis);
    bool near = h->whole[v] != IR_NONE && at - h->whole_at[v] <= NEAR;
    h->whole_at[v] = at;
    *out = h->whole[v];
    if (near) {
        return EBB_OK;
    }
    if (join != NULL) {
        const ir_node_rec node = *join;
        ir_val *parts = NULL;
        TRY(ebb__region_alloc(&h->unit->scratch, (size_t)node.n_in, sizeof *parts, &parts));
        for (int32_t k = 0; k < node.n_in; k++) {
            TRY(pull(h, ir_in(g, &node, k), at, &parts[k]));
        }
        g->label = node.label;
        g->label.phase = IR_RECOMPUTE;
        TRY(ebb__op_join(g, axis, parts, node.n_in, out));
    } else {
        const ir_type type = g->values[v].type;
        g->label = g->nodes[g->values[v].def].label;
        g->label.phase = IR_RECOMPUTE;
        ir_val content;
        TRY(show(h, &h->heaps[h->heap_of[v]], h->front[v], &content));
        TRY(ebb__op_heap_pull(g, content, h->bits[v], h->starts[v], &type, out));
    }
    h->whole[v] = *out;
    return EBB_OK;
}

static void replace(heaper *h, const ir_node_rec *node, const ir_val *out) {
    for (int32_t k = 0; k < node->n_out; k++) {
        h->now[node->out + k] = out[k];
        h->g->values[out[k]].param_grad = h->g->values[node->out + k].param_grad;
    }
}

/* The reader of signs alone takes the bits instead. */
static ebb_status take_bits(heaper *h, ir_node n, ir_val bits) {
    ir_graph *g = h->g;
    const ir_node_rec node = g->nodes[n];
    ir_node first = g->n_nodes;
    ir_val out[IR_MAX_OUT];
    g->label = node.label;
    TRY(ebb__op_emit_coded(g, &node, bits, out));
    replace(h, &node, out);
    return set_keys(h, first, h->keys[n]);
}

/* Lists bits and starts of v, or of all that is joined in it along the second axis, with the room
 * in front of the heap that all need; false: not all of them are in one heap. */
static bool list_parts(const heaper *h, ir_val v, int32_t *number, int64_t *front, ir_val *list,
                       int32_t *n) {
    int32_t axis = 1;
    const ir_node_rec *join = join_of(h->g, v, &axis);
    bool all = axis == 1;
    for (int32_t k = 0; join != NULL && all && k < join->n_in; k++) {
        all = list_parts(h, ir_in(h->g, join, k), number, front, list, n);
    }
    if (join == NULL) {
        all = *n < 2 * OP_HEAP_MOST_PARTS && h->heap_of[v] >= 0 &&
              (*number < 0 || h->heap_of[v] == *number);
        *number = h->heap_of[v];
        *front = h->front[v] > *front ? h->front[v] : *front;
        list[all ? (*n)++ : 0] = h->bits[v];
        list[all ? (*n)++ : 0] = h->starts[v];
    }
    return all;
}

/* Operand k of the reader stays in its heap, if it can; *done: so it is. */
static ebb_status read_there(heaper *h, ir_node n, int32_t k, bool *done) {
    ir_graph *g = h->g;
    const ir_node_rec node = g->nodes[n];
    ir_node first = g->n_nodes;
    ir_val list[2 * OP_HEAP_MOST_PARTS], out[IR_MAX_OUT], content;
    int32_t number = IR_NONE, parts = 0;
    int64_t front = 0;
    *done = h->unit->config->knobs.encode > 2 && ebb__op_is_heaped(g, &node, k) &&
            list_parts(h, ir_in(g, &node, k), &number, &front, list, &parts);
    if (!*done) {
        return EBB_OK;
    }
    g->label = node.label;
    TRY(show(h, &h->heaps[number], front, &content));
    TRY(ebb__op_emit_heaped(g, &node, content, list, parts, out));
    replace(h, &node, out);
    return set_keys(h, first, h->keys[n]);
}

static ebb_status read(heaper *h, int32_t i) {
    ir_graph *g = h->g;
    ir_node n = h->order[i], first = g->n_nodes;
    int32_t n_in = g->nodes[n].n_in, axis;
    ir_val bits = IR_NONE;
    if (!pass_is_late(&g->nodes[n]) || ebb__op_is_join(&g->nodes[n], &axis)) {
        return EBB_OK;
    }
    for (int32_t k = 0; k < n_in; k++) {
        ir_val v = ir_in(g, &g->nodes[n], k), from;
        if (v == IR_NONE || !(h->wanted[v] && all_taken(h, v))) {
            continue;
        }
        if (reads_bits(&g->nodes[n], k) && h->heap_of[v] >= 0) {
            bits = h->bits[v];
            continue;
        }
        bool there = false;
        TRY(read_there(h, n, k, &there));
        if (there) {
            return EBB_OK; /* it is the last operand */
        }
        TRY(pull(h, v, i, &from));
        ir_set_in(g, &g->nodes[n], k, from);
    }
    TRY(set_keys(h, first, h->keys[n] - 1));
    return bits != IR_NONE ? take_bits(h, n, bits) : EBB_OK;
}

/* ---- the whole ---- */

static ebb_status open_heaper(heaper *h) {
    ir_graph *g = h->g;
    alloc_region *region = &h->unit->scratch;
    size_t nv = (size_t)g->n_values + 1, no = (size_t)g->n_order + 1;
    TRY(REGION_ARRAYS(region, ARRAY(h->order, no), ARRAY(h->share, nv), ARRAY(h->wanted, nv),
                      ARRAY(h->blocked, nv), ARRAY_NONE(h->heap_of, nv), ARRAY(h->front, nv),
                      ARRAY_NONE(h->layers, (size_t)g->n_layers + 1), ARRAY_NONE(h->bits, nv),
                      ARRAY_NONE(h->starts, nv), ARRAY_NONE(h->whole, nv), ARRAY(h->whole_at, nv),
                      ARRAY(h->now, nv), ARRAY(h->heaps, nv), ARRAY(h->written, nv + 1),
                      ARRAY(h->states, nv)));
    TRY(ebb__pass_keys(g, region, h->cap_keys, KEY_STEP, &h->keys));
    ebb__heap_shares(h->unit, h->share);
    for (int32_t i = 0; i < h->n_order; i++) {
        h->order[i] = g->order[i];
        h->vote = ebb__op_is_vote(&g->nodes[g->order[i]]) ? g->order[i] : h->vote;
        const ir_node_rec *node = &g->nodes[g->order[i]];
        if (!pass_is_late(node) && makes_bits(node)) {
            h->bits[ir_in(g, node, 0)] = node->out;
        }
    }
    for (ir_val v = 0; v < h->n_values; v++) {
        ir_val next = g->values[v].next;
        h->now[v] = v;
        ir_node def = next == IR_NONE ? (ir_node)IR_NONE : g->values[next].def;
        if (def != IR_NONE && !pass_is_late(&g->nodes[def])) {
            h->written[2 + h->n_written++] = v;
        }
    }
    return EBB_OK;
}

static ebb_status fill_heaps(pass_unit *unit) {
    ir_graph *g = &unit->graph;
    heaper h = {.unit = unit,
                .g = g,
                .n_values = g->n_values,
                .n_order = g->n_order,
                .cap_keys = (size_t)g->n_nodes,
                .vote = IR_NONE};
    TRY(open_heaper(&h));
    find_reads(&h);
    block_joins(&h);
    give_heaps(&h);
    set_fronts(&h);
    for (int32_t i = 0; i < h.n_order; i++) {
        ir_val v = g->nodes[h.order[i]].out;
        TRY(h.heap_of[v] >= 0 ? push(&h, v) : EBB_OK);
    }
    for (int32_t i = 0; h.n_heaps > 0 && i < h.n_order; i++) {
        TRY(read(&h, i));
    }
    if (h.n_heaps == 0) {
        return EBB_OK;
    }
    TRY(h.vote != IR_NONE ? emit_vote(&h) : EBB_OK);
    ebb__pass_rewire(g, h.now, h.n_values);
    TRY(ebb__pass_sort(g, h.keys));
    return ebb__pass_drop_dead(g);
}

static ebb_status run(pass_unit *unit) {
    if (!unit->config->training || unit->config->knobs.encode < 2) {
        return EBB_OK;
    }
    TRY(fill_heaps(unit));
    return unit->config->stash != 0 ? ebb__encode_narrow(unit, false) : EBB_OK;
}

const pass_def ebb__pass_heap = {.id = PASS_HEAP, .run = run};
