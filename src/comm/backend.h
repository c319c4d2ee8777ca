/* backend.h - what carries messages: one table, filled by self, threads and the MPI plugin.
 *
 * A back end knows no context: its memory comes from the caller, and what happened is an event, of
 * which comm.c makes the sentence. So a plugin needs no symbol of the program that loads it, and a
 * wrapper (faulty.c) is a table that hands on to another one. Only back ends include this. */
#ifndef COMM_BACKEND_H
#define COMM_BACKEND_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Changes whenever anything below does; a plugin with another number is refused. */
enum { COMM_VERSION = 1, COMM_TEXT = 200 };

typedef enum comm_event {
    COMM_DONE,
    COMM_PENDING,
    COMM_GONE,    /* news->rank ended, or ended all */
    COMM_SIZE,    /* a receive got a message of news->bytes, which are not as many as it wanted */
    COMM_REFUSED, /* news->text says why */
} comm_event;

typedef struct comm_news {
    int rank;
    uint64_t bytes;
    char text[COMM_TEXT];
} comm_news;

typedef struct comm_post {
    bool is_send; /* then `data` is only read */
    int peer, tag;
    void *data;
    size_t bytes;
} comm_post;

typedef struct comm_setup {
    int tickets;            /* messages that may be under way at once, from 1 */
    double seconds;         /* that the other ranks may take to come */
    int expected;           /* ranks, as whoever started them says; 0: unknown */
    size_t piece_bytes;     /* MPI: longer messages go in pieces of so many; 0: 1 GiB */
    struct comm_hall *hall; /* threads: where they meet, and ... */
    int rank;               /* ... as whom */
} comm_setup;

/* All calls of one state come from one thread. */
typedef struct comm_calls {
    uint32_t version, bytes; /* COMM_VERSION, sizeof(comm_calls) */
    const char *name;
    size_t (*room)(const comm_setup *setup); /* bytes of a state */
    /* `state` is zeroed. COMM_DONE, or COMM_REFUSED: then it is as if nothing had been opened. */
    comm_event (*open)(void *state, const comm_setup *setup, int *rank, int *size, comm_news *news);
    /* Messages under way are given up. lost: another rank is, so do not wait for anybody. */
    void (*close)(void *state, bool lost);
    /* ticket: below setup->tickets, and free. COMM_PENDING or COMM_REFUSED. */
    comm_event (*start)(void *state, int ticket, const comm_post *post, comm_news *news);
    /* COMM_PENDING after so many seconds; with 0 looks once. DONE and SIZE end the ticket. */
    comm_event (*wait)(void *state, int ticket, double seconds, comm_news *news);
    /* Moves messages on. COMM_PENDING, or COMM_GONE where a rank ended all of them. */
    comm_event (*poll)(void *state, comm_news *news);
    void (*give_up)(void *state, int code); /* ends all ranks; may not return */
} comm_calls;

extern const comm_calls ebb__comm_self_calls, ebb__comm_threads_calls;
#define COMM_MPI_TABLE "ebb_comm_mpi" /* the one symbol of the plugin */

#endif
