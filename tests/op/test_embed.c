/* test_embed.c - an embedding's gradient read by rows gives, in every kernel, the bits of the
 * references of embed_grad followed by sum_squares or sgd: zeros of both signs, infinities, NaN,
 * rates and factors of any kind; and the ids may be all one, all different or anything between. */
#include "sample.h"

#include "device/device.h"

enum { VOCAB = 211, COLS = 83, ROWS = 120, BLOCKS = 3 };

static const float odd[] = {0.0f, -0.0f, INFINITY, -INFINITY, NAN, 1e-42f, -1e-42f, 3e38f, -3e38f};

typedef struct world {
    float w[VOCAB][COLS], dx[ROWS][COLS], g[VOCAB][COLS], want[VOCAB][COLS], got[VOCAB][COLS];
    double want_squares[BLOCKS], got_squares[BLOCKS];
    int32_t ids[ROWS];
    float scale, hyper[4];
    int32_t workspace[8 * ROWS * 2];
} world;

static op_view view2(void *data, int32_t rows, int32_t cols) {
    return (op_view){data, {IR_F32, 2, {rows, cols}}, cols};
}

static op_view view1(void *data, ir_dtype dtype, int32_t count) {
    return (op_view){data, {dtype, 1, {count}}, count};
}

/* words: how many ids may occur, the last of the vocabulary; spoil: how many elements of w and dx
 * are odd. */
static void fill(world *x, int32_t words, int spoil, uint64_t seed) {
    draw d = {seed};
    for (int32_t r = 0; r < ROWS; r++) {
        x->ids[r] = VOCAB - 1 - (int32_t)(draw_bits(&d) % (uint64_t)words);
        for (int32_t j = 0; j < COLS; j++) {
            x->dx[r][j] = (float)draw_normal(&d);
        }
    }
    for (int32_t v = 0; v < VOCAB; v++) {
        for (int32_t j = 0; j < COLS; j++) {
            x->w[v][j] = (float)draw_normal(&d);
        }
    }
    for (int i = 0; i < spoil; i++) {
        size_t n = sizeof odd / sizeof *odd;
        x->w[draw_bits(&d) % VOCAB][draw_bits(&d) % COLS] = odd[draw_bits(&d) % n];
        x->dx[draw_bits(&d) % ROWS][draw_bits(&d) % COLS] = odd[draw_bits(&d) % n];
    }
}

static bool same(const void *a, const void *b, size_t count, bool wide) {
    for (size_t i = 0; i < count; i++) {
        double x = wide ? ((const double *)a)[i] : (double)((const float *)a)[i];
        double y = wide ? ((const double *)b)[i] : (double)((const float *)b)[i];
        if (memcmp(&x, &y, sizeof x) != 0 && !(isnan(x) && isnan(y))) {
            return false;
        }
    }
    return true;
}

static void run(op_code op, op_kernel_fn kernel, const op_view *in, int32_t n_in,
                const op_view *out, const ir_attr *attr, int members, void *workspace) {
    assert_int_equal(ebb__op((int)op)->n_in, n_in);
    for (int member = 0; member < members; member++) {
        kernel(&(op_call){.in = in,
                          .out = out,
                          .n_in = n_in,
                          .n_out = 1,
                          .attr = attr,
                          .workspace = workspace,
                          .member = member,
                          .members = members});
    }
}

/* The whole gradient first, by the references. */
static void run_whole(world *x, bool scaled) {
    const ir_attr vocab = {.i = {VOCAB}}, none = {{0}, {0}};
    const op_view absent = {NULL, {IR_F32, 1, {1}}, 1};
    op_view g = view2(x->g, VOCAB, COLS), want = view2(x->want, VOCAB, COLS);
    op_view squares = view1(x->want_squares, IR_F64, BLOCKS);
    op_view rows[] = {absent, view1(x->ids, IR_I32, ROWS), view2(x->dx, ROWS, COLS)};
    op_view update[] = {view2(x->w, VOCAB, COLS), g, scaled ? view1(&x->scale, IR_F32, 1) : absent,
                        view1(x->hyper, IR_F32, 4)};
    run(OP_EMBED_GRAD, ebb__op(OP_EMBED_GRAD)->ref, rows, 3, &g, &vocab, 1, NULL);
    run(OP_SUM_SQUARES, ebb__op(OP_SUM_SQUARES)->ref, &g, 1, &squares, &none, 1, NULL);
    run(OP_SGD, ebb__op(OP_SGD)->ref, update, 4, &want, &none, 1, NULL);
}

static void check_by_rows(world *x, bool scaled, op_kernel_fn squares_fn, op_kernel_fn sgd_fn,
                          int members) {
    const ir_attr vocab = {.i = {VOCAB}}, none = {{0}, {0}};
    const op_view absent = {NULL, {IR_F32, 1, {1}}, 1};
    op_view got = view2(x->got, VOCAB, COLS), squares = view1(x->got_squares, IR_F64, BLOCKS);
    op_view ids = view1(x->ids, IR_I32, ROWS), dx = view2(x->dx, ROWS, COLS);
    op_view rows[] = {ids, dx};
    memset(x->got_squares, 0xff, sizeof x->got_squares);
    run(OP_EMBED_SQUARES, squares_fn, rows, 2, &squares, &vocab, members, x->workspace);
    assert_true(same(x->got_squares, x->want_squares, BLOCKS, true));
    for (int inplace = 0; inplace < 2; inplace++) {
        op_view update[] = {inplace ? got : view2(x->w, VOCAB, COLS), ids, dx,
                            scaled ? view1(&x->scale, IR_F32, 1) : absent,
                            view1(x->hyper, IR_F32, 4)};
        memcpy(x->got, x->w, sizeof x->got);
        run(OP_EMBED_SGD, sgd_fn, update, 5, &got, &none, members, x->workspace);
        assert_true(same(x->got, x->want, (size_t)VOCAB * COLS, false));
    }
}

static op_kernel_fn kernel_of(op_code op, int32_t nth) {
    const device *dev = ebb__device_default();
    for (int32_t k = 0; k < dev->n_kernels; k++) {
        if (dev->kernels[k].op == op && nth-- == 0) {
            op_case c;
            case_open(&c, (int)op, &ebb__op((int)op)->samples[0]);
            const char *why = dev->kernels[k].accept(&c.graph, &c.node);
            case_close(&c);
            return why == NULL ? dev->kernels[k].run : ebb__op((int)op)->ref;
        }
    }
    return NULL;
}

static void check(world *x) {
    for (int scaled = 0; scaled < 2; scaled++) {
        run_whole(x, scaled != 0);
        check_by_rows(x, scaled != 0, ebb__op(OP_EMBED_SQUARES)->ref, ebb__op(OP_EMBED_SGD)->ref,
                      1);
        for (int32_t k = 0; kernel_of(OP_EMBED_SGD, k) != NULL; k++) {
            for (int members = 1; members <= 8; members += 1 + members / 3) {
                check_by_rows(x, scaled != 0, kernel_of(OP_EMBED_SQUARES, k),
                              kernel_of(OP_EMBED_SGD, k), members);
            }
        }
    }
}

static void ids_of_every_kind(void **state) {
    world *x = *state;
    const int32_t words[] = {1, 2, 7, 40, VOCAB};
    for (size_t i = 0; i < sizeof words / sizeof *words; i++) {
        fill(x, words[i], 0, 3 + i);
        x->scale = 0.25f;
        x->hyper[0] = 0.5f;
        check(x);
    }
}

static void odd_numbers(void **state) {
    world *x = *state;
    const float rates[] = {0.1f, 0.0f, -0.0f, -2.0f, INFINITY, NAN, 1e-42f};
    const float scales[] = {1.0f, 0.0f, -0.0f, -1.0f, INFINITY, NAN, 1e-42f};
    fill(x, 60, 900, 5);
    for (size_t i = 0; i < sizeof rates / sizeof *rates; i++) {
        x->hyper[0] = rates[i];
        for (size_t k = 0; k < sizeof scales / sizeof *scales; k += i == 0 ? 1 : 3) {
            x->scale = scales[k];
            check(x);
        }
    }
}

static int open_world(void **state) {
    *state = calloc(1, sizeof(world));
    return *state == NULL;
}

static int close_world(void **state) {
    free(*state);
    return 0;
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(ids_of_every_kind),
                                       cmocka_unit_test(odd_numbers)};
    return cmocka_run_group_tests(tests, open_world, close_world);
}
