/* team.c - see team.h. */
#include "train/team.h"

#include "comm/comm.h"

#include <stdio.h>

enum { TAG_COUNTS = COMM_FIRST_TAG, TAG_ITEMS };

/* ---- of settings ---- */

/* Plans of several processes know themselves whose they are. */
static ebb_status plan_run(void *user, int32_t rank, ebb_plan **plan) {
    const team_run *run = user;
    train_settings settings = run->settings;
    job_request request = *run->request;
    if (settings.link == NULL) {
        settings.rank = rank;
        request = ebb__job_request_of(&settings, run->request, rank);
    }
    return ebb__job_compile(run->ctx, &settings, &request, plan);
}

job_team ebb__team_of(alloc_region *region, team_run *run) {
    const train_settings *s = &run->settings;
    return (job_team){.ctx = run->ctx,
                      .region = region,
                      .link = s->link,
                      .lost_after = s->lost_after,
                      .n = (int32_t)ebb__settings_ranks(s),
                      .stages = s->stages > 1 ? (int32_t)s->stages : 1,
                      .plan = plan_run,
                      .user = run};
}

/* ---- plans ---- */

/* Programs that do not train come last, and not every rank has them. */
static void find_shares(const ebb_plan *plan, job_team *team) {
    double all = 0;
    team->lead = plan->lead;
    for (int32_t i = 0; i < plan->n_programs; i++) {
        const plan_request *request = &plan->programs[i].request;
        all += request->training ? request->share : 0;
    }
    for (int32_t i = 0; i < plan->n_programs; i++) {
        const plan_request *request = &plan->programs[i].request;
        double own = request->training ? request->share / all : 0;
        team->share[i] = all > 0 ? own : i == plan->lead;
        team->n_programs = team->share[i] > 0 ? i + 1 : team->n_programs;
    }
}

static ebb_status list_programs(job_team *team, int32_t rank, ebb_plan *plan) {
    if (team->lists == NULL) {
        find_shares(plan, team);
        TRY(ebb__region_alloc(team->region, (size_t)team->n, sizeof *team->parts, &team->parts));
        TRY(ebb__region_alloc(team->region, (size_t)(team->n_programs * team->n),
                              sizeof *team->lists, &team->lists));
    } else if (plan->n_programs < team->n_programs || plan->lead != team->lead) {
        return ebb__fail(team->ctx, EBB_INTERNAL, "rank %d has other programs than rank 0", rank);
    }
    for (int32_t i = 0; i < team->n_programs; i++) {
        if (team->share[i] > 0) {
            TRY(ebb__forecast_program(plan, i, team->region, &team->lists[i * team->n + rank]));
        }
    }
    team->parts[rank] =
        (forecast_part){.stage = rank % team->stages, .planned_peak_bytes = plan->peak_bytes};
    return EBB_OK;
}

static ebb_status plan_rank(job_team *team, int32_t rank) {
    ebb_plan *plan = NULL;
    ebb_status status = team->plan(team->user, rank, &plan);
    status = status == EBB_OK ? list_programs(team, rank, plan) : status;
    ebb__plan_free(plan);
    return status;
}

ebb_status ebb__team_plan(job_team *team) {
    char why[sizeof team->ctx->error];
    for (int32_t rank = 0; rank < team->n; rank++) {
        ebb_status status = plan_rank(team, rank);
        if (status == EBB_BUDGET) {
            (void)snprintf(why, sizeof why, "%s", ebb_last_error(team->ctx));
            ebb__ctx_clear(team->ctx);
            return ebb__fail(team->ctx, EBB_BUDGET, "rank %d of %d: %s", rank, team->n, why);
        }
        TRY(status);
        ebb__progress(team->ctx, "processes planned", (uint64_t)rank + 1, (uint64_t)team->n);
    }
    return EBB_OK;
}

/* ---- of several processes ---- */

/* The first failure of all is everybody's. */
static ebb_status agree(const job_team *team, ebb_status mine, ebb_status *all) {
    comm_link *link = team->link;
    const double seconds = team->lost_after;
    int32_t own = (int32_t)mine, words[PASS_MOST_RANKS] = {0};
    TRY(ebb__comm_gather(link, 0, &own, words, sizeof own, seconds));
    for (int32_t rank = 0; ebb__comm_rank(link) == 0 && rank < team->n; rank++) {
        own = own == EBB_OK ? words[rank] : own;
    }
    TRY(ebb__comm_broadcast(link, 0, &own, sizeof own, seconds));
    *all = (ebb_status)own;
    return EBB_OK;
}

static ebb_status put_lists(const job_team *team, int32_t me) {
    comm_link *link = team->link;
    const double seconds = team->lost_after;
    for (int32_t i = 0; i < team->n_programs; i++) {
        const forecast_list *list = &team->lists[i * team->n + me];
        TRY(ebb__comm_put(link, 0, TAG_COUNTS, &list->n, sizeof list->n, seconds));
        TRY(ebb__comm_put(link, 0, TAG_ITEMS, list->items, (size_t)list->n * sizeof *list->items,
                          seconds));
    }
    return EBB_OK;
}

static ebb_status take_lists(job_team *team, int32_t rank) {
    comm_link *link = team->link;
    const double seconds = team->lost_after;
    for (int32_t i = 0; i < team->n_programs; i++) {
        forecast_list *list = &team->lists[i * team->n + rank];
        TRY(ebb__comm_take(link, rank, TAG_COUNTS, &list->n, sizeof list->n, seconds));
        TRY(ebb__region_alloc(team->region, (size_t)list->n + 1, sizeof *list->items,
                              &list->items));
        TRY(ebb__comm_take(link, rank, TAG_ITEMS, list->items,
                           (size_t)list->n * sizeof *list->items, seconds));
    }
    return EBB_OK;
}

ebb_status ebb__team_gather(job_team *team, ebb_status *all) {
    const int32_t me = ebb__comm_rank(team->link);
    ebb_status mine = plan_rank(team, me);
    ebb__ctx_clear(team->ctx);
    TRY(agree(team, mine, all));
    if (*all != EBB_OK) {
        return EBB_OK;
    }
    if (me > 0) {
        return put_lists(team, me);
    }
    for (int32_t rank = 1; rank < team->n; rank++) {
        TRY(take_lists(team, rank));
    }
    return EBB_OK;
}

/* ---- steps ---- */

static void add_step(job_team *team, const forecast_step *step, double share) {
    for (int32_t r = 0; r < team->n; r++) {
        const forecast_rank *rank = &step->ranks[r];
        forecast_part *part = &team->parts[r];
        double busy = forecast_busy(rank);
        part->busy_seconds += share * busy;
        part->waiting_seconds += share * (step->seconds - busy);
        part->messages += share * (double)rank->messages;
        part->sent_bytes += share * (double)rank->sent_bytes;
    }
}

ebb_status ebb__team_play(job_team *team, const forecast_network *network, bool note,
                          double *seconds) {
    *seconds = 0;
    for (int32_t i = 0; i < team->n_programs; i++) {
        forecast_step step = {.n_ranks = 0};
        if (team->share[i] <= 0) {
            continue;
        }
        ebb_status status =
            ebb__forecast_play(team->ctx, &team->lists[i * team->n], team->n, network, &step);
        if (status == EBB_OK) {
            *seconds += team->share[i] * step.seconds;
        }
        if (status == EBB_OK && note) {
            add_step(team, &step, team->share[i]);
        }
        ebb__forecast_free(&step);
        TRY(status);
    }
    return EBB_OK;
}
