/* beside.c - the files that are written beside a target before they take its name.
 *
 * "<target>.ebb-<12 digits>.tmp", drawn at random and made exclusively: what lies there is never
 * opened, followed or emptied, and two writers of one target do not meet. A living writer holds a
 * lock on its file, which the system lets go with the process: a file of such a name that nobody
 * locks was left by a killed writer, and is swept away by the next one. */
#include "base/file_calls.h"

#include <dirent.h>
#include <inttypes.h>
#include <string.h>
#include <sys/file.h>
#include <sys/random.h>
#include <unistd.h>

#define MARK ".ebb-"
#define END ".tmp"
enum { DIGITS = 12, MOST_TRIES = 16 };

/* ---- names ---- */

static ebb_status draw_name(ebb_ctx *ctx, const char *target, char out[PATH_MOST]) {
    uint64_t drawn = 0;
    char tail[sizeof MARK + DIGITS + sizeof END];
    if (getrandom(&drawn, sizeof drawn, 0) != (ssize_t)sizeof drawn) {
        return io_fail(ctx, "draw a name beside", target);
    }
    (void)snprintf(tail, sizeof tail, MARK "%012" PRIx64 END, drawn >> 16);
    return join(ctx, target, tail, out);
}

/* Whether the name is one of ours, beside `target` if that is not NULL. */
static bool is_beside(const char *name, const char *target) {
    const size_t tail = sizeof MARK - 1 + DIGITS + sizeof END - 1;
    size_t length = strlen(name);
    if (length <= tail) {
        return false;
    }
    const char *mark = name + length - tail, *digits = mark + sizeof MARK - 1;
    size_t head = (size_t)(mark - name);
    return strncmp(mark, MARK, sizeof MARK - 1) == 0 &&
           strspn(digits, "0123456789abcdef") == DIGITS && strcmp(digits + DIGITS, END) == 0 &&
           (target == NULL || (strlen(target) == head && strncmp(name, target, head) == 0));
}

/* ---- making ---- */

/* A sweeper may have met the file before it was locked: then it is gone, or about to be. */
static bool take(int fd) {
    struct stat info;
    if (flock(fd, LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK) {
        return false;
    }
    return fstat(fd, &info) == 0 && info.st_nlink > 0;
}

ebb_status ebb__beside_create(ebb_ctx *ctx, const char *target, char beside[PATH_MOST], int *fd) {
    *fd = -1;
    if (hook(ctx)) {
        return io_fail(ctx, "create", target);
    }
    for (int i = 0; i < MOST_TRIES; i++) {
        TRY(draw_name(ctx, target, beside));
        *fd = open(beside, O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0666);
        if (*fd >= 0 && take(*fd)) {
            return EBB_OK;
        }
        if (*fd < 0 && errno != EEXIST && errno != EINTR) {
            break;
        }
        ebb__file_close(*fd);
        *fd = -1;
    }
    return io_fail(ctx, "create", target);
}

ebb_status ebb__beside_link(ebb_ctx *ctx, const char *from, const char *target,
                            char beside[PATH_MOST], bool *made) {
    *made = false;
    if (hook(ctx)) {
        return EBB_OK;
    }
    for (int i = 0; i < MOST_TRIES; i++) {
        TRY(draw_name(ctx, target, beside));
        *made = link(from, beside) == 0;
        if (*made || errno != EEXIST) {
            break;
        }
    }
    return EBB_OK;
}

/* ---- sweeping ---- */

static void remove_unlocked(int dir, const char *name) {
    struct stat info;
    int fd = openat(dir, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
    if (fd >= 0 && fstat(fd, &info) == 0 && S_ISREG(info.st_mode) &&
        flock(fd, LOCK_EX | LOCK_NB) == 0) {
        (void)unlinkat(dir, name, 0);
    }
    ebb__file_close(fd);
}

void ebb__file_sweep(const char *dir, const char *name) {
    DIR *stream = opendir(dir);
    if (stream == NULL) {
        return;
    }
    for (const struct dirent *entry = readdir(stream); entry != NULL; entry = readdir(stream)) {
        if (is_beside(entry->d_name, name)) {
            remove_unlocked(dirfd(stream), entry->d_name);
        }
    }
    (void)closedir(stream);
}
