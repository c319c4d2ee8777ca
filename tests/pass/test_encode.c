/* test_encode.c - codes in place of what waits for backward: where they are made, who reads them,
 * and which values stay as they are. That no bit changes is test_fuzz_nets' matter. */
#include "support/graphs.h"

#include <stdio.h>

/* A map through two relus: backward reads the signs of the first, and its values too if `both`. */
static const char *const model =
    "param %0 f32[1,1,2,2,8,3] \"x\"\nparam %1 f32[3,3,1,1] \"w\"\nparam %2 f32[4,12] \"v\"\n"
    "input %3 i32[8] \"y\"\n"
    "%4:f32[1,1,2,2,8,3] = relu %0\n"
    "%5:f32[1,1,2,2,8,3] = CONV %4\n"
    "%6:f32[1,1,2,2,8,3] = relu %5\n"
    "%7:f32[8,12] = flatten %6\n"
    "%8:f32[8,4] = matmul - %7 %2 {trans_b=1}\n"
    "%9:f32[8], %10:f32[8] = xent %8 %3\n"
    "%11:f32[1] = mean_valid %9 %3\n"
    "loss %11\noutput %11 \"loss\"\n";

static void start(test_unit *t, ebb_ctx *ctx, bool both, bool encode) {
    const char *plain = "scale %4 {factor=0x1p+1}";
    const char *conv = "conv - %4 %1 {stride=1 groups=1 lanes=3}";
    const char *at = strstr(model, "CONV %4");
    char text[1024];
    (void)snprintf(text, sizeof text, "%.*s%s%s", (int)(at - model), model, both ? conv : plain,
                   at + strlen("CONV %4"));
    test_unit_text(t, ctx, text);
    t->config.training = true;
    t->config.knobs.encode = encode;
    test_pass(t, &ebb__pass_grad);
    test_pass(t, &ebb__pass_simplify);
    test_pass(t, &ebb__pass_encode);
}

static void signs_wait(void **state) {
    (void)state;
    ebb_ctx *ctx = test_ctx_new();
    test_unit t;
    start(&t, ctx, false, true);
    const ir_graph *g = &t.unit.graph;
    assert_int_equal(test_count(g, OP_RELU_GRAD), 0);
    assert_int_equal(test_count(g, OP_RELU_GRAD_BITS), 2);
    assert_int_equal(test_count(g, OP_SIGN_BITS), 2);
    /* The code is made in forward, right behind the value. */
    const ir_node_rec *bits = test_node(g, OP_SIGN_BITS, 0), *relu = test_node(g, OP_RELU, 0);
    assert_int_equal(bits->label.phase, IR_FORWARD);
    assert_int_equal(ir_in(g, bits, 0), relu->out);
    assert_int_equal(test_place_of(g, (ir_node)(bits - g->nodes)),
                     test_place_of(g, (ir_node)(relu - g->nodes)) + 1);
    test_unit_fini(&t);
    test_ctx_free(ctx);
}

/* A convolution's weight gradient reads the first relu in full: its signs are not made beside it.
 */
static void values_stay(void **state) {
    (void)state;
    ebb_ctx *ctx = test_ctx_new();
    test_unit t;
    start(&t, ctx, true, true);
    assert_int_equal(test_count(&t.unit.graph, OP_RELU_GRAD), 1);
    assert_int_equal(test_count(&t.unit.graph, OP_RELU_GRAD_BITS), 1);
    test_unit_fini(&t);
    start(&t, ctx, false, false); /* nothing is asked for */
    assert_int_equal(test_count(&t.unit.graph, OP_RELU_GRAD), 2);
    assert_int_equal(test_count(&t.unit.graph, OP_SIGN_BITS), 0);
    test_unit_fini(&t);
    test_ctx_free(ctx);
}

/* What a batch norm gives, and its relu, meets the weights of a convolution: backward makes it of
 * what was normalised, which waits anyway, and reads no more than signs of it. */
static void norms_do_not_wait(void **state) {
    (void)state;
    ebb_ctx *ctx = test_ctx_new();
    test_unit t;
    test_unit_text(
        &t, ctx,
        "param %0 f32[3,3,1,1] \"u\"\nparam %1 f32[3,3,1,1] \"w\"\nparam %2 f32[4,12] \"v\"\n"
        "input %3 i32[8] \"y\"\nparam %4 f32[3] \"gain\"\nparam %5 f32[3] \"bias\"\n"
        "input %6 f32[1,1,2,2,8,3] \"x\"\n"
        "%7:f32[1,1,2,2,8,3] = conv - %6 %0 {stride=1 groups=1 lanes=3}\n"
        "%8:f32[1,1,2,2,8,3], %9:f32[3,3] = batch_norm %7 %4 %5 {eps=0x1p-10}\n"
        "%10:f32[1,1,2,2,8,3] = relu %8\n"
        "%11:f32[1,1,2,2,8,3] = conv - %10 %1 {stride=1 groups=1 lanes=3}\n"
        "%12:f32[8,12] = flatten %11\n"
        "%13:f32[8,4] = matmul - %12 %2 {trans_b=1}\n"
        "%14:f32[8], %15:f32[8] = xent %13 %3\n"
        "%16:f32[1] = mean_valid %14 %3\n"
        "loss %16\noutput %16 \"loss\"\n");
    t.config.knobs.encode = 1;
    test_pass(&t, &ebb__pass_grad);
    test_pass(&t, &ebb__pass_simplify);
    test_pass(&t, &ebb__pass_encode);
    const ir_graph *g = &t.unit.graph;
    assert_int_equal(test_count(g, OP_CONV_WEIGHTS_NORM), 1);
    assert_int_equal(test_count(g, OP_CONV_WEIGHTS), 1); /* that of the first, which reads x */
    const ir_node_rec *sums = test_node(g, OP_CONV_WEIGHTS_NORM, 0);
    assert_int_equal(ir_in(g, sums, 2), test_node(g, OP_CONV, 0)->out);
    assert_int_equal(test_count(g, OP_RELU_GRAD), 0);
    assert_int_equal(test_count(g, OP_RELU_GRAD_BITS), 1);
    test_unit_fini(&t);
    test_ctx_free(ctx);
}

/* A code numbers at most 256 pixels of a window: a larger one is compared again. */
static void large_windows_stay(void **state) {
    (void)state;
    ebb_ctx *ctx = test_ctx_new();
    for (int side = 16; side <= 17; side++) {
        test_unit t;
        char text[1024];
        (void)snprintf(text, sizeof text,
                       "param %%0 f32[1,1,20,20,8,3] \"x\"\nparam %%1 f32[4,3] \"v\"\n"
                       "input %%2 i32[8] \"y\"\n"
                       "%%3:f32[1,1,20,20,8,3] = scale %%0 {factor=0x1p+1}\n"
                       "%%4:f32[1,1,1,1,8,3] = max_pool %%3 {window_y=%d window_x=%d stride=9 "
                       "high=1 wide=1}\n"
                       "%%5:f32[8,3] = flatten %%4\n"
                       "%%6:f32[8,4] = matmul - %%5 %%1 {trans_b=1}\n"
                       "%%7:f32[8], %%8:f32[8] = xent %%6 %%2\n"
                       "%%9:f32[1] = mean_valid %%7 %%2\nloss %%9\noutput %%9 \"loss\"\n",
                       side, side);
        test_unit_text(&t, ctx, text);
        t.config.training = true;
        t.config.knobs.encode = true;
        test_pass(&t, &ebb__pass_grad);
        test_pass(&t, &ebb__pass_encode);
        assert_int_equal(test_count(&t.unit.graph, OP_POOL_INDEX), side == 16);
        assert_int_equal(test_count(&t.unit.graph, OP_MAX_POOL_GRAD), side == 17);
        test_unit_fini(&t);
    }
    test_ctx_free(ctx);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(signs_wait),
        cmocka_unit_test(values_stay),
        cmocka_unit_test(norms_do_not_wait),
        cmocka_unit_test(large_windows_stay),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
