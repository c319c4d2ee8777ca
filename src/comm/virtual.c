/* virtual.c - a wrapper that keeps the time of machines that are not there: what a step would take
 * if every rank had a core of its own, and messages went over a given network.
 *
 * A rank's clock goes on by the processor time that its thread uses between calls; what calls
 * themselves take does not count. Every message is stamped with its sender's clock, in a small
 * message behind it with a tag of its own. A receiver that has waited for it sets its clock to when
 * it would have arrived, if that is later: messages from one rank to another go one after the
 * other, each taking its bytes' time, and the latency on top. */
#include "comm/comm.h"

#include "base/alloc.h"

#include <time.h>

enum { STAMP_TAGS = 1 << 24 }; /* stamps have the message's tag and this */

static const double STAMP_SECONDS = 60; /* for what was sent right behind a message that came */

typedef struct virtual_ticket {
    comm_post post;
    double stamp;
} virtual_ticket;

typedef struct virtual_state {
    comm_back below;
    comm_network network;
    int tickets;
    double clock;                      /* seconds */
    double before;                     /* processor time when the last call ended */
    double free_at[COMM_MOST_VIRTUAL]; /* by rank: when what it sends here can begin to come */
    virtual_ticket ticket[];
} virtual_state;

static double processor_seconds(void) {
    struct timespec now;
    (void)clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

/* A call begins: the work before it is done. */
static void advance(virtual_state *v) {
    v->clock += processor_seconds() - v->before;
}

static comm_event leave(virtual_state *v, comm_event event) {
    v->before = processor_seconds();
    return event;
}

static comm_event virtual_start(void *state, int ticket, const comm_post *post, comm_news *news) {
    virtual_state *v = state;
    virtual_ticket *t = &v->ticket[ticket];
    advance(v);
    *t = (virtual_ticket){.post = *post, .stamp = v->clock};
    comm_post stamp = *post;
    stamp.tag += STAMP_TAGS;
    stamp.data = &t->stamp;
    stamp.bytes = sizeof t->stamp;
    comm_event event = v->below.calls->start(v->below.state, ticket, post, news);
    if (event == COMM_PENDING) {
        event = v->below.calls->start(v->below.state, v->tickets + ticket, &stamp, news);
    }
    return leave(v, event);
}

static void arrive(virtual_state *v, const virtual_ticket *t) {
    double *free_at = &v->free_at[t->post.peer];
    double begin = t->stamp > *free_at ? t->stamp : *free_at;
    *free_at = begin + (double)t->post.bytes / v->network.bytes_per_second;
    double end = *free_at + v->network.latency;
    v->clock = end > v->clock ? end : v->clock;
}

static comm_event virtual_wait(void *state, int ticket, double seconds, comm_news *news) {
    virtual_state *v = state;
    virtual_ticket *t = &v->ticket[ticket];
    comm_news unused = *news;
    advance(v);
    comm_event event = v->below.calls->wait(v->below.state, ticket, seconds, news);
    if (event == COMM_DONE || event == COMM_SIZE) {
        /* It was sent right behind. */
        comm_event stamped =
            v->below.calls->wait(v->below.state, v->tickets + ticket, STAMP_SECONDS, &unused);
        event = stamped == COMM_DONE ? event : stamped;
    }
    if (event == COMM_DONE && !t->post.is_send) {
        arrive(v, t);
    }
    return leave(v, event);
}

static comm_event virtual_poll(void *state, comm_news *news) {
    virtual_state *v = state;
    advance(v);
    return leave(v, v->below.calls->poll(v->below.state, news));
}

static void virtual_give_up(void *state, int code) {
    virtual_state *v = state;
    v->below.calls->give_up(v->below.state, code);
}

static void virtual_close(void *state, bool lost) {
    virtual_state *v = state;
    v->below.calls->close(v->below.state, lost);
    ebb__free(v->below.ctx, v->below.state);
}

static const comm_calls virtual_calls = {
    .version = COMM_VERSION,
    .bytes = sizeof(comm_calls),
    .name = "virtual",
    .close = virtual_close,
    .start = virtual_start,
    .wait = virtual_wait,
    .poll = virtual_poll,
    .give_up = virtual_give_up,
};

ebb_status ebb__comm_make_virtual(comm_link *link, const comm_network *network) {
    comm_back *back = ebb__comm_back(link);
    virtual_state *v;
    int half = back->tickets / 2;
    if (ebb__comm_size(link) > COMM_MOST_VIRTUAL || half < 1) {
        return ebb__fail(back->ctx, EBB_USAGE, "a virtual clock is for at most %d ranks",
                         COMM_MOST_VIRTUAL);
    }
    TRY(ebb__alloc(back->ctx, 1, sizeof *v + (size_t)half * sizeof v->ticket[0], &v));
    v->below = *back;
    v->network = *network;
    v->tickets = half;
    v->before = processor_seconds();
    ebb__comm_keep_tickets(link, half);
    back->calls = &virtual_calls;
    back->state = v;
    return EBB_OK;
}

double ebb__comm_virtual_seconds(comm_link *link) {
    comm_back *back = ebb__comm_back(link);
    virtual_state *v = back->state;
    if (back->calls != &virtual_calls) {
        return -1;
    }
    advance(v);
    v->before = processor_seconds();
    return v->clock;
}
