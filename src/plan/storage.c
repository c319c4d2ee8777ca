/* storage.c - see storage.h. Three steps: lifetimes of what nodes write (reads through views count
 * for what they view), in-place decisions, then blocks and pieces. */
#include "plan/storage.h"

#include <string.h>

typedef struct storage {
    pass_unit *unit;
    const ir_graph *g;
    int32_t *position;      /* by node; -1: not in the order */
    int32_t *birth, *death; /* by value that a node writes, or variable */
    /* Tree: parent[v] holds v at row/column offsets; rank-1 values count columns only. */
    ir_val *parent;
    int32_t *row, *col;
    ir_val *root;   /* IR_NONE until resolved */
    uint64_t *byte; /* offset from the root's start */
    int32_t *ld;
    int32_t *stamp; /* by value: last in-place question in which it was an operand's source */
    ir_val *path;   /* scratch of resolve() */
} storage;

static bool is_alias(const ir_graph *g, ir_val v) {
    ir_node def = g->values[v].def;
    return def != IR_NONE && (ebb__op(g->nodes[def].op)->flags & OPF_ALIAS) != 0;
}

/* ---- lifetimes ---- */

typedef void (*source_fn)(storage *s, ir_val piece, void *user);

/* Calls fn for everything written by nodes that rows [begin, end) of v consist of. */
static void visit_sources(storage *s, ir_val v, int32_t begin, int32_t end, source_fn fn,
                          void *user) {
    const ir_graph *g = s->g;
    while (is_alias(g, v)) {
        const ir_node_rec *node = &g->nodes[g->values[v].def];
        op_range range;
        int32_t axis;
        if (ebb__op_is_slice(node, &range)) {
            ir_val x = ir_in(g, node, 0);
            bool first = range.axis == 0 || g->values[x].type.rank == 1;
            begin += first ? range.begin : 0;
            end += first ? range.begin : 0;
            v = x;
            continue;
        }
        (void)ebb__op_is_join(node, &axis);
        bool first = axis == 0 || g->values[v].type.rank == 1;
        int32_t start = 0;
        for (int32_t k = 0; k < node->n_in; k++) {
            ir_val x = ir_in(g, node, k);
            int32_t extent = g->values[x].type.dim[0];
            int32_t lo = first ? begin - start : begin, hi = first ? end - start : end;
            if (lo < extent && hi > 0) {
                visit_sources(s, x, lo > 0 ? lo : 0, hi < extent ? hi : extent, fn, user);
            }
            start += extent;
        }
        return;
    }
    fn(s, v, user);
}

static void visit_all(storage *s, ir_val v, source_fn fn, void *user) {
    visit_sources(s, v, 0, s->g->values[v].type.dim[0], fn, user);
}

static void extend(storage *s, ir_val piece, void *at) {
    int32_t position = *(const int32_t *)at;
    s->death[piece] = position > s->death[piece] ? position : s->death[piece];
}

static void find_lifetimes(storage *s) {
    const ir_graph *g = s->g;
    int32_t end = g->n_order; /* behind the last node, which may not overwrite what outlives it */
    for (ir_val v = 0; v < g->n_values; v++) {
        ir_node def = g->values[v].def;
        s->birth[v] = def == IR_NONE ? 0 : s->position[def];
        s->death[v] = def == IR_NONE ? end : s->birth[v];
    }
    for (int32_t i = 0; i < g->n_order; i++) {
        const ir_node_rec *node = &g->nodes[g->order[i]];
        if ((ebb__op(node->op)->flags & OPF_ALIAS) != 0) {
            continue; /* reads nothing itself */
        }
        for (int32_t k = 0; k < node->n_in; k++) {
            if (ir_in(g, node, k) != IR_NONE) {
                visit_all(s, ir_in(g, node, k), extend, &i);
            }
        }
    }
    for (ir_val v = 0; v < g->n_values; v++) {
        if (g->values[v].output && s->birth[v] >= 0) {
            visit_all(s, v, extend, &end);
        }
        if (g->values[v].next != IR_NONE) {
            extend(s, g->values[v].next, &end);
        }
    }
}

/* ---- the tree of addresses ---- */

static void bind_aliases(storage *s) {
    const ir_graph *g = s->g;
    for (int32_t i = 0; i < g->n_order; i++) {
        const ir_node_rec *node = &g->nodes[g->order[i]];
        op_range range;
        int32_t axis;
        if (ebb__op_is_slice(node, &range)) {
            ir_val x = ir_in(g, node, 0);
            const ir_type *type = &g->values[x].type;
            bool columns = range.axis == 1 || type->rank == 1;
            s->parent[node->out] = x;
            s->col[node->out] = columns ? range.begin : 0;
            s->row[node->out] =
                columns ? 0 : (int32_t)(range.begin * (ebb__ir_rows(type) / type->dim[0]));
        } else if (ebb__op_is_join(node, &axis)) {
            int32_t at = 0;
            for (int32_t k = 0; k < node->n_in; k++) {
                ir_val x = ir_in(g, node, k);
                const ir_type *type = &g->values[x].type;
                bool columns = axis == 1 || type->rank == 1;
                s->parent[x] = node->out;
                *(columns ? &s->col[x] : &s->row[x]) = at;
                at += columns ? (int32_t)ir_cols(type) : (int32_t)ebb__ir_rows(type);
            }
        }
    }
    for (ir_val v = 0; v < g->n_values; v++) {
        if (g->values[v].next != IR_NONE) {
            s->parent[g->values[v].next] = v;
        }
    }
}

/* ---- in place ---- */

static void find_latest(storage *s, ir_val piece, void *latest) {
    int32_t death = s->g->values[piece].role == IR_TEMP ? s->death[piece] : INT32_MAX;
    int32_t *worst = latest;
    *worst = death > *worst ? death : *worst;
}

static void set_stamp(storage *s, ir_val piece, void *stamp) {
    s->stamp[piece] = *(const int32_t *)stamp;
}

typedef struct stamp_query {
    int32_t stamp;
    bool found;
} stamp_query;

static void has_stamp(storage *s, ir_val piece, void *query) {
    stamp_query *q = query;
    q->found = q->found || s->stamp[piece] == q->stamp;
}

/* After an in-place step the result holds the bytes: the operand's span ends just before. */
static void hand_over(storage *s, ir_val piece, void *at) {
    int32_t position = *(const int32_t *)at;
    if (s->death[piece] >= position && s->birth[piece] < position) {
        s->death[piece] = position - 1;
    }
}

/* Does another operand read bytes of operand k? The same value element by element is harmless. */
static bool operand_is_shared(storage *s, const ir_node_rec *node, int32_t k, int32_t stamp) {
    ir_val x = ir_in(s->g, node, k);
    bool elementwise = (ebb__op(node->op)->flags & OPF_ELEMENTWISE) != 0;
    stamp_query query = {.stamp = stamp};
    visit_all(s, x, set_stamp, &stamp);
    for (int32_t j = 0; j < node->n_in; j++) {
        ir_val y = ir_in(s->g, node, j);
        if (j != k && y != IR_NONE && !(y == x && elementwise)) {
            visit_all(s, y, has_stamp, &query);
        }
    }
    return query.found;
}

static bool in_variable(const storage *s, ir_val v) {
    while (s->parent[v] != IR_NONE) {
        v = s->parent[v];
    }
    return s->g->values[v].role != IR_TEMP;
}

static void try_in_place(storage *s, const ir_node_rec *node, int32_t k, ir_val out, int32_t at,
                         int32_t stamp) {
    const ir_graph *g = s->g;
    ir_val x = ir_in(g, node, k);
    int32_t latest = -1;
    if (x == IR_NONE || !ebb__ir_type_equal(&g->values[x].type, &g->values[out].type)) {
        return;
    }
    visit_all(s, x, find_latest, &latest);
    if (latest > at || operand_is_shared(s, node, k, stamp)) {
        return;
    }
    if (s->parent[out] == IR_NONE) {
        if (g->values[out].output && s->parent[x] != IR_NONE) {
            return; /* outputs are read as dense rows; x may be columns of something wider */
        }
        s->parent[out] = x;
    } else if (s->parent[x] == IR_NONE && !is_alias(g, x) && !in_variable(s, out)) {
        s->parent[x] = out; /* computed where its successor has to be */
    } else {
        return;
    }
    visit_all(s, x, hand_over, &at);
}

static void decide_in_place(storage *s) {
    const ir_graph *g = s->g;
    int32_t stamp = 0;
    for (int32_t i = 0; i < g->n_order; i++) {
        const ir_node_rec *node = &g->nodes[g->order[i]];
        const op_def *def = ebb__op(node->op);
        bool taken[IR_MAX_OUT] = {false};
        ir_val given = IR_NONE; /* operand whose bytes a result has; it may be an operand twice */
        for (int32_t p = 0; p < def->n_inplace; p++) {
            int k = def->inplace[p].in, j = def->inplace[p].out;
            ir_val out = node->out + j, x = ir_in(g, node, k), before = s->parent[out];
            if (taken[j] || x == IR_NONE || x == given || s->parent[out] == x) {
                continue;
            }
            ir_val x_parent = s->parent[x];
            try_in_place(s, node, k, out, i, ++stamp);
            taken[j] = s->parent[out] != before || s->parent[x] != x_parent;
            given = taken[j] ? x : given;
        }
    }
}

/* ---- blocks and pieces ---- */

/* Root, byte offset and leading dimension of v; iterative, since in-place chains are long. */
static void resolve(storage *s, ir_val v) {
    const ir_graph *g = s->g;
    int32_t depth = 0;
    while (s->root[v] == IR_NONE && s->parent[v] != IR_NONE) {
        s->path[depth++] = v;
        v = s->parent[v];
    }
    if (s->root[v] == IR_NONE) {
        s->root[v] = v;
        s->ld[v] = (int32_t)ir_cols(&g->values[v].type);
    }
    while (depth > 0) {
        ir_val child = s->path[--depth], up = s->parent[child];
        size_t size = ebb__ir_dtype_bytes(g->values[child].type.dtype);
        s->root[child] = s->root[up];
        s->ld[child] = s->ld[up];
        s->byte[child] =
            s->byte[up] +
            ((uint64_t)s->row[child] * (uint64_t)s->ld[up] + (uint64_t)s->col[child]) * size;
    }
}

static uint64_t extent_bytes(const ir_type *type, int32_t ld) {
    uint64_t rows = (uint64_t)ebb__ir_rows(type), cols = (uint64_t)ir_cols(type);
    return ((rows - 1) * (uint64_t)ld + cols) * ebb__ir_dtype_bytes(type->dtype);
}

static ir_kind kind_of_variable(const ir_value *value) {
    switch (value->role) {
    case IR_PARAM:
        return IR_WEIGHTS;
    case IR_SLOT:
        return IR_OPTIMIZER;
    default:
        return IR_DATA;
    }
}

typedef struct collector {
    storage *s;
    plan_placement *out;
    plan_piece *loose; /* pieces in graph order, before grouping */
    int32_t n;
    int32_t *by_root;     /* block by root value */
    bool *holds_gradient; /* by block */
    int32_t first_backward;
} collector;

static int32_t block_of(collector *c, ir_val root) {
    const ir_graph *g = c->s->g;
    if (c->by_root[root] == -1) {
        const ir_value *value = &g->values[root];
        c->by_root[root] = c->out->n_blocks;
        c->out->blocks[c->out->n_blocks++] =
            (plan_block){.variable = value->role == IR_TEMP ? (ir_val)IR_NONE : root,
                         .bytes = ebb__ir_type_bytes(&value->type)};
    }
    return c->by_root[root];
}

static void collect_value(collector *c, ir_val v) {
    storage *s = c->s;
    const ir_value *value = &s->g->values[v];
    resolve(s, v);
    int32_t block = block_of(c, s->root[v]);
    c->out->block[v] = block;
    c->out->offset[v] = s->byte[v];
    c->out->ld[v] = s->ld[v];
    c->holds_gradient[block] = c->holds_gradient[block] || value->param_grad;
    if (is_alias(s->g, v)) {
        return;
    }
    bool forward = value->def != IR_NONE && s->g->nodes[value->def].label.phase == IR_FORWARD;
    ir_kind kind = value->role != IR_TEMP                        ? kind_of_variable(value)
                   : forward && s->death[v] >= c->first_backward ? IR_STASH
                                                                 : IR_WORKSPACE;
    c->loose[c->n++] = (plan_piece){.block = block,
                                    .value = v,
                                    .node = value->def,
                                    .lo = s->byte[v],
                                    .hi = s->byte[v] + extent_bytes(&value->type, s->ld[v]),
                                    .birth = s->birth[v],
                                    .death = s->death[v],
                                    .kind = kind};
}

static void collect_scratch(collector *c, ir_node n) {
    size_t bytes = c->s->unit->workspace[n];
    if (bytes == 0) {
        return;
    }
    c->out->scratch[n] = c->out->n_blocks;
    c->out->blocks[c->out->n_blocks++] = (plan_block){.variable = IR_NONE, .bytes = bytes};
    c->loose[c->n++] = (plan_piece){.block = c->out->scratch[n],
                                    .value = IR_NONE,
                                    .node = n,
                                    .hi = bytes,
                                    .birth = c->s->position[n],
                                    .death = c->s->position[n],
                                    .kind = IR_WORKSPACE};
}

/* Counting sort of the loose pieces by block. A variable's own bytes and its next value are one. */
static void group_pieces(collector *c) {
    plan_placement *out = c->out;
    for (int32_t i = 0; i < c->n; i++) {
        plan_piece *p = &c->loose[i];
        if (c->holds_gradient[p->block] && p->kind == IR_WORKSPACE) {
            p->kind = IR_GRADIENTS;
        }
        if (out->blocks[p->block].variable != IR_NONE) {
            p->kind = kind_of_variable(&c->s->g->values[out->blocks[p->block].variable]);
        }
        out->blocks[p->block].n++;
    }
    int32_t at = 0;
    for (int32_t b = 0; b < out->n_blocks; b++) {
        out->blocks[b].first = at;
        at += out->blocks[b].n;
        out->blocks[b].n = 0;
    }
    for (int32_t i = 0; i < c->n; i++) {
        plan_block *block = &out->blocks[c->loose[i].block];
        out->pieces[block->first + block->n++] = c->loose[i];
    }
    out->n_pieces = c->n;
}

static ebb_status collect(storage *s, plan_placement *out) {
    const ir_graph *g = s->g;
    alloc_region *region = &s->unit->region;
    collector c = {.s = s, .out = out, .first_backward = INT32_MAX};
    size_t nv = (size_t)g->n_values, most = nv + (size_t)g->n_nodes;
    *out = (plan_placement){.n_values = g->n_values, .n_positions = g->n_order};
    TRY(ebb__region_alloc(region, nv + 1, sizeof *out->block, &out->block));
    TRY(ebb__region_alloc(region, nv + 1, sizeof *out->offset, &out->offset));
    TRY(ebb__region_alloc(region, nv + 1, sizeof *out->ld, &out->ld));
    TRY(ebb__region_alloc(region, (size_t)g->n_nodes + 1, sizeof *out->scratch, &out->scratch));
    TRY(ebb__region_alloc(region, most + 1, sizeof *out->blocks, &out->blocks));
    TRY(ebb__region_alloc(region, most + 1, sizeof *out->pieces, &out->pieces));
    TRY(ebb__region_alloc(region, most + 1, sizeof *c.loose, &c.loose));
    TRY(ebb__region_alloc(region, nv + 1, sizeof *c.by_root, &c.by_root));
    TRY(ebb__region_alloc(region, most + 1, sizeof *c.holds_gradient, &c.holds_gradient));
    memset(out->block, 0xff, (nv + 1) * sizeof *out->block);
    memset(out->scratch, 0xff, ((size_t)g->n_nodes + 1) * sizeof *out->scratch);
    memset(c.by_root, 0xff, (nv + 1) * sizeof *c.by_root);
    for (int32_t i = g->n_order - 1; i >= 0; i--) {
        if (g->nodes[g->order[i]].label.phase == IR_BACKWARD) {
            c.first_backward = i;
        }
    }
    for (ir_val v = 0; v < g->n_values; v++) {
        if (s->birth[v] >= 0) {
            collect_value(&c, v);
        }
    }
    for (int32_t i = 0; i < g->n_order; i++) {
        collect_scratch(&c, g->order[i]);
    }
    group_pieces(&c);
    return EBB_OK;
}

ebb_status ebb__plan_storage(pass_unit *unit, plan_placement *out) {
    const ir_graph *g = &unit->graph;
    alloc_region *region = &unit->region;
    storage s = {.unit = unit, .g = g};
    size_t nv = (size_t)g->n_values + 1, nn = (size_t)g->n_nodes + 1;
    TRY(ebb__region_alloc(region, nn, sizeof *s.position, &s.position));
    TRY(ebb__region_alloc(region, nv, sizeof *s.birth, &s.birth));
    TRY(ebb__region_alloc(region, nv, sizeof *s.death, &s.death));
    TRY(ebb__region_alloc(region, nv, sizeof *s.parent, &s.parent));
    TRY(ebb__region_alloc(region, nv, sizeof *s.row, &s.row));
    TRY(ebb__region_alloc(region, nv, sizeof *s.col, &s.col));
    TRY(ebb__region_alloc(region, nv, sizeof *s.root, &s.root));
    TRY(ebb__region_alloc(region, nv, sizeof *s.byte, &s.byte));
    TRY(ebb__region_alloc(region, nv, sizeof *s.ld, &s.ld));
    TRY(ebb__region_alloc(region, nv, sizeof *s.stamp, &s.stamp));
    TRY(ebb__region_alloc(region, nv, sizeof *s.path, &s.path));
    memset(s.position, 0xff, nn * sizeof *s.position);
    memset(s.parent, 0xff, nv * sizeof *s.parent);
    memset(s.root, 0xff, nv * sizeof *s.root);
    for (int32_t i = 0; i < g->n_order; i++) {
        s.position[g->order[i]] = i;
    }
    find_lifetimes(&s);
    bind_aliases(&s);
    decide_in_place(&s);
    return collect(&s, out);
}
