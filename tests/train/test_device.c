/* test_device.c - training on the OpenCL device: stopped half way and gone on with, also on the
 * other device, in all memory and in the least: the end is the CPU's, bit for bit. Device bytes are
 * those planned. Without a driver it is skipped, loudly. */
#include "train/run_help.h"

static ebb_ctx *dev_ctx;
static const device *dev;

/* The run begins on one device and ends on the other; in the other folder it is the CPU's all the
 * way. */
static void expect_the_same(run_room *room, const device *first, const device *second) {
    run_watch whole, watch;
    job_train_result result;
    run_error error;
    int64_t steps = run_other(room, &whole).steps;
    room->s.dev = first;
    run_watch_init(&watch, whole.polls / 2);
    assert_int_equal(run_go(room, &watch, &result, &error), EBB_STOPPED);
    room->s.dev = second;
    result = run_ok(room);
    assert_true(result.resumed);
    assert_int_equal(result.planned_peak_bytes, result.measured_peak_bytes);
    run_expect_same_end(room->out.text, room->other.text, steps);
    assert_int_equal(dev->counts(dev).allocations, 0);
}

static void language_models(void **state) {
    (void)state;
    static const lm_cell cells[] = {LM_LSTM, LM_GRU, LM_RNN};
    for (int i = 0; i < 3; i++) {
        run_room *room = run_busy_room();
        room->s.cell = cells[i];
        room->s.optimizer = i == 1 ? UPDATE_ADAM : UPDATE_SGD;
        room->s.tie = i == 2;
        expect_the_same(room, i == 1 ? NULL : dev, i == 2 ? NULL : dev);
        run_room_free(room);
    }
}

/* Where much is computed again; one byte less is refused. */
static void in_the_least_memory(void **state) {
    (void)state;
    run_room *room = run_busy_room();
    run_watch whole, watch;
    job_train_result result;
    run_error error;
    int64_t steps = run_other(room, &whole).steps;
    room->s.dev = dev;
    room->s.memory = (train_memory){.form = MEMORY_BYTES, .bytes = 1};
    run_watch_init(&watch, -1);
    assert_int_equal(run_go(room, &watch, &result, &error), EBB_BUDGET);
    room->s.memory.bytes = watch.least_bytes - 1;
    run_watch_init(&watch, -1);
    assert_int_equal(run_go(room, &watch, &result, &error), EBB_BUDGET);
    room->s.memory.bytes = watch.least_bytes;
    result = run_ok(room);
    assert_int_equal(result.planned_peak_bytes, watch.least_bytes);
    run_expect_same_end(room->out.text, room->other.text, steps);
    run_room_free(room);
}

/* The host's bytes have a limit of their own. */
static void beside_the_device(void **state) {
    (void)state;
    run_room *room = run_busy_room();
    room->s.dev = dev;
    room->s.host_memory = (train_memory){.form = MEMORY_BYTES, .bytes = 1};
    run_refused(room, EBB_BUDGET, "--host-memory");
    run_room_free(room);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(language_models),
        cmocka_unit_test(in_the_least_memory),
        cmocka_unit_test(beside_the_device),
    };
    device_choice choice = {"opencl", NULL};
    if (ebb_ctx_new(&dev_ctx) != EBB_OK) {
        return 1;
    }
    if (ebb__device_open(dev_ctx, &choice, &dev) != EBB_OK) {
        print_message("SKIPPED: no device: %s\n", ebb_last_error(dev_ctx));
        ebb_ctx_free(dev_ctx);
        return 0;
    }
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    ebb__device_close(dev);
    ebb_ctx_free(dev_ctx);
    return failed;
}
