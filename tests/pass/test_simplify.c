/* test_simplify.c - views of views, joins of one or of consecutive slices, dead nodes; what is read
 * by name stays. */
#include "support/graphs.h"

static void becomes(const char *before, const char *after) {
    ebb_ctx *ctx = test_ctx_new();
    test_unit t;
    test_unit_text(&t, ctx, before);
    test_pass(&t, &ebb__pass_simplify);
    test_expect(&t.unit.graph, after);
    test_pass(&t, &ebb__pass_simplify); /* a second time changes nothing */
    test_expect(&t.unit.graph, after);
    test_unit_fini(&t);
    test_ctx_free(ctx);
}

static void slice_of_slice(void **state) {
    (void)state;
    becomes("input %0 f32[9,3] \"x\"\n"
            "%1:f32[6,3] = slice %0 {begin=2 len=6}\n"
            "%2:f32[2,3] = slice %1 {begin=3 len=2}\n"
            "%3:f32[2,3] = tanh %2\n"
            "output %3 \"y\"\n",
            "input %0 f32[9,3] \"x\"\n"
            "%2:f32[2,3] = slice %0 {begin=5 len=2}\n"
            "%3:f32[2,3] = tanh %2\n"
            "output %3 \"y\"\n");
}

static void slices_along_two_axes_stay(void **state) {
    (void)state;
    const char *text = "input %0 f32[9,3] \"x\"\n"
                       "%1:f32[6,3] = slice %0 {begin=2 len=6}\n"
                       "%2:f32[6,2] = slice %1 {axis=1 begin=1 len=2}\n"
                       "%3:f32[6,2] = tanh %2\n"
                       "output %3 \"y\"\n";
    becomes(text, text);
}

static void slice_of_everything(void **state) {
    (void)state;
    becomes("input %0 f32[9,3] \"x\"\n"
            "%1:f32[9,3] = slice %0 {axis=1 len=3}\n"
            "%2:f32[9,3] = tanh %1\n"
            "output %2 \"y\"\n",
            "input %0 f32[9,3] \"x\"\n%2:f32[9,3] = tanh %0\noutput %2 \"y\"\n");
}

static void slice_of_stack(void **state) {
    (void)state;
    becomes("input %0 f32[2,3] \"a\"\ninput %1 f32[4,3] \"b\"\n"
            "%2:f32[6,3] = stack %0 %1\n"
            "%3:f32[4,3] = slice %2 {begin=2 len=4}\n"
            "%4:f32[4,3] = tanh %3\n"
            "output %4 \"y\"\n",
            "input %0 f32[2,3] \"a\"\ninput %1 f32[4,3] \"b\"\n"
            "%4:f32[4,3] = tanh %1\n"
            "output %4 \"y\"\n");
}

static void slice_across_operands_stays(void **state) {
    (void)state;
    const char *text = "input %0 f32[2,3] \"a\"\ninput %1 f32[4,3] \"b\"\n"
                       "%2:f32[6,3] = stack %0 %1\n"
                       "%3:f32[4,3] = slice %2 {begin=1 len=4}\n"
                       "%4:f32[4,3] = tanh %3\n"
                       "output %4 \"y\"\n";
    becomes(text, text);
}

static void slice_of_concat(void **state) {
    (void)state;
    becomes("input %0 f32[2,3] \"a\"\ninput %1 f32[2,5] \"b\"\n"
            "%2:f32[2,8] = concat %0 %1 {axis=1}\n"
            "%3:f32[2,3] = slice %2 {axis=1 len=3}\n"
            "%4:f32[2,3] = tanh %3\n"
            "output %4 \"y\"\n",
            "input %0 f32[2,3] \"a\"\ninput %1 f32[2,5] \"b\"\n"
            "%4:f32[2,3] = tanh %0\n"
            "output %4 \"y\"\n");
}

static void joins(void **state) {
    (void)state;
    becomes("input %0 f32[6,4] \"x\"\n"
            "%1:f32[2,4] = slice %0 {len=2}\n"
            "%2:f32[4,4] = slice %0 {begin=2 len=4}\n"
            "%3:f32[6,4] = stack %1 %2\n"
            "%4:f32[6,4] = stack %3\n"
            "%5:f32[6,1] = slice %4 {axis=1 len=1}\n"
            "%6:f32[6,3] = slice %4 {axis=1 begin=1 len=3}\n"
            "%7:f32[6,4] = concat %5 %6 {axis=1}\n"
            "%8:f32[6,4] = tanh %7\n"
            "output %8 \"y\"\n",
            "input %0 f32[6,4] \"x\"\n%8:f32[6,4] = tanh %0\noutput %8 \"y\"\n");
}

/* Wrong order, a gap at the end, slices of two values: not the value they come from. */
static void joins_that_stay(void **state) {
    (void)state;
    const char *texts[] = {
        "input %0 f32[4,3] \"x\"\n%1:f32[2,3] = slice %0 {begin=2 len=2}\n"
        "%2:f32[2,3] = slice %0 {len=2}\n%3:f32[4,3] = stack %1 %2\n"
        "%4:f32[4,3] = tanh %3\noutput %4 \"y\"\n",
        "input %0 f32[5,3] \"x\"\n%1:f32[2,3] = slice %0 {len=2}\n"
        "%2:f32[2,3] = slice %0 {begin=2 len=2}\n%3:f32[4,3] = stack %1 %2\n"
        "%4:f32[4,3] = tanh %3\noutput %4 \"y\"\n",
        "input %0 f32[4,3] \"x\"\ninput %5 f32[4,3] \"z\"\n%1:f32[2,3] = slice %0 {len=2}\n"
        "%2:f32[2,3] = slice %5 {begin=2 len=2}\n%3:f32[4,3] = stack %1 %2\n"
        "%4:f32[4,3] = tanh %3\noutput %4 \"y\"\n",
    };
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        becomes(texts[i], texts[i]);
    }
}

static void dead_nodes_go_outputs_stay(void **state) {
    (void)state;
    becomes("input %0 f32[2,3] \"x\"\nstate %1 f32[2,3] \"s\" next=%5\n"
            "%2:f32[2,3] = tanh %0\n"
            "%3:f32[2,3] = sigmoid %2\n" /* dead, and so is nothing else */
            "%4:f32[2,3] = slice %0 {len=2}\n"
            "%5:f32[2,3] = add %2 %1\n"
            "output %4 \"same\"\n",
            "input %0 f32[2,3] \"x\"\nstate %1 f32[2,3] \"s\" next=%5\n"
            "%2:f32[2,3] = tanh %0\n"
            "%4:f32[2,3] = slice %0 {len=2}\n"
            "%5:f32[2,3] = add %2 %1\n"
            "output %4 \"same\"\n");
}

/* A next value that equals a variable stays a value of its own; the loss follows what it equals. */
static void next_and_loss(void **state) {
    (void)state;
    becomes("param %0 f32[1] \"w\"\nstate %1 f32[1] \"s\" next=%2\n"
            "%2:f32[1] = slice %0 {len=1}\n%3:f32[1] = tanh %0\n%4:f32[1] = stack %3\nloss %4\n",
            "param %0 f32[1] \"w\"\nstate %1 f32[1] \"s\" next=%2\n"
            "%2:f32[1] = slice %0 {len=1}\n%3:f32[1] = tanh %0\nloss %3\n");
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(slice_of_slice),
                                       cmocka_unit_test(slices_along_two_axes_stay),
                                       cmocka_unit_test(slice_of_everything),
                                       cmocka_unit_test(slice_of_stack),
                                       cmocka_unit_test(slice_across_operands_stays),
                                       cmocka_unit_test(slice_of_concat),
                                       cmocka_unit_test(joins),
                                       cmocka_unit_test(joins_that_stay),
                                       cmocka_unit_test(dead_nodes_go_outputs_stay),
                                       cmocka_unit_test(next_and_loss)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
