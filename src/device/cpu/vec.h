/* vec.h - vectors of the instruction set this file is compiled for: 8 floats with AVX2 and FMA, 4
 * otherwise. fma is exact everywhere (where the machine has none, one fmaf call a lane: slow, same
 * bits). Everything is static and inlined: vectors never cross object files built with other flags.
 *
 * Loads and stores take the number of lanes in use, m; with a constant m = VLEN they are one
 * instruction. Lanes not in use are loaded as zero and not stored. */
#ifndef DEVICE_CPU_VEC_H
#define DEVICE_CPU_VEC_H

#include <stdint.h>

#if defined(__AVX2__) && defined(__FMA__)
#include <immintrin.h>
enum { VLEN = 8 };
#define VBYTES 32
#elif defined(__SSE2__)
#include <emmintrin.h>
enum { VLEN = 4 };
#define VBYTES 16
#else
enum { VLEN = 4 };
#define VBYTES 16
#endif

#define INLINE inline __attribute__((always_inline))

typedef float vf __attribute__((vector_size(VBYTES)));
typedef int32_t vi __attribute__((vector_size(VBYTES)));
typedef uint32_t vu __attribute__((vector_size(VBYTES)));
typedef uint64_t vu64 __attribute__((vector_size(VBYTES)));
/* Half vectors of floats widen to full vectors of doubles. */
typedef float vh __attribute__((vector_size(VBYTES / 2)));
typedef double vd __attribute__((vector_size(VBYTES)));
enum { WIDE = VLEN / 2 };

static INLINE vf v_all(float x) {
    return x - (vf){0};
}
static INLINE vu64 vu64_all(uint32_t x) {
    return (vu64){0} + x;
}

/* Part of a vector as at most one copy each of 4, 2 and 1 lanes: no call, and no store of lanes
 * that are somebody else's. */
static INLINE void v_copy_part(float *to, const float *from, int64_t m) {
    if (VLEN > 4 && (m & 4) != 0) {
        __builtin_memcpy(to, from, 4 * sizeof(float));
        to += 4;
        from += 4;
    }
    if ((m & 2) != 0) {
        __builtin_memcpy(to, from, 2 * sizeof(float));
        to += 2;
        from += 2;
    }
    if ((m & 1) != 0) {
        __builtin_memcpy(to, from, sizeof(float));
    }
}

static INLINE vf v_load(const float *p, int64_t m) {
    vf v = {0};
    if (m == VLEN) {
        __builtin_memcpy(&v, p, sizeof v);
    } else {
        v_copy_part((float *)&v, p, m);
    }
    return v;
}

static INLINE vu vu_load(const uint32_t *p, int64_t m) {
    return (vu)v_load((const void *)p, m);
}

static INLINE void v_store(float *p, vf v, int64_t m) {
    if (m == VLEN) {
        __builtin_memcpy(p, &v, sizeof v);
    } else {
        v_copy_part(p, (const float *)&v, m);
    }
}

/* Every lane of mask is all ones or 0. */
static INLINE vf v_select(vi mask, vf yes, vf no) {
#if VBYTES == 32
    return (vf)_mm256_blendv_ps((__m256)no, (__m256)yes, (__m256)mask);
#else
    return (vf)((mask & (vi)yes) | (~mask & (vi)no));
#endif
}

/* Bit l: lane l of mask, of which every lane is all ones or 0. */
static INLINE unsigned v_bits(vi mask) {
#if VBYTES == 32
    return (unsigned)_mm256_movemask_ps((__m256)mask);
#elif defined(__SSE2__)
    return (unsigned)_mm_movemask_ps((__m128)mask);
#else
    unsigned bits = 0;
    for (int i = 0; i < VLEN; i++) {
        bits |= (unsigned)(mask[i] & 1) << i;
    }
    return bits;
#endif
}

/* a where a > b, else b: b where either is NaN. */
static INLINE vf v_larger(vf a, vf b) {
#if VBYTES == 32
    return (vf)_mm256_max_ps((__m256)a, (__m256)b);
#elif defined(__SSE2__)
    return (vf)_mm_max_ps((__m128)a, (__m128)b);
#else
    return v_select(a > b, a, b);
#endif
}

/* a where a < b, else b: b where either is NaN. */
static INLINE vf v_smaller(vf a, vf b) {
#if VBYTES == 32
    return (vf)_mm256_min_ps((__m256)a, (__m256)b);
#elif defined(__SSE2__)
    return (vf)_mm_min_ps((__m128)a, (__m128)b);
#else
    return v_select(a < b, a, b);
#endif
}

static INLINE vf v_fma(vf a, vf b, vf c) {
#if VBYTES == 32
    return (vf)_mm256_fmadd_ps((__m256)a, (__m256)b, (__m256)c);
#else
    for (int i = 0; i < VLEN; i++) {
        c[i] = __builtin_fmaf(a[i], b[i], c[i]);
    }
    return c;
#endif
}

static INLINE vh vh_load(const float *p) {
    vh v;
    __builtin_memcpy(&v, p, sizeof v);
    return v;
}
static INLINE vd vd_load(const double *p) {
    vd v;
    __builtin_memcpy(&v, p, sizeof v);
    return v;
}
static INLINE void vd_store(double *p, vd v) {
    __builtin_memcpy(p, &v, sizeof v);
}
static INLINE vd vd_wide(vh x) {
#if VBYTES == 32
    return (vd)_mm256_cvtps_pd((__m128)x); /* which gcc makes four instructions of */
#else
    return __builtin_convertvector(x, vd);
#endif
}
/* c + a b of what were floats: their product is exact in double, so fused or not are the same bits.
 */
static INLINE vd vd_fma(vd a, vd b, vd c) {
#if VBYTES == 32
    return (vd)_mm256_fmadd_pd((__m256d)a, (__m256d)b, (__m256d)c);
#else
    return c + a * b;
#endif
}

static INLINE vf v_sqrt(vf x) {
#if VBYTES == 32
    return (vf)_mm256_sqrt_ps((__m256)x);
#elif defined(__SSE2__)
    return (vf)_mm_sqrt_ps((__m128)x);
#else
    for (int i = 0; i < VLEN; i++) {
        x[i] = __builtin_sqrtf(x[i]);
    }
    return x;
#endif
}

/* 64-bit products of the even 32-bit lanes. */
static INLINE vu64 v_mul_even(vu a, vu b) {
#if VBYTES == 32
    return (vu64)_mm256_mul_epu32((__m256i)a, (__m256i)b);
#elif defined(__SSE2__)
    return (vu64)_mm_mul_epu32((__m128i)a, (__m128i)b);
#else
    return ((vu64)a & 0xffffffffu) * ((vu64)b & 0xffffffffu);
#endif
}

/* Blocks of four words from two vectors of pairs: lane q of `low` holds the first two words of a
 * block, lane q of `high` the other two. v_pair_order() tells which block lane q is to hold for the
 * blocks to come out in order: with 8 words a vector, halves are shuffled apart. */
static INLINE vu64 v_pair_order(void) {
#if VBYTES == 32
    return (vu64){0, 2, 1, 3};
#else
    return (vu64){0, 1};
#endif
}
static INLINE void v_store_pairs(uint32_t *words, vu64 low, vu64 high) {
#if VBYTES == 32
    __m256i a = _mm256_unpacklo_epi64((__m256i)low, (__m256i)high);
    __m256i b = _mm256_unpackhi_epi64((__m256i)low, (__m256i)high);
    __builtin_memcpy(words, &a, sizeof a);
    __builtin_memcpy(words + 8, &b, sizeof b);
#else
    const uint64_t pairs[] = {low[0], high[0], low[1], high[1]};
    __builtin_memcpy(words, pairs, sizeof pairs);
#endif
}

/* Lanes below 256 as bytes, the first lowest; and such bytes as lanes. */
static INLINE uint64_t vu_bytes(vu x) {
#if VBYTES == 32
    const __m256i low =
        _mm256_setr_epi8(0, 4, 8, 12, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, 0, 4, 8, 12,
                         -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1);
    __m256i halves = _mm256_shuffle_epi8((__m256i)x, low);
    return (uint32_t)_mm256_extract_epi32(halves, 0) |
           (uint64_t)(uint32_t)_mm256_extract_epi32(halves, 4) << 32;
#elif defined(__SSE2__)
    __m128i words = _mm_packs_epi32((__m128i)x, (__m128i)x);
    return (uint32_t)_mm_cvtsi128_si32(_mm_packus_epi16(words, words));
#else
    uint64_t bytes = 0;
    for (int i = 0; i < VLEN; i++) {
        bytes |= (uint64_t)x[i] << 8 * i;
    }
    return bytes;
#endif
}
static INLINE vu vu_of_bytes(uint64_t bytes) {
#if VBYTES == 32
    return (vu)_mm256_cvtepu8_epi32(_mm_set_epi64x(0, (long long)bytes));
#elif defined(__SSE2__)
    __m128i words = _mm_unpacklo_epi8(_mm_cvtsi32_si128((int)bytes), _mm_setzero_si128());
    return (vu)_mm_unpacklo_epi16(words, _mm_setzero_si128());
#else
    vu x = {0};
    for (int i = 0; i < VLEN; i++) {
        x[i] = (uint32_t)(bytes >> 8 * i) & 0xff;
    }
    return x;
#endif
}

/* One call of `step(j, m)` for every vector of a run: m is VLEN but for the last. */
#define EACH_VECTOR(len, step)                                                                     \
    do {                                                                                           \
        int64_t each_ = 0;                                                                         \
        for (; each_ + VLEN <= (len); each_ += VLEN) {                                             \
            step(each_, VLEN);                                                                     \
        }                                                                                          \
        if (each_ < (len)) {                                                                       \
            step(each_, (len)-each_);                                                              \
        }                                                                                          \
    } while (0)

#endif
