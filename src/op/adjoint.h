/* adjoint.h - gradients in the making: for every value, the contributions that arrived so far.
 *
 * The order of arrival is the order of summation and becomes a data dependency, so no later pass
 * can change a sum. An op that accumulates (matmul, sum_rows, embed_grad, ...) takes the sum so
 * far as its first operand `c` and needs no extra buffer; others are joined by `add`.
 * A contribution may cover only a range of an axis (gradients of slices); ranges of one axis
 * are joined when the gradient is taken: by stack or concat where they tile the value, with
 * zeros where nothing arrived; what the axes give is added up.
 */
#ifndef OP_ADJOINT_H
#define OP_ADJOINT_H

#include "ir/graph.h"

typedef struct op_adjoint op_adjoint;

/* For src/grad: marks what is wanted (values downstream of a parameter), starts with no gradient.
 */
ebb_status ebb__adjoint_new(ir_graph *graph, op_adjoint **out) EBB_MUST_CHECK;
void ebb__adjoint_free(op_adjoint *adjoint);

/* Does anybody want the gradient of this value? (Some parameter lies upstream of it.) */
bool ebb__adjoint_wanted(const op_adjoint *adjoint, ir_val value);
/* Has anything contributed to the gradient of this value? */
bool ebb__adjoint_arrived(const op_adjoint *adjoint, ir_val value);
/* The whole gradient of a value; IR_NONE if nothing contributed. */
ebb_status ebb__adjoint_take(op_adjoint *adjoint, ir_val value, ir_val *out) EBB_MUST_CHECK;
/* The gradient of columns [begin, begin+len) only; EBB_INTERNAL if anything contributed outside. */
ebb_status ebb__adjoint_take_columns(op_adjoint *adjoint, ir_val value, int32_t begin, int32_t len,
                                     ir_val *out) EBB_MUST_CHECK;
/* Adds a finished contribution (ignored if not wanted). */
ebb_status ebb__adjoint_add(op_adjoint *adjoint, ir_val value, ir_val contribution) EBB_MUST_CHECK;
/* Adds a contribution to [begin, begin + extent) of an axis. */
ebb_status ebb__adjoint_add_range(op_adjoint *adjoint, ir_val value, int32_t axis, int32_t begin,
                                  ir_val contribution) EBB_MUST_CHECK;
/* For accumulating ops: withdraws the whole-value sum so far (IR_NONE if none), to be passed as `c`
 * of the contribution that the caller then adds. */
ir_val ebb__adjoint_withdraw(op_adjoint *adjoint, ir_val value);

#endif
