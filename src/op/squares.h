/* squares.h - how sums of squares are cut: elements numbered row-major, one partial sum in double
 * for each block of them, inside a block 16 lanes. Where a gradient is known only by its rows, the
 * blocks are those of the whole gradient, so that both give the same partial sums. */
#ifndef OP_SQUARES_H
#define OP_SQUARES_H

#include <stdint.h>

enum { SQUARES_BLOCK = 8192, SQUARES_LANES = 16 };

static inline int64_t squares_blocks(int64_t elements) {
    return (elements + SQUARES_BLOCK - 1) / SQUARES_BLOCK;
}

#endif
