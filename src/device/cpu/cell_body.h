/* cell_body.h - LSTM and GRU cells, forward and backward, over the vectors of vec.h. The includer
 * defines CPU_FN(name). B rows, H units; gate q of unit j is column q*H + j.
 *
 * A step reads all its operands at j before it writes, so results may lie in the bytes of operands.
 * Formulas are those of the reference kernels, operation by operation. */
#include "device/cpu/cpu.h"
#include "device/cpu/span.h"
#include "device/cpu/vmath.h"

static INLINE vf one_minus(vf x) {
    return 1.0f - x;
}
static INLINE vf sigmoid_slope(vf y) {
    return y * one_minus(y);
}
static INLINE vf tanh_slope(vf y) {
    return v_fma(-y, y, v_all(1.0f));
}

/* Units of the rows of `state`, a [B,H] operand or result. */
static inline cpu_span units(const op_call *call, const op_view *state) {
    return cpu_span_start(call, ebb__ir_rows(&state->type), ir_cols(&state->type));
}

void CPU_FN(lstm_gates)(const op_call *call) {
    int64_t h = ir_cols(&call->in[1].type);
    cpu_span span = units(call, &call->in[1]);
    while (cpu_span_next(&span)) {
        const float *z = cpu_at(&call->in[0], span.row, span.col);
        const float *cp = cpu_at(&call->in[1], span.row, span.col);
        float *gates = cpu_at(&call->out[0], span.row, span.col);
        float *c = cpu_at(&call->out[1], span.row, span.col);
#define LSTM_GATES_STEP(j, m)                                                                      \
    do {                                                                                           \
        vf i = v_sigmoid(v_load(z + (j), m));                                                      \
        vf f = v_sigmoid(v_load(z + h + (j), m));                                                  \
        vf g = v_tanh(v_load(z + 2 * h + (j), m));                                                 \
        vf o = v_sigmoid(v_load(z + 3 * h + (j), m));                                              \
        vf next = v_fma(f, v_load(cp + (j), m), i * g);                                            \
        v_store(gates + (j), i, m);                                                                \
        v_store(gates + h + (j), f, m);                                                            \
        v_store(gates + 2 * h + (j), g, m);                                                        \
        v_store(gates + 3 * h + (j), o, m);                                                        \
        v_store(c + (j), next, m);                                                                 \
    } while (0)
        EACH_VECTOR(span.len, LSTM_GATES_STEP);
    }
}

void CPU_FN(lstm_state)(const op_call *call) {
    int64_t h = ir_cols(&call->in[1].type);
    cpu_span span = units(call, &call->in[1]);
    while (cpu_span_next(&span)) {
        const float *gates = cpu_at(&call->in[0], span.row, span.col);
        const float *cp = cpu_at(&call->in[1], span.row, span.col);
        float *c = cpu_at(&call->out[0], span.row, span.col);
#define LSTM_STATE_STEP(j, m)                                                                      \
    do {                                                                                           \
        vf i = v_load(gates + (j), m), f = v_load(gates + h + (j), m);                             \
        vf g = v_load(gates + 2 * h + (j), m);                                                     \
        v_store(c + (j), v_fma(f, v_load(cp + (j), m), i * g), m);                                 \
    } while (0)
        EACH_VECTOR(span.len, LSTM_STATE_STEP);
    }
}

void CPU_FN(lstm_gates_grad)(const op_call *call) {
    int64_t h = ir_cols(&call->in[0].type);
    cpu_span span = units(call, &call->in[0]);
    while (cpu_span_next(&span)) {
        const float *d_o = cpu_at(&call->in[0], span.row, span.col);
        const float *d_c = cpu_at(&call->in[1], span.row, span.col);
        const float *gates = cpu_at(&call->in[2], span.row, span.col);
        const float *cp = cpu_at(&call->in[3], span.row, span.col);
        float *dz = cpu_at(&call->out[0], span.row, span.col);
        float *dcp = cpu_at(&call->out[1], span.row, span.col);
#define LSTM_GATES_GRAD_STEP(j, m)                                                                 \
    do {                                                                                           \
        vf dout = v_load(d_o + (j), m), dc = v_load(d_c + (j), m);                                 \
        vf i = v_load(gates + (j), m), f = v_load(gates + h + (j), m);                             \
        vf g = v_load(gates + 2 * h + (j), m);                                                     \
        vf o = v_load(gates + 3 * h + (j), m);                                                     \
        vf previous = v_load(cp + (j), m);                                                         \
        v_store(dz + (j), (dc * g) * sigmoid_slope(i), m);                                         \
        v_store(dz + h + (j), (dc * previous) * sigmoid_slope(f), m);                              \
        v_store(dz + 2 * h + (j), (dc * i) * tanh_slope(g), m);                                    \
        v_store(dz + 3 * h + (j), dout * sigmoid_slope(o), m);                                     \
        v_store(dcp + (j), dc * f, m);                                                             \
    } while (0)
        EACH_VECTOR(span.len, LSTM_GATES_GRAD_STEP);
    }
}

void CPU_FN(lstm_out)(const op_call *call) {
    cpu_span span = units(call, &call->out[0]);
    while (cpu_span_next(&span)) {
        const float *o = cpu_at(&call->in[0], span.row, span.col);
        const float *c = cpu_at(&call->in[1], span.row, span.col);
        float *h = cpu_at(&call->out[0], span.row, span.col);
#define LSTM_OUT_STEP(j, m) v_store(h + (j), v_load(o + (j), m) * v_tanh(v_load(c + (j), m)), m)
        EACH_VECTOR(span.len, LSTM_OUT_STEP);
    }
}

void CPU_FN(lstm_out_grad)(const op_call *call) {
    bool adds = call->in[0].data != NULL;
    cpu_span span = units(call, &call->out[0]);
    while (cpu_span_next(&span)) {
        const float *d_c = adds ? cpu_at(&call->in[0], span.row, span.col) : NULL;
        const float *d_h = cpu_at(&call->in[1], span.row, span.col);
        const float *o = cpu_at(&call->in[2], span.row, span.col);
        const float *c = cpu_at(&call->in[3], span.row, span.col);
        float *d_o = cpu_at(&call->out[0], span.row, span.col);
        float *d_c_out = cpu_at(&call->out[1], span.row, span.col);
#define LSTM_OUT_GRAD_STEP(j, m)                                                                   \
    do {                                                                                           \
        vf dc = adds ? v_load(d_c + (j), m) : v_all(0.0f);                                         \
        vf dh = v_load(d_h + (j), m), gate = v_load(o + (j), m);                                   \
        vf t = v_tanh(v_load(c + (j), m));                                                         \
        v_store(d_o + (j), dh * t, m);                                                             \
        v_store(d_c_out + (j), v_fma(dh * gate, tanh_slope(t), dc), m);                            \
    } while (0)
        EACH_VECTOR(span.len, LSTM_OUT_GRAD_STEP);
    }
}

void CPU_FN(gru_cell)(const op_call *call) {
    int64_t h = ir_cols(&call->in[2].type);
    cpu_span span = units(call, &call->in[2]);
    while (cpu_span_next(&span)) {
        const float *gx = cpu_at(&call->in[0], span.row, span.col);
        const float *gh = cpu_at(&call->in[1], span.row, span.col);
        const float *hp = cpu_at(&call->in[2], span.row, span.col);
        float *out = cpu_at(&call->out[0], span.row, span.col);
        float *save = cpu_at(&call->out[1], span.row, span.col);
#define GRU_CELL_STEP(j, m)                                                                        \
    do {                                                                                           \
        vf r = v_sigmoid(v_load(gx + (j), m) + v_load(gh + (j), m));                               \
        vf z = v_sigmoid(v_load(gx + h + (j), m) + v_load(gh + h + (j), m));                       \
        vf ghn = v_load(gh + 2 * h + (j), m);                                                      \
        vf n = v_tanh(v_fma(r, ghn, v_load(gx + 2 * h + (j), m)));                                 \
        vf next = v_fma(z, v_load(hp + (j), m) - n, n);                                            \
        v_store(save + (j), r, m);                                                                 \
        v_store(save + h + (j), z, m);                                                             \
        v_store(save + 2 * h + (j), n, m);                                                         \
        v_store(save + 3 * h + (j), ghn, m);                                                       \
        v_store(out + (j), next, m);                                                               \
    } while (0)
        EACH_VECTOR(span.len, GRU_CELL_STEP);
    }
}

void CPU_FN(gru_cell_grad)(const op_call *call) {
    int64_t h = ir_cols(&call->in[0].type);
    cpu_span span = units(call, &call->in[0]);
    while (cpu_span_next(&span)) {
        const float *d_h = cpu_at(&call->in[0], span.row, span.col);
        const float *save = cpu_at(&call->in[1], span.row, span.col);
        const float *hp = cpu_at(&call->in[2], span.row, span.col);
        float *dgx = cpu_at(&call->out[0], span.row, span.col);
        float *dgh = cpu_at(&call->out[1], span.row, span.col);
        float *dhp = cpu_at(&call->out[2], span.row, span.col);
#define GRU_CELL_GRAD_STEP(j, m)                                                                   \
    do {                                                                                           \
        vf dh = v_load(d_h + (j), m), r = v_load(save + (j), m);                                   \
        vf z = v_load(save + h + (j), m), n = v_load(save + 2 * h + (j), m);                       \
        vf dn = (dh * one_minus(z)) * tanh_slope(n);                                               \
        vf dz = (dh * (v_load(hp + (j), m) - n)) * sigmoid_slope(z);                               \
        vf dr = (dn * v_load(save + 3 * h + (j), m)) * sigmoid_slope(r);                           \
        v_store(dgx + (j), dr, m);                                                                 \
        v_store(dgx + h + (j), dz, m);                                                             \
        v_store(dgx + 2 * h + (j), dn, m);                                                         \
        v_store(dgh + (j), dr, m);                                                                 \
        v_store(dgh + h + (j), dz, m);                                                             \
        v_store(dgh + 2 * h + (j), dn * r, m);                                                     \
        v_store(dhp + (j), dh * z, m);                                                             \
    } while (0)
        EACH_VECTOR(span.len, GRU_CELL_GRAD_STEP);
    }
}
