/* norm_body.h - layer norm over the vectors of vec.h. The includer defines CPU_FN(name).
 *
 * Sums along a row have the 16 lanes of vlanes.h. Members share rows, or batch rows where sums run
 * over blocks, never the terms of one sum. */
#include "device/cpu/blocks.h"
#include "device/cpu/cpu.h"
#include "device/cpu/span.h"
#include "device/cpu/vlanes.h"

/* Batch rows of a node that may have none: all rows are one block. */
static inline int64_t norm_batch(const op_call *call) {
    int64_t batch = call->attr->i[0];
    return batch > 0 ? batch : ebb__ir_rows(&call->in[0].type);
}

/* ---- row by row: it is fetched once, and stays in the first-level cache for all passes over it -
 */

static INLINE float row_mean(const float *x, int64_t n) {
    lanes sum = lanes_all(0.0f);
    int64_t j = 0;
    for (; j + LANES <= n; j += LANES) {
        for (int q = 0; q < LANE_VECTORS; q++) {
            sum.v[q] += v_load(x + j + q * VLEN, VLEN);
        }
    }
    LANES_REST(sum, n - j, lane + x[j + l]);
    return lanes_sum(sum) / (float)n;
}

static INLINE float row_variance(const float *x, int64_t n, float mean) {
    lanes sum = lanes_all(0.0f);
    int64_t j = 0;
    for (; j + LANES <= n; j += LANES) {
        for (int q = 0; q < LANE_VECTORS; q++) {
            vf far = v_load(x + j + q * VLEN, VLEN) - mean;
            sum.v[q] = v_fma(far, far, sum.v[q]);
        }
    }
    LANES_REST(sum, n - j, __builtin_fmaf(x[j + l] - mean, x[j + l] - mean, lane));
    return lanes_sum(sum) / (float)n;
}

static INLINE void norm_row(const op_call *call, int64_t r, int64_t n) {
    const float *x = cpu_at(&call->in[0], r, 0), *gain = call->in[1].data;
    const float *bias = call->in[2].data;
    float *y = cpu_at(&call->out[0], r, 0), *stat = cpu_at(&call->out[1], r, 0);
    float mean = row_mean(x, n);
    float scale = 1.0f / __builtin_sqrtf(row_variance(x, n, mean) + call->attr->f[0]);
#define NORM_STEP(j, m)                                                                            \
    do {                                                                                           \
        vf hat = (v_load(x + (j), m) - mean) * scale;                                              \
        v_store(y + (j), v_fma(hat, v_load(gain + (j), m), v_load(bias + (j), m)), m);             \
    } while (0)
    EACH_VECTOR(n, NORM_STEP);
    stat[0] = mean;
    stat[1] = scale;
}

/* A kernel that does `row` for every row of its share. */
#define NORM_ROWS(name, row)                                                                       \
    void CPU_FN(name)(const op_call *call) {                                                       \
        const op_view *x = &call->in[0];                                                           \
        cpu_blocks it = cpu_blocks_start(call, ebb__ir_rows(&x->type), norm_batch(call));          \
        while (cpu_blocks_next(&it)) {                                                             \
            for (int64_t b = it.lo; b < it.hi; b++) {                                              \
                row(call, it.block *it.batch + b, ir_cols(&x->type));                              \
            }                                                                                      \
        }                                                                                          \
    }
NORM_ROWS(layer_norm, norm_row)

/* Means of d = dy * gain and of d times the normalised x. */
static INLINE void grad_means(const float *dy, const float *x, const float *gain, int64_t n,
                              float mean, float scale, vf *mean_d, vf *mean_hat) {
    lanes plain = lanes_all(0.0f), hats = lanes_all(0.0f);
    int64_t j = 0;
    for (; j + LANES <= n; j += LANES) {
        for (int q = 0; q < LANE_VECTORS; q++) {
            int64_t at = j + q * VLEN;
            vf d = v_load(dy + at, VLEN) * v_load(gain + at, VLEN);
            vf hat = (v_load(x + at, VLEN) - mean) * scale;
            plain.v[q] += d;
            hats.v[q] = v_fma(d, hat, hats.v[q]);
        }
    }
    LANES_REST(plain, n - j, lane + dy[j + l] * gain[j + l]);
    LANES_REST(hats, n - j,
               __builtin_fmaf(dy[j + l] * gain[j + l], (x[j + l] - mean) * scale, lane));
    *mean_d = v_all(lanes_sum(plain) / (float)n);
    *mean_hat = v_all(lanes_sum(hats) / (float)n);
}

static INLINE void norm_grad_row(const op_call *call, int64_t r, int64_t n) {
    const float *dy = cpu_at(&call->in[0], r, 0), *x = cpu_at(&call->in[1], r, 0);
    const float *gain = call->in[2].data, *stat = cpu_at(&call->in[3], r, 0);
    float *dx = cpu_at(&call->out[0], r, 0), mean = stat[0], scale = stat[1];
    vf mean_d, mean_hat;
    grad_means(dy, x, gain, n, mean, scale, &mean_d, &mean_hat);
#define NORM_GRAD_STEP(j, m)                                                                       \
    do {                                                                                           \
        vf d = v_load(dy + (j), m) * v_load(gain + (j), m);                                        \
        vf hat = (v_load(x + (j), m) - mean) * scale;                                              \
        v_store(dx + (j), scale * v_fma(-hat, mean_hat, d - mean_d), m);                           \
    } while (0)
    EACH_VECTOR(n, NORM_GRAD_STEP);
}

NORM_ROWS(layer_norm_grad, norm_grad_row)

/* ---- sums over blocks ------------------------------------------------------------------------ */

/* y += dy times the normalised x, for `rows` rows (constant) that lie `apart` rows apart; first: y
 * starts at 0. */
static INLINE void add_gains(float *y, const op_call *call, int64_t r, int64_t apart, int64_t n,
                             int rows, bool first) {
    const op_view *dy = &call->in[0], *x = &call->in[1], *stat = &call->in[2];
#define ADD_GAINS_STEP(j, m)                                                                       \
    do {                                                                                           \
        vf total = first ? v_all(0.0f) : v_load(y + (j), m);                                       \
        for (int i = 0; i < rows; i++) {                                                           \
            const float *s = cpu_at(stat, r + i * apart, 0);                                       \
            vf hat = (v_load(cpu_at(x, r + i * apart, (j)), m) - s[0]) * s[1];                     \
            total = v_fma(v_load(cpu_at(dy, r + i * apart, (j)), m), hat, total);                  \
        }                                                                                          \
        v_store(y + (j), total, m);                                                                \
    } while (0)
    EACH_VECTOR(n, ADD_GAINS_STEP);
}

void CPU_FN(layer_norm_gain)(const op_call *call) {
    enum { TOGETHER = 2 };
    const op_view *dy = &call->in[0];
    int64_t rows = ebb__ir_rows(&dy->type), n = ir_cols(&dy->type), batch = norm_batch(call), lo,
            hi;
    cpu_batch_rows(call, batch, 1, &lo, &hi);
    for (int64_t r = 0; r < rows; r += TOGETHER * batch) {
        bool full = rows - r >= TOGETHER * batch;
        for (int64_t b = lo; b < hi; b++) {
            float *y = cpu_at(&call->out[0], b, 0);
            if (full && r > 0) {
                add_gains(y, call, r + b, batch, n, TOGETHER, false);
            } else if (full) {
                add_gains(y, call, r + b, batch, n, TOGETHER, true);
            } else {
                add_gains(y, call, r + b, batch, n, 1, r == 0);
            }
        }
    }
}
