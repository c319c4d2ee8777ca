/* comm_help.h - ranks as threads for tests: each runs the same function with a link and a context
 * of its own. Asserts belong to the main thread, so ranks note their first failed CHECK instead,
 * and go on; every wait has a limit, so nobody hangs. */
#ifndef TESTS_COMM_HELP_H
#define TESTS_COMM_HELP_H

#include "data_help.h"

#include "base/team.h"
#include "comm/comm.h"

enum { RANKS_MOST = 8, FIRST = COMM_FIRST_TAG };
static const double LIMIT = 60; /* seconds; for what must come */

typedef struct help_rank {
    ebb_ctx *ctx;
    comm_link *link;
    int rank, ranks;
    int wrong; /* line of the first failed check */
    char why[1100];
} help_rank;

#define CHECK(me, is)                                                                              \
    do {                                                                                           \
        if (!(is) && (me)->wrong == 0) {                                                           \
            (me)->wrong = __LINE__;                                                                \
            (void)snprintf((me)->why, sizeof(me)->why, "%.300s; %.600s", #is, (me)->ctx->error);   \
        }                                                                                          \
    } while (0)
#define CHECK_OK(me, call) CHECK(me, (call) == EBB_OK)

/* Status and a part of the sentence, which is forgotten. */
static inline void check_error(help_rank *me, int line, ebb_status got, ebb_status want,
                               const char *part) {
    const char *sentence = ebb_last_error(me->ctx);
    if ((got != want || strstr(sentence, part) == NULL) && me->wrong == 0) {
        me->wrong = line;
        (void)snprintf(me->why, sizeof me->why, "status %d (wanted %d), \"%.400s\" (wanted \"%s\")",
                       (int)got, (int)want, sentence, part);
    }
    ebb__ctx_clear(me->ctx);
}
#define CHECK_ERROR(me, call, want, part) check_error(me, __LINE__, call, want, part)

typedef void (*help_rank_fn)(help_rank *me);

typedef struct help_hall {
    comm_hall *hall;
    int tickets;
    help_rank_fn fn;
    help_rank rank[RANKS_MOST];
} help_hall;

static inline void help_member(void *arg, int member, int members) {
    help_hall *run = arg;
    help_rank *me = &run->rank[member];
    comm_setup setup = {
        .tickets = run->tickets, .seconds = LIMIT, .hall = run->hall, .rank = member};
    me->rank = member;
    me->ranks = members;
    CHECK_OK(me, ebb__comm_open(me->ctx, &ebb__comm_threads_calls, &setup, &me->link));
    if (me->link != NULL) {
        run->fn(me);
    }
    ebb__comm_close(me->link);
}

/* Every rank opens, runs fn and closes; nothing may stay behind. */
static inline void help_run(int ranks, int tickets, help_rank_fn fn) {
    static help_hall run;
    base_team *team;
    ebb_ctx *ctx;
    run = (help_hall){.tickets = tickets, .fn = fn};
    assert_int_equal(ebb_ctx_new(&ctx), EBB_OK);
    assert_int_equal(ebb__comm_hall_new(ctx, ranks, &run.hall), EBB_OK);
    assert_int_equal(ebb__team_new(ctx, ranks, &team), EBB_OK);
    for (int i = 0; i < ranks; i++) {
        assert_int_equal(ebb_ctx_new(&run.rank[i].ctx), EBB_OK);
    }
    ebb__team_run(team, help_member, &run);
    for (int i = 0; i < ranks; i++) {
        if (run.rank[i].wrong != 0) {
            fail_msg("rank %d of %d, line %d: %s", i, ranks, run.rank[i].wrong, run.rank[i].why);
        }
        assert_int_equal(run.rank[i].ctx->mem.live_blocks, 0);
        ebb_ctx_free(run.rank[i].ctx);
    }
    ebb__team_free(team);
    ebb__comm_hall_free(run.hall);
    assert_int_equal(ctx->mem.live_blocks, 0);
    ebb_ctx_free(ctx);
}

/* Whole messages of numbers: what most tests send. */
static inline ebb_status send_number(comm_link *link, int to, int tag, const int *number) {
    int ticket;
    TRY(ebb__comm_send(link, to, tag, number, sizeof *number, &ticket));
    return ebb__comm_wait(link, ticket, LIMIT);
}

static inline ebb_status recv_number(comm_link *link, int from, int tag, int *number) {
    int ticket;
    TRY(ebb__comm_recv(link, from, tag, number, sizeof *number, &ticket));
    return ebb__comm_wait(link, ticket, LIMIT);
}

#endif
