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

/* Rows of so many elements after which a block ends with a row. */
static inline int64_t squares_rows(int64_t cols) {
    int64_t a = cols, b = SQUARES_BLOCK;
    while (b != 0) {
        int64_t rest = a % b;
        a = b;
        b = rest;
    }
    return SQUARES_BLOCK / a;
}

/* The upper half of the lanes is added to the lower until one is left. */
static inline double squares_fold(double lane[SQUARES_LANES]) {
    for (int half = SQUARES_LANES / 2; half > 0; half /= 2) {
        for (int l = 0; l < half; l++) {
            lane[l] += lane[l + half];
        }
    }
    return lane[0];
}

#endif
