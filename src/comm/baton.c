/* baton.c - see baton.h. A baton is a locked byte of a file in memory that the lowest rank of the
 * machine makes and the others find by its number: the system takes a lock back from a process that
 * ends, and nothing is left in any folder. */
#include "comm/baton.h"

#include "base/alloc.h"
#include "base/host.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

static const double LONGEST_WORK = 600, OPEN_SECONDS = 60; /* seconds */
enum { NAP_NANOSECONDS = 20000 };

struct comm_baton {
    ebb_ctx *ctx;
    comm_pulse *pulse;
    int file, processors;
    int taken; /* which one; < 0: none */
};

/* How many ranks of this machine are below this one, all of it, and the first one's number. */
typedef struct baton_place {
    int below, all, first;
} baton_place;

static baton_place find_place(const comm_link *link) {
    int me = ebb__comm_rank(link);
    const char *host = ebb__comm_describe(link, me)->host;
    baton_place place = {.first = -1};
    for (int rank = 0; rank < ebb__comm_size(link); rank++) {
        bool here = strcmp(ebb__comm_describe(link, rank)->host, host) == 0;
        place.first = here && place.first < 0 ? rank : place.first;
        place.below += here && rank < me;
        place.all += here;
    }
    return place;
}

/* Opens it once more, so that locks are this rank's own, also where ranks are threads. */
static int open_again(int64_t pid, int number) {
    char path[64];
    (void)snprintf(path, sizeof path, "/proc/%lld/fd/%d", (long long)pid, number);
    return open(path, O_RDWR | O_CLOEXEC);
}

/* All ranks learn the numbers of the files of all, of which those of the first of each machine are
 * open until all have opened them. */
static ebb_status open_file(comm_link *link, baton_place place, int made, int *file) {
    enum { MOST = COMM_MOST_VIRTUAL };
    int numbers[MOST] = {0};
    const size_t all = (size_t)ebb__comm_size(link) * sizeof numbers[0];
    TRY(ebb__comm_gather(link, 0, &made, numbers, sizeof made, OPEN_SECONDS));
    TRY(ebb__comm_broadcast(link, 0, numbers, all, OPEN_SECONDS));
    *file = open_again(ebb__comm_describe(link, place.first)->pid, numbers[place.first]);
    const int why = errno;
    TRY(ebb__comm_barrier(link, OPEN_SECONDS));
    return *file >= 0
               ? EBB_OK
               : ebb__fail(ebb__comm_back(link)->ctx, EBB_IO,
                           "the turns of ranks on one machine cannot be shared: %s", strerror(why));
}

static ebb_status open_all(comm_link *link, int processors, comm_baton *baton) {
    const baton_place place = find_place(link);
    int made = place.below == 0 ? memfd_create("turns of ebb", MFD_CLOEXEC) : -1;
    baton->processors = processors < place.all ? processors : place.all;
    ebb_status status = open_file(link, place, made, &baton->file);
    if (made >= 0) {
        (void)close(made);
    }
    return status;
}

ebb_status ebb__baton_new(comm_link *link, int processors, comm_baton **out) {
    comm_back *back = ebb__comm_back(link);
    comm_baton *baton = NULL;
    *out = NULL;
    TRY(ebb__alloc(back->ctx, 1, sizeof *baton, &baton));
    *baton = (comm_baton){.ctx = back->ctx, .pulse = back->pulse, .file = -1, .taken = -1};
    ebb_status status = open_all(link, processors, baton);
    if (status != EBB_OK) {
        ebb__baton_free(baton);
        return status;
    }
    *out = baton;
    return EBB_OK;
}

void ebb__baton_free(comm_baton *baton) {
    if (baton == NULL) {
        return;
    }
    if (baton->file >= 0) {
        (void)close(baton->file);
    }
    ebb__free(baton->ctx, baton);
}

static bool lock(const comm_baton *baton, int number, short how) {
    struct flock range = {.l_type = how, .l_whence = SEEK_SET, .l_start = number, .l_len = 1};
    return fcntl(baton->file, F_OFD_SETLK, &range) == 0;
}

comm_event ebb__baton_take(comm_baton *baton, comm_news *news) {
    const struct timespec nap = {.tv_nsec = NAP_NANOSECONDS};
    double start = ebb__clock_seconds();
    while (baton->taken < 0) {
        for (int i = 0; i < baton->processors && baton->taken < 0; i++) {
            baton->taken = lock(baton, i, F_WRLCK) ? i : -1;
        }
        if (baton->taken >= 0) {
            return COMM_DONE;
        }
        int failed = baton->pulse != NULL ? ebb__pulse_failed(baton->pulse) : -1;
        if (failed >= 0) {
            news->rank = failed;
            return COMM_GONE;
        }
        if (ebb__clock_seconds() - start > LONGEST_WORK) {
            (void)snprintf(news->text, sizeof news->text,
                           "no processor has become free for %g seconds", LONGEST_WORK);
            return COMM_REFUSED;
        }
        (void)nanosleep(&nap, NULL);
    }
    return COMM_DONE;
}

void ebb__baton_pass(comm_baton *baton) {
    if (baton->taken >= 0) {
        (void)lock(baton, baton->taken, F_UNLCK);
        baton->taken = -1;
    }
}
