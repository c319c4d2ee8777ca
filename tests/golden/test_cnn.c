/* test_cnn.c - convolutional nets against PyTorch: logits, loss, every gradient and running
 * statistic, steps of SGD.
 *
 * The files come from tools/golden/cnn.py, which says what is in them, the nets among it; how they
 * are compared is told in test_lm.c. */
#include "golden/golden.h"

#include "model/cnn.h"
#include "model/net_text.h"

enum { STEPS = 3 };

static const char *const cases[] = {"cnn_plain", "cnn_branches", "cnn_sums"};
enum { CASES = sizeof cases / sizeof *cases };

/* lanes 0: as suits the batch. */
static void build(const golden *g, bool train, int64_t lanes, ir_graph *graph) {
    net_model net;
    ebb__net_init(&net, g->ctx);
    must(g->ctx, ebb__net_parse(&net, g->name, note(g, "net")));
    must(g->ctx, ebb__net_finish(&net));
    cnn_model model = {.net = &net,
                       .batch = (int64_t)number(g, "", "batch"),
                       .lanes = lanes,
                       .train = train,
                       .dropout = -1};
    ebb__op_graph_init(graph, g->ctx);
    must(g->ctx, ebb__cnn_build(graph, &model));
    ebb__net_fini(&net);
}

static void loss_gradients_and_statistics_are_pytorchs(void **state) {
    (void)state;
    for (size_t i = 0; i < CASES; i++) {
        golden g;
        ir_graph graph;
        open_golden(&g, cases[i]);
        build(&g, true, 0, &graph);
        check_graph(&g, &graph);
        close_golden(&g);
    }
}

/* With statistics that were carried, and nothing to learn. */
static void logits_are_pytorchs(void **state) {
    (void)state;
    for (size_t i = 0; i < CASES; i++) {
        golden g;
        ir_graph graph;
        open_golden(&g, cases[i]);
        g.outputs = "eval.";
        build(&g, false, 0, &graph);
        graph.loss = IR_NONE;
        check_graph(&g, &graph);
        close_golden(&g);
    }
}

/* Programs whose maps have other lanes of images give the bits of the usual ones. */
static void lanes_do_not_show(void **state) {
    (void)state;
    for (size_t i = 0; i < CASES; i++) {
        golden g;
        ir_graph usual;
        run_interp interp;
        open_golden(&g, cases[i]);
        build(&g, true, 0, &usual);
        add_gradients(&usual);
        run_reference(&g, &usual, &interp);
        const int64_t lanes[] = {1, 2, (int64_t)number(&g, "", "batch")};
        for (size_t k = 0; k < sizeof lanes / sizeof *lanes; k++) {
            ir_graph graph;
            build(&g, true, lanes[k], &graph);
            add_gradients(&graph);
            for (int threads = 1; threads <= 2; threads++) {
                plan_options options = {.members = threads, .budget = UINT64_MAX};
                run_session *session = start(&g, &graph, false, &options);
                assert_int_equal(ebb__run_step(session, 0), EBB_OK);
                assert_same_bits(g.name, &interp, session);
                ebb__run_free(session);
            }
            ebb__ir_fini(&graph);
        }
        ebb__interp_fini(&interp);
        ebb__ir_fini(&usual);
        close_golden(&g);
    }
}

static void steps_of_sgd_are_pytorchs(void **state) {
    (void)state;
    for (size_t i = 0; i < CASES; i++) {
        golden g;
        ir_graph graph;
        open_golden(&g, cases[i]);
        build(&g, true, 0, &graph);
        grad_update_settings update = {.optimizer = UPDATE_SGD,
                                       .momentum = (float)number(&g, "", "momentum"),
                                       .weight_decay = (float)number(&g, "", "weight_decay")};
        plan_options options = {.members = 2, .budget = UINT64_MAX, .update = update};
        run_session *session = start(&g, &graph, true, &options);
        check_steps_of(&g, session, "sgd", STEPS, number(&g, "", "lr"));
        ebb__run_free(session);
        ebb__ir_fini(&graph);
        close_golden(&g);
    }
}

/* One step whose backward reads rounded values, in files of tools/golden/cnn_stash.py; whatever the
 * plan does. */
static void a_step_with_rounded_values_is_pytorchs(void **state) {
    (void)state;
    static const char *const rounded[] = {"cnn_fp10", "cnn_fp8"};
    for (size_t i = 0; i < sizeof rounded / sizeof *rounded; i++) {
        golden g;
        ir_graph graph;
        open_golden(&g, rounded[i]);
        build(&g, true, 0, &graph);
        for (uint32_t off = 0; off < 2; off++) {
            plan_options options = {.members = 2,
                                    .budget = UINT64_MAX,
                                    .disabled = off << PASS_ENCODE,
                                    .stash = (int32_t)number(&g, "", "stash"),
                                    .update = {.optimizer = UPDATE_SGD}};
            run_session *session = start(&g, &graph, true, &options);
            check_steps_of(&g, session, "sgd", 1, number(&g, "", "lr"));
            ebb__run_free(session);
        }
        ebb__ir_fini(&graph);
        close_golden(&g);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(loss_gradients_and_statistics_are_pytorchs),
        cmocka_unit_test(logits_are_pytorchs),
        cmocka_unit_test(lanes_do_not_show),
        cmocka_unit_test(steps_of_sgd_are_pytorchs),
        cmocka_unit_test(a_step_with_rounded_values_is_pytorchs),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
