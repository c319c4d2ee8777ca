/* lifetime.h - from when to when the bytes that nodes write are needed.
 *
 * Lifetimes are per tile: the rows of a written value between the cuts of its slices. One product
 * over all time steps, read step by step, is T tiles that die apart. Reads through views count for
 * the tiles that they show. Positions are places in the order of nodes.
 */
#ifndef PLAN_LIFETIME_H
#define PLAN_LIFETIME_H

#include "pass/pass.h"

typedef struct plan_tile {
    ir_val value;
    int32_t row, rows; /* along the first axis */
    int32_t death;     /* last position that needs it; birth is its value's */
    int32_t whole_run; /* end of the last run of several nodes that reads all of it, not by units */
    int32_t read_run;  /* end of the last run of several nodes that reads any of it */
    ir_val read_as;    /* what that run reads of it; IR_NONE: several values, such as two slices */
    int32_t stamp;     /* scratch for questions */
    bool handed;       /* its bytes went to a result computed in place */
} plan_tile;

/* tiles[first] .. tiles[end]; first < 0: not known. */
typedef struct plan_tiles {
    int32_t first, end;
} plan_tiles;

typedef struct plan_lifetimes {
    const pass_unit *unit;
    const ir_graph *g;
    int32_t *position; /* by node; -1: not in the order */
    int32_t *birth;    /* by value that a node writes, or variable */
    int32_t *run_end;  /* by position: the last position of its run (pass fuse) */
    int32_t *start;    /* by operand of a join along the first axis: the row where it begins */
    int32_t *latest;   /* by value: scratch for find and extend */
    plan_tile *tiles;
    int32_t *first_tile; /* by value; tiles of v: first_tile[v] .. first_tile[v + 1] */
    plan_tiles *shown;   /* by value: the tiles that it consists of, if they follow each other */
} plan_lifetimes;

/* Exact lifetimes: each tile dies where it is read last. */
ebb_status ebb__lifetimes_find(pass_unit *unit, plan_lifetimes *out) EBB_MUST_CHECK;
/* After in-place decisions: what a run reads or writes stays until it ends, unless a result of the
 * run has its bytes, since members are at different nodes of the run at the same time. */
void ebb__lifetimes_extend_runs(plan_lifetimes *l);

typedef void (*plan_tile_fn)(plan_tile *tile, void *user);
/* Calls fn for every tile that v consists of. */
void ebb__lifetimes_visit(plan_lifetimes *l, ir_val v, plan_tile_fn fn, void *user);

bool ebb__plan_is_alias(const ir_graph *graph, ir_val v);
/* Does it lie outside the device's memory? */
bool ebb__plan_is_away(const ir_graph *graph, ir_val v);

#endif
