/* comm.c - a link: tickets, checks, and sentences for what a back end says. Moves no byte itself.
 *
 * Who waits for a message asks its other rank now and then whether it is alive. Only that one:
 * where it waits itself, for a third, it asks that; so the rank that is missing is named by one
 * that waits for it and for nobody else. */
#include "comm/comm.h"

#include "base/alloc.h"
#include "base/host.h"

#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { TICKETS_MOST = 1 << 20 };
static const double ASK_SECONDS = 0.25;          /* from one question to the next, at most */
static const long GRACE_NANOSECONDS = 500000000; /* for lower ranks to say that they failed too */

typedef struct comm_slot {
    comm_post post;
    bool used;
    int next; /* free slot; -1: none */
} comm_slot;

typedef struct link_peer {
    comm_peer peer;
    pulse_card card;
} link_peer;

struct comm_link {
    comm_back back;
    int size;
    int free; /* the first free slot */
    bool lost;
    bool agreed; /* see ebb__comm_agreed */
    bool told;   /* that another rank failed */
    comm_loss loss;
    link_peer *peers; /* [size]; NULL until all have come */
    comm_slot slot[];
};

/* ---- what went wrong ----------------------------------------------------------------------- */

typedef struct peer_name {
    char text[128];
} peer_name;

/* "rank 3 (pid 4711 on host)", or less while that is not known. */
static peer_name name_of(const comm_link *link, int rank) {
    peer_name name;
    if (link->peers != NULL && rank >= 0 && rank < link->size) {
        const comm_peer *peer = &link->peers[rank].peer;
        (void)snprintf(name.text, sizeof name.text, "rank %d (pid %lld on %s)", rank,
                       (long long)peer->pid, peer->host);
    } else {
        (void)snprintf(name.text, sizeof name.text, "rank %d", rank);
    }
    return name;
}

static void blame(comm_link *link, int rank, const char *how) {
    link->lost = true;
    link->loss = (comm_loss){rank, how};
}

static const char *way_of(const comm_post *post) {
    return post->is_send ? "to" : "from";
}

/* The status of an event that ended a wait of `seconds`, with its sentence. */
static ebb_status explain(comm_link *link, const comm_post *post, comm_event event,
                          const comm_news *news, double seconds) {
    ebb_ctx *ctx = link->back.ctx;
    switch (event) {
    case COMM_DONE:
        return EBB_OK;
    case COMM_SIZE:
        return ebb__fail(ctx, EBB_INTERNAL,
                         "%s sent %llu bytes with tag %d, where rank %d expects %zu",
                         name_of(link, post->peer).text, (unsigned long long)news->bytes, post->tag,
                         link->back.rank, post->bytes);
    case COMM_REFUSED:
        return ebb__fail(ctx, EBB_USAGE, "%s (message %s rank %d with tag %d of %zu bytes)",
                         news->text, way_of(post), post->peer, post->tag, post->bytes);
    case COMM_GONE:
        blame(link, news->rank, link->told ? "has failed" : "has ended");
        return ebb__fail(ctx, EBB_LOST,
                         "%s %s, while rank %d waits for a message %s rank %d (tag %d, %zu "
                         "bytes)",
                         name_of(link, news->rank).text, link->loss.how, link->back.rank,
                         way_of(post), post->peer, post->tag, post->bytes);
    case COMM_PENDING:
        break;
    }
    if (post->peer == link->back.rank) {
        return ebb__fail(
            ctx, EBB_INTERNAL,
            "rank %d waits for a message %s itself (tag %d, %zu bytes) whose other end "
            "it never posted",
            post->peer, way_of(post), post->tag, post->bytes);
    }
    blame(link, post->peer, "does not answer");
    return ebb__fail(ctx, EBB_LOST,
                     "%s has not answered for %g s, while rank %d waits for a message %s it (tag "
                     "%d, %zu bytes)",
                     name_of(link, post->peer).text, seconds, link->back.rank, way_of(post),
                     post->tag, post->bytes);
}

/* ---- open and close ------------------------------------------------------------------------ */

/* Everybody learns who the others are, and so that they are there; then all can be asked. */
static ebb_status introduce(comm_link *link, double seconds) {
    ebb_ctx *ctx = link->back.ctx;
    int rank = link->back.rank;
    link_peer *peers = NULL, mine = {.peer.pid = (int64_t)getpid()};
    comm_pulse *pulse = NULL;
    ebb_status status;
    if (gethostname(mine.peer.host, sizeof mine.peer.host - 1) != 0) {
        (void)snprintf(mine.peer.host, sizeof mine.peer.host, "unknown");
    }
    TRY_OUT(ebb__alloc(ctx, (size_t)link->size, sizeof *peers, &peers));
    if (link->size > 1) {
        TRY_OUT(ebb__pulse_new(ctx, rank, link->size, &pulse, &mine.card));
    }
    TRY_OUT(ebb__comm_gather(link, 0, &mine, rank == 0 ? peers : NULL, sizeof mine, seconds));
    TRY_OUT(ebb__comm_broadcast(link, 0, peers, (size_t)link->size * sizeof *peers, seconds));
    for (int i = 0; i < link->size; i++) {
        peers[i].peer.host[sizeof peers[i].peer.host - 1] = '\0';
    }
    if (pulse != NULL) {
        ebb__pulse_begin(pulse, &peers[0].card, sizeof *peers);
    }
    link->peers = peers;
    link->back.pulse = pulse;
    return EBB_OK;
out:
    ebb__pulse_free(pulse);
    ebb__free(ctx, peers);
    return status;
}

static ebb_status open_back(comm_link *link, const comm_setup *setup) {
    comm_back *back = &link->back;
    comm_news news = {.rank = -1};
    TRY(ebb__alloc(back->ctx, 1, back->calls->room(setup), &back->state));
    comm_event event = back->calls->open(back->state, setup, &back->rank, &link->size, &news);
    if (event == COMM_DONE) {
        return EBB_OK;
    }
    ebb__free(back->ctx, back->state);
    back->state = NULL;
    return ebb__fail(back->ctx, EBB_USAGE, "%s: %s", back->calls->name, news.text);
}

ebb_status ebb__comm_open(ebb_ctx *ctx, const comm_calls *calls, const comm_setup *setup,
                          comm_link **out) {
    *out = NULL;
    if (setup->tickets < 1 || setup->tickets > TICKETS_MOST) {
        return ebb__fail(ctx, EBB_USAGE, "%s: %d tickets are not between 1 and %d", calls->name,
                         setup->tickets, TICKETS_MOST);
    }
    comm_link *link;
    size_t bytes = sizeof *link + (size_t)setup->tickets * sizeof link->slot[0];
    TRY(ebb__alloc(ctx, 1, bytes, &link));
    link->back = (comm_back){.ctx = ctx, .tickets = setup->tickets, .calls = calls};
    link->loss.rank = -1;
    for (int i = 0; i < setup->tickets; i++) {
        link->slot[i].next = i + 1 < setup->tickets ? i + 1 : -1;
    }
    ebb_status status = open_back(link, setup);
    if (status == EBB_OK) {
        status = introduce(link, setup->seconds);
    }
    if (status != EBB_OK) {
        link->lost = true; /* the others may still wait for this rank, so it waits for nobody */
        ebb__comm_close(link);
        return status;
    }
    *out = link;
    return EBB_OK;
}

void ebb__comm_close(comm_link *link) {
    if (link == NULL) {
        return;
    }
    ebb_ctx *ctx = link->back.ctx;
    if (link->back.state != NULL) {
        link->back.calls->close(link->back.state, link->lost);
    }
    ebb__pulse_free(link->back.pulse);
    ebb__free(ctx, link->back.state);
    ebb__free(ctx, link->peers);
    ebb__free(ctx, link);
}

int ebb__comm_rank(const comm_link *link) {
    return link->back.rank;
}

bool ebb__comm_agreed(const comm_link *link) {
    return link->agreed;
}

void ebb__comm_set_agreed(comm_link *link) {
    link->agreed = true;
}

int ebb__comm_size(const comm_link *link) {
    return link->size;
}

const comm_peer *ebb__comm_describe(const comm_link *link, int rank) {
    return &link->peers[rank].peer;
}

int ebb__comm_here(const comm_link *link) {
    const char *own = link->peers[link->back.rank].peer.host;
    int here = 0;
    for (int rank = 0; rank < link->size; rank++) {
        here += strcmp(link->peers[rank].peer.host, own) == 0;
    }
    return here;
}

comm_back *ebb__comm_back(comm_link *link) {
    return &link->back;
}

void ebb__comm_keep_tickets(comm_link *link, int n) {
    link->back.tickets = n;
    link->free = 0;
    for (int i = 0; i < n; i++) {
        link->slot[i].next = i + 1 < n ? i + 1 : -1;
    }
}

/* ---- messages ------------------------------------------------------------------------------ */

static ebb_status start(comm_link *link, const comm_post *post, int *ticket) {
    comm_back *back = &link->back;
    comm_news news = {.rank = -1};
    int taken = link->free;
    *ticket = -1;
    if (post->peer < 0 || post->peer >= link->size || post->tag < 0) {
        return ebb__fail(
            back->ctx, EBB_USAGE,
            "no message can go %s rank %d with tag %d: ranks go from 0 to %d, tags from 0",
            way_of(post), post->peer, post->tag, link->size - 1);
    }
    if (taken < 0) {
        return ebb__fail(
            back->ctx, EBB_INTERNAL,
            "no message can go %s rank %d with tag %d: all %d tickets of rank %d are in use",
            way_of(post), post->peer, post->tag, back->tickets, back->rank);
    }
    comm_event event = back->calls->start(back->state, taken, post, &news);
    if (event != COMM_PENDING) {
        return explain(link, post, event, &news, 0);
    }
    link->free = link->slot[taken].next;
    link->slot[taken] = (comm_slot){.post = *post, .used = true, .next = -1};
    *ticket = taken;
    return EBB_OK;
}

ebb_status ebb__comm_send(comm_link *link, int to, int tag, const void *data, size_t bytes,
                          int *ticket) {
    return start(link,
                 &(comm_post){.is_send = true,
                              .peer = to,
                              .tag = tag,
                              .data = (void *)(uintptr_t)data, /* back ends only read it */
                              .bytes = bytes},
                 ticket);
}

ebb_status ebb__comm_recv(comm_link *link, int from, int tag, void *data, size_t bytes,
                          int *ticket) {
    return start(link, &(comm_post){.peer = from, .tag = tag, .data = data, .bytes = bytes},
                 ticket);
}

static ebb_status look(comm_link *link, int ticket, double seconds, comm_event *event,
                       comm_news *news) {
    comm_back *back = &link->back;
    if (ticket < 0 || ticket >= back->tickets || !link->slot[ticket].used) {
        return ebb__fail(back->ctx, EBB_INTERNAL,
                         "rank %d waits for ticket %d, which is not in use", back->rank, ticket);
    }
    *news = (comm_news){.rank = link->slot[ticket].post.peer};
    *event = back->calls->wait(back->state, ticket, seconds, news);
    if (*event == COMM_DONE || *event == COMM_SIZE) {
        link->slot[ticket].used = false;
        link->slot[ticket].next = link->free;
        link->free = ticket;
    }
    return EBB_OK;
}

/* Whether a rank said that it failed, or the one that is waited for has ended. */
static bool is_over(comm_link *link, int peer, int *blamed) {
    comm_pulse *pulse = link->back.pulse;
    int failed = pulse != NULL ? ebb__pulse_failed(pulse) : -1;
    link->told = link->told || failed >= 0;
    *blamed = failed >= 0 ? failed : peer;
    return failed >= 0 || (pulse != NULL && ebb__pulse_has_ended(pulse, peer));
}

/* Asks the rank again, and adds the seconds that passed to those of its silence, if nothing came
 * from it. Time in which this process was stopped itself, maybe with all others, is not of it. */
static double silence_of(comm_pulse *pulse, int peer, double silent, double passed, double most,
                         unsigned *heard) {
    if (pulse == NULL) {
        return silent + passed;
    }
    unsigned now = ebb__pulse_heard(pulse, peer);
    silent = now != *heard ? 0 : silent + (passed < most ? passed : most);
    *heard = now;
    ebb__pulse_ask(pulse, peer);
    return silent;
}

/* Until nothing was heard of the other rank for so many seconds. */
static ebb_status wait_alive(comm_link *link, int ticket, double seconds, comm_event *event,
                             comm_news *news) {
    const double slice = seconds / 4 < ASK_SECONDS ? seconds / 4 : ASK_SECONDS;
    double silent = 0, start = ebb__clock_seconds();
    unsigned heard = 0;
    TRY(look(link, ticket, slice, event, news));
    while (*event == COMM_PENDING && silent < seconds) {
        int peer = link->slot[ticket].post.peer, blamed;
        if (is_over(link, peer, &blamed)) {
            TRY(look(link, ticket, 0, event, news)); /* what came before that is good */
            *event = *event == COMM_PENDING ? COMM_GONE : *event;
            news->rank = blamed;
            return EBB_OK;
        }
        double now = ebb__clock_seconds();
        silent = silence_of(link->back.pulse, peer, silent, now - start, 2 * slice, &heard);
        start = now;
        TRY(look(link, ticket, slice, event, news));
    }
    return EBB_OK;
}

ebb_status ebb__comm_wait(comm_link *link, int ticket, double seconds) {
    comm_event event;
    comm_news news;
    TRY(look(link, ticket, 0, &event, &news));
    const comm_post *post = &link->slot[ticket].post;
    if (event == COMM_PENDING && seconds > 0) {
        TRY(post->peer == link->back.rank ? look(link, ticket, seconds, &event, &news)
                                          : wait_alive(link, ticket, seconds, &event, &news));
    }
    return explain(link, post, event, &news, seconds);
}

ebb_status ebb__comm_test(comm_link *link, int ticket, bool *done) {
    comm_event event;
    comm_news news;
    *done = false;
    TRY(look(link, ticket, 0, &event, &news));
    if (event == COMM_PENDING) {
        return EBB_OK;
    }
    *done = event == COMM_DONE;
    return explain(link, &link->slot[ticket].post, event, &news, 0);
}

ebb_status ebb__comm_poll(comm_link *link) {
    comm_news news = {.rank = -1};
    int failed = link->back.pulse != NULL ? ebb__pulse_failed(link->back.pulse) : -1;
    if (failed >= 0) {
        link->told = true;
        news.rank = failed;
    } else if (link->back.calls->poll(link->back.state, &news) != COMM_GONE) {
        return EBB_OK;
    }
    blame(link, news.rank, link->told ? "has failed" : "has ended");
    return ebb__fail(link->back.ctx, EBB_LOST, "%s %s, and all others with it",
                     name_of(link, news.rank).text, link->loss.how);
}

comm_loss ebb__comm_lost(const comm_link *link) {
    return link->loss;
}

bool ebb__comm_fail(comm_link *link) {
    comm_pulse *pulse = link->back.pulse;
    const struct timespec grace = {.tv_nsec = GRACE_NANOSECONDS};
    link->lost = true; /* who closes it now waits for nobody */
    if (link->told) {
        return false;
    }
    if (pulse != NULL) {
        ebb__pulse_tell(pulse);
    }
    if (link->back.rank > 0) {
        (void)nanosleep(&grace, NULL);
    }
    int failed = pulse != NULL ? ebb__pulse_failed(pulse) : -1;
    return failed < 0 || failed > link->back.rank;
}

void ebb__comm_abort(comm_link *link, ebb_status why) {
    link->lost = true;
    link->back.calls->give_up(link->back.state, (int)why);
}
