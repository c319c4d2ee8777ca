/* arena.c - compiles a set of programs with one configuration and lays out the arena they share. */
#include "plan/plan.h"

#include <string.h>

static ebb_status compile_unit(ebb_plan *plan, const plan_request *request, pass_unit *unit,
                               pass_config *config) {
    *config = plan->config;
    config->training = request->training;
    *unit = (pass_unit){.ctx = plan->ctx, .config = config, .dev = plan->dev};
    ebb__region_init(&unit->region, plan->ctx);
    TRY(ebb__ir_copy(request->graph, &unit->graph));
    return ebb__plan_run_passes(unit);
}

/* Instructions, their views, and the list of pointers to them. */
static void size_program(plan_program *program) {
    const pass_unit *unit = &program->unit;
    for (int32_t i = 0; i < unit->graph.n_order; i++) {
        const ir_node_rec *node = &unit->graph.nodes[unit->graph.order[i]];
        if (unit->kernels[unit->graph.order[i]] != PASS_KERNEL_NONE) {
            program->n_instrs++;
            program->n_views += node->n_in + node->n_out;
        }
    }
    program->n_nodes = unit->graph.n_order;
    program->bytes = (uint64_t)program->n_instrs * (sizeof(device_instr) + sizeof(device_instr *)) +
                     (uint64_t)program->n_views * sizeof(op_view);
}

static ebb_status add_layer(ebb_plan *plan, const char *name, int32_t *out) {
    for (int32_t i = 0; i < plan->n_layers; i++) {
        if (strcmp(plan->layers[i].name, name) == 0) {
            *out = i;
            return EBB_OK;
        }
    }
    TRY(ebb__realloc(plan->ctx, plan->layers, (size_t)plan->n_layers + 1, sizeof *plan->layers,
                     &plan->layers));
    TRY(ebb__strdup(plan->ctx, name, &plan->layers[plan->n_layers].name));
    *out = plan->n_layers++;
    return EBB_OK;
}

static ebb_status add_variable(ebb_plan *plan, const plan_variable *like, const char *layer) {
    plan_variable v = *like;
    TRY(ebb__realloc(plan->ctx, plan->variables, (size_t)plan->n_variables + 1,
                     sizeof *plan->variables, &plan->variables));
    TRY(add_layer(plan, layer, &v.layer));
    TRY(ebb__strdup(plan->ctx, like->name, &v.name));
    plan->variables[plan->n_variables++] = v;
    return EBB_OK;
}

/* The union of all programs' variables by name; the same name must have the same type. */
static ebb_status gather_variables(ebb_plan *plan, const ir_graph *graph) {
    for (ir_val v = 0; v < graph->n_values; v++) {
        const ir_value *value = &graph->values[v];
        if (value->role == IR_TEMP) {
            continue;
        }
        const plan_variable *known = ebb__plan_variable(plan, value->name);
        if (known != NULL && !ebb__ir_type_equal(&known->type, &value->type)) {
            return ebb__fail(plan->ctx, EBB_USAGE, "%s: two programs give it different types",
                             value->name);
        }
        if (known == NULL) {
            plan_variable fresh = {.name = (char *)(uintptr_t)value->name,
                                   .type = value->type,
                                   .role = value->role,
                                   .bytes = ebb__ir_type_bytes(&value->type)};
            TRY(add_variable(plan, &fresh, graph->layers[value->layer]));
        }
    }
    return EBB_OK;
}

/* [ programs | variables | transients ]; all programs get the same offsets. */
static void lay_out(ebb_plan *plan) {
    uint64_t at = 0, end = 0, transients = 0; /* end: without the last one's rounding */
    for (int32_t i = 0; i < plan->n_programs; i++) {
        plan->programs[i].offset = at;
        end = at + plan->programs[i].bytes;
        at = plan_align(end);
    }
    for (int32_t i = 0; i < plan->n_variables; i++) {
        plan->variables[i].offset = at;
        end = at + plan->variables[i].bytes;
        at = plan_align(end);
    }
    for (int32_t i = 0; i < plan->n_programs; i++) {
        const ir_graph *graph = &plan->programs[i].unit.graph;
        plan_placement *p = plan->programs[i].unit.placement;
        p->transient_base = at;
        transients = p->transient_bytes > transients ? p->transient_bytes : transients;
        for (int32_t b = 0; b < p->n_blocks; b++) {
            if (p->blocks[b].variable != IR_NONE) {
                p->blocks[b].offset =
                    ebb__plan_variable(plan, graph->values[p->blocks[b].variable].name)->offset;
            }
        }
    }
    plan->peak_bytes = transients > 0 ? at + transients : end;
}

static ebb_status gather_outputs(ebb_plan *plan, plan_program *program) {
    const ir_graph *graph = &program->unit.graph;
    const plan_placement *p = program->unit.placement;
    for (ir_val v = 0; v < graph->n_values; v++) {
        const ir_value *value = &graph->values[v];
        if (value->role != IR_TEMP || !value->output || value->name == NULL || p->block[v] < 0) {
            continue;
        }
        TRY(ebb__realloc(plan->ctx, program->outputs, (size_t)program->n_outputs + 1,
                         sizeof *program->outputs, &program->outputs));
        plan_output *output = &program->outputs[program->n_outputs];
        TRY(ebb__strdup(plan->ctx, value->name, &output->name));
        output->type = value->type;
        output->offset = plan_value_address(p, v);
        program->n_outputs++;
    }
    return EBB_OK;
}

static double seconds_of(const pass_unit *unit) {
    double seconds = 0;
    for (int32_t i = 0; i < unit->graph.n_order; i++) {
        ir_node n = unit->graph.order[i];
        seconds +=
            ebb__cost_expected(unit->config->table, unit->dev, &unit->graph, &unit->graph.nodes[n],
                               unit->kernels[n], unit->config->members);
    }
    return seconds;
}

ebb_status ebb__plan_compile(ebb_plan *plan, const plan_request *requests, int32_t n_requests,
                             const plan_extra *extras, int32_t n_extras,
                             const pass_config *config) {
    plan->config = *config;
    for (int32_t i = 0; i < n_requests; i++) {
        plan_program *program = &plan->programs[plan->n_programs++];
        program->has_unit = true;
        TRY(ebb__strdup(plan->ctx, requests[i].name, &program->name));
        TRY(compile_unit(plan, &requests[i], &program->unit, &program->config));
        size_program(program);
        plan->nodes += program->n_nodes;
    }
    for (int32_t i = 0; i < plan->n_programs; i++) {
        TRY(gather_variables(plan, &plan->programs[i].unit.graph));
    }
    for (int32_t i = 0; i < n_extras; i++) {
        plan_variable extra = {.name = (char *)(uintptr_t)extras[i].name,
                               .role = IR_INPUT,
                               .bytes = extras[i].bytes,
                               .extra = true};
        TRY(add_variable(plan, &extra, "data"));
    }
    lay_out(plan);
    for (int32_t i = 0; i < plan->n_programs; i++) {
        TRY(gather_outputs(plan, &plan->programs[i]));
    }
    plan->seconds_per_step = n_requests > 0 ? seconds_of(&plan->programs[0].unit) : 0;
    return EBB_OK;
}

const plan_variable *ebb__plan_variable(const ebb_plan *plan, const char *name) {
    for (int32_t i = 0; i < plan->n_variables; i++) {
        if (strcmp(plan->variables[i].name, name) == 0) {
            return &plan->variables[i];
        }
    }
    return NULL;
}

const plan_output *ebb__plan_output(const ebb_plan *plan, int32_t index, const char *name) {
    const plan_program *program = &plan->programs[index];
    for (int32_t i = 0; i < program->n_outputs; i++) {
        if (strcmp(program->outputs[i].name, name) == 0) {
            return &program->outputs[i];
        }
    }
    return NULL;
}

void ebb__plan_release(ebb_plan *plan) {
    for (int32_t i = 0; i < plan->n_programs; i++) {
        if (plan->programs[i].has_unit) {
            ebb__ir_fini(&plan->programs[i].unit.graph);
            ebb__region_fini(&plan->programs[i].unit.region);
            plan->programs[i].has_unit = false;
        }
    }
}

void ebb__plan_free(ebb_plan *plan) {
    if (plan == NULL) {
        return;
    }
    ebb_ctx *ctx = plan->ctx;
    ebb__plan_release(plan);
    for (int32_t i = 0; i < plan->n_programs; i++) {
        for (int32_t k = 0; k < plan->programs[i].n_outputs; k++) {
            ebb__free(ctx, plan->programs[i].outputs[k].name);
        }
        ebb__free(ctx, plan->programs[i].outputs);
        ebb__free(ctx, plan->programs[i].name);
    }
    for (int32_t i = 0; i < plan->n_variables; i++) {
        ebb__free(ctx, plan->variables[i].name);
    }
    for (int32_t i = 0; i < plan->n_layers; i++) {
        ebb__free(ctx, plan->layers[i].name);
    }
    ebb__free(ctx, plan->products);
    ebb__free(ctx, plan->variables);
    ebb__free(ctx, plan->layers);
    ebb__free(ctx, plan);
}
