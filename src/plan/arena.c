/* arena.c - the memory that all programs share: which variables there are, where everything lies,
 * and programs compiled to those addresses.
 *
 *   host [ extras | programs ]   device [ descriptors | variables | transients ]
 */
#include "plan/walk.h"

#include "op/heap.h"

#include <string.h>

/* ---- variables ---- */

static ebb_status add_layer(ebb_plan *plan, const char *name, int32_t *out) {
    *out = ebb__names_find(&plan->layer_names, plan->layers, sizeof *plan->layers, name);
    if (*out >= 0) {
        return EBB_OK;
    }
    char *copy = NULL;
    TRY(ebb__realloc(plan->ctx, plan->layers, (size_t)plan->n_layers + 1, sizeof *plan->layers,
                     &plan->layers));
    TRY(ebb__strdup(plan->ctx, name, &copy));
    *out = plan->n_layers++;
    plan->layers[*out].name = copy;
    return ebb__names_add(plan->ctx, &plan->layer_names, plan->layers, sizeof *plan->layers);
}

static plan_variable *find_variable(const ebb_plan *plan, const char *name) {
    int32_t i =
        ebb__names_find(&plan->variable_names, plan->variables, sizeof *plan->variables, name);
    return i < 0 ? NULL : &plan->variables[i];
}

static ebb_status add_variable(ebb_plan *plan, const plan_variable *like, const char *layer) {
    plan_variable v = *like;
    TRY(add_layer(plan, layer, &v.layer));
    TRY(ebb__realloc(plan->ctx, plan->variables, (size_t)plan->n_variables + 1,
                     sizeof *plan->variables, &plan->variables));
    TRY(ebb__strdup(plan->ctx, like->name, &v.name));
    plan->variables[plan->n_variables++] = v;
    return ebb__names_add(plan->ctx, &plan->variable_names, plan->variables,
                          sizeof *plan->variables);
}

/* The union of all programs' variables by name. What is carried has the same type in all of them;
 * an input is written anew for every step, so that one room, as large as the largest needs, serves
 * all programs. */
ebb_status ebb__plan_add_variables(ebb_plan *plan, const plan_request *request,
                                   const ir_graph *graph) {
    const bool shared = !request->alone; /* all ranks do their parts of it */
    const bool stages = request->training && device_apart(plan->dev);
    for (ir_val v = 0; v < graph->n_values; v++) {
        const ir_value *value = &graph->values[v];
        if (value->role == IR_TEMP) {
            continue;
        }
        plan_variable *known = find_variable(plan, value->name);
        uint64_t bytes = ebb__ir_type_bytes(&value->type);
        bool staged = stages && value->role == IR_INPUT;
        if (known != NULL) {
            known->staged = known->staged || staged;
        }
        if (known != NULL && known->role == IR_INPUT && value->role == IR_INPUT &&
            known->type.dtype == value->type.dtype) {
            if (bytes > known->bytes) {
                known->type = value->type;
                known->bytes = bytes;
            }
            continue;
        }
        if (known != NULL && !ebb__ir_type_equal(&known->type, &value->type)) {
            return ebb__fail(plan->ctx, EBB_USAGE, "%s: two programs give it different types",
                             value->name);
        }
        if (known != NULL) {
            known->shared = known->shared || shared;
        }
        if (known == NULL) {
            plan_variable fresh = {.name = (char *)(uintptr_t)value->name,
                                   .type = value->type,
                                   .role = value->role,
                                   .start = value->start,
                                   .first_row = value->first_row,
                                   .all_rows = value->all_rows,
                                   .shared = shared,
                                   .staged = staged,
                                   .bytes = bytes};
            TRY(add_variable(plan, &fresh, graph->layers[value->layer]));
        }
    }
    return EBB_OK;
}

ebb_status ebb__plan_add_extra(ebb_plan *plan, const plan_extra *extra) {
    plan_variable v = {.name = (char *)(uintptr_t)extra->name,
                       .role = IR_INPUT,
                       .bytes = extra->bytes,
                       .extra = true};
    return add_variable(plan, &v, "data");
}

uint64_t ebb__plan_variable_bytes(const ebb_plan *plan, uint64_t *end) {
    uint64_t at = 0, rounding = 0;
    for (int32_t i = 0; i < plan->n_variables; i++) {
        const plan_variable *v = &plan->variables[i];
        at += v->extra && device_apart(plan->dev) ? 0 : plan_align(v->bytes);
        rounding = v->extra ? rounding : plan_align(v->bytes) - v->bytes;
    }
    *end = at - rounding;
    return at;
}

/* ---- outside the device's memory ---- */

/* Ranks plan for the same host: none may take it for its own. */
bool ebb__plan_can_offload(const plan_options *options) {
    const device *dev = device_or_default(options->dev);
    bool place = device_apart(dev) ? dev->buffer.fetch != NULL : options->disk != NULL;
    return place && options->ranks.count <= 1;
}

uint64_t ebb__plan_host_bytes(const ebb_plan *plan, uint64_t instr_bytes, uint64_t away_bytes) {
    uint64_t bytes = instr_bytes + away_bytes;
    for (int32_t i = 0; i < plan->n_variables; i++) {
        const plan_variable *v = &plan->variables[i];
        bytes += plan_align(v->bytes) * (v->extra ? 1 : v->staged ? 2 : 0);
    }
    return bytes;
}

uint64_t ebb__plan_host_most(const ebb_plan *plan, const plan_options *options) {
    return device_apart(plan->dev) && options->host_budget > 0 ? options->host_budget : UINT64_MAX;
}

/* Of the host's memory beside a device, what others have is not there; a file has room or has not,
 * which shows when it is made. */
uint64_t ebb__plan_away_most(const ebb_plan *plan, const plan_options *options, uint64_t others) {
    uint64_t most = ebb__plan_host_most(plan, options);
    uint64_t taken = ebb__plan_host_bytes(plan, others, 0);
    return most == UINT64_MAX ? most : most > taken ? most - taken : 0;
}

const plan_variable *ebb__plan_variable(const ebb_plan *plan, const char *name) {
    return find_variable(plan, name);
}

int32_t ebb__plan_program(const ebb_plan *plan, int32_t use, int32_t item) {
    int32_t i = plan->n_programs - 1;
    while (i >= 0 && (plan->programs[i].use != use || plan->programs[i].item != item)) {
        i--;
    }
    return i;
}

/* ---- addresses ---- */

void ebb__plan_lay_out(ebb_plan *plan) {
    uint64_t host = 0, at = 0, end; /* end: without the last one's rounding */
    bool apart = device_apart(plan->dev);
    for (int32_t i = 0; apart && i < plan->n_programs; i++) {
        plan->programs[i].descriptors = at;
        at += plan->programs[i].size.program_bytes;
    }
    end = at;
    for (int32_t i = 0; i < plan->n_variables; i++) {
        plan_variable *v = &plan->variables[i];
        v->offset = v->extra ? host : at;
        host += v->extra ? plan_align(v->bytes) : 0;
        end = v->extra ? end : at + v->bytes;
        at = plan_align(end);
        v->copies = host;
        host += v->staged ? 2 * plan_align(v->bytes) : 0;
    }
    plan->transient_base = at;
    plan->transient_bytes = 0;
    for (int32_t i = 0; i < plan->n_programs; i++) {
        plan_program *program = &plan->programs[i];
        uint64_t transients = program->size.transient_bytes;
        program->offset = host;
        host += program->size.instr_bytes;
        plan->transient_bytes =
            transients > plan->transient_bytes ? transients : plan->transient_bytes;
    }
    plan->away_bytes = 0;
    for (int32_t i = 0; i < plan->n_programs; i++) {
        uint64_t away = plan->programs[i].size.away_bytes;
        plan->away_bytes = away > plan->away_bytes ? away : plan->away_bytes;
    }
    plan->away_offset = host;
    plan->host_bytes = host + (apart ? plan->away_bytes : 0);
    plan->device_bytes = plan->transient_bytes > 0 ? at + plan->transient_bytes : end;
    plan->away_base = plan_align(plan->device_bytes);
    plan->peak_bytes = plan->device_bytes + (apart ? 0 : plan->host_bytes);
}

static void bind(const ebb_plan *plan, pass_unit *unit) {
    plan_placement *p = unit->placement;
    p->transient_base = plan->transient_base;
    p->away_base = plan->away_base;
    for (int32_t b = 0; b < p->n_blocks; b++) {
        ir_val v = p->blocks[b].variable;
        if (v != IR_NONE) {
            p->blocks[b].offset = ebb__plan_variable(plan, unit->graph.values[v].name)->offset;
        }
    }
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

/* Parameters that get a new value each step, in the order in which gradients are numbered. */
static ebb_status gather_trained(ebb_plan *plan, plan_program *program) {
    const ir_graph *graph = &program->unit.graph;
    TRY(ebb__alloc(plan->ctx, (size_t)plan->n_variables, sizeof *program->trained,
                   &program->trained));
    for (ir_val v = 0; v < graph->n_values; v++) {
        const ir_value *value = &graph->values[v];
        if (value->role == IR_PARAM && value->next != IR_NONE) {
            program->trained[program->n_trained++] =
                (int32_t)(ebb__plan_variable(plan, value->name) - plan->variables);
        }
    }
    return EBB_OK;
}

/* ---- programs ---- */

/* It must take what it was measured to take: the arena was laid out by that. */
static ebb_status check_size(const plan_program *program) {
    plan_size size = {0};
    const plan_placement *p = program->unit.placement;
    ebb__plan_size_unit(&program->unit, &size);
    return size.program_bytes == program->size.program_bytes &&
                   size.instr_bytes == program->size.instr_bytes &&
                   size.away_bytes == program->size.away_bytes &&
                   p->away_bytes == program->size.away_bytes &&
                   p->transient_bytes == program->size.transient_bytes
               ? EBB_OK
               : ebb__fail(program->unit.ctx, EBB_INTERNAL,
                           "program %s takes %llu + %llu bytes and was planned with %llu + %llu",
                           program->name, (unsigned long long)size.program_bytes,
                           (unsigned long long)p->transient_bytes,
                           (unsigned long long)program->size.program_bytes,
                           (unsigned long long)program->size.transient_bytes);
}

static bool agrees(const ir_graph *g) {
    bool any = false;
    for (int32_t i = 0; i < g->n_order; i++) {
        any = any || ebb__op_agrees(&g->nodes[g->order[i]]);
    }
    return any;
}

/* A step that is given up must leave variables as they were. */
static ebb_status check_stops(const pass_unit *unit) {
    const ir_graph *g = &unit->graph;
    const plan_placement *p = unit->placement;
    bool written = false, late = false;
    for (int32_t i = 0; i < g->n_order; i++) {
        const ir_node_rec *node = &g->nodes[g->order[i]];
        late = late || (written && ebb__op_stops(node));
        for (int32_t k = 0; (ebb__op(node->op)->flags & OPF_ALIAS) == 0 && k < node->n_out; k++) {
            int32_t block = p->block[node->out + k];
            written = written || (block >= 0 && p->blocks[block].variable != IR_NONE);
        }
    }
    return late ? ebb__fail(unit->ctx, EBB_INTERNAL,
                            "a step may be given up after it has changed "
                            "a variable")
                : EBB_OK;
}

ebb_status ebb__plan_compile(ebb_plan *plan, int32_t index) {
    plan_program *program = &plan->programs[index];
    pass_unit *unit = &program->unit;
    program->has_unit = true;
    program->config.training = program->request.training;
    program->shared = program->config.ranks.count > 1 && !program->request.alone;
    TRY(ebb__plan_open(unit, plan->ctx, &program->config, &program->request));
    TRY(ebb__plan_run_passes(unit, PASS_COUNT));
    TRY(check_size(program));
    TRY(check_stops(unit));
    program->agrees = agrees(&unit->graph);
    bind(plan, unit);
    if ((program->config.disabled & (1U << PASS_VERIFY)) == 0) { /* else nobody will run it */
        TRY(ebb__plan_check(unit, plan->device_bytes));
    }
    if (program->trained != NULL) {
        return EBB_OK; /* it was compiled before */
    }
    TRY(gather_trained(plan, program));
    TRY(program->shared ? ebb__plan_list_messages(unit, &program->messages) : EBB_OK);
    return gather_outputs(plan, program);
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

void ebb__plan_close_program(plan_program *program) {
    if (program->has_unit) {
        ebb__plan_close(&program->unit);
        program->has_unit = false;
    }
}

void ebb__plan_drop_messages(ebb_plan *plan) {
    for (int32_t i = 0; i < plan->n_programs; i++) {
        ebb__free(plan->ctx, plan->programs[i].messages.at);
        plan->programs[i].messages = (plan_messages){0};
    }
}

void ebb__plan_release(ebb_plan *plan) {
    for (int32_t i = 0; i < plan->n_programs; i++) {
        ebb__plan_close_program(&plan->programs[i]);
        plan->programs[i].config.table = NULL;
        plan->programs[i].request = (plan_request){0};
    }
    if (plan->free_source != NULL) {
        plan->free_source(plan->source);
        plan->free_source = NULL;
    }
}

void ebb__plan_free(ebb_plan *plan) {
    if (plan == NULL) {
        return;
    }
    ebb_ctx *ctx = plan->ctx;
    ebb__plan_release(plan);
    ebb__plan_drop_messages(plan);
    for (int32_t i = 0; i < plan->n_programs; i++) {
        for (int32_t k = 0; k < plan->programs[i].n_outputs; k++) {
            ebb__free(ctx, plan->programs[i].outputs[k].name);
        }
        ebb__free(ctx, plan->programs[i].outputs);
        ebb__free(ctx, plan->programs[i].trained);
        ebb__free(ctx, plan->programs[i].name);
    }
    for (int32_t i = 0; i < plan->n_variables; i++) {
        ebb__free(ctx, plan->variables[i].name);
    }
    for (int32_t i = 0; i < plan->n_layers; i++) {
        ebb__free(ctx, plan->layers[i].name);
    }
    ebb__names_free(ctx, &plan->variable_names);
    ebb__names_free(ctx, &plan->layer_names);
    ebb__region_fini(&plan->stages);
    ebb__free(ctx, plan->decisions);
    ebb__free(ctx, plan->products);
    ebb__free(ctx, plan->variables);
    ebb__free(ctx, plan->layers);
    ebb__free(ctx, plan);
}
