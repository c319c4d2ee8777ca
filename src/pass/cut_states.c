/* cut_states.c - of what is carried from step to step a rank has the rows of its shards. */
#include "pass/ranks.h"

/* What a state becomes: the parts of all shards one after the other; NULL: it is not made so. */
static const ir_node_rec *parts_of_next(const rank_cutter *c, ir_val state) {
    const ir_graph *g = c->g;
    const ir_node_rec *node = &g->nodes[g->values[g->values[state].next].def];
    int32_t axis;
    if (!ebb__op_is_join(node, &axis) && node->n_in == 1 && rank_home(c, node->out) < 0) {
        ir_node def = g->values[ir_in(g, node, 0)].def; /* a copy of them */
        node = def == IR_NONE ? node : &g->nodes[def];
    }
    return ebb__op_is_join(node, &axis) && axis == 0 && node->n_in == c->shards ? node : NULL;
}

/* Every reader takes rows of its own rank. */
static bool is_read_by_shards(const rank_cutter *c, ir_val state, int32_t rows) {
    const ir_graph *g = c->g;
    bool apart = true;
    for (int32_t i = 0; apart && i < g->n_order; i++) {
        const ir_node_rec *node = &g->nodes[g->order[i]];
        for (int32_t k = 0; apart && k < node->n_in; k++) {
            op_range range;
            apart = ir_in(g, node, k) != state ||
                    (ebb__op_is_slice(node, &range) && range.axis == 0 && node->label.shard >= 0 &&
                     range.begin == node->label.shard * rows && range.len == rows);
        }
    }
    return apart;
}

/* What the rank's rows of the state become. All ranks make the nodes of all: they go by one order,
 * and so by one numbering. */
static ebb_status join_parts(rank_cutter *c, const ir_node_rec *parts, int32_t group, ir_val *out) {
    ir_graph *g = c->g;
    int32_t first = rank_first_shard(c, group), end = rank_first_shard(c, group + 1);
    ir_val own, *list = NULL;
    ir_node made = g->n_nodes;
    TRY(ebb__region_alloc(c->region, (size_t)(end - first), sizeof *list, &list));
    for (int32_t k = first; k < end; k++) {
        list[k - first] = ir_in(g, parts, k);
    }
    g->label = parts->label;
    TRY(ebb__op_join(g, 0, list, end - first, &own));
    TRY(ebb__op_copy(g, own, out)); /* backward still reads the state that it overwrites */
    return ebb__cut_settle(c, made, rank_home(c, list[0]));
}

/* A rank has the rows of its shards of what is carried from step to step. */
static ebb_status narrow_state(rank_cutter *c, ir_val state) {
    ir_graph *g = c->g;
    ir_value *value = &g->values[state];
    const ir_node_rec *found = value->next == IR_NONE ? NULL : parts_of_next(c, state);
    int32_t rows = value->type.dim[0] / c->shards;
    int32_t first = rank_first_shard(c, rank_group(c));
    int32_t end = rank_first_shard(c, rank_group(c) + 1);
    if (found == NULL || c->shards == 1 || value->type.dim[0] % c->shards != 0 ||
        !is_read_by_shards(c, state, rows)) {
        return EBB_OK;
    }
    const ir_node_rec parts = *found;
    value->first_row = first * rows;
    value->all_rows = value->type.dim[0];
    value->type.dim[0] = (end - first) * rows;
    for (int32_t i = 0; i < g->n_order; i++) {
        ir_node_rec *node = &g->nodes[g->order[i]];
        bool own = node->label.shard >= first && node->label.shard < end;
        if (node->n_in > 0 && ir_in(g, node, 0) == state && own) {
            ebb__op_shift_slice(node, -first * rows);
        }
    }
    for (int32_t group = 0; group < rank_groups(c); group++) {
        ir_val next;
        TRY(join_parts(c, &parts, group, &next));
        if (group == rank_group(c)) {
            g->values[state].next = next;
        }
    }
    return EBB_OK;
}

ebb_status ebb__cut_states(rank_cutter *c) {
    for (ir_val v = 0, n = c->g->n_values; v < n; v++) {
        TRY(c->g->values[v].role == IR_STATE ? narrow_state(c, v) : EBB_OK);
    }
    return EBB_OK;
}
