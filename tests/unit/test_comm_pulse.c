/* test_comm_pulse.c - who is alive: ranks that are busy for long are waited for; those that are
 * stopped are named, by who waits for them and not by who waits for that one; of those that fail,
 * one reports. */
#include "comm_help.h"

#include <arpa/inet.h>
#include <stdatomic.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

static const double SILENCE = 0.5; /* seconds; enough for an answer, whatever the machine does */
static const double BUSY = 1.5;    /* much longer than that */

static atomic_int n_done, n_reports; /* of the ranks of a test */

static void start_test(void) {
    atomic_store(&n_done, 0);
    atomic_store(&n_reports, 0);
}

/* Until so many ranks are done. */
static void until_done(int ranks) {
    const struct timespec nap = {.tv_nsec = 1000000};
    while (atomic_load(&n_done) < ranks) {
        (void)nanosleep(&nap, NULL);
    }
}

/* As if the process were stopped, until so many ranks are done. */
static void be_stopped(help_rank *me, int ranks) {
    comm_pulse *pulse = ebb__comm_back(me->link)->pulse;
    ebb__pulse_stop(pulse, true);
    until_done(ranks);
    ebb__pulse_stop(pulse, false);
}

/* A rank that failed; all are still there until every one has. */
static void report_failure(help_rank *me) {
    atomic_fetch_add(&n_reports, ebb__comm_fail(me->link));
    atomic_fetch_add(&n_done, 1);
    until_done(me->ranks);
}

static ebb_status wait_number(comm_link *link, int from, int *number, double seconds) {
    int ticket;
    TRY(ebb__comm_recv(link, from, FIRST, number, sizeof *number, &ticket));
    return ebb__comm_wait(link, ticket, seconds);
}

/* Rank 1 computes for long before it sends; rank 0 is patient, and so is rank 2, which waits for
 * rank 0 that waits itself. */
static void wait_for_busy(help_rank *me) {
    int number = 7;
    if (me->rank == 1) {
        comm_fault fault = {.kind = FAULT_DELAY, .at = 1, .seconds = BUSY};
        CHECK_OK(me, ebb__comm_make_faulty(me->link, &fault));
        CHECK_OK(me, send_number(me->link, 0, FIRST, &number));
    } else if (me->rank == 0) {
        CHECK_OK(me, wait_number(me->link, 1, &number, SILENCE));
        CHECK(me, number == 7);
        CHECK_OK(me, send_number(me->link, 2, FIRST, &number));
    } else {
        CHECK_OK(me, wait_number(me->link, 0, &number, SILENCE));
    }
    CHECK(me, ebb__comm_lost(me->link).rank == -1);
    CHECK_OK(me, ebb__comm_barrier(me->link, SILENCE));
}

static void who_is_busy_is_not_lost(void **state) {
    (void)state;
    help_run(3, 2, wait_for_busy);
}

/* Every rank waits for the next one, and the last is stopped: the one before it says so. The others
 * hear that it failed, which is not for them to report; so does the last, when it goes on. */
static void wait_in_a_row(help_rank *me) {
    int number = 0, last = me->ranks - 1, next = me->rank < last ? me->rank + 1 : 0;
    if (me->rank == last) {
        be_stopped(me, last);
    }
    ebb_status status = wait_number(me->link, next, &number, SILENCE);
    comm_loss loss = ebb__comm_lost(me->link);
    if (me->rank == last - 1) {
        CHECK(me, loss.rank == last && strcmp(loss.how, "does not answer") == 0);
        CHECK_ERROR(me, status, EBB_LOST,
                    "has not answered for 0.5 s, while rank 2 waits for a message from it (tag 16");
    } else {
        CHECK(me, loss.rank == last - 1 && strcmp(loss.how, "has failed") == 0);
        CHECK_ERROR(me, status, EBB_LOST, "rank 2 (pid ");
        CHECK_ERROR(me, ebb__comm_poll(me->link), EBB_LOST, "has failed, and all others with it");
    }
    report_failure(me);
    CHECK(me, atomic_load(&n_reports) == 1);
}

static void who_is_stopped_is_named(void **state) {
    (void)state;
    start_test();
    help_run(4, 2, wait_in_a_row);
}

static bool is_told(const comm_link *link) {
    return strcmp(ebb__comm_lost(link).how, "has failed") == 0;
}

/* All miss rank 0 at once; one of them reports. */
static void miss_the_first(help_rank *me) {
    int number = 0;
    if (me->rank == 0) {
        be_stopped(me, me->ranks - 1);
    }
    CHECK_ERROR(me, wait_number(me->link, me->rank == 0, &number, SILENCE), EBB_LOST, "rank ");
    CHECK(me, (ebb__comm_lost(me->link).rank == 0) == !is_told(me->link));
    report_failure(me);
    CHECK(me, atomic_load(&n_reports) == 1);
}

static void one_reports(void **state) {
    (void)state;
    start_test();
    help_run(4, 2, miss_the_first);
}

/* Where several fail at once, each by itself, the lowest reports. */
static void fail_at_once(help_rank *me) {
    CHECK_OK(me, ebb__comm_barrier(me->link, LIMIT));
    if (me->rank > 0) {
        CHECK(me, ebb__comm_fail(me->link) == (me->rank == 1));
    }
    atomic_fetch_add(&n_done, 1);
    until_done(me->ranks);
}

static void the_lowest_reports(void **state) {
    (void)state;
    start_test();
    help_run(4, 2, fail_at_once);
}

/* The root of a barrier sees who is missing, and the others hear it from the root. */
static void stop_at_barrier(help_rank *me) {
    if (me->rank == 2) {
        be_stopped(me, 2);
    }
    CHECK_ERROR(me, ebb__comm_barrier(me->link, SILENCE), EBB_LOST,
                me->rank == 0 ? "rank 2 (pid " : "rank 0 (pid ");
    report_failure(me);
    CHECK(me, atomic_load(&n_reports) == 1);
}

static void who_misses_a_barrier_is_named(void **state) {
    (void)state;
    start_test();
    help_run(3, 2, stop_at_barrier);
}

/* Whoever sends anything else to the address is not heard. */
static void strangers_are_not_heard(void **state) {
    help_room *room = *state;
    comm_pulse *pulse;
    pulse_card cards[2] = {{0}};
    struct {
        uint32_t magic;
        int32_t kind, from, unused;
        uint64_t key;
    } wrong = {0x65626250, 2, 1, 0, 0};
    assert_int_equal(ebb__pulse_new(room->ctx, 0, 2, &pulse, &cards[0]), EBB_OK);
    ebb__pulse_begin(pulse, cards, sizeof cards[0]);
    assert_int_not_equal(cards[0].port, 0);
    struct sockaddr_in to = {.sin_family = AF_INET, .sin_port = cards[0].port};
    to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    int fd = socket(AF_INET, SOCK_DGRAM, 0);
    for (int turn = 0; turn < 4; turn++) {
        wrong.key = turn == 0 ? ~cards[0].key : cards[0].key;
        wrong.from = turn == 1 ? 2 : turn == 2 ? -1 : 1;
        size_t bytes = turn == 3 ? sizeof wrong - 1 : sizeof wrong;
        assert_int_equal(sendto(fd, &wrong, bytes, 0, (struct sockaddr *)&to, sizeof to), bytes);
    }
    cards[1] = cards[0]; /* rank 1 is this process too: its questions come to itself */
    while (ebb__pulse_heard(pulse, 0) == 0) {
        ebb__pulse_ask(pulse, 1);
    }
    assert_int_equal(ebb__pulse_failed(pulse), -1);
    assert_int_equal(ebb__pulse_heard(pulse, 1), 0);
    wrong.from = 1; /* all right */
    while (ebb__pulse_failed(pulse) != 1) {
        assert_int_equal(sendto(fd, &wrong, sizeof wrong, 0, (struct sockaddr *)&to, sizeof to),
                         sizeof wrong);
    }
    assert_true(ebb__pulse_heard(pulse, 1) > 0);
    assert_false(ebb__pulse_has_ended(pulse, 1));
    cards[1].pid = 1 << 30; /* beyond all that Linux gives */
    assert_true(ebb__pulse_has_ended(pulse, 1));
    cards[1].system++; /* elsewhere that says nothing */
    assert_false(ebb__pulse_has_ended(pulse, 1));
    (void)close(fd);
    ebb__pulse_free(pulse);
}

static void no_memory_is_an_error(void **state) {
    (void)state;
    for (uint64_t n = 1; n <= 4; n++) { /* link, state, peers, pulse */
        ebb_ctx *ctx;
        comm_hall *hall;
        comm_link *link;
        assert_int_equal(ebb_ctx_new(&ctx), EBB_OK);
        assert_int_equal(ebb__comm_hall_new(ctx, 2, &hall), EBB_OK);
        comm_setup setup = {.tickets = 2, .seconds = LIMIT, .hall = hall, .rank = 1};
        uint64_t before = ctx->mem.live_blocks;
        ctx->mem.fail_at = n;
        assert_int_equal(ebb__comm_open(ctx, &ebb__comm_threads_calls, &setup, &link), EBB_NOMEM);
        assert_int_equal(ctx->mem.live_blocks, before);
        ebb__comm_hall_free(hall);
        ebb_ctx_free(ctx);
    }
}

#define IN_ROOM(test) cmocka_unit_test_setup_teardown(test, help_setup, help_teardown)

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(who_is_busy_is_not_lost),
        cmocka_unit_test(who_is_stopped_is_named),
        cmocka_unit_test(one_reports),
        cmocka_unit_test(the_lowest_reports),
        cmocka_unit_test(who_misses_a_barrier_is_named),
        IN_ROOM(strangers_are_not_heard),
        cmocka_unit_test(no_memory_is_an_error),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
