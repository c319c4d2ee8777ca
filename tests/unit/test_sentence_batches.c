/* test_sentence_batches.c - batches of sentences and of pairs: every one is used once an epoch, in
 * an order that is a function of seed and epoch, on the smallest shape that holds it, laid out with
 * time descending. Pools too: sorted, and read in any order the same.
 * How lengths are counted and shapes chosen is test_buckets.c's business. */
#include "data_help.h"

#include "data/batcher.h"
#include "data/sentence_batches.h"

/* ---- scanning ---- */

static void refuse(help_room *room, const char *source, const char *target, const char *part) {
    data_lengths found;
    help_write_text(room->path[0], source);
    help_write_text(room->path[1], target);
    lengths_texts texts = {room->path[0], room->path[1], TEXT_WORD, 5, false, NULL, NULL, 0, 0};
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

/* ---- batches ---- */

enum { LINES = 57, ROWS = 4, MAX_LEN = 9, MOST = 16, TOKENS = 40, MOST_ROWS = TOKENS / 2 };
enum { POOL_SENTENCES = BUCKETS_POOL * ROWS, MOST_LINES = 4 * POOL_SENTENCES };

/* How sentences are read. */
typedef struct form {
    bool pairs, by_tokens, shuffle, pooled;
    int lines;
} form;

/* Line i: words s<i> repeated; some lines are left out, of one text those with an empty or long
 * second side. */
static uint32_t source_words(int i) {
    return i % 9 == 4   ? 0
           : i % 9 == 7 ? MAX_LEN + 1 + (uint32_t)(i % 4)
                        : 1 + (uint32_t)(i * 5 % MAX_LEN);
}
static uint32_t target_words(int i) {
    return i % 19 == 3 ? 0 : i % 19 == 5 ? MAX_LEN + 1 : 1 + (uint32_t)(i * 7 % MAX_LEN);
}
static bool is_used(const form *how, int i) {
    bool target = i % 19 != 3 && i % 19 != 5;
    return how->pairs ? target && i % 9 != 4 && i % 9 != 7 : target;
}

typedef struct fixture {
    form how;
    data_vocab vocab[2];
    tokens_reader tokens[2];
    sentence_options options;
    sentence_batches batches;
    uint32_t staging[MOST];
    uint64_t pool[sizeof(sentence_pool) / 8 + POOL_SENTENCES * sizeof(sentence_entry) / 8];
} fixture;

static void write_texts(help_room *room, int lines) {
    static char text[2][1 << 17];
    size_t used[2] = {0, 0};
    for (int i = 0; i < lines; i++) {
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

static ebb_status choose_shapes(help_room *room, const form *how, sentence_options *out) {
    lengths_texts texts = {how->pairs ? room->path[0] : NULL,
                           room->path[1],
                           TEXT_WORD,
                           MAX_LEN,
                           false,
                           NULL,
                           NULL,
                           0,
                           0};
    bucket_options options = {.strategy = how->pooled ? BUCKET_POOL : BUCKET_OPTIMAL, .shapes = 5};
    data_lengths found;
    bucket_plan plan = {.ctx = NULL};
    options.batch.sentences = how->by_tokens ? 0 : ROWS;
    options.batch.tokens = how->by_tokens ? TOKENS : 0;
    *out = (sentence_options){
        .max_len = MAX_LEN, .seed = 3, .shuffle = how->shuffle, .pooled = how->pooled};
    ebb_status status = ebb__lengths_scan(room->ctx, &texts, &found);
    if (status == EBB_OK) {
        status = ebb__buckets_make(&found, &options, &plan);
        out->shapes = plan.programs;
        ebb__buckets_free(&plan);
    }
    ebb__lengths_free(&found);
    return status;
}

static ebb_status open_fixture(help_room *room, fixture *f, form how) {
    vocab_options all = {.mode = TEXT_WORD};
    char path[128];
    memset(f, 0, sizeof *f);
    f->how = how;
    f->tokens[0].fd = f->tokens[1].fd = f->batches.index = -1;
    TRY(choose_shapes(room, &how, &f->options));
    for (int side = how.pairs ? 0 : 1; side < 2; side++) {
        TRY(ebb__vocab_build(room->ctx, room->path[side], &all, &f->vocab[side]));
        TRY(ebb__tokens_ensure(room->ctx, room->path[side], TEXT_WORD, &f->vocab[side],
                               room->path[2 + side], &f->tokens[side]));
    }
    (void)snprintf(path, sizeof path, "%s/index", room->folder);
    TRY(ebb__sentence_batches_open(room->ctx, how.pairs ? &f->tokens[0] : NULL, &f->tokens[1],
                                   &f->options, path, &f->batches));
    f->batches.staging = f->staging;
    f->batches.pool = (sentence_pool *)f->pool;
    f->batches.pool->epoch = UINT64_MAX;
    assert_true(ebb__sentence_pool_bytes(f->batches.sentences, ROWS) <= sizeof f->pool);
    return EBB_OK;
}

static void close_fixture(fixture *f) {
    for (int side = 0; side < 2; side++) {
        ebb__vocab_free(&f->vocab[side]);
        ebb__tokens_close(&f->tokens[side]);
    }
    ebb__sentence_batches_close(&f->batches);
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
    int32_t source[MOST * MOST_ROWS], lengths[MOST_ROWS];
    int32_t inputs[MOST * MOST_ROWS], labels[MOST * MOST_ROWS];
} batch;

static sentence_target target_of(const fixture *f, batch *b) {
    return f->how.pairs ? (sentence_target){b->source, b->lengths, b->inputs, b->labels}
                        : (sentence_target){NULL, NULL, b->inputs, b->labels};
}

/* Checks every source cell of a row and gives its line; -1: an empty row. */
static int check_source(const fixture *f, const batch *b, data_shape shape, uint32_t row) {
    int32_t n = b->lengths[row];
    int line = n > 0 ? line_of(f, 0, b->source[(shape.source - 1) * shape.rows + row]) : -1;
    assert_int_equal(n, line < 0 ? 0 : (int)source_words(line) + 1);
    for (uint32_t t = 0; t < shape.source; t++) {
        int32_t id = b->source[(shape.source - 1 - t) * shape.rows + row];
        if ((int32_t)t + 1 < n) {
            assert_int_equal(line_of(f, 0, id), line);
        } else {
            assert_int_equal(id, VOCAB_EOS); /* its own end, then padding */
        }
    }
    return line;
}

/* Checks every cell of a row and gives its line; -1: an empty row. */
static int check_row(const fixture *f, const batch *b, data_shape shape, uint32_t row) {
    int32_t first = b->labels[(shape.target - 1) * shape.rows + row];
    int line = first != BATCH_IGNORED ? line_of(f, 1, first) : -1;
    if (f->how.pairs) {
        assert_int_equal(check_source(f, b, shape, row), line);
    }
    uint32_t words = line < 0 ? 0 : target_words(line);
    for (uint32_t t = 0; t < shape.target; t++) {
        size_t at = (shape.target - 1 - t) * (size_t)shape.rows + row;
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

/* No smaller shape holds all rows of the batch. */
static void check_smallest(const fixture *f, data_shape shape, uint32_t source, uint32_t target) {
    assert_true(source <= shape.source && target <= shape.target);
    for (int32_t i = 0; f->how.pooled && i < f->batches.shapes.n; i++) {
        data_shape other = f->batches.shapes.at[i];
        assert_true(other.source + other.target >= shape.source + shape.target ||
                    other.source < source || other.target < target);
    }
}

/* One epoch from `first` on: every line that is used comes once; *order gets them in turn. */
static void check_epoch(const fixture *f, uint64_t first, int order[MOST_LINES]) {
    bool seen[MOST_LINES] = {false};
    int n = 0;
    for (uint64_t step = first; step < first + f->batches.windows; step++) {
        batch b;
        uint64_t words = 0, expected = 0;
        uint32_t source = 0, target = 0;
        sentence_place place;
        memset(&b, 0x55, sizeof b);
        assert_int_equal(ebb__sentence_place(&f->batches, step, &place), EBB_OK);
        sentence_target to = target_of(f, &b);
        data_shape shape = f->batches.shapes.at[place.shape];
        assert_int_equal(place.epoch, step / f->batches.windows);
        assert_int_equal(ebb__sentence_fill(&f->batches, &place, &to, &words), EBB_OK);
        for (uint32_t row = 0; row < shape.rows; row++) {
            int line = check_row(f, &b, shape, row);
            if (line >= 0) {
                assert_true(is_used(&f->how, line) && !seen[line]);
                seen[line] = true;
                order[n++] = line;
                expected += target_words(line) + 1;
                uint32_t words_of = f->how.pairs ? source_words(line) + 1 : 0;
                source = words_of > source ? words_of : source;
                target = target_words(line) + 1 > target ? target_words(line) + 1 : target;
            }
        }
        check_smallest(f, shape, source, target);
        assert_int_equal(words, expected);
        assert_true(words > 0);
    }
    assert_int_equal(n, f->batches.sentences);
    for (int i = 0; i < f->how.lines; i++) {
        assert_true(seen[i] == is_used(&f->how, i));
    }
}

/* With tokens, rows times the longer side are no more than those, and as many as can be filled. */
static void check_rows(const fixture *f) {
    for (int32_t i = 0; i < f->batches.shapes.n; i++) {
        data_shape shape = f->batches.shapes.at[i];
        uint32_t longer = shape.source > shape.target ? shape.source : shape.target;
        uint64_t most = f->batches.shapes.at[i].sentences < TOKENS / longer
                            ? f->batches.shapes.at[i].sentences
                            : TOKENS / longer;
        assert_int_equal(shape.rows, f->how.by_tokens ? most : ROWS);
        assert_true((shape.source > 0) == f->how.pairs);
    }
}

static void every_sentence_once_an_epoch(void **state) {
    help_room *room = *state;
    write_texts(room, LINES);
    for (int i = 0; i < 4; i++) {
        form how = {.pairs = i % 2 == 0, .by_tokens = i >= 2, .shuffle = true, .lines = LINES};
        fixture f;
        int first[MOST_LINES], again[MOST_LINES], next[MOST_LINES];
        assert_int_equal(open_fixture(room, &f, how), EBB_OK);
        assert_true(f.batches.shapes.n >= 3);
        check_rows(&f);
        uint64_t windows = f.batches.windows;
        check_epoch(&f, 0, first);
        check_epoch(&f, 7 * windows, next);
        check_epoch(&f, 0, again);
        size_t used = (size_t)f.batches.sentences * sizeof *first;
        assert_memory_equal(first, again, used);
        assert_memory_not_equal(first, next, used);
        close_fixture(&f);
        how.shuffle = false;
        assert_int_equal(open_fixture(room, &f, how), EBB_OK);
        check_epoch(&f, 0, first);
        check_epoch(&f, windows, next);
        assert_memory_equal(first, next, used);
        close_fixture(&f);
    }
}

/* ---- blanked tokens ---- */

static void fill(const fixture *f, uint64_t step, batch *b) {
    uint64_t words = 0;
    sentence_place place;
    sentence_target to = target_of(f, b);
    memset(b, 0, sizeof *b);
    assert_int_equal(ebb__sentence_place(&f->batches, step, &place), EBB_OK);
    assert_int_equal(ebb__sentence_fill(&f->batches, &place, &to, &words), EBB_OK);
}

/* What differs from the ids without blanks is <unk> for a token; gives how many do, and adds to
 * *tokens how many could. */
static int count_blanks(const int32_t *with, const int32_t *without, int *tokens) {
    int blanks = 0;
    for (int i = 0; i < MOST * MOST_ROWS; i++) {
        *tokens += without[i] >= VOCAB_SPECIALS;
        if (with[i] != without[i]) {
            assert_int_equal(with[i], VOCAB_UNK);
            assert_true(without[i] >= VOCAB_SPECIALS);
            blanks++;
        }
    }
    return blanks;
}

/* Only what is read, a share of it, and the same whenever the step is made. */
static void check_blanks(fixture *f, uint64_t first) {
    int blanks[2] = {0, 0}, tokens[2] = {0, 0};
    for (uint64_t step = first; step < first + f->batches.windows; step++) {
        static batch without, with, again;
        f->batches.blank = 0;
        fill(f, step, &without);
        f->batches.blank = 0.3;
        fill(f, step, &with);
        fill(f, step, &again);
        assert_memory_equal(&with, &again, sizeof with);
        assert_memory_equal(with.labels, without.labels, sizeof with.labels);
        assert_memory_equal(with.lengths, without.lengths, sizeof with.lengths);
        blanks[0] += count_blanks(with.source, without.source, &tokens[0]);
        blanks[1] += count_blanks(with.inputs, without.inputs, &tokens[1]);
    }
    for (int side = 0; side < 2; side++) {
        assert_true(blanks[side] > tokens[side] / 5 && blanks[side] < 2 * tokens[side] / 5);
    }
}

static void blanks_are_others_in_every_epoch(void **state) {
    help_room *room = *state;
    write_texts(room, LINES);
    for (int pooled = 0; pooled < 2; pooled++) {
        form how = {.pairs = true, .shuffle = false, .pooled = pooled == 1, .lines = LINES};
        fixture f;
        assert_int_equal(open_fixture(room, &f, how), EBB_OK);
        check_blanks(&f, 0);
        check_blanks(&f, 3 * f.batches.windows);
        static batch now, later;
        fill(&f, 0, &now);
        fill(&f, f.batches.windows, &later);
        assert_memory_equal(now.labels, later.labels, sizeof now.labels);
        assert_memory_not_equal(now.source, later.source, sizeof now.source);
        assert_memory_not_equal(now.inputs, later.inputs, sizeof now.inputs);
        close_fixture(&f);
    }
}

/* ---- pools ---- */

/* Lines of a text of which `used` are used. */
static int lines_for(form how, int used) {
    int lines = 0;
    while (used > 0) {
        used -= is_used(&how, lines++);
    }
    assert_true(lines <= MOST_LINES);
    return lines;
}

/* What a step is. */
typedef struct digest {
    int32_t class;
    uint64_t words, cells;
} digest;

static digest digest_of(const fixture *f, uint64_t step) {
    sentence_place place;
    digest out = {.words = 0};
    batch b;
    memset(&b, 0, sizeof b);
    assert_int_equal(ebb__sentence_place(&f->batches, step, &place), EBB_OK);
    sentence_target to = target_of(f, &b);
    assert_int_equal(ebb__sentence_fill(&f->batches, &place, &to, &out.words), EBB_OK);
    for (size_t i = 0; i < MOST * MOST_ROWS; i++) {
        uint64_t cell = (uint64_t)(uint32_t)b.labels[i] << 32 | (uint32_t)b.source[i];
        out.cells = (out.cells ^ cell) * 0x9E3779B97F4A7C15U;
    }
    out.class = place.shape;
    return out;
}

/* The same batches, whatever was read before. */
static void check_any_order(const fixture *f) {
    enum { STEPS = 2 * MOST_LINES / ROWS };
    static digest in_turn[STEPS];
    uint64_t n = 2 * f->batches.windows;
    assert_true(n <= STEPS);
    for (uint64_t step = 0; step < n; step++) {
        in_turn[step] = digest_of(f, step);
    }
    for (uint64_t i = 0; i < 2 * n; i++) {
        uint64_t step = i < n ? n - 1 - i : i * 7919 % n;
        digest got = digest_of(f, step);
        assert_int_equal(got.class, in_turn[step].class);
        assert_int_equal(got.words, in_turn[step].words);
        assert_int_equal(got.cells, in_turn[step].cells);
    }
}

/* Every pool is sorted, and its batches do not come in that order. */
static void check_sorted(const fixture *f) {
    uint64_t kept = 0;
    for (uint64_t step = 0; step < f->batches.windows; step++) {
        sentence_place place;
        const sentence_pool *pool = f->batches.pool;
        assert_int_equal(ebb__sentence_place(&f->batches, step, &place), EBB_OK);
        assert_int_equal(pool->number, step / BUCKETS_POOL);
        assert_int_equal(place.batch / BUCKETS_POOL, step / BUCKETS_POOL);
        kept += place.batch == step;
        for (uint64_t i = 1; i < pool->count; i++) {
            const sentence_entry *a = &pool->entries[i - 1], *b = &pool->entries[i];
            assert_true(ebb__lengths_compare(a->source_len, a->target_len, b->source_len,
                                             b->target_len) <= 0);
        }
    }
    assert_true(kept <= 1 + f->batches.windows / 10);
}

static void pools_use_everything_once(void **state) {
    static const int sizes[] = {1, 3, POOL_SENTENCES, 2 * POOL_SENTENCES + 5};
    static int first[MOST_LINES], next[MOST_LINES];
    help_room *room = *state;
    for (int i = 0; i < 8; i++) {
        form how = {.pairs = i % 2 == 0, .pooled = true, .shuffle = true};
        fixture f;
        int used = sizes[i / 2];
        how.lines = lines_for(how, used);
        write_texts(room, how.lines);
        assert_int_equal(open_fixture(room, &f, how), EBB_OK);
        assert_int_equal(f.batches.sentences, used);
        assert_int_equal(f.batches.windows, (used + ROWS - 1) / ROWS);
        check_rows(&f);
        check_epoch(&f, 0, first);
        check_epoch(&f, 7 * f.batches.windows, next);
        assert_true(used < ROWS || memcmp(first, next, (size_t)used * sizeof *first) != 0);
        check_any_order(&f);
        check_sorted(&f);
        close_fixture(&f);
    }
}

/* Without a shape for the longest on both sides some batch may have none. */
static void pools_need_a_shape_for_all(void **state) {
    help_room *room = *state;
    form how = {.pairs = true, .pooled = true, .shuffle = true, .lines = LINES};
    fixture f;
    char path[128];
    write_texts(room, how.lines);
    assert_int_equal(open_fixture(room, &f, how), EBB_OK);
    ebb__sentence_batches_close(&f.batches);
    f.options.shapes.n = 2;
    f.options.shapes.at[0] = (data_shape){.source = MAX_LEN + 1, .target = 5, .rows = ROWS};
    f.options.shapes.at[1] = (data_shape){.source = 5, .target = MAX_LEN + 1, .rows = ROWS};
    (void)snprintf(path, sizeof path, "%s/index", room->folder);
    help_expect(room->ctx,
                ebb__sentence_batches_open(room->ctx, &f.tokens[0], &f.tokens[1], &f.options, path,
                                           &f.batches),
                EBB_MODEL, "no shape is as long as all others");
    close_fixture(&f);
}

/* ---- damage and failures ---- */

static void a_damaged_index_is_noticed(void **state) {
    help_room *room = *state;
    fixture f;
    batch b;
    uint64_t words = 0;
    sentence_place place;
    write_texts(room, LINES);
    form how = {.pairs = true, .shuffle = true, .lines = LINES};
    assert_int_equal(open_fixture(room, &f, how), EBB_OK);
    f.batches.shapes.at[0].source = f.batches.shapes.at[0].target = 1;
    assert_int_equal(ebb__sentence_place(&f.batches, 0, &place), EBB_OK);
    place.shape = 0;
    place.batch = 0;
    sentence_target to = target_of(&f, &b);
    help_expect(room->ctx, ebb__sentence_fill(&f.batches, &place, &to, &words), EBB_DATA,
                "was changed by somebody");
    close_fixture(&f);
    how.pooled = true;
    assert_int_equal(open_fixture(room, &f, how), EBB_OK);
    for (int32_t i = 0; i < f.batches.shapes.n; i++) {
        f.batches.shapes.at[i].source = 1;
    }
    help_expect(room->ctx, ebb__sentence_place(&f.batches, 0, &place), EBB_DATA,
                "was changed by somebody");
    close_fixture(&f);
}

static ebb_status whole_job(help_room *room, form how) {
    fixture f;
    batch b;
    uint64_t words = 0;
    ebb_status status = open_fixture(room, &f, how);
    sentence_place place;
    if (status == EBB_OK) {
        status = ebb__sentence_place(&f.batches, 0, &place);
    }
    if (status == EBB_OK) {
        sentence_target to = target_of(&f, &b);
        status = ebb__sentence_fill(&f.batches, &place, &to, &words);
    }
    close_fixture(&f);
    (void)unlink(room->path[2]);
    (void)unlink(room->path[3]);
    char path[128];
    (void)snprintf(path, sizeof path, "%s/index", room->folder);
    (void)unlink(path); /* where it could not vanish */
    return status;
}

static ebb_status pairs_job(help_room *room) {
    return whole_job(room, (form){.pairs = true, .shuffle = true});
}
static ebb_status text_job(help_room *room) {
    return whole_job(room, (form){.by_tokens = true, .shuffle = true});
}

static ebb_status pool_job(help_room *room) {
    return whole_job(room, (form){.pairs = true, .pooled = true, .shuffle = true});
}

static void every_failure_is_reported(void **state) {
    help_room *room = *state;
    write_texts(room, LINES);
    help_fail_each(room, pairs_job);
    help_fail_each(room, text_job);
    help_fail_each(room, pool_job);
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
        TEST(refuses_texts_that_do_not_match), TEST(every_sentence_once_an_epoch),
        TEST(blanks_are_others_in_every_epoch),
        TEST(pools_use_everything_once),       TEST(pools_need_a_shape_for_all),
        TEST(a_damaged_index_is_noticed),      TEST(every_failure_is_reported),
        TEST(a_joint_vocabulary_counts_both),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
