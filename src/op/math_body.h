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
 *   V_MAX(a, b)          a where a > b, else b: also b where either is NaN; V_MIN(a, b) likewise
 *   V_LESS(a, b)         VI: all ones where a < b, else 0 (false where either is NaN)
 *   V_SELECT(m, a, b)    lanes of a where m is all ones, of b where m is 0
 *   V_BITS(v), V_FLOAT(n) the same bits as VI, as V
 *   V_POWER(n)           the float of bits n << 23, higher bits lost: 2^(n - 127) by n mod 256
 * and may use + - * / on V; + - & | >> (arithmetic) on VI. Kernels of other devices include it too
 * (device/gpu/kernels/dialect.h), so it keeps to what their languages know; they define
 *   MATH_DEFINE, MATH_INF  how a function begins; infinity
 */
#ifndef MATH_DEFINE
#define MATH_DEFINE static inline
#define MATH_INF __builtin_inff()
#endif

/* 1.5 * 2^23: adding it rounds to an integer, which then is the low part of the bits. With a bias
 * added too, a shift by 23 makes of them the power of two of that exponent. */
#define MATH_MAGIC 12582912.0f
#define MATH_MAGIC_BITS 0x4b400000
#define MATH_LOG2E 0x1.715476p+0f
#define MATH_LN2_HIGH 0x1.62e430p-1f /* ln 2 in two parts */
#define MATH_LN2_LOW -0x1.05c610p-29f

/* Within 1.1 ulp. Above 88.7228... inf; results below the normal range are rounded to subnormals,
 * below about -103.97 to 0; NaN stays NaN. e^x = 2^n e^r, |r| <= ln(2)/2; the polynomial is the
 * best one of relative error with a constant term of 1. */
MATH_DEFINE V MATH_FN(exp)(V x) {
    V magic = V_SET(MATH_MAGIC + 254.0f);
    V y = V_MIN(V_SET(89.0f), V_MAX(V_SET(-104.0f), x));
    V t = V_FMA(y, V_SET(MATH_LOG2E), magic);
    V k = t - magic;
    V r = V_FMA(k, V_SET(-MATH_LN2_HIGH), y);
    r = V_FMA(k, V_SET(-MATH_LN2_LOW), r);
    V p = V_SET(1.3843607e-3f);
    p = V_FMA(p, r, V_SET(8.3741956e-3f));
    p = V_FMA(p, r, V_SET(4.1668005e-2f));
    p = V_FMA(p, r, V_SET(1.6666431e-1f));
    p = V_FMA(p, r, V_SET(4.9999994e-1f));
    p = V_FMA(p, r, V_SET(1.0f));
    p = V_FMA(p, r, V_SET(1.0f));
    /* 2^n in two factors, so that both ends of the range are rounded once and correctly. */
    VI bits = V_BITS(t), first = bits >> 1;
    return (p * V_POWER(first)) * V_POWER(bits - first);
}

/* Within 1.1 ulp; log(+-0) = -inf, negative or NaN: NaN. After fdlibm's logf. */
MATH_DEFINE V MATH_FN(log)(V x) {
    V zero = V_SET(0.0f), one = V_SET(1.0f), inf = V_SET(MATH_INF);
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

/* Within 4 ulp, subnormal results included: 1 / (1 + e^-x) with both sides of the division scaled
 * by 2^-30, which keeps e^-x in range for every x down to -104, where the result becomes 0. Above
 * 30 it is 1 in any case. The division rounds well enough for a polynomial one degree below exp's.
 */
MATH_DEFINE V MATH_FN(sigmoid)(V x) {
    V magic = V_SET(MATH_MAGIC + 97.0f), unit = V_SET(0x1p-30f);
    V y = V_MIN(V_SET(30.0f), V_MAX(V_SET(-104.0f), x));
    V t = V_FMA(y, V_SET(-MATH_LOG2E), magic);
    V k = t - magic;
    V r = V_FMA(k, V_SET(MATH_LN2_HIGH), y); /* e^-x = 2^k e^-r */
    r = V_FMA(k, V_SET(MATH_LN2_LOW), r);
    V p = V_SET(-8.2902757e-3f);
    p = V_FMA(p, r, V_SET(4.1898161e-2f));
    p = V_FMA(p, r, V_SET(-1.6667638e-1f));
    p = V_FMA(p, r, V_SET(4.9999148e-1f));
    p = V_FMA(p, r, V_SET(-9.9999971e-1f));
    p = V_FMA(p, r, V_SET(1.0f));
    return unit / V_FMA(p, V_POWER(V_BITS(t)), unit);
}

/* Within 4 ulp; odd, -0 included; never beyond 1. With u = e^2a - 1, tanh(a) = u / (u + 2), which
 * loses nothing where a is small: u = 2^k (e^2r - 1) + (2^k - 1), and the polynomial is the best
 * one for (e^2r - 1) / r. From 9.02 on the quotient is 1. */
MATH_DEFINE V MATH_FN(tanh)(V x) {
    V magic = V_SET(MATH_MAGIC + 127.0f);
    V a = V_MIN(V_SET(9.5f), V_FLOAT(V_BITS(x) & VI_SET(INT32_MAX)));
    V t = V_FMA(a, V_SET(2.0f * MATH_LOG2E), magic);
    V k = t - magic;
    V r = V_FMA(k, V_SET(-0.5f * MATH_LN2_HIGH), a);
    r = V_FMA(k, V_SET(-0.5f * MATH_LN2_LOW), r);
    V p = V_SET(8.8888813e-2f);
    p = V_FMA(p, r, V_SET(2.6781058e-1f));
    p = V_FMA(p, r, V_SET(6.6667418e-1f));
    p = V_FMA(p, r, V_SET(1.3333205f));
    p = V_FMA(p, r, V_SET(1.9999999f));
    p = V_FMA(p, r, V_SET(2.0f));
    V s = V_POWER(V_BITS(t));
    V u = V_FMA(p * r, s, s - V_SET(1.0f));
    V result = u / (u + V_SET(2.0f));
    return V_FLOAT(V_BITS(result) | (V_BITS(x) & VI_SET(INT32_MIN)));
}

#undef MATH_MAGIC
#undef MATH_MAGIC_BITS
#undef MATH_LOG2E
#undef MATH_LN2_HIGH
#undef MATH_LN2_LOW
