/* test_fuzz_nets.c - random convolutional nets under random passes, chunks of images, lanes,
 * shards, threads and budgets (fuzz_help.h). */
#include "fuzz_help.h"

#include "support/random.h"

static void random_nets(void **state) {
    (void)state;
    fuzz_rounds(120, fuzz_round, test_random_net);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(random_nets)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
