/* math_body.h - exp, log, sigmoid and tanh as text, over whatever type the includer names.
 *
 * Included (any number of times, so no guard) by math.c for float and by vector kernels for their
 * vectors: the same operations in the same order, hence the same bits. No table, no branch, no
 * conversion: only + - * /, fma, integer adds and shifts, compares and selects. Needs round to
 * nearest and no flushing of subnormals.
 *
 * The includer defines, and afterwards may undefine:
 *   MATH_FN(name)        name of the function to make (exp, log, sigmoid, tanh)
 *   V, VI                float lanes; int32 lanes, as many
 *   V_SET(x), VI_SET(n)  a constant in every lane
 *   V_FMA(a, b, c)       a * b + c, rounded once
 *   V_LESS(a, b)         VI: all ones where a < b, else 0 (false where either is NaN)
 *   V_SELECT(m, a, b)    lanes of a where m is all ones, of b where m is 0
 *   V_BITS(v), V_FLOAT(n) the same bits as VI, as V
 * and may use + - * / on V; + - & | >> (arithmetic) << on VI.
 */

/* 1.5 * 2^23: adding it rounds to an integer, which then is the low part of the bits. */
#define MATH_MAGIC 12582912.0f
#define MATH_MAGIC_BITS 0x4b400000

/* Within 1.1 ulp. Above 88.7228... inf; results below the normal range are rounded to subnormals,
 * below about -103.97 to 0; NaN stays NaN. */
static inline V MATH_FN(exp)(V x) {
    V lo = V_SET(-104.0f), hi = V_SET(89.0f), magic = V_SET(MATH_MAGIC);
    V y = V_SELECT(V_LESS(lo, x), x, lo);
    y = V_SELECT(V_LESS(y, hi), y, hi);
    V t = V_FMA(y, V_SET(0x1.715476p+0f), magic); /* log2(e) */
    VI n = V_BITS(t) - VI_SET(MATH_MAGIC_BITS);
    V k = t - magic;
    V r = V_FMA(k, V_SET(-0x1.62e430p-1f), y); /* ln 2 in two parts */
    r = V_FMA(k, V_SET(0x1.05c610p-29f), r);
    V p = V_SET(1.9875691500e-4f);
    p = V_FMA(p, r, V_SET(1.3981999507e-3f));
    p = V_FMA(p, r, V_SET(8.3334519073e-3f));
    p = V_FMA(p, r, V_SET(4.1665795894e-2f));
    p = V_FMA(p, r, V_SET(1.6666665459e-1f));
    p = V_FMA(p, r, V_SET(5.0000001201e-1f));
    p = V_FMA(p, r * r, r) + V_SET(1.0f);
    /* 2^n in two factors, so that both ends of the range are rounded once and correctly. */
    VI half = n >> 1;
    V s0 = V_FLOAT((half + VI_SET(127)) << 23);
    V s1 = V_FLOAT((n - half + VI_SET(127)) << 23);
    V result = (p * s0) * s1;
    return V_SELECT(V_LESS(x, hi) | V_LESS(lo, x), result, x); /* neither: NaN */
}

/* Within 1.1 ulp; log(+-0) = -inf, negative or NaN: NaN. After fdlibm's logf. */
static inline V MATH_FN(log)(V x) {
    V zero = V_SET(0.0f), one = V_SET(1.0f), inf = V_SET(__builtin_inff());
    VI regular = V_LESS(zero, x) & V_LESS(x, inf);
    V y = V_SELECT(regular, x, one);
    VI tiny = V_LESS(y, V_SET(0x1p-126f));
    y = V_SELECT(tiny, y * V_SET(0x1p23f), y);
    VI bits = V_BITS(y) + VI_SET(0x3f800000 - 0x3f3504f3); /* mantissa to [sqrt(1/2), sqrt(2)) */
    VI exponent = (bits >> 23) - VI_SET(127) - (tiny & VI_SET(23));
    V k = V_FLOAT(exponent + VI_SET(MATH_MAGIC_BITS)) - V_SET(MATH_MAGIC);
    V f = V_FLOAT((bits & VI_SET(0x007fffff)) + VI_SET(0x3f3504f3)) - one;
    V s = f / (f + V_SET(2.0f));
    V z = s * s, w = z * z;
    V odd = w * V_FMA(w, V_SET(0xf89e26.0p-26f), V_SET(0xccce13.0p-25f));
    V even = z * V_FMA(w, V_SET(0x91e9ee.0p-25f), V_SET(0xaaaaaa.0p-24f));
    V half_square = V_SET(0.5f) * f * f;
    V tail = V_FMA(s, half_square + (odd + even), k * V_SET(0x1.2fefa2p-17f));
    V result = V_FMA(k, V_SET(0x1.62e300p-1f), (tail - half_square) + f);
    /* +-0 gives -inf, inf itself; a negative number or NaN gives NaN. */
    V special = V_SELECT(V_LESS(zero, x), x, V_SELECT(V_LESS(x, zero), zero / zero, x + x - inf));
    return V_SELECT(regular, result, special);
}

/* Within 3 ulp: exp(-|x|) never overflows. */
static inline V MATH_FN(sigmoid)(V x) {
    V one = V_SET(1.0f);
    V t = MATH_FN(exp)(V_FLOAT(V_BITS(x) | VI_SET(INT32_MIN)));
    return V_SELECT(V_LESS(x, V_SET(0.0f)), t, one) / (one + t);
}

/* Within 2 ulp; odd, -0 included. */
static inline V MATH_FN(tanh)(V x) {
    V a = V_FLOAT(V_BITS(x) & VI_SET(INT32_MAX));
    V z = a * a;
    V p = V_SET(-5.70498872745e-3f);
    p = V_FMA(p, z, V_SET(2.06390887954e-2f));
    p = V_FMA(p, z, V_SET(-5.37397155531e-2f));
    p = V_FMA(p, z, V_SET(1.33314422036e-1f));
    p = V_FMA(p, z, V_SET(-3.33332819422e-1f));
    V small = V_FMA(p, z * a, a);
    V one = V_SET(1.0f);
    V large = one - V_SET(2.0f) / (MATH_FN(exp)(a + a) + one);
    V result = V_SELECT(V_LESS(a, V_SET(0.625f)), small, large);
    return V_FLOAT(V_BITS(result) | (V_BITS(x) & VI_SET(INT32_MIN)));
}

#undef MATH_MAGIC
#undef MATH_MAGIC_BITS
