/* span.h - the elements of a matrix that a call is to do, as runs of columns inside rows: a
 * member's share of them all, or a range of columns of every row.
 *
 * Cutting is for pointwise kernels only: every element is computed alike wherever the cuts fall, so
 * neither the number of members nor the ranges show in the result. A row is cut in runs of about
 * equal length, at most SPAN_COLUMNS and a multiple of SPAN_GRAIN but for the last. */
#ifndef DEVICE_CPU_SPAN_H
#define DEVICE_CPU_SPAN_H

#include "base/team.h"
#include "op/map.h"

enum { SPAN_COLUMNS = 512, SPAN_GRAIN = 16 };

typedef struct cpu_span {
    int64_t row, col, len;      /* the current run */
    int64_t left, next;         /* runs still to come; where the next begins, in row `row` */
    int64_t first, limit, step; /* columns of a row; how many a run has */
} cpu_span;

/* Columns [first, limit) of all rows or, if there is no range, the member's share of them. */
static inline cpu_span cpu_span_of(const op_call *call, int64_t rows, int64_t first,
                                   int64_t limit) {
    cpu_span span = {.first = first, .limit = limit};
    int64_t width = limit - first;
    int64_t per_row = (width + SPAN_COLUMNS - 1) / SPAN_COLUMNS, begin = 0, end = rows * per_row;
    span.step = width;
    if (per_row > 1) {
        span.step = ((width + per_row - 1) / per_row + SPAN_GRAIN - 1) / SPAN_GRAIN * SPAN_GRAIN;
    }
    if (call->hi == 0) {
        ebb__team_share(rows * per_row, 1, call->member, call->members, &begin, &end);
    }
    span.left = end - begin;
    span.row = per_row > 1 ? begin / per_row : begin;
    span.next = span.first + (begin - span.row * per_row) * span.step;
    return span;
}

static inline cpu_span cpu_span_start(const op_call *call, int64_t rows, int64_t cols) {
    return call->hi > 0 ? cpu_span_of(call, rows, call->lo, call->hi)
                        : cpu_span_of(call, rows, 0, cols);
}

/* For operands 0..n_in-1 and all results of one shape: where no view has gaps, a member's share is
 * one of one long row, as is a range of a map. */
static inline cpu_span cpu_span_same(const op_call *call, int32_t n_in) {
    int64_t rows = ebb__ir_rows(&call->out[0].type), cols = ir_cols(&call->out[0].type);
    bool dense = true;
    if (call->hi > 0 && op_is_map(&call->out[0].type)) {
        op_map m = op_map_of(&call->out[0].type);
        return cpu_span_of(call, 1, call->lo * op_map_row(&m), call->hi * op_map_row(&m));
    }
    for (int32_t i = 0; i < n_in; i++) {
        dense = dense && (call->in[i].data == NULL || call->in[i].ld == cols);
    }
    for (int32_t i = 0; i < call->n_out; i++) {
        dense = dense && call->out[i].ld == cols;
    }
    return dense && call->hi == 0 ? cpu_span_start(call, 1, rows * cols)
                                  : cpu_span_start(call, rows, cols);
}

static inline bool cpu_span_next(cpu_span *span) {
    if (span->left == 0) {
        return false;
    }
    span->left--;
    if (span->next >= span->limit) {
        span->row++;
        span->next = span->first;
    }
    span->col = span->next;
    span->next += span->step;
    span->len = span->limit - span->col < span->step ? span->limit - span->col : span->step;
    return true;
}

static inline float *cpu_at(const op_view *view, int64_t row, int64_t col) {
    return (float *)view->data + row * view->ld + col;
}

#endif
