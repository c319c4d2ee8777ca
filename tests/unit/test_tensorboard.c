/* test_tensorboard.c - event files: known sums, records read back, and what is left of them when a
 * run goes on from a checkpoint, starts over, or its disk fails. */
#include "support/events.h"

#include "store/tensorboard.h"

#include <errno.h>
#include <time.h>

typedef struct fixture {
    ebb_ctx *ctx;
    char dir[64];
    run_path folder, list;
} fixture;

static int setup(void **state) {
    fixture *f = calloc(1, sizeof *f);
    (void)snprintf(f->dir, sizeof f->dir, "%s/ebb-events-XXXXXX",
                   access("/dev/shm", W_OK | X_OK) == 0 ? "/dev/shm" : "/tmp");
    assert_non_null(mkdtemp(f->dir));
    f->ctx = test_ctx_new();
    f->folder = run_join(f->dir, "board");
    f->list = run_join(f->dir, "events");
    *state = f;
    return 0;
}

static int teardown(void **state) {
    fixture *f = *state;
    run_remove(f->dir);
    test_ctx_free(f->ctx);
    free(f);
    return 0;
}

static tensorboard_log open_log(const fixture *f, const tensorboard_mark *from, int64_t step) {
    tensorboard_log log;
    assert_ok(f->ctx,
              ebb__tensorboard_open(f->ctx, f->folder.text, f->list.text, from, step, &log));
    return log;
}

static void write_steps(tensorboard_log *log, int64_t from, int64_t to) {
    for (int64_t step = from; step <= to; step++) {
        tensorboard_scalar scalar = {"a", (double)step};
        assert_ok(log->ctx, ebb__tensorboard_write(log, step, &scalar, 1));
    }
}

/* Steps 1 to `last` with scalars, once each and in order. */
static void expect_steps(const fixture *f, int64_t last, int files) {
    events_seen *seen = events_of(f->folder.text);
    int64_t next = 1;
    for (int i = 0; i < seen->n; i++) {
        if (seen->at[i].n > 0) {
            assert_int_equal(seen->at[i].step, next);
            assert_true(seen->at[i].scalar[0].value == (float)next);
            next++;
        }
        if (seen->at[i].start) {
            assert_int_equal(seen->at[i].step, next);
        }
    }
    assert_int_equal(next, last + 1);
    assert_int_equal(seen->files, files);
    free(seen);
}

/* ---- records ---- */

static void known_sums(void **state) {
    (void)state;
    static const uint8_t length[8] = {24};
    static const uint8_t event[24] = {9,   0,   0,   0,   0,   0,   0,   0,   0,   26,  13,  'b',
                                      'r', 'a', 'i', 'n', '.', 'E', 'v', 'e', 'n', 't', ':', '2'};
    assert_int_equal(ebb__tensorboard_sum("123456789", 9), 0xc78ab0e5);
    assert_int_equal(ebb__tensorboard_sum(length, 8), 0x224b7fa3);
    assert_int_equal(ebb__tensorboard_sum(event, 24), 0xa328dfee);
    assert_int_equal(ebb__tensorboard_sum("", 0), 0xa282ead8);
    test_dice dice = {1};
    for (size_t n = 0; n < 100; n++) {
        uint8_t data[100];
        for (size_t i = 0; i < n; i++) {
            data[i] = (uint8_t)test_roll(&dice);
        }
        assert_int_equal(ebb__tensorboard_sum(data, n), event_sum(data, n));
    }
}

static void what_is_written_is_read(void **state) {
    fixture *f = *state;
    tensorboard_log log = open_log(f, &(tensorboard_mark){0}, 0);
    const tensorboard_scalar scalars[] = {{"train/loss", 0.1}, {"valid/bleu", 33.25}, {"x", -0.0}};
    time_t before = time(NULL);
    uint64_t calls = f->ctx->mem.calls;
    assert_ok(f->ctx, ebb__tensorboard_write(&log, 1, scalars, 3));
    assert_ok(f->ctx, ebb__tensorboard_write(&log, INT64_MAX, scalars + 1, 1));
    assert_ok(f->ctx,
              ebb__tensorboard_write(&log, 128, &(tensorboard_scalar){"n", (double)NAN}, 1));
    assert_int_equal(f->ctx->mem.calls, calls);
    events_seen *seen = events_of(f->folder.text);
    assert_int_equal(seen->n, 5);
    assert_true(seen->at[0].step == 0 && seen->at[1].step == 1);
    const event_seen *e = &seen->at[2];
    assert_true(e->step == 1 && e->n == 3 && e->seconds >= (double)before - 1 &&
                e->seconds < (double)before + 100);
    assert_string_equal(e->scalar[0].tag, "train/loss");
    assert_true(e->scalar[0].value == 0.1F && e->scalar[1].value == 33.25F);
    assert_true(signbit(e->scalar[2].value));
    assert_true(seen->at[3].step == INT64_MAX && seen->at[3].n == 1);
    assert_string_equal(seen->at[3].scalar[0].tag, "valid/bleu");
    assert_true(seen->at[4].step == 128 && isnan(seen->at[4].scalar[0].value));
    free(seen);

    struct stat info;
    assert_int_equal(stat(log.path, &info), 0);
    assert_int_equal(info.st_size, log.mark.bytes);
    char tag[1100];
    memset(tag, 't', sizeof tag);
    tag[sizeof tag - 1] = '\0';
    for (size_t n = 900; n < sizeof tag; n++) { /* too long a tag for the event, the summary, ... */
        tensorboard_scalar scalar = {tag + (sizeof tag - 1 - n), 1};
        ebb_status status = ebb__tensorboard_write(&log, 2, &scalar, 1);
        assert_true(status == (n <= 983 ? EBB_OK : EBB_USAGE));
        ebb__ctx_clear(f->ctx);
    }
    ebb__tensorboard_close(&log);
    ebb__tensorboard_close(&log);
}

static void name_of_a_file(void **state) {
    fixture *f = *state;
    tensorboard_log log = open_log(f, &(tensorboard_mark){0}, 0);
    long long seconds = 0, pid = 0, number = -1;
    char host[65] = "";
    assert_int_equal(sscanf(log.mark.name, "events.out.tfevents.%lld.%64[^.]", &seconds, host), 2);
    const char *tail = strrchr(log.mark.name, '.');
    number = strtoll(tail + 1, NULL, 10);
    while (*--tail != '.') {
    }
    pid = strtoll(tail + 1, NULL, 10);
    assert_true(seconds > 1600000000 && pid == getpid() && number == 0 && host[0] != '\0');
    ebb__tensorboard_close(&log);
}

/* ---- going on ---- */

static void a_run_stopped_at_its_checkpoint_goes_on_in_its_file(void **state) {
    fixture *f = *state;
    tensorboard_mark mark = {0};
    for (int64_t step = 0; step < 30; step += 10) {
        tensorboard_log log = open_log(f, &mark, step);
        write_steps(&log, step + 1, step + 10);
        assert_ok(f->ctx, ebb__tensorboard_sync(&log));
        mark = log.mark;
        ebb__tensorboard_close(&log);
    }
    expect_steps(f, 30, 1);
}

/* Killed after any number of steps beyond the checkpoint, with or without a new one in between. */
static void a_killed_run_leaves_no_step_twice(void **state) {
    fixture *f = *state;
    test_dice dice = {5};
    tensorboard_mark mark = {0};
    int64_t saved = 0;
    int kills = 0;
    for (; saved < 100; kills++) {
        tensorboard_log log = open_log(f, &mark, saved);
        int64_t to = saved + test_below(&dice, 12);
        if (test_below(&dice, 2) == 0) {
            write_steps(&log, saved + 1, to);
            mark = log.mark;
            saved = to;
        }
        write_steps(&log, saved + 1, saved + test_below(&dice, 5));
        if (test_below(&dice, 3) == 0) { /* torn */
            assert_int_equal(write(log.fd, "abcdefghijk", 11), 11);
        }
        ebb__tensorboard_close(&log);
    }
    tensorboard_log log = open_log(f, &mark, saved);
    write_steps(&log, saved + 1, saved + 1);
    ebb__tensorboard_close(&log);
    events_seen *seen = events_of(f->folder.text);
    assert_true(kills > 5 && seen->files > 2 && seen->files <= kills + 1);
    expect_steps(f, saved + 1, seen->files);
    free(seen);
}

static void a_run_that_starts_over_drops_its_files(void **state) {
    fixture *f = *state;
    run_path other = run_join(f->folder.text, "events.out.tfevents.1.someone.2.0");
    char names[4][TENSORBOARD_NAME_BYTES];
    for (int i = 0; i < 4; i++) {
        tensorboard_log log = open_log(f, &(tensorboard_mark){0}, 0);
        memcpy(names[i], log.mark.name, sizeof names[i]);
        /* Names sort by age, also within a second. */
        assert_true(i == 0 || strcmp(names[i], names[i - 1]) > 0);
        write_steps(&log, 1, i + 1);
        ebb__tensorboard_close(&log);
        expect_steps(f, i + 1, 1);
    }
    run_write(other.text, "not ours", 8);
    tensorboard_log log = open_log(f, &(tensorboard_mark){0}, 0);
    ebb__tensorboard_close(&log);
    assert_int_equal(access(other.text, F_OK), 0);
    /* The youngest is emptied, for who waits at its end, and goes with the next. */
    struct stat info;
    assert_int_equal(stat(run_join(f->folder.text, names[3]).text, &info), 0);
    assert_int_equal(info.st_size, 0);
    assert_int_equal(access(run_join(f->folder.text, names[2]).text, F_OK), -1);
}

/* Another folder, or one that was tidied: a new file, from the step on. */
static void a_missing_file_is_no_trouble(void **state) {
    fixture *f = *state;
    tensorboard_log log = open_log(f, &(tensorboard_mark){0}, 0);
    write_steps(&log, 1, 5);
    tensorboard_mark mark = log.mark;
    ebb__tensorboard_close(&log);
    run_path first = f->folder;
    f->folder = run_join(f->dir, "second");
    log = open_log(f, &mark, 5);
    assert_string_not_equal(log.mark.name, mark.name);
    write_steps(&log, 6, 7);
    mark = log.mark;
    ebb__tensorboard_close(&log);
    f->folder = first;
    expect_steps(f, 5, 1);
    log = open_log(f, &mark, 7); /* back again, without the steps in between */
    ebb__tensorboard_close(&log);
    events_seen *seen = events_of(f->folder.text);
    assert_true(seen->files == 2 && seen->at[seen->n - 1].start && seen->at[seen->n - 1].step == 8);
    free(seen);
    /* Shorter than the checkpoint says: what there is stays. */
    assert_int_equal(truncate(run_join(f->folder.text, log.mark.name).text, 40), 0);
    mark = log.mark;
    log = open_log(f, &mark, 7);
    assert_string_not_equal(log.mark.name, mark.name);
    ebb__tensorboard_close(&log);
}

/* Only names that the run can have given are ever removed or written to. */
static void names_in_files_are_not_trusted(void **state) {
    fixture *f = *state;
    run_path precious = run_join(f->dir, "precious");
    run_write(precious.text, "x", 1);
    static const char list[] = "../precious\nevents.out.tfevents.1/../../precious\nprecious\n\n";
    run_write(f->list.text, list, sizeof list - 1);
    tensorboard_mark marks[] = {{.name = ""},
                                {.name = "../precious", .bytes = 0},
                                {.name = "events.out.tfevents./../../precious", .bytes = 0}};
    for (size_t i = 0; i < 3; i++) {
        tensorboard_log log = open_log(f, &marks[i], 3);
        write_steps(&log, 4, 4);
        ebb__tensorboard_close(&log);
        run_bytes kept = run_read(precious.text);
        assert_string_equal(kept.data, "x");
        free(kept.data);
    }
}

/* ---- trouble ---- */

static void folders_that_cannot_be_used(void **state) {
    fixture *f = *state;
    run_path file = run_join(f->dir, "file");
    run_write(file.text, "x", 1);
    assert_ok(f->ctx, ebb__tensorboard_check(f->ctx, f->folder.text)); /* its parent is there */
    assert_int_equal(access(f->folder.text, F_OK), -1);
    assert_ok(f->ctx, ebb__tensorboard_check(f->ctx, f->dir));
    assert_ok(f->ctx, ebb__tensorboard_check(f->ctx, "board-to-be"));
    assert_ok(f->ctx, ebb__tensorboard_check(f->ctx, "/"));
    assert_ok(f->ctx, ebb__tensorboard_check(f->ctx, run_join(f->dir, "board//").text));
    assert_refused(f->ctx, ebb__tensorboard_check(f->ctx, run_join(f->dir, "no/board").text),
                   EBB_USAGE, "cannot be made");
    assert_refused(f->ctx, ebb__tensorboard_check(f->ctx, file.text), EBB_USAGE, "not a folder");
    assert_refused(f->ctx, ebb__tensorboard_check(f->ctx, run_join(file.text, "x").text), EBB_USAGE,
                   "cannot be made");
    assert_refused(f->ctx, ebb__tensorboard_check(f->ctx, ""), EBB_USAGE, "empty");
    char path[1100];
    memset(path, 'p', sizeof path);
    path[sizeof path - 1] = '\0';
    assert_refused(f->ctx, ebb__tensorboard_check(f->ctx, path), EBB_USAGE, "too long");
}

/* Leaves steps 1 to 3, marked, steps 4 to 6 behind the mark and, with `later`, a file after it. */
static tensorboard_mark leave_files(const fixture *f, bool later) {
    tensorboard_log log = open_log(f, &(tensorboard_mark){0}, 0);
    write_steps(&log, 1, 3);
    tensorboard_mark mark = log.mark;
    write_steps(&log, 4, 6);
    ebb__tensorboard_close(&log);
    if (later) {
        log = open_log(f, &mark, 3);
        write_steps(&log, 4, 5);
        ebb__tensorboard_close(&log);
    }
    return mark;
}

static bool fails_at(const fixture *f, const tensorboard_mark *mark, uint64_t place, bool disk) {
    tensorboard_log log;
    tensorboard_scalar scalar = {"a", 4};
    f->ctx->file.fail_at = disk ? place : 0;
    f->ctx->file.fail_errno = ENOSPC;
    f->ctx->mem.fail_at = disk ? 0 : place;
    ebb_status status = ebb__tensorboard_open(f->ctx, f->folder.text, f->list.text, mark, 3, &log);
    if (status == EBB_OK) {
        status = ebb__tensorboard_write(&log, 4, &scalar, 1);
    }
    ebb__tensorboard_close(&log);
    assert_true(status == EBB_OK || status == (disk ? EBB_IO : EBB_NOMEM));
    assert_true((status == EBB_OK) == (ebb_last_error(f->ctx)[0] == '\0'));
    ebb__ctx_clear(f->ctx);
    f->ctx->file.fail_at = f->ctx->mem.fail_at = 0;
    return status != EBB_OK;
}

/* Every system call and allocation of opening, with a file to cut or one to remove. */
static void failures_are_mended_by_the_next_start(void **state) {
    fixture *f = *state;
    for (int how = 0; how < 4; how++) {
        bool disk = how % 2 > 0, failed = true;
        uint64_t place = 0;
        while (failed) {
            tensorboard_mark mark = leave_files(f, how / 2 > 0);
            failed = fails_at(f, &mark, ++place, disk);
            tensorboard_log log = open_log(f, &mark, 3);
            write_steps(&log, 4, 9);
            ebb__tensorboard_close(&log);
            events_seen *seen = events_of(f->folder.text);
            expect_steps(f, 9, seen->files);
            free(seen);
        }
        assert_true(place > (disk ? 12 : 1));
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(known_sums, setup, teardown),
        cmocka_unit_test_setup_teardown(what_is_written_is_read, setup, teardown),
        cmocka_unit_test_setup_teardown(name_of_a_file, setup, teardown),
        cmocka_unit_test_setup_teardown(a_run_stopped_at_its_checkpoint_goes_on_in_its_file, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(a_killed_run_leaves_no_step_twice, setup, teardown),
        cmocka_unit_test_setup_teardown(a_run_that_starts_over_drops_its_files, setup, teardown),
        cmocka_unit_test_setup_teardown(a_missing_file_is_no_trouble, setup, teardown),
        cmocka_unit_test_setup_teardown(names_in_files_are_not_trusted, setup, teardown),
        cmocka_unit_test_setup_teardown(folders_that_cannot_be_used, setup, teardown),
        cmocka_unit_test_setup_teardown(failures_are_mended_by_the_next_start, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
