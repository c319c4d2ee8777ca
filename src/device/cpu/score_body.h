/* score_body.h - the scores of attention and their gradient over the vectors of vec.h, each in one
 * pass over the stacks [S*B,H]. The includer defines CPU_FN(name).
 *
 * The scores go row by row as memory lies. The gradient takes the rows of a batch row in several
 * blocks together, so that its sums [B,H], which stay in the cache, are passed over less often;
 * every element is still one chain, blocks ascending. Members share rows or batch rows, never the
 * terms of one sum. */
#include "device/cpu/blocks.h"
#include "device/cpu/cpu.h"
#include "device/cpu/span.h"
#include "device/cpu/vlanes.h"
#include "device/cpu/vmath.h"

/* How many rows of the gradient go together; how many floats ahead stacks are asked for: a tanh is
 * too long for the machine to look that far by itself. */
enum { SCORE_ROWS = 2, SCORE_AHEAD = 512 };

/* v . tanh(x + q) */
static INLINE float score_row(const float *x, const float *q, const float *v, int64_t n) {
    lanes sum = lanes_all(0.0f);
    int64_t j = 0;
    for (; j + LANES <= n; j += LANES) {
        __builtin_prefetch(x + j + SCORE_AHEAD);
        for (int w = 0; w < LANE_VECTORS; w++) {
            int64_t at = j + w * VLEN;
            vf a = v_tanh(v_load(x + at, VLEN) + v_load(q + at, VLEN));
            sum.v[w] = v_fma(a, v_load(v + at, VLEN), sum.v[w]);
        }
    }
    if (j < n) {
        float a[LANES];
        for (int64_t k = 0; j + k < n; k += VLEN) {
            int64_t m = n - j - k < VLEN ? n - j - k : VLEN;
            v_store(a + k, v_tanh(v_load(x + j + k, m) + v_load(q + j + k, m)), VLEN);
        }
        const float *by = v + j;
        LANES_REST(sum, n - j, __builtin_fmaf(a[l], by[l], lane));
    }
    return lanes_sum(sum);
}

void CPU_FN(score_tanh)(const op_call *call) {
    const op_view *x = &call->in[0], *q = &call->in[1], *out = &call->out[0];
    const float *v = call->in[2].data;
    int64_t n = ir_cols(&x->type);
    cpu_blocks it = cpu_blocks_start(call, ebb__ir_rows(&x->type), ebb__ir_rows(&q->type));
    while (cpu_blocks_next(&it)) {
        for (int64_t b = it.lo; b < it.hi; b++) {
            *cpu_at(out, it.block, b) =
                score_row(cpu_at(x, it.block * it.batch + b, 0), cpu_at(q, b, 0), v, n);
        }
    }
}

/* The rows of one batch row in some blocks, and what they share. */
typedef struct score_rows {
    const float *x[SCORE_ROWS], *c[SCORE_ROWS];
    float *dx[SCORE_ROWS]; /* may be c */
    float weight[SCORE_ROWS];
    const float *q, *v;
    float *dq, *dv;
} score_rows;

/* Adds to the sums what rows from .. to - 1 give (constants, as with_c); first: they start at 0. */
static INLINE void score_grad_rows(const score_rows *s, int64_t n, int from, int to, bool with_c,
                                   bool first) {
#define SCORE_GRAD_STEP(j, m)                                                                      \
    do {                                                                                           \
        vf q = v_load(s->q + (j), m), v = v_load(s->v + (j), m);                                   \
        vf sum = first ? v_all(0.0f) : v_load(s->dq + (j), m);                                     \
        vf weighted = first ? v_all(0.0f) : v_load(s->dv + (j), m);                                \
        for (int i = from; i < to; i++) {                                                          \
            __builtin_prefetch(s->x[i] + (j) + SCORE_AHEAD);                                       \
            __builtin_prefetch(s->dx[i] + (j) + SCORE_AHEAD, 1);                                   \
            vf w = v_all(s->weight[i]), a = v_tanh(v_load(s->x[i] + (j), m) + q);                  \
            vf g = (w * v) * v_fma(-a, a, v_all(1.0f));                                            \
            v_store(s->dx[i] + (j), with_c ? v_load(s->c[i] + (j), m) + g : g, m);                 \
            sum += g;                                                                              \
            weighted = v_select(w != 0.0f, v_fma(w, a, weighted), weighted);                       \
        }                                                                                          \
        v_store(s->dq + (j), sum, m);                                                              \
        v_store(s->dv + (j), weighted, m);                                                         \
    } while (0)
    EACH_VECTOR(n, SCORE_GRAD_STEP);
}

/* The same for any number of rows up to SCORE_ROWS. */
static INLINE void score_grad_some(const score_rows *s, int64_t n, int rows, bool with_c,
                                   bool first) {
    if (rows == SCORE_ROWS && !first) {
        score_grad_rows(s, n, 0, SCORE_ROWS, with_c, false);
        return;
    }
    for (int i = 0; i < rows; i++) {
        if (first && i == 0) {
            score_grad_rows(s, n, 0, 1, with_c, true);
        } else {
            score_grad_rows(s, n, i, i + 1, with_c, false);
        }
    }
}

static INLINE void score_grad(const op_call *call, bool with_c) {
    const op_view *c = &call->in[0], *ds = &call->in[1], *x = &call->in[2], *q = &call->in[3];
    int64_t batch = ebb__ir_rows(&q->type), n = ir_cols(&q->type), lo, hi;
    int64_t blocks = ebb__ir_rows(&ds->type);
    cpu_batch_rows(call, batch, 1, &lo, &hi);
    for (int64_t j = 0; j < blocks; j += SCORE_ROWS) {
        int rows = (int)(j + SCORE_ROWS < blocks ? SCORE_ROWS : blocks - j);
        for (int64_t b = lo; b < hi; b++) {
            score_rows s = {.q = cpu_at(q, b, 0),
                            .v = call->in[4].data,
                            .dq = cpu_at(&call->out[1], b, 0),
                            .dv = cpu_at(&call->out[2], b, 0)};
            for (int i = 0; i < rows; i++) {
                int64_t r = (j + i) * batch + b;
                s.x[i] = cpu_at(x, r, 0);
                s.c[i] = with_c ? cpu_at(c, r, 0) : NULL;
                s.dx[i] = cpu_at(&call->out[0], r, 0);
                s.weight[i] = *cpu_at(ds, j + i, b);
            }
            score_grad_some(&s, n, rows, with_c, j == 0);
        }
    }
}

void CPU_FN(score_tanh_grad)(const op_call *call) {
    if (call->in[0].data != NULL) {
        score_grad(call, true);
    } else {
        score_grad(call, false);
    }
}

void CPU_FN(score_slope)(const op_call *call) {
    const op_view *ds = &call->in[0], *a = &call->in[2], *out = &call->out[0];
    const float *v = call->in[1].data;
    int64_t n = ir_cols(&a->type);
    cpu_blocks it = cpu_blocks_start(call, ebb__ir_rows(&a->type), ir_cols(&ds->type));
    while (cpu_blocks_next(&it)) {
        for (int64_t b = it.lo; b < it.hi; b++) {
            const float *from = cpu_at(a, it.block * it.batch + b, 0);
            float *to = cpu_at(out, it.block * it.batch + b, 0);
            vf w = v_all(*cpu_at(ds, it.block, b));
#define SCORE_SLOPE_STEP(j, m)                                                                     \
    do {                                                                                           \
        vf y = v_load(from + (j), m);                                                              \
        v_store(to + (j), (w * v_load(v + (j), m)) * v_fma(-y, y, v_all(1.0f)), m);                \
    } while (0)
            EACH_VECTOR(n, SCORE_SLOPE_STEP);
        }
    }
}
