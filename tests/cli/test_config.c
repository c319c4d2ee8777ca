/* test_config.c - settings written to a config and read again are the same to the last bit: every
 * option of every kind of model, at every kind of value that it can have. */
#include "unit/data_help.h"

#include "cli/options.h"
#include "plan/passes.h"

#include <math.h>

typedef struct config_case {
    help_room *room;
    const model_kind *model;
    bool by_sentence;
    text_mode tokens;
    help_dice dice;
} config_case;

static const config_case kinds[] = {{.model = &ebb__kind_lm},
                                    {.model = &ebb__kind_lm, .by_sentence = true},
                                    {.model = &ebb__kind_lm, .tokens = TEXT_BPE},
                                    {.model = &ebb__kind_nmt},
                                    {.model = &ebb__kind_nmt, .tokens = TEXT_BPE}};
enum { N_KINDS = sizeof kinds / sizeof kinds[0] };

static void *at_of(cli_settings *settings, const train_option *option) {
    return (char *)settings + option->offset;
}

/* Whether the option is part of the config of such a run. */
static bool is_stored(const config_case *c, const train_option *option) {
    return (option->flags & OPTION_SHOWN) != 0 &&
           ((option->flags & OPTION_PART) == 0 || c->by_sentence) &&
           ((option->flags & OPTION_BPE) == 0 || c->tokens == TEXT_BPE) &&
           strcmp(option->name, "by-sentence") != 0 && strcmp(option->name, "tokens") != 0;
}

/* ---- values: the n-th one of an option; false: it has no more ---- */

static uint64_t random_word(help_dice *dice) {
    return (uint64_t)help_throw(dice, UINT32_MAX) << 32 | help_throw(dice, UINT32_MAX);
}

static bool put_int(config_case *c, const train_option *option, size_t n, int64_t *to) {
    int64_t low = (int64_t)option->range.low, high = (int64_t)option->range.high;
    int64_t drawn = low + (int64_t)(random_word(&c->dice) % (uint64_t)(high - low + 1));
    const int64_t all[] = {low, low + 1, high, high - 1, drawn, 0};
    *to = all[n];
    return n < 5 || (n == 5 && option->zero != NULL);
}

static bool in_range(const option_range *r, double x) {
    return (r->above ? x > r->low : x >= r->low) && (r->below ? x < r->high : x <= r->high);
}

/* Values that round badly, are hard to print, or lie at an end of the range. */
static bool put_real(config_case *c, const train_option *option, size_t n, double *to) {
    const option_range *r = &option->range;
    double drawn = r->low + (r->high - r->low) * (double)random_word(&c->dice) * 0x1p-64;
    const double all[] = {r->low,
                          r->high,
                          nextafter(r->low, HUGE_VAL),
                          nextafter(r->high, -HUGE_VAL),
                          0.1,
                          0.2 + 0.1,
                          1.0 / 3,
                          10,
                          60,
                          100,
                          123456.789,
                          1e-8,
                          1e-300,
                          5e-324,
                          0x1.fffffffffffffp-1,
                          drawn,
                          drawn * 1e-3,
                          0};
    enum { N = sizeof all / sizeof all[0] };
    *to = n < N && (in_range(r, all[n]) || (option->zero != NULL && all[n] == 0))
              ? all[n]
              : (r->low + r->high) / 2;
    return n < N;
}

static bool put_text(config_case *c, const train_option *option, size_t n, const char **to) {
    static char drawn[64], lengthy[3000];
    static const char *const all[] = {"plain",
                                      "none",
                                      "auto",
                                      "true",
                                      "7",
                                      "two words",
                                      " before",
                                      "after ",
                                      "  ",
                                      "tab\tinside",
                                      "\t",
                                      "line\nend",
                                      "\n",
                                      "return\r",
                                      "\r\n",
                                      "quo\"te",
                                      "\"quoted\"",
                                      "\"",
                                      "back\\slash",
                                      "\\",
                                      "\\n",
                                      "\\\"",
                                      "# comment",
                                      "a#b",
                                      "a # b",
                                      "a=b",
                                      "=",
                                      "key = value",
                                      "%s%n%",
                                      "\v\f\x01\x7f",
                                      "na\xc3\xafve \xe2\x98\x83 \xf0\x9f\x8c\x8a",
                                      "\xff\xfe no UTF-8",
                                      "\xef\xbb\xbf mark",
                                      "/a/path with spaces/and.txt",
                                      "../up/./here",
                                      "'single'",
                                      "$HOME;`x`",
                                      "8,16x20"};
    enum { N = sizeof all / sizeof all[0] };
    if (n < N) {
        *to = all[n];
    } else if (n == N) {
        memset(lengthy, 'x', sizeof lengthy - 1);
        *to = lengthy;
    } else if (n == N + 1) {
        size_t bytes = 1 + help_throw(&c->dice, sizeof drawn - 1);
        for (size_t i = 0; i < bytes; i++) {
            drawn[i] = (char)(1 + help_throw(&c->dice, 255));
        }
        drawn[bytes] = '\0';
        *to = drawn;
    } else if (n == N + 2) {
        *to = option->zero != NULL ? option->zero : "zero";
    } else {
        *to = NULL;
        return n == N + 3 && option->zero != NULL;
    }
    return true;
}

static bool put_size(size_t n, train_memory *to) {
    static const uint64_t bytes[] = {1, 1023, 64 << 20, (UINT64_C(1) << 53) + 1,
                                     (UINT64_C(1) << 62) - 512};
    static const double shares[] = {
        0.1,  0.5,  12.5,  33.3,   100.0 / 3, 66.666666666666671, 99.99, 1e-6,
        5e-7, 1e-9, 1e-17, 1e-300, 5e-324,    0x1.8ffffffffffffp6};
    enum { N_BYTES = sizeof bytes / sizeof bytes[0], N = sizeof shares / sizeof shares[0] };
    *to = (train_memory){.form = MEMORY_AUTO};
    if (n >= 1 && n <= 100) {
        *to = (train_memory){.form = MEMORY_PERCENT, .percent = (double)n};
    } else if (n > 100 && n <= 100 + N) {
        *to = (train_memory){.form = MEMORY_PERCENT, .percent = shares[n - 101]};
    } else if (n > 100 + N && n <= 100 + N + N_BYTES) {
        *to = (train_memory){.form = MEMORY_BYTES, .bytes = bytes[n - 101 - N]};
    } else if (n > 100 + N + N_BYTES) { /* of two processes and more */
        size_t ranks = n - 99 - N - N_BYTES;
        *to = (train_memory){.form = MEMORY_BYTES, .bytes = bytes[0], .n_ranks = (int32_t)ranks};
        for (size_t i = 0; i < ranks && i < PASS_MOST_RANKS; i++) {
            to->by_rank[i] = bytes[i % N_BYTES];
        }
        return ranks <= PASS_MOST_RANKS;
    }
    return true;
}

/* None, each optional one alone, all of them, some. */
static bool put_passes(config_case *c, size_t n, uint32_t *to) {
    uint32_t all = 0;
    for (int id = 0; id < PASS_COUNT; id++) {
        all |= ebb__pass_optional((pass_id)id) ? 1U << id : 0;
    }
    *to = n == 0                ? 0
          : n <= PASS_COUNT     ? all & 1U << (n - 1)
          : n == PASS_COUNT + 1 ? all
                                : all & (uint32_t)random_word(&c->dice);
    return n < PASS_COUNT + 3;
}

static bool put_value(config_case *c, const train_option *option, size_t n, void *to) {
    size_t names = 0;
    switch (option->kind) {
    case OPTION_SWITCH:
        *(bool *)to = n == 1;
        return n < 2;
    case OPTION_INT:
        return n < 6 && put_int(c, option, n, to);
    case OPTION_SEED:
        *(uint64_t *)to = n == 0 ? 0 : n == 1 ? UINT64_MAX : random_word(&c->dice);
        return n < 4;
    case OPTION_REAL:
        return put_real(c, option, n, to);
    case OPTION_CHOICE:
        while (names < OPTION_MAX_CHOICES && option->names[names] != NULL) {
            names++;
        }
        *(unsigned *)to = n < names ? (unsigned)n : 0;
        return n < names;
    case OPTION_TEXT:
        return put_text(c, option, n, to);
    case OPTION_SIZE:
        return put_size(n, to);
    case OPTION_PASSES:
        return put_passes(c, n, to);
    }
    return false;
}

static size_t count_values(config_case *c, const train_option *option) {
    union {
        double real;
        uint64_t word;
        const char *text;
        train_memory memory;
    } unused;
    size_t n = 0;
    while (put_value(c, option, n, &unused)) {
        n++;
    }
    return n;
}

/* ---- there and back ---- */

static bool same_value(const train_option *option, const void *a, const void *b) {
    const char *const *x = a, *const *y = b;
    const train_memory *m = a, *k = b;
    switch (option->kind) {
    case OPTION_SWITCH:
        return *(const bool *)a == *(const bool *)b;
    case OPTION_CHOICE:
    case OPTION_PASSES:
        return memcmp(a, b, sizeof(uint32_t)) == 0;
    case OPTION_INT:
    case OPTION_SEED:
    case OPTION_REAL:
        return memcmp(a, b, sizeof(uint64_t)) == 0;
    case OPTION_TEXT:
        return *x == *y || (*x != NULL && *y != NULL && strcmp(*x, *y) == 0);
    case OPTION_SIZE:
        return m->form == k->form && m->bytes == k->bytes &&
               memcmp(&m->percent, &k->percent, sizeof m->percent) == 0 &&
               m->n_ranks == k->n_ranks && memcmp(m->by_rank, k->by_rank, sizeof m->by_rank) == 0;
    }
    return false;
}

static void start(config_case *c, cli_settings *settings) {
    assert_int_equal(ebb__cli_settings_init(c->room->ctx, c->model, settings), EBB_OK);
    settings->run.by_sentence = c->by_sentence;
    settings->run.tokens = c->tokens;
}

/* Every option, not only those that were changed: a line must not say anything about another. */
static void expect_same(config_case *c, cli_settings *before, const char *what) {
    cli_settings after;
    page_text text = {.ctx = c->room->ctx}, again = {.ctx = c->room->ctx};
    assert_int_equal(ebb__cli_dump(before, OPTION_SHOWN, &text), EBB_OK);
    help_write(c->room->path[0], text.bytes, text.used);
    assert_int_equal(ebb__cli_settings_init(c->room->ctx, c->model, &after), EBB_OK);
    if (ebb__cli_load(&after, c->room->path[0], EBB_MODEL) != EBB_OK) {
        fail_msg("%s: %s", what, ebb_last_error(c->room->ctx));
    }
    for (size_t i = 0; i < ebb__cli_option_count(c->model); i++) {
        const train_option *option = ebb__cli_option(c->model, i);
        if (!same_value(option, at_of(before, option), at_of(&after, option))) {
            fail_msg("%s: --%s came back as another value from\n%s", what, option->name,
                     text.bytes);
        }
    }
    assert_int_equal(ebb__cli_dump(&after, OPTION_SHOWN, &again), EBB_OK);
    assert_string_equal(text.bytes, again.bytes);
    ebb__page_text_fini(&text);
    ebb__page_text_fini(&again);
    ebb__cli_settings_fini(&after);
}

static void every_value_of_every_option(void **state) {
    for (int k = 0; k < N_KINDS; k++) {
        config_case c = kinds[k];
        size_t options = 0;
        c.room = *state;
        c.dice.key = ebb__rng_key((uint64_t)k, "config");
        for (size_t i = 0; i < ebb__cli_option_count(c.model); i++) {
            const train_option *option = ebb__cli_option(c.model, i);
            size_t n = is_stored(&c, option) ? count_values(&c, option) : 0;
            options += n > 0;
            for (size_t at = 0; at < n; at++) {
                cli_settings settings;
                start(&c, &settings);
                (void)put_value(&c, option, at, at_of(&settings, option));
                expect_same(&c, &settings, option->name);
                ebb__cli_settings_fini(&settings);
            }
        }
        assert_in_range(options, 30, OPTION_MAX);
    }
}

static void all_options_at_once(void **state) {
    enum { ROUNDS = 200 };
    for (int round = 0; round < ROUNDS; round++) {
        config_case c = kinds[round % N_KINDS];
        cli_settings settings;
        char what[32];
        c.room = *state;
        c.dice.key = ebb__rng_key((uint64_t)round, "all options");
        start(&c, &settings);
        for (size_t i = 0; i < ebb__cli_option_count(c.model); i++) {
            const train_option *option = ebb__cli_option(c.model, i);
            if (is_stored(&c, option)) {
                size_t n = count_values(&c, option);
                (void)put_value(&c, option, help_throw(&c.dice, (uint32_t)n),
                                at_of(&settings, option));
            }
        }
        (void)snprintf(what, sizeof what, "round %d", round);
        expect_same(&c, &settings, what);
        ebb__cli_settings_fini(&settings);
    }
}

/* ---- sizes as people write them ---- */

static train_memory memory_of(help_room *room, const char *text) {
    cli_settings settings;
    const train_option *option = ebb__cli_find(&ebb__kind_lm, "memory");
    assert_int_equal(ebb__cli_settings_init(room->ctx, &ebb__kind_lm, &settings), EBB_OK);
    if (ebb__cli_assign(&settings, option, text, false, "--memory") != EBB_OK) {
        fail_msg("%s", ebb_last_error(room->ctx));
    }
    ebb__cli_settings_fini(&settings);
    return settings.run.memory;
}

static void sizes_are_read_as_they_are_printed(void **state) {
    static const struct {
        const char *text;
        double bytes;
    } sizes[] = {{"7", 7},
                 {"7B", 7},
                 {"7 B", 7},
                 {"3K", 3072},
                 {"3KiB", 3072},
                 {"3.0 KiB", 3072},
                 {"64M", 0x4p24},
                 {"64MiB", 0x4p24},
                 {"64mib", 0x4p24},
                 {"64.0 MiB", 0x4p24},
                 {"1.5 GiB", 0x6p28},
                 {"2TiB", 0x2p40},
                 {"2P", 0x2p50},
                 {"1 EiB", 0x1p60}};
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        train_memory memory = memory_of(*state, sizes[i].text);
        assert_int_equal(memory.form, MEMORY_BYTES);
        assert_true((double)memory.bytes == sizes[i].bytes);
    }
}

/* What versions before wrote for 60% and 100% into the config of a run. */
static void old_shares_are_read(void **state) {
    assert_true(memory_of(*state, "6e+01%").percent == 60);
    assert_true(memory_of(*state, "1e+02%").percent == 100);
    assert_true(memory_of(*state, "1e-05%").percent == 1e-5);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(every_value_of_every_option, help_setup, help_teardown),
        cmocka_unit_test_setup_teardown(all_options_at_once, help_setup, help_teardown),
        cmocka_unit_test_setup_teardown(sizes_are_read_as_they_are_printed, help_setup,
                                        help_teardown),
        cmocka_unit_test_setup_teardown(old_shares_are_read, help_setup, help_teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
