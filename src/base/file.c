/* file.c - whole-file replacement, plain descriptors, folders and names; locks are in lock.c, and
 * how files beside are named, made and swept in beside.c.
 *
 * A replaced file is written beside, synced, renamed over the old one, and its folder synced: at
 * any instant <path> is the old bytes or the new ones. Up to and including the rename a failure
 * leaves the old file and nothing beside; if only the last sync of the folder fails, the new file
 * is in place but may not survive a power cut, and that is reported too.
 *
 * Every system call that may fail passes hook(), which tests use to fail the n-th. */
#include "base/file_calls.h"

#include "base/alloc.h"

#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { COPY_BYTES = 32 << 10 };

/* ---- descriptors ------------------------------------------------------------------------------
 */

static ebb_status stat_file(ebb_ctx *ctx, int fd, const char *path, uint64_t *bytes) {
    struct stat info;
    if (hook(ctx) || fstat(fd, &info) != 0) {
        return io_fail(ctx, "examine", path);
    }
    if (!S_ISREG(info.st_mode)) {
        return refuse_odd(ctx, path, info.st_mode);
    }
    if (bytes != NULL) {
        *bytes = (uint64_t)info.st_size;
    }
    return EBB_OK;
}

static ebb_status folder_of(ebb_ctx *ctx, const char *path, char folder[PATH_MOST]) {
    TRY(join(ctx, path, "", folder));
    char *slash = strrchr(folder, '/');
    if (slash == NULL) {
        (void)snprintf(folder, PATH_MOST, ".");
    } else {
        slash[slash == folder] = '\0'; /* keep the slash of "/name" */
    }
    return EBB_OK;
}

/* Makes renames and new names in the folder of `path` survive a power cut. */
static ebb_status sync_folder(ebb_ctx *ctx, const char *path) {
    char folder[PATH_MOST];
    int fd;
    TRY(folder_of(ctx, path, folder));
    TRY(open_file(ctx, folder, O_RDONLY | O_DIRECTORY, "open folder", &fd));
    ebb_status status = EBB_OK;
    /* EINVAL: this kind of file system has no such sync, and needs none. */
    if (hook(ctx) || (fsync(fd) != 0 && errno != EINVAL)) {
        status = io_fail(ctx, "sync folder", folder);
    }
    ebb__file_close(fd);
    return status;
}

void ebb__file_close(int fd) {
    if (fd >= 0) {
        (void)close(fd);
    }
}

ebb_status ebb__file_open(ebb_ctx *ctx, const char *path, int *fd, uint64_t *bytes) {
    /* Non-blocking, so that a pipe is refused below instead of waiting here for a writer. */
    TRY(open_file(ctx, path, O_RDONLY | O_NONBLOCK, "open", fd));
    ebb_status status = stat_file(ctx, *fd, path, bytes);
    if (status != EBB_OK) {
        ebb__file_close(*fd);
        *fd = -1;
    }
    return status;
}

ebb_status ebb__file_append(ebb_ctx *ctx, const char *path, int *fd, uint64_t *bytes) {
    uint64_t size;
    *fd = -1;
    TRY(check_way(ctx, path));
    TRY(open_file(ctx, path, O_WRONLY | O_CREAT | O_APPEND | O_NOFOLLOW | O_NONBLOCK, "open", fd));
    ebb_status status = stat_file(ctx, *fd, path, &size);
    if (status == EBB_OK && size == 0) {
        status = sync_folder(ctx, path); /* it may be new */
    }
    if (status != EBB_OK) {
        ebb__file_close(*fd);
        *fd = -1;
    } else if (bytes != NULL) {
        *bytes = size;
    }
    return status;
}

ebb_status ebb__file_pread(ebb_ctx *ctx, int fd, const char *path, void *data, size_t bytes,
                           uint64_t offset) {
    char *at = data;
    if (offset > INT64_MAX || bytes > INT64_MAX - offset) {
        return ebb__fail(ctx, EBB_IO, "cannot read %s: offset %llu is beyond any file", path,
                         (unsigned long long)offset);
    }
    while (bytes > 0) {
        ssize_t got = hook(ctx) ? -1 : pread(fd, at, bytes, (off_t)offset);
        if (got < 0 && errno == EINTR) {
            continue;
        }
        if (got < 0) {
            return io_fail(ctx, "read", path);
        }
        if (got == 0) {
            return ebb__fail(ctx, EBB_IO, "cannot read %s: it ends at byte %llu, %zu bytes short",
                             path, (unsigned long long)offset, bytes);
        }
        at += got;
        bytes -= (size_t)got;
        offset += (uint64_t)got;
    }
    return EBB_OK;
}

enum { WHERE_IT_STANDS = -1 };

/* All bytes, from `offset` on or where the file stands. */
static ebb_status write_all(ebb_ctx *ctx, int fd, const char *path, const char *at, size_t bytes,
                            off_t offset) {
    bool stands = offset == WHERE_IT_STANDS;
    while (bytes > 0) {
        ssize_t done = hook(ctx) ? -1
                       : stands  ? write(fd, at, bytes)
                                 : pwrite(fd, at, bytes, offset);
        if (done < 0 && errno == EINTR) {
            continue;
        }
        if (done < 0) {
            return io_fail(ctx, "write", path);
        }
        at += done;
        bytes -= (size_t)done;
        offset += stands ? 0 : done;
    }
    return EBB_OK;
}

ebb_status ebb__file_pwrite(ebb_ctx *ctx, int fd, const char *path, const void *data, size_t bytes,
                            uint64_t offset) {
    return write_all(ctx, fd, path, data, bytes, (off_t)offset);
}

ebb_status ebb__file_read(ebb_ctx *ctx, int fd, const char *path, void *data, size_t bytes,
                          size_t *got) {
    ssize_t result;
    do {
        result = hook(ctx) ? -1 : read(fd, data, bytes);
    } while (result < 0 && errno == EINTR);
    *got = result > 0 ? (size_t)result : 0;
    return result >= 0 ? EBB_OK : io_fail(ctx, "read", path);
}

ebb_status ebb__file_write_fd(ebb_ctx *ctx, int fd, const char *path, const void *data,
                              size_t bytes) {
    return write_all(ctx, fd, path, data, bytes, WHERE_IT_STANDS);
}

ebb_status ebb__file_truncate(ebb_ctx *ctx, int fd, const char *path, uint64_t bytes) {
    int result = -1;
    if (bytes > INT64_MAX) {
        errno = EFBIG;
    } else if (!hook(ctx)) {
        do {
            result = ftruncate(fd, (off_t)bytes);
        } while (result != 0 && errno == EINTR);
    }
    return result == 0 ? EBB_OK : io_fail(ctx, "truncate", path);
}

ebb_status ebb__file_sync(ebb_ctx *ctx, int fd, const char *path) {
    int result = -1;
    if (!hook(ctx)) {
        do {
            result = fsync(fd);
        } while (result != 0 && errno == EINTR);
    }
    return result == 0 ? EBB_OK : io_fail(ctx, "sync", path);
}

ebb_status ebb__file_named(ebb_ctx *ctx, int fd, const char *path) {
    struct stat info;
    if (fstat(fd, &info) != 0) {
        return io_fail(ctx, "examine", path);
    }
    return info.st_nlink > 0
               ? EBB_OK
               : ebb__fail(ctx, EBB_IO, "cannot go on with %s: it was removed while in use", path);
}

/* ---- replacing writer -------------------------------------------------------------------------
 */

ebb_status ebb__file_follow(ebb_ctx *ctx, const char *path, char out[1024]) {
    char real[PATH_MAX];
    struct stat seen;
    bool link = lstat(path, &seen) == 0 && S_ISLNK(seen.st_mode);
    if (link && realpath(path, real) == NULL) {
        return io_fail(ctx, "follow the link", path);
    }
    return join(ctx, link ? real : path, "", out);
}

ebb_status ebb__file_create(ebb_ctx *ctx, const char *path, file_writer *out) {
    char folder[PATH_MOST];
    *out = (file_writer){.ctx = ctx, .fd = -1};
    TRY(folder_of(ctx, path, folder));
    TRY(check_way(ctx, path));
    const char *slash = strrchr(path, '/');
    ebb__file_sweep(folder, slash != NULL ? slash + 1 : path);
    ebb_status status = ebb__beside_create(ctx, path, out->beside, &out->fd);
    if (status != EBB_OK) {
        out->beside[0] = '\0';
        return status;
    }
    (void)snprintf(out->path, sizeof out->path, "%s", path);
    return EBB_OK;
}

/* Without a name from the start, or where the file system cannot do that, almost. */
static int open_unnamed(ebb_ctx *ctx, const char *folder, const char *path) {
    char beside[PATH_MOST];
    int fd = open(folder, O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
    if (fd < 0 && (errno == EOPNOTSUPP || errno == EISDIR || errno == EINVAL || errno == ENOENT)) {
        if (ebb__beside_create(ctx, path, beside, &fd) == EBB_OK) {
            (void)unlink(beside);
        } else {
            int why = errno;
            ebb__ctx_clear(ctx); /* the caller says it */
            errno = why;
        }
    }
    return fd;
}

ebb_status ebb__file_create_unnamed(ebb_ctx *ctx, const char *path, file_writer *out) {
    char folder[PATH_MOST];
    *out = (file_writer){.ctx = ctx, .fd = -1};
    TRY(folder_of(ctx, path, folder));
    if (!hook(ctx)) {
        out->fd = open_unnamed(ctx, folder, path);
        if (out->fd < 0 && (errno == EACCES || errno == EROFS || errno == EPERM)) {
            out->fd = open_unnamed(ctx, "/tmp", "/tmp/scratch");
        }
    }
    if (out->fd < 0) {
        return io_fail(ctx, "create", path);
    }
    (void)snprintf(out->path, sizeof out->path, "%s", path);
    return EBB_OK;
}

/* Not by writing zeros: what a file system cannot reserve is found out as values are written. */
static int reserve(int fd, uint64_t bytes) {
    int result;
    do {
        result = bytes > INT64_MAX ? -1 : fallocate(fd, 0, 0, (off_t)bytes);
    } while (result != 0 && errno == EINTR);
    if (bytes > INT64_MAX) {
        errno = EFBIG;
    }
    return result != 0 && errno == EOPNOTSUPP ? ftruncate(fd, (off_t)bytes) : result;
}

ebb_status ebb__file_create_scratch(ebb_ctx *ctx, const char *folder, uint64_t bytes,
                                    file_writer *out) {
    char path[PATH_MOST];
    *out = (file_writer){.ctx = ctx, .fd = -1};
    TRY(join(ctx, folder, "/offloaded", path));
    out->fd = hook(ctx) ? -1 : open_unnamed(ctx, folder, path);
    if (out->fd < 0) {
        return io_fail(ctx, "create a file in", folder);
    }
    (void)snprintf(out->path, sizeof out->path, "%s", path);
    if (hook(ctx) || reserve(out->fd, bytes) != 0) {
        ebb_status status =
            ebb__fail(ctx, EBB_IO,
                      "%s has no room for %llu bytes that are to wait there: %m; give another "
                      "--disk, or more --memory",
                      folder, (unsigned long long)bytes);
        ebb__file_abandon(out);
        return status;
    }
    return EBB_OK;
}

ebb_status ebb__file_write(file_writer *writer, const void *data, size_t bytes) {
    TRY(ebb__file_write_fd(writer->ctx, writer->fd, writer->path, data, bytes));
    writer->written += bytes;
    return EBB_OK;
}

/* Sync, close, rename; the writer holds nothing afterwards if this succeeds. */
static ebb_status replace(file_writer *writer) {
    TRY(ebb__file_sync(writer->ctx, writer->fd, writer->path));
    /* Linux closes the descriptor whatever close() says, but a late write error is told here. A
     * second one keeps the lock, so that nobody takes the file for a left-over. */
    int fd = writer->fd;
    writer->fd = fcntl(fd, F_DUPFD_CLOEXEC, 0);
    if (close(fd) != 0 || hook(writer->ctx)) {
        return io_fail(writer->ctx, "close", writer->path);
    }
    if (hook(writer->ctx) || rename(writer->beside, writer->path) != 0) {
        return io_fail(writer->ctx, "replace", writer->path);
    }
    ebb__file_close(writer->fd);
    writer->fd = -1;
    return EBB_OK;
}

ebb_status ebb__file_commit(file_writer *writer) {
    char path[PATH_MOST];
    TRY(join(writer->ctx, writer->path, "", path));
    ebb_status status = replace(writer);
    if (status != EBB_OK) {
        ebb__file_abandon(writer);
        return status;
    }
    writer->path[0] = writer->beside[0] = '\0';
    return sync_folder(writer->ctx, path);
}

void ebb__file_abandon(file_writer *writer) {
    /* Best effort: what remains is swept away by the next create. */
    if (writer->beside[0] != '\0') {
        (void)unlink(writer->beside);
    }
    ebb__file_close(writer->fd);
    writer->fd = -1;
    writer->path[0] = writer->beside[0] = '\0';
}

/* ---- names ------------------------------------------------------------------------------------
 */

bool ebb__file_exists(const char *path) {
    return access(path, F_OK) == 0;
}

ebb_status ebb__file_join(ebb_ctx *ctx, const char *folder, const char *name, char *out,
                          size_t bytes) {
    int n = snprintf(out, bytes, "%s/%s", folder, name);
    return n > 0 && (size_t)n < bytes
               ? EBB_OK
               : ebb__fail(ctx, EBB_USAGE, "%.200s...: the path is too long; choose a shorter one",
                           folder);
}

static ebb_status make_one_dir(ebb_ctx *ctx, const char *path) {
    struct stat info;
    if (!hook(ctx) && mkdir(path, 0777) == 0) {
        return sync_folder(ctx, path);
    }
    if (errno != EEXIST) {
        return io_fail(ctx, "create folder", path);
    }
    if (hook(ctx) || stat(path, &info) != 0) {
        return io_fail(ctx, "examine", path);
    }
    if (!S_ISDIR(info.st_mode)) {
        errno = ENOTDIR;
        return io_fail(ctx, "create folder", path);
    }
    return EBB_OK;
}

ebb_status ebb__file_make_dir(ebb_ctx *ctx, const char *path) {
    char part[PATH_MOST];
    TRY(join(ctx, path, "", part));
    size_t length = strlen(part);
    while (length > 1 && part[length - 1] == '/') {
        part[--length] = '\0';
    }
    struct stat info;
    for (char *at = part + 1; length > 1 && *at != '\0'; at++) {
        if (*at != '/') {
            continue;
        }
        *at = '\0';
        /* A parent that is there need not be writable, so it is not even tried. */
        if (stat(part, &info) != 0 || !S_ISDIR(info.st_mode)) {
            TRY(make_one_dir(ctx, part));
        }
        *at = '/';
    }
    return make_one_dir(ctx, part);
}

ebb_status ebb__file_remove(ebb_ctx *ctx, const char *path) {
    if (hook(ctx) || (unlink(path) != 0 && errno != ENOENT)) {
        return io_fail(ctx, "remove", path);
    }
    return EBB_OK;
}

/* Length of the folder part, for telling whether two paths share it. */
static size_t folder_length(const char *path) {
    const char *slash = strrchr(path, '/');
    return slash != NULL ? (size_t)(slash - path) + 1 : 0;
}

ebb_status ebb__file_rename(ebb_ctx *ctx, const char *from, const char *to) {
    if (hook(ctx) || rename(from, to) != 0) {
        return io_fail(ctx, "replace", to);
    }
    TRY(sync_folder(ctx, to));
    size_t length = folder_length(from);
    if (length != folder_length(to) || strncmp(from, to, length) != 0) {
        TRY(sync_folder(ctx, from));
    }
    return EBB_OK;
}

static ebb_status copy_file(ebb_ctx *ctx, const char *from, const char *to) {
    char buffer[COPY_BYTES];
    file_writer writer = {.ctx = ctx, .fd = -1};
    int fd;
    size_t got;
    TRY(ebb__file_open(ctx, from, &fd, NULL));
    ebb_status status;
    TRY_OUT(ebb__file_create(ctx, to, &writer));
    do {
        TRY_OUT(ebb__file_read(ctx, fd, from, buffer, sizeof buffer, &got));
        TRY_OUT(ebb__file_write(&writer, buffer, got));
    } while (got > 0);
    TRY_OUT(ebb__file_commit(&writer));
out:
    ebb__file_abandon(&writer);
    ebb__file_close(fd);
    return status;
}

ebb_status ebb__file_link(ebb_ctx *ctx, const char *from, const char *to) {
    char beside[PATH_MOST];
    bool made;
    TRY(ebb__beside_link(ctx, from, to, beside, &made));
    if (!made) {
        bool no_links = errno == EPERM || errno == EXDEV || errno == EOPNOTSUPP ||
                        errno == ENOSYS || errno == EMLINK;
        return no_links ? copy_file(ctx, from, to) : io_fail(ctx, "link", to);
    }
    ebb_status status = ebb__file_rename(ctx, beside, to);
    /* rename() leaves both names where they already were the same file; a failure leaves ours. */
    (void)unlink(beside);
    return status;
}

ebb_status ebb__file_read_all(ebb_ctx *ctx, const char *path, size_t limit, char **out,
                              size_t *bytes) {
    uint64_t size;
    char *text = NULL;
    int fd;
    *out = NULL;
    TRY(ebb__file_open(ctx, path, &fd, &size));
    ebb_status status;
    if (size > limit || size >= SIZE_MAX) {
        status = ebb__fail(ctx, EBB_DATA, "%s has %llu bytes, more than the %zu allowed here", path,
                           (unsigned long long)size, limit);
        goto out;
    }
    TRY_OUT(ebb__alloc(ctx, (size_t)size + 1, 1, &text));
    TRY_OUT(ebb__file_pread(ctx, fd, path, text, (size_t)size, 0));
    *out = text;
    text = NULL;
    if (bytes != NULL) {
        *bytes = (size_t)size;
    }
out:
    ebb__free(ctx, text);
    ebb__file_close(fd);
    return status;
}
