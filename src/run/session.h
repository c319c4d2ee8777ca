/* session.h - a plan brought to life: one arena, one team, programs that run step after step
 * without allocating. Tracks the highest byte it hands to a kernel, apart from what the plan says.
 */
#ifndef RUN_SESSION_H
#define RUN_SESSION_H

#include "plan/plan.h"

/* Code and libraries on top of the plan (libxsmm alone is 13 MiB): what a budget by percentage
 * leaves. */
#define RUN_OVERHEAD_BYTES ((uint64_t)32 << 20)

/* The budget that a percentage of this machine's memory stands for, in bytes, and the percentage
 * where nobody gives one. */
#define RUN_AUTO_PERCENT 80.0
uint64_t ebb__run_budget(double percent);

typedef struct run_session {
    ebb_ctx *ctx;
    ebb_plan *plan; /* owned; graphs released */
    char *arena;
    device_stream *stream;
    const device_instr *const *programs[PLAN_MAX_PROGRAMS];
    uint64_t measured_bytes; /* highest end of anything handed to a kernel or copy so far */
    device_observe_fn observe;
    void *observe_user;
} run_session;

/* Takes the plan over, also on failure. Maps the arena, writes the programs into it, releases all
 * planning memory, then (new) touches every page. Variables start as zeros. Who has something to
 * move into the arena and to free first opens, moves and touches. */
ebb_status ebb__run_new(ebb_ctx *ctx, ebb_plan *plan, run_session **out) EBB_MUST_CHECK;
ebb_status ebb__run_open(ebb_ctx *ctx, ebb_plan *plan, run_session **out) EBB_MUST_CHECK;
void ebb__run_touch(run_session *session);
void ebb__run_free(run_session *session);

/* Runs program `index` once. Cannot fail. */
void ebb__run_step(run_session *session, int32_t index);

/* Storage by name; NULL if there is none. Counts as handed out. */
void *ebb__run_variable(run_session *session, const char *name, uint64_t *bytes);
const void *ebb__run_output(run_session *session, int32_t index, const char *name);

#endif
