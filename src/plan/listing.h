/* listing.h - a compiled program instruction by instruction, as emit will write it, for people and
 * tests: which kernel, on which bytes of the arena, in which run, for whom. */
#ifndef PLAN_LISTING_H
#define PLAN_LISTING_H

#include "plan/plan.h"

typedef struct plan_listed {
    const pass_unit *unit;
    const ir_node_rec *node;         /* op and label */
    int32_t number, run;             /* from 0; instructions of one run follow each other */
    int32_t members;                 /* of the team that take part */
    char kernel[48], form[64];       /* see ebb__plan_name_kernel */
    uint64_t scratch, scratch_bytes; /* address in the arena; 0 bytes: none */
} plan_listed;

typedef struct plan_listed_view {
    bool there;       /* false: an operand that was left out */
    const char *name; /* of a variable or an output; NULL: a value in between */
    ir_type type;
    uint64_t address, bytes; /* in the arena; of the value itself, rows may lie apart */
} plan_listed_view;

/* Operand i, or, from n_in on, result i - n_in. */
plan_listed_view ebb__plan_listed_view(const plan_listed *instr, int32_t i);

/* "matmul.xsmm", or "tanh.ref" for a reference, and its form: left as it is if it has but one. */
void ebb__plan_name_kernel(const pass_unit *unit, ir_node node, char *name, size_t name_bytes,
                           char *form, size_t form_bytes);

typedef ebb_status (*plan_list_fn)(void *user, const plan_listed *instr);
/* Calls `each` for every instruction of a program in order. The plan must not be released; a
 * program whose graph is gone is compiled again. */
ebb_status ebb__plan_list(ebb_plan *plan, int32_t index, plan_list_fn each,
                          void *user) EBB_MUST_CHECK;

#endif
