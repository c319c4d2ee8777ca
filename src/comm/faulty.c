/* faulty.c - a wrapper that makes one fault, at a call that is named or drawn from a seed; for
 * tests of what happens then. All else is handed on. */
#include "comm/comm.h"

#include "base/alloc.h"
#include "base/rng.h"

#include <time.h>

typedef struct faulty_ticket {
    comm_post post;
    bool dropped; /* the back end never heard of it */
    bool waited;  /* for it: what a wait looks for again and again counts once */
} faulty_ticket;

typedef struct faulty_state {
    comm_back below;
    comm_fault fault;
    rng_key key;
    uint64_t calls;
    bool dead; /* killed: `below` is closed */
    bool over; /* the fault was made */
    faulty_ticket ticket[];
} faulty_state;

static void doze(double seconds) {
    struct timespec left = {.tv_sec = (time_t)seconds};
    left.tv_nsec = (long)((seconds - (double)left.tv_sec) * 1e9);
    (void)nanosleep(&left, NULL);
}

static bool due(const faulty_state *f, comm_fault_kind kind) {
    return !f->over && f->fault.kind == kind && f->calls >= f->fault.at;
}

/* Counts a call, and makes the faults that need no message. False: this rank is dead. */
static bool count_call(faulty_state *f, int calls, comm_news *news) {
    f->calls += (uint64_t)calls;
    if (due(f, FAULT_DELAY)) {
        f->over = true;
        doze(f->fault.seconds);
    } else if (due(f, FAULT_KILL)) {
        f->over = f->dead = true;
        f->below.calls->close(f->below.state, true);
    }
    news->rank = f->dead ? f->below.rank : news->rank;
    return !f->dead;
}

static void flip_bit(faulty_state *f, const comm_post *post) {
    rng_block draw = ebb__rng_block(f->key, 1, 0, 0, 0);
    uint64_t place = (uint64_t)draw.word[0] << 32 | draw.word[1];
    unsigned char *bytes = post->data;
    bytes[place % post->bytes] ^= (unsigned char)(1u << draw.word[2] % 8);
    f->over = true;
}

static comm_event faulty_start(void *state, int ticket, const comm_post *post, comm_news *news) {
    faulty_state *f = state;
    faulty_ticket *t = &f->ticket[ticket];
    if (!count_call(f, 1, news)) {
        return COMM_GONE;
    }
    *t = (faulty_ticket){.post = *post, .dropped = post->is_send && due(f, FAULT_DROP)};
    if (t->dropped) {
        f->over = true;
        return COMM_PENDING;
    }
    return f->below.calls->start(f->below.state, ticket, post, news);
}

static comm_event faulty_wait(void *state, int ticket, double seconds, comm_news *news) {
    faulty_state *f = state;
    faulty_ticket *t = &f->ticket[ticket];
    bool first = !t->waited;
    t->waited = true;
    if (!count_call(f, first, news)) {
        return COMM_GONE;
    }
    if (t->dropped) {
        return COMM_DONE;
    }
    comm_event event = f->below.calls->wait(f->below.state, ticket, seconds, news);
    if (event == COMM_DONE && !t->post.is_send && t->post.bytes > 0 && due(f, FAULT_FLIP)) {
        flip_bit(f, &t->post);
    }
    return event;
}

static comm_event faulty_poll(void *state, comm_news *news) {
    faulty_state *f = state;
    return count_call(f, 1, news) ? f->below.calls->poll(f->below.state, news) : COMM_GONE;
}

static void faulty_give_up(void *state, int code) {
    faulty_state *f = state;
    if (!f->dead) {
        f->below.calls->give_up(f->below.state, code);
    }
}

static void faulty_close(void *state, bool lost) {
    faulty_state *f = state;
    if (!f->dead) {
        f->below.calls->close(f->below.state, lost);
    }
    ebb__free(f->below.ctx, f->below.state);
}

/* A link is made faulty after it was opened, so these two columns stay empty. */
static const comm_calls faulty_calls = {
    .version = COMM_VERSION,
    .bytes = sizeof(comm_calls),
    .name = "faulty",
    .close = faulty_close,
    .start = faulty_start,
    .wait = faulty_wait,
    .poll = faulty_poll,
    .give_up = faulty_give_up,
};

ebb_status ebb__comm_make_faulty(comm_link *link, const comm_fault *fault) {
    comm_back *back = ebb__comm_back(link);
    faulty_state *f;
    size_t bytes = sizeof *f + (size_t)back->tickets * sizeof f->ticket[0];
    TRY(ebb__alloc(back->ctx, 1, bytes, &f));
    f->below = *back;
    f->fault = *fault;
    f->key = ebb__rng_key(fault->seed, "comm.faulty");
    if (fault->at == 0) {
        uint32_t word = ebb__rng_block(f->key, 0, 0, 0, 0).word[0];
        f->fault.at = 1 + word % (fault->within > 0 ? fault->within : 1);
    }
    back->calls = &faulty_calls;
    back->state = f;
    return EBB_OK;
}
