/* net_step.c - one training step of a net from weights, images and labels of a file, for
 * tools/golden/compare_nets.py: the planned program as training has it, with a rate of 0.
 * Usage: net_step NET CLASSES IN.safetensors OUT.safetensors [THREADS [LANES [decisions]]]
 *
 * IN has the net's parameters and running statistics by name, data.pixels u8 [N, Y, X, C],
 * data.labels i32 [N], data.scale and data.shift f32 [C]. OUT gets `loss`, every gradient as
 * grad.NAME, and running statistics after the step; with `decisions` also what relus and maxima
 * are decided by, their operands, as in.NUMBER.LAYER in the order of layers. There is no dropout.
 */
#include "model/cnn.h"
#include "model/net_named.h"
#include "model/net_text.h"
#include "run/tensors.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct net_step {
    ebb_ctx *ctx;
    const char *net;
    int32_t classes;
    int threads;
    int64_t lanes;
    bool decisions;
    st_reader in;
    run_session *session;
} net_step;

static ebb_status make_net(const net_step *s, const st_tensor *pixels, net_model *net) {
    net_wish wish = {s->net, (int32_t)pixels->dims[3], (int32_t)pixels->dims[1], s->classes};
    if (ebb__net_is_named(s->net)) {
        return ebb__net_named(net, &wish);
    }
    TRY(ebb__net_load(net, s->net));
    return ebb__net_finish(net);
}

/* Operands of relus and maxima become outputs. */
static ebb_status show_decisions(ir_graph *graph) {
    int32_t number = 0;
    for (int32_t i = 0; i < graph->n_order; i++) {
        const ir_node_rec *node = &graph->nodes[graph->order[i]];
        ir_val x = ir_in(graph, node, 0);
        char name[NET_MOST_NAME + 16];
        if (node->op != OP_RELU && node->op != OP_MAX_POOL) {
            continue;
        }
        if (graph->values[x].name != NULL) {
            return ebb__fail(graph->ctx, EBB_USAGE, "layers %s and %s are decided by one map",
                             graph->values[x].name, graph->layers[node->label.layer]);
        }
        (void)snprintf(name, sizeof name, "in.%05d.%s", number++, graph->layers[node->label.layer]);
        graph->values[x].output = true;
        TRY(ebb__ir_name(graph, x, name));
    }
    return EBB_OK;
}

static ebb_status build(const net_step *s, ir_graph *graph) {
    const st_tensor *pixels = ebb__safetensors_find(&s->in, CNN_PIXELS);
    net_model net;
    if (pixels == NULL || pixels->rank != 4) {
        return ebb__fail(s->ctx, EBB_MODEL, "%s: needs " CNN_PIXELS " [N, Y, X, C]", s->in.path);
    }
    cnn_model model = {
        .net = &net, .batch = pixels->dims[0], .lanes = s->lanes, .train = true, .dropout = 0};
    ebb__net_init(&net, s->ctx);
    ebb_status status = make_net(s, pixels, &net);
    if (status == EBB_OK) {
        status = ebb__cnn_build(graph, &model);
    }
    if (status == EBB_OK && s->decisions) {
        status = show_decisions(graph);
    }
    for (ir_val v = 0; status == EBB_OK && v < graph->n_values; v++) {
        graph->values[v].show_grad = graph->values[v].role == IR_PARAM;
    }
    ebb__net_fini(&net);
    return status;
}

static ebb_status plan(net_step *s) {
    ir_graph graph;
    ebb_plan *made = NULL;
    plan_request request = {.name = "train", .graph = &graph, .training = true};
    plan_options options = {.members = s->threads, .budget = UINT64_MAX};
    ebb__op_graph_init(&graph, s->ctx);
    ebb_status status = build(s, &graph);
    if (status == EBB_OK) {
        status = ebb__plan_make(s->ctx, &request, 1, NULL, 0, &options, &made);
    }
    if (status == EBB_OK) {
        status = ebb__run_new(s->ctx, made, &s->session);
    }
    ebb__ir_fini(&graph);
    return status;
}

/* The numbers of the update stay 0, so that the step leaves weights as they are. */
static ebb_status fill_inputs(net_step *s) {
    const ebb_plan *p = s->session->plan;
    for (int32_t i = 0; i < p->n_variables; i++) {
        const plan_variable *v = &p->variables[i];
        if (v->role != IR_INPUT || strncmp(v->name, "data.", 5) != 0) {
            continue;
        }
        const st_tensor *t = ebb__safetensors_find(&s->in, v->name);
        if (t == NULL) {
            return ebb__fail(s->ctx, EBB_MODEL, "%s: no %s", s->in.path, v->name);
        }
        TRY(ebb__safetensors_read(&s->in, t, ebb__run_variable(s->session, v->name, NULL),
                                  (size_t)v->bytes));
    }
    return EBB_OK;
}

/* The outputs that are loss and gradients, behind the entries of running statistics. */
static ebb_status write_out(const net_step *s, alloc_region *region, const char *path) {
    const plan_program *program = &s->session->plan->programs[0];
    st_entry *buffers = NULL, *all = NULL;
    size_t n = 0;
    TRY(ebb__tensors_list(s->session, 1U << IR_BUFFER, region, &buffers, &n));
    TRY(ebb__region_alloc(region, n + (size_t)program->n_outputs, sizeof *all, &all));
    memcpy(all, buffers, n * sizeof *all);
    for (int32_t i = 0; i < program->n_outputs; i++) {
        const plan_output *out = &program->outputs[i];
        if (out->type.dtype != IR_F32) {
            continue;
        }
        all[n] = (st_entry){.name = out->name,
                            .dtype = ST_F32,
                            .rank = out->type.rank,
                            .data = ebb__run_output(s->session, 0, out->name)};
        for (int32_t d = 0; d < out->type.rank; d++) {
            all[n].dims[d] = out->type.dim[d];
        }
        n++;
    }
    return ebb__safetensors_write(s->ctx, path, all, n, NULL, 0, NULL);
}

static ebb_status run(net_step *s, const char *in, const char *out) {
    alloc_region region;
    TRY(ebb__safetensors_open(s->ctx, in, &s->in));
    TRY(plan(s));
    TRY(ebb__tensors_load(s->session, 1U << IR_PARAM | 1U << IR_BUFFER, &s->in));
    TRY(fill_inputs(s));
    TRY(ebb__run_step(s->session, 0));
    ebb__region_init(&region, s->ctx);
    ebb_status status = write_out(s, &region, out);
    ebb__region_fini(&region);
    return status;
}

int main(int argc, char **argv) {
    net_step s = {.in.fd = -1};
    if (argc < 5 || argc > 8 || ebb_ctx_new(&s.ctx) != EBB_OK) {
        (void)fprintf(stderr, "usage: net_step NET CLASSES IN OUT [THREADS [LANES [decisions]]]\n");
        return 2;
    }
    s.net = argv[1];
    s.classes = (int32_t)strtol(argv[2], NULL, 10);
    s.threads = argc > 5 ? (int)strtol(argv[5], NULL, 10) : 2;
    s.lanes = argc > 6 ? strtol(argv[6], NULL, 10) : 0;
    s.decisions = argc > 7 && strcmp(argv[7], "decisions") == 0;
    ebb_status status = run(&s, argv[3], argv[4]);
    if (status != EBB_OK) {
        (void)fprintf(stderr, "net_step: %s\n", ebb_last_error(s.ctx));
    }
    ebb__run_free(s.session);
    ebb__safetensors_close(&s.in);
    ebb_ctx_free(s.ctx);
    return status == EBB_OK ? 0 : 1;
}
