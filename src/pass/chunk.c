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

#include <string.h>

enum {
    KEY_STEP = 2,
    GRAIN = 8 /* rows: the width of a vector */
};

/* Rows [begin, begin + len), of a span that begins at `time`; -1: of none. */
typedef struct row_range {
    int32_t begin, len, time;
} row_range;

typedef struct chunker {
    pass_unit *unit;
    ir_graph *graph;
    int32_t rows;    /* of the whole */
    int64_t width;   /* columns of the logits */
    bool *member;    /* by node */
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
} chunker;

static ebb_status index_graph(chunker *c) {
    const ir_graph *g = c->graph;
    alloc_region *region = &c->unit->scratch;
    size_t nv = (size_t)g->n_values, nn = (size_t)g->n_nodes;
    TRY(ebb__region_alloc(region, nn + 1, sizeof *c->member, &c->member));
    TRY(ebb__region_alloc(region, nn + 1, sizeof *c->region, &c->region));
    TRY(ebb__region_alloc(region, nn + 1, sizeof *c->position, &c->position));
    TRY(ebb__region_alloc(region, nv + 2, sizeof *c->reader_first, &c->reader_first));
    TRY(ebb__region_alloc(region, (size_t)g->n_operands + 1, sizeof *c->reader_list,
                          &c->reader_list));
    TRY(ebb__region_alloc(region, nv + 1, sizeof *c->wide, &c->wide));
    TRY(ebb__region_alloc(region, nv + 1, sizeof *c->seen, &c->seen));
    memset(c->position, 0xff, (nn + 1) * sizeof *c->position);
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
    if (!ebb__pass_roles(g, node, &r)) {
        return false;
    }
    for (int32_t k = 0; k < node->n_in; k++) {
        ir_val v = ir_in(g, node, k);
        if (v == IR_NONE) {
            continue;
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

/* No path may leave the region and come back: chunks would wait for each other. */
static ebb_status is_convex(chunker *c, bool *convex) {
    const ir_graph *g = c->graph;
    bool *after = NULL; /* by value: depends on the region through a node outside it */
    TRY(ebb__region_alloc(&c->unit->scratch, (size_t)g->n_values + 1, sizeof *after, &after));
    *convex = true;
    c->n_region = 0;
    for (int32_t i = 0; i < g->n_order; i++) {
        ir_node n = g->order[i];
        const ir_node_rec *node = &g->nodes[n];
        bool inside = c->member[n], tainted = false;
        for (int32_t k = 0; k < node->n_in; k++) {
            ir_val v = ir_in(g, node, k);
            if (v == IR_NONE) {
                continue;
            }
            bool from_region = g->values[v].def != IR_NONE && c->member[g->values[v].def];
            tainted = tainted || after[v] || (from_region && !inside) || is_sum_of_region(c, v);
        }
        if (inside) {
            *convex = *convex && !tainted;
            c->region[c->n_region++] = n;
        } else {
            for (int32_t k = 0; k < node->n_out; k++) {
                after[node->out + k] = tainted;
            }
        }
    }
    return EBB_OK;
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
            if (g->values[part].def != IR_NONE && g->nodes[g->values[part].def].label.time >= 0) {
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
    TRY(ebb__region_alloc(&c->unit->scratch, n, sizeof *c->chunks, &c->chunks));
    if (steps == NULL) {
        add_chunks(c, (row_range){0, c->rows, -1}, most, most % GRAIN == 0 ? GRAIN : 1);
        return EBB_OK;
    }
    int32_t begin = 0, end = 0, now = -1, step = op_in_type(g, steps, 0)->dim[0];
    int32_t grain = most >= step ? step : 1; /* whole time steps, if any */
    most = most / grain * grain;
    for (int32_t k = 0; k < steps->n_in; k++) {
        ir_val part = ir_in(g, steps, k);
        ir_node def = g->values[part].def;
        int32_t time = def == IR_NONE ? -1 : g->nodes[def].label.time;
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

/* A part of a stack and the row where it begins. */
typedef struct stack_mark {
    int32_t part, row;
} stack_mark;

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
            TRY(ebb__region_alloc(&c->unit->scratch, (size_t)n, sizeof *parts, &parts));
            for (int32_t k = 0; k < n; k++) {
                parts[k] = ir_in(g, &node, first + k);
            }
            return ebb__op_join(g, 0, parts, n, out);
        }
    }
    return ebb__op_slice(g, v, 0, rows->begin, rows->len, out);
}

typedef struct chunk_state {
    ir_val *part;      /* by value of the original graph: the chunk's share of it, or IR_NONE */
    ir_val *carry;     /* by the same: the chain's value after the previous chunk */
    stack_mark *marks; /* by the same */
    ir_val *parts;     /* [n_chunks] lists of split results, by rank in `split` */
    ir_val *split;     /* results that were split, in order of the region */
    int32_t n_split;
} chunk_state;

/* The operand of `node` for this chunk. */
static ebb_status chunk_operand(chunker *c, const ir_node_rec *node, const pass_roles *r, int32_t k,
                                const row_range *rows, chunk_state *s, ir_val *out) {
    ir_val v = ir_in(c->graph, node, k);
    *out = v;
    if (r->in[k] == ROWS_CARRY) {
        const op_def *def = ebb__op(node->op);
        for (int32_t p = 0; p < def->n_inplace; p++) {
            if (def->inplace[p].in == k && s->carry[node->out + def->inplace[p].out] != IR_NONE) {
                *out = s->carry[node->out + def->inplace[p].out];
            }
        }
    } else if (r->in[k] == ROWS_SPLIT && v != IR_NONE) {
        if (s->part[v] == IR_NONE) {
            TRY(rows_of(c, v, rows, &s->marks[v], &s->part[v]));
        }
        *out = s->part[v];
    }
    return EBB_OK;
}

static void forget_parts(const chunker *c, chunk_state *s) {
    const ir_graph *g = c->graph;
    for (int32_t i = 0; i < c->n_region; i++) {
        const ir_node_rec *node = &g->nodes[c->region[i]];
        for (int32_t k = 0; k < node->n_in; k++) {
            if (ir_in(g, node, k) != IR_NONE) {
                s->part[ir_in(g, node, k)] = IR_NONE;
            }
        }
        for (int32_t k = 0; k < node->n_out; k++) {
            s->part[node->out + k] = IR_NONE;
        }
    }
}

static ebb_status emit_chunk(chunker *c, chunk_state *s, int32_t index) {
    ir_graph *g = c->graph;
    const row_range *rows = &c->chunks[index];
    forget_parts(c, s);
    s->n_split = 0;
    for (int32_t i = 0; i < c->n_region; i++) {
        ir_node_rec node = g->nodes[c->region[i]];
        const op_def *def = ebb__op(node.op);
        ir_val in[OP_MAX_KEEP], out[IR_MAX_OUT];
        pass_roles r;
        if (!ebb__pass_roles(g, &node, &r)) {
            return ebb__fail(g->ctx, EBB_INTERNAL, "chunk: %s is not row-wise", def->schema.name);
        }
        g->label = node.label;
        for (int32_t k = 0; k < node.n_in; k++) {
            TRY(chunk_operand(c, &node, &r, k, rows, s, &in[k]));
        }
        if (def->row_shift > 0) {
            node.attr.i[def->row_shift - 1] += rows->begin;
        }
        TRY(ebb__op_emit(g, (op_code)node.op, in, node.n_in, &node.attr, out));
        for (int32_t k = 0; k < node.n_out; k++) {
            s->part[node.out + k] = out[k];
            if (r.out[k] == ROWS_CARRY) {
                s->carry[node.out + k] = out[k];
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

/* Points every reader outside the region to the stacks and ends of chains. */
static ebb_status rewire(chunker *c, chunk_state *s) {
    ir_graph *g = c->graph;
    for (int32_t i = 0; i < s->n_split; i++) {
        ir_val v = s->split[i];
        bool outside = g->values[v].output;
        for (int32_t k = c->reader_first[v]; k < c->reader_first[v + 1]; k++) {
            outside = outside || !c->member[c->reader_list[k]];
        }
        if (outside) {
            g->label = g->nodes[g->values[v].def].label;
            TRY(ebb__op_join(g, 0, &s->parts[(size_t)i * (size_t)c->n_chunks], c->n_chunks,
                             &s->carry[v]));
            TRY(narrow_readers(c, v, &s->parts[(size_t)i * (size_t)c->n_chunks]));
        }
    }
    for (ir_val v = 0; v < c->n_values; v++) {
        if (s->carry[v] == IR_NONE) {
            continue;
        }
        ir_value *from = &g->values[v], *to = &g->values[s->carry[v]];
        to->output = from->output;
        to->param_grad = from->param_grad;
        to->name = from->name;
        from->output = false;
        from->name = NULL;
        for (int32_t i = c->reader_first[v]; i < c->reader_first[v + 1]; i++) {
            const ir_node_rec *reader = &g->nodes[c->reader_list[i]];
            for (int32_t k = 0; k < reader->n_in && !c->member[c->reader_list[i]]; k++) {
                if (ir_in(g, reader, k) == v) {
                    ir_set_in(g, reader, k, s->carry[v]);
                }
            }
        }
    }
    for (ir_val v = 0; v < c->n_values; v++) {
        ir_val next = g->values[v].next;
        if (next != IR_NONE && next < c->n_values && s->carry[next] != IR_NONE) {
            g->values[v].next = s->carry[next];
        }
    }
    if (g->loss != IR_NONE && g->loss < c->n_values && s->carry[g->loss] != IR_NONE) {
        g->loss = s->carry[g->loss];
    }
    return EBB_OK;
}

/* Tells the recompute pass when the nodes of a chunk, from `first` on, are done: with the forward
 * nodes, or with their span's backward ones. There is room for them. */
static void mark_era(chunker *c, ir_node first, int32_t time) {
    pass_unit *unit = c->unit;
    for (; unit->n_eras < c->graph->n_nodes; unit->n_eras++) {
        unit->era[unit->n_eras] = unit->n_eras < first ? 0 : time < 0 ? PASS_ERA_FORWARD : time + 1;
    }
}

static ebb_status split(chunker *c) {
    ir_graph *g = c->graph;
    alloc_region *region = &c->unit->scratch;
    chunk_state s = {.n_split = 0};
    size_t nv = (size_t)c->n_values, results = (size_t)c->n_region * IR_MAX_OUT;
    /* Per chunk: its nodes and a slice for each of their operands; then the stacks, of everything
     * and of what readers need. */
    size_t added = (size_t)c->n_chunks * (size_t)c->n_region * (1 + OP_MAX_KEEP) + results +
                   (size_t)g->n_nodes;
    size_t eras = (size_t)c->unit->n_eras;
    int64_t *keys = NULL;
    TRY(ebb__region_alloc(region, nv + 1, sizeof *s.part, &s.part));
    TRY(ebb__region_alloc(region, nv + 1, sizeof *s.marks, &s.marks));
    TRY(ebb__region_alloc(region, nv + 1, sizeof *s.carry, &s.carry));
    TRY(ebb__region_alloc(region, results + 1, sizeof *s.split, &s.split));
    TRY(ebb__region_alloc(region, results * (size_t)c->n_chunks + 1, sizeof *s.parts, &s.parts));
    TRY(ebb__pass_keys(g, region, (size_t)g->n_nodes + added, KEY_STEP, &keys));
    TRY(ebb__region_grow(&c->unit->region, &c->unit->era, &eras, (size_t)g->n_nodes + added,
                         sizeof *c->unit->era));
    memset(s.carry, 0xff, nv * sizeof *s.carry);
    /* All chunks stand, one after the other, where the region ended. */
    int64_t key = (int64_t)c->position[c->region[c->n_region - 1]] * KEY_STEP - 1;
    ir_node first = g->n_nodes;
    for (int32_t i = 0; i < c->n_chunks; i++) {
        ir_node begin = g->n_nodes;
        TRY(emit_chunk(c, &s, i));
        mark_era(c, begin, c->chunks[i].time);
    }
    for (ir_node n = first; n < g->n_nodes; n++) {
        keys[n] = key;
    }
    first = g->n_nodes;
    TRY(rewire(c, &s));
    for (ir_node n = first; n < g->n_nodes; n++) {
        keys[n] = 0; /* stacks: as soon as their parts are there */
    }
    TRY(ebb__pass_sort(g, keys));
    return ebb__pass_drop_dead(g); /* the unsplit region */
}

static ebb_status chunk_loss(pass_unit *unit, ir_node loss, int32_t most, int32_t span) {
    chunker c = {.unit = unit, .graph = &unit->graph};
    const ir_type *logits = op_in_type(c.graph, &c.graph->nodes[loss], 0);
    bool convex = false;
    c.rows = logits->dim[0];
    c.width = ir_cols(logits);
    if (logits->rank != 2 || (c.rows <= most && span <= 0)) {
        return EBB_OK;
    }
    TRY(index_graph(&c));
    if (!grow(&c, loss)) {
        ebb__log(unit->ctx, EBB_LOG_DEBUG, "chunk: the loss's chain is not row-wise throughout");
        return EBB_OK;
    }
    TRY(is_convex(&c, &convex));
    if (!convex) {
        return EBB_OK;
    }
    TRY(cut_rows(&c, most, span));
    return split(&c);
}

static ebb_status run(pass_unit *unit) {
    int32_t chunk_rows = unit->config->chunk_rows, n_order = unit->graph.n_order;
    int32_t span = unit->config->training ? unit->config->recompute.span : 0;
    if (chunk_rows <= 0 && span <= 0) {
        return EBB_OK;
    }
    ir_node *losses = NULL;
    int32_t n = 0;
    TRY(ebb__alloc(unit->ctx, (size_t)n_order + 1, sizeof *losses, &losses));
    for (int32_t i = 0; i < n_order; i++) {
        if ((ebb__op(unit->graph.nodes[unit->graph.order[i]].op)->flags & OPF_LOSS) != 0) {
            losses[n++] = unit->graph.order[i];
        }
    }
    ebb_status status = EBB_OK;
    for (int32_t i = 0; i < n && status == EBB_OK; i++) {
        status = chunk_loss(unit, losses[i], chunk_rows > 0 ? chunk_rows : INT32_MAX, span);
        ebb__region_fini(&unit->scratch); /* every shard has a loss */
    }
    ebb__free(unit->ctx, losses);
    return status;
}

const pass_def ebb__pass_chunk = {.id = PASS_CHUNK, .run = run};
