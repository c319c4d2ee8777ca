/* dates.c - a day is drawn, then one of many ways to write it. A way is a line with places:
 *
 *   %W tuesday  %w tue     %M march  %m mar     %n 3  %N 03        (month)
 *   %D third    %o 3rd     %d 3      %e 03                         (day)
 *   %Y nineteen ninety-four  %y 1994  %s 94                        (year)
 *   %H christmas eve: the day becomes that one; %L: the last of its month */
#include "data/dates.h"

#include "data/dice.h"
#include "data/sink.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#define COUNT(list) ((uint32_t)(sizeof(list) / sizeof(list)[0]))

static const char *const ways[] = {
    "the %D of %M , %Y",
    "the %D of %M %Y",
    "the %D day of %M , %y",
    "%D of %M %Y",
    "%M the %D , %Y",
    "%M %D , %Y",
    "%M %D %y",
    "%W the %D of %M , %Y",
    "on %W , the %D of %M %y",
    "in %y , on the %D of %M",
    "the %o of %M , %y",
    "%W the %o of %M %Y",
    "%o of %m %y",
    "%o %M %y",
    "%M %o , %y",
    "on %W , %M %o , %y",
    "%M %d , %y",
    "%W , %M %d , %y",
    "%W %d %M %y",
    "%d %M %y",
    "%d %M ' %s",
    "%d %m %y",
    "%w %d %m %y",
    "%w , %d %m ' %s",
    "%m %d , %y",
    "%w , %m . %d , %y",
    "%y , %M %d",
    "%y %m %e",
    "%n / %d / %s",
    "%n / %d / %y",
    "%N / %e / %s",
    "%w %N / %e / %y",
    "%y / %N / %e",
    "%d . %n . %s",
    "%d . %n . %y",
    "%w %e . %N . %y",
    "%H %y",
    "%H , %Y",
    "%L the last day of %M , %Y",
    "%L the last of %m %y",
};

static const char *const weekdays[] = {"monday", "tuesday",  "wednesday", "thursday",
                                       "friday", "saturday", "sunday"};
static const char *const months[] = {"january",   "february", "march",    "april",
                                     "may",       "june",     "july",     "august",
                                     "september", "october",  "november", "december"};
static const char *const numbers[] = {"",        "one",     "two",       "three",    "four",
                                      "five",    "six",     "seven",     "eight",    "nine",
                                      "ten",     "eleven",  "twelve",    "thirteen", "fourteen",
                                      "fifteen", "sixteen", "seventeen", "eighteen", "nineteen"};
static const char *const ordinals[] = {
    "",           "first",     "second",    "third",       "fourth",     "fifth",     "sixth",
    "seventh",    "eighth",    "ninth",     "tenth",       "eleventh",   "twelfth",   "thirteenth",
    "fourteenth", "fifteenth", "sixteenth", "seventeenth", "eighteenth", "nineteenth"};
static const char *const tens[] = {"",      "ten",   "twenty",  "thirty", "forty",
                                   "fifty", "sixty", "seventy", "eighty", "ninety"};
static const struct {
    const char *name;
    int month, day;
} feasts[] = {{"new year's day", 1, 1},   {"valentine's day", 2, 14}, {"st patrick's day", 3, 17},
              {"april fools' day", 4, 1}, {"halloween", 10, 31},      {"christmas eve", 12, 24},
              {"christmas day", 12, 25},  {"new year's eve", 12, 31}};

typedef struct date {
    int year, month, day; /* month and day from 1 */
} date;

typedef struct date_line {
    data_dice dice;
    date date;
    char text[160];
    size_t used;
} date_line;

__attribute__((format(printf, 2, 3))) static void put(date_line *line, const char *format, ...) {
    va_list args;
    va_start(args, format);
    int n = vsnprintf(line->text + line->used, sizeof line->text - line->used, format, args);
    va_end(args);
    line->used += n > 0 && (size_t)n < sizeof line->text - line->used ? (size_t)n : 0;
}

/* ---- the calendar ---- */

static bool is_leap(int year) {
    return year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
}

static int days_of(int year, int month) {
    static const int days[] = {31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31};
    return days[month - 1] + (month == 2 && is_leap(year));
}

/* Monday is 0. The first of January 1950 was a Sunday. */
static int weekday_of(const date *d) {
    int days = 6 + d->day - 1;
    for (int year = DATES_FIRST_YEAR; year < d->year; year++) {
        days += 365 + is_leap(year);
    }
    for (int month = 1; month < d->month; month++) {
        days += days_of(d->year, month);
    }
    return days % 7;
}

static date draw_date(data_dice *dice) {
    date d = {.year = DATES_FIRST_YEAR +
                      (int)ebb__dice_throw(dice, DATES_LAST_YEAR - DATES_FIRST_YEAR + 1),
              .month = 1};
    d.day = 1 + (int)ebb__dice_throw(dice, is_leap(d.year) ? 366 : 365);
    while (d.day > days_of(d.year, d.month)) {
        d.day -= days_of(d.year, d.month++);
    }
    return d;
}

/* ---- numbers in words ---- */

/* 1 to 99: "seven", "forty-two"; the last part from another list: "forty-second". */
static void put_number(date_line *line, int n, const char *const *ends) {
    if (n < 20) {
        put(line, "%s", ends[n]);
    } else if (n % 10 == 0) {
        put(line, "%s", ends == numbers ? tens[n / 10] : n == 20 ? "twentieth" : "thirtieth");
    } else {
        put(line, "%s-%s", tens[n / 10], ends[n % 10]);
    }
}

/* "nineteen ninety-four", "two thousand and four", "twenty twenty-six". */
static void put_year(date_line *line, int year) {
    int rest = year % 100;
    if (year < 2000 || (rest >= 10 && ebb__dice_throw(&line->dice, 2) == 0)) {
        put(line, "%s ", year < 2000 ? "nineteen" : "twenty");
        put_number(line, rest, numbers);
        return;
    }
    put(line, "two thousand");
    if (rest > 0) {
        put(line, " and ");
        put_number(line, rest, numbers);
    }
}

static const char *ending(int day) {
    static const char *const endings[] = {"th", "st", "nd", "rd"};
    return day / 10 != 1 && day % 10 <= 3 ? endings[day % 10] : "th";
}

/* ---- lines ---- */

static void put_feast(date_line *line) {
    uint32_t which = ebb__dice_throw(&line->dice, COUNT(feasts));
    line->date.month = feasts[which].month;
    line->date.day = feasts[which].day;
    put(line, "%s", feasts[which].name);
}

static void put_place(date_line *line, char place) {
    const date *d = &line->date;
    switch (place) {
    case 'W':
        return put(line, "%s", weekdays[weekday_of(d)]);
    case 'w':
        return put(line, "%.3s", weekdays[weekday_of(d)]);
    case 'M':
        return put(line, "%s", months[d->month - 1]);
    case 'm':
        return put(line, "%.3s", months[d->month - 1]);
    case 'n':
        return put(line, "%d", d->month);
    case 'N':
        return put(line, "%02d", d->month);
    case 'D':
        return put_number(line, d->day, ordinals);
    case 'o':
        return put(line, "%d%s", d->day, ending(d->day));
    case 'd':
        return put(line, "%d", d->day);
    case 'e':
        return put(line, "%02d", d->day);
    case 'Y':
        return put_year(line, d->year);
    case 'y':
        return put(line, "%d", d->year);
    case 's':
        return put(line, "%02d", d->year % 100);
    case 'H':
        return put_feast(line);
    default:
        line->date.day = days_of(d->year, d->month);
    }
}

static void write_date(date_line *line) {
    line->date = draw_date(&line->dice);
    const char *way = ways[ebb__dice_throw(&line->dice, COUNT(ways))];
    for (; *way != '\0'; way++) {
        if (*way == '%') {
            put_place(line, *++way);
        } else if (*way != ' ' || line->used > 0) { /* %L puts nothing */
            put(line, "%c", *way);
        }
    }
    put(line, "\n");
}

ebb_status ebb__dates_write(ebb_ctx *ctx, const char *source, const char *target, uint64_t lines,
                            uint64_t seed) {
    ebb_status status = EBB_OK;
    data_sink from = {0}, to = {0};
    rng_key key = ebb__rng_key(seed, "data.dates");
    if (strcmp(source, target) == 0) {
        return ebb__fail(ctx, EBB_USAGE, "%s: sources and targets need a file each", source);
    }
    TRY_OUT(ebb__sink_open(ctx, source, &from));
    TRY_OUT(ebb__sink_open(ctx, target, &to));
    for (uint64_t i = 0; i < lines; i++) {
        date_line line = {.dice = {.key = key, .line = i}};
        write_date(&line);
        TRY_OUT(ebb__sink_put(&from, line.text, line.used));
        line.used = 0;
        put(&line, "%d - %02d - %02d\n", line.date.year, line.date.month, line.date.day);
        TRY_OUT(ebb__sink_put(&to, line.text, line.used));
    }
    TRY_OUT(ebb__sink_commit(&from));
    TRY_OUT(ebb__sink_commit(&to));
out:
    ebb__sink_close(&from);
    ebb__sink_close(&to);
    return status;
}
