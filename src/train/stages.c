/* stages.c - which process does which layers, where several share them: the way whose step is
 * forecast to be shortest (plan/stages.h), of those that fit what each process may take. */
#include "train/job_int.h"

#include "comm/comm.h"
#include "plan/stages.h"
#include "train/forecast.h"

typedef struct stages_run {
    ebb_ctx *ctx;
    const train_settings *settings;
    const job_request *request;
} stages_run;

/* By the least that a process could take, with built-in times. */
static ebb_status find_share(void *user, const pass_stages *ways, double *share) {
    const stages_run *run = user;
    ebb_ctx *ctx = run->ctx;
    train_settings one = *run->settings;
    *share = 0;
    one.ranks = ebb__settings_ranks(run->settings);
    one.threads = ebb__job_threads(run->settings);
    one.link = NULL;
    one.ways = ways;
    one.tune_folder = NULL;
    for (one.rank = 0; one.rank < one.ranks; one.rank++) {
        ebb_plan *plan = NULL;
        job_request own = ebb__job_request_of(&one, run->request, one.rank);
        ebb_status status = ebb__job_compile(ctx, &one, &own, &plan);
        if (status == EBB_OK || status == EBB_BUDGET) {
            double taken = (double)plan->least_bytes / (double)plan->budget_bytes;
            *share = taken > *share ? taken : *share;
            ebb__ctx_clear(ctx);
            status = EBB_OK;
        }
        ebb__plan_free(plan);
        TRY(status);
    }
    return EBB_OK;
}

/* The one that most steps are of: where sentences have several lengths, no rare one decides. */
static const plan_request *most_common(const job_programs *p) {
    const plan_request *most = &p->list[0];
    for (int32_t i = 1; i < p->n; i++) {
        bool more = p->list[i].training && p->list[i].share > most->share;
        most = more ? &p->list[i] : most;
    }
    return most;
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
        ebb__plan_list_stages(ctx, most_common(p), &p->options, &network, any_chunk, region, &list);
    ebb__job_programs_free(p);
    TRY(status);
    stages_run run = {ctx, settings, request};
    bool given = settings->memory.form == MEMORY_BYTES;
    TRY(ebb__plan_pick_stages(&list, given ? find_share : NULL, &run, ways));
    *out = ways;
    return EBB_OK;
}

/* n_layers < 0: the first process failed, as it will say itself. */
ebb_status ebb__job_share_stages(ebb_ctx *ctx, const train_settings *settings,
                                 const job_request *request, alloc_region *region,
                                 pass_stages *ways, const pass_stages **out) {
    comm_link *link = settings->link;
    ebb_status status = EBB_OK;
    *out = NULL;
    if (link == NULL || ebb__comm_size(link) == 1 || settings->stages <= 1) {
        return EBB_OK;
    }
    if (ebb__comm_rank(link) == 0) {
        status = ebb__job_choose_stages(ctx, settings, request, region, ways, out);
        ways->n_layers = status == EBB_OK ? ways->n_layers : -1;
    }
    TRY(ebb__ranks_share_stages(link, settings->lost_after, region, ways));
    TRY(status);
    *out = ways->n_layers >= 0 ? ways : NULL;
    return EBB_OK;
}
