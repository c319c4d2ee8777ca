/* batch_time.c - work of all time steps as one. */
#include "pass/pass.h"

static ebb_status run(pass_unit *unit) {
    (void)unit;
    return EBB_OK;
}

const pass_def ebb__pass_batch_time = {.id = PASS_BATCH_TIME, .run = run};
