/* sparse.c - the gradient of an embedding that only its norm and a plain SGD update read is never
 * stored: both read it by rows, from the ids and the gradients of the chosen rows.
 *
 *     g = embed_grad - ids dx        s = embed_squares ids dx
 *     s = sum_squares g        =>    w' = embed_sgd w ids dx scale hyper
 *     w' = sgd w g scale hyper
 *
 * Any other reader (momentum, Adam, weight decay, another part of the sum as with tied weights)
 * needs all of g, and where there are as many rows as words nothing is gained: those stay. */
#include "pass/pass.h"

typedef struct sparsifier {
    ir_graph *graph;
    int32_t *reads, *fits; /* by value: operands that are this value, those that may read rows */
    ir_val *now;           /* by value: what replaces it; itself if nothing does */
    int64_t *keys;
} sparsifier;

static bool is_whole_gradient(const ir_graph *g, ir_val v) {
    ir_node def = v == IR_NONE ? (ir_node)IR_NONE : g->values[v].def;
    if (def == IR_NONE || g->nodes[def].op != OP_EMBED_GRAD || g->values[v].output) {
        return false;
    }
    const ir_node_rec *node = &g->nodes[def];
    return ir_in(g, node, 0) == IR_NONE && op_in_type(g, node, 2)->dim[0] < node->attr.i[0];
}

/* The operand through which the node could read a gradient by rows; -1: none. */
static int32_t gradient_operand(const ir_node_rec *node) {
    if (node->op == OP_SUM_SQUARES) {
        return 0;
    }
    return node->op == OP_SGD && node->attr.f[0] == 0.0f ? 1 : -1;
}

static void count_readers(sparsifier *s) {
    const ir_graph *g = s->graph;
    for (int32_t i = 0; i < g->n_order; i++) {
        const ir_node_rec *node = &g->nodes[g->order[i]];
        for (int32_t k = 0; k < node->n_in; k++) {
            ir_val v = ir_in(g, node, k);
            if (v != IR_NONE) {
                s->reads[v]++;
                s->fits[v] += k == gradient_operand(node);
            }
        }
    }
    for (ir_val v = 0; v < g->n_values; v++) {
        ir_val next = g->values[v].next;
        if (next != IR_NONE) {
            s->reads[next]++;
        }
    }
}

static ebb_status replace(sparsifier *s, ir_node n) {
    ir_graph *g = s->graph;
    const ir_node_rec node = g->nodes[n];
    ir_val gradient = ir_in(g, &node, gradient_operand(&node)), out = IR_NONE;
    const ir_node_rec from = g->nodes[g->values[gradient].def];
    ir_val ids = ir_in(g, &from, 1), dx = ir_in(g, &from, 2);
    g->label = node.label;
    s->keys[g->n_nodes] = s->keys[n];
    if (node.op == OP_SUM_SQUARES) {
        TRY(ebb__op_emit(g, OP_EMBED_SQUARES, (ir_val[]){ids, dx}, 2, &from.attr, &out));
    } else {
        ir_val in[] = {ir_in(g, &node, 0), ids, dx, ir_in(g, &node, 2), ir_in(g, &node, 3)};
        TRY(ebb__op_emit(g, OP_EMBED_SGD, in, 5, NULL, &out));
    }
    g->values[out].output = g->values[node.out].output;
    g->values[out].name = g->values[node.out].name;
    g->values[node.out].output = false;
    g->values[node.out].name = NULL;
    /* The rows are now what is kept of the parameter's gradient. */
    g->values[dx].param_grad = true;
    s->now[node.out] = out;
    return EBB_OK;
}

static ebb_status run(pass_unit *unit) {
    ir_graph *g = &unit->graph;
    sparsifier s = {.graph = g};
    int32_t n_order = g->n_order, n_values = g->n_values;
    size_t values = (size_t)n_values + 1;
    TRY(REGION_ARRAYS(&unit->scratch, ARRAY(s.reads, values), ARRAY(s.fits, values)));
    TRY(ebb__pass_same(g, &unit->scratch, &s.now));
    /* At most one node for each is added. */
    TRY(ebb__pass_keys(g, &unit->scratch, (size_t)g->n_nodes + (size_t)n_order, 1, &s.keys));
    count_readers(&s);
    for (int32_t i = 0; i < n_order; i++) {
        const ir_node_rec *node = &g->nodes[g->order[i]];
        int32_t k = gradient_operand(node);
        ir_val v = k < 0 ? (ir_val)IR_NONE : ir_in(g, node, k);
        if (is_whole_gradient(g, v) && s.reads[v] == s.fits[v]) {
            TRY(replace(&s, g->order[i]));
        }
    }
    ebb__pass_rewire(g, s.now, n_values);
    TRY(ebb__pass_sort(g, s.keys));
    return ebb__pass_drop_dead(g);
}

const pass_def ebb__pass_sparse = {.id = PASS_SPARSE, .run = run};
