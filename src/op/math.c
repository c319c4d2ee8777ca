/* math.c - the scalar functions: math_body.h over float. */
#include "op/math.h"

#include <math.h>
#include <stdint.h>
#include <string.h>

static inline int32_t bits_of(float x) {
    int32_t n;
    memcpy(&n, &x, sizeof n);
    return n;
}

static inline float float_of(int32_t n) {
    float x;
    memcpy(&x, &n, sizeof x);
    return x;
}

static inline float max_of(float a, float b) {
    return a > b ? a : b;
}

static inline float min_of(float a, float b) {
    return a < b ? a : b;
}

#define MATH_FN(name) scalar_##name
#define V float
#define VI int32_t
#define V_SET(x) (x)
#define VI_SET(n) (n)
#define V_FMA(a, b, c) fmaf(a, b, c)
#define V_MAX(a, b) max_of(a, b)
#define V_MIN(a, b) min_of(a, b)
#define V_LESS(a, b) (-(int32_t)((a) < (b)))
#define V_SELECT(m, a, b) ((m) ? (a) : (b))
#define V_BITS(v) bits_of(v)
#define V_FLOAT(n) float_of(n)
#define V_POWER(n) float_of((int32_t)((uint32_t)(n) << 23))
#include "op/math_body.h"

float ebb__math_exp(float x) {
    return scalar_exp(x);
}
float ebb__math_log(float x) {
    return scalar_log(x);
}
float ebb__math_sigmoid(float x) {
    return scalar_sigmoid(x);
}
float ebb__math_tanh(float x) {
    return scalar_tanh(x);
}
