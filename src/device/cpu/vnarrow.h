/* vnarrow.h - codes of formats of few bits (op/narrow.h), over the vectors of vec.h.
 *
 * Of a magnitude, normal numbers are rounded as integers: the bits that go are added half of what
 * they could be. Below them, adding and taking off a number whose last bit is the format's smallest
 * rounds as well, and the sum's mantissa is the code. */
#ifndef DEVICE_CPU_VNARROW_H
#define DEVICE_CPU_VNARROW_H

#include "device/cpu/vec.h"
#include "op/narrow.h"

#include <endian.h>

typedef uint16_t vu16 __attribute__((vector_size(VBYTES / 2)));

enum { MANTISSA = 23, BIAS = 127 }; /* of f32 */

static INLINE vu vu_all(uint32_t x) {
    return (vu){0} + x;
}
static INLINE vu vu_select(vi mask, vu yes, vu no) {
    return (vu)v_select(mask, (vf)yes, (vf)no);
}
/* All are below 2^31, or NaN's; so signed comparisons will do. */
static INLINE vi vu_below(vu a, uint32_t b) {
    return (vi)a < (int32_t)b;
}

/* Bits of 2^e, of the format's smallest normal and largest number; how far mantissas are apart. */
static INLINE uint32_t power_bits(int32_t e) {
    return (uint32_t)(BIAS + e) << MANTISSA;
}
static INLINE uint32_t least_bits(op_format f) {
    return power_bits(1 - f.bias);
}
static INLINE int mantissa_shift(op_format f) {
    return MANTISSA - f.mantissa;
}
static INLINE uint32_t largest_bits(op_format f) {
    return (f.largest << mantissa_shift(f)) + power_bits(-f.bias);
}
/* Bits of the number whose last bit is the smallest subnormal. */
static INLINE uint32_t magic_bits(op_format f) {
    return power_bits(MANTISSA + 1 - f.bias - f.mantissa);
}

/* What is left of the magnitudes `a` of normal numbers. */
static INLINE vu round_normal(vu a, op_format f) {
    int shift = mantissa_shift(f);
    vu r = a + ((1u << (shift - 1)) - 1) + ((a >> shift) & 1);
    r &= ~((1u << shift) - 1);
    return vu_select(vu_below(r, largest_bits(f)), r, vu_all(largest_bits(f)));
}

static INLINE vu is_nan_mask(vu a) {
    return (vu)((vi)a > 0x7f800000);
}

static INLINE vu narrow1(vf x, op_format f) {
    vu bits = (vu)x, a = bits & 0x7fffffffu, magic = vu_all(magic_bits(f));
    vu small = (vu)((vf)a + (vf)magic) - magic;
    vu normal = (round_normal(a, f) - power_bits(-f.bias)) >> mantissa_shift(f);
    vu code = vu_select(vu_below(a, least_bits(f)), small, normal);
    code = vu_select((vi)is_nan_mask(a), vu_all((1u << (f.bits - 1)) - 1), code);
    return code | (bits >> 31 << (f.bits - 1));
}

static INLINE vf widen1(vu code, op_format f) {
    vu a = code & ((1u << (f.bits - 1)) - 1);
    vf small = __builtin_convertvector((vi)a, vf) * (vf)vu_all(power_bits(1 - f.bias - f.mantissa));
    vu r = (a << mantissa_shift(f)) + power_bits(-f.bias);
    r = vu_select(vu_below(a, 1u << f.mantissa), (vu)small, r);
    r = vu_select(vu_below(a, f.largest + 1), r, vu_all(0x7fc00000u));
    return (vf)(r | (code >> (f.bits - 1) << 31));
}

/* m codes of one or two bytes each, from code `at` on. */
static INLINE void codes_put(uint8_t *to, int64_t at, vu codes, int64_t m, op_format f) {
    if (f.bits == 8) {
        uint64_t bytes = htole64(vu_bytes(codes));
        __builtin_memcpy(to + at, &bytes, (size_t)m);
    } else {
        vu16 words = __builtin_convertvector(codes, vu16);
        __builtin_memcpy(to + 2 * at, &words, (size_t)(2 * m));
    }
}

static INLINE vu codes_get(const uint8_t *from, int64_t at, int64_t m, op_format f) {
    if (f.bits == 8) {
        uint64_t bytes = 0;
        __builtin_memcpy(&bytes, from + at, (size_t)m);
        return vu_of_bytes(le64toh(bytes));
    }
    vu16 words = {0};
    __builtin_memcpy(&words, from + 2 * at, (size_t)(2 * m));
    return __builtin_convertvector(words, vu);
}

#endif
