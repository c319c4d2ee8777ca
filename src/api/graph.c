/* graph.c - public graphs: variables, labels, names of results, and the first mistake.
 *
 * A mistake voids the graph: later builders do nothing, so that its sentence stays the one that the
 * caller can mend. Ops are in ops.c. */
#include "api/api.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

ebb_status ebb_graph_new(ebb_ctx *ctx, ebb_graph **out) {
    if (out != NULL) {
        *out = NULL;
    }
    if (ctx == NULL || out == NULL) {
        return EBB_USAGE;
    }
    ebb__ctx_clear(ctx);
    ebb_graph *graph = NULL;
    TRY(ebb__alloc(ctx, 1, sizeof *graph, &graph));
    graph->ctx = ctx;
    graph->seed = 1;
    graph->step = IR_NONE;
    ebb__op_graph_init(&graph->ir, ctx);
    *out = graph;
    return EBB_OK;
}

void ebb_graph_free(ebb_graph *graph) {
    if (graph != NULL) {
        ebb__ir_fini(&graph->ir);
        ebb__free(graph->ctx, graph);
    }
}

ebb_status ebb_graph_status(const ebb_graph *graph) {
    if (graph == NULL) {
        return EBB_USAGE;
    }
    ebb__ctx_clear(graph->ctx);
    return graph->status == EBB_OK ? EBB_OK
                                   : ebb__fail(graph->ctx, graph->status, "%s", graph->error);
}

bool ebb__api_open(ebb_graph *graph, const char *builder) {
    if (graph == NULL || graph->status != EBB_OK) {
        return false;
    }
    graph->builder = builder;
    ebb__ctx_clear(graph->ctx);
    return true;
}

/* The caller wrote ebb_linear, not matmul: the sentence starts with that name. */
static void name_builder(ebb_graph *graph) {
    static const char prefix[] = "ebb_";
    const char *own = graph->builder + strlen(prefix), *sentence = graph->ctx->error;
    size_t n = strlen(own);
    bool named = strncmp(sentence, own, n) == 0 && (sentence[n] == ':' || sentence[n] == '(');
    (void)snprintf(graph->error, sizeof graph->error, named ? "%s%s" : "%s: %.900s",
                   named ? prefix : graph->builder, sentence);
}

ebb_value ebb__api_close(ebb_graph *graph, ebb_status status, const ir_val *value) {
    if (status == EBB_OK) {
        return value != NULL ? *value : EBB_NO_VALUE;
    }
    graph->status = status;
    name_builder(graph);
    memcpy(graph->ctx->error, graph->error, sizeof graph->error);
    return EBB_NO_VALUE;
}

ebb_status ebb__api_need(const ebb_graph *graph, ebb_value value, const char *what) {
    if (value < 0 || value >= graph->ir.n_values) {
        return ebb__fail(graph->ctx, EBB_USAGE, "%s: %d is not a value of this graph", what, value);
    }
    return EBB_OK;
}

/* ---- labels ---- */

void ebb_graph_seed(ebb_graph *graph, uint64_t seed) {
    if (graph != NULL) {
        graph->seed = seed;
    }
}

static ebb_status check_name(const ebb_graph *graph, const char *what, const char *name) {
    if (name == NULL || name[0] == '\0' || strnlen(name, API_LONGEST_NAME + 1) > API_LONGEST_NAME) {
        return ebb__fail(graph->ctx, EBB_USAGE, "%s: a name has 1 to %d bytes", what,
                         API_LONGEST_NAME);
    }
    for (const char *at = name; *at != '\0'; at++) { /* a message that tells it is one line */
        if ((unsigned char)*at < ' ' || *at == 0x7f) {
            return ebb__fail(graph->ctx, EBB_USAGE,
                             "%s: a name has no control bytes: byte %d is 0x%02x", what,
                             (int)(at - name), (unsigned)*at);
        }
    }
    return EBB_OK;
}

void ebb_layer(ebb_graph *graph, const char *name) {
    if (ebb__api_open(graph, __func__)) {
        ebb_status status = check_name(graph, "layer", name);
        if (status == EBB_OK) {
            status = ebb__ir_layer(&graph->ir, name, &graph->ir.label.layer);
        }
        (void)ebb__api_close(graph, status, NULL);
    }
}

void ebb_time(ebb_graph *graph, int32_t time) {
    if (ebb__api_open(graph, __func__)) {
        ebb_status status = EBB_OK;
        if (time < -1) {
            status = ebb__fail(graph->ctx, EBB_USAGE, "time: %d is below -1", time);
        }
        graph->ir.label.at = status == EBB_OK ? time : -1;
        (void)ebb__api_close(graph, status, NULL);
    }
}

/* ---- variables ---- */

ebb_status ebb__api_add_variable(ebb_graph *graph, ir_role role, const char *name, ir_dtype dtype,
                                 int32_t rank, const int64_t *dims, ir_val *out) {
    ir_type type = {.dtype = dtype, .rank = (int16_t)rank};
    if (rank < 1 || rank > EBB_MAX_RANK || dims == NULL) {
        return ebb__fail(graph->ctx, EBB_USAGE, "%s: a shape has 1 to %d sizes", name,
                         EBB_MAX_RANK);
    }
    for (int32_t i = 0; i < rank; i++) {
        if (dims[i] < 1 || dims[i] > INT32_MAX) {
            return ebb__fail(graph->ctx, EBB_USAGE, "%s: size %lld is not in 1..%d", name,
                             (long long)dims[i], INT32_MAX);
        }
        type.dim[i] = (int32_t)dims[i];
    }
    return ebb__ir_add_variable(&graph->ir, role, name, &type, out);
}

static ebb_status check_own_name(const ebb_graph *graph, const char *what, const char *name) {
    TRY(check_name(graph, what, name));
    if (strncmp(name, "train.", 6) == 0 || strncmp(name, UPDATE_SHOWN, 5) == 0) {
        return ebb__fail(graph->ctx, EBB_USAGE,
                         "%s: names that start with train. or grad. are taken", name);
    }
    return EBB_OK;
}

static ebb_value variable(ebb_graph *graph, ir_role role, const char *builder, const char *name,
                          ir_dtype dtype, int32_t rank, const int64_t *dims) {
    ir_val out = IR_NONE;
    if (!ebb__api_open(graph, builder)) {
        return EBB_NO_VALUE;
    }
    ebb_status status = check_own_name(graph, "name", name);
    if (status == EBB_OK) {
        status = ebb__api_add_variable(graph, role, name, dtype, rank, dims, &out);
    }
    return ebb__api_close(graph, status, &out);
}

/* A matrix starts uniform within 1/sqrt(its columns), a list as zeros. */
ebb_value ebb_param(ebb_graph *graph, const char *name, int32_t rank, const int64_t *dims) {
    ebb_value param = variable(graph, IR_PARAM, __func__, name, IR_F32, rank, dims);
    if (param != EBB_NO_VALUE) {
        ir_value *value = &graph->ir.values[param];
        float bound = rank > 1 ? 1.0F / sqrtf((float)ir_cols(&value->type)) : 0.0F;
        value->start = (ir_start){.draw = IR_UNIFORM, .scale = bound};
    }
    return param;
}

ebb_value ebb_input_f32(ebb_graph *graph, const char *name, int32_t rank, const int64_t *dims) {
    return variable(graph, IR_INPUT, __func__, name, IR_F32, rank, dims);
}

ebb_value ebb_input_i32(ebb_graph *graph, const char *name, int32_t rank, const int64_t *dims) {
    return variable(graph, IR_INPUT, __func__, name, IR_I32, rank, dims);
}

ebb_value ebb_state(ebb_graph *graph, const char *name, int32_t rank, const int64_t *dims) {
    return variable(graph, IR_STATE, __func__, name, IR_F32, rank, dims);
}

/* True if the value may turn out to be a variable's own bytes: a variable, or a view (the compiler
 * may find that a view shows all of one). */
static bool lies_in_variable(const ir_graph *ir, ir_val value) {
    ir_node def = ir->values[value].def;
    return def == IR_NONE || (ebb__op(ir->nodes[def].op)->flags & OPF_ALIAS) != 0;
}

static ebb_status carry(ebb_graph *graph, ebb_value state, ebb_value value) {
    ir_graph *ir = &graph->ir;
    TRY(ebb__api_need(graph, state, "carry"));
    TRY(ebb__api_need(graph, value, "carry"));
    const ir_value *s = &ir->values[state];
    if (s->role != IR_STATE || s->next != IR_NONE) {
        return ebb__fail(graph->ctx, EBB_USAGE, "carry: %s is not a state or is carried twice",
                         s->name != NULL ? s->name : "the value");
    }
    if (!ebb__ir_type_equal(&s->type, &ir->values[value].type)) {
        return ebb__fail(graph->ctx, EBB_USAGE, "carry: %s and its next value differ in type",
                         s->name);
    }
    /* States may be exchanged: each is then read before any is overwritten. */
    if (lies_in_variable(ir, value)) {
        TRY(ebb__op_emit(ir, OP_COPY, &value, 1, NULL, &value));
    }
    ir_val next = IR_NONE; /* the gradient still reads the old state while this one is computed */
    TRY(ebb__op_emit(ir, OP_COPY, &value, 1, NULL, &next));
    ir->values[state].next = next;
    graph->carries = true;
    return EBB_OK;
}

void ebb_carry(ebb_graph *graph, ebb_value state, ebb_value value) {
    if (ebb__api_open(graph, __func__)) {
        (void)ebb__api_close(graph, carry(graph, state, value), NULL);
    }
}

/* ---- results ---- */

static ebb_status name_result(ebb_graph *graph, const char *name, ebb_value value) {
    TRY(ebb__api_need(graph, value, name));
    if (graph->ir.values[value].def == IR_NONE) {
        return ebb__fail(graph->ctx, EBB_USAGE, "%s: %s is a variable, not a computed value", name,
                         graph->ir.values[value].name);
    }
    for (int32_t i = 0; i < graph->n_outputs; i++) {
        if (strcmp(graph->outputs[i].name, name) == 0) {
            return ebb__fail(graph->ctx, EBB_USAGE, "%s: this name is already taken", name);
        }
    }
    char *copy = NULL;
    TRY(ebb__region_strdup(&graph->ir.region, name, &copy));
    TRY(ebb__region_grow(&graph->ir.region, &graph->outputs, &graph->cap_outputs,
                         (size_t)graph->n_outputs + 1, sizeof *graph->outputs));
    graph->outputs[graph->n_outputs++] = (api_output){copy, value};
    return EBB_OK;
}

static ebb_status set_loss(ebb_graph *graph, ebb_value value) {
    TRY(name_result(graph, TRAINER_LOSS, value));
    const ir_type *type = &graph->ir.values[value].type;
    if (type->dtype != IR_F32 || type->rank != 1 || type->dim[0] != 1) {
        return ebb__fail(graph->ctx, EBB_USAGE,
                         "loss: it must be one f32 number, of shape [1]; "
                         "ebb_sum() and ebb_mean() make one of many");
    }
    graph->ir.loss = value;
    return EBB_OK;
}

void ebb_loss(ebb_graph *graph, ebb_value value) {
    if (ebb__api_open(graph, __func__)) {
        (void)ebb__api_close(graph, set_loss(graph, value), NULL);
    }
}

void ebb_output(ebb_graph *graph, const char *name, ebb_value value) {
    if (ebb__api_open(graph, __func__)) {
        ebb_status status = check_own_name(graph, "output", name);
        if (status == EBB_OK) {
            status = name_result(graph, name, value);
        }
        (void)ebb__api_close(graph, status, NULL);
    }
}

void ebb_gradient(ebb_graph *graph, ebb_value param) {
    if (!ebb__api_open(graph, __func__)) {
        return;
    }
    ebb_status status = ebb__api_need(graph, param, "param");
    if (status == EBB_OK && graph->ir.values[param].role != IR_PARAM) {
        status = ebb__fail(graph->ctx, EBB_USAGE, "gradient: only a parameter has one");
    }
    if (status == EBB_OK) {
        graph->ir.values[param].show_grad = true;
    }
    (void)ebb__api_close(graph, status, NULL);
}
