/* passes.h - the passes that turn a graph into addresses; they see storage, others do not. */
#ifndef PLAN_PASSES_H
#define PLAN_PASSES_H

#include "pass/pass.h"
#include "plan/storage.h"

extern const pass_def ebb__pass_schedule, ebb__pass_place, ebb__pass_verify;

/* The halves of place: who shares bytes and when, with the load in unit->placement; then the
 * offsets. */
ebb_status ebb__place_store(pass_unit *unit) EBB_MUST_CHECK;
ebb_status ebb__place_offsets(pass_unit *unit) EBB_MUST_CHECK;

/* Most transient bytes alive at one position, and that position (may be NULL): what no placement
 * can go below. */
ebb_status ebb__plan_load(pass_unit *unit, const plan_placement *placement, int32_t *position,
                          uint64_t *bytes) EBB_MUST_CHECK;

/* Replays the program symbolically (check.c): every operand holds the value the graph says, nothing
 * overlaps what is still needed, nothing lies beyond the arena, every kernel has its scratch,
 * in-place only where the op allows it. Shares no code with storage and place. */
ebb_status ebb__plan_check(pass_unit *unit, uint64_t arena_bytes) EBB_MUST_CHECK;

/* The pipeline: names in order, and a run over a unit from config->first up to before `end`. The
 * unit works on a copy of the graph, or on the one that the request builds; it is to be closed in
 * any case. */
const char *ebb__pass_name(pass_id id);
bool ebb__pass_optional(pass_id id);
struct plan_request;
ebb_status ebb__plan_open(pass_unit *unit, ebb_ctx *ctx, const pass_config *config,
                          const struct plan_request *request) EBB_MUST_CHECK;
void ebb__plan_close(pass_unit *unit);
ebb_status ebb__plan_run_passes(pass_unit *unit, pass_id end) EBB_MUST_CHECK;

#endif
