/* test_top.c - the largest logits of a row: the reference against a sort of the whole row and sums
 * in double, every kernel against the reference bit for bit for 1 to 3 members. Rows of random
 * numbers, of many equal ones, sorted either way, with infinities, NaN and zeros of both signs. */
#include "sample.h"

#include "device/device.h"
#include "op/define.h"
#include "support/twin.h"

enum { ROWS = 7, ROUNDS = 3 };

/* ---- rows ---- */

typedef enum row_kind {
    ROW_NORMAL,
    ROW_TIES, /* a few different numbers */
    ROW_CONSTANT,
    ROW_UP,
    ROW_DOWN,
    ROW_OUTLIER,  /* one far above all others */
    ROW_ZEROS,    /* of both signs, and smaller numbers */
    ROW_HOLES,    /* mostly -inf */
    ROW_NO_FLOOR, /* nothing but -inf */
    ROW_SOME_NAN,
    ROW_ALL_NAN,
    ROW_HUGE, /* the ends of the range, +inf among them */
    ROW_KINDS
} row_kind;

static double element(row_kind kind, int64_t j, int64_t n, draw *d) {
    static const double huge[] = {(double)INFINITY, 3.4e38, -3.4e38, -(double)INFINITY, 0};
    uint64_t bits = draw_bits(d);
    double x = 3 * draw_normal(d);
    switch (kind) {
    case ROW_TIES:
        return (double)(bits % 4);
    case ROW_CONSTANT:
        return -2.5;
    case ROW_UP:
        return (double)j / 64;
    case ROW_DOWN:
        return (double)-j / 64;
    case ROW_OUTLIER:
        return j == n / 2 ? 1e30 : x;
    case ROW_ZEROS:
        return bits % 3 == 0 ? 0.0 : bits % 3 == 1 ? -0.0 : -200.0;
    case ROW_HOLES:
        return bits % 32 == 0 ? x : -(double)INFINITY;
    case ROW_NO_FLOOR:
        return -(double)INFINITY;
    case ROW_SOME_NAN:
        return bits % 4 == 0 ? (double)NAN : x;
    case ROW_ALL_NAN:
        return (double)NAN;
    case ROW_HUGE:
        return huge[bits % 5];
    default:
        return x;
    }
}

/* ---- the same another way ---- */

typedef struct entry {
    double x;
    int32_t at;
} entry;

static int by_size(const void *a, const void *b) {
    const entry *p = a, *q = b;
    if (isnan(p->x) != isnan(q->x)) {
        return isnan(p->x) ? 1 : -1;
    }
    if (p->x != q->x && !isnan(p->x)) {
        return p->x > q->x ? -1 : 1;
    }
    return p->at < q->at ? -1 : 1;
}

static void check_row(const op_data *data, int64_t r) {
    int64_t n = ir_cols(&data->in[0].view.type), k = ir_cols(&data->out[0].view.type);
    entry *sorted = calloc((size_t)n, sizeof *sorted);
    assert_non_null(sorted);
    for (int64_t j = 0; j < n; j++) {
        sorted[j] = (entry){tensor_get(&data->in[0], r * n + j), (int32_t)j};
    }
    qsort(sorted, (size_t)n, sizeof *sorted, by_size);
    double sum = 0;
    for (int64_t j = 0; j < n; j++) {
        sum += exp(sorted[j].x - sorted[0].x);
    }
    for (int64_t i = 0; i < k; i++) {
        double want = (double)(float)(sorted[i].x - sorted[0].x - log(sum));
        double got = tensor_get(&data->out[0], r * k + i);
        int32_t at;
        memcpy(&at, tensor_at(&data->out[1], r, i), sizeof at);
        assert_int_equal(at, sorted[i].at);
        bool close = isfinite(want) ? fabs(got - want) <= 2e-6 * (1 + fabs(want))
                     : isnan(want)  ? isnan(got)
                                    : got == want;
        if (!close) {
            fail_msg("%lld columns: logarithm %lld of %lld is %.9g, not %.9g", (long long)n,
                     (long long)i, (long long)k, got, want);
        }
    }
    free(sorted);
}

/* ---- kernels ---- */

static void check_kernels(const op_case *c, const op_data *want) {
    const device *dev = ebb__device_default();
    int checked = 0;
    for (int32_t i = 0; i < dev->n_kernels; i++) {
        const device_kernel *kernel = &dev->kernels[i];
        if (kernel->op != OP_TOP_LOGS || kernel->accept(&c->graph, &c->node) != NULL) {
            continue;
        }
        for (int members = 1; members <= 3; members++) {
            op_data got = data_make(c, false, members - 1, 1.0, 1);
            op_views v;
            tensor_copy(&got.in[0], &want->in[0]);
            views_of(&v, c, &got, 0);
            v.call.members = members;
            for (v.call.member = 0; v.call.member < members; v.call.member++) {
                kernel->run(&v.call);
            }
            for (int32_t out = 0; out < 2; out++) {
                if (!tensor_same(&got.out[out], &want->out[out])) {
                    fail_msg("%s: %d columns, k %d, %d members: result %d differs", kernel->name,
                             (int)ir_cols(&c->sample->in[0]), c->sample->attr.i[0], members, out);
                }
            }
            assert_true(data_guarded(&got));
            data_free(&got);
        }
        checked++;
    }
    assert_true(checked > 0);
}

static void check_shape(int32_t cols, int32_t k, uint64_t seed) {
    const op_sample sample = {.n_in = 1, .in = {F2(ROWS, cols)}, .attr = {.i = {k}}};
    draw d = {seed};
    op_case c;
    case_open(&c, OP_TOP_LOGS, &sample);
    op_data data = data_make(&c, false, 0, 1.0, seed);
    for (int32_t r = 0; r < ROWS; r++) {
        row_kind kind = (row_kind)((seed + (uint64_t)r) % ROW_KINDS);
        for (int32_t j = 0; j < cols; j++) {
            tensor_set(&data.in[0], r * cols + j, element(kind, j, cols, &d));
        }
    }
    op_views v;
    views_of(&v, &c, &data, 0);
    c.op->ref(&v.call);
    for (int64_t r = 0; r < ROWS; r++) {
        check_row(&data, r);
    }
    check_kernels(&c, &data);
    data_free(&data);
    case_close(&c);
}

/* Widths on both sides of steps of 16 and 64, and of where kernels begin to use bounds. */
static void shapes(void **state) {
    (void)state;
    static const int32_t widths[] = {1,   2,   7,   15,  16,  17,  63,  64,  65,  100,  127,
                                     128, 129, 191, 192, 255, 256, 257, 300, 511, 1003, 5000};
    static const int32_t ks[] = {1, 2, 3, 10, 31, 32, 33, 64, 65, 96, 127, 128};
    uint64_t seed = 1;
    for (size_t w = 0; w < sizeof widths / sizeof *widths; w++) {
        for (size_t i = 0; i < sizeof ks / sizeof *ks; i++) {
            for (int round = 0; ks[i] <= widths[w] && round < ROUNDS; round++) {
                check_shape(widths[w], ks[i], seed++);
            }
        }
        int32_t all = widths[w] < 128 ? widths[w] : 128;
        check_shape(widths[w], all, seed++);
    }
}

/* Every kind of row is met at every kind of width. */
static void kinds(void **state) {
    (void)state;
    static const int32_t widths[] = {5, 70, 700};
    for (size_t w = 0; w < sizeof widths / sizeof *widths; w++) {
        for (uint64_t seed = 1000; seed < 1000 + ROW_KINDS; seed++) {
            check_shape(widths[w], (int32_t)(1 + seed % 5), seed);
        }
    }
}

static void by_hand(void **state) {
    (void)state;
    const op_sample sample = {.n_in = 1, .in = {F2(2, 4)}, .attr = {.i = {3}}};
    const double logits[] = {0, log(2), 0, log(4), (double)NAN, 1, (double)NAN, (double)NAN};
    const int32_t at[] = {3, 1, 0, 1, 0, 2};
    op_case c;
    op_views v;
    case_open(&c, OP_TOP_LOGS, &sample);
    op_data data = data_make(&c, false, 0, 1.0, 1);
    for (int64_t i = 0; i < 8; i++) {
        tensor_set(&data.in[0], i, logits[i]);
    }
    views_of(&v, &c, &data, 0);
    c.op->ref(&v.call);
    assert_memory_equal(data.out[1].view.data, at, sizeof at);
    for (int64_t i = 0; i < 3; i++) {
        assert_true(fabs(tensor_get(&data.out[0], i) - log((i == 0 ? 4.0 : 2.0 / (double)i) / 8)) <
                    1e-6);
        assert_true(isnan(tensor_get(&data.out[0], 3 + i)));
    }
    data_free(&data);
    case_close(&c);
}

/* In a program, with and without the rows of the logits in chunks: the interpreter's bits, and less
 * memory. */
static void chunked(void **state) {
    (void)state;
    static const char *const text = "param %0 f32[300,8] \"w\"\ninput %1 f32[80,8] \"x\"\n"
                                    "%2:f32[80,300] = matmul - %1 %0 {trans_b=1}\n"
                                    "%3:f32[80,6], %4:i32[80,6] = top_logs %2 {k=6}\n"
                                    "output %3 \"logs\"\noutput %4 \"ids\"\n";
    ebb_ctx *ctx = test_ctx_new();
    uint64_t bytes[2];
    for (int i = 0; i < 2; i++) {
        ir_graph graph;
        const pass_config config = {.members = 2, .knobs.chunk_rows = i == 0 ? 0 : 8};
        test_parse(ctx, text, &graph);
        ebb_plan *plan = test_compile(
            ctx, &(plan_request){.name = "t", .graph = &graph, .training = false}, &config);
        bytes[i] = plan->peak_bytes;
        test_run_equal(plan, &graph, false, &config.update, 3, 2);
        ebb__ir_fini(&graph);
    }
    assert_true(bytes[1] + 30000 < bytes[0]);
    test_ctx_free(ctx);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(by_hand), cmocka_unit_test(shapes),
                                       cmocka_unit_test(kinds), cmocka_unit_test(chunked)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
