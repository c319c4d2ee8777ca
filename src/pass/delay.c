/* delay.c - nodes that are done again stand right before their first reader. They read only what
 * forward made, so a sort by readiness could do all of them at the start of backward, and nothing
 * would be saved (the race that Echo's authors met). Views go with them. */
#include "pass/pass.h"

typedef struct delayer {
    ir_graph *g;
    ir_node *order; /* fresh */
    int32_t n;
    bool *pending;    /* by node: met, but not yet asked for */
    int32_t *first;   /* by variable: delayed nodes that read it, as a list */
    int32_t *next;    /* by entry of those lists */
    ir_node *reader;  /* by entry */
    int32_t n_reader; /* entries */
    ir_val *shows;    /* by value: the variable that it is, or is a slice of; IR_NONE */
    ir_val *writes;   /* by value: the variable whose next it is; IR_NONE */
    ir_node *stack;
} delayer;

/* Puts a pending node into the order, after all pending ones that it reads. */
static void ask(delayer *d, ir_node n) {
    const ir_graph *g = d->g;
    int32_t depth = 0;
    d->stack[depth++] = n;
    while (depth > 0) {
        ir_node top = d->stack[depth - 1];
        const ir_node_rec *node = &g->nodes[top];
        bool ready = true;
        for (int32_t k = 0; k < node->n_in && ready; k++) {
            ir_val v = ir_in(g, node, k);
            ir_node def = v == IR_NONE ? (ir_node)IR_NONE : g->values[v].def;
            if (def != IR_NONE && d->pending[def]) {
                d->stack[depth++] = def;
                ready = false;
            }
        }
        if (ready) {
            depth--;
            if (d->pending[top]) {
                d->pending[top] = false;
                d->order[d->n++] = top;
            }
        }
    }
}

/* A node that overwrites a variable comes after all who read it. */
static void release_readers(delayer *d, const ir_node_rec *writer) {
    for (int32_t k = 0; k < writer->n_out; k++) {
        ir_val variable = d->writes[writer->out + k];
        for (int32_t e = variable == IR_NONE ? -1 : d->first[variable]; e >= 0; e = d->next[e]) {
            if (d->pending[d->reader[e]]) {
                ask(d, d->reader[e]);
            }
        }
    }
}

static void note_reader(delayer *d, ir_node n) {
    const ir_node_rec *node = &d->g->nodes[n];
    for (int32_t k = 0; k < node->n_in; k++) {
        ir_val v = ir_in(d->g, node, k);
        if (v != IR_NONE && d->shows[v] != IR_NONE) {
            d->reader[d->n_reader] = n;
            d->next[d->n_reader] = d->first[d->shows[v]];
            d->first[d->shows[v]] = d->n_reader++;
        }
    }
}

static ebb_status new_delayer(ir_graph *g, alloc_region *region, delayer *d) {
    size_t nv = (size_t)g->n_values + 1, nn = (size_t)g->n_nodes + 1;
    size_t operands = (size_t)g->n_operands + 1;
    *d = (delayer){.g = g};
    TRY(REGION_ARRAYS(region, ARRAY(d->order, nn), ARRAY(d->pending, nn), ARRAY(d->first, nv),
                      ARRAY(d->next, operands), ARRAY(d->reader, operands), ARRAY(d->shows, nv),
                      ARRAY(d->writes, nv), ARRAY(d->stack, nn)));
    for (ir_val v = 0; v < g->n_values; v++) {
        d->first[v] = -1;
        d->shows[v] = g->values[v].def == IR_NONE && g->values[v].next != IR_NONE ? v : IR_NONE;
        d->writes[v] = IR_NONE;
    }
    for (ir_val v = 0; v < g->n_values; v++) {
        if (g->values[v].next != IR_NONE) {
            d->writes[g->values[v].next] = v;
        }
    }
    return EBB_OK;
}

ebb_status ebb__pass_delay(ir_graph *graph) {
    delayer d;
    alloc_region region;
    bool any = false;
    for (int32_t i = 0; i < graph->n_order && !any; i++) {
        any = graph->nodes[graph->order[i]].label.phase == IR_RECOMPUTE;
    }
    if (!any) {
        return EBB_OK;
    }
    ebb__region_init(&region, graph->ctx);
    ebb_status status = new_delayer(graph, &region, &d);
    for (int32_t i = 0; status == EBB_OK && i < graph->n_order; i++) {
        ir_node n = graph->order[i];
        const ir_node_rec *node = &graph->nodes[n];
        bool view = (ebb__op(node->op)->flags & OPF_ALIAS) != 0;
        op_range range;
        if (ebb__op_is_slice(node, &range)) {
            d.shows[node->out] = d.shows[ir_in(graph, node, 0)];
        }
        d.pending[n] = true;
        if (view || node->label.phase == IR_RECOMPUTE) {
            note_reader(&d, n);
        } else {
            release_readers(&d, node);
            ask(&d, n);
        }
    }
    for (int32_t i = 0; status == EBB_OK && i < graph->n_order; i++) {
        if (d.pending[graph->order[i]]) {
            ask(&d, graph->order[i]); /* an output that nobody reads */
        }
    }
    for (int32_t i = 0; status == EBB_OK && i < graph->n_order; i++) {
        graph->order[i] = d.order[i];
    }
    ebb__region_fini(&region);
    return status;
}
