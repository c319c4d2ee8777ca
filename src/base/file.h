/* file.h - files that are either wholly there or not: written beside, synced, renamed, folder
 * synced. Every system call passes a failure hook (ctx->file), so that tests can fail each one.
 * All errors name the path and errno's text; status EBB_IO unless said otherwise. */
#ifndef BASE_FILE_H
#define BASE_FILE_H

#include "base/ctx.h"

/* Replacing writer: bytes go to "<path>.tmp"; commit makes them <path>; abandon removes them. */
typedef struct file_writer {
    ebb_ctx *ctx;
    int fd;
    uint64_t written;
    char path[1024];
} file_writer;

ebb_status ebb__file_create(ebb_ctx *ctx, const char *path, file_writer *out) EBB_MUST_CHECK;
ebb_status ebb__file_write(file_writer *writer, const void *data, size_t bytes) EBB_MUST_CHECK;
ebb_status ebb__file_commit(file_writer *writer) EBB_MUST_CHECK;
void ebb__file_abandon(file_writer *writer); /* safe after commit or failed create */

/* Plain descriptors: read-only open, exact pread, append-mode log. */
ebb_status ebb__file_open(ebb_ctx *ctx, const char *path, int *fd, uint64_t *bytes) EBB_MUST_CHECK;
/* Reads exactly `bytes` at `offset`; EBB_IO if the file ends before. */
ebb_status ebb__file_pread(ebb_ctx *ctx, int fd, const char *path, void *data, size_t bytes,
                           uint64_t offset) EBB_MUST_CHECK;
/* Reads up to `bytes` from the descriptor's position; *got 0 at the end. */
ebb_status ebb__file_read(ebb_ctx *ctx, int fd, const char *path, void *data, size_t bytes,
                          size_t *got) EBB_MUST_CHECK;
ebb_status ebb__file_append(ebb_ctx *ctx, const char *path, int *fd,
                            uint64_t *bytes) EBB_MUST_CHECK;
ebb_status ebb__file_write_fd(ebb_ctx *ctx, int fd, const char *path, const void *data,
                              size_t bytes) EBB_MUST_CHECK;
ebb_status ebb__file_truncate(ebb_ctx *ctx, int fd, const char *path,
                              uint64_t bytes) EBB_MUST_CHECK;
ebb_status ebb__file_sync(ebb_ctx *ctx, int fd, const char *path) EBB_MUST_CHECK;
void ebb__file_close(int fd); /* ignores -1 */

bool ebb__file_exists(const char *path);
ebb_status ebb__file_make_dir(ebb_ctx *ctx,
                              const char *path) EBB_MUST_CHECK; /* parents too; existing is fine */
ebb_status ebb__file_remove(ebb_ctx *ctx, const char *path) EBB_MUST_CHECK; /* absent is fine */
ebb_status ebb__file_rename(ebb_ctx *ctx, const char *from,
                            const char *to) EBB_MUST_CHECK; /* folder synced */
/* Makes `to` a second name of the bytes of `from` (hard link, else a synced copy), replacing `to`
 * atomically. */
ebb_status ebb__file_link(ebb_ctx *ctx, const char *from, const char *to) EBB_MUST_CHECK;
/* Exclusive lock on "<dir>/lock" until closed; EBB_USAGE with a clear sentence if another process
 * holds it. */
ebb_status ebb__file_lock_dir(ebb_ctx *ctx, const char *dir, int *fd) EBB_MUST_CHECK;
/* Whole small file as a NUL-terminated string, at most `limit` bytes (EBB_DATA above). Caller frees
 * with ebb__free. */
ebb_status ebb__file_read_all(ebb_ctx *ctx, const char *path, size_t limit, char **out,
                              size_t *bytes) EBB_MUST_CHECK;

#endif
