/* test_sentence_run.c - training runs on sentences: language models line by line, and batches that
 * are counted in tokens, of both kinds of models. Every sentence once an epoch, stopping and going
 * on at any place, budgets down to the least: always the same bits and the planned bytes. What all
 * runs on shapes share is tested with pairs in test_pairs_run.c. */
#include "train/run_help.h"

#include "data/buckets.h"

enum { TOKENS = 14 };

/* Everything that is carried from step to step is in play. Form 0: batches of so many sentences;
 * 1: of so many tokens; 2: of so many tokens, pairs; 3: of pools; 4: of pools, pairs. */
enum { FORMS = 5 };
static run_room *busy_room(int form) {
    run_room *room =
        form == 2 || form == 4 ? run_pairs_room(19, 7, 5, false) : run_lines_room(19, 7, 5, false);
    if (form >= 3) {
        room->s.bucket = BUCKET_POOL;
    } else if (form > 0) {
        room->s.batch = 0;
        room->s.batch_tokens = TOKENS;
    }
    room->s.dropout = 0.2;
    room->s.schedule = SCHEDULE_PLATEAU;
    room->s.lr_patience = 0;
    room->s.epochs = 2;
    room->s.save_every = 3;
    return room;
}

static void stopped_at_any_poll_ends_with_the_same_bits(void **state) {
    (void)state;
    for (int form = 0; form < FORMS; form++) {
        run_room *room = busy_room(form);
        run_expect_stops_to_matter_not(room);
        run_room_free(room);
    }
}

/* What the planner says of a text: batches and labels of an epoch. */
static bucket_plan plan_of(const run_room *room, bucket_strategy strategy) {
    ebb_ctx *ctx = test_ctx_new();
    lengths_texts texts = {
        NULL, room->train.text, TEXT_WORD, (uint32_t)room->s.max_len, false, NULL, NULL, 0, 0};
    bucket_options options = {.strategy = strategy,
                              .shapes = (int32_t)room->s.shapes,
                              .batch = {room->s.batch, room->s.batch_tokens, 0}};
    data_lengths lengths;
    bucket_plan plan;
    assert_ok(ctx, ebb__lengths_scan(ctx, &texts, &lengths));
    assert_ok(ctx, ebb__buckets_make(&lengths, &options, &plan));
    ebb__lengths_free(&lengths);
    ebb__buckets_free(&plan);
    test_ctx_free(ctx);
    return plan;
}

static void an_epoch_is_every_sentence(void **state) {
    (void)state;
    static const struct {
        int64_t batch, tokens;
        bool pool;
    } forms[] = {{3, 0, false},   {100, 0, false}, {0, 13, false}, {0, 31, false},
                 {0, 400, false}, {3, 0, true},    {100, 0, true}};
    for (size_t i = 0; i < sizeof forms / sizeof *forms; i++) {
        run_room *room = run_lines_room(23, 5, 9, false);
        room->s.epochs = 1;
        room->s.batch = forms[i].batch;
        room->s.batch_tokens = forms[i].tokens;
        room->s.bucket = forms[i].pool ? BUCKET_POOL : BUCKET_OPTIMAL;
        bucket_plan plan = plan_of(room, forms[i].pool ? BUCKET_POOL : BUCKET_OPTIMAL);
        job_train_result result = run_ok(room);
        assert_int_equal(result.epochs, 1);
        assert_int_equal(result.steps, plan.steps);
        assert_int_equal(plan.sentences, 23);
        assert_true(isfinite(result.loss) && isfinite(result.valid.at[0]));
        run_room_free(room);
    }
}

static void empty_rows_change_no_loss(void **state) {
    (void)state;
    run_room *room = run_lines_room(1, 1, 4, false);
    run_expect_empty_rows_to_matter_not(room);
    run_room_free(room);
}

/* The planned peak, all over the range of budgets, is what a run over all shapes takes. */
static void budgets_change_no_bit(void **state) {
    (void)state;
    for (int form = 0; form < FORMS; form++) {
        run_room *room = busy_room(form);
        run_watch whole;
        job_train_result result = run_other(room, &whole);
        uint64_t least = whole.least_bytes, most = result.planned_peak_bytes;
        int64_t steps = result.steps;
        assert_true(least <= most);
        for (uint64_t part = 0; part <= 4; part++) {
            run_remove(room->out.text);
            room->s.memory.bytes = least + (most - least) * part / 4;
            result = run_ok(room);
            assert_int_equal(result.planned_peak_bytes, result.measured_peak_bytes);
            assert_true(result.planned_peak_bytes <= room->s.memory.bytes);
            run_expect_same_end(room->out.text, room->other.text, steps);
        }
        run_remove(room->out.text);
        run_refused_below(room, least);
        run_room_free(room);
    }
}

static void every_form_of_the_model(void **state) {
    (void)state;
    for (int i = 0; i < 4; i++) {
        run_room *room = busy_room(i % 2);
        room->s.cell = (lm_cell)(i % 3);
        room->s.layers = 1 + i / 2;
        room->s.tie = i == 1;
        room->s.optimizer = i == 2 ? UPDATE_SGD : UPDATE_ADAM; /* without a slot to store */
        if (i == 3) { /* rows are a multiple of the shards */
            room->s.shards = 2;
            room->s.batch_tokens = 24;
        }
        run_expect_stop_to_matter_not(room);
        run_room_free(room);
    }
}

/* ---- using a run ---- */

/* Every label counts, <eos> too; lines that cannot be used are counted. */
static void evaluation_is_by_sentence(void **state) {
    (void)state;
    for (int form = 0; form < 2; form++) {
        static const char text[] = "s0 s1\n\ns2\ns1 s1 s1 s1 s1 s1 s1\ns3 s4 s0\n";
        run_room *room = busy_room(form);
        text_eval_result found;
        room->s.max_len = 6;
        run_write(room->valid.text, text, sizeof text - 1);
        job_train_result result = run_ok(room);
        ebb_ctx *ctx = test_ctx_new();
        assert_ok(ctx,
                  ebb__lm_measure(ctx, &room->s, room->out.text, room->valid.text, NULL, &found));
        assert_int_equal(found.tokens, 3 + 2 + 4);
        assert_int_equal(found.words, found.tokens);
        assert_int_equal(found.bytes, 6 + 3 + 9);
        assert_int_equal(found.sentences, 3);
        assert_int_equal(found.left_out, 2);
        assert_true(found.token_perplexity == found.word_perplexity);
        assert_true(found.token_perplexity == result.best.at[0]);
        assert_int_equal(found.planned_peak_bytes, found.measured_peak_bytes);
        test_ctx_free(ctx);
        run_room_free(room);
    }
}

/* The likeliest sentence again and again: nothing of one is left when the next starts. */
static void generated_sentences_start_from_zeros(void **state) {
    (void)state;
    run_room *room = run_lines_room(30, 2, 3, false);
    generate_options options = {.tokens = 30};
    run_output out = {.bytes = 0};
    room->s.epochs = 40;
    (void)run_ok(room);
    ebb_ctx *ctx = test_ctx_new();
    assert_ok(ctx, ebb__job_generate(ctx, &room->s, room->out.text, &options, run_keep, &out));
    assert_true(out.bytes < 512);
    size_t line = strcspn(out.text, "\n") + 1;
    assert_in_range(line, 3, out.bytes / 2);
    for (size_t i = line; i + line < out.bytes; i++) {
        assert_int_equal(out.text[i], out.text[i - line]);
    }
    test_ctx_free(ctx);
    run_room_free(room);
}

/* ---- what is refused ---- */

static void texts_that_cannot_be_used(void **state) {
    (void)state;
    run_room *room = run_lines_room(9, 3, 4, false);
    run_write_pairs(room->valid.text, room->valid_target.text, 3, 15, true);
    assert_true(run_ok(room).valid.at[0] > 1); /* a program of their own */
    room->s.out_dir = room->other.text;
    room->s.max_len = 10;
    run_refused(room, EBB_DATA, "none of the 3 lines");
    room->s.max_len = 20;
    room->s.bucket = BUCKET_POOL;
    room->s.batch_tokens = TOKENS;
    run_refused(room, EBB_USAGE, "--bucket pool: with batches counted in tokens");
    room->s.batch_tokens = 0;
    room->s.bucket = BUCKET_STATIC;
    room->s.shape_list = "3,x";
    run_refused(room, EBB_USAGE, "3,x");
    room->s.shape_list = "3,6";
    (void)run_ok(room);
    room->s.epochs = 3;
    run_write_pairs(room->train.text, room->train_target.text, 10, 4, false);
    run_refused(room, EBB_USAGE, "is not the text the run was started with");
    run_room_free(room);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(stopped_at_any_poll_ends_with_the_same_bits),
        cmocka_unit_test(an_epoch_is_every_sentence),
        cmocka_unit_test(empty_rows_change_no_loss),
        cmocka_unit_test(budgets_change_no_bit),
        cmocka_unit_test(every_form_of_the_model),
        cmocka_unit_test(evaluation_is_by_sentence),
        cmocka_unit_test(generated_sentences_start_from_zeros),
        cmocka_unit_test(texts_that_cannot_be_used),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
