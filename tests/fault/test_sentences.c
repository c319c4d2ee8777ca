/* test_sentences.c - the same for language models by sentence, with batches counted in tokens, as
 * test_train.c for others: memory runs out, or the disk is full, at every possible place of a
 * training run. */
#include "fault/fault_help.h"

/* Of one shape. */
static run_room *small_room(void) {
    run_room *room = shorten(run_lines_room(4, 1, 1, true));
    room->s.batch = 0;
    room->s.batch_tokens = 4;
    return room;
}

static void sentences_without_memory(void **state) {
    (void)state;
    fail_training(small_room(), (fault){.sticky = true}, 0);
}

static void sentences_on_a_full_disk(void **state) {
    (void)state;
    fail_training(small_room(), (fault){.disk = true, .error = ENOSPC}, 0);
}

static void resuming_sentences_on_a_full_disk(void **state) {
    (void)state;
    fail_training(small_room(), (fault){.disk = true, .error = ENOSPC}, 1);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sentences_without_memory),
        cmocka_unit_test(sentences_on_a_full_disk),
        cmocka_unit_test(resuming_sentences_on_a_full_disk),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
