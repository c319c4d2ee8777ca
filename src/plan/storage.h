/* storage.h - which values share bytes, and when each byte is needed.
 *
 * Aliases and in-place results form trees: every value lies at a fixed byte offset inside its
 * root's block. A piece is what one node really writes (a tile of a result, see lifetime.h, or a
 * kernel's scratch), with the span of positions during which it must not be overwritten. A stack of
 * T operands is one block of T pieces that are born and die apart.
 */
#ifndef PLAN_STORAGE_H
#define PLAN_STORAGE_H

#include "pass/pass.h"

typedef struct plan_piece {
    int32_t block;        /* index of the block */
    ir_val value;         /* IR_NONE: scratch of `node` */
    ir_node node;         /* its producer */
    uint64_t lo, hi;      /* bytes inside the block */
    uint64_t own;         /* how many of them it really writes: rows may lie apart */
    int32_t birth, death; /* positions in the order, both inclusive */
    ir_kind kind;
} plan_piece;

typedef struct plan_block {
    ir_val variable;  /* a variable's own bytes, kept over steps; else IR_NONE */
    bool away;        /* outside the device's memory (pass/offload.c) */
    uint64_t bytes;   /* exact, not rounded */
    int32_t first, n; /* pieces */
    uint64_t offset;  /* from place: variables from the arena's start, what is away from away_base,
                         others from transient_base */
} plan_block;

typedef struct plan_placement {
    int32_t n_values;
    int32_t *block;   /* by value; -1: nothing lives there (dead or unused) */
    uint64_t *offset; /* by value: bytes from the block's start */
    int32_t *ld;      /* by value: elements from row to row */
    int32_t *scratch; /* by node: block of its kernel's scratch; -1: none */
    plan_block *blocks;
    int32_t n_blocks;
    plan_piece *pieces; /* grouped by block */
    int32_t n_pieces;
    int32_t n_positions;
    uint64_t transient_base;  /* where transient blocks begin; variables lie below */
    uint64_t transient_bytes; /* from place: highest end of a transient block */
    uint64_t load_bytes;      /* from place: most bytes alive at one position: the lower bound */
    /* What is away has addresses behind all of the device's, so that each address means one thing:
     * where they begin, and how many bytes there are. */
    uint64_t away_base, away_bytes;
} plan_placement;

/* Bytes that come and go within a step, in the device's memory. */
static inline bool plan_is_transient(const plan_block *block) {
    return block->variable == IR_NONE && !block->away;
}

static inline uint64_t plan_block_address(const plan_placement *p, int32_t block) {
    const plan_block *b = &p->blocks[block];
    return b->offset + (b->away ? p->away_base : b->variable == IR_NONE ? p->transient_base : 0);
}
static inline uint64_t plan_value_address(const plan_placement *p, ir_val value) {
    return plan_block_address(p, p->block[value]) + p->offset[value];
}

/* Who owns the bytes of a variable. */
static inline ir_kind plan_kind_of_role(ir_role role) {
    return role == IR_PARAM || role == IR_BUFFER ? IR_WEIGHTS
           : role == IR_SLOT                     ? IR_OPTIMIZER
                                                 : IR_DATA;
}

enum { PLAN_ALIGN = 64 };

static inline uint64_t plan_align(uint64_t bytes) {
    return (bytes + PLAN_ALIGN - 1) / PLAN_ALIGN * PLAN_ALIGN;
}

/* Fills everything but plan_block.offset and *_bytes, in unit->region; empties unit->scratch. */
ebb_status ebb__plan_storage(pass_unit *unit, plan_placement *out) EBB_MUST_CHECK;

/* The most transient bytes alive at one position: what no placement can go below. */
typedef struct plan_peak {
    uint64_t bytes;
    int32_t position; /* the first where it is so */
} plan_peak;
/* The same decisions, only for their peak. */
ebb_status ebb__plan_storage_load(pass_unit *unit, plan_peak *out) EBB_MUST_CHECK;
/* change[t]: bytes that are born at t, less those that died at t - 1. */
plan_peak ebb__plan_peak(const int64_t *change, int32_t n_positions);

#endif
