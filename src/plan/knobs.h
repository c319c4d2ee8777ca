/* knobs.h - what the budget walk varies, as a table with a row a knob. docs/add-a-knob.md follows
 * an example.
 *
 * A knob is a choice between numbered ways to carry out a program that differ in bytes and seconds
 * and never in bits. Number 0 leaves everything as it is. A way is a set of values for settings of
 * passes (pass_knobs), so a candidate of the walk is a point on a grid: one number a knob. The
 * order of the rows is the order in which the walk turns to them (walk.c).
 */
#ifndef PLAN_KNOBS_H
#define PLAN_KNOBS_H

#include "pass/pass.h"

enum {
    PLAN_KNOB_WHOLE,  /* row 0 saves nothing by itself: it is there also where everything is kept */
    PLAN_KNOB_SERIES, /* row 1: each way takes fewer bytes than the one before it, up to a point */
    PLAN_KNOB_SAVING, /* from here on: ways to save that have no such order */
    PLAN_MAX_KNOBS = 10,
    PLAN_MAX_WHOLE = 4 /* ways of row 0 */
};

/* How nets over images may be cut (pass_knobs.chunk_images): as saves most, or only one way. */
typedef enum plan_chunks { CHUNKS_AUTO, CHUNKS_NONE, CHUNKS_SEGMENT, CHUNKS_NET } plan_chunks;

/* Ways to save of nets over images: whatever there is, or only the forms that Gist has for what
 * waits (Jain et al. 2018): signs, indices of pools, what is left without zeros or in fewer bits,
 * made numbers of as a whole right before it is read. Batches are whole, nothing is repeated. */
typedef enum plan_encode { ENCODE_AUTO, ENCODE_GIST } plan_encode;

/* What decides which ways are worth trying. */
typedef struct plan_reach {
    int32_t rows, steps; /* most rows of a loss, most time steps, of any program */
    int32_t images;      /* most images of a batch of maps, of one that trains; 0: there are none */
    plan_chunks chunks;  /* ways to cut them that may be taken */
    plan_encode encode;  /* ways to save that may be taken */
    bool stash;          /* what waits for backward is rounded: codes of that can be kept */
    bool sparse;         /* what has zeros may wait without them: the step may be given up */
    uint32_t disabled;   /* bit per pass_id */
} plan_reach;

typedef struct plan_way {
    pass_knobs knobs; /* a way changes the settings of its own knob and leaves the others */
    bool chained;     /* one of a chain of ways that take ever fewer bytes */
    uint64_t saving;  /* the last way of the chain must have saved one part in so many of the one
                         before it, or neither this way nor any behind it is tried; 0: in any case */
} plan_way;

typedef struct plan_knob {
    const char *name;
    pass_id pass;  /* carries it out: where that is disabled only way 0 is left */
    bool training; /* a program that does not train keeps way 0 */
    int32_t n;     /* ways */
    /* Sets *out to way i; false: it is not worth trying. Way 0 always is. */
    bool (*way)(const plan_reach *reach, int32_t i, plan_way *out);
    /* What a plan does, ", loss by 64 rows", if there is something to say; `again`: it has nodes
     * that are computed again. */
    void (*describe)(const pass_knobs *knobs, bool again, char *text, size_t bytes);
} plan_knob;

/* All candidates there are. */
typedef struct plan_grid {
    const plan_knob *knobs;
    int32_t n_knobs;
    plan_reach reach;
} plan_grid;

/* The grid of ebb's own knobs. */
plan_grid ebb__knobs_grid(plan_reach reach);
/* Way i of one knob, as plan_knob.way gives it. */
bool ebb__knobs_way(const plan_grid *grid, int32_t knob, int32_t i, plan_way *out);
/* The settings of a point. */
pass_knobs ebb__knobs_at(const plan_grid *grid, const int32_t at[PLAN_MAX_KNOBS]);
/* In words, for people. */
void ebb__knobs_describe(const pass_knobs *knobs, bool again, char *text, size_t bytes);

/* Sets what no pass from `next` on reads to 0: the graph shows it by now. */
void ebb__knobs_spend(pass_knobs *knobs, pass_id next);
/* Of every setting there is. */
uint64_t ebb__knobs_hash(const pass_knobs *knobs);

#endif
