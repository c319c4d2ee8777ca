/* session.h - a plan brought to life: the device's memory, the host's block with the programs in
 * it, one team, and programs that run step after step without allocating. Tracks the highest byte
 * that it hands out of either, apart from what the plan says.
 *
 * The device's memory has one door, the functions below: whoever reads or writes a variable or an
 * output binds its place once and goes through them. Where the host may touch the memory itself,
 * as on the CPU, a place is mapped at its own address and that costs nothing.
 */
#ifndef RUN_SESSION_H
#define RUN_SESSION_H

#include "base/file.h"
#include "comm/comm.h"
#include "plan/plan.h"

/* Code and libraries on top of the plan (libxsmm alone is 13 MiB): what a budget by percentage
 * leaves. */
#define RUN_OVERHEAD_BYTES ((uint64_t)32 << 20)

/* The budget that a percentage of this machine's memory stands for, in bytes, and the percentage
 * where nobody gives one. */
#define RUN_AUTO_PERCENT 80.0
uint64_t ebb__run_budget(double percent);

/* What a step says of itself when it is over. */
typedef struct run_news {
    float loss;
    int32_t bad;
    double norm;
} run_news;

typedef struct run_session {
    ebb_ctx *ctx;
    ebb_plan *plan; /* owned; graphs released */
    char *host;     /* the caller's extra memory, and programs */
    void *buffer;   /* the device's memory: variables, transients */
    device_stream *stream;
    const device_instr *const *programs[PLAN_MAX_PROGRAMS];
    uint64_t host_high, device_high; /* highest end of anything handed out so far */
    uint64_t measured_bytes;         /* the same of both together */
    file_writer away; /* what waits outside the device's memory, if in a file (away.h) */
    uint64_t away_high, moved_bytes; /* highest end of that; bytes moved so far, both ways */
    /* Programs with sparse values: steps that did not fit and were done by the program that stands
     * in; most bytes of heaps that the last step that tried used at a time; the program that was
     * asked for last and the one that did it; how many tries in a row did not fit, and how many
     * steps will not be tried for that. */
    uint64_t fallback_steps, sparse_bytes;
    int32_t asked, ran;
    int32_t tries_failed, steps_untried;
    device_observe_fn observe;
    void *observe_user;
    comm_link *link;   /* of the ranks that share the programs; NULL: there is one. Not owned */
    bool copies_fresh; /* of other ranks' variables (ebb__ranks_refresh) */
    struct run_ranks *ranks; /* of a leader: what other ranks have (ranks.h); NULL: it is none */
    double lost_seconds;     /* without a sign of life, before a rank that is waited for is lost */
    /* Of a follower: what it does for the leader beside steps (ebb__ranks_serve); NULL: nothing. */
    ebb_status (*serve)(void *user, struct run_session *session, int32_t what);
    void *serve_user;
    bool no_compute, no_messages; /* for measurements: steps leave one of them out */
    /* For who reports a loss: the step that runs, from 1, and that of the newest checkpoint, -1:
     * none. Followers hear of both with every step. */
    int64_t at_step, saved_step;
    /* Of all steps so far: */
    uint64_t messages, sent_bytes;
    double waiting_seconds;      /* for messages */
    run_news news[DEVICE_MARKS]; /* copied from the device while later steps go on (trainer.h) */
} run_session;

/* Takes the plan over, also on failure. Maps both spaces, writes the programs, releases all
 * planning memory. Variables start as zeros. ebb__run_new is ebb__run_open, then ebb__run_touch
 * (every page). Who moves memory of his own into the host's block calls the two himself, and moves
 * and frees between them. */
ebb_status ebb__run_new(ebb_ctx *ctx, ebb_plan *plan, run_session **out) EBB_MUST_CHECK;
ebb_status ebb__run_open(ebb_ctx *ctx, ebb_plan *plan, run_session **out) EBB_MUST_CHECK;
void ebb__run_touch(run_session *session);
void ebb__run_free(run_session *session);

/* Runs program `index` once; where it gives up, or did so in many steps before, the program that
 * does the same in another way. */
ebb_status ebb__run_step(run_session *session, int32_t index) EBB_MUST_CHECK;

/* ---- the door ---- */

/* Bytes of the device's memory that have a name, bound once; bytes 0: there is no such name. */
typedef struct run_place {
    uint64_t offset, bytes;
} run_place;

static inline run_place run_at(const plan_variable *variable) {
    return (run_place){variable->offset, variable->bytes};
}
static inline run_place run_output_at(const plan_output *output) {
    return (run_place){output->offset, ebb__ir_type_bytes(&output->type)};
}
/* `bytes` of the place from byte `from` on. */
static inline run_place run_part(run_place place, uint64_t from, uint64_t bytes) {
    return (run_place){place.offset + from, bytes};
}
run_place ebb__run_find(const run_session *session, const char *name); /* a variable */
/* Of program `index`, after it has run and until another one runs. */
run_place ebb__run_find_output(const run_session *session, int32_t index, const char *name);

/* The place as memory of the host, until it is unmapped with the same access (device_access); not
 * while a program runs. `out` is the address of a pointer. The _all forms take n places. One
 * without bytes is skipped: its address is NULL. If one cannot be mapped, none is, and out[] means
 * nothing. Unmapping goes on after a failure and gives the first. */
ebb_status ebb__run_map(run_session *session, run_place place, unsigned access,
                        void *out) EBB_MUST_CHECK;
ebb_status ebb__run_unmap(run_session *session, run_place place, unsigned access,
                          const void *data) EBB_MUST_CHECK;
ebb_status ebb__run_map_all(run_session *session, const run_place *places, int32_t n,
                            unsigned access, void **out) EBB_MUST_CHECK;
ebb_status ebb__run_unmap_all(run_session *session, const run_place *places, int32_t n,
                              unsigned access, void *const *data) EBB_MUST_CHECK;
/* Copies the whole place to or from `data`. */
ebb_status ebb__run_read(run_session *session, run_place place, void *data) EBB_MUST_CHECK;
ebb_status ebb__run_write(run_session *session, run_place place, const void *data) EBB_MUST_CHECK;
ebb_status ebb__run_zero(run_session *session, run_place place) EBB_MUST_CHECK;
/* Reads without waiting: the bytes are in `data` when a mark that was set behind it was awaited.
 * Marks are awaited in the order they were set; at most DEVICE_MARKS at a time. */
ebb_status ebb__run_ask(run_session *session, run_place place, void *data) EBB_MUST_CHECK;
ebb_status ebb__run_mark(run_session *session) EBB_MUST_CHECK;
ebb_status ebb__run_await(run_session *session) EBB_MUST_CHECK;

/* The caller's own memory (plan_extra) by name, which is the host's: no door. NULL: none. */
void *ebb__run_host(run_session *session, const char *name, uint64_t *bytes);

/* Addresses, of a place or by name, for who knows that the host may touch the memory itself; NULL
 * where it may not, or there is no such name. */
void *ebb__run_address(run_session *session, run_place place);
void *ebb__run_variable(run_session *session, const char *name, uint64_t *bytes);
const void *ebb__run_output(run_session *session, int32_t index, const char *name);

#endif
