/* storage.c - see storage.h. Aliases first, then in-place decisions, then blocks and pieces. */
#include "plan/storage.h"

#include "plan/lifetime.h"

#include <string.h>

typedef struct storage {
    pass_unit *unit;
    const ir_graph *g;
    plan_lifetimes life;
    /* Tree: parent[v] holds v at row/column offsets; rank-1 values count columns only. */
    ir_val *parent;
    int32_t *row, *col;
    ir_val *root;   /* IR_NONE until resolved */
    uint64_t *byte; /* offset from the root's start */
    int32_t *ld;
    int32_t stamp;  /* of the last in-place question */
    ir_val *path;   /* scratch of resolve() */
    int32_t *stuck; /* by stack: its operand that kept it from being placed the last time */
    bool *hosts;    /* by value: an operand of its producer was computed in its bytes */
    bool *dense;    /* by value: a message, or holds one (alias.c): its rows follow each other */
} storage;

/* ---- the tree of addresses ---- */

/* Rows and columns are counted as the whole lies; a piece that lies otherwise has an ld already. */
static void bind_part(storage *s, const op_part *part) {
    const ir_graph *g = s->g;
    int32_t fold = pass_fold(s->unit, part->whole);
    int64_t cols = ebb__op_fold_cols(&g->values[part->whole].type, fold);
    int64_t first = part->begin * part->inner;
    s->parent[part->piece] = part->whole;
    s->row[part->piece] = (int32_t)(first / cols);
    s->col[part->piece] = (int32_t)(first % cols);
    if (pass_fold(s->unit, part->piece) != fold) {
        s->ld[part->piece] = s->unit->lays[part->piece].ld;
    }
}

static void bind_aliases(storage *s) {
    const ir_graph *g = s->g;
    for (int32_t i = 0; i < g->n_order; i++) {
        op_part part = {0};
        while (ebb__op_next_part(g, &g->nodes[g->order[i]], &part)) {
            bind_part(s, &part);
        }
    }
    for (ir_val v = 0; v < g->n_values; v++) {
        if (g->values[v].next != IR_NONE) {
            s->parent[g->values[v].next] = v;
        }
    }
}

/* ---- in place ---- */

typedef struct in_place_query {
    storage *s;
    int32_t at;      /* position of the node that asks */
    int32_t latest;  /* last position that needs the operand */
    int32_t run;     /* end of the run that asks */
    int64_t cols;    /* of the operand */
    bool read_whole; /* by another node of that run; or columns beside the operand's are */
} in_place_query;

static void ask_tile(plan_tile *tile, void *user) {
    in_place_query *q = user;
    /* Bytes that go to the result of a later node (place_stack) are read there once more. */
    bool kept = tile->handed && tile->death >= q->at;
    bool free = q->s->g->values[tile->value].role == IR_TEMP && !kept;
    int32_t death = free ? tile->death : INT32_MAX;
    q->latest = death > q->latest ? death : q->latest;
    bool beside = tile->read_run == q->run && tile->read_as == IR_NONE &&
                  ir_cols(&q->s->g->values[tile->value].type) > q->cols;
    q->read_whole = q->read_whole || tile->whole_run == q->run || beside;
}

static void set_stamp(plan_tile *tile, void *stamp) {
    tile->stamp = *(const int32_t *)stamp;
}

typedef struct stamp_query {
    int32_t stamp;
    bool found;
} stamp_query;

static void has_stamp(plan_tile *tile, void *query) {
    stamp_query *q = query;
    q->found = q->found || tile->stamp == q->stamp;
}

/* Does another operand read bytes of operand k? The same value element by element is harmless. */
static bool operand_is_shared(storage *s, const ir_node_rec *node, int32_t k) {
    ir_val x = ir_in(s->g, node, k);
    bool elementwise = (ebb__op(node->op)->flags & OPF_ELEMENTWISE) != 0;
    stamp_query query = {.stamp = ++s->stamp};
    ebb__lifetimes_visit(&s->life, x, set_stamp, &s->stamp);
    for (int32_t j = 0; j < node->n_in; j++) {
        ir_val y = ir_in(s->g, node, j);
        if (j != k && y != IR_NONE && !(y == x && elementwise)) {
            ebb__lifetimes_visit(&s->life, y, has_stamp, &query);
        }
    }
    return query.found;
}

/* May the node at position `at` write `out` over its operand k, as far as lifetimes go? */
static bool may_overwrite(storage *s, const ir_node_rec *node, int32_t k, ir_val out, int32_t at) {
    const ir_graph *g = s->g;
    ir_val x = ir_in(g, node, k);
    in_place_query q = {.s = s, .at = at, .latest = -1, .run = s->life.run_end[at]};
    if (x == IR_NONE || !ebb__op_begins_with(node, &g->values[out].type, &g->values[x].type) ||
        (s->unit->lays != NULL && (s->unit->lays[x].fixed || s->unit->lays[out].fixed))) {
        return false;
    }
    q.cols = ir_cols(&g->values[x].type);
    ebb__lifetimes_visit(&s->life, x, ask_tile, &q);
    return q.latest <= at && !q.read_whole && !operand_is_shared(s, node, k);
}

typedef struct hand_over {
    const plan_lifetimes *life;
    int32_t at;
} hand_over;

/* After an in-place step the result holds the bytes: the operand's span ends just before. */
static void hand_over_tile(plan_tile *tile, void *user) {
    const hand_over *h = user;
    if (tile->death >= h->at && h->life->birth[tile->value] < h->at) {
        tile->death = h->at - 1;
        tile->handed = true;
    }
}

static void hand_over_bytes(storage *s, ir_val x, int32_t at) {
    hand_over h = {&s->life, at};
    ebb__lifetimes_visit(&s->life, x, hand_over_tile, &h);
}

/* The root of v's tree and v's place in it. */
static ir_val find_place(const storage *s, ir_val v, int64_t *row, int64_t *col) {
    *row = *col = 0;
    while (s->parent[v] != IR_NONE) {
        *row += s->row[v];
        *col += s->col[v];
        v = s->parent[v];
    }
    return v;
}

static bool in_variable(const storage *s, ir_val v) {
    int64_t row, col;
    return s->g->values[find_place(s, v, &row, &col)].role != IR_TEMP;
}

/* The operand of v's producer that v may be written over and that lies `row` rows into `root`, the
 * first rows of which are as wide as v; -1: none. */
static int32_t find_twin(storage *s, ir_val v, ir_val root, int64_t row) {
    const ir_graph *g = s->g;
    ir_node def = g->values[v].def;
    if (def == IR_NONE) {
        return -1;
    }
    const ir_node_rec *node = &g->nodes[def];
    const op_def *op = ebb__op(node->op);
    for (int32_t p = 0; p < op->n_inplace; p++) {
        int32_t k = op->inplace[p].in;
        ir_val x = ir_in(g, node, k);
        int64_t x_row, x_col;
        if (node->out + op->inplace[p].out == v && x != IR_NONE &&
            find_place(s, x, &x_row, &x_col) == root && x_row == row && x_col == 0 &&
            may_overwrite(s, node, k, v, s->life.position[def])) {
            return k;
        }
    }
    return -1;
}

static bool operand_fits(storage *s, ir_val v, ir_val root, int64_t row) {
    return !ebb__plan_is_alias(s->g, v) && !s->hosts[v] && find_twin(s, v, root, row) >= 0;
}

/* Asks first about the operand that did not fit the last time: whoever computes an operand asks. */
static bool operands_fit(storage *s, ir_val stack, ir_val root, int64_t row) {
    const ir_graph *g = s->g;
    const ir_node_rec *node = &g->nodes[g->values[stack].def];
    int32_t stuck = s->stuck[stack];
    int64_t at = row + s->row[ir_in(g, node, stuck)];
    if (!operand_fits(s, ir_in(g, node, stuck), root, at)) {
        return false;
    }
    at = row;
    for (int32_t i = 0; i < node->n_in; i++) {
        ir_val v = ir_in(g, node, i);
        if (!operand_fits(s, v, root, at)) {
            s->stuck[stack] = i;
            return false;
        }
        at += g->values[v].type.dim[0];
    }
    return true;
}

/* A stack takes the bytes of a value of its own shape if each of its operands is computed in place
 * of just those rows: gate gradients over the gates, which lie over the input projections. */
static bool place_stack(storage *s, ir_val stack, ir_val root, int64_t row) {
    const ir_graph *g = s->g;
    if (g->values[stack].def == IR_NONE) {
        return false; /* a variable, which a value becomes the next of */
    }
    const ir_node_rec *node = &g->nodes[g->values[stack].def];
    const ir_type *type = &g->values[stack].type, *room = &g->values[root].type;
    int32_t axis;
    int64_t at = row;
    if (!ebb__op_is_join(node, &axis) || axis != 0 || type->rank != 2 || room->rank != 2 ||
        type->dim[1] != room->dim[1] || row < 0 || row + type->dim[0] > room->dim[0] ||
        s->parent[stack] != IR_NONE || g->values[root].role != IR_TEMP || g->values[stack].output ||
        g->values[root].output) {
        return false;
    }
    if (!operands_fit(s, stack, root, row)) {
        return false;
    }
    for (int32_t i = 0; i < node->n_in; i++) {
        ir_val v = ir_in(g, node, i);
        const ir_node_rec *maker = &g->nodes[g->values[v].def];
        int32_t k = find_twin(s, v, root, at);
        hand_over_bytes(s, ir_in(g, maker, k), s->life.position[g->values[v].def]);
        at += g->values[v].type.dim[0];
    }
    s->parent[stack] = root;
    s->row[stack] = (int32_t)row;
    return true;
}

/* The tree that x fills becomes the first rows of `out`, which is longer. */
static bool grow(storage *s, ir_val x, ir_val out) {
    const ir_graph *g = s->g;
    int64_t row, col;
    ir_val root = find_place(s, x, &row, &col);
    if (row != 0 || col != 0 || s->parent[out] != IR_NONE || g->values[root].role != IR_TEMP ||
        !ebb__ir_type_equal(&g->values[root].type, &g->values[x].type)) {
        return false;
    }
    s->parent[root] = out;
    s->hosts[out] = true;
    return true;
}

/* Do rows of v follow each other where it lies, so far? */
static bool is_dense(const storage *s, ir_val v) {
    int64_t row, col;
    const ir_type *type = &s->g->values[v].type;
    const ir_type *room = &s->g->values[find_place(s, v, &row, &col)].type;
    return s->parent[v] == IR_NONE ||
           (type->rank <= 2 && room->rank == type->rank && ir_cols(type) == ir_cols(room));
}

/* A message may not become columns of something wider. */
static bool splits_message(const storage *s, ir_val x, ir_val out) {
    return (s->dense[x] || s->dense[out]) && !(is_dense(s, x) && is_dense(s, out));
}

static bool try_in_place(storage *s, const ir_node_rec *node, int32_t k, ir_val out, int32_t at) {
    const ir_graph *g = s->g;
    ir_val x = ir_in(g, node, k);
    if (!may_overwrite(s, node, k, out, at) || splits_message(s, x, out)) {
        return false;
    }
    if (!ebb__ir_type_equal(&g->values[x].type, &g->values[out].type)) {
        if (!grow(s, x, out)) {
            return false;
        }
    } else if (s->parent[out] == IR_NONE) {
        if (g->values[out].output && s->parent[x] != IR_NONE) {
            return false; /* outputs are read as dense rows; x may be columns of something wider */
        }
        s->parent[out] = x;
    } else if (s->parent[x] == IR_NONE && !ebb__plan_is_alias(g, x) && !in_variable(s, out)) {
        s->parent[x] = out; /* computed where its successor has to be */
        s->hosts[out] = true;
    } else {
        int64_t x_row, x_col, row, col;
        ir_val root = find_place(s, x, &x_row, &x_col);
        if (find_place(s, out, &row, &col) == root && row == x_row && col == x_col) {
            return true; /* its stack was placed there */
        }
        return x_col == 0 && s->col[out] == 0 &&
               place_stack(s, s->parent[out], root, x_row - s->row[out]);
    }
    hand_over_bytes(s, x, at);
    return true;
}

/* Does result j lie over an operand already, because its stack was placed there? Then no other
 * operand can be computed in that place: both are read at once. */
static bool lies_over_operand(const storage *s, const ir_node_rec *node, int j) {
    const op_def *def = ebb__op(node->op);
    ir_val out = node->out + j;
    int64_t row, col, x_row, x_col;
    if (s->parent[out] == IR_NONE) {
        return false;
    }
    ir_val root = find_place(s, out, &row, &col);
    for (int32_t p = 0; p < def->n_inplace; p++) {
        ir_val x = ir_in(s->g, node, def->inplace[p].in);
        if (def->inplace[p].out == j && x != IR_NONE && find_place(s, x, &x_row, &x_col) == root &&
            x_row == row && x_col == col) {
            return true;
        }
    }
    return false;
}

static void decide_in_place(storage *s) {
    const ir_graph *g = s->g;
    for (int32_t i = 0; i < g->n_order; i++) {
        const ir_node_rec *node = &g->nodes[g->order[i]];
        const op_def *def = ebb__op(node->op);
        bool taken[IR_MAX_OUT] = {false};
        ir_val given = IR_NONE; /* operand whose bytes a result has; it may be an operand twice */
        for (int32_t p = 0; p < def->n_inplace; p++) {
            int k = def->inplace[p].in, j = def->inplace[p].out;
            ir_val out = node->out + j, x = ir_in(g, node, k);
            if (taken[j] || x == IR_NONE || x == given || s->parent[out] == x) {
                continue;
            }
            if (lies_over_operand(s, node, j)) {
                taken[j] = true;
                continue;
            }
            taken[j] = try_in_place(s, node, k, out, i);
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
        s->ld[child] = s->ld[child] > 0 ? s->ld[child] : s->ld[up];
        s->byte[child] =
            s->byte[up] +
            ((uint64_t)s->row[child] * (uint64_t)s->ld[up] + (uint64_t)s->col[child]) * size;
    }
}

static uint64_t extent_bytes(const ir_type *type, int32_t fold, int32_t ld) {
    uint64_t bytes = ebb__ir_type_bytes(type);
    uint64_t row = (uint64_t)ebb__op_fold_cols(type, fold) * ebb__ir_dtype_bytes(type->dtype);
    return (bytes / row - 1) * (uint64_t)ld * ebb__ir_dtype_bytes(type->dtype) + row;
}

typedef struct collector {
    storage *s;
    plan_placement *out;
    int32_t *by_root;        /* block by root value */
    bool *holds_gradient;    /* by block */
    int32_t *first_backward; /* by shard: position */
} collector;

static int32_t block_of(collector *c, ir_val root) {
    const ir_graph *g = c->s->g;
    if (c->by_root[root] == -1) {
        const ir_value *value = &g->values[root];
        c->by_root[root] = c->out->n_blocks;
        c->out->blocks[c->out->n_blocks++] =
            (plan_block){.variable = value->role == IR_TEMP ? (ir_val)IR_NONE : root,
                         .away = ebb__plan_is_away(g, root),
                         .bytes = ebb__ir_type_bytes(&value->type)};
    }
    return c->by_root[root];
}

static void add_piece(collector *c, plan_piece piece) {
    plan_placement *out = c->out;
    plan_block *block = &out->blocks[piece.block];
    if (block->variable != IR_NONE) { /* its own bytes and its next value are one */
        piece.kind = plan_kind_of_role(c->s->g->values[block->variable].role);
    } else if (c->holds_gradient[piece.block] && piece.kind == IR_WORKSPACE) {
        piece.kind = IR_GRADIENTS;
    }
    out->pieces[block->first + block->n++] = piece;
}

/* One piece for each tile of v. */
static void add_pieces(collector *c, ir_val v, int32_t block) {
    storage *s = c->s;
    const ir_value *value = &s->g->values[v];
    bool forward = value->def != IR_NONE && s->g->nodes[value->def].label.phase == IR_FORWARD;
    uint64_t size = ebb__ir_dtype_bytes(value->type.dtype);
    for (int32_t t = s->life.first_tile[v]; t < s->life.first_tile[v + 1]; t++) {
        const plan_tile *tile = &s->life.tiles[t];
        ir_type type = value->type;
        int32_t fold = pass_fold(s->unit, v);
        uint64_t step =
            (uint64_t)ebb__op_fold_cols(&type, 1); /* from row to row of the first axis */
        step =
            fold == 0 ? step : step / (uint64_t)ebb__op_fold_cols(&type, fold) * (uint64_t)s->ld[v];
        uint64_t lo = s->byte[v] + (uint64_t)tile->row * step * size;
        type.dim[0] = tile->rows;
        bool stash =
            forward && tile->death >= c->first_backward[s->g->nodes[value->def].label.shard];
        add_piece(c, (plan_piece){.block = block,
                                  .value = v,
                                  .node = value->def,
                                  .lo = lo,
                                  .hi = lo + extent_bytes(&type, fold, s->ld[v]),
                                  .own = ebb__ir_type_bytes(&type),
                                  .birth = s->life.birth[v],
                                  .death = tile->death,
                                  .kind = stash ? IR_STASH : IR_WORKSPACE});
    }
}

/* Where v lies, and how many pieces that makes. */
static void collect_value(collector *c, ir_val v) {
    storage *s = c->s;
    resolve(s, v);
    int32_t block = block_of(c, s->root[v]);
    c->out->block[v] = block;
    c->out->offset[v] = s->byte[v];
    c->out->ld[v] = s->ld[v];
    c->holds_gradient[block] = c->holds_gradient[block] || s->g->values[v].param_grad;
    if (!ebb__plan_is_alias(s->g, v)) {
        c->out->blocks[block].n += s->life.first_tile[v + 1] - s->life.first_tile[v];
    }
}

static void collect_scratch(collector *c, ir_node n) {
    size_t bytes = c->s->unit->workspace[n];
    if (bytes > 0) {
        c->out->scratch[n] = c->out->n_blocks;
        c->out->blocks[c->out->n_blocks++] =
            (plan_block){.variable = IR_NONE, .bytes = bytes, .n = 1};
    }
}

static void add_scratch(collector *c, ir_node n) {
    uint64_t bytes = c->s->unit->workspace[n];
    if (bytes > 0) {
        int32_t position = c->s->life.position[n];
        add_piece(c, (plan_piece){.block = c->out->scratch[n],
                                  .value = IR_NONE,
                                  .node = n,
                                  .hi = bytes,
                                  .own = bytes,
                                  .birth = position,
                                  .death = c->s->life.run_end[position],
                                  .kind = IR_WORKSPACE});
    }
}

/* Blocks know by now how many pieces they have: each gets its part of the array, and fills it. */
static ebb_status group_pieces(collector *c) {
    const ir_graph *g = c->s->g;
    plan_placement *out = c->out;
    for (int32_t b = 0; b < out->n_blocks; b++) {
        out->blocks[b].first = out->n_pieces;
        out->n_pieces += out->blocks[b].n;
        out->blocks[b].n = 0;
    }
    TRY(REGION_ARRAYS(&c->s->unit->region, ARRAY(out->pieces, (size_t)out->n_pieces + 1)));
    for (ir_val v = 0; v < g->n_values; v++) {
        if (out->block[v] >= 0 && !ebb__plan_is_alias(g, v)) {
            add_pieces(c, v, out->block[v]);
        }
    }
    for (int32_t i = 0; i < g->n_order; i++) {
        add_scratch(c, g->order[i]);
    }
    return EBB_OK;
}

static ebb_status collect(storage *s, plan_placement *out) {
    const ir_graph *g = s->g;
    alloc_region *region = &s->unit->region, *scratch = &s->unit->scratch;
    collector c = {.s = s, .out = out};
    size_t nv = (size_t)g->n_values,
           most = (size_t)s->life.first_tile[g->n_values] + (size_t)g->n_nodes;
    *out = (plan_placement){.n_values = g->n_values, .n_positions = g->n_order};
    TRY(REGION_ARRAYS(region, ARRAY_NONE(out->block, nv + 1), ARRAY(out->offset, nv + 1),
                      ARRAY(out->ld, nv + 1), ARRAY_NONE(out->scratch, (size_t)g->n_nodes + 1),
                      ARRAY(out->blocks, most + 1)));
    TRY(REGION_ARRAYS(scratch, ARRAY_NONE(c.by_root, nv + 1), ARRAY(c.holds_gradient, most + 1),
                      ARRAY(c.first_backward, IR_MAX_SHARDS)));
    memset(c.first_backward, 0x7f, IR_MAX_SHARDS * sizeof *c.first_backward);
    for (int32_t i = g->n_order - 1; i >= 0; i--) {
        const ir_label *label = &g->nodes[g->order[i]].label;
        if (label->phase == IR_BACKWARD) {
            c.first_backward[label->shard] = i;
        }
    }
    for (ir_val v = 0; v < g->n_values; v++) {
        if (s->life.birth[v] >= 0) {
            collect_value(&c, v);
        }
    }
    for (int32_t i = 0; i < g->n_order; i++) {
        collect_scratch(&c, g->order[i]);
    }
    return group_pieces(&c);
}

/* Everything but blocks and pieces. */
static ebb_status decide(pass_unit *unit, storage *out) {
    const ir_graph *g = &unit->graph;
    alloc_region *region = &unit->scratch;
    storage s = {.unit = unit, .g = g};
    size_t nv = (size_t)g->n_values + 1;
    TRY(REGION_ARRAYS(region, ARRAY_NONE(s.parent, nv), ARRAY(s.row, nv), ARRAY(s.col, nv),
                      ARRAY_NONE(s.root, nv), ARRAY(s.byte, nv), ARRAY(s.ld, nv), ARRAY(s.path, nv),
                      ARRAY(s.stuck, nv), ARRAY(s.hosts, nv), ARRAY(s.dense, nv)));
    TRY(ebb__lifetimes_find(unit, &s.life));
    bind_aliases(&s);
    ebb__pass_mark_messages(g, s.dense);
    decide_in_place(&s);
    ebb__lifetimes_extend_runs(&s.life);
    *out = s;
    return EBB_OK;
}

ebb_status ebb__plan_storage(pass_unit *unit, plan_placement *out) {
    storage s;
    TRY(decide(unit, &s));
    TRY(collect(&s, out));
    ebb__region_fini(&unit->scratch);
    return EBB_OK;
}

ebb_status ebb__plan_storage_load(pass_unit *unit, plan_peak *out) {
    const ir_graph *g = &unit->graph;
    storage s;
    int64_t *change = NULL;
    TRY(decide(unit, &s));
    TRY(ebb__region_alloc(&unit->scratch, (size_t)g->n_order + 2, sizeof *change, &change));
    for (ir_val v = 0; v < g->n_values; v++) {
        if (s.life.birth[v] < 0 || ebb__plan_is_alias(g, v) || ebb__plan_is_away(g, v)) {
            continue;
        }
        resolve(&s, v);
        if (g->values[s.root[v]].role != IR_TEMP) {
            continue;
        }
        uint64_t row = ebb__ir_type_bytes(&g->values[v].type) / (uint64_t)g->values[v].type.dim[0];
        for (int32_t t = s.life.first_tile[v]; t < s.life.first_tile[v + 1]; t++) {
            int64_t own = (int64_t)row * s.life.tiles[t].rows;
            change[s.life.birth[v]] += own;
            change[s.life.tiles[t].death + 1] -= own;
        }
    }
    for (int32_t i = 0; i < g->n_order; i++) {
        change[i] += (int64_t)unit->workspace[g->order[i]];
        change[s.life.run_end[i] + 1] -= (int64_t)unit->workspace[g->order[i]];
    }
    *out = ebb__plan_peak(change, g->n_order);
    return EBB_OK;
}

plan_peak ebb__plan_peak(const int64_t *change, int32_t n_positions) {
    plan_peak peak = {0, 0};
    int64_t alive = 0;
    for (int32_t t = 0; t < n_positions; t++) {
        alive += change[t];
        if (alive > (int64_t)peak.bytes) {
            peak = (plan_peak){(uint64_t)alive, t};
        }
    }
    return peak;
}
