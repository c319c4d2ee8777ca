/* team.h - what all processes that share a run do in a step, to be played (plan/forecast.h). Their
 * plans are made by one process, one after the other, or by each its own. */
#ifndef TRAIN_TEAM_H
#define TRAIN_TEAM_H

#include "train/forecast.h"
#include "train/job_int.h"

/* The plan of one rank, given also with EBB_BUDGET. With a link, that of this process. */
typedef ebb_status (*team_plan_fn)(void *user, int32_t rank, ebb_plan **plan);
/* Who adds up and applies gradients, of plans from here on. */
typedef void (*team_way_fn)(void *user, pass_reduce way);

/* The programs of all ranks that train. What is found lies in the region. */
typedef struct job_team {
    ebb_ctx *ctx;
    alloc_region *region;
    comm_link *link; /* processes of which each makes its own plan; NULL: all are made here */
    double lost_after;
    int32_t n, stages;
    team_plan_fn plan;
    void *user;
    /* Found by planning, so NULL and 0 before: */
    int32_t n_programs, lead;
    double share[PLAN_MAX_PROGRAMS]; /* of the mean step */
    forecast_list *lists;            /* by program * n + rank */
    forecast_part *parts;
} job_team;

/* A run that is planned for all its ranks by its settings. */
typedef struct team_run {
    ebb_ctx *ctx;
    train_settings settings;
    const job_request *request;
    pass_stages ways; /* of settings */
} team_run;
/* A team without a region can only be chosen for. */
job_team ebb__team_of(alloc_region *region, team_run *run);

/* All plans, made here. EBB_BUDGET with the rank that has too little. */
ebb_status ebb__team_plan(job_team *team) EBB_MUST_CHECK;
/* Every process of the link makes its own plan, and the first one gets what all of them do.
 * *all: EBB_OK, or why one of them has no plan, which it has forgotten then; the same everywhere.
 */
ebb_status ebb__team_gather(job_team *team, ebb_status *all) EBB_MUST_CHECK;
/* Seconds of the mean step, into parts too where `note`. */
ebb_status ebb__team_play(job_team *team, const forecast_network *network, bool note,
                          double *seconds) EBB_MUST_CHECK;

/* ---- reduce.c ---- */

/* The network that the text names; without one, what joins the processes of the link: shared
 * memory, or something slow where they are on several hosts. */
ebb_status ebb__team_network(ebb_ctx *ctx, comm_link *link, const char *text,
                             forecast_network *out) EBB_MUST_CHECK;

/* Slices or copies, whichever is forecast to have the shorter step of those that fit each rank, and
 * the seconds of both: HUGE_VAL of one that does not fit. With a link all processes call it, and
 * all get the choice of the first one. */
typedef struct team_choice {
    pass_reduce way;
    double slices, copies;
} team_choice;
ebb_status ebb__team_choose(const job_team *team, const forecast_network *network, team_way_fn take,
                            team_choice *out) EBB_MUST_CHECK;

#endif
