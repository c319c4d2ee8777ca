/* timeline.h - the bytes of the arena over one step: who holds them at each instruction, by layer
 * and kind. What pictures are drawn from.
 *
 * Long programs are reduced to columns: runs of instructions, each shown as it is at the one of
 * them with most bytes alive. A column is a true moment, so its bands add up, and the fullest
 * column is the fullest moment of the step: the placement's load.
 */
#ifndef PLAN_TIMELINE_H
#define PLAN_TIMELINE_H

#include "plan/plan.h"

typedef struct plan_column {
    int32_t first, n; /* instructions, counted from 0 */
    int32_t fullest;  /* of them: the one shown */
    ir_node node;     /* its node */
    ir_phase phase;   /* of most of them */
    uint64_t bytes;   /* transient bytes alive at the one shown: the sum of all bands */
} plan_column;

/* Transient bytes of one layer and one kind: stash of one form, gradients or workspace. */
typedef struct plan_band {
    const char *layer; /* the graph's: until ebb__plan_release */
    ir_kind kind;
    int32_t form;    /* of stash, as op_forms counts them; else 0 */
    uint64_t *bytes; /* by column */
    uint64_t most;   /* over all columns */
} plan_band;

typedef struct plan_timeline {
    alloc_region region;
    plan_column *columns;
    int32_t n_columns;
    plan_band *bands; /* stash first, form by form, then gradients, then workspace; layers in the
                         model's order */
    int32_t n_bands;
    int32_t n_instrs;
    int32_t instrs[IR_PHASES];
    uint64_t fixed[IR_KINDS]; /* held all the time: weights, optimizer, data, program */
    int32_t fullest;          /* column; -1: there is none */
    uint64_t load;            /* its bytes */
} plan_timeline;

/* The step of the plan's leading program in at most `columns` columns. Before ebb__plan_release;
 * free with ebb__timeline_free, also after a failure. */
ebb_status ebb__timeline_make(const ebb_plan *plan, int32_t columns,
                              plan_timeline *out) EBB_MUST_CHECK;
void ebb__timeline_free(plan_timeline *timeline);

#endif
