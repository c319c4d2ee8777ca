/* test_math.c - exp, log, sigmoid and tanh against libm in double, over numbers of every exponent
 * and both signs, and their exact values at the ends. */
#include "sample.h"

#include "op/math.h"

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

typedef struct function {
    const char *name;
    float (*ours)(float);
    double (*theirs)(double);
    double limit; /* in ulp: what math_body.h promises */
} function;

static const function functions[] = {
    {"exp", ebb__math_exp, exp, 1.1},
    {"log", ebb__math_log, log, 1.1},
    {"sigmoid", ebb__math_sigmoid, sigmoid64, 3},
    {"tanh", ebb__math_tanh, tanh, 2},
};

static void check(const function *f, float x) {
    double error = ulps(f->ours(x), f->theirs((double)x));
    if (!(error <= f->limit)) {
        fail_msg("%s(%a) = %a is %g ulp off", f->name, (double)x, (double)f->ours(x), error);
    }
}

static void every_exponent(void **state) {
    (void)state;
    for (size_t k = 0; k < sizeof functions / sizeof *functions; k++) {
        /* A stride prime to 2^23 meets all exponents and signs, NaN and infinity among them. */
        for (uint64_t bits = 0; bits <= UINT32_MAX; bits += 20011) {
            uint32_t word = (uint32_t)bits;
            float x;
            memcpy(&x, &word, sizeof x);
            check(&functions[k], x);
        }
    }
}

/* Densely where activations live, and around the edges of the methods. */
static void usual_range(void **state) {
    (void)state;
    static const float edges[] = {0.625f,     88.72284f,   89.0f,       87.33655f,
                                  103.97208f, 104.0f,      0.70710677f, 1.0f,
                                  1.4142135f, 0.34657359f, 9.010913f,   1.1754944e-38f};
    for (size_t k = 0; k < sizeof functions / sizeof *functions; k++) {
        for (int i = -200000; i <= 200000; i++) {
            check(&functions[k], (float)i * 1.1e-4f);
        }
        for (size_t e = 0; e < sizeof edges / sizeof *edges; e++) {
            float below = edges[e], above = edges[e];
            for (int i = 0; i < 50; i++) {
                check(&functions[k], below);
                check(&functions[k], above);
                check(&functions[k], -below);
                check(&functions[k], -above);
                below = nextafterf(below, 0.0f);
                above = nextafterf(above, INFINITY);
            }
        }
    }
}

static void exact_ends(void **state) {
    (void)state;
    assert_true(ebb__math_exp(0.0f) == 1.0f && ebb__math_exp(-0.0f) == 1.0f);
    assert_true(ebb__math_exp(-INFINITY) == 0.0f && ebb__math_exp(-200.0f) == 0.0f);
    assert_true(isinf(ebb__math_exp(INFINITY)) && isinf(ebb__math_exp(88.73f)));
    assert_true(ebb__math_exp(-100.0f) > 0.0f); /* a subnormal, not flushed */
    assert_true(ebb__math_log(1.0f) == 0.0f && ebb__math_log(0.0f) == -INFINITY);
    assert_true(ebb__math_log(-0.0f) == -INFINITY && ebb__math_log(INFINITY) == INFINITY);
    assert_true(isnan(ebb__math_log(-1.0f)) && isnan(ebb__math_log(-INFINITY)));
    assert_true(ebb__math_sigmoid(0.0f) == 0.5f && ebb__math_sigmoid(INFINITY) == 1.0f);
    assert_true(ebb__math_sigmoid(-INFINITY) == 0.0f && ebb__math_sigmoid(50.0f) == 1.0f);
    assert_true(ebb__math_tanh(INFINITY) == 1.0f && ebb__math_tanh(-INFINITY) == -1.0f);
    assert_true(ebb__math_tanh(20.0f) == 1.0f && ebb__math_tanh(-20.0f) == -1.0f);
    assert_true(ebb__math_tanh(0.0f) == 0.0f && !signbit(ebb__math_tanh(0.0f)));
    assert_true(ebb__math_tanh(-0.0f) == 0.0f && signbit(ebb__math_tanh(-0.0f)));
    for (size_t k = 0; k < sizeof functions / sizeof *functions; k++) {
        assert_true(isnan(functions[k].ours(NAN)));
    }
}

/* What training relies on: bounded, odd, monotone to within rounding. */
static void shapes(void **state) {
    (void)state;
    for (int i = 0; i <= 100000; i++) {
        float x = (float)i * 3e-4f;
        assert_true(ebb__math_tanh(-x) == -ebb__math_tanh(x));
        assert_true(ebb__math_tanh(x) <= 1.0f && ebb__math_sigmoid(x) <= 1.0f);
        assert_true(ebb__math_sigmoid(-x) >= 0.0f && ebb__math_exp(-x) <= 1.0f);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_exponent),
        cmocka_unit_test(usual_range),
        cmocka_unit_test(exact_ends),
        cmocka_unit_test(shapes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
