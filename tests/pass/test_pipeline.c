/* test_pipeline.c - the passes as a whole: names, what may be switched off, dumps, and the same
 * bits from the models with every subset of the optional passes. */
#include "support/twin.h"

#include <stdio.h>

static void names_and_options(void **state) {
    (void)state;
    static const char *const names[] = {
        "infer",  "shard",  "grad",     "stash",     "simplify", "split",   "cut",
        "turns",  "chunk",  "encode",   "recompute", "heap",     "offload", "batch_time",
        "sparse", "slices", "contract", "layout",    "alias",    "select",  "schedule",
        "fuse",   "place",  "team",     "verify"};
    for (int id = 0; id < PASS_COUNT; id++) {
        assert_string_equal(ebb__pass_name((pass_id)id), names[id]);
        bool optional = id == PASS_SIMPLIFY || id == PASS_BATCH_TIME || id == PASS_SPARSE ||
                        id == PASS_CHUNK || id == PASS_ENCODE || id == PASS_RECOMPUTE ||
                        id == PASS_LAYOUT || id == PASS_FUSE || id == PASS_CONTRACT ||
                        id == PASS_TURNS || id == PASS_SLICES || id == PASS_SPLIT ||
                        id == PASS_OFFLOAD;
        assert_int_equal(ebb__pass_optional((pass_id)id), optional);
    }
}

typedef struct dumps {
    char names[256];
    char *text; /* the last */
} dumps;

static void remember(void *user, const char *pass, const char *text) {
    dumps *d = user;
    strcat(d->names, pass);
    strcat(d->names, " ");
    free(d->text);
    d->text = strdup(text);
}

static void dump_after(void **state) {
    (void)state;
    ebb_ctx *ctx = test_ctx_new();
    word_lm m = test_lm_small(LM_LSTM, 3);
    ir_graph graph;
    test_lm(ctx, &m, &graph);
    dumps d = {.names = ""};
    pass_config config = {.members = 1,
                          .knobs.chunk_rows = 4,
                          .knobs.pack = true,
                          .dump_after = ~0U,
                          .dump = remember,
                          .dump_user = &d};
    ebb_plan *plan =
        test_compile(ctx, &(plan_request){.name = "t", .graph = &graph, .training = true}, &config);
    assert_string_equal(d.names,
                        "infer shard grad stash simplify split cut turns chunk encode recompute "
                        "heap offload batch_time sparse slices contract "
                        "layout alias select schedule fuse place team verify ");
    /* The last dump is the graph that was planned, and it can be read back. */
    char *given = test_canonical(d.text), *own = test_text(&plan->programs[0].unit.graph);
    assert_string_equal(given, own);
    ir_graph parsed;
    test_parse(ctx, d.text, &parsed);
    ebb__ir_fini(&parsed);
    free(given);
    free(own);
    ebb__plan_free(plan);
    d.names[0] = '\0';
    config.dump_after = 1U << PASS_CHUNK | 1U << PASS_LAYOUT;
    config.disabled = 1U << PASS_LAYOUT;
    plan =
        test_compile(ctx, &(plan_request){.name = "t", .graph = &graph, .training = true}, &config);
    assert_string_equal(d.names, "chunk ");
    assert_non_null(strstr(d.text, "xent"));
    free(d.text);
    ebb__plan_free(plan);
    ebb__ir_fini(&graph);
    test_ctx_free(ctx);
}

/* The walk dumps only the plan that is taken. */
static void walk_dumps_once(void **state) {
    (void)state;
    ebb_ctx *ctx = test_ctx_new();
    word_lm m = test_lm_small(LM_RNN, 3);
    ir_graph graph;
    ebb_plan *plan = NULL;
    dumps d = {.names = ""};
    test_lm(ctx, &m, &graph);
    plan_options options = {.members = 1,
                            .budget = UINT64_MAX,
                            .dump_after = 1U << PASS_GRAD,
                            .dump = remember,
                            .dump_user = &d};
    plan_request request = {.name = "t", .graph = &graph, .training = true};
    assert_ok(ctx, ebb__plan_make(ctx, &request, 1, NULL, 0, &options, &plan));
    assert_string_equal(d.names, "grad ");
    free(d.text);
    ebb__plan_free(plan);
    ebb__ir_fini(&graph);
    test_ctx_free(ctx);
}

static void same_bits(void **state) {
    (void)state;
    const uint32_t optional[] = {1U << PASS_SIMPLIFY,   1U << PASS_CHUNK, 1U << PASS_LAYOUT,
                                 1U << PASS_BATCH_TIME, 1U << PASS_FUSE,  1U << PASS_SPARSE};
    for (int i = 0; i < 192; i++) {
        ebb_ctx *ctx = test_ctx_new();
        word_lm m = test_lm_small((lm_cell)(i % 3), 5);
        m.tie = i % 2 == 0;
        ir_graph graph;
        test_lm(ctx, &m, &graph);
        pass_config config = {.members = 1 + i % 4,
                              .knobs.chunk_rows = 4,
                              .knobs.pack = true,
                              .update = {.optimizer = (grad_optimizer)(i % 3),
                                         .momentum = 0.5F,
                                         .beta1 = 0.9F,
                                         .beta2 = 0.99F,
                                         .eps = 1e-8F,
                                         .clip = i % 2 ? 0.1F : 0}};
        for (int k = 0; k < 6; k++) {
            config.disabled |= (i / 3) >> k & 1 ? optional[k] : 0;
        }
        ebb_plan *plan = test_compile(
            ctx, &(plan_request){.name = "t", .graph = &graph, .training = true}, &config);
        const ir_graph *g = &plan->programs[0].unit.graph;
        assert_int_equal(test_count(g, OP_XENT), config.disabled & optional[1] ? 1 : 4);
        assert_true((test_count(g, OP_PACK) > 0) == !(config.disabled & optional[2]));
        test_run_equal(plan, &graph, true, &config.update, 7, 3);
        ebb__ir_fini(&graph);
        test_ctx_free(ctx);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(names_and_options), cmocka_unit_test(dump_after),
        cmocka_unit_test(walk_dumps_once), cmocka_unit_test(same_bits)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
