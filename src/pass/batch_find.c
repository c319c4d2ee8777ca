/* batch_find.c - which nodes batch_time merges: sets of time steps that read the same weight and do
 * not depend on each other, sums that grow from step to step; see batch_time.c. */
#include "pass/batch_time.h"

#include <string.h>
#include <xxhash.h>

/* A node is compared with this many sets of its hash: more only if one step has as many. */
enum { MOST_LOOKS = 16 };
/* Questions asked to keep a part of what does not all work together; each costs a walk. */
enum { MOST_QUESTIONS = 64 };

/* ---- which nodes ---- */

static int32_t find_carry(const ir_node_rec *node, const pass_roles *r) {
    int32_t found = -1;
    for (int32_t k = 0; k < node->n_in; k++) {
        if (r->in[k] == ROWS_CARRY) {
            found = k;
        }
    }
    return found;
}

static bool splits_rows(const ir_graph *g, const ir_node_rec *node, const pass_roles *r) {
    bool found = false;
    for (int32_t k = 0; k < node->n_in; k++) {
        found = found || (r->in[k] == ROWS_SPLIT && ir_in(g, node, k) != IR_NONE);
    }
    return found;
}

/* A set is worth stacking if its members read something large together. */
static bool shares_matrix(const ir_graph *g, const ir_node_rec *node, const pass_roles *r) {
    bool found = false;
    for (int32_t k = 0; k < node->n_in; k++) {
        const ir_type *type = op_in_type(g, node, k);
        found = found || (r->in[k] == ROWS_WHOLE && type != NULL && type->rank >= 2);
    }
    return found;
}

static bool same_attributes(const ir_attr *a, const ir_attr *b) {
    bool same = memcmp(a->i, b->i, sizeof a->i) == 0;
    for (int i = 0; i < IR_MAX_FLOATS; i++) {
        same = same && a->f[i] == b->f[i];
    }
    return same;
}

/* Of sums, where stages go from chunk to chunk of time steps: larger products, which are done while
 * the next chunk is awaited. The last stage has nobody to wait for, and does them in the end, but
 * where it waits for parts of the output layer (split_classes.c). */
static int32_t sum_of(const pass_ranks *ranks, int32_t at, int32_t span) {
    if (pass_chunk_steps(ranks) == 0) {
        return span > 0 ? at / span : 0;
    }
    bool last = !pass_is_played(ranks) && ranks->rank % ranks->stages == ranks->stages - 1;
    return last ? 0 : pass_sum_of(ranks, at);
}

/* Which chunk of time steps it belongs to: batches do not cross them. One product of all steps asks
 * for the rows of all steps at once, and where each is a gradient that would come and go, shorter
 * chunks of backward may be wanted. A sum waits for all of its rows anyway. */
static int32_t span_of(const batcher *b, const ir_node_rec *node, const pass_roles *r) {
    const pass_knobs *how = &b->unit->config->knobs;
    bool part = node->label.phase == IR_BACKWARD && r->out[0] == ROWS_SPLIT && how->merge > 0;
    int32_t span = part && how->span == 0 ? how->merge : how->span;
    if (r->out[0] == ROWS_CARRY) {
        return sum_of(&b->unit->config->ranks, node->label.at, span);
    }
    return span > 0 ? node->label.at / span : 0;
}

static bool same_work(const batcher *all, const ir_node_rec *a, const ir_node_rec *b,
                      const pass_roles *r) {
    const ir_graph *g = all->g;
    bool same = a->op == b->op && a->n_in == b->n_in && a->label.layer == b->label.layer &&
                a->label.phase == b->label.phase && a->label.shard == b->label.shard &&
                a->label.at != b->label.at && span_of(all, a, r) == span_of(all, b, r) &&
                same_attributes(&a->attr, &b->attr);
    for (int32_t k = 0; same && k < a->n_in; k++) {
        const ir_type *x = op_in_type(g, a, k), *y = op_in_type(g, b, k);
        if (r->in[k] == ROWS_WHOLE) {
            same = ir_in(g, a, k) == ir_in(g, b, k);
        } else if (r->in[k] == ROWS_SPLIT) {
            same = (x == NULL) == (y == NULL) && (x == NULL || ebb__ir_type_equal(x, y));
        }
    }
    return same;
}

/* Nodes of the same work have the same. */
static int32_t *newest_like(const batcher *b, const ir_node_rec *node, const pass_roles *r) {
    int32_t key[6 + IR_MAX_INTS + OP_MAX_SPLIT] = {node->op,          node->n_in,
                                                   node->label.layer, (int32_t)node->label.phase,
                                                   node->label.shard, span_of(b, node, r)};
    memcpy(&key[6], node->attr.i, sizeof node->attr.i);
    for (int32_t k = 0; k < node->n_in; k++) {
        key[6 + IR_MAX_INTS + k] = r->in[k] == ROWS_WHOLE ? ir_in(b->g, node, k) : 0;
    }
    return &b->newest[XXH3_64bits(key, sizeof key) & (b->n_hashes - 1)];
}

/* The sum that the node goes on with. */
static int32_t find_sum(const batcher *b, const ir_node_rec *node, const pass_roles *r,
                        int32_t carry) {
    const ir_graph *g = b->g;
    ir_val from = ir_in(g, node, carry);
    ir_node def = from == IR_NONE ? (ir_node)IR_NONE : g->values[from].def;
    int32_t i = def == IR_NONE ? -1 : b->batch_of[def];
    bool fits = i >= 0 && b->batches[i].last == def && b->n_readers[from] == 1 &&
                same_work(b, node, &g->nodes[def], r);
    return fits ? i : -1;
}

static int32_t find_set(const batcher *b, const ir_node_rec *node, const pass_roles *r) {
    int32_t i = *newest_like(b, node, r);
    for (int32_t looks = 0; i >= 0 && looks < MOST_LOOKS; looks++) {
        if (same_work(b, node, &b->g->nodes[b->batches[i].last], r)) {
            return i;
        }
        i = b->batches[i].older;
    }
    return -1;
}

static void collect(batcher *b, ir_node n) {
    const ir_graph *g = b->g;
    const ir_node_rec *node = &g->nodes[n];
    pass_roles r;
    if (node->label.at < 0 || node->n_out != 1 || g->values[node->out].output ||
        ebb__op(node->op)->first_row_attr > 0 || !ebb__pass_roles(g, node, &r)) {
        return;
    }
    int32_t carry = find_carry(node, &r);
    bool sum = carry >= 0 && r.out[0] == ROWS_CARRY;
    bool part = carry < 0 && r.out[0] == ROWS_SPLIT && shares_matrix(g, node, &r);
    if (!(sum || part) || !splits_rows(g, node, &r)) {
        return;
    }
    int32_t i = sum ? find_sum(b, node, &r, carry) : find_set(b, node, &r);
    if (i >= 0) {
        b->next_member[b->batches[i].last] = n;
        b->batches[i].last = n;
        b->batches[i].n++;
    } else {
        i = b->n_batches++;
        b->batches[i] = (batch){.first = n, .last = n, .n = 1, .carry = carry, .older = -1};
        if (part) {
            int32_t *newest = newest_like(b, node, &r);
            b->batches[i].older = *newest;
            *newest = i;
        }
    }
    b->batch_of[n] = i;
}

/* ---- do members depend on each other? ---- */

/* 64 batches at a time: a bit for each, by value, says that the value depends on a member. */
typedef struct dependence {
    uint64_t *on; /* by value */
    int32_t *position;
    int32_t sets[64];
    int32_t n;
} dependence;

static uint64_t bit_of(const batcher *b, const dependence *d, ir_node n) {
    int32_t index = b->batch_of[n], slot = index < 0 ? 0 : b->batches[index].slot;
    return index >= 0 && slot < d->n && d->sets[slot] == index ? (uint64_t)1 << slot : 0;
}

/* Follows what depends on a member down the order, as far as the last member of all. */
static void dissolve_some(batcher *b, dependence *d) {
    const ir_graph *g = b->g;
    int32_t begin = INT32_MAX, end = -1;
    uint64_t dependent = 0;
    for (int32_t i = 0; i < d->n; i++) {
        const batch *group = &b->batches[d->sets[i]];
        int32_t first = d->position[group->first], last = d->position[group->last];
        begin = first < begin ? first : begin;
        end = last > end ? last : end;
    }
    for (int32_t i = begin; i <= end; i++) {
        const ir_node_rec *node = &g->nodes[g->order[i]];
        uint64_t found = 0, mine = bit_of(b, d, g->order[i]);
        for (int32_t k = 0; k < node->n_in; k++) {
            ir_val v = ir_in(g, node, k);
            found |= v == IR_NONE ? 0 : d->on[v];
        }
        dependent |= found & mine;
        for (int32_t k = 0; k < node->n_out; k++) {
            d->on[node->out + k] = found | mine;
        }
    }
    for (int32_t i = begin; i <= end; i++) { /* clean for the next */
        const ir_node_rec *node = &g->nodes[g->order[i]];
        memset(&d->on[node->out], 0, node->n_out * sizeof *d->on);
    }
    for (int32_t i = 0; i < d->n; i++) {
        b->batches[d->sets[i]].dissolved = (dependent >> i & 1) != 0;
    }
    d->n = 0;
}

static ebb_status dissolve_dependent(batcher *b) {
    const ir_graph *g = b->g;
    alloc_region *region = &b->scratch;
    dependence d = {.n = 0};
    TRY(ebb__region_alloc(region, (size_t)g->n_nodes + 1, sizeof *d.position, &d.position));
    TRY(ebb__region_alloc(region, (size_t)g->n_values + 1, sizeof *d.on, &d.on));
    for (int32_t i = 0; i < g->n_order; i++) {
        d.position[g->order[i]] = i;
    }
    for (int32_t i = 0; i < b->n_batches; i++) {
        batch *group = &b->batches[i];
        group->dissolved = group->n < 2;
        if (group->n >= 2 && group->carry < 0) {
            group->slot = d.n;
            d.sets[d.n++] = i;
        }
        if (d.n == 64) {
            dissolve_some(b, &d);
        }
    }
    if (d.n > 0) {
        dissolve_some(b, &d);
    }
    return EBB_OK;
}

/* ---- all together ---- */

ebb_status ebb__batch_has_order(const batcher *b, const pass_edge *extra, int32_t n_extra,
                                bool *out) {
    const ir_graph *g = b->g;
    ir_node *leader = NULL;
    TRY(ebb__alloc(g->ctx, (size_t)g->n_nodes + 1, sizeof *leader, &leader));
    for (int32_t i = 0; i < g->n_order; i++) {
        ir_node n = g->order[i];
        const batch *group =
            i >= b->n_order || b->batch_of[n] < 0 ? NULL : &b->batches[b->batch_of[n]];
        leader[n] = group == NULL || group->dissolved ? n : group->first;
    }
    ebb_status status = ebb__pass_acyclic(g, leader, extra, n_extra, out);
    ebb__free(g->ctx, leader);
    return status;
}

static ebb_status choose_among(batch_choice *c, int32_t lo, int32_t hi) {
    bool works = false;
    if (c->questions++ >= MOST_QUESTIONS) {
        return EBB_OK;
    }
    for (int32_t i = lo; i < hi; i++) {
        c->set(c->b, i, true);
    }
    TRY(c->works(c->b, &works));
    if (works) {
        return EBB_OK;
    }
    for (int32_t i = lo; i < hi; i++) {
        c->set(c->b, i, false);
    }
    if (hi - lo > 1) {
        TRY(choose_among(c, lo, lo + (hi - lo) / 2));
        TRY(choose_among(c, lo + (hi - lo) / 2, hi));
    }
    return EBB_OK;
}

ebb_status ebb__batch_choose(batch_choice *choice) {
    return choice->n > 0 ? choose_among(choice, 0, choice->n) : EBB_OK;
}

static void set_batch(batcher *b, int32_t index, bool on) {
    b->batches[index].dissolved = !on;
}

static ebb_status batches_work(batcher *b, bool *out) {
    return ebb__batch_has_order(b, NULL, 0, out);
}

/* Each of the rest could be merged alone; as many as possible are, together. */
static ebb_status keep_compatible(batcher *b) {
    int32_t n = 0;
    for (int32_t i = 0; i < b->n_batches; i++) {
        const batch *group = &b->batches[i];
        for (ir_node m = group->first; group->dissolved && m != IR_NONE; m = b->next_member[m]) {
            b->batch_of[m] = -1;
        }
    }
    for (int32_t i = 0; i < b->n_batches; i++) { /* only those that are left */
        batch *group = &b->batches[i];
        if (!group->dissolved) {
            for (ir_node m = group->first; m != IR_NONE; m = b->next_member[m]) {
                b->batch_of[m] = n;
            }
            b->batches[n++] = *group;
        }
    }
    b->n_batches = n;
    batch_choice choice = {.b = b, .n = n, .set = set_batch, .works = batches_work};
    return ebb__batch_choose(&choice);
}

/* ---- sums that are not worth a stack ---- */

static bool is_heavy(const batcher *b, const batch *group) {
    return (ebb__op(b->g->nodes[group->first].op)->flags & OPF_HEAVY) != 0;
}

/* Is the value in a stack anyway: one that a product reads, or rows of one merged result? */
static bool is_stacked(const batcher *b, const bool *for_product, ir_val v) {
    ir_node def = b->g->values[v].def;
    if (for_product[v] || def == IR_NONE ||
        (ebb__op(b->g->nodes[def].op)->flags & OPF_ALIAS) != 0) {
        return true;
    }
    int32_t i = b->batch_of[def];
    return i >= 0 && !b->batches[i].dissolved && b->batches[i].carry < 0;
}

/* A sum of rows to one costs little at each step; a stack for it alone would hold all steps' rows
 * until the last. */
static ebb_status dissolve_lonely_sums(batcher *b) {
    const ir_graph *g = b->g;
    bool *for_product = NULL; /* by value */
    TRY(ebb__region_alloc(&b->scratch, (size_t)g->n_values + 1, sizeof *for_product, &for_product));
    for (int pass = 0; pass < 2; pass++) {
        for (int32_t i = 0; i < b->n_batches; i++) {
            batch *group = &b->batches[i];
            bool heavy = is_heavy(b, group);
            ir_node n = group->first;
            pass_roles r;
            bool light_sum = group->carry >= 0 && g->values[g->nodes[n].out].type.rank == 1;
            if (group->dissolved || (pass == 0 ? !heavy : heavy || !light_sum)) {
                continue;
            }
            for (int32_t m = 0; m < (heavy ? group->n : 1); m++, n = b->next_member[n]) {
                bool wise = ebb__pass_roles(g, &g->nodes[n], &r);
                for (int32_t k = 0; wise && k < g->nodes[n].n_in; k++) {
                    ir_val v = ir_in(g, &g->nodes[n], k);
                    if (r.in[k] != ROWS_SPLIT || v == IR_NONE) {
                        continue;
                    }
                    for_product[v] = for_product[v] || heavy;
                    group->dissolved = group->dissolved || !is_stacked(b, for_product, v);
                }
            }
        }
    }
    return EBB_OK;
}

ebb_status ebb__batch_find(batcher *b) {
    size_t nn = (size_t)b->g->n_nodes + 1;
    alloc_region *region = &b->scratch;
    for (b->n_hashes = 64; b->n_hashes < nn; b->n_hashes *= 2) {
    }
    TRY(ebb__region_alloc(&b->unit->scratch, nn, sizeof *b->batches, &b->batches));
    TRY(REGION_ARRAYS(region, ARRAY_NONE(b->batch_of, nn), ARRAY_NONE(b->next_member, nn),
                      ARRAY_NONE(b->newest, b->n_hashes)));
    for (int32_t i = 0; i < b->n_order; i++) {
        collect(b, b->g->order[i]);
    }
    TRY(dissolve_dependent(b));
    TRY(dissolve_lonely_sums(b));
    return keep_compatible(b);
}
