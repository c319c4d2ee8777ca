/* test_schedule.c - updates as soon as their gradient is complete where nothing holds them back,
 * and never a reader of a variable behind the node that overwrites it. */
#include "plan/passes.h"
#include "support/graphs.h"

static void schedule(test_unit *t, ebb_ctx *ctx, lm_cell cell, float clip) {
    word_lm m = test_lm_small(cell, 5);
    ir_graph graph;
    test_lm(ctx, &m, &graph);
    test_unit_init(t, &graph);
    t->config.update.clip = clip;
    test_pass(t, &ebb__pass_grad);
    test_pass(t, &ebb__pass_simplify);
    test_pass(t, &ebb__pass_alias);
    test_pass(t, &ebb__pass_select);
    test_pass(t, &ebb__pass_schedule);
    ebb__ir_fini(&graph);
}

static int last_backward(const ir_graph *g) {
    int last = 0;
    for (int32_t i = 0; i < g->n_order; i++) {
        last = g->nodes[g->order[i]].label.phase == IR_BACKWARD ? i : last;
    }
    return last;
}

static int place_of_update(const ir_graph *g, const char *param) {
    ir_val next = g->values[ebb__ir_find(g, param)].next;
    return test_place_of(g, g->values[next].def);
}

static void early_without_clipping(void **state) {
    (void)state;
    ebb_ctx *ctx = test_ctx_new();
    test_unit t;
    schedule(&t, ctx, LM_LSTM, 0);
    const ir_graph *g = &t.unit.graph;
    /* The projection's gradient is complete before the recurrent layers' backward. */
    assert_true(place_of_update(g, "out.weight") < last_backward(g) / 2 + g->n_order / 4);
    assert_true(place_of_update(g, "out.weight") < place_of_update(g, "rnn.weight_hh_l1"));
    assert_true(place_of_update(g, "rnn.weight_hh_l1") < place_of_update(g, "rnn.weight_hh_l0"));
    assert_true(place_of_update(g, "rnn.weight_hh_l1") < last_backward(g));
    test_unit_fini(&t);
    test_ctx_free(ctx);
}

static void all_together_with_clipping(void **state) {
    (void)state;
    ebb_ctx *ctx = test_ctx_new();
    test_unit t;
    schedule(&t, ctx, LM_LSTM, 1);
    const ir_graph *g = &t.unit.graph;
    int scale = test_place_of(g, g->values[test_node(g, OP_CLIP_SCALE, 0)->out].def);
    for (int32_t i = 0; i < scale; i++) {
        assert_int_not_equal(g->nodes[g->order[i]].op, OP_SGD);
    }
    assert_int_equal(test_count(g, OP_SGD), 11);
    test_unit_fini(&t);
    test_ctx_free(ctx);
}

/* Follows views back to the variable they lie in. */
static ir_val variable_behind(const ir_graph *g, ir_val v) {
    op_range range;
    while (v != IR_NONE && g->values[v].def != IR_NONE) {
        const ir_node_rec *node = &g->nodes[g->values[v].def];
        v = ebb__op_is_slice(node, &range) ? ir_in(g, node, 0) : (ir_val)IR_NONE;
    }
    return v;
}

static void readers_come_first(void **state) {
    (void)state;
    for (int cell = LM_LSTM; cell <= LM_RNN; cell++) {
        ebb_ctx *ctx = test_ctx_new();
        test_unit t;
        schedule(&t, ctx, (lm_cell)cell, 0);
        const ir_graph *g = &t.unit.graph;
        for (int32_t i = 0; i < g->n_order; i++) {
            const ir_node_rec *node = &g->nodes[g->order[i]];
            for (int32_t k = 0; k < node->n_in; k++) {
                ir_val v = variable_behind(g, ir_in(g, node, k));
                if (v != IR_NONE && g->values[v].next != IR_NONE) {
                    assert_true(i <= test_place_of(g, g->values[g->values[v].next].def));
                }
            }
        }
        test_unit_fini(&t);
        test_ctx_free(ctx);
    }
}

/* The order that is kept is no worse than the one the passes left. */
static void never_a_higher_load(void **state) {
    (void)state;
    for (int clip = 0; clip < 2; clip++) {
        ebb_ctx *ctx = test_ctx_new();
        word_lm m = test_lm_small(LM_GRU, 6);
        ir_graph graph;
        uint64_t load[2];
        test_lm(ctx, &m, &graph);
        for (int scheduled = 0; scheduled < 2; scheduled++) {
            test_unit t;
            plan_placement p;
            test_unit_init(&t, &graph);
            t.config.update.clip = (float)clip;
            test_pass(&t, &ebb__pass_grad);
            test_pass(&t, &ebb__pass_alias);
            test_pass(&t, &ebb__pass_select);
            if (scheduled) {
                test_pass(&t, &ebb__pass_schedule);
            }
            assert_ok(ctx, ebb__plan_storage(&t.unit, &p));
            assert_ok(ctx, ebb__plan_load(&t.unit, &p, NULL, &load[scheduled]));
            test_unit_fini(&t);
        }
        assert_true(load[1] <= load[0]);
        assert_true(clip || load[1] < load[0]);
        ebb__ir_fini(&graph);
        test_ctx_free(ctx);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(early_without_clipping), cmocka_unit_test(all_together_with_clipping),
        cmocka_unit_test(readers_come_first), cmocka_unit_test(never_a_higher_load)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
