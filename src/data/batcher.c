/* batcher.c - windows of contiguous columns, in the row order that batcher.h draws. It keeps no
 * position: a window is a function of its number, which is what resuming needs. */
#include "data/batcher.h"

ebb_status ebb__batcher_init(ebb_ctx *ctx, const tokens_reader *tokens, uint32_t steps,
                             uint32_t columns, void *staging, data_batcher *out) {
    if (steps == 0 || columns == 0 || (uint64_t)steps * columns > INT32_MAX) {
        return ebb__fail(ctx, EBB_USAGE,
                         "batches of %u columns by %u steps: both must be at least 1 and their "
                         "product below 2^31",
                         columns, steps);
    }
    if (tokens->count < 2) {
        return ebb__fail(ctx, EBB_DATA,
                         "token file %s: the text has %llu token(s); a language model needs at "
                         "least 2, one to read and one to predict",
                         tokens->path, (unsigned long long)tokens->count);
    }
    uint64_t pairs = tokens->count - 1;
    uint64_t length = pairs / columns + (pairs % columns != 0);
    *out = (data_batcher){.tokens = tokens,
                          .steps = steps,
                          .columns = columns,
                          .pairs = pairs,
                          .length = length,
                          .windows = length / steps + (length % steps != 0),
                          .staging = staging};
    return EBB_OK;
}

/* Steps of this window that have a pair in this column, and the position of the first. */
static uint32_t pairs_in(const data_batcher *batcher, uint64_t window, uint32_t column,
                         uint64_t *first) {
    if (window >= batcher->windows) {
        return 0;
    }
    uint64_t offset = window * batcher->steps;
    uint64_t in_column = batcher->length - offset;
    *first = column * batcher->length + offset;
    uint64_t in_text = *first < batcher->pairs ? batcher->pairs - *first : 0;
    uint64_t count = in_column < in_text ? in_column : in_text;
    return count < batcher->steps ? (uint32_t)count : batcher->steps;
}

ebb_status ebb__batcher_fill(const data_batcher *batcher, uint64_t window, int32_t *inputs,
                             int32_t *targets, uint64_t *valid) {
    uint64_t total = 0;
    for (uint32_t b = 0; b < batcher->columns; b++) {
        uint64_t first = 0;
        uint32_t count = pairs_in(batcher, window, b, &first);
        if (count > 0) {
            TRY(ebb__tokens_read(batcher->tokens, first, (size_t)count + 1, batcher->staging));
        }
        for (uint32_t t = 0; t < batcher->steps; t++) {
            size_t row = (size_t)(batcher->steps - 1 - t) * batcher->columns + b;
            bool real = t < count;
            inputs[row] = real ? (int32_t)batcher->staging[t] : VOCAB_EOS;
            targets[row] = real ? (int32_t)batcher->staging[t + 1] : BATCH_IGNORED;
        }
        total += count;
    }
    if (valid != NULL) {
        *valid = total;
    }
    return EBB_OK;
}
