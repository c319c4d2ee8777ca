/* lm_job.c - see lm_job.h. */
#include "train/lm_job.h"

#include "base/host.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

uint64_t ebb__lm_budget(const train_settings *settings) {
    if (settings->memory.form == MEMORY_BYTES) {
        return settings->memory.bytes;
    }
    double share = settings->memory.form == MEMORY_PERCENT ? settings->memory.percent : 80.0;
    double bytes = (double)ebb__host_memory() * share / 100.0 - (double)LM_OVERHEAD_BYTES;
    return bytes > 0 ? (uint64_t)bytes : 0;
}

int ebb__lm_threads(const train_settings *settings) {
    return settings->threads > 0 ? (int)settings->threads : ebb__host_cores();
}

static word_lm model_of(const train_settings *s, int64_t vocab) {
    return (word_lm){.cell = (lm_cell)s->cell,
                     .layers = s->layers,
                     .hidden = s->hidden,
                     .embed = s->embed > 0 ? s->embed : s->hidden,
                     .vocab = vocab,
                     .batch = s->batch,
                     .steps = s->bptt,
                     .tie = s->tie,
                     .dropout = s->dropout,
                     .seed = s->seed,
                     .state = "state"};
}

static grad_update_settings update_of(const train_settings *s) {
    static const grad_optimizer kinds[] = {UPDATE_SGD, UPDATE_ADAM, UPDATE_ADAMW};
    return (grad_update_settings){.optimizer = kinds[s->optimizer],
                                  .momentum = (float)s->momentum,
                                  .beta1 = (float)s->beta1,
                                  .beta2 = (float)s->beta2,
                                  .eps = (float)s->eps,
                                  .weight_decay = (float)s->weight_decay,
                                  .clip = (float)s->clip};
}

static plan_options options_of(const train_settings *s) {
    return (plan_options){.members = ebb__lm_threads(s),
                          .budget = ebb__lm_budget(s),
                          .disabled = s->disabled,
                          .update = update_of(s),
                          .explain = s->explain,
                          .dump_after = s->dump_after,
                          .dump = s->dump,
                          .dump_user = s->dump_user};
}

void ebb__lm_programs_fini(lm_programs *programs) {
    ebb__ir_fini(&programs->graphs[0]);
    ebb__ir_fini(&programs->graphs[1]);
}

ebb_status ebb__lm_programs_make(ebb_ctx *ctx, const train_settings *settings,
                                 const lm_request *request, lm_programs *out) {
    *out = (lm_programs){.options = options_of(settings)};
    ebb__op_graph_init(&out->graphs[0], ctx);
    ebb__op_graph_init(&out->graphs[1], ctx);
    word_lm model = model_of(settings, request->vocab);
    if (request->train || request->predict) {
        word_lm first = model;
        ir_graph *graph = &out->graphs[out->n];
        first.predict = request->predict;
        first.dropout = request->predict ? 0 : first.dropout;
        TRY(ebb__word_lm_build(graph, &first));
        out->list[out->n++] =
            (plan_request){request->train ? "train" : "predict", graph, request->train};
    }
    if (request->valid) {
        ir_graph *graph = &out->graphs[out->n];
        model.dropout = 0;
        model.state = "valid";
        TRY(ebb__word_lm_build(graph, &model));
        out->list[out->n++] = (plan_request){"valid", graph, false};
    }
    return EBB_OK;
}

ebb_status ebb__lm_compile(ebb_ctx *ctx, const train_settings *settings, const lm_request *request,
                           ebb_plan **plan) {
    lm_programs programs;
    plan_extra extras[2];
    int32_t n_extras = 0;
    cost_table table;
    ebb_status status;
    *plan = NULL;
    ebb__cost_table_init(&table, ctx, ebb__device_default());
    TRY_OUT(ebb__lm_programs_make(ctx, settings, request, &programs));
    extras[n_extras++] =
        (plan_extra){LM_STAGING, (uint64_t)ebb__batcher_bytes((uint32_t)settings->bptt)};
    if (request->vocab_bytes > 0) {
        extras[n_extras++] = (plan_extra){LM_VOCAB, request->vocab_bytes};
    }
    if (settings->tune_folder != NULL) {
        TRY_OUT(ebb__lm_measured(ctx, settings, &programs, &table));
        programs.options.table = &table;
    }
    status =
        ebb__plan_make(ctx, programs.list, programs.n, extras, n_extras, &programs.options, plan);
out:
    ebb__cost_table_fini(&table);
    ebb__lm_programs_fini(&programs);
    return status;
}

lm_buffers ebb__lm_buffers(run_session *session) {
    return (lm_buffers){.inputs = ebb__run_variable(session, LM_INPUTS, NULL),
                        .targets = ebb__run_variable(session, LM_TARGETS, NULL),
                        .step = ebb__run_variable(session, LM_STEP, NULL),
                        .hyper = ebb__run_variable(session, UPDATE_HYPER, NULL),
                        .staging = ebb__run_variable(session, LM_STAGING, NULL),
                        .vocab = ebb__run_variable(session, LM_VOCAB, NULL)};
}

void ebb__lm_hyper(const train_settings *settings, double lr, int64_t t, float *hyper) {
    hyper[0] = (float)lr;
    hyper[1] = (float)(lr / (1.0 - pow(settings->beta1, (double)t)));
    hyper[2] = (float)sqrt(1.0 - pow(settings->beta2, (double)t));
    hyper[3] = 0;
}

void ebb__lm_init_weights(run_session *session, const train_settings *settings) {
    const ebb_plan *plan = session->plan;
    for (int32_t i = 0; i < plan->n_variables; i++) {
        if (plan->variables[i].role == IR_PARAM) {
            uint64_t bytes = 0;
            float *data = ebb__run_variable(session, plan->variables[i].name, &bytes);
            ebb__word_lm_init(plan->variables[i].name, data, bytes / sizeof *data, settings->hidden,
                              settings->tie, settings->seed);
        }
    }
}

void ebb__lm_reset_state(run_session *session, const char *prefix) {
    const ebb_plan *plan = session->plan;
    for (int32_t i = 0; i < plan->n_variables; i++) {
        const plan_variable *v = &plan->variables[i];
        if (v->role == IR_STATE && strncmp(v->name, prefix, strlen(prefix)) == 0) {
            memset(session->arena + v->offset, 0, (size_t)v->bytes);
        }
    }
}

/* ---- tensors by name ---- */

/* Validation's state starts as zeros every time: it is not part of a checkpoint. */
static bool is_stored(const plan_variable *v, uint32_t roles) {
    return !v->extra && (roles & (1U << v->role)) != 0 &&
           !(v->role == IR_STATE && strncmp(v->name, "valid.", 6) == 0);
}

static int compare_entries(const void *a, const void *b) {
    return strcmp(((const st_entry *)a)->name, ((const st_entry *)b)->name);
}

ebb_status ebb__lm_entries(run_session *session, uint32_t roles, alloc_region *region,
                           st_entry **out, size_t *n) {
    const ebb_plan *plan = session->plan;
    st_entry *entries = NULL;
    TRY(ebb__region_alloc(region, (size_t)plan->n_variables + 1, sizeof *entries, &entries));
    *n = 0;
    for (int32_t i = 0; i < plan->n_variables; i++) {
        const plan_variable *v = &plan->variables[i];
        if (!is_stored(v, roles)) {
            continue;
        }
        st_entry *entry = &entries[(*n)++];
        *entry = (st_entry){.name = v->name,
                            .dtype = ST_F32,
                            .rank = v->type.rank,
                            .data = session->arena + v->offset};
        for (int32_t d = 0; d < v->type.rank; d++) {
            entry->dims[d] = v->type.dim[d];
        }
    }
    qsort(entries, *n, sizeof *entries, compare_entries);
    *out = entries;
    return EBB_OK;
}

ebb_status ebb__lm_weights_hash(run_session *session, uint64_t *out) {
    alloc_region region;
    st_entry *entries = NULL;
    size_t n = 0;
    XXH64_hash_t hash = 0;
    ebb__region_init(&region, session->ctx);
    ebb_status status = ebb__lm_entries(session, 1U << IR_PARAM, &region, &entries, &n);
    for (size_t i = 0; status == EBB_OK && i < n; i++) {
        const plan_variable *v = ebb__plan_variable(session->plan, entries[i].name);
        hash = XXH3_64bits_withSeed(v->name, strlen(v->name), hash);
        hash = XXH3_64bits_withSeed(session->arena + v->offset, (size_t)v->bytes, hash);
    }
    ebb__region_fini(&region);
    *out = hash;
    return status;
}

static bool same_shape(const plan_variable *v, const st_tensor *t) {
    bool same = t->dtype == ST_F32 && t->rank == v->type.rank;
    for (int32_t d = 0; same && d < v->type.rank; d++) {
        same = t->dims[d] == v->type.dim[d];
    }
    return same;
}

ebb_status ebb__lm_load(run_session *session, uint32_t roles, const st_reader *reader) {
    const ebb_plan *plan = session->plan;
    for (int32_t i = 0; i < plan->n_variables; i++) {
        const plan_variable *v = &plan->variables[i];
        if (!is_stored(v, roles)) {
            continue;
        }
        const st_tensor *t = ebb__safetensors_find(reader, v->name);
        if (t == NULL) {
            return ebb__fail(session->ctx, EBB_MODEL, "%s: tensor %s is missing", reader->path,
                             v->name);
        }
        if (!same_shape(v, t)) {
            return ebb__fail(session->ctx, EBB_MODEL,
                             "%s: tensor %s has another type or shape than this model's",
                             reader->path, v->name);
        }
        TRY(ebb__safetensors_read(reader, t, session->arena + v->offset, (size_t)v->bytes));
    }
    return EBB_OK;
}

/* ---- scoring ---- */

/* For a live bar: windows read so far. */
static void tick(const lm_observer *observer, uint64_t done, uint64_t all) {
    if (observer != NULL && observer->progress != NULL) {
        lm_progress p = {.phase = "valid", .step = (int64_t)done, .steps = (int64_t)all};
        observer->progress(observer->user, &p, true);
    }
}

ebb_status ebb__lm_score(run_session *session, int32_t index, const data_batcher *batcher,
                         const lm_observer *observer, lm_score *out) {
    lm_buffers data = ebb__lm_buffers(session);
    *out = (lm_score){0};
    ebb__lm_reset_state(session, "valid");
    for (uint64_t w = 0; w < batcher->windows; w++) {
        uint64_t valid = 0;
        if (lm_should_stop(observer)) {
            out->stopped = true;
            return EBB_OK;
        }
        TRY(ebb__batcher_fill(batcher, w, data.inputs, data.targets, &valid));
        ebb__run_step(session, index);
        float loss = *(const float *)ebb__run_output(session, index, LM_LOSS);
        out->loss_sum += (double)loss * (double)valid;
        out->tokens += valid;
        tick(observer, w + 1, batcher->windows);
    }
    return EBB_OK;
}
