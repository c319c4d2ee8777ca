/* code.h - codes: what an op has made smaller of a tensor, for another to read in its place.
 *
 * A code is [D, W]: row d is made of step d along the first axis of the tensor, whatever rank that
 * has, its elements in the order of memory; so a code is cut where a batch is. Rows begin at whole
 * bytes and have no more than they need; bits of the last byte that nothing is in are 0. */
#ifndef OP_CODE_H
#define OP_CODE_H

#include "op/map.h"

/* Elements of one step along the first axis, and how far apart two steps lie: groups of a map may
 * have gaps, and so may rows of a matrix, which can be columns of a wider one (LAYOUT_STEPS). */
static inline int64_t op_step_elements(const ir_type *type) {
    return ebb__op_fold_cols(type, 1);
}
static inline int64_t op_step_pitch(const op_view *view) {
    return op_is_map(&view->type) ? op_map_pitch(view)
           : view->type.rank == 2 ? view->ld
                                  : op_step_elements(&view->type);
}

/* Bytes of a row with so many elements of so many bits each. */
static inline int64_t op_code_bytes(int64_t elements, int64_t bits) {
    return (elements * bits + 7) / 8;
}

/* The type of a code of `of`, with rows of `wide` elements. */
ebb_status ebb__op_code_type(const ir_graph *graph, const ir_node_rec *node, const ir_type *of,
                             ir_dtype dtype, int64_t wide, ir_type *out) EBB_MUST_CHECK;
/* Operand i is such a code. */
ebb_status ebb__op_need_code(const ir_graph *graph, const ir_node_rec *node, int32_t i,
                             const ir_type *of, ir_dtype dtype, int64_t wide) EBB_MUST_CHECK;

#endif
