/* narrow_body.h - rounding to formats of few bits, and their codes, over the vectors of vec.h. The
 * includer defines CPU_FN(name).. Formats are
 * known when this is compiled. */
#include "device/cpu/conv.h"
#include "device/cpu/span.h"
#include "device/cpu/steps.h"
#include "device/cpu/vnarrow.h"

_Static_assert((int)STEPS_BLOCK == (int)NARROW_BLOCK, "shares are whole blocks");
static INLINE vf round1(vf x, op_format f) {
    vu bits = (vu)x, a = bits & 0x7fffffffu, magic = vu_all(magic_bits(f));
    vf small = ((vf)a + (vf)magic) - (vf)magic;
    vu r = vu_select(vu_below(a, least_bits(f)), (vu)small, round_normal(a, f));
    r = vu_select((vi)is_nan_mask(a), a, r);
    return (vf)(r | (bits & 0x80000000u));
}

/* The code of -0 for what is above 0 and has that of 0. */
static INLINE vu mark1(vu code, vf x, op_format f) {
    vi lost = (vi)(x > 0.0f) & (vi)(code == 0);
    return vu_select(lost, vu_all(op_format_sign(&f)), code);
}

static INLINE vu code1(vf x, bool mark, op_format f) {
    vu code = narrow1(x, f);
    return mark ? mark1(code, x, f) : code;
}

/* dy where the code is of a number above 0. */
static INLINE vf keep1(vf dy, vu code, op_format f) {
    vi above = (vi)(code != 0) & vu_below(code & (op_format_sign(&f) - 1), f.largest + 1);
    return v_select(above, dy, v_all(0.0f));
}

/* fn(..., format) with the format known when it is compiled. */
#define WITH_FORMAT(bits, fn, ...)                                                                 \
    do {                                                                                           \
        if ((bits) == 16) {                                                                        \
            fn(__VA_ARGS__, op_format_of(16));                                                     \
        } else if ((bits) == 10) {                                                                 \
            fn(__VA_ARGS__, op_format_of(10));                                                     \
        } else {                                                                                   \
            fn(__VA_ARGS__, op_format_of(8));                                                      \
        }                                                                                          \
    } while (0)

/* ---- rounding -------------------------------------------------------------------------------- */

static INLINE void round_run(const float *in, float *out, int64_t len, op_format f) {
#define ROUND_STEP(j, m) v_store(out + (j), round1(v_load(in + (j), m), f), m)
    EACH_VECTOR(len, ROUND_STEP);
}

void CPU_FN(round_to)(const op_call *call) {
    cpu_span span = cpu_span_same(call, 1);
    while (cpu_span_next(&span)) {
        WITH_FORMAT(call->attr->i[NARROW_FORMAT], round_run,
                    cpu_at(&call->in[0], span.row, span.col),
                    cpu_at(&call->out[0], span.row, span.col), span.len);
    }
}

/* ---- codes ----------------------------------------------------------------------------------- */

static INLINE vu words_order(vu words) {
#if __BYTE_ORDER == __BIG_ENDIAN
    for (int l = 0; l < VLEN; l++) {
        words[l] = le32toh(words[l]);
    }
#endif
    return words;
}

/* How many of the lanes [j, j + m) of part `part` a block of r elements in `words` words has. */
static INLINE int64_t lanes_of(int64_t part, int64_t words, int64_t j, int64_t m, int64_t r) {
    int64_t left = r - part * words - j;
    return left < 0 ? 0 : left < m ? left : m;
}

/* A block of r elements, up to NARROW_BLOCK: words [j, j + m) have three parts of it. */
static INLINE void narrow_block(const float *x, uint8_t *to, int64_t r, bool mark, op_format f) {
    int64_t words = op_format_words(r);
    for (int64_t j = 0; j < words; j += VLEN) {
        int64_t m = words - j < VLEN ? words - j : VLEN;
        vu word = {0};
        for (int part = 0; part < 3; part++) {
            vf value = v_load(x + part * words + j, lanes_of(part, words, j, m, r));
            word |= code1(value, mark, f) << part * 10;
        }
        v_store((float *)(void *)(to + 4 * j), (vf)words_order(word), m);
    }
}

static INLINE void widen_block(const uint8_t *from, float *y, int64_t r, op_format f) {
    int64_t words = op_format_words(r);
    for (int64_t j = 0; j < words; j += VLEN) {
        int64_t m = words - j < VLEN ? words - j : VLEN;
        vu word = words_order(vu_load((const uint32_t *)(const void *)(from + 4 * j), m));
        for (int part = 0; part < 3; part++) {
            vf value = widen1((word >> part * 10) & 0x3ff, f);
            v_store(y + part * words + j, value, lanes_of(part, words, j, m, r));
        }
    }
}

/* block(first, r) for all elements: whole blocks, then what is left. */
#define EACH_BLOCK(len, block)                                                                     \
    do {                                                                                           \
        int64_t each_ = 0;                                                                         \
        for (; each_ + NARROW_BLOCK <= (len); each_ += NARROW_BLOCK) {                             \
            block(each_, NARROW_BLOCK);                                                            \
        }                                                                                          \
        if (each_ < (len)) {                                                                       \
            block(each_, (len)-each_);                                                             \
        }                                                                                          \
    } while (0)

static INLINE void narrow_run(const float *x, uint8_t *to, int64_t len, bool mark, op_format f) {
#define NARROW_STEP(j, m) codes_put(to, j, code1(v_load(x + (j), m), mark, f), m, f)
#define NARROW_THREE(j, r) narrow_block(x + (j), to + (j) / 3 * 4, r, mark, f)
    if (f.bits == 10) {
        EACH_BLOCK(len, NARROW_THREE);
    } else {
        EACH_VECTOR(len, NARROW_STEP);
    }
}

static INLINE void widen_run(const uint8_t *from, float *y, int64_t len, op_format f) {
#define WIDEN_STEP(j, m) v_store(y + (j), widen1(codes_get(from, j, m, f), f), m)
#define WIDEN_THREE(j, r) widen_block(from + (j) / 3 * 4, y + (j), r, f)
    if (f.bits == 10) {
        EACH_BLOCK(len, WIDEN_THREE);
    } else {
        EACH_VECTOR(len, WIDEN_STEP);
    }
}

static INLINE void keep_block(const float *dy, const uint8_t *from, float *dx, int64_t r,
                              op_format f) {
    int64_t words = op_format_words(r);
    for (int64_t j = 0; j < words; j += VLEN) {
        int64_t m = words - j < VLEN ? words - j : VLEN;
        vu word = words_order(vu_load((const uint32_t *)(const void *)(from + 4 * j), m));
        for (int part = 0; part < 3; part++) {
            int64_t at = part * words + j, lanes = lanes_of(part, words, j, m, r);
            v_store(dx + at, keep1(v_load(dy + at, lanes), (word >> part * 10) & 0x3ff, f), lanes);
        }
    }
}

static INLINE void keep_codes_run(const float *dy, const uint8_t *from, float *dx, int64_t len,
                                  op_format f) {
#define KEEP_STEP(j, m)                                                                            \
    v_store(dx + (j), keep1(v_load(dy + (j), m), codes_get(from, j, m, f), f), m)
#define KEEP_THREE(j, r) keep_block(dy + (j), from + (j) / 3 * 4, dx + (j), r, f)
    if (f.bits == 10) {
        EACH_BLOCK(len, KEEP_THREE);
    } else {
        EACH_VECTOR(len, KEEP_STEP);
    }
}

/* Bytes of a block of elements. */
static int64_t block_bytes(int32_t bits) {
    return bits == 10 ? 4 * NARROW_WORDS : NARROW_BLOCK * bits / 8;
}

void CPU_FN(narrow)(const op_call *call) {
    int32_t bits = call->attr->i[NARROW_FORMAT];
    cpu_steps it = cpu_steps_start(call, &call->in[0].type);
    while (cpu_steps_next(&it)) {
        WITH_FORMAT(bits, narrow_run, cpu_step(&it, &call->in[0]),
                    cpu_step_code(&it, &call->out[0], block_bytes(bits)), it.len,
                    call->attr->i[NARROW_MARK] != 0);
    }
}

void CPU_FN(widen)(const op_call *call) {
    int32_t bits = call->attr->i[NARROW_FORMAT];
    cpu_steps it = cpu_steps_start(call, &call->out[0].type);
    while (cpu_steps_next(&it)) {
        WITH_FORMAT(bits, widen_run, cpu_step_code(&it, &call->in[0], block_bytes(bits)),
                    cpu_step(&it, &call->out[0]), it.len);
    }
}

/* dy, codes. */
void CPU_FN(relu_grad_codes)(const op_call *call) {
    int32_t bits = call->attr->i[NARROW_FORMAT];
    cpu_steps it = cpu_steps_start(call, &call->out[0].type);
    while (cpu_steps_next(&it)) {
        WITH_FORMAT(bits, keep_codes_run, cpu_step(&it, &call->in[0]),
                    cpu_step_code(&it, &call->in[1], block_bytes(bits)),
                    cpu_step(&it, &call->out[0]), it.len);
    }
}

/* ---- rows for products ----------------------------------------------------------------------- */

/* Elements [first, first + len) of a row of n; blocks of fp10 need not begin or end there. */
static INLINE void widen_part(const conv_made *c, float *to, op_format f) {
    int64_t first = c->first, len = c->len;
    if (f.bits != 10) {
        widen_run(c->row + first * f.bits / 8, to, len, f);
        return;
    }
    for (int64_t count; len > 0; first += count, to += count, len -= count) {
        int64_t at = first % NARROW_BLOCK, left = c->n - (first - at);
        int64_t r = left < NARROW_BLOCK ? left : NARROW_BLOCK;
        const uint8_t *from = c->row + first / NARROW_BLOCK * 4 * NARROW_WORDS;
        float part[NARROW_BLOCK];
        count = r - at < len ? r - at : len;
        widen_block(from, count == r ? to : part, r, f);
        if (count < r) {
            __builtin_memcpy(to, part + at, (size_t)count * sizeof *to);
        }
    }
}

/* Normalises `n` vectors (a constant) of m lanes each from lane j on, of every pixel and image, as
 * batch_apply and relu do. What comes is fetched ahead: streams of the machine end with a page. */
static INLINE void norm_lanes(const conv_made *c, const float *from, float *to, int64_t j, int n,
                              int64_t m) {
    enum { AHEAD = 2048 };
    vf mean[2], scale[2], gain[2], bias[2];
    for (int v = 0; v < n; v++) {
        mean[v] = v_load(c->mean + j + v * VLEN, m);
        scale[v] = v_load(c->scale + j + v * VLEN, m);
        gain[v] = v_load(c->gain + j + v * VLEN, m);
        bias[v] = v_load(c->bias + j + v * VLEN, m);
    }
    const vi keep = c->relu ? (vi){0} : ~(vi){0};
    for (int64_t i = j; i < c->len; i += c->channels) {
        __builtin_prefetch(from + i + AHEAD);
        for (int v = 0; v < n; v++) {
            vf hat = (v_load(from + i + v * VLEN, m) - mean[v]) * scale[v];
            vf y = v_fma(hat, gain[v], bias[v]);
            v_store(to + i + v * VLEN, (vf)((~(y <= 0.0f) | keep) & (vi)y), m);
        }
    }
}

void CPU_FN(made_rows)(const conv_made *c, float *to) {
    const float *from = c->plain != NULL ? c->plain : to;
    if (c->plain == NULL) {
        WITH_FORMAT(c->bits, widen_part, c, to);
    }
    if (c->mean == NULL) {
#define RELU_ROW(j, m)                                                                             \
    v_store(to + (j), v_select(v_load(to + (j), m) <= 0.0f, v_all(0.0f), v_load(to + (j), m)), m)
        if (c->relu) {
            EACH_VECTOR(c->len, RELU_ROW);
        }
        return;
    }
    int64_t j = c->lane, end = c->lane + c->lanes;
    for (; j + 2 * VLEN <= end; j += 2 * VLEN) {
        norm_lanes(c, from, to, j, 2, VLEN);
    }
    for (; j + VLEN <= end; j += VLEN) {
        norm_lanes(c, from, to, j, 1, VLEN);
    }
    if (j < end) {
        norm_lanes(c, from, to, j, 1, end - j);
    }
}
