/* order.c - reordering and rewiring tools shared by the passes. */
#include "pass/pass.h"

#include <string.h>

ebb_status ebb__pass_keys(const ir_graph *graph, alloc_region *region, size_t capacity,
                          int64_t step, int64_t **out) {
    int64_t *keys = NULL;
    TRY(ebb__region_alloc(region, capacity + 1, sizeof *keys, &keys));
    for (int32_t i = 0; i < graph->n_order; i++) {
        keys[graph->order[i]] = (int64_t)i * step;
    }
    *out = keys;
    return EBB_OK;
}

ebb_status ebb__pass_set_keys(const ir_graph *graph, alloc_region *region, int64_t **keys,
                              size_t *room, ir_node first, int64_t key) {
    TRY(ebb__region_grow(region, keys, room, (size_t)graph->n_nodes, sizeof **keys));
    for (ir_node n = first; n < graph->n_nodes; n++) {
        (*keys)[n] = key;
    }
    return EBB_OK;
}

bool ebb__pass_batch_roles(const ir_graph *graph, const ir_node_rec *node, pass_roles *out) {
    const op_def *def = ebb__op(node->op);
    if (def->rows == NULL || node->n_in > OP_MAX_SPLIT) {
        return false;
    }
    *out = (pass_roles){{ROWS_WHOLE}, {ROWS_WHOLE}};
    def->rows(graph, node, out->in, out->out);
    return true;
}

bool ebb__pass_roles(const ir_graph *graph, const ir_node_rec *node, pass_roles *out) {
    bool any_cut = ebb__pass_batch_roles(graph, node, out);
    for (int32_t k = 0; any_cut && k < node->n_in; k++) {
        any_cut = out->in[k] <= ROWS_CARRY;
    }
    for (int32_t k = 0; any_cut && k < node->n_out; k++) {
        any_cut = out->out[k] <= ROWS_CARRY;
    }
    return any_cut;
}

/* ---- dead nodes ---- */

ebb_status ebb__pass_drop_dead(ir_graph *graph) {
    bool *live = NULL;
    TRY(ebb__alloc(graph->ctx, (size_t)graph->n_values + 1, sizeof *live, &live));
    for (ir_val v = 0; v < graph->n_values; v++) {
        live[v] = live[v] || graph->values[v].output || v == graph->loss;
        if (graph->values[v].next != IR_NONE) {
            live[graph->values[v].next] = true;
        }
    }
    int32_t kept = graph->n_order;
    for (int32_t i = graph->n_order - 1; i >= 0; i--) {
        const ir_node_rec *node = &graph->nodes[graph->order[i]];
        bool needed = false;
        for (int32_t k = 0; k < node->n_out; k++) {
            needed = needed || live[node->out + k];
        }
        if (!needed) {
            continue;
        }
        for (int32_t k = 0; k < node->n_in; k++) {
            if (ir_in(graph, node, k) != IR_NONE) {
                live[ir_in(graph, node, k)] = true;
            }
        }
        graph->order[--kept] = graph->order[i];
    }
    memmove(graph->order, graph->order + kept,
            (size_t)(graph->n_order - kept) * sizeof *graph->order);
    graph->n_order -= kept;
    ebb__free(graph->ctx, live);
    return EBB_OK;
}

/* ---- edges ---- */

/* Who waits for whom; nodes merged with others (leader) count as one. */
typedef struct wait_edge {
    ir_node to;
    int32_t next; /* edge with the same beginning; 0: none */
} wait_edge;
typedef struct waits {
    const ir_graph *graph;
    const ir_node *leader; /* by node: what it is merged with; NULL (ebb__pass_sort): none is */
    const pass_edge *extra;
    int32_t n_extra;
    alloc_region region;
    ir_node *writer;  /* by value, see find_writers */
    wait_edge *edges; /* from number 1 on */
    int32_t n_edges;
    int32_t *first;   /* by node: the first edge that begins there; 0: none */
    int32_t *waiting; /* by node: edges not yet satisfied */
} waits;

static void add_edge(waits *w, ir_node from, ir_node to) {
    if (w->leader != NULL) {
        from = w->leader[from];
        to = w->leader[to];
    }
    if (from != to) {
        w->edges[++w->n_edges] = (wait_edge){to, w->first[from]};
        w->first[from] = w->n_edges;
        w->waiting[to]++;
    }
}

/* By value: the node that overwrites the variable it is, or is a view of; IR_NONE: none does. Views
 * are filled in by follow_view(). */
static void find_writers(const ir_graph *g, ir_node *writer) {
    for (ir_val v = 0; v < g->n_values; v++) {
        ir_val next = g->values[v].next;
        writer[v] = next != IR_NONE ? g->values[next].def : (ir_node)IR_NONE;
    }
}

/* A reader of a slice of a variable reads the variable too. One of a join does not: variables lie
 * in no join, so alias has them copied to where it stands, and only the join itself must come
 * before the writer. */
static void follow_view(const ir_node_rec *node, ir_val v, ir_node *writer) {
    int32_t axis;
    bool view = (ebb__op(node->op)->flags & OPF_ALIAS) != 0 && !ebb__op_is_join(node, &axis);
    if (writer[v] != IR_NONE && view) {
        writer[node->out] = writer[v];
    }
}

/* Edges from producers to readers, and from readers of a variable to the producer of its next
 * value; of a view, only from readers that stand behind it in the order (see ebb__pass_sort). */
static ebb_status find_edges(waits *w) {
    const ir_graph *g = w->graph;
    size_t n = (size_t)g->n_nodes + 1, edges = 1 + (size_t)w->n_extra;
    for (int32_t i = 0; i < g->n_order; i++) {
        edges += 2 * (size_t)g->nodes[g->order[i]].n_in; /* at most */
    }
    TRY(REGION_ARRAYS(&w->region, ARRAY(w->writer, (size_t)g->n_values + 1), ARRAY(w->first, n),
                      ARRAY(w->waiting, n), ARRAY(w->edges, edges)));
    find_writers(g, w->writer);
    for (int32_t i = 0; i < g->n_order; i++) {
        ir_node reader = g->order[i];
        const ir_node_rec *node = &g->nodes[reader];
        for (int32_t k = 0; k < node->n_in; k++) {
            ir_val v = ir_in(g, node, k);
            if (v == IR_NONE) {
                continue;
            }
            if (g->values[v].def != IR_NONE) {
                add_edge(w, g->values[v].def, reader);
            }
            if (w->writer[v] != IR_NONE) {
                add_edge(w, reader, w->writer[v]);
                follow_view(node, v, w->writer);
            }
        }
    }
    for (int32_t i = 0; i < w->n_extra; i++) {
        add_edge(w, w->extra[i].from, w->extra[i].to);
    }
    return EBB_OK;
}

/* ---- sorting by key ---- */

static bool before(const int64_t *keys, ir_node a, ir_node b) {
    return keys[a] != keys[b] ? keys[a] < keys[b] : a < b;
}

static void merge_runs(const int64_t *keys, const ir_node *from, ir_node *to, int32_t lo,
                       int32_t mid, int32_t hi) {
    for (int32_t i = lo, j = mid, at = lo; at < hi; at++) {
        bool left = j == hi || (i < mid && before(keys, from[i], from[j]));
        to[at] = left ? from[i++] : from[j++];
    }
}

/* Merges ascending runs: keys are mostly positions, so there are few. *out: all nodes of the order,
 * least key first. */
static ebb_status sort_keys(const ir_graph *g, alloc_region *region, const int64_t *keys,
                            ir_node **out) {
    size_t n = (size_t)g->n_order;
    int32_t *ends = NULL, n_runs = 0; /* where each run ends */
    ir_node *list = NULL, *other = NULL;
    TRY(REGION_ARRAYS(region, ARRAY(ends, n + 1), ARRAY(list, n + 1), ARRAY(other, n + 1)));
    memcpy(list, g->order, n * sizeof *list);
    for (int32_t i = 1; i <= g->n_order; i++) {
        if (i == g->n_order || !before(keys, list[i - 1], list[i])) {
            ends[n_runs++] = i;
        }
    }
    while (n_runs > 1) {
        int32_t lo = 0, made = 0;
        for (int32_t r = 0; r < n_runs; r += 2) {
            int32_t mid = ends[r], hi = r + 1 < n_runs ? ends[r + 1] : mid;
            merge_runs(keys, list, other, lo, mid, hi);
            ends[made++] = lo = hi;
        }
        n_runs = made;
        ir_node *swap = list;
        list = other;
        other = swap;
    }
    *out = list;
    return EBB_OK;
}

/* Does every node of the list stand behind all that it waits for? */
static ebb_status is_order(const ir_graph *g, alloc_region *region, const ir_node *list,
                           bool *out) {
    bool *done = NULL;
    ir_node *writer = NULL;
    TRY(ebb__region_alloc(region, (size_t)g->n_nodes + 1, sizeof *done, &done));
    TRY(ebb__region_alloc(region, (size_t)g->n_values + 1, sizeof *writer, &writer));
    find_writers(g, writer);
    *out = true;
    for (int32_t i = 0; i < g->n_order && *out; i++) {
        const ir_node_rec *node = &g->nodes[list[i]];
        for (int32_t k = 0; k < node->n_in; k++) {
            ir_val v = ir_in(g, node, k);
            if (v == IR_NONE) {
                continue;
            }
            ir_node def = g->values[v].def;
            *out =
                *out && (def == IR_NONE || done[def]) && (writer[v] == IR_NONE || !done[writer[v]]);
            follow_view(node, v, writer);
        }
        done[list[i]] = true;
    }
    return EBB_OK;
}

/* ---- ready nodes ---- */

/* A set of ranks [0, 64^LEVELS): bit i of a level's word says that the word below it is not 0. */
enum { LEVELS = 6 };
typedef struct rank_set {
    uint64_t *words[LEVELS];
    int32_t levels;
} rank_set;

static ebb_status new_set(alloc_region *region, size_t n, rank_set *out) {
    *out = (rank_set){.levels = 0};
    do {
        n = n / 64 + 1;
        TRY(ebb__region_alloc(region, n, sizeof(uint64_t), &out->words[out->levels++]));
    } while (n > 1);
    return EBB_OK;
}

static void set_add(rank_set *s, int32_t rank) {
    for (int32_t l = 0; l < s->levels; l++, rank /= 64) {
        s->words[l][rank / 64] |= (uint64_t)1 << (rank % 64);
    }
}

/* Removes the least rank; -1: the set is empty. */
static int32_t set_take(rank_set *s) {
    int32_t rank = 0;
    if (s->words[s->levels - 1][0] == 0) {
        return -1;
    }
    for (int32_t l = s->levels - 1; l >= 0; l--) {
        rank = rank * 64 + __builtin_ctzll(s->words[l][rank]);
    }
    for (int32_t l = 0, at = rank; l < s->levels; l++, at /= 64) {
        s->words[l][at / 64] &= ~((uint64_t)1 << (at % 64));
        if (s->words[l][at / 64] != 0) {
            break;
        }
    }
    return rank;
}

/* The order in which ready nodes come out, the first of `list` first; *done: how many did. */
static ebb_status sort_ready(waits *w, ir_graph *g, const ir_node *list, int32_t *done) {
    int32_t *rank = NULL;
    rank_set ready;
    TRY(find_edges(w));
    TRY(ebb__region_alloc(&w->region, (size_t)g->n_nodes + 1, sizeof *rank, &rank));
    TRY(new_set(&w->region, (size_t)g->n_order, &ready));
    for (int32_t i = 0; i < g->n_order; i++) {
        rank[list[i]] = i;
        if (w->waiting[list[i]] == 0) {
            set_add(&ready, i);
        }
    }
    *done = 0;
    for (int32_t at = set_take(&ready); at >= 0; at = set_take(&ready)) {
        ir_node n = list[at];
        g->order[(*done)++] = n;
        for (int32_t e = w->first[n]; e > 0; e = w->edges[e].next) {
            if (--w->waiting[w->edges[e].to] == 0) {
                set_add(&ready, rank[w->edges[e].to]);
            }
        }
    }
    return EBB_OK;
}

ebb_status ebb__pass_sort(ir_graph *graph, const int64_t *keys) {
    waits w = {.graph = graph};
    ebb_status status;
    ir_node *list = NULL;
    bool valid = false;
    int32_t done = 0, total = graph->n_order;
    ebb__region_init(&w.region, graph->ctx);
    TRY_OUT(sort_keys(graph, &w.region, keys, &list));
    TRY_OUT(is_order(graph, &w.region, list, &valid));
    if (valid) {
        memcpy(graph->order, list, (size_t)total * sizeof *list);
        goto out;
    }
    TRY_OUT(sort_ready(&w, graph, list, &done));
    if (done != total) {
        status = ebb__fail(graph->ctx, EBB_INTERNAL,
                           "order: %d of %d nodes wait for each other; copy a variable that is "
                           "read after it is overwritten",
                           total - done, total);
    }
out:
    ebb__region_fini(&w.region);
    return status;
}

ebb_status ebb__pass_acyclic(const ir_graph *graph, const ir_node *leader, const pass_edge *extra,
                             int32_t n_extra, bool *out) {
    waits w = {.graph = graph, .leader = leader, .extra = extra, .n_extra = n_extra};
    ebb_status status;
    ir_node *ready = NULL;
    int32_t n_ready = 0, left = 0;
    ebb__region_init(&w.region, graph->ctx);
    TRY_OUT(find_edges(&w));
    TRY_OUT(ebb__region_alloc(&w.region, (size_t)graph->n_order + 1, sizeof *ready, &ready));
    for (int32_t i = 0; i < graph->n_order; i++) {
        ir_node n = graph->order[i];
        left += leader[n] == n;
        if (leader[n] == n && w.waiting[n] == 0) {
            ready[n_ready++] = n;
        }
    }
    while (n_ready > 0) {
        ir_node n = ready[--n_ready];
        left--;
        for (int32_t e = w.first[n]; e > 0; e = w.edges[e].next) {
            if (--w.waiting[w.edges[e].to] == 0) {
                ready[n_ready++] = w.edges[e].to;
            }
        }
    }
    *out = left == 0;
out:
    ebb__region_fini(&w.region);
    return status;
}

/* ---- replacing values ---- */

ebb_status ebb__pass_same(const ir_graph *graph, alloc_region *region, ir_val **now) {
    TRY(ebb__region_alloc(region, (size_t)graph->n_values + 1, sizeof **now, now));
    for (ir_val v = 0; v < graph->n_values; v++) {
        (*now)[v] = v;
    }
    return EBB_OK;
}

void ebb__pass_rewire(ir_graph *graph, const ir_val *now, int32_t n_values) {
    for (int32_t i = 0; i < graph->n_order; i++) {
        const ir_node_rec *node = &graph->nodes[graph->order[i]];
        for (int32_t k = 0; k < node->n_in; k++) {
            ir_val v = ir_in(graph, node, k);
            if (v != IR_NONE && v < n_values) {
                ir_set_in(graph, node, k, now[v]);
            }
        }
    }
    for (ir_val v = 0; v < n_values; v++) {
        ir_val next = graph->values[v].next;
        graph->values[v].next = next != IR_NONE && next < n_values ? now[next] : next;
    }
    graph->loss = graph->loss != IR_NONE ? now[graph->loss] : graph->loss;
}
