/* test_pairs_run.c - training runs of translation models: shapes over one arena, stopping and going
 * on at any place, budgets down to the least; always the same bits. What runs of all kinds share is
 * tested with language models in test_run.c. */
#include "train/run_help.h"

static run_room *busy_room(void) {
    run_room *room = run_pairs_room(19, 7, 5, false);
    room->s.dropout = 0.2;
    room->s.smoothing = 0.1;
    room->s.schedule = SCHEDULE_PLATEAU;
    room->s.lr_patience = 0;
    room->s.epochs = 2;
    room->s.save_every = 3;
    return room;
}

static int64_t run_other(run_room *room, run_watch *watch) {
    job_train_result whole;
    run_error error;
    run_watch_init(watch, -1);
    room->s.out_dir = room->other.text;
    ebb_status status = run_go(room, watch, &whole, &error);
    if (status != EBB_OK) {
        fail_msg("status %d: %s", (int)status, error.text);
    }
    assert_int_equal(whole.planned_peak_bytes, whole.measured_peak_bytes);
    room->s.out_dir = room->out.text;
    return whole.steps;
}

/* Stopped once at every poll. */
static void stopped_at_any_poll_ends_with_the_same_bits(void **state) {
    (void)state;
    run_room *room = busy_room();
    run_watch whole;
    int64_t steps = run_other(room, &whole);
    assert_true(whole.polls > steps);
    for (int at = 1; at <= whole.polls; at++) {
        run_watch watch;
        job_train_result result;
        run_error error;
        run_remove(room->out.text);
        run_watch_init(&watch, at);
        assert_int_equal(run_go(room, &watch, &result, &error), EBB_STOPPED);
        room->s.threads = 1 + at % 2;
        result = run_ok(room);
        assert_true(result.resumed);
        run_expect_same_end(room->out.text, room->other.text, steps);
    }
    run_room_free(room);
}

/* Every pair is used once an epoch, a batch of each shape for the rest: steps and words say so. */
static void an_epoch_is_every_pair(void **state) {
    (void)state;
    run_room *room = run_pairs_room(23, 5, 9, false);
    room->s.epochs = 1;
    job_train_result result = run_ok(room);
    assert_int_equal(result.epochs, 1);
    /* 23 pairs in threes, and at most 4 shapes. */
    assert_in_range(result.steps, 8, 8 + 3);
    room->s.batch = 100; /* one batch a shape, mostly empty rows */
    room->s.out_dir = room->other.text;
    result = run_ok(room);
    assert_in_range(result.steps, 2, 4);
    assert_true(isfinite(result.loss) && isfinite(result.valid_perplexity));
    run_room_free(room);
}

/* Empty rows count for nothing: one pair alone, or in a batch of four. */
static void empty_rows_change_no_loss(void **state) {
    (void)state;
    run_room *room = run_pairs_room(1, 1, 4, true);
    room->s.epochs = 1;
    room->s.lr = 0;
    room->s.batch = 1;
    job_train_result one = run_ok(room);
    room->s.batch = 4;
    room->s.out_dir = room->other.text;
    job_train_result four = run_ok(room);
    assert_int_equal(one.steps, 1);
    assert_int_equal(four.steps, 1);
    assert_true(one.loss == four.loss && one.valid_perplexity == four.valid_perplexity);
    run_room_free(room);
}

static void budgets_change_no_bit(void **state) {
    (void)state;
    run_room *room = busy_room();
    run_watch whole;
    int64_t steps = run_other(room, &whole);
    room->s.memory.bytes = whole.least_bytes;
    (void)run_ok(room);
    run_expect_same_end(room->out.text, room->other.text, steps);
    run_remove(room->out.text);
    room->s.memory.bytes = whole.least_bytes - 1;
    char digits[32];
    (void)snprintf(digits, sizeof digits, " %llu ", (unsigned long long)whole.least_bytes);
    run_refused(room, EBB_BUDGET, digits);
    room->s.memory.bytes = 64 << 20;
    room->s.disabled = 1U << PASS_CHUNK | 1U << PASS_BATCH_TIME | 1U << PASS_FUSE;
    (void)run_ok(room);
    run_expect_same_end(room->out.text, room->other.text, steps);
    run_room_free(room);
}

static void every_form_of_the_model(void **state) {
    (void)state;
    for (int i = 0; i < 6; i++) {
        run_room *room = busy_room();
        room->s.cell = i % 2 == 0 ? CELL_GRU : CELL_LSTM;
        room->s.attention = i % 3 == 0 ? ATTENTION_DOT : ATTENTION_MLP;
        room->s.layer_norm = i >= 3;
        room->s.feed = i != 1;
        room->s.tie = room->s.tie_src = i == 2 || i == 3;
        room->s.enc_layers = 1 + i % 2;
        room->s.dec_layers = 1 + i / 4;
        run_watch whole, watch;
        job_train_result result;
        run_error error;
        int64_t steps = run_other(room, &whole);
        run_watch_init(&watch, whole.polls / 2);
        room->s.threads = 2;
        assert_int_equal(run_go(room, &watch, &result, &error), EBB_STOPPED);
        (void)run_ok(room);
        run_expect_same_end(room->out.text, room->other.text, steps);
        run_room_free(room);
    }
}

/* Validation sentences longer than any of training have a program of their own. */
static void longer_sentences_to_validate_on(void **state) {
    (void)state;
    run_room *room = run_pairs_room(9, 3, 4, false);
    run_write_pairs(room->valid.text, room->valid_target.text, 3, 15, true);
    job_train_result result = run_ok(room);
    assert_true(result.valid_perplexity > 1);
    room->s.max_len = 10; /* now none is left */
    room->s.out_dir = room->other.text;
    run_refused(room, EBB_DATA, "none of the 3 pairs");
    run_room_free(room);
}

static void other_texts_are_refused(void **state) {
    (void)state;
    run_room *room = run_pairs_room(9, 3, 4, false);
    (void)run_ok(room);
    room->s.epochs = 3;
    run_write_pairs(room->valid.text, room->valid_target.text, 4, 4, false);
    run_refused(room, EBB_USAGE, "validated on");
    run_write_pairs(room->valid.text, room->valid_target.text, 3, 4, false);
    run_write_pairs(room->train.text, room->train_target.text, 10, 4, false);
    run_refused(room, EBB_USAGE, "10 pairs, then 9");
    run_write_pairs(room->train.text, room->train_target.text, 9, 4, false);
    run_write(run_join(room->out.text, "vocab.src.txt").text, "<unk>\n<eos>\nx\n", 14);
    run_refused(room, EBB_MODEL, "vocabularies are not those");
    room->s.train_target = NULL;
    run_refused(room, EBB_USAGE, "pairs");
    run_room_free(room);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(stopped_at_any_poll_ends_with_the_same_bits),
        cmocka_unit_test(an_epoch_is_every_pair),
        cmocka_unit_test(empty_rows_change_no_loss),
        cmocka_unit_test(budgets_change_no_bit),
        cmocka_unit_test(every_form_of_the_model),
        cmocka_unit_test(longer_sentences_to_validate_on),
        cmocka_unit_test(other_texts_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
