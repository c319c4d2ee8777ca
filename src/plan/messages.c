/* messages.c - the list of a compiled program's messages (ranks.h). */
#include "plan/ranks.h"

#include "base/alloc.h"

#include <stdio.h>

/* The one that gave the ticket, if it started the message of these bytes; else -1. What is sent
 * must be what is waited for: else its bytes might change on the way. */
static int32_t start_of(const ir_graph *g, const ir_node_rec *node, op_message kind,
                        const int32_t *number) {
    bool sent = kind == MESSAGE_SENT;
    ir_val ticket = ir_in(g, node, sent ? 0 : 1), data = ir_in(g, node, sent ? 1 : 0);
    ir_node def = ticket == IR_NONE ? (ir_node)IR_NONE : g->values[ticket].def;
    if (def == IR_NONE || number[def] < 0) {
        return -1;
    }
    const ir_node_rec *start = &g->nodes[def];
    ir_val started = sent ? ir_in(g, start, 0) : start->out;
    return data == started ? number[def] : -1;
}

static void label_of(const ir_graph *g, ir_label label, char *out) {
    char when[16] = "";
    if (label.at >= 0) {
        (void)snprintf(when, sizeof when, " t=%d", label.at);
    }
    (void)snprintf(out, PLAN_MESSAGE_LABEL, "%.20s%s%s%s", g->layers[label.layer],
                   label.layer > 0 ? " " : "", ebb__ir_phase_name(label.phase), when);
}

static plan_message describe(const ir_graph *g, const ir_node_rec *node, op_message kind) {
    ir_val v = kind == MESSAGE_SEND ? ir_in(g, node, 0) : node->out;
    op_post post = ebb__op_post(kind, &node->attr);
    plan_message m = {.kind = (int32_t)kind,
                      .peer = post.peer,
                      .tag = post.tag,
                      .value = post.value,
                      .dtype = (int32_t)g->values[v].type.dtype,
                      .start = -1,
                      .bytes = ebb__ir_type_bytes(&g->values[v].type)};
    label_of(g, node->label, m.label);
    return m;
}

static plan_message describe_wait(const plan_messages *list, int32_t start, op_message kind) {
    plan_message m = start < 0 ? (plan_message){.peer = -1, .tag = -1} : list->at[start];
    m.kind = (int32_t)kind;
    m.start = start;
    return m;
}

static op_message message_of(const pass_unit *unit, ir_node n) {
    bool runs = unit->kernels[n] != DEVICE_KERNEL_NONE;
    return runs ? ebb__op(unit->graph.nodes[n].op)->message : MESSAGE_NONE;
}

static void fill(const pass_unit *unit, int32_t *number, plan_messages *out) {
    const ir_graph *g = &unit->graph;
    for (int32_t i = 0; i < g->n_order; i++) {
        ir_node n = g->order[i];
        const ir_node_rec *node = &g->nodes[n];
        op_message kind = message_of(unit, n);
        if (kind == MESSAGE_SEND || kind == MESSAGE_RECV) {
            number[n] = out->n;
            out->at[out->n++] = describe(g, node, kind);
        } else if (kind != MESSAGE_NONE) {
            plan_message m = describe_wait(out, start_of(g, node, kind, number), kind);
            label_of(g, node->label, m.label);
            out->at[out->n++] = m;
        }
    }
}

ebb_status ebb__plan_list_messages(const pass_unit *unit, plan_messages *out) {
    const ir_graph *g = &unit->graph;
    alloc_region region;
    int32_t *number = NULL; /* by node: its place in the list */
    size_t n = 0;
    *out = (plan_messages){0};
    for (int32_t i = 0; i < g->n_order; i++) {
        n += message_of(unit, g->order[i]) != MESSAGE_NONE;
    }
    ebb__region_init(&region, unit->ctx);
    ebb_status status = REGION_ARRAYS(&region, ARRAY_NONE(number, (size_t)g->n_nodes + 1));
    if (status == EBB_OK) {
        status = ebb__alloc(unit->ctx, n, sizeof *out->at, &out->at);
    }
    if (status == EBB_OK) {
        fill(unit, number, out);
    }
    ebb__region_fini(&region);
    return status;
}
