/* api.h - what stands behind the public handles, and what the files of this layer share.
 *
 * This layer checks arguments, keeps a builder's first mistake, and maps names to bytes; all work
 * is done by the layers below. Nothing here is seen by them.
 */
#ifndef API_API_H
#define API_API_H

#include "run/ranks.h"
#include "run/trainer.h"

enum { API_LONGEST_NAME = 200 };

/* A name given to a value; it takes effect when the graph is compiled. */
typedef struct api_output {
    const char *name;
    ir_val value;
} api_output;

struct ebb_graph {
    ebb_ctx *ctx;
    ir_graph ir;
    uint64_t seed;
    ir_val step; /* TRAINER_STEP, once there is a dropout */
    api_output *outputs;
    int32_t n_outputs;
    size_t cap_outputs;
    bool carries;
    const char *builder; /* the public function at work, for messages */
    ebb_status status;   /* of the first mistake */
    char error[sizeof((ebb_ctx *)0)->error];
};

/* Elements [begin, begin+len) of an i32 input must lie in [low, below): they index something. */
typedef struct api_limit {
    int32_t graph;                 /* of those that are compiled together */
    ir_val input;                  /* of that graph */
    const plan_variable *variable; /* the same, once there is a plan */
    int64_t begin, len;
    int32_t low, below;
} api_limit;

struct ebb_ranks {
    ebb_ctx *ctx;
    comm_link *link;
    double lost_after;
    bool taken;  /* there are programs that were compiled for them */
    bool agreed; /* while all compile: one of them has failed, and all know why */
    bool broken; /* this process failed where the others go on, or knows that another one is lost */
};

/* What programs that were compiled together share. */
typedef struct api_shared {
    const device *dev; /* opened for them; NULL: the default */
    run_session *session;
    ebb_ranks *ranks; /* NULL: this process is alone */
    /* Of a leader: what its processes keep, in memory of the region; alone there are none. */
    ranks_tensor *tensors;
    int32_t n_tensors;
    alloc_region region;
    bool followed;     /* of another process: it was told to follow */
    api_limit *limits; /* of all graphs */
    int32_t n_limits;
    int32_t users;  /* programs that are not freed yet */
    uint64_t steps; /* of those that train */
} api_shared;

struct ebb_program {
    ebb_ctx *ctx;
    api_shared *shared;
    run_session *session; /* the shared one */
    int32_t index;        /* of the session's programs */
    run_trainer trainer;
};

/* graph.c: every builder is open ... close. */
bool ebb__api_open(ebb_graph *graph,
                   const char *builder); /* false: no graph, or a mistake was made before */
/* *value, or EBB_NO_VALUE. By address, so that a call in `status` may still write it; may be NULL.
 */
ebb_value ebb__api_close(ebb_graph *graph, ebb_status status, const ir_val *value);
/* EBB_USAGE unless it is a value of the graph. */
ebb_status ebb__api_need(const ebb_graph *graph, ebb_value value, const char *what) EBB_MUST_CHECK;
ebb_status ebb__api_add_variable(ebb_graph *graph, ir_role role, const char *name, ir_dtype dtype,
                                 int32_t rank, const int64_t *dims, ir_val *out) EBB_MUST_CHECK;

/* Members of a caller's struct that are for later. */
static inline bool api_are_zero(const uint64_t *members, size_t bytes) {
    bool zero = true;
    for (size_t i = 0; i < bytes / sizeof *members; i++) {
        zero = zero && members[i] == 0;
    }
    return zero;
}

/* compile.c */
void ebb__api_describe(const ebb_plan *plan, ebb_plan_info *info);

/* ranks.c: graphs that several processes compile together. Alone, status is what it was, and all
 * else does nothing. */
typedef struct api_team {
    ebb_ctx *ctx;
    const ebb_options *options;
    const ir_graph
        *graphs; /* [n]: variables without a reader before another one's are that one's */
    plan_request *list;
    int32_t n, n_training;
    plan_options *settings;
    alloc_region *region; /* as long as the plan may be compiled again */
} api_team;
/* What the options name; NULL: this process is alone. */
ebb_ranks *ebb__api_ranks(const ebb_options *options);
ebb_status ebb__api_check_ranks(ebb_ctx *ctx, const ebb_options *options) EBB_MUST_CHECK;
/* The ebb_reduce of its programs. */
int32_t ebb__api_reduce(const ebb_plan *plan);
/* How this process fares becomes how all do. */
ebb_status ebb__api_agree(ebb_ranks *ranks, ebb_status mine) EBB_MUST_CHECK;
/* Variables that were made before their layer was named are that one's which reads them first. */
ebb_status ebb__api_settle_layers(ir_graph *graph) EBB_MUST_CHECK;
/* `mine`: of what each prepared by itself. Then all know that they compile the same, which stages
 * do what, and which of the list they plan, the first team->n. */
ebb_status ebb__api_share(api_team *team, ebb_status mine) EBB_MUST_CHECK;
/* A session that all have: the leader's returns when all others follow. */
ebb_status ebb__api_lead(api_shared *shared) EBB_MUST_CHECK;
/* Before the session is freed: the others are told that this was all. */
void ebb__api_leave(api_shared *shared);
/* EBB_USAGE where another process leads. */
ebb_status ebb__api_leads(const ebb_program *program) EBB_MUST_CHECK;
/* After a call in which processes talked: names who is lost, and remembers what broke them. */
ebb_status ebb__api_note(const ebb_program *program, ebb_status status);
/* The link becomes theirs; for tests with ranks that are threads. */
ebb_status ebb__api_ranks_of(ebb_ctx *ctx, comm_link *link, double lost_after,
                             ebb_ranks **out) EBB_MUST_CHECK;

/* devices.c: opens what options name; *out stays NULL for the default. EBB_USAGE. */
ebb_status ebb__api_open_device(ebb_ctx *ctx, const char *name, const char *kernels,
                                const device **out) EBB_MUST_CHECK;

/* limits.c: what the elements of inputs index, put behind the list's; the caller frees it. */
ebb_status ebb__api_limits(const ir_graph *graph, api_limit **list, int32_t *n) EBB_MUST_CHECK;
/* Whether elements of the variable are checked when it is set. */
bool ebb__api_is_limited(const ebb_program *program, const plan_variable *variable);
ebb_status ebb__api_check_limits(const ebb_program *program, const plan_variable *variable,
                                 const void *data) EBB_MUST_CHECK;

#endif
