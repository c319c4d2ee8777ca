/* ranks.h - a session on several ranks. The first one leads: it alone knows data and files, and
 * tells the others what to do; they follow. What is stored under one name may lie on one of them,
 * in parts on several, or as copies on all: here it is one tensor, read and written through the
 * leader. A session without other ranks has all its tensors itself. */
#ifndef RUN_RANKS_H
#define RUN_RANKS_H

#include "run/session.h"

/* Host memory of a leader, for bytes on their way between files and other ranks. */
#define RANKS_ROOM "ranks"
enum { RANKS_ROOM_BYTES = 1 << 20 };
static inline plan_extra ranks_room(void) {
    return (plan_extra){RANKS_ROOM, RANKS_ROOM_BYTES};
}
enum { RANKS_TAGS = 2 }; /* from COMM_FIRST_TAG on; those of programs come behind */

/* Bytes [from, from + bytes) of a tensor, which are all of a variable of the rank. */
typedef struct ranks_part {
    int32_t rank, variable;
    uint64_t from, bytes;
} ranks_part;

typedef struct ranks_tensor {
    const char *name;
    ir_type type;
    ir_role role;
    uint64_t bytes;
    ranks_part *parts; /* the leader's own first */
    int32_t n_parts;
} ranks_tensor;

/* Every rank calls it, before its first step: the first one proves that all ranks' messages fit
 * together (plan/ranks.h). EBB_INTERNAL for all if not. Lets go of the plan's lists. */
ebb_status ebb__ranks_prove(run_session *session) EBB_MUST_CHECK;

/* Every rank calls one of the two, once: the leader learns what the others have. */
ebb_status ebb__ranks_lead(run_session *session) EBB_MUST_CHECK;
/* Does what the leader says, until it says that this is the end, and how it ended. */
ebb_status ebb__ranks_follow(run_session *session) EBB_MUST_CHECK;

void ebb__ranks_free(run_session *session);

/* ---- for leaders; without other ranks, the same for the session alone ---- */

/* Those with one of the roles (bit per ir_role), in the order of variables. In memory of `region`.
 */
ebb_status ebb__ranks_tensors(run_session *session, uint32_t roles, alloc_region *region,
                              ranks_tensor **out, int32_t *n) EBB_MUST_CHECK;
/* The tensor's bytes from `from` on, as many as can be had at once; until ebb__ranks_close. */
ebb_status ebb__ranks_open(run_session *session, const ranks_tensor *tensor, uint64_t from,
                           const void **data, uint64_t *bytes) EBB_MUST_CHECK;
ebb_status ebb__ranks_close(run_session *session, const ranks_tensor *tensor, uint64_t from,
                            const void *data) EBB_MUST_CHECK;
/* Writes the tensor everywhere. `read` gives bytes of it. */
typedef ebb_status (*ranks_read)(void *user, uint64_t from, void *data, size_t bytes);
ebb_status ebb__ranks_write(run_session *session, const ranks_tensor *tensor, ranks_read read,
                            void *user) EBB_MUST_CHECK;
/* Zeros all variables of the role; gives the model its first values. */
ebb_status ebb__ranks_zero(run_session *session, ir_role role) EBB_MUST_CHECK;
ebb_status ebb__ranks_draw(run_session *session, uint64_t seed) EBB_MUST_CHECK;
/* Parameters and their averages (UPDATE_AVERAGE): averages become what the parameters are, or both
 * change places, in the memory that they have. */
ebb_status ebb__ranks_start_averages(run_session *session) EBB_MUST_CHECK;
ebb_status ebb__ranks_swap_averages(run_session *session) EBB_MUST_CHECK;
/* Has the others run a program that they share; the leader runs its own part after that. */
ebb_status ebb__ranks_step(run_session *session, int32_t index) EBB_MUST_CHECK;
/* EBB_LOST where another rank is known to have failed. */
ebb_status ebb__ranks_check(run_session *session) EBB_MUST_CHECK;
/* Gets what the leader has only copies of, for programs that it runs alone, if a step has been
 * since.
 */
ebb_status ebb__ranks_refresh(run_session *session) EBB_MUST_CHECK;
/* Has a rank serve (run_session.serve); what they then give each other, both ways. */
ebb_status ebb__ranks_serve(run_session *session, int32_t rank, int32_t what) EBB_MUST_CHECK;
ebb_status ebb__ranks_give(run_session *session, int32_t rank, const void *data,
                           size_t bytes) EBB_MUST_CHECK;
ebb_status ebb__ranks_take(run_session *session, int32_t rank, void *data,
                           size_t bytes) EBB_MUST_CHECK;
/* Ends the others' following, with EBB_OK or EBB_STOPPED. */
ebb_status ebb__ranks_end(run_session *session, ebb_status how) EBB_MUST_CHECK;

/* ---- beside orders ---- */

/* What the first rank has chosen of stages becomes everybody's; layers in `region`. n_layers < 0:
 * it has chosen nothing. */
ebb_status ebb__ranks_share_stages(comm_link *link, double seconds, alloc_region *region,
                                   pass_stages *ways) EBB_MUST_CHECK;
/* After a failure: of a lost rank says where, when, and what is left; hands the status on. */
ebb_status ebb__ranks_lost(const run_session *session, ebb_status status) EBB_MUST_CHECK;

#endif
