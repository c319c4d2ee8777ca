/* test_buckets.c - lengths that occur, and shapes for them: every sentence in exactly one shape
 * that is as long as its longest member; `optimal` is what trying everything finds; pools use every
 * sentence once an epoch. */
#include "data_help.h"

#include "data/buckets.h"

#include <math.h>

/* ---- lengths ---- */

static ebb_status scan(help_room *room, const char *source, const char *target, uint32_t max_len,
                       text_mode mode, data_lengths *out) {
    if (source != NULL) {
        help_write_text(room->path[0], source);
    }
    help_write_text(room->path[1], target);
    lengths_texts texts = {
        source != NULL ? room->path[0] : NULL, room->path[1], mode, max_len, false, NULL, NULL, 0, 0};
    return ebb__lengths_scan(room->ctx, &texts, out);
}

static uint64_t count_of(const data_lengths *lengths, uint32_t source, uint32_t target) {
    uint64_t count = 0;
    for (size_t i = 0; i < lengths->n_cells; i++) {
        const lengths_cell *cell = &lengths->cells[i];
        count += cell->source == source && cell->target == target ? cell->count : 0;
    }
    return count;
}

static void one_text(void **state) {
    help_room *room = *state;
    data_lengths found;
    assert_int_equal(
        scan(room, NULL, "a b\n\nc\na b\na b c d e\n \na b c d e f\nx y", 5, TEXT_WORD, &found),
        EBB_OK);
    assert_int_equal(found.lines, 8);
    assert_int_equal(found.used, 5);
    assert_int_equal(found.empty, 2);
    assert_int_equal(found.first_empty, 2);
    assert_int_equal(found.over, 1);
    assert_int_equal(found.first_over, 7);
    assert_int_equal(found.n_cells, 3);
    assert_int_equal(count_of(&found, 0, 3), 3);
    assert_int_equal(count_of(&found, 0, 2), 1);
    assert_int_equal(count_of(&found, 0, 6), 1);
    ebb__lengths_free(&found);
    /* Bytes: the last line counts without its end too, which it has not. */
    assert_int_equal(scan(room, NULL, "ab\nabc", 5, TEXT_BYTE, &found), EBB_OK);
    assert_int_equal(found.lines, 2);
    assert_int_equal(count_of(&found, 0, 3), 2);
    ebb__lengths_free(&found);
}

static void texts_that_cannot_be_used(void **state) {
    help_room *room = *state;
    data_lengths found;
    static const struct {
        const char *source, *target, *says;
    } cases[] = {{NULL, "\n \n", "none of the 2 lines can be used: 2 have no token"},
                 {NULL, "a b c d e f\n", "1 more than 5 tokens"},
                 {NULL, "a <eos>\n", "/b:1: holds the word <eos>"},
                 {NULL, "", "empty"},
                 {"a\n", "a\nb\n", "/a has 1 lines"},
                 {"a\n\n", "\nb\n", "none of the 2 pairs can be used: 2 have an empty line"}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        ebb_status status = scan(room, cases[i].source, cases[i].target, 5, TEXT_WORD, &found);
        ebb__lengths_free(&found);
        help_expect(room->ctx, status, EBB_DATA, cases[i].says);
    }
}

/* The order that pools rely on, through many growths of the table. */
static void cells_are_ordered(void **state) {
    help_room *room = *state;
    data_lengths made;
    uint64_t sum = 0;
    assert_int_equal(ebb__lengths_init(room->ctx, true, 99, &made), EBB_OK);
    for (uint32_t i = 0; i < 30000; i++) {
        assert_int_equal(ebb__lengths_add(&made, 2 + i * 7 % 99, 2 + i * i % 97), EBB_OK);
    }
    assert_int_equal(ebb__lengths_finish(&made), EBB_OK);
    assert_true(made.n_cells > 2000);
    for (size_t i = 0; i < made.n_cells; i++) {
        const lengths_cell *a = &made.cells[i], *b = a + 1;
        sum += a->count;
        if (i + 1 == made.n_cells) {
            break;
        }
        uint32_t x = a->source > a->target ? a->source : a->target;
        uint32_t y = b->source > b->target ? b->source : b->target;
        int64_t more = (int64_t)b->source - b->target - ((int64_t)a->source - a->target);
        assert_true(x < y || (x == y && (x % 2 == 0 ? more > 0 : more < 0)));
    }
    assert_int_equal(sum, 30000);
    assert_int_equal(made.used, 30000);
    ebb__lengths_free(&made);
}

/* ---- generated ---- */

static void random_lengths(help_room *room, help_dice *dice, bool pairs, uint32_t most, uint32_t n,
                           data_lengths *out) {
    assert_int_equal(ebb__lengths_init(room->ctx, pairs, most + 1, out), EBB_OK);
    for (uint32_t i = 0; i < n; i++) {
        uint32_t source = 2 + help_throw(dice, most), target = 2 + help_throw(dice, most);
        if (help_throw(dice, 2) == 0) { /* often alike */
            target = source + help_throw(dice, 3);
            target = target > most + 1 ? most + 1 : target;
        }
        assert_int_equal(ebb__lengths_add(out, source, target), EBB_OK);
    }
    assert_int_equal(ebb__lengths_finish(out), EBB_OK);
}

static bucket_plan make(const data_lengths *lengths, const bucket_options *options) {
    bucket_plan plan;
    ebb_status status = ebb__buckets_make(lengths, options, &plan);
    if (status != EBB_OK) {
        fail_msg("%s", ebb_last_error(lengths->ctx));
    }
    return plan;
}

/* ---- the example of the report ---- */

static void the_example_of_the_report(void **state) {
    help_room *room = *state;
    data_lengths lengths;
    assert_int_equal(
        scan(room, NULL, "a b c\na b c d e f g\na b\na b c d e f\n", 100, TEXT_WORD, &lengths),
        EBB_OK); /* 4 8 3 7 */
    bucket_options options = {.strategy = BUCKET_GREEDY, .shapes = 8, .batch = {.sentences = 2}};
    bucket_plan plan = make(&lengths, &options);
    assert_int_equal(plan.n_shapes, 2);
    assert_int_equal(plan.shapes[0].as.target, 4);
    assert_int_equal(plan.shapes[1].as.target, 8);
    assert_int_equal(plan.padded_tokens, 24);
    assert_int_equal(plan.real_tokens, 22);
    assert_int_equal(plan.batches, 2);
    assert_int_equal(plan.empty_rows, 0);
    ebb__buckets_free(&plan);
    options.strategy = BUCKET_NONE;
    plan = make(&lengths, &options);
    assert_int_equal(plan.n_shapes, 1);
    assert_int_equal(plan.padded_tokens, 32); /* 4 x 8 */
    ebb__buckets_free(&plan);
    /* What is left over is a shape too. */
    options = (bucket_options){.strategy = BUCKET_GREEDY, .shapes = 8, .batch = {.sentences = 3}};
    plan = make(&lengths, &options);
    assert_int_equal(plan.n_shapes, 2);
    assert_int_equal(plan.shapes[0].as.target, 7);
    assert_int_equal(plan.shapes[1].as.target, 8);
    assert_int_equal(plan.shapes[1].as.sentences, 1);
    assert_int_equal(plan.empty_rows, 2);
    ebb__buckets_free(&plan);
    ebb__lengths_free(&lengths);
}

/* ---- optimal against trying everything ---- */

enum { SIDE = 6 }; /* most different lengths of a side that are tried */

typedef struct brute {
    const data_lengths *lengths;
    uint32_t targets[SIDE], sources[SIDE], longer[SIDE];
    int n_targets, n_sources, n_longer;
} brute;

static void note_length(uint32_t *list, int *n, uint32_t length) {
    int at = 0;
    while (at < *n && list[at] < length) {
        at++;
    }
    if (at < *n && list[at] == length) {
        return;
    }
    assert_true(*n < SIDE);
    memmove(list + at + 1, list + at, (size_t)(*n - at) * sizeof *list);
    list[at] = length;
    (*n)++;
}

/* Tokens of the members of the box (low, high] of targets and of sources, or of longer sides. */
static uint64_t box_tokens(const brute *b, const uint32_t box[6], bool *any) {
    uint64_t count = 0;
    uint32_t source = 0, target = 0;
    for (size_t i = 0; i < b->lengths->n_cells; i++) {
        const lengths_cell *c = &b->lengths->cells[i];
        uint32_t longer = c->source > c->target ? c->source : c->target;
        if (c->target <= box[0] || c->target > box[1] || longer <= box[4] || longer > box[5] ||
            (b->lengths->pairs && (c->source <= box[2] || c->source > box[3]))) {
            continue;
        }
        count += c->count;
        source = c->source > source ? c->source : source;
        target = c->target > target ? c->target : target;
    }
    *any = count > 0;
    return count * ((uint64_t)source + target);
}

static uint64_t least(uint64_t a, uint64_t b) {
    return a < b ? a : b;
}

/* The band (low, high] of targets in at most k parts: every set of cuts of its sources. */
static uint64_t brute_band(const brute *b, uint32_t low, uint32_t high, int k) {
    uint64_t best = UINT64_MAX;
    for (uint32_t cuts = 0; cuts < 1U << (b->n_sources - 1); cuts++) {
        uint64_t sum = 0;
        uint32_t from = 0;
        int parts = 0;
        for (int i = 0; i < b->n_sources; i++) {
            if (i == b->n_sources - 1 || (cuts >> i & 1) != 0) {
                uint32_t box[6] = {low, high, from, b->sources[i], 0, UINT32_MAX};
                bool any = false;
                sum += box_tokens(b, box, &any);
                parts += any;
                from = b->sources[i];
            }
        }
        best = parts <= k ? least(best, sum) : best;
    }
    return best;
}

/* All ways to give the bands of `cuts` (a bit: a band ends there) k shapes, from target i on. */
static uint64_t brute_bands(const brute *b, uint32_t cuts, int i, uint32_t low, int k) {
    uint64_t best = UINT64_MAX;
    while (i < b->n_targets - 1 && (cuts >> i & 1) == 0) {
        i++;
    }
    for (int m = 1; m <= k; m++) {
        uint64_t here = brute_band(b, low, b->targets[i], m), rest = 0;
        if (i < b->n_targets - 1) {
            rest = brute_bands(b, cuts, i + 1, b->targets[i], k - m);
        }
        best = here == UINT64_MAX || rest == UINT64_MAX ? best : least(best, here + rest);
    }
    return best;
}

/* Every set of at most k bounds on the longer side. */
static uint64_t brute_longer(const brute *b, int k) {
    uint64_t best = UINT64_MAX;
    for (uint32_t cuts = 0; cuts < 1U << (b->n_longer - 1); cuts++) {
        uint64_t sum = 0;
        uint32_t from = 0;
        if (__builtin_popcount(cuts) >= k) {
            continue;
        }
        for (int i = 0; i < b->n_longer; i++) {
            if (i == b->n_longer - 1 || (cuts >> i & 1) != 0) {
                uint32_t box[6] = {0, UINT32_MAX, 0, UINT32_MAX, from, b->longer[i]};
                bool any = false;
                sum += box_tokens(b, box, &any);
                from = b->longer[i];
            }
        }
        best = least(best, sum);
    }
    return best;
}

static uint64_t brute_best(const data_lengths *lengths, int k) {
    brute b = {.lengths = lengths};
    for (size_t i = 0; i < lengths->n_cells; i++) {
        const lengths_cell *c = &lengths->cells[i];
        note_length(b.targets, &b.n_targets, c->target);
        note_length(b.sources, &b.n_sources, c->source);
        note_length(b.longer, &b.n_longer, c->source > c->target ? c->source : c->target);
    }
    uint64_t best = brute_longer(&b, k);
    for (uint32_t cuts = 0; lengths->pairs && cuts < 1U << (b.n_targets - 1); cuts++) {
        if (__builtin_popcount(cuts) < k) {
            best = least(best, brute_bands(&b, cuts, 0, 0, k));
        }
    }
    return best;
}

static void check_optimal(help_room *room, bool pairs, int trials, uint32_t most_sides) {
    help_dice dice = {.key = ebb__rng_key(pairs, "optimal")};
    int banded = 0;
    for (int trial = 0; trial < trials; trial++) {
        data_lengths lengths;
        uint32_t most = 1 + help_throw(&dice, most_sides), n = 1 + help_throw(&dice, 40);
        random_lengths(room, &dice, pairs, most, n, &lengths);
        bucket_options options = {.strategy = BUCKET_OPTIMAL,
                                  .shapes = 1 + (int32_t)help_throw(&dice, 6),
                                  .batch = {.sentences = 4}};
        bucket_plan plan = make(&lengths, &options);
        uint64_t want = brute_best(&lengths, options.shapes);
        if (plan.padded_tokens != want || plan.n_shapes > options.shapes) {
            fail_msg("trial %d: %llu tokens in %d shapes, %llu can be had in %d", trial,
                     (unsigned long long)plan.padded_tokens, (int)plan.n_shapes,
                     (unsigned long long)want, (int)options.shapes);
        }
        banded += plan.shapes[0].limit.cut != UINT32_MAX || plan.shapes[0].limit.band != UINT32_MAX;
        ebb__buckets_free(&plan);
        ebb__lengths_free(&lengths);
    }
    assert_true(!pairs || (banded > trials / 20 && banded < trials * 19 / 20)); /* both families */
}

static void optimal_is_the_best(void **state) {
    check_optimal(*state, false, 5000, SIDE);
    check_optimal(*state, true, 3000, SIDE - 1);
}

/* Thousands of different lengths: the plain programme, which tries every bound. */
static void optimal_of_long_texts(void **state) {
    enum { LONGEST = 1500, K = 7 };
    help_room *room = *state;
    static double best[K + 1][LONGEST + 1], before[LONGEST + 1];
    uint64_t counts[LONGEST + 1] = {0};
    help_dice dice = {.key = ebb__rng_key(1, "long")};
    data_lengths lengths;
    assert_int_equal(ebb__lengths_init(room->ctx, false, LONGEST, &lengths), EBB_OK);
    for (int i = 0; i < 4000; i++) {
        uint32_t length = 2 + help_throw(&dice, 1 + help_throw(&dice, LONGEST - 2));
        counts[length]++;
        assert_int_equal(ebb__lengths_add(&lengths, 0, length), EBB_OK);
    }
    assert_int_equal(ebb__lengths_finish(&lengths), EBB_OK);
    for (int b = 1; b <= LONGEST; b++) {
        before[b] = before[b - 1] + (double)counts[b];
        best[0][b] = (double)INFINITY;
        for (int k = 1; k <= K; k++) {
            best[k][b] = counts[b] == 0 ? best[k][b - 1] : (double)INFINITY;
            for (int a = 0; counts[b] > 0 && a < b; a++) {
                double sum = best[k - 1][a] + b * (before[b] - before[a]);
                best[k][b] = sum < best[k][b] ? sum : best[k][b];
            }
        }
    }
    for (int k = 1; k <= K; k++) {
        bucket_options options = {
            .strategy = BUCKET_OPTIMAL, .shapes = k, .batch = {.sentences = 9}};
        bucket_plan plan = make(&lengths, &options);
        assert_int_equal(plan.padded_tokens, (uint64_t)best[k][LONGEST]);
        assert_int_equal(plan.n_shapes, k);
        ebb__buckets_free(&plan);
    }
    ebb__lengths_free(&lengths);
}

/* ---- what holds for all strategies ---- */

static void check_shape(const data_lengths *lengths, const bucket_plan *plan, int32_t which,
                        const bucket_options *options) {
    const data_shape *shape = &plan->shapes[which].as;
    int64_t empty = (int64_t)plan->shapes[which].empty_rows;
    uint64_t members = 0;
    uint32_t source = 0, target = 0;
    for (size_t i = 0; i < lengths->n_cells; i++) {
        const lengths_cell *cell = &lengths->cells[i];
        if (ebb__bucket_find(plan, cell->source, cell->target) == which) {
            members += cell->count;
            source = cell->source > source ? cell->source : source;
            target = cell->target > target ? cell->target : target;
        }
    }
    int32_t program = ebb__shape_find(&plan->programs, shape->source, shape->target);
    assert_in_range(program, 0, plan->programs.n - 1);
    assert_int_equal(shape->rows * (int64_t)shape->batches - empty, shape->sentences);
    if (plan->strategy != BUCKET_POOL) {
        assert_true(members > 0);
        assert_int_equal(members, shape->sentences);
        assert_int_equal(source, shape->source);
        assert_int_equal(target, shape->target);
        assert_true(empty < shape->rows);
        int64_t rows = ebb__bucket_rows(&options->batch, shape->source, shape->target);
        assert_true(shape->rows == rows ||
                    (options->batch.sentences == 0 && shape->rows < rows && shape->batches == 1));
        assert_true(plan->programs.n < plan->n_shapes || plan->strategy == BUCKET_STATIC ||
                    plan->n_shapes <= options->shapes);
    }
}

/* What is run: everything, in batches of the program's rows. */
static void check_programs(const data_lengths *lengths, const bucket_plan *plan,
                           const bucket_options *options) {
    uint64_t sentences = 0, steps = 0, tokens = 0;
    data_shape most = {0};
    assert_in_range(plan->programs.n, 1, DATA_MOST_SHAPES);
    assert_true(plan->programs.n <= options->shapes || plan->strategy == BUCKET_STATIC);
    for (int32_t i = 0; i < plan->programs.n; i++) {
        const data_shape *p = &plan->programs.at[i];
        int64_t rows = ebb__bucket_rows(&options->batch, p->source, p->target);
        if (options->batch.tokens == 0) {
            assert_int_equal(p->rows, rows);
        } else if (plan->strategy == BUCKET_POOL) { /* short batches on a longer program */
            assert_true(p->rows >= rows);
        } else if (p->rows != rows) { /* no more than are there */
            assert_true(p->rows < rows && p->rows >= (int64_t)p->sentences &&
                        p->rows < (int64_t)p->sentences + options->batch.multiple);
        }
        assert_true(p->batches * (uint64_t)p->rows >= p->sentences);
        sentences += p->sentences;
        steps += p->batches;
        tokens += p->sentences * ((uint64_t)p->source + p->target);
        most.source = p->source > most.source ? p->source : most.source;
        most.target = p->target > most.target ? p->target : most.target;
    }
    assert_int_equal(sentences, lengths->used);
    assert_int_equal(steps, plan->steps);
    assert_int_equal(tokens, plan->computed_tokens);
    if (plan->strategy == BUCKET_POOL) { /* some batch of some epoch may be as long as that */
        assert_true(ebb__shape_find(&plan->programs, most.source, most.target) >= 0);
        assert_true(plan->computed_tokens >= plan->padded_tokens);
    } else if (plan->programs.n == plan->n_shapes) { /* the shapes, or smaller ones */
        assert_true(plan->computed_tokens <= plan->padded_tokens);
    }
}

/* Of programs those of optimal are run, where greedy makes more shapes. */
static void greedy_runs_on_optimal_programs(void **state) {
    help_room *room = *state;
    help_dice dice = {.key = ebb__rng_key(2, "greedy")};
    data_lengths lengths;
    random_lengths(room, &dice, false, 60, 2000, &lengths);
    bucket_options options = {.strategy = BUCKET_GREEDY, .shapes = 5, .batch = {.sentences = 8}};
    bucket_plan greedy = make(&lengths, &options);
    options.strategy = BUCKET_OPTIMAL;
    bucket_plan optimal = make(&lengths, &options);
    assert_true(greedy.n_shapes > 5 && greedy.padded_tokens < optimal.padded_tokens);
    assert_int_equal(greedy.programs.n, 5);
    assert_int_equal(greedy.computed_tokens, optimal.padded_tokens);
    assert_int_equal(greedy.steps, optimal.batches);
    assert_memory_equal(&greedy.programs, &optimal.programs, sizeof greedy.programs);
    assert_true(ebb__bucket_computed_share(&greedy) > ebb__bucket_padded_share(&greedy));
    ebb__buckets_free(&greedy);
    ebb__buckets_free(&optimal);
    ebb__lengths_free(&lengths);
}

static void check_plan(const data_lengths *lengths, const bucket_plan *plan,
                       const bucket_options *options) {
    uint64_t sentences = 0, real = 0;
    for (int32_t i = 0; i < plan->n_shapes; i++) {
        check_shape(lengths, plan, i, options);
        sentences += plan->shapes[i].as.sentences;
    }
    assert_int_equal(sentences, lengths->used); /* nothing is dropped */
    assert_int_equal(plan->sentences, lengths->used);
    for (size_t i = 0; i < lengths->n_cells; i++) {
        const lengths_cell *cell = &lengths->cells[i];
        assert_true(ebb__bucket_find(plan, cell->source, cell->target) >= 0);
        real += cell->count * ((uint64_t)cell->source + cell->target);
    }
    assert_int_equal(plan->real_tokens, real);
    assert_true(plan->padded_tokens >= real);
    check_programs(lengths, plan, options);
    assert_int_equal(ebb__bucket_find(plan, lengths->pairs ? 5000 : 0, 5000), -1);
}

static void every_strategy_uses_everything(void **state) {
    help_room *room = *state;
    help_dice dice = {.key = ebb__rng_key(1, "strategies")};
    for (int trial = 0; trial < 120; trial++) {
        bool pairs = trial % 2 == 0;
        data_lengths lengths;
        bucket_options options = {.shapes = 1 + (int32_t)help_throw(&dice, 12),
                                  .seed = help_throw(&dice, 5)};
        uint64_t tokens[BUCKET_STRATEGIES];
        if (trial % 3 == 0) {
            options.batch.tokens = 1 + help_throw(&dice, 300);
            options.batch.multiple = 1 + help_throw(&dice, 3);
        } else {
            options.batch.sentences = 1 + help_throw(&dice, 20);
        }
        random_lengths(room, &dice, pairs, 1 + help_throw(&dice, trial % 20 == 0 ? 120 : 30),
                       1 + help_throw(&dice, 2000), &lengths);
        assert_int_equal(
            ebb__buckets_list(room->ctx, pairs ? "20x8,5,30" : "30,5,11", pairs, &options), EBB_OK);
        for (int i = 0; i < BUCKET_STRATEGIES; i++) {
            options.strategy = (bucket_strategy)i;
            bucket_plan plan = make(&lengths, &options);
            check_plan(&lengths, &plan, &options);
            tokens[i] = plan.padded_tokens;
            ebb__buckets_free(&plan);
        }
        /* With more lengths than can be bounds it is only nearly the best. */
        uint64_t most = tokens[BUCKET_OPTIMAL] - (pairs ? tokens[BUCKET_OPTIMAL] / 100 : 0);
        assert_true(most <= tokens[BUCKET_NONE] && most <= tokens[BUCKET_PERCENTILE] &&
                    most <= tokens[BUCKET_WIDTH]);
        ebb__lengths_free(&lengths);
    }
}

static void more_shapes_than_lengths(void **state) {
    help_room *room = *state;
    data_lengths lengths;
    assert_int_equal(scan(room, "a\na b\na\n", "a b\na b\na b\n", 100, TEXT_WORD, &lengths),
                     EBB_OK); /* 2x3 twice, 3x3 */
    for (int i = 0; i < BUCKET_STRATEGIES; i++) {
        bucket_options options = {
            .strategy = (bucket_strategy)i, .shapes = 32, .batch = {.sentences = 1}};
        assert_int_equal(ebb__buckets_list(room->ctx, "3", true, &options), EBB_OK);
        bucket_plan plan = make(&lengths, &options);
        assert_in_range(plan.n_shapes, 1, 2);
        assert_int_equal(plan.padded_tokens,
                         i == BUCKET_OPTIMAL || i == BUCKET_POOL ? 16 : 18); /* 2 x 5 + 6 */
        assert_int_equal(plan.batches, 3);
        ebb__buckets_free(&plan);
    }
    ebb__lengths_free(&lengths);
}

static void refuse(const data_lengths *lengths, const bucket_options *options, ebb_status status,
                   const char *says) {
    bucket_plan plan;
    ebb_status got = ebb__buckets_make(lengths, options, &plan);
    ebb__buckets_free(&plan);
    help_expect(lengths->ctx, got, status, says);
}

static void bad_options_are_refused(void **state) {
    help_room *room = *state;
    data_lengths lengths;
    bucket_options good = {.strategy = BUCKET_WIDTH, .shapes = 3, .batch = {.sentences = 2}}, o;
    assert_int_equal(ebb__lengths_init(room->ctx, true, 5, &lengths), EBB_OK);
    assert_int_equal(ebb__lengths_add(&lengths, 9, 3), EBB_OK);
    assert_int_equal(ebb__lengths_add(&lengths, 3, 1), EBB_OK);
    assert_int_equal(ebb__lengths_finish(&lengths), EBB_OK);
    refuse(&lengths, &good, EBB_DATA, "of 2, 1 are empty and 1 have more than 5 tokens");
    ebb__lengths_free(&lengths);
    assert_int_equal(ebb__lengths_init(room->ctx, true, 5, &lengths), EBB_OK);
    assert_int_equal(ebb__lengths_add(&lengths, 2, 3), EBB_OK);
    assert_int_equal(ebb__lengths_finish(&lengths), EBB_OK);
    o = good;
    o.batch.sentences = 0;
    refuse(&lengths, &o, EBB_USAGE, "a batch needs");
    o.batch = (bucket_batch){.sentences = 1, .tokens = 1};
    refuse(&lengths, &o, EBB_USAGE, "a batch needs");
    o = good;
    o.shapes = 0;
    refuse(&lengths, &o, EBB_USAGE, "0 shapes");
    o.shapes = DATA_MOST_SHAPES + 1;
    refuse(&lengths, &o, EBB_USAGE, "33 shapes");
    ebb__lengths_free(&lengths);
}

static void lists(void **state) {
    help_room *room = *state;
    bucket_options o = {.n_listed = 0};
    assert_int_equal(ebb__buckets_list(room->ctx, "16,8x9,4", true, &o), EBB_OK);
    assert_int_equal(o.n_listed, 3);
    assert_int_equal(o.list[0].source, 4);
    assert_int_equal(o.list[1].source, 8);
    assert_int_equal(o.list[1].target, 9);
    assert_int_equal(o.list[2].target, 16);
    static const char *const bad[] = {"",   "a",  "8,", ",8",    "8 16",       "0",
                                      "-3", "8x", "x8", "8,9x0", "4294967297", "8;9"};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        help_expect(room->ctx, ebb__buckets_list(room->ctx, bad[i], true, &o), EBB_USAGE,
                    "is no list");
    }
    help_expect(room->ctx, ebb__buckets_list(room->ctx, "8x9", false, &o), EBB_USAGE, "is no list");
}

static void rows_by_tokens(void **state) {
    (void)state;
    bucket_batch batch = {.tokens = 100};
    assert_int_equal(ebb__bucket_rows(&batch, 7, 10), 10);
    assert_int_equal(ebb__bucket_rows(&batch, 11, 10), 9);
    assert_int_equal(ebb__bucket_rows(&batch, 0, 101), 1);
    batch.multiple = 4;
    assert_int_equal(ebb__bucket_rows(&batch, 7, 10), 8);
    assert_int_equal(ebb__bucket_rows(&batch, 0, 101), 4);
    batch = (bucket_batch){.sentences = 64};
    assert_int_equal(ebb__bucket_rows(&batch, 7, 1000), 64);
}

/* ---- pools ---- */

static void pools_use_everything_once(void **state) {
    (void)state;
    enum { N = 5003, SIZE = 700 };
    static uint64_t places[2 * SIZE], other[2 * SIZE];
    static bool seen[N];
    uint64_t all = 0;
    memset(seen, 0, sizeof seen);
    for (uint64_t pool = 0; pool * SIZE < N; pool++) {
        uint64_t n = ebb__bucket_pool(1, 5, N, SIZE, pool, places);
        assert_int_equal(n, pool < 7 ? SIZE : N - 7 * SIZE);
        for (uint64_t i = 0; i < n; i++) {
            assert_true(places[i] < N && !seen[places[i]] && (i == 0 || places[i] > places[i - 1]));
            seen[places[i]] = true;
        }
        all += n;
        (void)ebb__bucket_pool(1, 6, N, SIZE, pool, other);
        assert_memory_not_equal(places, other, (size_t)n * sizeof *places);
    }
    assert_int_equal(all, N);
}

/* A large corpus: pools pad little, and less than any k shapes. */
static void pools_pad_little(void **state) {
    help_room *room = *state;
    data_lengths lengths;
    help_dice dice = {.key = ebb__rng_key(1, "large")};
    uint64_t tokens[2];
    assert_int_equal(ebb__lengths_init(room->ctx, true, 100, &lengths), EBB_OK);
    for (int i = 0; i < 60000; i++) {
        uint32_t source = 2, target;
        for (int k = 0; k < 6; k++) {
            source += help_throw(&dice, 12);
        }
        target = source - source / 6 + help_throw(&dice, source / 3);
        target = target < 2 ? 2 : target;
        assert_int_equal(ebb__lengths_add(&lengths, source, target), EBB_OK);
    }
    assert_int_equal(ebb__lengths_finish(&lengths), EBB_OK);
    for (int i = 0; i < 2; i++) {
        bucket_options options = {.strategy = i == 0 ? BUCKET_POOL : BUCKET_OPTIMAL,
                                  .shapes = 16,
                                  .batch = {.sentences = 32},
                                  .seed = 1};
        bucket_plan plan = make(&lengths, &options);
        tokens[i] = plan.padded_tokens;
        assert_int_equal(plan.batches, i == 0 ? 1875 : plan.batches);
        assert_true(ebb__bucket_padded_share(&plan) < (i == 0 ? 0.06 : 0.12));
        ebb__buckets_free(&plan);
    }
    assert_true(tokens[0] < tokens[1]);
    ebb__lengths_free(&lengths);
}

/* ---- failures ---- */

static ebb_status whole_job(help_room *room) {
    lengths_texts texts = {room->path[0], room->path[1], TEXT_WORD, 100, false, NULL, NULL, 0, 0};
    data_lengths lengths;
    ebb_status status = ebb__lengths_scan(room->ctx, &texts, &lengths);
    for (int i = 0; status == EBB_OK && i < BUCKET_STRATEGIES; i++) {
        bucket_options options = {
            .strategy = (bucket_strategy)i, .shapes = 2, .batch = {.sentences = 1}};
        bucket_plan plan;
        status = ebb__buckets_make(&lengths, &options, &plan);
        ebb__buckets_free(&plan);
    }
    ebb__lengths_free(&lengths);
    return status;
}

static void every_failure_is_reported(void **state) {
    help_room *room = *state;
    help_write_text(room->path[0], "a\na b\na b c\na\n");
    help_write_text(room->path[1], "a b\na b\na b c d\na\n");
    help_fail_each(room, whole_job);
}

int main(void) {
#define TEST(name) cmocka_unit_test_setup_teardown(name, help_setup, help_teardown)
    const struct CMUnitTest tests[] = {
        TEST(one_text),
        TEST(texts_that_cannot_be_used),
        TEST(cells_are_ordered),
        TEST(the_example_of_the_report),
        TEST(optimal_is_the_best),
        TEST(optimal_of_long_texts),
        TEST(every_strategy_uses_everything),
        TEST(greedy_runs_on_optimal_programs),
        TEST(more_shapes_than_lengths),
        TEST(bad_options_are_refused),
        TEST(lists),
        cmocka_unit_test(rows_by_tokens),
        cmocka_unit_test(pools_use_everything_once),
        TEST(pools_pad_little),
        TEST(every_failure_is_reported),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
