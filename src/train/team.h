/* team.h - what all processes that share a run do in a step, to be played (plan/forecast.h). Their
 * plans are made by one process, one after the other, or by each its own. */
#ifndef TRAIN_TEAM_H
#define TRAIN_TEAM_H

#include "train/forecast.h"
#include "train/job_int.h"

/* The programs of a run that train, of all ranks. */
typedef struct job_team {
    ebb_ctx *ctx;
    train_settings settings;
    const job_request *request;
    alloc_region *region;
    int32_t n, n_programs, lead;
    double share[PLAN_MAX_PROGRAMS]; /* of the mean step */
    pass_stages ways;                /* of settings */
    forecast_list *lists;            /* by program * n + rank */
    forecast_part *parts;
} job_team;

/* All that it takes is in the region. */
ebb_status ebb__team_init(job_team *team, alloc_region *region, const train_settings *settings,
                          const job_request *request) EBB_MUST_CHECK;
/* All plans, made here. EBB_BUDGET with the rank that has too little. */
ebb_status ebb__team_plan(job_team *team) EBB_MUST_CHECK;
/* Every process of settings.link makes its own plan, and the first one gets what all of them do.
 * *all: EBB_OK, or why one of them has no plan, which it has forgotten then; the same everywhere.
 */
ebb_status ebb__team_gather(job_team *team, ebb_status *all) EBB_MUST_CHECK;
/* Seconds of the mean step, into parts too where `note`. */
ebb_status ebb__team_play(job_team *team, const forecast_network *network, bool note,
                          double *seconds) EBB_MUST_CHECK;

#endif
