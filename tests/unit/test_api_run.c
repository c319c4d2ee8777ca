/* Programs of the public interface: values by name, steps against formulas written out here,
 * states, dropout, limits of ids, files. */
#include "api_help.h"

#include <unistd.h>

static void near(double a, double b) {
    if (!(fabs(a - b) <= 2e-6 * (1 + fabs(b)))) {
        fail_msg("%.9g is not %.9g", a, b);
    }
}

static void get(ebb_ctx *ctx, ebb_program *p, const char *name, void *data, size_t bytes) {
    check(ctx, ebb_program_get(p, name, data, bytes));
}
static void set(ebb_ctx *ctx, ebb_program *p, const char *name, const void *data, size_t bytes) {
    check(ctx, ebb_program_set(p, name, data, bytes));
}

/* ---- ops ---- */

static double sigma(double x) {
    return 1 / (1 + exp(-x));
}

static void ops_compute_what_they_say(void **state) {
    ebb_ctx *ctx = *state;
    ebb_graph *g = new_graph(ctx);
    ebb_options o = forward_options();
    const float xs[2][3] = {{-1.5F, 0.25F, 2}, {0.5F, -0.75F, 1}}, row[3] = {1, -2, 3};
    ebb_value x = ebb_input_f32(g, "x", EBB_DIMS(2, 3)), r = ebb_input_f32(g, "r", EBB_DIMS(3));
    ebb_output(g, "tanh", ebb_tanh(g, x));
    ebb_output(g, "sigmoid", ebb_sigmoid(g, x));
    ebb_output(g, "relu", ebb_relu(g, x));
    ebb_output(g, "softmax", ebb_softmax(g, x));
    ebb_output(g, "add", ebb_add(g, x, x));
    ebb_output(g, "sub", ebb_sub(g, x, ebb_relu(g, x)));
    ebb_output(g, "mul", ebb_mul(g, x, x));
    ebb_output(g, "scale", ebb_scale(g, x, -3));
    ebb_output(g, "add_row", ebb_add_row(g, x, r));
    ebb_output(g, "transpose", ebb_transpose(g, x));
    ebb_output(g, "gram", ebb_matmul(g, r, x, x, 1, 0)); /* r + x^T x */
    ebb_output(g, "slice", ebb_slice(g, x, 1, 1, 2));
    ebb_program *p = compile(ctx, g, &o);
    set(ctx, p, "x", xs, sizeof xs);
    set(ctx, p, "r", row, sizeof row);
    check(ctx, ebb_program_run(p, (double)NAN)); /* nothing is trained: no rate is needed */
    static const char *const names[] = {"tanh", "sigmoid", "relu",  "softmax", "add",
                                        "sub",  "mul",     "scale", "add_row"};
    for (int k = 0; k < 9; k++) {
        float y[2][3];
        get(ctx, p, names[k], y, sizeof y);
        for (int i = 0; i < 6; i++) {
            double v = (double)xs[i / 3][i % 3], sum = 0;
            for (int j = 0; j < 3; j++) {
                sum += exp((double)xs[i / 3][j]);
            }
            const double want[] = {tanh(v),      sigma(v), v > 0 ? v : 0,
                                   exp(v) / sum, 2 * v,    v > 0 ? 0 : v,
                                   v * v,        -3 * v,   v + (double)row[i % 3]};
            near((double)y[i / 3][i % 3], want[k]);
        }
    }
    float t[3][2], gram[3][3], right[2][2];
    get(ctx, p, "transpose", t, sizeof t);
    get(ctx, p, "gram", gram, sizeof gram);
    get(ctx, p, "slice", right, sizeof right);
    for (int i = 0; i < 3; i++) {
        near((double)t[i][1], (double)xs[1][i]);
        for (int j = 0; j < 3; j++) {
            near((double)gram[i][j], (double)(row[j] + xs[0][i] * xs[0][j] + xs[1][i] * xs[1][j]));
        }
    }
    near((double)right[1][0], (double)xs[1][1]);
    near((double)right[0][1], (double)xs[0][2]);
    ebb_program_free(p);
}

static void cells_follow_their_gates(void **state) {
    ebb_ctx *ctx = *state;
    ebb_graph *g = new_graph(ctx);
    ebb_options o = forward_options();
    const float z[4] = {0.3F, -0.6F, 0.9F, 1.2F}, gx[3] = {0.1F, -0.4F, 0.7F};
    const float gh[3] = {-0.2F, 0.5F, 0.8F}, before = 0.35F;
    ebb_value prev = ebb_input_f32(g, "prev", EBB_DIMS(1, 1)), h, c;
    ebb_value hh = ebb_lstm_cell(g, ebb_input_f32(g, "z", EBB_DIMS(1, 4)), prev, &h, &c);
    assert_int_equal(hh, h);
    ebb_output(g, "h", h);
    ebb_output(g, "c", c);
    ebb_output(g, "gru",
               ebb_gru_cell(g, ebb_input_f32(g, "gx", EBB_DIMS(1, 3)),
                            ebb_input_f32(g, "gh", EBB_DIMS(1, 3)), prev));
    ebb_program *p = compile(ctx, g, &o);
    set(ctx, p, "prev", &before, sizeof before);
    set(ctx, p, "z", z, sizeof z);
    set(ctx, p, "gx", gx, sizeof gx);
    set(ctx, p, "gh", gh, sizeof gh);
    check(ctx, ebb_program_run(p, 0));
    float got;
    double cell = sigma((double)z[1]) * (double)before + sigma((double)z[0]) * tanh((double)z[2]);
    double rg = sigma((double)(gx[0] + gh[0])), zg = sigma((double)(gx[1] + gh[1]));
    double n = tanh((double)gx[2] + rg * (double)gh[2]);
    get(ctx, p, "c", &got, sizeof got);
    near((double)got, cell);
    get(ctx, p, "h", &got, sizeof got);
    near((double)got, sigma((double)z[3]) * tanh(cell));
    get(ctx, p, "gru", &got, sizeof got);
    near((double)got, (1 - zg) * n + zg * (double)before);
    ebb_program_free(p);
}

/* One value under two names, parts of a stack and of a concat, a view of a parameter. */
static void outputs_may_lie_in_each_other(void **state) {
    ebb_ctx *ctx = *state;
    ebb_graph *g = new_graph(ctx);
    ebb_options o = forward_options();
    ebb_value x = ebb_input_f32(g, "x", EBB_DIMS(2, 2)), w = ebb_param(g, "w", EBB_DIMS(2, 2));
    ebb_value a = ebb_scale(g, x, 2), b = ebb_scale(g, x, 3);
    ebb_output(g, "a", a);
    ebb_output(g, "a again", a);
    ebb_output(g, "wide", ebb_concat(g, (ebb_value[]){a, b}, 2));
    ebb_output(g, "tall", ebb_stack(g, (ebb_value[]){b, a}, 2));
    ebb_output(g, "column", ebb_slice(g, w, 1, 1, 1));
    ebb_program *p = compile(ctx, g, &o);
    const float xs[4] = {1, 2, 3, 4};
    float y[8];
    set(ctx, p, "x", xs, sizeof xs);
    set(ctx, p, "w", xs, sizeof xs);
    check(ctx, ebb_program_run(p, 0));
    get(ctx, p, "a", y, 16);
    assert_memory_equal(y, ((float[]){2, 4, 6, 8}), 16);
    get(ctx, p, "a again", y, 16);
    assert_memory_equal(y, ((float[]){2, 4, 6, 8}), 16);
    get(ctx, p, "wide", y, 32);
    assert_memory_equal(y, ((float[]){2, 4, 3, 6, 6, 8, 9, 12}), 32);
    get(ctx, p, "tall", y, 32);
    assert_memory_equal(y, ((float[]){3, 6, 9, 12, 2, 4, 6, 8}), 32);
    get(ctx, p, "column", y, 8);
    assert_memory_equal(y, ((float[]){2, 4}), 8);
    ebb_program_free(p);
}

/* Along the middle axis, as channels of images are: cut, changed, joined the other way round. */
static void any_axis_is_cut_and_joined(void **state) {
    enum { HIGH = 2, MIDDLE = 5, WIDE = 3, CUT = 2 };
    ebb_ctx *ctx = *state;
    ebb_graph *g = new_graph(ctx);
    ebb_options o = forward_options();
    ebb_value x = ebb_input_f32(g, "x", EBB_DIMS(HIGH, MIDDLE, WIDE));
    ebb_value first = ebb_scale(g, ebb_slice(g, x, 1, 0, CUT), 2);
    ebb_value rest = ebb_scale(g, ebb_slice(g, x, -2, CUT, MIDDLE - CUT), 3);
    ebb_output(g, "y", ebb_join(g, 1, (ebb_value[]){rest, first}, 2));
    ebb_program *p = compile(ctx, g, &o);
    float xs[HIGH][MIDDLE][WIDE], want[HIGH][MIDDLE][WIDE], y[HIGH][MIDDLE][WIDE];
    for (int a = 0; a < HIGH; a++) {
        for (int b = 0; b < MIDDLE; b++) {
            for (int c = 0; c < WIDE; c++) {
                int to = b < CUT ? b + MIDDLE - CUT : b - CUT;
                xs[a][b][c] = (float)(100 * a + 10 * b + c);
                want[a][to][c] = xs[a][b][c] * (b < CUT ? 2.0f : 3.0f);
            }
        }
    }
    set(ctx, p, "x", xs, sizeof xs);
    check(ctx, ebb_program_run(p, 0));
    get(ctx, p, "y", y, sizeof y);
    assert_memory_equal(y, want, sizeof y);
    ebb_program_free(p);
}

static void states_are_carried_and_exchanged(void **state) {
    ebb_ctx *ctx = *state;
    ebb_graph *g = new_graph(ctx);
    ebb_options o = forward_options();
    ebb_value a = ebb_state(g, "a", EBB_DIMS(1)), b = ebb_state(g, "b", EBB_DIMS(1));
    ebb_value sum = ebb_state(g, "sum", EBB_DIMS(1));
    ebb_carry(g, a, b);
    ebb_carry(g, b, a);
    ebb_carry(g, sum, ebb_add(g, sum, a));
    ebb_program *p = compile(ctx, g, &o);
    const float one = 1, ten = 10;
    float got[3];
    set(ctx, p, "a", &one, sizeof one);
    set(ctx, p, "b", &ten, sizeof ten);
    for (int i = 0; i < 3; i++) {
        check(ctx, ebb_program_run(p, 0));
    }
    get(ctx, p, "a", &got[0], 4);
    get(ctx, p, "b", &got[1], 4);
    get(ctx, p, "sum", &got[2], 4);
    assert_memory_equal(got, ((float[]){10, 1, 12}), sizeof got);
    ebb_program_free(p);
}

/* ---- training ---- */

/* Two classes, three features; "idle" has no gradient and comes first. */
static ebb_program *classifier(ebb_ctx *ctx, const ebb_options *options, double factor) {
    ebb_graph *g = new_graph(ctx);
    ebb_value idle = ebb_param(g, "idle", EBB_DIMS(2));
    ebb_value w = ebb_param(g, "w", EBB_DIMS(2, 3));
    ebb_value logits = ebb_linear(g, ebb_input_f32(g, "x", EBB_DIMS(1, 3)), w, EBB_NO_VALUE);
    ebb_value loss = ebb_cross_entropy(g, logits, ebb_input_i32(g, "y", EBB_DIMS(1)));
    ebb_output(g, "twice idle", ebb_scale(g, idle, 2));
    ebb_loss(g, ebb_scale(g, loss, factor));
    return compile(ctx, g, options);
}

static void a_step_is_the_textbook_one(void **state) {
    ebb_ctx *ctx = *state;
    const float x[3] = {1, -2, 0.5F}, w[2][3] = {{0.1F, 0.2F, -0.3F}, {0.4F, -0.1F, 0.2F}};
    const int32_t y = 1;
    for (int kind = EBB_SGD; kind <= EBB_ADAM; kind++) {
        ebb_options o = ebb_options_default();
        o.optimizer = (ebb_optimizer)kind;
        ebb_program *p = classifier(ctx, &o, 1);
        set(ctx, p, "x", x, sizeof x);
        set(ctx, p, "w", w, sizeof w);
        set(ctx, p, "y", &y, sizeof y);
        check(ctx, ebb_program_run(p, 0.1));
        double logit[2] = {0, 0}, norm = 0;
        for (int i = 0; i < 6; i++) {
            logit[i / 3] += (double)w[i / 3][i % 3] * (double)x[i % 3];
        }
        double p0 = 1 / (1 + exp(logit[1] - logit[0]));
        near(ebb_program_loss(p), -log(1 - p0));
        float after[2][3];
        get(ctx, p, "w", after, sizeof after);
        for (int i = 0; i < 6; i++) {
            double grad = (i < 3 ? p0 : -p0) * (double)x[i % 3];
            double move = kind == EBB_SGD ? grad : grad / (fabs(grad) + 1e-8);
            near((double)after[i / 3][i % 3], (double)w[i / 3][i % 3] - 0.1 * move);
            norm += grad * grad;
        }
        near(ebb_program_grad_norm(p), sqrt(norm));
        assert_int_equal(ebb_program_steps(p), 1);
        ebb_program_free(p);
    }
}

/* Loss of a small regression at these weights: sum or mean of squared errors, after tanh. */
static ebb_graph *regression(ebb_ctx *ctx, bool mean) {
    ebb_graph *g = new_graph(ctx);
    ebb_value x = ebb_input_f32(g, "x", EBB_DIMS(4, 3)), t = ebb_input_f32(g, "t", EBB_DIMS(4, 2));
    ebb_value y = ebb_tanh(g, ebb_linear(g, x, ebb_param(g, "w", EBB_DIMS(2, 3)), EBB_NO_VALUE));
    ebb_value d = ebb_sub(g, y, t), squares = ebb_mul(g, d, d);
    ebb_loss(g, mean ? ebb_mean(g, squares) : ebb_sum(g, squares));
    return g;
}

static double loss_at(const float x[4][3], const float t[4][2], const double w[2][3], bool mean) {
    double sum = 0;
    for (int r = 0; r < 4; r++) {
        for (int j = 0; j < 2; j++) {
            double z = 0;
            for (int i = 0; i < 3; i++) {
                z += (double)x[r][i] * w[j][i];
            }
            sum += pow(tanh(z) - (double)t[r][j], 2);
        }
    }
    return mean ? sum / 8 : sum;
}

/* A step goes down the slope that differences of the loss show. */
static void sums_and_means_are_trained(void **state) {
    ebb_ctx *ctx = *state;
    static const float x[4][3] = {{1, -2, 0.5F}, {0.25F, 0.5F, -1}, {-1, 1, 1}, {2, 0.5F, 0}};
    static const float t[4][2] = {{0.5F, -0.5F}, {0.25F, 1}, {-1, 0}, {0.75F, 0.5F}};
    static const float w[2][3] = {{0.1F, 0.2F, -0.3F}, {0.4F, -0.1F, 0.2F}};
    const double rate = 0.1, eps = 1e-5;
    for (int mean = 0; mean < 2; mean++) {
        ebb_program *p = compile(ctx, regression(ctx, mean != 0), NULL);
        float after[2][3];
        double at[2][3];
        set(ctx, p, "x", x, sizeof x);
        set(ctx, p, "t", t, sizeof t);
        set(ctx, p, "w", w, sizeof w);
        check(ctx, ebb_program_run(p, rate));
        get(ctx, p, "w", after, sizeof after);
        for (int i = 0; i < 6; i++) {
            at[i / 3][i % 3] = (double)w[i / 3][i % 3];
        }
        near(ebb_program_loss(p), loss_at(x, t, (const double(*)[3])at, mean != 0));
        for (int i = 0; i < 6; i++) {
            double *one = &at[i / 3][i % 3], before = *one;
            *one = before + eps;
            double slope = loss_at(x, t, (const double(*)[3])at, mean != 0);
            *one = before - eps;
            slope = (slope - loss_at(x, t, (const double(*)[3])at, mean != 0)) / (2 * eps);
            *one = before;
            near((double)after[i / 3][i % 3], before - rate * slope);
        }
        ebb_program_free(p);
    }
}

static void a_model_learns_without_allocating(void **state) {
    ebb_ctx *ctx = *state;
    ebb_options o = ebb_options_default();
    o.optimizer = EBB_ADAM;
    ebb_program *p = compile(ctx, lm_graph(ctx, 0), &o);
    float h[B * H], logits[T * B * V];
    double first = 0;
    uint64_t calls = 0;
    check(ctx, ebb_program_init(p, 7));
    for (int i = 0; i < 60; i++) {
        feed(ctx, p);
        memset(h, 0, sizeof h);
        set(ctx, p, "h", h, sizeof h);
        set(ctx, p, "c", h, sizeof h);
        check(ctx, ebb_program_run(p, 0.05));
        get(ctx, p, "logits", logits, sizeof logits);
        first = i == 0 ? ebb_program_loss(p) : first;
        calls = i == 0 ? ctx->mem.calls : calls;
    }
    assert_int_equal(ctx->mem.calls, calls);
    assert_true(first > 1.2 && first < 2.2); /* about log V */
    assert_true(ebb_program_loss(p) < 0.2);
    get(ctx, p, "h", h, sizeof h);
    assert_true(h[0] != 0); /* was carried */
    ebb_program_free(p);
}

static void learning_rates_are_checked(void **state) {
    ebb_ctx *ctx = *state;
    const double rates[] = {(double)NAN, (double)INFINITY, -0.1, 1e300};
    ebb_options o = ebb_options_default();
    ebb_program *p = classifier(ctx, &o, 1);
    for (int i = 0; i < 4; i++) {
        assert_int_equal(ebb_program_run(p, rates[i]), EBB_USAGE);
        assert_true(says(ctx, "learning rate"));
    }
    assert_int_equal(ebb_program_steps(p), 0);
    ebb_program_set_steps(p, UINT64_MAX);
    check(ctx, ebb_program_run(p, 0.1));
    ebb_program_free(p);
}

static void divergence_names_its_place(void **state) {
    ebb_ctx *ctx = *state;
    ebb_options o = ebb_options_default();
    const float large[3] = {3e38F, 3e38F, 3e38F}, nan[6] = {NAN};
    ebb_program *p = classifier(ctx, &o, 1e4);
    set(ctx, p, "x", large, sizeof large);
    assert_int_equal(ebb_program_run(p, 0.1), EBB_DIVERGED); /* w is 0: the loss is finite */
    assert_true(says(ctx, "gradient of w "));
    assert_true(says(ctx, "step 1"));
    assert_true(isfinite(ebb_program_loss(p)));
    set(ctx, p, "w", nan, sizeof nan);
    assert_int_equal(ebb_program_run(p, 0.1), EBB_DIVERGED);
    assert_true(says(ctx, "loss"));
    ebb_program_free(p);
}

static void dropout_depends_on_seed_and_step_alone(void **state) {
    ebb_ctx *ctx = *state;
    enum { N = 1000 };
    float ones[N], y[3][N];
    for (int i = 0; i < N; i++) {
        ones[i] = 1;
    }
    for (int seed = 0; seed < 2; seed++) {
        ebb_graph *g = new_graph(ctx);
        ebb_options o = forward_options();
        ebb_value x = ebb_input_f32(g, "x", EBB_DIMS(10, N / 10));
        ebb_graph_seed(g, (uint64_t)seed);
        assert_int_equal(ebb_dropout(g, x, 0, "none"), x);
        ebb_output(g, "y", ebb_dropout(g, x, 0.25, "site"));
        ebb_program *p = compile(ctx, g, &o);
        set(ctx, p, "x", ones, sizeof ones);
        check(ctx, ebb_program_run(p, 0));
        get(ctx, p, "y", y[2 * seed], sizeof y[0]);
        check(ctx, ebb_program_run(p, 0));
        get(ctx, p, "y", y[1], sizeof y[0]);
        assert_memory_not_equal(y[2 * seed], y[1], sizeof y[0]);
        ebb_program_set_steps(p, 0);
        check(ctx, ebb_program_run(p, 0));
        get(ctx, p, "y", y[1], sizeof y[0]);
        assert_memory_equal(y[2 * seed], y[1], sizeof y[0]);
        assert_int_equal(ebb_program_set(p, "train.step", y, 4), EBB_USAGE);
        ebb_program_free(p);
    }
    int zeros = 0;
    for (int i = 0; i < N; i++) {
        zeros += y[0][i] == 0;
        near((double)y[0][i], y[0][i] == 0 ? 0 : 1 / 0.75);
    }
    assert_in_range(zeros, 190, 310);
    assert_memory_not_equal(y[0], y[2], sizeof y[0]);
}

/* ---- values by name ---- */

/* What is used counts, not what is asked about. */
static void questions_use_no_bytes(void **state) {
    ebb_ctx *ctx = *state;
    ebb_graph *g = new_graph(ctx);
    ebb_options o = forward_options();
    ebb_shape shape;
    float xs[2][3] = {{0}};
    ebb_output(g, "y", ebb_tanh(g, ebb_input_f32(g, "x", EBB_DIMS(2, 3))));
    ebb_program *p = compile(ctx, g, &o);
    uint64_t measured = ebb_program_measured(p);
    check(ctx, ebb_program_shape(p, "x", &shape));
    assert_int_equal(ebb_program_get(p, "x", xs, 1), EBB_USAGE);
    assert_int_equal(ebb_program_measured(p), measured);
    set(ctx, p, "x", xs, sizeof xs);
    assert_true(ebb_program_measured(p) > measured);
    ebb_program_free(p);
}

static void sizes_and_names_are_checked(void **state) {
    ebb_ctx *ctx = *state;
    ebb_program *p = compile(ctx, lm_graph(ctx, 0), NULL);
    char room[4096] = {0};
    ebb_shape shape;
    assert_int_equal(ebb_program_set(p, "nothing", room, 4), EBB_USAGE);
    assert_true(says(ctx, "nothing"));
    assert_int_equal(ebb_program_get(p, NULL, room, 4), EBB_USAGE);
    assert_int_equal(ebb_program_set(p, "out", room, V * H * 4 - 1), EBB_USAGE);
    assert_true(says(ctx, "80 bytes"));
    assert_int_equal(ebb_program_get(p, "out", room, V * H * 4 + 1), EBB_USAGE);
    assert_int_equal(ebb_program_set(p, "out", NULL, V * H * 4), EBB_USAGE);
    assert_int_equal(ebb_program_set(p, "logits", room, T * B * V * 4), EBB_USAGE);
    assert_int_equal(ebb_program_set(p, "train.hyper", room, 16), EBB_USAGE);
    assert_int_equal(ebb_program_shape(p, "out", NULL), EBB_USAGE);
    check(ctx, ebb_program_shape(p, "logits", &shape));
    assert_int_equal(shape.role, EBB_ROLE_OUTPUT);
    assert_int_equal(shape.rank, 2);
    assert_int_equal(shape.dims[0], T * B);
    assert_int_equal(shape.dims[1], V);
    assert_int_equal(shape.bytes, T * B * V * 4);
    assert_int_equal(shape.dtype, EBB_F32);
    check(ctx, ebb_program_shape(p, "train.grad_norm", &shape));
    assert_int_equal(shape.dtype, EBB_F64);
    check(ctx, ebb_program_shape(p, "ids", &shape));
    assert_int_equal(shape.role, EBB_ROLE_INPUT);
    assert_int_equal(shape.dtype, EBB_I32);
    int params = 0, outputs = 0;
    for (int32_t i = 0; ebb_program_name(p, i) != NULL; i++) {
        check(ctx, ebb_program_shape(p, ebb_program_name(p, i), &shape));
        params += shape.role == EBB_ROLE_PARAM;
        outputs += shape.role == EBB_ROLE_OUTPUT;
    }
    assert_int_equal(params, 5);
    assert_int_equal(outputs, 4); /* logits, loss, norm, first bad gradient */
    assert_null(ebb_program_name(p, -1));
    ebb_program_free(p);
}

static void ids_must_be_in_their_table(void **state) {
    ebb_ctx *ctx = *state;
    ebb_program *p = compile(ctx, lm_graph(ctx, 0), NULL);
    int32_t ids[T * B];
    feed(ctx, p);
    memcpy(ids, some_ids, sizeof ids);
    ids[3] = V;
    assert_int_equal(ebb_program_set(p, "ids", ids, sizeof ids), EBB_DATA);
    assert_true(says(ctx, "ids[3]: 5"));
    ids[3] = -1;
    assert_int_equal(ebb_program_set(p, "ids", ids, sizeof ids), EBB_DATA);
    check(ctx, ebb_program_set(p, "next", ids, sizeof ids)); /* -1: this row does not count */
    ids[5] = V;
    assert_int_equal(ebb_program_set(p, "next", ids, sizeof ids), EBB_DATA);
    get(ctx, p, "ids", ids, sizeof ids); /* as before the refusals */
    assert_memory_equal(ids, some_ids, sizeof ids);
    ebb_program_free(p);
}

/* Limits follow slices, joins and copies, element by element. */
static void limits_follow_views(void **state) {
    ebb_ctx *ctx = *state;
    ebb_graph *g = new_graph(ctx);
    ebb_options o = forward_options();
    ebb_value a = ebb_input_i32(g, "a", EBB_DIMS(4)), b = ebb_input_i32(g, "b", EBB_DIMS(2));
    ebb_value small = ebb_param(g, "small", EBB_DIMS(3, 1));
    ebb_value large = ebb_param(g, "large", EBB_DIMS(9, 1));
    ebb_value both = ebb_stack(g, (ebb_value[]){ebb_copy(g, ebb_slice(g, a, 0, 1, 3)), b}, 2);
    ebb_output(g, "s", ebb_embed(g, small, ebb_slice(g, both, 0, 2, 2))); /* a[3], b[0] */
    ebb_output(g, "l", ebb_embed(g, large, ebb_slice(g, both, 0, 0, 2))); /* a[1], a[2] */
    ebb_program *p = compile(ctx, g, &o);
    set(ctx, p, "a", ((int32_t[]){99, 8, 8, 2}), 16); /* a[0] is nobody's id */
    assert_int_equal(ebb_program_set(p, "a", ((int32_t[]){0, 8, 9, 2}), 16), EBB_DATA);
    assert_true(says(ctx, "a[2]: 9"));
    assert_int_equal(ebb_program_set(p, "a", ((int32_t[]){0, 8, 8, 3}), 16), EBB_DATA);
    assert_true(says(ctx, "a[3]: 3"));
    set(ctx, p, "b", ((int32_t[]){2, -7}), 8);
    assert_int_equal(ebb_program_set(p, "b", ((int32_t[]){3, 0}), 8), EBB_DATA);
    const float values[9] = {0, 1, 2, 3, 4, 5, 6, 7, 8};
    float y[2];
    set(ctx, p, "large", values, sizeof values);
    set(ctx, p, "small", values, 12);
    check(ctx, ebb_program_run(p, 0));
    get(ctx, p, "s", y, sizeof y);
    assert_memory_equal(y, ((float[]){2, 2}), sizeof y);
    get(ctx, p, "l", y, sizeof y);
    assert_memory_equal(y, ((float[]){8, 8}), sizeof y);
    ebb_program_free(p);
}

static void init_is_a_function_of_seed_and_name(void **state) {
    ebb_ctx *ctx = *state;
    ebb_program *p = compile(ctx, lm_graph(ctx, 0), NULL);
    float a[V * H], b[V * H], bias[4 * H], most = 0;
    feed(ctx, p);
    check(ctx, ebb_program_init(p, 5));
    get(ctx, p, "out", a, sizeof a);
    get(ctx, p, "bias", bias, sizeof bias);
    for (int i = 0; i < V * H; i++) {
        most = fabsf(a[i]) > most ? fabsf(a[i]) : most;
    }
    assert_true(most > 0.35F && most <= 0.5F); /* 1/sqrt(H) */
    for (int i = 0; i < 4 * H; i++) {
        assert_true(bias[i] == 0);
    }
    check(ctx, ebb_program_init(p, 6));
    get(ctx, p, "out", b, sizeof b);
    assert_memory_not_equal(a, b, sizeof a);
    check(ctx, ebb_program_run(p, 0.1));
    check(ctx, ebb_program_init(p, 5));
    get(ctx, p, "out", b, sizeof b);
    assert_memory_equal(a, b, sizeof a);
    get(ctx, p, "h", b, B * H * sizeof *b);
    assert_true(b[0] == 0);
    assert_int_equal(ebb_program_steps(p), 0);
    ebb_program_free(p);
}

/* ---- parameters to other programs and files ---- */

static void parameters_move_between_programs(void **state) {
    ebb_ctx *ctx = *state;
    ebb_options forward = forward_options();
    ebb_program *p = compile(ctx, lm_graph(ctx, 0), NULL);
    ebb_program *q = compile(ctx, lm_graph(ctx, 0), &forward);
    float a[T * B * V], b[T * B * V];
    feed(ctx, p);
    feed(ctx, q);
    check(ctx, ebb_program_init(p, 1));
    check(ctx, ebb_program_copy(q, p));
    check(ctx, ebb_program_run(p, 0));
    check(ctx, ebb_program_run(q, 0));
    get(ctx, p, "logits", a, sizeof a);
    get(ctx, q, "logits", b, sizeof b);
    assert_memory_equal(a, b, sizeof a);
    assert_true(ebb_program_loss(p) == ebb_program_loss(q));
    assert_true(isnan(ebb_program_grad_norm(q)));
    ebb_options o = ebb_options_default();
    ebb_program *other = classifier(ctx, &o, 1);
    assert_int_equal(ebb_program_copy(other, p), EBB_USAGE);
    assert_true(says(ctx, "idle"));
    assert_int_equal(ebb_program_copy(p, NULL), EBB_USAGE);
    ebb_program_free(other);
    ebb_program_free(q);
    ebb_program_free(p);
}

static void parameters_survive_a_file(void **state) {
    ebb_ctx *ctx = *state;
    const char *folder = getenv("TMPDIR") != NULL ? getenv("TMPDIR") : "/tmp";
    char path[512];
    float a[4 * H * E], b[4 * H * E];
    (void)snprintf(path, sizeof path, "%s/test_api_%d.safetensors", folder, (int)getpid());
    ebb_program *p = compile(ctx, lm_graph(ctx, 0), NULL);
    ebb_options o = ebb_options_default();
    ebb_program *other = classifier(ctx, &o, 1);
    check(ctx, ebb_program_init(p, 1));
    get(ctx, p, "wx", a, sizeof a);
    check(ctx, ebb_program_save(p, path));
    check(ctx, ebb_program_init(p, 2));
    check(ctx, ebb_program_load(p, path));
    get(ctx, p, "wx", b, sizeof b);
    assert_memory_equal(a, b, sizeof a);
    assert_int_equal(ebb_program_load(other, path), EBB_MODEL);
    assert_true(says(ctx, "idle"));
    assert_int_equal(truncate(path, 100), 0);
    assert_int_equal(ebb_program_load(p, path), EBB_MODEL);
    assert_int_equal(unlink(path), 0);
    assert_int_equal(ebb_program_load(p, path), EBB_IO);
    assert_int_equal(ebb_program_load(p, NULL), EBB_USAGE);
    assert_int_equal(ebb_program_save(p, NULL), EBB_USAGE);
    assert_int_equal(ebb_program_save(p, "/nonexistent/folder/x"), EBB_IO);
    ebb_program_free(other);
    ebb_program_free(p);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
int main(void) {
    const struct CMUnitTest tests[] = {
        TEST(ops_compute_what_they_say),
        TEST(cells_follow_their_gates),
        TEST(outputs_may_lie_in_each_other),
        TEST(any_axis_is_cut_and_joined),
        TEST(states_are_carried_and_exchanged),
        TEST(a_step_is_the_textbook_one),
        TEST(sums_and_means_are_trained),
        TEST(a_model_learns_without_allocating),
        TEST(learning_rates_are_checked),
        TEST(divergence_names_its_place),
        TEST(dropout_depends_on_seed_and_step_alone),
        TEST(questions_use_no_bytes),
        TEST(sizes_and_names_are_checked),
        TEST(ids_must_be_in_their_table),
        TEST(limits_follow_views),
        TEST(init_is_a_function_of_seed_and_name),
        TEST(parameters_move_between_programs),
        TEST(parameters_survive_a_file),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
