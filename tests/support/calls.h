/* calls.h - what a function does to files, as the system sees it: it runs in a child whose system
 * calls are recorded (ptrace), with the bytes that it writes. Only calls that succeeded are kept.
 */
#ifndef TESTS_SUPPORT_CALLS_H
#define TESTS_SUPPORT_CALLS_H

#include <fcntl.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#ifndef PTRACE_GET_SYSCALL_INFO
#error "a C library of 2020 or later is needed"
#endif

typedef enum call_kind {
    CALL_OPEN, /* fd, path, flags */
    CALL_CLOSE,
    CALL_WRITE, /* fd, data: all of it was taken */
    CALL_TRUNCATE,
    CALL_SYNC,
    CALL_RENAME, /* path, to */
    CALL_LINK,
    CALL_UNLINK, /* path */
    CALL_MKDIR
} call_kind;

typedef struct call {
    call_kind kind;
    int fd, flags;
    char path[256], to[256];
    char *data;
    size_t bytes; /* of data; of a file that is truncated */
} call;

typedef struct call_list {
    call *at;
    size_t n, room;
} call_list;

typedef struct __ptrace_syscall_info call_info;

/* Whether the system lets a process record another. */
static inline bool calls_allowed(void) {
    pid_t child = fork();
    int how = 0;
    if (child == 0) {
        _exit(ptrace(PTRACE_TRACEME, 0, NULL, NULL) == 0 ? 0 : 1);
    }
    return child > 0 && waitpid(child, &how, 0) == child && WIFEXITED(how) && WEXITSTATUS(how) == 0;
}

/* ---- the child's memory ---- */

static inline size_t calls_peek(pid_t child, uint64_t address, void *to, size_t bytes) {
    struct iovec here = {to, bytes}, there = {(void *)(uintptr_t)address, bytes};
    ssize_t got = process_vm_readv(child, &here, 1, &there, 1, 0);
    return got > 0 ? (size_t)got : 0;
}

/* A path of the child; one that starts at a descriptor is made whole. */
static inline void calls_peek_path(pid_t child, int dir, uint64_t address, char out[256]) {
    char name[256] = "", link[64], base[128] = "";
    /* A page may end behind the string. */
    for (size_t i = 0; i + 1 < sizeof name && calls_peek(child, address + i, &name[i], 1) == 1;
         i++) {
        if (name[i] == '\0') {
            break;
        }
    }
    name[sizeof name - 1] = '\0';
    if (name[0] != '/' && dir != AT_FDCWD) {
        (void)snprintf(link, sizeof link, "/proc/%d/fd/%d", (int)child, dir);
        ssize_t n = readlink(link, base, sizeof base - 2);
        assert_true(n > 0);
        base[n] = '/';
        base[n + 1] = '\0';
    }
    int n = snprintf(out, 256, "%s%s", base, name);
    assert_in_range(n, 1, 255);
}

/* ---- the list ---- */

static inline call *calls_add(call_list *list, call_kind kind) {
    if (list->n == list->room) {
        list->room = list->room > 0 ? 2 * list->room : 256;
        list->at = realloc(list->at, list->room * sizeof *list->at);
        assert_non_null(list->at);
    }
    call *c = &list->at[list->n++];
    *c = (call){.kind = kind, .fd = -1};
    return c;
}

static inline void calls_free(call_list *list) {
    for (size_t i = 0; i < list->n; i++) {
        free(list->at[i].data);
    }
    free(list->at);
    *list = (call_list){0};
}

static inline void calls_add_fd(call_list *list, call_kind kind, uint64_t fd, uint64_t bytes) {
    call *c = calls_add(list, kind);
    c->fd = (int)fd;
    c->bytes = (size_t)bytes;
}

static inline void calls_add_write(call_list *list, pid_t child, uint64_t fd, uint64_t address,
                                   int64_t done) {
    calls_add_fd(list, CALL_WRITE, fd, (uint64_t)done);
    call *c = &list->at[list->n - 1];
    c->data = malloc(c->bytes + 1);
    assert_non_null(c->data);
    assert_int_equal(calls_peek(child, address, c->data, c->bytes), c->bytes);
}

static inline void calls_add_open(call_list *list, pid_t child, const uint64_t *args, int64_t fd) {
    call *c = calls_add(list, CALL_OPEN);
    c->fd = (int)fd;
    c->flags = (int)args[2];
    calls_peek_path(child, (int)args[0], args[1], c->path);
}

static inline void calls_add_path(call_list *list, call_kind kind, pid_t child, int dir,
                                  uint64_t path) {
    calls_peek_path(child, dir, path, calls_add(list, kind)->path);
}

static inline void calls_add_paths(call_list *list, call_kind kind, pid_t child,
                                   const uint64_t *at) {
    call *c = calls_add(list, kind); /* at: folder, path, folder, path */
    calls_peek_path(child, (int)at[0], at[1], c->path);
    calls_peek_path(child, (int)at[2], at[3], c->to);
}

/* One call that succeeded with `result`. */
static inline void calls_note(call_list *list, pid_t child, uint64_t nr, const uint64_t *args,
                              int64_t result) {
    const uint64_t here = (uint64_t)AT_FDCWD;
    const uint64_t pair[] = {here, args[0], here, args[1]};
    switch (nr) {
    case SYS_openat:
        calls_add_open(list, child, args, result);
        break;
    case SYS_close:
        calls_add_fd(list, CALL_CLOSE, args[0], 0);
        break;
    case SYS_write:
        calls_add_write(list, child, args[0], args[1], result);
        break;
    case SYS_ftruncate:
        calls_add_fd(list, CALL_TRUNCATE, args[0], args[1]);
        break;
    case SYS_fsync:
        calls_add_fd(list, CALL_SYNC, args[0], 0);
        break;
    case SYS_mkdirat:
        calls_add_path(list, CALL_MKDIR, child, (int)args[0], args[1]);
        break;
    case SYS_unlinkat:
        calls_add_path(list, CALL_UNLINK, child, (int)args[0], args[1]);
        break;
    case SYS_linkat:
        calls_add_paths(list, CALL_LINK, child, args);
        break;
    case SYS_renameat2:
        calls_add_paths(list, CALL_RENAME, child, args);
        break;
#ifdef SYS_renameat
    case SYS_renameat:
        calls_add_paths(list, CALL_RENAME, child, args);
        break;
#endif
#ifdef SYS_rename /* processors with the old calls have all of them */
    case SYS_rename:
        calls_add_paths(list, CALL_RENAME, child, pair);
        break;
    case SYS_link:
        calls_add_paths(list, CALL_LINK, child, pair);
        break;
    case SYS_mkdir:
        calls_add_path(list, CALL_MKDIR, child, AT_FDCWD, args[0]);
        break;
    case SYS_unlink:
        calls_add_path(list, CALL_UNLINK, child, AT_FDCWD, args[0]);
        break;
    case SYS_open:
        fail_msg("a call that is not recorded");
        break;
#endif
    case SYS_pwrite64:
    case SYS_writev:
    case SYS_fdatasync:
        fail_msg("a call that is not recorded");
        break;
    default:
        break;
    }
    (void)pair;
}

/* ---- the child ---- */

static inline pid_t calls_begin(int (*run)(void *user), void *user) {
    pid_t child = fork();
    int how;
    assert_true(child >= 0);
    if (child == 0) {
        if (ptrace(PTRACE_TRACEME, 0, NULL, NULL) != 0) {
            _exit(126);
        }
        raise(SIGSTOP);
        _exit(run(user));
    }
    assert_int_equal(waitpid(child, &how, 0), child);
    assert_true(WIFSTOPPED(how));
    assert_int_equal(ptrace(PTRACE_SETOPTIONS, child, NULL, PTRACE_O_TRACESYSGOOD), 0);
    return child;
}

/* Runs it in a child, which must not start threads; gives what it returned, or -1 if it was killed.
 */
static inline int calls_record(int (*run)(void *user), void *user, call_list *out) {
    pid_t child = calls_begin(run, user);
    call_info info = {0}, entered = {0};
    int how = 0, signal = 0;
    for (;;) {
        assert_int_equal(ptrace(PTRACE_SYSCALL, child, NULL, signal), 0);
        assert_int_equal(waitpid(child, &how, 0), child);
        if (!WIFSTOPPED(how)) {
            return WIFEXITED(how) ? WEXITSTATUS(how) : -1;
        }
        signal = WSTOPSIG(how) == (SIGTRAP | 0x80) ? 0 : WSTOPSIG(how);
        if (signal != 0) {
            continue;
        }
        assert_true(ptrace(PTRACE_GET_SYSCALL_INFO, child, sizeof info, &info) > 0);
        if (info.op == PTRACE_SYSCALL_INFO_ENTRY) {
            entered = info;
        } else if (info.op == PTRACE_SYSCALL_INFO_EXIT && info.exit.rval >= 0) {
            calls_note(out, child, entered.entry.nr, entered.entry.args, info.exit.rval);
        }
    }
}

#endif
