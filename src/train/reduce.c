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

/* ---- of a team ---- */

/* What joins hosts where nobody says it. */
static const char UNKNOWN_NETWORK[] = "1G,50us";

ebb_status ebb__team_network(ebb_ctx *ctx, comm_link *link, const char *text,
                             forecast_network *out) {
    for (int r = 1; link != NULL && text == NULL && r < ebb__comm_size(link); r++) {
        const char *first = ebb__comm_describe(link, 0)->host;
        bool apart = strcmp(ebb__comm_describe(link, r)->host, first) != 0;
        text = apart ? UNKNOWN_NETWORK : NULL;
    }
    return ebb__job_network(ctx, text, out);
}

/* Fills in the seconds of a step: HUGE_VAL where there is no plan. (If that has another reason than
 * bytes, the plan that is made in the end says so.) With a link they are known to the first process
 * alone. */
static ebb_status try_way(job_team *team, const forecast_network *network, double *seconds) {
    ebb_status status, all = EBB_OK;
    *seconds = HUGE_VAL;
    if (team->link != NULL) {
        TRY(ebb__team_gather(team, &all));
    } else {
        all = ebb__team_plan(team);
        status = all == EBB_BUDGET || all == EBB_USAGE ? EBB_OK : all;
        TRY(status);
        ebb__ctx_clear(team->ctx);
    }
    bool plays = team->link == NULL || ebb__comm_rank(team->link) == 0;
    return all == EBB_OK && plays ? ebb__team_play(team, network, false, seconds) : EBB_OK;
}

ebb_status ebb__team_choose(const job_team *team, const forecast_network *network, team_way_fn take,
                            team_choice *out) {
    static const pass_reduce ways[] = {REDUCE_SLICES, REDUCE_COPIES};
    double *seconds[] = {&out->slices, &out->copies};
    for (size_t i = 0; i < sizeof ways / sizeof *ways; i++) {
        alloc_region region;
        job_team own = *team;
        ebb__region_init(&region, team->ctx);
        own.region = &region;
        take(team->user, ways[i]);
        ebb_status status = try_way(&own, network, seconds[i]);
        ebb__region_fini(&region);
        TRY(status);
    }
    out->way = out->copies < out->slices ? REDUCE_COPIES : REDUCE_SLICES;
    return team->link == NULL
               ? EBB_OK
               : ebb__comm_broadcast(team->link, 0, out, sizeof *out, team->lost_after);
}

/* ---- of a run ---- */

/* Is there anything to choose: does more than one group of processes have gradients? */
static bool is_open(const train_settings *s) {
    int64_t stages = s->stages > 1 ? s->stages : 1;
    return s->reduce == TRAIN_REDUCE_AUTO && ebb__settings_ranks(s) / stages > 1;
}

static void take_way(void *user, pass_reduce way) {
    team_run *run = user;
    run->settings.reduce = way == REDUCE_COPIES ? TRAIN_REDUCE_COPIES : TRAIN_REDUCE_SLICES;
}

ebb_status ebb__job_choose_reduce(ebb_ctx *ctx, const train_settings *settings,
                                  const job_request *request, job_reduce *out) {
    team_run run = {.ctx = ctx, .settings = *settings, .request = request};
    const job_team team = ebb__team_of(NULL, &run);
    team_choice choice;
    forecast_network network;
    if (!is_open(settings)) {
        bool open = settings->reduce == TRAIN_REDUCE_AUTO;
        *out = (job_reduce){.way = open ? TRAIN_REDUCE_SLICES : settings->reduce};
        return EBB_OK;
    }
    run.settings.tune_folder = NULL; /* times that are measured anew would make another choice */
    run.settings.explain = false;
    run.settings.dump_after = 0;
    TRY(ebb__team_network(ctx, settings->link, settings->network, &network));
    TRY(ebb__team_choose(&team, &network, take_way, &choice));
    take_way(&run, choice.way);
    *out = (job_reduce){run.settings.reduce, choice.slices, choice.copies};
    return EBB_OK;
}

ebb_status ebb__job_share_reduce(ebb_ctx *ctx, const train_settings *settings,
                                 const job_request *request, train_reduce *out) {
    job_reduce choice;
    /* Without ways the first process has failed, as it will say itself. */
    bool failed = settings->stages > 1 && settings->ways == NULL;
    if (settings->link == NULL || failed) {
        return EBB_OK;
    }
    TRY(ebb__job_choose_reduce(ctx, settings, request, &choice));
    *out = choice.way;
    return EBB_OK;
}
