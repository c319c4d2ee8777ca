/* infer.c - checks every type against its op once more, so that later passes need not. */
#include "pass/pass.h"

static ebb_status run(pass_unit *unit) {
    return ebb__op_verify(&unit->graph);
}

const pass_def ebb__pass_infer = {.id = PASS_INFER, .run = run};
