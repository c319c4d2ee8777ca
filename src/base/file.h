/* file.h - files that are either wholly there or not: written beside, synced, renamed, folder
 * synced. Every system call passes a failure hook (ctx->file), so that tests can fail each one.
 * All errors name the path and errno's text; status EBB_IO unless said otherwise.
 *
 * What is created is new: never an open of what another put there, never through a link. What
 * stands in the way and is no regular file is refused at once. */
#ifndef BASE_FILE_H
#define BASE_FILE_H

#include "base/ctx.h"

/* Replacing writer: bytes go to a new file beside, whose name nobody can guess; commit makes them
 * <path>; abandon removes them. */
typedef struct file_writer {
    ebb_ctx *ctx;
    int fd; /* may be read too */
    uint64_t written;
    char path[1024];
    char beside[1024];
} file_writer;

/* Also removes what killed writers of the same path left beside it. */
ebb_status ebb__file_create(ebb_ctx *ctx, const char *path, file_writer *out) EBB_MUST_CHECK;
ebb_status ebb__file_write(file_writer *writer, const void *data, size_t bytes) EBB_MUST_CHECK;
ebb_status ebb__file_commit(file_writer *writer) EBB_MUST_CHECK;
void ebb__file_abandon(file_writer *writer); /* safe after commit or failed create */
/* A file without a name, in the folder of `path` or, if that cannot be written, in /tmp: gone with
 * its descriptor, so abandon is all that is to be done with it. `path` is for messages. */
ebb_status ebb__file_create_unnamed(ebb_ctx *ctx, const char *path,
                                    file_writer *out) EBB_MUST_CHECK;
/* The same in `folder` and nowhere else, with room for so many bytes: writing to it finds no full
 * disk. */
ebb_status ebb__file_create_scratch(ebb_ctx *ctx, const char *folder, uint64_t bytes,
                                    file_writer *out) EBB_MUST_CHECK;
/* Where to write what a user names: what a link leads to is meant, not the link. */
ebb_status ebb__file_follow(ebb_ctx *ctx, const char *path, char out[1024]) EBB_MUST_CHECK;
/* Removes from the folder what killed writers left beside their targets, or beside `name` only if
 * that is not NULL. Best effort: what is in use, or cannot be removed, stays. */
void ebb__file_sweep(const char *dir, const char *name);

/* Plain descriptors: read-only open, exact pread, append-mode log. */
ebb_status ebb__file_open(ebb_ctx *ctx, const char *path, int *fd, uint64_t *bytes) EBB_MUST_CHECK;
/* Reads exactly `bytes` at `offset`; EBB_IO if the file ends before. */
ebb_status ebb__file_pread(ebb_ctx *ctx, int fd, const char *path, void *data, size_t bytes,
                           uint64_t offset) EBB_MUST_CHECK;
/* Writes all of them at `offset`. */
ebb_status ebb__file_pwrite(ebb_ctx *ctx, int fd, const char *path, const void *data, size_t bytes,
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
/* Whether the open file still has a name: what is written to a removed one is lost. */
ebb_status ebb__file_named(ebb_ctx *ctx, int fd, const char *path) EBB_MUST_CHECK;
void ebb__file_close(int fd); /* ignores -1 */

bool ebb__file_exists(const char *path);
/* "folder/name" into `out`, which has room for so many bytes; EBB_USAGE if that is too long. */
ebb_status ebb__file_join(ebb_ctx *ctx, const char *folder, const char *name, char *out,
                          size_t bytes) EBB_MUST_CHECK;
ebb_status ebb__file_make_dir(ebb_ctx *ctx,
                              const char *path) EBB_MUST_CHECK; /* parents too; existing is fine */
ebb_status ebb__file_remove(ebb_ctx *ctx, const char *path) EBB_MUST_CHECK; /* absent is fine */
ebb_status ebb__file_rename(ebb_ctx *ctx, const char *from,
                            const char *to) EBB_MUST_CHECK; /* folder synced */
/* Makes `to` a second name of the bytes of `from` (hard link, else a synced copy), replacing `to`
 * atomically. */
ebb_status ebb__file_link(ebb_ctx *ctx, const char *from, const char *to) EBB_MUST_CHECK;
/* Exclusive lock on a folder: on itself where the file system can do that, and on "<dir>/lock".
 * EBB_USAGE with a clear sentence if another process holds it. */
typedef struct file_lock {
    int folder, file; /* -1: not open */
    bool on_folder;   /* else the file alone holds others off */
} file_lock;

#define FILE_UNLOCKED ((file_lock){-1, -1, false})
ebb_status ebb__file_lock_dir(ebb_ctx *ctx, const char *dir, file_lock *out) EBB_MUST_CHECK;
/* Whether `dir` is still the folder that was locked, and nobody else can have locked it since. */
ebb_status ebb__file_lock_check(ebb_ctx *ctx, const char *dir,
                                const file_lock *lock) EBB_MUST_CHECK;
void ebb__file_unlock(file_lock *lock); /* safe where nothing is locked */
/* Whole small file as a NUL-terminated string, at most `limit` bytes (EBB_DATA above). Caller frees
 * with ebb__free. */
ebb_status ebb__file_read_all(ebb_ctx *ctx, const char *path, size_t limit, char **out,
                              size_t *bytes) EBB_MUST_CHECK;

#endif
