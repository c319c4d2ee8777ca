/* schedule.c - the order of nodes. Starts from the order the passes left (which already puts views,
 * copies and loss chunks where they belong) and tries to apply every update as soon as its
 * gradient is complete, so that gradients need not coexist; keeps whichever order has the lower
 * peak. Readers of a variable always come before the node that overwrites it. */
#include "plan/passes.h"
#include "plan/storage.h"

#include <string.h>

/* On scratch of its own: two trials need not be in memory at once. */
static ebb_status find_peak(pass_unit *unit, plan_peak *out) {
    alloc_region kept = unit->scratch;
    ebb__region_init(&unit->scratch, unit->ctx);
    ebb_status status = ebb__plan_storage_load(unit, out);
    ebb__region_fini(&unit->scratch);
    unit->scratch = kept;
    return status;
}

static void swap_orders(ir_graph *g, ir_node *other) {
    for (int32_t i = 0; i < g->n_order; i++) {
        ir_node n = g->order[i];
        g->order[i] = other[i];
        other[i] = n;
    }
}

/* Takes the order with the lower peak, g's or the given one. As far as both are the same they take
 * the same bytes: if the given one has its peak there, the other one is not lower. */
static ebb_status choose(pass_unit *unit, ir_node *given) {
    ir_graph *g = &unit->graph;
    plan_peak before, after;
    int32_t same = 0;
    while (same < g->n_order && g->order[same] == given[same]) {
        same++;
    }
    swap_orders(g, given);
    if (same == g->n_order) {
        return EBB_OK;
    }
    TRY(find_peak(unit, &before));
    if (before.position < same) {
        return EBB_OK;
    }
    swap_orders(g, given);
    TRY(find_peak(unit, &after));
    if (after.bytes > before.bytes) {
        swap_orders(g, given);
    }
    return EBB_OK;
}

/* ---- stages ---- */

/* Where stages hand on chunks of time steps, the next one is not to wait for gradients of weights,
 * which only updates read: they move down behind what is sent of the chunk, to where this stage
 * waits for what comes next. */
static ebb_status put_off_sums(pass_unit *unit, int64_t *keys) {
    ir_graph *g = &unit->graph;
    int32_t *reader = NULL;      /* by value: where it is first read */
    int32_t got = -1, wait = -1; /* the next of those, and the next behind a send */
    TRY(ebb__region_alloc(&unit->scratch, (size_t)g->n_values + 1, sizeof *reader, &reader));
    for (ir_val v = 0; v < g->n_values; v++) {
        reader[v] = g->n_order;
    }
    for (int32_t i = g->n_order - 1; i >= 0; i--) {
        ir_node n = g->order[i];
        const ir_node_rec *node = &g->nodes[n];
        op_message message = ebb__op(node->op)->message;
        bool off = node->label.phase == IR_BACKWARD && message == MESSAGE_NONE && wait >= 0;
        for (int32_t k = 0; k < node->n_out; k++) {
            off = off && reader[node->out + k] >= wait;
        }
        int32_t at = off ? wait : i;
        got = message == MESSAGE_GOT ? i : got;
        wait = message == MESSAGE_SEND ? got : wait;
        keys[n] = 2 * (int64_t)at - off;
        for (int32_t k = 0; k < node->n_in; k++) {
            ir_val v = ir_in(g, node, k);
            if (v != IR_NONE) {
                reader[v] = at < reader[v] ? at : reader[v];
            }
        }
    }
    return ebb__pass_sort(g, keys);
}

/* ---- the whole ---- */

static ebb_status run(pass_unit *unit) {
    ir_graph *g = &unit->graph;
    int64_t *keys = NULL;
    ir_node *given = NULL;
    size_t n = (size_t)g->n_order;
    TRY(ebb__pass_keys(g, &unit->scratch, (size_t)g->n_nodes, 1, &keys));
    TRY(ebb__pass_sort(g, keys));
    TRY(ebb__pass_delay(g));
    if (!unit->config->training) {
        return EBB_OK;
    }
    if (pass_chunk_steps(&unit->config->ranks) > 0) {
        TRY(put_off_sums(unit, keys));
    }
    TRY(ebb__region_alloc(&unit->scratch, n + 1, sizeof *given, &given));
    memcpy(given, g->order, n * sizeof *given);
    for (size_t i = 0; i < n; i++) {
        if (g->nodes[given[i]].label.phase == IR_UPDATE) {
            keys[given[i]] = -1; /* as soon as it is ready */
        }
    }
    TRY(ebb__pass_sort(g, keys));
    TRY(ebb__pass_delay(g));
    return choose(unit, given);
}

const pass_def ebb__pass_schedule = {.id = PASS_SCHEDULE, .run = run};
