/* test_eval.c - memory runs out, or the disk fails, at every possible place of the evaluation of a
 * translation model, or of a language model by sentence: the right status and a sentence, nothing
 * left allocated or open, and the run's folder is what it was. */
#include "fault/fault_help.h"

static ebb_status eval_job(ebb_ctx *ctx, const run_room *room) {
    text_eval_result result;
    return ebb__nmt_measure(ctx, &room->s, room->other.text, room->valid.text,
                            room->valid_target.text, NULL, &result);
}

static ebb_status eval_lines_job(ebb_ctx *ctx, const run_room *room) {
    text_eval_result result;
    return ebb__lm_measure(ctx, &room->s, room->other.text, room->valid.text, NULL, &result);
}

/* Takes the room over. */
static void fail_each_place(run_room *room, fault_job job, fault f) {
    uint64_t failures = 0;
    bool reached = true;
    run_unbroken(room);
    run_shot before = run_look(room->other.text);
    for (f.place = 1; reached; f.place = next_place(f.place)) {
        ebb_status status;
        reached = run_faulty(room, job, &f, &status);
        failures += status != EBB_OK;
        if (f.disk) { /* what failed may be the removal of a file */
            run_restore(&before, room->other.text);
        } else {
            run_expect_untouched(&before, room->other.text);
        }
    }
    assert_true(failures > 10);
    run_forget(&before);
    run_room_free(room);
}

static void fail_evaluating(fault f) {
    run_room *pairs = shorten(run_pairs_room(4, 1, 1, true));
    pairs->s.src_len = pairs->s.tgt_len = 2;
    fail_each_place(pairs, eval_job, f);
    fail_each_place(shorten(run_lines_room(4, 1, 1, true)), eval_lines_job, f);
}

static void evaluating_without_memory(void **state) {
    (void)state;
    fail_evaluating((fault){0});
}

static void evaluating_without_memory_from_then_on(void **state) {
    (void)state;
    fail_evaluating((fault){.sticky = true});
}

static void evaluating_on_a_full_disk(void **state) {
    (void)state;
    fail_evaluating((fault){.disk = true, .error = ENOSPC});
}

static void evaluating_on_a_broken_disk(void **state) {
    (void)state;
    fail_evaluating((fault){.disk = true, .error = EIO});
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(evaluating_without_memory),
        cmocka_unit_test(evaluating_without_memory_from_then_on),
        cmocka_unit_test(evaluating_on_a_full_disk),
        cmocka_unit_test(evaluating_on_a_broken_disk),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
