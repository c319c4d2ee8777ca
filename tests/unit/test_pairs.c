/* test_pairs.c - batches of sentence pairs: every pair is used once an epoch, in an order that is a
 * function of seed and epoch, on the smallest shape that holds it, laid out with time descending.
 * How lengths are counted and shapes chosen is test_buckets.c's business. */
#include "data_help.h"

#include "data/batcher.h"
#include "data/pair_batches.h"

/* ---- scanning ---- */

static void refuse(help_room *room, const char *source, const char *target, const char *part) {
    data_lengths found;
    help_write_text(room->path[0], source);
    help_write_text(room->path[1], target);
    lengths_texts texts = {room->path[0], room->path[1], TEXT_WORD, 5};
    ebb_status status = ebb__lengths_scan(room->ctx, &texts, &found);
    ebb__lengths_free(&found);
    help_expect(room->ctx, status, EBB_DATA, part);
}

static void refuses_texts_that_do_not_match(void **state) {
    help_room *room = *state;
    refuse(room, "a\nb\nc\n", "a\nb\nc\nd\ne\n", "/a has 3 lines");
    refuse(room, "a\nb\nc\n", "a\nb\nc\nd\ne\n", "/b has 5");
    refuse(room, "a\nb\nc\n", "a\nb\nc\nd\ne\n", "/a:3 is its last");
    refuse(room, "a\nb\nc\n", "a\n", "/b:1 is its last");
    refuse(room, "a\nb <eos>\n", "a\nb\n", "/a:2: holds the word <eos>");
    refuse(room, "a\n\n", "\nb\n", "none of the 2 pairs can be used: 2 have an empty line");
    refuse(room, "a b c d e f\n", "a\n", "1 one of more than 5 tokens");
    refuse(room, "", "a\n", "empty");
}

/* ---- order ---- */

static void shuffles_are_permutations(void **state) {
    (void)state;
    static const uint64_t sizes[] = {1, 2, 3, 4, 5, 7, 16, 17, 63, 64, 65, 255, 1000, 4097};
    static bool seen[4097];
    int moved = 0, same = 0;
    for (size_t k = 0; k < sizeof sizes / sizeof *sizes; k++) {
        uint64_t n = sizes[k];
        for (uint64_t epoch = 0; epoch < 3; epoch++) {
            memset(seen, 0, sizeof seen);
            for (uint64_t i = 0; i < n; i++) {
                uint64_t at = ebb__pair_shuffle(9, epoch, 2, i, n);
                assert_true(at < n && !seen[at]);
                seen[at] = true;
                moved += at != i;
                same += at == ebb__pair_shuffle(9, epoch + 1, 2, i, n) ||
                        at == ebb__pair_shuffle(10, epoch, 2, i, n) ||
                        at == ebb__pair_shuffle(9, epoch, 3, i, n);
            }
        }
    }
    assert_true(moved > 15000 && same < 800); /* of 3 * 5600 */
    assert_int_equal(ebb__pair_shuffle(9, (uint64_t)1 << 40, 2, 5, 7),
                     ebb__pair_shuffle(9, (uint64_t)1 << 40, 2, 5, 7));
}

/* ---- batches ---- */

enum { LINES = 57, ROWS = 4, MAX_LEN = 9, MOST = 16 };

/* Line i: words s<i> repeated; every third line is one that is left out. */
static uint32_t source_words(int i) {
    return i % 9 == 4   ? 0
           : i % 9 == 7 ? MAX_LEN + 1 + (uint32_t)(i % 4)
                        : 1 + (uint32_t)(i * 5 % MAX_LEN);
}
static uint32_t target_words(int i) {
    return 1 + (uint32_t)(i * 7 % MAX_LEN);
}
static bool is_used(int i) {
    return i % 9 != 4 && i % 9 != 7;
}

typedef struct fixture {
    data_vocab vocab[2];
    tokens_reader tokens[2];
    pair_options options;
    pair_batches batches;
    uint32_t staging[MOST];
} fixture;

static void write_texts(help_room *room) {
    static char text[2][16384];
    size_t used[2] = {0, 0};
    for (int i = 0; i < LINES; i++) {
        uint32_t words[2] = {source_words(i), target_words(i)};
        for (int side = 0; side < 2; side++) {
            for (uint32_t k = 0; k <= words[side]; k++) {
                used[side] +=
                    (size_t)snprintf(text[side] + used[side], sizeof text[side] - used[side],
                                     k == words[side] ? "\n" : "%c%d ", 's' + side, i);
            }
        }
    }
    help_write(room->path[0], text[0], used[0]);
    help_write(room->path[1], text[1], used[1]);
}

static ebb_status open_fixture(help_room *room, fixture *f, bool shuffle) {
    vocab_options all = {.mode = TEXT_WORD};
    lengths_texts texts = {room->path[0], room->path[1], TEXT_WORD, MAX_LEN};
    bucket_options how = {.strategy = BUCKET_OPTIMAL, .shapes = 5, .batch = {.sentences = ROWS}};
    data_lengths found;
    bucket_plan plan = {.ctx = NULL};
    char path[128];
    memset(f, 0, sizeof *f);
    f->tokens[0].fd = f->tokens[1].fd = f->batches.index = -1;
    ebb_status status = ebb__lengths_scan(room->ctx, &texts, &found);
    f->options = (pair_options){.max_len = MAX_LEN, .rows = ROWS, .seed = 3, .shuffle = shuffle};
    if (status == EBB_OK) {
        status = ebb__buckets_make(&found, &how, &plan);
        f->options.n_shapes = plan.n_programs;
        memcpy(f->options.shapes, plan.programs, sizeof plan.programs);
        ebb__buckets_free(&plan);
    }
    ebb__lengths_free(&found);
    TRY(status);
    for (int side = 0; side < 2; side++) {
        TRY(ebb__vocab_build(room->ctx, room->path[side], &all, &f->vocab[side]));
        TRY(ebb__tokens_ensure(room->ctx, room->path[side], TEXT_WORD, &f->vocab[side],
                               room->path[2 + side], &f->tokens[side]));
    }
    (void)snprintf(path, sizeof path, "%s/index", room->folder);
    TRY(ebb__pair_batches_open(room->ctx, &f->tokens[0], &f->tokens[1], &f->options, path,
                               &f->batches));
    f->batches.staging = f->staging;
    return EBB_OK;
}

static void close_fixture(fixture *f) {
    for (int side = 0; side < 2; side++) {
        ebb__vocab_free(&f->vocab[side]);
        ebb__tokens_close(&f->tokens[side]);
    }
    ebb__pair_batches_close(&f->batches);
}

/* The line that a word of a side belongs to. */
static int line_of(const fixture *f, int side, int32_t id) {
    size_t length = 0;
    const char *token = ebb__vocab_token(&f->vocab[side], (uint32_t)id, &length);
    int line = 0; /* the token has no NUL at its end */
    assert_true(length >= 2 && token[0] == 's' + side);
    for (size_t i = 1; i < length; i++) {
        line = 10 * line + (token[i] - '0');
    }
    return line;
}

typedef struct batch {
    int32_t source[MOST * ROWS], lengths[ROWS], inputs[MOST * ROWS], labels[MOST * ROWS];
} batch;

/* Checks every cell of a row and gives its line; -1: an empty row. */
static int check_row(const fixture *f, const batch *b, bucket_bound shape, uint32_t row) {
    int32_t n = b->lengths[row];
    int line = n > 0 ? line_of(f, 0, b->source[(shape.source - 1) * ROWS + row]) : -1;
    assert_int_equal(n, line < 0 ? 0 : (int)source_words(line) + 1);
    for (uint32_t t = 0; t < shape.source; t++) {
        int32_t id = b->source[(shape.source - 1 - t) * ROWS + row];
        if ((int32_t)t + 1 < n) {
            assert_int_equal(line_of(f, 0, id), line);
        } else {
            assert_int_equal(id, VOCAB_EOS); /* its own end, then padding */
        }
    }
    uint32_t words = line < 0 ? 0 : target_words(line);
    for (uint32_t t = 0; t < shape.target; t++) {
        size_t at = (shape.target - 1 - t) * ROWS + row;
        if (line >= 0 && t < words) {
            assert_int_equal(line_of(f, 1, b->labels[at]), line);
        } else {
            assert_int_equal(b->labels[at], line >= 0 && t == words ? VOCAB_EOS : BATCH_IGNORED);
        }
        if (line >= 0 && t > 0 && t <= words) {
            assert_int_equal(line_of(f, 1, b->inputs[at]), line);
        } else {
            assert_int_equal(b->inputs[at], VOCAB_EOS);
        }
    }
    return line;
}

/* One epoch from `first` on: every pair that is used comes once; *order gets them in turn. */
static void check_epoch(const fixture *f, uint64_t first, int order[LINES]) {
    bool seen[LINES] = {false};
    int n = 0;
    for (uint64_t step = first; step < first + f->batches.windows; step++) {
        batch b;
        uint64_t words = 0, expected = 0;
        memset(&b, 0x55, sizeof b);
        pair_place place = ebb__pair_place(&f->batches, step);
        pair_target to = {b.source, b.lengths, b.inputs, b.labels};
        bucket_bound shape = f->batches.classes[place.class].shape;
        assert_int_equal(place.epoch, step / f->batches.windows);
        assert_int_equal(ebb__pair_fill(&f->batches, &place, &to, &words), EBB_OK);
        for (uint32_t row = 0; row < ROWS; row++) {
            int line = check_row(f, &b, shape, row);
            if (line >= 0) {
                assert_true(is_used(line) && !seen[line]);
                seen[line] = true;
                order[n++] = line;
                expected += target_words(line) + 1;
            }
        }
        assert_int_equal(words, expected);
    }
    assert_int_equal(n, f->batches.pairs);
    for (int i = 0; i < LINES; i++) {
        assert_true(seen[i] == is_used(i));
    }
}

static void every_pair_once_an_epoch(void **state) {
    help_room *room = *state;
    fixture f;
    int first[LINES], again[LINES], next[LINES];
    write_texts(room);
    assert_int_equal(open_fixture(room, &f, true), EBB_OK);
    assert_true(f.batches.n_classes >= 3);
    uint64_t windows = f.batches.windows;
    check_epoch(&f, 0, first);
    check_epoch(&f, 7 * windows, next);
    check_epoch(&f, 0, again);
    size_t used = (size_t)f.batches.pairs * sizeof *first;
    assert_memory_equal(first, again, used);
    assert_memory_not_equal(first, next, used);
    close_fixture(&f);
    assert_int_equal(open_fixture(room, &f, false), EBB_OK);
    check_epoch(&f, 0, first);
    check_epoch(&f, windows, next);
    assert_memory_equal(first, next, used);
    close_fixture(&f);
}

static void a_damaged_index_is_noticed(void **state) {
    help_room *room = *state;
    fixture f;
    batch b;
    uint64_t words = 0;
    write_texts(room);
    assert_int_equal(open_fixture(room, &f, true), EBB_OK);
    f.batches.classes[0].shape = f.batches.classes[1].shape = f.batches.classes[2].shape =
        (bucket_bound){1, 1};
    pair_place place = ebb__pair_place(&f.batches, 0);
    place.class = 0;
    place.batch = 0;
    pair_target to = {b.source, b.lengths, b.inputs, b.labels};
    help_expect(room->ctx, ebb__pair_fill(&f.batches, &place, &to, &words), EBB_DATA,
                "was changed by somebody");
    close_fixture(&f);
}

static ebb_status whole_job(help_room *room) {
    fixture f;
    batch b;
    uint64_t words = 0;
    ebb_status status = open_fixture(room, &f, true);
    if (status == EBB_OK) {
        pair_place place = ebb__pair_place(&f.batches, 0);
        pair_target to = {b.source, b.lengths, b.inputs, b.labels};
        status = ebb__pair_fill(&f.batches, &place, &to, &words);
    }
    close_fixture(&f);
    (void)unlink(room->path[2]);
    (void)unlink(room->path[3]);
    char path[128];
    (void)snprintf(path, sizeof path, "%s/index", room->folder);
    (void)unlink(path); /* where it could not vanish */
    return status;
}

static void every_failure_is_reported(void **state) {
    help_room *room = *state;
    write_texts(room);
    help_fail_each(room, whole_job);
}

static void a_joint_vocabulary_counts_both(void **state) {
    help_room *room = *state;
    data_vocab joint;
    size_t length = 0;
    help_write_text(room->path[0], "a b\nc b\n");
    help_write_text(room->path[1], "d b a a a\n");
    vocab_options options = {.mode = TEXT_WORD, .also = room->path[1], .limit = 5};
    assert_int_equal(ebb__vocab_build(room->ctx, room->path[0], &options, &joint), EBB_OK);
    assert_int_equal(joint.count, 5);
    static const char *const expected[] = {"a", "b", "c"}; /* 4, 3, then c and d once each */
    for (uint32_t i = 0; i < 3; i++) {
        const char *token = ebb__vocab_token(&joint, VOCAB_SPECIALS + i, &length);
        assert_int_equal(length, 1);
        assert_int_equal(*token, *expected[i]);
    }
    ebb__vocab_free(&joint);
    options.also = "/nowhere";
    help_expect(room->ctx, ebb__vocab_build(room->ctx, room->path[0], &options, &joint), EBB_DATA,
                "/nowhere");
}

int main(void) {
#define TEST(name) cmocka_unit_test_setup_teardown(name, help_setup, help_teardown)
    const struct CMUnitTest tests[] = {
        TEST(refuses_texts_that_do_not_match), cmocka_unit_test(shuffles_are_permutations),
        TEST(every_pair_once_an_epoch),        TEST(a_damaged_index_is_noticed),
        TEST(every_failure_is_reported),       TEST(a_joint_vocabulary_counts_both),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
