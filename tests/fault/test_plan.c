/* test_plan.c - memory runs out at every possible place between building a small model and having a
 * session that ran a step: each time EBB_NOMEM with a sentence, and nothing left behind. */
#include "run/session.h"
#include "support/graphs.h"

/* Rows enough for one loss chunk, so that the walk has more than one candidate. */
static const word_lm model = {.cell = LM_LSTM,
                              .layers = 1,
                              .hidden = 2,
                              .embed = 2,
                              .vocab = 3,
                              .batch = 5,
                              .steps = 2,
                              .dropout = 0.5,
                              .seed = 1,
                              .state = "state"};

static ebb_status build_plan_run(ebb_ctx *ctx, uint64_t budget) {
    ir_graph graph;
    ebb_plan *plan = NULL;
    run_session *session = NULL;
    word_lm valid = model;
    ir_graph forward;
    ebb_status status;
    valid.dropout = 0;
    valid.state = "valid";
    ebb__op_graph_init(&graph, ctx);
    ebb__op_graph_init(&forward, ctx);
    TRY_OUT(ebb__word_lm_build(&graph, &model));
    TRY_OUT(ebb__word_lm_build(&forward, &valid));
    plan_request requests[] = {{.name = "train", .graph = &graph, .training = true},
                               {.name = "valid", .graph = &forward, .training = false}};
    plan_extra extra = {"staging", 100};
    plan_options options = {
        .members = 2,
        .budget = budget,
        .disabled = 1U << PASS_LAYOUT, /* fewer candidates of the same kind */
        .update = {.optimizer = UPDATE_ADAM, .beta1 = 0.9F, .beta2 = 0.99F, .eps = 1e-8F}};
    TRY_OUT(ebb__plan_make(ctx, requests, 2, &extra, 1, &options, &plan));
    ebb_plan *taken = plan;
    plan = NULL; /* the session owns it from here on, also if it fails */
    TRY_OUT(ebb__run_new(ctx, taken, &session));
    TRY_OUT(ebb__run_step(session, 0));
    TRY_OUT(ebb__run_step(session, 1));
out:
    ebb__run_free(session);
    ebb__plan_free(plan);
    ebb__ir_fini(&graph);
    ebb__ir_fini(&forward);
    return status;
}

static void fail_everywhere(bool sticky) {
    uint64_t n = 0;
    ebb_status status = EBB_NOMEM;
    while (status != EBB_OK) {
        ebb_ctx *ctx = test_ctx_new();
        ctx->mem.fail_at = ++n;
        ctx->mem.fail_sticky = sticky;
        status = build_plan_run(ctx, UINT64_MAX);
        if (status != EBB_OK) {
            assert_int_equal(status, EBB_NOMEM);
            assert_non_null(strstr(ebb_last_error(ctx), "memory"));
        } else {
            assert_true(ctx->mem.calls < n);
        }
        test_ctx_free(ctx);
        assert_true(n < 100000);
    }
    assert_true(n > 100); /* the hook really was reached */
}

static void each_call_fails(void **state) {
    (void)state;
    fail_everywhere(false);
}

static void each_call_and_all_after_fail(void **state) {
    (void)state;
    fail_everywhere(true);
}

static void budget_refusal_leaves_nothing(void **state) {
    (void)state;
    ebb_ctx *ctx = test_ctx_new();
    assert_refused(ctx, build_plan_run(ctx, 1000), EBB_BUDGET, "the least that works is ");
    test_ctx_free(ctx);
}

/* The same when the budget's refusal itself meets a failed allocation. */
static void refusal_survives_failures(void **state) {
    (void)state;
    ebb_status status = EBB_NOMEM;
    for (uint64_t n = 1; status == EBB_NOMEM; n += 7) {
        ebb_ctx *ctx = test_ctx_new();
        ctx->mem.fail_at = n;
        status = build_plan_run(ctx, 1000);
        test_ctx_free(ctx);
    }
    assert_int_equal(status, EBB_BUDGET);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(each_call_fails),
                                       cmocka_unit_test(each_call_and_all_after_fail),
                                       cmocka_unit_test(budget_refusal_leaves_nothing),
                                       cmocka_unit_test(refusal_survives_failures)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
