/* self.c - one rank alone: messages to itself, matched and copied when the second end is posted.
 * Never sleeps: whose other end is not posted by now never will be. */
#include "comm/backend.h"

#include <string.h>

typedef struct self_ticket {
    comm_post post;
    comm_event event; /* COMM_PENDING: waits for its other end */
    uint64_t order;   /* of posting, from 1; 0: not under way */
    uint64_t came;    /* COMM_SIZE: bytes of the message */
} self_ticket;

typedef struct self_state {
    int tickets;
    uint64_t posted;
    self_ticket ticket[];
} self_state;

static size_t self_room(const comm_setup *setup) {
    return sizeof(self_state) + (size_t)setup->tickets * sizeof(self_ticket);
}

static comm_event self_open(void *state, const comm_setup *setup, int *rank, int *size,
                            comm_news *news) {
    self_state *self = state;
    (void)news;
    self->tickets = setup->tickets;
    *rank = 0;
    *size = 1;
    return COMM_DONE;
}

static void self_close(void *state, bool lost) {
    (void)state;
    (void)lost;
}

/* The other end that was posted first; NULL: none. */
static self_ticket *find_other(self_state *self, const comm_post *post) {
    self_ticket *found = NULL;
    for (int i = 0; i < self->tickets; i++) {
        self_ticket *t = &self->ticket[i];
        if (t->order > 0 && t->event == COMM_PENDING && t->post.is_send != post->is_send &&
            t->post.tag == post->tag && (found == NULL || t->order < found->order)) {
            found = t;
        }
    }
    return found;
}

static comm_event self_start(void *state, int ticket, const comm_post *post, comm_news *news) {
    self_state *self = state;
    self_ticket *own = &self->ticket[ticket], *other = find_other(self, post);
    (void)news;
    *own = (self_ticket){.post = *post, .event = COMM_PENDING, .order = ++self->posted};
    if (other == NULL) {
        return COMM_PENDING;
    }
    self_ticket *from = post->is_send ? own : other, *to = post->is_send ? other : own;
    from->event = to->event = COMM_DONE;
    if (from->post.bytes != to->post.bytes) {
        to->event = COMM_SIZE;
        to->came = from->post.bytes;
    } else if (to->post.bytes > 0) {
        memmove(to->post.data, from->post.data, to->post.bytes);
    }
    return COMM_PENDING;
}

static comm_event self_wait(void *state, int ticket, double seconds, comm_news *news) {
    self_ticket *own = &((self_state *)state)->ticket[ticket];
    (void)seconds;
    news->bytes = own->came;
    if (own->event != COMM_PENDING) {
        own->order = 0;
    }
    return own->event;
}

static comm_event self_poll(void *state, comm_news *news) {
    (void)state;
    (void)news;
    return COMM_PENDING;
}

static void self_give_up(void *state, int code) {
    (void)state; /* there is nobody to tell */
    (void)code;
}

const comm_calls ebb__comm_self_calls = {
    .version = COMM_VERSION,
    .bytes = sizeof(comm_calls),
    .name = "self",
    .room = self_room,
    .open = self_open,
    .close = self_close,
    .start = self_start,
    .wait = self_wait,
    .poll = self_poll,
    .give_up = self_give_up,
};
