/* ranks.c - see ranks.h. The proof looks at nothing but the lists: all starts are numbered one rank
 * behind the other, sorted by who sends what to whom, and paired; then the ranks go through their
 * lists, each as far as it can, until all are at the end or none can go on. */
#include "plan/ranks.h"

#include "base/alloc.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

enum { STEPS = 2 }; /* one behind the other: who is done may begin the next while others are not */

/* One of the two ends of a message. */
typedef struct proof_end {
    int32_t from, to, tag;
    int32_t number; /* of the start: its rank's first and its place in the list */
    const plan_message *message;
} proof_end;

typedef struct proof {
    ebb_ctx *ctx;
    const char *program;
    const plan_messages *lists;
    int32_t ranks;
    alloc_region region;
    int32_t *first;   /* by rank: the number of its first message */
    int32_t *partner; /* by number of a start: that of the same message on the other rank */
    int32_t *waited;  /* by number of a start: how many wait for it */
    int32_t *started; /* by number: how often so far */
    int64_t *at;      /* by rank: how many it has carried out, over all steps */
    proof_end *sends, *recvs;
    int32_t n_sends, n_recvs;
} proof;

/* How every refusal begins. */
#define REFUSED "the plans of the ranks do not fit together: in program %s "

static bool is_start(const plan_message *m) {
    return m->kind == MESSAGE_SEND || m->kind == MESSAGE_RECV;
}

/* ---- each start is waited for ---- */

static ebb_status check_wait(const proof *p, int32_t rank, int32_t i) {
    const plan_messages *list = &p->lists[rank];
    const plan_message *m = &list->at[i];
    int32_t kind = m->kind == MESSAGE_SENT ? MESSAGE_SEND : MESSAGE_RECV;
    if (m->start < 0 || m->start >= i || list->at[m->start].kind != kind) {
        return ebb__fail(p->ctx, EBB_INTERNAL,
                         REFUSED "rank %d waits for message %d (%s) before it has started it",
                         p->program, rank, m->tag, m->label);
    }
    if (p->waited[p->first[rank] + m->start]++ > 0) {
        return ebb__fail(p->ctx, EBB_INTERNAL, REFUSED "rank %d waits for message %d (%s) twice",
                         p->program, rank, m->tag, m->label);
    }
    return EBB_OK;
}

static ebb_status check_waits(const proof *p, int32_t rank) {
    const plan_messages *list = &p->lists[rank];
    for (int32_t i = 0; i < list->n; i++) {
        TRY(is_start(&list->at[i]) ? EBB_OK : check_wait(p, rank, i));
    }
    for (int32_t i = 0; i < list->n; i++) {
        const plan_message *m = &list->at[i];
        if (is_start(m) && p->waited[p->first[rank] + i] == 0) {
            return ebb__fail(p->ctx, EBB_INTERNAL,
                             REFUSED "rank %d starts message %d (%s) and never waits for it",
                             p->program, rank, m->tag, m->label);
        }
    }
    return EBB_OK;
}

/* ---- each send has its receive ---- */

static int compare_ends(const void *a, const void *b) {
    const proof_end *x = a, *y = b;
    int by_from = (x->from > y->from) - (x->from < y->from);
    int by_to = (x->to > y->to) - (x->to < y->to);
    int by_tag = (x->tag > y->tag) - (x->tag < y->tag);
    return by_from != 0 ? by_from : by_to != 0 ? by_to : by_tag;
}

static void gather_ends(proof *p) {
    for (int32_t rank = 0; rank < p->ranks; rank++) {
        for (int32_t i = 0; i < p->lists[rank].n; i++) {
            const plan_message *m = &p->lists[rank].at[i];
            int32_t number = p->first[rank] + i;
            if (m->kind == MESSAGE_SEND) {
                p->sends[p->n_sends++] = (proof_end){rank, m->peer, m->tag, number, m};
            } else if (m->kind == MESSAGE_RECV) {
                p->recvs[p->n_recvs++] = (proof_end){m->peer, rank, m->tag, number, m};
            }
        }
    }
    qsort(p->sends, (size_t)p->n_sends, sizeof *p->sends, compare_ends);
    qsort(p->recvs, (size_t)p->n_recvs, sizeof *p->recvs, compare_ends);
}

static ebb_status refuse_lonely(const proof *p, const proof_end *end) {
    bool send = end->message->kind == MESSAGE_SEND;
    return ebb__fail(p->ctx, EBB_INTERNAL,
                     REFUSED "rank %d %s message %d (%s) %s rank %d, which never %s it", p->program,
                     send ? end->from : end->to, send ? "sends" : "receives", end->tag,
                     end->message->label, send ? "to" : "from", send ? end->to : end->from,
                     send ? "receives" : "sends");
}

/* ends[i] is followed by one of the same message. */
static ebb_status check_once(const proof *p, const proof_end *ends, int32_t n, int32_t i) {
    const proof_end *end = &ends[i];
    bool send = end->message->kind == MESSAGE_SEND;
    return i + 1 == n || compare_ends(end, end + 1) != 0
               ? EBB_OK
               : ebb__fail(p->ctx, EBB_INTERNAL,
                           REFUSED "message %d from rank %d to rank %d is %s twice (%s, %s)",
                           p->program, end->tag, end->from, end->to, send ? "sent" : "received",
                           end->message->label, end[1].message->label);
}

static ebb_status check_pair(const proof *p, const proof_end *send, const proof_end *recv) {
    const plan_message *s = send->message, *r = recv->message;
    if (s->bytes == r->bytes && s->dtype == r->dtype && s->value == r->value) {
        return EBB_OK;
    }
    return ebb__fail(p->ctx, EBB_INTERNAL,
                     REFUSED "message %d from rank %d to rank %d is sent as %" PRIu64
                             " bytes of %s, value %d (%s), and received as %" PRIu64
                             " bytes of %s, value %d (%s)",
                     p->program, send->tag, send->from, send->to, s->bytes,
                     ebb__ir_dtype_name((ir_dtype)s->dtype), s->value, s->label, r->bytes,
                     ebb__ir_dtype_name((ir_dtype)r->dtype), r->value, r->label);
}

static ebb_status match(proof *p) {
    int32_t i = 0, j = 0;
    gather_ends(p);
    while (i < p->n_sends || j < p->n_recvs) {
        const proof_end *send = &p->sends[i], *recv = &p->recvs[j];
        int order = i == p->n_sends ? 1 : j == p->n_recvs ? -1 : compare_ends(send, recv);
        if (order != 0) {
            return refuse_lonely(p, order < 0 ? send : recv);
        }
        TRY(check_once(p, p->sends, p->n_sends, i));
        TRY(check_once(p, p->recvs, p->n_recvs, j));
        TRY(check_pair(p, send, recv));
        p->partner[send->number] = recv->number;
        p->partner[recv->number] = send->number;
        i++;
        j++;
    }
    return EBB_OK;
}

/* ---- nobody waits in vain ---- */

static const plan_message *next_of(const proof *p, int32_t rank) {
    const plan_messages *list = &p->lists[rank];
    return p->at[rank] < (int64_t)STEPS * list->n ? &list->at[p->at[rank] % list->n] : NULL;
}

/* Of one that waits: the other rank has started its end of the same step. */
static bool can_go(const proof *p, int32_t rank, const plan_message *m) {
    return is_start(m) ||
           p->started[p->partner[p->first[rank] + m->start]] > p->at[rank] / p->lists[rank].n;
}

/* Carries out what the rank can; whether that was anything. */
static bool advance(proof *p, int32_t rank) {
    const plan_message *m = next_of(p, rank);
    bool any = false;
    while (m != NULL && can_go(p, rank, m)) {
        p->started[p->first[rank] + p->at[rank] % p->lists[rank].n]++;
        p->at[rank]++;
        m = next_of(p, rank);
        any = true;
    }
    return any;
}

static int32_t waits_for(const proof *p, int32_t rank) {
    return p->lists[rank].at[next_of(p, rank)->start].peer;
}

/* Each that waits does so for a start that its rank has not come to, and so waits itself: going
 * from one to the next ends in a circle. Gives the least rank of it. */
static int32_t find_circle(const proof *p, int32_t rank) {
    for (int32_t i = 0; i < p->ranks; i++) {
        rank = waits_for(p, rank);
    }
    int32_t least = rank;
    for (int32_t next = waits_for(p, rank); next != rank; next = waits_for(p, next)) {
        least = next < least ? next : least;
    }
    return least;
}

static ebb_status refuse_circle(const proof *p, int32_t begin) {
    char circle[640] = "";
    size_t used = 0;
    int32_t rank = begin;
    do {
        const plan_message *m = next_of(p, rank);
        bool sent = m->kind == MESSAGE_SENT;
        int n = snprintf(circle + used, sizeof circle - used,
                         "%srank %d waits for rank %d to %s message %d (%s)", used > 0 ? ", " : "",
                         rank, waits_for(p, rank), sent ? "receive" : "send", m->tag, m->label);
        if (n < 0 || (size_t)n >= sizeof circle - used) {
            (void)snprintf(circle + used, sizeof circle - used, ", and so on");
            break;
        }
        used += (size_t)n;
        rank = waits_for(p, rank);
    } while (rank != begin);
    return ebb__fail(p->ctx, EBB_INTERNAL, REFUSED "ranks wait for each other: %s", p->program,
                     circle);
}

static ebb_status carry_out(proof *p) {
    bool any = true;
    while (any) {
        any = false;
        for (int32_t rank = 0; rank < p->ranks; rank++) {
            any = advance(p, rank) || any;
        }
    }
    for (int32_t rank = 0; rank < p->ranks; rank++) {
        TRY(next_of(p, rank) == NULL ? EBB_OK : refuse_circle(p, find_circle(p, rank)));
    }
    return EBB_OK;
}

static ebb_status prove(proof *p) {
    size_t ranks = (size_t)p->ranks, n = 0;
    TRY(REGION_ARRAYS(&p->region, ARRAY(p->first, ranks + 1), ARRAY(p->at, ranks + 1)));
    for (size_t rank = 0; rank < ranks; rank++) {
        p->first[rank] = (int32_t)n;
        n += (size_t)p->lists[rank].n;
    }
    TRY(REGION_ARRAYS(&p->region, ARRAY_NONE(p->partner, n + 1), ARRAY(p->waited, n + 1),
                      ARRAY(p->started, n + 1), ARRAY(p->sends, n + 1), ARRAY(p->recvs, n + 1)));
    for (int32_t rank = 0; rank < p->ranks; rank++) {
        TRY(check_waits(p, rank));
    }
    TRY(match(p));
    return carry_out(p);
}

ebb_status ebb__plan_prove_messages(ebb_ctx *ctx, const char *program, const plan_messages *lists,
                                    int32_t ranks) {
    proof p = {.ctx = ctx, .program = program, .lists = lists, .ranks = ranks};
    ebb__region_init(&p.region, ctx);
    ebb_status status = prove(&p);
    ebb__region_fini(&p.region);
    return status;
}
