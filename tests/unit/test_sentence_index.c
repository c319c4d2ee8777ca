/* test_sentence_index.c - the index of sentences: every usable one has an entry, with its places
 * and lengths, in the class of the smallest shape that holds it; texts that do not match, and token
 * files that are changed meanwhile, are noticed. */
#include "data_help.h"

#include "data/lengths.h"
#include "data/sentence_index.h"

#include <fcntl.h>

enum { MOST_LEN = 12, MOST_SHAPES = 6 };

typedef struct fixture {
    help_room *room;
    data_vocab vocab;
    tokens_reader tokens[2]; /* sources, targets */
    char index[128];
} fixture;

/* Texts of lines with these many words. */
static void open_texts(help_room *room, const uint32_t *const words[2], int lines, fixture *f) {
    vocab_options all = {.mode = TEXT_WORD};
    *f = (fixture){.room = room};
    for (int side = 0; side < 2; side++) {
        FILE *file = fopen(room->path[side], "wb");
        for (int i = 0; i < lines; i++) {
            for (uint32_t k = 0; k < words[side][i]; k++) {
                fprintf(file, "w%u ", k);
            }
            fprintf(file, "\n");
        }
        assert_int_equal(fclose(file), 0);
    }
    assert_int_equal(ebb__vocab_build(room->ctx, room->path[0], &all, &f->vocab), EBB_OK);
    for (int side = 0; side < 2; side++) {
        assert_int_equal(ebb__tokens_ensure(room->ctx, room->path[side], TEXT_WORD, &f->vocab,
                                            room->path[2 + side], &f->tokens[side]),
                         EBB_OK);
        assert_int_equal(f->tokens[side].lines, lines);
    }
    (void)snprintf(f->index, sizeof f->index, "%s/index", room->folder);
}

static void close_texts(fixture *f) {
    ebb__tokens_close(&f->tokens[0]);
    ebb__tokens_close(&f->tokens[1]);
    ebb__vocab_free(&f->vocab);
}

/* The shape by the definition. */
static int32_t shape_of(const data_shapes *shapes, uint32_t source, uint32_t target) {
    int32_t best = -1;
    for (int32_t i = 0; i < shapes->n; i++) {
        const data_shape *shape = &shapes->at[i], *least = &shapes->at[best < 0 ? 0 : best];
        if (source <= shape->source && target <= shape->target &&
            (best < 0 || shape->source + shape->target < least->source + least->target)) {
            best = i;
        }
    }
    return best;
}

static void check_index(const fixture *f, const sentence_lists *lists, data_shapes shapes,
                        const uint32_t *const words[2], int lines) {
    uint64_t first[DATA_MOST_SHAPES], next[DATA_MOST_SHAPES], places[2] = {0, 0}, used = 0;
    int fd = -1;
    assert_int_equal(ebb__sentence_index_open(f->room->ctx, lists, f->index, &shapes, first, &fd),
                     EBB_OK);
    assert_false(ebb__file_exists(f->index));
    for (int32_t i = 0; i < shapes.n; i++) {
        uint64_t rows = (uint64_t)shapes.at[i].rows;
        assert_int_equal(first[i], used);
        assert_int_equal(shapes.at[i].batches, (shapes.at[i].sentences + rows - 1) / rows);
        used += shapes.at[i].sentences;
        next[i] = 0;
    }
    for (int i = 0; i < lines; i++) {
        uint32_t source = words[0][i] + 1, target = words[1][i] + 1;
        bool usable =
            ebb__lengths_usable(lists->source != NULL ? source : target, target, lists->max_len);
        int32_t shape = shape_of(&shapes, lists->source != NULL ? source : 0, target);
        if (usable && shape >= 0) {
            sentence_entry entry;
            uint64_t at = first[shape] + next[shape]++;
            assert_int_equal(pread(fd, &entry, sizeof entry, (off_t)(at * sizeof entry)),
                             sizeof entry);
            assert_int_equal(entry.target, places[1]);
            assert_int_equal(entry.target_len, target);
            assert_int_equal(entry.source, lists->source != NULL ? places[0] : 0);
            assert_int_equal(entry.source_len, lists->source != NULL ? source : 0);
        }
        places[0] += source;
        places[1] += target;
    }
    for (int32_t i = 0; i < shapes.n; i++) {
        assert_int_equal(next[i], shapes.at[i].sentences);
    }
    ebb__file_close(fd);
}

static void entries_are_those_of_the_definition(void **state) {
    enum { LINES = 400, CASES = 60 };
    static uint32_t source[LINES], target[LINES];
    const uint32_t *const words[2] = {source, target};
    help_dice dice = {.key = ebb__rng_key(7, "index")};
    fixture f;
    for (int i = 0; i < LINES; i++) {
        source[i] = help_throw(&dice, MOST_LEN + 1);
        target[i] = help_throw(&dice, MOST_LEN + 1);
    }
    open_texts(*state, words, LINES, &f);
    for (int k = 0; k < CASES; k++) {
        bool pairs = k % 3 != 0;
        sentence_lists lists = {pairs ? &f.tokens[0] : NULL, &f.tokens[1],
                                3 + help_throw(&dice, MOST_LEN), false};
        data_shapes shapes = {.n = 1 + (int32_t)help_throw(&dice, MOST_SHAPES)};
        for (int i = 0; i < shapes.n; i++) { /* equal ones, and equally large ones, occur */
            shapes.at[i].source = pairs ? 2 + help_throw(&dice, MOST_LEN) : 0;
            shapes.at[i].target = 2 + help_throw(&dice, MOST_LEN);
            shapes.at[i].rows = 1 + help_throw(&dice, 9);
        }
        check_index(&f, &lists, shapes, words, LINES);
    }
    close_texts(&f);
}

static void many_lines_cross_chunks(void **state) {
    enum { LINES = 20000 };
    static uint32_t source[LINES], target[LINES];
    const uint32_t *const words[2] = {source, target};
    const data_shapes shapes = {3, {{4, 5, 3, 0, 0}, {7, 3, 2, 0, 0}, {3, 2, 1, 0, 0}}};
    fixture f;
    for (uint32_t i = 0; i < LINES; i++) {
        source[i] = i % 7;
        target[i] = i % 5;
    }
    open_texts(*state, words, LINES, &f);
    sentence_lists lists = {&f.tokens[0], &f.tokens[1], 9, false};
    check_index(&f, &lists, shapes, words, LINES);
    lists.source = NULL;
    check_index(&f, &lists, shapes, words, LINES);
    close_texts(&f);
}

static void texts_that_changed_are_noticed(void **state) {
    const uint32_t source[] = {3, 1, 2}, target[] = {2, 2, 4};
    const uint32_t *const words[2] = {source, target};
    data_shapes shapes = {1, {{9, 9, 2, 0, 0}}};
    help_room *room = *state;
    uint64_t first[DATA_MOST_SHAPES];
    fixture f;
    int fd = 7;
    open_texts(room, words, 3, &f);
    sentence_lists lists = {&f.tokens[0], &f.tokens[1], 8, false};
    f.tokens[1].lines = 2; /* as if the file had been another one */
    help_expect(room->ctx,
                ebb__sentence_index_open(room->ctx, &lists, f.index, &shapes, first, &fd), EBB_DATA,
                "their lines do not match");
    assert_int_equal(fd, -1);
    f.tokens[1].lines = 3;
    for (int side = 0; side < 2; side++) { /* lengths that no longer add up */
        const uint32_t wrong = 1;
        tokens_reader *file = &f.tokens[side];
        uint32_t right;
        off_t at = (off_t)(4 * (file->count + 1));
        int raw = open(room->path[2 + side], O_RDWR);
        assert_int_equal(pread(raw, &right, sizeof right, at), sizeof right);
        assert_int_equal(pwrite(raw, &wrong, sizeof wrong, at), sizeof wrong);
        help_expect(room->ctx,
                    ebb__sentence_index_open(room->ctx, &lists, f.index, &shapes, first, &fd),
                    EBB_DATA, "was changed");
        assert_int_equal(fd, -1);
        assert_false(ebb__file_exists(f.index));
        assert_int_equal(pwrite(raw, &right, sizeof right, at), sizeof right);
        assert_int_equal(close(raw), 0);
    }
    check_index(&f, &lists, shapes, words, 3);
    close_texts(&f);
}

int main(void) {
#define TEST(name) cmocka_unit_test_setup_teardown(name, help_setup, help_teardown)
    const struct CMUnitTest tests[] = {
        TEST(entries_are_those_of_the_definition),
        TEST(many_lines_cross_chunks),
        TEST(texts_that_changed_are_noticed),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
