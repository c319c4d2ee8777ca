/* test_comm.c - messages that go well, of one rank alone and of 1 to 8 ranks as threads: every
 * order of posting, many tags, all sizes; the calls that are written over them; and mistakes of the
 * caller, which are errors and nothing worse. */
#include "comm_help.h"

static comm_link *open_self(ebb_ctx *ctx, int tickets) {
    comm_link *link;
    comm_setup setup = {.tickets = tickets, .seconds = 1};
    assert_int_equal(ebb__comm_open(ctx, &ebb__comm_self_calls, &setup, &link), EBB_OK);
    return link;
}

static ebb_ctx *new_ctx(void) {
    ebb_ctx *ctx;
    assert_int_equal(ebb_ctx_new(&ctx), EBB_OK);
    return ctx;
}

/* ---- one rank alone ------------------------------------------------------------------------ */

static void self_gets_its_own_messages(void **state) {
    (void)state;
    ebb_ctx *ctx = new_ctx();
    comm_link *link = open_self(ctx, 8);
    int sent[3] = {1, 2, 3}, got[3] = {0}, ticket[6];
    bool done;
    assert_int_equal(ebb__comm_rank(link), 0);
    assert_int_equal(ebb__comm_size(link), 1);
    assert_int_equal(ebb__comm_describe(link, 0)->pid, getpid());
    assert_true(ebb__comm_describe(link, 0)->host[0] != '\0');
    /* Tags apart, each in its order, whichever end comes first. */
    assert_int_equal(ebb__comm_recv(link, 0, FIRST, &got[0], 4, &ticket[0]), EBB_OK);
    assert_int_equal(ebb__comm_send(link, 0, FIRST + 1, &sent[2], 4, &ticket[1]), EBB_OK);
    assert_int_equal(ebb__comm_test(link, ticket[0], &done), EBB_OK);
    assert_false(done);
    assert_int_equal(ebb__comm_send(link, 0, FIRST, &sent[0], 4, &ticket[2]), EBB_OK);
    assert_int_equal(ebb__comm_send(link, 0, FIRST, &sent[1], 4, &ticket[3]), EBB_OK);
    assert_int_equal(ebb__comm_recv(link, 0, FIRST, &got[1], 4, &ticket[4]), EBB_OK);
    assert_int_equal(ebb__comm_recv(link, 0, FIRST + 1, &got[2], 4, &ticket[5]), EBB_OK);
    assert_int_equal(ebb__comm_poll(link), EBB_OK);
    for (int i = 0; i < 6; i++) {
        assert_int_equal(ebb__comm_wait(link, ticket[i], 1), EBB_OK);
    }
    assert_memory_equal(sent, got, sizeof sent);
    /* Several of one tag wait: their order counts, not that of tickets, which come back reversed.
     */
    memset(got, 0, sizeof got);
    for (int i = 0; i < 6; i++) {
        assert_int_equal(i < 3 ? ebb__comm_send(link, 0, FIRST, &sent[i], 4, &ticket[i])
                               : ebb__comm_recv(link, 0, FIRST, &got[i - 3], 4, &ticket[i]),
                         EBB_OK);
    }
    for (int i = 0; i < 6; i++) {
        assert_int_equal(ebb__comm_wait(link, ticket[i], 1), EBB_OK);
    }
    assert_memory_equal(sent, got, sizeof sent);
    assert_int_equal(ebb__comm_barrier(link, 1), EBB_OK);
    assert_int_equal(ebb__comm_broadcast(link, 0, sent, sizeof sent, 1), EBB_OK);
    assert_int_equal(ebb__comm_gather(link, 0, sent, got, sizeof sent, 1), EBB_OK);
    ebb__comm_abort(link, EBB_IO);
    ebb__comm_close(link);
    ebb__comm_close(NULL);
    assert_int_equal(ctx->mem.live_blocks, 0);
    ebb_ctx_free(ctx);
}

static void self_says_what_is_wrong(void **state) {
    (void)state;
    ebb_ctx *ctx = new_ctx();
    comm_link *link = open_self(ctx, 2);
    int number = 0, a, b, c;
    assert_int_equal(ebb__comm_recv(link, 0, 20, &number, 4, &a), EBB_OK);
    help_expect(ctx, ebb__comm_wait(link, a, 1e9), EBB_INTERNAL, "from itself (tag 20, 4 bytes)");
    assert_int_equal(ebb__comm_send(link, 0, 20, "123", 3, &b), EBB_OK);
    help_expect(ctx, ebb__comm_send(link, 0, 21, "123", 3, &c), EBB_INTERNAL,
                "all 2 tickets of rank 0 are in use");
    assert_int_equal(c, -1);
    help_expect(ctx, ebb__comm_wait(link, c, 1), EBB_INTERNAL, "ticket -1, which is not in use");
    help_expect(ctx, ebb__comm_wait(link, 2, 1), EBB_INTERNAL, "not in use");
    help_expect(ctx, ebb__comm_wait(link, a, 1), EBB_INTERNAL,
                "sent 3 bytes with tag 20, where rank 0 expects 4");
    assert_int_equal(ebb__comm_wait(link, b, 1), EBB_OK); /* it was sent as it was */
    help_expect(ctx, ebb__comm_wait(link, a, 1), EBB_INTERNAL, "not in use");
    assert_int_equal(number, 0);
    help_expect(ctx, ebb__comm_send(link, 1, 20, "", 0, &a), EBB_USAGE, "ranks go from 0 to 0");
    help_expect(ctx, ebb__comm_send(link, -1, 20, "", 0, &a), EBB_USAGE, "can go to rank -1");
    help_expect(ctx, ebb__comm_recv(link, 0, -1, NULL, 0, &a), EBB_USAGE, "tags from 0");
    ebb__comm_close(link);
    comm_setup none = {.tickets = 0};
    help_expect(ctx, ebb__comm_open(ctx, &ebb__comm_self_calls, &none, &link), EBB_USAGE,
                "self: 0 tickets");
    assert_null(link);
    ebb_ctx_free(ctx);
}

/* ---- ranks as threads ---------------------------------------------------------------------- */

enum { TAGS = 5, EACH = 4 };

static int number_of(int from, int to, int tag, int turn) {
    return ((from * RANKS_MOST + to) * TAGS + tag) * EACH + turn;
}

/* All to all, itself too: several messages of each of several tags. Odd ranks receive first, even
 * ones send first, tags in another order at either end; all are under way at once. */
static void trade(help_rank *me) {
    static int sent[RANKS_MOST][RANKS_MOST][TAGS][EACH], got[RANKS_MOST][RANKS_MOST][TAGS][EACH];
    int ticket[2 * RANKS_MOST * TAGS * EACH], n = 0, r = me->rank;
    uint64_t calls = me->ctx->mem.calls;
    for (int half = 0; half < 2; half++) {
        bool sends = half == r % 2;
        for (int i = 0; i < me->ranks * TAGS * EACH; i++) {
            int peer = i / EACH % me->ranks, tag = i / EACH / me->ranks, turn = i % EACH;
            tag = sends ? tag : TAGS - 1 - tag;
            if (sends) { /* never again while it is under way */
                sent[r][peer][tag][turn] = number_of(r, peer, tag, turn);
            }
            CHECK_OK(me, sends ? ebb__comm_send(me->link, peer, FIRST + tag,
                                                &sent[r][peer][tag][turn], sizeof(int), &ticket[n])
                               : ebb__comm_recv(me->link, peer, FIRST + tag,
                                                &got[r][peer][tag][turn], sizeof(int), &ticket[n]));
            n++;
        }
    }
    for (int i = n - 1; i >= 0; i--) {
        CHECK_OK(me, ebb__comm_wait(me->link, ticket[i], LIMIT));
    }
    for (int peer = 0; peer < me->ranks; peer++) {
        for (int i = 0; i < TAGS * EACH; i++) {
            int tag = i / EACH, turn = i % EACH;
            CHECK(me, got[r][peer][tag][turn] == number_of(peer, r, tag, turn));
        }
    }
    CHECK(me, me->ctx->mem.calls == calls); /* nothing is allocated after open */
    CHECK_OK(me, ebb__comm_barrier(me->link, LIMIT));
}

static void messages_keep_their_order(void **state) {
    (void)state;
    for (int ranks = 1; ranks <= RANKS_MOST; ranks++) {
        help_run(ranks, 2 * ranks * TAGS * EACH, trade);
    }
}

/* A send is done when it was received, not before. Who comes first is fixed by a barrier. */
static void meet(help_rank *me) {
    int number = 7, got = 0, ticket;
    bool done = false;
    for (int receiver_first = 0; receiver_first < 2; receiver_first++) {
        bool first = (me->rank == 1) == (receiver_first == 1);
        for (int turn = 0; turn < 2; turn++) {
            if ((turn == 0) == first) {
                CHECK_OK(me, me->rank == 0 ? ebb__comm_send(me->link, 1, FIRST, &number, 4, &ticket)
                                           : ebb__comm_recv(me->link, 0, FIRST, &got, 4, &ticket));
            }
            if (turn == 0 && first) {
                CHECK_OK(me, ebb__comm_test(me->link, ticket, &done));
                CHECK(me, !done);
            }
            CHECK_OK(me, ebb__comm_barrier(me->link, LIMIT));
        }
        CHECK_OK(me, ebb__comm_test(me->link, ticket, &done)); /* both ends were posted */
        CHECK(me, done && (me->rank == 0 || got == 7));
        got = 0;
    }
}

static void either_end_may_come_first(void **state) {
    (void)state;
    help_run(2, 4, meet);
}

/* Round and round: each rank sends to the next what came from the one before, of every size. */
static void pass_round(help_rank *me) {
    static const size_t sizes[] = {0, 1, 3, 4096, 65537, 8 << 20};
    int next = (me->rank + 1) % me->ranks, before = (me->rank + me->ranks - 1) % me->ranks;
    unsigned char *out = calloc(1, 8 << 20), *in = calloc(1, 8 << 20);
    for (size_t s = 0; s < sizeof sizes / sizeof sizes[0]; s++) {
        int ticket[2];
        for (size_t i = 0; i < sizes[s]; i++) {
            out[i] = (unsigned char)((size_t)me->rank * 31 + i * 7 + i / 251);
        }
        CHECK_OK(me, ebb__comm_recv(me->link, before, FIRST, sizes[s] > 0 ? in : NULL, sizes[s],
                                    &ticket[0]));
        CHECK_OK(me, ebb__comm_send(me->link, next, FIRST, sizes[s] > 0 ? out : NULL, sizes[s],
                                    &ticket[1]));
        CHECK_OK(me, ebb__comm_wait(me->link, ticket[1], LIMIT));
        CHECK_OK(me, ebb__comm_wait(me->link, ticket[0], LIMIT));
        size_t wrong = 0;
        for (size_t i = 0; i < sizes[s]; i++) {
            wrong += in[i] != (unsigned char)((size_t)before * 31 + i * 7 + i / 251);
        }
        CHECK(me, wrong == 0);
    }
    CHECK_OK(me, ebb__comm_barrier(me->link, LIMIT));
    free(out);
    free(in);
}

static void all_sizes_arrive(void **state) {
    (void)state;
    for (int ranks = 1; ranks <= RANKS_MOST; ranks += ranks == 4 ? 4 : 1) {
        help_run(ranks, 2, pass_round);
    }
}

/* Between start and end ranks look, poll and wait in an order of their own. */
static void ask_often(help_rank *me) {
    enum { MESSAGES = 40 };
    int sent[MESSAGES], got[MESSAGES], ticket[2 * MESSAGES], left = 0;
    help_dice dice = {.key = ebb__rng_key((uint64_t)me->rank, "test.comm")};
    int next = (me->rank + 1) % me->ranks, before = (me->rank + me->ranks - 1) % me->ranks;
    for (int i = 0; i < MESSAGES; i++) {
        sent[i] = me->rank * MESSAGES + i;
        CHECK_OK(me, ebb__comm_recv(me->link, before, FIRST + i % 3, &got[i], 4, &ticket[left++]));
        CHECK_OK(me, ebb__comm_send(me->link, next, FIRST + i % 3, &sent[i], 4, &ticket[left++]));
    }
    while (left > 0 && me->wrong == 0) {
        int which = (int)help_throw(&dice, (uint32_t)left);
        bool done = help_throw(&dice, 4) == 0;
        CHECK_OK(me, ebb__comm_poll(me->link));
        CHECK_OK(me, done ? ebb__comm_wait(me->link, ticket[which], LIMIT)
                          : ebb__comm_test(me->link, ticket[which], &done));
        ticket[which] = done ? ticket[--left] : ticket[which];
    }
    for (int i = 0; i < MESSAGES; i++) {
        CHECK(me, got[i] == before * MESSAGES + i);
    }
    CHECK_OK(me, ebb__comm_barrier(me->link, LIMIT));
}

static void tickets_end_in_any_order(void **state) {
    (void)state;
    for (int ranks = 1; ranks <= RANKS_MOST; ranks++) {
        help_run(ranks, 80, ask_often);
    }
}

static void spread(help_rank *me) {
    static int came; /* plain: barriers must order it (TSan) */
    int all[RANKS_MOST];
    if (me->rank == 0) {
        came = 0;
    }
    CHECK_OK(me, ebb__comm_barrier(me->link, LIMIT));
    for (int turn = 0; turn < me->ranks; turn++) {
        if (me->rank == turn) {
            came++;
        }
        CHECK_OK(me, ebb__comm_barrier(me->link, LIMIT));
        CHECK(me, came == turn + 1);
        CHECK_OK(me, ebb__comm_barrier(me->link, LIMIT));
    }
    for (int root = 0; root < me->ranks; root++) {
        int mine = 100 * root + me->rank, said = me->rank == root ? mine : -1;
        memset(all, 0xff, sizeof all);
        CHECK_OK(me, ebb__comm_gather(me->link, root, &mine, me->rank == root ? all : NULL,
                                      sizeof mine, LIMIT));
        for (int i = 0; i < me->ranks && me->rank == root; i++) {
            CHECK(me, all[i] == 100 * root + i);
        }
        CHECK_OK(me, ebb__comm_broadcast(me->link, root, &said, sizeof said, LIMIT));
        CHECK(me, said == 101 * root);
        CHECK_OK(me, ebb__comm_broadcast(me->link, root, NULL, 0, LIMIT));
    }
    for (int i = 0; i < me->ranks; i++) {
        CHECK(me, ebb__comm_describe(me->link, i)->pid == getpid());
    }
    CHECK(me, ebb__comm_rank(me->link) == me->rank && ebb__comm_size(me->link) == me->ranks);
}

static void blocks_are_spread(void **state) {
    (void)state;
    for (int ranks = 1; ranks <= RANKS_MOST; ranks++) {
        help_run(ranks, 1, spread); /* one ticket is enough */
    }
}

/* ---- mistakes ------------------------------------------------------------------------------ */

/* Whichever end comes first; the link goes on after it. */
static void send_wrong_sizes(help_rank *me) {
    static const size_t sizes[] = {3, 0, 12};
    char room[16] = "none", want[80];
    int ticket, number = me->rank;
    for (int i = 0; i < 6; i++) {
        size_t bytes = sizes[i / 2];
        if (me->rank == i % 2) {
            CHECK_OK(me, ebb__comm_barrier(me->link, LIMIT)); /* the other end first */
        }
        if (me->rank == 0) {
            CHECK_OK(me, ebb__comm_send(me->link, 1, FIRST, "some bytes.", bytes, &ticket));
        } else {
            CHECK_OK(me, ebb__comm_recv(me->link, 0, FIRST, room, 4, &ticket));
        }
        if (me->rank != i % 2) {
            CHECK_OK(me, ebb__comm_barrier(me->link, LIMIT));
        }
        if (me->rank == 0) {
            CHECK_OK(me, ebb__comm_wait(me->link, ticket, LIMIT));
        } else {
            (void)snprintf(want, sizeof want, "sent %zu bytes with tag %d, where rank 1 expects 4",
                           bytes, FIRST);
            CHECK_ERROR(me, ebb__comm_wait(me->link, ticket, LIMIT), EBB_INTERNAL, want);
            CHECK(me, strcmp(room, "none") == 0);
        }
    }
    if (me->rank == 0) {
        number = 17;
        CHECK_OK(me, send_number(me->link, 1, FIRST, &number));
    } else {
        CHECK_OK(me, recv_number(me->link, 0, FIRST, &number));
        CHECK(me, number == 17);
    }
}

static void wrong_sizes_are_named(void **state) {
    (void)state;
    help_run(2, 2, send_wrong_sizes);
}

static void use_all_tickets(help_rank *me) {
    enum { TICKETS = 3 };
    int numbers[TICKETS] = {1, 2, 3}, ticket[TICKETS], more = 0, other = 1 - me->rank;
    for (int turn = 0; turn < 3; turn++) {
        for (int i = 0; i < TICKETS; i++) {
            CHECK_OK(me, me->rank == turn % 2
                             ? ebb__comm_send(me->link, other, FIRST, &numbers[i], 4, &ticket[i])
                             : ebb__comm_recv(me->link, other, FIRST, &numbers[i], 4, &ticket[i]));
        }
        CHECK_ERROR(me, ebb__comm_send(me->link, other, FIRST, &more, 4, &more), EBB_INTERNAL,
                    "all 3 tickets of rank");
        for (int i = 0; i < TICKETS; i++) {
            CHECK_OK(me, ebb__comm_wait(me->link, ticket[i], LIMIT));
            CHECK(me, numbers[i] == i + 1);
        }
    }
    CHECK_OK(me, ebb__comm_barrier(me->link, LIMIT));
}

static void tickets_run_out_and_come_back(void **state) {
    (void)state;
    help_run(2, 3, use_all_tickets);
}

static void bad_halls_are_refused(void **state) {
    (void)state;
    ebb_ctx *ctx = new_ctx();
    comm_hall *hall;
    comm_link *link, *again;
    help_expect(ctx, ebb__comm_hall_new(ctx, 0, &hall), EBB_USAGE, "0 ranks are not between 1");
    help_expect(ctx, ebb__comm_hall_new(ctx, 1025, &hall), EBB_USAGE, "1025 ranks");
    assert_null(hall);
    ebb__comm_hall_free(NULL);
    assert_int_equal(ebb__comm_hall_new(ctx, 1, &hall), EBB_OK);
    comm_setup setup = {.tickets = 1, .seconds = 1, .hall = hall, .rank = 1};
    help_expect(ctx, ebb__comm_open(ctx, &ebb__comm_threads_calls, &setup, &link), EBB_USAGE,
                "threads: rank 1 is not between 0 and 0");
    setup.rank = 0;
    assert_int_equal(ebb__comm_open(ctx, &ebb__comm_threads_calls, &setup, &link), EBB_OK);
    help_expect(ctx, ebb__comm_open(ctx, &ebb__comm_threads_calls, &setup, &again), EBB_USAGE,
                "rank 0 was there before");
    assert_null(again);
    ebb__comm_close(link);
    ebb__comm_hall_free(hall);
    assert_int_equal(ctx->mem.live_blocks, 0);
    ebb_ctx_free(ctx);
}

/* Well, badly in one place, badly in several, and wrong usage, which is nobody's own. */
static void fare(help_rank *me) {
    char want[128];
    int last = me->ranks - 1;
    CHECK_OK(me, ebb__comm_agree(me->link, EBB_OK, LIMIT));
    CHECK(me, !ebb__comm_agreed(me->link));
    if (me->ranks == 1) {
        CHECK_ERROR(me, ebb__comm_agree(me->link, ebb__fail(me->ctx, EBB_IO, "why"), LIMIT), EBB_IO,
                    "why");
        return;
    }
    ebb_status mine =
        me->rank == last ? ebb__fail(me->ctx, EBB_BUDGET, "only %d", me->rank) : EBB_OK;
    (void)snprintf(want, sizeof want, "rank %d (%s): only %d", last,
                   ebb__comm_describe(me->link, last)->host, last);
    CHECK_ERROR(me, ebb__comm_agree(me->link, mine, LIMIT), EBB_BUDGET, want);
    CHECK(me, ebb__comm_agreed(me->link));
    mine = ebb__fail(me->ctx, me->rank == 0 ? EBB_IO : EBB_BUDGET, "of %d", me->rank);
    CHECK_ERROR(me, ebb__comm_agree(me->link, mine, LIMIT), EBB_IO, "): of 0");
    mine = ebb__fail(me->ctx, EBB_USAGE, "usage");
    (void)!ebb__comm_agree(me->link, mine, LIMIT);
    CHECK(me, strcmp(ebb_last_error(me->ctx), "usage") == 0);
    ebb__ctx_clear(me->ctx);
    CHECK_ERROR(me, ebb__comm_agree(me->link, me->rank == 1 ? EBB_NOMEM : EBB_OK, LIMIT), EBB_NOMEM,
                ebb_status_text(EBB_NOMEM)); /* without a sentence */
}

static void one_failure_is_everybodys(void **state) {
    (void)state;
    for (int ranks = 1; ranks <= RANKS_MOST; ranks++) {
        help_run(ranks, 2, fare);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(self_gets_its_own_messages),
        cmocka_unit_test(self_says_what_is_wrong),
        cmocka_unit_test(messages_keep_their_order),
        cmocka_unit_test(either_end_may_come_first),
        cmocka_unit_test(all_sizes_arrive),
        cmocka_unit_test(tickets_end_in_any_order),
        cmocka_unit_test(blocks_are_spread),
        cmocka_unit_test(one_failure_is_everybodys),
        cmocka_unit_test(wrong_sizes_are_named),
        cmocka_unit_test(tickets_run_out_and_come_back),
        cmocka_unit_test(bad_halls_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
