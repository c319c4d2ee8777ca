/* test_cnn.c - convolutional nets against PyTorch: logits, loss, every gradient and running
 * statistic, steps of SGD. Batches in shards against the shards as batches of their own.
 *
 * The files come from tools/golden/cnn.py, which says what is in them, the nets among it; how they
 * are compared is told in test_lm.c. */
#include "golden/golden.h"

#include "model/cnn.h"
#include "model/net_text.h"
#include "support/graphs.h"

enum { STEPS = 3 };

static const char *const cases[] = {"cnn_plain", "cnn_branches", "cnn_sums", "cnn_leaky"};
enum { CASES = sizeof cases / sizeof *cases };

/* For one of so many parts of the batch. */
static void build_part(const golden *g, bool train, int64_t lanes, int64_t parts, ir_graph *graph) {
    net_model net;
    ebb__net_init(&net, g->ctx);
    must(g->ctx, ebb__net_parse(&net, g->name, note(g, "net")));
    must(g->ctx, ebb__net_finish(&net));
    cnn_model model = {.net = &net,
                       .batch = (int64_t)number(g, "", "batch") / parts,
                       .lanes = lanes,
                       .train = train,
                       .dropout = -1};
    ebb__op_graph_init(graph, g->ctx);
    must(g->ctx, ebb__cnn_build(graph, &model));
    ebb__net_fini(&net);
}

/* lanes 0: as suits the batch. */
static void build(const golden *g, bool train, int64_t lanes, ir_graph *graph) {
    build_part(g, train, lanes, 1, graph);
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

/* ---- shards ---- */

/* A net without statistics of the batch does not know of shards. */
static void plain_nets_are_with_shards_too(void **state) {
    (void)state;
    for (int32_t shards = 2; shards <= 3; shards++) {
        golden g;
        ir_graph graph;
        open_golden(&g, "cnn_plain");
        build(&g, true, 0, &graph);
        test_shard(&graph, shards);
        check_graph(&g, &graph);
        close_golden(&g);
    }
}

enum { MOST_SHARDS = 4 };

/* A net that is trained on nothing but the images of one shard. */
typedef struct alone {
    ir_graph graph;
    run_interp interp;
    double weight; /* the labels that count, of all such */
} alone;

static void run_alone(const golden *g, int32_t shards, int32_t shard, alone *a) {
    build_part(g, true, 0, shards, &a->graph);
    add_gradients(&a->graph);
    must(g->ctx, ebb__interp_init(&a->interp, &a->graph));
    a->weight = 0;
    for (ir_val v = 0; v < a->graph.n_values; v++) {
        const ir_value *value = &a->graph.values[v];
        bool labels = value->name != NULL && strcmp(value->name, CNN_LABELS) == 0;
        bool images = value->name != NULL && strcmp(value->name, CNN_PIXELS) == 0;
        if (value->role != IR_TEMP) {
            fill(g, value->role, value->name, a->interp.data[v], ebb__ir_type_bytes(&value->type),
                 labels || images ? shard : 0);
        }
        for (int32_t i = 0; labels && i < value->type.dim[0]; i++) {
            a->weight += ((const int32_t *)a->interp.data[v])[i] >= 0;
        }
    }
    must(g->ctx, ebb__interp_step(&a->interp));
}

/* The value of the whole is the mean of what the shards have under its name: statistics each as
 * much as another, gradients and loss by the labels that count. */
static void check_mean(const golden *g, const run_interp *whole, ir_val v, const alone *parts,
                       int32_t shards) {
    const ir_value *value = &whole->graph->values[v];
    size_t n = (size_t)ebb__ir_type_bytes(&value->type) / sizeof(float);
    float *want = calloc(n, sizeof *want);
    double all = 0;
    assert_non_null(want);
    for (int32_t s = 0; s < shards; s++) {
        all += value->role == IR_BUFFER ? 1 : parts[s].weight;
    }
    for (size_t i = 0; i < n; i++) {
        double sum = 0;
        for (int32_t s = 0; s < shards; s++) {
            const float *own = parts[s].interp.data[ebb__ir_find(&parts[s].graph, value->name)];
            sum += (value->role == IR_BUFFER ? 1 : parts[s].weight) * (double)own[i];
        }
        want[i] = (float)(sum / all);
    }
    golden_error error = compare(whole->data[v], want, n);
    free(want);
    if (!(error.largest <= BOUND && error.norm <= BOUND)) {
        fail_msg("%s, %d shards: %s is off by %.3g", g->name, shards, value->name, error.largest);
    }
}

static void check_shards(const golden *g, int32_t shards) {
    ir_graph graph;
    run_interp interp;
    alone parts[MOST_SHARDS];
    int checked = 0;
    for (int32_t s = 0; s < shards; s++) {
        run_alone(g, shards, s, &parts[s]);
    }
    build(g, true, 0, &graph);
    test_shard(&graph, shards);
    add_gradients(&graph);
    run_reference(g, &graph, &interp);
    for (ir_val v = 0; v < graph.n_values; v++) {
        const ir_value *value = &graph.values[v];
        if ((value->role == IR_TEMP && value->output) ||
            (value->role == IR_BUFFER && value->next != IR_NONE)) {
            check_mean(g, &interp, v, parts, shards);
            checked++;
        }
    }
    assert_true(checked > 8);
    compare_with_sessions(g, &interp);
    ebb__interp_fini(&interp);
    ebb__ir_fini(&graph);
    for (int32_t s = 0; s < shards; s++) {
        ebb__interp_fini(&parts[s].interp);
        ebb__ir_fini(&parts[s].graph);
    }
}

/* So batch norm has the statistics of a shard, and running ones are the mean over the shards. */
static void a_step_is_the_mean_of_its_shards(void **state) {
    (void)state;
    for (size_t i = 0; i < CASES; i++) {
        golden g;
        open_golden(&g, cases[i]);
        for (int32_t shards = 2; shards <= MOST_SHARDS; shards++) {
            if ((int64_t)number(&g, "", "batch") % shards == 0) {
                check_shards(&g, shards);
            }
        }
        close_golden(&g);
    }
}

/* ---- steps ---- */

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
        cmocka_unit_test(plain_nets_are_with_shards_too),
        cmocka_unit_test(a_step_is_the_mean_of_its_shards),
        cmocka_unit_test(steps_of_sgd_are_pytorchs),
        cmocka_unit_test(a_step_with_rounded_values_is_pytorchs),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
