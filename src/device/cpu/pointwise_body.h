/* pointwise_body.h - elementwise kernels, dropout and the optimisers, over the vectors of vec.h.
 * The includer defines CPU_FN(name), the name of a kernel for its instruction set.
 *
 * A step reads all its operands at j before it writes, so results may lie in the bytes of operands.
 * Formulas are those of the reference kernels, operation by operation. */
#include "device/cpu/cpu.h"
#include "device/cpu/span.h"
#include "device/cpu/vmath.h"

/* A kernel of one operand x, of two operands a and b. */
#define MAP1(name, value)                                                                          \
    void CPU_FN(name)(const op_call *call) {                                                       \
        cpu_span span = cpu_span_same(call, 1);                                                    \
        while (cpu_span_next(&span)) {                                                             \
            const float *in = cpu_at(&call->in[0], span.row, span.col);                            \
            float *out = cpu_at(&call->out[0], span.row, span.col);                                \
            EACH_VECTOR(span.len, value);                                                          \
        }                                                                                          \
    }
#define MAP2(name, value)                                                                          \
    void CPU_FN(name)(const op_call *call) {                                                       \
        cpu_span span = cpu_span_same(call, 2);                                                    \
        while (cpu_span_next(&span)) {                                                             \
            const float *in0 = cpu_at(&call->in[0], span.row, span.col);                           \
            const float *in1 = cpu_at(&call->in[1], span.row, span.col);                           \
            float *out = cpu_at(&call->out[0], span.row, span.col);                                \
            EACH_VECTOR(span.len, value);                                                          \
        }                                                                                          \
    }
#define STEP1(j, m, fn) v_store(out + (j), fn(v_load(in + (j), m)), m)
#define STEP2(j, m, fn) v_store(out + (j), fn(v_load(in0 + (j), m), v_load(in1 + (j), m)), m)

static INLINE vf add2(vf a, vf b) {
    return a + b;
}
static INLINE vf sub2(vf a, vf b) {
    return a - b;
}
static INLINE vf mul2(vf a, vf b) {
    return a * b;
}
static INLINE vf tanh_grad2(vf dy, vf y) {
    return dy * v_fma(-y, y, v_all(1.0f));
}
static INLINE vf sigmoid_grad2(vf dy, vf y) {
    return dy * (y * (1.0f - y));
}
static INLINE vf relu_grad2(vf dy, vf y) {
    return v_select(y > 0.0f, dy, v_all(0.0f));
}
/* NaN stays NaN. */
static INLINE vf relu1(vf x) {
    return v_select(x <= 0.0f, v_all(0.0f), x);
}

#define ADD_STEP(j, m) STEP2(j, m, add2)
#define SUB_STEP(j, m) STEP2(j, m, sub2)
#define MUL_STEP(j, m) STEP2(j, m, mul2)
#define LOG_STEP(j, m) STEP1(j, m, v_log)
#define TANH_STEP(j, m) STEP1(j, m, v_tanh)
#define TANH_GRAD_STEP(j, m) STEP2(j, m, tanh_grad2)
#define SIGMOID_STEP(j, m) STEP1(j, m, v_sigmoid)
#define SIGMOID_GRAD_STEP(j, m) STEP2(j, m, sigmoid_grad2)
#define RELU_STEP(j, m) STEP1(j, m, relu1)
#define RELU_GRAD_STEP(j, m) STEP2(j, m, relu_grad2)
MAP2(add, ADD_STEP)
MAP2(sub, SUB_STEP)
MAP2(mul, MUL_STEP)
MAP1(log, LOG_STEP)
MAP1(tanh, TANH_STEP)
MAP2(tanh_grad, TANH_GRAD_STEP)
MAP1(sigmoid, SIGMOID_STEP)
MAP2(sigmoid_grad, SIGMOID_GRAD_STEP)
MAP1(relu, RELU_STEP)
MAP2(relu_grad, RELU_GRAD_STEP)

void CPU_FN(scale)(const op_call *call) {
    vf factor = v_all(call->attr->f[0]);
    cpu_span span = cpu_span_same(call, 1);
    while (cpu_span_next(&span)) {
        const float *in = cpu_at(&call->in[0], span.row, span.col);
        float *out = cpu_at(&call->out[0], span.row, span.col);
#define SCALE_STEP(j, m) v_store(out + (j), v_load(in + (j), m) * factor, m)
        EACH_VECTOR(span.len, SCALE_STEP);
    }
}

/* NaN stays NaN. */
void CPU_FN(leaky_relu)(const op_call *call) {
    vf slope = v_all(call->attr->f[0]);
    cpu_span span = cpu_span_same(call, 1);
    while (cpu_span_next(&span)) {
        const float *in = cpu_at(&call->in[0], span.row, span.col);
        float *out = cpu_at(&call->out[0], span.row, span.col);
#define LEAKY_STEP(j, m)                                                                           \
    do {                                                                                           \
        vf x = v_load(in + (j), m);                                                                \
        v_store(out + (j), v_select(x > 0.0f, x, x * slope), m);                                   \
    } while (0)
        EACH_VECTOR(span.len, LEAKY_STEP);
    }
}

void CPU_FN(leaky_relu_grad)(const op_call *call) {
    vf slope = v_all(call->attr->f[0]);
    cpu_span span = cpu_span_same(call, 2);
    while (cpu_span_next(&span)) {
        const float *in0 = cpu_at(&call->in[0], span.row, span.col);
        const float *in1 = cpu_at(&call->in[1], span.row, span.col);
        float *out = cpu_at(&call->out[0], span.row, span.col);
#define LEAKY_GRAD_STEP(j, m)                                                                      \
    do {                                                                                           \
        vf dy = v_load(in0 + (j), m);                                                              \
        v_store(out + (j), v_select(v_load(in1 + (j), m) > 0.0f, dy, dy * slope), m);              \
    } while (0)
        EACH_VECTOR(span.len, LEAKY_GRAD_STEP);
    }
}

void CPU_FN(add_row)(const op_call *call) {
    const op_view *out_view = &call->out[0];
    cpu_span span = cpu_span_start(call, ebb__ir_rows(&out_view->type), ir_cols(&out_view->type));
    while (cpu_span_next(&span)) {
        const float *in0 = cpu_at(&call->in[0], span.row, span.col);
        const float *in1 = cpu_at(&call->in[1], 0, span.col);
        float *out = cpu_at(out_view, span.row, span.col);
        EACH_VECTOR(span.len, ADD_STEP);
    }
}

/* ---- dropout -------------------------------------------------------------------------------- */

enum { PHILOX_ROUNDS = 10, PHILOX_BLOCKS = VLEN / 2, PHILOX_WORDS = 4 * PHILOX_BLOCKS };

/* Keys of the rounds, in every lane. */
typedef struct philox_keys {
    vu64 k0[PHILOX_ROUNDS], k1[PHILOX_ROUNDS];
} philox_keys;

static INLINE void philox_schedule(philox_keys *keys, uint32_t k0, uint32_t k1) {
    for (int round = 0; round < PHILOX_ROUNDS; round++) {
        keys->k0[round] = vu64_all(k0);
        keys->k1[round] = vu64_all(k1);
        k0 += 0x9E3779B9u;
        k1 += 0xBB67AE85u;
    }
}

/* PHILOX_BLOCKS consecutive blocks of Philox4x32-10, the first with counter c0, words in the order
 * units take them. A block is one 64-bit lane of x0..x3, of which only the low half means anything:
 * products fill the upper ones with what nobody reads, so that no round has to put words together.
 */
static INLINE void philox_words(const philox_keys *keys, uint32_t c0, vu64 x1, vu64 x2, vu64 x3,
                                uint32_t *words) {
    const vu64 m0 = vu64_all(0xD2511F53u), m1 = vu64_all(0xCD9E8D57u);
    vu64 x0 = vu64_all(c0) + v_pair_order();
    for (int round = 0; round < PHILOX_ROUNDS; round++) {
        vu64 p0 = v_mul_even((vu)x0, (vu)m0), p1 = v_mul_even((vu)x2, (vu)m1);
        x0 = (p1 >> 32) ^ x1 ^ keys->k0[round];
        x1 = p1;
        x2 = (p0 >> 32) ^ x3 ^ keys->k1[round];
        x3 = p0;
    }
    vu64 low = vu64_all(0xffffffffu);
    v_store_pairs(words, (x0 & low) | (x1 << 32), (x2 & low) | (x3 << 32));
}

/* What is the same for all rows of a call. */
typedef struct dropout_terms {
    philox_keys keys;
    vf factor;
    vi last_dropped; /* a number in [0, 2^24) up to this one drops its unit */
    uint32_t step;
} dropout_terms;

/* One run of a row, from column col: units draw from blocks of four, wherever the run begins. */
static INLINE void dropout_run(const dropout_terms *terms, uint32_t lane, uint32_t time,
                               int64_t col, int64_t len, const float *in, float *out) {
    const vu64 x1 = vu64_all(lane), x2 = vu64_all(time), x3 = vu64_all(terms->step);
    uint32_t words[2 * PHILOX_WORDS];
    int64_t skip = col % 4, limit;
    for (int64_t first = -skip; first < len; first += limit) {
        uint32_t block = (uint32_t)((col + first) / 4);
        limit = PHILOX_WORDS;
        philox_words(&terms->keys, block, x1, x2, x3, words);
        if (len - first > PHILOX_WORDS) { /* two chains of rounds, side by side */
            limit = 2 * PHILOX_WORDS;
            philox_words(&terms->keys, block + PHILOX_BLOCKS, x1, x2, x3, words + PHILOX_WORDS);
        }
        int64_t begin = first < 0 ? 0 : first, end = len < first + limit ? len : first + limit;
        const uint32_t *from = words + (begin - first);
        const float *x = in + begin;
        float *y = out + begin;
#define DROPOUT_STEP(j, m)                                                                         \
    do {                                                                                           \
        vi number = (vi)(vu_load(from + (j), m) >> 8);                                             \
        vi kept = number > terms->last_dropped;                                                    \
        v_store(y + (j), (vf)((vi)(v_load(x + (j), m) * terms->factor) & kept), m);                \
    } while (0)
        EACH_VECTOR(end - begin, DROPOUT_STEP);
    }
}

void CPU_FN(dropout)(const op_call *call) {
    const int32_t *attr = call->attr->i; /* key0 key1 time0 dtime lanes row0 */
    float p = call->attr->f[0];
    dropout_terms terms = {.factor = v_all(1.0f / (1.0f - p)),
                           .step = (uint32_t) * (const int32_t *)call->in[1].data};
    /* number * 2^-24 >= p, without rounding: both sides times 2^24. */
    int32_t least = (int32_t)(p * 0x1p24f);
    least += (float)least < p * 0x1p24f ? 1 : 0;
    terms.last_dropped = (vi){0} + (least - 1);
    philox_schedule(&terms.keys, (uint32_t)attr[0], (uint32_t)attr[1]);
    const op_view *view = &call->out[0];
    cpu_span span = cpu_span_start(call, ebb__ir_rows(&view->type), ir_cols(&view->type));
    int64_t done = span.row, lane = (attr[5] + done) % attr[4], time = (attr[5] + done) / attr[4];
    while (cpu_span_next(&span)) {
        for (; done < span.row; done++) {
            bool wraps = ++lane == attr[4];
            lane = wraps ? 0 : lane;
            time += wraps ? 1 : 0;
        }
        dropout_run(&terms, (uint32_t)lane, (uint32_t)(attr[2] + attr[3] * time), span.col,
                    span.len, cpu_at(&call->in[0], span.row, span.col),
                    cpu_at(view, span.row, span.col));
    }
}

/* ---- optimisers: w g [m [v]] scale? hyper -> w' [m' [v']] ------------------------------------ */

/* The gradient as the update sees it: clipped, with weight decay. */
static INLINE vf update_gradient(vf g, vf w, vf scale, bool scaled, vf decay, bool decays) {
    vf value = scaled ? g * scale : g;
    return decays ? v_fma(decay, w, value) : value;
}

void CPU_FN(sgd)(const op_call *call) {
    bool scaled = call->in[2].data != NULL, decays = call->attr->f[0] != 0.0f;
    vf scale = v_all(scaled ? *(const float *)call->in[2].data : 1.0f);
    vf decay = v_all(call->attr->f[0]), lr = v_all(*(const float *)call->in[3].data);
    cpu_span span = cpu_span_same(call, 2);
    while (cpu_span_next(&span)) {
        const float *w = cpu_at(&call->in[0], span.row, span.col);
        const float *g = cpu_at(&call->in[1], span.row, span.col);
        float *out = cpu_at(&call->out[0], span.row, span.col);
#define SGD_STEP(j, m)                                                                             \
    do {                                                                                           \
        vf x = v_load(w + (j), m);                                                                 \
        vf gg = update_gradient(v_load(g + (j), m), x, scale, scaled, decay, decays);              \
        v_store(out + (j), v_fma(-lr, gg, x), m);                                                  \
    } while (0)
        EACH_VECTOR(span.len, SGD_STEP);
    }
}

void CPU_FN(sgd_momentum)(const op_call *call) {
    bool scaled = call->in[3].data != NULL, decays = call->attr->f[1] != 0.0f;
    vf scale = v_all(scaled ? *(const float *)call->in[3].data : 1.0f);
    vf mu = v_all(call->attr->f[0]), decay = v_all(call->attr->f[1]);
    vf lr = v_all(*(const float *)call->in[4].data);
    cpu_span span = cpu_span_same(call, 3);
    while (cpu_span_next(&span)) {
        const float *w = cpu_at(&call->in[0], span.row, span.col);
        const float *g = cpu_at(&call->in[1], span.row, span.col);
        const float *mean = cpu_at(&call->in[2], span.row, span.col);
        float *out = cpu_at(&call->out[0], span.row, span.col);
        float *out_mean = cpu_at(&call->out[1], span.row, span.col);
#define MOMENTUM_STEP(j, m)                                                                        \
    do {                                                                                           \
        vf x = v_load(w + (j), m);                                                                 \
        vf gg = update_gradient(v_load(g + (j), m), x, scale, scaled, decay, decays);              \
        vf moved = v_fma(mu, v_load(mean + (j), m), gg);                                           \
        v_store(out_mean + (j), moved, m);                                                         \
        v_store(out + (j), v_fma(-lr, moved, x), m);                                               \
    } while (0)
        EACH_VECTOR(span.len, MOMENTUM_STEP);
    }
}

/* What one Adam update reads besides the tensors. */
typedef struct adam_terms {
    vf scale, decay, shrink, rate, root, beta2, toward1, toward2, eps;
    bool scaled, decays, decoupled;
} adam_terms;

static INLINE void adam_step(const adam_terms *t, vf *w, vf g, vf *mean, vf *square) {
    vf x = t->decoupled ? v_fma(-t->shrink, *w, *w) : *w;
    vf gg = update_gradient(g, x, t->scale, t->scaled, t->decay, t->decays && !t->decoupled);
    *mean = v_fma(t->toward1, gg - *mean, *mean);
    *square = v_fma(t->toward2 * gg, gg, t->beta2 * *square);
    *w = v_fma(-t->rate, *mean / (v_sqrt(*square) / t->root + t->eps), x);
}

void CPU_FN(adam)(const op_call *call) {
    const float *f = call->attr->f; /* beta1 beta2 eps weight_decay */
    const float *hyper = call->in[5].data, *clip = call->in[4].data;
    const adam_terms terms = {.scale = v_all(clip != NULL ? *clip : 1.0f),
                              .decay = v_all(f[3]),
                              .shrink = v_all(hyper[0] * f[3]),
                              .rate = v_all(hyper[1]),
                              .root = v_all(hyper[2]),
                              .beta2 = v_all(f[1]),
                              .toward1 = v_all(1.0f - f[0]),
                              .toward2 = v_all(1.0f - f[1]),
                              .eps = v_all(f[2]),
                              .scaled = clip != NULL,
                              .decays = f[3] != 0.0f,
                              .decoupled = call->attr->i[0] != 0};
    cpu_span span = cpu_span_same(call, 4);
    while (cpu_span_next(&span)) {
        const float *in[4];
        float *out[3];
        for (int i = 0; i < 4; i++) {
            in[i] = cpu_at(&call->in[i], span.row, span.col);
        }
        for (int i = 0; i < 3; i++) {
            out[i] = cpu_at(&call->out[i], span.row, span.col);
        }
#define ADAM_STEP(j, m)                                                                            \
    do {                                                                                           \
        vf w = v_load(in[0] + (j), m), mean = v_load(in[2] + (j), m);                              \
        vf square = v_load(in[3] + (j), m);                                                        \
        adam_step(&terms, &w, v_load(in[1] + (j), m), &mean, &square);                             \
        v_store(out[0] + (j), w, m);                                                               \
        v_store(out[1] + (j), mean, m);                                                            \
        v_store(out[2] + (j), square, m);                                                          \
    } while (0)
        EACH_VECTOR(span.len, ADAM_STEP);
    }
}
