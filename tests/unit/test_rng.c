/* Philox against Random123's published known answers; keys differ by seed and by site. */
#include "base/rng.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

static void expect_block(rng_key key, const uint32_t counter[4], const uint32_t expected[4]) {
    rng_block block = ebb__rng_block(key, counter[0], counter[1], counter[2], counter[3]);
    for (int i = 0; i < 4; i++) {
        assert_int_equal(block.word[i], expected[i]);
    }
}

static void known_answers(void **state) {
    (void)state;
    expect_block((rng_key){{0, 0}}, (const uint32_t[]){0, 0, 0, 0},
                 (const uint32_t[]){0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8});
    const uint32_t ones = 0xffffffff;
    expect_block((rng_key){{ones, ones}}, (const uint32_t[]){ones, ones, ones, ones},
                 (const uint32_t[]){0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd});
    expect_block((rng_key){{0xa4093822, 0x299f31d0}},
                 (const uint32_t[]){0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344},
                 (const uint32_t[]){0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1});
}

static void keys_depend_on_seed_and_site(void **state) {
    (void)state;
    rng_key a = ebb__rng_key(1, "rnn.l0.drop"), same = ebb__rng_key(1, "rnn.l0.drop");
    rng_key other_seed = ebb__rng_key(2, "rnn.l0.drop"),
            other_site = ebb__rng_key(1, "rnn.l1.drop");
    assert_memory_equal(&a, &same, sizeof a);
    assert_memory_not_equal(&a, &other_seed, sizeof a);
    assert_memory_not_equal(&a, &other_site, sizeof a);
    /* XXH64 of the empty string, seed 0: checkpoints rely on the hash never changing. */
    rng_key empty = ebb__rng_key(0, "");
    assert_int_equal(empty.word[0], 0x51d8e999);
    assert_int_equal(empty.word[1], 0xef46db37);
}

static void every_counter_word_matters(void **state) {
    (void)state;
    rng_key key = ebb__rng_key(7, "site");
    rng_block base = ebb__rng_block(key, 1, 2, 3, 4);
    for (uint32_t i = 0; i < 4; i++) {
        rng_block other =
            ebb__rng_block(key, 1 + (i == 0), 2 + (i == 1), 3 + (i == 2), 4 + (i == 3));
        assert_memory_not_equal(&base, &other, sizeof base);
    }
}

static void unit_is_in_range(void **state) {
    (void)state;
    assert_true(ebb__rng_unit(0) == 0.0f);
    assert_true(ebb__rng_unit(0xff) == 0.0f);
    assert_true(ebb__rng_unit(0x80000000u) == 0.5f);
    assert_true(ebb__rng_unit(0xffffffffu) == 1.0f - 0x1p-24f);
    rng_key key = ebb__rng_key(3, "mean");
    double sum = 0.0;
    for (uint32_t i = 0; i < 25000; i++) {
        rng_block block = ebb__rng_block(key, i, 0, 0, 0);
        for (int k = 0; k < 4; k++) {
            sum += (double)ebb__rng_unit(block.word[k]);
        }
    }
    /* Standard error of the mean of 100,000 draws is 0.0009. */
    assert_true(sum / 100000.0 > 0.495 && sum / 100000.0 < 0.505);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(known_answers),
        cmocka_unit_test(keys_depend_on_seed_and_site),
        cmocka_unit_test(every_counter_word_matters),
        cmocka_unit_test(unit_is_in_range),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
