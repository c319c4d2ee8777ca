/* file_calls.h - what the files of base/file share: the failure hook, messages, opening. Nobody
 * else includes it. */
#ifndef BASE_FILE_CALLS_H
#define BASE_FILE_CALLS_H

#include "base/file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>

enum { PATH_MOST = 1024 };

/* True (with errno set) if this operation is the one that is to fail. */
static inline bool hook(ebb_ctx *ctx) {
    ctx->file.ops++;
    if (ctx->file.fail_at == 0 || --ctx->file.fail_at > 0) {
        return false;
    }
    errno = ctx->file.fail_errno != 0 ? ctx->file.fail_errno : EIO;
    return true;
}

static inline ebb_status io_fail(ebb_ctx *ctx, const char *verb, const char *path) {
    return ebb__fail(ctx, EBB_IO, "cannot %s %s: %m", verb, path);
}

static inline ebb_status join(ebb_ctx *ctx, const char *head, const char *tail,
                              char out[PATH_MOST]) {
    int length = snprintf(out, PATH_MOST, "%s%s", head, tail);
    if (length < 0 || length >= PATH_MOST) {
        return ebb__fail(ctx, EBB_USAGE, "path too long (more than %d bytes): %.40s...",
                         PATH_MOST - 1, head);
    }
    return EBB_OK;
}

static inline ebb_status open_file(ebb_ctx *ctx, const char *path, int flags, const char *verb,
                                   int *fd) {
    *fd = -1;
    if (!hook(ctx)) {
        do {
            *fd = open(path, flags | O_CLOEXEC, 0666);
        } while (*fd < 0 && errno == EINTR);
    }
    return *fd >= 0 ? EBB_OK : io_fail(ctx, verb, path);
}

static inline ebb_status refuse_odd(ebb_ctx *ctx, const char *path, mode_t mode) {
    return ebb__fail(ctx, EBB_IO, "cannot use %s: it is %s, not a regular file", path,
                     S_ISDIR(mode)   ? "a folder"
                     : S_ISLNK(mode) ? "a link"
                                     : "a device or pipe");
}

/* Says what is in the way of a file that is to be written, before an open could wait for it or
 * follow it. Flags of the open guard the moment between. */
static inline ebb_status check_way(ebb_ctx *ctx, const char *path) {
    struct stat seen;
    return lstat(path, &seen) == 0 && !S_ISREG(seen.st_mode) ? refuse_odd(ctx, path, seen.st_mode)
                                                             : EBB_OK;
}

/* beside.c: a new, empty file beside `target`, locked until it is closed. */
ebb_status ebb__beside_create(ebb_ctx *ctx, const char *target, char beside[PATH_MOST],
                              int *fd) EBB_MUST_CHECK;
/* A second name of `from` beside `target`; *made is false, with errno, where it cannot be had. */
ebb_status ebb__beside_link(ebb_ctx *ctx, const char *from, const char *target,
                            char beside[PATH_MOST], bool *made) EBB_MUST_CHECK;

#endif
