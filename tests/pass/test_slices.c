/* test_slices.c - a weight gradient that only its norm and an update without clipping read is made
 * and used up by that update, with the same bits; any other stays whole. */
#include "support/twin.h"

#define HEAD                                                                                       \
    "param %0 f32[512,1024] \"w\" next=%7\ninput %1 f32[3,512] \"dy\"\ninput %2 f32[3,1024] "      \
    "\"x\"\n"                                                                                      \
    "input %3 f32[4] \"hyper\"\nslot %4 f32[512,1024] \"m\" next=%8\n"
#define NORM "%9:f32[1], %10:f64[1], %11:i32[1] = clip_scale %6 {clip=0}\noutput %10 \"norm\"\n"

static void becomes(const char *before, const char *after) {
    ebb_ctx *ctx = test_ctx_new();
    test_unit t;
    test_unit_text(&t, ctx, before);
    t.config.training = t.config.knobs.slices = true;
    test_pass(&t, &ebb__pass_slices);
    test_expect(&t.unit.graph, after);
    test_unit_fini(&t);
    test_ctx_free(ctx);
}

static void norm_and_update(void **state) {
    (void)state;
    becomes(HEAD "%5:f32[512,1024] = matmul - %1 %2 {trans_a=1}\n%6:f64[64] = sum_squares %5\n" NORM
                 "%7:f32[512,1024], %8:f32[512,1024] = sgd_momentum %0 %5 %4 - %3 {momentum=0.5}\n",
            HEAD "%7:f32[512,1024], %8:f32[512,1024], %6:f64[64] = product_momentum %0 %4 %1 %2 %3 "
                 "{momentum=0.5}\n" NORM);
}

static void what_stays(void **state) {
    (void)state;
    const char *texts[] = {
        /* clipped: the update waits for the norm */
        HEAD "%5:f32[512,1024] = matmul - %1 %2 {trans_a=1}\n%6:f64[64] = sum_squares %5\n"
             "%9:f32[1], %10:f64[1], %11:i32[1] = clip_scale %6 {clip=0.5}\n"
             "%7:f32[512,1024], %8:f32[512,1024] = sgd_momentum %0 %5 %4 %9 %3 {momentum=0.5}\n",
        /* a sum goes on; another reader; read by name */
        HEAD "%12:f32[512,1024] = matmul - %1 %2 {trans_a=1}\n"
             "%5:f32[512,1024] = matmul %12 %1 %2 {trans_a=1}\n%6:f64[64] = sum_squares %5\n" NORM
             "%7:f32[512,1024], %8:f32[512,1024] = sgd_momentum %0 %5 %4 - %3 {momentum=0.5}\n",
        HEAD "%5:f32[512,1024] = matmul - %1 %2 {trans_a=1}\n%6:f64[64] = sum_squares %5\n" NORM
             "%12:f32[512,1024] = tanh %5\noutput %12 \"t\"\n"
             "%7:f32[512,1024], %8:f32[512,1024] = sgd_momentum %0 %5 %4 - %3 {momentum=0.5}\n",
        HEAD "%5:f32[512,1024] = matmul - %1 %2 {trans_a=1}\n%6:f64[64] = sum_squares %5\n" NORM
             "output %5 \"g\"\n"
             "%7:f32[512,1024], %8:f32[512,1024] = sgd_momentum %0 %5 %4 - %3 {momentum=0.5}\n",
        /* small */
        "param %0 f32[8,16] \"w\" next=%7\ninput %1 f32[3,8] \"dy\"\ninput %2 f32[3,16] \"x\"\n"
        "input %3 f32[4] \"hyper\"\n%5:f32[8,16] = matmul - %1 %2 {trans_a=1}\n"
        "%6:f64[1] = sum_squares %5\n" NORM "%7:f32[8,16] = sgd %0 %5 - %3\n",
    };
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        ebb_ctx *ctx = test_ctx_new();
        test_unit t;
        test_unit_text(&t, ctx, texts[i]);
        t.config.training = t.config.knobs.slices = true;
        int32_t before = t.unit.graph.n_order;
        test_pass(&t, &ebb__pass_slices);
        assert_int_equal(t.unit.graph.n_order, before);
        for (int32_t k = 0; k < before; k++) {
            op_code op = (op_code)t.unit.graph.nodes[t.unit.graph.order[k]].op;
            assert_true(op != OP_PRODUCT_SGD && op != OP_PRODUCT_MOMENTUM);
        }
        test_unit_fini(&t);
        test_ctx_free(ctx);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(norm_and_update),
        cmocka_unit_test(what_stays),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
