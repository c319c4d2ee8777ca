/* walk.h - the plans of one program, from the fastest to the smallest.
 *
 * Every candidate (a way for each knob of knobs.h) is compiled to addresses, so its bytes are
 * exact. What is tried, and what it takes, follows from the graph and from built-in times alone:
 * bytes are the same whatever was measured on a machine.
 */
#ifndef PLAN_WALK_H
#define PLAN_WALK_H

#include "plan/plan.h"

typedef struct plan_walk {
    ebb_ctx *ctx;
    const plan_options *options;
    plan_request program;                  /* with a graph that ebb__walk_prepare gave */
    uint64_t variable_bytes, variable_end; /* of all programs: see ebb__plan_variable_bytes */
    plan_grid grid;
    uint64_t away_most; /* bytes that may wait outside the device's memory */
    /* Plans of the same program without sparse values, the fastest first: a step that a plan with
     * them gives up is done by the fastest that fits its room, or by the smallest. NULL: none. */
    const plan_choice *fallbacks;
    int32_t n_fallbacks;
    /* What ebb__walk_run finds: */
    plan_choice whole[PLAN_MAX_WHOLE]; /* nothing saved; by the way of PLAN_KNOB_WHOLE */
    int32_t keep_all;                  /* which of them is keep-all, taken without a limit */
    plan_choice plain; /* what would be taken without a limit and without the knobs that save: the
                          smallest that is at most 2% slower than the fastest */
    plan_choice list[PLAN_MAX_CHOICES]; /* no other is smaller and faster; the fastest first */
    int32_t n_list;
} plan_walk;

/* arena.c: whether values could wait outside the device's memory, and how many bytes of them and of
 * the leading program's instructions at most, where `others` are taken by other programs; what the
 * host has to have for so many bytes of instructions and of values that wait there, and may have.
 */
bool ebb__plan_can_offload(const plan_options *options);
uint64_t ebb__plan_away_most(const ebb_plan *plan, const plan_options *options, uint64_t others);
uint64_t ebb__plan_host_bytes(const ebb_plan *plan, uint64_t instr_bytes, uint64_t away_bytes);
uint64_t ebb__plan_host_most(const ebb_plan *plan, const plan_options *options);
/* judge.c: whether the plan that was chosen fits both memories; EBB_BUDGET says what would. */
ebb_status ebb__plan_judge(ebb_plan *plan, const plan_options *options) EBB_MUST_CHECK;
ebb_status ebb__walk_run(plan_walk *walk) EBB_MUST_CHECK;
/* Its first part: only what keeps everything, `whole` and `keep_all`. */
ebb_status ebb__walk_whole(plan_walk *walk) EBB_MUST_CHECK;

/* What a prepared program takes under a choice. `bar` (may be NULL) can call it off before it is
 * placed. The program is not verified here: the one that is taken in the end is. */
ebb_status ebb__walk_measure(ebb_ctx *ctx, const plan_options *options, const plan_request *program,
                             const plan_choice *choice, const plan_bar *bar,
                             plan_size *out) EBB_MUST_CHECK;
/* Prepares a program: its graph, which is built if it is not given, goes through the passes that do
 * the same for every candidate. *out is to be freed (ebb__ir_fini) in any case. */
ebb_status ebb__walk_prepare(ebb_ctx *ctx, const plan_options *options, const plan_request *request,
                             ir_graph *out) EBB_MUST_CHECK;
/* The settings by which passes carry out a choice, on a forward graph or on a `prepared` one. */
pass_config ebb__walk_config(const plan_options *options, const plan_choice *choice, bool prepared);
/* Lists, without measuring them, the candidates that turn none of the knobs that save. */
ebb_status ebb__walk_plain(ebb_ctx *ctx, const plan_grid *grid, plan_choice list[PLAN_MAX_CHOICES],
                           int32_t *n) EBB_MUST_CHECK;
/* Turns one knob of a choice. Its bytes and seconds are the old ones until it is measured again. */
void ebb__walk_turn(const plan_grid *grid, plan_choice *choice, int32_t knob, int32_t way);
/* Most rows that a loss of the graph has. */
int32_t ebb__walk_rows(const ir_graph *graph);

/* Keeps a list sorted by seconds and free of plans that another beats in bytes and seconds; what
 * takes more than `most` bytes is not listed either. */
ebb_status ebb__walk_add(ebb_ctx *ctx, plan_choice list[PLAN_MAX_CHOICES], int32_t *n,
                         uint64_t most, plan_choice fresh) EBB_MUST_CHECK;
/* Which plan of a list a budget takes, the last if none fits; walk.c says how, and by what plain.
 */
int32_t ebb__walk_choose(const plan_grid *grid, const plan_choice *list, int32_t n,
                         const plan_choice *plain, uint64_t budget);

/* Bytes of an arena with the walk's variables: ebb__plan_lay_out comes to the same sum. */
uint64_t ebb__walk_arena(const plan_walk *walk, uint64_t program_bytes, uint64_t transient_bytes);

#endif
