/* test_grammar.c - the toy text: the same for the same seed, prefixes agree, verbs agree. */
#include "data_help.h"

#include "data/grammar.h"
#include "data/vocab.h"

static size_t grow(help_room *room, int which, uint64_t sentences, uint64_t seed, char *text,
                   size_t most) {
    assert_int_equal(ebb__grammar_write(room->ctx, room->path[which], sentences, seed), EBB_OK);
    size_t bytes = help_read(room->path[which], text, most - 1);
    text[bytes] = 0;
    return bytes;
}

static void deterministic(void **state) {
    help_room *room = *state;
    enum { MOST = 200000 };
    char *one = malloc(MOST), *two = malloc(MOST);
    size_t bytes = grow(room, 0, 1000, 7, one, MOST);
    assert_int_equal(grow(room, 1, 1000, 7, two, MOST), bytes);
    assert_memory_equal(one, two, bytes);
    size_t fewer = grow(room, 1, 900, 7, two, MOST); /* sentence i does not depend on how many */
    assert_true(fewer < bytes);
    assert_memory_equal(one, two, fewer);
    (void)grow(room, 1, 1000, 8, two, MOST);
    assert_string_not_equal(one, two);
    free(one);
    free(two);
}

static void english_like(void **state) {
    help_room *room = *state;
    enum { MOST = 2000000 };
    char *text = malloc(MOST);
    size_t lines = 0;
    (void)grow(room, 0, 20000, 1, text, MOST);
    for (char *line = text, *end; *line != 0; line = end + 1) {
        end = strchr(line, '\n');
        assert_non_null(end);
        assert_true(end - line > 6 && memcmp(end - 2, " .", 2) == 0);
        lines++;
    }
    assert_int_equal(lines, 20000);
    assert_null(strstr(text, "  "));
    assert_non_null(strstr(text, " dogs see "));
    assert_non_null(strstr(text, " dog sees "));
    assert_null(strstr(text, " dogs sees "));
    assert_null(strstr(text, " dog see "));
    assert_null(strstr(text, "these dog "));
    assert_null(strstr(text, "dogs does "));
    free(text);
    data_vocab vocab;
    vocab_options options = {.mode = TEXT_WORD};
    assert_int_equal(ebb__vocab_build(room->ctx, room->path[0], &options, &vocab), EBB_OK);
    assert_in_range(vocab.count, 250, 400);
    ebb__vocab_free(&vocab);
}

static ebb_status write_some(help_room *room) {
    return ebb__grammar_write(room->ctx, room->path[0], 10, 1);
}

static void failures(void **state) {
    help_room *room = *state;
    help_fail_each(room, write_some);
}

int main(void) {
#define TEST(name) cmocka_unit_test_setup_teardown(name, help_setup, help_teardown)
    const struct CMUnitTest tests[] = {TEST(deterministic), TEST(english_like), TEST(failures)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
