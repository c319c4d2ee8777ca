/* average.h - the mean of several files of weights, as a file of weights. */
#ifndef STORE_AVERAGE_H
#define STORE_AVERAGE_H

#include "base/ctx.h"

/* Replaces the file `out` by the mean of the tensors of `n` files, element by element, added up in
 * double precision in the order of the files. All must have the same tensors. Numbers that are
 * whole are those of the last file; notes are kept where all files agree. Memory does not grow with
 * the tensors. EBB_MODEL naming file and tensor where they differ. */
ebb_status ebb__average(ebb_ctx *ctx, const char *const *paths, size_t n,
                        const char *out) EBB_MUST_CHECK;

#endif
