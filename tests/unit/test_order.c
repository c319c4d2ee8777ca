/* test_order.c - the stable topological sort and the removal of dead nodes. */
#include "support/graphs.h"

static const char *const two_chains = "input %0 f32[2] \"x\"\nstate %1 f32[2] \"s\" next=%5\n"
                                      "%2:f32[2] = tanh %0\n%3:f32[2] = sigmoid %2\n"
                                      "%4:f32[2] = relu %0\n%5:f32[2] = copy %4\n"
                                      "%6:f32[2] = add %1 %3\noutput %6 \"y\"\n";

static void sorted(const int64_t *keys, const char *ops) {
    ebb_ctx *ctx = test_ctx_new();
    ir_graph g;
    char got[128] = "";
    test_parse(ctx, two_chains, &g);
    assert_ok(ctx, ebb__pass_sort(&g, keys));
    assert_ok(ctx, ebb__op_verify(&g));
    for (int32_t i = 0; i < g.n_order; i++) {
        strcat(got, ebb__op(g.nodes[g.order[i]].op)->schema.name);
        strcat(got, " ");
    }
    assert_string_equal(got, ops);
    ebb__ir_fini(&g);
    test_ctx_free(ctx);
}

static void keys_decide_among_ready_nodes(void **state) {
    (void)state;
    /* copy overwrites s, so it always waits for add, which reads s */
    sorted((const int64_t[]){0, 1, 2, 3, 4}, "tanh sigmoid relu add copy ");
    sorted((const int64_t[]){0, 0, 0, 0, 0}, "tanh sigmoid relu add copy ");
    sorted((const int64_t[]){5, 4, 3, 2, 1}, "relu tanh sigmoid add copy ");
    sorted((const int64_t[]){0, 9, -1, 9, 0}, "relu tanh sigmoid add copy ");
    sorted((const int64_t[]){0, INT64_MIN, INT64_MAX, -5, 0}, "tanh sigmoid add relu copy ");
}

static void random_keys_keep_dependencies(void **state) {
    (void)state;
    ebb_ctx *ctx = test_ctx_new();
    word_lm m = test_lm_small(LM_LSTM, 4);
    ir_graph graph;
    test_lm(ctx, &m, &graph);
    for (int round = 0; round < 20; round++) {
        test_unit t;
        test_dice dice = {(uint64_t)round};
        test_unit_init(&t, &graph);
        test_pass(&t, &ebb__pass_grad);
        ir_graph *g = &t.unit.graph;
        int64_t *keys = NULL;
        assert_ok(ctx, ebb__pass_keys(g, &t.unit.region, (size_t)g->n_nodes, 1, &keys));
        for (int32_t i = 0; i < g->n_nodes; i++) {
            keys[i] = test_below(&dice, 50);
        }
        int32_t before = g->n_order;
        assert_ok(ctx, ebb__pass_sort(g, keys));
        assert_ok(ctx, ebb__op_verify(g));
        assert_int_equal(g->n_order, before);
        for (ir_val v = 0; v < g->n_values; v++) {
            if (g->values[v].next == IR_NONE) {
                continue;
            }
            int writer = test_place_of(g, g->values[g->values[v].next].def);
            for (int32_t i = writer + 1; i < g->n_order; i++) {
                const ir_node_rec *node = &g->nodes[g->order[i]];
                for (int32_t k = 0; k < node->n_in; k++) {
                    assert_int_not_equal(ir_in(g, node, k), v);
                }
            }
        }
        test_unit_fini(&t);
    }
    ebb__ir_fini(&graph);
    test_ctx_free(ctx);
}

/* Two variables that become each other cannot be ordered. */
static void cycle(void **state) {
    (void)state;
    ebb_ctx *ctx = test_ctx_new();
    ir_graph g;
    test_parse(ctx,
               "state %0 f32[2] \"a\" next=%2\nstate %1 f32[2] \"b\" next=%3\n"
               "%2:f32[2] = copy %1\n%3:f32[2] = copy %0\n",
               &g);
    assert_refused(ctx, ebb__pass_sort(&g, (const int64_t[]){0, 0}), EBB_INTERNAL,
                   "2 of 2 nodes wait for each other");
    ebb__ir_fini(&g);
    test_ctx_free(ctx);
}

static void dead_nodes(void **state) {
    (void)state;
    ebb_ctx *ctx = test_ctx_new();
    ir_graph g;
    test_parse(ctx,
               "param %0 f32[2] \"w\" next=%3\ninput %1 f32[2] \"x\"\n"
               "%2:f32[2] = tanh %1\n%3:f32[2] = add %0 %2\n%4:f32[2] = sigmoid %3\n"
               "%5:f32[2] = relu %4\n%6:f32[2] = relu %1\n%7:f32[1] = sum_all %6\nloss %7\n",
               &g);
    assert_ok(ctx, ebb__pass_drop_dead(&g));
    test_expect(&g, "param %0 f32[2] \"w\" next=%3\ninput %1 f32[2] \"x\"\n"
                    "%2:f32[2] = tanh %1\n%3:f32[2] = add %0 %2\n%6:f32[2] = relu %1\n"
                    "%7:f32[1] = sum_all %6\nloss %7\n");
    ebb__ir_fini(&g);
    test_ctx_free(ctx);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(keys_decide_among_ready_nodes),
                                       cmocka_unit_test(random_keys_keep_dependencies),
                                       cmocka_unit_test(cycle), cmocka_unit_test(dead_nodes)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
