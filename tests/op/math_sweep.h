/* math_sweep.h - exp, log, sigmoid and tanh, scalars and vectors of the instruction set that the
 * includer is compiled for, against libm in double: numbers of every exponent and both signs, all
 * numbers around the edges of the methods, exact values at the ends. Vectors equal the scalars bit
 * for bit. Includers have a main() that calls math_sweep(). */
#include "sample.h"

#include "device/cpu/vmath.h"
#include "op/math.h"

enum { MANTISSAS = 2048, AROUND_EDGE = 3000 };

static double sigmoid64(double x) {
    return x < 0 ? exp(x) / (1 + exp(x)) : 1 / (1 + exp(-x));
}

/* Distance in units of the last place of the nearest float. */
static double ulps(float got, double want) {
    float nearest = (float)want;
    if (isnan(want) || isinf(nearest)) {
        bool same = isnan(want) ? isnan(got) : got == nearest;
        return same ? 0 : 1e9;
    }
    if (!isfinite(got)) {
        return 1e9;
    }
    double unit = (double)nextafterf(fabsf(nearest), INFINITY) - (double)fabsf(nearest);
    return fabs((double)got - want) / unit;
}

#define VECTOR(name)                                                                               \
    static void vector_##name(float *x) {                                                          \
        v_store(x, v_##name(v_load(x, VLEN)), VLEN);                                               \
    }
VECTOR(exp)
VECTOR(log)
VECTOR(sigmoid)
VECTOR(tanh)

typedef struct function {
    const char *name;
    float (*ours)(float);
    void (*vector)(float *x); /* VLEN numbers in place */
    double (*theirs)(double);
    double limit; /* in ulp: what math_body.h promises */
} function;

static const function functions[] = {
    {"exp", ebb__math_exp, vector_exp, exp, 1.1},
    {"log", ebb__math_log, vector_log, log, 1.1},
    {"sigmoid", ebb__math_sigmoid, vector_sigmoid, sigmoid64, 4},
    {"tanh", ebb__math_tanh, vector_tanh, tanh, 4},
};
enum { N_FUNCTIONS = sizeof functions / sizeof *functions };

/* VLEN numbers at once: they are collected until there are enough. */
typedef struct sweep {
    const function *f;
    int n;
    float x[VLEN];
} sweep;

static void sweep_flush(sweep *s) {
    float got[VLEN] = {0};
    memcpy(got, s->x, (size_t)s->n * sizeof *got);
    s->f->vector(got);
    for (int i = 0; i < s->n; i++) {
        float x = s->x[i], scalar = s->f->ours(x);
        double error = ulps(got[i], s->f->theirs((double)x));
        if (!(error <= s->f->limit)) {
            fail_msg("%s(%a) = %a is %g ulp off", s->f->name, (double)x, (double)got[i], error);
        }
        if (memcmp(&scalar, &got[i], sizeof scalar) != 0 && !(isnan(scalar) && isnan(got[i]))) {
            fail_msg("%s(%a): scalar %a, vector %a", s->f->name, (double)x, (double)scalar,
                     (double)got[i]);
        }
    }
    s->n = 0;
}

static void sweep_add(sweep *s, float x) {
    s->x[s->n++] = x;
    if (s->n == VLEN) {
        sweep_flush(s);
    }
}

/* Every exponent and sign, zero, subnormals, infinity and NaN among them, random mantissas. */
static void every_exponent(void **state) {
    (void)state;
    draw d = {7};
    for (int k = 0; k < N_FUNCTIONS; k++) {
        sweep s = {.f = &functions[k]};
        for (uint32_t top = 0; top < 512; top++) {
            for (int i = 0; i < MANTISSAS; i++) {
                uint32_t mantissa = i == 0 ? 0 : (uint32_t)(draw_bits(&d) >> 41);
                uint32_t word = top << 23 | mantissa;
                float x;
                memcpy(&x, &word, sizeof x);
                sweep_add(&s, x);
            }
        }
        sweep_flush(&s);
    }
}

/* Densely where activations live, and every number around the edges of the methods: where results
 * saturate, become subnormal, overflow or vanish, where a reduction goes to its next step. */
static void usual_range(void **state) {
    (void)state;
    static const float edges[] = {
        0.0f,        1.1754944e-38f, 0.17328680f, 0.34657359f, 0.51986039f, 0.70710677f, 1.0f,
        1.0397208f,  1.4142135f,     9.010913f,   9.5f,        16.635532f,  30.0f,       87.33655f,
        88.3762627f, 88.72284f,      89.0f,       103.97208f,  104.0f};
    for (int k = 0; k < N_FUNCTIONS; k++) {
        sweep s = {.f = &functions[k]};
        for (int i = -200000; i <= 200000; i++) {
            sweep_add(&s, (float)i * 1.1e-4f);
        }
        for (size_t e = 0; e < sizeof edges / sizeof *edges; e++) {
            float below = edges[e], above = edges[e];
            for (int i = 0; i < AROUND_EDGE; i++) {
                sweep_add(&s, below);
                sweep_add(&s, above);
                sweep_add(&s, -below);
                sweep_add(&s, -above);
                below = nextafterf(below, -INFINITY);
                above = nextafterf(above, INFINITY);
            }
        }
        sweep_flush(&s);
    }
}

/* What training relies on: bounded, odd. */
static void shapes(void **state) {
    (void)state;
    for (int i = 0; i <= 100000; i++) {
        float x = (float)i * 3e-4f;
        assert_true(ebb__math_tanh(-x) == -ebb__math_tanh(x));
        assert_true(ebb__math_tanh(x) <= 1.0f && ebb__math_sigmoid(x) <= 1.0f);
        assert_true(ebb__math_sigmoid(-x) >= 0.0f && ebb__math_exp(-x) <= 1.0f);
    }
}

static float first_lane(const function *f, float x) {
    float lanes[VLEN] = {x};
    f->vector(lanes);
    return lanes[0];
}

static void exact_ends(void **state) {
    (void)state;
    static const struct {
        int function; /* of the table */
        float x, y;
    } ends[] = {
        {0, 0.0f, 1.0f},         {0, -0.0f, 1.0f},        {0, -INFINITY, 0.0f},
        {0, -200.0f, 0.0f},      {0, INFINITY, INFINITY}, {0, 88.73f, INFINITY},
        {1, 1.0f, 0.0f},         {1, 0.0f, -INFINITY},    {1, -0.0f, -INFINITY},
        {1, INFINITY, INFINITY}, {1, -1.0f, NAN},         {1, -INFINITY, NAN},
        {2, 0.0f, 0.5f},         {2, -0.0f, 0.5f},        {2, INFINITY, 1.0f},
        {2, -INFINITY, 0.0f},    {2, 50.0f, 1.0f},        {2, -3e38f, 0.0f},
        {3, 0.0f, 0.0f},         {3, -0.0f, -0.0f},       {3, INFINITY, 1.0f},
        {3, -INFINITY, -1.0f},   {3, 20.0f, 1.0f},        {3, -20.0f, -1.0f},
        {3, 1e-45f, 1e-45f},     {3, -1e-45f, -1e-45f},   {0, NAN, NAN},
        {1, NAN, NAN},           {2, NAN, NAN},           {3, NAN, NAN},
        {0, -NAN, NAN},          {1, -NAN, NAN},          {2, -NAN, NAN},
        {3, -NAN, NAN},
    };
    for (size_t i = 0; i < sizeof ends / sizeof *ends; i++) {
        const function *f = &functions[ends[i].function];
        const float got[] = {f->ours(ends[i].x), first_lane(f, ends[i].x)};
        for (int k = 0; k < 2; k++) {
            bool same = isnan(ends[i].y) ? isnan(got[k]) : memcmp(&got[k], &ends[i].y, 4) == 0;
            if (!same) {
                fail_msg("%s(%a) = %a, not %a", f->name, (double)ends[i].x, (double)got[k],
                         (double)ends[i].y);
            }
        }
    }
    assert_true(ebb__math_exp(-100.0f) > 0.0f); /* subnormal, not flushed */
    assert_true(ebb__math_sigmoid(-100.0f) > 0.0f);
}

static int math_sweep(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_exponent),
        cmocka_unit_test(usual_range),
        cmocka_unit_test(exact_ends),
        cmocka_unit_test(shapes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
