/* test_split.c - lines that are split: every token of the text is predicted once, from the token
 * before it, in as few and as equal parts as the longest sentence allows. */
#include "data_help.h"

#include "data/batcher.h"
#include "data/sentence_batches.h"

enum { LINES = 60, ROWS = 4, MOST_TOKENS = 4096 };

/* Lines of 0 to 59 tokens, all different. */
static void write_lines(const char *path) {
    FILE *file = fopen(path, "wb");
    assert_non_null(file);
    for (int i = 0; i < LINES; i++) {
        for (int k = 0; k < i * 7 % LINES; k++) {
            (void)fprintf(file, "w%d.%d ", i, k);
        }
        (void)fputc('\n', file);
    }
    assert_int_equal(fclose(file), 0);
}

static void parts_are_few_and_equal(void **state) {
    (void)state;
    for (uint32_t most = 1; most < 40; most++) {
        for (uint64_t length = 1; length < 200; length++) {
            uint64_t parts = ebb__lengths_parts(length, most), sum = 0;
            assert_true(parts * (most + 1) >= length && (parts - 1) * (most + 1) < length);
            for (uint64_t i = 0; i < parts; i++) {
                uint64_t part = ebb__lengths_part(length, parts, i);
                assert_true(part >= 1 && part <= most + 1 && part - length / parts <= 1);
                sum += part;
            }
            assert_int_equal(sum, length);
        }
    }
}

typedef struct fixture {
    data_vocab vocab;
    tokens_reader tokens;
    data_lengths lengths;
    sentence_batches batches;
    uint32_t staging[MOST_TOKENS];
    int seen[MOST_TOKENS]; /* by position: how often it was predicted */
} fixture;

static void open_fixture(help_room *room, uint32_t max_len, bool split, fixture *f) {
    lengths_texts texts = {NULL, room->path[0], TEXT_WORD, max_len, split, NULL, NULL, 0, 0};
    sentence_options options = {
        .max_len = max_len,
        .split = split,
        .seed = 5,
        .shuffle = true,
        .shapes = {
            2, {{.target = max_len + 1, .rows = ROWS}, {.target = max_len / 2 + 1, .rows = ROWS}}}};
    char path[128];
    memset(f, 0, sizeof *f);
    (void)snprintf(path, sizeof path, "%s/index", room->folder);
    assert_int_equal(
        ebb__vocab_build(room->ctx, room->path[0], &(vocab_options){.mode = TEXT_WORD}, &f->vocab),
        EBB_OK);
    assert_int_equal(ebb__tokens_ensure(room->ctx, room->path[0], TEXT_WORD, &f->vocab,
                                        room->path[1], &f->tokens),
                     EBB_OK);
    assert_int_equal(ebb__lengths_scan(room->ctx, &texts, &f->lengths), EBB_OK);
    assert_int_equal(
        ebb__sentence_batches_open(room->ctx, NULL, &f->tokens, &options, path, &f->batches),
        EBB_OK);
    f->batches.staging = f->staging;
}

static void close_fixture(fixture *f) {
    ebb__vocab_free(&f->vocab);
    ebb__tokens_close(&f->tokens);
    ebb__lengths_free(&f->lengths);
    ebb__sentence_batches_close(&f->batches);
}

/* Words are all different, so that a label and what goes in tell their position. */
static void note_row(fixture *f, const uint32_t *ids, const int32_t *inputs, const int32_t *labels,
                     uint32_t steps, uint32_t row) {
    uint64_t at = 0;
    for (uint32_t t = 0; t < steps; t++) {
        size_t cell = (size_t)(steps - 1 - t) * ROWS + row;
        if (labels[cell] == BATCH_IGNORED) {
            return;
        }
        if (t == 0) { /* the first label is a word: parts of a single line end are none */
            while (ids[at] != (uint32_t)labels[cell] && at < f->tokens.count) {
                at++;
            }
        }
        assert_int_equal(labels[cell], ids[at]);
        assert_int_equal(inputs[cell], at > 0 ? ids[at - 1] : VOCAB_EOS);
        f->seen[at++]++;
    }
}

/* One epoch; gives how many tokens were predicted. */
static uint64_t read_epoch(fixture *f, const uint32_t *ids) {
    static int32_t inputs[MOST_TOKENS], labels[MOST_TOKENS];
    uint64_t all = 0;
    for (uint64_t step = 0; step < f->batches.windows; step++) {
        sentence_place place;
        uint64_t words = 0;
        assert_int_equal(ebb__sentence_place(&f->batches, step, &place), EBB_OK);
        assert_int_equal(ebb__sentence_fill(&f->batches, &place,
                                            &(sentence_target){.inputs = inputs, .labels = labels},
                                            &words),
                         EBB_OK);
        for (uint32_t row = 0; row < ROWS; row++) {
            note_row(f, ids, inputs, labels, f->batches.shapes.at[place.shape].target, row);
        }
        all += words;
    }
    return all;
}

static void every_token_is_predicted_once(void **state) {
    help_room *room = *state;
    static fixture f;
    static uint32_t ids[MOST_TOKENS];
    write_lines(room->path[0]);
    for (uint32_t max_len = 2; max_len < 70; max_len += max_len < 8 ? 1 : 13) {
        open_fixture(room, max_len, true, &f);
        assert_int_equal(ebb__tokens_read(&f.tokens, 0, f.tokens.count, ids), EBB_OK);
        /* One line is empty: its end is not predicted. */
        assert_int_equal(read_epoch(&f, ids), f.tokens.count - 1);
        int missed = 0;
        for (uint64_t i = 0; i < f.tokens.count; i++) {
            assert_in_range(f.seen[i], 0, 1);
            missed += f.seen[i] == 0;
        }
        assert_int_equal(missed, 1);
        assert_int_equal(f.lengths.used, f.batches.sentences);
        assert_true(f.lengths.over == 0 && f.lengths.empty == 1 && f.lengths.lines == LINES);
        assert_int_equal(f.lengths.parted, max_len < LINES - 1 ? LINES - 1 - max_len : 0);
        close_fixture(&f);
    }
}

static void without_it_long_lines_are_left_out(void **state) {
    help_room *room = *state;
    static fixture f;
    write_lines(room->path[0]);
    open_fixture(room, 20, false, &f);
    assert_true(f.lengths.used == 20 && f.lengths.over == LINES - 21 && f.lengths.parted == 0);
    assert_int_equal(f.batches.sentences, 20);
    close_fixture(&f);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(parts_are_few_and_equal),
        cmocka_unit_test_setup_teardown(every_token_is_predicted_once, help_setup, help_teardown),
        cmocka_unit_test_setup_teardown(without_it_long_lines_are_left_out, help_setup,
                                        help_teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
