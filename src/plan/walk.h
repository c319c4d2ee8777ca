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
    plan_request program; /* its graph has been through the passes that all candidates share */
    uint64_t variable_bytes, variable_end; /* of all programs: see ebb__walk_arena */
    plan_grid grid;
    /* What is found. */
    plan_choice whole[PLAN_MAX_WHOLE]; /* nothing saved; by the way of PLAN_KNOB_WHOLE */
    int32_t keep_all;                  /* which of them is keep-all */
    plan_choice plain; /* what is taken without knobs that save, and without a limit */
    plan_choice list[PLAN_MAX_CHOICES]; /* not beaten in bytes and seconds, fastest first */
    int32_t n_list;
} plan_walk;

/* Finds them all. */
ebb_status ebb__walk_run(plan_walk *walk) EBB_MUST_CHECK;

/* Size of a prepared program under a choice; of no use where `bar` (may be NULL) says so. What is
 * taken in the end is verified, this is not. */
ebb_status ebb__walk_measure(ebb_ctx *ctx, const plan_options *options, const plan_request *program,
                             const plan_choice *choice, const plan_bar *bar,
                             plan_size *out) EBB_MUST_CHECK;
/* Takes a program's graph through the passes that do the same for every candidate: built where it
 * is not given. *out is to be closed in any case. */
ebb_status ebb__walk_prepare(ebb_ctx *ctx, const plan_options *options, const plan_request *request,
                             ir_graph *out) EBB_MUST_CHECK;
/* How passes carry out a choice, from a forward graph or, `prepared`, from there on. */
pass_config ebb__walk_config(const plan_options *options, const plan_choice *choice, bool prepared);
/* The candidates without knobs that save. */
ebb_status ebb__walk_plain(ebb_ctx *ctx, const plan_grid *grid, plan_choice list[PLAN_MAX_CHOICES],
                           int32_t *n) EBB_MUST_CHECK;
/* Turns one knob of a choice, which keeps the numbers that it had until it is measured again. */
void ebb__walk_turn(const plan_grid *grid, plan_choice *choice, int32_t knob, int32_t way);
/* Most rows that a loss of the graph has. */
int32_t ebb__walk_rows(const ir_graph *graph);

/* Keeps a list sorted by seconds and free of plans that another beats in bytes and seconds; what
 * takes more than `most` bytes is not listed either. */
ebb_status ebb__walk_add(ebb_ctx *ctx, plan_choice list[PLAN_MAX_CHOICES], int32_t *n,
                         uint64_t most, plan_choice fresh) EBB_MUST_CHECK;
/* Which of a list a budget takes; the last if nothing fits. */
int32_t ebb__walk_choose(const plan_choice *list, int32_t n, const plan_choice *plain,
                         uint64_t budget);

/* What an arena takes: programs, variables, transients (arena.c lays them out). */
uint64_t ebb__walk_arena(uint64_t variable_bytes, uint64_t variable_end, uint64_t programs,
                         uint64_t transients);

#endif
