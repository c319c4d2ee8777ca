/* test_grad.c - the order of every sum and the form in which it is carried out. Numbers are checked
 * elsewhere (tests/op against finite differences, tests/golden against PyTorch). */
#include "support/graphs.h"

#include <stdio.h>

/* The head's graph, then cross-entropy over the 4 rows of its logits. */
static void differentiate(test_unit *t, ebb_ctx *ctx, const char *head, const char *logits) {
    char text[4096];
    int n = snprintf(text, sizeof text,
                     "input %%80 i32[4] \"y\"\n%s%%90:f32[4], %%91:f32[4] = xent %s %%80\n"
                     "%%92:f32[1] = mean_valid %%90 %%80\nloss %%92\n",
                     head, logits);
    assert_in_range(n, 1, sizeof text - 1);
    test_unit_text(t, ctx, text);
    test_pass(t, &ebb__pass_grad);
}

/* The gradient an update reads. */
static ir_val gradient_of(const ir_graph *g, const char *param) {
    ir_val w = ebb__ir_find(g, param);
    assert_int_not_equal(w, IR_NONE);
    assert_int_not_equal(g->values[w].next, IR_NONE);
    const ir_node_rec *update = test_def(g, g->values[w].next);
    assert_int_equal(ir_in(g, update, 0), w);
    return ir_in(g, update, 1);
}

/* Three uses of a weight: the last node's contribution comes first, each next product starts from
 * it. */
static void products_accumulate(void **state) {
    (void)state;
    ebb_ctx *ctx = test_ctx_new();
    test_unit t;
    differentiate(&t, ctx,
                  "param %0 f32[3,3] \"w\"\ninput %1 f32[4,3] \"x\"\n"
                  "%2:f32[4,3] = matmul - %1 %0 {trans_b=1} @ \"\" t=0 fwd\n"
                  "%3:f32[4,3] = matmul - %2 %0 {trans_b=1} @ \"\" t=1 fwd\n"
                  "%4:f32[4,3] = matmul - %3 %0 {trans_b=1} @ \"\" t=2 fwd\n",
                  "%4");
    const ir_graph *g = &t.unit.graph;
    const ir_node_rec *node = test_def(g, gradient_of(g, "w"));
    for (int time = 0; time < 3; time++) { /* walking back from the end of the chain */
        assert_int_equal(node->op, OP_MATMUL);
        assert_int_equal(node->label.at, time);
        assert_int_equal(node->label.phase, IR_BACKWARD);
        assert_int_equal(node->attr.i[0], 1);
        assert_int_equal(node->attr.i[1], 0);
        ir_val before = ir_in(g, node, 0);
        assert_true((before == IR_NONE) == (time == 2));
        node = time < 2 ? test_def(g, before) : node;
    }
    assert_int_equal(test_count(g, OP_ADD), 0);
    assert_true(g->values[gradient_of(g, "w")].param_grad);
    test_unit_fini(&t);
    test_ctx_free(ctx);
}

static void bias_rows_accumulate(void **state) {
    (void)state;
    ebb_ctx *ctx = test_ctx_new();
    test_unit t;
    differentiate(&t, ctx,
                  "param %0 f32[3,3] \"w\"\nparam %5 f32[3] \"b\"\ninput %1 f32[4,3] \"x\"\n"
                  "%2:f32[4,3] = matmul %5 %1 %0 {trans_b=1} @ \"\" t=0 fwd\n"
                  "%3:f32[4,3] = matmul %5 %2 %0 {trans_b=1} @ \"\" t=1 fwd\n",
                  "%3");
    const ir_graph *g = &t.unit.graph;
    const ir_node_rec *second = test_def(g, gradient_of(g, "b"));
    assert_int_equal(second->op, OP_SUM_ROWS);
    assert_int_equal(second->label.at, 0);
    const ir_node_rec *first = test_def(g, ir_in(g, second, 0));
    assert_int_equal(first->op, OP_SUM_ROWS);
    assert_int_equal(first->label.at, 1);
    assert_int_equal(ir_in(g, first, 0), IR_NONE);
    test_unit_fini(&t);
    test_ctx_free(ctx);
}

/* Rows 0-1 and 3 of w are used: zeros fill row 2, a stack joins them. */
static void slices_are_joined_with_zeros(void **state) {
    (void)state;
    ebb_ctx *ctx = test_ctx_new();
    test_unit t;
    differentiate(&t, ctx,
                  "param %0 f32[4,3] \"w\"\ninput %1 f32[4,3] \"x\"\n"
                  "%2:f32[2,3] = slice %0 {len=2}\n"
                  "%3:f32[1,3] = slice %0 {begin=3 len=1}\n"
                  "%4:f32[4,2] = matmul - %1 %2 {trans_b=1}\n"
                  "%5:f32[4,1] = matmul - %1 %3 {trans_b=1}\n"
                  "%6:f32[4,3] = concat %4 %5 {axis=1}\n",
                  "%6");
    const ir_graph *g = &t.unit.graph;
    const ir_node_rec *join = test_def(g, gradient_of(g, "w"));
    assert_int_equal(join->op, OP_STACK);
    assert_int_equal(join->n_in, 3);
    const int32_t rows[] = {2, 1, 1};
    for (int32_t i = 0; i < 3; i++) {
        assert_int_equal(op_in_type(g, join, i)->dim[0], rows[i]);
    }
    const ir_node_rec *zeros = test_def(g, ir_in(g, join, 1));
    assert_int_equal(zeros->op, OP_FILL);
    assert_true(zeros->attr.f[0] == 0);
    assert_int_equal(test_def(g, ir_in(g, join, 0))->op, OP_MATMUL);
    test_unit_fini(&t);
    test_ctx_free(ctx);
}

/* Overlapping ranges and the whole: cut at every border, summed in order of arrival in each part.
 */
static void overlapping_ranges(void **state) {
    (void)state;
    ebb_ctx *ctx = test_ctx_new();
    test_unit t;
    differentiate(&t, ctx,
                  "param %0 f32[4,3] \"w\"\n"
                  "%1:f32[3,3] = slice %0 {len=3}\n"
                  "%2:f32[3,3] = slice %0 {begin=1 len=3}\n"
                  "%3:f32[3,3] = mul %1 %2\n"
                  "%4:f32[4,3] = matmul - %0 %3\n",
                  "%4");
    const ir_graph *g = &t.unit.graph;
    const ir_node_rec *join = test_def(g, gradient_of(g, "w"));
    assert_int_equal(join->op, OP_STACK);
    assert_int_equal(join->n_in, 3); /* [0,1) [1,3) [3,4) */
    const int32_t rows[] = {1, 2, 1}, adds[] = {1, 2, 1};
    for (int32_t i = 0; i < 3; i++) {
        ir_val part = ir_in(g, join, i);
        assert_int_equal(g->values[part].type.dim[0], rows[i]);
        int32_t n = 0;
        while (test_def(g, part)->op == OP_ADD) { /* the first operand is the sum so far */
            part = ir_in(g, test_def(g, part), 0);
            n++;
        }
        assert_int_equal(n, adds[i]);
        /* What arrived first, from the last node, is the product's share of the whole. */
        assert_int_equal(test_def(g, part)->op, OP_SLICE);
        assert_int_equal(test_def(g, ir_in(g, test_def(g, part), 0))->op, OP_MATMUL);
    }
    test_unit_fini(&t);
    test_ctx_free(ctx);
}

/* Each axis makes a whole gradient of its own, in the order in which they arrived. */
static void two_axes_are_added(void **state) {
    (void)state;
    ebb_ctx *ctx = test_ctx_new();
    test_unit t;
    test_unit_text(&t, ctx,
                   "param %0 f32[4,4] \"w\"\ninput %9 i32[4] \"y\"\n"
                   "%1:f32[2,4] = slice %0 {len=2}\n%2:f32[4,2] = slice %0 {axis=1 len=2}\n"
                   "%3:f32[4,4] = matmul - %2 %1\n"
                   "%4:f32[4], %5:f32[4] = xent %3 %9\n%6:f32[1] = mean_valid %4 %9\nloss %6\n");
    test_pass(&t, &ebb__pass_grad);
    const ir_graph *g = &t.unit.graph;
    const ir_node_rec *sum = test_node(g, OP_ADD, 0);
    assert_int_equal(test_count(g, OP_ADD), 1);
    assert_int_equal(test_def(g, ir_in(g, sum, 0))->op, OP_CONCAT);
    assert_int_equal(test_def(g, ir_in(g, sum, 1))->op, OP_STACK);
    test_unit_fini(&t);
    test_ctx_free(ctx);
}

static void refusals(void **state) {
    (void)state;
    const struct {
        const char *text, *why;
    } cases[] = {
        {"param %0 f32[2] \"w\"\n%1:f32[2] = tanh %0\n", "no loss"},
        {"param %0 f32[2] \"w\"\n%1:f32[2] = tanh %0\nloss %1\n", "one f32 number"},
        {"param %0 f32[1] \"w\"\nloss %0\n", "not a variable"},
        {"param %0 f32[1] \"w\"\ninput %1 f32[1] \"x\"\n%2:f32[1] = tanh %1\nloss %2\n",
         "depends on no parameter"},
        {"param %0 f32[2,3] \"w\"\ninput %1 i32[2] \"y\"\n%2:f32[2], %3:f32[2] = xent %0 %1\n"
         "%4:f32[1] = mean_valid %3 %1\nloss %4\n",
         "result 1 has no gradient"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        ebb_ctx *ctx = test_ctx_new();
        test_unit t;
        test_unit_text(&t, ctx, cases[i].text);
        assert_refused(ctx, ebb__pass_grad.run(&t.unit), EBB_USAGE, cases[i].why);
        test_unit_fini(&t);
        test_ctx_free(ctx);
    }
}

/* The model's weights: time descending, and nothing is joined by add. */
static void model_sums_time_descending(void **state) {
    (void)state;
    for (int cell = LM_LSTM; cell <= LM_RNN; cell++) {
        ebb_ctx *ctx = test_ctx_new();
        word_lm m = test_lm_small((lm_cell)cell, 5);
        ir_graph graph;
        test_unit t;
        test_lm(ctx, &m, &graph);
        test_unit_init(&t, &graph);
        test_pass(&t, &ebb__pass_grad);
        const ir_graph *g = &t.unit.graph;
        const ir_node_rec *node = test_def(g, gradient_of(g, "rnn.weight_hh_l0"));
        for (int time = 0; time < 5; time++) {
            assert_int_equal(node->op, OP_MATMUL);
            assert_int_equal(node->label.at, time);
            node = time < 4 ? test_def(g, ir_in(g, node, 0)) : node;
        }
        assert_int_equal(ir_in(g, node, 0), IR_NONE);
        test_unit_fini(&t);
        ebb__ir_fini(&graph);
        test_ctx_free(ctx);
    }
}

static void forward_programs_are_left_alone(void **state) {
    (void)state;
    ebb_ctx *ctx = test_ctx_new();
    const char *text = "param %0 f32[2] \"w\"\n%1:f32[2] = tanh %0\noutput %1 \"y\"\n";
    test_unit t;
    test_unit_text(&t, ctx, text);
    t.config.training = false;
    test_pass(&t, &ebb__pass_grad);
    test_expect(&t.unit.graph, text);
    test_unit_fini(&t);
    test_ctx_free(ctx);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(products_accumulate),
                                       cmocka_unit_test(bias_rows_accumulate),
                                       cmocka_unit_test(slices_are_joined_with_zeros),
                                       cmocka_unit_test(overlapping_ranges),
                                       cmocka_unit_test(two_axes_are_added),
                                       cmocka_unit_test(refusals),
                                       cmocka_unit_test(model_sums_time_descending),
                                       cmocka_unit_test(forward_programs_are_left_alone)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
