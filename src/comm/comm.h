/* comm.h - messages between the ranks of a run: processes under mpirun, threads in tests, or one
 * rank alone. Start and wait are apart; nothing is allocated after open.
 *
 * Messages from one rank with one tag are received in the order in which they were sent; a receive
 * may be posted before or after its message. A send is done when its bytes may be changed, which
 * can be as late as when they were received: who sends and then waits before the other receives may
 * wait for ever, with whatever back end, and so is told after some time.
 *
 * A link belongs to the thread that opened it. Errors name the rank that is to blame:
 *
 * EBB_LOST: it ended, failed, or shows no sign of life (pulse.h); the link is of no use but to give
 * up or close it. Who is busy, or waits itself, is not lost, however long it takes.
 *
 * EBB_INTERNAL: a message of another size than its receive's (then the ranks have different plans,
 * and what is left of it may still come), or more messages than tickets.
 *
 * EBB_USAGE: no such rank or tag, or the back end cannot be had. */
#ifndef COMM_COMM_H
#define COMM_COMM_H

#include "base/ctx.h"
#include "comm/backend.h"
#include "comm/pulse.h"

typedef struct comm_link comm_link;
typedef struct comm_hall comm_hall;

/* Lower tags are those of spread.c. */
enum { COMM_FIRST_TAG = 16 };

typedef struct comm_peer {
    char host[64];
    int64_t pid;
} comm_peer;

/* With a known back end (registry.c finds one). Returns when all ranks have opened, or EBB_LOST
 * after setup->seconds. */
ebb_status ebb__comm_open(ebb_ctx *ctx, const comm_calls *calls, const comm_setup *setup,
                          comm_link **out) EBB_MUST_CHECK;
/* Messages under way are given up, and who waits for them is told. All that goes well meets at a
 * barrier before. NULL is fine. */
void ebb__comm_close(comm_link *link);
int ebb__comm_rank(const comm_link *link);
int ebb__comm_size(const comm_link *link);
const comm_peer *ebb__comm_describe(const comm_link *link, int rank);
/* How many of the ranks are on this one's host, it among them. */
int ebb__comm_here(const comm_link *link);

/* Starts. The bytes must stay, and those of a send unchanged, until the ticket is done; after
 * EBB_LOST until the link is closed. */
ebb_status ebb__comm_send(comm_link *link, int to, int tag, const void *data, size_t bytes,
                          int *ticket) EBB_MUST_CHECK;
ebb_status ebb__comm_recv(comm_link *link, int from, int tag, void *data, size_t bytes,
                          int *ticket) EBB_MUST_CHECK;
/* Both give the ticket back when it is done, or its message had the wrong size. EBB_LOST as soon as
 * the other rank is known to be gone, or any one to have failed. Of the first also after so many
 * seconds without a sign of life of the other rank (while a link opens, without its message). */
ebb_status ebb__comm_wait(comm_link *link, int ticket, double seconds) EBB_MUST_CHECK;
ebb_status ebb__comm_test(comm_link *link, int ticket, bool *done) EBB_MUST_CHECK;
/* Moves all messages on; for those that work between start and wait. */
ebb_status ebb__comm_poll(comm_link *link) EBB_MUST_CHECK;
/* After EBB_LOST: the rank to blame, -1: none is known, and what is known of it: "has ended". */
typedef struct comm_loss {
    int rank;
    const char *how;
} comm_loss;
comm_loss ebb__comm_lost(const comm_link *link);
/* Of a rank that ends with a failure: tells the others so, which then get EBB_LOST, and gives those
 * below it a moment to say the same. Whether this rank is the one to report; another is where this
 * one only lost one that failed itself, or a lower one failed too. */
bool ebb__comm_fail(comm_link *link) EBB_MUST_CHECK;
/* Ends the work of all ranks: who waits gets EBB_LOST with this rank's name. Under MPI all
 * processes end, this one too, and mpirun exits with `why`. */
void ebb__comm_abort(comm_link *link, ebb_status why);

/* A message that is started and waited for at once (spread.c). */
ebb_status ebb__comm_put(comm_link *link, int to, int tag, const void *data, size_t bytes,
                         double seconds) EBB_MUST_CHECK;
ebb_status ebb__comm_take(comm_link *link, int from, int tag, void *data, size_t bytes,
                          double seconds) EBB_MUST_CHECK;

/* ---- spread.c: every rank calls the same, one at a time ----
 * For small blocks, now and then: all goes through one rank, which knows exactly who is missing. */
ebb_status ebb__comm_barrier(comm_link *link, double seconds) EBB_MUST_CHECK;
ebb_status ebb__comm_broadcast(comm_link *link, int root, void *data, size_t bytes,
                               double seconds) EBB_MUST_CHECK;
/* all: [size, bytes] at the root, in the order of ranks; elsewhere NULL. */
ebb_status ebb__comm_gather(comm_link *link, int root, const void *mine, void *all, size_t bytes,
                            double seconds) EBB_MUST_CHECK;

/* How this rank fares, with the sentence of its context. If one fares badly, its status and its
 * sentence, with its name, become those of all: of several, the first one's. */
ebb_status ebb__comm_agree(comm_link *link, ebb_status mine, double seconds) EBB_MUST_CHECK;
/* All ranks have failed so, and none needs to be told. */
bool ebb__comm_agreed(const comm_link *link);
void ebb__comm_set_agreed(comm_link *link); /* spread.c's own */

/* ---- threads.c: where ranks that are threads of one process meet --------------------------- */
ebb_status ebb__comm_hall_new(ebb_ctx *ctx, int ranks, comm_hall **out) EBB_MUST_CHECK;
void ebb__comm_hall_free(comm_hall *hall); /* after all links are closed; NULL is fine */

/* ---- registry.c: the back end that the environment asks for -------------------------------- */
typedef struct comm_launch {
    const char *ompi_size, *pmi_size; /* OMPI_COMM_WORLD_SIZE, PMI_SIZE */
    const char *pmix_rank;            /* PMIX_RANK: started by mpirun, the number is not known */
    const char *plugin; /* its path; NULL: beside the program, or where it is installed */
} comm_launch;

/* How many processes mpirun started. 0: it started this one, but the number is not known; -1: it
 * did not. */
ebb_status ebb__comm_launched(ebb_ctx *ctx, const comm_launch *launch, int *out) EBB_MUST_CHECK;
/* MPI if one of them is not NULL, else one rank alone. */
ebb_status ebb__comm_open_launched(ebb_ctx *ctx, const comm_launch *launch, const comm_setup *setup,
                                   comm_link **out) EBB_MUST_CHECK;

/* ---- faulty.c: trouble for tests, made at a link's n-th call of start, poll, or the first wait or
 * test of a message ---- */
typedef enum comm_fault_kind {
    FAULT_KILL,  /* the rank is gone without a word, for others and itself */
    FAULT_DELAY, /* nothing happens for some seconds, as if it computed */
    FAULT_DROP,  /* the next message to be sent never is, though it seems so */
    FAULT_FLIP,  /* a bit of the next message that is received changes */
} comm_fault_kind;

typedef struct comm_fault {
    comm_fault_kind kind;
    uint64_t at;     /* which call, from 1; 0: one of the first `within`, drawn from the seed */
    uint64_t within; /* from 1 where `at` is 0 */
    uint64_t seed;   /* also of which bit is flipped */
    double seconds;  /* of a delay */
} comm_fault;

ebb_status ebb__comm_make_faulty(comm_link *link, const comm_fault *fault) EBB_MUST_CHECK;

/* ---- virtual.c: the time that ranks with a core each would take, over a network ------------- */
enum { COMM_MOST_VIRTUAL = 64 };
typedef struct comm_network {
    double bytes_per_second, latency; /* latency in seconds */
    bool copied;                      /* shared memory: by the receiver's processor */
} comm_network;

/* On all ranks, none of which has a message under way; half of the link's tickets are left. From
 * now on as many ranks work at once as the machine has cores. */
ebb_status ebb__comm_make_virtual(comm_link *link, const comm_network *network) EBB_MUST_CHECK;
/* Of this rank, so far. */
typedef struct comm_time {
    double seconds; /* < 0: it has no virtual clock */
    double waiting; /* of them, for messages and their copying */
} comm_time;
comm_time ebb__comm_virtual_time(comm_link *link);

/* ---- for wrappers: what carries a link's messages, to be put inside another ---------------- */
typedef struct comm_back {
    ebb_ctx *ctx;
    int rank, tickets;
    const comm_calls *calls;
    void *state;       /* from ebb__alloc; a wrapper frees that of what it wraps */
    comm_pulse *pulse; /* NULL: one rank alone, or not all have come */
} comm_back;
comm_back *ebb__comm_back(comm_link *link);
/* Keeps the first n tickets of a link that has none in use; the wrapper has the rest. */
void ebb__comm_keep_tickets(comm_link *link, int n);

#endif
