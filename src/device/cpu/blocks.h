/* blocks.h - the rows of a stack [S*B,H] that a call is to do, as runs inside its blocks of B rows:
 * a member's share of all rows, or a range of batch rows of every block. Memory is walked from its
 * begin to its end, whichever it is. */
#ifndef DEVICE_CPU_BLOCKS_H
#define DEVICE_CPU_BLOCKS_H

#include "base/team.h"
#include "op/op.h"

typedef struct cpu_blocks {
    int64_t block, lo, hi; /* the current run: batch rows [lo, hi) of a block */
    int64_t batch;
    int64_t row, end;   /* where the next run begins; where all ends */
    int64_t skip, wide; /* ranges: batch rows before it, and in it; wide 0: a share */
} cpu_blocks;

static inline cpu_blocks cpu_blocks_start(const op_call *call, int64_t rows, int64_t batch) {
    cpu_blocks it = {.batch = batch};
    if (call->hi > 0) {
        it.skip = call->lo;
        it.wide = call->hi - call->lo;
        it.row = it.skip;
        it.end = rows;
    } else {
        ebb__team_share(rows, 1, call->member, call->members, &it.row, &it.end);
    }
    return it;
}

static inline bool cpu_blocks_next(cpu_blocks *it) {
    if (it->row >= it->end) {
        return false;
    }
    it->block = it->row / it->batch;
    it->lo = it->row % it->batch;
    if (it->wide > 0) {
        it->hi = it->lo + it->wide;
        it->row += it->batch;
    } else {
        int64_t left = it->end - it->row;
        it->hi = it->batch - it->lo < left ? it->batch : it->lo + left;
        it->row += it->hi - it->lo;
    }
    return true;
}

/* Batch rows of a call whose sums run over the blocks. */
static inline void cpu_batch_rows(const op_call *call, int64_t batch, int64_t grain, int64_t *lo,
                                  int64_t *hi) {
    if (call->hi > 0) {
        *lo = call->lo;
        *hi = call->hi;
    } else {
        ebb__team_share(batch, grain, call->member, call->members, lo, hi);
    }
}

#endif
