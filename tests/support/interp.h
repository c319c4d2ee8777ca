/* interp.h - the reference interpreter: runs any graph naively, every value in a buffer of its own,
 * with the scalar reference kernels, in graph order. Slow and obviously right; tests compare the
 * executor with it. */
#ifndef SUPPORT_INTERP_H
#define SUPPORT_INTERP_H

#include "op/op.h"

typedef struct run_interp {
    const ir_graph *graph;
    alloc_region region;
    void **data; /* by value; variables keep their content from step to step */
} run_interp;

ebb_status ebb__interp_init(run_interp *interp, const ir_graph *graph) EBB_MUST_CHECK;
void ebb__interp_fini(run_interp *interp);
ebb_status ebb__interp_step(run_interp *interp) EBB_MUST_CHECK;

#endif
