/* test_train.c - memory runs out, or the disk fails, at every possible place of a whole training
 * run, of an evaluation, of text generation and of planning: each time the right status and a
 * sentence, nothing left allocated or open, the checkpoint before still whole, and the same command
 * afterwards ends with the same bits as an unbroken run. So it does after a kill at any system
 * call. */
#include "fault/fault_help.h"

static run_room *small_room(void) {
    return shorten(run_room_new(4, 1));
}

static void training_without_memory(void **state) {
    (void)state;
    fail_training(small_room(), (fault){0}, 0);
}

static void training_without_memory_from_then_on(void **state) {
    (void)state;
    fail_training(small_room(), (fault){.sticky = true}, 0);
}

static void resuming_without_memory(void **state) {
    (void)state;
    fail_training(small_room(), (fault){.sticky = true}, 1);
}

static void training_on_a_full_disk(void **state) {
    (void)state;
    fail_training(small_room(), (fault){.disk = true, .error = ENOSPC}, 0);
}

static void training_on_a_broken_disk(void **state) {
    (void)state;
    fail_training(small_room(), (fault){.disk = true, .error = EIO}, 0);
}

static void resuming_on_a_full_disk(void **state) {
    (void)state;
    fail_training(small_room(), (fault){.disk = true, .error = ENOSPC}, 1);
}

static void resuming_on_a_broken_disk(void **state) {
    (void)state;
    fail_training(small_room(), (fault){.disk = true, .error = EIO}, 1);
}

static void training_killed(void **state) {
    (void)state;
    kill_training(small_room());
}

/* ---- using the model ---- */

static ebb_status eval_job(ebb_ctx *ctx, const run_room *room) {
    text_eval_result result;
    return ebb__lm_measure(ctx, &room->s, room->other.text, room->valid.text, NULL, &result);
}

static bool ignore_text(void *user, const char *text, size_t bytes) {
    (void)text;
    *(size_t *)user += bytes;
    return true;
}

static ebb_status generate_job(ebb_ctx *ctx, const run_room *room) {
    size_t written = 0;
    generate_options options = {.tokens = 5, .temperature = 1, .prompt = "the dog"};
    ebb_status status =
        ebb__job_generate(ctx, &room->s, room->other.text, &options, ignore_text, &written);
    assert_true((status == EBB_OK) == (written > 0));
    return status;
}

static ebb_status plan_job(ebb_ctx *ctx, const run_room *room) {
    ebb_plan *plan = NULL;
    ebb_status status = ebb__job_plan(ctx, &room->s, &plan);
    assert_true((status == EBB_OK) == (plan != NULL));
    ebb__plan_free(plan);
    return status;
}

static ebb_status bench_job(ebb_ctx *ctx, const run_room *room) {
    job_bench_result result;
    return ebb__job_bench(ctx, &room->s, 2, &result);
}

static void fail_job(fault_job job, bool has_files) {
    run_room *room = small_room();
    const fault faults[] = {
        {0}, {.sticky = true}, {.disk = true, .error = EIO}, {.disk = true, .error = ENOSPC}};
    run_unbroken(room);
    run_path tokens = run_join(room->other.text, "eval.tokens");
    for (size_t i = 0; i < (has_files ? 4U : 2U); i++) {
        fault f = faults[i];
        uint64_t failures = 0;
        bool reached = true;
        for (f.place = 1; reached; f.place = next_place(f.place)) {
            ebb_status status;
            (void)unlink(tokens.text);
            reached = run_faulty(room, job, &f, &status);
            failures += status != EBB_OK;
        }
        assert_true(failures > 2);
    }
    run_room_free(room);
}

static void evaluating(void **state) {
    (void)state;
    fail_job(eval_job, true);
}

static void generating(void **state) {
    (void)state;
    fail_job(generate_job, true);
}

static void planning(void **state) {
    (void)state;
    fail_job(plan_job, true);
}

static void benchmarking(void **state) {
    (void)state;
    fail_job(bench_job, false);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(training_without_memory),
        cmocka_unit_test(training_without_memory_from_then_on),
        cmocka_unit_test(resuming_without_memory),
        cmocka_unit_test(training_on_a_full_disk),
        cmocka_unit_test(training_on_a_broken_disk),
        cmocka_unit_test(resuming_on_a_full_disk),
        cmocka_unit_test(resuming_on_a_broken_disk),
        cmocka_unit_test(training_killed),
        cmocka_unit_test(evaluating),
        cmocka_unit_test(generating),
        cmocka_unit_test(planning),
        cmocka_unit_test(benchmarking),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
