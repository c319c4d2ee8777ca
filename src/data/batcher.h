/* batcher.h - a token file as the windows of truncated back-propagation: B contiguous columns.
 *
 * N tokens give N - 1 pairs (input, the token after it). Column b holds pairs
 * [b L, (b + 1) L), L = ceil((N - 1) / B), so that no pair is lost; window k holds steps
 * [k T, (k + 1) T) of every column, so that a column goes on where it stopped and its state is
 * carried. Where there is no pair, the input is <eos> and the target -1 (ignored by the loss).
 *
 * A window is [T, B] with time DESCENDING by blocks of B rows: row j B + b is column b at step
 * T - 1 - j. Weight gradients are sums with time descending and rows ascending, so over
 * rows in this order one whole-window product is the same chain of additions as T small ones.
 *
 *   rows 0..B-1: step T-1 | rows B..2B-1: step T-2 | ... | rows (T-1)B..TB-1: step 0 */
#ifndef DATA_BATCHER_H
#define DATA_BATCHER_H

#include "data/tokens.h"

enum { BATCH_IGNORED = -1 };

typedef struct data_batcher {
    const tokens_reader *tokens;
    uint32_t steps, columns; /* T, B */
    uint64_t pairs;          /* N - 1 */
    uint64_t length;         /* L */
    uint64_t windows;        /* of one epoch */
    uint32_t *staging;       /* [T + 1], the caller's */
} data_batcher;

/* Bytes of the staging memory for T steps: one column's tokens, reused for each column. */
static inline size_t ebb__batcher_bytes(uint32_t steps) {
    return ((size_t)steps + 1) * sizeof(uint32_t);
}

/* EBB_DATA if the text has fewer than two tokens. `tokens` and `staging` must outlive it. */
ebb_status ebb__batcher_init(ebb_ctx *ctx, const tokens_reader *tokens, uint32_t steps,
                             uint32_t columns, void *staging, data_batcher *out) EBB_MUST_CHECK;
/* Fills inputs and targets, [T, B] each; *valid (may be NULL) = targets that are not ignored.
 * Allocates nothing. */
ebb_status ebb__batcher_fill(const data_batcher *batcher, uint64_t window, int32_t *inputs,
                             int32_t *targets, uint64_t *valid) EBB_MUST_CHECK;

#endif
