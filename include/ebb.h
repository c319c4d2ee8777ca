/* ebb.h - the public interface of libebb.
 *
 * ebb trains models in the memory you have: build a graph, compile it under a budget in bytes,
 * ask what the plan holds, then run steps that never leave it. Handles are opaque; fallible
 * functions return an ebb_status and leave a sentence in ebb_last_error(); the library never
 * prints and never exits. Nothing here is thread-safe on one handle: use one ebb_ctx a thread.
 *
 * Graph builders return a value id and remember the first mistake, so that a model reads like
 * its equations; ebb_compile() reports that mistake.
 */
#ifndef EBB_H
#define EBB_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#if defined(__GNUC__)
#define EBB_API __attribute__((visibility("default")))
#define EBB_MUST_CHECK __attribute__((warn_unused_result))
#else
#define EBB_API
#define EBB_MUST_CHECK
#endif

#define EBB_VERSION "0.1.0"

/* One list: name, value (also the command's exit code), text. */
#define EBB_STATUS_LIST(X)                                     \
    X(EBB_OK, 0, "done")                                       \
    X(EBB_INTERNAL, 1, "internal error")                       \
    X(EBB_USAGE, 2, "wrong usage")                             \
    X(EBB_DATA, 3, "bad data")                                 \
    X(EBB_BUDGET, 4, "does not fit the memory budget")         \
    X(EBB_MODEL, 5, "bad model or checkpoint")                 \
    X(EBB_DIVERGED, 6, "training diverged")                    \
    X(EBB_IO, 7, "input or output failed")                     \
    X(EBB_NOMEM, 8, "the system gave no memory")               \
    X(EBB_STOPPED, 75, "stopped by a signal, state saved")

typedef enum ebb_status {
#define EBB_STATUS_ENUM(name, value, text) name = value,
    EBB_STATUS_LIST(EBB_STATUS_ENUM)
#undef EBB_STATUS_ENUM
} ebb_status;

EBB_API const char *ebb_status_text(ebb_status status);
EBB_API const char *ebb_version(void);

/* ---- context: errors, log, counted memory ------------------------------------------------ */

typedef struct ebb_ctx ebb_ctx;

typedef enum ebb_log_level { EBB_LOG_ERROR, EBB_LOG_WARN, EBB_LOG_INFO, EBB_LOG_DEBUG } ebb_log_level;
typedef void (*ebb_log_fn)(void *user, ebb_log_level level, const char *line);
/* what: a phase such as "compile" or "train"; done of total units; total 0 = unknown. */
typedef void (*ebb_progress_fn)(void *user, const char *what, uint64_t done, uint64_t total);

EBB_API ebb_status ebb_ctx_new(ebb_ctx **out) EBB_MUST_CHECK;
EBB_API void ebb_ctx_free(ebb_ctx *ctx);
EBB_API void ebb_ctx_on_log(ebb_ctx *ctx, ebb_log_fn fn, void *user);
EBB_API void ebb_ctx_on_progress(ebb_ctx *ctx, ebb_progress_fn fn, void *user);
/* The sentence of the last failure in this context; "" if there was none. */
EBB_API const char *ebb_last_error(const ebb_ctx *ctx);

/* PUBLIC-API-CONTINUES */

#ifdef __cplusplus
}
#endif
#endif /* EBB_H */
