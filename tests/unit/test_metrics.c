/* test_metrics.c - metrics.jsonl: what is written, and what is kept of it on resume. */
#include "store/metrics.h"

#include <errno.h>
#include <jansson.h>
#include <locale.h>
#include <math.h>
#include <setjmp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

typedef struct fixture {
    ebb_ctx *ctx;
    char dir[64], path[96];
    int warnings;
} fixture;

static void count_warning(void *user, ebb_log_level level, const char *line) {
    fixture *f = user;
    (void)line;
    f->warnings += level == EBB_LOG_WARN;
}

static int setup(void **state) {
    fixture *f = calloc(1, sizeof *f);
    if (!f) {
        return -1;
    }
    /* in memory where that can be: the tests sync and rename thousands of times */
    snprintf(f->dir, sizeof f->dir, "%s/ebb-metrics-XXXXXX",
             access("/dev/shm", W_OK) == 0 ? "/dev/shm" : "/tmp");
    if (!mkdtemp(f->dir) || ebb_ctx_new(&f->ctx) != EBB_OK) {
        return -1;
    }
    ebb_ctx_on_log(f->ctx, count_warning, f);
    snprintf(f->path, sizeof f->path, "%s/metrics.jsonl", f->dir);
    *state = f;
    return 0;
}

static int teardown(void **state) {
    fixture *f = *state;
    int leaked = f->ctx->mem.live_blocks != 0;
    unlink(f->path);
    leaked |= rmdir(f->dir) != 0; /* a temporary file left behind */
    ebb_ctx_free(f->ctx);
    free(f);
    return leaked ? -1 : 0;
}

static void put_text(const fixture *f, const char *text) {
    FILE *file = fopen(f->path, "wb");
    assert_non_null(file);
    fputs(text, file);
    fclose(file);
}

static void assert_text(const fixture *f, const char *text) {
    static char have[1 << 17];
    FILE *file = fopen(f->path, "rb");
    assert_non_null(file);
    have[fread(have, 1, sizeof have - 1, file)] = '\0';
    fclose(file);
    assert_string_equal(have, text);
}

static void write_step(metrics_log *log, int64_t step) {
    metrics_field field = METRICS_INT("step", step);
    assert_int_equal(ebb__metrics_write(log, &field, 1), EBB_OK);
}

/* Opens, appends a line of step 9, closes; the file must then be `kept` and that line. */
static void check_open(fixture *f, uint64_t keep, int64_t step, const char *kept, int warnings) {
    char want[1024];
    metrics_log log;
    f->warnings = 0;
    assert_int_equal(ebb__metrics_open(f->ctx, f->path, keep, step, &log), EBB_OK);
    assert_int_equal(log.bytes, strlen(kept));
    write_step(&log, 9);
    snprintf(want, sizeof want, "%s{\"step\":9}\n", kept);
    assert_int_equal(log.bytes, strlen(want));
    assert_int_equal(ebb__metrics_sync(&log), EBB_OK);
    ebb__metrics_close(&log);
    assert_text(f, want);
    assert_int_equal(f->warnings, warnings);
}

static void lines(void **state) {
    fixture *f = *state;
    metrics_log log;
    metrics_field fields[] = {METRICS_INT("step", 12), METRICS_INT("epoch", -1),
                              METRICS_REAL("loss", 0.1), METRICS_REAL("lr", 1e-20),
                              METRICS_REAL("words_per_second", 5.0)};
    metrics_field bad[] = {METRICS_INT("step", 13), METRICS_REAL("loss", NAN),
                           METRICS_REAL("norm", -INFINITY)};
    metrics_field infinite = METRICS_REAL("loss", -INFINITY);
    assert_int_equal(ebb__metrics_open(f->ctx, f->path, 0, 0, &log), EBB_OK);
    uint64_t calls = f->ctx->mem.calls;
    assert_int_equal(ebb__metrics_write(&log, fields, 5), EBB_OK);
    assert_int_equal(ebb__metrics_write(&log, bad, 3), EBB_OK);
    assert_int_equal(ebb__metrics_write(&log, &infinite, 1), EBB_OK);
    assert_int_equal(f->ctx->mem.calls, calls);
    ebb__metrics_close(&log);
    assert_text(f, "{\"step\":12,\"epoch\":-1,\"loss\":0.1,\"lr\":1e-20,\"words_per_second\":5}\n"
                   "{\"step\":13,\"loss\":null,\"norm\":null,\"nonfinite\":\"nan\"}\n"
                   "{\"loss\":null,\"nonfinite\":\"-inf\"}\n");
}

/* Every double reads back as itself. */
static void numbers_are_exact(void **state) {
    fixture *f = *state;
    static const double values[] = {
        1.0 / 3,  2.0 / 3 * 1e300,   5e-324, -0.0, 1.7976931348623157e308,
        123456.7, 4.6051701859880918};
    for (size_t i = 0; i < sizeof values / sizeof *values; i++) {
        metrics_log log;
        metrics_field field = METRICS_REAL("x", values[i]);
        assert_int_equal(ebb__metrics_open(f->ctx, f->path, 0, 0, &log), EBB_OK);
        assert_int_equal(ebb__metrics_write(&log, &field, 1), EBB_OK);
        ebb__metrics_close(&log);
        json_t *object = json_load_file(f->path, 0, NULL);
        double back = json_number_value(json_object_get(object, "x"));
        assert_non_null(object);
        assert_true(back == values[i]);
        json_decref(object);
    }
}

static void refused_fields(void **state) {
    fixture *f = *state;
    metrics_log log;
    metrics_field odd = METRICS_INT("a\"b", 1), none = METRICS_INT("", 1);
    metrics_field many[300];
    for (int i = 0; i < 300; i++) {
        many[i] = METRICS_INT("a_rather_long_name", i);
    }
    assert_int_equal(ebb__metrics_open(f->ctx, f->path, 0, 0, &log), EBB_OK);
    assert_int_equal(ebb__metrics_write(&log, &odd, 1), EBB_USAGE);
    assert_int_equal(ebb__metrics_write(&log, &none, 1), EBB_USAGE);
    assert_int_equal(ebb__metrics_write(&log, many, 300), EBB_USAGE);
    assert_int_equal(log.bytes, 0);
    ebb__metrics_close(&log);
    assert_text(f, "");
}

#define ONE "{\"step\":1}\n"
#define TWO "{\"step\":2,\"loss\":0.5}\n"
#define THREE "{\"step\":3}\n"

static void resume_cuts_to_the_checkpoint(void **state) {
    fixture *f = *state;
    check_open(f, 0, 0, "", 0); /* no file yet */
    put_text(f, ONE TWO THREE "{\"st");
    check_open(f, strlen(ONE TWO), 2, ONE TWO, 0);
    put_text(f, ONE TWO);
    check_open(f, strlen(ONE TWO), 2, ONE TWO, 0);
    put_text(f, ONE TWO THREE);
    check_open(f, 0, 0, "", 0); /* a fresh run */
}

static void resume_mends_what_does_not_match(void **state) {
    fixture *f = *state;
    static char longer[70000];
    put_text(f, ONE TWO); /* shorter than the checkpoint knew */
    check_open(f, strlen(ONE TWO THREE), 3, ONE TWO, 1);
    put_text(f, ONE "{\"step\":2,\"lo"); /* torn */
    check_open(f, strlen(ONE TWO), 2, ONE, 1);
    put_text(f, ONE "{\"step\":2,#loss\":0.5}\n" THREE); /* the line before the cut is damaged */
    check_open(f, strlen(ONE TWO), 3, ONE THREE, 1);
    put_text(f, ONE THREE TWO); /* the cut is inside a line */
    check_open(f, strlen(ONE) + 3, 2, ONE TWO, 1);
    put_text(f, ONE TWO THREE); /* ends with a later step than the checkpoint's */
    check_open(f, strlen(ONE TWO THREE), 2, ONE TWO, 1);
    put_text(f, "[]\n17\n" ONE "{\"step\":\"2\"}\n\n" TWO);
    check_open(f, 3, 2, ONE TWO, 1);
    memset(longer, 'x', sizeof longer - 1); /* a line longer than the buffer */
    memcpy(longer, ONE, strlen(ONE));
    memcpy(longer + sizeof longer - 1 - strlen("\n" TWO), "\n" TWO, strlen("\n" TWO));
    put_text(f, longer);
    check_open(f, 999999, 2, ONE TWO, 1);
    unlink(f->path); /* gone altogether */
    check_open(f, 100, 2, "", 0);
}

static void every_cut_of_the_file(void **state) {
    fixture *f = *state;
    const char whole[] = ONE TWO THREE;
    for (size_t n = 0; n < strlen(whole); n++) {
        char text[64];
        metrics_log log;
        memcpy(text, whole, n);
        text[n] = '\0';
        put_text(f, text);
        assert_int_equal(ebb__metrics_open(f->ctx, f->path, strlen(whole), 3, &log), EBB_OK);
        size_t kept = n < strlen(ONE) ? 0 : n < strlen(ONE TWO) ? strlen(ONE) : strlen(ONE TWO);
        assert_int_equal(log.bytes, kept);
        ebb__metrics_close(&log);
        text[kept] = '\0';
        assert_text(f, text);
    }
}

static ebb_status open_torn(fixture *f) {
    metrics_log log;
    metrics_field field = METRICS_INT("step", 4);
    ebb_status status = ebb__metrics_open(f->ctx, f->path, 999, 3, &log);
    if (status == EBB_OK) {
        status = ebb__metrics_write(&log, &field, 1);
    }
    if (status == EBB_OK) {
        status = ebb__metrics_sync(&log);
    }
    ebb__metrics_close(&log);
    return status;
}

static void every_call_fails(void **state) {
    fixture *f = *state;
    for (int kind = 0; kind < 2; kind++) {
        uint64_t n = 1;
        for (;; n++) {
            put_text(f, ONE TWO THREE "{");
            f->ctx->file.fail_at = kind ? n : 0;
            f->ctx->file.fail_errno = EIO;
            f->ctx->mem.fail_at = kind ? 0 : n;
            ebb_status status = open_torn(f);
            f->ctx->file.fail_at = f->ctx->mem.fail_at = 0;
            ebb__ctx_clear(f->ctx);
            if (status == EBB_OK) {
                break;
            }
            assert_int_equal(status, kind ? EBB_IO : EBB_NOMEM);
            assert_int_equal(f->ctx->mem.live_blocks, 0);
        }
        assert_in_range(n, kind ? 8 : 2, 60);
        assert_text(f, ONE TWO THREE "{\"step\":4}\n");
    }
}

/* A program that sets a locale with a decimal comma still writes JSON. */
static void locale_does_not_matter(void **state) {
    fixture *f = *state;
    metrics_log log;
    metrics_field field = METRICS_REAL("x", 1.5);
    bool comma = setlocale(LC_NUMERIC, "de_DE.UTF-8") || setlocale(LC_NUMERIC, "fr_FR.UTF-8");
    assert_int_equal(ebb__metrics_open(f->ctx, f->path, 0, 0, &log), EBB_OK);
    assert_int_equal(ebb__metrics_write(&log, &field, 1), EBB_OK);
    ebb__metrics_close(&log);
    setlocale(LC_NUMERIC, "C");
    assert_text(f, "{\"x\":1.5}\n");
    if (!comma) {
        print_message("no locale with a decimal comma here: tried with a point only\n");
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
#define CASE(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
        CASE(lines),
        CASE(numbers_are_exact),
        CASE(refused_fields),
        CASE(resume_cuts_to_the_checkpoint),
        CASE(resume_mends_what_does_not_match),
        CASE(every_cut_of_the_file),
        CASE(every_call_fails),
        CASE(locale_does_not_matter),
#undef CASE
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
