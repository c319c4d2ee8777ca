/* The public interface up to a program: builders and their first mistake, options, budgets. */
#include "api_help.h"

/* ---- mistakes ---- */

static void the_first_mistake_is_kept(void **state) {
    ebb_ctx *ctx = *state;
    ebb_graph *g = new_graph(ctx);
    ebb_program *p = (ebb_program *)ctx;
    ebb_value a = ebb_input_f32(g, "a", EBB_DIMS(2, 3)), b = ebb_input_f32(g, "b", EBB_DIMS(3, 2));
    assert_int_equal(ebb_graph_status(g), EBB_OK);
    assert_string_equal(ebb_last_error(ctx), "");
    ebb_value bad = ebb_add(g, a, b), h = a, c = a;
    assert_int_equal(bad, EBB_NO_VALUE);
    assert_true(says(ctx, "add"));
    assert_int_equal(ebb_tanh(g, bad), EBB_NO_VALUE);
    assert_int_equal(ebb_param(g, "w", 9, NULL), EBB_NO_VALUE);
    assert_int_equal(ebb_lstm_cell(g, a, b, &h, &c), EBB_NO_VALUE);
    assert_int_equal(h, EBB_NO_VALUE);
    assert_int_equal(c, EBB_NO_VALUE);
    ebb_output(g, "y", bad);
    ebb_loss(g, bad);
    ebb__ctx_clear(ctx);
    assert_int_equal(ebb_graph_status(g), EBB_USAGE);
    assert_true(says(ctx, "add"));
    ebb__ctx_clear(ctx);
    assert_int_equal(ebb_compile(g, NULL, &p), EBB_USAGE);
    assert_null(p);
    assert_true(says(ctx, "add"));
    ebb_graph_free(g);
}

/* By the function that was called, with what it was given, and where. */
static void mistakes_are_named(void **state) {
    ebb_ctx *ctx = *state;
    for (int i = 0; i < 3; i++) {
        ebb_graph *g = new_graph(ctx);
        ebb_layer(g, "enc.l0");
        ebb_time(g, 7);
        ebb_value x = ebb_input_f32(g, "x", EBB_DIMS(5)), w = ebb_param(g, "w", EBB_DIMS(4, 5));
        ebb_value ids = ebb_input_i32(g, "ids", EBB_DIMS(5));
        if (i == 0) {
            (void)ebb_linear(g, x, w, EBB_NO_VALUE);
            assert_true(
                says(ctx, "ebb_linear: matmul(-, f32[5] x, f32[4,5] w) in enc.l0 at time 7: "));
        } else if (i == 1) {
            (void)ebb_cross_entropy(g, w, ids);
            assert_true(says(ctx, "ebb_cross_entropy: "));
            assert_true(says(ctx, "(f32[4,5] w, i32[5] ids) in enc.l0 at time 7: "));
        } else {
            ebb_time(g, -1);
            (void)ebb_add(g, x, w);
            assert_true(says(ctx, "ebb_add(f32[5] x, f32[4,5] w) in enc.l0: "));
        }
        assert_int_equal(ebb_graph_status(g), EBB_USAGE);
        assert_true(says(ctx, i == 0 ? "ebb_linear" : i == 1 ? "ebb_cross_entropy" : "ebb_add("));
        ebb_graph_free(g);
    }
}

typedef ebb_value (*mistake_fn)(ebb_graph *g, ebb_value x, ebb_value ids);
#define MISTAKE(name, expr)                                                                        \
    static ebb_value name(ebb_graph *g, ebb_value x, ebb_value ids) {                              \
        (void)x, (void)ids;                                                                        \
        return expr;                                                                               \
    }
MISTAKE(no_name, ebb_param(g, NULL, EBB_DIMS(2)))
MISTAKE(empty_name, ebb_param(g, "", EBB_DIMS(2)))
MISTAKE(taken_name, ebb_param(g, "x", EBB_DIMS(2)))
MISTAKE(reserved_name, ebb_input_f32(g, "train.hyper", EBB_DIMS(4)))
MISTAKE(no_rank, ebb_param(g, "w", 0, (int64_t[]){1}))
MISTAKE(high_rank, ebb_param(g, "w", EBB_DIMS(1, 1, 1, 1, 1, 1, 1)))
MISTAKE(no_dims, ebb_param(g, "w", 2, NULL))
MISTAKE(zero_size, ebb_state(g, "w", EBB_DIMS(3, 0)))
MISTAKE(negative_size, ebb_input_i32(g, "w", EBB_DIMS(-3)))
MISTAKE(wide_size, ebb_param(g, "w", EBB_DIMS(INT64_C(1) << 32)))
MISTAKE(huge_shape, ebb_param(g, "w", EBB_DIMS(INT32_MAX, INT32_MAX, INT32_MAX)))
MISTAKE(absent_operand, ebb_tanh(g, EBB_NO_VALUE))
MISTAKE(unknown_operand, ebb_relu(g, 99))
MISTAKE(negative_operand, ebb_copy(g, INT32_MIN))
MISTAKE(ids_as_numbers, ebb_sigmoid(g, ids))
MISTAKE(numbers_as_ids, ebb_embed(g, x, x))
MISTAKE(inner_sizes, ebb_linear(g, x, ebb_param(g, "w", EBB_DIMS(2, 5)), EBB_NO_VALUE))
MISTAKE(infinite_factor, ebb_scale(g, x, 1e300))
MISTAKE(sure_dropout, ebb_dropout(g, x, 1.0, "s"))
MISTAKE(nan_dropout, ebb_dropout(g, x, (double)NAN, "s"))
MISTAKE(no_site, ebb_dropout(g, x, 0.5, NULL))
MISTAKE(slice_axis, ebb_slice(g, x, 2, 0, 1))
MISTAKE(slice_before, ebb_slice(g, x, -3, 0, 1))
MISTAKE(join_axis, ebb_join(g, 2, &x, 1))
MISTAKE(slice_end, ebb_slice(g, x, 1, 1, INT64_MAX))
MISTAKE(slice_begin, ebb_slice(g, x, 0, -1, 1))
MISTAKE(slice_of_nothing, ebb_slice(g, EBB_NO_VALUE, 0, 0, 1))
MISTAKE(empty_stack, ebb_stack(g, &x, 0))
MISTAKE(null_stack, ebb_stack(g, NULL, 2))
MISTAKE(bad_concat, ebb_concat(g, (ebb_value[]){x, 77}, 2))
MISTAKE(no_cell, ebb_lstm_cell(g, x, x, NULL, NULL))
MISTAKE(labels_of_two, ebb_cross_entropy(g, x, ebb_slice(g, ids, 0, 0, 1)))
MISTAKE(loss_of_two, (ebb_loss(g, ebb_tanh(g, x)), EBB_NO_VALUE))
MISTAKE(loss_variable, (ebb_loss(g, ebb_param(g, "l", EBB_DIMS(1))), EBB_NO_VALUE))
MISTAKE(output_variable, (ebb_output(g, "y", x), EBB_NO_VALUE))
MISTAKE(output_reserved, (ebb_output(g, "train.bad", ebb_tanh(g, x)), EBB_NO_VALUE))
MISTAKE(output_twice,
        (ebb_output(g, "y", ebb_tanh(g, x)), ebb_output(g, "y", ebb_relu(g, x)), EBB_NO_VALUE))
MISTAKE(carry_input, (ebb_carry(g, x, ebb_tanh(g, x)), EBB_NO_VALUE))
MISTAKE(carry_shape, (ebb_carry(g, ebb_state(g, "s", EBB_DIMS(2)), x), EBB_NO_VALUE))
MISTAKE(carry_nothing, (ebb_carry(g, EBB_NO_VALUE, x), EBB_NO_VALUE))
MISTAKE(no_layer, (ebb_layer(g, NULL), EBB_NO_VALUE))
MISTAKE(no_time, (ebb_time(g, -2), EBB_NO_VALUE))

static void every_mistake_has_a_sentence(void **state) {
    static const mistake_fn mistakes[] = {
        no_name,         empty_name,       taken_name,      reserved_name,    no_rank,
        high_rank,       no_dims,          zero_size,       negative_size,    wide_size,
        huge_shape,      absent_operand,   unknown_operand, negative_operand, ids_as_numbers,
        numbers_as_ids,  inner_sizes,      infinite_factor, sure_dropout,     nan_dropout,
        slice_before,    join_axis,        no_site,         slice_axis,       slice_end,
        slice_begin,     slice_of_nothing, empty_stack,     null_stack,       bad_concat,
        no_cell,         labels_of_two,    loss_of_two,     loss_variable,    output_variable,
        output_reserved, output_twice,     carry_input,     carry_shape,      carry_nothing,
        no_layer,        no_time};
    ebb_ctx *ctx = *state;
    for (size_t i = 0; i < sizeof mistakes / sizeof *mistakes; i++) {
        ebb_graph *g = new_graph(ctx);
        ebb_value x = ebb_input_f32(g, "x", EBB_DIMS(2, 3));
        ebb_value ids = ebb_input_i32(g, "ids", EBB_DIMS(2));
        if (mistakes[i](g, x, ids) != EBB_NO_VALUE || ebb_graph_status(g) != EBB_USAGE ||
            strlen(ebb_last_error(ctx)) < 10 || strchr(ebb_last_error(ctx), '\n') != NULL) {
            fail_msg("mistake %zu: '%s'", i, ebb_last_error(ctx));
        }
        ebb_graph_free(g);
    }
}

static void names_may_be_long_but_not_endless(void **state) {
    ebb_ctx *ctx = *state;
    ebb_graph *g = new_graph(ctx);
    char name[202];
    memset(name, 'n', sizeof name);
    name[200] = '\0';
    assert_int_not_equal(ebb_param(g, name, EBB_DIMS(1)), EBB_NO_VALUE);
    name[200] = 'n', name[201] = '\0';
    assert_int_equal(ebb_param(g, name, EBB_DIMS(1)), EBB_NO_VALUE);
    ebb_graph_free(g);
}

static void null_handles_are_usage(void **state) {
    ebb_ctx *ctx = *state;
    ebb_graph *g = (ebb_graph *)ctx;
    ebb_program *p = (ebb_program *)ctx;
    ebb_plan_info info;
    ebb_shape shape;
    assert_int_equal(ebb_graph_new(NULL, &g), EBB_USAGE);
    assert_null(g);
    assert_int_equal(ebb_graph_new(ctx, NULL), EBB_USAGE);
    assert_int_equal(ebb_compile(NULL, NULL, &p), EBB_USAGE);
    assert_null(p);
    assert_int_equal(ebb_graph_plan(NULL, NULL, &info), EBB_USAGE);
    assert_int_equal(ebb_graph_status(NULL), EBB_USAGE);
    assert_int_equal(ebb_tanh(NULL, 0), EBB_NO_VALUE);
    assert_int_equal(ebb_param(NULL, "w", EBB_DIMS(1)), EBB_NO_VALUE);
    ebb_graph_seed(NULL, 1);
    ebb_carry(NULL, 0, 0);
    ebb_graph_free(NULL);
    assert_int_equal(ebb_program_run(NULL, 1), EBB_USAGE);
    assert_int_equal(ebb_program_set(NULL, "x", "", 0), EBB_USAGE);
    assert_int_equal(ebb_program_init(NULL, 1), EBB_USAGE);
    assert_int_equal(ebb_program_save(NULL, "x"), EBB_USAGE);
    assert_int_equal(ebb_program_plan(NULL, &info), EBB_USAGE);
    assert_int_equal(ebb_program_shape(NULL, "x", &shape), EBB_USAGE);
    assert_null(ebb_program_name(NULL, 0));
    assert_true(isnan(ebb_program_loss(NULL)));
    assert_int_equal(ebb_program_measured(NULL), 0);
    ebb_program_free(NULL);
}

static void refused(ebb_ctx *ctx, const ebb_options *options, const char *part) {
    ebb_graph *g = lm_graph(ctx, 0);
    ebb_program *p;
    assert_int_equal(ebb_compile(g, options, &p), EBB_USAGE);
    assert_null(p);
    assert_true(says(ctx, part));
    ebb_graph_free(g);
}

static void options_are_checked(void **state) {
    ebb_ctx *ctx = *state;
    ebb_options o = {0};
    refused(ctx, &o, "ebb_options_default");
#define REFUSED(member, value, part)                                                               \
    o = ebb_options_default();                                                                     \
    o.member = value;                                                                              \
    refused(ctx, &o, part)
    REFUSED(reserved[2], 1, "reserved");
    REFUSED(threads, -1, "threads");
    REFUSED(threads, 100000, "threads");
    REFUSED(optimizer, (ebb_optimizer)9, "optimizer");
    REFUSED(momentum, 1, "momentum");
    REFUSED(beta1, (double)NAN, "beta1");
    REFUSED(beta2, 1 - 1e-12, "beta2"); /* 1 in fp32 */
    REFUSED(eps, 0, "eps");
    REFUSED(weight_decay, -1, "weight_decay");
    REFUSED(clip, (double)INFINITY, "clip");
    REFUSED(disable, "chunk,bogus", "bogus is not a pass");
    REFUSED(disable, "place", "required");
#undef REFUSED
}

static void a_graph_needs_a_purpose(void **state) {
    ebb_ctx *ctx = *state;
    ebb_options forward = forward_options();
    ebb_program *p;
    ebb_graph *g = new_graph(ctx);
    ebb_value y = ebb_tanh(g, ebb_input_f32(g, "x", EBB_DIMS(2)));
    assert_int_equal(ebb_compile(g, &forward, &p), EBB_USAGE);
    assert_true(says(ctx, "no output"));
    ebb_output(g, "y", y);
    assert_int_equal(ebb_compile(g, NULL, &p), EBB_USAGE);
    assert_true(says(ctx, "no loss"));
    check(ctx, ebb_compile(g, &forward, &p)); /* the graph is still whole */
    ebb_program_free(p);
    ebb_graph_free(g);
}

/* ---- plans ---- */

static void the_budget_is_exact(void **state) {
    ebb_ctx *ctx = *state;
    ebb_graph *g = lm_graph(ctx, 0);
    ebb_options o = ebb_options_default();
    ebb_plan_info info, small, made;
    ebb_program *p;
    char digits[32];
    uint64_t sum = 0, live = ctx->mem.live_bytes;
    o.optimizer = EBB_ADAM;
    check(ctx, ebb_graph_plan(g, &o, &info));
    for (int k = 0; k < EBB_KINDS; k++) {
        sum += info.bytes_by_kind[k];
    }
    assert_int_equal(sum, info.peak_bytes);
    assert_true(info.least_bytes <= info.peak_bytes && info.peak_bytes <= info.budget_bytes);
    assert_true(info.nodes > 0 && info.threads > 0 && info.seconds_per_step > 0);
    assert_true(info.bytes_by_kind[EBB_KIND_OPTIMIZER] > info.bytes_by_kind[EBB_KIND_WEIGHTS]);
    assert_int_equal(ctx->mem.live_bytes, live);

    o.memory = info.least_bytes - 1;
    (void)snprintf(digits, sizeof digits, "%llu", (unsigned long long)info.least_bytes);
    assert_int_equal(ebb_compile(g, &o, &p), EBB_BUDGET);
    assert_null(p);
    assert_true(says(ctx, digits));
    assert_true(says(ctx, "(ebb_options.memory "));
    assert_null(strstr(ebb_last_error(ctx), "--"));
    assert_int_equal(ebb_graph_plan(g, &o, &small), EBB_BUDGET);
    assert_int_equal(small.least_bytes, info.least_bytes);
    assert_int_equal(small.budget_bytes, o.memory);

    o.memory = info.least_bytes;
    p = compile(ctx, g, &o);
    check(ctx, ebb_program_plan(p, &made));
    assert_int_equal(made.peak_bytes, info.least_bytes);
    feed(ctx, p);
    check(ctx, ebb_program_init(p, 1));
    check(ctx, ebb_program_run(p, 0.1));
    assert_int_equal(ebb_program_measured(p), made.peak_bytes);
    ebb_program_free(p);
}

static void kinds_have_names(void **state) {
    (void)state;
    assert_string_equal(ebb_kind_name(EBB_KIND_WEIGHTS), "weights");
    assert_string_equal(ebb_kind_name(EBB_KIND_GRADIENTS), "gradients");
    assert_string_equal(ebb_kind_name(EBB_KIND_OPTIMIZER), "optimizer");
    assert_string_equal(ebb_kind_name(EBB_KIND_STASH), "stash");
    assert_string_equal(ebb_kind_name(EBB_KIND_WORKSPACE), "workspace");
    assert_string_equal(ebb_kind_name(EBB_KIND_DATA), "data");
    assert_string_equal(ebb_kind_name(EBB_KIND_PROGRAM), "program");
    assert_string_equal(ebb_kind_name(EBB_KIND_UNUSED), "unused");
    assert_string_equal(ebb_kind_name(EBB_KINDS), "?");
}

static void weights_do_not_depend_on_how(void **state) {
    ebb_ctx *ctx = *state;
    float first[V * H], again[V * H];
    for (int variant = 0; variant < 4; variant++) {
        ebb_options o = ebb_options_default();
        o.optimizer = EBB_ADAMW;
        o.weight_decay = 0.01;
        o.clip = 0.5;
        o.threads = variant == 1 ? 3 : 1;
        o.disable = variant == 2 ? "simplify,chunk,layout" : NULL;
        ebb_graph *g = lm_graph(ctx, 0.3);
        if (variant == 3) {
            ebb_plan_info info;
            check(ctx, ebb_graph_plan(g, &o, &info));
            o.memory = info.least_bytes;
        }
        ebb_program *p = compile(ctx, g, &o);
        feed(ctx, p);
        check(ctx, ebb_program_init(p, 3));
        for (int i = 0; i < 3; i++) {
            check(ctx, ebb_program_run(p, 0.1));
        }
        check(ctx, ebb_program_get(p, "out", variant == 0 ? first : again, sizeof first));
        assert_memory_equal(first, variant == 0 ? first : again, sizeof first);
        ebb_program_free(p);
    }
}

static void callbacks_are_called_line(void *user, ebb_log_level level, const char *line) {
    *(int *)user += level == EBB_LOG_INFO && strstr(line, "bytes") != NULL;
}
typedef struct heard {
    uint64_t tried, steps; /* the last that was told */
    int ends;
} heard;
static void callbacks_are_called_progress(void *user, const char *what, uint64_t done,
                                          uint64_t total) {
    heard *h = user;
    if (strcmp(what, "compile") == 0) {
        h->ends += done == total;
        assert_int_equal(done, done == total ? h->tried : h->tried + 1);
        h->tried = done;
    } else if (strcmp(what, "run") == 0) {
        assert_int_equal(done, ++h->steps);
        assert_int_equal(total, 0);
    }
}
static void callbacks_are_called(void **state) {
    ebb_ctx *ctx = *state;
    int lines = 0;
    heard ends = {0};
    ebb_ctx_on_log(ctx, callbacks_are_called_line, &lines);
    ebb_ctx_on_progress(ctx, callbacks_are_called_progress, &ends);
    ebb_program *p = compile(ctx, lm_graph(ctx, 0), NULL);
    assert_int_equal(lines, 1);
    assert_int_equal(ends.ends, 1);
    assert_true(ends.tried > 3); /* not only that it began and ended */
    feed(ctx, p);
    for (int i = 0; i < 3; i++) {
        check(ctx, ebb_program_run(p, 0.1));
    }
    assert_int_equal(ends.steps, 3);
    ebb_program_free(p);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
int main(void) {
    const struct CMUnitTest tests[] = {
        TEST(the_first_mistake_is_kept),
        TEST(mistakes_are_named),
        TEST(every_mistake_has_a_sentence),
        TEST(names_may_be_long_but_not_endless),
        TEST(null_handles_are_usage),
        TEST(options_are_checked),
        TEST(a_graph_needs_a_purpose),
        TEST(the_budget_is_exact),
        TEST(kinds_have_names),
        TEST(weights_do_not_depend_on_how),
        TEST(callbacks_are_called),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
