/* disk_shim.c - a bad disk, for tests of the command: loaded before the C library it stands before
 * its calls that read and write at an offset. EBB_DISK is what the disk is like.
 *   slow     every call takes some milliseconds and moves a part of what was asked for
 *   full:N   room cannot be reserved, and after N bytes nothing more can be written */
#include <dlfcn.h>
#include <errno.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/types.h>
#include <time.h>

typedef ssize_t (*write_fn)(int, const void *, size_t, off_t);
typedef ssize_t (*read_fn)(int, void *, size_t, off_t);
typedef int (*reserve_fn)(int, int, off_t, off_t);
static write_fn real_write;
static read_fn real_read;
static reserve_fn real_reserve;

__attribute__((constructor)) static void open_real(void) {
    void *found = dlsym(RTLD_NEXT, "pwrite64");
    memcpy(&real_write, &found, sizeof found);
    found = dlsym(RTLD_NEXT, "pread64");
    memcpy(&real_read, &found, sizeof found);
    found = dlsym(RTLD_NEXT, "fallocate64");
    memcpy(&real_reserve, &found, sizeof found);
}

/* Of `bytes`, what a call moves. */
static size_t part_of(size_t bytes) {
    const char *disk = getenv("EBB_DISK");
    if (disk == NULL || strcmp(disk, "slow") != 0 || bytes < 4096) {
        return bytes;
    }
    (void)nanosleep(&(struct timespec){.tv_nsec = 5000000}, NULL);
    return bytes / 2 + 1;
}

static uint64_t room(void) {
    const char *disk = getenv("EBB_DISK");
    return disk != NULL && strncmp(disk, "full:", 5) == 0 ? strtoull(disk + 5, NULL, 10)
                                                          : UINT64_MAX;
}

ssize_t pwrite64(int fd, const void *data, size_t bytes, off_t at);
ssize_t pwrite64(int fd, const void *data, size_t bytes, off_t at) {
    static uint64_t written;
    written += bytes;
    if (written > room()) {
        errno = ENOSPC;
        return -1;
    }
    return real_write(fd, data, part_of(bytes), at);
}

ssize_t pread64(int fd, void *data, size_t bytes, off_t at);
ssize_t pread64(int fd, void *data, size_t bytes, off_t at) {
    return real_read(fd, data, part_of(bytes), at);
}

int fallocate64(int fd, int mode, off_t at, off_t bytes);
int fallocate64(int fd, int mode, off_t at, off_t bytes) {
    if (room() != UINT64_MAX) {
        errno = EOPNOTSUPP;
        return -1;
    }
    return real_reserve(fd, mode, at, bytes);
}

/* Where numbers of 64 bits need no names of their own. */
ssize_t pwrite(int fd, const void *data, size_t bytes, off_t at) __attribute__((alias("pwrite64")));
ssize_t pread(int fd, void *data, size_t bytes, off_t at) __attribute__((alias("pread64")));
int fallocate(int fd, int mode, off_t at, off_t bytes) __attribute__((alias("fallocate64")));
