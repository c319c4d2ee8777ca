/* span.h - a member's share of the elements of a matrix, as runs of columns inside rows.
 *
 * Cutting is for pointwise kernels only: every element is computed alike wherever the cuts fall, so
 * the number of members does not show in the result. Cuts fall on multiples of SPAN_COLUMNS. */
#ifndef DEVICE_CPU_SPAN_H
#define DEVICE_CPU_SPAN_H

#include "base/team.h"
#include "op/op.h"

enum { SPAN_COLUMNS = 512 };

typedef struct cpu_span {
    int64_t row, col, len; /* the current run */
    int64_t item, end, per_row, cols;
} cpu_span;

static inline cpu_span cpu_span_start(const op_call *call, int64_t rows, int64_t cols) {
    cpu_span span = {.cols = cols, .per_row = (cols + SPAN_COLUMNS - 1) / SPAN_COLUMNS};
    ebb__team_share(rows * span.per_row, 1, call->member, call->members, &span.item, &span.end);
    return span;
}

/* For operands 0..n_in-1 and all results of one shape: one long row where no view has gaps. */
static inline cpu_span cpu_span_same(const op_call *call, int32_t n_in) {
    int64_t rows = ebb__ir_rows(&call->out[0].type), cols = ir_cols(&call->out[0].type);
    bool dense = true;
    for (int32_t i = 0; i < n_in; i++) {
        dense = dense && (call->in[i].data == NULL || call->in[i].ld == cols);
    }
    for (int32_t i = 0; i < call->n_out; i++) {
        dense = dense && call->out[i].ld == cols;
    }
    return dense ? cpu_span_start(call, 1, rows * cols) : cpu_span_start(call, rows, cols);
}

static inline bool cpu_span_next(cpu_span *span) {
    if (span->item >= span->end) {
        return false;
    }
    span->row = span->item / span->per_row;
    span->col = span->item % span->per_row * SPAN_COLUMNS;
    span->len = span->cols - span->col < SPAN_COLUMNS ? span->cols - span->col : SPAN_COLUMNS;
    span->item++;
    return true;
}

static inline float *cpu_at(const op_view *view, int64_t row, int64_t col) {
    return (float *)view->data + row * view->ld + col;
}

#endif
