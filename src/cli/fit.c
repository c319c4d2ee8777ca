/* fit.c - `--batch auto`: a number in its place, and where it comes from. */
#include "cli/command.h"

#include <inttypes.h>

ebb_status ebb__cli_fit(cli_call *call, const char *dir) {
    train_settings *run = &call->settings.run;
    job_fit fit = {0};
    if (run->batch != 0 || run->batch_tokens > 0) {
        return EBB_OK;
    }
    TRY(ebb__job_fit(call->ctx, run, dir, &fit));
    if (fit.recalled) {
        ebb__log(call->ctx, EBB_LOG_INFO, "batch %" PRId64 ", as the run in %s was started with",
                 run->batch, dir);
    } else {
        ebb__log(call->ctx, EBB_LOG_INFO, "batch %" PRId64 " fits in %s%s", run->batch,
                 ebb__cli_bytes(run->budget).text,
                 !fit.most     ? ""
                 : fit.by_text ? "; the text fills no larger one"
                               : "; auto takes no larger one");
    }
    return EBB_OK;
}

ebb_status ebb__cli_refuse_auto(ebb_ctx *ctx, const train_settings *run) {
    return run->batch != 0 ? EBB_OK
                           : ebb__fail(ctx, EBB_USAGE,
                                       "--batch auto: only plan, bench and train find the batch "
                                       "themselves; say how many: --batch N");
}
