/* heap.h - where the values of a sparse tensor lie: in a heap that many tensors share.
 *
 * Of a tensor x without elements below 0 the bits (sign_bits) say which are above 0. These are
 * pushed, in order, into a heap of so many values, block after block: a block is OP_HEAP_BLOCK
 * elements of one step of the first axis, the last of a step may have fewer. `starts` is i32
 * [D, blocks + 1]: where each block of a step begins, and where its last one ends. Blocks follow
 * each other without gaps, those of a tensor behind those of the one pushed before it, so that all
 * tensors of a heap share its room, whichever of them has more than its part. From the first block
 * that does not fit on, everything begins at OP_HEAP_FULL: it is not in the heap, and whoever needs
 * it must do without the heap (give_up).
 *
 * A heap may grow with what is pushed: values behind those of the operand are whatever lies there.
 *
 * A NaN has no bit, and would come back as 0. So value 0 of a heap says whether one was pushed, and
 * values begin behind it; that too is a reason to give up.
 *
 * Values are f32; or, of a heap of u8 or u16, the codes of fp8 or fp16 (narrow.h), and numbers come
 * back rounded to that. What is above 0 and rounded to 0 has its bit and a code of 0. */
#ifndef OP_HEAP_H
#define OP_HEAP_H

#include "op/narrow.h"

enum { OP_HEAP_BLOCK = 256, OP_HEAP_FULL = -1, OP_HEAP_FIRST = 1, OP_HEAP_MOST_PARTS = 8 };
/* Attribute of sparse_starts: values of the heap that it and all before it may take; of
 * sparse_push: values of the heap from then on, 0: as many as before. */
enum { HEAP_CAPACITY };
/* Attributes of give_up: how many heaps it looks at; how many results of others like it; and
 * whether it only looks, since ranks share the step and give it up together (pass/agree.c). */
enum { GIVE_UP_HEAPS, GIVE_UP_STATES, GIVE_UP_LATER };
enum { GIVE_UP_FULL, GIVE_UP_USED, GIVE_UP_WORDS }; /* its result */

/* The format of the codes of a heap; bits 32: it holds f32; 0: there is no such heap. */
static inline op_format op_heap_format(ir_dtype dtype) {
    return dtype == IR_F32   ? (op_format){.bits = 32}
           : dtype == IR_U16 ? op_format_of(16)
                             : op_format_of(dtype == IR_U8 ? 8 : 0);
}

/* Of what values rounded to a format of so many bits have a heap, 0: those that are not rounded;
 * IR_DTYPES: they have none. */
static inline ir_dtype op_heap_dtype(int32_t bits) {
    return bits == 0 ? IR_F32 : bits == 8 ? IR_U8 : bits == 16 ? IR_U16 : IR_DTYPES;
}

/* The step may end behind the node. */
bool ebb__op_stops(const ir_node_rec *node);
/* It does if it does on any rank. */
bool ebb__op_agrees(const ir_node_rec *node);
/* What a rank has to say, where it has no heaps. */
bool ebb__op_is_vote(const ir_node_rec *node);

/* Operand i is a heap. */
ebb_status ebb__op_need_heap(const ir_graph *graph, const ir_node_rec *node,
                             int32_t i) EBB_MUST_CHECK;

/* Blocks of a step whose bits have so many bytes. */
static inline int64_t op_heap_blocks(int64_t bytes) {
    return (bytes * 8 + OP_HEAP_BLOCK - 1) / OP_HEAP_BLOCK;
}

#endif
