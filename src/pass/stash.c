/* stash.c - with --stash, what forward leaves for backward is rounded to a format of few bits.
 *
 * This changes results, so it is no matter of the plan: it is done once, right behind grad, to the
 * graph that every plan starts from (docs/decisions/0030). Forward goes on with exact values. A
 * backward node that reads the values of a forward result, not only signs or which pixel of a
 * window won, reads instead what the column `stash` of the op that made it says:
 *
 *   round   the result rounded, by a node of forward right behind it: of products, and sums of maps
 *   again   the result once more, made of what backward reads of its operands, right before the
 *           reader: batch norm with the statistics that forward took, dropout, views and the like
 *   either  of ops that rounding may come before or behind: round, where all it is made of is
 *   exact   itself: statistics
 *
 * Exact are also weights, whatever is made of nothing else, and what the loss reads. What is again
 * made of variables alone (images from pixels, embedding) has the same bits as before and need not
 * wait at all. Every layer that reads makes its own, so that nothing made again waits for another;
 * of maps, the layers of one place share it (the branches of an inception module).
 *
 * How rounded values wait is the business of encode and recompute.
 */
#include "op/map.h"
#include "pass/pass.h"

enum {
    KEY_STEP = 4,
    MOST_AGAIN = 32 /* ops in a row that are made again: behind so many the result is rounded */
};

/* What backward reads of a value. */
typedef enum stash_form { FORM_SAME, FORM_ROUNDED, FORM_AGAIN } stash_form;

typedef struct stasher {
    pass_unit *unit;
    ir_graph *g;
    int32_t n_values; /* before the pass */
    int64_t *keys;    /* by node, for the sort in the end */
    size_t cap_keys;
    uint8_t *form;   /* by value: stash_form */
    uint8_t *depth;  /* by value, of what is made again: ops in a row, 1 or more */
    bool *weights;   /* by value: parameters, and made of nothing else */
    bool *given;     /* by value: a variable, or a view of variables alone */
    bool *lossy;     /* by value: rounding it is what rounding its operands comes to */
    bool *exact;     /* by value: the loss reads it */
    ir_val *rounded; /* by value */
    ir_val *again;   /* by value: the newest, ... */
    int32_t *maker;  /* ... made for readers of this layer and shard */
} stasher;

static bool is_view(const ir_node_rec *node) {
    return (ebb__op(node->op)->flags & OPF_ALIAS) != 0;
}

/* ---- what becomes of every value ---- */

typedef struct operands {
    bool weights, given; /* all of them are */
    bool lossy;          /* all numbers among them are */
    bool changed;        /* backward reads one of them otherwise */
    int32_t depth;
} operands;

static operands look_at_operands(const stasher *s, const ir_node_rec *node) {
    operands all = {.weights = node->n_in > 0, .given = node->n_in > 0, .lossy = node->n_in > 0};
    for (int32_t k = 0; k < node->n_in; k++) {
        ir_val v = ir_in(s->g, node, k);
        if (v != IR_NONE) {
            all.weights = all.weights && s->weights[v];
            all.given = all.given && s->given[v];
            all.lossy = all.lossy && s->lossy[v];
            all.changed = all.changed || s->form[v] != FORM_SAME;
            all.depth = s->depth[v] > all.depth ? s->depth[v] : all.depth;
        }
    }
    return all;
}

static stash_form form_of(const stasher *s, const ir_node_rec *node, int32_t out,
                          const operands *in) {
    ir_val v = node->out + out;
    op_stash how = is_view(node) ? STASH_AGAIN : ebb__op(node->op)->stash[out];
    if (s->g->values[v].type.dtype != IR_F32 || in->weights || s->exact[v] || how == STASH_EXACT ||
        node->n_in == 0) {
        return FORM_SAME;
    }
    if (how == STASH_ROUND || (how == STASH_EITHER && in->lossy)) {
        return FORM_ROUNDED;
    }
    if (!in->changed && (is_view(node) || !in->given)) {
        return FORM_SAME;
    }
    return in->depth < MOST_AGAIN ? FORM_AGAIN : FORM_ROUNDED;
}

static void find_forms(stasher *s) {
    const ir_graph *g = s->g;
    for (ir_val v = 0; v < g->n_values; v++) {
        s->weights[v] = g->values[v].role == IR_PARAM;
        s->given[v] = g->values[v].def == IR_NONE;
    }
    for (int32_t i = 0; i < g->n_order; i++) {
        const ir_node_rec *node = &g->nodes[g->order[i]];
        bool loss = (ebb__op(node->op)->flags & OPF_LOSS) != 0;
        for (int32_t k = 0; loss && k < node->n_in; k++) {
            s->exact[ir_in(g, node, k)] = true;
        }
    }
    for (int32_t i = 0; i < g->n_order; i++) {
        const ir_node_rec *node = &g->nodes[g->order[i]];
        operands in = look_at_operands(s, node);
        for (int32_t k = 0; k < node->n_out && !pass_is_late(node); k++) {
            ir_val v = node->out + k;
            stash_form form = form_of(s, node, k, &in);
            s->form[v] = (uint8_t)form;
            s->depth[v] = (uint8_t)(form == FORM_AGAIN ? in.depth + 1 : 0);
            s->weights[v] = in.weights;
            s->given[v] = in.given && is_view(node);
            s->lossy[v] = form == FORM_ROUNDED || (form == FORM_AGAIN && is_view(node) && in.lossy);
        }
    }
}

/* ---- what readers take ---- */

static ebb_status set_keys(stasher *s, ir_node first, int64_t key) {
    return ebb__pass_set_keys(s->g, &s->unit->scratch, &s->keys, &s->cap_keys, first, key);
}

static ebb_status round_value(stasher *s, ir_val v) {
    ir_graph *g = s->g;
    ir_node first = g->n_nodes, def = g->values[v].def;
    g->label = g->nodes[def].label;
    TRY(ebb__op_round_to(g, v, s->unit->config->stash, &s->rounded[v]));
    return set_keys(s, first, s->keys[def] + 1);
}

/* Readers of one layer share what is made again; of maps those of one place. */
static int32_t who_shares(const stasher *s, ir_val v, ir_node reader) {
    const ir_label *label = &s->g->nodes[reader].label;
    return op_is_map(&s->g->values[v].type) ? label->at : label->layer;
}

static ebb_status take(stasher *s, ir_val v, ir_node reader, ir_val *out);

/* v once more, right before the reader. No deeper than MOST_AGAIN calls of take. */
static ebb_status make_again(stasher *s, ir_val v, ir_node reader) {
    ir_graph *g = s->g;
    const ir_node_rec node = g->nodes[g->values[v].def];
    const ir_label label = g->nodes[reader].label;
    ir_val *in = NULL, out[IR_MAX_OUT];
    TRY(ebb__region_alloc(&s->unit->scratch, (size_t)node.n_in, sizeof *in, &in));
    for (int32_t k = 0; k < node.n_in; k++) {
        TRY(take(s, ir_in(g, &node, k), reader, &in[k]));
    }
    ir_node first = g->n_nodes;
    g->label = (ir_label){label.layer, node.label.at, node.label.shard, IR_RECOMPUTE};
    TRY(ebb__op_emit(g, (op_code)node.op, in, node.n_in, &node.attr, out));
    s->again[v] = out[v - node.out];
    s->maker[v] = who_shares(s, v, reader);
    return set_keys(s, first, s->keys[reader] - 1);
}

/* What the reader takes for v. */
static ebb_status take(stasher *s, ir_val v, ir_node reader, ir_val *out) {
    *out = v;
    if (v == IR_NONE || v >= s->n_values || s->form[v] == FORM_SAME) {
        return EBB_OK;
    }
    if (s->form[v] == FORM_ROUNDED) {
        if (s->rounded[v] == IR_NONE) {
            TRY(round_value(s, v));
        }
        *out = s->rounded[v];
        return EBB_OK;
    }
    if (s->again[v] == IR_NONE || s->maker[v] != who_shares(s, v, reader)) {
        TRY(make_again(s, v, reader));
    }
    *out = s->again[v];
    return EBB_OK;
}

/* Does the node read the numbers of operand k? */
static bool reads_values(const ir_node_rec *node, int32_t k) {
    const op_def *def = ebb__op(node->op);
    bool coded = def->coded.code != 0 && def->coded.in == k;
    return !coded && (k >= OP_MAX_READS || def->reads[k] == READ_VALUE);
}

static ebb_status rewire_reader(stasher *s, ir_node n) {
    ir_graph *g = s->g;
    for (int32_t k = 0; k < g->nodes[n].n_in; k++) {
        ir_val now = IR_NONE;
        if (reads_values(&g->nodes[n], k)) {
            TRY(take(s, ir_in(g, &g->nodes[n], k), n, &now));
            ir_set_in(g, &g->nodes[n], k, now);
        }
    }
    return EBB_OK;
}

static ebb_status run(pass_unit *unit) {
    ir_graph *g = &unit->graph;
    if (!unit->config->training || unit->config->stash == 0) {
        return EBB_OK;
    }
    TRY(ebb__pass_part_norms(unit)); /* what forward takes of the batch stands for itself */
    stasher s = {.unit = unit, .g = g, .n_values = g->n_values, .cap_keys = (size_t)g->n_nodes};
    size_t nv = (size_t)g->n_values + 1;
    TRY(REGION_ARRAYS(&unit->scratch, ARRAY(s.form, nv), ARRAY(s.depth, nv), ARRAY(s.weights, nv),
                      ARRAY(s.given, nv), ARRAY(s.lossy, nv), ARRAY(s.exact, nv),
                      ARRAY_NONE(s.rounded, nv), ARRAY_NONE(s.again, nv), ARRAY(s.maker, nv)));
    TRY(ebb__pass_keys(g, &unit->scratch, s.cap_keys, KEY_STEP, &s.keys));
    find_forms(&s);
    for (int32_t i = 0, n = g->n_order; i < n; i++) {
        if (g->nodes[g->order[i]].label.phase == IR_BACKWARD) {
            TRY(rewire_reader(&s, g->order[i]));
        }
    }
    TRY(ebb__pass_sort(g, s.keys));
    return ebb__pass_drop_dead(g);
}

const pass_def ebb__pass_stash = {.id = PASS_STASH, .run = run};
