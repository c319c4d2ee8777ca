/* compile.c - options, and the way from a public graph to a program: names of results settled on a
 * copy of the graph, a plan under the budget, limits of ids, then the arena. */
#include "api/api.h"

#include "base/host.h"
#include "page/picture.h"

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
    if (!api_are_zero(o->reserved, sizeof o->reserved)) {
        return ebb__fail(ctx, EBB_USAGE, "options: reserved members must be 0");
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
    return ebb__api_check_ranks(ctx, o);
}

/* Where nothing is said, the processes of a host share its cores. */
static int threads_of(const ebb_options *o) {
    const ebb_ranks *ranks = ebb__api_ranks(o);
    int here = ranks != NULL ? ebb__comm_here(ranks->link) : 1;
    int cores = ebb__host_cores() / here;
    return o->threads > 0 ? o->threads : cores > 0 ? cores : 1;
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

/* 0 stands for most of the memory that the plan will lie in. */
static uint64_t budget_of(const ebb_options *o, const device *dev) {
    uint64_t memory = device_or_default(dev)->memory_bytes;
    if (o->memory > 0) {
        return o->memory;
    }
    return memory > 0 ? (uint64_t)((double)memory * RUN_AUTO_PERCENT / 100.0)
                      : ebb__run_budget(RUN_AUTO_PERCENT);
}

static ebb_status plan_options_of(ebb_ctx *ctx, const ebb_options *o, const device *dev,
                                  plan_options *out) {
    static const grad_optimizer kinds[] = {[EBB_FORWARD] = UPDATE_SGD,
                                           [EBB_SGD] = UPDATE_SGD,
                                           [EBB_ADAM] = UPDATE_ADAM,
                                           [EBB_ADAMW] = UPDATE_ADAMW};
    *out = (plan_options){.dev = dev,
                          .members = threads_of(o),
                          .budget = budget_of(o, dev),
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

static ebb_status check_graph(const ebb_graph *graph, bool training) {
    TRY(ebb_graph_status(graph));
    if (training && graph->ir.loss == IR_NONE) {
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
    return p->ctx->stop_planning != NULL && p->ctx->stop_planning(p->ctx->stop_planning_user) != 0;
}

/* Graphs to be compiled together, the first n_training of them to be trained. */
typedef struct api_request {
    ebb_ctx *ctx;
    const ebb_graph *const *graphs;
    int32_t n, n_training;
    const ebb_options *options;
    ir_graph ir[PLAN_MAX_PROGRAMS]; /* with results settled: a plan goes on reading them until it is
                                       released */
    int32_t n_ir;
    alloc_region region; /* likewise */
} api_request;

static ebb_status settle(api_request *r, api_shared *shared, plan_request *requests) {
    for (int32_t i = 0; i < r->n; i++) {
        bool training = i < r->n_training;
        ir_graph *ir = &r->ir[i];
        TRY(check_graph(r->graphs[i], training));
        r->n_ir++;
        TRY(ebb__ir_copy(&r->graphs[i]->ir, ir));
        TRY(settle_outputs(r->graphs[i], ir));
        TRY(ebb__api_ranks(r->options) != NULL ? ebb__api_settle_layers(ir) : EBB_OK);
        requests[i] = (plan_request){.name = training ? "train" : "forward",
                                     .graph = ir,
                                     .training = training,
                                     .shards = training ? (int32_t)r->options->shards : 0};
        int32_t first = shared->n_limits;
        TRY(ebb__api_limits(ir, &shared->limits, &shared->n_limits));
        for (int32_t k = first; k < shared->n_limits; k++) {
            shared->limits[k].graph = i;
        }
    }
    return EBB_OK;
}

/* A result of one graph may not be called as a variable of another: who asks for it would get that.
 */
static ebb_status check_names(const api_request *r, const ebb_plan *plan) {
    for (int32_t i = 0; i < r->n; i++) {
        for (int32_t k = 0; k < r->graphs[i]->n_outputs; k++) {
            const char *name = r->graphs[i]->outputs[k].name;
            if (ebb__plan_variable(plan, name) != NULL) {
                return ebb__fail(r->ctx, EBB_USAGE,
                                 "%s: a result of one graph and a variable of another", name);
            }
        }
    }
    return EBB_OK;
}

/* What this process does by itself before there is a plan. */
static ebb_status prepare(api_request *r, api_shared *shared, plan_request *requests,
                          plan_options *settings) {
    if (r->n < 1 || r->n > PLAN_MAX_PROGRAMS || r->n_training < 0 || r->n_training > r->n) {
        return ebb__fail(r->ctx, EBB_USAGE, "compile: it takes 1 to %d graphs, and trains some",
                         PLAN_MAX_PROGRAMS);
    }
    TRY(check_options(r->ctx, r->options));
    TRY(ebb__api_open_device(r->ctx, r->options->device, r->options->kernels, &shared->dev));
    TRY(plan_options_of(r->ctx, r->options, shared->dev, settings));
    return settle(r, shared, requests);
}

/* *plan is given also with EBB_BUDGET. */
static ebb_status make_plan(api_request *r, api_shared *shared, ebb_plan **plan) {
    plan_request requests[PLAN_MAX_PROGRAMS];
    plan_options settings;
    plan_progress progress = {.ctx = r->ctx};
    const plan_extra room = ranks_room();
    api_team team = {.ctx = r->ctx,
                     .options = r->options,
                     .graphs = r->ir,
                     .list = requests,
                     .n = r->n,
                     .n_training = r->n_training,
                     .settings = &settings,
                     .region = &r->region};
    ebb_status status = prepare(r, shared, requests, &settings);
    settings.stop = note_candidate;
    settings.stop_user = &progress;
    TRY(ebb__api_share(&team, status));
    bool leads_others = settings.ranks.count > 1 && settings.ranks.rank == 0;
    TRY(ebb__plan_make(r->ctx, requests, team.n, &room, leads_others, &settings, plan));
    for (int32_t i = 0; i < shared->n_limits; i++) {
        api_limit *limit = &shared->limits[i];
        const ir_graph *ir = &r->ir[limit->graph];
        limit->variable = ebb__plan_variable(*plan, ir->values[limit->input].name);
    }
    ebb__progress(r->ctx, "compile", progress.tried, progress.tried);
    return check_names(r, *plan);
}

/* Of graphs of one context; the caller frees it with drop_request(). */
static ebb_status new_request(const ebb_graph *const *graphs, int32_t n, int32_t n_training,
                              const ebb_options *options, api_request **out) {
    ebb_ctx *ctx = graphs[0]->ctx;
    ebb__ctx_clear(ctx);
    for (int32_t i = 0; i < n; i++) {
        if (graphs[i] == NULL || graphs[i]->ctx != ctx) {
            return ebb__fail(ctx, EBB_USAGE, "compile: graph %d is NULL or of another context", i);
        }
    }
    TRY(ebb__alloc(ctx, 1, sizeof **out, out));
    (*out)->ctx = ctx;
    (*out)->graphs = graphs;
    (*out)->n = n;
    (*out)->n_training = n_training;
    (*out)->options = options;
    ebb__region_init(&(*out)->region, ctx);
    return EBB_OK;
}

static void drop_request(api_request *r) {
    ebb__region_fini(&r->region);
    for (int32_t i = 0; i < r->n_ir; i++) {
        ebb__ir_fini(&r->ir[i]);
    }
    ebb__free(r->ctx, r);
}

void ebb__api_describe(const ebb_plan *plan, ebb_plan_info *info) {
    *info = (ebb_plan_info){.peak_bytes = plan->peak_bytes,
                            .least_bytes = plan->least_bytes,
                            .keep_all_bytes = plan->keep_all_bytes,
                            .budget_bytes = plan->budget_bytes,
                            .seconds_per_step = plan->seconds_per_step,
                            .nodes = plan->nodes,
                            .hash = plan->hash,
                            .threads = plan->members,
                            .reduce = ebb__api_reduce(plan)};
    for (int i = 0; i < IR_KINDS; i++) {
        info->bytes_by_kind[i] = plan->bytes_by_kind[i];
    }
}

/* Plans a graph and shows the plan, also with EBB_BUDGET, to `look`. */
typedef ebb_status (*plan_look)(const ebb_plan *plan, bool given, void *user);
static ebb_status plan_and_look(const ebb_graph *graph, const ebb_options *options, plan_look look,
                                void *user) {
    ebb_options defaults = ebb_options_default();
    const ebb_options *o = options != NULL ? options : &defaults;
    ebb_plan *plan = NULL;
    api_request *request = NULL;
    api_shared shared = {0};
    TRY(new_request(&graph, 1, o->optimizer != EBB_FORWARD, o, &request));
    ebb_status status = make_plan(request, &shared, &plan);
    if (plan != NULL) {
        ebb_status looked = look(plan, o->memory > 0, user);
        status = status == EBB_OK ? looked : status;
    }
    ebb__plan_free(plan);
    ebb__device_close(shared.dev);
    ebb__free(graph->ctx, shared.limits);
    drop_request(request);
    return status;
}

static ebb_status look_at_sizes(const ebb_plan *plan, bool given, void *user) {
    (void)given;
    ebb__api_describe(plan, user);
    return EBB_OK;
}

ebb_status ebb_graph_plan(const ebb_graph *graph, const ebb_options *options, ebb_plan_info *info) {
    if (info != NULL) {
        *info = (ebb_plan_info){0};
    }
    return graph == NULL || info == NULL ? EBB_USAGE
                                         : plan_and_look(graph, options, look_at_sizes, info);
}

typedef struct drawing {
    ebb_picture picture;
    const char *title;
    ebb_text_fn fn;
    void *user;
} drawing;

static ebb_status look_and_draw(const ebb_plan *plan, bool given, void *user) {
    const drawing *d = user;
    page_text text = {.ctx = plan->ctx};
    page_picture picture = {.into = &text, .model = d->title, .budget = given};
    ebb_status status = d->picture == EBB_PICTURE_CURVE ? ebb__draw_curve(plan, &picture)
                                                        : ebb__draw_step(plan, &picture);
    if (status == EBB_OK) {
        (void)d->fn(d->user, text.bytes, text.used);
    }
    ebb__page_text_fini(&text);
    return status;
}

ebb_status ebb_graph_draw(const ebb_graph *graph, const ebb_options *options, ebb_picture picture,
                          const char *title, ebb_text_fn fn, void *user) {
    drawing d = {picture, title != NULL ? title : "a graph", fn, user};
    if (graph == NULL || fn == NULL || (int)picture < EBB_PICTURE_STEP ||
        (int)picture > EBB_PICTURE_CURVE) {
        return EBB_USAGE;
    }
    return plan_and_look(graph, options, look_and_draw, &d);
}

ebb_status ebb_program_plan(const ebb_program *program, ebb_plan_info *info) {
    if (program == NULL || info == NULL) {
        return EBB_USAGE;
    }
    ebb__ctx_clear(program->ctx);
    ebb__api_describe(program->session->plan, info);
    return EBB_OK;
}

/* ---- plan to programs ---- */

static void drop_shared(ebb_ctx *ctx, api_shared *shared) {
    ebb__api_leave(shared);
    ebb__run_free(shared->session);
    ebb__region_fini(&shared->region);
    ebb__device_close(shared->dev);
    ebb__free(ctx, shared->limits);
    ebb__free(ctx, shared);
}

static ebb_status open_session(api_request *r, api_shared *shared) {
    ebb_plan *plan = NULL;
    ebb_status status = make_plan(r, shared, &plan);
    if (status != EBB_OK) {
        ebb__plan_free(plan);
    } else {
        status = ebb__run_new(r->ctx, plan, &shared->session); /* takes the plan, failing too */
    }
    TRY(ebb__api_agree(ebb__api_ranks(r->options), status));
    shared->ranks = ebb__api_ranks(r->options);
    if (shared->ranks != NULL) {
        shared->ranks->taken = true;
    }
    TRY(ebb__api_lead(shared));
    ebb__log(r->ctx, EBB_LOG_INFO, "compiled: %llu of %llu bytes, %d nodes, %d threads",
             (unsigned long long)plan->peak_bytes, (unsigned long long)plan->budget_bytes,
             plan->nodes, plan->members);
    return EBB_OK;
}

static ebb_status make_programs(api_request *r, api_shared *shared, ebb_program **out) {
    TRY(open_session(r, shared));
    for (int32_t i = 0; i < r->n; i++) {
        ebb_program *program = NULL;
        TRY(ebb__alloc(r->ctx, 1, sizeof *program, &program));
        *program = (ebb_program){
            .ctx = r->ctx,
            .shared = shared,
            .session = shared->session,
            .index = i,
            .trainer = ebb__trainer(shared->session, r->options->beta1, r->options->beta2)};
        shared->users++;
        out[i] = program;
    }
    return EBB_OK;
}

ebb_status ebb_compile_all(const ebb_graph *const *graphs, int32_t n, int32_t n_training,
                           const ebb_options *options, ebb_program **out) {
    ebb_options defaults = ebb_options_default();
    api_request *request = NULL;
    api_shared *shared = NULL;
    if (graphs == NULL || out == NULL || n < 1 || graphs[0] == NULL) {
        return EBB_USAGE;
    }
    for (int32_t i = 0; i < n; i++) {
        out[i] = NULL;
    }
    TRY(new_request(graphs, n, n_training, options != NULL ? options : &defaults, &request));
    ebb_status status = ebb__alloc(request->ctx, 1, sizeof *shared, &shared);
    if (status == EBB_OK) {
        ebb__region_init(&shared->region, request->ctx);
        shared->users = 1; /* this function, until the programs stand for themselves */
        status = make_programs(request, shared, out);
        for (int32_t i = 0; status != EBB_OK && i < n; i++) {
            ebb_program_free(out[i]);
            out[i] = NULL;
        }
        if (--shared->users == 0) {
            drop_shared(request->ctx, shared);
        }
    }
    drop_request(request);
    return status;
}

ebb_status ebb_compile(const ebb_graph *graph, const ebb_options *options, ebb_program **out) {
    bool trains = options == NULL || options->optimizer != EBB_FORWARD;
    if (out != NULL) {
        *out = NULL;
    }
    return graph == NULL || out == NULL ? EBB_USAGE
                                        : ebb_compile_all(&graph, 1, trains, options, out);
}

void ebb_program_free(ebb_program *program) {
    if (program != NULL) {
        if (--program->shared->users == 0) {
            drop_shared(program->ctx, program->shared);
        }
        ebb__free(program->ctx, program);
    }
}
