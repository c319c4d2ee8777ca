/* measure.c - what a program takes under one configuration. Most candidates of a walk are of no
 * use, which shows long before they have addresses: some are the graph of another one, some take
 * more than a faster one even if they could be placed without a gap. So who asks is shown what is
 * known by then, twice, and may call it off. */
#include "plan/plan.h"

#include <xxhash.h>

/* What passes can tell apart of a value. Names lie elsewhere in every copy, and padding is not
 * theirs. */
typedef struct value_key {
    ir_type type;
    ir_val next;
    ir_node def;
    int32_t role, marks;
} value_key;

static uint64_t hash_values(const ir_graph *g, uint64_t hash) {
    for (ir_val v = 0; v < g->n_values; v++) {
        const ir_value *value = &g->values[v];
        value_key key = {value->type, value->next, value->def, (int32_t)value->role,
                         2 * value->output + value->param_grad};
        hash = XXH3_64bits_withSeed(&key, sizeof key, hash);
    }
    return hash;
}

/* Two candidates of one request with the same hash are the same plan: passes from batch_time on
 * see the graph and these settings. */
static uint64_t hash_unit(const pass_unit *unit) {
    const ir_graph *g = &unit->graph;
    const pass_config *c = unit->config;
    const int32_t settings[] = {c->pack, c->recompute.merge, c->recompute.span};
    uint64_t hash = XXH3_64bits(settings, sizeof settings);
    hash = XXH3_64bits_withSeed(g->order, (size_t)g->n_order * sizeof *g->order, hash);
    hash = XXH3_64bits_withSeed(g->operands, (size_t)g->n_operands * sizeof *g->operands, hash);
    hash = XXH3_64bits_withSeed(g->nodes, (size_t)g->n_nodes * sizeof *g->nodes, hash);
    return hash_values(g, hash);
}

static ebb_status run_until(plan_program *program, pass_id end) {
    TRY(ebb__plan_run_passes(&program->unit, end));
    program->config.first = end;
    return EBB_OK;
}

static ebb_status measure(plan_program *program, const plan_bar *bar, plan_size *out) {
    pass_unit *unit = &program->unit;
    TRY(run_until(program, PASS_BATCH_TIME));
    out->graph = hash_unit(unit);
    if (bar != NULL && !bar->worth(bar->user, out)) {
        return EBB_OK;
    }
    TRY(run_until(program, PASS_PLACE));
    TRY(ebb__place_store(unit));
    ebb__plan_size_program(program);
    out->load_bytes = out->transient_bytes = unit->placement->load_bytes;
    out->program_bytes = program->bytes;
    out->seconds = program->seconds;
    out->recomputed_nodes = ebb__plan_recomputed(unit);
    if (bar != NULL && !bar->worth(bar->user, out)) {
        return EBB_OK;
    }
    TRY(ebb__place_offsets(unit));
    out->transient_bytes = unit->placement->transient_bytes;
    out->placed = true;
    return EBB_OK;
}

ebb_status ebb__plan_measure(ebb_ctx *ctx, const plan_request *request, const pass_config *config,
                             const plan_bar *bar, plan_size *out) {
    plan_program program = {.config = *config};
    *out = (plan_size){.placed = false};
    program.config.training = request->training;
    ebb_status status = ebb__plan_open(&program.unit, ctx, &program.config, request->graph);
    if (status == EBB_OK) {
        status = measure(&program, bar, out);
    }
    ebb__plan_close(&program.unit);
    return status;
}
