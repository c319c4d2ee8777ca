/* threads.c - ranks that are threads of one process: for tests, where every interleaving can be had
 * and every race is seen (TSan).
 *
 * The strictest that MPI allows: no message is buffered, so a send is done only when its receive
 * was posted and has the bytes. Who posts the second end copies, outside of the lock. One lock and,
 * for each rank, a condition: ranks are few and messages in tests small. */
#include "comm/comm.h"

#include "base/alloc.h"

#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

enum { RANKS_MOST = 1024 };
static const double LONG = 1e8; /* seconds; longer waits are as long */

typedef enum rank_place { RANK_AWAITED, RANK_HERE, RANK_ENDED } rank_place;

/* One end of a message. In the list of who is to receive it until the other end is there. */
typedef struct thread_ticket thread_ticket;
struct thread_ticket {
    comm_post post;
    int owner;
    bool under_way;
    bool copying;     /* its bytes are in use by whoever posted the second end */
    comm_event event; /* COMM_PENDING until the bytes are there */
    uint64_t came;    /* COMM_SIZE: bytes of the message */
    thread_ticket *next;
};

typedef struct hall_rank {
    rank_place place;
    thread_ticket
        *first; /* ends of messages to this rank, sends and receives, as they were posted */
    pthread_cond_t changed;
} hall_rank;

struct comm_hall {
    ebb_ctx *ctx;
    pthread_mutex_t lock;
    int ranks;
    int gave_up; /* who ended all; -1: nobody */
    hall_rank rank[];
};

typedef struct thread_state {
    comm_hall *hall;
    int rank, tickets;
    thread_ticket ticket[];
} thread_state;

/* ---- the hall ------------------------------------------------------------------------------ */

static void hall_drop(comm_hall *hall, int conditions) {
    for (int i = 0; i < conditions; i++) {
        (void)pthread_cond_destroy(&hall->rank[i].changed);
    }
    (void)pthread_mutex_destroy(&hall->lock);
    ebb__free(hall->ctx, hall);
}

ebb_status ebb__comm_hall_new(ebb_ctx *ctx, int ranks, comm_hall **out) {
    comm_hall *hall;
    pthread_condattr_t monotonic;
    *out = NULL;
    if (ranks < 1 || ranks > RANKS_MOST) {
        return ebb__fail(ctx, EBB_USAGE, "threads: %d ranks are not between 1 and %d", ranks,
                         RANKS_MOST);
    }
    TRY(ebb__alloc(ctx, 1, sizeof *hall + (size_t)ranks * sizeof hall->rank[0], &hall));
    hall->ctx = ctx;
    hall->ranks = ranks;
    hall->gave_up = -1;
    (void)pthread_mutex_init(&hall->lock, NULL); /* with default attributes it cannot fail */
    int made = 0, error = pthread_condattr_init(&monotonic);
    if (error == 0) {
        (void)pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
        while (made < ranks && error == 0) {
            error = pthread_cond_init(&hall->rank[made].changed, &monotonic);
            made += error == 0;
        }
        (void)pthread_condattr_destroy(&monotonic);
    }
    if (error != 0) {
        hall_drop(hall, made);
        return ebb__fail(ctx, EBB_NOMEM, "threads: the system gave no condition for a rank");
    }
    *out = hall;
    return EBB_OK;
}

void ebb__comm_hall_free(comm_hall *hall) {
    if (hall != NULL) {
        hall_drop(hall, hall->ranks);
    }
}

static void wake_all(comm_hall *hall) {
    for (int i = 0; i < hall->ranks; i++) {
        (void)pthread_cond_broadcast(&hall->rank[i].changed);
    }
}

/* ---- lists of ends ------------------------------------------------------------------------- */

static int receiver_of(const thread_ticket *t) {
    return t->post.is_send ? t->post.peer : t->owner;
}

static int sender_of(const thread_ticket *t) {
    return t->post.is_send ? t->owner : t->post.peer;
}

static void list_add(comm_hall *hall, thread_ticket *t) {
    thread_ticket **end = &hall->rank[receiver_of(t)].first;
    while (*end != NULL) {
        end = &(*end)->next;
    }
    *end = t;
    t->next = NULL;
}

/* Nothing where it is in no list. */
static void list_remove(comm_hall *hall, const thread_ticket *t) {
    thread_ticket **link = &hall->rank[receiver_of(t)].first;
    while (*link != NULL && *link != t) {
        link = &(*link)->next;
    }
    if (*link == t) {
        *link = t->next;
    }
}

/* The other end of the same message; the first that was posted. NULL: none yet. */
static thread_ticket *find_other(comm_hall *hall, const thread_ticket *t) {
    thread_ticket *other = hall->rank[receiver_of(t)].first;
    while (other != NULL && (other->post.is_send == t->post.is_send ||
                             other->post.tag != t->post.tag || sender_of(other) != sender_of(t))) {
        other = other->next;
    }
    return other;
}

/* ---- the table ----------------------------------------------------------------------------- */

static size_t thread_room(const comm_setup *setup) {
    return sizeof(thread_state) + (size_t)setup->tickets * sizeof(thread_ticket);
}

static comm_event thread_open(void *state, const comm_setup *setup, int *rank, int *size,
                              comm_news *news) {
    thread_state *own = state;
    comm_hall *hall = setup->hall;
    if (setup->rank < 0 || setup->rank >= hall->ranks) {
        (void)snprintf(news->text, sizeof news->text, "rank %d is not between 0 and %d",
                       setup->rank, hall->ranks - 1);
        return COMM_REFUSED;
    }
    (void)pthread_mutex_lock(&hall->lock);
    bool awaited = hall->rank[setup->rank].place == RANK_AWAITED;
    if (awaited) {
        hall->rank[setup->rank].place = RANK_HERE;
    }
    (void)pthread_mutex_unlock(&hall->lock);
    if (!awaited) {
        (void)snprintf(news->text, sizeof news->text, "rank %d was there before", setup->rank);
        return COMM_REFUSED;
    }
    own->hall = hall;
    *rank = own->rank = setup->rank;
    *size = hall->ranks;
    own->tickets = setup->tickets;
    return COMM_DONE;
}

static bool any_copying(const thread_state *own) {
    bool copying = false;
    for (int i = 0; i < own->tickets; i++) {
        copying = copying || own->ticket[i].copying;
    }
    return copying;
}

static void thread_close(void *state, bool lost) {
    thread_state *own = state;
    comm_hall *hall = own->hall;
    hall_rank *place = &hall->rank[own->rank];
    (void)lost; /* nobody is waited for anyway, but for copies, which end */
    (void)pthread_mutex_lock(&hall->lock);
    for (int i = 0; i < own->tickets; i++) {
        if (own->ticket[i].under_way) {
            list_remove(hall, &own->ticket[i]);
        }
    }
    while (any_copying(own)) {
        (void)pthread_cond_wait(&place->changed, &hall->lock);
    }
    place->place = RANK_ENDED;
    wake_all(hall);
    (void)pthread_mutex_unlock(&hall->lock);
}

/* Both ends are out of the list, so that nobody else touches them; called without the lock. */
static void copy_message(const thread_ticket *from, const thread_ticket *to) {
    if (from->post.bytes == to->post.bytes && to->post.bytes > 0) {
        memmove(to->post.data, from->post.data, to->post.bytes);
    }
}

static comm_event thread_start(void *state, int ticket, const comm_post *post, comm_news *news) {
    thread_state *own = state;
    comm_hall *hall = own->hall;
    thread_ticket *t = &own->ticket[ticket];
    (void)news;
    (void)pthread_mutex_lock(&hall->lock);
    *t = (thread_ticket){
        .post = *post, .owner = own->rank, .under_way = true, .event = COMM_PENDING};
    thread_ticket *other = find_other(hall, t);
    if (other == NULL) {
        list_add(hall, t);
    } else {
        thread_ticket *from = post->is_send ? t : other, *to = post->is_send ? other : t;
        list_remove(hall, other);
        other->copying = true;
        (void)pthread_mutex_unlock(&hall->lock);
        copy_message(from, to);
        (void)pthread_mutex_lock(&hall->lock);
        other->copying = false;
        from->event = COMM_DONE;
        to->event = from->post.bytes == to->post.bytes ? COMM_DONE : COMM_SIZE;
        to->came = from->post.bytes;
        (void)pthread_cond_broadcast(&hall->rank[other->owner].changed);
    }
    (void)pthread_mutex_unlock(&hall->lock);
    return COMM_PENDING;
}

static struct timespec moment_after(double seconds) {
    struct timespec at;
    double most = seconds < LONG ? seconds : LONG;
    (void)clock_gettime(CLOCK_MONOTONIC, &at);
    at.tv_sec += (time_t)most;
    at.tv_nsec += (long)((most - (double)(time_t)most) * 1e9);
    if (at.tv_nsec >= 1000000000) {
        at.tv_sec++;
        at.tv_nsec -= 1000000000;
    }
    return at;
}

/* What is known now; whether the bytes came goes before whether somebody is gone. */
static comm_event state_of(const thread_state *own, const thread_ticket *t, comm_news *news) {
    const comm_hall *hall = own->hall;
    news->bytes = t->came;
    if (t->event != COMM_PENDING || t->copying) {
        return t->event;
    }
    news->rank = hall->gave_up >= 0 ? hall->gave_up : t->post.peer;
    return hall->gave_up >= 0 || hall->rank[t->post.peer].place == RANK_ENDED ? COMM_GONE
                                                                              : COMM_PENDING;
}

static comm_event thread_wait(void *state, int ticket, double seconds, comm_news *news) {
    thread_state *own = state;
    comm_hall *hall = own->hall;
    thread_ticket *t = &own->ticket[ticket];
    struct timespec until = moment_after(seconds);
    pthread_cond_t *changed = &hall->rank[own->rank].changed;
    bool late = false;
    (void)pthread_mutex_lock(&hall->lock);
    comm_event event = state_of(own, t, news);
    while (event == COMM_PENDING && seconds > 0 && (!late || t->copying)) {
        if (t->copying) {
            (void)pthread_cond_wait(changed,
                                    &hall->lock); /* the other is there, and not for long */
        } else {
            late = pthread_cond_timedwait(changed, &hall->lock, &until) == ETIMEDOUT;
        }
        event = state_of(own, t, news);
    }
    if (event == COMM_DONE || event == COMM_SIZE) {
        t->under_way = false;
    }
    (void)pthread_mutex_unlock(&hall->lock);
    return event;
}

static comm_event thread_poll(void *state, comm_news *news) {
    comm_hall *hall = ((thread_state *)state)->hall;
    (void)pthread_mutex_lock(&hall->lock);
    news->rank = hall->gave_up;
    (void)pthread_mutex_unlock(&hall->lock);
    return news->rank >= 0 ? COMM_GONE : COMM_PENDING;
}

/* The first to give up is who is to blame. */
static void thread_give_up(void *state, int code) {
    thread_state *own = state;
    comm_hall *hall = own->hall;
    (void)code; /* the process goes on, and whoever is told so has a status of its own */
    (void)pthread_mutex_lock(&hall->lock);
    if (hall->gave_up < 0) {
        hall->gave_up = own->rank;
    }
    wake_all(hall);
    (void)pthread_mutex_unlock(&hall->lock);
}

const comm_calls ebb__comm_threads_calls = {
    .version = COMM_VERSION,
    .bytes = sizeof(comm_calls),
    .name = "threads",
    .room = thread_room,
    .open = thread_open,
    .close = thread_close,
    .start = thread_start,
    .wait = thread_wait,
    .poll = thread_poll,
    .give_up = thread_give_up,
};
