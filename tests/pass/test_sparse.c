/* test_sparse.c - an embedding's gradient that only a norm and plain SGD read is read by rows, with
 * the same bits; any other stays whole. */
#include "support/twin.h"

#define HEAD                                                                                       \
    "param %0 f32[9,4] \"w\" next=%7\ninput %1 i32[3] \"ids\"\ninput %2 f32[3,4] \"d\"\n"          \
    "input %3 f32[4] \"hyper\"\n"

static void becomes(const char *before, const char *after) {
    ebb_ctx *ctx = test_ctx_new();
    test_unit t;
    test_unit_text(&t, ctx, before);
    test_pass(&t, &ebb__pass_sparse);
    test_expect(&t.unit.graph, after);
    test_pass(&t, &ebb__pass_sparse); /* a second time changes nothing */
    test_expect(&t.unit.graph, after);
    test_unit_fini(&t);
    test_ctx_free(ctx);
}

static void norm_and_update(void **state) {
    (void)state;
    becomes(HEAD "%4:f32[3,4] = tanh %2\n"
                 "%5:f32[9,4] = embed_grad - %1 %4 {vocab=9}\n"
                 "%6:f64[1] = sum_squares %5\n"
                 "%8:f32[1], %9:f64[1], %10:i32[1] = clip_scale %6 {clip=0.5}\n"
                 "%7:f32[9,4] = sgd %0 %5 %8 %3\n"
                 "output %9 \"norm\"\n",
            HEAD "%4:f32[3,4] = tanh %2\n"
                 "%6:f64[1] = embed_squares %1 %4 {vocab=9}\n"
                 "%8:f32[1], %9:f64[1], %10:i32[1] = clip_scale %6 {clip=0.5}\n"
                 "%7:f32[9,4] = embed_sgd %0 %1 %4 %8 %3\n"
                 "output %9 \"norm\"\n");
}

/* Without clipping the update waits for nothing; a result that is read by name keeps it. */
static void unclipped_and_named(void **state) {
    (void)state;
    becomes(HEAD "%5:f32[9,4] = embed_grad - %1 %2 {vocab=9}\n"
                 "%7:f32[9,4] = sgd %0 %5 - %3\n"
                 "%6:f64[1] = sum_squares %5\n"
                 "output %6 \"squares\"\n",
            HEAD "%7:f32[9,4] = embed_sgd %0 %1 %2 - %3\n"
                 "%6:f64[1] = embed_squares %1 %2 {vocab=9}\n"
                 "output %6 \"squares\"\n");
}

static void what_stays(void **state) {
    (void)state;
    const char *texts[] = {
        /* a sum goes on */
        HEAD "%4:f32[9,4] = embed_grad - %1 %2 {vocab=9}\n"
             "%5:f32[9,4] = embed_grad %4 %1 %2 {vocab=9}\n"
             "%6:f64[1] = sum_squares %5\n%7:f32[9,4] = sgd %0 %5 - %3\noutput %6 \"s\"\n",
        /* weight decay moves every row */
        HEAD "%5:f32[9,4] = embed_grad - %1 %2 {vocab=9}\n"
             "%6:f64[1] = sum_squares %5\n"
             "%7:f32[9,4] = sgd %0 %5 - %3 {weight_decay=0.5}\noutput %6 \"s\"\n",
        /* another reader, the gradient read by name, the gradient as the table */
        HEAD "%5:f32[9,4] = embed_grad - %1 %2 {vocab=9}\n%6:f32[9,4] = tanh %5\n"
             "%7:f32[9,4] = sgd %0 %5 - %3\noutput %6 \"s\"\n",
        HEAD "%5:f32[9,4] = embed_grad - %1 %2 {vocab=9}\n"
             "%7:f32[9,4] = sgd %0 %5 - %3\noutput %5 \"s\"\n",
        HEAD "%5:f32[9,4] = embed_grad - %1 %2 {vocab=9}\n%7:f32[9,4] = sgd %5 %5 - %3\n",
        /* the gradient becomes a state */
        HEAD "state %8 f32[9,4] \"s\" next=%5\n%5:f32[9,4] = embed_grad - %1 %2 {vocab=9}\n"
             "%7:f32[9,4] = sgd %0 %5 - %3\n",
        /* as many rows as words */
        "param %0 f32[3,4] \"w\" next=%7\ninput %1 i32[3] \"ids\"\ninput %2 f32[3,4] \"d\"\n"
        "input %3 f32[4] \"hyper\"\n%5:f32[3,4] = embed_grad - %1 %2 {vocab=3}\n"
        "%7:f32[3,4] = sgd %0 %5 - %3\n",
    };
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        becomes(texts[i], texts[i]);
    }
}

/* Models with plain SGD, clipped or not, few or many threads: rows where the embedding is not tied,
 * and always the bits of the graph as built. */
static void same_bits(void **state) {
    (void)state;
    for (int i = 0; i < 12; i++) {
        ebb_ctx *ctx = test_ctx_new();
        word_lm m = test_lm_small((lm_cell)(i % 3), 5);
        ir_graph graph;
        m.vocab = 67;
        m.tie = i == 3;
        test_lm(ctx, &m, &graph);
        pass_config config = {.members = 1 + i % 4,
                              .disabled = i == 7 ? 1U << PASS_SPARSE : 0,
                              .update = {.optimizer = UPDATE_SGD, .clip = i % 2 ? 0.1F : 0}};
        ebb_plan *plan = test_compile(
            ctx, &(plan_request){.name = "t", .graph = &graph, .training = true}, &config);
        int rows = i != 3 && i != 7;
        assert_int_equal(test_count(&plan->programs[0].unit.graph, OP_EMBED_SGD), rows);
        assert_int_equal(test_count(&plan->programs[0].unit.graph, OP_EMBED_SQUARES), rows);
        assert_true(test_count(&plan->programs[0].unit.graph, OP_EMBED_GRAD) > 0 || rows);
        test_run_equal(plan, &graph, true, &config.update, 7, 3);
        ebb__ir_fini(&graph);
        test_ctx_free(ctx);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(norm_and_update),
                                       cmocka_unit_test(unclipped_and_named),
                                       cmocka_unit_test(what_stays), cmocka_unit_test(same_bits)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
