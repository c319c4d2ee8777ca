/* test_comm_virtual.c - clocks of machines that are not there: messages that take so long that what
 * the ranks compute does not show, on networks and in shared memory; and turns at processors that
 * are fewer than ranks. */
#include "comm_help.h"

#include "comm/baton.h"

#include <stdatomic.h>

enum { BYTES = 1000, TICKETS = 32 };
static const double MESSAGE = 1000, LATENCY = 50; /* seconds */
static const double WORK = 40;                    /* seconds that computing never takes here */

static bool is_about(double seconds, double want) {
    return seconds >= want && seconds < want + WORK;
}

static double clock_of(const help_rank *me) {
    return ebb__comm_virtual_time(me->link).seconds;
}

static void start_clock(help_rank *me, bool copied) {
    const comm_network network = {BYTES / MESSAGE, LATENCY, copied};
    CHECK(me, clock_of(me) < 0);
    CHECK_OK(me, ebb__comm_make_virtual(me->link, &network));
    CHECK(me, is_about(clock_of(me), 0));
}

/* Rank 0 gets `each` messages of every other rank. */
static void gather(help_rank *me, int each) {
    static char sent[BYTES];
    char got[BYTES];
    int ticket;
    for (int i = 0; i < each && me->rank > 0; i++) {
        CHECK_OK(me, ebb__comm_send(me->link, 0, FIRST, sent, BYTES, &ticket));
        CHECK_OK(me, ebb__comm_wait(me->link, ticket, LIMIT));
    }
    for (int k = 0; k < each * (me->ranks - 1) && me->rank == 0; k++) {
        CHECK_OK(me, ebb__comm_recv(me->link, 1 + k / each, FIRST, got, BYTES, &ticket));
        CHECK_OK(me, ebb__comm_wait(me->link, ticket, LIMIT));
    }
}

/* The way into rank 0 is one for all; receives are posted only when the last has come. */
static void way_in_is_shared(help_rank *me) {
    start_clock(me, false);
    gather(me, 1);
    double want = me->rank == 0 ? 3 * (MESSAGE + LATENCY) : 0;
    CHECK(me, is_about(clock_of(me), want));
    CHECK(me, is_about(ebb__comm_virtual_time(me->link).waiting, me->rank == 0 ? want - WORK : 0));
}

/* Posted ahead, they follow each other, and latencies pass meanwhile. */
static void posted_ahead(help_rank *me) {
    static char sent[BYTES];
    char got[3][BYTES];
    int ticket[3];
    start_clock(me, false);
    CHECK_OK(me, ebb__comm_barrier(me->link, LIMIT));
    double before = clock_of(me);
    for (int k = 0; k < 3 && me->rank == 0; k++) {
        CHECK_OK(me, ebb__comm_recv(me->link, k + 1, FIRST, got[k], BYTES, &ticket[k]));
    }
    for (int k = 2; k >= 0 && me->rank == 0; k--) { /* who is waited for first does not matter */
        CHECK_OK(me, ebb__comm_wait(me->link, ticket[k], LIMIT));
    }
    if (me->rank > 0) {
        CHECK_OK(me, ebb__comm_put(me->link, 0, FIRST, sent, BYTES, LIMIT));
    } else {
        CHECK(me, clock_of(me) - before >= 3 * MESSAGE);
        CHECK(me, clock_of(me) - before < 3 * MESSAGE + 3 * LATENCY + WORK);
    }
}

/* One rank's messages to several leave it one after the other. */
static void way_out_is_shared(help_rank *me) {
    static char sent[BYTES];
    char got[BYTES];
    int ticket[RANKS_MOST];
    start_clock(me, false);
    for (int to = 1; to < me->ranks && me->rank == 0; to++) {
        CHECK_OK(me, ebb__comm_send(me->link, to, FIRST, sent, BYTES, &ticket[to]));
    }
    for (int to = 1; to < me->ranks && me->rank == 0; to++) {
        CHECK_OK(me, ebb__comm_wait(me->link, ticket[to], LIMIT));
    }
    if (me->rank > 0) {
        CHECK_OK(me, ebb__comm_take(me->link, 0, FIRST, got, BYTES, LIMIT));
    }
    CHECK(me, is_about(clock_of(me), me->rank * MESSAGE + (me->rank > 0 ? LATENCY : 0)));
}

/* What was sent long ago still takes the receiver's time. */
static void memory_is_copied_by_the_receiver(help_rank *me) {
    start_clock(me, true);
    gather(me, 2);
    CHECK(me, is_about(clock_of(me), me->rank == 0 ? 6 * (MESSAGE + LATENCY) : 0));
}

static void clocks(void **state) {
    (void)state;
    help_run(4, TICKETS, way_in_is_shared);
    help_run(4, TICKETS, posted_ahead);
    help_run(4, TICKETS, way_out_is_shared);
    help_run(4, TICKETS, memory_is_copied_by_the_receiver);
}

/* ---- turns ---- */

enum { TURNS = 200, PROCESSORS = 2 };
static atomic_int working, most_working;

static void take_turns(help_rank *me) {
    comm_baton *baton = NULL;
    comm_news news = {.rank = -1};
    CHECK_OK(me, ebb__baton_new(me->link, PROCESSORS, &baton));
    for (int i = 0; i < TURNS && me->wrong == 0; i++) {
        CHECK(me, ebb__baton_take(baton, &news) == COMM_DONE);
        CHECK(me, ebb__baton_take(baton, &news) == COMM_DONE); /* it has it */
        int now = atomic_fetch_add(&working, 1) + 1, most = atomic_load(&most_working);
        while (now > most && !atomic_compare_exchange_weak(&most_working, &most, now)) {
        }
        (void)usleep(10);
        atomic_fetch_sub(&working, 1);
        if (i + 1 < TURNS) { /* whoever is gone has passed it on */
            ebb__baton_pass(baton);
            ebb__baton_pass(baton);
        }
    }
    ebb__baton_free(baton);
    ebb__baton_free(NULL);
}

static void turns(void **state) {
    (void)state;
    help_run(RANKS_MOST, TICKETS, take_turns);
    assert_int_equal(atomic_load(&most_working), PROCESSORS);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(clocks), cmocka_unit_test(turns)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
