/* The team: every member runs once a run, barriers hold everyone, idle members sleep. */
#include "base/team.h"

#include <dirent.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include <cmocka.h>

enum { MOST = 64 };
static const int sizes[] = {1, 2, 3, 5, 8, 17, MOST};
enum { SIZES = sizeof sizes / sizeof sizes[0] };

static ebb_ctx *new_ctx(void) {
    ebb_ctx *ctx;
    assert_int_equal(ebb_ctx_new(&ctx), EBB_OK);
    return ctx;
}

typedef struct test_job {
    base_team *team;
    int runs[MOST]; /* plain, not atomic: run and barrier must order them (TSan checks) */
    int rounds;
    int value[MOST];
    int wrong[MOST];
} test_job;

static void count_run(void *arg, int member, int members) {
    test_job *job = arg;
    job->wrong[member] += members != ebb__team_size(job->team);
    job->runs[member]++;
}

static void every_member_runs_once(void **state) {
    (void)state;
    ebb_ctx *ctx = new_ctx();
    for (int s = 0; s < SIZES; s++) {
        test_job job = {0};
        assert_int_equal(ebb__team_new(ctx, sizes[s], &job.team), EBB_OK);
        assert_int_equal(ebb__team_size(job.team), sizes[s]);
        uint64_t calls = ctx->mem.calls;
        for (int run = 1; run <= 50; run++) {
            ebb__team_run(job.team, count_run, &job);
            for (int m = 0; m < MOST; m++) {
                assert_int_equal(job.runs[m], m < sizes[s] ? run : 0);
                assert_int_equal(job.wrong[m], 0);
            }
        }
        assert_int_equal(ctx->mem.calls, calls);
        ebb__team_free(job.team);
    }
    assert_int_equal(ctx->mem.live_bytes, 0);
    ebb_ctx_free(ctx);
}

/* Each round: write own value, meet, read all others, meet. A barrier that lets anyone through
 * early shows as a value of the wrong round. */
static void exchange(void *arg, int member, int members) {
    test_job *job = arg;
    for (int round = 1; round <= job->rounds; round++) {
        job->value[member] = round;
        ebb__team_barrier(job->team);
        for (int m = 0; m < members; m++) {
            job->wrong[member] += job->value[m] != round;
        }
        ebb__team_barrier(job->team);
    }
}

static void barrier_holds_everyone(void **state) {
    (void)state;
    ebb_ctx *ctx = new_ctx();
    for (int s = 0; s < SIZES; s++) {
        test_job job = {.rounds = sizes[s] > 8 ? 100 : 1000};
        assert_int_equal(ebb__team_new(ctx, sizes[s], &job.team), EBB_OK);
        for (int run = 0; run < 3; run++) {
            ebb__team_run(job.team, exchange, &job);
        }
        for (int m = 0; m < sizes[s]; m++) {
            assert_int_equal(job.wrong[m], 0);
            assert_int_equal(job.value[m], job.rounds);
        }
        ebb__team_free(job.team);
    }
    ebb_ctx_free(ctx);
}

/* Threads of this process that are neither running nor ready to run, but for the caller. */
static int sleeping_threads(void) {
    int count = 0;
    DIR *tasks = opendir("/proc/self/task");
    assert_non_null(tasks);
    for (struct dirent *task = readdir(tasks); task != NULL; task = readdir(tasks)) {
        char path[300], text[512] = "";
        (void)snprintf(path, sizeof path, "/proc/self/task/%.20s/stat", task->d_name);
        FILE *file = fopen(path, "r");
        if (file != NULL) {
            size_t got = fread(text, 1, sizeof text - 1, file);
            const char *name_end = strrchr(text, ')');
            count += got > 0 && name_end != NULL && name_end[1] == ' ' && name_end[2] == 'S';
            (void)fclose(file);
        }
    }
    assert_int_equal(closedir(tasks), 0);
    return count;
}

/* Idle members must stop spinning sooner or later, and wake for the next run. */
static void idle_members_sleep_and_wake(void **state) {
    (void)state;
    ebb_ctx *ctx = new_ctx();
    for (int members = 2; members <= 4; members += 2) {
        test_job job = {0};
        int others = sleeping_threads(); /* a sanitizer may have one of its own */
        assert_int_equal(ebb__team_new(ctx, members, &job.team), EBB_OK);
        for (int run = 1; run <= 3; run++) {
            ebb__team_run(job.team, count_run, &job);
            const struct timespec nap = {.tv_nsec = 5 * 1000 * 1000};
            int tries = 0;
            while (sleeping_threads() < others + members - 1 && tries < 4000) {
                (void)nanosleep(&nap, NULL);
                tries++;
            }
            assert_true(tries < 4000);
            for (int m = 0; m < members; m++) {
                assert_int_equal(job.runs[m], run);
            }
        }
        ebb__team_free(job.team);
    }
    ebb_ctx_free(ctx);
}

static void slow_first(void *arg, int member, int members) {
    test_job *job = arg;
    if (member == job->rounds % members) {
        const struct timespec nap = {.tv_nsec = 5 * 1000 * 1000};
        (void)nanosleep(&nap, NULL);
    }
    job->value[member]++;
    ebb__team_barrier(job->team);
    for (int m = 0; m < members; m++) {
        job->wrong[member] += job->value[m] != job->value[member];
    }
    ebb__team_barrier(job->team);
}

/* The others are asleep at the barrier when the slow one comes. */
static void sleepers_wake_at_barrier(void **state) {
    (void)state;
    ebb_ctx *ctx = new_ctx();
    test_job job = {0};
    assert_int_equal(ebb__team_new(ctx, 3, &job.team), EBB_OK);
    for (job.rounds = 0; job.rounds < 12; job.rounds++) {
        ebb__team_run(job.team, slow_first, &job);
    }
    for (int m = 0; m < 3; m++) {
        assert_int_equal(job.wrong[m], 0);
        assert_int_equal(job.value[m], 12);
    }
    ebb__team_free(job.team);
    ebb_ctx_free(ctx);
}

static void bad_sizes_and_no_memory_are_refused(void **state) {
    (void)state;
    ebb_ctx *ctx = new_ctx();
    const int bad[] = {0, -1, 1025, 1 << 30};
    base_team *team;
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        assert_int_equal(ebb__team_new(ctx, bad[i], &team), EBB_USAGE);
        assert_null(team);
    }
    ctx->mem.fail_at = 1;
    assert_int_equal(ebb__team_new(ctx, 2, &team), EBB_NOMEM);
    assert_null(team);
    assert_int_equal(ctx->mem.live_bytes, 0);
    ebb__team_free(NULL);
    ebb_ctx_free(ctx);
}

static void shares_cover_exactly(void **state) {
    (void)state;
    for (int64_t count = 0; count < 200; count += 7) {
        for (int64_t grain = 1; grain <= 32; grain *= 4) {
            for (int members = 1; members <= 9; members++) {
                int64_t next = 0;
                for (int m = 0; m < members; m++) {
                    int64_t begin, end;
                    ebb__team_share(count, grain, m, members, &begin, &end);
                    assert_int_equal(begin, next);
                    assert_true(end >= begin && (begin % grain == 0 || begin == count));
                    next = end;
                }
                assert_int_equal(next, count);
            }
        }
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_member_runs_once),
        cmocka_unit_test(barrier_holds_everyone),
        cmocka_unit_test(idle_members_sleep_and_wake),
        cmocka_unit_test(sleepers_wake_at_barrier),
        cmocka_unit_test(bad_sizes_and_no_memory_are_refused),
        cmocka_unit_test(shares_cover_exactly),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
