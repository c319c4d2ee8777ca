/* test_tune.c - memory or the disk gives out while a plan is made that measures its products first:
 * memory is reported, a disk that fails only means built-in times, and nothing is left allocated,
 * open or torn. The same for `ebb tune`, which fails where it cannot store. */
#include "kind/kinds.h"
#include "kind/text/options.h"
#include "support/graphs.h"

#include "cost/store.h"
#include "train/job.h"

#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <unistd.h>

enum { EVERY = 60, STRIDE = 29 };

static char folder[256];

static train_settings tiny(void) {
    return (train_settings){.kind = &ebb__kind_lm,
                            .vocab = 6,
                            .layers = 1,
                            .hidden = 4,
                            .batch = 2,
                            .bptt = 2,
                            .lr = 1,
                            .threads = 2,
                            .tune_folder = folder,
                            .tune_seconds = 600};
}

/* Removes the store; there must be nothing in it but one file, or none. */
static void clean(void) {
    struct dirent **names = NULL;
    int n = scandir(folder, &names, NULL, NULL), files = 0;
    for (int i = 0; i < n; i++) {
        if (names[i]->d_name[0] != '.') {
            char path[600];
            (void)snprintf(path, sizeof path, "%s/%s", folder, names[i]->d_name);
            assert_non_null(strstr(path, ".json"));
            assert_string_equal(strstr(path, ".json"), ".json");
            assert_int_equal(unlink(path), 0);
            files++;
        }
        free(names[i]);
    }
    free(names);
    (void)rmdir(folder);
    assert_true(files <= 1);
}

static int setup(void **state) {
    (void)state;
    const char *base = getenv("TMPDIR") != NULL ? getenv("TMPDIR") : "/tmp";
    (void)snprintf(folder, sizeof folder, "%s/ebb-fault-tune-%d", base, (int)getpid());
    return 0;
}

static ebb_status plan_job(ebb_ctx *ctx) {
    train_settings s = tiny();
    ebb_plan *plan = NULL;
    ebb_status status = ebb__job_plan(ctx, &s, &plan);
    assert_true((plan != NULL) == (status == EBB_OK));
    ebb__plan_free(plan);
    return status;
}

static ebb_status on_report(void *user, const job_tune_report *report) {
    (void)user;
    assert_true(report->tuned.measured > 0 && report->tuned.left == 0);
    return EBB_OK;
}

static ebb_status tune_job(ebb_ctx *ctx) {
    train_settings s = tiny();
    job_tune_observer observer = {.report = on_report};
    return ebb__job_tune(ctx, &s, 1, &observer);
}

static int warnings;
static void count(void *user, ebb_log_level level, const char *line) {
    (void)user;
    (void)line;
    warnings += level == EBB_LOG_WARN;
}

static void fail_memory(ebb_status (*job)(ebb_ctx *ctx)) {
    bool reached = true;
    for (uint64_t n = 1; reached; n += n < EVERY ? 1 : STRIDE) {
        ebb_ctx *ctx = test_ctx_new();
        ctx->mem.fail_at = n;
        ebb_status status = job(ctx);
        reached = ctx->mem.calls >= n;
        assert_true(status == EBB_OK || (status == EBB_NOMEM && reached));
        assert_true(status == EBB_OK || ebb_last_error(ctx)[0] != '\0');
        test_ctx_free(ctx);
        clean();
    }
}

static void planning_without_memory(void **state) {
    (void)state;
    fail_memory(plan_job);
}

static void tuning_without_memory(void **state) {
    (void)state;
    fail_memory(tune_job);
}

/* A plan never fails because of the store; one warning at most says what is wrong with it. */
static void planning_on_a_bad_disk(void **state) {
    (void)state;
    bool reached = true;
    int warned = 0;
    for (uint64_t n = 1; reached; n++) {
        ebb_ctx *ctx = test_ctx_new();
        ebb_ctx_on_log(ctx, count, NULL);
        ctx->file.fail_at = n;
        ctx->file.fail_errno = n % 2 ? ENOSPC : EIO;
        warnings = 0;
        assert_ok(ctx, plan_job(ctx));
        reached = ctx->file.ops >= n;
        assert_true(warnings <= 1);
        warned += warnings;
        test_ctx_free(ctx);
        clean();
    }
    assert_true(warned > 5);
}

static void tuning_on_a_bad_disk(void **state) {
    (void)state;
    bool reached = true;
    int failed = 0;
    for (uint64_t n = 1; reached; n++) {
        ebb_ctx *ctx = test_ctx_new();
        ctx->file.fail_at = n;
        ctx->file.fail_errno = EIO;
        ebb_status status = tune_job(ctx);
        reached = ctx->file.ops >= n;
        assert_true(status == EBB_OK || (status == EBB_IO && ebb_last_error(ctx)[0] != '\0'));
        failed += status != EBB_OK;
        test_ctx_free(ctx);
        clean();
    }
    assert_true(failed > 3);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(planning_without_memory), cmocka_unit_test(tuning_without_memory),
        cmocka_unit_test(planning_on_a_bad_disk), cmocka_unit_test(tuning_on_a_bad_disk)};
    return cmocka_run_group_tests(tests, setup, NULL);
}
