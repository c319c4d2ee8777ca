/* test_graph.c - building, copying, types, and the structure that the verifier insists on. */
#include "support/graphs.h"

static void building(void **state) {
    (void)state;
    ebb_ctx *ctx = test_ctx_new();
    ir_graph g;
    ebb__op_graph_init(&g, ctx);
    ir_type type = {.dtype = IR_F32, .rank = 2, .dim = {3, 4}};
    ir_val x = IR_NONE, y = IR_NONE;
    int32_t layer = -1;
    assert_ok(ctx, ebb__ir_layer(&g, "first", &layer));
    assert_int_equal(layer, 1); /* 0 is the unnamed one */
    g.label.layer = layer;
    assert_ok(ctx, ebb__ir_add_variable(&g, IR_PARAM, "w", &type, &x));
    assert_refused(ctx, ebb__ir_add_variable(&g, IR_PARAM, "w", &type, &y), EBB_USAGE, "taken");
    assert_ok(ctx, ebb__op_emit(&g, OP_TANH, &x, 1, NULL, &y));
    assert_int_equal(ebb__ir_find(&g, "w"), x);
    assert_int_equal(ebb__ir_find(&g, "z"), IR_NONE);
    assert_ok(ctx, ebb__ir_name(&g, y, "z"));
    assert_int_equal(ebb__ir_find(&g, "z"), y);
    assert_refused(ctx, ebb__ir_name(&g, y, "w"), EBB_USAGE, "taken");
    assert_ok(ctx, ebb__ir_layer(&g, "first", &layer));
    assert_int_equal(layer, 1);
    /* The same variable may be given as operand and as result. */
    ir_val before = y;
    assert_ok(ctx, ebb__op_emit(&g, OP_RELU, &y, 1, NULL, &y));
    assert_int_not_equal(y, before);
    assert_int_equal(ir_in(&g, test_def(&g, y), 0), before);
    assert_ok(ctx, ebb__op_verify(&g));
    ebb__ir_fini(&g);
    test_ctx_free(ctx);
}

static void types(void **state) {
    (void)state;
    ebb_ctx *ctx = test_ctx_new();
    const ir_type good = {.dtype = IR_F64, .rank = 3, .dim = {2, 3, 5}};
    assert_ok(ctx, ebb__ir_type_check(ctx, &good, "t"));
    assert_int_equal(ebb__ir_rows(&good), 6);
    assert_int_equal(ir_cols(&good), 5);
    assert_int_equal(ebb__ir_type_bytes(&good), 240);
    const ir_type small = {.dtype = IR_U8, .rank = 6, .dim = {2, 3, 1, 5, 7, 11}};
    assert_ok(ctx, ebb__ir_type_check(ctx, &small, "t"));
    assert_int_equal(ebb__ir_rows(&small), 210);
    assert_int_equal(ebb__ir_type_bytes(&small), 2310);
    const ir_type bad[] = {
        {.rank = 0},
        {.rank = IR_MAX_RANK + 1, .dim = {1, 1, 1, 1, 1, 1}},
        {.rank = 1, .dim = {0}},
        {.rank = 2, .dim = {3, -1}},
        {.rank = 4, .dim = {INT32_MAX, INT32_MAX, INT32_MAX, INT32_MAX}},
        {.rank = 2, .dim = {INT32_MAX, INT32_MAX}},
        {.dtype = IR_F64, .rank = 2, .dim = {1 << 30, 1 << 14}},
    };
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        assert_refused(ctx, ebb__ir_type_check(ctx, &bad[i], "thing"), EBB_USAGE, "thing: ");
    }
    test_ctx_free(ctx);
}

/* What is not in the order goes, numbers close up in their old order, and marks go along. */
static void compact(void **state) {
    (void)state;
    ebb_ctx *ctx = test_ctx_new();
    ir_graph g;
    test_parse(ctx,
               "param %0 f32[2,3] \"w\" next=%4\n"
               "%1:f32[2,3] = tanh %0 @ \"a\" fwd\n"
               "%2:f32[2,3] = relu %0 @ \"b\" fwd\n"
               "%3:f32[2,3] = add %1 %2 @ \"a\" fwd\n"
               "%4:f32[2,3] = tanh %2 @ \"b\" fwd\n"
               "output %4 \"y\"\n",
               &g);
    int32_t marks[] = {10, 11, 12, 13}, n_marks = 3; /* the last node has none */
    ir_val y = ebb__ir_find(&g, "y");
    assert_int_equal(g.n_nodes, 4);
    assert_ok(ctx, ebb__pass_drop_dead(&g));
    assert_int_equal(g.n_order, 2);
    assert_ok(ctx, ebb__ir_compact(&g, marks, &n_marks));
    assert_ok(ctx, ebb__op_verify(&g));
    assert_int_equal(g.n_nodes, 2);
    assert_int_equal(g.n_values, 3);
    assert_int_equal(n_marks, 1);
    assert_int_equal(marks[0], 11);
    assert_int_not_equal(ebb__ir_find(&g, "y"), y);
    assert_int_equal(g.values[ebb__ir_find(&g, "w")].next, ebb__ir_find(&g, "y"));
    assert_int_equal(g.nodes[g.order[0]].op, OP_RELU);
    assert_int_equal(ir_in(&g, &g.nodes[g.order[1]], 0), g.nodes[g.order[0]].out);
    ebb__ir_fini(&g);
    test_ctx_free(ctx);
}

static void copies_are_apart(void **state) {
    (void)state;
    ebb_ctx *ctx = test_ctx_new();
    word_lm m = test_lm_small(LM_LSTM, 3);
    ir_graph g, copy;
    test_lm(ctx, &m, &g);
    char *text = test_text(&g);
    assert_ok(ctx, ebb__ir_copy(&g, &copy));
    ir_val extra = ebb__ir_find(&copy, "embed.weight");
    assert_ok(ctx, ebb__op_emit(&copy, OP_TANH, &extra, 1, NULL, &extra));
    copy.values[0].next = 5;
    char *same = test_text(&g);
    assert_string_equal(same, text);
    ebb__ir_fini(&g); /* the copy does not lean on it */
    assert_int_not_equal(ebb__ir_find(&copy, "rnn.weight_hh_l1"), IR_NONE);
    free(text);
    free(same);
    ebb__ir_fini(&copy);
    test_ctx_free(ctx);
}

/* ---- the verifier ---- */

static void verifier(void **state) {
    (void)state;
    ebb_ctx *ctx = test_ctx_new();
    ir_graph g, bad;
    test_parse(ctx,
               "input %0 f32[2,2] \"x\"\nstate %1 f32[2,2] \"s\" next=%3\n"
               "%2:f32[2,2] = tanh %0\n%3:f32[2,2] = add %2 %0\n%4:f32[2] = sum_rows - %3\n"
               "output %4 \"y\"\n",
               &g);
#define BREAK(what, why)                                                                           \
    do {                                                                                           \
        assert_ok(ctx, ebb__ir_copy(&g, &bad));                                                    \
        what;                                                                                      \
        assert_refused(ctx, ebb__op_verify(&bad), EBB_INTERNAL, why);                              \
        ebb__ir_fini(&bad);                                                                        \
    } while (0)
    BREAK((bad.order[0] = 1, bad.order[1] = 0), "before it is defined");
    BREAK(bad.order[0] = 1, "before it is defined");
    BREAK(bad.order[1] = 0, "wrongly or twice");
    BREAK(bad.order[1] = 77, "order names node 77");
    BREAK(bad.order[1] = -1, "order names node -1");
    BREAK(bad.operands[0] = 99, "reads value 99");
    BREAK(bad.operands[0] = -7, "reads value -7");
    BREAK(bad.nodes[0].op = 999, "unknown op");
    BREAK(bad.nodes[1].out = 2, "wrongly or twice");
    BREAK(bad.nodes[2].out = 50, "do not exist");
    BREAK(bad.nodes[2].label.layer = 9, "do not exist");
    BREAK(bad.values[2].def = IR_NONE, "wrongly or twice");
    BREAK(bad.values[2].role = IR_PARAM, "wrongly or twice");
    BREAK(bad.values[1].next = 4, "wrong next value"); /* another type */
    BREAK(bad.values[1].next = 0, "wrong next value"); /* a variable */
    BREAK(bad.values[1].next = 60, "wrong next value");
    BREAK(bad.values[2].next = 3, "wrong next value"); /* of a temporary */
    BREAK(bad.n_order = 1, "wrong next value");        /* never defined */
    BREAK(bad.nodes[0].n_out = 0, "before it is defined");
#undef BREAK
    /* Types are the op layer's: EBB_USAGE with the op's name. */
    assert_ok(ctx, ebb__ir_copy(&g, &bad));
    bad.values[4].type.dim[0] = 3;
    assert_refused(ctx, ebb__op_verify(&bad), EBB_USAGE,
                   "sum_rows(-, f32[2,2]): result 0 has another type");
    ebb__ir_fini(&bad);
    assert_ok(ctx, ebb__op_verify(&g));
    ebb__ir_fini(&g);
    test_ctx_free(ctx);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(building), cmocka_unit_test(types), cmocka_unit_test(compact),
        cmocka_unit_test(copies_are_apart), cmocka_unit_test(verifier)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
