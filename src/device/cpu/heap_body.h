/* heap_body.h - values of sparse tensors into a shared heap and back (op/heap.h), over the vectors
 * of vec.h. The includer defines CPU_FN(name). With AVX2, eight elements at a time are moved to
 * where they belong by a table with a row for every eight bits. */
#include "device/cpu/cpu.h"
#include "device/cpu/steps.h"
#include "device/cpu/vec.h"
#include "op/heap.h"

#include <string.h>

enum { BITS_BYTES = STEPS_BLOCK / 8 };
_Static_assert(STEPS_GRAIN % OP_HEAP_BLOCK == 0, "members share whole blocks");

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

/* Those of 8 elements whose bits are set, one behind the other; `room` floats may be written. */
static INLINE void push8(const float *x, unsigned bits, float *to, int64_t room) {
    vf v = (vf)moved((__m256)v_load(x, VLEN), together[bits]);
    v_store(to, v, room < VLEN ? room : VLEN);
}

/* The other way round; `room` floats may be read. */
static INLINE void pull8(const float *from, unsigned bits, float *x, int64_t room) {
    const vi lane = {1, 2, 4, 8, 16, 32, 64, 128};
    vf v = (vf)moved((__m256)v_load(from, room < VLEN ? room : VLEN), apart[bits]);
    vi there = (((vi){0} + (int32_t)bits) & lane) == lane;
    v_store(x, (vf)(there & (vi)v), VLEN);
}
#else
static INLINE void push8(const float *x, unsigned bits, float *to, int64_t room) {
    (void)room;
    for (; bits != 0; bits &= bits - 1) {
        *to++ = x[__builtin_ctz(bits)];
    }
}

static INLINE void pull8(const float *from, unsigned bits, float *x, int64_t room) {
    (void)room;
    for (int i = 0; i < 8; i++) {
        x[i] = (bits >> i & 1) != 0 ? *from++ : 0.0f;
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
static void push_block(const float *x, const uint8_t *bits, int64_t n, float *to) {
    const float *end = to + count_set(bits, n);
    int64_t e = 0;
    for (; e + 8 <= n; e += 8) {
        push8(x + e, bits[e / 8], to, end - to);
        to += count8(bits[e / 8]);
    }
    for (; e < n; e++) {
        if ((bits[e / 8] >> e % 8 & 1) != 0) {
            *to++ = x[e];
        }
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

/* `end` is that of the heap. */
static void pull_block(const float *from, const float *end, const uint8_t *bits, int64_t n,
                       float *x) {
    int64_t e = 0;
    for (; e + 8 <= n; e += 8) {
        pull8(from, bits[e / 8], x + e, end - from);
        from += count8(bits[e / 8]);
    }
    for (; e < n; e++) {
        x[e] = (bits[e / 8] >> e % 8 & 1) != 0 ? *from++ : 0.0f;
    }
}

void CPU_FN(heap_range)(const float *heap, const float *end, const uint8_t *bits,
                        const int32_t *starts, int64_t e, int64_t n, float *to) {
    for (int64_t stop = e + n; e < stop;) {
        int64_t first = e / OP_HEAP_BLOCK * OP_HEAP_BLOCK, last = first + OP_HEAP_BLOCK;
        int64_t start = starts[e / OP_HEAP_BLOCK];
        last = last < stop ? last : stop;
        if (start < 0) {
            memset(to, 0, (size_t)(last - e) * sizeof(float));
            to += last - e;
            e = last;
            continue;
        }
        const float *from = heap + start + count_set(bits + first / 8, e - first);
        for (; e < last && e % 8 != 0; e++) {
            *to++ = (bits[e / 8] >> e % 8 & 1) != 0 ? *from++ : 0.0f;
        }
        pull_block(from, end, bits + e / 8, last - e, to);
        to += last - e;
        e = last;
    }
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

static void push_stretch(const cpu_steps *it, const op_call *call, float *heap) {
    const float *x = cpu_step(it, &call->in[1]);
    const uint8_t *bits = cpu_step_code(it, &call->in[2], BITS_BYTES);
    const int32_t *starts = (const int32_t *)call->in[3].data + it->step * call->in[3].type.dim[1] +
                            it->first / OP_HEAP_BLOCK;
    for (int64_t e = 0; e < it->len; e += OP_HEAP_BLOCK, starts++) {
        int64_t n = it->len - e < OP_HEAP_BLOCK ? it->len - e : OP_HEAP_BLOCK;
        if (*starts >= 0) {
            push_block(x + e, bits + e / 8, n, heap + *starts);
        }
        if (has_nan(x + e, n)) {
            float one = 1; /* whoever else has one writes the same */
            __atomic_store(heap, &one, __ATOMIC_RELAXED);
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
        memcpy(call->out[0].data, heap->data, (size_t)heap->type.dim[0] * sizeof(float));
        own.members = 1;
    }
    cpu_steps it = cpu_steps_start(&own, &call->in[1].type);
    while (cpu_steps_next(&it)) {
        push_stretch(&it, call, call->out[0].data);
    }
}

/* heap, bits, starts. */
void CPU_FN(sparse_pull)(const op_call *call) {
    const float *heap = call->in[0].data, *end = heap + call->in[0].type.dim[0];
    cpu_steps it = cpu_steps_start(call, &call->out[0].type);
    while (cpu_steps_next(&it)) {
        float *x = cpu_step(&it, &call->out[0]);
        const uint8_t *bits = cpu_step_code(&it, &call->in[1], BITS_BYTES);
        const int32_t *starts = (const int32_t *)call->in[2].data +
                                it.step * call->in[2].type.dim[1] + it.first / OP_HEAP_BLOCK;
        for (int64_t e = 0; e < it.len; e += OP_HEAP_BLOCK, starts++) {
            int64_t n = it.len - e < OP_HEAP_BLOCK ? it.len - e : OP_HEAP_BLOCK;
            if (*starts >= 0) {
                pull_block(heap + *starts, end, bits + e / 8, n, x + e);
            } else {
                memset(x + e, 0, (size_t)n * sizeof(float));
            }
        }
    }
}
