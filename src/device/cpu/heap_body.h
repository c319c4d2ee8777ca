/* heap_body.h - values of sparse tensors into a shared heap and back (op/heap.h), over the vectors
 * of vec.h. The includer defines CPU_FN(name). With AVX2, eight elements at a time are moved to
 * where they belong by a table with a row for every eight bits. */
#include "device/cpu/cpu.h"
#include "device/cpu/steps.h"
#include "device/cpu/vnarrow.h"
#include "op/heap.h"

#include <string.h>

enum { BITS_BYTES = STEPS_BLOCK / 8 };
_Static_assert(STEPS_GRAIN % OP_HEAP_BLOCK == 0, "members share whole blocks");

/* ---- values of a heap ---- */

/* fn(..., format) with the format known when it is compiled. */
#define WITH_HEAP(dtype, fn, ...)                                                                  \
    do {                                                                                           \
        if ((dtype) == IR_F32) {                                                                   \
            fn(__VA_ARGS__, op_heap_format(IR_F32));                                               \
        } else if ((dtype) == IR_U16) {                                                            \
            fn(__VA_ARGS__, op_heap_format(IR_U16));                                               \
        } else {                                                                                   \
            fn(__VA_ARGS__, op_heap_format(IR_U8));                                                \
        }                                                                                          \
    } while (0)

static INLINE size_t value_bytes(op_format f) {
    return (size_t)f.bits / 8;
}

/* m values, VLEN at most. */
static INLINE vf values_get(const uint8_t *from, int64_t m, op_format f) {
    return f.bits == 32 ? v_load((const float *)(const void *)from, m)
                        : widen1(codes_get(from, 0, m, f), f);
}
static INLINE void values_put(uint8_t *to, vf v, int64_t m, op_format f) {
    if (f.bits == 32) {
        v_store((float *)(void *)to, v, m);
    } else {
        codes_put(to, 0, narrow1(v, f), m, f);
    }
}

/* ---- eight elements ---- */

#if VBYTES == 32
#define HAS(m, i) ((uint64_t)((m) >> (i)&1))
#define UNDER1(m) HAS(m, 0)
#define UNDER2(m) (UNDER1(m) + HAS(m, 1))
#define UNDER3(m) (UNDER2(m) + HAS(m, 2))
#define UNDER4(m) (UNDER3(m) + HAS(m, 3))
#define UNDER5(m) (UNDER4(m) + HAS(m, 4))
#define UNDER6(m) (UNDER5(m) + HAS(m, 5))
#define UNDER7(m) (UNDER6(m) + HAS(m, 6))
/* Byte k: the number of the k-th bit that is set. */
#define TOGETHER(m)                                                                                \
    (1 * HAS(m, 1) << 8 * UNDER1(m) | 2 * HAS(m, 2) << 8 * UNDER2(m) |                             \
     3 * HAS(m, 3) << 8 * UNDER3(m) | 4 * HAS(m, 4) << 8 * UNDER4(m) |                             \
     5 * HAS(m, 5) << 8 * UNDER5(m) | 6 * HAS(m, 6) << 8 * UNDER6(m) |                             \
     7 * HAS(m, 7) << 8 * UNDER7(m))
/* Byte i: how many bits below i are set. */
#define APART(m)                                                                                   \
    (UNDER1(m) << 8 | UNDER2(m) << 16 | UNDER3(m) << 24 | UNDER4(m) << 32 | UNDER5(m) << 40 |      \
     UNDER6(m) << 48 | UNDER7(m) << 56)
#define ROWS4(X, m) X(m), X((m) + 1), X((m) + 2), X((m) + 3)
#define ROWS16(X, m) ROWS4(X, m), ROWS4(X, (m) + 4), ROWS4(X, (m) + 8), ROWS4(X, (m) + 12)
#define ROWS64(X, m) ROWS16(X, m), ROWS16(X, (m) + 16), ROWS16(X, (m) + 32), ROWS16(X, (m) + 48)
#define ROWS256(X) ROWS64(X, 0), ROWS64(X, 64), ROWS64(X, 128), ROWS64(X, 192)
static const uint64_t together[256] = {ROWS256(TOGETHER)}, apart[256] = {ROWS256(APART)};

static INLINE __m256 moved(__m256 v, uint64_t row) {
    __m256i lanes = _mm256_cvtepu8_epi32(_mm_cvtsi64_si128((long long)row));
    return _mm256_permutevar8x32_ps(v, lanes);
}

/* Those of 8 elements whose bits are set, one behind the other; `room` values may be written. */
static INLINE void push8(const float *x, unsigned bits, uint8_t *to, int64_t room, op_format f) {
    vf v = (vf)moved((__m256)v_load(x, VLEN), together[bits]);
    if (room >= VLEN) {
        values_put(to, v, VLEN, f);
    } else {
        values_put(to, v, room, f);
    }
}

/* The other way round; `room` values may be read. */
static INLINE void pull8(const uint8_t *from, unsigned bits, float *x, int64_t room, op_format f) {
    const vi lane = {1, 2, 4, 8, 16, 32, 64, 128};
    vf v = room >= VLEN ? values_get(from, VLEN, f) : values_get(from, room, f);
    vi there = (((vi){0} + (int32_t)bits) & lane) == lane;
    v = (vf)moved((__m256)v, apart[bits]);
    v_store(x, (vf)(there & (vi)v), VLEN);
}
#else
static INLINE void push8(const float *x, unsigned bits, uint8_t *to, int64_t room, op_format f) {
    uint8_t all[8 * sizeof(float)];
    const size_t size = value_bytes(f);
    (void)room;
    for (int j = 0; j < 8; j += VLEN) {
        values_put(all + (size_t)j * size, v_load(x + j, VLEN), VLEN, f);
    }
    for (; bits != 0; bits &= bits - 1, to += size) {
        memcpy(to, all + (size_t)__builtin_ctz(bits) * size, size);
    }
}

static INLINE void pull8(const uint8_t *from, unsigned bits, float *x, int64_t room, op_format f) {
    uint8_t all[8 * sizeof(float)] = {0};
    const size_t size = value_bytes(f);
    (void)room;
    for (; bits != 0; bits &= bits - 1, from += size) {
        memcpy(all + (size_t)__builtin_ctz(bits) * size, from, size);
    }
    for (int j = 0; j < 8; j += VLEN) {
        v_store(x + j, values_get(all + (size_t)j * size, VLEN, f), VLEN);
    }
}
#endif

static INLINE int64_t count8(unsigned bits) {
    return __builtin_popcount(bits);
}

/* ---- a block ---- */

/* How many of the first n elements, a block at most, have their bit set. */
static INLINE int64_t count_set(const uint8_t *bits, int64_t n) {
    int64_t sum = 0, i = 0;
    for (; i + 8 <= n / 8; i += 8) {
        uint64_t word;
        memcpy(&word, bits + i, sizeof word);
        sum += __builtin_popcountll(word);
    }
    for (; i < n / 8; i++) {
        sum += count8(bits[i]);
    }
    return n % 8 == 0 ? sum : sum + count8(bits[i] & ((1u << n % 8) - 1));
}

/* `end` is that of the block's values: what lies behind it is somebody else's. */
static INLINE void push_block(const float *x, const uint8_t *bits, int64_t n, uint8_t *to,
                              op_format f) {
    const size_t size = value_bytes(f);
    int64_t left = count_set(bits, n), e = 0;
    for (; e + 8 <= n; e += 8) {
        int64_t count = count8(bits[e / 8]);
        push8(x + e, bits[e / 8], to, left, f);
        to += (size_t)count * size;
        left -= count;
    }
    if (e < n) {
        float part[8] = {0};
        memcpy(part, x + e, (size_t)(n - e) * sizeof *x);
        push8(part, bits[e / 8] & ((1u << (n - e)) - 1), to, left, f);
    }
}

static bool has_nan(const float *x, int64_t n) {
    vi any = {0};
    for (int64_t e = 0; e < n; e += VLEN) {
        vf v = v_load(x + e, n - e < VLEN ? n - e : VLEN);
        any |= v != v;
    }
    return v_bits(any) != 0;
}

/* Elements [at, at + n) of the 8 whose bits these are. */
static INLINE void pull_part(const uint8_t *from, unsigned bits, int64_t at, int64_t n, float *x,
                             int64_t room, op_format f) {
    float part[8];
    pull8(from, bits, part, room, f);
    memcpy(x, part + at, (size_t)n * sizeof *x);
}

/* `end` is that of the heap. */
static INLINE void pull_block(const uint8_t *from, const uint8_t *end, const uint8_t *bits,
                              int64_t n, float *x, op_format f) {
    const size_t size = value_bytes(f);
    int64_t room = (end - from) / (int64_t)size, e = 0;
    for (; e + 8 <= n; e += 8) {
        int64_t count = count8(bits[e / 8]);
        pull8(from, bits[e / 8], x + e, room, f);
        from += (size_t)count * size;
        room -= count;
    }
    if (e < n) {
        pull_part(from, bits[e / 8], 0, n - e, x + e, room, f);
    }
}

/* Elements [e, last) of a block of which the values begin at `from`. */
static INLINE void pull_range(const uint8_t *from, const uint8_t *end, const uint8_t *bits,
                              int64_t e, int64_t last, float *to, op_format f) {
    int64_t at = e / 8 * 8, first = e / OP_HEAP_BLOCK * OP_HEAP_BLOCK;
    const size_t size = value_bytes(f);
    from += (size_t)count_set(bits + first / 8, at - first) * size;
    if (at < e) {
        int64_t n = (at + 8 < last ? at + 8 : last) - e;
        pull_part(from, bits[at / 8], e - at, n, to, (end - from) / (int64_t)size, f);
        from += (size_t)count8(bits[at / 8]) * size;
        e += n;
        to += n;
    }
    pull_block(from, end, bits + e / 8, last - e, to, f);
}

static INLINE void heap_range(const cpu_heap *heap, const uint8_t *bits, const int32_t *starts,
                              int64_t e, int64_t n, float *to, op_format f) {
    const uint8_t *data = heap->data, *end = data + (size_t)heap->values * value_bytes(f);
    for (int64_t stop = e + n; e < stop;) {
        int64_t last = (e / OP_HEAP_BLOCK + 1) * OP_HEAP_BLOCK, start = starts[e / OP_HEAP_BLOCK];
        last = last < stop ? last : stop;
        if (start < 0) {
            memset(to, 0, (size_t)(last - e) * sizeof(float));
        } else {
            pull_range(data + (size_t)start * value_bytes(f), end, bits, e, last, to, f);
        }
        to += last - e;
        e = last;
    }
}

void CPU_FN(heap_range)(const cpu_heap *heap, const uint8_t *bits, const int32_t *starts, int64_t e,
                        int64_t n, float *to) {
    WITH_HEAP(heap->dtype, heap_range, heap, bits, starts, e, n, to);
}

/* ---- kernels ---- */

/* bits, the starts of what is before it. One member does it: bits are few bytes, and every start
 * waits for the one before it. */
void CPU_FN(sparse_starts)(const op_call *call) {
    const op_view *bits = &call->in[0], *before = &call->in[1];
    int64_t wide = bits->type.dim[1], blocks = op_heap_blocks(wide), block = OP_HEAP_BLOCK / 8;
    int64_t room = call->attr->i[HEAP_CAPACITY], at = OP_HEAP_FIRST;
    int32_t *starts = call->out[0].data;
    if (call->member != 0) {
        return;
    }
    if (before->data != NULL) {
        int64_t last = (int64_t)before->type.dim[0] * before->type.dim[1] - 1;
        at = ((const int32_t *)before->data)[last];
    }
    for (int64_t d = 0; d < bits->type.dim[0]; d++) {
        const uint8_t *row = (const uint8_t *)bits->data + d * wide;
        for (int64_t b = 0; b < blocks; b++) {
            int64_t len = wide - b * block < block ? wide - b * block : block;
            int64_t n = count_set(row + b * block, 8 * len);
            at = at >= 0 && at + n <= room ? at : OP_HEAP_FULL;
            *starts++ = (int32_t)at;
            at = at >= 0 ? at + n : at;
        }
        *starts++ = (int32_t)at;
    }
}

/* Says that a NaN was pushed; whoever else has one writes the same, the code of 1. */
static INLINE void note_nan(uint8_t *heap, op_format f) {
    float one = 1;
    uint16_t word = (uint16_t)(f.bias << f.mantissa);
    uint8_t byte = (uint8_t)word;
    if (f.bits == 32) {
        __atomic_store((float *)(void *)heap, &one, __ATOMIC_RELAXED);
    } else if (f.bits == 16) {
        __atomic_store((uint16_t *)(void *)heap, &word, __ATOMIC_RELAXED);
    } else {
        __atomic_store(heap, &byte, __ATOMIC_RELAXED);
    }
}

static INLINE void push_stretch(const cpu_steps *it, const op_call *call, uint8_t *heap,
                                op_format f) {
    const float *x = cpu_step(it, &call->in[1]);
    const uint8_t *bits = cpu_step_code(it, &call->in[2], BITS_BYTES);
    const int32_t *starts = (const int32_t *)call->in[3].data + it->step * call->in[3].type.dim[1] +
                            it->first / OP_HEAP_BLOCK;
    for (int64_t e = 0; e < it->len; e += OP_HEAP_BLOCK, starts++) {
        int64_t n = it->len - e < OP_HEAP_BLOCK ? it->len - e : OP_HEAP_BLOCK;
        if (*starts >= 0) {
            push_block(x + e, bits + e / 8, n, heap + (size_t)*starts * value_bytes(f), f);
        }
        if (has_nan(x + e, n)) {
            note_nan(heap, f);
        }
    }
}

/* heap, x, bits, starts. Where the heap is copied, one member does all: others could write what it
 * has not copied yet. */
void CPU_FN(sparse_push)(const op_call *call) {
    const op_view *heap = &call->in[0];
    op_call own = *call;
    if (heap->data != call->out[0].data) {
        if (call->member != 0) {
            return;
        }
        memcpy(call->out[0].data, heap->data, ebb__ir_type_bytes(&heap->type));
        own.members = 1;
    }
    cpu_steps it = cpu_steps_start(&own, &call->in[1].type);
    while (cpu_steps_next(&it)) {
        WITH_HEAP(heap->type.dtype, push_stretch, &it, call, call->out[0].data);
    }
}

/* heap, bits, starts. */
void CPU_FN(sparse_pull)(const op_call *call) {
    const op_view *heap = &call->in[0];
    const cpu_heap from = {heap->data, heap->type.dim[0], heap->type.dtype};
    cpu_steps it = cpu_steps_start(call, &call->out[0].type);
    while (cpu_steps_next(&it)) {
        const uint8_t *bits = (const uint8_t *)call->in[1].data + it.step * call->in[1].type.dim[1];
        const int32_t *starts =
            (const int32_t *)call->in[2].data + it.step * call->in[2].type.dim[1];
        CPU_FN(heap_range)(&from, bits, starts, it.first, it.len, cpu_step(&it, &call->out[0]));
    }
}
