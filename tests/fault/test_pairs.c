/* test_pairs.c - the same for translation models as test_train.c for language models: memory runs
 * out, the disk is full, or the process is killed, at every possible place of a training run. */
#include "fault/fault_help.h"

/* A translation model of one shape. */
static run_room *small_room(void) {
    run_room *room = shorten(run_pairs_room(4, 1, 1, true));
    room->s.src_len = room->s.tgt_len = 2;
    return room;
}

static void pairs_without_memory(void **state) {
    (void)state;
    fail_training(small_room(), (fault){.sticky = true}, 0);
}

static void pairs_on_a_full_disk(void **state) {
    (void)state;
    fail_training(small_room(), (fault){.disk = true, .error = ENOSPC}, 0);
}

static void resuming_pairs_on_a_full_disk(void **state) {
    (void)state;
    fail_training(small_room(), (fault){.disk = true, .error = ENOSPC}, 1);
}

static void pairs_killed(void **state) {
    (void)state;
    kill_training(small_room());
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(pairs_without_memory),
        cmocka_unit_test(pairs_on_a_full_disk),
        cmocka_unit_test(resuming_pairs_on_a_full_disk),
        cmocka_unit_test(pairs_killed),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
