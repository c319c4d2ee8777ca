/* regression.c - a small network learns y = sin(3 x0) x1: one graph to train, one to evaluate and
 * one to predict, over one set of weights in one memory. */
#include <ebb.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
enum { ROWS = 64, TEST = 16, HIDDEN = 32, TRAIN_PROGRAM = 0, TEST_PROGRAM, PREDICT_PROGRAM };

static void must(ebb_ctx *ctx, ebb_status status) {
    if (status != EBB_OK) {
        fprintf(stderr, "regression: %s\n", ebb_last_error(ctx));
        exit(status);
    }
}

/* Inputs have names of their own in each graph, parameters the same ones. */
static ebb_graph *build(ebb_ctx *ctx, const char *x_name, const char *y_name, int64_t rows) {
    ebb_graph *g;
    must(ctx, ebb_graph_new(ctx, &g));
    ebb_value x = ebb_input_f32(g, x_name, EBB_DIMS(rows, 2));
    ebb_value w = ebb_param(g, "w", EBB_DIMS(HIDDEN, 2)), b = ebb_param(g, "b", EBB_DIMS(HIDDEN));
    ebb_value v = ebb_param(g, "v", EBB_DIMS(1, HIDDEN)), c = ebb_param(g, "c", EBB_DIMS(1));
    ebb_value y = ebb_linear(g, ebb_tanh(g, ebb_linear(g, x, w, b)), v, c);
    if (y_name == NULL) {
        ebb_output(g, "predicted", y);
        return g;
    }
    ebb_value d = ebb_sub(g, y, ebb_input_f32(g, y_name, EBB_DIMS(rows, 1)));
    ebb_loss(g, ebb_mean(g, ebb_mul(g, d, d)));
    return g;
}

/* Straight into the program's memory. */
static void draw(ebb_ctx *ctx, ebb_program *p, const char *x_name, const char *y_name, int rows) {
    void *at;
    must(ctx, ebb_program_data(p, x_name, &at, NULL));
    float *x = at;
    must(ctx, ebb_program_data(p, y_name, &at, NULL));
    float *y = at;
    for (int i = 0; i < rows; i++) {
        x[2 * i] = (float)rand() / (float)RAND_MAX * 2 - 1;
        x[2 * i + 1] = (float)rand() / (float)RAND_MAX * 2 - 1;
        y[i] = sinf(3 * x[2 * i]) * x[2 * i + 1];
    }
}

int main(void) {
    ebb_ctx *ctx;
    ebb_program *p[3];
    ebb_options options = ebb_options_default();
    options.optimizer = EBB_ADAM;
    if (ebb_ctx_new(&ctx) != EBB_OK)
        return EBB_NOMEM;
    ebb_graph *graphs[] = {build(ctx, "x", "y", ROWS), build(ctx, "test_x", "test_y", TEST),
                           build(ctx, "one", NULL, 1)};
    must(ctx, ebb_compile_all((const ebb_graph *const *)graphs, 3, 1, &options, p));
    must(ctx, ebb_program_init(p[TRAIN_PROGRAM], 1));
    draw(ctx, p[TEST_PROGRAM], "test_x", "test_y", TEST);
    for (int step = 0; step <= 2000; step++) {
        draw(ctx, p[TRAIN_PROGRAM], "x", "y", ROWS);
        must(ctx, ebb_program_run(p[TRAIN_PROGRAM], 0.01));
        if (step % 500 == 0) {
            must(ctx, ebb_program_run(p[TEST_PROGRAM], 0));
            printf("step %4d: loss %.5f\n", step, ebb_program_loss(p[TEST_PROGRAM]));
        }
    }
    float one[] = {0.5F, 0.8F}, y;
    must(ctx, ebb_program_set(p[PREDICT_PROGRAM], "one", one, sizeof one));
    must(ctx, ebb_program_run(p[PREDICT_PROGRAM], 0));
    must(ctx, ebb_program_get(p[PREDICT_PROGRAM], "predicted", &y, sizeof y));
    printf("sin(1.5) * 0.8 = %.3f, predicted %.3f\n", (double)(sinf(1.5F) * 0.8F), (double)y);
    for (int i = 0; i < 3; i++) {
        ebb_program_free(p[i]);
        ebb_graph_free(graphs[i]);
    }
    ebb_ctx_free(ctx);
}
