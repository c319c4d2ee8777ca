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

bool ebb__pass_roles(const ir_graph *graph, const ir_node_rec *node, pass_roles *out) {
    const op_def *def = ebb__op(node->op);
    if (def->rows == NULL || node->n_in > OP_MAX_KEEP) {
        return false;
    }
    *out = (pass_roles){{ROWS_WHOLE}, {ROWS_WHOLE}};
    def->rows(graph, node, out->in, out->out);
    return true;
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

/* ---- sorting ---- */

typedef struct edge {
    ir_node to;
    int32_t next; /* further edge of the same node; -1: none */
} edge;

typedef struct sorter {
    const ir_graph *graph;
    const int64_t *keys;
    const ir_node *leader; /* by node: the node it is merged with; NULL: none is */
    const pass_edge *extra;
    int32_t n_extra;
    alloc_region region;
    int32_t *first;   /* edges by node */
    int32_t *waiting; /* edges not yet satisfied, by node */
    edge *edges;
    size_t n_edges, cap_edges;
    ir_node *heap; /* ready nodes, least key first */
    int32_t n_heap;
} sorter;

static ebb_status add_edge(sorter *s, ir_node from, ir_node to) {
    if (s->leader != NULL) {
        from = s->leader[from];
        to = s->leader[to];
    }
    if (from == to) {
        return EBB_OK;
    }
    TRY(ebb__region_grow(&s->region, &s->edges, &s->cap_edges, s->n_edges + 1, sizeof *s->edges));
    s->edges[s->n_edges] = (edge){.to = to, .next = s->first[from]};
    s->first[from] = (int32_t)s->n_edges++;
    s->waiting[to]++;
    return EBB_OK;
}

static bool before(const sorter *s, ir_node a, ir_node b) {
    return s->keys[a] != s->keys[b] ? s->keys[a] < s->keys[b] : a < b;
}

static void heap_push(sorter *s, ir_node n) {
    int32_t i = s->n_heap++;
    for (; i > 0 && before(s, n, s->heap[(i - 1) / 2]); i = (i - 1) / 2) {
        s->heap[i] = s->heap[(i - 1) / 2];
    }
    s->heap[i] = n;
}

static ir_node heap_pop(sorter *s) {
    ir_node top = s->heap[0], last = s->heap[--s->n_heap];
    int32_t i = 0;
    for (;;) {
        int32_t child = 2 * i + 1;
        if (child >= s->n_heap) {
            break;
        }
        if (child + 1 < s->n_heap && before(s, s->heap[child + 1], s->heap[child])) {
            child++;
        }
        if (!before(s, s->heap[child], last)) {
            break;
        }
        s->heap[i] = s->heap[child];
        i = child;
    }
    s->heap[i] = last;
    return top;
}

/* Edges from producers to readers, and from readers of a variable to the producer of its next
 * value. A reader of a view of the variable (slice, stack) reads the variable too. */
static ebb_status add_edges(sorter *s) {
    const ir_graph *g = s->graph;
    ir_node *writer = NULL; /* by value: the node that overwrites the bytes it views */
    TRY(ebb__region_alloc(&s->region, (size_t)g->n_values + 1, sizeof *writer, &writer));
    for (ir_val v = 0; v < g->n_values; v++) {
        writer[v] = g->values[v].next != IR_NONE ? g->values[g->values[v].next].def : IR_NONE;
    }
    for (int32_t i = 0; i < g->n_order; i++) {
        ir_node n = g->order[i];
        const ir_node_rec *node = &g->nodes[n];
        bool alias = (ebb__op(node->op)->flags & OPF_ALIAS) != 0;
        for (int32_t k = 0; k < node->n_in; k++) {
            ir_val v = ir_in(g, node, k);
            if (v == IR_NONE) {
                continue;
            }
            if (g->values[v].def != IR_NONE) {
                TRY(add_edge(s, g->values[v].def, n));
            }
            if (writer[v] != IR_NONE) {
                TRY(add_edge(s, n, writer[v]));
                if (alias) {
                    writer[node->out] = writer[v];
                }
            }
        }
    }
    return EBB_OK;
}

static ebb_status start_sorter(sorter *s) {
    const ir_graph *g = s->graph;
    size_t n = (size_t)g->n_nodes + 1;
    TRY(ebb__region_alloc(&s->region, n, sizeof *s->first, &s->first));
    TRY(ebb__region_alloc(&s->region, n, sizeof *s->waiting, &s->waiting));
    TRY(ebb__region_alloc(&s->region, n, sizeof *s->heap, &s->heap));
    memset(s->first, 0xff, n * sizeof *s->first);
    TRY(add_edges(s));
    for (int32_t i = 0; i < s->n_extra; i++) {
        TRY(add_edge(s, s->extra[i].from, s->extra[i].to));
    }
    for (int32_t i = 0; i < g->n_order; i++) {
        ir_node node = g->order[i];
        bool leads = s->leader == NULL || s->leader[node] == node;
        if (leads && s->waiting[node] == 0) {
            heap_push(s, node);
        }
    }
    return EBB_OK;
}

/* The next ready node; IR_NONE: none is left, or the rest wait for each other. */
static ir_node take_ready(sorter *s) {
    if (s->n_heap == 0) {
        return IR_NONE;
    }
    ir_node node = heap_pop(s);
    for (int32_t e = s->first[node]; e != -1; e = s->edges[e].next) {
        if (--s->waiting[s->edges[e].to] == 0) {
            heap_push(s, s->edges[e].to);
        }
    }
    return node;
}

ebb_status ebb__pass_sort(ir_graph *graph, const int64_t *keys) {
    sorter s = {.graph = graph, .keys = keys};
    ebb_status status;
    int32_t done = 0, total = graph->n_order;
    ebb__region_init(&s.region, graph->ctx);
    TRY_OUT(start_sorter(&s));
    for (ir_node node = take_ready(&s); node != IR_NONE; node = take_ready(&s)) {
        graph->order[done++] = node;
    }
    if (done != total) {
        status = ebb__fail(graph->ctx, EBB_INTERNAL,
                           "order: %d of %d nodes wait for each other; copy a variable that is "
                           "read after it is overwritten",
                           total - done, total);
    }
out:
    ebb__region_fini(&s.region);
    return status;
}

ebb_status ebb__pass_acyclic(const ir_graph *graph, const ir_node *leader, const pass_edge *extra,
                             int32_t n_extra, bool *out) {
    sorter s = {.graph = graph, .leader = leader};
    ebb_status status;
    int32_t done = 0, leaders = 0;
    int64_t *keys = NULL;
    ebb__region_init(&s.region, graph->ctx);
    TRY_OUT(ebb__pass_keys(graph, &s.region, (size_t)graph->n_nodes, 1, &keys));
    s.keys = keys;
    s.extra = extra;
    s.n_extra = n_extra;
    TRY_OUT(start_sorter(&s));
    while (take_ready(&s) != IR_NONE) {
        done++;
    }
    for (int32_t i = 0; i < graph->n_order; i++) {
        leaders += leader[graph->order[i]] == graph->order[i];
    }
    *out = done == leaders;
out:
    ebb__region_fini(&s.region);
    return status;
}
