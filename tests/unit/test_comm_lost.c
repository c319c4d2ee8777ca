/* test_comm_lost.c - messages that do not go well: ranks that end, give up or never come (of
 * those that do not answer: test_comm_pulse.c); faults that are made on purpose; memory that is
 * refused; and what was started by mpirun but cannot be used. Always an error that names the rank
 * to blame, never a hang. */
#include "comm_help.h"

#include "base/host.h"

/* ---- ranks that are gone ------------------------------------------------------------------- */

/* Rank 1 sends once and ends. What was sent stays good; who waits for more, however, is told. */
static void leave_early(help_rank *me) {
    int number = 5, more, to_one, from_one;
    if (me->rank == 1) {
        CHECK_OK(me, send_number(me->link, 0, FIRST, &number));
        return;
    }
    if (me->rank == 0) {
        CHECK_OK(me, ebb__comm_recv(me->link, 1, FIRST + 1, &more, 4, &from_one)); /* before */
        CHECK_OK(me, recv_number(me->link, 1, FIRST, &number));
        CHECK(me, number == 5);
        CHECK_ERROR(me, ebb__comm_wait(me->link, from_one, LIMIT), EBB_LOST, "rank 1 (pid ");
        CHECK_ERROR(me, ebb__comm_wait(me->link, from_one, LIMIT), EBB_LOST,
                    "has ended, while rank 0 waits for a message from rank 1 (tag 17, 4 bytes)");
    }
    bool done = true;
    CHECK_OK(me, ebb__comm_send(me->link, 1, FIRST, &number, 4, &to_one)); /* after, or before */
    CHECK_ERROR(me, ebb__comm_wait(me->link, to_one, LIMIT), EBB_LOST, "to rank 1 (tag 16");
    CHECK_ERROR(me, ebb__comm_test(me->link, to_one, &done), EBB_LOST, "rank 1 (pid ");
    CHECK(me, !done);
    /* The others go on with each other. */
    if (me->rank == 2) {
        CHECK_OK(me, send_number(me->link, 0, FIRST, &number));
    } else {
        CHECK_OK(me, recv_number(me->link, 2, FIRST, &number));
    }
}

static void who_ended_is_named(void **state) {
    (void)state;
    for (int turn = 0; turn < 20; turn++) {
        help_run(3, 4, leave_early);
    }
}

/* A rank that ends with messages under way, some of which are being copied just then. */
static void leave_in_the_middle(help_rank *me) {
    enum { LARGE = 1 << 20, MESSAGES = 4 };
    char *room = calloc(MESSAGES, LARGE);
    int ticket[MESSAGES], other = 1 - me->rank;
    for (int i = 0; i < MESSAGES; i++) {
        CHECK_OK(me,
                 me->rank == 0
                     ? ebb__comm_send(me->link, other, FIRST, room + i * LARGE, LARGE, &ticket[i])
                     : ebb__comm_recv(me->link, other, FIRST, room + i * LARGE, LARGE, &ticket[i]));
    }
    if (me->rank == 0) {
        for (int i = 0; i < MESSAGES; i++) {
            ebb_status status = ebb__comm_wait(me->link, ticket[i], LIMIT);
            CHECK(me, status == EBB_OK || status == EBB_LOST);
        }
    }
    ebb__comm_close(me->link);
    me->link = NULL;
    free(room); /* nobody has it any more */
}

static void bytes_are_free_after_close(void **state) {
    (void)state;
    for (int turn = 0; turn < 20; turn++) {
        help_run(2, 4, leave_in_the_middle);
    }
}

/* Rank 2 gives up. Everybody is told so, by whatever wait, also of those that wait for a third. */
static void give_up(help_rank *me) {
    int number = 0, all[4], ticket;
    CHECK_OK(me, ebb__comm_gather(me->link, 2, &number, all, sizeof number, LIMIT)); /* all came */
    if (me->rank == 2) {
        ebb__comm_abort(me->link, EBB_IO);
    }
    CHECK_OK(me, ebb__comm_recv(me->link, (me->rank + 1) % 4, FIRST, &number, 4, &ticket));
    CHECK_ERROR(me, ebb__comm_wait(me->link, ticket, LIMIT), EBB_LOST, "rank 2 (pid ");
    CHECK_ERROR(me, ebb__comm_poll(me->link), EBB_LOST, "and all others with it");
    ebb__comm_abort(me->link, EBB_LOST); /* the first one stays the one to blame */
    CHECK_ERROR(me, ebb__comm_wait(me->link, ticket, LIMIT), EBB_LOST, "rank 2 (pid ");
    CHECK_ERROR(me, ebb__comm_barrier(me->link, LIMIT), EBB_LOST, "rank 2 (pid ");
}

static void who_gave_up_is_named(void **state) {
    (void)state;
    for (int turn = 0; turn < 20; turn++) {
        help_run(4, 2, give_up);
    }
}

/* ---- ranks that never come ----------------------------------------------------------------- */

static void who_never_comes_is_named(void **state) {
    (void)state;
    ebb_ctx *ctx;
    comm_hall *hall;
    comm_link *link;
    assert_int_equal(ebb_ctx_new(&ctx), EBB_OK);
    assert_int_equal(ebb__comm_hall_new(ctx, 2, &hall), EBB_OK);
    comm_setup setup = {.tickets = 1, .seconds = 0.02, .hall = hall, .rank = 0};
    help_expect(ctx, ebb__comm_open(ctx, &ebb__comm_threads_calls, &setup, &link), EBB_LOST,
                "rank 1 has not answered for 0.02 s");
    assert_null(link);
    setup.rank = 1;
    help_expect(ctx, ebb__comm_open(ctx, &ebb__comm_threads_calls, &setup, &link), EBB_LOST,
                "rank 0 has ended");
    ebb__comm_hall_free(hall);
    assert_int_equal(ctx->mem.live_blocks, 0);
    ebb_ctx_free(ctx);
}

/* ---- faults on purpose --------------------------------------------------------------------- */

static void be_killed(help_rank *me) {
    int number = 1, ticket;
    if (me->rank == 1) {
        comm_fault fault = {.kind = FAULT_KILL, .at = 4};
        CHECK_OK(me, ebb__comm_make_faulty(me->link, &fault));
        CHECK_OK(me, send_number(me->link, 0, FIRST, &number)); /* calls 1 and 2 */
        CHECK_OK(me, ebb__comm_send(me->link, 0, FIRST, &number, 4, &ticket));
        CHECK_ERROR(me, ebb__comm_poll(me->link), EBB_LOST, "rank 1 (pid ");
        CHECK_ERROR(me, ebb__comm_wait(me->link, ticket, LIMIT), EBB_LOST, "rank 1 (pid ");
        CHECK_ERROR(me, send_number(me->link, 0, FIRST, &number), EBB_LOST, "rank 1 (pid ");
        ebb__comm_abort(me->link, EBB_LOST); /* it cannot even do that */
    } else {
        CHECK_OK(me, recv_number(me->link, 1, FIRST, &number));
        CHECK_OK(me, ebb__comm_recv(me->link, 1, FIRST + 1, &number, 4, &ticket));
        CHECK_ERROR(me, ebb__comm_wait(me->link, ticket, LIMIT), EBB_LOST, "rank 1 (pid ");
        CHECK_OK(me, ebb__comm_poll(me->link));
    }
}

static void drop_one(help_rank *me) {
    int numbers[3] = {1, 2, 3}, got = 0, ticket;
    if (me->rank == 0) {
        comm_fault fault = {.kind = FAULT_DROP, .at = 3};
        CHECK_OK(me, ebb__comm_make_faulty(me->link, &fault));
        for (int i = 0; i < 3; i++) {
            CHECK_OK(me, send_number(me->link, 1, FIRST, &numbers[i]));
        }
    } else {
        for (int i = 0; i < 3; i += 2) {
            CHECK_OK(me, recv_number(me->link, 0, FIRST, &got));
            CHECK(me, got == numbers[i]);
        }
        CHECK_OK(me, ebb__comm_recv(me->link, 0, FIRST, &got, 4, &ticket));
        CHECK_ERROR(me, ebb__comm_wait(me->link, ticket, LIMIT), EBB_LOST, "rank 0 (pid ");
    }
}

enum { BYTES = 64, SEEDS = 8 };

static int set_bits(const unsigned char *bytes) {
    int bits = 0;
    for (int b = 0; b < BYTES * 8; b++) {
        bits += bytes[b / 8] >> b % 8 & 1;
    }
    return bits;
}

static ebb_status recv_bytes(comm_link *link, void *data, size_t bytes) {
    int ticket;
    TRY(ebb__comm_recv(link, 0, FIRST, data, bytes, &ticket));
    return ebb__comm_wait(link, ticket, LIMIT);
}

/* Rank 0 sends zeros. Seeds differ, the same seed gives the same bit; a message of no bytes cannot
 * be hurt, and after one that was all is well. */
static void flip_one(help_rank *me) {
    unsigned char zeros[BYTES] = {0}, got[SEEDS + 1][BYTES], next[BYTES];
    int ticket;
    for (int i = 0; i <= SEEDS; i++) {
        if (me->rank == 0) {
            for (int turn = 0; turn < 3; turn++) {
                CHECK_OK(me,
                         ebb__comm_send(me->link, 1, FIRST, zeros, turn > 0 ? BYTES : 0, &ticket));
                CHECK_OK(me, ebb__comm_wait(me->link, ticket, LIMIT));
            }
        } else {
            comm_fault fault = {.kind = FAULT_FLIP, .at = 1, .seed = (uint64_t)(i % SEEDS)};
            CHECK_OK(me, ebb__comm_make_faulty(me->link, &fault)); /* one around the other */
            CHECK_OK(me, recv_bytes(me->link, NULL, 0));
            CHECK_OK(me, recv_bytes(me->link, got[i], BYTES));
            CHECK_OK(me, recv_bytes(me->link, next, BYTES));
            CHECK(me, set_bits(got[i]) == 1 && set_bits(next) == 0);
        }
    }
    if (me->rank == 1) {
        CHECK(me, memcmp(got[0], got[SEEDS], BYTES) == 0);
        CHECK(me, memcmp(got[0], got[1], BYTES) != 0 || memcmp(got[0], got[2], BYTES) != 0);
    }
}

static void be_slow(help_rank *me) {
    int number = me->rank;
    if (me->rank == 0) {
        comm_fault fault = {.kind = FAULT_DELAY, .at = 2, .seconds = 0.05};
        double begin = ebb__clock_seconds();
        CHECK_OK(me, ebb__comm_make_faulty(me->link, &fault));
        CHECK_OK(me, send_number(me->link, 1, FIRST, &number));
        CHECK(me, ebb__clock_seconds() - begin >= 0.05);
        CHECK_OK(me, recv_number(me->link, 1, FIRST, &number));
        CHECK(me, number == 1);
        ebb__comm_abort(me->link, EBB_IO); /* goes through */
    } else {
        int got = -1, ticket;
        CHECK_OK(me, recv_number(me->link, 0, FIRST, &got));
        CHECK(me, got == 0);
        CHECK_OK(me, send_number(me->link, 0, FIRST, &number));
        CHECK_OK(me, ebb__comm_recv(me->link, 0, FIRST, &got, 4, &ticket));
        CHECK_ERROR(me, ebb__comm_wait(me->link, ticket, LIMIT), EBB_LOST, "rank 0 (pid ");
    }
}

static void faults_are_made(void **state) {
    (void)state;
    help_run(2, 2, be_killed);
    help_run(2, 2, drop_one);
    help_run(2, 2, flip_one);
    help_run(2, 2, be_slow);
}

/* Which poll a link dies at, by its seed. */
static int killed_at(ebb_ctx *ctx, uint64_t seed, uint64_t within) {
    comm_link *link;
    comm_setup setup = {.tickets = 1, .seconds = 1};
    comm_fault fault = {.kind = FAULT_KILL, .seed = seed, .within = within};
    int calls = 1;
    assert_int_equal(ebb__comm_open(ctx, &ebb__comm_self_calls, &setup, &link), EBB_OK);
    assert_int_equal(ebb__comm_make_faulty(link, &fault), EBB_OK);
    while (ebb__comm_poll(link) == EBB_OK) {
        calls++;
    }
    ebb__ctx_clear(ctx);
    ebb__comm_close(link);
    return calls;
}

static void faults_are_drawn_from_the_seed(void **state) {
    help_room *room = *state;
    int seen[10] = {0}, different = 0;
    for (uint64_t seed = 0; seed < 60; seed++) {
        int at = killed_at(room->ctx, seed, 10);
        assert_in_range(at, 1, 10);
        assert_int_equal(killed_at(room->ctx, seed, 10), at);
        seen[at - 1]++;
    }
    for (int i = 0; i < 10; i++) {
        different += seen[i] > 0;
    }
    assert_in_range(different, 7, 10);
    assert_int_equal(killed_at(room->ctx, 1, 0), 1);
}

/* ---- no memory ----------------------------------------------------------------------------- */

static ebb_status open_all(help_room *room) {
    comm_hall *hall = NULL;
    comm_link *self = NULL, *thread = NULL;
    comm_setup setup = {.tickets = 4, .seconds = 1};
    comm_fault fault = {.kind = FAULT_DROP, .at = 1};
    ebb_status status;
    TRY_OUT(ebb__comm_open(room->ctx, &ebb__comm_self_calls, &setup, &self));
    TRY_OUT(ebb__comm_make_faulty(self, &fault));
    TRY_OUT(ebb__comm_hall_new(room->ctx, 1, &hall));
    setup.hall = hall;
    TRY_OUT(ebb__comm_open(room->ctx, &ebb__comm_threads_calls, &setup, &thread));
out:
    ebb__comm_close(thread);
    ebb__comm_close(self);
    ebb__comm_hall_free(hall);
    return status;
}

static void no_memory_is_an_error(void **state) {
    help_room *room = *state;
    ebb_status status = EBB_NOMEM;
    int n = 0;
    while (status == EBB_NOMEM) {
        room->ctx->mem.fail_at = (uint64_t)++n;
        status = open_all(room);
        assert_int_equal(room->ctx->mem.live_blocks, 0);
        assert_true(status == EBB_OK || ebb_last_error(room->ctx)[0] != '\0');
        ebb__ctx_clear(room->ctx);
    }
    room->ctx->mem.fail_at = 0;
    assert_int_equal(status, EBB_OK);
    assert_int_equal(n, 9); /* 8 blocks: link, state, peers twice; the fault, the hall */
}

/* ---- the back end that the environment asks for -------------------------------------------- */

static ebb_status launch(ebb_ctx *ctx, comm_launch values) {
    comm_link *link;
    comm_setup setup = {.tickets = 1, .seconds = 1};
    TRY(ebb__comm_open_launched(ctx, &values, &setup, &link));
    assert_int_equal(ebb__comm_size(link), 1);
    ebb__comm_close(link);
    return EBB_OK;
}

/* The first bytes of a file, as when a disk was full. */
static void copy_part(const char *from, const char *to, size_t bytes) {
    static char data[9000];
    FILE *in = fopen(from, "rb"), *out = fopen(to, "wb");
    assert_true(in != NULL && out != NULL && bytes <= sizeof data);
    assert_int_equal(fread(data, 1, bytes, in), bytes);
    assert_int_equal(fwrite(data, 1, bytes, out), bytes);
    (void)fclose(in);
    assert_int_equal(fclose(out), 0);
}

static void who_cannot_use_mpi_does_not_go_on(void **state) {
    help_room *room = *state;
    ebb_ctx *ctx = room->ctx;
    static const char *const bad[] = {"", "0", "-1", "2x", "99999999999999999999", "1048577"};
    assert_int_equal(launch(ctx, (comm_launch){.plugin = "no such file"}), EBB_OK);
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        help_expect(ctx, launch(ctx, (comm_launch){.ompi_size = bad[i]}), EBB_USAGE,
                    "OMPI_COMM_WORLD_SIZE is '");
        help_expect(ctx, launch(ctx, (comm_launch){.pmi_size = bad[i]}), EBB_USAGE,
                    "PMI_SIZE is '");
    }
    const comm_launch launched[] = {{.ompi_size = "2"}, {.pmi_size = "2"}, {.pmix_rank = "0"}};
    for (size_t i = 0; i < sizeof launched / sizeof launched[0]; i++) {
        comm_launch values = launched[i];
        /* Neither beside this program, nor where one would be installed. */
        help_expect(ctx, launch(ctx, values), EBB_USAGE, "install libopenmpi-dev and openmpi-bin");
        values.plugin = room->path[0];
        help_expect(ctx, launch(ctx, values), EBB_USAGE, room->path[0]);
        values.plugin = "libz.so.1"; /* a library, but no plugin */
        help_expect(ctx, launch(ctx, values), EBB_USAGE, "is of another version of ebb");
        values.plugin = OLD_PLUGIN;
        help_expect(ctx, launch(ctx, values), EBB_USAGE, "is of another version of ebb");
        copy_part(OLD_PLUGIN, room->path[1], 9000);
        values.plugin = room->path[1];
        help_expect(ctx, launch(ctx, values), EBB_USAGE, "is cut short");
    }
}

#define IN_ROOM(test) cmocka_unit_test_setup_teardown(test, help_setup, help_teardown)

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(who_ended_is_named),   cmocka_unit_test(bytes_are_free_after_close),
        cmocka_unit_test(who_gave_up_is_named), cmocka_unit_test(who_never_comes_is_named),
        cmocka_unit_test(faults_are_made),      IN_ROOM(faults_are_drawn_from_the_seed),
        IN_ROOM(no_memory_is_an_error),         IN_ROOM(who_cannot_use_mpi_does_not_go_on),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
