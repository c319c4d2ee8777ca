/* test_fuse.c - which nodes are carried out as one run, and what ends one. That runs change no bit
 * and that members cannot disturb each other is shown by test_pipeline, test_fuzz and test_check.
 */
#include "support/graphs.h"

/* Names of the ops that run, a bar where members meet. Free with free(). */
static char *runs_of(const test_unit *t) {
    const ir_graph *g = &t->unit.graph;
    char *text = calloc(1, 1 << 16);
    for (int32_t i = 0; i < g->n_order; i++) {
        ir_node n = g->order[i];
        if (t->unit.kernels[n] != DEVICE_KERNEL_NONE) {
            strcat(text, t->unit.joined[n] ? " " : "|");
            strcat(text, g->schemas[g->nodes[n].op]->name);
        }
    }
    return text;
}

static void runs(const char *graph, const char *wanted) {
    ebb_ctx *ctx = test_ctx_new();
    test_unit t;
    test_unit_text(&t, ctx, graph);
    t.config.training = false;
    test_pass(&t, &ebb__pass_layout); /* marks gates as groups */
    test_pass(&t, &ebb__pass_select);
    test_pass(&t, &ebb__pass_fuse);
    char *got = runs_of(&t);
    assert_string_equal(got, wanted);
    free(got);
    test_unit_fini(&t);
    test_ctx_free(ctx);
}

/* The product begins a run; the cell follows it unit by unit, also through a slice of columns. */
static void a_cell(void **state) {
    (void)state;
    runs("param %0 f32[32,8] \"w\"\ninput %1 f32[2,8] \"h\"\ninput %2 f32[2,8] \"c\"\n"
         "%3:f32[2,32] = matmul - %1 %0 {trans_b=1} @ \"l\" t=0 fwd\n"
         "%4:f32[2,32], %5:f32[2,8] = lstm_gates %3 %2 @ \"l\" t=0 fwd\n"
         "%6:f32[2,8] = slice %4 {axis=1 begin=24 len=8} @ \"l\" t=0 fwd\n"
         "%7:f32[2,8] = lstm_out %6 %5 @ \"l\" t=0 fwd\n"
         "%8:f32[2,32] = matmul - %7 %0 {trans_b=1} @ \"l\" t=1 fwd\n"
         "output %8 \"y\"\n",
         "|matmul lstm_gates lstm_out|matmul");
}

/* A slice that begins between units mixes them. */
static void units_that_move(void **state) {
    (void)state;
    runs("input %0 f32[2,32] \"x\"\n%1:f32[2,32] = tanh %0\n"
         "%2:f32[2,16] = slice %1 {axis=1 begin=8 len=16}\n%3:f32[2,16] = tanh %2\n"
         "%4:f32[2,32] = sigmoid %0\noutput %3 \"a\"\noutput %4 \"b\"\n",
         "|tanh|tanh|sigmoid");
}

/* A softmax reads whole rows; a next value goes to bytes that others of the run may read. */
static void what_ends_a_run(void **state) {
    (void)state;
    runs("input %0 f32[4,16] \"x\"\n%1:f32[4,16] = tanh %0\n%2:f32[4,16] = softmax %1\n"
         "%3:f32[4,16] = tanh %2\noutput %3 \"y\"\n",
         "|tanh|softmax|tanh");
    runs("state %0 f32[4,16] \"s\" next=%2\n%1:f32[4,16] = tanh %0\n%2:f32[4,16] = tanh %1\n"
         "output %1 \"y\"\n",
         "|tanh|tanh");
}

/* One meeting a time step and layer, forward and backward. */
static void the_model(void **state) {
    (void)state;
    enum { T = 6 };
    for (int cell = LM_LSTM; cell <= LM_RNN; cell++) {
        ebb_ctx *ctx = test_ctx_new();
        word_lm m = test_lm_small((lm_cell)cell, T);
        ir_graph graph;
        test_unit t;
        test_lm(ctx, &m, &graph);
        test_unit_init(&t, &graph);
        t.config.knobs.pack = true;
        const pass_def *const passes[] = {
            &ebb__pass_grad,  &ebb__pass_simplify, &ebb__pass_batch_time, &ebb__pass_layout,
            &ebb__pass_alias, &ebb__pass_select,   &ebb__pass_fuse};
        for (size_t i = 0; i < sizeof passes / sizeof *passes; i++) {
            test_pass(&t, passes[i]);
        }
        const ir_graph *g = &t.unit.graph;
        int begins = 0, steps = 0;
        for (int32_t i = 0; i < g->n_order; i++) {
            ir_node n = g->order[i];
            const ir_node_rec *node = &g->nodes[n];
            bool layer = strncmp(g->layers[node->label.layer], "rnn", 3) == 0;
            if (t.unit.kernels[n] != DEVICE_KERNEL_NONE && layer && node->label.at >= 0) {
                begins += !t.unit.joined[n];
                steps += node->op == OP_MATMUL;
            }
        }
        assert_int_equal(steps, 2 * (T + T - 1));
        /* One more run a layer where backward begins, one more behind the copy of the state. */
        assert_true(begins <= steps + 4);
        test_unit_fini(&t);
        ebb__ir_fini(&graph);
        test_ctx_free(ctx);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(a_cell), cmocka_unit_test(units_that_move),
                                       cmocka_unit_test(what_ends_a_run),
                                       cmocka_unit_test(the_model)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
