/* ctx.c - contexts, their error sentence and their callbacks.
 *
 * The first failure's sentence stays until ebb__ctx_clear: what went wrong first is what the user
 * can mend, the failures that follow from it are not. Nothing is printed here. */
#include "base/ctx.h"

#include "base/alloc.h"

#include <stdio.h>
#include <unistd.h>

#undef ebb__fail

ebb_status ebb_ctx_new(ebb_ctx **out) {
    *out = ebb__alloc_raw(sizeof **out);
    return *out != NULL ? EBB_OK : EBB_NOMEM;
}

void ebb_ctx_free(ebb_ctx *ctx) {
    if (ctx != NULL) {
        ebb__region_trim(ctx);
        if (ctx->input > 0) {
            (void)close(ctx->input);
        }
    }
    ebb__free_raw(ctx);
}

void ebb_ctx_on_log(ebb_ctx *ctx, ebb_log_fn fn, void *user) {
    ctx->log = fn;
    ctx->log_user = user;
}

void ebb_ctx_on_progress(ebb_ctx *ctx, ebb_progress_fn fn, void *user) {
    ctx->progress = fn;
    ctx->progress_user = user;
}

void ebb_ctx_on_stop(ebb_ctx *ctx, ebb_stop_fn fn, void *user) {
    ctx->stop_planning = fn;
    ctx->stop_planning_user = user;
}

const char *ebb_last_error(const ebb_ctx *ctx) {
    return ctx->error;
}

const char *ebb_version(void) {
    return EBB_VERSION;
}

const char *ebb_status_text(ebb_status status) {
    switch (status) {
#define STATUS_CASE(name, value, text)                                                             \
    case name:                                                                                     \
        return text;
        EBB_STATUS_LIST(STATUS_CASE)
#undef STATUS_CASE
    }
    return "unknown status";
}

ebb_status ebb__fail(ebb_ctx *ctx, ebb_status status, const char *format, ...) {
    if (ctx->error[0] == '\0') {
        va_list args;
        va_start(args, format);
        (void)vsnprintf(ctx->error, sizeof ctx->error, format, args);
        va_end(args);
    }
    return status;
}

void ebb__ctx_clear(ebb_ctx *ctx) {
    ctx->error[0] = '\0';
}

void ebb__log(ebb_ctx *ctx, ebb_log_level level, const char *format, ...) {
    if (ctx->log == NULL) {
        return;
    }
    char line[1024];
    va_list args;
    va_start(args, format);
    (void)vsnprintf(line, sizeof line, format, args);
    va_end(args);
    ctx->log(ctx->log_user, level, line);
}

ebb_status ebb__poll_stop(ebb_ctx *ctx, const char *path) {
    return ctx->stop != NULL && ctx->stop(ctx->stop_user)
               ? ebb__fail(ctx, EBB_STOPPED, "stopped while reading %s, before anything was done",
                           path)
               : EBB_OK;
}

void ebb__progress(ebb_ctx *ctx, const char *what, uint64_t done, uint64_t total) {
    if (ctx->progress != NULL) {
        ctx->progress(ctx->progress_user, what, done, total);
    }
}
