/* arena.c - compiles a set of programs with one configuration and lays out the arena they share. */
#include "plan/plan.h"

#include <string.h>
#include <xxhash.h>

static ebb_status compile_unit(ebb_ctx *ctx, const plan_request *request, const pass_config *given,
                               pass_config *config, pass_unit *unit) {
    *config = *given;
    config->training = request->training;
    TRY(ebb__plan_open(unit, ctx, config, request->graph));
    return ebb__plan_run_passes(unit, PASS_COUNT);
}

void ebb__plan_size_program(plan_program *program) {
    const pass_unit *unit = &program->unit;
    for (int32_t i = 0; i < unit->graph.n_order; i++) {
        ir_node n = unit->graph.order[i];
        const ir_node_rec *node = &unit->graph.nodes[n];
        if (unit->kernels[n] != PASS_KERNEL_NONE) {
            program->n_instrs++;
            program->n_views += node->n_in + node->n_out;
        }
        program->seconds += ebb__cost_expected(unit->config->table, unit->dev, &unit->graph, node,
                                               unit->kernels[n], unit->config->members);
    }
    program->n_nodes = unit->graph.n_order;
    program->bytes = (uint64_t)program->n_instrs * (sizeof(device_instr) + sizeof(device_instr *)) +
                     (uint64_t)program->n_views * sizeof(op_view);
}

/* ---- names ---- */

/* Finds records that begin with their name by it. */
typedef struct name_index {
    const char *records; /* borrowed */
    size_t record_bytes;
    int32_t *slots; /* 1 + record; 0: free */
    size_t n_slots; /* a power of 2, at least twice as many as records */
} name_index;

static ebb_status new_index(ebb_ctx *ctx, const void *records, size_t record_bytes, size_t most,
                            name_index *out) {
    *out = (name_index){.records = records, .record_bytes = record_bytes, .n_slots = 16};
    while (out->n_slots < 2 * most) {
        out->n_slots *= 2;
    }
    return ebb__alloc(ctx, out->n_slots, sizeof *out->slots, &out->slots);
}

static const char *name_of(const name_index *index, int32_t record) {
    const char *name;
    memcpy(&name, index->records + (size_t)record * index->record_bytes, sizeof name);
    return name;
}

/* The slot that holds the name, or the free one where it belongs. */
static int32_t *find_name(const name_index *index, const char *name) {
    size_t at = (size_t)XXH3_64bits(name, strlen(name)) & (index->n_slots - 1);
    while (index->slots[at] != 0 && strcmp(name_of(index, index->slots[at] - 1), name) != 0) {
        at = (at + 1) & (index->n_slots - 1);
    }
    return &index->slots[at];
}

/* ---- variables ---- */

typedef struct gatherer {
    ebb_plan *plan;
    name_index variables, layers;
} gatherer;

/* Room for all that programs and extras can bring. */
static ebb_status start_gathering(gatherer *g, ebb_plan *plan, int32_t n_extras) {
    size_t variables = (size_t)n_extras, layers = 1; /* "data", of extras */
    *g = (gatherer){.plan = plan};
    for (int32_t i = 0; i < plan->n_programs; i++) {
        const ir_graph *graph = &plan->programs[i].unit.graph;
        layers += (size_t)graph->n_layers;
        for (ir_val v = 0; v < graph->n_values; v++) {
            variables += graph->values[v].role != IR_TEMP;
        }
    }
    TRY(ebb__alloc(plan->ctx, variables + 1, sizeof *plan->variables, &plan->variables));
    TRY(ebb__alloc(plan->ctx, layers, sizeof *plan->layers, &plan->layers));
    TRY(new_index(plan->ctx, plan->layers, sizeof *plan->layers, layers, &g->layers));
    return new_index(plan->ctx, plan->variables, sizeof *plan->variables, variables, &g->variables);
}

static ebb_status add_layer(gatherer *g, const char *name, int32_t *out) {
    int32_t *slot = find_name(&g->layers, name);
    if (*slot == 0) {
        TRY(ebb__strdup(g->plan->ctx, name, &g->plan->layers[g->plan->n_layers].name));
        *slot = ++g->plan->n_layers;
    }
    *out = *slot - 1;
    return EBB_OK;
}

static ebb_status add_variable(gatherer *g, const plan_variable *like, const char *layer) {
    plan_variable v = *like;
    int32_t *slot = find_name(&g->variables, like->name);
    TRY(add_layer(g, layer, &v.layer));
    TRY(ebb__strdup(g->plan->ctx, like->name, &v.name));
    g->plan->variables[g->plan->n_variables++] = v;
    *slot = *slot == 0 ? g->plan->n_variables : *slot; /* of extras with a taken name the first */
    return EBB_OK;
}

/* The union of all programs' variables by name; the same name must have the same type. */
static ebb_status gather_variables(gatherer *g, const ir_graph *graph) {
    for (ir_val v = 0; v < graph->n_values; v++) {
        const ir_value *value = &graph->values[v];
        if (value->role == IR_TEMP) {
            continue;
        }
        int32_t known = *find_name(&g->variables, value->name);
        if (known != 0 && !ebb__ir_type_equal(&g->plan->variables[known - 1].type, &value->type)) {
            return ebb__fail(g->plan->ctx, EBB_USAGE, "%s: two programs give it different types",
                             value->name);
        }
        if (known == 0) {
            plan_variable fresh = {.name = (char *)(uintptr_t)value->name,
                                   .type = value->type,
                                   .role = value->role,
                                   .bytes = ebb__ir_type_bytes(&value->type)};
            TRY(add_variable(g, &fresh, graph->layers[value->layer]));
        }
    }
    return EBB_OK;
}

static ebb_status gather(gatherer *g, const plan_extra *extras, int32_t n_extras) {
    for (int32_t i = 0; i < g->plan->n_programs; i++) {
        TRY(gather_variables(g, &g->plan->programs[i].unit.graph));
    }
    for (int32_t i = 0; i < n_extras; i++) {
        plan_variable extra = {.name = (char *)(uintptr_t)extras[i].name,
                               .role = IR_INPUT,
                               .bytes = extras[i].bytes,
                               .extra = true};
        TRY(add_variable(g, &extra, "data"));
    }
    return EBB_OK;
}

/* [ programs | variables | transients ]; all programs get the same offsets. */
static void lay_out(ebb_plan *plan, const name_index *variables) {
    uint64_t at = 0, end = 0, transients = 0; /* end: without the last one's rounding */
    for (int32_t i = 0; i < plan->n_programs; i++) {
        plan->programs[i].offset = at;
        end = at + plan->programs[i].bytes;
        at = plan_align(end);
    }
    uint64_t first = at;
    for (int32_t i = 0; i < plan->n_variables; i++) {
        plan->variables[i].offset = at;
        end = at + plan->variables[i].bytes;
        at = plan_align(end);
    }
    plan->variable_bytes = at - first;
    plan->variable_end = end > first ? end - first : 0;
    for (int32_t i = 0; i < plan->n_programs; i++) {
        const ir_graph *graph = &plan->programs[i].unit.graph;
        plan_placement *p = plan->programs[i].unit.placement;
        p->transient_base = at;
        transients = p->transient_bytes > transients ? p->transient_bytes : transients;
        for (int32_t b = 0; b < p->n_blocks; b++) {
            ir_val v = p->blocks[b].variable;
            if (v != IR_NONE) {
                int32_t index = *find_name(variables, graph->values[v].name) - 1;
                p->blocks[b].offset = plan->variables[index].offset;
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

ebb_status ebb__plan_compile(ebb_plan *plan, const plan_request *requests, int32_t n_requests,
                             const plan_extra *extras, int32_t n_extras,
                             const pass_config *configs) {
    plan->config = configs[0];
    for (int32_t i = 0; i < n_requests; i++) {
        plan_program *program = &plan->programs[plan->n_programs++];
        program->has_unit = true;
        TRY(ebb__strdup(plan->ctx, requests[i].name, &program->name));
        TRY(compile_unit(plan->ctx, &requests[i], &configs[i], &program->config, &program->unit));
        ebb__plan_size_program(program);
        plan->nodes += program->n_nodes;
    }
    gatherer g;
    ebb_status status = start_gathering(&g, plan, n_extras);
    status = status == EBB_OK ? gather(&g, extras, n_extras) : status;
    if (status == EBB_OK) {
        lay_out(plan, &g.variables);
    }
    ebb__free(plan->ctx, g.variables.slots);
    ebb__free(plan->ctx, g.layers.slots);
    TRY(status);
    for (int32_t i = 0; i < plan->n_programs; i++) {
        TRY(gather_outputs(plan, &plan->programs[i]));
    }
    plan->seconds_per_step = n_requests > 0 ? plan->programs[0].seconds : 0;
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
            ebb__plan_close(&plan->programs[i].unit);
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
    ebb__free(ctx, plan->decisions);
    ebb__free(ctx, plan->products);
    ebb__free(ctx, plan->variables);
    ebb__free(ctx, plan->layers);
    ebb__free(ctx, plan);
}
