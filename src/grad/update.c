/* update.c - see update.h. Without clipping no update waits for another gradient, so the schedule
 * can apply each as soon as it is complete; with clipping all gradients must coexist. */
#include "grad/update.h"

#include <stdio.h>

static ebb_status add_slot(ir_graph *graph, const char *slot, ir_val param, ir_val *out) {
    char name[512];
    int n = snprintf(name, sizeof name, "%s.%s", slot, graph->values[param].name);
    if (n < 0 || (size_t)n >= sizeof name) {
        return ebb__fail(graph->ctx, EBB_USAGE, "parameter name is too long: %.60s...",
                         graph->values[param].name);
    }
    ir_type type = graph->values[param].type;
    return ebb__ir_add_variable(graph, IR_SLOT, name, &type, out);
}

/* A copy, since the gradient itself may lie in other bytes, or be written over by the update. */
static ebb_status show_gradient(ir_graph *graph, ir_val param, ir_val grad) {
    char name[512];
    int n = snprintf(name, sizeof name, UPDATE_SHOWN "%s", graph->values[param].name);
    if (n < 0 || (size_t)n >= sizeof name) {
        return ebb__fail(graph->ctx, EBB_USAGE, "parameter name is too long: %.60s...",
                         graph->values[param].name);
    }
    TRY(ebb__op_emit(graph, OP_COPY, &grad, 1, NULL, &grad));
    graph->values[grad].output = true;
    return ebb__ir_name(graph, grad, name);
}

static ebb_status emit_update(ir_graph *graph, ir_val param, ir_val grad, ir_val scale,
                              ir_val hyper, const grad_update_settings *s) {
    ir_val out[3], m = IR_NONE, v = IR_NONE;
    if (s->optimizer == UPDATE_SGD && s->momentum == 0) {
        ir_attr attr = {.f = {s->weight_decay}};
        TRY(ebb__op_emit(graph, OP_SGD, (ir_val[]){param, grad, scale, hyper}, 4, &attr, out));
    } else if (s->optimizer == UPDATE_SGD) {
        ir_attr attr = {.f = {s->momentum, s->weight_decay}};
        TRY(add_slot(graph, "momentum", param, &m));
        TRY(ebb__op_emit(graph, OP_SGD_MOMENTUM, (ir_val[]){param, grad, m, scale, hyper}, 5, &attr,
                         out));
        graph->values[m].next = out[1];
    } else {
        ir_attr attr = {.i = {s->optimizer == UPDATE_ADAMW},
                        .f = {s->beta1, s->beta2, s->eps, s->weight_decay}};
        TRY(add_slot(graph, "exp_avg", param, &m));
        TRY(add_slot(graph, "exp_avg_sq", param, &v));
        TRY(ebb__op_emit(graph, OP_ADAM, (ir_val[]){param, grad, m, v, scale, hyper}, 6, &attr,
                         out));
        graph->values[m].next = out[1];
        graph->values[v].next = out[2];
    }
    graph->values[param].next = out[0];
    return EBB_OK;
}

/* Beside the parameter, once that has its next value. */
static ebb_status emit_average(ir_graph *graph, ir_val param, ir_val hyper) {
    ir_val mean = IR_NONE, next = IR_NONE;
    TRY(add_slot(graph, UPDATE_AVERAGE, param, &mean));
    TRY(ebb__op_emit(graph, OP_AVERAGE, (ir_val[]){mean, graph->values[param].next, hyper}, 3, NULL,
                     &next));
    graph->values[mean].next = next;
    return EBB_OK;
}

static ebb_status emit_norm(ir_graph *graph, const ir_val *params, const ir_val *grads, int32_t n,
                            ir_val *partials, float clip, ir_val *scale) {
    for (int32_t i = 0; i < n; i++) {
        graph->label.layer = graph->values[params[i]].layer;
        TRY(ebb__op_emit(graph, OP_SUM_SQUARES, &grads[params[i]], 1, NULL, &partials[i]));
    }
    ir_attr attr = {.f = {clip}};
    ir_val out[3];
    TRY(ebb__ir_layer(graph, "optimizer", &graph->label.layer));
    TRY(ebb__op_emit(graph, OP_CLIP_SCALE, partials, n, &attr, out));
    for (int i = 1; i < 3; i++) {
        graph->values[out[i]].output = true;
        TRY(ebb__ir_name(graph, out[i], i == 1 ? UPDATE_NORM : UPDATE_BAD));
    }
    *scale = clip > 0 ? out[0] : (ir_val)IR_NONE;
    return EBB_OK;
}

ebb_status ebb__update_build(ir_graph *graph, const ir_val *grads, int32_t n_grads,
                             const grad_update_settings *settings) {
    ir_val *params = NULL, *partials = NULL, hyper = IR_NONE, scale = IR_NONE;
    int32_t n = 0;
    TRY(ebb__region_alloc(&graph->region, (size_t)n_grads + 1, sizeof *params, &params));
    TRY(ebb__region_alloc(&graph->region, (size_t)n_grads + 1, sizeof *partials, &partials));
    for (ir_val v = 0; v < n_grads; v++) {
        if (graph->values[v].role == IR_PARAM && grads[v] != IR_NONE) {
            params[n++] = v;
        }
    }
    if (n == 0) {
        return ebb__fail(graph->ctx, EBB_USAGE, "the loss depends on no parameter");
    }
    ir_label label = graph->label;
    graph->label = (ir_label){.layer = 0, .at = -1, .phase = IR_UPDATE};
    TRY(ebb__ir_layer(graph, "optimizer", &graph->label.layer));
    TRY(ebb__ir_add_variable(graph, IR_INPUT, UPDATE_HYPER,
                             &(ir_type){.dtype = IR_F32, .rank = 1, .dim = {4}}, &hyper));
    TRY(emit_norm(graph, params, grads, n, partials, settings->clip, &scale));
    for (int32_t i = 0; i < n; i++) {
        graph->label.layer = graph->values[params[i]].layer;
        if (graph->values[params[i]].show_grad) {
            TRY(show_gradient(graph, params[i], grads[params[i]]));
        }
        TRY(emit_update(graph, params[i], grads[params[i]], scale, hyper, settings));
        if (settings->average) {
            TRY(emit_average(graph, params[i], hyper));
        }
    }
    graph->label = label;
    return EBB_OK;
}
