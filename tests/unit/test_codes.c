/* test_codes.c - byte-pair codes: order and ties, words of any bytes, memory, files that are wrong,
 * and that every failure is reported. Equality with subword-nmt: tests/golden/test_codes.c. */
#include "data_help.h"

#include "data/codes_words.h"

static ebb_status learn(help_room *room, const char *text, uint64_t n, data_codes *out) {
    words_list words;
    help_write_text(room->path[0], text);
    ebb__words_list_init(room->ctx, 0, &words);
    ebb_status status = ebb__words_list_read(&words, room->path[0]);
    if (status == EBB_OK) {
        status = ebb__codes_learn(&words, n, 0, out);
    }
    ebb__words_list_free(&words);
    return status;
}

/* The word's pieces, joined by '|'. */
static void expect_cut(const data_codes *codes, codes_cutter *cutter, const char *word,
                       const char *want) {
    char joined[256];
    size_t used = 0, begin = 0;
    assert_int_equal(ebb__codes_cut(codes, cutter, word, strlen(word)), EBB_OK);
    for (size_t i = 0; i < cutter->n_ends; begin = cutter->ends[i++]) {
        used += (size_t)snprintf(joined + used, sizeof joined - used, "%s%.*s", i > 0 ? "|" : "",
                                 (int)(cutter->ends[i] - begin), word + begin);
    }
    assert_string_equal(joined, want);
}

static void earlier_pairs_first(void **state) {
    help_room *room = *state;
    data_codes codes;
    codes_cutter cutter = {.ctx = room->ctx};
    help_write_text(room->path[0], "#version: 0.2\nb c\na b\na bc\na a\nx y</w>\nb c\n");
    assert_int_equal(ebb__codes_load(room->ctx, room->path[0], EBB_DATA, &codes), EBB_OK);
    for (int known = 0; known < 2; known++) {
        for (int again = 0; again < 2; again++) {
            expect_cut(&codes, &cutter, "abc", "ab|c"); /* c</w> is not c */
            expect_cut(&codes, &cutter, "abcx", "abc|x");
            expect_cut(&codes, &cutter, "aaaz", "aa|a|z"); /* from left to right */
            expect_cut(&codes, &cutter, "aaaaz", "aa|aa|z");
            expect_cut(&codes, &cutter, "xy", "xy");
            expect_cut(&codes, &cutter, "xyx", "x|y|x");
            expect_cut(&codes, &cutter, "a", "a");
            expect_cut(&codes, &cutter, "\xff\xc3\xa9", "\xff|\xc3\xa9");
        }
        assert_int_equal(known > 0 ? EBB_OK : ebb__codes_cutter_remember(&cutter), EBB_OK);
    }
    ebb__codes_cutter_free(&cutter);
    ebb__codes_free(&codes);
}

/* One of 65535 letters is cut in no more than a moment, and to what it must be. */
static void long_words(void **state) {
    help_room *room = *state;
    data_codes codes;
    codes_cutter cutter = {.ctx = room->ctx};
    char *word = malloc(TEXT_TOKEN_LIMIT);
    assert_non_null(word);
    memset(word, 'a', TEXT_TOKEN_LIMIT);
    help_write_text(room->path[0], "#version: 0.2\na a\naa aa\naaaa aaaa\n");
    assert_int_equal(ebb__codes_load(room->ctx, room->path[0], EBB_DATA, &codes), EBB_OK);
    assert_int_equal(ebb__codes_cut(&codes, &cutter, word, TEXT_TOKEN_LIMIT), EBB_OK);
    assert_int_equal(cutter.n_ends, 8191 + 3); /* 8 each; 4, 2, and the last with its mark */
    for (size_t i = 0; i < 8191; i++) {
        assert_int_equal(cutter.ends[i], 8 * (i + 1));
    }
    free(word);
    ebb__codes_cutter_free(&cutter);
    ebb__codes_free(&codes);
}

static void any_bytes(void **state) {
    help_room *room = *state;
    data_codes codes, again;
    assert_int_equal(
        learn(room, "\xff\xfe\xff\xfe x\x01y x\x01y \xc3( \xc3( \xff\xfe\n", 9, &codes), EBB_OK);
    assert_int_equal(ebb__codes_save(&codes, room->path[1]), EBB_OK);
    assert_int_equal(ebb__codes_load(room->ctx, room->path[1], EBB_MODEL, &again), EBB_OK);
    assert_true(ebb__codes_hash(&codes) == ebb__codes_hash(&again));
    void *moved = malloc(again.bytes);
    assert_non_null(moved);
    ebb__codes_move(&again, moved);
    assert_true(ebb__codes_hash(&codes) == ebb__codes_hash(&again));
    ebb__codes_free(&again);
    free(moved);
    ebb__codes_free(&codes);
    help_expect(room->ctx, learn(room, "a b c\n", 9, &codes), EBB_DATA, "nothing to learn");
    help_expect(room->ctx, learn(room, "ab cd ef\n", 9, &codes), EBB_DATA, "nothing to learn");
}

static void bad_files(void **state) {
    static const struct {
        const char *text, *says;
    } cases[] = {
        {"#version: 0.2\n", "holds no pair"},
        {"#version: 0.3\na b\n", ":1: a version"},
        {"#version: 0.2\na b\n\nb c\n", ":3: an empty line"},
        {"#version: 0.2\na\n", ":2: one piece"},
        {"#version: 0.2\na b c\n", ":2: more than two"},
        {"#version: 0.2\na  b\n", ":2: more than two"},
        {"#version: 0.2\na b\nabc d\n", ":3: its first piece"},
        {"#version: 0.2\na b\nd abc\n", ":3: its second piece"},
        {"a b</w>\n", ":1: its second piece"},
        {"{\"a\": 1}\n", "piece"},
    };
    help_room *room = *state;
    data_codes codes;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        help_write_text(room->path[0], cases[i].text);
        help_expect(room->ctx, ebb__codes_load(room->ctx, room->path[0], EBB_MODEL, &codes),
                    EBB_MODEL, cases[i].says);
    }
    help_expect(room->ctx, ebb__codes_load(room->ctx, room->path[2], EBB_DATA, &codes), EBB_DATA,
                "no such file");
    /* More pairs than any codes have. */
    FILE *file = fopen(room->path[0], "wb");
    assert_non_null(file);
    for (int i = 0; i <= CODES_MOST_PAIRS; i++) {
        assert_true(fputs("a b\n", file) >= 0);
    }
    assert_int_equal(fclose(file), 0);
    help_expect(room->ctx, ebb__codes_load(room->ctx, room->path[0], EBB_DATA, &codes), EBB_DATA,
                ":1048577: more than 1048576 pairs");
}

static void budget(void **state) {
    help_room *room = *state;
    words_list words;
    data_codes codes;
    help_write_text(room->path[0], "one two three four one two\n");
    ebb__words_list_init(room->ctx, 100, &words);
    help_expect(room->ctx, ebb__words_list_read(&words, room->path[0]), EBB_BUDGET, "give more");
    ebb__words_list_free(&words);
    ebb__words_list_init(room->ctx, 0, &words);
    assert_int_equal(ebb__words_list_read(&words, room->path[0]), EBB_OK);
    const uint64_t sizes[] = {10, 5000};
    for (int i = 0; i < 2; i++) {
        help_expect(room->ctx, ebb__codes_learn(&words, 3, sizes[i], &codes), EBB_BUDGET,
                    "give more memory");
    }
    ebb__words_list_free(&words);
    char *word = malloc(TEXT_TOKEN_LIMIT + 2);
    assert_non_null(word);
    memset(word, 'a', TEXT_TOKEN_LIMIT + 1);
    word[TEXT_TOKEN_LIMIT + 1] = '\0';
    help_expect(room->ctx, learn(room, word, 3, &codes), EBB_DATA, ":1: a word of more than");
    free(word);
}

static ebb_status all_of_it(help_room *room) {
    data_codes codes = {.ctx = room->ctx}, again = {.ctx = room->ctx};
    codes_applied done;
    ebb_status status;
    TRY_OUT(learn(room, "the then that the there\n", 6, &codes));
    TRY_OUT(ebb__codes_save(&codes, room->path[1]));
    TRY_OUT(ebb__codes_load(room->ctx, room->path[1], EBB_MODEL, &again));
    TRY_OUT(ebb__codes_apply(&again, NULL, room->path[0], room->path[2], &done));
out:
    ebb__codes_free(&codes);
    ebb__codes_free(&again);
    return status;
}

static void failures(void **state) {
    help_fail_each(*state, all_of_it);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(earlier_pairs_first, help_setup, help_teardown),
        cmocka_unit_test_setup_teardown(long_words, help_setup, help_teardown),
        cmocka_unit_test_setup_teardown(any_bytes, help_setup, help_teardown),
        cmocka_unit_test_setup_teardown(bad_files, help_setup, help_teardown),
        cmocka_unit_test_setup_teardown(budget, help_setup, help_teardown),
        cmocka_unit_test_setup_teardown(failures, help_setup, help_teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
