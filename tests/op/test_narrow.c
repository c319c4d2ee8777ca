/* test_narrow.c - formats of few bits: every code of each against a table worked out another way,
 * rounding against a search of that table for numbers of every size and between all neighbours, the
 * ends of the formats as IEEE and others have them; kernels too, which have samples elsewhere. */
#include "sample.h"

#include "device/device.h"
#include "op/define.h"
#include "op/narrow.h"

enum { MOST = 1 << 16 };

typedef struct format {
    int32_t bits, mantissa, bias;
    double largest;
} format;
static const format formats[] = {{16, 10, 15, 65504}, {10, 4, 15, 63488}, {8, 3, 7, 448}};
enum { FORMATS = sizeof formats / sizeof *formats };

/* All numbers of a format that are 0 or more, ascending; the index of each is its code. */
static int32_t list_numbers(const format *f, double *list) {
    int32_t n = 0;
    double unit = 1;
    for (int i = 0; i < f->bias + f->mantissa - 1; i++) {
        unit /= 2;
    }
    list[0] = 0;
    while (list[n] < f->largest) { /* the step doubles after every 2^mantissa from the second on */
        n++;
        list[n] = list[n - 1] + unit;
        unit *= n % (1 << f->mantissa) == 0 && n >> f->mantissa > 1 ? 2 : 1;
    }
    assert_true(list[n] == f->largest);
    return n + 1;
}

/* The code of the nearest, of two the even one. */
static int32_t nearest(const double *list, int32_t n, double size) {
    int32_t lo = 0, hi = n - 1;
    if (size >= list[hi]) {
        return hi;
    }
    while (hi - lo > 1) { /* list[lo] <= size < list[hi] */
        int32_t middle = (lo + hi) / 2;
        *(list[middle] <= size ? &lo : &hi) = middle;
    }
    double below = size - list[lo], above = list[hi] - size;
    return below < above || (below == above && lo % 2 == 0) ? lo : hi;
}

/* ---- one op, by its reference and all its kernels ---- */

static op_view view_of(void *data, ir_dtype dtype, int64_t columns) {
    return (op_view){data, {dtype, 2, {1, (int32_t)columns}}, (int32_t)columns};
}

/* Number -1 is the reference, others are kernels; false: there is none of this number. */
static bool run(op_code op, int32_t number, int32_t bits, int64_t n, op_view in, op_view out) {
    const device *dev = ebb__device_default();
    const ir_attr widened = {.i = {bits, 2, (int32_t)n}}, plain = {.i = {bits}};
    const ir_attr attr = op == OP_WIDEN ? widened : plain;
    const op_call call = {
        .in = &in, .out = &out, .n_in = 1, .n_out = 1, .attr = &attr, .members = 1};
    if (number < 0) {
        ebb__op((int)op)->ref(&call);
        return true;
    }
    for (int32_t k = 0; k < dev->n_kernels; k++) {
        if (dev->kernels[k].op == op && dev->kernels[k].accept(NULL, NULL) == NULL &&
            number-- == 0) {
            dev->kernels[k].run(&call);
            return true;
        }
    }
    return false;
}

static uint32_t bits_of(float x) {
    uint32_t bits;
    memcpy(&bits, &x, sizeof bits);
    return bits;
}

/* ---- tests ---- */

static float numbers[2 * MOST], rounded[2 * MOST], back[2 * MOST];
static double list[MOST];
static uint16_t codes[4 * MOST];

/* Rounds `n` of `numbers` to a format, in all ways, there and back, and looks each up. */
static void check_numbers(const format *f, int64_t n) {
    op_format kept = op_format_of(f->bits);
    int64_t wide = op_format_wide(&kept, n);
    int32_t count = list_numbers(f, list), ways = 0;
    op_view in = view_of(numbers, IR_F32, n), out = view_of(rounded, IR_F32, n);
    op_view code = view_of(codes, op_format_dtype(&kept), wide), y = view_of(back, IR_F32, n);
    for (; run(OP_ROUND_TO, ways - 1, f->bits, n, in, out); ways++) {
        assert_true(run(OP_NARROW, ways - 1, f->bits, n, in, code));
        assert_true(run(OP_WIDEN, ways - 1, f->bits, n, code, y));
        for (int64_t i = 0; i < n; i++) {
            float x = numbers[i];
            double size = fabs((double)x);
            bool same = isnan(x) ? isnan(rounded[i]) && isnan(back[i])
                                 : bits_of(rounded[i]) == bits_of(back[i]) &&
                                       signbit(x) == signbit(rounded[i]) &&
                                       fabs((double)rounded[i]) == list[nearest(list, count, size)];
            if (!same) {
                fail_msg("format %d, way %d: %.9g becomes %.9g and %.9g", f->bits, ways, (double)x,
                         (double)rounded[i], (double)back[i]);
            }
        }
    }
    assert_true(ways >= 2);
}

static void any_number(void **state) {
    (void)state;
    draw d = {77};
    for (int k = 0; k < FORMATS; k++) {
        for (int64_t i = 0; i < 2 * MOST; i++) { /* half of them bits of any kind */
            uint32_t bits = (uint32_t)draw_bits(&d);
            float wild;
            memcpy(&wild, &bits, sizeof wild);
            numbers[i] = i % 2 == 0 ? wild : (float)ldexp(draw_normal(&d), (int)(i / 2 % 48) - 30);
        }
        numbers[0] = INFINITY;
        numbers[1] = -INFINITY;
        numbers[2] = NAN;
        numbers[3] = -0.0f;
        check_numbers(&formats[k], 2 * MOST - 1);
    }
}

/* Every number of a format, the middle to the next, and what is just beside that. */
static void neighbours(void **state) {
    (void)state;
    for (int k = 0; k < FORMATS; k++) {
        int32_t count = list_numbers(&formats[k], list);
        int64_t n = 0;
        for (int32_t i = 0; i < count; i++) {
            double gap = i + 1 < count ? list[i + 1] - list[i] : list[i] - list[i - 1];
            float middle = (float)(list[i] + gap / 2), sign = i % 2 == 0 ? 1.0f : -1.0f;
            numbers[n++] = sign * (float)list[i];
            numbers[n++] = sign * middle;
            numbers[n++] = sign * nextafterf(middle, 0);
            numbers[n++] = sign * nextafterf(middle, INFINITY);
        }
        check_numbers(&formats[k], n);
    }
}

/* Codes to numbers and back, all of them. */
static void every_code(void **state) {
    (void)state;
    for (int k = 0; k < FORMATS; k++) {
        const format *f = &formats[k];
        op_format kept = op_format_of(f->bits);
        int64_t n = (int64_t)1 << f->bits, wide = op_format_wide(&kept, n);
        int32_t count = list_numbers(f, list), half = (int32_t)(n / 2), ways = 0;
        op_view code = view_of(codes, op_format_dtype(&kept), wide);
        op_view y = view_of(rounded, IR_F32, n);
        for (int64_t i = 0; i < n; i++) { /* by numbers, since codes of 10 bits lie in words */
            int64_t of = i % half;
            numbers[i] = of < count ? (float)list[of] : NAN;
            numbers[i] = i < half ? numbers[i] : -numbers[i];
        }
        for (; run(OP_NARROW, ways - 1, f->bits, n, view_of(numbers, IR_F32, n), code); ways++) {
            for (int64_t i = 0; i < n && f->bits != 10; i++) {
                int64_t got = f->bits == 16 ? codes[i] : ((const uint8_t *)codes)[i];
                assert_int_equal(got, i % half < count ? i : i / half * half + half - 1);
            }
            assert_true(run(OP_WIDEN, ways - 1, f->bits, n, code, y));
            for (int64_t i = 0; i < n; i++) {
                assert_true(isnan(numbers[i]) ? isnan(rounded[i])
                                              : bits_of(numbers[i]) == bits_of(rounded[i]));
            }
        }
    }
}

/* What numpy's float16 and PyTorch's float8_e4m3fn give, where they do not leave the format. */
static void known_numbers(void **state) {
    (void)state;
    static const struct {
        int32_t bits;
        float x, want;
    } known[] = {
        {16, 65504, 65504},
        {16, 65519.99f, 65504},
        {16, 1e30f, 65504},
        {16, -INFINITY, -65504},
        {16, 0x1p-24f, 0x1p-24f},
        {16, 0x1p-25f, 0},
        {16, 0x1.000002p-25f, 0x1p-24f},
        {16, 0x1.004p0f, 0x1.004p0f},
        {16, 0x1.002p0f, 1},
        {16, 0x1.006p0f, 0x1.008p0f},
        {16, 0.1f, 0.0999755859375f},
        {16, 3.14159265f, 3.140625f},
        {10, 63488, 63488},
        {10, 1e9f, 63488},
        {10, 0x1p-18f, 0x1p-18f},
        {10, 1.03125f, 1},
        {10, 1.09375f, 1.125f},
        {10, 0.1f, 0.1015625f},
        {8, 448, 448},
        {8, 464, 448},
        {8, 1e9f, 448},
        {8, 17, 16},
        {8, 19, 20},
        {8, 0x1p-9f, 0x1p-9f},
        {8, 0x1p-10f, 0},
        {8, 0.1f, 0.1015625f},
        {8, 240, 240},
        {8, 250, 256},
        {8, -0.0f, -0.0f},
    };
    for (size_t i = 0; i < sizeof known / sizeof *known; i++) {
        float x = known[i].x, y = 0;
        run(OP_ROUND_TO, -1, known[i].bits, 1, view_of(&x, IR_F32, 1), view_of(&y, IR_F32, 1));
        if (bits_of(y) != bits_of(known[i].want)) {
            fail_msg("format %d: %.9g becomes %.9g, not %.9g", known[i].bits, (double)x, (double)y,
                     (double)known[i].want);
        }
    }
}

/* Of 5 numbers, words have the 1st, 3rd and 5th, and the 2nd and 4th; of 24, every eighth. */
static void words_of_three(void **state) {
    (void)state;
    static const uint16_t small[] = {1, 2, 3, 4, 5};
    uint8_t words[32];
    float x[24];
    for (int i = 0; i < 24; i++) {
        x[i] = ldexpf((float)(i < 5 ? small[i] : i + 1), -18);
    }
    run(OP_NARROW, -1, 10, 5, view_of(x, IR_F32, 5), view_of(words, IR_U8, 8));
    const uint8_t five[] = {1, 3 << 2, 5 << 4, 0, 2, 4 << 2, 0, 0};
    assert_memory_equal(words, five, sizeof five);
    for (int i = 0; i < 24; i++) {
        x[i] = ldexpf((float)(i % 16), -18); /* subnormals: codes are what they count */
    }
    run(OP_NARROW, -1, 10, 24, view_of(x, IR_F32, 24), view_of(words, IR_U8, 32));
    for (int i = 0; i < 8; i++) {
        uint32_t want = (uint32_t)(i | (i + 8) << 10 | i << 20);
        assert_int_equal(words[4 * i] | words[4 * i + 1] << 8 | words[4 * i + 2] << 16 |
                             words[4 * i + 3] << 24,
                         want);
    }
}

/* Of numbers that are not below 0, marked codes tell which are above it, also of those that are 0
 * when rounded. */
static void marks(void **state) {
    (void)state;
    float x[] = {0, 1e-9F, 1, NAN}, dy[] = {5, 6, 7, 8}, dx[4];
    for (int k = 0; k < FORMATS; k++) {
        uint16_t room[8] = {0};
        ir_dtype dtype = formats[k].bits == 16 ? IR_U16 : IR_U8;
        int64_t wide = formats[k].bits == 10 ? 8 : 4;
        const ir_attr marked = {.i = {formats[k].bits, 1}};
        op_view from = view_of(x, IR_F32, 4), code = view_of(room, dtype, wide);
        op_view in[] = {view_of(dy, IR_F32, 4), code}, out = view_of(dx, IR_F32, 4);
        op_call call = {.in = &from, .out = &code, .n_in = 1, .n_out = 1, .attr = &marked};
        ebb__op(OP_NARROW)->ref(&call);
        call.in = in;
        call.n_in = 2;
        call.out = &out;
        ebb__op(OP_RELU_GRAD_CODES)->ref(&call);
        const float want[] = {0, 6, 7, 0};
        assert_memory_equal(dx, want, sizeof want);
    }
}

/* The functions that graphs are made with: what is widened has the type of what was narrowed. */
static void there_and_back(void **state) {
    (void)state;
    static const op_sample sample = {IN(MAP(3, 2, 3, 2, 5, 3))};
    for (int k = 0; k < FORMATS; k++) {
        op_case c;
        ir_val y, code, again;
        case_open(&c, OP_RELU, &sample);
        const ir_type type = c.sample->in[0];
        assert_int_equal(ebb__op_round_to(&c.graph, c.in[0], formats[k].bits, &y), EBB_OK);
        assert_int_equal(ebb__op_narrow(&c.graph, y, formats[k].bits, false, &code), EBB_OK);
        assert_int_equal(ebb__op_widen(&c.graph, code, formats[k].bits, &type, &again), EBB_OK);
        assert_true(ebb__ir_type_equal(&c.graph.values[again].type, &type));
        assert_int_equal(ebb__op_verify(&c.graph), EBB_OK);
        case_close(&c);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(any_number),     cmocka_unit_test(neighbours),
        cmocka_unit_test(every_code),     cmocka_unit_test(known_numbers),
        cmocka_unit_test(words_of_three), cmocka_unit_test(marks),
        cmocka_unit_test(there_and_back),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
