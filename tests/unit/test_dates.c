/* test_dates.c - generated dates: a reader that knows English but not the writer finds the same day
 * in both files, weekdays are those of the calendar, and lines are a function of their seed. */
#include "data_help.h"

#include "data/dates.h"
#include "data/vocab.h"

#include <ctype.h>
#include <time.h>

/* What a line says, 0 where it says nothing; numbers without a meaning of their own in `plain`. */
typedef struct reading {
    int year, month, day, plain[4], n_plain;
    int weekday; /* from Sunday = 1 */
    bool last, slashes, points;
} reading;

static int find_word(const char *word, const char *list, size_t least) {
    char copy[512];
    int number = 0;
    snprintf(copy, sizeof copy, "%s", list);
    for (char *rest = copy, *entry; (entry = strsep(&rest, " ")) != NULL;) {
        number++;
        bool shortened = least > 0 && strlen(word) == least && strncmp(word, entry, least) == 0;
        if (strcmp(word, entry) == 0 || shortened) {
            return number;
        }
    }
    return 0;
}

static const char months[] = "january february march april may june july august september october "
                             "november december";
static const char weekdays[] = "sunday monday tuesday wednesday thursday friday saturday";
static const char cardinals[] =
    "one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen "
    "sixteen seventeen eighteen nineteen";
static const char ordinals[] =
    "first second third fourth fifth sixth seventh eighth ninth tenth eleventh twelfth thirteenth "
    "fourteenth fifteenth sixteenth seventeenth eighteenth nineteenth twentieth";
static const char tens[] = "ten twenty thirty forty fifty sixty seventy eighty ninety";

/* "ninety-four" as 94, with the words of `ends` after the hyphen; 0: something else. */
static int find_number(const char *word, const char *ends) {
    char first[32];
    const char *hyphen = strchr(word, '-');
    if (hyphen == NULL) {
        return find_word(word, ends, 0);
    }
    snprintf(first, sizeof first, "%.*s", (int)(hyphen - word), word);
    int end = find_word(hyphen + 1, ends, 0);
    return end > 0 ? 10 * find_word(first, tens, 0) + end : 0;
}

static void read_digits(reading *r, const char *word, bool quoted) {
    int value = atoi(word);
    size_t digits = strspn(word, "0123456789");
    if (digits == 4) {
        r->year = value;
    } else if (quoted) {
        r->year = value > 0 ? value : 2000;
    } else if (word[digits] != 0) {
        const char *right = value % 100 / 10 == 1 ? "th"
                            : value % 10 == 1     ? "st"
                            : value % 10 == 2     ? "nd"
                            : value % 10 == 3     ? "rd"
                                                  : "th";
        assert_string_equal(word + digits, right);
        r->day = value;
    } else {
        assert_true(r->n_plain < 4);
        r->plain[r->n_plain++] = value;
    }
}

static void read_word(reading *r, const char *word, bool quoted) {
    int found;
    if (isdigit((unsigned char)*word)) {
        read_digits(r, word, quoted);
    } else if (find_word(word, "the of on in day and patrick's st fools' , '", 0) > 0) {
        return;
    } else if (strcmp(word, "last") == 0) {
        r->last = true;
    } else if (strcmp(word, "/") == 0) {
        r->slashes = true;
    } else if (strcmp(word, ".") == 0) {
        r->points = true;
    } else if (strcmp(word, "thousand") == 0) {
        r->year *= 1000;
    } else if (strcmp(word, "thirtieth") == 0) {
        r->day = 30;
    } else if ((found = find_word(word, months, 3)) > 0) {
        r->month = found;
    } else if ((found = find_word(word, weekdays, 3)) > 0) {
        r->weekday = found;
    } else if ((found = find_number(word, ordinals)) > 0) {
        r->day = found;
    } else {
        found = strchr(word, '-') != NULL || find_word(word, tens, 0) == 0
                    ? find_number(word, cardinals)
                    : 10 * find_word(word, tens, 0);
        assert_true(found > 0); /* else a word that nobody would understand */
        r->year = (r->year == 19 || r->year == 20 ? 100 * r->year : r->year) + found;
    }
}

static void read_feast(reading *r, char **line) {
    static const struct {
        const char *name;
        int month, day;
    } feasts[] = {{"new year's day", 1, 1},   {"new year's eve", 12, 31},
                  {"valentine's day", 2, 14}, {"st patrick's day", 3, 17},
                  {"april fools' day", 4, 1}, {"halloween", 10, 31},
                  {"christmas eve", 12, 24},  {"christmas day", 12, 25}};
    for (size_t i = 0; i < sizeof feasts / sizeof *feasts; i++) {
        size_t n = strlen(feasts[i].name);
        if (strncmp(*line, feasts[i].name, n) == 0) {
            r->month = feasts[i].month;
            r->day = feasts[i].day;
            *line += n + 1;
            return;
        }
    }
}

static reading read_source(char *line) {
    reading r = {0};
    const char *before = "";
    read_feast(&r, &line);
    for (char *word; (word = strsep(&line, " ")) != NULL; before = word) {
        read_word(&r, word, strcmp(before, "'") == 0);
    }
    int at = 0;
    if (r.slashes) { /* the American way, or after the year */
        r.month = r.plain[at++];
        r.day = r.plain[at++];
    } else if (r.points && r.month == 0) {
        r.day = r.plain[at++];
        r.month = r.plain[at++];
    } else if (at < r.n_plain) {
        r.day = r.plain[at++];
    }
    if (at < r.n_plain) {
        assert_int_equal(r.year, 0);
        r.year = r.plain[at++];
        r.year += r.year == 0 ? 2000 : 0;
    }
    assert_int_equal(at, r.n_plain);
    r.year += r.year >= 50 && r.year < 100 ? 1900 : r.year < 50 ? 2000 : 0;
    return r;
}

/* The C library's calendar is the judge. */
static struct tm calendar(int year, int month, int day) {
    struct tm when = {.tm_year = year - 1900, .tm_mon = month - 1, .tm_mday = day, .tm_hour = 12};
    (void)timegm(&when);
    return when;
}

static void check_pair(char *source, const char *target) {
    int year, month, day, end = 0;
    char shown[64], kept[256];
    snprintf(kept, sizeof kept, "%s", source);
    assert_int_equal(sscanf(target, "%d - %d - %d%n", &year, &month, &day, &end), 3);
    snprintf(shown, sizeof shown, "%04d - %02d - %02d", year, month, day);
    assert_string_equal(shown, target);
    struct tm when = calendar(year, month, day);
    assert_in_range(year, DATES_FIRST_YEAR, DATES_LAST_YEAR);
    assert_true(when.tm_mon == month - 1 && when.tm_mday == day); /* there is such a day */
    reading r = read_source(source);
    if (r.last) {
        assert_int_equal(calendar(year, month, day + 1).tm_mday, 1);
        r.day = day;
    }
    if (r.year != year || r.month != month || r.day != day) {
        fail_msg("'%s' reads as %d - %d - %d, not %s", kept, r.year, r.month, r.day, target);
    }
    if (r.weekday > 0) {
        assert_int_equal(r.weekday - 1, when.tm_wday);
    }
}

enum { MOST = 4 << 20, LINES = 40000 };

static char *load(const char *path) {
    char *text = malloc(MOST);
    assert_non_null(text);
    size_t bytes = help_read(path, text, MOST - 1);
    assert_true(bytes < MOST - 1);
    text[bytes] = 0;
    return text;
}

static void both_sides_agree(void **state) {
    help_room *room = *state;
    size_t lines = 0, weekday_lines = 0;
    assert_int_equal(ebb__dates_write(room->ctx, room->path[0], room->path[1], LINES, 1), EBB_OK);
    char *source = load(room->path[0]), *target = load(room->path[1]);
    assert_null(strstr(source, "  "));
    assert_null(strstr(source, " \n"));
    char *from = source, *to = target;
    for (char *line; (line = strsep(&from, "\n")) != NULL && *line != 0; lines++) {
        char *other = strsep(&to, "\n");
        assert_non_null(other);
        weekday_lines += strstr(line, "day") != NULL;
        check_pair(line, other);
    }
    assert_int_equal(lines, LINES);
    assert_true(weekday_lines > LINES / 10);
    assert_true(to != NULL && *to == 0);
    free(source);
    free(target);
}

static void few_words(void **state) {
    help_room *room = *state;
    static const uint32_t low[] = {400, 100 + 31 + 3}, high[] = {450, 100 + 31 + 3};
    assert_int_equal(ebb__dates_write(room->ctx, room->path[0], room->path[1], LINES, 1), EBB_OK);
    for (int i = 0; i < 2; i++) {
        data_vocab vocab;
        vocab_options options = {.mode = TEXT_WORD};
        assert_int_equal(ebb__vocab_build(room->ctx, room->path[i], &options, &vocab), EBB_OK);
        assert_in_range(vocab.count, low[i], high[i]);
        ebb__vocab_free(&vocab);
    }
}

static void a_function_of_the_seed(void **state) {
    help_room *room = *state;
    assert_int_equal(ebb__dates_write(room->ctx, room->path[0], room->path[1], 2000, 7), EBB_OK);
    assert_int_equal(ebb__dates_write(room->ctx, room->path[2], room->path[3], 1500, 7), EBB_OK);
    for (int i = 0; i < 2; i++) {
        char *whole = load(room->path[i]), *part = load(room->path[2 + i]);
        assert_true(strlen(part) < strlen(whole));
        assert_memory_equal(whole, part, strlen(part)); /* line i does not depend on how many */
        free(part);
        assert_int_equal(ebb__dates_write(room->ctx, room->path[2], room->path[3], 1500, 7 + 1U),
                         EBB_OK);
        part = load(room->path[2 + i]);
        assert_true(memcmp(whole, part, 1000) != 0);
        free(whole);
        free(part);
        assert_int_equal(ebb__dates_write(room->ctx, room->path[2], room->path[3], 1500, 7),
                         EBB_OK);
    }
}

static void one_file_for_both(void **state) {
    help_room *room = *state;
    help_expect(room->ctx, ebb__dates_write(room->ctx, room->path[0], room->path[0], 10, 1),
                EBB_USAGE, "a file each");
    assert_false(ebb__file_exists(room->path[0]));
}

static ebb_status write_some(help_room *room) {
    return ebb__dates_write(room->ctx, room->path[0], room->path[1], 10, 1);
}

static void failures(void **state) {
    help_fail_each(*state, write_some);
}

int main(void) {
#define TEST(name) cmocka_unit_test_setup_teardown(name, help_setup, help_teardown)
    const struct CMUnitTest tests[] = {TEST(both_sides_agree), TEST(few_words),
                                       TEST(a_function_of_the_seed), TEST(one_file_for_both),
                                       TEST(failures)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
