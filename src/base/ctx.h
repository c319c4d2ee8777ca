/* ctx.h - the context every fallible function takes first: error sentence, log, memory counters,
 * failure hooks. There is no global state; two contexts never meet. */
#ifndef BASE_CTX_H
#define BASE_CTX_H

#include "ebb.h"

#include <stdarg.h>
#include <stdbool.h>

struct ebb_ctx {
    /* base/alloc: live and peak bytes and calls of host memory; fail_at n > 0 makes the n-th call
     * fail (counted from when it is set), and every later one too if fail_sticky. */
    struct {
        uint64_t live_bytes, peak_bytes;
        uint64_t live_blocks;
        uint64_t calls;
        uint64_t fail_at;
        bool fail_sticky;
        uint64_t most;             /* live bytes beyond which regions get no more; 0: no bound */
        bool over;                 /* one was refused for that */
        struct alloc_chunk *spare; /* what regions gave back, for the next ones; not counted */
        uint64_t spare_bytes;
    } mem;
    /* base/file: every system call that may fail counts as one operation; fail_at as above, failing
     * with errno fail_errno (ENOSPC, EIO). */
    struct {
        uint64_t ops;
        uint64_t fail_at;
        int fail_errno;
    } file;
    ebb_log_fn log;
    void *log_user;
    ebb_progress_fn progress;
    void *progress_user;
    /* Asked while texts are read, before a run starts: true ends that with EBB_STOPPED. NULL:
     * nobody wants to stop. */
    bool (*stop)(void *user);
    void *stop_user;
    /* Asked while a program is planned: other than 0 ends that with EBB_STOPPED; NULL: never. */
    ebb_stop_fn stop_planning;
    void *stop_planning_user;
    /* Whether it is that of the command, whose process it is. Its sentences name settings as they
     * are typed, `--batch`; those of the library as configs do, `batch`. */
    bool command;
    int input; /* descriptor of a copy of standard input (data/text_list.h); 0: there is none */
    uint64_t least_bytes; /* of what failed for the budget: the least that works; 0: not known */
    char error[1024];
};

/* Records the sentence (first failure wins until ebb__ctx_clear) and returns `status`. A setting is
 * named `--batch` in the format itself, never in what fills it: how it is said is the context's
 * matter (`command`). The same holds for ebb__log. */
ebb_status ebb__fail(ebb_ctx *ctx, ebb_status status, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
#if defined(__clang_analyzer__)
/* The analyser sees one file at a time: tell it that a failure never comes back as EBB_OK. */
#define ebb__fail(ctx, status, ...) ((void)(ctx), (status))
#endif
void ebb__ctx_clear(ebb_ctx *ctx);
/* Formats a line and hands it to the log callback, if there is one. */
void ebb__log(ebb_ctx *ctx, ebb_log_level level, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
/* EBB_STOPPED if somebody asked to stop; `path` is being read. */
ebb_status ebb__poll_stop(ebb_ctx *ctx, const char *path) EBB_MUST_CHECK;
void ebb__progress(ebb_ctx *ctx, const char *what, uint64_t done, uint64_t total);

/* Forward a failure: TRY where nothing is held, TRY_OUT where an `out:` label frees (needs a local
 * `ebb_status status`). */
#define TRY(expr)                                                                                  \
    do {                                                                                           \
        ebb_status try_status_ = (expr);                                                           \
        if (try_status_ != EBB_OK) {                                                               \
            return try_status_;                                                                    \
        }                                                                                          \
    } while (0)
#define TRY_OUT(expr)                                                                              \
    do {                                                                                           \
        status = (expr);                                                                           \
        if (status != EBB_OK) {                                                                    \
            goto out;                                                                              \
        }                                                                                          \
    } while (0)

#endif
