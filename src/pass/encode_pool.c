/* encode_pool.c - the gradient of a pool is made a half of the channels at a time.
 *
 * It is the largest map of backward: all of what the pool read, mostly zeros, and needed together
 * with the map before it. Its readers are the gradients of one convolution. Those of the weights
 * and of the bias fall into halves by channels of it; that of the map takes one half after the
 * other in the order in which it sums, by blocks of 32 channels, and so goes on from the first to
 * the second. So halves are made, by what pool_index noted, where they are read, once for the
 * weights and once for the map, and no bit changes. This is done of the largest such gradients. */
#include "op/conv.h"
#include "op/pool.h"
#include "pass/pass.h"

enum { HALVES = 2, MOST_READERS = 4 };

typedef struct halver {
    pass_unit *unit;
    ir_graph *g;
    int64_t *keys; /* by node, for the sort in the end */
    size_t room;
    uint64_t least; /* bytes of a gradient that is worth it */
    ir_val *now;    /* by value: what stands for it */
    ir_val *halves; /* by value that was made in halves: both */
    int32_t n_values;
} halver;

/* The readers of the gradient of a pool. */
typedef struct readers {
    ir_node sums[MOST_READERS]; /* gradients of weights and biases, in their order */
    ir_node data;               /* IR_NONE: there is none */
    int32_t n;
    bool whole; /* somebody else reads it */
} readers;

static ebb_status set_keys(halver *h, ir_node first, int64_t key) {
    return ebb__pass_set_keys(h->g, &h->unit->scratch, &h->keys, &h->room, first, key);
}

/* Whether halves of its channels are whole blocks of sums, and have whole bytes of codes. */
static bool has_halves(const ir_graph *g, const ir_node_rec *node) {
    op_map dp = op_map_of(&g->values[ir_in(g, node, 0)].type);
    const int32_t *a = node->attr.i;
    int64_t half = dp.blocks / HALVES, taps = (int64_t)a[POOL_WINDOW_Y] * a[POOL_WINDOW_X];
    int64_t bits = taps <= 4 ? 2 : taps <= 16 ? 4 : 8;
    return dp.groups == 1 && dp.blocks % HALVES == 0 && half * dp.channels % OP_MAP_CHANNELS == 0 &&
           half * op_map_block(&dp) * bits % 8 == 0;
}

static bool is_candidate(const ir_graph *g, const ir_node_rec *node) {
    return node->op == OP_MAX_POOL_GRAD_AT && pass_is_late(node) && !g->values[node->out].output &&
           has_halves(g, node);
}

static void add_reader(const ir_graph *g, ir_node n, int32_t k, readers *out) {
    const ir_node_rec *node = &g->nodes[n];
    bool alone = k == 1 && !g->values[node->out].output;
    bool bias = node->op == OP_CONV_BIAS;
    bool weights = node->op == OP_CONV_WEIGHTS && node->attr.i[CONV_GROUPS] == 1;
    bool data = node->op == OP_CONV_DATA && node->attr.i[CONV_GROUPS] == 1;
    if (alone && (bias || weights) && out->n < MOST_READERS) {
        out->sums[out->n++] = n;
    } else if (alone && data && out->data == IR_NONE) {
        out->data = n;
    } else {
        out->whole = true;
    }
}

static ebb_status find_readers(halver *h, readers **out) {
    const ir_graph *g = h->g;
    TRY(ebb__region_alloc(&h->unit->scratch, (size_t)h->n_values + 1, sizeof **out, out));
    for (ir_val v = 0; v < h->n_values; v++) {
        (*out)[v].data = IR_NONE;
    }
    for (int32_t i = 0; i < g->n_order; i++) {
        const ir_node_rec *node = &g->nodes[g->order[i]];
        if (is_candidate(g, node)) {
            uint64_t bytes = ebb__ir_type_bytes(&g->values[node->out].type);
            h->least = bytes / 2 > h->least ? bytes / 2 : h->least;
        }
        for (int32_t k = 0; k < node->n_in; k++) {
            if (ir_in(g, node, k) != IR_NONE) {
                add_reader(g, g->order[i], k, &(*out)[ir_in(g, node, k)]);
            }
        }
    }
    return EBB_OK;
}

/* Half i of a tensor along an axis. */
static ebb_status half_of(halver *h, ir_val v, int32_t axis, int32_t i, ir_val *out) {
    int32_t len = h->g->values[v].type.dim[axis] / HALVES;
    return ebb__op_slice(h->g, v, axis, i * len, len, out);
}

static ebb_status make_half(halver *h, const ir_node_rec *pool, int32_t i, ir_val *out) {
    ir_val in[2];
    for (int32_t k = 0; k < 2; k++) {
        TRY(half_of(h, ir_in(h->g, pool, k), 1, i, &in[k]));
    }
    return ebb__op_emit(h->g, OP_MAX_POOL_GRAD_AT, in, 2, &pool->attr, out);
}

/* Half i of a sum: goes on from that half of the sum so far. */
static ebb_status add_half(halver *h, const ir_node_rec *reader, ir_val dy, int32_t i) {
    ir_graph *g = h->g;
    ir_val c = ir_in(g, reader, 0), in[3] = {c, dy};
    if (c != IR_NONE && c < h->n_values && h->halves[HALVES * c] != IR_NONE) {
        in[0] = h->halves[HALVES * c + i];
    } else if (c != IR_NONE) {
        TRY(half_of(h, c, 0, i, &in[0]));
    }
    if (reader->n_in > 2) {
        in[2] = ir_in(g, reader, 2);
    }
    return ebb__op_emit(g, (op_code)reader->op, in, reader->n_in, &reader->attr,
                        &h->halves[HALVES * reader->out + i]);
}

static ebb_status halve_sums(halver *h, const ir_node_rec *pool, const readers *r) {
    ir_graph *g = h->g;
    ir_node first = g->n_nodes;
    ir_val dy;
    for (int32_t i = 0; i < HALVES; i++) {
        g->label = pool->label;
        TRY(make_half(h, pool, i, &dy));
        for (int32_t j = 0; j < r->n; j++) {
            const ir_node_rec reader = g->nodes[r->sums[j]];
            g->label = reader.label;
            TRY(add_half(h, &reader, dy, i));
        }
    }
    for (int32_t j = 0; j < r->n; j++) {
        const ir_node_rec reader = g->nodes[r->sums[j]];
        g->label = reader.label;
        TRY(ebb__op_join(g, 0, &h->halves[HALVES * reader.out], HALVES, &h->now[reader.out]));
        g->values[h->now[reader.out]].param_grad = g->values[reader.out].param_grad;
    }
    return set_keys(h, first, r->n > 0 ? h->keys[r->sums[r->n - 1]] : 0);
}

static ebb_status halve_data(halver *h, const ir_node_rec *pool, ir_node n) {
    ir_graph *g = h->g;
    ir_node first = g->n_nodes;
    const ir_node_rec reader = g->nodes[n];
    ir_val sum = ir_in(g, &reader, 0), dy, w;
    for (int32_t i = 0; i < HALVES; i++) {
        g->label = pool->label;
        TRY(make_half(h, pool, i, &dy));
        g->label = reader.label;
        TRY(half_of(h, ir_in(g, &reader, 2), 0, i, &w));
        TRY(ebb__op_emit(g, OP_CONV_DATA, (ir_val[]){sum, dy, w}, 3, &reader.attr, &sum));
    }
    h->now[reader.out] = sum;
    return set_keys(h, first, h->keys[n]);
}

ebb_status ebb__encode_pool(pass_unit *unit) {
    ir_graph *g = &unit->graph;
    halver h = {.unit = unit, .g = g, .room = (size_t)g->n_nodes, .n_values = g->n_values};
    size_t values = (size_t)g->n_values + 1;
    readers *of = NULL;
    int32_t n_order = g->n_order, n_nodes = g->n_nodes;
    TRY(REGION_ARRAYS(&unit->scratch, ARRAY_NONE(h.halves, HALVES * values)));
    TRY(ebb__pass_same(g, &unit->scratch, &h.now));
    TRY(ebb__pass_keys(g, &unit->scratch, h.room, 1, &h.keys));
    TRY(find_readers(&h, &of));
    for (int32_t i = 0; i < n_order; i++) {
        const ir_node_rec pool = g->nodes[g->order[i]];
        const readers *r = &of[pool.out];
        if (is_candidate(g, &pool) && !r->whole &&
            ebb__ir_type_bytes(&g->values[pool.out].type) >= h.least) {
            TRY(halve_sums(&h, &pool, r));
            TRY(r->data != IR_NONE ? halve_data(&h, &pool, r->data) : EBB_OK);
        }
    }
    if (g->n_nodes == n_nodes) {
        return EBB_OK;
    }
    ebb__pass_rewire(g, h.now, h.n_values);
    TRY(ebb__pass_sort(g, h.keys));
    return ebb__pass_drop_dead(g);
}
