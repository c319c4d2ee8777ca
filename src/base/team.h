/* team.h - a team of pthreads that runs one function together, each with its index, and meets at
 * barriers that spin briefly and then sleep. The caller is member 0. Clean under TSan. */
#ifndef BASE_TEAM_H
#define BASE_TEAM_H

#include "base/ctx.h"

typedef struct base_team base_team;
typedef void (*team_fn)(void *arg, int member, int members);

ebb_status ebb__team_new(ebb_ctx *ctx, int members, base_team **out) EBB_MUST_CHECK;
void ebb__team_free(base_team *team);
int ebb__team_size(const base_team *team);
/* Runs fn on every member; returns when all have returned. Allocates nothing. */
void ebb__team_run(base_team *team, team_fn fn, void *arg);
/* Called by every member inside fn: none leaves before all have come. */
void ebb__team_barrier(base_team *team);

/* Share of member m of n in [0, count), in multiples of `grain`: [*begin, *end). */
static inline void ebb__team_share(int64_t count, int64_t grain, int member, int members,
                                   int64_t *begin, int64_t *end) {
    int64_t blocks = (count + grain - 1) / grain;
    int64_t lo = blocks * member / members * grain, hi = blocks * (member + 1) / members * grain;
    *begin = lo < count ? lo : count;
    *end = hi < count ? hi : count;
}

#endif
