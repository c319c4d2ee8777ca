/* program.c - a compiled program: values by name, steps, parameters to and from files.
 *
 * Nothing here allocates but save and load: what a step needs was found when it was compiled. */
#include "api/api.h"

#include "run/tensors.h"

#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static ebb_status open_program(ebb_program *program) {
    if (program == NULL) {
        return EBB_USAGE;
    }
    ebb__ctx_clear(program->ctx);
    return EBB_OK;
}

uint64_t ebb_program_measured(const ebb_program *program) {
    return program != NULL ? program->session->measured_bytes : 0;
}

/* ---- values by name ---- */

const char *ebb_program_name(const ebb_program *program, int32_t index) {
    if (program == NULL || index < 0) {
        return NULL;
    }
    const ebb_plan *plan = program->session->plan;
    if (index < plan->n_variables) {
        return plan->variables[index].name;
    }
    index -= plan->n_variables;
    const plan_program *own = &plan->programs[program->index];
    return index < own->n_outputs ? own->outputs[index].name : NULL;
}

/* What a name stands for; variable is NULL for an output. */
typedef struct named {
    const plan_variable *variable;
    ir_type type;
    run_place at;
} named;

static ebb_status find(ebb_program *program, const char *name, named *out) {
    run_session *session = program->session;
    if (name == NULL) {
        return ebb__fail(program->ctx, EBB_USAGE, "program: a name is NULL");
    }
    out->variable = ebb__plan_variable(session->plan, name);
    if (out->variable != NULL) {
        out->type = out->variable->type;
        out->at = run_at(out->variable);
        return EBB_OK;
    }
    const plan_output *output = ebb__plan_output(session->plan, program->index, name);
    if (output == NULL) {
        return ebb__fail(program->ctx, EBB_USAGE, "%.200s: the program has no value of this name",
                         name);
    }
    out->type = output->type;
    out->at = run_output_at(output);
    return EBB_OK;
}

static ebb_role role_of(ir_role role) {
    static const ebb_role roles[IR_ROLES] = {
        [IR_TEMP] = EBB_ROLE_OUTPUT, [IR_PARAM] = EBB_ROLE_PARAM,  [IR_SLOT] = EBB_ROLE_SLOT,
        [IR_STATE] = EBB_ROLE_STATE, [IR_BUFFER] = EBB_ROLE_STATE, [IR_SCRATCH] = EBB_ROLE_STATE,
        [IR_INPUT] = EBB_ROLE_INPUT};
    return roles[role];
}

static ebb_shape shape_of(ir_role role, const ir_type *type) {
    _Static_assert((int)EBB_F64 == (int)IR_F64, "public dtypes are the first of the list");
    ebb_shape shape = {.role = role_of(role),
                       .dtype = (ebb_dtype)type->dtype,
                       .rank = type->rank,
                       .bytes = ebb__ir_type_bytes(type)};
    for (int32_t i = 0; i < shape.rank; i++) {
        shape.dims[i] = type->dim[i];
    }
    return shape;
}

static ebb_shape named_shape(const named *at) {
    return shape_of(at->variable != NULL ? at->variable->role : IR_TEMP, &at->type);
}

ebb_status ebb_value_shape(const ebb_graph *graph, ebb_value value, ebb_shape *out) {
    if (graph == NULL || out == NULL) {
        return EBB_USAGE;
    }
    ebb__ctx_clear(graph->ctx);
    TRY(ebb__api_need(graph, value, "ebb_value_shape"));
    *out = shape_of(graph->ir.values[value].role, &graph->ir.values[value].type);
    return EBB_OK;
}

ebb_status ebb_program_shape(ebb_program *program, const char *name, ebb_shape *out) {
    named at;
    TRY(open_program(program));
    if (out == NULL) {
        return ebb__fail(program->ctx, EBB_USAGE, "program: shape has nowhere to go");
    }
    TRY(find(program, name, &at));
    *out = named_shape(&at);
    return EBB_OK;
}

static ebb_status check_bytes(const ebb_program *program, const char *name, const named *at,
                              const void *data, size_t bytes) {
    uint64_t need = ebb__ir_type_bytes(&at->type);
    if (data == NULL || bytes != need) {
        return ebb__fail(program->ctx, EBB_USAGE, "%s: it has %llu bytes, not %llu", name,
                         (unsigned long long)need, data == NULL ? 0ULL : (unsigned long long)bytes);
    }
    return EBB_OK;
}

ebb_status ebb_program_data(ebb_program *program, const char *name, void **data, ebb_shape *shape) {
    named at;
    if (data == NULL) {
        return EBB_USAGE;
    }
    *data = NULL;
    TRY(open_program(program));
    TRY(find(program, name, &at));
    if (shape != NULL) {
        *shape = named_shape(&at);
    }
    if (at.variable != NULL && ebb__api_is_limited(program, at.variable)) {
        return ebb__fail(program->ctx, EBB_USAGE,
                         "%s: its elements are checked when they are set; use ebb_program_set()",
                         name);
    }
    *data = ebb__run_address(program->session, at.at);
    return *data != NULL ? EBB_OK
                         : ebb__fail(program->ctx, EBB_USAGE,
                                     "%s: it lies in memory that the host cannot touch", name);
}

ebb_status ebb_program_set(ebb_program *program, const char *name, const void *data, size_t bytes) {
    named at;
    TRY(open_program(program));
    TRY(find(program, name, &at));
    if (at.variable == NULL || strcmp(name, UPDATE_HYPER) == 0 || strcmp(name, TRAINER_STEP) == 0) {
        return ebb__fail(program->ctx, EBB_USAGE, "%s: this value cannot be set", name);
    }
    TRY(check_bytes(program, name, &at, data, bytes));
    if (at.type.dtype == IR_I32) {
        TRY(ebb__api_check_limits(program, at.variable, data));
    }
    return ebb__run_write(program->session, at.at, data);
}

ebb_status ebb_program_get(ebb_program *program, const char *name, void *data, size_t bytes) {
    named at;
    TRY(open_program(program));
    TRY(find(program, name, &at));
    TRY(check_bytes(program, name, &at, data, bytes));
    return ebb__run_read(program->session, at.at, data);
}

/* ---- steps ---- */

ebb_status ebb_program_init(ebb_program *program, uint64_t seed) {
    TRY(open_program(program));
    TRY(ebb__ranks_draw(program->session, seed));
    const ebb_plan *plan = program->session->plan;
    for (int32_t i = 0; i < plan->n_variables; i++) {
        const plan_variable *v = &plan->variables[i];
        if (v->role == IR_SLOT || v->role == IR_STATE) {
            TRY(ebb__run_zero(program->session, run_at(v)));
        }
    }
    ebb_program_set_steps(program, 0);
    return EBB_OK;
}

ebb_status ebb_program_run(ebb_program *program, double learning_rate) {
    TRY(open_program(program));
    run_trainer *trainer = &program->trainer;
    trainer->steps = ebb_program_steps(program);
    ebb_status status = ebb__trainer_step(trainer, program->index, learning_rate);
    ebb_program_set_steps(program, trainer->steps);
    if (status == EBB_OK || status == EBB_DIVERGED) {
        ebb__progress(program->ctx, "run", program->trainer.steps, 0);
    }
    return status;
}

double ebb_program_loss(const ebb_program *program) {
    return program != NULL ? program->trainer.loss : (double)NAN;
}

double ebb_program_grad_norm(const ebb_program *program) {
    return program != NULL ? program->trainer.norm : (double)NAN;
}

static bool trains(const ebb_program *program) {
    return program->session->plan->programs[program->index].n_trained > 0;
}

uint64_t ebb_program_steps(const ebb_program *program) {
    return program == NULL ? 0 : trains(program) ? program->shared->steps : program->trainer.steps;
}

void ebb_program_set_steps(ebb_program *program, uint64_t steps) {
    if (program != NULL) {
        program->trainer.steps = steps;
        program->shared->steps = trains(program) ? steps : program->shared->steps;
    }
}

/* ---- parameters ---- */

enum { PARAMS = 1U << IR_PARAM, ALL = PARAMS | 1U << IR_SLOT | 1U << IR_STATE | 1U << IR_BUFFER };

#define STEPS_NOTE "steps"

static ebb_status save(ebb_program *program, const char *path, uint32_t roles) {
    alloc_region region;
    st_entry *entries = NULL;
    size_t n = 0;
    char steps[24];
    st_note note = {STEPS_NOTE, steps};
    TRY(open_program(program));
    if (path == NULL) {
        return ebb__fail(program->ctx, EBB_USAGE, "save: the path is NULL");
    }
    (void)snprintf(steps, sizeof steps, "%" PRIu64, ebb_program_steps(program));
    ebb__region_init(&region, program->ctx);
    ebb_status status = ebb__tensors_list(program->session, roles, &region, &entries, &n);
    if (status == EBB_OK) {
        status = ebb__safetensors_write(program->ctx, path, entries, n, &note, roles == ALL, NULL);
    }
    ebb__region_fini(&region);
    return status;
}

static ebb_status read_steps(ebb_program *program, const st_reader *reader) {
    const char *text = ebb__safetensors_note(reader, STEPS_NOTE);
    char *end = NULL;
    errno = 0;
    uint64_t steps = text != NULL && *text >= '0' && *text <= '9' ? strtoull(text, &end, 10) : 0;
    if (end == NULL || *end != '\0' || errno != 0) {
        return ebb__fail(program->ctx, EBB_MODEL,
                         "%s: it does not say how many steps were done; parameters alone are read "
                         "by ebb_program_load()",
                         reader->path);
    }
    ebb_program_set_steps(program, steps);
    return EBB_OK;
}

static ebb_status load(ebb_program *program, const char *path, uint32_t roles) {
    st_reader reader;
    ebb_status status;
    TRY(open_program(program));
    if (path == NULL) {
        return ebb__fail(program->ctx, EBB_USAGE, "load: the path is NULL");
    }
    TRY_OUT(ebb__safetensors_open(program->ctx, path, &reader));
    TRY_OUT(ebb__tensors_load(program->session, roles, &reader));
    TRY_OUT(roles == ALL ? read_steps(program, &reader) : EBB_OK);
out:
    ebb__safetensors_close(&reader);
    return status;
}

ebb_status ebb_program_save(ebb_program *program, const char *path) {
    return save(program, path, PARAMS);
}

ebb_status ebb_program_load(ebb_program *program, const char *path) {
    return load(program, path, PARAMS);
}

ebb_status ebb_program_save_all(ebb_program *program, const char *path) {
    return save(program, path, ALL);
}

ebb_status ebb_program_load_all(ebb_program *program, const char *path) {
    return load(program, path, ALL);
}

ebb_status ebb_program_copy(ebb_program *to, const ebb_program *from) {
    TRY(open_program(to));
    if (from == NULL) {
        return ebb__fail(to->ctx, EBB_USAGE, "copy: there is no program to copy from");
    }
    const ebb_plan *plan = to->session->plan;
    for (int32_t i = 0; i < plan->n_variables; i++) {
        const plan_variable *v = &plan->variables[i];
        if (v->role != IR_PARAM) {
            continue;
        }
        const plan_variable *source = ebb__plan_variable(from->session->plan, v->name);
        if (source == NULL || !ebb__ir_type_equal(&source->type, &v->type)) {
            return ebb__fail(to->ctx, EBB_USAGE,
                             "copy: %s is missing or has another shape in the other program",
                             v->name);
        }
        const void *data = NULL;
        TRY(ebb__run_map(from->session, run_at(source), DEVICE_READ, &data));
        ebb_status status = ebb__run_write(to->session, run_at(v), data);
        TRY(ebb__run_unmap(from->session, run_at(source), DEVICE_READ, data));
        TRY(status);
    }
    return EBB_OK;
}
