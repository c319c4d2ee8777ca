/* kept.h - weights of a run that outlive their generation: step-<step>.safetensors, second names of
 * the newest ones, for who wants to average or compare them. */
#ifndef STORE_KEPT_H
#define STORE_KEPT_H

#include "base/ctx.h"

/* Keeps the weights of generation `step`, and of those kept before the newest, `keep` in all. */
ebb_status ebb__kept_add(ebb_ctx *ctx, const char *dir, uint64_t step,
                         uint64_t keep) EBB_MUST_CHECK;
/* Removes all of them but the `keep` newest. */
ebb_status ebb__kept_prune(ebb_ctx *ctx, const char *dir, uint64_t keep) EBB_MUST_CHECK;

#endif
