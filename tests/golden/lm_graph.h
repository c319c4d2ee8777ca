/* lm_graph.h - for tests: a model's graph with its gradients, and the executor held against the
 * reference interpreter. Nothing here plans: the graph is what the builder and src/grad made, so
 * the interpreter shows what every pass must keep. */
#ifndef GOLDEN_LM_GRAPH_H
#define GOLDEN_LM_GRAPH_H

#include "grad/grad.h"
#include "model/word_lm.h"
#include "support/interp.h"
#include "run/session.h"

#include <setjmp.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

/* Fails the test with the library's own sentence. */
static inline void must(const ebb_ctx *ctx, ebb_status status) {
    if (status != EBB_OK) {
        fail_msg("%s: %s", ebb_status_text(status), ebb_last_error(ctx));
    }
}

/* Appends the gradients of graph->loss; *grads, in the graph's region, is indexed by the *n values
 * there were. */
static inline void differentiate(ir_graph *graph, ir_val **grads, int32_t *n) {
    ir_val one = IR_NONE;
    ir_attr attr = {.i = {1, 1, 0, 0, 0, IR_F32}, .f = {1.0F}};
    *n = graph->n_values;
    must(graph->ctx, ebb__op_emit(graph, OP_FILL, NULL, 0, &attr, &one));
    must(graph->ctx,
         ebb__region_alloc(&graph->region, (size_t)graph->n_values, sizeof **grads, grads));
    must(graph->ctx, ebb__grad_build(graph, &graph->loss, &one, 1, *grads));
}

static inline bool is_kept(ir_role role) {
    return role == IR_PARAM || role == IR_SLOT || role == IR_STATE || role == IR_BUFFER;
}

/* Every variable that outlives a step and every named output: the same bits on both sides. */
static inline void assert_same_bits(const char *what, const run_interp *want, run_session *got) {
    const ir_graph *g = want->graph;
    for (ir_val v = 0; v < g->n_values; v++) {
        const ir_value *value = &g->values[v];
        const void *data = NULL;
        if (value->role == IR_TEMP && value->output) {
            data = ebb__run_output(got, 0, value->name);
        } else if (is_kept(value->role)) {
            data = ebb__run_variable(got, value->name, NULL);
        } else {
            continue;
        }
        if (data == NULL) {
            fail_msg("%s: the plan has no %s", what, value->name);
        } else if (memcmp(data, want->data[v], (size_t)ebb__ir_type_bytes(&value->type)) != 0) {
            fail_msg("%s: %s differs from the reference interpreter", what, value->name);
        }
    }
}

#endif
