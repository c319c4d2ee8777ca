/* schedule.c - the order of nodes. Starts from the order the passes left (which already puts views,
 * copies and loss chunks where they belong) and tries to apply every update as soon as its
 * gradient is complete, so that gradients need not coexist; keeps whichever order has the lower
 * peak. Readers of a variable always come before the node that overwrites it. */
#include "plan/passes.h"
#include "plan/storage.h"

#include <string.h>

/* On scratch of its own: two trials must not stay in memory until the plan is done. */
static ebb_status peak_load(pass_unit *unit, uint64_t *out) {
    plan_placement trial;
    alloc_region kept = unit->region;
    ebb__region_init(&unit->region, unit->ctx);
    ebb_status status = ebb__plan_storage(unit, &trial);
    if (status == EBB_OK) {
        status = ebb__plan_load(unit, &trial, NULL, out);
    }
    ebb__region_fini(&unit->region);
    unit->region = kept;
    return status;
}

static ebb_status run(pass_unit *unit) {
    ir_graph *g = &unit->graph;
    int64_t *keys = NULL;
    ir_node *given = NULL;
    uint64_t before = 0, after = 0;
    size_t n = (size_t)g->n_order;
    TRY(ebb__pass_keys(g, &unit->region, (size_t)g->n_nodes, 1, &keys));
    TRY(ebb__pass_sort(g, keys));
    if (!unit->config->training) {
        return EBB_OK;
    }
    TRY(ebb__region_alloc(&unit->region, n + 1, sizeof *given, &given));
    memcpy(given, g->order, n * sizeof *given);
    TRY(peak_load(unit, &before));
    for (size_t i = 0; i < n; i++) {
        if (g->nodes[given[i]].label.phase == IR_UPDATE) {
            keys[given[i]] = -1; /* as soon as it is ready */
        }
    }
    TRY(ebb__pass_sort(g, keys));
    TRY(peak_load(unit, &after));
    if (after > before) {
        memcpy(g->order, given, n * sizeof *given);
    }
    return EBB_OK;
}

const pass_def ebb__pass_schedule = {.id = PASS_SCHEDULE, .run = run};
