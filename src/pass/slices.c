/* slices.c - a weight gradient that only its norm and its update read is never stored as a whole:
 * the update makes it a few rows at a time and uses them up.
 *
 *     g = matmul - dy x {trans_a}            w', m', s = product_momentum w m dy x hyper
 *     s = sum_squares g                 =>
 *     w', m' = sgd_momentum w g m - hyper
 *
 * With clipping an update waits for all gradients, so that they must all be there: those stay, as
 * do sums that are carried on from chunk to chunk, and small ones. */
#include "pass/pass.h"

#include "op/pack.h"
#include "op/squares.h"

enum { LEAST_BYTES = 1 << 20 };

/* Updates, what does the same with a product as gradient, and how many states they have. */
static const struct {
    op_code update, with_product;
    int32_t n_state;
} pairs[] = {{OP_SGD, OP_PRODUCT_SGD, 0},
             {OP_SGD_MOMENTUM, OP_PRODUCT_MOMENTUM, 1},
             {OP_ADAM, OP_PRODUCT_ADAM, 2}};
enum { N_PAIRS = sizeof pairs / sizeof *pairs, MOST_STATES = 2 };

typedef struct slicer {
    const pass_unit *unit;
    ir_graph *graph;
    int32_t *reads;   /* by value: how often it is an operand */
    ir_node *squares; /* by value: the node that sums its squares, or IR_NONE */
    ir_val *now;      /* by value: what replaces it; itself if nothing does */
    int64_t *keys;
} slicer;

static int32_t find_pair(const ir_node_rec *node) {
    int32_t i = 0;
    while (i < N_PAIRS && pairs[i].update != node->op) {
        i++;
    }
    return i < N_PAIRS ? i : -1;
}

/* A product of all rows at once whose parts of a few rows are worth it. */
static bool is_product(const slicer *s, ir_val v) {
    const ir_graph *g = s->graph;
    ir_node def = g->values[v].def;
    if (def == IR_NONE || g->nodes[def].op != OP_MATMUL || g->values[v].output) {
        return false;
    }
    const ir_node_rec *node = &g->nodes[def];
    const ir_type *type = &g->values[v].type;
    const int32_t *attr = node->attr.i;
    return ir_in(g, node, 0) == IR_NONE && attr[MATMUL_TRANS_A] != 0 && attr[MATMUL_TRANS_B] == 0 &&
           attr[MATMUL_GROUPS] <= 1 && attr[MATMUL_PACKED] == 0 && type->rank == 2 &&
           op_in_type(g, node, 1)->rank == 2 && op_in_type(g, node, 2)->rank == 2 &&
           ebb__ir_type_bytes(type) >= LEAST_BYTES && type->dim[1] % s->unit->dev->row_grain == 0 &&
           4 * squares_rows(type->dim[1]) <= type->dim[0];
}

static void count_readers(slicer *s) {
    const ir_graph *g = s->graph;
    for (int32_t i = 0; i < g->n_order; i++) {
        ir_node n = g->order[i];
        const ir_node_rec *node = &g->nodes[n];
        for (int32_t k = 0; k < node->n_in; k++) {
            if (ir_in(g, node, k) != IR_NONE) {
                s->reads[ir_in(g, node, k)]++;
            }
        }
        if (node->op == OP_SUM_SQUARES && !g->values[node->out].output) {
            s->squares[ir_in(g, node, 0)] = n;
        }
    }
    for (ir_val v = 0; v < g->n_values; v++) {
        if (g->values[v].next != IR_NONE) {
            s->reads[g->values[v].next]++;
        }
    }
}

/* Whether the node is an update of pair p whose gradient only it and a sum of squares read. */
static bool is_sliced(const slicer *s, const ir_node_rec *node, int32_t p) {
    const ir_graph *g = s->graph;
    if (p < 0 || ir_in(g, node, 2 + pairs[p].n_state) != IR_NONE) {
        return false; /* clipped */
    }
    bool output = false;
    for (int32_t k = 0; k < node->n_out; k++) {
        output = output || g->values[node->out + k].output;
    }
    ir_val v = ir_in(g, node, 1);
    return !output && is_product(s, v) && s->reads[v] == 2 && s->squares[v] != IR_NONE;
}

/* The update `n` of pair `p` and the product, and the sums of its squares, as one node. */
static ebb_status slice(slicer *s, ir_node n, int32_t p) {
    ir_graph *g = s->graph;
    const ir_node_rec update = g->nodes[n];
    const int32_t n_state = pairs[p].n_state;
    ir_val gradient = ir_in(g, &update, 1), in[MOST_STATES + 4], out[IR_MAX_OUT];
    const ir_node_rec product = g->nodes[g->values[gradient].def];
    in[0] = ir_in(g, &update, 0);
    for (int32_t i = 0; i < n_state; i++) {
        in[1 + i] = ir_in(g, &update, 2 + i);
    }
    in[1 + n_state] = ir_in(g, &product, 1);
    in[2 + n_state] = ir_in(g, &product, 2);
    in[3 + n_state] = ir_in(g, &update, 3 + n_state);
    g->label = update.label;
    s->keys[g->n_nodes] = s->keys[g->values[gradient].def];
    TRY(ebb__op_emit(g, pairs[p].with_product, in, n_state + 4, &update.attr, out));
    for (int32_t i = 0; i <= n_state; i++) {
        s->now[update.out + i] = out[i];
    }
    s->now[g->nodes[s->squares[gradient]].out] = out[n_state + 1];
    return EBB_OK;
}

static ebb_status run(pass_unit *unit) {
    ir_graph *g = &unit->graph;
    slicer s = {.unit = unit, .graph = g};
    int32_t n_order = g->n_order, n_values = g->n_values;
    size_t values = (size_t)n_values + 1;
    if (!unit->config->training || !unit->config->knobs.slices) {
        return EBB_OK;
    }
    TRY(REGION_ARRAYS(&unit->scratch, ARRAY(s.reads, values), ARRAY_NONE(s.squares, values)));
    TRY(ebb__pass_same(g, &unit->scratch, &s.now));
    TRY(ebb__pass_keys(g, &unit->scratch, (size_t)g->n_nodes + (size_t)n_order, 1, &s.keys));
    count_readers(&s);
    for (int32_t i = 0; i < n_order; i++) {
        const ir_node_rec *node = &g->nodes[g->order[i]];
        int32_t p = find_pair(node);
        if (is_sliced(&s, node, p)) {
            TRY(slice(&s, g->order[i], p));
        }
    }
    ebb__pass_rewire(g, s.now, n_values);
    TRY(ebb__pass_sort(g, s.keys));
    return ebb__pass_drop_dead(g);
}

const pass_def ebb__pass_slices = {.id = PASS_SLICES, .run = run};
