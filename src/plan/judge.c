/* judge.c - whether the plan that was chosen fits the device's memory and the host's, and what is
 * said if it does not. */
#include "plan/walk.h"

#include <inttypes.h>
#include <stdio.h>

static ebb_status refuse(ebb_plan *plan, const plan_options *options) {
    char largest[256] = "";
    size_t used = 0;
    for (int32_t i = 0; i < plan->n_largest && i < 3; i++) {
        int n = snprintf(largest + used, sizeof largest - used, "%s%s %" PRIu64, i ? ", " : "",
                         plan->largest[i].what, plan->largest[i].bytes);
        used += n > 0 && (size_t)n < sizeof largest - used ? (size_t)n : 0;
    }
    plan->ctx->least_bytes = plan->ctx->error[0] == '\0' ? plan->least_bytes : 0;
    if (plan->budget_bytes < options->budget) {
        return ebb__fail(plan->ctx, EBB_BUDGET,
                         "the device gives at most %" PRIu64 " bytes in one piece, and the least "
                         "that works is %" PRIu64 " bytes; largest: %s",
                         plan->budget_bytes, plan->least_bytes, largest);
    }
    return ebb__fail(
        plan->ctx, EBB_BUDGET,
        "the budget of %" PRIu64 " bytes is too small: the least that works is %" PRIu64
        " bytes (%s %" PRIu64 "); largest: %s",
        plan->budget_bytes, plan->least_bytes,
        options->budget_name != NULL ? options->budget_name : "budget", plan->least_bytes, largest);
}

ebb_status ebb__plan_judge(ebb_plan *plan, const plan_options *options) {
    if (plan->choices[plan->chosen].peak_bytes > plan->budget_bytes) {
        return refuse(plan, options);
    }
    uint64_t most = ebb__plan_host_most(plan, options);
    return plan->host_bytes <= most
               ? EBB_OK
               : ebb__fail(plan->ctx, EBB_BUDGET,
                           "the host's budget of %" PRIu64 " bytes is too small: this plan takes "
                           "%" PRIu64 " bytes beside the device (--host-memory %" PRIu64 ")",
                           most, plan->host_bytes, plan->host_bytes);
}
