/* test_alias.c - copies exactly where the graph asks for more than one address a value. */
#include "support/graphs.h"

static void becomes(const char *before, const char *after) {
    ebb_ctx *ctx = test_ctx_new();
    test_unit t;
    test_unit_text(&t, ctx, before);
    test_pass(&t, &ebb__pass_alias);
    test_expect(&t.unit.graph, after);
    test_unit_fini(&t);
    test_ctx_free(ctx);
}

#define X "input %0 f32[2,3] \"x\"\n"

static void one_stack_needs_no_copy(void **state) {
    (void)state;
    const char *nested = X "%1:f32[2,3] = tanh %0\n%2:f32[2,3] = sigmoid %0\n"
                           "%3:f32[4,3] = stack %1 %2\n%5:f32[4,3] = tanh %3\n"
                           "%4:f32[8,3] = stack %3 %5\n"
                           "%6:f32[8,3] = tanh %4\noutput %6 \"y\"\n";
    becomes(nested, nested);
}

static void value_in_two_stacks(void **state) {
    (void)state;
    becomes(X "%1:f32[2,3] = tanh %0\n%2:f32[2,3] = sigmoid %0\n"
              "%3:f32[4,3] = stack %1 %2\n%4:f32[4,3] = stack %2 %1\n"
              "%5:f32[4,3] = add %3 %4\noutput %5 \"y\"\n",
            X "%1:f32[2,3] = tanh %0\n%2:f32[2,3] = sigmoid %0\n"
              "%3:f32[4,3] = stack %1 %2\n"
              "%6:f32[2,3] = copy %2\n%7:f32[2,3] = copy %1\n%4:f32[4,3] = stack %6 %7\n"
              "%5:f32[4,3] = add %3 %4\noutput %5 \"y\"\n");
}

static void value_twice_in_a_stack(void **state) {
    (void)state;
    becomes(X "%1:f32[2,3] = tanh %0\n%3:f32[4,3] = stack %1 %1\n"
              "%5:f32[4,3] = tanh %3\noutput %5 \"y\"\n",
            X "%1:f32[2,3] = tanh %0\n%2:f32[2,3] = copy %1\n%3:f32[4,3] = stack %1 %2\n"
              "%5:f32[4,3] = tanh %3\noutput %5 \"y\"\n");
}

static void variable_and_slice_in_a_stack(void **state) {
    (void)state;
    becomes(X "%1:f32[4,3] = fill {rank=2 d0=4 d1=3 value=1}\n%2:f32[2,3] = slice %1 {len=2}\n"
              "%3:f32[4,3] = stack %0 %2\n%5:f32[4,3] = tanh %3\noutput %5 \"y\"\n",
            X "%1:f32[4,3] = fill {rank=2 d0=4 d1=3 value=1}\n%2:f32[2,3] = slice %1 {len=2}\n"
              "%6:f32[2,3] = copy %0\n%7:f32[2,3] = copy %2\n"
              "%3:f32[4,3] = stack %6 %7\n%5:f32[4,3] = tanh %3\noutput %5 \"y\"\n");
}

/* Shared by two variables, also an output, in a stack, a view: each next value owns its bytes. */
static void next_values(void **state) {
    (void)state;
    becomes(X "state %1 f32[2,3] \"a\" next=%3\nstate %2 f32[2,3] \"b\" next=%3\n"
              "%3:f32[2,3] = tanh %0\n",
            X "state %1 f32[2,3] \"a\" next=%3\nstate %2 f32[2,3] \"b\" next=%4\n"
              "%3:f32[2,3] = tanh %0\n%4:f32[2,3] = copy %3\n");
    becomes(X "state %1 f32[2,3] \"a\" next=%3\n%3:f32[2,3] = tanh %0\noutput %3 \"y\"\n",
            X "state %1 f32[2,3] \"a\" next=%4\n%3:f32[2,3] = tanh %0\n%4:f32[2,3] = copy %3\n"
              "output %3 \"y\"\n");
    becomes(X "state %1 f32[2,3] \"a\" next=%3\n%3:f32[2,3] = tanh %0\n%4:f32[2,3] = tanh %3\n"
              "%5:f32[4,3] = stack %3 %4\n%6:f32[4,3] = tanh %5\noutput %6 \"y\"\n",
            X "state %1 f32[2,3] \"a\" next=%7\n%3:f32[2,3] = tanh %0\n%4:f32[2,3] = tanh %3\n"
              "%5:f32[4,3] = stack %3 %4\n%6:f32[4,3] = tanh %5\n%7:f32[2,3] = copy %3\n"
              "output %6 \"y\"\n");
    becomes("input %0 f32[4,3] \"x\"\nstate %1 f32[2,3] \"a\" next=%3\n"
            "%2:f32[4,3] = tanh %0\n%3:f32[2,3] = slice %2 {len=2}\n",
            "input %0 f32[4,3] \"x\"\nstate %1 f32[2,3] \"a\" next=%4\n"
            "%2:f32[4,3] = tanh %0\n%3:f32[2,3] = slice %2 {len=2}\n%4:f32[2,3] = copy %3\n");
}

/* Outputs are read as dense rows, so they are neither columns of something nor part of a join. */
static void outputs(void **state) {
    (void)state;
    becomes(X "%1:f32[2,3] = tanh %0\n%2:f32[2,1] = slice %1 {axis=1 begin=1 len=1}\n"
              "output %2 \"y\"\n",
            X "%1:f32[2,3] = tanh %0\n%2:f32[2,1] = slice %1 {axis=1 begin=1 len=1}\n"
              "%3:f32[2,1] = copy %2\noutput %3 \"y\"\n");
#define WIDE "state %9 f32[2,6] \"s\" next=%4\n"
    becomes(X WIDE
            "%1:f32[2,3] = tanh %0\n%2:f32[2,3] = tanh %1\n%3:f32[2,6] = concat %1 %2 {axis=1}\n"
            "%4:f32[2,6] = tanh %3\noutput %1 \"y\"\n",
            X WIDE "%1:f32[2,3] = tanh %0\n%5:f32[2,3] = copy %1\n%2:f32[2,3] = tanh %1\n"
                   "%3:f32[2,6] = concat %1 %2 {axis=1}\n%4:f32[2,6] = tanh %3\n"
                   "output %5 \"y\"\n");
}

/* Every reader of a variable comes before the node that overwrites it, also through views. */
static void readers_before_the_overwrite(void **state) {
    (void)state;
    becomes(X "state %1 f32[2,3] \"a\" next=%2\n%2:f32[2,3] = tanh %0\n"
              "%3:f32[1,3] = slice %1 {len=1}\n%4:f32[1,3] = tanh %3\noutput %4 \"y\"\n",
            X "state %1 f32[2,3] \"a\" next=%2\n%3:f32[1,3] = slice %1 {len=1}\n"
              "%4:f32[1,3] = tanh %3\n%2:f32[2,3] = tanh %0\noutput %4 \"y\"\n");
}

static void impossible_order_is_refused(void **state) {
    (void)state;
    ebb_ctx *ctx = test_ctx_new();
    test_unit t;
    test_unit_text(&t, ctx,
                   "state %0 f32[2] \"a\" next=%1\n%1:f32[2] = tanh %0\n%2:f32[2] = add %1 %0\n"
                   "output %2 \"y\"\n");
    assert_refused(ctx, ebb__pass_alias.run(&t.unit), EBB_INTERNAL, "wait for each other");
    test_unit_fini(&t);
    test_ctx_free(ctx);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(one_stack_needs_no_copy),
                                       cmocka_unit_test(value_in_two_stacks),
                                       cmocka_unit_test(value_twice_in_a_stack),
                                       cmocka_unit_test(variable_and_slice_in_a_stack),
                                       cmocka_unit_test(next_values),
                                       cmocka_unit_test(outputs),
                                       cmocka_unit_test(readers_before_the_overwrite),
                                       cmocka_unit_test(impossible_order_is_refused)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
