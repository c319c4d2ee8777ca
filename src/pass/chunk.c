/* chunk.c - splits the row-wise chain that ends in a loss, so that its widest values (the logits of
 * all T*B rows) never exist at once.
 *
 * The region grows from the loss over every value as wide as the logits, to producers and readers
 * that are row-wise (the `rows` column). It is then repeated for chunks of rows: split
 * operands become slices, split results stacks, and sums over rows (weight gradients) a chain from
 * chunk to chunk, which is the same chain of additions as before: no bit changes. The chunks follow
 * each other where the region stood, each finished before the next begins.
 *
 * Where the plan goes through time in spans, no chunk reaches over two of them, and the chunks of a
 * span wait until backward comes to it: then not even the rows that the chain starts from exist at
 * once.
 */
#include "pass/pass.h"

#include <stdlib.h>
#include <string.h>

enum { KEY_STEP = 2 };

/* Rows [begin, begin + len), of a span that begins at `time`; -1: of none. */
typedef struct row_range {
    int32_t begin, len, time;
} row_range;

/* A part of a stack and the row where it begins. */
typedef struct stack_mark {
    int32_t part, row;
} stack_mark;

/* Every shard has a loss, so what is known of the graph is found once for all; what depends on one
 * loss alone takes no more time than its region has nodes. */
typedef struct chunker {
    pass_unit *unit;
    ir_graph *graph;
    int32_t rows;    /* of the whole */
    int64_t width;   /* columns of the logits */
    bool *member;    /* by node */
    bool *after;     /* by value: depends on the region through a node outside it */
    ir_node *region; /* members in graph order */
    int32_t n_region;
    int32_t *reader_first; /* readers by value: reader_list[reader_first[v] .. reader_first[v+1]) */
    ir_node *reader_list;
    int32_t *position; /* of a node in the order; -1: not in it */
    ir_val *wide;      /* work list */
    int32_t n_wide;
    bool *seen;       /* by value */
    int32_t n_values; /* before splitting */
    row_range *chunks;
    int32_t n_chunks;
    alloc_region scratch; /* of one loss */
    ir_val *part;         /* by value: the chunk's share of it, or IR_NONE */
    stack_mark *marks;    /* by value */
    ir_val *carry; /* by value, of all losses: what stands for it after the last chunk so far */
    int64_t *keys; /* by node, for the sort in the end */
    size_t cap_keys;
    bool split; /* any loss was, since the graph was indexed */
    bool stale; /* a region came upon what was split */
} chunker;

static ebb_status index_graph(chunker *c) {
    const ir_graph *g = c->graph;
    alloc_region *region = &c->unit->scratch;
    size_t nv = (size_t)g->n_values, nn = (size_t)g->n_nodes;
    TRY(REGION_ARRAYS(region, ARRAY(c->member, nn + 1), ARRAY(c->region, nn + 1),
                      ARRAY_NONE(c->position, nn + 1), ARRAY(c->reader_first, nv + 2),
                      ARRAY(c->reader_list, (size_t)g->n_operands + 1), ARRAY(c->wide, nv + 1),
                      ARRAY(c->seen, nv + 1), ARRAY(c->after, nv + 1), ARRAY_NONE(c->part, nv + 1),
                      ARRAY(c->marks, nv + 1), ARRAY_NONE(c->carry, nv + 1)));
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

/* Before the next loss. */
static void forget_region(chunker *c) {
    const ir_graph *g = c->graph;
    for (int32_t i = 0; i < c->n_region; i++) {
        const ir_node_rec *node = &g->nodes[c->region[i]];
        c->member[c->region[i]] = false;
        for (int32_t k = 0; k < node->n_in; k++) {
            if (ir_in(g, node, k) != IR_NONE) {
                c->marks[ir_in(g, node, k)] = (stack_mark){0, 0};
            }
        }
    }
    for (int32_t i = 0; i < c->n_wide; i++) {
        c->seen[c->wide[i]] = false;
    }
    c->n_region = c->n_wide = c->n_chunks = 0;
    ebb__region_fini(&c->scratch);
}

/* ---- growing the region ---- */

static bool splits_into_rows(const chunker *c, ir_val v) {
    const ir_type *type = &c->graph->values[v].type;
    return type->rank <= 2 && type->dim[0] == c->rows;
}

static bool is_wide(const chunker *c, ir_val v) {
    const ir_type *type = &c->graph->values[v].type;
    return type->rank == 2 && type->dim[0] == c->rows && ir_cols(type) == c->width;
}

static void push_wide(chunker *c, ir_val v) {
    if (!c->seen[v]) {
        c->seen[v] = true;
        c->wide[c->n_wide++] = v;
    }
}

/* Takes a node into the region; false if it cannot be split. */
static bool admit(chunker *c, ir_node n) {
    const ir_graph *g = c->graph;
    const ir_node_rec *node = &g->nodes[n];
    pass_roles r;
    if (c->member[n]) {
        return true;
    }
    if (c->position[n] < 0 || !ebb__pass_roles(g, node, &r)) {
        return false;
    }
    for (int32_t k = 0; k < node->n_in; k++) {
        ir_val v = ir_in(g, node, k);
        if (v == IR_NONE) {
            continue;
        }
        if (v >= c->n_values) {
            c->stale = true;
            return false;
        }
        if (r.in[k] == ROWS_SPLIT && !splits_into_rows(c, v)) {
            return false;
        }
        if (is_wide(c, v)) {
            if (r.in[k] != ROWS_SPLIT) {
                return false;
            }
            push_wide(c, v);
        }
    }
    bool useful = false;
    for (int32_t k = 0; k < node->n_out; k++) {
        useful = useful || r.out[k] != ROWS_WHOLE;
        if (r.out[k] == ROWS_SPLIT && !splits_into_rows(c, node->out + k)) {
            return false;
        }
        if (r.out[k] == ROWS_SPLIT && is_wide(c, node->out + k)) {
            push_wide(c, node->out + k);
        }
    }
    c->member[n] = useful;
    if (useful) {
        c->region[c->n_region++] = n;
    }
    return useful;
}

/* Neighbours that cannot be split stay outside; the value between is then a boundary. */
static bool grow(chunker *c, ir_node loss) {
    const ir_graph *g = c->graph;
    if (!admit(c, loss)) {
        return false;
    }
    for (int32_t w = 0; w < c->n_wide; w++) {
        ir_val v = c->wide[w];
        if (g->values[v].def != IR_NONE) {
            (void)admit(c, g->values[v].def);
        }
        for (int32_t i = c->reader_first[v]; i < c->reader_first[v + 1]; i++) {
            (void)admit(c, c->reader_list[i]);
        }
    }
    return true;
}

/* A sum over rows that a member makes: complete only after the last chunk. */
static bool is_sum_of_region(const chunker *c, ir_val v) {
    const ir_graph *g = c->graph;
    ir_node def = g->values[v].def;
    pass_roles r;
    return def != IR_NONE && c->member[def] && ebb__pass_roles(g, &g->nodes[def], &r) &&
           r.out[v - g->nodes[def].out] == ROWS_CARRY;
}

static int compare_nodes(const void *a, const void *b, void *user) {
    const int32_t *position = user;
    int32_t x = position[*(const ir_node *)a], y = position[*(const ir_node *)b];
    return (x > y) - (x < y);
}

/* Does the node depend on the region through a node outside it, or is it one that does? */
static bool is_tainted(const chunker *c, ir_node n) {
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
static bool is_convex(chunker *c) {
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

/* ---- where to cut ---- */

/* A stack of time steps that the region reads by rows: which rows belong to which step. */
static const ir_node_rec *find_steps(const chunker *c) {
    const ir_graph *g = c->graph;
    for (int32_t i = 0; i < c->n_region; i++) {
        const ir_node_rec *node = &g->nodes[c->region[i]];
        pass_roles r;
        bool wise = ebb__pass_roles(g, node, &r);
        for (int32_t k = 0; wise && k < node->n_in; k++) {
            ir_val v = ir_in(g, node, k);
            ir_node def = v == IR_NONE ? (ir_node)IR_NONE : g->values[v].def;
            int32_t axis;
            if (def == IR_NONE || r.in[k] != ROWS_SPLIT ||
                !ebb__op_is_join(&g->nodes[def], &axis) || axis != 0) {
                continue;
            }
            ir_val part = ir_in(g, &g->nodes[def], 0);
            if (g->values[part].def != IR_NONE && g->nodes[g->values[part].def].label.at >= 0) {
                return &g->nodes[def];
            }
        }
    }
    return NULL;
}

/* As few chunks as have at most `most` rows each, all but the last alike: a last one of few rows
 * would take nearly the time of a whole one. Cuts fall on multiples of `grain`, which divides
 * most. */
static void add_chunks(chunker *c, row_range all, int32_t most, int32_t grain) {
    int32_t n = (all.len - 1) / most + 1, share = (all.len - 1) / n + 1;
    share = (share + grain - 1) / grain * grain;
    for (int32_t at = 0; at < all.len; at += share) {
        int32_t len = all.len - at < share ? all.len - at : share;
        c->chunks[c->n_chunks++] = (row_range){all.begin + at, len, all.time};
    }
}

static ebb_status cut_rows(chunker *c, int32_t most, int32_t span) {
    const ir_graph *g = c->graph;
    const ir_node_rec *steps = span > 0 ? find_steps(c) : NULL;
    size_t n = (size_t)(c->rows / most) + 2 + (steps == NULL ? 0 : (size_t)steps->n_in);
    TRY(ebb__region_alloc(&c->scratch, n, sizeof *c->chunks, &c->chunks));
    if (steps == NULL) {
        int32_t rows = c->unit->dev->row_grain;
        add_chunks(c, (row_range){0, c->rows, -1}, most, most % rows == 0 ? rows : 1);
        return EBB_OK;
    }
    int32_t begin = 0, end = 0, now = -1, step = op_in_type(g, steps, 0)->dim[0];
    int32_t grain = most >= step ? step : 1; /* whole time steps, if any */
    most = most / grain * grain;
    for (int32_t k = 0; k < steps->n_in; k++) {
        ir_val part = ir_in(g, steps, k);
        ir_node def = g->values[part].def;
        int32_t time = def == IR_NONE ? -1 : g->nodes[def].label.at;
        int32_t first = time < 0 ? -1 : time / span * span;
        if (k > 0 && first != now) {
            add_chunks(c, (row_range){begin, end - begin, now}, most, grain);
            begin = end;
        }
        now = first;
        end += g->values[part].type.dim[0];
    }
    add_chunks(c, (row_range){begin, end - begin, now}, most, grain);
    return EBB_OK;
}

/* ---- splitting ---- */

/* Rows of v; of a stack, if they are whole parts of it, a stack of those: it need not wait for the
 * others. `mark` is where the rows of the chunk before ended. */
static ebb_status rows_of(chunker *c, ir_val v, const row_range *rows, stack_mark *mark,
                          ir_val *out) {
    ir_graph *g = c->graph;
    ir_node def = g->values[v].def;
    int32_t axis, at = mark->row, first = -1, n = 0;
    if (rows->time >= 0 && def != IR_NONE && ebb__op_is_join(&g->nodes[def], &axis) && axis == 0) {
        const ir_node_rec node = g->nodes[def];
        int32_t taken = 0;
        for (int32_t k = mark->part; k < node.n_in && at < rows->begin + rows->len; k++) {
            *mark = (stack_mark){k, at}; /* the next rows may begin within the last part */
            int32_t extent = op_in_type(g, &node, k)->dim[0];
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
    return ebb__op_slice(g, v, 0, rows->begin, rows->len, out);
}

/* The results of a region that were split, in its order. */
typedef struct chunk_state {
    ir_val *split;
    ir_val *parts; /* [n_chunks] of each */
    int32_t n_split;
} chunk_state;

/* The operand of `node` for this chunk. */
static ebb_status chunk_operand(chunker *c, const ir_node_rec *node, const pass_roles *r, int32_t k,
                                const row_range *rows, ir_val *out) {
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

static void forget_parts(const chunker *c) {
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

static ebb_status emit_chunk(chunker *c, chunk_state *s, int32_t index) {
    ir_graph *g = c->graph;
    const row_range *rows = &c->chunks[index];
    forget_parts(c);
    s->n_split = 0;
    for (int32_t i = 0; i < c->n_region; i++) {
        ir_node_rec node = g->nodes[c->region[i]];
        const op_def *def = ebb__op(node.op);
        ir_val in[OP_MAX_SPLIT], out[IR_MAX_OUT];
        pass_roles r;
        if (!ebb__pass_roles(g, &node, &r)) {
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
static int32_t chunk_at(const chunker *c, int32_t row) {
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

/* Where chunks wait for their spans, who reads a slice of a result that was split reads the parts
 * that it needs, not all of them. */
static ebb_status narrow_readers(chunker *c, ir_val v, const ir_val *parts) {
    ir_graph *g = c->graph;
    for (int32_t i = c->reader_first[v]; i < c->reader_first[v + 1]; i++) {
        ir_node n = c->reader_list[i];
        op_range range;
        ir_val needed = IR_NONE;
        if (c->chunks[0].time < 0 || !ebb__op_is_slice(&g->nodes[n], &range) || range.axis != 0) {
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
static void replace_value(chunker *c, ir_val v) {
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
static ebb_status rewire(chunker *c, chunk_state *s) {
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
static void rewire_ends(chunker *c) {
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
 * nodes, or with their span's backward ones. */
static ebb_status mark_era(chunker *c, ir_node first, int32_t time) {
    pass_unit *unit = c->unit;
    TRY(ebb__region_grow(&unit->region, &unit->era, &unit->cap_eras, (size_t)c->graph->n_nodes,
                         sizeof *unit->era));
    for (; unit->n_eras < c->graph->n_nodes; unit->n_eras++) {
        unit->era[unit->n_eras] = unit->n_eras < first ? 0 : time < 0 ? PASS_ERA_FORWARD : time + 1;
    }
    return EBB_OK;
}

/* Of all nodes from `first` on. */
static ebb_status set_keys(chunker *c, ir_node first, int64_t key) {
    TRY(ebb__region_grow(&c->unit->scratch, &c->keys, &c->cap_keys, (size_t)c->graph->n_nodes,
                         sizeof *c->keys));
    for (ir_node n = first; n < c->graph->n_nodes; n++) {
        c->keys[n] = key;
    }
    return EBB_OK;
}

static ebb_status split(chunker *c) {
    ir_graph *g = c->graph;
    chunk_state s = {.n_split = 0};
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

static ebb_status chunk_loss(chunker *c, ir_node loss, int32_t most, int32_t span) {
    const ir_type *logits = op_in_type(c->graph, &c->graph->nodes[loss], 0);
    c->rows = logits->dim[0];
    c->width = ir_cols(logits);
    if (c->position[loss] < 0 || logits->rank != 2 || (c->rows <= most && span <= 0)) {
        return EBB_OK; /* the first: it was split with another one */
    }
    bool grown = grow(c, loss);
    if (c->stale) {
        return EBB_OK;
    }
    if (!grown) {
        ebb__log(c->unit->ctx, EBB_LOG_DEBUG, "chunk: the loss's chain is not row-wise throughout");
        return EBB_OK;
    }
    if (!is_convex(c)) {
        return EBB_OK;
    }
    TRY(cut_rows(c, most, span));
    return split(c);
}

/* Puts everything in order; nothing that is indexed holds any more. */
static ebb_status finish(chunker *c) {
    if (c->split) {
        rewire_ends(c);
        TRY(ebb__pass_sort(c->graph, c->keys));
        TRY(ebb__pass_drop_dead(c->graph)); /* the unsplit regions */
    }
    ebb__region_fini(&c->unit->scratch);
    *c = (chunker){.unit = c->unit, .graph = c->graph};
    ebb__region_init(&c->scratch, c->unit->ctx);
    return EBB_OK;
}

static ebb_status chunk_losses(chunker *c, const ir_node *losses, int32_t n) {
    const pass_config *config = c->unit->config;
    int32_t most = config->knobs.chunk_rows > 0 ? config->knobs.chunk_rows : INT32_MAX;
    int32_t span = config->training ? config->knobs.span : 0;
    TRY(index_graph(c));
    for (int32_t i = 0; i < n; i++) {
        ebb_status status = chunk_loss(c, losses[i], most, span);
        bool stale = c->stale;
        forget_region(c);
        TRY(status);
        if (stale) {
            TRY(finish(c));
            TRY(index_graph(c));
            i--;
        }
    }
    return finish(c);
}

static ebb_status run(pass_unit *unit) {
    const ir_graph *g = &unit->graph;
    chunker c = {.unit = unit, .graph = &unit->graph};
    ir_node *losses = NULL;
    int32_t n = 0;
    if (unit->config->knobs.chunk_rows <= 0 &&
        !(unit->config->training && unit->config->knobs.span > 0)) {
        return EBB_OK;
    }
    TRY(ebb__alloc(unit->ctx, (size_t)g->n_order + 1, sizeof *losses, &losses));
    for (int32_t i = 0; i < g->n_order; i++) {
        if ((ebb__op(g->nodes[g->order[i]].op)->flags & OPF_LOSS) != 0) {
            losses[n++] = g->order[i];
        }
    }
    ebb__region_init(&c.scratch, unit->ctx);
    ebb_status status = chunk_losses(&c, losses, n);
    ebb__free(unit->ctx, losses);
    return status;
}

const pass_def ebb__pass_chunk = {.id = PASS_CHUNK, .run = run};
