/* vmath.h - exp, log, sigmoid and tanh over the vectors of vec.h: the text of op/math_body.h, hence
 * the bits of ebb__math_exp and its kin in every lane. */
#ifndef DEVICE_CPU_VMATH_H
#define DEVICE_CPU_VMATH_H

#include "device/cpu/vec.h"

/* Always inlined, so that constants stay in registers over a loop. */
static INLINE vf v_exp(vf x);
static INLINE vf v_log(vf x);
static INLINE vf v_sigmoid(vf x);
static INLINE vf v_tanh(vf x);

#define MATH_FN(name) v_##name
#define V vf
#define VI vi
#define V_SET(x) v_all(x)
#define VI_SET(n) ((vi){0} + (n))
#define V_FMA(a, b, c) v_fma(a, b, c)
#define V_MAX(a, b) v_larger(a, b)
#define V_MIN(a, b) v_smaller(a, b)
#define V_LESS(a, b) ((vi)((a) < (b)))
#define V_SELECT(m, a, b) v_select(m, a, b)
#define V_BITS(v) ((vi)(v))
#define V_FLOAT(n) ((vf)(n))
#define V_POWER(n) ((vf)((vu)(n) << 23))
#include "op/math_body.h"
#undef MATH_FN
#undef V
#undef VI
#undef V_SET
#undef VI_SET
#undef V_FMA
#undef V_MAX
#undef V_MIN
#undef V_LESS
#undef V_SELECT
#undef V_BITS
#undef V_FLOAT
#undef V_POWER

#endif
