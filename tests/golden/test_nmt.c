/* test_nmt.c - translation models against PyTorch: outputs, every gradient, steps of Adam.
 *
 * The files come from tools/golden/nmt.py, which says what is in them; how they are compared is
 * told in test_lm.c. */
#include "golden/golden.h"
#include "support/graphs.h"

#include "model/nmt.h"

enum { STEPS = 4 };

static const char *const cases[] = {"nmt_mlp",      "nmt_mlp_feed", "nmt_dot",     "nmt_dot_norm",
                                    "nmt_norm",     "nmt_gru",      "nmt_deep",    "nmt_both",
                                    "nmt_residual", "nmt_init",     "nmt_init_gru"};

/* What older files do not know of is off. */
static bool has(const golden *g, const char *key) {
    return ebb__safetensors_note(&g->file, key) != NULL && number(g, "", key) != 0;
}

static void build(const golden *g, bool predict, int64_t shards, ir_graph *graph) {
    nmt_model model = {.cell = strcmp(note(g, "cell"), "lstm") == 0 ? LM_LSTM : LM_GRU,
                       .attention = strcmp(note(g, "attention"), "mlp") == 0 ? NMT_MLP : NMT_DOT,
                       .src_vocab = (int64_t)number(g, "", "src_vocab"),
                       .tgt_vocab = (int64_t)number(g, "", "tgt_vocab"),
                       .embed = (int64_t)number(g, "", "embed"),
                       .hidden = (int64_t)number(g, "", "hidden"),
                       .enc_layers = (int64_t)number(g, "", "enc_layers"),
                       .dec_layers = (int64_t)number(g, "", "dec_layers"),
                       .batch = (int64_t)number(g, "", "batch"),
                       .src_len = (int64_t)number(g, "", "src_len"),
                       .tgt_len = (int64_t)number(g, "", "tgt_len"),
                       .feed = number(g, "", "feed") != 0,
                       .layer_norm = number(g, "", "layer_norm") != 0,
                       .bidirectional = has(g, "bidirectional"),
                       .residual = has(g, "residual"),
                       .init_decoder = has(g, "init_decoder"),
                       .tie = number(g, "", "tie") != 0,
                       .tie_src = number(g, "", "tie_src") != 0,
                       .smoothing = number(g, "", "smoothing"),
                       .predict = predict};
    ebb__op_graph_init(graph, g->ctx);
    must(g->ctx, ebb__nmt_build(graph, &model));
    test_shard(graph, (int32_t)shards);
}

static void check_one_step(bool predict, bool sharded) {
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        golden g;
        ir_graph graph;
        open_golden(&g, cases[i]);
        build(&g, predict, sharded ? shards_of(&g) : 1, &graph);
        check_graph(&g, &graph);
        close_golden(&g);
    }
}

static void loss_and_gradients_are_pytorchs(void **state) {
    (void)state;
    check_one_step(false, false);
}

static void they_are_with_shards_too(void **state) {
    (void)state;
    check_one_step(false, true);
}

static void logits_are_pytorchs(void **state) {
    (void)state;
    check_one_step(true, false);
}

static void steps_of_adam_are_pytorchs(void **state) {
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        golden g;
        ir_graph graph;
        open_golden(&g, cases[i]);
        build(&g, false, 1, &graph);
        grad_update_settings update = {.optimizer = UPDATE_ADAM,
                                       .beta1 = 0.9F,
                                       .beta2 = 0.999F,
                                       .eps = 1e-8F,
                                       .clip = (float)number(&g, "", "clip")};
        plan_options options = {.members = 2, .budget = UINT64_MAX, .update = update};
        run_session *session = start(&g, &graph, true, &options);
        check_steps_of(&g, session, "adam", STEPS, number(&g, "", "lr"));
        ebb__run_free(session);
        ebb__ir_fini(&graph);
        close_golden(&g);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(loss_and_gradients_are_pytorchs),
        cmocka_unit_test(they_are_with_shards_too),
        cmocka_unit_test(logits_are_pytorchs),
        cmocka_unit_test(steps_of_adam_are_pytorchs),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
