/* test_shuffle.c - shuffled lists are permutations, other ones for every epoch, list and seed, and
 * even. */
#include "data_help.h"

#include "data/shuffle.h"

static void shuffles_are_permutations(void **state) {
    (void)state;
    static const uint64_t sizes[] = {1, 2, 3, 4, 5, 7, 16, 17, 63, 64, 65, 255, 1000, 4097};
    static bool seen[4097];
    uint64_t same = 0, kept = 0, all = 0;
    for (size_t k = 0; k < sizeof sizes / sizeof *sizes; k++) {
        uint64_t n = sizes[k], last = 0;
        data_shuffle list = ebb__shuffle_make(9, "x", 1, 2, n);
        const data_shuffle others[] = {
            ebb__shuffle_make(10, "x", 1, 2, n), ebb__shuffle_make(9, "y", 1, 2, n),
            ebb__shuffle_make(9, "x", 2, 2, n), ebb__shuffle_make(9, "x", 1, 3, n)};
        memset(seen, 0, sizeof seen);
        for (uint64_t i = 0; i < n; i++) {
            uint64_t at = ebb__shuffle_at(&list, i);
            assert_true(at < n && !seen[at]);
            seen[at] = true;
            same += at == i;
            for (size_t o = 0; o < sizeof others / sizeof *others; o++) {
                same += at == ebb__shuffle_at(&others[o], i);
            }
            kept += at == last + 1; /* neighbours do not stay together */
            last = at;
            all++;
        }
    }
    assert_true(same < 200 && kept < 60 && all == 5599);
    data_shuffle large = ebb__shuffle_make(1, "x", 0, 0, (uint64_t)1 << 40);
    assert_true(ebb__shuffle_at(&large, 3) < (uint64_t)1 << 40);
}

/* First halves of shuffles have every number about as often as the others. */
static void shuffles_are_even(void **state) {
    (void)state;
    enum { N = 50, EPOCHS = 4000 };
    int often[N] = {0};
    for (uint64_t epoch = 0; epoch < EPOCHS; epoch++) {
        data_shuffle s = ebb__shuffle_make(3, "even", epoch, 0, N);
        for (uint64_t i = 0; i < N / 2; i++) {
            often[ebb__shuffle_at(&s, i)]++;
        }
    }
    for (int i = 0; i < N; i++) {
        assert_in_range(often[i], EPOCHS / 2 - 200, EPOCHS / 2 + 200); /* 6 sigma */
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(shuffles_are_permutations),
        cmocka_unit_test(shuffles_are_even),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
