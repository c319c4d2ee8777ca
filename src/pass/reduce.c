/* reduce.c - gradients that several ranks have parts of. A parameter's gradient is a tree of sums
 * whose leaves are the shards' (shard.c); the upper part of it joins what different ranks have. For
 * every parameter, or for a range of its rows where it is a large share of all, one rank is the
 * owner: it gets the others' parts, adds them up by the same tree, and so with the same bits as
 * one rank alone.
 *
 *   slices   the owner also has the rows' optimiser state and does their update; the others get
 *            the new rows (ZeRO, Rajbhandari et al. 2020)
 *   copies   the others get the sum, and everybody does the whole update
 *   central  the first rank owns everything: a parameter store
 *
 * The norm of all gradients is made of the same partial sums in the same order: ranges end where
 * blocks of squares do (op/squares.h), and what an owner has travels as one list. */
#include "pass/ranks.h"

#include "op/squares.h"

#include <stdio.h>
#include <string.h>

/* Rows [first, first + rows) of a parameter. */
typedef struct owned_rows {
    int32_t first, rows, owner;
    ir_val sum, squares; /* of the rows' gradient */
} owned_rows;

typedef struct reduced {
    ir_val param, gradient;
    ir_node update;  /* as it was */
    uint64_t makers; /* ranks that have parts of the gradient */
    uint64_t bytes;
    owned_rows *slices;
    int32_t n_slices;
    int32_t twin; /* number of an earlier one with the same gradient, or its own */
} reduced;

typedef struct reducer {
    rank_cutter *c;
    ir_graph *g;
    reduced *list; /* in the order of parameters */
    int32_t n;
    ir_val *now; /* by value: what stands for it; itself if nothing does */
    int32_t n_values;
} reducer;

static int32_t states_of(const ir_node_rec *update) {
    return update->op == OP_SGD ? 0 : update->op == OP_SGD_MOMENTUM ? 1 : 2;
}

static bool is_update(const ir_node_rec *node) {
    return node->op == OP_SGD || node->op == OP_SGD_MOMENTUM || node->op == OP_ADAM;
}

bool ebb__cut_is_for_all(const ir_node_rec *node) {
    return node->label.phase == IR_UPDATE && node->op != OP_SUM_SQUARES &&
           node->op != OP_SUM_SQUARES_PART;
}

bool ebb__cut_continues(const ir_node_rec *node) {
    return node->op == OP_SUM_SQUARES_PART;
}

/* A sum of what different ranks have. */
static bool is_joint(const rank_cutter *c, ir_val v) {
    ir_node def = c->g->values[v].def;
    const ir_node_rec *node = def == IR_NONE ? NULL : &c->g->nodes[def];
    return node != NULL && node->op == OP_ADD && c->home[def] == HOME_ALL &&
           c->g->values[ir_in(c->g, node, 0)].role == IR_TEMP &&
           c->g->values[ir_in(c->g, node, 1)].role == IR_TEMP;
}

/* The ranks that have parts of a sum. */
static uint64_t makers_of(const rank_cutter *c, ir_val v) {
    const ir_graph *g = c->g;
    if (!is_joint(c, v)) {
        int32_t home = rank_home(c, v);
        return home == HOME_ALL ? 0 : (uint64_t)1 << home;
    }
    const ir_node_rec *node = &g->nodes[g->values[v].def];
    return makers_of(c, ir_in(g, node, 0)) | makers_of(c, ir_in(g, node, 1));
}

static int32_t count_bits(uint64_t mask) {
    return __builtin_popcountll(mask);
}

/* The number of the first one with this gradient. */
static int32_t find_twin(const reducer *r, ir_val gradient) {
    int32_t i = 0;
    while (i < r->n && r->list[i].gradient != gradient) {
        i++;
    }
    return i;
}

static ebb_status find_reduced(reducer *r) {
    const ir_graph *g = r->g;
    TRY(ebb__region_alloc(r->c->region, (size_t)g->n_values + 1, sizeof *r->list, &r->list));
    for (ir_val v = 0; v < g->n_values; v++) {
        const ir_value *value = &g->values[v];
        ir_node def = value->next == IR_NONE ? (ir_node)IR_NONE : g->values[value->next].def;
        if (value->role != IR_PARAM || def == IR_NONE || !is_update(&g->nodes[def])) {
            continue;
        }
        ir_val gradient = ir_in(g, &g->nodes[def], 1);
        uint64_t makers = makers_of(r->c, gradient); /* 0: everybody makes all of it */
        if (makers != 0) {
            r->list[r->n] = (reduced){.param = v,
                                      .gradient = gradient,
                                      .update = def,
                                      .makers = makers,
                                      .twin = find_twin(r, gradient),
                                      .bytes = ebb__ir_type_bytes(&value->type)};
            r->n++;
        }
    }
    return EBB_OK;
}

/* ---- owners ---- */

/* Of those that have parts of the gradient and own no rows of it yet. */
static int32_t least_loaded(const rank_cutter *c, const reduced *p) {
    int32_t least = -1;
    for (int32_t k = 0; k < c->ranks; k++) {
        bool has = !rank_has(p->makers, k);
        for (int32_t j = 0; j < p->n_slices; j++) {
            has = has || p->slices[j].owner == k;
        }
        least = !has && (least < 0 || c->owned[k] < c->owned[least]) ? k : least;
    }
    return least;
}

static void give(reducer *r, reduced *p, int32_t first, int32_t rows) {
    const ir_type *type = &r->g->values[p->param].type;
    bool central = r->c->unit->config->ranks.reduce == REDUCE_CENTRAL;
    int32_t owner = central ? __builtin_ctzll(p->makers) : least_loaded(r->c, p);
    p->slices[p->n_slices++] = (owned_rows){first, rows, owner, IR_NONE, IR_NONE};
    r->c->owned[owner] += p->bytes / (uint64_t)type->dim[0] * (uint64_t)rows;
}

/* One owner, or several of about half a rank's share each. A rank has one range of a parameter at
 * most: the optimiser's state of it is one variable. */
static ebb_status choose_owners(reducer *r, reduced *p, uint64_t all) {
    const ir_type *type = &r->g->values[p->param].type;
    int64_t grain = squares_rows((int64_t)(p->bytes / sizeof(float)) / type->dim[0]);
    uint64_t share = all / (uint64_t)r->c->ranks + 1;
    int64_t parts = 1, rows = type->dim[0];
    /* Of a part of the classes (split_classes.c) blocks do not begin with a row. */
    bool whole = r->g->values[p->param].all_rows > 0;
    if (p->bytes > share && !whole && r->c->unit->config->ranks.reduce != REDUCE_CENTRAL) {
        parts = (int64_t)(2 * p->bytes / share);
        parts = parts < count_bits(p->makers) ? parts : count_bits(p->makers);
    }
    rows = (rows + parts * grain - 1) / (parts * grain) * grain; /* of each but the last */
    TRY(ebb__region_alloc(r->c->region, (size_t)parts, sizeof *p->slices, &p->slices));
    for (int64_t first = 0; first < type->dim[0]; first += rows) {
        int64_t left = type->dim[0] - first;
        give(r, p, (int32_t)first, (int32_t)(left < rows ? left : rows));
    }
    return EBB_OK;
}

/* The largest first, so that owners come out even. */
static ebb_status share_out(reducer *r) {
    uint64_t all = 0;
    bool *done = NULL;
    for (int32_t i = 0; i < r->n; i++) {
        all += r->list[i].bytes;
    }
    TRY(ebb__region_alloc(r->c->region, (size_t)r->n + 1, sizeof *done, &done));
    for (int32_t k = 0; k < r->n; k++) {
        int32_t largest = -1;
        for (int32_t i = 0; i < r->n; i++) {
            bool larger = largest < 0 || r->list[i].bytes > r->list[largest].bytes;
            largest = !done[i] && larger ? i : largest;
        }
        done[largest] = true;
        if (r->list[largest].twin == largest) {
            TRY(choose_owners(r, &r->list[largest], all));
        }
    }
    return EBB_OK;
}

/* ---- sums ---- */

/* A rank is to do what is emitted next. */
static ebb_status emit_at(reducer *r, int32_t home, op_code op, const ir_val *in, int32_t n,
                          const ir_attr *attr, ir_val *out) {
    ir_node first = r->g->n_nodes;
    TRY(ebb__op_emit(r->g, op, in, n, attr, out));
    return ebb__cut_settle(r->c, first, home);
}

static ebb_status slice_at(reducer *r, int32_t home, ir_val x, int32_t first, int32_t rows,
                           ir_val *out) {
    ir_node node = r->g->n_nodes;
    TRY(ebb__op_slice(r->g, x, 0, first, rows, out));
    return ebb__cut_settle(r->c, node, home);
}

static ebb_status join_at(reducer *r, int32_t home, const ir_val *parts, int32_t n, ir_val *out) {
    ir_node node = r->g->n_nodes;
    TRY(ebb__op_join(r->g, 0, parts, n, out));
    return ebb__cut_settle(r->c, node, home);
}

/* The rows of v, a sum of what ranks have, by the tree that v is the top of. */
static ebb_status add_up(reducer *r, const owned_rows *s, ir_val v, ir_val *out) {
    ir_graph *g = r->g;
    ir_val both[2];
    if (!is_joint(r->c, v)) {
        return slice_at(r, rank_home(r->c, v), v, s->first, s->rows, out);
    }
    const ir_node_rec node = g->nodes[g->values[v].def];
    for (int32_t k = 0; k < 2; k++) {
        TRY(add_up(r, s, ir_in(g, &node, k), &both[k]));
    }
    g->label = node.label;
    return emit_at(r, s->owner, OP_ADD, both, 2, NULL, out);
}

/* Squares of a part of the classes are summed up by who owns the sum of gradients. */
static void settle_squares(reducer *r, const reduced *p) {
    const ir_graph *g = r->g;
    for (int32_t i = 0; i < g->n_order && g->values[p->param].all_rows > 0; i++) {
        const ir_node_rec *node = &g->nodes[g->order[i]];
        if (ebb__cut_continues(node) && ir_in(g, node, 1) == p->gradient) {
            r->c->home[g->order[i]] = p->slices[0].owner;
        }
    }
}

static ebb_status add_gradient(reducer *r, reduced *p) {
    ir_graph *g = r->g;
    ir_val *sums = NULL;
    TRY(ebb__region_alloc(r->c->region, (size_t)p->n_slices, sizeof *sums, &sums));
    for (int32_t j = 0; j < p->n_slices; j++) {
        owned_rows *s = &p->slices[j];
        g->label = g->nodes[g->values[p->gradient].def].label;
        TRY(add_up(r, s, p->gradient, &s->sum));
        g->values[s->sum].param_grad = true;
        sums[j] = s->sum;
        g->label = g->nodes[p->update].label;
        TRY(g->values[p->param].all_rows > 0
                ? EBB_OK
                : emit_at(r, s->owner, OP_SUM_SQUARES, &s->sum, 1, NULL, &s->squares));
    }
    settle_squares(r, p);
    g->label = g->nodes[g->values[p->gradient].def].label;
    return is_joint(r->c, p->gradient)
               ? join_at(r, HOME_ALL, sums, p->n_slices, &r->now[p->gradient])
               : EBB_OK;
}

/* ---- the norm ---- */

/* The partial sums that a rank has, one after the other. */
static ebb_status pack_squares(reducer *r, int32_t owner, ir_val *list, ir_val *pack) {
    int32_t n = 0;
    for (int32_t i = 0; i < r->n; i++) {
        for (int32_t j = 0; j < r->list[i].n_slices; j++) {
            const owned_rows *s = &r->list[i].slices[j];
            if (s->owner == owner && r->list[i].twin == i && s->squares != IR_NONE) {
                list[n++] = s->squares;
            }
        }
    }
    *pack = IR_NONE;
    return n > 0 ? join_at(r, owner, list, n, pack) : EBB_OK;
}

/* By gradient: its partial sums, of all owners. */
static ebb_status join_squares(reducer *r, ir_val *squares) {
    ir_graph *g = r->g;
    ir_val *list = NULL, packs[PASS_MOST_RANKS];
    int32_t at[PASS_MOST_RANKS] = {0}, most = 0;
    for (int32_t i = 0; i < r->n; i++) {
        most += r->list[i].n_slices;
    }
    TRY(ebb__region_alloc(r->c->region, (size_t)most + 1, sizeof *list, &list));
    for (int32_t k = 0; k < r->c->ranks; k++) {
        TRY(pack_squares(r, k, list, &packs[k]));
    }
    for (int32_t i = 0; i < r->n; i++) {
        const reduced *p = &r->list[i];
        const bool summed = p->twin == i && p->slices[0].squares != IR_NONE;
        for (int32_t j = 0; summed && j < p->n_slices; j++) {
            const owned_rows *s = &p->slices[j];
            int32_t blocks = g->values[s->squares].type.dim[0];
            TRY(slice_at(r, HOME_ALL, packs[s->owner], at[s->owner], blocks, &list[j]));
            at[s->owner] += blocks;
        }
        if (summed) {
            TRY(join_at(r, HOME_ALL, list, p->n_slices, &squares[p->gradient]));
        }
    }
    return EBB_OK;
}

/* Whoever summed the squares of a gradient reads the partial sums of the owners. */
static ebb_status add_norm(reducer *r) {
    ir_graph *g = r->g;
    ir_val *squares = NULL;
    TRY(REGION_ARRAYS(r->c->region, ARRAY_NONE(squares, (size_t)r->n_values + 1)));
    g->label = (ir_label){.at = -1, .shard = -1, .phase = IR_UPDATE};
    TRY(join_squares(r, squares));
    for (int32_t i = 0; i < g->n_order; i++) {
        const ir_node_rec *node = &g->nodes[g->order[i]];
        ir_val x = node->op == OP_SUM_SQUARES ? ir_in(g, node, 0) : (ir_val)IR_NONE;
        if (x != IR_NONE && node->out < r->n_values && squares[x] != IR_NONE) {
            r->now[node->out] = squares[x];
        }
    }
    return EBB_OK;
}

/* ---- updates ---- */

/* The optimiser's state of the rows: where they are not all, a variable of their own, which takes
 * the name on the rank that owns them. (All ranks make those of all, since they go by one
 * numbering.) */
static ebb_status take_slot(reducer *r, const reduced *p, const owned_rows *s, ir_val slot,
                            ir_val *out) {
    ir_graph *g = r->g;
    ir_type type = g->values[slot].type;
    char name[64];
    *out = slot;
    if (p->n_slices == 1) {
        return EBB_OK;
    }
    type.dim[0] = s->rows;
    (void)snprintf(name, sizeof name, "rows from %d of slot %d", s->first, slot);
    TRY(ebb__ir_add_variable(g, IR_SLOT, name, &type, out));
    if (s->owner == r->c->me) {
        ir_value *part = &g->values[*out];
        part->name = g->values[slot].name;
        part->layer = g->values[slot].layer;
        part->first_row = s->first;
        part->all_rows = g->values[slot].type.dim[0];
    }
    return EBB_OK;
}

static ebb_status update_rows(reducer *r, const reduced *p, const owned_rows *s, ir_val *out) {
    ir_graph *g = r->g;
    const ir_node_rec node = g->nodes[p->update];
    ir_val in[6], results[IR_MAX_OUT];
    int32_t states = states_of(&node);
    for (int32_t k = 0; k < node.n_in; k++) {
        in[k] = ir_in(g, &node, k);
    }
    TRY(slice_at(r, s->owner, p->param, s->first, s->rows, &in[0]));
    in[1] = s->sum;
    for (int32_t k = 0; k < states; k++) {
        ir_val slot = in[2 + k];
        TRY(take_slot(r, p, s, slot, &in[2 + k]));
        if (in[2 + k] != slot) { /* nobody has all of it */
            g->values[slot].next = IR_NONE;
        }
    }
    TRY(emit_at(r, s->owner, (op_code)node.op, in, node.n_in, &node.attr, results));
    for (int32_t k = 0; k < states; k++) {
        g->values[in[2 + k]].next = results[1 + k];
    }
    *out = results[0];
    return EBB_OK;
}

static ebb_status update(reducer *r, const reduced *p) {
    ir_graph *g = r->g;
    ir_val *rows = NULL, next = IR_NONE;
    TRY(ebb__region_alloc(r->c->region, (size_t)p->n_slices, sizeof *rows, &rows));
    g->label = g->nodes[p->update].label;
    for (int32_t j = 0; j < p->n_slices; j++) {
        TRY(update_rows(r, p, &p->slices[j], &rows[j]));
    }
    TRY(join_at(r, HOME_ALL, rows, p->n_slices, &next));
    g->values[p->param].next = next;
    r->now[g->nodes[p->update].out] = next; /* an average reads it */
    return EBB_OK;
}

ebb_status ebb__cut_reduce(rank_cutter *c) {
    reducer r = {.c = c, .g = c->g, .n_values = c->g->n_values};
    TRY(find_reduced(&r));
    TRY(ebb__pass_same(c->g, c->region, &r.now));
    TRY(share_out(&r));
    for (int32_t i = 0; i < r.n; i++) {
        reduced *p = &r.list[i];
        if (p->twin == i) {
            TRY(add_gradient(&r, p));
        } else {
            p->slices = r.list[p->twin].slices;
            p->n_slices = r.list[p->twin].n_slices;
        }
    }
    TRY(add_norm(&r));
    for (int32_t i = 0; i < r.n && c->unit->config->ranks.reduce != REDUCE_COPIES; i++) {
        TRY(count_bits(r.list[i].makers) > 1 ? update(&r, &r.list[i]) : EBB_OK);
    }
    ebb__pass_rewire(c->g, r.now, r.n_values);
    return EBB_OK;
}
