/* ranks.c - a training run that several processes share. The first one does what a run alone does,
 * and leads (run/ranks.h); the others get what it found out about texts and batches, make their
 * part of the plan, and follow. */
#include "train/job_int.h"

#include "comm/comm.h"
#include "decode/deal.h"
#include "run/ranks.h"
#include "train/forecast.h"

enum { TAG_SHARED = COMM_FIRST_TAG };

/* What a plan depends on and only the first process knows. */
typedef struct job_shared {
    bool go; /* else there is nothing to do */
    int64_t batch, batch_tokens, shards;
    job_request request;
} job_shared;

ebb_status ebb__job_share(const train_settings *s, const job_request *request) {
    job_shared shared = {.go = request != NULL};
    if (request != NULL) {
        shared.batch = s->batch;
        shared.batch_tokens = s->batch_tokens;
        shared.shards = s->shards;
        shared.request = *request;
        shared.request.follows = true;
    }
    for (int rank = 1; s->link != NULL && rank < ebb__comm_size(s->link); rank++) {
        TRY(ebb__comm_put(s->link, rank, TAG_SHARED, &shared, sizeof shared, s->lost_after));
    }
    return EBB_OK;
}

ebb_status ebb__job_agree(const train_settings *s, ebb_status mine) {
    return s->link == NULL ? mine : ebb__comm_agree(s->link, mine, s->lost_after);
}

/* With a clock of processes that have a core each, over the network of the settings. */
static ebb_status make_virtual(const train_settings *s, run_session *session) {
    forecast_network network;
    if (s->link == NULL || !s->virtual_clock) {
        return EBB_OK;
    }
    TRY(ebb__job_network(session->ctx, s->network, &network));
    return ebb__comm_make_virtual(
        s->link, &(comm_network){network.bytes_per_second, network.latency, network.copied});
}

ebb_status ebb__job_join_ranks(const train_settings *s, run_session *session) {
    TRY(make_virtual(s, session));
    session->link = s->link;
    session->lost_seconds = s->lost_after;
    return ebb__ranks_prove(session);
}

ebb_status ebb__job_open_ranks(const train_settings *s, run_session *session) {
    TRY(ebb__job_join_ranks(s, session));
    return s->link == NULL || ebb__comm_rank(s->link) > 0 ? EBB_OK : ebb__ranks_lead(session);
}

/* Of what the leader has others do beside steps there is one thing: translation. */
static ebb_status serve(void *user, run_session *session, int32_t sentences) {
    const job_request *request = user;
    return ebb__deal_serve(session, (translate_uses){JOB_DECODE_STEP, JOB_DECODE_READ},
                           &request->decode, sentences);
}

ebb_status ebb__job_follow(ebb_ctx *ctx, const train_settings *settings) {
    job_shared *shared = NULL;
    ebb_plan *plan = NULL;
    run_session *session = NULL;
    train_settings own = *settings;
    ebb_status status;
    TRY(ebb__alloc(ctx, 1, sizeof *shared, &shared));
    TRY_OUT(ebb__comm_take(settings->link, 0, TAG_SHARED, shared, sizeof *shared,
                           settings->lost_after));
    if (!shared->go) {
        goto out;
    }
    own.batch = shared->batch;
    own.batch_tokens = shared->batch_tokens;
    own.shards = shared->shards;
    status = ebb__job_compile_run(ctx, &own, &shared->request, &plan);
    status = ebb__job_agree(&own, status);
    if (status != EBB_OK) {
        ebb__plan_free(plan);
        goto out;
    }
    TRY_OUT(ebb__run_new(ctx, plan, &session));
    TRY_OUT(ebb__job_open_ranks(&own, session));
    session->serve = serve;
    session->serve_user = &shared->request;
    status = ebb__ranks_follow(session);
out:
    status = ebb__ranks_lost(session, status);
    ebb__run_free(session);
    ebb__free(ctx, shared);
    return status;
}
