/* chunk.c - splits the row-wise chain that ends in a loss, so that its widest values (the logits of
 * all T*B rows) never exist at once; and, of nets over images, whole segments (chunk_images.c).
 *
 * The region grows from the loss over every value as wide as the logits, to producers and readers
 * that are row-wise. It is then repeated for chunks of rows (split.h).
 *
 * Where the plan goes through time in spans, no chunk reaches over two of them, and the chunks of a
 * span wait until backward comes to it: then not even the rows that the chain starts from exist at
 * once.
 */
#include "op/map.h"
#include "pass/chunk.h"
#include "pass/split.h"

typedef struct chunker {
    pass_split s;
    int64_t width; /* columns of the logits */
    ir_val *wide;  /* work list */
    int32_t n_wide;
    bool *seen; /* by value */
} chunker;

static ebb_status open_chunker(chunker *c, pass_unit *unit) {
    TRY(ebb__split_open(&c->s, unit));
    size_t nv = (size_t)unit->graph.n_values;
    c->n_wide = 0;
    return REGION_ARRAYS(&unit->scratch, ARRAY(c->wide, nv + 1), ARRAY(c->seen, nv + 1));
}

/* Before the next loss. */
static void forget_region(chunker *c) {
    for (int32_t i = 0; i < c->n_wide; i++) {
        c->seen[c->wide[i]] = false;
    }
    c->n_wide = 0;
    ebb__split_forget(&c->s);
}

/* ---- growing the region ---- */

static bool is_wide(const chunker *c, ir_val v) {
    const ir_type *type = &c->s.graph->values[v].type;
    return type->rank == 2 && type->dim[0] == c->s.rows && ir_cols(type) == c->width;
}

static void push_wide(chunker *c, ir_val v) {
    if (!c->seen[v]) {
        c->seen[v] = true;
        c->wide[c->n_wide++] = v;
    }
}

/* Maps are cut between groups of images, wherever rows may be (chunk_images.c). */
static bool reads_or_makes_map(const ir_graph *g, const ir_node_rec *node) {
    bool map = false;
    for (int32_t k = 0; k < node->n_in; k++) {
        map = map || (ir_in(g, node, k) != IR_NONE && op_is_map(op_in_type(g, node, k)));
    }
    for (int32_t k = 0; k < node->n_out; k++) {
        map = map || op_is_map(&g->values[node->out + k].type);
    }
    return map;
}

/* Where stages wait for each other, and rows need not be few at a time, a chunk of the loss is done
 * as soon as forward has come to it. Sums over rows, whose order goes the other way, are for later,
 * then as one product of all rows. */
static bool is_urgent(const pass_unit *unit) {
    return pass_chunk_steps(&unit->config->ranks) > 0 && unit->config->knobs.chunk_rows == 0;
}

/* Takes a node into the region; false if it cannot be split. */
static bool admit(chunker *c, ir_node n) {
    const ir_graph *g = c->s.graph;
    const ir_node_rec *node = &g->nodes[n];
    pass_roles r;
    if (c->s.member[n]) {
        return true;
    }
    if (reads_or_makes_map(g, node) || !ebb__split_takes(&c->s, n, &r) ||
        (r.out[0] == ROWS_CARRY && is_urgent(c->s.unit))) {
        return false;
    }
    for (int32_t k = 0; k < node->n_in; k++) {
        ir_val v = ir_in(g, node, k);
        if (v != IR_NONE && is_wide(c, v)) {
            if (r.in[k] != ROWS_SPLIT) {
                return false;
            }
            push_wide(c, v);
        }
    }
    for (int32_t k = 0; k < node->n_out; k++) {
        if (r.out[k] == ROWS_SPLIT && is_wide(c, node->out + k)) {
            push_wide(c, node->out + k);
        }
    }
    ebb__split_admit(&c->s, n);
    return true;
}

/* Neighbours that cannot be split stay outside; the value between is then a boundary. */
static bool grow(chunker *c, ir_node loss) {
    const ir_graph *g = c->s.graph;
    if (!admit(c, loss)) {
        return false;
    }
    for (int32_t w = 0; w < c->n_wide; w++) {
        ir_val v = c->wide[w];
        if (g->values[v].def != IR_NONE) {
            (void)admit(c, g->values[v].def);
        }
        for (int32_t i = c->s.reader_first[v]; i < c->s.reader_first[v + 1]; i++) {
            (void)admit(c, c->s.reader_list[i]);
        }
    }
    return true;
}

/* ---- where to cut ---- */

/* A stack of time steps that the region reads by rows: which rows belong to which step. */
static const ir_node_rec *find_steps(const pass_split *c) {
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
static void add_chunks(pass_split *c, split_range all, int32_t most, int32_t grain) {
    int32_t n = (all.len - 1) / most + 1, share = (all.len - 1) / n + 1;
    share = (share + grain - 1) / grain * grain;
    for (int32_t at = 0; at < all.len; at += share) {
        int32_t len = all.len - at < share ? all.len - at : share;
        c->chunks[c->n_chunks++] = (split_range){all.begin + at, len, all.time};
    }
}

/* Time steps, from the first on, whose chunks of the loss go with forward. */
static int32_t early_steps(const pass_split *c, const ir_node_rec *steps, int32_t span) {
    double share = c->unit->config->ranks.early * (double)steps->n_in / span;
    return (int32_t)(share + 0.5) * span;
}

enum { LEAST_SPANS = 8 };

/* Rows of the time steps from `first` on, of which the last span, the first that backward comes to,
 * begins `later`. */
static split_range range_of(int32_t begin, int32_t end, int32_t first, int32_t early,
                            int32_t later) {
    return (split_range){begin, end - begin,
                         first < 0       ? -1
                         : first < early ? SPLIT_AT_ONCE
                                         : first + later};
}

static ebb_status cut_rows(pass_split *c, int32_t most, int32_t span) {
    const ir_graph *g = c->graph;
    const ir_node_rec *steps = span > 0 ? find_steps(c) : NULL;
    size_t n = (size_t)(c->rows / most) + 2 + (steps == NULL ? 0 : (size_t)steps->n_in);
    TRY(ebb__region_alloc(&c->scratch, n, sizeof *c->chunks, &c->chunks));
    if (steps == NULL) {
        int32_t rows = c->unit->dev->row_grain;
        add_chunks(c, (split_range){0, c->rows, -1}, most, most % rows == 0 ? rows : 1);
        return EBB_OK;
    }
    int32_t begin = 0, end = 0, now = -1, step = op_in_type(g, steps, 0)->dim[0];
    int32_t grain = most >= step ? step : 1; /* whole time steps, if any */
    const bool urgent = is_urgent(c->unit);
    /* A chunk reads all of the logits' weight: two spans together, if there are enough of them. */
    const int32_t reach = urgent && steps->n_in / span >= LEAST_SPANS ? 2 * span : span;
    const int32_t early = urgent ? early_steps(c, steps, reach) : 0;
    most = most / grain * grain;
    for (int32_t k = 0; k < steps->n_in; k++) {
        ir_val part = ir_in(g, steps, k);
        ir_node def = g->values[part].def;
        int32_t time = def == IR_NONE ? -1 : g->nodes[def].label.at;
        int32_t first = time < 0 ? -1 : time / reach * reach;
        if (k > 0 && first != now) {
            add_chunks(c, range_of(begin, end, now, early, reach - span), most, grain);
            begin = end;
        }
        now = first;
        end += g->values[part].type.dim[0];
    }
    add_chunks(c, range_of(begin, end, now, early, reach - span), most, grain);
    return EBB_OK;
}

/* ---- the whole ---- */

static ebb_status chunk_loss(chunker *c, ir_node loss, int32_t most, int32_t span) {
    pass_split *s = &c->s;
    const ir_type *logits = op_in_type(s->graph, &s->graph->nodes[loss], 0);
    s->rows = logits->dim[0];
    c->width = ir_cols(logits);
    if (s->position[loss] < 0 || logits->rank != 2 || (s->rows <= most && span <= 0)) {
        return EBB_OK; /* the first: it was split with another one */
    }
    bool grown = grow(c, loss);
    if (s->stale) {
        return EBB_OK;
    }
    if (!grown) {
        ebb__log(s->unit->ctx, EBB_LOG_DEBUG, "chunk: the loss's chain is not row-wise throughout");
        return EBB_OK;
    }
    if (!ebb__split_is_convex(s)) {
        return EBB_OK;
    }
    TRY(cut_rows(s, most, span));
    return ebb__split_region(s);
}

static ebb_status chunk_losses(pass_unit *unit, const ir_node *losses, int32_t n) {
    const pass_config *config = unit->config;
    int32_t most = config->knobs.chunk_rows > 0 ? config->knobs.chunk_rows : INT32_MAX;
    int32_t span = config->training ? config->knobs.span : 0;
    chunker c;
    TRY(open_chunker(&c, unit));
    for (int32_t i = 0; i < n; i++) {
        ebb_status status = chunk_loss(&c, losses[i], most, span);
        bool stale = c.s.stale;
        forget_region(&c);
        TRY(status);
        if (stale) {
            TRY(ebb__split_finish(&c.s));
            TRY(open_chunker(&c, unit));
            i--;
        }
    }
    return ebb__split_finish(&c.s);
}

static ebb_status run(pass_unit *unit) {
    const ir_graph *g = &unit->graph;
    const pass_knobs *knobs = &unit->config->knobs;
    ir_node *losses = NULL;
    int32_t n = 0;
    if (knobs->chunk_images > 0) {
        TRY(ebb__chunk_images(unit));
    }
    if (knobs->chunk_rows <= 0 && !(unit->config->training && knobs->span > 0)) {
        return EBB_OK;
    }
    TRY(ebb__alloc(unit->ctx, (size_t)g->n_order + 1, sizeof *losses, &losses));
    for (int32_t i = 0; i < g->n_order; i++) {
        if ((ebb__op(g->nodes[g->order[i]].op)->flags & OPF_LOSS) != 0) {
            losses[n++] = g->order[i];
        }
    }
    ebb_status status = chunk_losses(unit, losses, n);
    ebb__free(unit->ctx, losses);
    return status;
}

const pass_def ebb__pass_chunk = {.id = PASS_CHUNK, .run = run};
