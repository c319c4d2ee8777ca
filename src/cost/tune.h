/* tune.h - measures products on this machine, before planning. A survey collects the different
 * products of the graphs that the planner will consider; tuning times every form of each, the
 * products that matter most first, within a time and a memory limit, and writes the table.
 */
#ifndef COST_TUNE_H
#define COST_TUNE_H

#include "cost/cost.h"

/* One kind of node: enough of it to build it again by itself. */
typedef struct cost_sample {
    cost_key key;
    uint16_t op;
    int32_t n_in;
    ir_type in[COST_MAX_IN]; /* rank 0: absent */
    ir_attr attr;
    int32_t n_forms, forms[DEVICE_MAX_FORMS]; /* that the kernel offers for it, best guess first */
    double model;                             /* built-in seconds of one */
    int64_t count;                            /* in one step: the most of all graphs */
    int64_t seen;                             /* in the graph being surveyed */
    double weight;                            /* predicted seconds, summed over all graphs */
    ir_label label;                           /* of the first one met */
} cost_sample;

typedef struct cost_survey {
    ebb_ctx *ctx;
    const device *dev;
    int members;
    cost_table index; /* entry i belongs to samples[i] */
    cost_sample *samples;
    int32_t n_samples, cap_samples;
} cost_survey;

void ebb__cost_survey_init(cost_survey *survey, ebb_ctx *ctx, const device *dev, int members);
void ebb__cost_survey_fini(cost_survey *survey);
/* Adds the nodes of a graph; kernels by node, as select chose them. */
ebb_status ebb__cost_survey_add(cost_survey *survey, const ir_graph *graph,
                                const int32_t *kernels) EBB_MUST_CHECK;
/* How many samples the table does not know, or knows from a busy machine only; with `again` those
 * count too that it has only an estimate for. */
int32_t ebb__cost_survey_missing(const cost_survey *survey, const cost_table *table, bool again);

/* Sets the table's pace: measured over built-in seconds of the survey's products, of which half the
 * built-in seconds are faster and half are slower. One slow moment does not move that; 1: none was
 * measured, or what the table knows, maybe from other models, is less than half of all. */
ebb_status ebb__cost_survey_pace(const cost_survey *survey, cost_table *table) EBB_MUST_CHECK;

typedef struct cost_limits {
    double seconds; /* in all */
    uint64_t bytes; /* of the operands and scratch together; at most COST_TUNE_BYTES are used */
    bool again;     /* also measure what an earlier tuning had no time for */
    /* Called after each product; may be NULL. */
    void (*done)(void *user, int32_t done, int32_t total);
    void *user;
} cost_limits;

#define COST_TUNE_BYTES ((uint64_t)64 << 20)

typedef struct cost_tuned {
    int32_t measured, left; /* products */
    double seconds;
    double unrest; /* how many times as long a run took as the least of its form, on the mean */
    double share;  /* of the time of all runs in which their first member was on a core */
} cost_tuned;

/* Measures what the table misses or has from a busy machine, and adds it. What there was no time or
 * memory for gets an entry without forms, so that it is not tried again at every start. */
ebb_status ebb__cost_tune(const cost_survey *survey, cost_table *table, const cost_limits *limits,
                          cost_tuned *out) EBB_MUST_CHECK;

#endif
