/* program.c - a compiled program: values by name, steps, parameters to and from files. Where
 * several processes share it, this is the leader's: what they keep is reached through run/ranks.h.
 *
 * Nothing here allocates but save and load: what a step needs was found when it was compiled. */
#include "api/api.h"

#include "pass/ranks.h"
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
    return ebb__api_leads(program);
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
    const api_shared *shared = program->shared;
    if (index < shared->n_tensors) {
        return shared->tensors[index].name;
    }
    index -= shared->n_tensors;
    for (int32_t i = 0; i < plan->n_variables; i++) {
        const plan_variable *v = &plan->variables[i];
        bool own = shared->ranks == NULL || (v->role == IR_INPUT && !v->extra);
        if (own && index-- == 0) {
            return v->name;
        }
    }
    bool planned = program->index < plan->n_programs; /* the leader's own is not */
    const plan_program *own = &plan->programs[planned ? program->index : 0];
    for (int32_t i = 0; planned && i < own->n_outputs; i++) {
        if (strcmp(own->outputs[i].name, PASS_MESSAGES) != 0 && index-- == 0) {
            return own->outputs[i].name;
        }
    }
    return NULL;
}

/* What a name stands for: a tensor that several processes keep, or a variable; of an output both
 * are NULL. */
typedef struct named {
    const ranks_tensor *tensor;
    const plan_variable *variable;
    ir_role role;
    ir_type type;
    run_place at; /* of no tensor */
} named;

static const ranks_tensor *find_tensor(const api_shared *shared, const char *name) {
    int32_t i = 0;
    while (i < shared->n_tensors && strcmp(shared->tensors[i].name, name) != 0) {
        i++;
    }
    return i < shared->n_tensors ? &shared->tensors[i] : NULL;
}

static ebb_status find(ebb_program *program, const char *name, named *out) {
    run_session *session = program->session;
    if (name == NULL) {
        return ebb__fail(program->ctx, EBB_USAGE, "program: a name is NULL");
    }
    *out = (named){.tensor = find_tensor(program->shared, name), .role = IR_TEMP};
    if (out->tensor != NULL) {
        out->type = out->tensor->type;
        out->role = out->tensor->role;
        return EBB_OK;
    }
    out->variable = ebb__plan_variable(session->plan, name);
    if (out->variable != NULL && !out->variable->extra) {
        out->type = out->variable->type;
        out->role = out->variable->role;
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
    *out = shape_of(at.role, &at.type);
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
        *shape = shape_of(at.role, &at.type);
    }
    if (at.tensor != NULL) {
        return ebb__fail(program->ctx, EBB_USAGE,
                         "%s: several processes keep it; use ebb_program_get() and "
                         "ebb_program_set()",
                         name);
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

/* ranks_read: bytes of the caller's. */
static ebb_status read_bytes(void *user, uint64_t from, void *data, size_t bytes) {
    memcpy(data, (const char *)user + from, bytes);
    return EBB_OK;
}

ebb_status ebb_program_set(ebb_program *program, const char *name, const void *data, size_t bytes) {
    named at;
    TRY(open_program(program));
    TRY(find(program, name, &at));
    if (at.role == IR_TEMP || strcmp(name, UPDATE_HYPER) == 0 || strcmp(name, TRAINER_STEP) == 0) {
        return ebb__fail(program->ctx, EBB_USAGE, "%s: this value cannot be set", name);
    }
    TRY(check_bytes(program, name, &at, data, bytes));
    if (at.tensor != NULL) {
        void *user = (void *)(uintptr_t)data; /* it is only read */
        return ebb__api_note(program,
                             ebb__ranks_write(program->session, at.tensor, read_bytes, user));
    }
    if (at.type.dtype == IR_I32) {
        TRY(ebb__api_check_limits(program, at.variable, data));
    }
    return ebb__run_write(program->session, at.at, data);
}

/* Bytes of a tensor that several processes keep, from `from` on. */
static ebb_status collect(run_session *session, const ranks_tensor *tensor, uint64_t from,
                          void *data, size_t bytes) {
    size_t done = 0;
    while (done < bytes) {
        const void *piece = NULL;
        uint64_t n = 0;
        TRY(ebb__ranks_open(session, tensor, from + done, &piece, &n));
        n = n < bytes - done ? n : bytes - done;
        memcpy((char *)data + done, piece, (size_t)n);
        TRY(ebb__ranks_close(session, tensor, from + done, piece));
        done += (size_t)n;
    }
    return EBB_OK;
}

static ebb_status fetch(ebb_program *program, const named *at, uint64_t from, void *data,
                        size_t bytes) {
    return at->tensor == NULL
               ? ebb__run_read(program->session, run_part(at->at, from, bytes), data)
               : ebb__api_note(program, collect(program->session, at->tensor, from, data, bytes));
}

ebb_status ebb_program_get(ebb_program *program, const char *name, void *data, size_t bytes) {
    named at;
    TRY(open_program(program));
    TRY(find(program, name, &at));
    TRY(check_bytes(program, name, &at, data, bytes));
    return fetch(program, &at, 0, data, bytes);
}

/* ---- steps ---- */

ebb_status ebb_program_init(ebb_program *program, uint64_t seed) {
    TRY(open_program(program));
    TRY(ebb__api_note(program, ebb__ranks_draw(program->session, seed)));
    TRY(ebb__api_note(program, ebb__ranks_zero(program->session, IR_SLOT)));
    TRY(ebb__api_note(program, ebb__ranks_zero(program->session, IR_STATE)));
    ebb_program_set_steps(program, 0);
    return EBB_OK;
}

ebb_status ebb_program_run(ebb_program *program, double learning_rate) {
    TRY(open_program(program));
    run_trainer *trainer = &program->trainer;
    trainer->steps = ebb_program_steps(program);
    ebb_status status =
        ebb__api_note(program, ebb__trainer_step(trainer, program->index, learning_rate));
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
    const ebb_plan *plan = program->session->plan;
    return program->index < plan->n_programs && plan->programs[program->index].n_trained > 0;
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
    return ebb__api_note(program, status);
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
    return ebb__api_note(program, status);
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

/* ranks_read: bytes of a parameter of another program. */
typedef struct copy_source {
    ebb_program *program;
    named at;
} copy_source;

static ebb_status read_source(void *user, uint64_t from, void *data, size_t bytes) {
    const copy_source *source = user;
    return fetch(source->program, &source->at, from, data, bytes);
}

static ebb_status copy_into(ebb_program *to, const named *at, copy_source *source) {
    void *data = NULL;
    if (at->tensor != NULL) {
        return ebb__api_note(to, ebb__ranks_write(to->session, at->tensor, read_source, source));
    }
    TRY(ebb__run_map(to->session, at->at, DEVICE_WRITE, &data));
    ebb_status status = read_source(source, 0, data, (size_t)at->at.bytes);
    ebb_status closed = ebb__run_unmap(to->session, at->at, DEVICE_WRITE, data);
    return status == EBB_OK ? closed : status;
}

ebb_status ebb_program_copy(ebb_program *to, const ebb_program *from) {
    TRY(open_program(to));
    if (from == NULL) {
        return ebb__fail(to->ctx, EBB_USAGE, "copy: there is no program to copy from");
    }
    TRY(ebb__api_leads(from));
    copy_source source = {.program = (ebb_program *)(uintptr_t)from}; /* its session moves bytes */
    for (int32_t i = 0; ebb_program_name(to, i) != NULL; i++) {
        const char *name = ebb_program_name(to, i);
        named at;
        TRY(find(to, name, &at));
        if (at.role != IR_PARAM) {
            continue;
        }
        bool known = find(source.program, name, &source.at) == EBB_OK;
        ebb__ctx_clear(source.program->ctx);
        if (!known || source.at.role != IR_PARAM ||
            !ebb__ir_type_equal(&source.at.type, &at.type)) {
            return ebb__fail(to->ctx, EBB_USAGE,
                             "copy: %s is missing or has another shape in the other program", name);
        }
        TRY(copy_into(to, &at, &source));
    }
    return EBB_OK;
}
