/* ctx.c - contexts, their error sentence and their callbacks.
 *
 * The first failure's sentence stays until ebb__ctx_clear: what went wrong first is what the user
 * can mend, the failures that follow from it are not. Nothing is printed here. */
#include "base/ctx.h"

#include "base/alloc.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#undef ebb__fail

enum { LONGEST_FORMAT = 768 };

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

uint64_t ebb_least_bytes(const ebb_ctx *ctx) {
    return ctx != NULL ? ctx->least_bytes : 0;
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

/* Whether an option is named here: `--name`, or `--%s`, where a word can begin. */
static bool names_option(const char *format, const char *at) {
    return at[0] == '-' && at[1] == '-' && (isalpha((unsigned char)at[2]) || at[2] == '%') &&
           (at == format || !isalnum((unsigned char)at[-1]));
}

/* The sentence in the words of who reads it: formats name settings as the command does. */
static void say(const ebb_ctx *ctx, char *out, size_t bytes, const char *format, va_list args) {
    char plain[LONGEST_FORMAT];
    size_t n = 0;
    bool reword = !ctx->command && strlen(format) < sizeof plain;
    for (const char *at = format; reword && *at != '\0'; at++) {
        at += names_option(format, at) ? 2 : 0;
        plain[n++] = *at;
    }
    plain[n] = '\0';
    (void)vsnprintf(out, bytes, reword ? plain : format, args);
}

ebb_status ebb__fail(ebb_ctx *ctx, ebb_status status, const char *format, ...) {
    if (ctx->error[0] == '\0') {
        va_list args;
        va_start(args, format);
        say(ctx, ctx->error, sizeof ctx->error, format, args);
        va_end(args);
    }
    return status;
}

void ebb__ctx_clear(ebb_ctx *ctx) {
    ctx->error[0] = '\0';
    ctx->least_bytes = 0;
}

void ebb__log(ebb_ctx *ctx, ebb_log_level level, const char *format, ...) {
    if (ctx->log == NULL) {
        return;
    }
    char line[1024];
    va_list args;
    va_start(args, format);
    say(ctx, line, sizeof line, format, args);
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
