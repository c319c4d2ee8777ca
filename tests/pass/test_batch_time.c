/* test_batch_time.c - work of time steps as one node: sets, sums, shared stacks, and what must stay
 * apart. That no bit changes is shown by test_pipeline and test_fuzz. */
#include "support/graphs.h"

static void becomes(const char *text, const char *wanted, int32_t span) {
    ebb_ctx *ctx = test_ctx_new();
    test_unit t;
    test_unit_text(&t, ctx, text);
    t.config.knobs.span = span;
    test_pass(&t, &ebb__pass_batch_time);
    test_expect(&t.unit.graph, wanted);
    test_unit_fini(&t);
    test_ctx_free(ctx);
}

#define HEAD "param %0 f32[3,4] \"w\"\nparam %1 f32[3] \"b\"\ninput %2 f32[6,4] \"x\"\n"

/* Inputs that already lie behind each other, last step first, are read where they are. */
static const char *const projections =
    HEAD "%3:f32[2,4] = slice %2 {begin=4 len=2} @ \"l\" t=0 fwd\n"
         "%4:f32[2,4] = slice %2 {begin=2 len=2} @ \"l\" t=1 fwd\n"
         "%5:f32[2,4] = slice %2 {len=2} @ \"l\" t=2 fwd\n"
         "%6:f32[2,3] = matmul %1 %3 %0 {trans_b=1} @ \"l\" t=0 fwd\n"
         "%7:f32[2,3] = matmul %1 %4 %0 {trans_b=1} @ \"l\" t=1 fwd\n"
         "%8:f32[2,3] = matmul %1 %5 %0 {trans_b=1} @ \"l\" t=2 fwd\n"
         "%9:f32[2,3] = tanh %6 @ \"l\" t=0 fwd\n"
         "%10:f32[2,3] = tanh %7 @ \"l\" t=1 fwd\n"
         "%11:f32[2,3] = tanh %8 @ \"l\" t=2 fwd\n"
         "output %9 \"p\"\noutput %10 \"q\"\noutput %11 \"r\"\n";

static void a_set(void **state) {
    (void)state;
    becomes(projections,
            HEAD "%3:f32[6,3] = matmul %1 %2 %0 {trans_b=1} @ \"l\" t=-1 fwd\n"
                 "%4:f32[2,3] = slice %3 {begin=4 len=2} @ \"l\" t=0 fwd\n"
                 "%5:f32[2,3] = slice %3 {begin=2 len=2} @ \"l\" t=1 fwd\n"
                 "%6:f32[2,3] = slice %3 {len=2} @ \"l\" t=2 fwd\n"
                 "%7:f32[2,3] = tanh %4 @ \"l\" t=0 fwd\n"
                 "%8:f32[2,3] = tanh %5 @ \"l\" t=1 fwd\n"
                 "%9:f32[2,3] = tanh %6 @ \"l\" t=2 fwd\n"
                 "output %7 \"p\"\noutput %8 \"q\"\noutput %9 \"r\"\n",
            0);
}

/* Chunks of two steps: steps 0 and 1 together, step 2 alone as it was. */
static void a_set_in_parts(void **state) {
    (void)state;
    becomes(projections,
            HEAD "%3:f32[4,4] = slice %2 {begin=2 len=4} @ \"l\" t=-1 fwd\n"
                 "%4:f32[2,4] = slice %2 {len=2} @ \"l\" t=2 fwd\n"
                 "%7:f32[4,3] = matmul %1 %3 %0 {trans_b=1} @ \"l\" t=-1 fwd\n"
                 "%5:f32[2,3] = slice %7 {begin=2 len=2} @ \"l\" t=0 fwd\n"
                 "%6:f32[2,3] = slice %7 {len=2} @ \"l\" t=1 fwd\n"
                 "%8:f32[2,3] = matmul %1 %4 %0 {trans_b=1} @ \"l\" t=2 fwd\n"
                 "%9:f32[2,3] = tanh %5 @ \"l\" t=0 fwd\n"
                 "%10:f32[2,3] = tanh %6 @ \"l\" t=1 fwd\n"
                 "%11:f32[2,3] = tanh %8 @ \"l\" t=2 fwd\n"
                 "output %9 \"p\"\noutput %10 \"q\"\noutput %11 \"r\"\n",
            2);
}

/* Each step reads the one before; and rows without a time are loss chunks, say. */
static void not_a_set(void **state) {
    (void)state;
    static const char *const chain =
        "param %0 f32[4,4] \"w\"\ninput %1 f32[2,4] \"x\"\n"
        "%2:f32[2,4] = matmul - %1 %0 @ \"l\" t=0 fwd\n"
        "%3:f32[2,4] = tanh %2 @ \"l\" t=0 fwd\n"
        "%4:f32[2,4] = matmul - %3 %0 @ \"l\" t=1 fwd\noutput %4 \"y\"\n";
    static const char *const timeless =
        "param %0 f32[4,4] \"w\"\ninput %1 f32[2,4] \"x\"\n"
        "%2:f32[2,4] = matmul - %1 %0\n%3:f32[2,4] = tanh %1\n"
        "%4:f32[2,4] = matmul - %3 %0\noutput %2 \"a\"\noutput %4 \"y\"\n";
    becomes(chain, chain, 0);
    becomes(timeless, timeless, 0);
}

/* Two nets that feed each other crosswise: each set could be merged, but not both. One is, and so
 * is a third that has nothing to do with them. */
static void not_both(void **state) {
    (void)state;
    static const char *const crossed =
        "param %0 f32[4,4] \"w\"\nparam %1 f32[4,4] \"v\"\nparam %2 f32[4,4] \"u\"\n"
        "input %3 f32[2,4] \"x\"\ninput %4 f32[2,4] \"y\"\n"
        "%5:f32[2,4] = matmul - %3 %0 @ \"a\" t=0 fwd\n"
        "%6:f32[2,4] = matmul - %3 %1 @ \"b\" t=0 fwd\n"
        "%7:f32[2,4] = tanh %5 @ \"b\" t=1 fwd\n"
        "%8:f32[2,4] = tanh %6 @ \"a\" t=1 fwd\n"
        "%9:f32[2,4] = matmul - %8 %0 @ \"a\" t=1 fwd\n"
        "%10:f32[2,4] = matmul - %7 %1 @ \"b\" t=1 fwd\n"
        "%11:f32[2,4] = matmul - %3 %2 @ \"c\" t=0 fwd\n"
        "%12:f32[2,4] = matmul - %4 %2 @ \"c\" t=1 fwd\n"
        "%13:f32[2,4] = tanh %9\n%14:f32[2,4] = tanh %10\n"
        "%15:f32[2,4] = tanh %11\n%16:f32[2,4] = tanh %12\n"
        "output %7 \"p\"\noutput %8 \"q\"\noutput %13 \"r\"\noutput %14 \"s\"\n"
        "output %15 \"t\"\noutput %16 \"z\"\n";
    ebb_ctx *ctx = test_ctx_new();
    test_unit t;
    int timeless = 0;
    test_unit_text(&t, ctx, crossed);
    test_pass(&t, &ebb__pass_batch_time);
    const ir_graph *g = &t.unit.graph;
    assert_int_equal(test_count(g, OP_MATMUL), 1 + 2 + 1);
    for (int i = 0; i < 4; i++) {
        timeless += test_node(g, OP_MATMUL, i)->label.at < 0;
    }
    assert_int_equal(timeless, 2);
    test_unit_fini(&t);
    test_ctx_free(ctx);
}

/* Lists that overlap are slices of one stack of x1, x0 and z. Two stacks of the model overlap too,
 * but a part of the second depends on all of the first: they stay two, and do not keep the others
 * from being one. */
static void overlapping_lists(void **state) {
    (void)state;
    static const char *const text =
        "param %0 f32[4,4] \"w\"\nparam %1 f32[4,4] \"v\"\ninput %2 f32[2,4] \"x\"\n"
        "%3:f32[2,4] = tanh %2\n%4:f32[2,4] = sigmoid %2\n%5:f32[2,4] = relu %2\n"
        "%6:f32[2,4] = matmul - %3 %0 @ \"l\" t=0 fwd\n"
        "%7:f32[2,4] = matmul - %4 %0 @ \"l\" t=1 fwd\n"
        "%8:f32[2,4] = matmul - %5 %1 @ \"k\" t=0 fwd\n"
        "%9:f32[2,4] = matmul - %3 %1 @ \"k\" t=1 fwd\n"
        "%10:f32[2,4] = tanh %6\n%11:f32[2,4] = tanh %7\n"
        "%12:f32[4,4] = stack %10 %11\n%13:f32[4,4] = tanh %12\n"
        "%14:f32[2,4] = slice %13 {len=2}\n%15:f32[2,4] = tanh %14\n"
        "%16:f32[4,4] = stack %11 %15\n%17:f32[4,4] = tanh %16\n"
        "%18:f32[2,4] = tanh %8\n%19:f32[2,4] = tanh %9\n"
        "output %17 \"p\"\noutput %18 \"q\"\noutput %19 \"r\"\n";
    ebb_ctx *ctx = test_ctx_new();
    test_unit t;
    test_unit_text(&t, ctx, text);
    test_pass(&t, &ebb__pass_batch_time);
    assert_int_equal(test_count(&t.unit.graph, OP_MATMUL), 2);
    assert_int_equal(test_count(&t.unit.graph, OP_STACK), 3);
    test_unit_fini(&t);
    test_ctx_free(ctx);
}

/* A sum over steps starts from what its first step started from, and ends in one node. */
static void a_sum(void **state) {
    (void)state;
    becomes("input %0 f32[2,4] \"x\"\ninput %1 f32[2,3] \"d\"\ninput %2 f32[3,4] \"c\"\n"
            "%3:f32[2,4] = tanh %0 @ \"l\" t=1 fwd\n%4:f32[2,4] = sigmoid %0 @ \"l\" t=0 fwd\n"
            "%5:f32[2,3] = tanh %1 @ \"l\" t=1 fwd\n%6:f32[2,3] = sigmoid %1 @ \"l\" t=0 fwd\n"
            "%7:f32[3,4] = matmul %2 %5 %3 {trans_a=1} @ \"l\" t=1 bwd\n"
            "%8:f32[3,4] = matmul %7 %6 %4 {trans_a=1} @ \"l\" t=0 bwd\noutput %8 \"dw\"\n"
            "%9:f32[3,4] = tanh %8\noutput %9 \"y\"\n",
            "input %0 f32[2,4] \"x\"\ninput %1 f32[2,3] \"d\"\ninput %2 f32[3,4] \"c\"\n"
            "%3:f32[2,4] = tanh %0 @ \"l\" t=1 fwd\n%4:f32[2,4] = sigmoid %0 @ \"l\" t=0 fwd\n"
            "%5:f32[2,3] = tanh %1 @ \"l\" t=1 fwd\n%6:f32[2,3] = sigmoid %1 @ \"l\" t=0 fwd\n"
            "%7:f32[3,4] = matmul %2 %5 %3 {trans_a=1} @ \"l\" t=1 bwd\n"
            "%8:f32[3,4] = matmul %7 %6 %4 {trans_a=1} @ \"l\" t=0 bwd\noutput %8 \"dw\"\n"
            "%9:f32[3,4] = tanh %8\noutput %9 \"y\"\n",
            0); /* read by name: it stays as it is */
}

/* The model: per layer one input projection, one gradient of inputs, three sums (two weights and
 * the bias; four for the GRU), one embedding each way; outputs and states share one stack. */
static void the_model(void **state) {
    (void)state;
    for (int cell = LM_LSTM; cell <= LM_RNN; cell++) {
        ebb_ctx *ctx = test_ctx_new();
        word_lm m = test_lm_small((lm_cell)cell, 5);
        ir_graph graph;
        test_unit t;
        m.dropout = 0;
        test_lm(ctx, &m, &graph);
        test_unit_init(&t, &graph);
        test_pass(&t, &ebb__pass_grad);
        test_pass(&t, &ebb__pass_simplify);
        test_pass(&t, &ebb__pass_batch_time);
        const ir_graph *g = &t.unit.graph;
        int timeless = 0, steps = 0;
        for (int i = 0; i < test_count(g, OP_MATMUL); i++) {
            int32_t time = test_node(g, OP_MATMUL, i)->label.at;
            timeless += time < 0;
            steps += time >= 0;
        }
        assert_int_equal(timeless, 2 * 4 + 3);
        assert_int_equal(steps, 2 * (5 + 4)); /* no gradient of the first state */
        assert_int_equal(test_count(g, OP_EMBED), 1);
        assert_int_equal(test_count(g, OP_EMBED_GRAD), 1);
        assert_int_equal(test_count(g, OP_SUM_ROWS), 1 + 2 * (cell == LM_GRU ? 2 : 1));
        for (int i = 0; i < test_count(g, OP_STACK); i++) { /* h_4 .. h_0 and the state before */
            assert_true(test_node(g, OP_STACK, i)->n_in <= 6);
        }
        test_unit_fini(&t);
        ebb__ir_fini(&graph);
        test_ctx_free(ctx);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(a_set),
                                       cmocka_unit_test(a_set_in_parts),
                                       cmocka_unit_test(not_a_set),
                                       cmocka_unit_test(not_both),
                                       cmocka_unit_test(overlapping_lists),
                                       cmocka_unit_test(a_sum),
                                       cmocka_unit_test(the_model)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
