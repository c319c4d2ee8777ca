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
#include "pass/batch_time.h"

#include <string.h>

/* ---- sequences: stacks of which all lists are slices ---- */

/* x is the last of its sequence, y the first of another one. */
static void link_two(batcher *b, ir_val x, ir_val y) {
    ir_val first = b->far[x], last = b->far[y];
    b->succ[x] = y;
    b->pred[y] = x;
    b->far[first] = last;
    b->far[last] = first;
}

/* Takes back the link that was made last of those in its sequence. */
static void unlink_two(batcher *b, ir_val x, ir_val first, ir_val last) {
    ir_val y = b->succ[x];
    b->succ[x] = b->pred[y] = IR_NONE;
    b->far[first] = x;
    b->far[x] = first;
    b->far[last] = y;
    b->far[y] = last;
}

/* Stages hand on chunks of time steps: what is read of one must not wait for the next. */
static bool crosses_chunk(const batcher *b, ir_val x, ir_val y) {
    const ir_graph *g = b->g;
    ir_node from = g->values[x].def, to = g->values[y].def;
    int32_t steps = pass_chunk_steps(&b->unit->config->ranks);
    return steps > 0 && from != IR_NONE && to != IR_NONE &&
           g->nodes[from].label.at / steps != g->nodes[to].label.at / steps;
}

/* Links the list if no value gets two neighbours on one side and no ring is closed; else it keeps a
 * stack of its own. */
static ebb_status link_list(batcher *b, const ir_val *list, int32_t n, ir_node reader) {
    ir_val *made = b->list + n; /* of each link made here: where it is, both ends of the whole */
    int32_t n_made = 0;
    (void)reader;
    for (int32_t i = 0; i + 1 < n; i++) {
        ir_val x = list[i], y = list[i + 1];
        if (b->succ[x] == y) {
            continue;
        }
        if (b->succ[x] != IR_NONE || b->pred[y] != IR_NONE || b->far[y] == x ||
            crosses_chunk(b, x, y)) {
            while (n_made > 0) {
                ir_val *link = &made[3 * --n_made];
                unlink_two(b, link[0], link[1], link[2]);
            }
            return EBB_OK;
        }
        ir_val *link = &made[3 * n_made++];
        link[0] = x;
        link[1] = b->far[x];
        link[2] = b->far[y];
        link_two(b, x, y);
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
    TRY(ebb__region_alloc(&b->scratch, (size_t)n, sizeof *parts, &parts));
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

/* The rows of the list: its values or, where stages hand on chunks of time steps, whole stacks of a
 * chunk, which then lie in the larger one. */
static ebb_status list_parts(batcher *b, const ir_val *list, int32_t n, ir_val *parts,
                             int32_t *n_parts) {
    const bool chunks = pass_chunk_steps(&b->unit->config->ranks) > 0;
    for (int32_t i = 0, end; i < n; i = end) {
        end = i + 1;
        while (chunks && end < n && b->succ[list[end - 1]] == list[end]) {
            end++;
        }
        bool whole =
            end > i + 1 && b->pred[list[i]] == IR_NONE && b->succ[list[end - 1]] == IR_NONE;
        if (whole && b->join[list[i]] == IR_NONE) {
            TRY(make_join(b, list[i]));
        }
        for (int32_t k = i; !whole && k < end; k++) {
            parts[(*n_parts)++] = b->same[list[k]];
        }
        if (whole) {
            parts[(*n_parts)++] = b->join[list[i]];
        }
    }
    return EBB_OK;
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
        int32_t n_parts = 0;
        TRY(list_parts(b, list, n, b->list + n, &n_parts));
        return ebb__op_join(g, 0, b->list + n, n_parts, out);
    }
    if (b->join[list[0]] == IR_NONE) {
        TRY(make_join(b, list[0]));
    }
    return ebb__op_slice(g, b->join[list[0]], 0, b->join_row[list[0]], rows, out);
}

/* Operand k of all members; sets with time descending, as sums are, so that they share stacks. */
static int32_t operand_list(const batcher *b, const batch *group, int32_t k, ir_val *list) {
    const ir_graph *g = b->g;
    bool reverse = g->nodes[group->first].label.at < g->nodes[group->last].label.at;
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
    alloc_region *region = &b->scratch;
    if (!is_linked(b, list, n) || n < 2) {
        return EBB_OK;
    }
    if (b->join[list[0]] == IR_NONE) {
        b->g->label = b->g->nodes[reader].label;
        b->g->label.at = -1;
        TRY(make_join(b, list[0]));
        TRY(ebb__region_grow(region, &b->stacks, &b->cap_stacks, (size_t)b->n_stacks + 1,
                             sizeof *b->stacks));
        b->stacks[b->n_stacks++] = list[0];
    }
    TRY(ebb__region_grow(region, &b->edges, &b->cap_edges, (size_t)b->n_edges + 1,
                         sizeof *b->edges));
    b->edges[b->n_edges++] = (pass_edge){b->g->values[b->join[list[0]]].def, reader};
    return EBB_OK;
}

static void keep_sequence(batcher *b, int32_t index, bool on) {
    b->split[b->join[b->stacks[index]]] = !on;
}

static ebb_status sequences_work(batcher *b, bool *out) {
    int32_t n = 0;
    for (int32_t i = 0; i < b->n_edges; i++) {
        if (!b->split[b->g->nodes[b->edges[i].from].out]) {
            b->kept[n++] = b->edges[i];
        }
    }
    return ebb__batch_has_order(b, b->kept, n, out);
}

static void forget_sequence(batcher *b, ir_val member) {
    ir_val v = member, next;
    while (b->pred[v] != IR_NONE) {
        v = b->pred[v];
    }
    for (; v != IR_NONE; v = next) {
        next = b->succ[v];
        b->succ[v] = b->pred[v] = b->join[v] = IR_NONE;
    }
}

/* A reader of part of a sequence waits for all of it. Where that would close a ring, its lists have
 * stacks of their own, and values that are in two of them are copied. */
static ebb_status make_sequences(batcher *b) {
    alloc_region *region = &b->scratch;
    TRY(visit_lists(b, link_list));
    TRY(visit_lists(b, await_join));
    TRY(ebb__region_alloc(region, (size_t)b->g->n_values + 1, sizeof *b->split, &b->split));
    TRY(ebb__region_alloc(region, (size_t)b->n_edges + 1, sizeof *b->kept, &b->kept));
    batch_choice choice = {.b = b, .n = b->n_stacks, .set = keep_sequence, .works = sequences_work};
    TRY(ebb__batch_choose(&choice));
    for (int32_t i = 0; i < b->n_stacks; i++) {
        if (b->split[b->join[b->stacks[i]]]) {
            forget_sequence(b, b->stacks[i]);
        }
    }
    return EBB_OK;
}

/* ---- merging ---- */

static ebb_status merge(batcher *b, batch *group) {
    ir_graph *g = b->g;
    const ir_node_rec node = g->nodes[group->first];
    ir_val in[OP_MAX_SPLIT], out = IR_NONE;
    pass_roles r;
    if (!ebb__pass_roles(g, &node, &r)) {
        return ebb__fail(g->ctx, EBB_INTERNAL, "batch_time: a batch lost its roles");
    }
    g->label = node.label;
    g->label.at = -1;
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
    bool reverse = node.label.at < g->nodes[group->last].label.at;
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

/* Sets stand where their first member stood, sums where their last did; stacks and slices as soon
 * as what they show is there. */
static ebb_status reorder(batcher *b, ir_node first_new) {
    ir_graph *g = b->g;
    int64_t *keys = NULL;
    TRY(ebb__pass_keys(g, &b->unit->scratch, (size_t)g->n_nodes, 1, &keys));
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
    alloc_region *region = &b->scratch;
    size_t nv = (size_t)g->n_values + 1;
    *b = (batcher){.unit = unit, .g = g, .n_values = g->n_values, .n_order = g->n_order};
    ebb__region_init(&b->scratch, unit->ctx);
    TRY(REGION_ARRAYS(region, ARRAY(b->n_readers, nv), ARRAY(b->same, nv)));
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

/* What sequences need. */
static ebb_status prepare_sequences(batcher *b) {
    alloc_region *region = &b->scratch;
    size_t nv = (size_t)b->n_values + 1, nn = (size_t)b->g->n_nodes + 1;
    TRY(REGION_ARRAYS(region, ARRAY_NONE(b->succ, nv), ARRAY_NONE(b->pred, nv), ARRAY(b->far, nv),
                      ARRAY_NONE(b->join, nv), ARRAY(b->join_row, nv)));
    /* A list and three numbers for each of its links; none is longer than all operands. */
    size_t longest = 4 * ((size_t)b->g->n_operands + nn);
    TRY(ebb__region_alloc(region, longest, sizeof *b->list, &b->list));
    for (ir_val v = 0; v < b->n_values; v++) {
        b->far[v] = v;
    }
    return EBB_OK;
}

static ebb_status merge_all(batcher *b, bool *any) {
    TRY(ebb__batch_find(b));
    *any = false;
    for (int32_t i = 0; i < b->n_batches; i++) {
        *any = *any || !b->batches[i].dissolved;
    }
    if (!*any) {
        return EBB_OK;
    }
    TRY(prepare_sequences(b));
    TRY(make_sequences(b));
    for (int32_t i = 0; i < b->n_batches; i++) {
        if (!b->batches[i].dissolved) {
            TRY(merge(b, &b->batches[i]));
        }
    }
    TRY(restack(b));
    ebb__pass_rewire(b->g, b->same, b->n_values);
    return EBB_OK;
}

static ebb_status run(pass_unit *unit) {
    batcher b;
    bool any = false;
    ir_node first_new = unit->graph.n_nodes;
    ebb_status status = new_batcher(unit, &b);
    if (status == EBB_OK) {
        status = merge_all(&b, &any);
    }
    ebb__region_fini(&b.scratch);
    return status == EBB_OK && any ? reorder(&b, first_new) : status;
}

const pass_def ebb__pass_batch_time = {.id = PASS_BATCH_TIME, .run = run};
