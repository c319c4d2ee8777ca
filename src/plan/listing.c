/* listing.c - see listing.h. */
#include "plan/listing.h"

#include <stdio.h>

plan_listed_view ebb__plan_listed_view(const plan_listed *instr, int32_t i) {
    const ir_graph *g = &instr->unit->graph;
    const ir_node_rec *node = instr->node;
    ir_val v = i < node->n_in ? ir_in(g, node, i) : node->out + i - node->n_in;
    if (v == IR_NONE) {
        return (plan_listed_view){.there = false};
    }
    const ir_value *value = &g->values[v];
    return (plan_listed_view){.there = true,
                              .name = value->name,
                              .type = value->type,
                              .address = plan_value_address(instr->unit->placement, v),
                              .bytes = ebb__ir_type_bytes(&value->type)};
}

static void describe(const pass_unit *unit, ir_node n, plan_listed *out) {
    int32_t k = unit->kernels[n], block = unit->placement->scratch[n];
    const device_kernel *kernel = k >= 0 ? &unit->dev->kernels[k] : NULL;
    out->unit = unit;
    out->node = &unit->graph.nodes[n];
    out->members = unit->shares[n].members;
    (void)snprintf(out->kernel, sizeof out->kernel, "%s%s",
                   kernel != NULL ? kernel->name : ebb__op(out->node->op)->schema.name,
                   kernel != NULL ? "" : ".ref");
    out->form[0] = '\0';
    if (kernel != NULL && kernel->form_name != NULL) {
        kernel->form_name(unit->forms[n], out->form, sizeof out->form);
    }
    out->scratch = block < 0 ? 0 : plan_block_address(unit->placement, block);
    out->scratch_bytes = block < 0 ? 0 : unit->workspace[n];
}

static ebb_status list(const pass_unit *unit, plan_list_fn each, void *user) {
    plan_listed instr = {.number = 0, .run = -1};
    for (int32_t i = 0; i < unit->graph.n_order; i++) {
        ir_node n = unit->graph.order[i];
        if (unit->kernels[n] != DEVICE_KERNEL_NONE) {
            describe(unit, n, &instr);
            instr.run += !pass_joined(unit, n);
            TRY(each(user, &instr));
            instr.number++;
        }
    }
    return EBB_OK;
}

ebb_status ebb__plan_list(ebb_plan *plan, int32_t index, plan_list_fn each, void *user) {
    plan_program *program = &plan->programs[index];
    bool there = program->has_unit;
    ebb_status status = there ? EBB_OK : ebb__plan_compile(plan, index);
    if (status == EBB_OK) {
        status = list(&program->unit, each, user);
    }
    if (!there) {
        ebb__plan_close_program(program);
    }
    return status;
}
