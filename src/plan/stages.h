/* stages.h - which rank of a pipeline does which layers, and how many time steps stages hand on
 * together: chosen by the forecast of a step. */
#ifndef PLAN_STAGES_H
#define PLAN_STAGES_H

#include "plan/forecast.h"

/* Ways to share the layers of the program, the one whose step is forecast to be shortest first, and
 * at the end one that may need the fewest bytes; all with options->ranks.chunk_steps, unless
 * `any_chunk`. Prices are the built-in ones of one thread.
 * In `region`. EBB_USAGE if there are too few layers. */
typedef struct stages_list {
    pass_stages *at;
    int32_t n;
} stages_list;
ebb_status ebb__plan_list_stages(ebb_ctx *ctx, const plan_request *program,
                                 const plan_options *options, const forecast_network *network,
                                 bool any_chunk, alloc_region *region,
                                 stages_list *out) EBB_MUST_CHECK;

/* Where nobody has chosen: the slowest stage of the program as fast as can be. Leaves ranks as they
 * are if they have been chosen, or there are no stages. */
ebb_status ebb__plan_even_stages(ebb_ctx *ctx, const plan_request *program,
                                 const plan_options *options, alloc_region *region,
                                 pass_ranks *ranks) EBB_MUST_CHECK;

/* What a rank needs of what it may take, the one of all with the least room. */
typedef ebb_status (*stages_share_fn)(void *user, const pass_stages *ways, double *share);
/* The first of the list that fits all ranks; if none does, the one that lacks least, which is then
 * refused with that. share NULL: whatever they need. */
ebb_status ebb__plan_pick_stages(const stages_list *list, stages_share_fn share, void *user,
                                 pass_stages *out) EBB_MUST_CHECK;

/* Where stages go through `steps` time steps in chunks: of chunk_steps, or, if that is 0, enough
 * for them to be busy most of the time, as large as that allows; and a few products for gradients
 * of weights. Where a group has several shards, these take turns instead. */
void ebb__plan_set_chunks(pass_ranks *ranks, int64_t shards, int64_t steps, int64_t chunk_steps);
void ebb__plan_take_stages(const pass_stages *stages, pass_ranks *ranks);

#endif
