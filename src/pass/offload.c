/* offload.c - what waits for backward waits outside the device's memory (vDNN, SuperNeurons): in
 * the host's or, where the device's is that, in a file.
 *
 * A *stash* is what a forward node wrote and a late node reads, itself or by a view. Those with the
 * longest way from their last reader in forward to their first in backward go first, up to a share
 * of all such bytes: `to_host` stands behind the time step that made the value, so that runs of
 * nodes stay together, and ends its life there; `to_device` gives it back right before who reads
 * it, as an ordinary value, once for every span of time steps that does. Views that late nodes read
 * are repeated over what came back. Copies change no bit.
 */
#include "pass/pass.h"

#include <stdlib.h>
#include <string.h>

typedef struct stash {
    ir_val value;
    int32_t distance; /* nodes between the last reader in forward and the first late one */
    uint64_t bytes;
} stash;

typedef struct offloader {
    pass_unit *unit;
    ir_graph *g;
    int32_t n_values;
    bool *late;          /* by node: done in backward's time (recompute.c has the same) */
    int32_t *last;       /* by value: position of the last node of forward that reads it; -1 */
    int32_t *first;      /* by value: that of the first late one; n_order: none */
    bool *moved;         /* by value: it goes, or is a view of one that does */
    ir_val *away;        /* by value: outside, once it is there */
    ir_val *back;        /* by value: what stands for it in the span `back_span` */
    int32_t *back_span;  /* by value */
    int32_t *behind;     /* by position: the first value that goes behind it, as a list; -1 */
    int32_t *next_moved; /* by value: the next of that list */
    ir_node *order;      /* being built */
    int32_t n_order;
    size_t cap_order;
} offloader;

static bool is_view(const ir_graph *g, ir_node n) {
    return (ebb__op(g->nodes[n].op)->flags & OPF_ALIAS) != 0;
}

static int32_t era_of(const pass_unit *unit, ir_node n) {
    return n < unit->n_eras ? unit->era[n] : 0;
}

static int32_t most(int32_t a, int32_t b) {
    return a > b ? a : b;
}

static int32_t least(int32_t a, int32_t b) {
    return a < b ? a : b;
}

/* ---- what there is ---- */

/* From the last node to the first, so that who reads a view is known when the view is met: its
 * readers are readers of what it shows. */
static void find_readers(offloader *o) {
    const ir_graph *g = o->g;
    for (ir_val v = 0; v < g->n_values; v++) {
        o->first[v] = g->n_order;
    }
    for (int32_t i = g->n_order - 1; i >= 0; i--) {
        ir_node n = g->order[i];
        const ir_node_rec *node = &g->nodes[n];
        int32_t era = era_of(o->unit, n);
        o->late[n] = era > 0 || (era == 0 && pass_is_late(node));
        for (int32_t k = 0; k < node->n_in; k++) {
            ir_val v = ir_in(g, node, k);
            if (v == IR_NONE) {
                continue;
            }
            if (is_view(g, n)) {
                o->last[v] = most(o->last[v], o->last[node->out]);
                o->first[v] = least(o->first[v], o->first[node->out]);
            } else if (o->late[n]) {
                o->first[v] = least(o->first[v], i);
            } else {
                o->last[v] = most(o->last[v], i);
            }
        }
    }
}

/* Heaps grow from node to node, and what a variable becomes stays to the end of the step. */
static bool may_go(const offloader *o, ir_node n, ir_val v, const bool *stays) {
    const ir_graph *g = o->g;
    const op_def *def = ebb__op(g->nodes[n].op);
    return !o->late[n] && era_of(o->unit, n) == 0 &&
           (def->flags & (OPF_ALIAS | OPF_ROOM | OPF_GROWS | OPF_STOPS)) == 0 &&
           def->message == MESSAGE_NONE && o->first[v] < g->n_order && !g->values[v].output &&
           !stays[v] &&
           ebb__ir_type_bytes(&g->values[v].type) >= (uint64_t)o->unit->config->knobs.offload_least;
}

/* The longest way first; of equal ones the earlier value, so that the order is one. */
static int in_order(const void *a, const void *b) {
    const stash *x = a, *y = b;
    return x->distance != y->distance ? (x->distance < y->distance ? 1 : -1)
                                      : (x->value > y->value) - (x->value < y->value);
}

static ebb_status list_stashes(const offloader *o, stash **out, int32_t *n, uint64_t *bytes) {
    const ir_graph *g = o->g;
    bool *stays = NULL;
    *n = 0;
    *bytes = 0;
    TRY(REGION_ARRAYS(&o->unit->scratch, ARRAY(*out, (size_t)g->n_values + 1),
                      ARRAY(stays, (size_t)g->n_values + 1)));
    for (ir_val v = 0; v < g->n_values; v++) {
        if (g->values[v].next != IR_NONE) {
            stays[g->values[v].next] = true;
        }
    }
    for (int32_t i = 0; i < g->n_order; i++) {
        const ir_node_rec *node = &g->nodes[g->order[i]];
        for (int32_t k = 0; k < node->n_out; k++) {
            ir_val v = node->out + k;
            if (may_go(o, g->order[i], v, stays)) {
                (*out)[*n] = (stash){v, o->first[v] - most(o->last[v], i),
                                     ebb__ir_type_bytes(&g->values[v].type)};
                *bytes += (*out)[(*n)++].bytes;
            }
        }
    }
    qsort(*out, (size_t)*n, sizeof **out, in_order);
    return EBB_OK;
}

/* Behind which position a value that the node at `i` made goes: the end of what forward does of the
 * same layer and time step there. */
static int32_t end_of_step(const offloader *o, int32_t i) {
    const ir_graph *g = o->g;
    const ir_label *made = &g->nodes[g->order[i]].label;
    while (made->at >= 0 && i + 1 < g->n_order) {
        const ir_label *next = &g->nodes[g->order[i + 1]].label;
        if (next->layer != made->layer || next->at != made->at || next->phase != IR_FORWARD ||
            next->shard != made->shard) {
            break;
        }
        i++;
    }
    return i;
}

static ebb_status choose(offloader *o, bool *any) {
    const ir_graph *g = o->g;
    stash *list = NULL;
    int32_t n = 0;
    uint64_t all = 0, taken = 0;
    TRY(list_stashes(o, &list, &n, &all));
    double share = (double)o->unit->config->knobs.offload / 100.0 * (double)all;
    for (int32_t i = 0; i < n && (double)taken < share; i++) {
        o->moved[list[i].value] = true;
        taken += list[i].bytes;
    }
    *any = taken > 0;
    for (int32_t i = g->n_order - 1; i >= 0; i--) {
        const ir_node_rec *node = &g->nodes[g->order[i]];
        int32_t at = end_of_step(o, i);
        for (int32_t k = node->n_out - 1; k >= 0; k--) {
            if (o->moved[node->out + k]) {
                o->next_moved[node->out + k] = o->behind[at];
                o->behind[at] = node->out + k;
            }
        }
    }
    for (int32_t i = 0; i < g->n_order; i++) { /* views of what goes */
        const ir_node_rec *node = &g->nodes[g->order[i]];
        for (int32_t k = 0; k < node->n_in && is_view(g, g->order[i]) && !o->late[g->order[i]];
             k++) {
            o->moved[node->out] = o->moved[node->out] || o->moved[ir_in(g, node, k)];
        }
    }
    return EBB_OK;
}

/* ---- the nodes ---- */

static ebb_status append(offloader *o, ir_node n) {
    TRY(ebb__region_grow(&o->unit->scratch, &o->order, &o->cap_order, (size_t)o->n_order + 1,
                         sizeof *o->order));
    o->order[o->n_order++] = n;
    return EBB_OK;
}

/* The span of time steps that a late node belongs to; -1: none. */
static int32_t span_of(const offloader *o, ir_node n) {
    int32_t era = era_of(o->unit, n), span = o->unit->config->knobs.span;
    int32_t time = era > 0 ? era - 1 : o->g->nodes[n].label.at;
    return time < 0 || span <= 0 ? -1 : time / span;
}

/* What late nodes of a span read in the place of v. */
static ebb_status fetch(offloader *o, ir_val v, int32_t span, ir_val *out) {
    ir_graph *g = o->g;
    *out = v;
    if (v == IR_NONE || v >= o->n_values || !o->moved[v]) {
        return EBB_OK;
    }
    if (o->back[v] != IR_NONE && o->back_span[v] == span) {
        *out = o->back[v];
        return EBB_OK;
    }
    const ir_node_rec node = g->nodes[g->values[v].def];
    ir_label label = node.label;
    if (o->away[v] != IR_NONE) {
        label.phase = IR_RECOMPUTE; /* so that it stays right before who reads it (delay.c) */
        g->label = label;
        TRY(ebb__op_emit(g, OP_TO_DEVICE, &o->away[v], 1, NULL, &o->back[v]));
    } else { /* a view: should it have to be a copy, that repeats no work of forward */
        label.phase = IR_BACKWARD;
        ir_val *in = NULL;
        TRY(ebb__region_alloc(&o->unit->scratch, (size_t)node.n_in + 1, sizeof *in, &in));
        for (int32_t k = 0; k < node.n_in; k++) {
            TRY(fetch(o, ir_in(g, &node, k), span, &in[k]));
        }
        g->label = label;
        TRY(ebb__op_emit(g, (op_code)node.op, in, node.n_in, &node.attr, &o->back[v]));
    }
    o->back_span[v] = span;
    *out = o->back[v];
    return append(o, g->values[*out].def);
}

static ebb_status move_out(offloader *o, ir_val v) {
    ir_graph *g = o->g;
    g->label = g->nodes[g->values[v].def].label;
    TRY(ebb__op_emit(g, OP_TO_HOST, &v, 1, NULL, &o->away[v]));
    return append(o, g->values[o->away[v]].def);
}

static ebb_status emit(offloader *o) {
    ir_graph *g = o->g;
    const int32_t n_order = g->n_order;
    ir_node *given = NULL;
    TRY(ebb__region_alloc(&o->unit->scratch, (size_t)n_order + 1, sizeof *given, &given));
    memcpy(given, g->order, (size_t)n_order * sizeof *given);
    for (int32_t i = 0; i < n_order; i++) {
        ir_node n = given[i];
        for (int32_t k = 0; o->late[n] && k < g->nodes[n].n_in; k++) {
            ir_val from = IR_NONE;
            TRY(fetch(o, ir_in(g, &g->nodes[n], k), span_of(o, n), &from));
            ir_set_in(g, &g->nodes[n], k, from);
        }
        TRY(append(o, n));
        for (ir_val v = o->behind[i]; v != IR_NONE; v = o->next_moved[v]) {
            TRY(move_out(o, v));
        }
    }
    g->n_order = 0;
    TRY(ebb__region_grow(&g->region, &g->order, &g->cap_order, (size_t)o->n_order,
                         sizeof *g->order));
    memcpy(g->order, o->order, (size_t)o->n_order * sizeof *o->order);
    g->n_order = o->n_order;
    return ebb__pass_drop_dead(g);
}

static ebb_status run(pass_unit *unit) {
    const pass_knobs *how = &unit->config->knobs;
    ir_graph *g = &unit->graph;
    offloader o = {.unit = unit, .g = g, .n_values = g->n_values};
    size_t nv = (size_t)g->n_values + 1, nn = (size_t)g->n_nodes + 1;
    bool any = false;
    if (!unit->config->training || how->offload <= 0) {
        return EBB_OK;
    }
    if (how->span > 0 && how->price <= 0) { /* else recompute did so */
        TRY(ebb__recompute_sort(unit, how));
    }
    o.cap_order = 2 * (size_t)g->n_order + 1;
    TRY(REGION_ARRAYS(&unit->scratch, ARRAY(o.late, nn), ARRAY_NONE(o.last, nv), ARRAY(o.first, nv),
                      ARRAY(o.moved, nv), ARRAY_NONE(o.away, nv), ARRAY_NONE(o.back, nv),
                      ARRAY(o.back_span, nv), ARRAY_NONE(o.behind, (size_t)g->n_order + 1),
                      ARRAY_NONE(o.next_moved, nv), ARRAY(o.order, o.cap_order)));
    find_readers(&o);
    TRY(choose(&o, &any));
    return any ? emit(&o) : EBB_OK;
}

const pass_def ebb__pass_offload = {.id = PASS_OFFLOAD, .run = run};
