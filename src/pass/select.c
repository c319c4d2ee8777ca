/* select.c - the kernel for each node: the first of the device's ordered list that accepts it, else
 * the reference; and of the kernel's forms the one that was measured to be fastest, else its best
 * guess. Aliases run nothing. Every refusal is logged at debug level. */
#include "pass/pass.h"

int32_t ebb__pass_kernel(const pass_unit *unit, const ir_node_rec *node) {
    if ((ebb__op(node->op)->flags & OPF_ALIAS) != 0) {
        return DEVICE_KERNEL_NONE;
    }
    for (int32_t k = 0; k < unit->dev->n_kernels; k++) {
        const device_kernel *kernel = &unit->dev->kernels[k];
        if (kernel->op != (op_code)node->op) {
            continue;
        }
        const char *why = kernel->accept == NULL ? NULL : kernel->accept(&unit->graph, node);
        if (why == NULL) {
            return k;
        }
        ebb__log(unit->ctx, EBB_LOG_DEBUG, "select: node of %s refuses %s: %s",
                 unit->graph.layers[node->label.layer], kernel->name, why);
    }
    return DEVICE_KERNEL_REFERENCE;
}

/* Never run elsewhere behind somebody's back. */
static ebb_status refuse(const pass_unit *unit, const ir_node_rec *node) {
    const op_def *op = ebb__op(node->op);
    return op->message != MESSAGE_NONE
               ? ebb__fail(unit->ctx, EBB_USAGE,
                           "several processes and device %s cannot be had together; use "
                           "--device cpu",
                           unit->dev->name)
               : ebb__fail(unit->ctx, EBB_USAGE,
                           "%s: op %s has no kernel on device %s; use --device cpu",
                           unit->graph.layers[node->label.layer], op->schema.name, unit->dev->name);
}

static ebb_status run(pass_unit *unit) {
    const ir_graph *g = &unit->graph;
    size_t n = (size_t)g->n_nodes + 1;
    TRY(REGION_ARRAYS(&unit->region, ARRAY(unit->kernels, n), ARRAY(unit->forms, n),
                      ARRAY(unit->workspace, n)));
    for (int32_t i = 0; i < g->n_order; i++) {
        ir_node id = g->order[i];
        int32_t k = ebb__pass_kernel(unit, &g->nodes[id]);
        unit->kernels[id] = k;
        bool moves = ebb__op(g->nodes[id].op)->transfer != TRANSFER_NONE; /* by whoever runs it */
        if (k == DEVICE_KERNEL_REFERENCE && unit->dev->refuses && !moves) {
            return refuse(unit, &g->nodes[id]);
        }
        if (k < 0) {
            continue;
        }
        const device_kernel *kernel = &unit->dev->kernels[k];
        unit->forms[id] = ebb__cost_form(unit->config->table, unit->dev, g, &g->nodes[id], k,
                                         unit->config->members, NULL);
        if (kernel->workspace != NULL) {
            unit->workspace[id] =
                kernel->workspace(g, &g->nodes[id], unit->forms[id], unit->config->members);
        }
    }
    return EBB_OK;
}

const pass_def ebb__pass_select = {.id = PASS_SELECT, .run = run};
