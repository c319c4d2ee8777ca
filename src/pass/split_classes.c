/* split_classes.c - the pass `split`: where stages share the layers, the output layer is parted by
 * its classes, and every stage has a part: weights, bias, gradients, optimiser's state.
 *
 * The logits of a class need no others. The largest of a row is the same in any order; the sums of
 * xent go from part to part in the order of classes (op/loss_part.c), and so does the gradient of
 * what the layer reads, since a product continues from c. Blocks of squares that lie in two parts
 * are summed up likewise. So no bit changes.
 *
 * A value that has the classes along an axis is replaced by its parts; rows go in chunks, those of
 * the time steps that stages hand on together, so that a stage can do its part of one while others
 * are on their way. All ranks make the nodes of all parts; which rank does a part follows from its
 * layer (cut.c). One part of all classes is the output layer as it was, by chunks of rows. */
#include "op/pack.h"
#include "op/squares.h"
#include "pass/classes.h"

#include <stdio.h>
#include <string.h>

enum {
    MOST_ROWS = 512,  /* of a chunk, where there is no time */
    LEAST_CHUNKS = 8, /* of time steps: then two are one, since each reads all weights */
    KEY_STEP = 2
};

/* Rows [begin, begin + len), and the last time step that has any of them; -1: none. */
typedef struct row_chunk {
    int32_t begin, len, at;
} row_chunk;

/* A value in pieces. */
typedef struct pieces {
    ir_val *at;   /* [parts][chunks]; of what is not parted, one part */
    int32_t rows; /* number of the list of chunks; -1: it is one */
    bool parted;  /* by classes */
} pieces;

typedef struct row_list {
    row_chunk *chunks;
    int32_t n;
    ir_val hs;       /* what the layer reads, [rows,H] */
    ir_val *hs_rows; /* by chunk */
} row_list;

typedef struct splitter {
    pass_unit *unit;
    ir_graph *g;
    alloc_region *region;
    int32_t n;                      /* parts */
    int32_t stage[PASS_MOST_RANKS]; /* by part, as the next */
    int32_t first[PASS_MOST_RANKS], count[PASS_MOST_RANKS], layer[PASS_MOST_RANKS];
    int32_t classes;
    pieces *in;     /* by value: its pieces; at NULL: it is whole */
    ir_val *now;    /* by value: what stands for it */
    row_list *rows; /* one a loss */
    int32_t n_rows;
    int32_t n_values; /* before */
    int64_t *keys;
    size_t cap_keys;
} splitter;

/* ---- pieces ---- */

static int32_t chunks_of(const splitter *s, const pieces *p) {
    return p->rows < 0 ? 1 : s->rows[p->rows].n;
}

static ebb_status new_pieces(splitter *s, ir_val v, bool parted, int32_t rows, pieces **out) {
    pieces *p = &s->in[v];
    *p = (pieces){.rows = rows, .parted = parted};
    *out = p;
    return ebb__region_alloc(s->region, (size_t)(parted ? s->n : 1) * (size_t)chunks_of(s, p),
                             sizeof *p->at, &p->at);
}

static ir_val *piece(const splitter *s, const pieces *p, int32_t part, int32_t chunk) {
    return &p->at[part * chunks_of(s, p) + chunk];
}

static bool is_parted(const splitter *s, ir_val v) {
    return v != IR_NONE && v < s->n_values && s->in[v].at != NULL && s->in[v].parted;
}

static bool is_chunked(const splitter *s, ir_val v) {
    return v != IR_NONE && v < s->n_values && s->in[v].at != NULL && s->in[v].rows >= 0;
}

/* What is emitted next belongs to part k and a chunk of rows. */
static void label_part(splitter *s, const ir_node_rec *node, int32_t k, const row_chunk *chunk) {
    s->g->label = node->label;
    s->g->label.layer = s->layer[k];
    s->g->label.at = chunk != NULL ? chunk->at : node->label.at;
}

/* ---- variables ---- */

/* A stage's rank has its part by the name of the whole. */
static ebb_status part_variable(splitter *s, ir_val v) {
    ir_graph *g = s->g;
    const pass_ranks *ranks = &s->unit->config->ranks;
    pieces *p = NULL;
    TRY(new_pieces(s, v, true, -1, &p));
    for (int32_t k = 0; k < s->n; k++) {
        const ir_value whole = g->values[v];
        ir_type type = whole.type;
        char name[64];
        type.dim[0] = s->count[k];
        (void)snprintf(name, sizeof name, "classes from %d of value %d", s->first[k], v);
        TRY(ebb__ir_add_variable(g, whole.role, name, &type, &p->at[k]));
        ir_value *part = &g->values[p->at[k]];
        part->name = s->stage[k] == ranks->rank % ranks->stages ? whole.name : part->name;
        part->start = whole.start;
        part->layer = s->layer[k];
        part->first_row = s->first[k];
        part->all_rows = s->classes;
    }
    g->values[v].role = IR_TEMP;
    g->values[v].next = IR_NONE;
    return EBB_OK;
}

/* ---- chunks of rows ---- */

/* The time step that a part of a join belongs to; -1: none. */
static int32_t time_of(const ir_graph *g, ir_val v) {
    ir_node def = g->values[v].def;
    return def == IR_NONE ? -1 : g->nodes[def].label.at;
}

static const ir_node_rec *join_of(const ir_graph *g, ir_val v) {
    ir_node def = g->values[v].def;
    int32_t axis;
    bool join = def != IR_NONE && ebb__op_is_join(&g->nodes[def], &axis) && axis == 0;
    return join ? &g->nodes[def] : NULL;
}

/* One after the other as hs has them: by time, where stages go through that in chunks. */
static ebb_status cut_by_time(splitter *s, row_list *list, const ir_node_rec *steps) {
    const ir_graph *g = s->g;
    int32_t span = pass_chunk_steps(&s->unit->config->ranks), now = -1, row = 0;
    span *= steps->n_in / span >= LEAST_CHUNKS ? 2 : 1;
    TRY(ebb__region_alloc(s->region, (size_t)steps->n_in, sizeof *list->chunks, &list->chunks));
    for (int32_t k = 0; k < steps->n_in; k++) {
        int32_t rows = op_in_type(g, steps, k)->dim[0], at = time_of(g, ir_in(g, steps, k));
        if (k == 0 || at / span != now) {
            list->chunks[list->n++] = (row_chunk){row, 0, at};
            now = at / span;
        }
        row_chunk *last = &list->chunks[list->n - 1];
        last->len += rows;
        last->at = at > last->at ? at : last->at;
        row += rows;
    }
    return EBB_OK;
}

static ebb_status cut_by_rows(splitter *s, row_list *list) {
    int32_t rows = s->g->values[list->hs].type.dim[0], n = (rows - 1) / MOST_ROWS + 1;
    int32_t grain = s->unit->dev->row_grain, most = ((rows - 1) / n / grain + 1) * grain;
    TRY(ebb__region_alloc(s->region, (size_t)n + 1, sizeof *list->chunks, &list->chunks));
    for (int32_t begin = 0; begin < rows; begin += most) {
        int32_t len = rows - begin < most ? rows - begin : most;
        list->chunks[list->n++] = (row_chunk){begin, len, -1};
    }
    return EBB_OK;
}

static ebb_status cut_rows(splitter *s, ir_val hs, int32_t *out) {
    row_list *list = &s->rows[s->n_rows];
    const ir_node_rec *steps = join_of(s->g, hs);
    bool time = steps != NULL && pass_chunk_steps(&s->unit->config->ranks) > 0;
    for (int32_t k = 0; time && k < steps->n_in; k++) {
        time = time_of(s->g, ir_in(s->g, steps, k)) >= 0;
    }
    *list = (row_list){.hs = hs};
    *out = s->n_rows++;
    TRY(time ? cut_by_time(s, list, steps) : cut_by_rows(s, list));
    TRY(ebb__region_alloc(s->region, (size_t)list->n, sizeof *list->hs_rows, &list->hs_rows));
    for (int32_t j = 0; j < list->n; j++) {
        list->hs_rows[j] = IR_NONE;
    }
    return EBB_OK;
}

/* Whole parts of a join that are these rows: *first and how many; 0: they are not. */
static int32_t parts_of_join(const ir_graph *g, const ir_node_rec *join, const row_chunk *c,
                             int32_t *first) {
    int32_t at = 0, n = 0, end = c->begin + c->len;
    for (int32_t k = 0; k < join->n_in && at < end; k++) {
        *first = at == c->begin ? k : *first;
        n += at >= c->begin;
        at += op_in_type(g, join, k)->dim[0];
    }
    return n > 0 && at == end && *first >= 0 ? n : 0;
}

/* Rows of v, made where v's own are, so that they travel as one. */
static ebb_status take_rows(splitter *s, ir_val v, const row_chunk *c, ir_val *out) {
    ir_graph *g = s->g;
    const ir_node_rec *join = join_of(g, v);
    int32_t first = -1, n = join == NULL ? 0 : parts_of_join(g, join, c, &first);
    if (n == 0) {
        return ebb__op_slice(g, v, 0, c->begin, c->len, out);
    }
    ir_val *list = NULL;
    TRY(ebb__region_alloc(s->region, (size_t)n, sizeof *list, &list));
    for (int32_t k = 0; k < n; k++) {
        list[k] = ir_in(g, join, first + k);
    }
    ir_node def = g->values[list[0]].def;
    g->label.layer = def == IR_NONE ? g->label.layer : g->nodes[def].label.layer;
    g->label.at = c->at;
    return ebb__op_join(g, 0, list, n, out);
}

/* Rows of what the layer reads; the same value, or one made of it, in backward. */
static ebb_status rows_of_input(splitter *s, int32_t rows, ir_val hs, int32_t j, ir_val *out) {
    row_list *list = &s->rows[rows];
    if (hs == list->hs && list->hs_rows[j] != IR_NONE) {
        *out = list->hs_rows[j];
        return EBB_OK;
    }
    TRY(take_rows(s, hs, &list->chunks[j], out));
    if (hs == list->hs) {
        list->hs_rows[j] = *out;
    }
    return EBB_OK;
}

/* ---- nodes, one kind each; `node` is a copy ---- */

/* logits = bias + hs weight^T */
static ebb_status split_logits(splitter *s, const ir_node_rec *node) {
    ir_graph *g = s->g;
    ir_val bias = ir_in(g, node, 0), hs = ir_in(g, node, 1), weight = ir_in(g, node, 2);
    int32_t rows;
    pieces *out = NULL;
    TRY(cut_rows(s, hs, &rows));
    TRY(new_pieces(s, node->out, true, rows, &out));
    for (int32_t j = s->rows[rows].n - 1; j >= 0; j--) { /* in the order of time */
        ir_val part;
        g->label = node->label;
        TRY(rows_of_input(s, rows, hs, j, &part));
        for (int32_t k = 0; k < s->n; k++) {
            ir_val in[] = {bias == IR_NONE ? bias : s->in[bias].at[k], part, s->in[weight].at[k]};
            label_part(s, node, k, &s->rows[rows].chunks[j]);
            TRY(ebb__op_emit(g, OP_MATMUL, in, 3, &node->attr, piece(s, out, k, j)));
        }
    }
    return EBB_OK;
}

static ebb_status loss_of_chunk(splitter *s, const ir_node_rec *node, const pieces *logits,
                                int32_t j, ir_val *out) {
    ir_graph *g = s->g;
    const row_chunk *chunk = &s->rows[logits->rows].chunks[j];
    ir_val tops[PASS_MOST_RANKS], top, labels, sums = IR_NONE;
    for (int32_t k = 0; k < s->n; k++) {
        label_part(s, node, k, chunk);
        TRY(ebb__op_emit(g, OP_ROW_MAX, piece(s, logits, k, j), 1, NULL, &tops[k]));
    }
    for (int32_t k = 0; k < s->n; k++) {
        ir_attr attr = {.i = {s->first[k]}, .f = {node->attr.f[0]}};
        label_part(s, node, k, chunk);
        TRY(ebb__op_slice(g, ir_in(g, node, 1), 0, chunk->begin, chunk->len, &labels));
        TRY(ebb__op_join(g, 0, tops, s->n, &top));
        ir_val in[] = {sums, *piece(s, logits, k, j), labels, top};
        TRY(ebb__op_emit(g, OP_XENT_PART, in, 4, &attr, &sums));
    }
    ir_attr attr = {.i = {s->classes}, .f = {node->attr.f[0]}};
    return ebb__op_emit(g, OP_XENT_END, (ir_val[]){sums, labels, top}, 3, &attr, out);
}

static ebb_status split_loss(splitter *s, const ir_node_rec *node) {
    ir_graph *g = s->g;
    const pieces logits = s->in[ir_in(g, node, 0)];
    pieces *lse = NULL;
    ir_val *losses = NULL;
    int32_t n = chunks_of(s, &logits);
    TRY(new_pieces(s, node->out + 1, false, logits.rows, &lse));
    TRY(ebb__region_alloc(s->region, (size_t)n, sizeof *losses, &losses));
    for (int32_t j = n - 1; j >= 0; j--) {
        ir_val out[2];
        TRY(loss_of_chunk(s, node, &logits, j, out));
        losses[j] = out[0];
        *piece(s, lse, 0, j) = out[1];
    }
    g->label = node->label;
    g->label.layer = s->layer[s->n - 1];
    return ebb__op_join(g, 0, losses, n, &s->now[node->out]);
}

static ebb_status split_loss_grad(splitter *s, const ir_node_rec *node) {
    ir_graph *g = s->g;
    const pieces logits = s->in[ir_in(g, node, 0)], lse = s->in[ir_in(g, node, 2)];
    pieces *out = NULL;
    TRY(new_pieces(s, node->out, true, logits.rows, &out));
    for (int32_t j = 0; j < chunks_of(s, &logits); j++) {
        const row_chunk *chunk = &s->rows[logits.rows].chunks[j];
        for (int32_t k = 0; k < s->n; k++) {
            ir_attr attr = {.i = {s->first[k], s->classes}, .f = {node->attr.f[0]}};
            ir_val in[] = {*piece(s, &logits, k, j), IR_NONE, *piece(s, &lse, 0, j), IR_NONE};
            label_part(s, node, k, chunk);
            for (int32_t i = 1; i < 4; i += 2) {
                TRY(ebb__op_slice(g, ir_in(g, node, i), 0, chunk->begin, chunk->len, &in[i]));
            }
            TRY(ebb__op_emit(g, OP_XENT_GRAD, in, 4, &attr, piece(s, out, k, j)));
        }
    }
    return EBB_OK;
}

/* dhs = c + dlogits weight: a chain over all classes, which parts continue. */
static ebb_status split_input_grad(splitter *s, const ir_node_rec *node) {
    ir_graph *g = s->g;
    const pieces d = s->in[ir_in(g, node, 1)], weight = s->in[ir_in(g, node, 2)];
    pieces *out = NULL;
    TRY(new_pieces(s, node->out, false, d.rows, &out));
    for (int32_t j = 0; j < chunks_of(s, &d); j++) {
        const row_chunk *chunk = &s->rows[d.rows].chunks[j];
        ir_val sum = ir_in(g, node, 0);
        label_part(s, node, 0, chunk);
        TRY(sum == IR_NONE ? EBB_OK : ebb__op_slice(g, sum, 0, chunk->begin, chunk->len, &sum));
        for (int32_t k = 0; k < s->n; k++) {
            ir_val in[] = {sum, *piece(s, &d, k, j), weight.at[k]};
            label_part(s, node, k, chunk);
            TRY(ebb__op_emit(g, OP_MATMUL, in, 3, &node->attr, &sum));
        }
        *piece(s, out, 0, j) = sum;
    }
    return EBB_OK;
}

/* The gradients of weight and bias: sums over rows, from chunk to chunk in the order of rows. hs:
 * what the products read beside dlogits; IR_NONE: they are sums of rows. */
static ebb_status split_weight_grad(splitter *s, const ir_node_rec *node, ir_val dlogits,
                                    ir_val hs) {
    ir_graph *g = s->g;
    const pieces d = s->in[dlogits];
    const bool marked = g->values[node->out].param_grad;
    pieces *out = NULL;
    TRY(new_pieces(s, node->out, true, -1, &out));
    for (int32_t j = 0; j < chunks_of(s, &d); j++) {
        ir_val rows = IR_NONE;
        g->label = node->label;
        TRY(hs == IR_NONE ? EBB_OK : rows_of_input(s, d.rows, hs, j, &rows));
        for (int32_t k = 0; k < s->n; k++) {
            ir_val in[] = {j == 0 ? (ir_val)IR_NONE : out->at[k], *piece(s, &d, k, j), rows};
            label_part(s, node, k, &s->rows[d.rows].chunks[j]);
            TRY(ebb__op_emit(g, (op_code)node->op, in, node->n_in, &node->attr, &out->at[k]));
            g->values[out->at[k]].param_grad = marked;
        }
    }
    return EBB_OK;
}

/* Sums of gradients of shards, and views of parameters: the same of each part. */
static ebb_status split_alike(splitter *s, const ir_node_rec *node) {
    ir_graph *g = s->g;
    pieces *out = NULL;
    TRY(new_pieces(s, node->out, true, -1, &out));
    for (int32_t k = 0; k < s->n; k++) {
        ir_val in[2] = {IR_NONE, IR_NONE};
        for (int32_t i = 0; i < node->n_in; i++) {
            in[i] = s->in[ir_in(g, node, i)].at[k];
        }
        g->label = node->label;
        g->label.layer = s->layer[k];
        if (node->op == OP_ADD) {
            TRY(ebb__op_emit(g, OP_ADD, in, 2, NULL, &out->at[k]));
            g->values[out->at[k]].param_grad = g->values[node->out].param_grad;
        } else {
            TRY(ebb__op_slice_all(g, in[0], &out->at[k]));
        }
    }
    return EBB_OK;
}

/* The list of all blocks of squares: those that end in a part come from it. */
static ebb_status split_squares(splitter *s, const ir_node_rec *node) {
    ir_graph *g = s->g;
    const ir_val x = ir_in(g, node, 0);
    const ir_type *type = &g->values[x].type;
    int64_t cols = type->rank == 1 ? 1 : type->dim[1], done = 0;
    ir_val list[PASS_MOST_RANKS], out[2] = {IR_NONE, IR_NONE};
    int32_t n = 0;
    for (int32_t k = 0; k < s->n; k++) {
        int64_t end = (s->first[k] + s->count[k]) * cols, first = s->first[k] * cols;
        int64_t ended = k + 1 == s->n ? squares_blocks(end) : end / SQUARES_BLOCK;
        ir_attr attr = {.i = {(int32_t)(first % SQUARES_BLOCK)}};
        ir_val in[] = {first % SQUARES_BLOCK == 0 ? (ir_val)IR_NONE : out[1], s->in[x].at[k]};
        g->label = node->label;
        g->label.layer = s->layer[k];
        TRY(ebb__op_emit(g, OP_SUM_SQUARES_PART, in, 2, &attr, out));
        if (ended > done) {
            TRY(ebb__op_slice(g, out[0], 0, 0, (int32_t)(ended - done), &list[n++]));
        }
        done = ended;
    }
    g->label = node->label;
    return ebb__op_join(g, 0, list, n, &s->now[node->out]);
}

static int32_t slots_of(const ir_node_rec *node) {
    bool none = node->op == OP_SGD || node->op == OP_AVERAGE;
    return none ? 0 : node->op == OP_SGD_MOMENTUM ? 1 : 2;
}

/* What is updated, operand 0 in parts, with its state. The average of a parameter, which reads what
 * that will be, is updated likewise. */
static ebb_status split_update(splitter *s, const ir_node_rec *node) {
    ir_graph *g = s->g;
    int32_t slots = slots_of(node);
    pieces *next = NULL;
    TRY(new_pieces(s, node->out, true, -1, &next));
    for (int32_t i = 0; i < slots; i++) {
        TRY(part_variable(s, ir_in(g, node, 2 + i)));
    }
    for (int32_t k = 0; k < s->n; k++) {
        ir_val in[6], out[IR_MAX_OUT];
        for (int32_t i = 0; i < node->n_in; i++) {
            ir_val v = ir_in(g, node, i);
            in[i] = is_parted(s, v) ? s->in[v].at[k] : v;
        }
        label_part(s, node, k, NULL);
        TRY(ebb__op_emit(g, (op_code)node->op, in, node->n_in, &node->attr, out));
        g->values[in[0]].next = next->at[k] = out[0];
        for (int32_t i = 0; i < slots; i++) {
            g->values[in[2 + i]].next = out[1 + i];
        }
    }
    return EBB_OK;
}

/* Rows of what is there in chunks, as those of a time step are, from the chunk that has them. */
static ebb_status slice_chunk(splitter *s, const ir_node_rec *node, op_range range, bool *done) {
    const pieces *p = &s->in[ir_in(s->g, node, 0)];
    *done = false;
    for (int32_t j = 0; !*done && range.axis == 0 && j < chunks_of(s, p); j++) {
        const row_chunk *c = &s->rows[p->rows].chunks[j];
        if (range.begin >= c->begin && range.begin + range.len <= c->begin + c->len) {
            s->g->label = node->label;
            TRY(ebb__op_slice(s->g, *piece(s, p, 0, j), 0, range.begin - c->begin, range.len,
                              &s->now[node->out]));
            *done = true;
        }
    }
    return EBB_OK;
}

/* Whoever else reads what is in pieces gets all of it: classes lie along the first axis, or along
 * the second of what has rows. */
static ebb_status put_together(splitter *s, const ir_node_rec *node, ir_val v) {
    ir_graph *g = s->g;
    const pieces *p = &s->in[v];
    int32_t n = chunks_of(s, p), parts = p->parted ? s->n : 1;
    ir_val *rows = NULL, list[PASS_MOST_RANKS];
    TRY(ebb__region_alloc(s->region, (size_t)n, sizeof *rows, &rows));
    g->label = node->label;
    for (int32_t j = 0; j < n; j++) {
        for (int32_t k = 0; k < parts; k++) {
            list[k] = *piece(s, p, k, j);
        }
        TRY(ebb__op_join(g, p->rows >= 0 && p->parted ? 1 : 0, list, parts, &rows[j]));
    }
    return ebb__op_join(g, 0, rows, n, &s->now[v]);
}

static ebb_status put_operands_together(splitter *s, const ir_node_rec *node) {
    for (int32_t i = 0; i < node->n_in; i++) {
        ir_val v = ir_in(s->g, node, i);
        bool there = (is_parted(s, v) || is_chunked(s, v)) && s->now[v] == v;
        TRY(there ? put_together(s, node, v) : EBB_OK);
    }
    return EBB_OK;
}

/* ---- the walk ---- */

static bool reads_pieces(const splitter *s, const ir_node_rec *node) {
    bool reads = false;
    for (int32_t i = 0; i < node->n_in; i++) {
        reads = reads || is_parted(s, ir_in(s->g, node, i)) || is_chunked(s, ir_in(s->g, node, i));
    }
    return reads;
}

static ebb_status split_product(splitter *s, const ir_node_rec *node) {
    const ir_graph *g = s->g;
    ir_val c = ir_in(g, node, 0), a = ir_in(g, node, 1), b = ir_in(g, node, 2);
    bool ta = node->attr.i[MATMUL_TRANS_A] != 0, tb = node->attr.i[MATMUL_TRANS_B] != 0;
    if (!ta && tb && !is_parted(s, a) && is_parted(s, b) && (c == IR_NONE || is_parted(s, c))) {
        return split_logits(s, node);
    }
    if (!ta && !tb && is_chunked(s, a) && is_parted(s, a) && is_parted(s, b) && !is_parted(s, c)) {
        return split_input_grad(s, node);
    }
    if (ta && !tb && is_chunked(s, a) && is_parted(s, a) && !is_parted(s, b) && c == IR_NONE) {
        return split_weight_grad(s, node, a, b);
    }
    return put_operands_together(s, node);
}

static ebb_status visit(splitter *s, const ir_node_rec *node) {
    const ir_graph *g = s->g;
    ir_val first = ir_in(g, node, 0);
    op_range range;
    bool done = false;
    switch ((op_code)node->op) {
    case OP_MATMUL:
        return split_product(s, node);
    case OP_XENT:
        return split_loss(s, node);
    case OP_XENT_GRAD:
        return split_loss_grad(s, node);
    case OP_SUM_ROWS:
        if (first == IR_NONE && is_chunked(s, ir_in(g, node, 1))) {
            return split_weight_grad(s, node, ir_in(g, node, 1), IR_NONE);
        }
        break;
    case OP_ADD:
        if (is_parted(s, first) && is_parted(s, ir_in(g, node, 1)) && !is_chunked(s, first)) {
            return split_alike(s, node);
        }
        break;
    case OP_SUM_SQUARES:
        if (is_parted(s, first) && !is_chunked(s, first)) {
            return split_squares(s, node);
        }
        break;
    case OP_AVERAGE:
        TRY(part_variable(s, first));
        return split_update(s, node);
    case OP_SGD:
    case OP_SGD_MOMENTUM:
    case OP_ADAM:
        return split_update(s, node);
    default:
        break;
    }
    if (ebb__op_is_slice(node, &range) && is_parted(s, first) && !is_chunked(s, first) &&
        range.len == g->values[first].type.dim[range.axis]) {
        return split_alike(s, node);
    }
    if (ebb__op_is_slice(node, &range) && is_chunked(s, first) && !is_parted(s, first)) {
        TRY(slice_chunk(s, node, range, &done));
    }
    return done ? EBB_OK : put_operands_together(s, node);
}

static ebb_status walk(splitter *s) {
    ir_graph *g = s->g;
    int32_t n_order = g->n_order;
    for (int32_t i = 0; i < n_order; i++) {
        ir_node made = g->n_nodes, n = g->order[i];
        const ir_node_rec node = g->nodes[n];
        if (reads_pieces(s, &node)) {
            int64_t key = s->keys[n] - 1; /* before the node, which may be one that stays */
            TRY(visit(s, &node));
            TRY(ebb__pass_set_keys(g, s->region, &s->keys, &s->cap_keys, made, key));
        }
    }
    return EBB_OK;
}

/* ---- the whole ---- */

/* The variable that a value is, or is a view of. */
static ir_val variable_of(const ir_graph *g, ir_val v) {
    op_range range;
    while (v != IR_NONE && g->values[v].def != IR_NONE &&
           ebb__op_is_slice(&g->nodes[g->values[v].def], &range)) {
        v = ir_in(g, &g->nodes[g->values[v].def], 0);
    }
    return v;
}

/* Of the graph as it is by now, with shards and gradients; false: there is none. */
static bool find_output(const splitter *s, classes_output *out) {
    const ir_graph *g = s->g;
    bool found = false;
    for (int32_t i = 0; i < g->n_order && !found; i++) {
        const ir_node_rec *node = &g->nodes[g->order[i]];
        ir_val logits = node->op == OP_XENT ? ir_in(g, node, 0) : (ir_val)IR_NONE;
        ir_node def = logits == IR_NONE ? (ir_node)IR_NONE : g->values[logits].def;
        if (def != IR_NONE && g->nodes[def].op == OP_MATMUL) {
            const ir_node_rec *product = &g->nodes[def];
            *out = (classes_output){variable_of(g, ir_in(g, product, 2)),
                                    variable_of(g, ir_in(g, product, 0)), product->label.layer};
            found = g->values[out->weight].role == IR_PARAM;
        }
    }
    return found;
}

static ebb_status number_parts(splitter *s, const classes_output *output) {
    const pass_ranks *ranks = &s->unit->config->ranks;
    int32_t at = 0;
    s->classes = s->g->values[output->weight].type.dim[0];
    for (int32_t i = 0; i < ranks->n_layers; i++) {
        const pass_stage *part = &ranks->layers[i];
        if (part->end > at) {
            s->stage[s->n] = part->stage;
            s->first[s->n] = at;
            s->count[s->n] = part->end - at;
            TRY(ebb__ir_layer(s->g, part->layer, &s->layer[s->n]));
            s->n++;
            at = part->end;
        }
    }
    return at == s->classes
               ? EBB_OK
               : ebb__fail(s->unit->ctx, EBB_INTERNAL, "split: %d classes were shared out, not %d",
                           at, s->classes);
}

static ebb_status split(splitter *s, const classes_output *output) {
    ir_graph *g = s->g;
    size_t losses = 1;
    for (int32_t i = 0; i < g->n_order; i++) {
        losses += g->nodes[g->order[i]].op == OP_XENT;
    }
    s->n_values = g->n_values;
    s->cap_keys = (size_t)g->n_nodes;
    TRY(ebb__pass_keys(g, s->region, s->cap_keys, KEY_STEP, &s->keys));
    TRY(ebb__pass_same(g, s->region, &s->now));
    TRY(REGION_ARRAYS(s->region, ARRAY(s->in, (size_t)g->n_values + 1), ARRAY(s->rows, losses)));
    TRY(part_variable(s, output->weight));
    TRY(output->bias == IR_NONE ? EBB_OK : part_variable(s, output->bias));
    TRY(walk(s));
    ebb__pass_rewire(g, s->now, s->n_values);
    TRY(ebb__pass_sort(g, s->keys));
    TRY(ebb__pass_drop_dead(g));
    return ebb__ir_compact(g, NULL, NULL);
}

/* Is it the layer that the part is of? */
static bool is_part_of(const pass_stage *part, const char *layer) {
    char name[sizeof part->layer];
    ebb__classes_layer(layer, part->stage, name, sizeof name);
    return strcmp(name, part->layer) == 0;
}

/* A program of the first rank alone reads copies of the whole, beside the rank's own parts. */
static ebb_status rename_whole(pass_unit *unit) {
    ir_graph *g = &unit->graph;
    const pass_ranks *ranks = &unit->config->ranks;
    const pass_stage *last = &ranks->layers[ranks->n_layers - 1];
    for (ir_val v = 0; v < g->n_values; v++) {
        const ir_value *value = &g->values[v];
        char name[512];
        if (value->role == IR_PARAM && is_part_of(last, g->layers[value->layer])) {
            (void)snprintf(name, sizeof name, PASS_WHOLE "%s", value->name);
            TRY(ebb__ir_name(g, v, name));
        }
    }
    return EBB_OK;
}

static ebb_status take_apart(pass_unit *unit) {
    splitter s = {.unit = unit, .g = &unit->graph, .region = &unit->scratch};
    classes_output output;
    if (!find_output(&s, &output)) {
        return EBB_OK;
    }
    TRY(number_parts(&s, &output));
    return split(&s, &output);
}

static int32_t count_parts(const pass_ranks *ranks) {
    int32_t at = 0, parts = 0;
    for (int32_t i = 0; pass_has_parts(ranks) && i < ranks->n_layers; i++) {
        parts += ranks->layers[i].end > at;
        at = ranks->layers[i].end > at ? ranks->layers[i].end : at;
    }
    return parts;
}

ebb_status ebb__classes_chunk(pass_unit *unit) {
    return count_parts(&unit->config->ranks) == 1 ? take_apart(unit) : EBB_OK;
}

static ebb_status run(pass_unit *unit) {
    if (count_parts(&unit->config->ranks) <= 1) {
        return EBB_OK;
    }
    return unit->alone ? rename_whole(unit) : take_apart(unit);
}

const pass_def ebb__pass_split = {.id = PASS_SPLIT, .run = run};
