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

/* Time steps of a sum, where stages go through `steps` in chunks of so many. */
int32_t ebb__plan_sum_steps(int64_t steps, int64_t chunk_steps);
void ebb__plan_take_stages(const pass_stages *stages, pass_ranks *ranks);

#endif
