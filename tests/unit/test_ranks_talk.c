/* test_ranks_talk.c - ranks hand their lists of messages to the first one, which proves that they
 * fit together (run/ranks.h), or all of them are told why not. */
#include "comm_help.h"

#include "run/ranks.h"

enum { PROGRAMS = 3, MESSAGES = 3000 };

/* Each rank sends all its messages to the next one and receives as many; the second program is
 * nobody else's. */
static void make_lists(help_rank *me, ebb_plan *plan) {
    static char *const names[] = {"train", "step", "valid"};
    plan->ctx = me->ctx;
    plan->n_programs = PROGRAMS;
    for (int i = 0; i < PROGRAMS; i++) {
        plan_messages *list = &plan->programs[i].messages;
        plan->programs[i].name = names[i];
        plan->programs[i].shared = i != 1;
        if (i == 1) {
            continue;
        }
        CHECK_OK(me, ebb__alloc(me->ctx, (size_t)4 * MESSAGES, sizeof *list->at, &list->at));
        for (int32_t m = 0; m < MESSAGES; m++) {
            int32_t next = (me->rank + 1) % me->ranks;
            plan_message send = {MESSAGE_SEND, next, m, m, IR_F32, -1, 64, "layer"}, recv = send;
            recv.kind = MESSAGE_RECV;
            recv.peer = (me->rank + me->ranks - 1) % me->ranks;
            list->at[list->n++] = send;
            list->at[list->n++] = recv;
            send.start = list->n - 2;
            recv.start = list->n - 1;
            send.kind = MESSAGE_SENT;
            recv.kind = MESSAGE_GOT;
            list->at[list->n++] = recv;
            list->at[list->n++] = send;
        }
    }
}

/* Of the last rank; -1: nothing is wrong. */
static int wrong_program;

static void prove(help_rank *me) {
    ebb_plan *plan = calloc(1, sizeof *plan);
    run_session session = {.ctx = me->ctx, .plan = plan, .link = me->link, .lost_seconds = LIMIT};
    make_lists(me, plan);
    if (wrong_program >= 0 && me->rank == me->ranks - 1) {
        plan->programs[wrong_program].messages.at[4].bytes = 60;
    }
    ebb_status status = ebb__ranks_prove(&session);
    if (wrong_program < 0) {
        CHECK_OK(me, status);
    } else {
        char want[128];
        (void)snprintf(want, sizeof want,
                       "in program %s message 1 from rank %d to rank 0 is sent as 60",
                       plan->programs[wrong_program].name, me->ranks - 1);
        CHECK_ERROR(me, status, EBB_INTERNAL, want);
    }
    CHECK(me, ebb__comm_agreed(me->link) == (wrong_program >= 0));
    CHECK(me, status != EBB_OK || plan->programs[0].messages.at == NULL);
    ebb__plan_drop_messages(plan);
    free(plan);
}

static void all_ranks_hear_the_verdict(void **state) {
    (void)state;
    static const int wrong[] = {-1, 0, 2};
    for (int ranks = 2; ranks <= RANKS_MOST; ranks += 3) {
        for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
            wrong_program = wrong[i];
            help_run(ranks, 4, prove);
        }
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(all_ranks_hear_the_verdict)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
