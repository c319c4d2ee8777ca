/* test_chunk.c - the loss's row-wise chain in pieces: how many, what is carried, what is stacked,
 * where they stand, and which chains are left whole. That no bit changes is test_fuzz's matter. */
#include "support/graphs.h"

/* x [10, 3] -> logits [10, 5] with a weight and a bias, dropout on the logits. */
static const char *const model =
    "param %0 f32[5,3] \"w\"\nparam %1 f32[5] \"b\"\nparam %2 f32[10,3] \"x\"\n"
    "input %3 i32[10] \"y\"\ninput %4 i32[1] \"step\"\n"
    "%5:f32[10,5] = matmul %1 %2 %0 {trans_b=1}\n"
    "%6:f32[10,5] = dropout %5 %4 {key0=1 key1=2 dtime=1 lanes=2 p=0.25}\n"
    "%7:f32[10], %8:f32[10] = xent %6 %3\n"
    "%9:f32[1] = mean_valid %7 %3\n"
    "loss %9\noutput %9 \"loss\"\n";

static void start(test_unit *t, ebb_ctx *ctx, const char *text, int32_t rows, bool training) {
    test_unit_text(t, ctx, text);
    t->config.knobs.chunk_rows = rows;
    t->config.training = training;
    test_pass(t, &ebb__pass_grad);
    test_pass(t, &ebb__pass_simplify);
}

static void chunks_and_rest(void **state) {
    (void)state;
    ebb_ctx *ctx = test_ctx_new();
    test_unit t;
    start(&t, ctx, model, 4, true);
    test_pass(&t, &ebb__pass_chunk);
    ir_graph *g = &t.unit.graph;
    assert_int_equal(test_count(g, OP_XENT), 3); /* rows 4 4 2 */
    assert_int_equal(test_count(g, OP_XENT_GRAD), 3);
    assert_int_equal(test_count(g, OP_DROPOUT), 6);
    assert_int_equal(test_count(g, OP_SUM_ROWS), 3);
    assert_int_equal(test_count(g, OP_MATMUL), 9); /* logits, dx, dw */
    assert_int_equal(test_count(g, OP_MEAN_VALID), 1);
    const int32_t rows[] = {4, 4, 2};
    for (int i = 0; i < 3; i++) {
        assert_int_equal(op_in_type(g, test_node(g, OP_XENT, i), 0)->dim[0], rows[i]);
        assert_int_equal(test_node(g, OP_DROPOUT, 2 * i)->attr.i[5], 4 * i);
        assert_int_equal(test_node(g, OP_DROPOUT, 2 * i + 1)->attr.i[5], 4 * i);
    }
    /* Nothing as high as the whole and as wide as the logits is left. */
    for (int32_t i = 0; i < g->n_order; i++) {
        const ir_node_rec *node = &g->nodes[g->order[i]];
        const ir_type *type = &g->values[node->out].type;
        assert_false(type->rank == 2 && type->dim[0] == 10 && type->dim[1] == 5);
    }
    test_unit_fini(&t);
    test_ctx_free(ctx);
}

static void sums_are_carried(void **state) {
    (void)state;
    ebb_ctx *ctx = test_ctx_new();
    test_unit t;
    start(&t, ctx, model, 4, true);
    test_pass(&t, &ebb__pass_chunk);
    const ir_graph *g = &t.unit.graph;
    ir_val w = ebb__ir_find(g, "w");
    const ir_node_rec *dw = test_def(g, ir_in(g, test_def(g, g->values[w].next), 1));
    for (int i = 2; i >= 0; i--) {
        assert_int_equal(dw->op, OP_MATMUL);
        assert_int_equal(op_in_type(g, dw, 1)->dim[0], i == 2 ? 2 : 4);
        assert_true((ir_in(g, dw, 0) == IR_NONE) == (i == 0));
        dw = i > 0 ? test_def(g, ir_in(g, dw, 0)) : dw;
    }
    /* The mean reads the rows' losses as a stack of three; so does x's update its gradient. */
    const ir_node_rec *rows = test_def(g, ir_in(g, test_node(g, OP_MEAN_VALID, 0), 0));
    assert_int_equal(rows->op, OP_STACK);
    assert_int_equal(rows->n_in, 3);
    ir_val x = ebb__ir_find(g, "x");
    const ir_node_rec *dx = test_def(g, ir_in(g, test_def(g, g->values[x].next), 1));
    assert_int_equal(dx->op, OP_STACK);
    assert_true(g->values[dx->out].param_grad);
    test_unit_fini(&t);
    test_ctx_free(ctx);
}

static void left_whole(const char *text, int32_t rows, bool training) {
    ebb_ctx *ctx = test_ctx_new();
    test_unit t;
    start(&t, ctx, text, rows, training);
    char *before = test_text(&t.unit.graph);
    test_pass(&t, &ebb__pass_chunk);
    char *after = test_text(&t.unit.graph);
    assert_string_equal(before, after);
    free(before);
    free(after);
    test_unit_fini(&t);
    test_ctx_free(ctx);
}

static void no_reason_to_split(void **state) {
    (void)state;
    left_whole(model, 0, true);
    left_whole(model, 10, true);
    left_whole(model, 11, true);
}

/* softmax has no row roles: it stays outside, the value between is read as slices of the whole. */
static void chain_ends_where_rows_end(void **state) {
    (void)state;
    ebb_ctx *ctx = test_ctx_new();
    test_unit t;
    start(&t, ctx,
          "param %0 f32[5,5] \"w\"\ninput %3 i32[10] \"y\"\ninput %2 f32[5,10] \"x\"\n"
          "%5:f32[10,5] = transpose %2\n"
          "%6:f32[10,5] = matmul - %5 %0 {trans_b=1}\n"
          "%7:f32[10], %8:f32[10] = xent %6 %3\n%9:f32[1] = mean_valid %7 %3\nloss %9\n",
          5, true);
    test_pass(&t, &ebb__pass_chunk);
    const ir_graph *g = &t.unit.graph;
    assert_int_equal(test_count(g, OP_TRANSPOSE), 1);
    assert_int_equal(test_count(g, OP_XENT), 2);
    for (int i = 0; i < 2; i++) {
        const ir_node_rec *product = test_node(g, OP_MATMUL, i == 0 ? 0 : 2);
        const ir_node_rec *part = test_def(g, ir_in(g, product, 1));
        assert_int_equal(part->op, OP_SLICE);
        assert_int_equal(part->attr.i[1], 5 * i);
        assert_int_equal(test_def(g, ir_in(g, part, 0))->op, OP_TRANSPOSE);
    }
    test_unit_fini(&t);
    test_ctx_free(ctx);
}

/* The logits leave through a transpose and come back as wide as they were. */
static void path_that_comes_back(void **state) {
    (void)state;
    left_whole("param %0 f32[5,5] \"w\"\ninput %3 i32[10] \"y\"\ninput %2 f32[10,5] \"x\"\n"
               "%4:f32[10,5] = matmul - %2 %0 {trans_b=1}\n"
               "%5:f32[5,10] = transpose %4\n%6:f32[10,5] = transpose %5\n"
               "%10:f32[10,5] = add %4 %6\n"
               "%7:f32[10], %8:f32[10] = xent %10 %3\n%9:f32[1] = mean_valid %7 %3\nloss %9\n",
               5, true);
}

/* A sum over rows that looks like the logits (10 x 10) is complete only after the last chunk. */
static void sum_read_inside(void **state) {
    (void)state;
    left_whole("param %0 f32[10,10] \"w\"\ninput %3 i32[10] \"y\"\ninput %2 f32[10,10] \"x\"\n"
               "%4:f32[10,10] = matmul - %2 %0 {trans_b=1}\n"
               "%5:f32[10,10] = matmul - %4 %4 {trans_a=1}\n"
               "%6:f32[10,10] = add %4 %5\n"
               "%7:f32[10], %8:f32[10] = xent %6 %3\n%9:f32[1] = mean_valid %7 %3\nloss %9\n",
               4, false);
}

/* As wide as the hidden size: the chain grows no further than rows do. */
static void width_of_hidden(void **state) {
    (void)state;
    ebb_ctx *ctx = test_ctx_new();
    word_lm m = test_lm_small(LM_LSTM, 6);
    m.vocab = m.hidden;
    ir_graph graph;
    test_unit t;
    test_lm(ctx, &m, &graph);
    test_unit_init(&t, &graph);
    t.config.knobs.chunk_rows = 8;
    test_pass(&t, &ebb__pass_grad);
    test_pass(&t, &ebb__pass_simplify);
    int cells = test_count(&t.unit.graph, OP_LSTM_GATES);
    test_pass(&t, &ebb__pass_chunk);
    assert_int_equal(test_count(&t.unit.graph, OP_XENT), 3); /* 18 rows */
    assert_int_equal(test_count(&t.unit.graph, OP_LSTM_GATES), cells);
    test_unit_fini(&t);
    ebb__ir_fini(&graph);
    test_ctx_free(ctx);
}

/* Chunks stand behind the last forward cell and in front of the first backward one, rows ascending.
 */
static void chunks_stand_before_their_readers(void **state) {
    (void)state;
    ebb_ctx *ctx = test_ctx_new();
    word_lm m = test_lm_small(LM_RNN, 6);
    ir_graph graph;
    test_unit t;
    test_lm(ctx, &m, &graph);
    test_unit_init(&t, &graph);
    t.config.knobs.chunk_rows = 6; /* two time steps of 3 */
    test_pass(&t, &ebb__pass_grad);
    test_pass(&t, &ebb__pass_simplify);
    test_pass(&t, &ebb__pass_chunk);
    const ir_graph *g = &t.unit.graph;
    int chunk = 0, forward = 0, backward = 0;
    for (int32_t i = 0; i < g->n_order; i++) {
        const ir_node_rec *node = &g->nodes[g->order[i]];
        forward += node->op == OP_TANH;
        if (node->op == OP_XENT) {
            const ir_node_rec *labels = test_def(g, ir_in(g, node, 1));
            assert_int_equal(labels->attr.i[1], 6 * chunk++);
            assert_int_equal(forward, 12);
            assert_int_equal(backward, 0);
        }
        if (node->op == OP_TANH_GRAD) {
            assert_int_equal(node->label.at, 5 - backward % 6);
            backward++;
        }
    }
    assert_int_equal(chunk, 3);
    assert_int_equal(backward, 12);
    test_unit_fini(&t);
    ebb__ir_fini(&graph);
    test_ctx_free(ctx);
}

static void forward_only(void **state) {
    (void)state;
    ebb_ctx *ctx = test_ctx_new();
    test_unit t;
    start(&t, ctx, model, 3, false);
    test_pass(&t, &ebb__pass_chunk);
    assert_int_equal(test_count(&t.unit.graph, OP_XENT), 4);
    assert_int_equal(test_count(&t.unit.graph, OP_MEAN_VALID), 1);
    test_unit_fini(&t);
    test_ctx_free(ctx);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(chunks_and_rest),      cmocka_unit_test(sums_are_carried),
        cmocka_unit_test(no_reason_to_split),   cmocka_unit_test(chain_ends_where_rows_end),
        cmocka_unit_test(path_that_comes_back), cmocka_unit_test(sum_read_inside),
        cmocka_unit_test(width_of_hidden),      cmocka_unit_test(chunks_stand_before_their_readers),
        cmocka_unit_test(forward_only)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
