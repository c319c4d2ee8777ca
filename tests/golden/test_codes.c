/* test_codes.c - byte-pair codes: what is learnt, and how words are cut, is what subword-nmt learns
 * and cuts (tests/golden/codes, made by tools/golden/codes.py), to the byte. */
#include "unit/data_help.h"

#include "data/codes_words.h"

static const char folder[] = "tests/golden/codes";

static void expect_same(const char *got, const char *want) {
    char *a = malloc(1 << 16), *b = malloc(1 << 16);
    assert_true(a != NULL && b != NULL);
    size_t n = help_read(got, a, 1 << 16), m = help_read(want, b, 1 << 16);
    if (n != m || memcmp(a, b, n) != 0) {
        fail_msg("%s is not %s", got, want);
    }
    assert_in_range(n, 1, (1 << 16) - 1);
    free(a);
    free(b);
}

static void file_of(const char *name, const char *end, char path[128]) {
    (void)snprintf(path, 128, "%s/%s.%s", folder, name, end);
}

static void compare_cut(help_room *room, const char *name, const char *text) {
    char codes_path[128], text_path[128], cut[128];
    data_codes codes;
    codes_applied done;
    file_of(name, "codes", codes_path);
    file_of(text, "txt", text_path);
    file_of(name, "cut", cut);
    assert_int_equal(ebb__codes_load(room->ctx, codes_path, EBB_DATA, &codes), EBB_OK);
    assert_int_equal(ebb__codes_apply(&codes, NULL, text_path, room->path[1], &done), EBB_OK);
    assert_true(done.pieces > done.words && done.words > 0);
    expect_same(room->path[1], cut);
    ebb__codes_free(&codes);
}

static void as_subword_nmt(void **state) {
    static const struct {
        const char *name;
        uint64_t pairs;
    } cases[] = {{"words", 60}, {"repeats", 40}, {"scripts", 60}, {"marks", 40}, {"spaces", 60}};
    help_room *room = *state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char text[128], want[128];
        words_list words;
        data_codes codes;
        file_of(cases[i].name, "txt", text);
        file_of(cases[i].name, "codes", want);
        ebb__words_list_init(room->ctx, 0, &words);
        assert_int_equal(ebb__words_list_read(&words, text), EBB_OK);
        assert_int_equal(ebb__codes_learn(&words, cases[i].pairs, 0, &codes), EBB_OK);
        assert_int_equal(ebb__codes_save(&codes, room->path[0]), EBB_OK);
        expect_same(room->path[0], want);
        ebb__codes_free(&codes);
        ebb__words_list_free(&words);
        compare_cut(room, cases[i].name, cases[i].name);
    }
    compare_cut(room, "old", "words");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(as_subword_nmt, help_setup, help_teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
