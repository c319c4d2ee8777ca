/* test_api_shards.c - graphs of ebb.h in parts of the batch: gradients are the fixed tree of the
 * parts' own, rows keep their bits, and what cannot be parted is refused in one line. */
#include "api_help.h"

enum { ROWS = 8, IN = 7, OUT = 5 };

/* sum(tanh(x W^T + b) * y): each row has its own part in it. With zero weights and a rate of 1, a
 * step of SGD leaves minus the gradient in W and b. */
static ebb_graph *sum_graph(ebb_ctx *ctx, int64_t rows) {
    ebb_graph *g = new_graph(ctx);
    ebb_value x = ebb_input_f32(g, "x", EBB_DIMS(rows, IN)),
              y = ebb_input_f32(g, "y", EBB_DIMS(rows, OUT));
    ebb_value w = ebb_param(g, "w", EBB_DIMS(OUT, IN)), b = ebb_param(g, "b", EBB_DIMS(OUT));
    ebb_value z = ebb_mul(g, ebb_tanh(g, ebb_linear(g, x, w, b)), y);
    ebb_output(g, "z", z);
    ebb_loss(g, ebb_sum(g, z));
    return g;
}

typedef struct gradients {
    float w[OUT * IN], b[OUT];
} gradients;

static void step(ebb_ctx *ctx, int64_t shards, int64_t begin, int64_t rows, gradients *out) {
    float x[ROWS * IN], y[ROWS * OUT];
    gradients zeros = {{0}, {0}};
    ebb_options options = ebb_options_default();
    options.shards = shards;
    options.threads = 2;
    for (int i = 0; i < ROWS * IN; i++) {
        x[i] = sinf((float)i * 1.7F);
    }
    for (int i = 0; i < ROWS * OUT; i++) {
        y[i] = cosf((float)i * 2.3F) * 3;
    }
    ebb_program *p = compile(ctx, sum_graph(ctx, rows), &options);
    check(ctx, ebb_program_set(p, "x", x + begin * IN, (size_t)(rows * IN) * sizeof *x));
    check(ctx, ebb_program_set(p, "y", y + begin * OUT, (size_t)(rows * OUT) * sizeof *y));
    check(ctx, ebb_program_set(p, "w", zeros.w, sizeof zeros.w));
    check(ctx, ebb_program_set(p, "b", zeros.b, sizeof zeros.b));
    check(ctx, ebb_program_run(p, 1.0));
    check(ctx, ebb_program_get(p, "w", out->w, sizeof out->w));
    check(ctx, ebb_program_get(p, "b", out->b, sizeof out->b));
    ebb_program_free(p);
}

/* The sums of parts [begin, begin + n): those of two halves, the right one first. */
static void add_up(ebb_ctx *ctx, int64_t rows, int64_t begin, int64_t n, gradients *out) {
    gradients left, right;
    if (n == 1) {
        step(ctx, 1, begin * rows, rows, out);
        return;
    }
    add_up(ctx, rows, begin, n / 2, &left);
    add_up(ctx, rows, begin + n / 2, n / 2, &right);
    for (int i = 0; i < OUT * IN; i++) {
        out->w[i] = right.w[i] + left.w[i];
    }
    for (int i = 0; i < OUT; i++) {
        out->b[i] = right.b[i] + left.b[i];
    }
}

static void gradients_are_the_trees(void **state) {
    ebb_ctx *ctx = *state;
    gradients whole, first;
    step(ctx, 0, 0, ROWS, &first);
    for (int64_t shards = 1; shards <= ROWS; shards *= 2) {
        gradients want;
        add_up(ctx, ROWS / shards, 0, shards, &want);
        step(ctx, shards, 0, ROWS, &whole);
        assert_memory_equal(&whole, &want, sizeof want);
        for (int i = 0; i < OUT * IN; i++) {
            assert_float_equal(whole.w[i], first.w[i], 1e-5F);
        }
        assert_int_equal(shards > 1, memcmp(&whole, &first, sizeof whole) != 0);
    }
}

/* Time steps in a stack of rows, carried state, dropout. */
static void rows_keep_their_bits(void **state) {
    ebb_ctx *ctx = *state;
    float logits[2][T * B * V], h[2][B * H];
    double loss[2];
    for (int64_t i = 0; i < 2; i++) {
        ebb_options options = ebb_options_default();
        options.shards = 1 + i;
        options.threads = 1;
        ebb_program *p = compile(ctx, lm_graph(ctx, 0.3), &options);
        feed(ctx, p);
        check(ctx, ebb_program_run(p, 0.1));
        check(ctx, ebb_program_get(p, "logits", logits[i], sizeof logits[i]));
        check(ctx, ebb_program_get(p, "h", h[i], sizeof h[i]));
        loss[i] = ebb_program_loss(p);
        ebb_program_free(p);
    }
    assert_memory_equal(logits[0], logits[1], sizeof logits[0]);
    assert_memory_equal(h[0], h[1], sizeof h[0]);
    assert_true(fabs(loss[0] - loss[1]) < 1e-6);
}

static void check_refused(ebb_ctx *ctx, ebb_graph *g, int64_t shards, const char *words) {
    ebb_options options = ebb_options_default();
    ebb_program *p;
    options.shards = shards;
    assert_int_equal(ebb_compile(g, &options, &p), EBB_USAGE);
    assert_true(says(ctx, words));
    assert_null(strchr(ebb_last_error(ctx), '\n'));
    ebb_graph_free(g);
}

static void what_cannot_be_parted_is_refused(void **state) {
    ebb_ctx *ctx = *state;
    check_refused(ctx, sum_graph(ctx, ROWS), 3, "shards: 3 do not divide the 8 rows of the batch");
    check_refused(ctx, sum_graph(ctx, ROWS), -1, "shards -1 is not in 0..1024");
    check_refused(ctx, sum_graph(ctx, ROWS), 1025, "shards 1025 is not in 0..1024");
    ebb_graph *g = new_graph(ctx);
    ebb_value x = ebb_input_f32(g, "x", EBB_DIMS(4, 4)), w = ebb_param(g, "w", EBB_DIMS(4, 4));
    ebb_value z = ebb_transpose(g, ebb_linear(g, x, w, EBB_NO_VALUE));
    ebb_loss(g, ebb_sum(g, ebb_mul(g, z, x)));
    check_refused(ctx, g, 2, "transpose(f32[4,4]): shards: this cannot be done for a part");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(gradients_are_the_trees, set_up, tear_down),
        cmocka_unit_test_setup_teardown(rows_keep_their_bits, set_up, tear_down),
        cmocka_unit_test_setup_teardown(what_cannot_be_parted_is_refused, set_up, tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
