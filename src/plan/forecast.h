/* forecast.h - the seconds of a step that several ranks share, found without running it: what each
 * rank does in its order, with the seconds that plans are compared by, and when messages between
 * them would arrive.
 *
 * A message starts to move when it is sent and its receive is posted too (rendezvous: the worst
 * case). On a network its latency passes first; then it shares the sender's way out and the
 * receiver's way in evenly with whatever else moves there. In shared memory a message is copied by
 * the receiver's processor, as soon as that comes to any message of its own.
 */
#ifndef PLAN_FORECAST_H
#define PLAN_FORECAST_H

#include "plan/plan.h"

typedef struct forecast_network {
    double bytes_per_second, latency; /* seconds of a message without bytes */
    bool copied;                      /* shared memory: the receiver's processor does it */
} forecast_network;

/* What a rank does next: work, or something with a message. */
typedef struct forecast_item {
    op_message message; /* MESSAGE_NONE: work */
    ir_phase phase;
    double seconds; /* of work, or of the call */
    /* Of a message that is started: */
    int32_t peer, tag;
    uint64_t bytes;
    int32_t started; /* of one that is waited for: the item that started it */
} forecast_item;

/* One rank's step. */
typedef struct forecast_list {
    forecast_item *items;
    int32_t n;
    size_t capacity;
} forecast_list;

/* What a rank does at one time: an ir_phase, or one of: */
enum { FORECAST_COPYING = IR_PHASES, FORECAST_WAITING, FORECAST_STATES };

typedef struct forecast_span {
    double begin, end;
    int32_t state;
} forecast_span;

typedef struct forecast_rank {
    forecast_span *spans; /* one after the other, from 0 to the step's end */
    int32_t n_spans;
    size_t capacity;
    double seconds[FORECAST_STATES];
    uint64_t messages, sent_bytes;
} forecast_rank;

typedef struct forecast_step {
    alloc_region region;
    double seconds; /* until the last rank is done */
    forecast_rank *ranks;
    int32_t n_ranks;
} forecast_step;

/* One training program of a plan whose programs are not released: compiled again where its graph is
 * gone. Items are in `region`. */
ebb_status ebb__forecast_program(ebb_plan *plan, int32_t index, alloc_region *region,
                                 forecast_list *out) EBB_MUST_CHECK;

/* The same of a graph that has its kernels and its order. */
ebb_status ebb__forecast_unit(const pass_unit *unit, alloc_region *region,
                              forecast_list *out) EBB_MUST_CHECK;

/* Plays one step of all ranks, which start together. EBB_INTERNAL, with who waits for whom, if
 * messages do not match or ranks wait for each other. Free with ebb__forecast_free, also after a
 * failure. */
ebb_status ebb__forecast_play(ebb_ctx *ctx, const forecast_list *lists, int32_t n_ranks,
                              const forecast_network *network, forecast_step *out) EBB_MUST_CHECK;
void ebb__forecast_free(forecast_step *step);

static inline double forecast_busy(const forecast_rank *rank) {
    double seconds = 0;
    for (int i = 0; i < IR_PHASES; i++) {
        seconds += rank->seconds[i];
    }
    return seconds;
}

#endif
