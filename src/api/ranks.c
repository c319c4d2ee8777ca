/* ranks.c - several processes behind the public handles: who they are, that all compile the same,
 * which of them does which layers, and how they begin and end (run/ranks.h is what they do then).
 */
#include "api/api.h"

#include "ir/hash.h"
#include "plan/stages.h"
#include "train/team.h"

#include <math.h>
#include <stdio.h>
#include <string.h>
#include <xxhash.h>

enum { RANKS_OPTIONS_VERSION = 1, TICKETS = 8192 };
static const double OPEN_SECONDS = 60, LOST_AFTER = 30;

/* ---- who they are ---- */

ebb_ranks_options ebb_ranks_options_default(void) {
    return (ebb_ranks_options){.version = RANKS_OPTIONS_VERSION, .lost_after = LOST_AFTER};
}

static ebb_status check_options(ebb_ctx *ctx, const ebb_ranks_options *o) {
    bool zero = o->reserved_word == 0 && api_are_zero(o->reserved, sizeof o->reserved);
    if (o->version != RANKS_OPTIONS_VERSION || !zero) {
        return ebb__fail(ctx, EBB_USAGE,
                         "ranks: start from ebb_ranks_options_default(); reserved members are 0");
    }
    if (!(o->lost_after > 0 && isfinite(o->lost_after))) {
        return ebb__fail(ctx, EBB_USAGE, "ranks: lost_after %g is not above 0", o->lost_after);
    }
    return EBB_OK;
}

ebb_status ebb__api_ranks_of(ebb_ctx *ctx, comm_link *link, double lost_after, ebb_ranks **out) {
    ebb_ranks *ranks = NULL;
    TRY(ebb__alloc(ctx, 1, sizeof *ranks, &ranks));
    *ranks = (ebb_ranks){.ctx = ctx, .link = link, .lost_after = lost_after};
    *out = ranks;
    return EBB_OK;
}

/* apart: the others do not know that this one ends. */
static void close_link(comm_link *link, bool apart) {
    bool reports = apart && ebb__comm_size(link) > 1 && ebb__comm_fail(link);
    (void)reports; /* that is the program's matter */
    ebb__comm_close(link);
}

ebb_status ebb_ranks_open(ebb_ctx *ctx, ebb_getenv_fn environment, const ebb_ranks_options *options,
                          ebb_ranks **out) {
    ebb_ranks_options defaults = ebb_ranks_options_default();
    const ebb_ranks_options *o = options != NULL ? options : &defaults;
    comm_link *link = NULL;
    if (out != NULL) {
        *out = NULL;
    }
    if (ctx == NULL || out == NULL) {
        return EBB_USAGE;
    }
    ebb__ctx_clear(ctx);
    TRY(check_options(ctx, o));
    comm_launch launch = {.plugin = o->plugin};
    if (environment != NULL) {
        launch.ompi_size = environment("OMPI_COMM_WORLD_SIZE");
        launch.pmi_size = environment("PMI_SIZE");
        launch.pmix_rank = environment("PMIX_RANK");
    }
    TRY(ebb__comm_open_launched(ctx, &launch,
                                &(comm_setup){.tickets = TICKETS, .seconds = OPEN_SECONDS}, &link));
    ebb_status status = ebb__api_ranks_of(ctx, link, o->lost_after, out);
    if (status != EBB_OK) {
        close_link(link, true);
    }
    return status;
}

int32_t ebb_ranks_count(const ebb_ranks *ranks) {
    return ranks != NULL ? ebb__comm_size(ranks->link) : 1;
}

int32_t ebb_ranks_number(const ebb_ranks *ranks) {
    return ranks != NULL ? ebb__comm_rank(ranks->link) : 0;
}

/* Whoever still has programs has left the others in the middle of something. */
void ebb_ranks_close(ebb_ranks *ranks) {
    if (ranks == NULL) {
        return;
    }
    ebb_ctx *ctx = ranks->ctx;
    bool apart = ranks->broken || ranks->taken ||
                 ebb__comm_barrier(ranks->link, ranks->lost_after) != EBB_OK;
    close_link(ranks->link, apart);
    ebb__free(ctx, ranks);
}

/* ---- what they compile ---- */

ebb_ranks *ebb__api_ranks(const ebb_options *options) {
    return ebb_ranks_count(options->ranks) > 1 ? options->ranks : NULL;
}

int32_t ebb__api_reduce(const ebb_plan *plan) {
    static const int32_t ways[] = {[REDUCE_SLICES] = EBB_REDUCE_SLICES,
                                   [REDUCE_COPIES] = EBB_REDUCE_COPIES,
                                   [REDUCE_CENTRAL] = EBB_REDUCE_CENTRAL};
    return ways[job_reduced(plan)];
}

ebb_status ebb__api_check_ranks(ebb_ctx *ctx, const ebb_options *o) {
    const ebb_ranks *ranks = o->ranks;
    int32_t count = ebb_ranks_count(ranks);
    if (o->stages < 0 || (o->stages > 1 && count % o->stages != 0)) {
        return ebb__fail(ctx, EBB_USAGE,
                         "options: stages %d do not divide the number of processes, %d", o->stages,
                         count);
    }
    if (o->reduce < EBB_REDUCE_SLICES || o->reduce > EBB_REDUCE_AUTO) {
        return ebb__fail(ctx, EBB_USAGE, "options: there is no reduce %d", o->reduce);
    }
    if (ranks != NULL && ranks->ctx != ctx) {
        return ebb__fail(ctx, EBB_USAGE, "options: ranks are of another context");
    }
    if (ranks != NULL && count > 1 && ranks->taken) {
        return ebb__fail(ctx, EBB_USAGE,
                         "options: ranks have programs already: free these, or compile all graphs "
                         "together");
    }
    return EBB_OK;
}

ebb_status ebb__api_agree(ebb_ranks *ranks, ebb_status mine) {
    if (ranks == NULL || ranks->agreed || ranks->broken || ranks->taken) {
        return mine;
    }
    uint64_t least = ranks->ctx->least_bytes;
    ebb_status all = ebb__comm_agree(ranks->link, mine, ranks->lost_after);
    ranks->broken = ebb__comm_lost(ranks->link).rank >= 0;
    ranks->agreed = all != EBB_OK;
    if (all == EBB_BUDGET && mine == EBB_BUDGET) {
        ranks->ctx->least_bytes = least;
    }
    return all;
}

ebb_status ebb__api_settle_layers(ir_graph *graph) {
    alloc_region region;
    bool *known = NULL;
    ebb__region_init(&region, graph->ctx);
    ebb_status status =
        ebb__region_alloc(&region, (size_t)graph->n_values + 1, sizeof *known, &known);
    for (int32_t i = 0; status == EBB_OK && i < graph->n_order; i++) {
        const ir_node_rec *node = &graph->nodes[graph->order[i]];
        for (int32_t k = 0; k < node->n_in; k++) {
            ir_val v = ir_in(graph, node, k);
            if (v != IR_NONE && !known[v]) {
                known[v] = true;
                graph->values[v].layer = node->label.layer;
            }
        }
    }
    ebb__region_fini(&region);
    return status;
}

/* What a process tells of what it compiles; the budget is its own. */
typedef struct api_hello {
    uint64_t same; /* hash of what all must have */
    uint64_t budget;
    int32_t members, reserved;
} api_hello;

static uint64_t hash_graph(const ir_graph *g, uint64_t hash) {
    hash = ebb__ir_hash_nodes(g, hash);
    for (ir_val v = 0; v < g->n_values; v++) {
        const ir_value *value = &g->values[v];
        const char *name = value->name != NULL ? value->name : "";
        hash = XXH3_64bits_withSeed(name, strlen(name), hash);
        hash = XXH3_64bits_withSeed(value->type.dim, sizeof value->type.dim, hash);
    }
    for (int32_t l = 0; l < g->n_layers; l++) {
        hash = XXH3_64bits_withSeed(g->layers[l], strlen(g->layers[l]), hash);
    }
    return hash;
}

static api_hello hello_of(const api_team *team) {
    const ebb_options *o = team->options;
    const double numbers[] = {o->momentum,
                              o->beta1,
                              o->beta2,
                              o->eps,
                              o->weight_decay,
                              o->clip,
                              (double)o->shards,
                              (double)o->stages,
                              (double)o->reduce,
                              (double)o->optimizer,
                              (double)team->n,
                              (double)team->n_training,
                              (double)team->settings->disabled};
    uint64_t hash = XXH3_64bits(EBB_VERSION, sizeof EBB_VERSION);
    hash = XXH3_64bits_withSeed(numbers, sizeof numbers, hash);
    for (int32_t i = 0; i < team->n; i++) {
        hash = hash_graph(&team->graphs[i], hash);
    }
    return (api_hello){hash, team->settings->budget, team->settings->members, 0};
}

/* all: of the leader, what everybody told. */
static ebb_status greet(const api_team *team, ebb_ranks *ranks, api_hello **all) {
    api_hello own = hello_of(team);
    ebb_status status = EBB_OK;
    size_t n = (size_t)ebb_ranks_count(ranks);
    TRY(ebb__region_alloc(team->region, n, sizeof **all, all));
    TRY(ebb__comm_gather(ranks->link, 0, &own, *all, sizeof own, ranks->lost_after));
    for (size_t r = 1; ebb_ranks_number(ranks) == 0 && r < n; r++) {
        if ((*all)[r].same != own.same && status == EBB_OK) {
            status = ebb__fail(team->ctx, EBB_USAGE,
                               "compile: process %zu has another version of ebb, other graphs or "
                               "other options than process 0",
                               r);
        }
    }
    return ebb__api_agree(ranks, status);
}

/* The leader's own: what the others would not have of it. */
static ebb_status check_computed(const api_team *team, int32_t index) {
    const ir_graph *g = &team->graphs[index];
    for (ir_val v = 0; v < g->n_values; v++) {
        const ir_value *value = &g->values[v];
        bool trained = false;
        for (int32_t i = 0; value->role == IR_PARAM && i < team->n_training; i++) {
            trained = trained || ebb__ir_find(&team->graphs[i], value->name) != IR_NONE;
        }
        if (value->role == IR_STATE || (value->role == IR_PARAM && !trained)) {
            return ebb__fail(team->ctx, EBB_USAGE,
                             "compile: %s: where several groups of processes train, a graph that "
                             "is only computed has no states, and no parameters of its own",
                             value->name);
        }
    }
    return EBB_OK;
}

/* One past the last time step that a graph which is trained names; 0: there is none. */
static int64_t time_steps(const api_team *team) {
    int32_t steps = 0;
    for (int32_t i = 0; i < team->n_training; i++) {
        const ir_graph *g = &team->graphs[i];
        for (int32_t k = 0; k < g->n_order; k++) {
            int32_t at = g->nodes[g->order[k]].label.at;
            steps = at >= steps ? at + 1 : steps;
        }
    }
    return steps;
}

/* Which programs there are, in how many parts, and who has them. */
static ebb_status set_ranks(api_team *team, const ebb_ranks *ranks) {
    static const pass_reduce ways[] = {[EBB_REDUCE_SLICES] = REDUCE_SLICES,
                                       [EBB_REDUCE_COPIES] = REDUCE_COPIES,
                                       [EBB_REDUCE_CENTRAL] = REDUCE_CENTRAL,
                                       [EBB_REDUCE_AUTO] = REDUCE_SLICES}; /* until it is chosen */
    const ebb_options *o = team->options;
    int32_t count = ebb_ranks_count(ranks), stages = o->stages > 1 ? o->stages : 1;
    int32_t groups = count / stages, shards = o->shards > 0 ? (int32_t)o->shards : groups;
    if (team->n_training == 0) {
        return ebb__fail(team->ctx, EBB_USAGE,
                         "compile: several processes share what is trained, and nothing is");
    }
    team->settings->ranks = (pass_ranks){.rank = ebb_ranks_number(ranks),
                                         .count = count,
                                         .stages = stages,
                                         .reduce = ways[o->reduce]};
    ebb__plan_set_chunks(&team->settings->ranks, shards, time_steps(team), 0);
    for (int32_t i = 0; i < team->n; i++) {
        bool training = i < team->n_training;
        team->list[i].shards = training ? shards : 0;
        team->list[i].alone = !training && groups > 1;
        TRY(team->list[i].alone ? check_computed(team, i) : EBB_OK);
    }
    return EBB_OK;
}

/* The leader's own programs are the last. */
static int32_t programs_of(const api_team *team, int32_t rank) {
    bool own = team->list[team->n - 1].alone;
    return own && rank > 0 ? team->n_training : team->n;
}

/* ---- which of them does what ---- */

/* A plan of the rank by these options, as it would make it itself. */
static ebb_status plan_rank(const api_team *team, const plan_options *options, int32_t rank,
                            ebb_plan **plan) {
    const plan_extra room = ranks_room();
    plan_options own = *options;
    own.ranks.rank = rank;
    return ebb__plan_make(team->ctx, team->list, programs_of(team, rank), &room, rank == 0, &own,
                          plan);
}

typedef struct share_of_ranks {
    const api_team *team;
    const api_hello *all;
} share_of_ranks;

static ebb_status find_share(void *user, const pass_stages *ways, double *share) {
    const share_of_ranks *s = user;
    plan_options own = *s->team->settings;
    *share = 0;
    ebb__plan_take_stages(ways, &own.ranks);
    for (int32_t r = 0; r < own.ranks.count; r++) {
        ebb_plan *plan = NULL;
        own.budget = s->all[r].budget;
        own.members = s->all[r].members;
        ebb_status status = plan_rank(s->team, &own, r, &plan);
        if (status == EBB_OK || status == EBB_BUDGET) {
            double taken = (double)plan->least_bytes / (double)plan->budget_bytes;
            *share = taken > *share ? taken : *share;
            ebb__ctx_clear(s->team->ctx);
            status = EBB_OK;
        }
        ebb__plan_free(plan);
        TRY(status);
    }
    return EBB_OK;
}

static ebb_status choose(const api_team *team, const api_hello *all, pass_stages *ways) {
    const plan_options *o = team->settings;
    forecast_network network;
    stages_list found;
    share_of_ranks share = {team, all};
    TRY(ebb__job_network(team->ctx, NULL, &network));
    TRY(ebb__plan_list_stages(team->ctx, &team->list[0], o, &network, o->ranks.chunk_steps > 0,
                              team->region, &found));
    return ebb__plan_pick_stages(&found, team->options->memory > 0 ? find_share : NULL, &share,
                                 ways);
}

static ebb_status share_stages(api_team *team, ebb_ranks *ranks, const api_hello *all) {
    pass_stages ways = {.n_layers = -1};
    ebb_status status = EBB_OK;
    if (team->settings->ranks.stages == 1) {
        return EBB_OK;
    }
    if (ebb_ranks_number(ranks) == 0) {
        status = choose(team, all, &ways);
    }
    TRY(ebb__api_agree(ranks, status));
    TRY(ebb__ranks_share_stages(ranks->link, ranks->lost_after, team->region, &ways));
    ebb__plan_take_stages(&ways, &team->settings->ranks);
    return EBB_OK;
}

/* How plans are tried: by the options that all have, but for who adds up gradients. */
typedef struct api_trial {
    const api_team *team;
    plan_options options;
} api_trial;

static void take_way(void *user, pass_reduce way) {
    api_trial *trial = user;
    trial->options.ranks.reduce = way;
}

static ebb_status plan_trial(void *user, int32_t rank, ebb_plan **plan) {
    const api_trial *trial = user;
    return plan_rank(trial->team, &trial->options, rank, plan);
}

static ebb_status share_reduce(api_team *team, ebb_ranks *ranks) {
    pass_ranks *own = &team->settings->ranks;
    api_trial trial = {team, *team->settings};
    const job_team all = {.ctx = team->ctx,
                          .link = ranks->link,
                          .lost_after = ranks->lost_after,
                          .n = own->count,
                          .stages = own->stages,
                          .plan = plan_trial,
                          .user = &trial};
    forecast_network network;
    team_choice choice;
    if (team->options->reduce != EBB_REDUCE_AUTO || own->count == own->stages) {
        return EBB_OK;
    }
    TRY(ebb__team_network(team->ctx, ranks->link, NULL, &network));
    TRY(ebb__team_choose(&all, &network, take_way, &choice));
    own->reduce = choice.way;
    return EBB_OK;
}

ebb_status ebb__api_share(api_team *team, ebb_status mine) {
    ebb_ranks *ranks = ebb__api_ranks(team->options);
    api_hello *all = NULL;
    if (ranks == NULL || ranks->taken) { /* with programs the others may be following */
        return mine;
    }
    ranks->agreed = false;
    mine = mine == EBB_OK ? set_ranks(team, ranks) : mine;
    TRY(ebb__api_agree(ranks, mine));
    TRY(greet(team, ranks, &all));
    TRY(share_stages(team, ranks, all));
    TRY(share_reduce(team, ranks));
    team->n = programs_of(team, ebb_ranks_number(ranks));
    return EBB_OK;
}

/* ---- how they begin and end ---- */

ebb_status ebb__api_lead(api_shared *shared) {
    enum { KEPT = 1U << IR_PARAM | 1U << IR_SLOT | 1U << IR_STATE | 1U << IR_BUFFER };
    run_session *session = shared->session;
    ebb_ranks *ranks = shared->ranks;
    if (ranks == NULL) {
        return EBB_OK;
    }
    session->link = ranks->link;
    session->lost_seconds = ranks->lost_after;
    ebb_status status = ebb__ranks_prove(session);
    if (status == EBB_OK && ebb_ranks_number(ranks) == 0) {
        status = ebb__ranks_lead(session);
    }
    if (status == EBB_OK && ebb_ranks_number(ranks) == 0) {
        status = ebb__ranks_tensors(session, KEPT, &shared->region, &shared->tensors,
                                    &shared->n_tensors);
    }
    ranks->broken = status != EBB_OK;
    return ebb__ranks_lost(session, status);
}

void ebb__api_leave(api_shared *shared) {
    ebb_ranks *ranks = shared->ranks;
    if (ranks == NULL) {
        return;
    }
    ranks->taken = false;
    if (shared->session == NULL || shared->session->link == NULL || ranks->broken) {
        return;
    }
    if (ebb_ranks_number(ranks) > 0) {
        ranks->broken = !shared->followed;
    } else {
        ranks->broken = ebb__ranks_end(shared->session, EBB_OK) != EBB_OK;
    }
}

ebb_status ebb__api_leads(const ebb_program *program) {
    int32_t number = ebb_ranks_number(program->shared->ranks);
    return number == 0 ? EBB_OK
                       : ebb__fail(program->ctx, EBB_USAGE,
                                   "process %d does what the first one says: it only calls "
                                   "ebb_program_follow()",
                                   number);
}

ebb_status ebb__api_note(const ebb_program *program, ebb_status status) {
    ebb_ranks *ranks = program->shared->ranks;
    if (ranks != NULL && (status == EBB_LOST || status == EBB_INTERNAL)) {
        ranks->broken = true;
    }
    return ebb__ranks_lost(program->session, status);
}

ebb_status ebb_program_follow(ebb_program *program) {
    if (program == NULL) {
        return EBB_USAGE;
    }
    ebb__ctx_clear(program->ctx);
    ebb_ranks *ranks = program->shared->ranks;
    if (ebb_ranks_number(ranks) == 0 || program->shared->followed) {
        return ebb__fail(program->ctx, EBB_USAGE,
                         ranks == NULL || !program->shared->followed
                             ? "follow: this process leads"
                             : "follow: the leader has freed its programs");
    }
    program->shared->followed = true;
    ebb_status status = ebb__ranks_follow(program->session);
    ranks->broken = status != EBB_OK;
    return ebb__ranks_lost(program->session, status);
}
