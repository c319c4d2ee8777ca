/* team.c - who takes part in what: of each run how many members of the team, and into which pieces
 * it is cut for them. Work that is shorter than a meeting is left to one member, and so are
 * reference kernels, which know nothing of shares (decision 0005).
 *
 * The pass stands behind place, so candidates that are only measured do not pay for it: the answer
 * changes neither bytes nor the seconds that plans are compared by.
 */
#include "op/map.h"
#include "pass/pass.h"

static pass_share share_alone(const pass_unit *unit, ir_node n, int members) {
    int32_t k = unit->kernels[n];
    bool cut = members > 1 && unit->dev->kernels[k].shares != NULL;
    return (pass_share){.members = members,
                        .pieces =
                            cut ? unit->dev->kernels[k].shares(&unit->graph, &unit->graph.nodes[n],
                                                               unit->forms[n], members)
                                : members};
}

/* Units that a member takes at a time. */
static int32_t block_of(const pass_unit *unit, const ir_node_rec *node) {
    const ir_type *type = &unit->graph.values[node->out].type;
    op_map m = op_map_of(type);
    if (!op_is_map(type)) {
        return unit->dev->run_units;
    }
    int64_t rows = unit->dev->run_floats / op_map_row(&m);
    return rows > 1 ? (int32_t)rows : 1;
}

static void share_run(pass_unit *unit, const ir_node *run, int32_t n) {
    const ir_graph *g = &unit->graph;
    const ir_node_rec *first = &g->nodes[run[0]];
    double alone = 0;
    bool reference = false;
    uint32_t whole;
    for (int32_t i = 0; i < n; i++) {
        int32_t kernel = unit->kernels[run[i]];
        alone += ebb__cost_alone(unit->dev, g, &g->nodes[run[i]], kernel);
        reference = reference || kernel == DEVICE_KERNEL_REFERENCE;
    }
    int members = reference ? 1 : ebb__cost_members(unit->dev, alone, unit->config->members);
    for (int32_t i = 0; i < n; i++) {
        unit->shares[run[i]] = (pass_share){.members = members};
    }
    if (n == 1) {
        unit->shares[run[0]] = share_alone(unit, run[0], members);
    } else {
        unit->shares[run[0]].units = ebb__op(first->op)->units(g, first, &whole);
        unit->shares[run[0]].block = block_of(unit, first);
    }
}

static ebb_status run(pass_unit *unit) {
    const ir_graph *g = &unit->graph;
    ir_node together[DEVICE_MAX_RUN];
    int32_t n = 0;
    TRY(REGION_ARRAYS(&unit->region, ARRAY(unit->shares, (size_t)g->n_nodes + 1)));
    for (int32_t i = 0; i < g->n_order; i++) {
        ir_node node = g->order[i];
        if (unit->kernels[node] == DEVICE_KERNEL_NONE) {
            continue;
        }
        if (n > 0 && !pass_joined(unit, node)) {
            share_run(unit, together, n);
            n = 0;
        }
        together[n++] = node;
    }
    if (n > 0) {
        share_run(unit, together, n);
    }
    return EBB_OK;
}

const pass_def ebb__pass_team = {.id = PASS_TEAM, .run = run};
