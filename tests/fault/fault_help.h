/* fault_help.h - what the tests share that let memory or the disk fail, or kill the process, at
 * every possible place of a job. EBB_FAULT_FULL=1 tries every place; otherwise those after the
 * first EVERY, and the system calls, in strides. */
#ifndef TESTS_FAULT_FAULT_HELP_H
#define TESTS_FAULT_FAULT_HELP_H

#include "train/run_help.h"

#include <errno.h>
#include <signal.h>
#include <sys/ptrace.h>
#include <sys/wait.h>

enum { EVERY = 300, STRIDE = 7, STEPS = 3 };

static inline bool is_full(void) {
    return getenv("EBB_FAULT_FULL") != NULL;
}

static inline uint64_t next_place(uint64_t n) {
    return n < EVERY || is_full() ? n + 1 : n + STRIDE;
}

static inline int open_files(void) {
    struct dirent **names = NULL;
    int n = scandir("/proc/self/fd", &names, NULL, NULL);
    for (int i = 0; i < n; i++) {
        free(names[i]);
    }
    free(names);
    return n;
}

/* ---- one job under one fault ---- */

typedef ebb_status (*fault_job)(ebb_ctx *ctx, const run_room *room);

typedef struct fault {
    bool disk; /* else memory */
    bool sticky;
    int error; /* errno of the disk */
    uint64_t place;
} fault;

/* Runs the job with the fault; false if the job never came to that place. */
static inline bool run_faulty(const run_room *room, fault_job job, const fault *f,
                              ebb_status *status) {
    ebb_ctx *ctx = test_ctx_new();
    int files = open_files();
    if (f->disk) {
        ctx->file.fail_at = f->place;
        ctx->file.fail_errno = f->error;
    } else {
        ctx->mem.fail_at = f->place;
        ctx->mem.fail_sticky = f->sticky;
    }
    *status = job(ctx, room);
    bool reached = f->disk ? ctx->file.ops >= f->place : ctx->mem.calls >= f->place;
    if (*status != EBB_OK &&
        (*status != (f->disk ? EBB_IO : EBB_NOMEM) || ebb_last_error(ctx)[0] == '\0' || !reached)) {
        fail_msg("place %llu: status %d: %s", (unsigned long long)f->place, (int)*status,
                 ebb_last_error(ctx));
    }
    assert_int_equal(open_files(), files);
    test_ctx_free(ctx);
    return reached;
}

static inline ebb_status train_job(ebb_ctx *ctx, const run_room *room) {
    job_train_result result;
    return ebb__job_train(ctx, &room->s, RUN_CONFIG, room->math, NULL, &result);
}

/* Makes a run of three steps, all saved. */
static inline run_room *shorten(run_room *room) {
    room->s.vocab = 6;
    room->s.hidden = 4;
    room->s.batch = 2;
    room->s.bptt = 3;
    room->s.epochs = 0;
    room->s.steps = STEPS;
    room->s.save_every = 1;
    room->s.log_every = 1;
    room->s.momentum = 0.9;
    return room;
}

/* An unbroken run in `other`; the room's own folder is `out` again afterwards. */
static inline void run_unbroken(run_room *room) {
    room->s.out_dir = room->other.text;
    (void)run_ok(room);
    room->s.out_dir = room->out.text;
}

/* What the folder is before the fault: empty, or with a checkpoint of `step`. */
static inline void prepare(run_room *room, int64_t step) {
    run_remove(room->out.text);
    if (step > 0) {
        run_watch watch;
        job_train_result result;
        run_error error;
        run_watch_init(&watch, (int)step + 1);
        assert_int_equal(run_go(room, &watch, &result, &error), EBB_STOPPED);
        assert_int_equal(run_checkpoint(room->out.text), step);
    }
}

static inline bool same_files(const run_shot *a, const run_shot *b) {
    bool same = a->n == b->n;
    for (int i = 0; same && i < a->n; i++) {
        same =
            strcmp(a->file[i].name, b->file[i].name) == 0 &&
            a->file[i].content.bytes == b->file[i].content.bytes &&
            memcmp(a->file[i].content.data, b->file[i].content.data, a->file[i].content.bytes) == 0;
    }
    return same;
}

/* The same command after the fault ends like the unbroken run. Where the folder is what it was
 * after the fault before, the answer is known. */
static inline void expect_recovery(const run_room *room, run_shot *before) {
    run_shot now = run_look(room->out.text);
    if (is_full() || !same_files(before, &now)) {
        job_train_result result = run_ok(room);
        assert_int_equal(result.steps, STEPS);
        run_expect_same_end(room->out.text, room->other.text, STEPS);
    }
    run_forget(before);
    *before = now;
}

static inline void fail_training(run_room *room, fault f, int64_t from) {
    run_shot start = {0}, before = {0};
    uint64_t failures = 0;
    run_unbroken(room);
    prepare(room, from);
    if (from > 0) {
        start = run_look(room->out.text);
    }
    bool reached = true;
    for (f.place = 1; reached; f.place = next_place(f.place)) {
        ebb_status status;
        if (from > 0) {
            run_restore(&start, room->out.text);
        } else {
            run_remove(room->out.text);
        }
        reached = run_faulty(room, train_job, &f, &status);
        failures += status != EBB_OK;
        assert_true(reached || status == EBB_OK);
        if (from > 0) {
            assert_true(run_checkpoint(room->out.text) >= from);
        }
        expect_recovery(room, &before);
    }
    assert_true(failures > 50);
    run_forget(&before);
    run_forget(&start);
    run_room_free(room);
}

/* ---- kills ---- */

/* Trains in a child that is killed at its n-th stop at a system call; true if it ended before. */
static inline bool killed_at(const run_room *room, int n) {
    pid_t child = fork();
    int how = 0;
    assert_int_not_equal(child, -1);
    if (child == 0) {
        ebb_ctx *ctx = NULL;
        if (ebb_ctx_new(&ctx) != EBB_OK || ptrace(PTRACE_TRACEME, 0, NULL, NULL) != 0) {
            _exit(100);
        }
        (void)raise(SIGSTOP);
        _exit((int)train_job(ctx, room));
    }
    assert_int_equal(waitpid(child, &how, 0), child);
    for (int i = 0; i < n && WIFSTOPPED(how); i++) {
        assert_int_equal(ptrace(PTRACE_SYSCALL, child, NULL, NULL), 0);
        assert_int_equal(waitpid(child, &how, 0), child);
    }
    if (WIFSTOPPED(how)) {
        (void)kill(child, SIGKILL);
        assert_int_equal(waitpid(child, &how, 0), child);
        return false;
    }
    assert_true(WIFEXITED(how));
    if (WEXITSTATUS(how) == 100) {
        skip(); /* tracing is not allowed here */
    }
    assert_int_equal(WEXITSTATUS(how), EBB_OK);
    return true;
}

static inline void kill_training(run_room *room) {
    bool ended = false;
    int kills = 0;
    run_unbroken(room);
    /* Odd: at entry, before the call has done anything. */
    for (int n = 1; !ended; n += is_full() ? 2 : 2 * STRIDE) {
        run_remove(room->out.text);
        ended = killed_at(room, n);
        kills += !ended;
        (void)run_ok(room);
        run_expect_same_end(room->out.text, room->other.text, STEPS);
    }
    assert_true(kills > 20);
    run_room_free(room);
}

#endif
