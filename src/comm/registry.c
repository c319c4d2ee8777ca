/* registry.c - the only place that names back ends: one rank alone, or MPI's plugin where mpirun
 * started the process. The program itself needs no MPI.
 *
 * Whoever was started by mpirun and cannot talk to the others must not go on alone: there would be
 * as many runs in one folder. */
#include "comm/comm.h"

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <link.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define PLUGIN "ebb_mpi.so"
#ifndef EBB_PLUGIN_FOLDER
#define EBB_PLUGIN_FOLDER "../lib/ebb" /* from the program's folder */
#endif
enum { PATH_BYTES = 1024, RANKS_MOST = 1 << 20 };

static ebb_status read_count(ebb_ctx *ctx, const char *name, const char *text, int *out) {
    char *end;
    errno = 0;
    long count = strtol(text, &end, 10);
    if (errno != 0 || end == text || *end != '\0' || count < 1 || count > RANKS_MOST) {
        return ebb__fail(ctx, EBB_USAGE, "%s is '%.40s', not a number of processes", name, text);
    }
    *out = (int)count;
    return EBB_OK;
}

ebb_status ebb__comm_launched(ebb_ctx *ctx, const comm_launch *launch, int *out) {
    *out = launch->pmix_rank != NULL ? 0 : -1;
    if (launch->ompi_size != NULL) {
        return read_count(ctx, "OMPI_COMM_WORLD_SIZE", launch->ompi_size, out);
    }
    return launch->pmi_size != NULL ? read_count(ctx, "PMI_SIZE", launch->pmi_size, out) : EBB_OK;
}

/* In a folder below that of the file, "" or "x/"; false: it is not there. */
static bool find_beside(const char *file, const char *below, char path[PATH_BYTES]) {
    const char *slash = strrchr(file, '/');
    int length = slash != NULL ? (int)(slash - file) : 0;
    (void)snprintf(path, PATH_BYTES, "%.*s/%s" PLUGIN, length, file, below);
    return access(path, F_OK) == 0;
}

/* As built, beside the program or the library; as installed, below their prefix, which may have
 * been moved. If it is in none of these places, path is that below the program's. */
static void find_plugin(const comm_launch *launch, char path[PATH_BYTES]) {
    char program[PATH_BYTES / 2];
    Dl_info library = {.dli_fname = NULL};
    if (launch->plugin != NULL) {
        (void)snprintf(path, PATH_BYTES, "%s", launch->plugin);
        return;
    }
    ssize_t length = readlink("/proc/self/exe", program, sizeof program - 1);
    program[length > 0 ? length : 0] = '\0';
    bool known = dladdr(&ebb__comm_self_calls, &library) != 0 && library.dli_fname != NULL;
    const char *own = known ? library.dli_fname : program;
    if (!find_beside(program, "", path) && !find_beside(own, "", path) &&
        !find_beside(own, "ebb/", path)) {
        (void)find_beside(program, EBB_PLUGIN_FOLDER "/", path);
    }
}

/* Whether only a part of the library was copied: its table of sections, which is behind all else,
 * is not there. The loader would be ended by a signal where it maps what is missing. */
static bool is_cut_short(const char *path) {
    ElfW(Ehdr) head = {.e_shnum = 0};
    struct stat info = {.st_size = 0};
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    bool known = fd >= 0 && fstat(fd, &info) == 0 &&
                 read(fd, &head, sizeof head) == (ssize_t)sizeof head &&
                 memcmp(head.e_ident, ELFMAG, SELFMAG) == 0;
    if (fd >= 0) {
        (void)close(fd);
    }
    uint64_t sections = (uint64_t)head.e_shnum * head.e_shentsize;
    return known && (uint64_t)info.st_size < head.e_shoff + sections;
}

/* It stays loaded: MPI does not bear to be taken out. */
static ebb_status load_plugin(ebb_ctx *ctx, const char *path, const comm_calls **out) {
    if (is_cut_short(path)) {
        return ebb__fail(ctx, EBB_USAGE,
                         "started by mpirun, but %s is cut short: copy it again, or build it",
                         path);
    }
    void *plugin = dlopen(path, RTLD_LOCAL | RTLD_NOW);
    if (plugin == NULL) {
        return ebb__fail(
            ctx, EBB_USAGE,
            "started by mpirun, but MPI cannot be used: %s; install libopenmpi-dev and "
            "openmpi-bin, then build ebb again",
            dlerror());
    }
    const comm_calls *calls = dlsym(plugin, COMM_MPI_TABLE);
    if (calls == NULL || calls->version != COMM_VERSION || calls->bytes != sizeof *calls) {
        (void)dlclose(plugin);
        return ebb__fail(ctx, EBB_USAGE,
                         "started by mpirun, but %s is of another version of ebb; install both "
                         "together",
                         path);
    }
    *out = calls;
    return EBB_OK;
}

ebb_status ebb__comm_open_launched(ebb_ctx *ctx, const comm_launch *launch, const comm_setup *setup,
                                   comm_link **out) {
    comm_setup counted = *setup;
    const comm_calls *calls = &ebb__comm_self_calls;
    *out = NULL;
    TRY(ebb__comm_launched(ctx, launch, &counted.expected));
    if (counted.expected >= 0) {
        char path[PATH_BYTES];
        find_plugin(launch, path);
        TRY(load_plugin(ctx, path, &calls));
    }
    return ebb__comm_open(ctx, calls, &counted, out);
}
