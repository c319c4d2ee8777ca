/* test_layout.c - one transposed copy a weight and step, read by all its products. */
#include "support/graphs.h"

static const char *const model =
    "param %0 f32[4,4] \"w\"\nparam %1 f32[4,4] \"v\"\ninput %2 f32[2,4] \"x\"\n"
    "input %3 f32[200,4] \"big\"\n"
    "%4:f32[2,4] = matmul - %2 %0 {trans_b=1}\n"
    "%5:f32[2,4] = matmul %4 %4 %0 {trans_b=1}\n"
    "%6:f32[200,4] = matmul - %3 %1 {trans_b=1}\n"
    "%7:f32[4,4] = matmul - %2 %4 {trans_a=1}\n"
    "output %5 \"a\"\noutput %6 \"b\"\noutput %7 \"c\"\n";

static void with(pass_transpose policy, int copies, const char *text) {
    ebb_ctx *ctx = test_ctx_new();
    test_unit t;
    test_unit_text(&t, ctx, model);
    t.config.transpose = policy;
    test_pass(&t, &ebb__pass_layout);
    assert_int_equal(test_count(&t.unit.graph, OP_TRANSPOSE), copies);
    if (text != NULL) {
        test_expect(&t.unit.graph, text);
    }
    test_unit_fini(&t);
    test_ctx_free(ctx);
}

static void none(void **state) {
    (void)state;
    with(TRANSPOSE_NONE, 0, model);
}

/* Only products of few rows, each weight once, right before its first reader. */
static void narrow(void **state) {
    (void)state;
    with(TRANSPOSE_NARROW, 1,
         "param %0 f32[4,4] \"w\"\nparam %1 f32[4,4] \"v\"\ninput %2 f32[2,4] \"x\"\n"
         "input %3 f32[200,4] \"big\"\n"
         "%8:f32[4,4] = transpose %0\n"
         "%4:f32[2,4] = matmul - %2 %8\n"
         "%5:f32[2,4] = matmul %4 %4 %8\n"
         "%6:f32[200,4] = matmul - %3 %1 {trans_b=1}\n"
         "%7:f32[4,4] = matmul - %2 %4 {trans_a=1}\n"
         "output %5 \"a\"\noutput %6 \"b\"\noutput %7 \"c\"\n");
}

static void all(void **state) {
    (void)state;
    with(TRANSPOSE_ALL, 2, NULL);
}

/* In training every copy of a weight comes before the weight is overwritten. */
static void before_the_update(void **state) {
    (void)state;
    ebb_ctx *ctx = test_ctx_new();
    word_lm m = test_lm_small(LM_GRU, 3);
    ir_graph graph;
    test_unit t;
    test_lm(ctx, &m, &graph);
    test_unit_init(&t, &graph);
    t.config.transpose = TRANSPOSE_ALL;
    test_pass(&t, &ebb__pass_grad);
    test_pass(&t, &ebb__pass_layout);
    const ir_graph *g = &t.unit.graph;
    int n = test_count(g, OP_TRANSPOSE);
    assert_int_equal(n, 5); /* w_ih, w_hh of two layers and the projection */
    for (int i = 0; i < n; i++) {
        const ir_node_rec *copy = test_node(g, OP_TRANSPOSE, i);
        ir_val weight = ir_in(g, copy, 0);
        assert_int_equal(g->values[weight].role, IR_PARAM);
        assert_true(test_place_of(g, g->values[copy->out].def) <
                    test_place_of(g, g->values[g->values[weight].next].def));
    }
    test_unit_fini(&t);
    ebb__ir_fini(&graph);
    test_ctx_free(ctx);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(none), cmocka_unit_test(narrow),
                                       cmocka_unit_test(all), cmocka_unit_test(before_the_update)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
