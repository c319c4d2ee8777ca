/* test_team.c - who takes part in what: small work is one member's, large work everybody's, a run
 * is one decision, and what knows nothing of shares is never shared. */
#include "support/graphs.h"

enum { MEMBERS = 4 };

/* Runs the passes that a team's shares rest on. */
static void start(test_unit *t, ebb_ctx *ctx, const char *graph, bool fuse) {
    test_unit_text(t, ctx, graph);
    t->config.training = false;
    t->config.members = MEMBERS;
    test_pass(t, &ebb__pass_layout);
    test_pass(t, &ebb__pass_select);
    if (fuse) {
        test_pass(t, &ebb__pass_fuse);
    }
    test_pass(t, &ebb__pass_team);
}

static const pass_share *share_of(const test_unit *t, op_code op) {
    const ir_graph *g = &t->unit.graph;
    return &t->unit.shares[test_node(g, op, 0) - g->nodes];
}

static void by_size(void **state) {
    (void)state;
    ebb_ctx *ctx = test_ctx_new();
    test_unit t;
    start(&t, ctx,
          "input %0 f32[2,8] \"a\"\ninput %1 f32[4096,512] \"b\"\ninput %2 f32[512,512] \"w\"\n"
          "%3:f32[2,8] = tanh %0\n%4:f32[4096,512] = matmul - %1 %2\n"
          "output %3 \"x\"\noutput %4 \"y\"\n",
          true);
    const pass_share *small = share_of(&t, OP_TANH), *large = share_of(&t, OP_MATMUL);
    assert_int_equal(small->members, 1);
    assert_int_equal(small->pieces, 1);
    assert_int_equal(large->members, MEMBERS);
    assert_true(large->pieces >= MEMBERS && large->pieces % MEMBERS == 0);
    assert_true(small->units == 0 && large->units == 0 && large->block == 0);
    test_unit_fini(&t);
    test_ctx_free(ctx);
}

/* A cell is too little to meet for by itself, and shared where its product is. */
static const char cell[] = "param %0 f32[2048,512] \"w\"\ninput %1 f32[8,512] \"h\"\n"
                           "input %2 f32[8,512] \"c\"\n"
                           "%3:f32[8,2048] = matmul - %1 %0 {trans_b=1} @ \"l\" t=0 fwd\n"
                           "%4:f32[8,2048], %5:f32[8,512] = lstm_gates %3 %2 @ \"l\" t=0 fwd\n"
                           "output %4 \"x\"\noutput %5 \"y\"\n";

static void by_run(void **state) {
    (void)state;
    for (int fuse = 0; fuse < 2; fuse++) {
        ebb_ctx *ctx = test_ctx_new();
        test_unit t;
        start(&t, ctx, cell, fuse != 0);
        const pass_share *product = share_of(&t, OP_MATMUL), *gates = share_of(&t, OP_LSTM_GATES);
        assert_int_equal(product->members, MEMBERS);
        assert_int_equal(product->units, fuse ? 512 : 0);
        assert_int_equal(product->block > 0, fuse != 0);
        assert_int_equal(gates->units, 0);
        assert_int_equal(gates->pieces > 0, fuse == 0);
        if (fuse) {
            assert_int_equal(gates->members, product->members);
        }
        test_unit_fini(&t);
        test_ctx_free(ctx);
    }
}

/* However large. */
static void references(void **state) {
    (void)state;
    ebb_ctx *ctx = test_ctx_new();
    test_unit t;
    test_unit_text(&t, ctx,
                   "input %0 f32[4096,4096] \"a\"\n%1:f32[4096,4096] = tanh %0\noutput %1 \"x\"\n");
    t.config.members = MEMBERS;
    test_pass(&t, &ebb__pass_select);
    t.unit.kernels[t.unit.graph.order[0]] = DEVICE_KERNEL_REFERENCE;
    test_pass(&t, &ebb__pass_team);
    assert_int_equal(share_of(&t, OP_TANH)->members, 1);
    test_unit_fini(&t);
    test_ctx_free(ctx);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(by_size), cmocka_unit_test(by_run),
                                       cmocka_unit_test(references)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
