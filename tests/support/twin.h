/* twin.h - one model run twice: by a plan's session and by the reference interpreter on the graph
 * as it is right after the grad pass, where nothing has been simplified, chunked, moved or aliased.
 * After each step every variable and every named output must hold the same bits. */
#ifndef TESTS_SUPPORT_TWIN_H
#define TESTS_SUPPORT_TWIN_H

#include "support/interp.h"
#include "run/session.h"
#include "support/graphs.h"

typedef struct test_twin {
    ebb_ctx *ctx;
    ir_graph graph; /* after grad */
    run_interp interp;
    test_dice dice;
    int32_t step;
} test_twin;

/* Fills parameters and state with small numbers, indices and labels with what their readers allow.
 */
void test_twin_init(test_twin *t, const ir_graph *forward, bool training,
                    const grad_update_settings *update, uint64_t seed);
/* The same after the stash pass, which rounds to this format (pass_config.stash). */
void test_twin_init_rounded(test_twin *t, const ir_graph *forward, bool training,
                            const grad_update_settings *update, int32_t stash, uint64_t seed);
void test_twin_fini(test_twin *t);
/* Copies the twin's variables into the session. */
void test_twin_load(const test_twin *t, run_session *session);
/* New inputs for the next step, to both (session may be NULL). */
void test_twin_inputs(test_twin *t, run_session *session);
/* Runs the interpreter's step. */
void test_twin_step(test_twin *t);
/* Index of the first element that differs; -1 if none does. Any NaN equals any NaN. */
int64_t test_first_difference(const ir_type *type, const void *a, const void *b);
/* Name of the first variable or output that differs; NULL if none does. Any NaN equals any NaN. */
const char *test_twin_differs(const test_twin *t, run_session *session, int32_t program);

/* A variable or an output of the interpreter's, by its name. */
void *test_twin_data(const test_twin *t, const char *name);
/* Fails the test where a variable other than inputs, or an output, of two twins differs, whose
 * graphs may differ in shape; `what` is said then. */
void test_twin_same(const char *what, const test_twin *a, const test_twin *b);
/* Parameters of one in the other, whose dice rolled for other inputs. */
void test_twin_copy_weights(const test_twin *from, const test_twin *to);

/* A plan of one program for exactly this configuration, compiled, checked and reported. */
ebb_plan *test_compile(ebb_ctx *ctx, const plan_request *request, const pass_config *config);
/* Runs the plan (taken over) beside a twin for some steps; fails the test where they differ or
 * where the bytes handed out are not the planned ones. */
void test_run_equal(ebb_plan *plan, const ir_graph *forward, bool training,
                    const grad_update_settings *update, uint64_t seed, int steps);

#endif
