/* api.h - what stands behind the public handles, and what the files of this layer share.
 *
 * This layer checks arguments, keeps a builder's first mistake, and maps names to bytes; all work
 * is done by the layers below. Nothing here is seen by them.
 */
#ifndef API_API_H
#define API_API_H

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

/* What programs that were compiled together share. */
typedef struct api_shared {
    const device *dev; /* opened for them; NULL: the default */
    run_session *session;
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

/* compile.c */
void ebb__api_describe(const ebb_plan *plan, ebb_plan_info *info);

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
