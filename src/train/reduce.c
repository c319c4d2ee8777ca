/* reduce.c - who adds up and applies gradients, where --reduce auto leaves it open. With slices
 * each process has its part of the optimiser's state and updates its part of the weights, which
 * then travel; with copies sums travel earlier and all update everything: more work and more bytes,
 * but what waits for a network has more beside it. Which is faster depends on model, network and
 * budgets, so both are planned as the run would be and their steps played.
 *
 * Nothing but seconds and bytes depends on the choice, and a run may go on with another one. */
#include "train/team.h"

#include "comm/comm.h"

#include <math.h>
#include <string.h>

/* What joins hosts where nobody says it. */
static const char UNKNOWN_NETWORK[] = "1G,50us";

/* Is there anything to choose: does more than one group of processes have gradients? */
static bool is_open(const train_settings *s) {
    int64_t stages = s->stages > 1 ? s->stages : 1;
    return s->reduce == TRAIN_REDUCE_AUTO && ebb__settings_ranks(s) / stages > 1;
}

static ebb_status find_network(ebb_ctx *ctx, const train_settings *s, forecast_network *out) {
    const char *text = s->network;
    for (int r = 1; s->link != NULL && text == NULL && r < ebb__comm_size(s->link); r++) {
        const char *first = ebb__comm_describe(s->link, 0)->host;
        bool apart = strcmp(ebb__comm_describe(s->link, r)->host, first) != 0;
        text = apart ? UNKNOWN_NETWORK : NULL;
    }
    return ebb__job_network(ctx, text, out);
}

/* Fills in the seconds of a step: HUGE_VAL where there is no plan. (If that has another reason than
 * bytes, the plan that is made in the end says so.) With a link they are known to the first process
 * alone. */
static ebb_status try_way(ebb_ctx *ctx, const train_settings *settings, const job_request *request,
                          train_reduce way, double *seconds) {
    train_settings own = *settings;
    job_team team;
    alloc_region region;
    forecast_network network;
    ebb_status status, all = EBB_OK;
    own.reduce = way;
    own.tune_folder = NULL; /* times that are measured anew would make another choice */
    own.explain = false;
    own.dump_after = 0;
    *seconds = HUGE_VAL;
    ebb__region_init(&region, ctx);
    TRY_OUT(find_network(ctx, settings, &network));
    TRY_OUT(ebb__team_init(&team, &region, &own, request));
    if (own.link != NULL) {
        TRY_OUT(ebb__team_gather(&team, &all));
    } else {
        all = ebb__team_plan(&team);
        status = all == EBB_BUDGET || all == EBB_USAGE ? EBB_OK : all;
        TRY_OUT(status);
        ebb__ctx_clear(ctx);
    }
    if (all == EBB_OK && (own.link == NULL || ebb__comm_rank(own.link) == 0)) {
        status = ebb__team_play(&team, &network, false, seconds);
    }
out:
    ebb__region_fini(&region);
    return status;
}

ebb_status ebb__job_choose_reduce(ebb_ctx *ctx, const train_settings *settings,
                                  const job_request *request, job_reduce *out) {
    *out = (job_reduce){.way = settings->reduce};
    if (is_open(settings)) {
        TRY(try_way(ctx, settings, request, TRAIN_REDUCE_SLICES, &out->slices));
        TRY(try_way(ctx, settings, request, TRAIN_REDUCE_COPIES, &out->copies));
        out->way = out->copies < out->slices ? TRAIN_REDUCE_COPIES : TRAIN_REDUCE_SLICES;
    } else if (settings->reduce == TRAIN_REDUCE_AUTO) {
        out->way = TRAIN_REDUCE_SLICES;
    }
    return EBB_OK;
}

ebb_status ebb__job_share_reduce(ebb_ctx *ctx, const train_settings *settings,
                                 const job_request *request, train_reduce *out) {
    comm_link *link = settings->link;
    job_reduce choice;
    /* Without ways the first process has failed, as it will say itself. */
    bool failed = settings->stages > 1 && settings->ways == NULL;
    if (link == NULL || !is_open(settings) || failed) {
        return EBB_OK;
    }
    TRY(ebb__job_choose_reduce(ctx, settings, request, &choice));
    TRY(ebb__comm_broadcast(link, 0, &choice.way, sizeof choice.way, settings->lost_after));
    *out = choice.way;
    return EBB_OK;
}
