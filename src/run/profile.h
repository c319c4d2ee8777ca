/* profile.h - where a step's time goes: every instruction of a program is timed, and what is alike
 * (same op, kernel, shapes, layer) is summed up. Out of these groups come the tables by phase of
 * training and by layer, and the slowest groups.
 *
 * All figures are those of one step, the fastest that was observed, so that they belong together:
 * the phases, the last of which is what no instruction accounts for, sum to its wall time. Only
 * `least` takes every instruction from the step in which it was fastest: on a machine that others
 * use too, no step as a whole may be undisturbed, but every instruction is in some step.
 *
 *   ebb__profile_new     while the plan has its graphs: before the session takes it over
 *   ebb__profile_step    as often as wanted
 *   ebb__profile_finish  once: fills phases, layers and top
 */
#ifndef RUN_PROFILE_H
#define RUN_PROFILE_H

#include "run/trainer.h"

enum { PROFILE_TOP = 10 };

typedef struct profile_row {
    const char *name;
    int64_t calls;       /* in a step */
    double seconds;      /* of the step that is kept */
    double least;        /* seconds, every instruction at its fastest */
    double flops, bytes; /* of a step, as the ops' cost columns say */
} profile_row;

/* Instructions that differ in time and address only. */
typedef struct profile_group {
    profile_row row; /* name: `kernel` */
    char kernel[32]; /* "matmul.xsmm" */
    char form[32];   /* empty if the kernel has none */
    char shape[48]; /* of the first result; of a product with the length of its sums: "20x800 k=200"
                     */
    int32_t phase, layer; /* in the profile's lists */
    double seconds;       /* of the step that is running */
    ir_node node;         /* one of them; meaningful while the graph lives */
} profile_group;

typedef struct run_profile {
    ebb_ctx *ctx;
    const run_session *session; /* that runs the step ... */
    int32_t program;            /* ... of this program */
    alloc_region region;        /* holds all of the below; nothing is added by steps */
    int32_t *group_of;          /* by node of the graph; -1: nothing to run */
    int32_t n_nodes;
    double *least; /* by node: seconds of its fastest call; 0: none yet */
    profile_group *groups;
    int32_t n_groups;
    profile_row *phases, *layers;
    int32_t n_phases, n_layers;
    int32_t top[PROFILE_TOP]; /* groups, slowest first */
    int32_t n_top;
    double observed_seconds; /* of the step that is kept; 0: there is none */
    double least_seconds;    /* all instructions, each at its fastest */
    double step_seconds;     /* of the fastest step without observing; the caller's to fill in */
    double peak_flops;       /* a second, of the device with the threads used; likewise */
    double flops;            /* of a step */
    uint64_t memory_bytes;   /* host memory it takes beside the plan */
} run_profile;

ebb_status ebb__profile_new(ebb_plan *plan, int32_t program, run_profile **out) EBB_MUST_CHECK;
void ebb__profile_free(run_profile *profile);

/* ebb__trainer_step, observed; kept if it is the fastest so far, and was not done by the program's
 * fallback. Allocates nothing. */
ebb_status ebb__profile_step(run_profile *profile, run_trainer *trainer, int32_t program,
                             double rate) EBB_MUST_CHECK;
void ebb__profile_finish(run_profile *profile);

#endif
