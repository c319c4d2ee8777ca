/* test_fuzz.c - random graphs of matrices under random passes, threads and budgets (fuzz_help.h).
 */
#include "fuzz_help.h"

#include "support/random.h"

static void random_graphs(void **state) {
    (void)state;
    fuzz_rounds(300, fuzz_round, test_random_matrices);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(random_graphs)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
