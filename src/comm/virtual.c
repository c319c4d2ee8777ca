/* virtual.c - a wrapper that keeps the time of machines that are not there: what a step would take
 * if every rank had a core of its own, and messages went over a given network.
 *
 * A rank's clock goes on by the processor time that its thread uses between calls; what calls
 * themselves take does not count. At most as many ranks work at once as the machine has cores
 * (baton.h): with more, each would count what the others do to its caches. Every message is stamped
 * with its sender's clock, in a small message behind it with a tag of its own. A receiver that has
 * waited for it sets its clock to when it would have arrived, if that is later.
 *
 * In shared memory the receiver's core copies it, which takes its time whenever it was sent. On a
 * network a message takes its bytes' time on the way out of its sender, behind what that sent
 * before, and on the way into the receiver, when both have started it and nothing else comes in;
 * the latency is on top. When a sender may go on that waits for its receiver is not looked at. */
#include "comm/baton.h"

#include "base/alloc.h"
#include "base/host.h"

#include <string.h>
#include <time.h>

enum { STAMP_TAGS = 1 << 24 }; /* stamps have the message's tag and this */
enum { SPANS = 64 };           /* of the way in that are remembered */

static const double STAMP_SECONDS = 60; /* for what was sent right behind a message that came */

typedef struct virtual_ticket {
    comm_post post;
    double posted; /* by this rank's clock */
    double stamp;  /* by the sender's: when it begins to move */
} virtual_ticket;

typedef struct virtual_span {
    double begin, end;
} virtual_span;

typedef struct virtual_state {
    comm_back below;
    comm_baton *baton;
    comm_network network;
    int tickets;
    double clock;              /* seconds, and of them: */
    double waiting;            /* for messages */
    double before;             /* processor time when the last call ended */
    double out_free;           /* when the way out is */
    virtual_span taken[SPANS]; /* of the way in, by time; the earliest are forgotten */
    int n_taken;
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

static double later(double a, double b) {
    return a > b ? a : b;
}

/* ---- the way that a message takes ---- */

static double seconds_of(const virtual_state *v, const comm_post *post) {
    return (double)post->bytes / v->network.bytes_per_second;
}

/* When a message that is sent now begins to move. */
static double depart(virtual_state *v, const comm_post *post) {
    if (v->network.copied || !post->is_send) {
        return v->clock;
    }
    double begin = later(v->clock, v->out_free);
    v->out_free = begin + seconds_of(v, post);
    return begin;
}

/* Takes the way in for so long, from `begin` on as soon as that can be; when it ends. Messages are
 * not waited for in the order in which they come, so that there may be room before others. */
static double take_way_in(virtual_state *v, double begin, double seconds) {
    int at = 0;
    while (at < v->n_taken && v->taken[at].begin < begin + seconds) {
        begin = later(begin, v->taken[at].end);
        at++;
    }
    if (v->n_taken == SPANS) {
        v->n_taken--;
        memmove(v->taken, v->taken + 1, (size_t)v->n_taken * sizeof v->taken[0]);
        at = at > 0 ? at - 1 : 0;
    }
    memmove(v->taken + at + 1, v->taken + at, (size_t)(v->n_taken - at) * sizeof v->taken[0]);
    v->taken[at] = (virtual_span){begin, begin + seconds};
    v->n_taken++;
    return begin + seconds;
}

static void arrive(virtual_state *v, const virtual_ticket *t) {
    double seconds = seconds_of(v, &t->post), before = v->clock;
    double end = v->network.copied ? later(v->clock, t->stamp) + seconds
                                   : take_way_in(v, later(t->stamp, t->posted), seconds);
    v->clock = later(v->clock, end + v->network.latency);
    v->waiting += v->clock - before;
}

/* ---- calls ---- */

static comm_event virtual_start(void *state, int ticket, const comm_post *post, comm_news *news) {
    virtual_state *v = state;
    virtual_ticket *t = &v->ticket[ticket];
    advance(v);
    *t = (virtual_ticket){.post = *post, .posted = v->clock, .stamp = depart(v, post)};
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

/* Whoever really waits lets another rank work meanwhile. */
static comm_event wait_below(virtual_state *v, int ticket, double seconds, comm_news *news) {
    if (seconds <= 0) {
        return v->below.calls->wait(v->below.state, ticket, seconds, news);
    }
    ebb__baton_pass(v->baton);
    comm_event event = v->below.calls->wait(v->below.state, ticket, seconds, news);
    comm_event turn = ebb__baton_take(v->baton, news);
    return turn == COMM_DONE ? event : turn;
}

static comm_event virtual_wait(void *state, int ticket, double seconds, comm_news *news) {
    virtual_state *v = state;
    virtual_ticket *t = &v->ticket[ticket];
    comm_news unused = *news;
    advance(v);
    comm_event event = wait_below(v, ticket, seconds, news);
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
    ebb__baton_free(v->baton); /* first: below, who closes may wait for the others to do so */
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
    comm_baton *baton = NULL;
    int half = back->tickets / 2;
    if (ebb__comm_size(link) > COMM_MOST_VIRTUAL || half < 1) {
        return ebb__fail(back->ctx, EBB_USAGE, "a virtual clock is for at most %d ranks",
                         COMM_MOST_VIRTUAL);
    }
    TRY(ebb__baton_new(link, ebb__host_cores(), &baton));
    ebb_status status =
        ebb__alloc(back->ctx, 1, sizeof *v + (size_t)half * sizeof v->ticket[0], &v);
    if (status != EBB_OK) {
        ebb__baton_free(baton);
        return status;
    }
    v->below = *back;
    v->baton = baton;
    v->network = *network;
    v->tickets = half;
    v->before = processor_seconds();
    ebb__comm_keep_tickets(link, half);
    back->calls = &virtual_calls;
    back->state = v;
    return EBB_OK;
}

comm_time ebb__comm_virtual_time(comm_link *link) {
    comm_back *back = ebb__comm_back(link);
    virtual_state *v = back->state;
    if (back->calls != &virtual_calls) {
        return (comm_time){.seconds = -1};
    }
    advance(v);
    v->before = processor_seconds();
    return (comm_time){v->clock, v->waiting};
}
