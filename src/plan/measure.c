/* measure.c - what a program takes under one configuration. Most candidates of a walk are of no
 * use, which shows long before they have addresses: some are the graph of another one, some take
 * more than a faster one even if they could be placed without a gap. So who asks is shown what is
 * known by then, twice, and may call it off. */
#include "plan/plan.h"

#include "ir/hash.h"

#include <string.h>
#include <xxhash.h>

/* What passes can tell apart of a value. Names lie elsewhere in every copy, and padding is not
 * theirs. */
typedef struct value_key {
    int32_t dtype, rank, dim[IR_MAX_RANK];
    ir_val next;
    ir_node def;
    int32_t role, marks;
} value_key;

static uint64_t hash_values(const ir_graph *g, uint64_t hash) {
    for (ir_val v = 0; v < g->n_values; v++) {
        const ir_value *value = &g->values[v];
        value_key key = {.dtype = (int32_t)value->type.dtype,
                         .rank = value->type.rank,
                         .next = value->next,
                         .def = value->def,
                         .role = (int32_t)value->role,
                         .marks = 2 * value->output + value->param_grad};
        memcpy(key.dim, value->type.dim, sizeof key.dim);
        hash = XXH3_64bits_withSeed(&key, sizeof key, hash);
    }
    return hash;
}

/* Two candidates of one request with the same hash are the same plan: passes from here on see the
 * graph and the settings that are not spent. */
static uint64_t hash_unit(const pass_unit *unit) {
    const ir_graph *g = &unit->graph;
    uint64_t hash = ebb__knobs_hash(&unit->config->knobs);
    return hash_values(g, ebb__ir_hash_nodes(g, hash));
}

/* Kernels, forms and places of a unit in the order in which they run. */
static uint64_t hash_program(const pass_unit *unit) {
    const ir_graph *g = &unit->graph;
    const plan_placement *p = unit->placement;
    XXH64_hash_t hash = XXH3_64bits(&g->n_order, sizeof g->n_order);
    for (int32_t k = 0; k < g->n_order; k++) {
        ir_node n = g->order[k];
        const ir_node_rec *node = &g->nodes[n];
        const int32_t what[] = {unit->kernels[n], unit->forms[n], node->op};
        hash = XXH3_64bits_withSeed(what, sizeof what, hash);
        hash = XXH3_64bits_withSeed(&node->attr, sizeof node->attr, hash);
        for (int32_t j = 0; j < node->n_in + node->n_out; j++) {
            ir_val v = j < node->n_in ? ir_in(g, node, j) : node->out + j - node->n_in;
            uint64_t place = v == IR_NONE ? UINT64_MAX : plan_value_address(p, v);
            hash = XXH3_64bits_withSeed(&place, sizeof place, hash);
        }
    }
    return hash;
}

void ebb__plan_size_unit(const pass_unit *unit, plan_size *out) {
    const ir_graph *g = &unit->graph;
    const pass_config *c = unit->config;
    out->n_instrs = out->n_views = 0;
    out->heap_bytes = out->away_bytes = 0;
    uint64_t heaps = 0; /* of the way forward so far: the way back empties them */
    out->seconds = out->product_seconds = 0;
    for (int32_t i = 0; i < g->n_order; i++) {
        ir_node n = g->order[i];
        const ir_node_rec *node = &g->nodes[n];
        int32_t kernel = unit->kernels[n];
        if (kernel != DEVICE_KERNEL_NONE) {
            out->n_instrs++;
            out->n_views += node->n_in + node->n_out;
        }
        heaps = node->label.phase == IR_BACKWARD ? 0 : heaps;
        if ((ebb__op(node->op)->flags & (OPF_ROOM | OPF_GROWS)) != 0) {
            const ir_type *before = node->n_in > 0 ? op_in_type(g, node, 0) : NULL;
            heaps += ebb__ir_type_bytes(&g->values[node->out].type);
            heaps -= before != NULL ? ebb__ir_type_bytes(before) : 0;
            out->heap_bytes = heaps > out->heap_bytes ? heaps : out->heap_bytes;
        }
        if (ebb__op(node->op)->transfer == TRANSFER_OUT) {
            out->away_bytes += plan_align(ebb__ir_type_bytes(&g->values[node->out].type));
        }
        double seconds = ebb__cost_seconds(unit->dev, g, node, kernel, c->members);
        out->seconds += seconds;
        out->product_seconds += (ebb__op(node->op)->flags & OPF_HEAVY) != 0 ? seconds : 0;
    }
    out->n_nodes = g->n_order;
    out->recomputed_nodes = ebb__plan_recomputed(unit);
    out->instr_bytes =
        plan_align((uint64_t)out->n_instrs * (sizeof(device_instr) + sizeof(device_instr *)) +
                   (uint64_t)out->n_views * sizeof(op_view));
    out->program_bytes =
        device_apart(unit->dev)
            ? plan_align((uint64_t)out->n_instrs * (uint64_t)unit->dev->instr_bytes +
                         (uint64_t)out->n_views * (uint64_t)unit->dev->view_bytes)
            : out->instr_bytes;
}

static ebb_status run_until(pass_unit *unit, pass_config *config, pass_id end) {
    TRY(ebb__plan_run_passes(unit, end));
    config->first = end;
    return EBB_OK;
}

static ebb_status measure(pass_unit *unit, pass_config *config, const plan_bar *bar,
                          plan_size *out) {
    TRY(run_until(unit, config, PASS_BATCH_TIME));
    ebb__knobs_spend(&config->knobs, PASS_BATCH_TIME);
    out->graph_hash = hash_unit(unit);
    if (bar != NULL && !bar->worth(bar->user, out)) {
        return EBB_OK;
    }
    TRY(run_until(unit, config, PASS_PLACE));
    TRY(ebb__place_store(unit));
    ebb__plan_size_unit(unit, out);
    out->load_bytes = out->transient_bytes = unit->placement->load_bytes;
    if (bar != NULL && !bar->worth(bar->user, out)) {
        return EBB_OK;
    }
    TRY(ebb__place_offsets(unit));
    out->transient_bytes = unit->placement->transient_bytes;
    out->program_hash = hash_program(unit);
    out->placed = true;
    return ebb__plan_gradients(unit, &out->gradient_bytes);
}

ebb_status ebb__plan_measure(ebb_ctx *ctx, const plan_request *request, const pass_config *config,
                             const plan_bar *bar, plan_size *out) {
    pass_config own = *config;
    pass_unit unit;
    *out = (plan_size){.placed = false};
    own.training = request->training;
    ebb_status status = ebb__plan_open(&unit, ctx, &own, request);
    if (status == EBB_OK) {
        status = measure(&unit, &own, bar, out);
    }
    ebb__plan_close(&unit);
    return status;
}
