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

static void stopped_at_any_poll_ends_with_the_same_bits(void **state) {
    (void)state;
    run_room *room = busy_room();
    run_expect_stops_to_matter_not(room);
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
    assert_true(isfinite(result.loss) && isfinite(result.valid.at[0]));
    run_room_free(room);
}

static void empty_rows_change_no_loss(void **state) {
    (void)state;
    run_room *room = run_pairs_room(1, 1, 4, true);
    run_expect_empty_rows_to_matter_not(room);
    run_room_free(room);
}

static void budgets_change_no_bit(void **state) {
    (void)state;
    run_room *room = busy_room();
    run_watch whole;
    int64_t steps = run_other(room, &whole).steps;
    room->s.memory.bytes = whole.least_bytes;
    (void)run_ok(room);
    run_expect_same_end(room->out.text, room->other.text, steps);
    run_remove(room->out.text);
    run_refused_below(room, whole.least_bytes);
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
        room->s.cell = i % 2 == 0 ? LM_GRU : LM_LSTM;
        room->s.attention = i % 3 == 0 ? NMT_DOT : NMT_MLP;
        room->s.layer_norm = i >= 3;
        room->s.feed = i != 1;
        room->s.tie = room->s.tie_src = i == 2 || i == 3;
        room->s.enc_layers = 1 + i % 2;
        room->s.dec_layers = 1 + i / 4;
        run_expect_stop_to_matter_not(room);
        run_room_free(room);
    }
}

/* Validation sentences longer than any of training have a program of their own. */
static void longer_sentences_to_validate_on(void **state) {
    (void)state;
    run_room *room = run_pairs_room(9, 3, 4, false);
    run_write_pairs(room->valid.text, room->valid_target.text, 3, 15, true);
    job_train_result result = run_ok(room);
    assert_true(result.valid.at[0] > 1);
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
    run_refused(room, EBB_MODEL, "vocabulary is not the one");
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
