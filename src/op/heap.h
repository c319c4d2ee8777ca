/* heap.h - where the values of a sparse tensor lie: in a heap that many tensors share.
 *
 * Of a tensor x without elements below 0 the bits (sign_bits) say which are above 0. These are
 * pushed, in order, into a heap of so many floats, block after block: a block is OP_HEAP_BLOCK
 * elements of one step of the first axis, the last of a step may have fewer. `starts` is i32
 * [D, blocks + 1]: where each block of a step begins, and where its last one ends. Blocks follow
 * each other without gaps, those of a tensor behind those of the one pushed before it, so that all
 * tensors of a heap share its room, whichever of them has more than its part. From the first block
 * that does not fit on, everything begins at OP_HEAP_FULL: it is not in the heap, and whoever needs
 * it must do without the heap (give_up).
 *
 * A NaN has no bit, and would come back as 0. So float 0 of a heap says whether one was pushed, and
 * values begin behind it; that too is a reason to give up. */
#ifndef OP_HEAP_H
#define OP_HEAP_H

#include "op/code.h"

enum { OP_HEAP_BLOCK = 256, OP_HEAP_FULL = -1, OP_HEAP_FIRST = 1, OP_HEAP_MOST_PARTS = 8 };
enum { HEAP_CAPACITY }; /* attribute of sparse_starts: floats of the heap */
enum { GIVE_UP_HEAPS }; /* attribute of give_up: how many heaps it looks at */
enum { GIVE_UP_FULL, GIVE_UP_USED, GIVE_UP_WORDS }; /* its result */

/* Blocks of a step whose bits have so many bytes. */
static inline int64_t op_heap_blocks(int64_t bytes) {
    return (bytes * 8 + OP_HEAP_BLOCK - 1) / OP_HEAP_BLOCK;
}

#endif
