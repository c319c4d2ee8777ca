/* split.c - see split.h. */
#include "pass/split.h"

#include "op/map.h"

#include <stdlib.h>
#include <string.h>

enum { KEY_STEP = 2 };

static ebb_status index_graph(pass_split *c) {
    const ir_graph *g = c->graph;
    alloc_region *region = &c->unit->scratch;
    size_t nv = (size_t)g->n_values, nn = (size_t)g->n_nodes;
    TRY(REGION_ARRAYS(region, ARRAY(c->member, nn + 1), ARRAY(c->region, nn + 1),
                      ARRAY_NONE(c->position, nn + 1), ARRAY(c->reader_first, nv + 2),
                      ARRAY(c->reader_list, (size_t)g->n_operands + 1), ARRAY(c->after, nv + 1),
                      ARRAY_NONE(c->part, nv + 1), ARRAY(c->marks, nv + 1),
                      ARRAY_NONE(c->carry, nv + 1)));
    TRY(ebb__pass_keys(g, region, nn, KEY_STEP, &c->keys));
    c->cap_keys = nn;
    for (int32_t i = 0; i < g->n_order; i++) {
        const ir_node_rec *node = &g->nodes[g->order[i]];
        c->position[g->order[i]] = i;
        for (int32_t k = 0; k < node->n_in; k++) {
            if (ir_in(g, node, k) != IR_NONE) {
                c->reader_first[ir_in(g, node, k) + 2]++;
            }
        }
    }
    for (size_t v = 2; v < nv + 2; v++) {
        c->reader_first[v] += c->reader_first[v - 1];
    }
    for (int32_t i = 0; i < g->n_order; i++) { /* leaves reader_first shifted into place */
        const ir_node_rec *node = &g->nodes[g->order[i]];
        for (int32_t k = 0; k < node->n_in; k++) {
            ir_val v = ir_in(g, node, k);
            if (v != IR_NONE) {
                c->reader_list[c->reader_first[v + 1]++] = g->order[i];
            }
        }
    }
    c->n_values = g->n_values;
    return EBB_OK;
}

/* ---- rows ---- */

/* As ebb__pass_roles; parts of the channels of maps, and joins of them, split too. */
static bool roles_of(const ir_graph *g, const ir_node_rec *node, pass_roles *r) {
    op_range range = {.axis = 0};
    int32_t axis = 0;
    bool view = ebb__op_is_slice(node, &range) || ebb__op_is_join(node, &axis);
    if (!view || (range.axis == 0 && axis == 0) || !op_is_map(&g->values[node->out].type) ||
        node->n_in > OP_MAX_SPLIT) {
        return ebb__pass_roles(g, node, r);
    }
    for (int32_t k = 0; k < node->n_in; k++) {
        r->in[k] = ROWS_SPLIT;
    }
    r->out[0] = ROWS_SPLIT;
    return true;
}

/* Rows of the split that one step along the value's first axis is: the images of a group, of a map;
 * 0: it does not split into these rows. */
static int32_t rows_a_step(const pass_split *c, ir_val v) {
    const ir_type *type = &c->graph->values[v].type;
    if (op_is_map(type)) {
        op_map m = op_map_of(type);
        return op_map_images(&m) == c->rows ? m.images : 0;
    }
    return type->dim[0] == c->rows && (type->rank <= 2 || type->dtype == IR_U8) ? 1 : 0;
}

bool ebb__split_takes(pass_split *c, ir_node n, pass_roles *r) {
    const ir_graph *g = c->graph;
    const ir_node_rec *node = &g->nodes[n];
    bool takes = c->position[n] >= 0 && roles_of(g, node, r), useful = false;
    for (int32_t k = 0; takes && k < node->n_in; k++) {
        ir_val v = ir_in(g, node, k);
        c->stale = c->stale || v >= c->n_values;
        takes =
            v < c->n_values && (v == IR_NONE || r->in[k] != ROWS_SPLIT || rows_a_step(c, v) > 0);
    }
    for (int32_t k = 0; takes && k < node->n_out; k++) {
        useful = useful || r->out[k] != ROWS_WHOLE;
        takes = r->out[k] != ROWS_SPLIT || rows_a_step(c, node->out + k) > 0;
    }
    return takes && useful;
}

void ebb__split_admit(pass_split *c, ir_node n) {
    c->member[n] = true;
    c->region[c->n_region++] = n;
}

/* A sum over rows that a member makes: complete only after the last chunk. */
static bool is_sum_of_region(const pass_split *c, ir_val v) {
    const ir_graph *g = c->graph;
    ir_node def = g->values[v].def;
    pass_roles r;
    return def != IR_NONE && c->member[def] && roles_of(g, &g->nodes[def], &r) &&
           r.out[v - g->nodes[def].out] == ROWS_CARRY;
}

static int compare_nodes(const void *a, const void *b, void *user) {
    const int32_t *position = user;
    int32_t x = position[*(const ir_node *)a], y = position[*(const ir_node *)b];
    return (x > y) - (x < y);
}

/* Does the node depend on the region through a node outside it, or is it one that does? */
static bool is_tainted(const pass_split *c, ir_node n) {
    const ir_graph *g = c->graph;
    const ir_node_rec *node = &g->nodes[n];
    bool tainted = false;
    for (int32_t k = 0; k < node->n_in && !tainted; k++) {
        ir_val v = ir_in(g, node, k);
        if (v == IR_NONE || v >= c->n_values) {
            continue;
        }
        bool from_region = g->values[v].def != IR_NONE && c->member[g->values[v].def];
        tainted = c->after[v] || (from_region && !c->member[n]) || is_sum_of_region(c, v);
    }
    return tainted;
}

/* No path may leave the region and come back: chunks would wait for each other. Whatever lies on
 * such a path stands between the first and the last node of the region. */
bool ebb__split_is_convex(pass_split *c) {
    const ir_graph *g = c->graph;
    qsort_r(c->region, (size_t)c->n_region, sizeof *c->region, compare_nodes, c->position);
    int32_t first = c->position[c->region[0]], last = c->position[c->region[c->n_region - 1]];
    bool convex = true;
    for (int32_t i = first; i <= last; i++) {
        ir_node n = g->order[i];
        bool tainted = is_tainted(c, n);
        convex = convex && !(c->member[n] && tainted);
        for (int32_t k = 0; k < g->nodes[n].n_out && !c->member[n]; k++) {
            c->after[g->nodes[n].out + k] = tainted;
        }
    }
    for (int32_t i = first; i <= last; i++) {
        const ir_node_rec *node = &g->nodes[g->order[i]];
        memset(&c->after[node->out], 0, node->n_out * sizeof *c->after);
    }
    return convex;
}

/* ---- splitting ---- */

/* Rows of v; of a stack, if they are whole parts of it, a stack of those: it need not wait for the
 * others. `mark` is where the rows of the chunk before ended. */
static ebb_status rows_of(pass_split *c, ir_val v, const split_range *rows, split_mark *mark,
                          ir_val *out) {
    ir_graph *g = c->graph;
    ir_node def = g->values[v].def;
    int32_t axis, at = mark->row, first = -1, n = 0, step = rows_a_step(c, v);
    bool apart = rows->time >= 0 || rows->time <= SPLIT_BY_PHASE;
    if (apart && def != IR_NONE && ebb__op_is_join(&g->nodes[def], &axis) && axis == 0) {
        const ir_node_rec node = g->nodes[def];
        int32_t taken = 0;
        for (int32_t k = mark->part; k < node.n_in && at < rows->begin + rows->len; k++) {
            *mark = (split_mark){k, at}; /* the next rows may begin within the last part */
            int32_t extent = op_in_type(g, &node, k)->dim[0] * step;
            if (at >= rows->begin) {
                first = first < 0 ? k : first;
                taken += extent;
                n++;
            }
            at += extent;
        }
        if (taken == rows->len && at == rows->begin + rows->len) {
            ir_val *parts = NULL;
            TRY(ebb__region_alloc(&c->scratch, (size_t)n, sizeof *parts, &parts));
            for (int32_t k = 0; k < n; k++) {
                parts[k] = ir_in(g, &node, first + k);
            }
            return ebb__op_join(g, 0, parts, n, out);
        }
    }
    return ebb__op_slice(g, v, 0, rows->begin / step, rows->len / step, out);
}

/* The results of a region that were split, in its order. */
typedef struct split_state {
    ir_val *split;
    ir_val *parts; /* [n_chunks] of each */
    int32_t n_split;
} split_state;

/* The operand of `node` for this chunk. */
static ebb_status chunk_operand(pass_split *c, const ir_node_rec *node, const pass_roles *r,
                                int32_t k, const split_range *rows, ir_val *out) {
    ir_val v = ir_in(c->graph, node, k);
    *out = v;
    if (r->in[k] == ROWS_CARRY) {
        const op_def *def = ebb__op(node->op);
        for (int32_t p = 0; p < def->n_inplace; p++) {
            if (def->inplace[p].in == k && c->carry[node->out + def->inplace[p].out] != IR_NONE) {
                *out = c->carry[node->out + def->inplace[p].out];
            }
        }
    } else if (r->in[k] == ROWS_SPLIT && v != IR_NONE) {
        if (c->part[v] == IR_NONE) {
            TRY(rows_of(c, v, rows, &c->marks[v], &c->part[v]));
        }
        *out = c->part[v];
    }
    return EBB_OK;
}

static void forget_parts(const pass_split *c) {
    const ir_graph *g = c->graph;
    for (int32_t i = 0; i < c->n_region; i++) {
        const ir_node_rec *node = &g->nodes[c->region[i]];
        for (int32_t k = 0; k < node->n_in; k++) {
            if (ir_in(g, node, k) != IR_NONE) {
                c->part[ir_in(g, node, k)] = IR_NONE;
            }
        }
        for (int32_t k = 0; k < node->n_out; k++) {
            c->part[node->out + k] = IR_NONE;
        }
    }
}

static ebb_status emit_chunk(pass_split *c, split_state *s, int32_t index) {
    ir_graph *g = c->graph;
    const split_range *rows = &c->chunks[index];
    forget_parts(c);
    s->n_split = 0;
    for (int32_t i = 0; i < c->n_region; i++) {
        ir_node_rec node = g->nodes[c->region[i]];
        const op_def *def = ebb__op(node.op);
        ir_val in[OP_MAX_SPLIT], out[IR_MAX_OUT];
        pass_roles r;
        if (!roles_of(g, &node, &r)) {
            return ebb__fail(g->ctx, EBB_INTERNAL, "chunk: %s is not row-wise", def->schema.name);
        }
        g->label = node.label;
        for (int32_t k = 0; k < node.n_in; k++) {
            TRY(chunk_operand(c, &node, &r, k, rows, &in[k]));
        }
        if (def->first_row_attr > 0) {
            node.attr.i[def->first_row_attr - 1] += rows->begin;
        }
        TRY(ebb__op_emit(g, (op_code)node.op, in, node.n_in, &node.attr, out));
        for (int32_t k = 0; k < node.n_out; k++) {
            c->part[node.out + k] = out[k];
            if (r.out[k] == ROWS_CARRY) {
                c->carry[node.out + k] = out[k];
            } else {
                s->split[s->n_split] = node.out + k;
                s->parts[(size_t)s->n_split++ * (size_t)c->n_chunks + (size_t)index] = out[k];
            }
        }
    }
    return EBB_OK;
}

/* The chunk that holds this row. */
static int32_t chunk_at(const pass_split *c, int32_t row) {
    int32_t lo = 0, hi = c->n_chunks - 1;
    while (lo < hi) {
        int32_t middle = (lo + hi + 1) / 2;
        if (c->chunks[middle].begin <= row) {
            lo = middle;
        } else {
            hi = middle - 1;
        }
    }
    return lo;
}

/* Where chunks wait for their spans, or go with them, who reads a slice of a result that was split
 * reads the parts that it needs, not all of them. */
static ebb_status narrow_readers(pass_split *c, ir_val v, const ir_val *parts) {
    ir_graph *g = c->graph;
    for (int32_t i = c->reader_first[v]; i < c->reader_first[v + 1]; i++) {
        ir_node n = c->reader_list[i];
        op_range range;
        ir_val needed = IR_NONE;
        bool apart = c->chunks[0].time >= 0 || c->chunks[0].time == SPLIT_AT_ONCE;
        if (!apart || !ebb__op_is_slice(&g->nodes[n], &range) || range.axis != 0) {
            continue;
        }
        int32_t k = chunk_at(c, range.begin), last = chunk_at(c, range.begin + range.len - 1);
        if (k > 0 || last + 1 < c->n_chunks) {
            g->label = g->nodes[n].label;
            TRY(ebb__op_join(g, 0, &parts[k], last + 1 - k, &needed));
            ebb__op_shift_slice(&g->nodes[n], -c->chunks[k].begin);
            ir_set_in(g, &g->nodes[n], 0, needed);
        }
    }
    return EBB_OK;
}

/* What v was is v's last carry from now on: for readers outside the region, and by name. */
static void replace_value(pass_split *c, ir_val v) {
    ir_graph *g = c->graph;
    ir_value *from = &g->values[v], *to = &g->values[c->carry[v]];
    to->output = from->output;
    to->param_grad = from->param_grad;
    to->name = from->name;
    from->output = false;
    from->name = NULL;
    for (int32_t i = c->reader_first[v]; i < c->reader_first[v + 1]; i++) {
        const ir_node_rec *reader = &g->nodes[c->reader_list[i]];
        for (int32_t k = 0; k < reader->n_in && !c->member[c->reader_list[i]]; k++) {
            if (ir_in(g, reader, k) == v) {
                ir_set_in(g, reader, k, c->carry[v]);
            }
        }
    }
}

/* Points every reader outside the region to the stacks and ends of chains. */
static ebb_status rewire(pass_split *c, split_state *s) {
    ir_graph *g = c->graph;
    for (int32_t i = 0; i < s->n_split; i++) {
        ir_val v = s->split[i];
        const ir_val *parts = &s->parts[(size_t)i * (size_t)c->n_chunks];
        bool outside = g->values[v].output;
        for (int32_t k = c->reader_first[v]; k < c->reader_first[v + 1]; k++) {
            outside = outside || !c->member[c->reader_list[k]];
        }
        if (outside) {
            g->label = g->nodes[g->values[v].def].label;
            TRY(ebb__op_join(g, 0, parts, c->n_chunks, &c->carry[v]));
            TRY(narrow_readers(c, v, parts));
        }
    }
    for (int32_t i = 0; i < c->n_region; i++) {
        const ir_node_rec *node = &g->nodes[c->region[i]];
        for (int32_t k = 0; k < node->n_out; k++) {
            if (c->carry[node->out + k] != IR_NONE) {
                replace_value(c, node->out + k);
            }
        }
    }
    return EBB_OK;
}

/* What variables become, and the loss, once all losses are split. */
static void rewire_ends(pass_split *c) {
    ir_graph *g = c->graph;
    for (ir_val v = 0; v < c->n_values; v++) {
        ir_val next = g->values[v].next;
        if (next != IR_NONE && next < c->n_values && c->carry[next] != IR_NONE) {
            g->values[v].next = c->carry[next];
        }
    }
    if (g->loss != IR_NONE && g->loss < c->n_values && c->carry[g->loss] != IR_NONE) {
        g->loss = c->carry[g->loss];
    }
}

/* Tells the recompute pass when the nodes of a chunk, from `first` on, are done: with the forward
 * nodes, or with their span's backward ones; or leaves that to their phases. */
static ebb_status mark_era(pass_split *c, ir_node first, int32_t time) {
    pass_unit *unit = c->unit;
    if (time == SPLIT_BY_PHASE) {
        first = c->graph->n_nodes;
    }
    TRY(ebb__region_grow(&unit->region, &unit->era, &unit->cap_eras, (size_t)c->graph->n_nodes,
                         sizeof *unit->era));
    for (; unit->n_eras < c->graph->n_nodes; unit->n_eras++) {
        unit->era[unit->n_eras] = unit->n_eras < first ? 0 : time < 0 ? PASS_ERA_FORWARD : time + 1;
    }
    return EBB_OK;
}

static ebb_status set_keys(pass_split *c, ir_node first, int64_t key) {
    return ebb__pass_set_keys(c->graph, &c->unit->scratch, &c->keys, &c->cap_keys, first, key);
}

ebb_status ebb__split_region(pass_split *c) {
    ir_graph *g = c->graph;
    split_state s = {.n_split = 0};
    size_t results = (size_t)c->n_region * IR_MAX_OUT;
    TRY(REGION_ARRAYS(&c->scratch, ARRAY(s.split, results + 1),
                      ARRAY(s.parts, results * (size_t)c->n_chunks + 1)));
    /* All chunks stand, one after the other, where the region ended. */
    int64_t key = (int64_t)c->position[c->region[c->n_region - 1]] * KEY_STEP - 1;
    ir_node first = g->n_nodes;
    for (int32_t i = 0; i < c->n_chunks; i++) {
        ir_node begin = g->n_nodes;
        TRY(emit_chunk(c, &s, i));
        TRY(mark_era(c, begin, c->chunks[i].time));
    }
    TRY(set_keys(c, first, key));
    first = g->n_nodes;
    TRY(rewire(c, &s));
    for (int32_t i = 0; i < c->n_region; i++) {
        c->position[c->region[i]] = -1;
    }
    c->split = true;
    return set_keys(c, first, 0); /* stacks: as soon as their parts are there */
}

/* ---- the whole ---- */

ebb_status ebb__split_open(pass_split *c, pass_unit *unit) {
    *c = (pass_split){.unit = unit, .graph = &unit->graph};
    ebb__region_init(&c->scratch, unit->ctx);
    return index_graph(c);
}

void ebb__split_forget(pass_split *c) {
    const ir_graph *g = c->graph;
    for (int32_t i = 0; i < c->n_region; i++) {
        const ir_node_rec *node = &g->nodes[c->region[i]];
        c->member[c->region[i]] = false;
        for (int32_t k = 0; k < node->n_in; k++) {
            if (ir_in(g, node, k) != IR_NONE) {
                c->marks[ir_in(g, node, k)] = (split_mark){0, 0};
            }
        }
    }
    c->n_region = c->n_chunks = 0;
    ebb__region_fini(&c->scratch);
}

/* Puts everything in order; nothing that is indexed holds any more. */
ebb_status ebb__split_finish(pass_split *c) {
    if (c->split) {
        rewire_ends(c);
        TRY(ebb__pass_sort(c->graph, c->keys));
        TRY(ebb__pass_drop_dead(c->graph)); /* the unsplit regions */
    }
    ebb__region_fini(&c->unit->scratch);
    return EBB_OK;
}
