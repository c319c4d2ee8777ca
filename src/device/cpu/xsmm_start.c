/* xsmm_start.c - libxsmm brought up where that is safe.
 *
 * Its first call locks "/tmp/.libxsmm.<user>", which it opens as it finds it: a pipe of that name
 * would make it wait for ever, a link would lead it elsewhere. Then it takes about 11 MB for its
 * tables, and crashes later if it did not get them. Both are looked at before, since afterwards it
 * is too late. */
#ifndef EBB_NO_XSMM
#include "device/cpu/cpu.h"

#include <fcntl.h>
#include <libxsmm.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

enum { TABLE_BYTES = 12 << 20, CODE_BYTES = 64 << 10 };

/* Whether the system would give so much; nothing is kept. */
static ebb_status probe(ebb_ctx *ctx, size_t bytes, const char *what) {
    void *room = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (room == MAP_FAILED) {
        return ebb__fail(ctx, EBB_NOMEM, "out of memory: the system refused %zu bytes for %s",
                         bytes, what);
    }
    (void)munmap(room, bytes);
    return EBB_OK;
}

/* Makes the file that libxsmm is about to open: one of ours stays, since nobody else may remove it
 * from a folder such as /tmp. */
static ebb_status check_lock(ebb_ctx *ctx, const char *path) {
    struct stat seen;
    int fd = open(path, O_WRONLY | O_CREAT | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC, 0600);
    if (fd >= 0) {
        (void)close(fd);
    }
    if (lstat(path, &seen) == 0 && !S_ISREG(seen.st_mode)) {
        return ebb__fail(ctx, EBB_IO,
                         "cannot use %s: libxsmm locks a file of this name, and this is a link, a "
                         "pipe or the like; remove it",
                         path);
    }
    return EBB_OK;
}

static ebb_status start(ebb_ctx *ctx) {
    char path[64];
    libxsmm_registry_info tables;
    if (libxsmm_ninit > 1) {
        return EBB_OK;
    }
    (void)snprintf(path, sizeof path, "/tmp/.libxsmm.%u", (unsigned)getuid());
    TRY(check_lock(ctx, path));
    TRY(probe(ctx, TABLE_BYTES, "libxsmm's tables"));
    libxsmm_init();
    if (libxsmm_get_registry_info(&tables) != EXIT_SUCCESS) {
        return ebb__fail(ctx, EBB_NOMEM, "out of memory: libxsmm got no tables");
    }
    return EBB_OK;
}

/* Sessions of several threads may come at once. */
ebb_status ebb__cpu_xsmm_start(ebb_ctx *ctx) {
    static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
    (void)pthread_mutex_lock(&lock);
    ebb_status status = start(ctx);
    (void)pthread_mutex_unlock(&lock);
    return status;
}

bool ebb__cpu_xsmm_wide(void) {
    return libxsmm_get_target_archid() >= LIBXSMM_X86_AVX512;
}

/* With AVX-512, where a tile has too few sums to keep the units busy, it splits each into several
 * that are added in the end: if it is one vector wide and 2 to 11 rows high (1.17). */
bool ebb__cpu_xsmm_serial(int64_t lanes, int64_t rows) {
    return lanes > 16 || rows < 2 || rows > 11 || !ebb__cpu_xsmm_wide();
}

ebb_status ebb__cpu_xsmm_no_code(ebb_ctx *ctx) {
    return probe(ctx, CODE_BYTES, "code that libxsmm generates");
}
#else
/* An empty translation unit is not C. */
typedef int xsmm_start_is_not_built;
#endif
