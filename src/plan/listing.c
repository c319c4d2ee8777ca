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

void ebb__plan_name_kernel(const pass_unit *unit, ir_node n, char *name, size_t name_bytes,
                           char *form, size_t form_bytes) {
    int32_t k = unit->kernels[n];
    if (k < 0) {
        const op_def *def = ebb__op(unit->graph.nodes[n].op);
        (void)snprintf(name, name_bytes, "%s.ref", def->schema.name);
        return;
    }
    (void)snprintf(name, name_bytes, "%s", unit->dev->kernels[k].name);
    if (unit->dev->kernels[k].form_name != NULL) {
        unit->dev->kernels[k].form_name(unit->forms[n], form, form_bytes);
    }
}

static plan_listed describe(const pass_unit *unit, ir_node n) {
    plan_listed out = {.unit = unit,
                       .node = &unit->graph.nodes[n],
                       .members = unit->shares[n].members,
                       .scratch_bytes = unit->workspace[n]};
    ebb__plan_name_kernel(unit, n, out.kernel, sizeof out.kernel, out.form, sizeof out.form);
    if (unit->placement->scratch[n] >= 0) {
        out.scratch = plan_block_address(unit->placement, unit->placement->scratch[n]);
    }
    return out;
}

static ebb_status list(const pass_unit *unit, plan_list_fn each, void *user) {
    int32_t number = 0, run = -1;
    for (int32_t i = 0; i < unit->graph.n_order; i++) {
        ir_node n = unit->graph.order[i];
        if (unit->kernels[n] != DEVICE_KERNEL_NONE) {
            plan_listed instr = describe(unit, n);
            instr.number = number++;
            instr.run = run += !pass_joined(unit, n);
            TRY(each(user, &instr));
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
