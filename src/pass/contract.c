/* contract.c - the scores of attention, and their gradient, become one node each, so that nothing
 * as large as the stack [S*B,H] is stored between the small ops that they were written as.
 *
 *     p = add_each x q                     s = score_tanh x q v
 *     a = tanh p                     =>
 *     s = dot_rows a v
 *
 *     p = add_each x q                     dx, dq, dv = score_tanh_grad c ds x q v
 *     a = tanh p
 *     o = outer_rows ds v
 *     dv = weighted_sum ds a         =>
 *     g = tanh_grad o a
 *     dx = add c g
 *     dq = sum_each g
 *
 *     o = outer_rows ds v            =>    g = score_slope ds v a
 *     g = tanh_grad o a
 *
 * Without the add, g itself is dx; the last is for a tanh of something else, which was normalised,
 * say. Only where nobody else reads the values in the middle: where a
 * is kept for backward, both chains stay. Where it is computed again, for the scores as well, each
 * chain does that by itself. The new node stands where the first result of the chain stood, and all
 * that it reads must have been there by then: no result can wait for another. */
#include "pass/pass.h"

/* The last node that reads a value in this way; IR_NONE: none does. */
typedef struct readers {
    ir_node dotted;   /* dot_rows */
    ir_node sloped;   /* the tanh of a tanh_grad */
    ir_node weighted; /* the rows of a weighted_sum */
    ir_node summed;   /* sum_each */
    ir_node added;    /* add, to the first operand: the sum so far */
} readers;

typedef struct contractor {
    ir_graph *g;
    int32_t *place; /* by node: position in the order */
    int32_t *reads; /* by value: operands that are this value; next values and outputs count too */
    bool *pinned;   /* by value: the next of a variable, or the loss */
    readers *by;    /* by value */
    ir_val *now;    /* by value: what replaces it; itself if nothing does */
    int64_t *keys;  /* by node */
} contractor;

/* One node in the place of several. */
typedef struct contraction {
    op_code op;
    ir_label label;
    ir_val in[5];
    ir_val out[IR_MAX_OUT]; /* what its results replace */
    int32_t n_in, n_out;
} contraction;

/* The node of this op that makes v. */
static const ir_node_rec *made_by(const contractor *c, ir_val v, op_code op) {
    ir_node def = v == IR_NONE ? (ir_node)IR_NONE : c->g->values[v].def;
    return def != IR_NONE && c->g->nodes[def].op == op ? &c->g->nodes[def] : NULL;
}

/* The same, if v has this many readers and nothing else. */
static const ir_node_rec *inner(const contractor *c, ir_val v, op_code op, int32_t reads) {
    const ir_node_rec *node = made_by(c, v, op);
    return node != NULL && c->reads[v] == reads ? node : NULL;
}

/* The key of the new node; -1 if something that it reads comes only after one of its results. */
static int64_t find_place(const contractor *c, const contraction *to) {
    const ir_graph *g = c->g;
    int32_t first = INT32_MAX, last = -1;
    for (int32_t k = 0; k < to->n_out; k++) {
        int32_t place = c->place[g->values[to->out[k]].def];
        first = place < first ? place : first;
    }
    for (int32_t k = 0; k < to->n_in; k++) {
        ir_node def = to->in[k] == IR_NONE ? (ir_node)IR_NONE : g->values[to->in[k]].def;
        last = def != IR_NONE && c->place[def] > last ? c->place[def] : last;
    }
    return last < first ? first : -1;
}

static bool may_replace(const contractor *c, const contraction *to) {
    bool may = find_place(c, to) >= 0;
    for (int32_t k = 0; k < to->n_out; k++) {
        may = may && !c->pinned[to->out[k]];
    }
    return may;
}

/* The add_each whose tanh is a, if `own` nodes read a, or else those of both chains. */
static const ir_node_rec *find_sum(const contractor *c, ir_val a, int32_t own) {
    const ir_node_rec *tanh = made_by(c, a, OP_TANH);
    if (tanh == NULL) {
        return NULL;
    }
    const readers *by = &c->by[a];
    bool both = tanh->label.phase == IR_RECOMPUTE && by->dotted != IR_NONE &&
                by->sloped != IR_NONE && by->weighted != IR_NONE && c->reads[a] == 3;
    return c->reads[a] == own || both ? inner(c, ir_in(c->g, tanh, 0), OP_ADD_EACH, 1) : NULL;
}

static bool find_score(const contractor *c, const ir_node_rec *dot, contraction *to) {
    const ir_graph *g = c->g;
    const ir_node_rec *sum = find_sum(c, ir_in(g, dot, 0), 1);
    if (sum == NULL || g->values[ir_in(g, sum, 1)].type.dim[0] != dot->attr.i[0]) {
        return false;
    }
    *to = (contraction){.op = OP_SCORE_TANH,
                        .label = dot->label,
                        .in = {ir_in(g, sum, 0), ir_in(g, sum, 1), ir_in(g, dot, 1)},
                        .out = {dot->out},
                        .n_in = 3,
                        .n_out = 1};
    return may_replace(c, to);
}

static bool find_gradient(const contractor *c, const ir_node_rec *slope, contraction *to) {
    const ir_graph *g = c->g;
    ir_val a = ir_in(g, slope, 1), dx = slope->out;
    const ir_node_rec *outer = inner(c, ir_in(g, slope, 0), OP_OUTER_ROWS, 1);
    const ir_node_rec *sum = find_sum(c, a, 2);
    if (outer == NULL || sum == NULL || c->by[a].weighted == IR_NONE ||
        c->by[dx].summed == IR_NONE) {
        return false;
    }
    const ir_node_rec *weighted = &g->nodes[c->by[a].weighted];
    const ir_node_rec *summed = &g->nodes[c->by[dx].summed];
    ir_val ds = ir_in(g, outer, 0), q = ir_in(g, sum, 1);
    int32_t batch = g->values[q].type.dim[0];
    if (ir_in(g, weighted, 0) != ds || g->values[ds].type.dim[1] != batch ||
        summed->attr.i[0] != batch) {
        return false;
    }
    *to = (contraction){.op = OP_SCORE_TANH_GRAD,
                        .label = slope->label,
                        .in = {IR_NONE, ds, ir_in(g, sum, 0), q, ir_in(g, outer, 1)},
                        .out = {dx, summed->out, weighted->out},
                        .n_in = 5,
                        .n_out = 3};
    if (c->by[dx].added != IR_NONE && c->reads[dx] == 2) {
        const ir_node_rec *add = &g->nodes[c->by[dx].added];
        contraction more = *to;
        more.in[0] = ir_in(g, add, 0);
        more.out[0] = add->out;
        if (may_replace(c, &more)) {
            *to = more;
            return true;
        }
    }
    return may_replace(c, to);
}

static bool find_slope(const contractor *c, const ir_node_rec *slope, contraction *to) {
    const ir_graph *g = c->g;
    const ir_node_rec *outer = inner(c, ir_in(g, slope, 0), OP_OUTER_ROWS, 1);
    if (outer == NULL) {
        return false;
    }
    *to = (contraction){.op = OP_SCORE_SLOPE,
                        .label = slope->label,
                        .in = {ir_in(g, outer, 0), ir_in(g, outer, 1), ir_in(g, slope, 1)},
                        .out = {slope->out},
                        .n_in = 3,
                        .n_out = 1};
    return may_replace(c, to);
}

static ebb_status replace(contractor *c, const contraction *to) {
    ir_graph *g = c->g;
    ir_val out[IR_MAX_OUT];
    g->label = to->label;
    c->keys[g->n_nodes] = find_place(c, to);
    TRY(ebb__op_emit(g, to->op, to->in, to->n_in, NULL, out));
    for (int32_t k = 0; k < to->n_out; k++) {
        ir_value *from = &g->values[to->out[k]], *fresh = &g->values[out[k]];
        fresh->output = from->output;
        fresh->name = from->name;
        fresh->param_grad = from->param_grad;
        from->output = false;
        from->name = NULL;
        c->now[to->out[k]] = out[k];
    }
    return EBB_OK;
}

static void note_reader(contractor *c, ir_node n) {
    const ir_graph *g = c->g;
    const ir_node_rec *node = &g->nodes[n];
    for (int32_t k = 0; k < node->n_in; k++) {
        if (ir_in(g, node, k) != IR_NONE) {
            c->reads[ir_in(g, node, k)]++;
        }
    }
    switch (node->op) {
    case OP_DOT_ROWS:
        c->by[ir_in(g, node, 0)].dotted = n;
        break;
    case OP_TANH_GRAD:
        c->by[ir_in(g, node, 1)].sloped = n;
        break;
    case OP_WEIGHTED_SUM:
        c->by[ir_in(g, node, 1)].weighted = n;
        break;
    case OP_SUM_EACH:
        c->by[ir_in(g, node, 0)].summed = n;
        break;
    case OP_ADD:
        c->by[ir_in(g, node, 1)].added = n;
        break;
    default:
        break;
    }
}

static ebb_status new_contractor(pass_unit *unit, contractor *c) {
    ir_graph *g = &unit->graph;
    alloc_region *region = &unit->scratch;
    size_t nv = (size_t)g->n_values + 1, nn = (size_t)g->n_nodes + 1;
    *c = (contractor){.g = g};
    TRY(REGION_ARRAYS(region, ARRAY(c->place, nn), ARRAY(c->reads, nv), ARRAY(c->pinned, nv),
                      ARRAY(c->by, nv), ARRAY(c->now, nv)));
    TRY(ebb__pass_keys(g, region, (size_t)g->n_nodes + (size_t)g->n_order, 1, &c->keys));
    for (ir_val v = 0; v < g->n_values; v++) {
        ir_val next = g->values[v].next;
        c->reads[v] += g->values[v].output || v == g->loss;
        c->pinned[v] = c->pinned[v] || v == g->loss;
        if (next != IR_NONE) {
            c->reads[next]++;
            c->pinned[next] = true;
        }
        c->by[v] = (readers){IR_NONE, IR_NONE, IR_NONE, IR_NONE, IR_NONE};
        c->now[v] = v;
    }
    for (int32_t i = 0; i < g->n_order; i++) {
        c->place[g->order[i]] = i;
        note_reader(c, g->order[i]);
    }
    return EBB_OK;
}

static ebb_status run(pass_unit *unit) {
    ir_graph *g = &unit->graph;
    contractor c;
    int32_t n_order = g->n_order, n_values = g->n_values;
    bool any = false;
    TRY(new_contractor(unit, &c));
    for (int32_t i = 0; i < n_order; i++) {
        const ir_node_rec *node = &g->nodes[g->order[i]];
        contraction to;
        if ((node->op == OP_DOT_ROWS && find_score(&c, node, &to)) ||
            (node->op == OP_TANH_GRAD &&
             (find_gradient(&c, node, &to) || find_slope(&c, node, &to)))) {
            TRY(replace(&c, &to));
            any = true;
        }
    }
    if (!any) {
        return EBB_OK;
    }
    ebb__pass_rewire(g, c.now, n_values);
    TRY(ebb__pass_sort(g, c.keys));
    return ebb__pass_drop_dead(g);
}

const pass_def ebb__pass_contract = {.id = PASS_CONTRACT, .run = run};
