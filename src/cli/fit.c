/* fit.c - `--batch auto`: a number in its place, and where it comes from. */
#include "cli/command.h"

#include <inttypes.h>

/* "8 x 40+41": rows x length. */
static unit_text name_shape(const data_shape *shape) {
    unit_text out;
    if (shape->source > 0) {
        (void)snprintf(out.text, sizeof out.text, "%d x %d+%d", (int)shape->rows,
                       (int)shape->source, (int)shape->target);
    } else {
        (void)snprintf(out.text, sizeof out.text, "%d x %d", (int)shape->rows, (int)shape->target);
    }
    return out;
}

/* The longest and the shortest of several; nothing where there are none. */
static cli_line name_shapes(const data_shapes *shapes) {
    cli_line out = {""};
    if (shapes->n > 0) {
        (void)snprintf(out.text, sizeof out.text, ": %s%s%s", name_shape(&shapes->at[0]).text,
                       shapes->n > 1 ? " ... " : "",
                       shapes->n > 1 ? name_shape(&shapes->at[shapes->n - 1]).text : "");
    }
    return out;
}

/* Of processes that have all settings but the batch, the first one finds it. */
static ebb_status share_batch(cli_call *call, ebb_status found) {
    train_settings *run = &call->settings.run;
    int64_t batch[2] = {run->batch, run->batch_tokens};
    if (call->link == NULL || ebb__comm_size(call->link) == 1) {
        return found;
    }
    TRY(ebb__comm_agree(call->link, found, run->lost_after));
    TRY(ebb__comm_broadcast(call->link, 0, batch, sizeof batch, run->lost_after));
    run->batch = batch[0];
    run->batch_tokens = batch[1];
    return EBB_OK;
}

ebb_status ebb__cli_fit(cli_call *call, const char *dir) {
    train_settings *run = &call->settings.run;
    job_fit fit = {0};
    if (run->batch != 0 || run->batch_tokens > 0) {
        return EBB_OK;
    }
    if (ebb__cli_is_follower(call)) {
        return share_batch(call, EBB_OK);
    }
    ebb_status status = ebb__job_fit(call->ctx, run, dir, &fit);
    ebb__cli_progress_clear(&call->progress);
    TRY(dir == NULL ? share_batch(call, status) : status); /* else others get it with the plan */
    settings_batch batch = ebb__settings_batch(run);
    if (fit.recalled) {
        ebb__log(call->ctx, EBB_LOG_INFO, "batch %s, as the run in %s was started with", batch.text,
                 dir);
    } else {
        ebb__log(call->ctx, EBB_LOG_INFO, "batch %s fits in %s%s%s", batch.text,
                 ebb__unit_bytes(run->budget).text, name_shapes(&fit.shapes).text,
                 !fit.most     ? ""
                 : fit.by_text ? "; the text fills no larger one"
                               : "; auto takes no larger one");
    }
    return EBB_OK;
}

ebb_status ebb__cli_refuse_auto(ebb_ctx *ctx, const train_settings *run) {
    return run->batch != 0
               ? EBB_OK
               : ebb__fail(ctx, EBB_USAGE,
                           "--batch auto: only plan, bench, train and data plan find the batch "
                           "themselves; say how many: --batch N");
}
