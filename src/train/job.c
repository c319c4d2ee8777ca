/* job.c - see job_int.h. */
#include "train/job_int.h"

#include "base/host.h"
#include "base/rng.h"
#include "comm/comm.h"
#include "decode/deal.h"
#include "plan/stages.h"

#include <stdio.h>
#include <string.h>
#include <xxhash.h>

uint64_t ebb__job_budget(const train_settings *settings) {
    const train_memory *memory = &settings->memory;
    if (memory->form == MEMORY_BYTES) {
        int rank = settings->link != NULL ? ebb__comm_rank(settings->link) : (int)settings->rank;
        return rank < memory->n_ranks ? memory->by_rank[rank] : memory->bytes;
    }
    if (settings->budget > 0) {
        return settings->budget;
    }
    double percent = memory->form == MEMORY_PERCENT ? memory->percent : RUN_AUTO_PERCENT;
    const device *dev = device_or_default(settings->dev);
    return dev->memory_bytes > 0 ? (uint64_t)((double)dev->memory_bytes * percent / 100.0)
                                 : ebb__run_budget(percent);
}

/* What --host-memory stands for beside a device; 0: no limit. */
static uint64_t host_budget(const train_settings *settings) {
    const train_memory *memory = &settings->host_memory;
    return memory->form == MEMORY_BYTES     ? memory->bytes
           : memory->form == MEMORY_PERCENT ? ebb__run_budget(memory->percent)
                                            : 0;
}

uint64_t ebb__job_list_bytes(const train_settings *settings) {
    enum { SMALL_LIST_BYTES = 4 << 20 };
    uint64_t budget = ebb__job_budget(settings);
    return budget > SMALL_LIST_BYTES ? budget : SMALL_LIST_BYTES;
}

/* Where nothing is said, the processes of a host share its cores; those that a network is said to
 * join have a host each. */
int ebb__job_threads(const train_settings *settings) {
    int here = 1, cores = ebb__host_cores();
    if (device_apart(device_or_default(settings->dev))) {
        return 1; /* it divides work by itself */
    }
    if (settings->threads > 0) {
        return (int)settings->threads;
    }
    if (settings->link != NULL) {
        here = ebb__comm_here(settings->link);
    } else if (settings->network == NULL) {
        here = (int)ebb__settings_ranks(settings);
    }
    return cores > here ? cores / here : 1;
}

static grad_update_settings update_of(const train_settings *s) {
    return (grad_update_settings){.optimizer = s->optimizer,
                                  .momentum = (float)s->momentum,
                                  .beta1 = (float)s->beta1,
                                  .beta2 = (float)s->beta2,
                                  .eps = (float)s->eps,
                                  .weight_decay = (float)s->weight_decay,
                                  .clip = (float)s->clip,
                                  .average = s->average > 0};
}

static const int32_t stash_bits[] = {[TRAIN_STASH_NONE] = 0,
                                     [TRAIN_STASH_FP16] = 16,
                                     [TRAIN_STASH_FP10] = 10,
                                     [TRAIN_STASH_FP8] = 8};

static const pass_reduce reduces[] = {[TRAIN_REDUCE_AUTO] = REDUCE_SLICES,
                                      [TRAIN_REDUCE_SLICES] = REDUCE_SLICES,
                                      [TRAIN_REDUCE_COPIES] = REDUCE_COPIES,
                                      [TRAIN_REDUCE_CENTRAL] = REDUCE_CENTRAL};

const char *const ebb__job_reduces[] = {
    [REDUCE_SLICES] = "slices", [REDUCE_COPIES] = "copies", [REDUCE_CENTRAL] = "central"};

static pass_ranks ranks_of(const train_settings *s) {
    pass_ranks ranks = {.rank = s->link != NULL ? ebb__comm_rank(s->link) : (int32_t)s->rank,
                        .count = (int32_t)ebb__settings_ranks(s),
                        .stages = (int32_t)s->stages,
                        .reduce = reduces[s->reduce]};
    if (ranks.count > 1 && s->ways == NULL) {
        int64_t steps = s->kind->timed ? (int64_t)s->kind->shape(s).target : 0;
        ebb__plan_set_chunks(&ranks, s->shards, steps, s->chunk_steps);
    }
    return ranks;
}

/* A device apart has no sparse values: it would have to be waited for in the middle of a step, to
 * see whether they fit. */
static plan_options options_of(const ebb_ctx *ctx, const train_settings *s) {
    bool apart = device_apart(device_or_default(s->dev));
    return (plan_options){.dev = s->dev,
                          .members = ebb__job_threads(s),
                          .budget = ebb__job_budget(s),
                          .host_budget = host_budget(s),
                          .disk = s->disk,
                          .budget_name = ctx->command ? "--memory" : "memory",
                          .disabled = s->disabled,
                          .chunks = s->chunks,
                          .encode = s->encode,
                          .stash = stash_bits[s->stash],
                          .density = apart ? (pass_density){0} : s->density,
                          .ranks = ranks_of(s),
                          .update = update_of(s),
                          .explain = s->explain,
                          .dump_after = s->dump_after,
                          .dump = s->dump,
                          .dump_user = s->dump_user};
}

static ebb_status build_program(const plan_request *request, ir_graph *out) {
    const job_programs *p = request->user;
    const struct job_program *program = &p->at[request->index];
    return p->settings.kind->build(out, &p->settings, &p->request, program->shape, program->use);
}

/* The program of the use's shape `i`: "train", "train.1", "train.2" and so on. */
static void add_program(job_programs *p, job_use use, int32_t i, data_shape shape) {
    static const char *const names[] = {
        [JOB_TRAIN] = "train", [JOB_VALID] = "valid",      [JOB_PREDICT] = "predict",
        [JOB_SCORE] = "score", [JOB_DECODE_STEP] = "step", [JOB_DECODE_READ] = "read"};
    struct job_program *at = &p->at[p->n];
    bool loss = use == JOB_TRAIN || use == JOB_VALID;
    *at = (struct job_program){.use = use, .shape = shape};
    (void)snprintf(at->name, sizeof at->name, i > 0 ? "%s.%d" : "%s", names[use], (int)i);
    p->list[p->n] = (plan_request){.name = at->name,
                                   .training = use == JOB_TRAIN,
                                   .shards = loss ? (int32_t)p->settings.shards : 1,
                                   .alone = !loss,
                                   .build = build_program,
                                   .user = p,
                                   .index = p->n,
                                   .share = (double)shape.batches,
                                   .use = (int32_t)use,
                                   .item = i};
    p->n++;
}

/* One program a shape. */
static void add_programs(job_programs *p, const data_shapes *shapes, job_use use) {
    data_shapes one = {1, {p->settings.kind->shape(&p->settings)}};
    shapes = shapes->n > 0 ? shapes : &one;
    for (int32_t i = 0; i < shapes->n; i++) {
        add_program(p, use, i, shapes->at[i]);
    }
}

/* Steps take the most memory: where nothing is trained, the first program leads (plan/budget.c). */
static void add_decoding(job_programs *p) {
    int32_t lengths[TRANSLATE_MOST_LENGTHS];
    int32_t n = ebb__translate_lengths(p->request.decode.max_src, lengths);
    for (int32_t i = 0; i < n; i++) {
        add_program(p, JOB_DECODE_STEP, i, (data_shape){.source = (uint32_t)lengths[i]});
        add_program(p, JOB_DECODE_READ, i, (data_shape){.source = (uint32_t)lengths[i]});
    }
}

/* Sentences are dealt out to all processes, where each has all weights: see deal.h. */
static bool deals(const train_settings *s, const job_request *request) {
    return request->decode.slots > 0 && request->train && ebb__settings_ranks(s) > 1 &&
           s->stages <= 1;
}

/* A copy, since a plan may be compiled again later. */
static ebb_status take_ways(job_programs *p) {
    const pass_stages *ways = p->settings.ways;
    pass_stage *layers = NULL;
    TRY(ebb__region_alloc(&p->stages, (size_t)ways->n_layers + 1, sizeof *layers, &layers));
    memcpy(layers, ways->layers, (size_t)ways->n_layers * sizeof *layers);
    ebb__plan_take_stages(ways, &p->options.ranks);
    p->options.ranks.layers = layers;
    return EBB_OK;
}

ebb_status ebb__job_programs_new(ebb_ctx *ctx, const train_settings *settings,
                                 const job_request *request, job_programs **out) {
    job_programs *p = NULL;
    TRY(ebb__alloc(ctx, 1, sizeof *p, &p));
    p->ctx = ctx;
    p->settings = *settings;
    p->request = *request;
    p->options = options_of(ctx, settings);
    ebb__region_init(&p->stages, ctx);
    ebb__cost_table_init(&p->table, ctx, device_or_default(settings->dev));
    if (request->train || request->predict || request->score) {
        add_programs(p, &request->shapes,
                     request->train     ? JOB_TRAIN
                     : request->predict ? JOB_PREDICT
                                        : JOB_SCORE);
    }
    if (request->valid) {
        add_programs(p, &request->valid_shapes, JOB_VALID);
    }
    if (request->decode.slots > 0 && (!request->follows || deals(settings, request))) {
        add_decoding(p);
    }
    ebb_status status = settings->ways != NULL ? take_ways(p) : EBB_OK;
    if (status != EBB_OK) {
        ebb__job_programs_free(p);
        return status;
    }
    *out = p;
    return EBB_OK;
}

void ebb__job_programs_free(void *programs) {
    job_programs *p = programs;
    if (p != NULL) {
        ebb__cost_table_fini(&p->table);
        ebb__region_fini(&p->stages);
        ebb__free(p->ctx, p);
    }
}

/* Where there is no data all have the same room for it, as a bench has. */
job_request ebb__job_request_of(const train_settings *settings, const job_request *request,
                                int64_t rank) {
    job_request own = *request;
    own.follows = rank > 0 && settings->train_path != NULL;
    return own;
}

static ebb_status look_up(void *user, const cost_table **table) {
    job_programs *p = user;
    *table = &p->table;
    return ebb__job_measured(p);
}

static ebb_status compile(job_programs *p, ebb_plan **plan) {
    const train_settings *settings = &p->settings;
    const job_request *request = &p->request;
    plan_extra extras[6];
    int32_t n_extras = 0;
    p->options.stop = p->ctx->stop;
    p->options.stop_user = p->ctx->stop_user;
    if (!request->follows) {
        extras[n_extras++] = (plan_extra){JOB_STAGING, settings->kind->staging(settings, request)};
    }
    if (p->options.ranks.rank == 0 && p->options.ranks.count > 1) {
        extras[n_extras++] = ranks_room();
    }
    if (!request->follows && request->vocab_bytes > 0) {
        extras[n_extras++] = (plan_extra){JOB_VOCAB, request->vocab_bytes};
    }
    if (!request->follows && request->line_bytes > 0) {
        extras[n_extras++] = (plan_extra){JOB_LINES, request->line_bytes};
    }
    const bool dealt = deals(settings, request);
    if (request->decode.slots > 0 && (!request->follows || dealt)) {
        extras[n_extras++] = (plan_extra){TRANSLATE_ROOM, ebb__translate_bytes(&request->decode)};
    }
    if (dealt) {
        const pass_ranks *ranks = &p->options.ranks;
        extras[n_extras++] =
            (plan_extra){DEAL_ROOM, ebb__deal_bytes(&request->decode, ranks->count, ranks->rank)};
    }
    if (settings->tune_folder != NULL) {
        p->options.look_up = look_up;
        p->options.look_up_user = p;
    }
    return ebb__plan_make(p->ctx, p->list, p->n, extras, n_extras, &p->options, plan);
}

ebb_status ebb__job_compile(ebb_ctx *ctx, const train_settings *settings,
                            const job_request *request, ebb_plan **plan) {
    job_programs *programs = NULL;
    *plan = NULL;
    TRY(ebb__job_programs_new(ctx, settings, request, &programs));
    ebb_status status = compile(programs, plan);
    if (*plan != NULL) {
        (*plan)->words_per_step =
            request->words > 0 ? request->words : (double)ebb__kind_positions(settings, *plan);
        (*plan)->source = programs;
        (*plan)->free_source = ebb__job_programs_free;
    } else {
        ebb__job_programs_free(programs);
    }
    return status;
}

/* Whether planning has kept to what the process may take; *taken: what that did take, if not. */
static bool planning_fits(const train_settings *settings, const ebb_plan *plan, uint64_t *taken) {
    uint64_t given = plan->peak_bytes;
    if (settings->memory.form != MEMORY_AUTO && plan->budget_bytes > given) {
        given = plan->budget_bytes;
    }
    if (plan->nodes <= JOB_MANY_NODES || given >= UINT64_MAX - RUN_OVERHEAD_BYTES) {
        return true;
    }
    *taken = ebb__host_peak_resident();
    return *taken <= given + RUN_OVERHEAD_BYTES;
}

ebb_status ebb__job_compile_run(ebb_ctx *ctx, const train_settings *settings,
                                const job_request *request, ebb_plan **plan) {
    train_settings own = *settings;
    pass_stages ways;
    alloc_region region;
    *plan = NULL;
    ebb__region_init(&region, ctx);
    ebb_status status = ebb__job_share_stages(ctx, settings, request, &region, &ways, &own.ways);
    if (status == EBB_OK) {
        status = ebb__job_share_reduce(ctx, &own, request, &own.reduce);
    }
    status = status == EBB_OK ? ebb__job_compile(ctx, &own, request, plan) : status;
    ebb__region_fini(&region);
    TRY(status);
    uint64_t taken = 0;
    /* What else a process holds that only calls the library is not known. */
    if (*plan == NULL || !ctx->command || planning_fits(settings, *plan, &taken)) {
        return EBB_OK;
    }
    return ebb__fail(ctx, EBB_BUDGET,
                     "planning its %d nodes took %llu bytes, more than the plan of %llu and the "
                     "32 MiB beside it: --memory %llu allows that; or unroll fewer time steps, or "
                     "use fewer shards",
                     (*plan)->nodes, (unsigned long long)taken,
                     (unsigned long long)(*plan)->peak_bytes,
                     (unsigned long long)(taken - RUN_OVERHEAD_BYTES));
}

run_trainer ebb__job_trainer(run_session *session, const train_settings *settings) {
    run_trainer trainer = ebb__trainer(session, settings->beta1, settings->beta2);
    trainer.average = settings->average;
    return trainer;
}

ebb_status ebb__job_random_ids(run_session *session, const char *name, int64_t vocab, uint64_t seed,
                               const char *site) {
    run_place place = ebb__run_find(session, name);
    int32_t *ids = NULL;
    rng_key key = ebb__rng_key(seed, site);
    TRY(ebb__run_map(session, place, DEVICE_WRITE, &ids));
    for (uint64_t i = 0; i < place.bytes / sizeof *ids; i++) {
        uint32_t word = ebb__rng_block(key, (uint32_t)i, 0, 0, 0).word[0];
        ids[i] = (int32_t)((uint64_t)word * (uint64_t)vocab >> 32);
    }
    return ebb__run_unmap(session, place, DEVICE_WRITE, ids);
}

/* ---- scoring ---- */

/* For a live bar: windows read so far. */
static void tick(const job_observer *observer, uint64_t done, uint64_t all) {
    if (observer != NULL && observer->progress != NULL) {
        job_progress p = {.phase = "valid", .step = (int64_t)done, .steps = (int64_t)all};
        observer->progress(observer->user, &p, true);
    }
}

ebb_status ebb__job_score(run_session *session, const job_reader *reader,
                          const job_observer *observer, job_score *out) {
    *out = (job_score){0};
    TRY(ebb__ranks_zero(session, IR_SCRATCH));
    for (uint64_t w = 0; w < reader->n_batches; w++) {
        int32_t program = 0;
        uint64_t words = 0;
        if (job_should_stop(observer)) {
            out->stopped = true;
            return EBB_OK;
        }
        TRY(reader->fill(reader, w, &program, &words));
        float loss = 0;
        TRY(ebb__run_step(session, program));
        TRY(ebb__run_read(session, ebb__run_find_output(session, program, TRAINER_LOSS), &loss));
        if (reader->look != NULL) {
            TRY(reader->look(reader, w));
        }
        out->loss_sum += (double)loss * (double)words;
        out->tokens += words;
        tick(observer, w + 1, reader->n_batches);
    }
    return EBB_OK;
}
