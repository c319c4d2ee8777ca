/* pulse.h - whether a rank is alive: asked by datagrams of UDP, and answered by a thread of its own
 * in every process, whatever that computes, plans, reads or waits for. A process that is stopped,
 * gone or cannot be reached does not answer.
 *
 * Beside MPI, since that may be called by one thread only, which may be busy for long. Nothing is
 * allocated after the pulse has begun. */
#ifndef COMM_PULSE_H
#define COMM_PULSE_H

#include "base/ctx.h"

typedef struct comm_pulse comm_pulse;

enum { PULSE_ADDRESSES = 8 };

/* Where and how a rank is asked; every rank gets those of all. */
typedef struct pulse_card {
    uint64_t key;                      /* drawn at random: an answer by its owner has it */
    uint64_t system;                   /* equal where process numbers mean the same; 0: unknown */
    int64_t pid;                       /* the owner's */
    uint32_t address[PULSE_ADDRESSES]; /* IPv4, as sent */
    uint16_t n_addresses, port;        /* port as sent; 0: cannot be asked */
} pulse_card;

/* Takes an address for rank `rank` of `size`, to be told to the others. What the system does not
 * give is not had: then the rank cannot be asked, which is no error. */
ebb_status ebb__pulse_new(ebb_ctx *ctx, int rank, int size, comm_pulse **out,
                          pulse_card *card) EBB_MUST_CHECK;
/* From now on this rank answers, and may ask. cards[i * step bytes]: of rank i; they outlive the
 * pulse. */
void ebb__pulse_begin(comm_pulse *pulse, const void *cards, size_t step);
void ebb__pulse_free(comm_pulse *pulse); /* NULL is fine */

/* Asks the rank; the answer is seen by ebb__pulse_heard, soon. */
void ebb__pulse_ask(comm_pulse *pulse, int rank);
/* How many signs of life came from the rank so far. */
unsigned ebb__pulse_heard(const comm_pulse *pulse, int rank);
/* Whether the rank's process has ended for sure, which is known on the same machine only. */
bool ebb__pulse_has_ended(const comm_pulse *pulse, int rank);

/* Tells all others that this rank has failed; the lowest rank that has said so (-1: none). */
void ebb__pulse_tell(comm_pulse *pulse);
int ebb__pulse_failed(comm_pulse *pulse);

/* For tests: hears and answers nothing until it goes on, as if the process were stopped. */
void ebb__pulse_stop(comm_pulse *pulse, bool stopped);

#endif
