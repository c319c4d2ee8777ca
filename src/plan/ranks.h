/* ranks.h - messages of the ranks that share a program, and the proof, before the first step, that
 * what one sends is what another receives and that they never wait for each other in vain. */
#ifndef PLAN_RANKS_H
#define PLAN_RANKS_H

#include "pass/pass.h"

enum { PLAN_MESSAGE_LABEL = 40 };

/* A message node of a rank's program; handed from rank to rank as it is. */
typedef struct plan_message {
    int32_t kind;             /* op_message */
    int32_t peer, tag, value; /* op_post; of one that waits, as of what it waits for */
    int32_t dtype;            /* ir_dtype */
    int32_t start; /* of one that waits: the number in the list of what started; -1: nothing did */
    uint64_t bytes;
    char label[PLAN_MESSAGE_LABEL]; /* what people know it by: "rnn.l0 backward t=3" */
} plan_message;

/* In the order of the program. */
typedef struct plan_messages {
    plan_message *at; /* from ebb__alloc */
    int32_t n;
} plan_messages;

/* messages.c: those of a compiled unit. */
ebb_status ebb__plan_list_messages(const pass_unit *unit, plan_messages *out) EBB_MUST_CHECK;

/* EBB_INTERNAL, with ranks, tag and labels in the sentence, unless each message is sent once and
 * received once, as the same bytes of the same value; each start is waited for once, behind it; and
 * all ranks come to the end of two steps in a row if a message is taken only once it was sent, and
 * sent is only what the other rank has room for. */
ebb_status ebb__plan_prove_messages(ebb_ctx *ctx, const char *program, const plan_messages *lists,
                                    int32_t ranks) EBB_MUST_CHECK;

#endif
