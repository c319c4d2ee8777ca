/* simplify.c - rewrites that keep every bit: views of views, views of everything, stacks of one or
 * of consecutive slices; then nodes that nobody reads are dropped. One sweep in graph order. Batch
 * norm, which is one op for its gradient's sake, becomes statistics and what is done with them, so
 * that the second can be computed again without the first. */
#include "pass/pass.h"

typedef struct simplifier {
    ir_graph *graph;
    ir_val *same; /* by value: an earlier value it equals; itself if none */
} simplifier;

static const ir_node_rec *producer(const ir_graph *g, ir_val v) {
    return v != IR_NONE && g->values[v].def != IR_NONE ? &g->nodes[g->values[v].def] : NULL;
}

static bool is_op(const ir_node_rec *node, op_code op) {
    return node != NULL && node->op == op;
}

/* slice of a whole axis, or slice of a join that is just one of its operands. */
static ir_val slice_equals(const ir_graph *g, const ir_node_rec *node) {
    ir_val x = ir_in(g, node, 0);
    int32_t axis = node->attr.i[0], begin = node->attr.i[1], len = node->attr.i[2];
    if (len == g->values[x].type.dim[axis]) {
        return x;
    }
    const ir_node_rec *from = producer(g, x);
    int32_t joined;
    op_part part = {0};
    if (from == NULL || !ebb__op_is_join(from, &joined) || joined != axis) {
        return IR_NONE;
    }
    while (ebb__op_next_part(g, from, &part) && part.begin <= begin) {
        if (part.begin == begin && part.len == len) {
            return part.piece;
        }
    }
    return IR_NONE;
}

/* stack or concat of one operand, or of slices that tile one value in order. */
static ir_val join_equals(const ir_graph *g, const ir_node_rec *node) {
    if (node->n_in == 1) {
        return ir_in(g, node, 0);
    }
    ir_val base = IR_NONE;
    op_part part = {0};
    while (ebb__op_next_part(g, node, &part)) {
        const ir_node_rec *slice = producer(g, part.piece);
        op_range range;
        if (slice == NULL || !ebb__op_is_slice(slice, &range) || range.axis != part.axis ||
            range.begin != part.begin || (base != IR_NONE && ir_in(g, slice, 0) != base)) {
            return IR_NONE;
        }
        base = ir_in(g, slice, 0);
    }
    return ebb__ir_type_equal(&g->values[base].type, &g->values[node->out].type) ? base
                                                                                 : (ir_val)IR_NONE;
}

/* A slice of a slice along the same axis reads the inner one's operand. */
static void merge_slices(ir_graph *g, ir_node_rec *node) {
    const ir_node_rec *inner = producer(g, ir_in(g, node, 0));
    if (is_op(inner, OP_SLICE) && inner->attr.i[0] == node->attr.i[0]) {
        node->attr.i[1] += inner->attr.i[1];
        ir_set_in(g, node, 0, ir_in(g, inner, 0));
    }
}

static void visit(simplifier *s, ir_node n) {
    ir_graph *g = s->graph;
    ir_node_rec *node = &g->nodes[n];
    for (int32_t k = 0; k < node->n_in; k++) {
        ir_val v = ir_in(g, node, k);
        if (v != IR_NONE) {
            ir_set_in(g, node, k, s->same[v]);
        }
    }
    ir_val equal = IR_NONE;
    if (node->op == OP_SLICE) {
        merge_slices(g, node);
        equal = slice_equals(g, node);
    } else if (node->op == OP_STACK || node->op == OP_CONCAT) {
        equal = join_equals(g, node);
    }
    /* Results that are read by name stay what they are. */
    if (equal != IR_NONE && !g->values[node->out].output) {
        s->same[node->out] = equal;
        g->values[equal].param_grad =
            g->values[equal].param_grad || g->values[node->out].param_grad;
    }
}

/* ---- batch norm ---- */

/* x, gain, bias -> y, stat as two nodes; *y, *stat. */
static ebb_status part_norm(ir_graph *g, ir_node n, ir_val *y, ir_val *stat) {
    const ir_node_rec node = g->nodes[n];
    ir_val x = ir_in(g, &node, 0);
    g->label = node.label;
    TRY(ebb__op_emit(g, OP_BATCH_STAT, &x, 1, &node.attr, stat));
    ir_val in[] = {x, *stat, ir_in(g, &node, 1), ir_in(g, &node, 2)};
    return ebb__op_emit(g, OP_BATCH_APPLY, in, 4, NULL, y);
}

/* Is number i of the order one that carries running averages on, by what the norm found? It then
 * stands before the norm is applied, so that what follows can be done along with that (fuse). */
static bool reads_stat_only(const ir_graph *g, int32_t i, ir_val y) {
    bool stat = false, other = i >= g->n_order;
    const ir_node_rec *node = other ? NULL : &g->nodes[g->order[i]];
    for (int32_t k = 0; !other && k < node->n_in; k++) {
        stat = stat || ir_in(g, node, k) == y + 1;
        other = ir_in(g, node, k) == y;
    }
    return stat && !other;
}

enum { NORM_STEP = 2 }; /* between two keys: there is room for a norm behind the node after it */

ebb_status ebb__pass_part_norms(pass_unit *unit) {
    ir_graph *g = &unit->graph;
    int32_t n_values = g->n_values, n_order = g->n_order, norms = 0;
    int64_t *keys = NULL;
    ir_val *now = NULL;
    for (int32_t i = 0; i < n_order; i++) {
        norms += g->nodes[g->order[i]].op == OP_BATCH_NORM;
    }
    if (norms == 0) {
        return EBB_OK;
    }
    TRY(ebb__pass_keys(g, &unit->scratch, (size_t)(g->n_nodes + 2 * norms), NORM_STEP, &keys));
    TRY(ebb__pass_same(g, &unit->scratch, &now));
    for (int32_t i = 0; i < n_order; i++) {
        ir_node n = g->order[i];
        ir_val y = g->nodes[n].out;
        if (g->nodes[n].op == OP_BATCH_NORM && !g->values[y].output && !g->values[y + 1].output) {
            TRY(part_norm(g, n, &now[y], &now[y + 1]));
            keys[g->n_nodes - 2] = keys[n];
            keys[g->n_nodes - 1] = keys[n] + (reads_stat_only(g, i + 1, y) ? NORM_STEP + 1 : 0);
        }
    }
    ebb__pass_rewire(g, now, n_values);
    TRY(ebb__pass_sort(g, keys));
    return ebb__pass_drop_dead(g);
}

static ebb_status run(pass_unit *unit) {
    ir_graph *g = &unit->graph;
    TRY(ebb__pass_part_norms(unit));
    simplifier s = {.graph = g};
    TRY(ebb__region_alloc(&unit->scratch, (size_t)g->n_values + 1, sizeof *s.same, &s.same));
    for (ir_val v = 0; v < g->n_values; v++) {
        s.same[v] = v;
    }
    for (int32_t i = 0; i < g->n_order; i++) {
        visit(&s, g->order[i]);
    }
    for (ir_val v = 0; v < g->n_values; v++) {
        ir_val next = g->values[v].next;
        /* A next value must be a fresh result, not another variable. */
        if (next != IR_NONE && g->values[s.same[next]].role == IR_TEMP) {
            g->values[v].next = s.same[next];
        }
    }
    if (g->loss != IR_NONE) {
        g->loss = s.same[g->loss];
    }
    return ebb__pass_drop_dead(g);
}

const pass_def ebb__pass_simplify = {.id = PASS_SIMPLIFY, .run = run};
