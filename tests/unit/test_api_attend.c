/* test_api_attend.c - attention written with the public interface: it learns, padding does not show
 * in any bit, and neither do threads and budget. */
#include "api_help.h"

enum { WORDS = 7, STEPS = 4, MOST_POSITIONS = 9, MOST_ROWS = 48 };

typedef struct sizes {
    int32_t positions, batch, units;
} sizes;

static const sizes small = {5, 3, 6};
/* Batch rows and columns are equally many: whoever cuts by one must not think it is the other. */
static const sizes square = {9, 48, 48};

/* A stack of embedded words, each masked by its row's length; block j is position S-1-j. */
static ebb_value memory_of(ebb_graph *g, const sizes *n, ebb_value source, ebb_value lengths) {
    ebb_value table = ebb_param(g, "table", EBB_DIMS(WORDS, n->units)), blocks[MOST_POSITIONS];
    for (int32_t j = 0; j < n->positions; j++) {
        ebb_value ids = ebb_slice(g, source, 0, j * n->batch, n->batch);
        ebb_value x = ebb_tanh(g, ebb_embed(g, table, ids));
        blocks[j] = ebb_mask_rows(g, x, lengths, n->positions - 1 - j);
    }
    return ebb_stack(g, blocks, n->positions);
}

/* Every other step scores by products, the others by a small network with layer norm. */
static ebb_value scores_of(ebb_graph *g, const sizes *n, ebb_value keys, ebb_value h, int32_t step,
                           const ebb_value *p) {
    if (step % 2 == 0) {
        return ebb_dot_each(g, keys, h);
    }
    ebb_value sum = ebb_add_each(g, keys, ebb_linear(g, h, p[0], EBB_NO_VALUE));
    ebb_value hidden = ebb_tanh(g, ebb_layer_norm(g, sum, p[1], p[2], 1e-5, n->batch));
    return ebb_dot_rows(g, hidden, p[3], n->batch);
}

static ebb_graph *attention(ebb_ctx *ctx, const sizes *n) {
    ebb_graph *g = new_graph(ctx);
    ebb_value source = ebb_input_i32(g, "source", EBB_DIMS(n->positions * n->batch));
    ebb_value lengths = ebb_input_i32(g, "lengths", EBB_DIMS(n->batch));
    ebb_value labels = ebb_input_i32(g, "labels", EBB_DIMS(STEPS * n->batch));
    ebb_value memory = memory_of(g, n, source, lengths), hs[STEPS];
    ebb_value wk = ebb_param(g, "wk", EBB_DIMS(n->units, n->units));
    ebb_value keys = ebb_linear(g, memory, wk, EBB_NO_VALUE);
    ebb_value wq = ebb_param(g, "wq", EBB_DIMS(n->units, n->units));
    ebb_value gain = ebb_param(g, "gain", EBB_DIMS(n->units));
    ebb_value bias = ebb_param(g, "bias", EBB_DIMS(n->units));
    ebb_value p[] = {wq, gain, bias, ebb_param(g, "v", EBB_DIMS(n->units))};
    ebb_value wh = ebb_param(g, "wh", EBB_DIMS(n->units, n->units));
    ebb_value wc = ebb_param(g, "wc", EBB_DIMS(n->units, n->units));
    ebb_value h = ebb_sum_each(g, memory, n->batch);
    for (int32_t t = 0; t < STEPS; t++) {
        ebb_time(g, t);
        ebb_value weights = ebb_mask_softmax(g, scores_of(g, n, keys, h, t, p), lengths);
        ebb_value c = ebb_weighted_sum(g, weights, memory);
        h = ebb_tanh(g, ebb_linear(g, c, wc, ebb_linear(g, h, wh, EBB_NO_VALUE)));
        hs[STEPS - 1 - t] = h;
    }
    ebb_time(g, -1);
    ebb_value out = ebb_param(g, "out", EBB_DIMS(WORDS, n->units));
    ebb_value logits = ebb_linear(g, ebb_stack(g, hs, STEPS), out, EBB_NO_VALUE);
    ebb_loss(g, ebb_cross_entropy_smooth(g, logits, labels, 0.1));
    check(ctx, ebb_graph_status(g));
    return g;
}

/* Rows of all lengths, also of none; `padding` stands wherever a row has ended. */
static void feed_rows(ebb_ctx *ctx, ebb_program *p, const sizes *n, int32_t padding) {
    int32_t source[MOST_POSITIONS * MOST_ROWS], lengths[MOST_ROWS], labels[STEPS * MOST_ROWS];
    size_t row = (size_t)n->batch * sizeof *lengths;
    for (int32_t b = 0; b < n->batch; b++) {
        lengths[b] = (n->positions + 3 * b) % (n->positions + 1);
    }
    for (int32_t i = 0; i < n->positions * n->batch; i++) {
        bool there = n->positions - 1 - i / n->batch < lengths[i % n->batch];
        source[i] = there ? 1 + i % 5 : padding;
    }
    for (int32_t i = 0; i < STEPS * n->batch; i++) {
        labels[i] = (i * i + i / n->batch) % (WORDS + 1) - 1;
    }
    check(ctx, ebb_program_set(p, "source", source, row * (size_t)n->positions));
    check(ctx, ebb_program_set(p, "lengths", lengths, row));
    check(ctx, ebb_program_set(p, "labels", labels, row * STEPS));
}

typedef struct outcome {
    double first, last;
    float table[WORDS][MOST_ROWS], wk[MOST_ROWS * MOST_ROWS], gain[MOST_ROWS], v[MOST_ROWS];
} outcome;

static outcome train(ebb_ctx *ctx, const sizes *n, int32_t threads, bool least, int32_t padding) {
    ebb_options o = ebb_options_default();
    ebb_graph *g = attention(ctx, n);
    ebb_plan_info info;
    outcome r = {0};
    size_t row = (size_t)n->units * sizeof(float);
    o.threads = threads;
    o.optimizer = EBB_ADAM;
    if (least) {
        check(ctx, ebb_graph_plan(g, &o, &info));
        o.memory = info.least_bytes;
    }
    ebb_program *p = compile(ctx, g, &o);
    check(ctx, ebb_program_init(p, 3));
    feed_rows(ctx, p, n, padding);
    for (int step = 0; step < 60; step++) {
        check(ctx, ebb_program_run(p, 0.02));
        r.first = step == 0 ? ebb_program_loss(p) : r.first;
    }
    r.last = ebb_program_loss(p);
    check(ctx, ebb_program_get(p, "table", r.table, WORDS * row));
    check(ctx, ebb_program_get(p, "wk", r.wk, (size_t)n->units * row));
    check(ctx, ebb_program_get(p, "gain", r.gain, row));
    check(ctx, ebb_program_get(p, "v", r.v, row));
    ebb_program_free(p);
    return r;
}

static void attention_learns(void **state) {
    outcome r = train(*state, &small, 1, false, 0);
    assert_true(r.last < 0.6 * r.first);
}

static void plans_do_not_show(void **state) {
    static const sizes *const all[] = {&small, &square};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        outcome want = train(*state, all[i], 1, false, 0), got = train(*state, all[i], 2, true, 0);
        assert_memory_equal(&got, &want, sizeof got);
    }
}

/* Words 0 and 6 occur as padding only. */
static void padding_does_not_show(void **state) {
    outcome want = train(*state, &small, 1, false, 0);
    outcome got = train(*state, &small, 1, false, WORDS - 1);
    const float *a = &got.table[0][0], *b = &want.table[0][0];
    size_t words = (WORDS - 2) * (size_t)small.units; /* rows of the table lie densely */
    assert_memory_equal(a + small.units, b + small.units, words * sizeof *a);
    assert_memory_equal(got.wk, want.wk, sizeof want.wk);
    assert_memory_equal(got.v, want.v, sizeof want.v);
    assert_true(got.last == want.last);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(attention_learns, set_up, tear_down),
        cmocka_unit_test_setup_teardown(plans_do_not_show, set_up, tear_down),
        cmocka_unit_test_setup_teardown(padding_does_not_show, set_up, tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
