/* test_lm.c - language models against PyTorch: outputs, every gradient, ten steps of each
 * optimiser.
 *
 * The files come from tools/golden/lm.py, which says what is in them. Everything is first computed
 * by the reference interpreter and compared with PyTorch; then the planned program must give the
 * interpreter's bits, for several numbers of threads and whatever optional pass is left out. */
#include "golden/golden.h"
#include "support/graphs.h"

enum { STEPS = 10 };

static const char *const cases[] = {"lm_lstm", "lm_gru", "lm_rnn", "lm_lstm_tied"};

static void build(const golden *g, bool predict, int64_t shards, ir_graph *graph) {
    const char *cell = note(g, "cell");
    word_lm model = {.cell = strcmp(cell, "lstm") == 0  ? LM_LSTM
                             : strcmp(cell, "gru") == 0 ? LM_GRU
                                                        : LM_RNN,
                     .layers = (int64_t)number(g, "", "layers"),
                     .hidden = (int64_t)number(g, "", "hidden"),
                     .embed = (int64_t)number(g, "", "embed"),
                     .vocab = (int64_t)number(g, "", "vocab"),
                     .batch = (int64_t)number(g, "", "batch"),
                     .steps = (int64_t)number(g, "", "steps"),
                     .tie = number(g, "", "tie") != 0,
                     .state = "state",
                     .predict = predict};
    ebb__op_graph_init(graph, g->ctx);
    must(g->ctx, ebb__word_lm_build(graph, &model));
    test_shard(graph, (int32_t)shards);
}

/* ---- one step ---- */

static void check_one_step(const char *name, bool predict, bool sharded) {
    golden g;
    ir_graph graph;
    open_golden(&g, name);
    build(&g, predict, sharded ? shards_of(&g) : 1, &graph);
    check_graph(&g, &graph);
    close_golden(&g);
}

static void loss_gradients_and_state_are_pytorchs(void **state) {
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        check_one_step(cases[i], false, false);
    }
}

static void they_are_with_shards_too(void **state) {
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        check_one_step(cases[i], false, true);
    }
}

static void logits_are_pytorchs(void **state) {
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        check_one_step(cases[i], true, false);
    }
}

/* ---- ten steps ---- */

static grad_update_settings update_of(const golden *g, const char *run) {
    bool adam = strncmp(run, "adam", 4) == 0;
    return (grad_update_settings){
        .optimizer = !adam                       ? UPDATE_SGD
                     : strcmp(run, "adamw") == 0 ? UPDATE_ADAMW
                                                 : UPDATE_ADAM,
        .momentum = adam ? 0 : (float)number(g, run, "momentum"),
        .beta1 = 0.9F,
        .beta2 = 0.999F,
        .eps = 1e-8F,
        .weight_decay = (float)number(g, run, "weight_decay"),
        .clip = (float)(number(g, "", "clip") * number(g, run, "clipped")),
    };
}

static void check_steps(const char *name, const char *run, bool sharded) {
    golden g;
    ir_graph graph;
    open_golden(&g, name);
    build(&g, false, sharded ? shards_of(&g) : 1, &graph);
    plan_options options = {.members = 2, .budget = UINT64_MAX, .update = update_of(&g, run)};
    run_session *session = start(&g, &graph, true, &options);
    check_steps_of(&g, session, run, STEPS, number(&g, run, "lr"));
    ebb__run_free(session);
    ebb__ir_fini(&graph);
    close_golden(&g);
}

static void ten_steps_are_pytorchs(void **state) {
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        check_steps(cases[i], *state, false);
    }
}

static void ten_steps_are_with_shards_too(void **state) {
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        check_steps(cases[i], *state, true);
    }
}

int main(void) {
    static char sgd[] = "sgd", momentum[] = "momentum", adam[] = "adam", adamw[] = "adamw";
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(loss_gradients_and_state_are_pytorchs),
        cmocka_unit_test(they_are_with_shards_too),
        cmocka_unit_test(logits_are_pytorchs),
        {"ten_steps_of_sgd", ten_steps_are_pytorchs, NULL, NULL, sgd},
        {"ten_steps_of_sgd_with_momentum", ten_steps_are_pytorchs, NULL, NULL, momentum},
        {"ten_steps_of_adam", ten_steps_are_pytorchs, NULL, NULL, adam},
        {"ten_steps_of_adamw", ten_steps_are_pytorchs, NULL, NULL, adamw},
        {"ten_steps_of_adam_with_shards", ten_steps_are_with_shards_too, NULL, NULL, adam},
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
