/* test_contract.c - the scores of attention as one node, and their gradient: when the chains are
 * found, what has to be left alone, and that no bit of training changes. */
#include "model/nmt.h"
#include "support/twin.h"

#include <stdio.h>

/* ---- from text to text ---- */

static void expect(const char *before, const char *after) {
    ebb_ctx *ctx = test_ctx_new();
    test_unit t;
    test_unit_text(&t, ctx, before);
    test_pass(&t, &ebb__pass_contract);
    test_expect(&t.unit.graph, after);
    test_unit_fini(&t);
    test_ctx_free(ctx);
}

static void stays(const char *text) {
    expect(text, text);
}

#define VARIABLES                                                                                  \
    "input %0 f32[6,5] \"x\"\ninput %1 f32[2,5] \"q\"\nparam %2 f32[5] \"v\"\n"                    \
    "input %3 f32[3,2] \"ds\"\ninput %4 f32[6,5] \"c\"\n"
#define AT " @ \"\" t=1 "
#define TANH                                                                                       \
    "%5:f32[6,5] = add_each %0 %1" AT "rec\n"                                                      \
    "%6:f32[6,5] = tanh %5" AT "rec\n"

static void scores(void **state) {
    (void)state;
    expect(VARIABLES TANH "%7:f32[3,2] = dot_rows %6 %2 {batch=2}" AT "fwd\n"
                          "output %7 \"s\"\n",
           VARIABLES "%7:f32[3,2] = score_tanh %0 %1 %2" AT "fwd\n"
                     "output %7 \"s\"\n");
}

/* Somebody else needs what lies in the middle; or blocks are of another size. */
static void scores_stay(void **state) {
    (void)state;
    const char *dot = "%7:f32[3,2] = dot_rows %6 %2 {batch=2}" AT "fwd\n";
    const char *rest[] = {"%8:f32[6,5] = scale %6 {factor=0x1p+1}" AT "fwd\noutput %8 \"y\"\n",
                          "%8:f32[6,5] = scale %5 {factor=0x1p+1}" AT "fwd\noutput %8 \"y\"\n",
                          "output %6 \"y\"\n", "output %5 \"y\"\n"};
    for (size_t i = 0; i < sizeof rest / sizeof *rest; i++) {
        char text[1024];
        (void)snprintf(text, sizeof text, "%s%s%s%s", VARIABLES TANH, dot, rest[i],
                       "output %7 \"s\"\n");
        stays(text);
    }
    stays(VARIABLES TANH "%7:f32[2,3] = dot_rows %6 %2 {batch=3}" AT "fwd\noutput %7 \"s\"\n");
    stays("input %0 f32[6,5] \"x\"\ninput %1 f32[2,5] \"q\"\nparam %2 f32[5] \"v\"\n"
          "state %4 f32[6,5] \"kept\" next=%6\n" TANH "%7:f32[3,2] = dot_rows %6 %2 {batch=2}" AT
          "fwd\noutput %7 \"s\"\n");
}

#define OUTER "%7:f32[6,5] = outer_rows %3 %2" AT "bwd\n"
#define WEIGHTED "%8:f32[2,5] = weighted_sum %3 %6" AT "bwd\n"
#define SLOPE "%9:f32[6,5] = tanh_grad %7 %6" AT "bwd\n"
#define SLOPED "%9:f32[6,5] = score_slope %3 %2 %6" AT "bwd\n" /* outer and slope */
#define SUM_EACH "%10:f32[2,5] = sum_each %9 {batch=2}" AT "bwd\n"
#define SMALL "output %10 \"dq\"\noutput %8 \"dv\"\n"
/* Two readers of the small results, and outputs in their stead. */
#define READERS "%13:f32[2,5] = add %8 %10" AT "bwd\noutput %13 \"small\"\noutput %11 \"dx\"\n"

static void gradient(void **state) {
    (void)state;
    expect(VARIABLES TANH OUTER WEIGHTED SLOPE "%11:f32[6,5] = add %4 %9" AT
                                               "bwd\noutput %11 \"dx\"\n" SUM_EACH SMALL,
           VARIABLES "%11:f32[6,5], %10:f32[2,5], %8:f32[2,5] = score_tanh_grad %4 %3 %0 %1 %2" AT
                     "bwd\n"
                     "output %11 \"dx\"\n" SMALL);
    /* The first term of the sum: there is none so far, and its readers may do what they like. */
    expect(VARIABLES TANH OUTER WEIGHTED SLOPE SUM_EACH "%11:f32[6,5] = add %9 %4" AT
                                                        "bwd\n" READERS,
           VARIABLES "%9:f32[6,5], %10:f32[2,5], %8:f32[2,5] = score_tanh_grad - %3 %0 %1 %2" AT
                     "bwd\n"
                     "%11:f32[6,5] = add %9 %4" AT "bwd\n" READERS);
}

/* What is added waits for dq: then it cannot be an operand. */
static void no_result_waits_for_another(void **state) {
    (void)state;
#define WAITS                                                                                      \
    "%12:f32[6,5] = add_each %4 %10" AT "bwd\n"                                                    \
    "%11:f32[6,5] = add %12 %9" AT "bwd\n" READERS
    expect(VARIABLES TANH OUTER WEIGHTED SLOPE SUM_EACH WAITS,
           VARIABLES "%9:f32[6,5], %10:f32[2,5], %8:f32[2,5] = score_tanh_grad - %3 %0 %1 %2" AT
                     "bwd\n" WAITS);
}

/* Where the scores are computed again too, both have a tanh of their own; a kept one stays. */
static void scores_again(void **state) {
    (void)state;
#define DOT(phase) "%14:f32[3,2] = dot_rows %6 %2 {batch=2}" AT phase "\noutput %14 \"s\"\n"
    expect(VARIABLES TANH DOT("rec") OUTER WEIGHTED SLOPE SUM_EACH SMALL "output %9 \"dx\"\n",
           VARIABLES "%14:f32[3,2] = score_tanh %0 %1 %2" AT "rec\n"
                     "%9:f32[6,5], %10:f32[2,5], %8:f32[2,5] = score_tanh_grad - %3 %0 %1 %2" AT
                     "bwd\noutput %14 \"s\"\noutput %9 \"dx\"\n" SMALL);
#define KEPT "%5:f32[6,5] = add_each %0 %1" AT "fwd\n%6:f32[6,5] = tanh %5" AT "fwd\n" DOT("fwd")
    expect(VARIABLES KEPT OUTER WEIGHTED SLOPE SUM_EACH SMALL,
           VARIABLES KEPT WEIGHTED SLOPED SUM_EACH SMALL);
}

/* Where the tanh is read by others, kept for the caller, or one of the results is missing, only the
 * outer product goes. */
static void slope(void **state) {
    (void)state;
    expect(VARIABLES TANH OUTER WEIGHTED SLOPE SUM_EACH SMALL "output %6 \"y\"\n",
           VARIABLES TANH WEIGHTED SLOPED SUM_EACH SMALL "output %6 \"y\"\n");
    expect(VARIABLES TANH OUTER WEIGHTED SLOPE "output %8 \"dv\"\n"
                                               "output %9 \"dx\"\n",
           VARIABLES TANH WEIGHTED SLOPED "output %8 \"dv\"\n"
                                          "output %9 \"dx\"\n");
    expect(VARIABLES TANH OUTER SLOPE SUM_EACH "output %10 \"dq\"\n",
           VARIABLES TANH SLOPED SUM_EACH "output %10 \"dq\"\n");
    /* Another list of weights. */
#define OTHER "input %12 f32[3,2] \"other\"\n"
#define OTHER_WEIGHTED "%8:f32[2,5] = weighted_sum %12 %6" AT "bwd\n"
    expect(VARIABLES OTHER TANH OUTER OTHER_WEIGHTED SLOPE SUM_EACH SMALL,
           VARIABLES OTHER TANH OTHER_WEIGHTED SLOPED SUM_EACH SMALL);
}

static void gradient_stays(void **state) {
    (void)state;
    /* The outer product is somebody else's too. */
    stays(VARIABLES TANH OUTER WEIGHTED SLOPE SUM_EACH SMALL "output %7 \"y\"\n");
    /* A result that is a variable's next value. */
    stays("input %0 f32[6,5] \"x\"\ninput %1 f32[2,5] \"q\"\nparam %2 f32[5] \"v\"\n"
          "input %3 f32[3,2] \"ds\"\nstate %4 f32[6,5] \"c\" next=%9\n" TANH OUTER WEIGHTED SLOPE
              SUM_EACH SMALL);
}

/* ---- the model ---- */

static nmt_model small(int i) {
    return (nmt_model){.cell = i % 2 == 0 ? LM_LSTM : LM_GRU,
                       .src_vocab = 11,
                       .tgt_vocab = 13,
                       .embed = 6,
                       .hidden = 18,
                       .enc_layers = 1 + i % 2,
                       .dec_layers = 1 + i / 2 % 2,
                       .batch = 1 + i % 5,
                       .src_len = 1 + i % 7,
                       .tgt_len = 4,
                       .feed = i % 3 != 0,
                       .layer_norm = i % 4 == 3,
                       .dropout = i % 3 == 2 ? 0.3 : 0,
                       .smoothing = i % 5 == 4 ? 0.1 : 0,
                       .seed = 5};
}

static ebb_plan *plan_of(ebb_ctx *ctx, const nmt_model *m, pass_config *config, ir_graph *graph) {
    ebb__op_graph_init(graph, ctx);
    assert_ok(ctx, ebb__nmt_build(graph, m));
    return test_compile(ctx, &(plan_request){.name = "t", .graph = graph, .training = true},
                        config);
}

/* Every time step, backward first: the last one begins the sum, the others add to it. */
static void all_steps(const ir_graph *g) {
    assert_int_equal(test_count(g, OP_SCORE_TANH_GRAD), 4);
    for (int n = 0; n < 4; n++) {
        const ir_node_rec *node = test_node(g, OP_SCORE_TANH_GRAD, n);
        ir_val sum = n == 0 ? (ir_val)IR_NONE : test_node(g, OP_SCORE_TANH_GRAD, n - 1)->out;
        assert_int_equal(node->label.at, 3 - n);
        assert_int_equal(node->label.phase, IR_BACKWARD);
        assert_int_equal(ir_in(g, node, 0), sum);
    }
}

/* All steps, where the tanh is computed again; none, where it is kept. */
static void model_is_contracted(void **state) {
    (void)state;
    const struct {
        double price;
        bool norm;
        uint32_t disabled;
        int scores, dot_rows, add_each, slopes, outer; /* nodes that there should be */
    } cases[] = {
        {2e-8, false, 0, 4, 0, 0, 0, 0},
        {1e-6, false, 0, 8, 0, 0, 0, 0}, /* the scores are computed again too */
        {2e-8, false, 1U << PASS_RECOMPUTE, 0, 4, 4, 4, 0},
        {2e-8, false, 1U << PASS_CONTRACT, 0, 4, 8, 0, 4},
        {2e-8, true, 0, 0, 4, 8, 4, 0},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        ebb_ctx *ctx = test_ctx_new();
        nmt_model m = small(5);
        ir_graph graph;
        m.layer_norm = cases[i].norm;
        pass_config config = {.members = 1,
                              .training = true,
                              .knobs.price = cases[i].price,
                              .disabled = cases[i].disabled};
        ebb_plan *plan = plan_of(ctx, &m, &config, &graph);
        const ir_graph *g = &plan->programs[0].unit.graph;
        assert_int_equal(test_count(g, OP_SCORE_TANH), cases[i].scores);
        assert_int_equal(test_count(g, OP_DOT_ROWS), cases[i].dot_rows);
        assert_int_equal(test_count(g, OP_OUTER_ROWS), cases[i].outer);
        assert_int_equal(test_count(g, OP_SCORE_SLOPE), cases[i].slopes);
        assert_int_equal(test_count(g, OP_ADD_EACH), cases[i].add_each);
        if (cases[i].scores > 0) {
            all_steps(g);
        }
        ebb__plan_free(plan);
        ebb__ir_fini(&graph);
        test_ctx_free(ctx);
    }
}

/* What is not trained keeps nothing for backward. */
static void evaluation_is_contracted(void **state) {
    (void)state;
    ebb_ctx *ctx = test_ctx_new();
    nmt_model m = small(5);
    ir_graph graph;
    pass_config config = {.members = 1};
    ebb__op_graph_init(&graph, ctx);
    m.dropout = 0;
    assert_ok(ctx, ebb__nmt_build(&graph, &m));
    ebb_plan *plan = test_compile(
        ctx, &(plan_request){.name = "t", .graph = &graph, .training = false}, &config);
    assert_int_equal(test_count(&plan->programs[0].unit.graph, OP_SCORE_TANH), 4);
    test_run_equal(plan, &graph, false, &config.update, 7, 2);
    ebb__ir_fini(&graph);
    test_ctx_free(ctx);
}

/* With the pass and without it, with and without what it builds on, for any number of members:
 * training gives the bits of the graph as it was differentiated. */
static void same_bits(void **state) {
    (void)state;
    const uint32_t optional[] = {1U << PASS_CONTRACT, 1U << PASS_RECOMPUTE, 1U << PASS_FUSE,
                                 1U << PASS_BATCH_TIME};
    int found = 0;
    for (int i = 0; i < 64; i++) {
        ebb_ctx *ctx = test_ctx_new();
        nmt_model m = small(i / 3);
        ir_graph graph;
        pass_config config = {.members = 1 + i % 4,
                              .training = true,
                              .knobs.chunk_rows = i % 2 == 0 ? 4 : 0,
                              .knobs.pack = i % 5 == 0,
                              .knobs.price = i % 3 == 0 ? 1e-6 : 2e-8,
                              .knobs.span = i % 7 == 6 ? 2 : 0,
                              .update = {.clip = i % 2 == 0 ? 0.1F : 0}};
        for (int k = 0; k < 4; k++) {
            config.disabled |= i >> k & 1 ? optional[k] : 0;
        }
        ebb_plan *plan = plan_of(ctx, &m, &config, &graph);
        found += test_count(&plan->programs[0].unit.graph, OP_SCORE_TANH_GRAD) > 0;
        test_run_equal(plan, &graph, true, &config.update, 7, 3);
        ebb__ir_fini(&graph);
        test_ctx_free(ctx);
    }
    assert_true(found > 5);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(scores),
        cmocka_unit_test(scores_stay),
        cmocka_unit_test(gradient),
        cmocka_unit_test(no_result_waits_for_another),
        cmocka_unit_test(scores_again),
        cmocka_unit_test(slope),
        cmocka_unit_test(gradient_stays),
        cmocka_unit_test(model_is_contracted),
        cmocka_unit_test(evaluation_is_contracted),
        cmocka_unit_test(same_bits),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
