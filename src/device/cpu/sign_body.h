/* sign_body.h - signs in bits and what reads them, over the vectors of vec.h. The includer defines
 * CPU_FN(name). One pass over the elements; a word of bits is written, or read, at once. */
#include "device/cpu/cpu.h"
#include "device/cpu/steps.h"
#include "device/cpu/vec.h"

#include <endian.h>

enum { SIGN_WORD = 32, SIGN_BYTES = STEPS_BLOCK / 8 }; /* elements; of a block */

/* The bits of m elements, up to SIGN_WORD. */
static INLINE uint32_t sign_word(const float *x, int64_t m) {
    uint32_t word = 0;
    for (int64_t j = 0; j < m; j += VLEN) {
        vf v = v_load(x + j, m - j < VLEN ? m - j : VLEN);
        word |= (uint32_t)v_bits(v > 0.0f) << j;
    }
    return word;
}

static void sign_run(const float *x, uint8_t *bits, int64_t len) {
    int64_t j = 0;
    for (; j + SIGN_WORD <= len; j += SIGN_WORD) {
        uint32_t word = htole32(sign_word(x + j, SIGN_WORD));
        __builtin_memcpy(bits + j / 8, &word, sizeof word);
    }
    uint32_t word = sign_word(x + j, len - j);
    for (; j < len; j += 8, word >>= 8) {
        bits[j / 8] = (uint8_t)word;
    }
}

void CPU_FN(sign_bits)(const op_call *call) {
    cpu_steps it = cpu_steps_start(call, &call->in[0].type);
    while (cpu_steps_next(&it)) {
        sign_run(cpu_step(&it, &call->in[0]), cpu_step_code(&it, &call->out[0], SIGN_BYTES),
                 it.len);
    }
}

/* m elements, up to SIGN_WORD, by their bits: as they are, or times the slope. */
static INLINE void keep_word(const float *dy, uint32_t word, float slope, bool leaky, float *dx,
                             int64_t m) {
    vi lane = {0};
    for (int l = 0; l < VLEN; l++) {
        lane[l] = 1 << l;
    }
    for (int64_t j = 0; j < m; j += VLEN) {
        int64_t n = m - j < VLEN ? m - j : VLEN;
        vi here = (((vi){0} + (int32_t)(word >> j)) & lane) == lane;
        vf d = v_load(dy + j, n);
        v_store(dx + j, leaky ? v_select(here, d, d * slope) : (vf)(here & (vi)d), n);
    }
}

static INLINE void keep_run(const float *dy, const uint8_t *bits, float slope, bool leaky,
                            float *dx, int64_t len) {
    int64_t j = 0;
    for (; j + SIGN_WORD <= len; j += SIGN_WORD) {
        const uint8_t *b = bits + j / 8;
        keep_word(dy + j,
                  (uint32_t)b[0] | (uint32_t)b[1] << 8 | (uint32_t)b[2] << 16 |
                      (uint32_t)b[3] << 24,
                  slope, leaky, dx + j, SIGN_WORD);
    }
    uint32_t word = 0;
    for (int64_t k = j; k < len; k += 8) {
        word |= (uint32_t)bits[k / 8] << (k - j);
    }
    keep_word(dy + j, word, slope, leaky, dx + j, len - j);
}

/* dy, bits. */
static INLINE void keep_by_bits(const op_call *call, bool leaky) {
    cpu_steps it = cpu_steps_start(call, &call->out[0].type);
    while (cpu_steps_next(&it)) {
        keep_run(cpu_step(&it, &call->in[0]), cpu_step_code(&it, &call->in[1], SIGN_BYTES),
                 leaky ? call->attr->f[0] : 0.0f, leaky, cpu_step(&it, &call->out[0]), it.len);
    }
}

void CPU_FN(relu_grad_bits)(const op_call *call) {
    keep_by_bits(call, false);
}

void CPU_FN(leaky_relu_grad_bits)(const op_call *call) {
    keep_by_bits(call, true);
}
