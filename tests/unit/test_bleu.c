/* test_bleu.c - what scores are made of: common runs against a count by hand, the formulas, the
 * tokeniser, and the reading of two files. Equality with sacreBLEU is tests/golden/test_bleu.c's.
 */
#include "data_help.h"

#include "score/corpus.h"
#include "score/files.h"
#include "score/tok13a.h"

#include <math.h>

#define COUNT(list) (sizeof(list) / sizeof *(list))

/* ---- common runs ---- */

static bool same_run(const uint32_t *a, const uint32_t *b, size_t length) {
    for (size_t i = 0; i < length; i++) {
        if (a[i] != b[i] || a[i] >= NGRAM_NEVER) {
            return false;
        }
    }
    return true;
}

/* Pairs off equal runs, one by one. */
static uint64_t match_by_hand(const uint32_t *hyp, size_t n, const uint32_t *ref, size_t m,
                              size_t length) {
    bool used[32] = {false};
    uint64_t match = 0;
    for (size_t i = 0; i + length <= n; i++) {
        for (size_t j = 0; j + length <= m; j++) {
            if (!used[j] && same_run(hyp + i, ref + j, length)) {
                used[j] = true;
                match++;
                break;
            }
        }
    }
    return match;
}

static void runs_are_counted_exactly(void **state) {
    help_room *room = *state;
    help_dice dice = {.key = ebb__rng_key(1, "runs")};
    for (int round = 0; round < 3000; round++) {
        uint32_t text[2][32];
        uint32_t sides = 1 + help_throw(&dice, 6);
        size_t n = help_throw(&dice, 32), m = help_throw(&dice, 32);
        for (int i = 0; i < 64; i++) {
            bool never = help_throw(&dice, 20) == 0;
            text[i / 32][i % 32] =
                never ? NGRAM_NEVER + help_throw(&dice, 2) : help_throw(&dice, sides) * 0x15555555U;
        }
        uint64_t match[6] = {0};
        assert_int_equal(ebb__ngram_match(room->ctx, (ngram_text){text[0], n},
                                          &(ngram_text){text[1], m}, 1, 6, match),
                         EBB_OK);
        for (size_t k = 0; k < 6; k++) {
            assert_int_equal(match[k], match_by_hand(text[0], n, text[1], m, k + 1));
        }
    }
}

static ebb_status add_pair(help_room *room, bleu_counts *counts, const uint32_t *hyp, size_t n,
                           const uint32_t *ref, size_t m) {
    return ebb__bleu_add(room->ctx, counts, (ngram_text){hyp, n}, &(ngram_text){ref, m}, 1);
}

static void sums_grow_pair_by_pair(void **state) {
    help_room *room = *state;
    const uint32_t a[] = {1, 2, 3, 4, 5}, b[] = {1, 2, 3, 9};
    bleu_counts counts = {0};
    assert_int_equal(add_pair(room, &counts, a, 5, b, 4), EBB_OK);
    assert_int_equal(add_pair(room, &counts, b, 4, b, 4), EBB_OK);
    assert_int_equal(add_pair(room, &counts, NULL, 0, b, 4), EBB_OK);
    assert_int_equal(add_pair(room, &counts, a, 2, NULL, 0), EBB_OK);
    const uint64_t match[] = {7, 5, 3, 1}, total[] = {11, 8, 5, 3};
    for (int k = 0; k < BLEU_ORDERS; k++) {
        assert_int_equal(counts.match[k], match[k]);
        assert_int_equal(counts.total[k], total[k]);
    }
    assert_int_equal(counts.hyp_len, 11);
    assert_int_equal(counts.ref_len, 12);
}

/* ---- formulas ---- */

static void bleu_is_the_mean_of_precisions(void **state) {
    (void)state;
    bleu_counts perfect = {{9, 8, 7, 6}, {9, 8, 7, 6}, 9, 9};
    assert_true(fabs(ebb__bleu_score(&perfect) - 100) < 1e-12);
    bleu_counts half = {{8, 4, 2, 1}, {16, 8, 4, 2}, 16, 16};
    assert_true(fabs(ebb__bleu_score(&half) - 50) < 1e-12);
    bleu_counts brief = half;
    brief.ref_len = 32;
    assert_true(fabs(ebb__bleu_score(&brief) - 50 * exp(-1)) < 1e-12);
    assert_true(ebb__bleu_parts(&brief).ratio == 0.5);
    bleu_counts lengthy = half;
    lengthy.ref_len = 1; /* no reward for brevity of the reference */
    assert_true(ebb__bleu_score(&lengthy) == ebb__bleu_score(&half));
}

static void orders_without_a_match_are_smoothed(void **state) {
    (void)state;
    bleu_counts some = {{8, 4, 0, 0}, {16, 8, 4, 2}, 16, 16};
    bleu_parts parts = ebb__bleu_parts(&some);
    assert_true(parts.precision[2] == 100.0 / (2 * 4));
    assert_true(parts.precision[3] == 100.0 / (4 * 2));
    assert_true(fabs(parts.bleu - pow(50.0 * 50.0 * 12.5 * 12.5, 0.25)) < 1e-12);
    bleu_counts none = {{0}, {16, 8, 4, 2}, 16, 16}, empty = {0};
    assert_true(ebb__bleu_score(&none) == 0);
    assert_true(ebb__bleu_score(&empty) == 0);
    bleu_counts brief = {{3, 2, 1, 0}, {3, 2, 1, 0}, 3, 3}; /* no run of 4 at all */
    assert_true(ebb__bleu_score(&brief) == 0);
    bleu_counts nothing = {{0}, {0}, 0, 5};
    assert_true(ebb__bleu_parts(&nothing).brevity_penalty == 0);
}

static void chrf_favours_recall(void **state) {
    (void)state;
    chrf_counts same = {{6, 5, 4, 3, 2, 1}, {6, 5, 4, 3, 2, 1}, {6, 5, 4, 3, 2, 1}};
    assert_true(fabs(ebb__chrf_score(&same) - 100) < 1e-12);
    chrf_counts one = {{4}, {2}, {2}}; /* orders that a side lacks do not count */
    assert_true(fabs(ebb__chrf_score(&one) - 100 * 5 * 0.5 / (4 * 0.5 + 1)) < 1e-12);
    chrf_counts empty = {{0}, {0}, {0}}, apart = {{3}, {3}, {0}};
    assert_true(ebb__chrf_score(&empty) == 0);
    assert_true(ebb__chrf_score(&apart) == 0);
}

/* ---- the tokeniser ---- */

/* The words with one space between them. */
static void join_words(const score_text *text, char *out) {
    size_t used = 0, at = 0;
    while (at < text->used) {
        size_t space = ebb__score_space(text->bytes + at, text->used - at);
        if (space > 0) {
            at += space;
            out[used] = ' ';
            used += used > 0 && out[used - 1] != ' ';
        } else {
            do { /* a whole character */
                out[used++] = text->bytes[at++];
            } while (at < text->used && ((unsigned char)text->bytes[at] & 0xc0U) == 0x80U);
        }
    }
    used -= used > 0 && out[used - 1] == ' ';
    out[used] = '\0';
}

static void splits_as_13a_does(void **state) {
    help_room *room = *state;
    static const char *const cases[][2] = {
        {"", ""},
        {"Hello, world.", "Hello , world ."},
        {"1,000.5 1. 2 ,3 .4", "1,000.5 1 . 2 , 3 . 4"},
        {"...", ". . ."},
        {"a..b", "a . . b"},
        {"10-year 2-3- -4", "10 - year 2 - 3 - -4"},
        {"a-\nb c\nd", "ab c d"},
        {"&amp;lt;b&gt; &quot;", "< b > \""},
        {"<skip<skipped>ped>x<skipped>", "< skipped > x"},
        {"it's (a/b) [c]{d}", "it's ( a / b ) [ c ] { d }"},
        {"5.\u00e9\u00e9.5 \u4e00.\u4e00,", "5 . \u00e9\u00e9 . 5 \u4e00 . \u4e00 ,"},
        {"U.S.A., 3.5%", "U . S . A . , 3.5 %"},
        {"x.\u3000y", "x . y"},
        {"1.-2-.3", "1 . -2 - . 3"},
    };
    score_text out = {0};
    char joined[256];
    for (size_t i = 0; i < COUNT(cases); i++) {
        assert_int_equal(ebb__tok13a(room->ctx, cases[i][0], strlen(cases[i][0]), &out), EBB_OK);
        join_words(&out, joined);
        assert_string_equal(joined, cases[i][1]);
    }
    ebb__score_text_free(room->ctx, &out);
}

/* Points take the most room: the bound on it is tight. */
static void splits_points_without_end(void **state) {
    help_room *room = *state;
    enum { POINTS = 100000 };
    char *line = malloc(POINTS);
    score_text out = {0};
    assert_non_null(line);
    memset(line, '.', POINTS);
    for (size_t i = 0; i < 64; i++) {
        assert_int_equal(ebb__tok13a(room->ctx, line, i, &out), EBB_OK);
        assert_true(out.used <= 5 * (i + 2));
    }
    assert_int_equal(ebb__tok13a(room->ctx, line, POINTS, &out), EBB_OK);
    assert_true(out.used <= 5 * (POINTS + 2));
    ebb__score_text_free(room->ctx, &out);
    free(line);
}

/* ---- white space ---- */

static void strips_what_python_strips(void **state) {
    (void)state;
    static const char *const spaces[] = {
        " ",      "\t",     "\n",     "\v",       "\f",     "\r",     "\x1c",
        "\x1d",   "\x1e",   "\x1f",   "\xc2\x85", "\u00a0", "\u1680", "\u2000",
        "\u2005", "\u200a", "\u2028", "\u2029",   "\u202f", "\u205f", "\u3000"};
    static const char *const others[] = {"\x01",   "\x1b",   "\x7f",   "\xc2\x80",
                                         "\u180e", "\u200b", "\u2027", "\u2060",
                                         "\u3001", "\ufeff", "\u0384"};
    char text[16];
    for (size_t i = 0; i < COUNT(spaces); i++) {
        assert_int_equal(ebb__score_space(spaces[i], strlen(spaces[i])), strlen(spaces[i]));
        (void)snprintf(text, sizeof text, "\u00e9%s %s", spaces[i], spaces[i]);
        assert_int_equal(ebb__score_strip(text, strlen(text)), 2);
        assert_int_equal(ebb__score_strip(spaces[i], strlen(spaces[i])), 0);
    }
    for (size_t i = 0; i < COUNT(others); i++) {
        assert_int_equal(ebb__score_space(others[i], strlen(others[i])), 0);
        assert_int_equal(ebb__score_strip(others[i], strlen(others[i])), strlen(others[i]));
    }
    assert_int_equal(ebb__score_strip("", 0), 0);
}

/* ---- files ---- */

static ebb_status bleu_of(help_room *room, bleu_counts *counts, uint64_t *lines) {
    const char *const paths[] = {room->path[0], room->path[1]};
    return ebb__score_bleu(room->ctx, paths, 2, SCORE_13A, counts, lines);
}

static ebb_status chrf_of(help_room *room, chrf_counts *counts, uint64_t *lines) {
    const char *const paths[] = {room->path[0], room->path[1]};
    return ebb__score_chrf(room->ctx, paths, 2, counts, lines);
}

static void reads_lines_as_sacrebleu_does(void **state) {
    help_room *room = *state;
    static const char text[] = "a b\r\n\n c \n\xef\xbb\xbf x\0y\rz\r\nlast";
    static const char *const want[] = {"a b", "", " c", "\xef\xbb\xbf x\0y\rz", "last"};
    static const size_t bytes[] = {3, 0, 2, 9, 4};
    score_files files;
    bool got = true;
    help_write(room->path[0], text, sizeof text - 1);
    help_write_gzip(room->path[1], "wb", text, sizeof text - 1);
    const char *const paths[] = {room->path[0], room->path[1]};
    assert_int_equal(ebb__score_open(room->ctx, paths, 2, &files), EBB_OK);
    for (size_t i = 0; i < COUNT(want); i++) {
        assert_int_equal(ebb__score_next(&files, &got), EBB_OK);
        assert_true(got);
        for (size_t f = 0; f < 2; f++) {
            assert_int_equal(files.at[f].line.used, bytes[i]);
            assert_memory_equal(files.at[f].line.bytes, want[i], bytes[i]);
        }
    }
    assert_int_equal(ebb__score_next(&files, &got), EBB_OK);
    assert_false(got);
    ebb__score_close(&files);
}

static void refuse(help_room *room, const void *hyp, size_t bytes, const char *ref,
                   const char *part) {
    bleu_counts counts;
    uint64_t lines;
    help_write(room->path[0], hyp, bytes);
    help_write_text(room->path[1], ref);
    help_expect(room->ctx, bleu_of(room, &counts, &lines), EBB_DATA, part);
}

static void says_what_is_wrong(void **state) {
    help_room *room = *state;
    refuse(room, "a\nb\nc", 5, "a\nb\n", "b has 2 lines and");
    refuse(room, "a\nb\nc", 5, "a\nb\n", "a has 3, but");
    refuse(room, "a\n", 2, "a\n\n\n", "a has 1 lines and");
    refuse(room, "", 0, "a\n", "is empty");
    refuse(room, "a\n", 2, "", "is empty");
    refuse(room, "a\nb\xff\n", 5, "a\nb\n", "a:2: is not valid UTF-8");
    refuse(room, "a\n\xed\xa0\x80\n", 6, "a\nb\n", "a:2: is not valid UTF-8"); /* a surrogate */
    refuse(room, "a\n\xe4\xb8\nb", 6, "a\nb\nc\n", "a:2: is not valid UTF-8"); /* cut short */
    refuse(room,
           "\xff\xfe"
           "a\0\n\0",
           6, "a\nb\n", "a:1: is not valid UTF-8"); /* UTF-16 */
    help_write_gzip(room->path[0], "wb", "", 0);
    bleu_counts counts;
    uint64_t lines;
    help_expect(room->ctx, bleu_of(room, &counts, &lines), EBB_DATA, "empty once unpacked");
}

/* A line far longer than the buffer, of as many different words. */
static void scores_a_very_long_line(void **state) {
    help_room *room = *state;
    enum { WORDS = 300000, ROOM = WORDS * 8 };
    char *text = malloc(ROOM);
    size_t used = 0;
    bleu_counts counts;
    uint64_t lines;
    assert_non_null(text);
    for (int i = 0; i < WORDS; i++) {
        used += (size_t)snprintf(text + used, ROOM - used, "%x ", (unsigned)i);
    }
    help_write(room->path[0], text, used);
    help_write(room->path[1], text, used);
    assert_int_equal(bleu_of(room, &counts, &lines), EBB_OK);
    assert_int_equal(lines, 1);
    assert_int_equal(counts.match[3], WORDS - 3);
    chrf_counts chrf;
    assert_int_equal(chrf_of(room, &chrf, &lines), EBB_OK);
    assert_int_equal(chrf.match[5], used - WORDS - 5);
    free(text);
}

/* ---- faults ---- */

static ebb_status score_all(help_room *room) {
    bleu_counts bleu;
    chrf_counts chrf;
    uint64_t lines;
    TRY(bleu_of(room, &bleu, &lines));
    return chrf_of(room, &chrf, &lines);
}

static void survives_every_failure(void **state) {
    help_room *room = *state;
    help_write_text(room->path[0], "a\nthe cat, the dog.\n\nthe end of the line is near\n");
    help_write_gzip(room->path[1], "wb", "b\na cat, a dog.\nx\nthe end is near\n", 32);
    help_fail_each(room, score_all);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(runs_are_counted_exactly, help_setup, help_teardown),
        cmocka_unit_test_setup_teardown(sums_grow_pair_by_pair, help_setup, help_teardown),
        cmocka_unit_test(bleu_is_the_mean_of_precisions),
        cmocka_unit_test(orders_without_a_match_are_smoothed),
        cmocka_unit_test(chrf_favours_recall),
        cmocka_unit_test_setup_teardown(splits_as_13a_does, help_setup, help_teardown),
        cmocka_unit_test_setup_teardown(splits_points_without_end, help_setup, help_teardown),
        cmocka_unit_test(strips_what_python_strips),
        cmocka_unit_test_setup_teardown(reads_lines_as_sacrebleu_does, help_setup, help_teardown),
        cmocka_unit_test_setup_teardown(says_what_is_wrong, help_setup, help_teardown),
        cmocka_unit_test_setup_teardown(scores_a_very_long_line, help_setup, help_teardown),
        cmocka_unit_test_setup_teardown(survives_every_failure, help_setup, help_teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
