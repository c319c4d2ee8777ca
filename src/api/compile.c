/* compile.c - options, and the way from a public graph to a program: names of results settled on a
 * copy of the graph, a plan under the budget, limits of ids, then the arena. */
#include "api/api.h"

#include "base/host.h"

#include <math.h>
#include <string.h>

enum { OPTIONS_VERSION = 1, MOST_THREADS = 1024 };

_Static_assert((int)EBB_KIND_WEIGHTS == (int)IR_WEIGHTS && (int)EBB_KIND_STASH == (int)IR_STASH &&
                   (int)EBB_KIND_UNUSED == (int)IR_UNUSED && (int)EBB_KINDS == (int)IR_KINDS,
               "public kinds are the planner's");

const char *ebb_kind_name(ebb_kind kind) {
    return ebb__ir_kind_name((ir_kind)kind);
}

/* ---- options ---- */

ebb_options ebb_options_default(void) {
    return (ebb_options){.version = OPTIONS_VERSION,
                         .optimizer = EBB_SGD,
                         .beta1 = 0.9,
                         .beta2 = 0.999,
                         .eps = 1e-8};
}

static ebb_status check_options(ebb_ctx *ctx, const ebb_options *o) {
    const struct {
        const char *name;
        double value, below;
    } numbers[] = {{"momentum", o->momentum, 1},
                   {"beta1", o->beta1, 1},
                   {"beta2", o->beta2, 1},
                   {"eps", o->eps, HUGE_VAL},
                   {"weight_decay", o->weight_decay, HUGE_VAL},
                   {"clip", o->clip, HUGE_VAL}};
    if (o->version != OPTIONS_VERSION) {
        return ebb__fail(ctx, EBB_USAGE, "options: start from ebb_options_default()");
    }
    for (size_t i = 0; i < sizeof o->reserved / sizeof *o->reserved; i++) {
        if (o->reserved[i] != 0) {
            return ebb__fail(ctx, EBB_USAGE, "options: reserved members must be 0");
        }
    }
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++) {
        /* As fp32, which is what the optimisers see. */
        if (!(numbers[i].value >= 0 && (double)(float)numbers[i].value < numbers[i].below)) {
            return ebb__fail(ctx, EBB_USAGE, "options: %s %g is not in [0, %g)", numbers[i].name,
                             numbers[i].value, numbers[i].below);
        }
    }
    if (!((float)o->eps > 0)) {
        return ebb__fail(ctx, EBB_USAGE, "options: eps %g must be above 0", o->eps);
    }
    if (o->threads < 0 || o->threads > MOST_THREADS) {
        return ebb__fail(ctx, EBB_USAGE, "options: threads %d is not in 0..%d", o->threads,
                         MOST_THREADS);
    }
    if (o->shards < 0 || o->shards > IR_MAX_SHARDS) {
        return ebb__fail(ctx, EBB_USAGE, "options: shards %lld is not in 0..%d",
                         (long long)o->shards, IR_MAX_SHARDS);
    }
    if ((int)o->optimizer < EBB_FORWARD || (int)o->optimizer > EBB_ADAMW) {
        return ebb__fail(ctx, EBB_USAGE, "options: there is no optimizer %d", (int)o->optimizer);
    }
    return EBB_OK;
}

static pass_id find_pass(const char *name, size_t length) {
    int id = 0;
    while (id < PASS_COUNT && (strlen(ebb__pass_name((pass_id)id)) != length ||
                               strncmp(ebb__pass_name((pass_id)id), name, length) != 0)) {
        id++;
    }
    return (pass_id)id;
}

static ebb_status read_disabled(ebb_ctx *ctx, const char *names, uint32_t *bits) {
    *bits = 0;
    for (const char *at = names != NULL ? names : ""; *at != '\0';) {
        size_t length = strcspn(at, ",");
        pass_id id = find_pass(at, length);
        if (id == PASS_COUNT || !ebb__pass_optional(id)) {
            return ebb__fail(ctx, EBB_USAGE, "options: disable: %.*s is %s",
                             (int)(length < 64 ? length : 64), at,
                             id == PASS_COUNT ? "not a pass" : "required");
        }
        *bits |= 1U << id;
        at += length + (at[length] == ',');
    }
    return EBB_OK;
}

static ebb_status plan_options_of(ebb_ctx *ctx, const ebb_options *o, plan_options *out) {
    static const grad_optimizer kinds[] = {[EBB_FORWARD] = UPDATE_SGD,
                                           [EBB_SGD] = UPDATE_SGD,
                                           [EBB_ADAM] = UPDATE_ADAM,
                                           [EBB_ADAMW] = UPDATE_ADAMW};
    TRY(check_options(ctx, o));
    *out = (plan_options){.members = o->threads > 0 ? o->threads : ebb__host_cores(),
                          .budget = o->memory > 0 ? o->memory : ebb__run_budget(RUN_AUTO_PERCENT),
                          .budget_name = "ebb_options.memory",
                          .update = {.optimizer = kinds[o->optimizer],
                                     .momentum = (float)o->momentum,
                                     .beta1 = (float)o->beta1,
                                     .beta2 = (float)o->beta2,
                                     .eps = (float)o->eps,
                                     .weight_decay = (float)o->weight_decay,
                                     .clip = (float)o->clip}};
    return read_disabled(ctx, o->disable, &out->disabled);
}

/* ---- graph to plan ---- */

/* Whether the value lies densely in bytes of its own: no view, and part of no join. */
static bool is_apart(const ir_graph *ir, ir_val value) {
    if ((ebb__op(ir->nodes[ir->values[value].def].op)->flags & OPF_ALIAS) != 0) {
        return false;
    }
    for (int32_t i = 0; i < ir->n_order; i++) {
        const ir_node_rec *node = &ir->nodes[ir->order[i]];
        int32_t axis;
        for (int32_t k = 0; ebb__op_is_join(node, &axis) && k < node->n_in; k++) {
            if (ir_in(ir, node, k) == value) {
                return false;
            }
        }
    }
    return true;
}

/* A result is read as dense bytes under one name: where it is more, a copy is. */
static ebb_status settle_outputs(const ebb_graph *graph, ir_graph *ir) {
    for (int32_t i = 0; i < graph->n_outputs; i++) {
        ir_val value = graph->outputs[i].value;
        if (ir->values[value].name != NULL || !is_apart(ir, value)) {
            TRY(ebb__op_emit(ir, OP_COPY, &value, 1, NULL, &value));
        }
        TRY(ebb__ir_name(ir, value, graph->outputs[i].name));
        ir->values[value].output = true;
    }
    return EBB_OK;
}

static ebb_status check_graph(const ebb_graph *graph, const ebb_options *options) {
    TRY(ebb_graph_status(graph));
    if (options->optimizer != EBB_FORWARD && graph->ir.loss == IR_NONE) {
        return ebb__fail(graph->ctx, EBB_USAGE,
                         "compile: no loss to train; call ebb_loss() or choose EBB_FORWARD");
    }
    if (graph->n_outputs == 0 && !graph->carries) {
        return ebb__fail(graph->ctx, EBB_USAGE, "compile: the graph has no loss and no output");
    }
    return EBB_OK;
}

/* Planning tries candidates, nobody knows how many: it tells how many were tried. */
typedef struct plan_progress {
    ebb_ctx *ctx;
    uint64_t tried;
} plan_progress;

static bool note_candidate(void *user) {
    plan_progress *p = user;
    ebb__progress(p->ctx, "compile", ++p->tried, 0);
    return false; /* go on */
}

/* *plan is given also with EBB_BUDGET. The program gets its limits; NULL: only the plan counts. */
static ebb_status make_plan(const ebb_graph *graph, const ebb_options *options,
                            ebb_program *program, ebb_plan **plan) {
    ir_graph ir;
    plan_options settings;
    TRY(check_graph(graph, options));
    TRY(plan_options_of(graph->ctx, options, &settings));
    plan_progress progress = {.ctx = graph->ctx};
    settings.stop = note_candidate;
    settings.stop_user = &progress;
    ebb_status status = EBB_OK;
    TRY_OUT(ebb__ir_copy(&graph->ir, &ir));
    TRY_OUT(settle_outputs(graph, &ir));
    if (program != NULL) {
        TRY_OUT(ebb__api_limits(&ir, &program->limits, &program->n_limits));
    }
    bool training = options->optimizer != EBB_FORWARD;
    plan_request request = {.name = training ? "train" : "forward",
                            .graph = &ir,
                            .training = training,
                            .shards = (int32_t)options->shards};
    TRY_OUT(ebb__plan_make(graph->ctx, &request, 1, NULL, 0, &settings, plan));
    for (int32_t i = 0; program != NULL && i < program->n_limits; i++) {
        api_limit *limit = &program->limits[i];
        limit->variable = ebb__plan_variable(*plan, ir.values[limit->input].name);
    }
    ebb__progress(graph->ctx, "compile", progress.tried, progress.tried);
out:
    ebb__ir_fini(&ir);
    return status;
}

static void describe(const ebb_plan *plan, ebb_plan_info *info) {
    *info = (ebb_plan_info){.peak_bytes = plan->peak_bytes,
                            .least_bytes = plan->least_bytes,
                            .keep_all_bytes = plan->keep_all_bytes,
                            .budget_bytes = plan->budget_bytes,
                            .seconds_per_step = plan->seconds_per_step,
                            .nodes = plan->nodes,
                            .hash = plan->hash,
                            .threads = plan->members};
    for (int i = 0; i < IR_KINDS; i++) {
        info->bytes_by_kind[i] = plan->bytes_by_kind[i];
    }
}

ebb_status ebb_graph_plan(const ebb_graph *graph, const ebb_options *options, ebb_plan_info *info) {
    ebb_options defaults = ebb_options_default();
    ebb_plan *plan = NULL;
    if (info != NULL) {
        *info = (ebb_plan_info){0};
    }
    if (graph == NULL || info == NULL) {
        return EBB_USAGE;
    }
    ebb_status status = make_plan(graph, options != NULL ? options : &defaults, NULL, &plan);
    if (plan != NULL) {
        describe(plan, info);
    }
    ebb__plan_free(plan);
    return status;
}

ebb_status ebb_program_plan(const ebb_program *program, ebb_plan_info *info) {
    if (program == NULL || info == NULL) {
        return EBB_USAGE;
    }
    ebb__ctx_clear(program->ctx);
    describe(program->session->plan, info);
    return EBB_OK;
}

/* ---- plan to program ---- */

static ebb_status fill_program(ebb_program *p, const ebb_graph *graph, const ebb_options *options) {
    ebb_plan *plan = NULL;
    ebb_status status = make_plan(graph, options, p, &plan);
    if (status != EBB_OK) {
        ebb__plan_free(plan);
        return status;
    }
    TRY(ebb__run_new(p->ctx, plan, &p->session)); /* takes the plan, also on failure */
    p->trainer = ebb__trainer(p->session, options->beta1, options->beta2);
    ebb__log(p->ctx, EBB_LOG_INFO, "compiled: %llu of %llu bytes, %d nodes, %d threads",
             (unsigned long long)plan->peak_bytes, (unsigned long long)plan->budget_bytes,
             plan->nodes, plan->members);
    return EBB_OK;
}

ebb_status ebb_compile(const ebb_graph *graph, const ebb_options *options, ebb_program **out) {
    ebb_options defaults = ebb_options_default();
    ebb_program *program = NULL;
    if (out != NULL) {
        *out = NULL;
    }
    if (graph == NULL || out == NULL) {
        return EBB_USAGE;
    }
    ebb__ctx_clear(graph->ctx);
    TRY(ebb__alloc(graph->ctx, 1, sizeof *program, &program));
    program->ctx = graph->ctx;
    ebb_status status = fill_program(program, graph, options != NULL ? options : &defaults);
    if (status != EBB_OK) {
        ebb_program_free(program);
        return status;
    }
    *out = program;
    return EBB_OK;
}

void ebb_program_free(ebb_program *program) {
    if (program != NULL) {
        ebb__run_free(program->session);
        ebb__free(program->ctx, program->limits);
        ebb__free(program->ctx, program);
    }
}
