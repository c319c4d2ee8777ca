/* batch_time.c - work that time steps share with each other is done once for all of them.
 *
 * Nodes of different time steps that read the same weight and do not depend on each other become
 * one node over stacked rows: the input projections of a layer, the gradients of its inputs. Sums
 * that grow from step to step (weight and bias gradients) become one sum over stacked rows, in the
 * same order, so no bit changes: both are found by the `rows` column, on the unrolled graph
 * (EcoRNN; cuDNN and oneDNN do it inside their layers).
 *
 * Stacks cost nothing where their operands can be placed inside them. A value lies in one stack
 * only, so lists of values that overlap (h_t as outputs, h_{t-1} for the recurrent weight's
 * gradient) are first joined to sequences, of which they are slices.
 */
#include "pass/pass.h"

#include <string.h>

typedef struct batch {
    ir_node first, last; /* members, linked by next_member */
    int32_t n, rows;
    int32_t carry;  /* operand that carries a sum from member to member; -1: an independent set */
    bool dissolved; /* members depend on each other */
    ir_node merged;
} batch;

typedef struct batcher {
    pass_unit *unit;
    ir_graph *g;
    int32_t n_values, n_order; /* before the pass */
    batch *batches;
    int32_t n_batches;
    int32_t *batch_of; /* by node; -1 */
    ir_node *next_member;
    int32_t *n_readers;  /* by value; outputs and next values count */
    int32_t *stamp;      /* by value: the last batch it was found to depend on */
    ir_val *succ, *pred; /* by value: neighbours in its sequence */
    ir_val *join;        /* by value: the stack of its sequence, once made */
    int32_t *join_row;   /* by value: its first row there */
    ir_val *same;        /* by value: what stands for it now */
    ir_val *list;        /* scratch: a list, and behind it room for as much again */
    pass_edge *edges;    /* from stacks to those who wait for them */
    int32_t n_edges;
    size_t cap_edges;
} batcher;

/* ---- which nodes ---- */

static int32_t find_carry(const ir_node_rec *node, const pass_roles *r) {
    int32_t found = -1;
    for (int32_t k = 0; k < node->n_in; k++) {
        if (r->in[k] == ROWS_CARRY) {
            found = k;
        }
    }
    return found;
}

static int32_t rows_of(const ir_graph *g, const ir_node_rec *node, const pass_roles *r) {
    for (int32_t k = 0; k < node->n_in; k++) {
        if (r->in[k] == ROWS_SPLIT && ir_in(g, node, k) != IR_NONE) {
            return op_in_type(g, node, k)->dim[0];
        }
    }
    return 0;
}

/* A set is worth stacking if its members read something large together. */
static bool shares_matrix(const ir_graph *g, const ir_node_rec *node, const pass_roles *r) {
    bool found = false;
    for (int32_t k = 0; k < node->n_in; k++) {
        const ir_type *type = op_in_type(g, node, k);
        found = found || (r->in[k] == ROWS_WHOLE && type != NULL && type->rank >= 2);
    }
    return found;
}

static bool same_attributes(const ir_attr *a, const ir_attr *b) {
    bool same = memcmp(a->i, b->i, sizeof a->i) == 0;
    for (int i = 0; i < IR_MAX_FLOATS; i++) {
        same = same && a->f[i] == b->f[i];
    }
    return same;
}

static bool same_work(const ir_graph *g, const ir_node_rec *a, const ir_node_rec *b,
                      const pass_roles *r) {
    bool same = a->op == b->op && a->n_in == b->n_in && a->label.layer == b->label.layer &&
                a->label.phase == b->label.phase && a->label.time != b->label.time &&
                same_attributes(&a->attr, &b->attr);
    for (int32_t k = 0; same && k < a->n_in; k++) {
        const ir_type *x = op_in_type(g, a, k), *y = op_in_type(g, b, k);
        if (r->in[k] == ROWS_WHOLE) {
            same = ir_in(g, a, k) == ir_in(g, b, k);
        } else if (r->in[k] == ROWS_SPLIT) {
            same = (x == NULL) == (y == NULL) && (x == NULL || ebb__ir_type_equal(x, y));
        }
    }
    return same;
}

static bool has_room(const batcher *b, const batch *group) {
    int32_t most = b->unit->config->batch_rows;
    return most <= 0 || (int64_t)(group->n + 1) * group->rows <= most;
}

/* The batch that the node continues: of sums, the one it takes its start from. */
static int32_t find_batch(const batcher *b, ir_node n, const pass_roles *r, int32_t carry) {
    const ir_graph *g = b->g;
    const ir_node_rec *node = &g->nodes[n];
    if (carry >= 0) {
        ir_val from = ir_in(g, node, carry);
        ir_node def = from == IR_NONE ? (ir_node)IR_NONE : g->values[from].def;
        int32_t i = def == IR_NONE ? -1 : b->batch_of[def];
        bool fits = i >= 0 && b->batches[i].last == def && b->n_readers[from] == 1 &&
                    same_work(g, node, &g->nodes[def], r) && has_room(b, &b->batches[i]);
        return fits ? i : -1;
    }
    for (int32_t i = b->n_batches - 1; i >= 0; i--) {
        const batch *group = &b->batches[i];
        if (group->carry < 0 && same_work(g, node, &g->nodes[group->last], r)) {
            return has_room(b, group) ? i : -1;
        }
    }
    return -1;
}

static void collect(batcher *b, ir_node n) {
    const ir_graph *g = b->g;
    const ir_node_rec *node = &g->nodes[n];
    pass_roles r;
    if (node->label.time < 0 || node->n_out != 1 || g->values[node->out].output ||
        ebb__op(node->op)->row_shift > 0 || !ebb__pass_roles(g, node, &r)) {
        return;
    }
    int32_t carry = find_carry(node, &r), rows = rows_of(g, node, &r);
    bool sum = carry >= 0 && r.out[0] == ROWS_CARRY;
    bool part = carry < 0 && r.out[0] == ROWS_SPLIT && shares_matrix(g, node, &r);
    if (rows == 0 || !(sum || part)) {
        return;
    }
    int32_t i = find_batch(b, n, &r, carry);
    if (i < 0) {
        i = b->n_batches++;
        b->batches[i] = (batch){.first = n, .last = n, .n = 1, .rows = rows, .carry = carry};
    } else {
        b->next_member[b->batches[i].last] = n;
        b->batches[i].last = n;
        b->batches[i].n++;
    }
    b->batch_of[n] = i;
}

/* ---- do members depend on each other? ---- */

static bool reads_stamped(const batcher *b, const ir_node_rec *node, int32_t stamp) {
    bool found = false;
    for (int32_t k = 0; k < node->n_in; k++) {
        ir_val v = ir_in(b->g, node, k);
        found = found || (v != IR_NONE && b->stamp[v] == stamp);
    }
    return found;
}

/* Follows what depends on a member down the order, as far as the last member. */
static bool is_independent(batcher *b, const int32_t *position, int32_t index) {
    const ir_graph *g = b->g;
    const batch *group = &b->batches[index];
    for (int32_t i = position[group->first]; i <= position[group->last]; i++) {
        ir_node n = g->order[i];
        const ir_node_rec *node = &g->nodes[n];
        bool member = b->batch_of[n] == index;
        if (reads_stamped(b, node, index)) {
            if (member) {
                return false;
            }
        } else if (!member) {
            continue;
        }
        for (int32_t k = 0; k < node->n_out; k++) {
            b->stamp[node->out + k] = index;
        }
    }
    return true;
}

static ebb_status can_merge_all(const batcher *b, const pass_edge *extra, int32_t n_extra,
                                bool *out) {
    const ir_graph *g = b->g;
    ir_node *leader = NULL;
    TRY(ebb__region_alloc(&b->unit->region, (size_t)g->n_nodes + 1, sizeof *leader, &leader));
    for (int32_t i = 0; i < g->n_order; i++) {
        ir_node n = g->order[i];
        const batch *group =
            i >= b->n_order || b->batch_of[n] < 0 ? NULL : &b->batches[b->batch_of[n]];
        leader[n] = group == NULL || group->dissolved ? n : group->first;
    }
    return ebb__pass_acyclic(g, leader, extra, n_extra, out);
}

/* Leaves only batches that can be merged, all of them together. */
static ebb_status dissolve_dependent(batcher *b) {
    ir_graph *g = b->g;
    int32_t *position = NULL;
    bool all = true;
    TRY(ebb__region_alloc(&b->unit->region, (size_t)g->n_nodes + 1, sizeof *position, &position));
    for (int32_t i = 0; i < g->n_order; i++) {
        position[g->order[i]] = i;
    }
    for (int32_t i = 0; i < b->n_batches; i++) {
        batch *group = &b->batches[i];
        group->dissolved = group->n < 2 || (group->carry < 0 && !is_independent(b, position, i));
    }
    TRY(can_merge_all(b, NULL, 0, &all));
    for (int32_t i = 0; i < b->n_batches && !all; i++) {
        b->batches[i].dissolved = true; /* each could be merged alone, but not all */
    }
    return EBB_OK;
}

/* ---- sequences: stacks of which all lists are slices ---- */

static bool reaches(const batcher *b, ir_val from, ir_val to) {
    while (from != IR_NONE && from != to) {
        from = b->succ[from];
    }
    return from == to;
}

/* Links the list if no value gets two neighbours on one side and no ring is closed; else it keeps a
 * stack of its own. */
static ebb_status link_list(batcher *b, const ir_val *list, int32_t n, ir_node reader) {
    ir_val *fresh = b->list + n; /* firsts of the links made here */
    int32_t n_fresh = 0;
    (void)reader;
    for (int32_t i = 0; i + 1 < n; i++) {
        ir_val x = list[i], y = list[i + 1];
        if (b->succ[x] == y) {
            continue;
        }
        if (b->succ[x] != IR_NONE || b->pred[y] != IR_NONE || reaches(b, y, x)) {
            while (n_fresh > 0) {
                ir_val undo = fresh[--n_fresh];
                b->pred[b->succ[undo]] = IR_NONE;
                b->succ[undo] = IR_NONE;
            }
            return EBB_OK;
        }
        b->succ[x] = y;
        b->pred[y] = x;
        fresh[n_fresh++] = x;
    }
    return EBB_OK;
}

static ebb_status make_join(batcher *b, ir_val member) {
    int32_t n = 0, row = 0;
    ir_val head = member, join = IR_NONE;
    while (b->pred[head] != IR_NONE) {
        head = b->pred[head];
    }
    ir_val *parts = NULL;
    for (ir_val v = head; v != IR_NONE; v = b->succ[v]) {
        n++;
    }
    TRY(ebb__region_alloc(&b->unit->region, (size_t)n, sizeof *parts, &parts));
    n = 0;
    for (ir_val v = head; v != IR_NONE; v = b->succ[v]) {
        parts[n++] = b->same[v];
    }
    TRY(ebb__op_join(b->g, 0, parts, n, &join));
    for (ir_val v = head; v != IR_NONE; v = b->succ[v]) {
        b->join[v] = join;
        b->join_row[v] = row;
        row += b->g->values[v].type.dim[0];
    }
    return EBB_OK;
}

/* Slices of one value, each beginning where the one before ends? */
static bool is_range(const batcher *b, const ir_val *list, int32_t n, ir_val *base,
                     int32_t *begin) {
    const ir_graph *g = b->g;
    int32_t at = 0;
    for (int32_t i = 0; i < n; i++) {
        ir_val v = b->same[list[i]];
        op_range range;
        if (g->values[v].def == IR_NONE || !ebb__op_is_slice(&g->nodes[g->values[v].def], &range) ||
            range.axis != 0) {
            return false;
        }
        ir_val from = ir_in(g, &g->nodes[g->values[v].def], 0);
        if (i == 0) {
            *base = from;
            *begin = at = range.begin;
        }
        if (from != *base || range.begin != at) {
            return false;
        }
        at += range.len;
    }
    return true;
}

static bool is_linked(const batcher *b, const ir_val *list, int32_t n) {
    bool linked = true;
    for (int32_t i = 0; i + 1 < n; i++) {
        linked = linked && b->succ[list[i]] == list[i + 1];
    }
    return linked;
}

/* One value of all rows of the list. */
static ebb_status stack_list(batcher *b, const ir_val *list, int32_t n, ir_val *out) {
    ir_graph *g = b->g;
    ir_val base = IR_NONE;
    int32_t begin = 0, rows = 0;
    for (int32_t i = 0; i < n; i++) {
        rows += g->values[list[i]].type.dim[0];
    }
    if (is_range(b, list, n, &base, &begin)) {
        return ebb__op_slice(g, base, 0, begin, rows, out);
    }
    if (!is_linked(b, list, n)) {
        ir_val *parts = b->list + n;
        for (int32_t i = 0; i < n; i++) {
            parts[i] = b->same[list[i]];
        }
        return ebb__op_join(g, 0, parts, n, out);
    }
    if (b->join[list[0]] == IR_NONE) {
        TRY(make_join(b, list[0]));
    }
    return ebb__op_slice(g, b->join[list[0]], 0, b->join_row[list[0]], rows, out);
}

/* Operand k of all members; sets with time descending, as sums are, so that they share stacks. */
static int32_t operand_list(const batcher *b, const batch *group, int32_t k, ir_val *list) {
    const ir_graph *g = b->g;
    bool reverse = g->nodes[group->first].label.time < g->nodes[group->last].label.time;
    ir_node n = group->first;
    for (int32_t i = 0; i < group->n; i++) {
        list[reverse && group->carry < 0 ? group->n - 1 - i : i] = ir_in(g, &g->nodes[n], k);
        n = b->next_member[n];
    }
    return group->n;
}

typedef ebb_status (*list_fn)(batcher *b, const ir_val *list, int32_t n, ir_node reader);

/* Calls fn for the operands of the model's own stacks and for the lists that batches need. */
static ebb_status visit_lists(batcher *b, list_fn fn) {
    const ir_graph *g = b->g;
    int32_t axis;
    for (int32_t i = 0; i < b->n_order; i++) {
        const ir_node_rec *node = &g->nodes[g->order[i]];
        if (ebb__op_is_join(node, &axis) && axis == 0) {
            memcpy(b->list, &g->operands[node->in], (size_t)node->n_in * sizeof *b->list);
            TRY(fn(b, b->list, node->n_in, g->order[i]));
        }
    }
    for (int32_t i = 0; i < b->n_batches; i++) {
        const batch *group = &b->batches[i];
        pass_roles r;
        if (group->dissolved || !ebb__pass_roles(g, &g->nodes[group->first], &r)) {
            continue;
        }
        for (int32_t k = 0; k < g->nodes[group->first].n_in; k++) {
            if (r.in[k] == ROWS_SPLIT && ir_in(g, &g->nodes[group->first], k) != IR_NONE) {
                TRY(fn(b, b->list, operand_list(b, group, k, b->list), group->first));
            }
        }
    }
    return EBB_OK;
}

/* Makes the stack of the list's sequence, which whoever reads the list then waits for. */
static ebb_status await_join(batcher *b, const ir_val *list, int32_t n, ir_node reader) {
    if (!is_linked(b, list, n) || n < 2) {
        return EBB_OK;
    }
    if (b->join[list[0]] == IR_NONE) {
        b->g->label = b->g->nodes[reader].label;
        b->g->label.time = -1;
        TRY(make_join(b, list[0]));
    }
    TRY(ebb__region_grow(&b->unit->region, &b->edges, &b->cap_edges, (size_t)b->n_edges + 1,
                         sizeof *b->edges));
    b->edges[b->n_edges++] = (pass_edge){b->g->values[b->join[list[0]]].def, reader};
    return EBB_OK;
}

/* A reader of part of a sequence waits for all of it. Where that would close a ring, lists have
 * stacks of their own, and values that are in two of them are copied. */
static ebb_status make_sequences(batcher *b) {
    size_t nv = (size_t)b->n_values + 1;
    bool all = true;
    TRY(visit_lists(b, link_list));
    TRY(visit_lists(b, await_join));
    TRY(can_merge_all(b, b->edges, b->n_edges, &all));
    if (!all) {
        memset(b->succ, 0xff, nv * sizeof *b->succ);
        memset(b->pred, 0xff, nv * sizeof *b->pred);
        memset(b->join, 0xff, nv * sizeof *b->join);
    }
    return EBB_OK;
}

/* ---- merging ---- */

static ebb_status merge(batcher *b, batch *group) {
    ir_graph *g = b->g;
    const ir_node_rec node = g->nodes[group->first];
    ir_val in[OP_MAX_KEEP], out = IR_NONE;
    pass_roles r;
    if (!ebb__pass_roles(g, &node, &r)) {
        return ebb__fail(g->ctx, EBB_INTERNAL, "batch_time: a batch lost its roles");
    }
    g->label = (ir_label){node.label.layer, -1, node.label.phase};
    for (int32_t k = 0; k < node.n_in; k++) {
        in[k] = ir_in(g, &node, k);
        if (r.in[k] == ROWS_SPLIT && in[k] != IR_NONE) {
            int32_t n = operand_list(b, group, k, b->list);
            TRY(stack_list(b, b->list, n, &in[k]));
        } else if (in[k] != IR_NONE) {
            in[k] = b->same[in[k]];
        }
    }
    TRY(ebb__op_emit(g, (op_code)node.op, in, node.n_in, &node.attr, &out));
    group->merged = g->values[out].def;
    if (group->carry >= 0) {
        ir_val end = g->nodes[group->last].out;
        g->values[out].param_grad = g->values[end].param_grad;
        b->same[end] = out;
        return EBB_OK;
    }
    bool reverse = node.label.time < g->nodes[group->last].label.time;
    int32_t rows = g->values[node.out].type.dim[0], i = 0;
    for (ir_node n = group->first; i < group->n; n = b->next_member[n], i++) {
        g->label = g->nodes[n].label;
        TRY(ebb__op_slice(g, out, 0, rows * (reverse ? group->n - 1 - i : i), rows,
                          &b->same[g->nodes[n].out]));
    }
    return EBB_OK;
}

/* Stacks of the model itself become slices of the sequences they lie in. */
static ebb_status restack(batcher *b) {
    ir_graph *g = b->g;
    int32_t axis;
    for (int32_t i = 0; i < b->n_order; i++) {
        const ir_node_rec node = g->nodes[g->order[i]];
        if (ebb__op_is_join(&node, &axis) && axis == 0 && !g->values[node.out].output) {
            for (int32_t k = 0; k < node.n_in; k++) {
                b->list[k] = ir_in(g, &node, k);
            }
            g->label = node.label;
            TRY(stack_list(b, b->list, node.n_in, &b->same[node.out]));
        }
    }
    return EBB_OK;
}

static void rewire(batcher *b) {
    ir_graph *g = b->g;
    for (int32_t i = 0; i < g->n_order; i++) {
        const ir_node_rec *node = &g->nodes[g->order[i]];
        for (int32_t k = 0; k < node->n_in; k++) {
            ir_val v = ir_in(g, node, k);
            if (v != IR_NONE && v < b->n_values) {
                ir_set_in(g, node, k, b->same[v]);
            }
        }
    }
    for (ir_val v = 0; v < b->n_values; v++) {
        ir_val next = g->values[v].next;
        if (next != IR_NONE && next < b->n_values) {
            g->values[v].next = b->same[next];
        }
    }
    if (g->loss != IR_NONE) {
        g->loss = b->same[g->loss];
    }
}

/* Sets stand where their first member stood, sums where their last did; stacks and slices as soon
 * as what they show is there. */
static ebb_status reorder(batcher *b, ir_node first_new) {
    ir_graph *g = b->g;
    int64_t *keys = NULL;
    TRY(ebb__pass_keys(g, &b->unit->region, (size_t)g->n_nodes, 1, &keys));
    for (ir_node n = first_new; n < g->n_nodes; n++) {
        keys[n] = 0;
    }
    for (int32_t i = 0; i < b->n_batches; i++) {
        const batch *group = &b->batches[i];
        if (!group->dissolved) {
            keys[group->merged] = keys[group->carry >= 0 ? group->last : group->first];
        }
    }
    TRY(ebb__pass_sort(g, keys));
    return ebb__pass_drop_dead(g); /* the members */
}

static ebb_status new_batcher(pass_unit *unit, batcher *b) {
    ir_graph *g = &unit->graph;
    alloc_region *region = &unit->region;
    size_t nv = (size_t)g->n_values + 1, nn = (size_t)g->n_nodes + 1;
    *b = (batcher){.unit = unit, .g = g, .n_values = g->n_values, .n_order = g->n_order};
    TRY(ebb__region_alloc(region, nn, sizeof *b->batches, &b->batches));
    TRY(ebb__region_alloc(region, nn, sizeof *b->batch_of, &b->batch_of));
    TRY(ebb__region_alloc(region, nn, sizeof *b->next_member, &b->next_member));
    TRY(ebb__region_alloc(region, nv, sizeof *b->n_readers, &b->n_readers));
    TRY(ebb__region_alloc(region, nv, sizeof *b->stamp, &b->stamp));
    TRY(ebb__region_alloc(region, nv, sizeof *b->succ, &b->succ));
    TRY(ebb__region_alloc(region, nv, sizeof *b->pred, &b->pred));
    TRY(ebb__region_alloc(region, nv, sizeof *b->join, &b->join));
    TRY(ebb__region_alloc(region, nv, sizeof *b->join_row, &b->join_row));
    TRY(ebb__region_alloc(region, nv, sizeof *b->same, &b->same));
    /* A list and its resolved copy; no list is longer than all operands together. */
    size_t longest = 2 * ((size_t)g->n_operands + nn);
    TRY(ebb__region_alloc(region, longest, sizeof *b->list, &b->list));
    memset(b->batch_of, 0xff, nn * sizeof *b->batch_of);
    memset(b->stamp, 0xff, nv * sizeof *b->stamp);
    memset(b->succ, 0xff, nv * sizeof *b->succ);
    memset(b->pred, 0xff, nv * sizeof *b->pred);
    memset(b->join, 0xff, nv * sizeof *b->join);
    for (ir_val v = 0; v < g->n_values; v++) {
        b->same[v] = v;
        b->n_readers[v] += g->values[v].output;
        if (g->values[v].next != IR_NONE) {
            b->n_readers[g->values[v].next]++;
        }
    }
    for (int32_t i = 0; i < g->n_order; i++) {
        const ir_node_rec *node = &g->nodes[g->order[i]];
        for (int32_t k = 0; k < node->n_in; k++) {
            ir_val v = ir_in(g, node, k);
            b->n_readers[v == IR_NONE ? g->n_values : v]++;
        }
    }
    return EBB_OK;
}

static ebb_status run(pass_unit *unit) {
    batcher b;
    bool any = false;
    ir_node first_new = unit->graph.n_nodes;
    TRY(new_batcher(unit, &b));
    for (int32_t i = 0; i < b.n_order; i++) {
        collect(&b, b.g->order[i]);
    }
    TRY(dissolve_dependent(&b));
    for (int32_t i = 0; i < b.n_batches; i++) {
        any = any || !b.batches[i].dissolved;
    }
    if (!any) {
        return EBB_OK;
    }
    TRY(make_sequences(&b));
    for (int32_t i = 0; i < b.n_batches; i++) {
        if (!b.batches[i].dissolved) {
            TRY(merge(&b, &b.batches[i]));
        }
    }
    TRY(restack(&b));
    rewire(&b);
    return reorder(&b, first_new);
}

const pass_def ebb__pass_batch_time = {.id = PASS_BATCH_TIME, .run = run};
