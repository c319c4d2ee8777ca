/* decisions.c - what was decided not to wait for backward as it is, by layer, read off the compiled
 * graph: nodes that are done again, that make something smaller, or that move it out of the
 * device's memory and back; the bytes that are saved by it, and what they take. */
#include "plan/plan.h"

#include <stdio.h>
#include <stdlib.h>

/* Decoding is no work that forward has done before. */
static bool is_again(const pass_unit *unit, ir_node n) {
    const ir_node_rec *node = &unit->graph.nodes[n];
    return node->label.phase == IR_RECOMPUTE && unit->kernels[n] != DEVICE_KERNEL_NONE &&
           (ebb__op(node->op)->flags & OPF_DECODES) == 0;
}

int32_t ebb__plan_recomputed(const pass_unit *unit) {
    const ir_graph *g = &unit->graph;
    int32_t n = 0;
    for (int32_t i = 0; i < g->n_order; i++) {
        ir_node at = g->order[i];
        n += is_again(unit, at);
    }
    return n;
}

static uint64_t bytes_of_results(const ir_graph *g, const ir_node_rec *node) {
    uint64_t bytes = 0;
    for (int32_t k = 0; k < node->n_out; k++) {
        bytes += ebb__ir_type_bytes(&g->values[node->out + k].type);
    }
    return bytes;
}

typedef struct decision_sum {
    int32_t nodes;
    int64_t bytes;
    double seconds;
} decision_sum;

typedef struct collector {
    const pass_unit *unit;
    const ir_graph *g;
    op_forms forms;
    int32_t n_forms;    /* of decisions: one more, for what waits outside the device's memory */
    decision_sum *sums; /* by layer and form; form 0, dense, stands for what is computed again */
    int32_t *slot;      /* by value that is encoded: 1 + which of the sums has what that saves */
    uint64_t *made;     /* by value: bytes of its codes */
    bool *shares;       /* by value: it is encoded into what others are encoded into too */
    uint64_t shared;    /* bytes of that */
    uint64_t sharing;   /* of these values */
} collector;

static uint64_t bytes_of(const ir_graph *g, ir_val v) {
    return ebb__ir_type_bytes(&g->values[v].type);
}

/* What is encoded: the largest operand that is no code itself, nor what the result goes on with;
 * IR_NONE: the node makes room for others. */
static ir_val find_encoded(const ir_graph *g, const ir_node_rec *node, bool carried) {
    ir_val found = IR_NONE;
    for (int32_t i = carried ? 1 : 0; i < node->n_in; i++) {
        const ir_type *type = op_in_type(g, node, i);
        if (type != NULL && type->dtype == IR_F32 &&
            (found == IR_NONE || ebb__ir_type_bytes(type) > bytes_of(g, found))) {
            found = ir_in(g, node, i);
        }
    }
    return found;
}

/* A value with several codes is saved once: the first one has that, or what it shares. */
static void add_code(collector *c, const ir_node_rec *node, int32_t slot) {
    bool carried = (ebb__op(node->op)->flags & OPF_GROWS) != 0; /* values share the result */
    ir_val v = find_encoded(c->g, node, carried);
    if (carried || v == IR_NONE) {
        c->shared += bytes_of_results(c->g, node);
        c->shared -= carried ? bytes_of(c->g, ir_in(c->g, node, 0)) : 0;
    }
    if (v == IR_NONE) {
        return;
    }
    c->made[v] += carried ? 0 : bytes_of_results(c->g, node);
    c->sharing += carried ? bytes_of(c->g, v) : 0;
    c->shares[v] = c->shares[v] || carried;
    c->slot[v] = c->slot[v] == 0 || carried ? slot + 1 : c->slot[v];
}

/* What every encoded value saves, once all its codes are known. */
static void add_savings(collector *c) {
    double share = c->sharing > 0 ? (double)c->shared / (double)c->sharing : 0;
    for (ir_val v = 0; v < c->g->n_values; v++) {
        if (c->slot[v] > 0) {
            uint64_t bytes = bytes_of(c->g, v);
            double room = c->shares[v] ? share * (double)bytes : 0;
            c->sums[c->slot[v] - 1].bytes += (int64_t)(bytes - c->made[v]) - (int64_t)room;
        }
    }
}

/* The bytes are counted when a value leaves; seconds both ways. */
static void add_transfer(collector *c, ir_node n, op_transfer transfer) {
    const pass_unit *unit = c->unit;
    const ir_node_rec *node = &c->g->nodes[n];
    decision_sum *sum = &c->sums[node->label.layer * c->n_forms + c->forms.n];
    sum->nodes++;
    sum->seconds += ebb__cost_expected(unit->config->pace, unit->dev, c->g, node, unit->kernels[n],
                                       unit->config->members);
    sum->bytes += transfer == TRANSFER_OUT ? (int64_t)bytes_of_results(c->g, node) : 0;
}

/* First those that are computed again, then form by form; in each the most bytes first. */
static int in_order(const void *a, const void *b) {
    const plan_decision *x = a, *y = b;
    if ((x->form == NULL) != (y->form == NULL)) {
        return x->form == NULL ? -1 : 1;
    }
    return (x->bytes < y->bytes) - (x->bytes > y->bytes);
}

static void add_node(collector *c, ir_node n) {
    const pass_unit *unit = c->unit;
    const ir_node_rec *node = &c->g->nodes[n];
    int32_t form = c->forms.of[node->op];
    bool again = is_again(unit, n), runs = unit->kernels[n] != DEVICE_KERNEL_NONE;
    int32_t slot = node->label.layer * c->n_forms + (again ? 0 : form);
    op_transfer transfer = ebb__op(node->op)->transfer;
    if (transfer != TRANSFER_NONE) {
        add_transfer(c, n, transfer);
        return;
    }
    if (!again && (form == 0 || node->label.phase != IR_FORWARD)) {
        return;
    }
    if (runs) {
        c->sums[slot].nodes++;
        c->sums[slot].seconds += ebb__cost_expected(unit->config->pace, unit->dev, c->g, node,
                                                    unit->kernels[n], unit->config->members);
    }
    if (!again) {
        add_code(c, node, slot);
    } else {
        c->sums[slot].bytes += (int64_t)bytes_of_results(c->g, node);
    }
}

/* As a list without gaps. */
static ebb_status keep_sums(ebb_plan *plan, const collector *c) {
    const op_forms *forms = &c->forms;
    int32_t n = 0, slots = c->g->n_layers * c->n_forms;
    for (int32_t i = 0; i < slots; i++) {
        n += c->sums[i].nodes > 0;
    }
    TRY(ebb__alloc(plan->ctx, (size_t)n + 1, sizeof *plan->decisions, &plan->decisions));
    for (int32_t i = 0; i < slots; i++) {
        const decision_sum *sum = &c->sums[i];
        if (sum->nodes == 0) {
            continue;
        }
        plan_decision *d = &plan->decisions[plan->n_decisions++];
        int32_t form = i % c->n_forms;
        *d = (plan_decision){.form = form == forms->n ? PLAN_OFFLOADED
                                     : form > 0       ? forms->names[form]
                                                      : NULL,
                             .nodes = sum->nodes,
                             .bytes = sum->bytes > 0 ? (uint64_t)sum->bytes : 0,
                             .seconds = sum->seconds};
        (void)snprintf(d->layer, sizeof d->layer, "%s", c->g->layers[i / c->n_forms]);
    }
    qsort(plan->decisions, (size_t)n, sizeof *plan->decisions, in_order);
    return EBB_OK;
}

ebb_status ebb__plan_list_decisions(ebb_plan *plan) {
    const pass_unit *unit = &plan->programs[plan->lead].unit;
    collector c = {.unit = unit, .g = &unit->graph, .forms = ebb__op_forms()};
    c.n_forms = c.forms.n + 1;
    alloc_region region;
    ebb_status status;
    ebb__region_init(&region, plan->ctx);
    size_t nv = (size_t)c.g->n_values + 1;
    TRY_OUT(REGION_ARRAYS(&region, ARRAY(c.sums, (size_t)(c.g->n_layers * c.n_forms) + 1),
                          ARRAY(c.slot, nv), ARRAY(c.made, nv), ARRAY(c.shares, nv)));
    for (int32_t i = 0; i < c.g->n_order; i++) {
        add_node(&c, c.g->order[i]);
    }
    add_savings(&c);
    TRY_OUT(keep_sums(plan, &c));
out:
    ebb__region_fini(&region);
    return status;
}
