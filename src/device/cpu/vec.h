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

static INLINE vf v_all(float x) {
    return (vf){0} + x;
}
static INLINE vu vu_all(uint32_t x) {
    return (vu){0} + x;
}

static INLINE vf v_load(const float *p, int64_t m) {
    vf v = {0};
    __builtin_memcpy(&v, p, (size_t)m * sizeof(float));
    return v;
}

static INLINE void v_store(float *p, vf v, int64_t m) {
    __builtin_memcpy(p, &v, (size_t)m * sizeof(float));
}

static INLINE vf v_select(vi mask, vf yes, vf no) {
    return (vf)((mask & (vi)yes) | (~mask & (vi)no));
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
