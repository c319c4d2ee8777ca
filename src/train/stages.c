/* stages.c - which process does which layers, where several share them: the way whose step is
 * forecast to be shortest (plan/stages.h), of those that fit what each process may take. */
#include "train/job_int.h"

#include "comm/comm.h"
#include "plan/stages.h"
#include "train/forecast.h"

#include <string.h>

/* Whether every process has a plan that fits, with built-in times. */
static ebb_status fits(ebb_ctx *ctx, const train_settings *settings, const job_request *request,
                       const pass_stages *ways, bool *out) {
    train_settings one = *settings;
    ebb_status status = EBB_OK;
    one.ranks = ebb__settings_ranks(settings);
    one.threads = ebb__job_threads(settings);
    one.link = NULL;
    one.ways = ways;
    one.tune_folder = NULL;
    for (one.rank = 0; status == EBB_OK && one.rank < one.ranks; one.rank++) {
        ebb_plan *plan = NULL;
        job_request own = *request;
        own.follows = one.rank > 0;
        status = ebb__job_compile(ctx, &one, &own, &plan);
        ebb__plan_free(plan);
    }
    *out = status == EBB_OK;
    if (status == EBB_BUDGET) {
        ebb__ctx_clear(ctx);
        return EBB_OK;
    }
    return status;
}

/* The first that fits; if none does, the fastest, which is then refused with what it lacks. */
static ebb_status pick(ebb_ctx *ctx, const train_settings *settings, const job_request *request,
                       const stages_list *list, pass_stages *ways) {
    *ways = list->at[0];
    for (int32_t i = 0; settings->memory.form == MEMORY_BYTES && i < list->n; i++) {
        bool fit = false;
        TRY(fits(ctx, settings, request, &list->at[i], &fit));
        if (fit) {
            *ways = list->at[i];
            return EBB_OK;
        }
    }
    return EBB_OK;
}

ebb_status ebb__job_choose_stages(ebb_ctx *ctx, const train_settings *settings,
                                  const job_request *request, alloc_region *region,
                                  pass_stages *ways, const pass_stages **out) {
    job_programs *p = NULL;
    forecast_network network;
    stages_list list;
    *out = NULL;
    if (ebb__settings_ranks(settings) <= 1 || settings->stages <= 1) {
        return EBB_OK;
    }
    TRY(ebb__job_network(ctx, settings->network, &network));
    TRY(ebb__job_programs_new(ctx, settings, request, &p));
    bool any_chunk = settings->chunk_steps == 0 && p->options.ranks.chunk_steps > 0;
    ebb_status status =
        ebb__plan_list_stages(ctx, &p->list[0], &p->options, &network, any_chunk, region, &list);
    ebb__job_programs_free(p);
    TRY(status);
    TRY(pick(ctx, settings, request, &list, ways));
    *out = ways;
    return EBB_OK;
}

/* The sizes first; n_layers < 0: the first process failed, as it will say itself. */
ebb_status ebb__job_share_stages(ebb_ctx *ctx, const train_settings *settings,
                                 const job_request *request, alloc_region *region,
                                 pass_stages *ways, const pass_stages **out) {
    comm_link *link = settings->link;
    pass_stage *layers = NULL;
    ebb_status status = EBB_OK;
    *out = NULL;
    if (link == NULL || ebb__comm_size(link) == 1 || settings->stages <= 1) {
        return EBB_OK;
    }
    const bool first = ebb__comm_rank(link) == 0;
    if (first) {
        status = ebb__job_choose_stages(ctx, settings, request, region, ways, out);
        ways->n_layers = status == EBB_OK ? ways->n_layers : -1;
    }
    TRY(ebb__comm_broadcast(link, 0, ways, sizeof *ways, settings->lost_after));
    TRY(status);
    if (ways->n_layers < 0) {
        return EBB_OK;
    }
    TRY(ebb__region_alloc(region, (size_t)ways->n_layers + 1, sizeof *layers, &layers));
    if (first) {
        memcpy(layers, ways->layers, (size_t)ways->n_layers * sizeof *layers);
    }
    TRY(ebb__comm_broadcast(link, 0, layers, (size_t)ways->n_layers * sizeof *layers,
                            settings->lost_after));
    ways->layers = layers;
    *out = ways;
    return EBB_OK;
}
