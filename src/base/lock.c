/* lock.c - one writer a folder: see file.h.
 *
 * The folder itself is locked, so that no file needs to stay for the lock to hold. Some file
 * systems (NFS) lock only what can be written; there the file "lock" has to do, and who saves asks
 * first whether it is still the same. The file is locked everywhere. */
#include "base/file_calls.h"

#include <sys/file.h>
#include <unistd.h>

/* A lock file says later that the folder is ours: it must not be the one name that a power cut
 * takes. */
static ebb_status sync_new(ebb_ctx *ctx, const char *dir, const file_lock *lock) {
    return hook(ctx) || (fsync(lock->folder) != 0 && errno != EINVAL)
               ? io_fail(ctx, "sync folder", dir)
               : EBB_OK;
}

static ebb_status open_both(ebb_ctx *ctx, const char *dir, const char *path, file_lock *out) {
    struct stat info;
    bool fresh = lstat(path, &info) != 0;
    TRY(open_file(ctx, dir, O_RDONLY | O_DIRECTORY, "open folder", &out->folder));
    TRY(check_way(ctx, path));
    TRY(open_file(ctx, path, O_RDWR | O_CREAT | O_NOFOLLOW | O_NONBLOCK, "create", &out->file));
    if (fstat(out->file, &info) != 0) {
        return io_fail(ctx, "examine", path);
    }
    if (!S_ISREG(info.st_mode)) {
        return refuse_odd(ctx, path, info.st_mode);
    }
    return fresh ? sync_new(ctx, dir, out) : EBB_OK;
}

static ebb_status lock_both(ebb_ctx *ctx, const char *dir, const char *path, file_lock *lock) {
    lock->on_folder = flock(lock->folder, LOCK_EX | LOCK_NB) == 0;
    bool taken = !lock->on_folder && errno == EWOULDBLOCK;
    if (!taken && !hook(ctx) && flock(lock->file, LOCK_EX | LOCK_NB) == 0) {
        return EBB_OK;
    }
    return taken || errno == EWOULDBLOCK
               ? ebb__fail(ctx, EBB_USAGE,
                           "%s is in use by another process; wait for it or name another folder",
                           dir)
               : io_fail(ctx, "lock", path);
}

ebb_status ebb__file_lock_dir(ebb_ctx *ctx, const char *dir, file_lock *out) {
    char path[PATH_MOST];
    *out = FILE_UNLOCKED;
    TRY(join(ctx, dir, "/lock", path));
    ebb_status status = open_both(ctx, dir, path, out);
    if (status == EBB_OK) {
        status = lock_both(ctx, dir, path, out);
    }
    if (status != EBB_OK) {
        ebb__file_unlock(out);
    }
    return status;
}

static bool is_still(int fd, const char *path) {
    struct stat held, now;
    return fstat(fd, &held) == 0 && stat(path, &now) == 0 && held.st_dev == now.st_dev &&
           held.st_ino == now.st_ino;
}

ebb_status ebb__file_lock_check(ebb_ctx *ctx, const char *dir, const file_lock *lock) {
    char path[PATH_MOST];
    TRY(join(ctx, dir, "/lock", path));
    if (!is_still(lock->folder, dir)) {
        return ebb__fail(ctx, EBB_IO,
                         "%s: the folder was removed or replaced while it was in use; what was not "
                         "saved elsewhere is lost",
                         dir);
    }
    return lock->on_folder || is_still(lock->file, path)
               ? EBB_OK
               : ebb__fail(ctx, EBB_IO,
                           "%s was removed while the folder was in use: another process may write "
                           "there",
                           path);
}

void ebb__file_unlock(file_lock *lock) {
    ebb__file_close(lock->file);
    ebb__file_close(lock->folder);
    *lock = FILE_UNLOCKED;
}
