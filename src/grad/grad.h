/* grad.h - reverse mode: one walk over the nodes from last to first, each op emitting its own
 * gradient from its `grad` column. The order of the walk fixes the order of every sum. */
#ifndef GRAD_GRAD_H
#define GRAD_GRAD_H

#include "op/op.h"

/* Appends the gradient nodes. The adjoint of values of[i] starts as seeds[i] (same type); grads[v],
 * an array of graph->n_values at entry given by the caller, receives the gradient of every variable
 * of role IR_PARAM (IR_NONE if none flows there). */
ebb_status ebb__grad_build(ir_graph *graph, const ir_val *of, const ir_val *seeds, int32_t n_seeds,
                           ir_val *grads) EBB_MUST_CHECK;

#endif
