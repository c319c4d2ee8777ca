/* test_loss.c - exponentials in the kernels of the loss: a sweep over all magnitudes, both signs,
 * in vectors near zero, in vectors far out and in mixed ones, against the references. */
#include "sample.h"

#include "device/device.h"

enum { COLS = 999, ROWS = 700, LABEL = 500 };

typedef struct logits {
    float x[ROWS][COLS], want[ROWS][COLS], got[ROWS][COLS];
    float want_loss[2][ROWS], got_loss[2][ROWS], lse[ROWS], d[ROWS];
    int32_t labels[ROWS];
} logits;

static bool same(const float *a, const float *b, size_t count) {
    for (size_t i = 0; i < count; i++) {
        if (memcmp(a + i, b + i, sizeof *a) != 0 && !(isnan(a[i]) && isnan(b[i]))) {
            return false;
        }
    }
    return true;
}

static op_view list(void *data, ir_dtype dtype) {
    return (op_view){data, {dtype, 1, {ROWS}}, ROWS};
}

static op_view matrix(void *data) {
    return (op_view){data, {IR_F32, 2, {ROWS, COLS}}, COLS};
}

static void run(logits *t, op_kernel_fn xent, op_kernel_fn grad, float (*loss)[ROWS], void *dx) {
    const ir_attr none = {{0}, {0}};
    op_view in[] = {matrix(t->x), list(t->labels, IR_I32), list(t->lse, IR_F32),
                    list(t->d, IR_F32)};
    op_view losses[] = {list(loss[0], IR_F32), list(loss[1], IR_F32)}, out = matrix(dx);
    op_call call = {.in = in, .out = losses, .n_in = 2, .n_out = 2, .attr = &none, .members = 1};
    xent(&call);
    call = (op_call){.in = in, .out = &out, .n_in = 4, .n_out = 1, .attr = &none, .members = 1};
    grad(&call);
}

static void check(logits *t) {
    const device *dev = ebb__device_default();
    run(t, ebb__op(OP_XENT)->ref, ebb__op(OP_XENT_GRAD)->ref, t->want_loss, t->want);
    int checked = 0;
    for (int32_t k = 0; k < dev->n_kernels; k++) {
        if (dev->kernels[k].op != OP_XENT) {
            continue;
        }
        op_case c;
        case_open(&c, OP_XENT, &ebb__op(OP_XENT)->samples[0]);
        bool accepts = dev->kernels[k].accept(&c.graph, &c.node) == NULL;
        case_close(&c);
        /* Each instruction set has both. */
        int32_t g = k;
        while (dev->kernels[g].op != OP_XENT_GRAD) {
            g++;
        }
        if (accepts) {
            run(t, dev->kernels[k].run, dev->kernels[g].run, t->got_loss, t->got);
            assert_true(same(t->got[0], t->want[0], (size_t)ROWS * COLS));
            assert_true(same(t->got_loss[0], t->want_loss[0], (size_t)2 * ROWS));
            checked++;
        }
    }
    assert_true(checked > 0);
}

static void fill_rows(logits *t) {
    for (int32_t r = 0; r < ROWS; r++) {
        t->labels[r] = LABEL;
        t->lse[r] = 0;
        t->d[r] = 1;
    }
}

/* Every 571th float of [2^-40, 128), of both signs. */
static void sweep(void **state) {
    logits *t = *state;
    fill_rows(t);
    for (int sign = 0; sign < 2; sign++) {
        uint32_t bits = 0x2b800000u;
        for (int64_t i = 0; i < (int64_t)ROWS * COLS; i++, bits += 571) {
            uint32_t b = (bits < 0x43000000u ? bits : 0x43000000u) | (uint32_t)sign << 31;
            memcpy(&t->x[i / COLS][i % COLS], &b, sizeof b);
        }
        assert_true(bits > 0x43000000u);
        check(t);
    }
}

/* Vectors of which some lanes are out of the near range. */
static void mixed(void **state) {
    static const float odd[] = {INFINITY, -INFINITY, NAN,     -87.4f, -103.9f, -104.5f,
                                88.7f,    88.8f,     85.999f, 86.0f,  86.1f,   -86.0f,
                                -85.99f,  -0.0f,     0.0f,    1e-42f, 3e38f,   -3e38f};
    logits *t = *state;
    draw d = {9};
    fill_rows(t);
    for (int32_t r = 0; r < ROWS; r++) {
        for (int32_t j = 0; j < COLS; j++) {
            size_t n = sizeof odd / sizeof *odd;
            bool out = draw_bits(&d) % 40 == 0;
            t->x[r][j] = out ? odd[(draw_bits(&d) + (size_t)r) % n] : (float)draw_normal(&d) * 5;
        }
        t->lse[r] = r % 3 == 0 ? 2.5f : 0.0f;
        t->d[r] = r % 5 == 0 ? INFINITY : 0.01f;
        t->labels[r] = r % 7 == 0 ? -1 : r % COLS;
    }
    check(t);
}

static int open_logits(void **state) {
    *state = calloc(1, sizeof(logits));
    return *state == NULL;
}

static int close_logits(void **state) {
    free(*state);
    return 0;
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(sweep), cmocka_unit_test(mixed)};
    return cmocka_run_group_tests(tests, open_logits, close_logits);
}
