/* test_api_all.c - graphs compiled together over one memory, bytes without a copy, gradients as
 * results, whole runs in files, and stopping while a plan is looked for. */
#include "ebb.h"
#include "unit/api_help.h"

#include <unistd.h>

enum { ROWS = 4, IN = 3 };

/* y = x w^T, squared error against t; `name` before those of the inputs. */
static ebb_graph *line(ebb_ctx *ctx, const char *name, bool loss, bool shown) {
    char x_name[16], t_name[16];
    ebb_graph *g = new_graph(ctx);
    (void)snprintf(x_name, sizeof x_name, "%sx", name);
    (void)snprintf(t_name, sizeof t_name, "%st", name);
    ebb_value w = ebb_param(g, "w", EBB_DIMS(1, IN));
    ebb_value y = ebb_linear(g, ebb_input_f32(g, x_name, EBB_DIMS(ROWS, IN)), w, EBB_NO_VALUE);
    if (shown) {
        ebb_gradient(g, w);
    }
    if (!loss) {
        ebb_output(g, "y", y);
        return g;
    }
    ebb_value d = ebb_sub(g, y, ebb_input_f32(g, t_name, EBB_DIMS(ROWS, 1)));
    ebb_loss(g, ebb_sum(g, ebb_mul(g, d, d)));
    return g;
}

static void fill(ebb_ctx *ctx, ebb_program *p, const char *name, float from) {
    void *at = NULL;
    ebb_shape shape;
    check(ctx, ebb_program_data(p, name, &at, &shape));
    for (uint64_t i = 0; i < shape.bytes / sizeof(float); i++) {
        ((float *)at)[i] = from + 0.25F * (float)(i % 5);
    }
}

static void three_graphs_are_one_memory(void **state) {
    ebb_ctx *ctx = *state;
    ebb_options o = ebb_options_default();
    ebb_graph *g[] = {line(ctx, "", true, false), line(ctx, "v", true, false),
                      line(ctx, "p", false, false)};
    ebb_program *p[3];
    ebb_plan_info info;
    o.threads = 1;
    o.optimizer = EBB_ADAM;
    check(ctx, ebb_compile_all((const ebb_graph *const *)g, 3, 1, &o, p));
    check(ctx, ebb_program_init(p[0], 3));
    fill(ctx, p[0], "x", 0);
    fill(ctx, p[0], "t", 1);
    fill(ctx, p[1], "vx", 0); /* the same numbers: what is evaluated is what the next step sees */
    fill(ctx, p[1], "vt", 1);
    fill(ctx, p[2], "px", 0);
    double last = 0;
    for (int i = 0; i < 5; i++) {
        check(ctx, ebb_program_run(p[0], 0.05));
        double before = ebb_program_loss(p[0]);
        assert_true(i == 0 || before == last);
        check(ctx,
              ebb_program_run(p[1], (double)NAN)); /* no rate is read where nothing is trained */
        last = ebb_program_loss(p[1]);
        assert_true(last < before);
        assert_true(isnan(ebb_program_grad_norm(p[1])));
    }
    assert_int_equal(ebb_program_steps(p[0]), 5);
    float w[IN], x[ROWS * IN], y[ROWS];
    check(ctx, ebb_program_run(p[2], 0));
    check(ctx, ebb_program_get(p[2], "w", w, sizeof w));
    check(ctx, ebb_program_get(p[2], "px", x, sizeof x));
    check(ctx, ebb_program_get(p[2], "y", y, sizeof y));
    for (int r = 0; r < ROWS; r++) {
        assert_true(fabsf(y[r] - (x[3 * r] * w[0] + x[3 * r + 1] * w[1] + x[3 * r + 2] * w[2])) <
                    1e-6F);
    }
    assert_int_equal(ebb_program_get(p[0], "y", y, sizeof y), EBB_USAGE); /* another one's */
    check(ctx, ebb_program_plan(p[1], &info));
    assert_int_equal(ebb_program_measured(p[2]), info.peak_bytes);
    ebb_program_free(p[0]);
    check(ctx, ebb_program_run(p[1], 0)); /* memory goes with the last */
    ebb_program_free(p[2]);
    ebb_program_free(p[1]);
    for (int i = 0; i < 3; i++) {
        ebb_graph_free(g[i]);
    }
}

static void what_cannot_go_together(void **state) {
    ebb_ctx *ctx = *state;
    ebb_program *p[2];
    ebb_graph *g[] = {line(ctx, "", true, false), new_graph(ctx), NULL};
    ebb_value x = ebb_input_f32(g[1], "w", EBB_DIMS(2, 2)); /* another type than the parameter's */
    ebb_output(g[1], "z", ebb_relu(g[1], x));
    const ebb_graph *const *graphs = (const ebb_graph *const *)g;
    assert_int_equal(ebb_compile_all(graphs, 2, 1, NULL, p), EBB_USAGE);
    assert_true(says(ctx, "w"));
    assert_true(p[0] == NULL && p[1] == NULL);
    assert_int_equal(ebb_compile_all(graphs, 2, 3, NULL, p), EBB_USAGE);
    assert_int_equal(ebb_compile_all(graphs, 0, 0, NULL, p), EBB_USAGE);
    ebb_program *three[3];
    assert_int_equal(ebb_compile_all(graphs, 3, 1, NULL, three), EBB_USAGE);
    ebb_graph_free(g[1]);
    g[1] = new_graph(ctx);
    ebb_output(g[1], "x", ebb_relu(g[1], ebb_input_f32(g[1], "u", EBB_DIMS(2))));
    assert_int_equal(ebb_compile_all(graphs, 2, 1, NULL, p), EBB_USAGE);
    assert_true(says(ctx, "x: a result of one graph"));
    ebb_graph_free(g[0]);
    ebb_graph_free(g[1]);
}

static void ids_are_not_handed_out(void **state) {
    ebb_ctx *ctx = *state;
    ebb_options o = ebb_options_default();
    ebb_program *p = compile(ctx, lm_graph(ctx, 0), &o);
    void *at = NULL;
    assert_int_equal(ebb_program_data(p, "ids", &at, NULL), EBB_USAGE);
    assert_true(at == NULL && says(ctx, "ebb_program_set"));
    assert_int_equal(ebb_program_data(p, "nobody", &at, NULL), EBB_USAGE);
    check(ctx, ebb_program_data(p, "table", &at, NULL));
    float table[V * E];
    ((float *)at)[1] = 7;
    check(ctx, ebb_program_get(p, "table", table, sizeof table));
    assert_true(table[1] == 7);
    ebb_program_free(p);
}

/* d(sum (x w - t)^2)/dw = 2 x^T (x w - t), before clipping. */
static void gradients_are_results(void **state) {
    ebb_ctx *ctx = *state;
    ebb_options o = ebb_options_default();
    o.clip = 1e-3;
    ebb_program *p = compile(ctx, line(ctx, "", true, true), &o);
    float x[ROWS * IN], t[ROWS], grad[IN], want[IN] = {0};
    check(ctx, ebb_program_init(p, 1));
    float w[IN];
    check(ctx, ebb_program_get(p, "w", w, sizeof w));
    fill(ctx, p, "x", -1);
    fill(ctx, p, "t", 1);
    check(ctx, ebb_program_run(p, 0.1));
    check(ctx, ebb_program_get(p, "x", x, sizeof x));
    check(ctx, ebb_program_get(p, "t", t, sizeof t));
    check(ctx, ebb_program_get(p, "grad.w", grad, sizeof grad));
    for (int r = 0; r < ROWS; r++) {
        float d = x[3 * r] * w[0] + x[3 * r + 1] * w[1] + x[3 * r + 2] * w[2] - t[r];
        for (int i = 0; i < IN; i++) {
            want[i] += 2 * d * x[3 * r + i];
        }
    }
    for (int i = 0; i < IN; i++) {
        assert_true(fabsf(grad[i] - want[i]) < 1e-4F);
    }
    ebb_program_free(p);
    ebb_graph *g = new_graph(ctx);
    ebb_gradient(g, ebb_input_f32(g, "x", EBB_DIMS(2)));
    assert_int_equal(ebb_graph_status(g), EBB_USAGE);
    ebb_graph_free(g);
}

/* Saved, loaded into another program and gone on with: the bits of an unbroken run. */
static void runs_go_on_from_files(void **state) {
    ebb_ctx *ctx = *state;
    char path[] = "/tmp/ebb-all-XXXXXX";
    int fd = mkstemp(path);
    assert_true(fd >= 0);
    (void)close(fd);
    ebb_options o = ebb_options_default();
    o.optimizer = EBB_ADAM;
    o.threads = 1;
    ebb_program *p[2] = {compile(ctx, lm_graph(ctx, 0.3), &o),
                         compile(ctx, lm_graph(ctx, 0.3), &o)};
    static const int32_t ids[T * B] = {1, 2, 3, 4, 0, 1}, next[T * B] = {3, 4, 0, 1, 2, 2};
    double loss[2];
    for (int k = 0; k < 2; k++) {
        check(ctx, ebb_program_set(p[k], "ids", ids, sizeof ids));
        check(ctx, ebb_program_set(p[k], "next", next, sizeof next));
    }
    check(ctx, ebb_program_init(p[0], 5));
    for (int i = 0; i < 8; i++) {
        if (i == 4) {
            check(ctx, ebb_program_save_all(p[0], path));
        }
        check(ctx, ebb_program_run(p[0], 0.05));
    }
    loss[0] = ebb_program_loss(p[0]);
    check(ctx, ebb_program_load_all(p[1], path));
    assert_int_equal(ebb_program_steps(p[1]), 4);
    for (int i = 0; i < 4; i++) {
        check(ctx, ebb_program_run(p[1], 0.05));
    }
    loss[1] = ebb_program_loss(p[1]);
    assert_true(loss[0] == loss[1]);
    check(ctx, ebb_program_save(p[0], path)); /* parameters alone are not a run */
    assert_int_equal(ebb_program_load_all(p[1], path), EBB_MODEL);
    check(ctx, ebb_program_load(p[1], path));
    ebb_program_free(p[0]);
    ebb_program_free(p[1]);
    (void)unlink(path);
}

static int stop_soon(void *user) {
    return ++*(int *)user == 3;
}

static void planning_can_be_stopped(void **state) {
    ebb_ctx *ctx = *state;
    ebb_graph *g = lm_graph(ctx, 0);
    ebb_program *p;
    int asked = 0;
    ebb_ctx_on_stop(ctx, stop_soon, &asked);
    assert_int_equal(ebb_compile(g, NULL, &p), EBB_STOPPED);
    assert_int_equal(asked, 3);
    assert_null(p);
    ebb_ctx_on_stop(ctx, NULL, NULL);
    check(ctx, ebb_compile(g, NULL, &p));
    ebb_program_free(p);
    ebb_graph_free(g);
}

int main(void) {
#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        TEST(three_graphs_are_one_memory), TEST(what_cannot_go_together),
        TEST(ids_are_not_handed_out),      TEST(gradients_are_results),
        TEST(runs_go_on_from_files),       TEST(planning_can_be_stopped),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
