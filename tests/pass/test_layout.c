/* test_layout.c - one packed copy a weight, direction and step, read by all its time steps; gates
 * marked as groups. */
#include "support/graphs.h"

static const char *const model =
    "param %0 f32[4,4] \"w\"\nparam %1 f32[4,4] \"v\"\ninput %2 f32[2,4] \"x\"\n"
    "%3:f32[2,4] = matmul - %2 %0 {trans_b=1} @ \"\" t=0 fwd\n"
    "%4:f32[2,4] = matmul %3 %3 %0 {trans_b=1} @ \"\" t=1 fwd\n"
    "%5:f32[2,4] = matmul - %4 %0 @ \"\" t=1 fwd\n"
    "%6:f32[2,4] = matmul - %2 %1 {trans_b=1}\n"
    "%7:f32[4,4] = matmul - %2 %4 {trans_a=1} @ \"\" t=0 fwd\n"
    "output %5 \"a\"\noutput %6 \"b\"\noutput %7 \"c\"\n";

static void with(bool pack, const char *text) {
    ebb_ctx *ctx = test_ctx_new();
    test_unit t;
    test_unit_text(&t, ctx, model);
    t.config.knobs.pack = pack;
    test_pass(&t, &ebb__pass_layout);
    test_expect(&t.unit.graph, text);
    test_unit_fini(&t);
    test_ctx_free(ctx);
}

static void none(void **state) {
    (void)state;
    with(false, model);
}

/* Only what several time steps read, right before its first reader; %5 is alone in its direction.
 */
static void repeated(void **state) {
    (void)state;
    with(true, "param %0 f32[4,4] \"w\"\nparam %1 f32[4,4] \"v\"\ninput %2 f32[2,4] \"x\"\n"
               "%8:f32[1,128] = pack %0 {trans=1 lanes=32}\n"
               "%3:f32[2,4] = matmul - %2 %8 {packed=4 lanes=32} @ \"\" t=0 fwd\n"
               "%4:f32[2,4] = matmul %3 %3 %8 {packed=4 lanes=32} @ \"\" t=1 fwd\n"
               "%5:f32[2,4] = matmul - %4 %0 @ \"\" t=1 fwd\n"
               "%6:f32[2,4] = matmul - %2 %1 {trans_b=1}\n"
               "%7:f32[4,4] = matmul - %2 %4 {trans_a=1} @ \"\" t=0 fwd\n"
               "output %5 \"a\"\noutput %6 \"b\"\noutput %7 \"c\"\n");
}

static void gates_are_groups(void **state) {
    (void)state;
    ebb_ctx *ctx = test_ctx_new();
    test_unit t;
    test_unit_text(&t, ctx,
                   "param %0 f32[12,3] \"w\"\ninput %1 f32[2,3] \"h\"\ninput %2 f32[2,3] \"c\"\n"
                   "%3:f32[2,12] = matmul - %1 %0 {trans_b=1} @ \"\" t=0 fwd\n"
                   "%4:f32[2,12], %5:f32[2,3] = lstm_gates %3 %2 @ \"\" t=0 fwd\n"
                   "output %4 \"gates\"\n");
    test_pass(&t, &ebb__pass_layout);
    assert_int_equal(test_node(&t.unit.graph, OP_MATMUL, 0)->attr.i[2], 4);
    test_unit_fini(&t);
    test_ctx_free(ctx);
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
    t.config.knobs.pack = true;
    test_pass(&t, &ebb__pass_grad);
    test_pass(&t, &ebb__pass_batch_time);
    test_pass(&t, &ebb__pass_layout);
    const ir_graph *g = &t.unit.graph;
    int n = test_count(g, OP_PACK);
    assert_int_equal(n, 4); /* w_hh of two layers, forward and backward */
    for (int i = 0; i < n; i++) {
        const ir_node_rec *copy = test_node(g, OP_PACK, i);
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
    const struct CMUnitTest tests[] = {cmocka_unit_test(none), cmocka_unit_test(repeated),
                                       cmocka_unit_test(gates_are_groups),
                                       cmocka_unit_test(before_the_update)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
