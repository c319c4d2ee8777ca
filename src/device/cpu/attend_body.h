/* attend_body.h - attention over the vectors of vec.h. The includer defines CPU_FN(name).
 *
 * Stacks [S*B,H] are far larger than any cache and are read or written once, block after block.
 * Sums over blocks take several blocks at a time, so that their [B,H] results, which stay in the
 * cache, are passed over less often; every element is still one chain, blocks ascending. Members
 * share rows or batch rows, never the terms of one sum. */
#include "device/cpu/blocks.h"
#include "device/cpu/cpu.h"
#include "device/cpu/span.h"
#include "device/cpu/vlanes.h"
#include "device/cpu/vmath.h"

#include <string.h>

/* How many rows go together. */
enum { ROWS_TOGETHER = 4 };

/* ---- a row at a time ------------------------------------------------------------------------- */

void CPU_FN(add_each)(const op_call *call) {
    const op_view *q = &call->in[1];
    int64_t batch = ebb__ir_rows(&q->type), n = ir_cols(&q->type);
    cpu_blocks it = cpu_blocks_start(call, ebb__ir_rows(&call->out[0].type), batch);
    while (cpu_blocks_next(&it)) {
        for (int64_t b = it.lo; b < it.hi; b++) {
            const float *x = cpu_at(&call->in[0], it.block * batch + b, 0), *add = cpu_at(q, b, 0);
            float *y = cpu_at(&call->out[0], it.block * batch + b, 0);
#define ADD_EACH_STEP(j, m) v_store(y + (j), v_load(x + (j), m) + v_load(add + (j), m), m)
            EACH_VECTOR(n, ADD_EACH_STEP);
        }
    }
}

void CPU_FN(outer_rows)(const op_call *call) {
    const op_view *s = &call->in[0];
    const float *v = call->in[1].data;
    int64_t batch = ir_cols(&s->type), n = ir_cols(&call->out[0].type);
    cpu_blocks it = cpu_blocks_start(call, ebb__ir_rows(&call->out[0].type), batch);
    while (cpu_blocks_next(&it)) {
        for (int64_t b = it.lo; b < it.hi; b++) {
            float *y = cpu_at(&call->out[0], it.block * batch + b, 0);
            vf factor = v_all(*cpu_at(s, it.block, b));
#define OUTER_ROWS_STEP(j, m) v_store(y + (j), factor * v_load(v + (j), m), m)
            EACH_VECTOR(n, OUTER_ROWS_STEP);
        }
    }
}

/* y = c + w * x, or w * x without c; y may be c. A weight of 0 adds nothing. */
static INLINE void outer_row(float *y, const float *c, float w, const float *x, int64_t n) {
    vf factor = v_all(w);
#define OUTER_SUM_STEP(j, m)                                                                       \
    v_store(y + (j), v_fma(factor, v_load(x + (j), m), v_load(c + (j), m)), m)
#define OUTER_STEP(j, m) v_store(y + (j), factor * v_load(x + (j), m), m)
    if (w != 0.0f && c != NULL) {
        EACH_VECTOR(n, OUTER_SUM_STEP);
    } else if (w != 0.0f) {
        EACH_VECTOR(n, OUTER_STEP);
    } else if (c == NULL) {
        memset(y, 0, (size_t)n * sizeof *y);
    } else if (c != y) {
        memcpy(y, c, (size_t)n * sizeof *y);
    }
}

void CPU_FN(outer_each)(const op_call *call) {
    const op_view *c = &call->in[0], *s = &call->in[1], *d = &call->in[2];
    int64_t batch = ebb__ir_rows(&d->type), n = ir_cols(&d->type);
    cpu_blocks it = cpu_blocks_start(call, ebb__ir_rows(&call->out[0].type), batch);
    while (cpu_blocks_next(&it)) {
        for (int64_t b = it.lo; b < it.hi; b++) {
            int64_t r = it.block * batch + b;
            outer_row(cpu_at(&call->out[0], r, 0), c->data != NULL ? cpu_at(c, r, 0) : NULL,
                      *cpu_at(s, it.block, b), cpu_at(d, b, 0), n);
        }
    }
}

void CPU_FN(mask_rows)(const op_call *call) {
    const int32_t *len = call->in[1].data;
    const op_view *out = &call->out[0];
    cpu_span span = cpu_span_start(call, ebb__ir_rows(&out->type), ir_cols(&out->type));
    while (cpu_span_next(&span)) {
        const float *x = cpu_at(&call->in[0], span.row, span.col);
        float *y = cpu_at(out, span.row, span.col);
        if (call->attr->i[0] >= len[span.row]) {
            memset(y, 0, (size_t)span.len * sizeof *y);
        } else if (x != y) {
            memcpy(y, x, (size_t)span.len * sizeof *y);
        }
    }
}

/* ---- products of rows ------------------------------------------------------------------------ */

/* y[i * ldy] = row i of x times q, for `rows` rows (constant) that lie ldx apart. */
static INLINE void dots(float *y, int64_t ldy, const float *x, int64_t ldx, const float *q,
                        int64_t n, int rows) {
    lanes sum[ROWS_TOGETHER];
    int64_t j = 0;
    for (int i = 0; i < rows; i++) {
        sum[i] = lanes_all(0.0f);
    }
    for (; j + LANES <= n; j += LANES) {
        for (int w = 0; w < LANE_VECTORS; w++) {
            vf by = v_load(q + j + w * VLEN, VLEN);
            for (int i = 0; i < rows; i++) {
                sum[i].v[w] = v_fma(v_load(x + i * ldx + j + w * VLEN, VLEN), by, sum[i].v[w]);
            }
        }
    }
    for (int i = 0; i < rows; i++) {
        const float *rest = x + i * ldx + j, *by = q + j;
        if (j < n) {
            LANES_REST(sum[i], n - j, __builtin_fmaf(rest[l], by[l], lane));
        }
        y[i * ldy] = lanes_sum(sum[i]);
    }
}

/* Rows that follow each other are multiplied by one list. */
void CPU_FN(dot_rows)(const op_call *call) {
    const op_view *x = &call->in[0], *out = &call->out[0];
    const float *v = call->in[1].data;
    int64_t n = ir_cols(&x->type);
    cpu_blocks it = cpu_blocks_start(call, ebb__ir_rows(&x->type), ir_cols(&out->type));
    while (cpu_blocks_next(&it)) {
        const float *from = cpu_at(x, it.block * it.batch, 0);
        float *y = cpu_at(out, it.block, 0);
        int64_t b = it.lo;
        for (; b + ROWS_TOGETHER <= it.hi; b += ROWS_TOGETHER) {
            dots(y + b, 1, from + b * x->ld, x->ld, v, n, ROWS_TOGETHER);
        }
        for (; b < it.hi; b++) {
            dots(y + b, 1, from + b * x->ld, x->ld, v, n, 1);
        }
    }
}

/* Rows of several blocks are multiplied by the row of q that they share. */
void CPU_FN(dot_each)(const op_call *call) {
    const op_view *x = &call->in[0], *q = &call->in[1], *out = &call->out[0];
    int64_t batch = ebb__ir_rows(&q->type), n = ir_cols(&q->type), lo, hi;
    int64_t blocks = ebb__ir_rows(&out->type);
    cpu_batch_rows(call, batch, 1, &lo, &hi);
    for (int64_t j = 0; j < blocks; j += ROWS_TOGETHER) {
        int64_t end = j + ROWS_TOGETHER < blocks ? j + ROWS_TOGETHER : blocks;
        for (int64_t b = lo; b < hi; b++) {
            const float *from = cpu_at(x, j * batch + b, 0), *by = cpu_at(q, b, 0);
            float *y = cpu_at(out, j, b);
            if (end - j == ROWS_TOGETHER) {
                dots(y, out->ld, from, batch * x->ld, by, n, ROWS_TOGETHER);
                continue;
            }
            for (int64_t i = 0; i < end - j; i++) {
                dots(y + i * out->ld, 0, from + i * batch * x->ld, 0, by, n, 1);
            }
        }
    }
}

/* ---- sums over blocks ------------------------------------------------------------------------ */

/* y += the rows x[0] .. x[rows - 1] (constant), each times its weight if there are weights; first:
 * y starts at 0. */
static INLINE void add_rows(float *y, const float *const *x, const float *weight, int64_t n,
                            int rows, bool first) {
#define SUM_BLOCKS_STEP(j, m)                                                                      \
    do {                                                                                           \
        vf total = first ? v_all(0.0f) : v_load(y + (j), m);                                       \
        for (int i = 0; i < rows; i++) {                                                           \
            vf part = v_load(x[i] + (j), m);                                                       \
            total = weight != NULL ? v_fma(v_all(weight[i]), part, total) : total + part;          \
        }                                                                                          \
        v_store(y + (j), total, m);                                                                \
    } while (0)
    EACH_VECTOR(n, SUM_BLOCKS_STEP);
}

/* The same for any number of rows up to ROWS_TOGETHER. */
static INLINE void add_some(float *y, const float *const *x, const float *weight, int64_t n,
                            int rows, bool first) {
    if (rows == ROWS_TOGETHER && first) {
        add_rows(y, x, weight, n, ROWS_TOGETHER, true);
    } else if (rows == ROWS_TOGETHER) {
        add_rows(y, x, weight, n, ROWS_TOGETHER, false);
    } else if (first && rows == 0) {
        memset(y, 0, (size_t)n * sizeof *y);
    } else {
        for (int i = 0; i < rows; i++) {
            add_rows(y, x + i, weight != NULL ? weight + i : NULL, n, 1, first && i == 0);
        }
    }
}

/* Sums the blocks of x, times the weights a [S,B] unless there are none. */
static INLINE void sum_blocks(const op_call *call, const op_view *a, const op_view *x) {
    const op_view *out = &call->out[0];
    int64_t batch = ebb__ir_rows(&out->type), n = ir_cols(&out->type), lo, hi;
    int64_t blocks = ebb__ir_rows(&x->type) / batch;
    cpu_batch_rows(call, batch, 1, &lo, &hi);
    for (int64_t j = 0; j < blocks; j += ROWS_TOGETHER) {
        int64_t end = j + ROWS_TOGETHER < blocks ? j + ROWS_TOGETHER : blocks;
        for (int64_t b = lo; b < hi; b++) {
            const float *rows[ROWS_TOGETHER];
            float weight[ROWS_TOGETHER];
            int count = 0;
            for (int64_t i = j; i < end; i++) {
                weight[count] = a != NULL ? *cpu_at(a, i, b) : 1.0f;
                rows[count] = cpu_at(x, i * batch + b, 0);
                count += weight[count] != 0.0f;
            }
            add_some(cpu_at(out, b, 0), rows, a != NULL ? weight : NULL, n, count, j == 0);
        }
    }
}

void CPU_FN(sum_each)(const op_call *call) {
    sum_blocks(call, NULL, &call->in[0]);
}

void CPU_FN(weighted_sum)(const op_call *call) {
    sum_blocks(call, &call->in[0], &call->in[1]);
}

/* ---- softmax over blocks: a vector of batch rows at a time ----------------------------------- */

/* Batch rows b .. b + m - 1. Block j is position S-1-j; positions from len on are not looked at. */
static INLINE void mask_softmax_rows(const op_call *call, int64_t b, int64_t m) {
    const op_view *s = &call->in[0], *out = &call->out[0];
    vi len = (vi)vu_load((const uint32_t *)call->in[1].data + b, m);
    int64_t blocks = ebb__ir_rows(&s->type);
    vf top = v_all(-__builtin_inff()), sum = v_all(0.0f), none = v_all(0.0f);
    for (int64_t j = 0; j < blocks; j++) {
        vi there = (vi){0} + (int32_t)(blocks - 1 - j) < len;
        top = v_select(there, v_larger(v_load(cpu_at(s, j, b), m), top), top);
    }
    for (int64_t j = 0; j < blocks; j++) {
        vi there = (vi){0} + (int32_t)(blocks - 1 - j) < len;
        vf e = v_select(there, v_exp(v_load(cpu_at(s, j, b), m) - top), none);
        sum += e;
        v_store(cpu_at(out, j, b), e, m);
    }
    vf factor = 1.0f / sum;
    for (int64_t j = 0; j < blocks; j++) {
        vi there = (vi){0} + (int32_t)(blocks - 1 - j) < len;
        float *y = cpu_at(out, j, b);
        v_store(y, v_select(there, v_load(y, m) * factor, none), m);
    }
}

void CPU_FN(mask_softmax)(const op_call *call) {
    int64_t lo, hi;
    cpu_batch_rows(call, ir_cols(&call->out[0].type), LANES, &lo, &hi);
#define MASK_SOFTMAX_STEP(j, m) mask_softmax_rows(call, lo + (j), m)
    EACH_VECTOR(hi - lo, MASK_SOFTMAX_STEP);
}

static INLINE void mask_softmax_grad_rows(const op_call *call, int64_t b, int64_t m) {
    const op_view *a = &call->in[0], *da = &call->in[1], *out = &call->out[0];
    int64_t blocks = ebb__ir_rows(&a->type);
    vf sum = v_all(0.0f), none = v_all(0.0f);
    for (int64_t j = 0; j < blocks; j++) {
        vf w = v_load(cpu_at(a, j, b), m), d = v_load(cpu_at(da, j, b), m);
        sum = v_select(w != none, v_fma(w, d, sum), sum);
    }
    for (int64_t j = 0; j < blocks; j++) {
        vf w = v_load(cpu_at(a, j, b), m), d = v_load(cpu_at(da, j, b), m);
        v_store(cpu_at(out, j, b), v_select(w != none, w * (d - sum), none), m);
    }
}

void CPU_FN(mask_softmax_grad)(const op_call *call) {
    int64_t lo, hi;
    cpu_batch_rows(call, ir_cols(&call->out[0].type), LANES, &lo, &hi);
#define MASK_SOFTMAX_GRAD_STEP(j, m) mask_softmax_grad_rows(call, lo + (j), m)
    EACH_VECTOR(hi - lo, MASK_SOFTMAX_GRAD_STEP);
}
