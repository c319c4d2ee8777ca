/* test_conv.c - convolutions beyond the samples of their ops: maps of many strips and channels, of
 * which the kernels' loops take several turns, by every kernel of the device; and gradients of
 * weights whose x is written row by row as it is needed, by every engine. The bits are the
 * reference's, for teams of 1, 2, 3 and 5; only rows that exist are asked for; the workspace
 * holds. */
#include "sample.h"

#include "base/host.h"
#include "device/cpu/conv.h"
#include "device/device.h"
#include "op/define.h"

#include <math.h>

static const int teams[] = {1, 2, 3, 5};

/* A source that copies a map. */
typedef struct copy {
    conv_source source;
    op_map map;
    const float *x;
    int64_t pitch;
} copy;

/* Channels that nobody asked for are no numbers. */
static void copy_row(const conv_source *source, int64_t group, const conv_piece *of, int64_t y,
                     float *to) {
    const copy *c = (const copy *)source;
    int64_t row = c->map.wide * op_map_pixel(&c->map), channels = c->map.channels;
    const float *x = c->x + group * c->pitch + of->block * op_map_block(&c->map) + y * row;
    assert_true(group >= 0 && group < c->map.groups && of->block >= 0);
    assert_true(of->block < c->map.blocks && y >= 0 && y < c->map.high);
    assert_true(of->lane >= 0 && of->len > 0 && of->lane + of->len <= channels);
    for (int64_t i = 0; i < row; i++) {
        bool wanted = i % channels >= of->lane && i % channels < of->lane + of->len;
        to[i] = wanted ? x[i] : NAN;
    }
}

/* Scratch between guards. */
static unsigned char *block_make(size_t bytes) {
    unsigned char *block = aligned_alloc(GUARD, (2 * GUARD + bytes + GUARD - 1) / GUARD * GUARD);
    assert_non_null(block);
    memset(block, PATTERN, 2 * GUARD + bytes);
    return block;
}

static void block_free(unsigned char *block, size_t bytes) {
    for (size_t i = 0; i < GUARD; i++) {
        assert_int_equal(block[i], PATTERN);
        assert_int_equal(block[GUARD + bytes + i], PATTERN);
    }
    free(block);
}

/* The reference's results. */
static op_data want_of(const op_case *c) {
    op_views v;
    op_data want = data_make(c, false, 0, 1.0, 23);
    views_of(&v, c, &want, 0);
    c->op->ref(&v.call);
    return want;
}

static void check_same(const op_data *got, const op_data *want, const char *name, int32_t sample,
                       int members) {
    if (!tensor_same(&got->out[0], &want->out[0])) {
        fail_msg("%s: sample %d, members %d: differs", name, sample, members);
    }
    assert_true(data_guarded(got));
}

#define WEIGHTS(k, c, r, s)                                                                        \
    {                                                                                              \
        IR_F32, 4, {                                                                               \
            k, c, r, s                                                                             \
        }                                                                                          \
    }

/* ---- x from a source ---- */

static void run_source(op_views *v, const conv_engine *engine, int members) {
    conv_sums s = ebb__conv_sums_of(&v->call, &v->in[2].type);
    copy from = {{copy_row}, op_map_of(&v->in[2].type), v->in[2].data, op_map_pitch(&v->in[2])};
    size_t bytes = ebb__conv_sums_bytes(&s.v, true, members);
    assert_true(bytes > ebb__conv_sums_bytes(&s.v, false, members) || s.v.stride > 1);
    unsigned char *block = block_make(bytes);
    s.source = &from.source;
    v->call.workspace = block + GUARD;
    v->call.members = members;
    for (v->call.member = 0; v->call.member < members; v->call.member++) {
        conv_codes codes = {.engine = engine};
        ebb__conv_sums_add(&s, &v->call, &codes);
    }
    block_free(block, bytes);
}

static void check(const op_case *c, const conv_engine *engine, const char *name, int32_t sample,
                  const op_data *want) {
    op_views v;
    for (size_t t = 0; t < sizeof teams / sizeof *teams; t++) {
        int32_t pad = t % 2 == 0 ? 0 : 3;
        op_data got = data_make(c, false, pad, 1.0, 23);
        views_of(&v, c, &got, 0);
        run_source(&v, engine, teams[t]);
        check_same(&got, want, name, sample, teams[t]);
        data_free(&got);
    }
}

/* slow: also with the engine of the baseline, in which large samples take long. */
static void check_engines(const op_sample *samples, int32_t count, bool slow) {
    for (int32_t s = 0; s < count; s++) {
        op_case c;
        case_open(&c, OP_CONV_WEIGHTS, &samples[s]);
        op_data want = want_of(&c);
        if (slow || !ebb__host_cpu()->avx2_fma) {
            check(&c, &ebb__conv_base, "base", s, &want);
        }
#ifndef EBB_NO_AVX2
        if (ebb__host_cpu()->avx2_fma) {
            check(&c, &ebb__conv_avx2, "avx2", s, &want);
        }
#endif
#ifndef EBB_NO_XSMM
        if (ebb__host_cpu()->avx2_fma) {
            assert_int_equal(ebb__cpu_xsmm_start(c.ctx), EBB_OK);
            check(&c, &ebb__conv_xsmm, "xsmm", s, &want);
        }
#endif
        data_free(&want);
        case_close(&c);
    }
}

static void equals_reference(void **state) {
    (void)state;
    const op_def *op = ebb__op(OP_CONV_WEIGHTS);
    check_engines(op->samples, op->n_samples, true);
}

/* Rows in several strips, strips of part of a row, several groups of images in one of the chain. */
static void many_strips(void **state) {
    (void)state;
    static const op_sample samples[] = {
        {IN(WEIGHTS(32, 16, 3, 3), MAP(1, 2, 4, 220, 8, 16), MAP(1, 1, 4, 220, 8, 16)),
         .attr = {.i = {1, 1, 1, 1, 0, 3, 3}}},
        {IN(WEIGHTS(16, 32, 3, 1), MAP(3, 1, 21, 24, 4, 16), MAP(3, 1, 41, 47, 4, 32)),
         .attr = {.i = {2, 1, 0, 1, 0, 3, 1}}},
        {IN(WEIGHTS(16, 40, 1, 1), MAP(3, 2, 37, 30, 3, 8), MAP(3, 5, 37, 30, 3, 8)),
         .attr = {.i = {1, 0, 0, 1, 0, 1, 1}}},
        {IN(WEIGHTS(16, 8, 5, 5), MAP(1, 1, 60, 17, 11, 16), MAP(1, 2, 60, 17, 11, 8)),
         .attr = {.i = {1, 2, 2, 2, 0, 5, 5}}},
    };
    check_engines(samples, (int32_t)(sizeof samples / sizeof *samples), false);
}

/* ---- tiles ---- */

enum { MOST_ROWS = 50, MOST_DEEP = 40, LIST = 3, TILE_ROOM = LIST * MOST_DEEP * 64 };

/* The sums of a list as chains of fused multiply-adds, one after the other. */
static void add_chains(const conv_list *l, float *out) {
    const conv_tile *t = &l->tile;
    for (int64_t e = 0; e < l->count * t->rows * t->lanes; e++) {
        int64_t n = e / (t->rows * t->lanes), j = e / t->lanes % t->rows, i = e % t->lanes;
        for (int64_t k = 0; k < t->deep; k++) {
            float b = l->b[n][t->across ? k * t->b_row + j : j * t->b_row + k];
            out[j * t->out_row + i] = fmaf(b, l->a[n][k * t->a_row + i], out[j * t->out_row + i]);
        }
    }
}

static void check_tile(const conv_engine *engine, const conv_tile *tile) {
    static float numbers[3 * TILE_ROOM], want[MOST_ROWS * 32], got[MOST_ROWS * 32];
    conv_codes codes = {.engine = engine};
    conv_list list = {.tile = *tile, .out = got, .count = LIST};
    for (int i = 0; i < 3 * TILE_ROOM; i++) { /* of several sizes, so that orders differ */
        numbers[i] = (float)(i * 37 % 101 - 50) * (i % 5 == 0 ? 1e-3f : 0.3f);
    }
    memcpy(want, numbers, sizeof want);
    memcpy(got, numbers, sizeof got);
    for (int n = 0; n < LIST; n++) {
        list.a[n] = numbers + n * MOST_DEEP * 32;
        list.b[n] = numbers + TILE_ROOM + n * MOST_DEEP * 64 + n;
    }
    add_chains(&list, want);
    engine->run(&codes, &list);
    if (memcmp(want, got, sizeof want) != 0) {
        fail_msg("%d lanes, %d rows, %d deep%s: another order", (int)tile->lanes, (int)tile->rows,
                 (int)tile->deep, tile->across ? ", across" : "");
    }
}

/* Sums are never split, whatever the size of a tile and the machine's vectors. */
static void tiles_are_chains(void **state) {
    (void)state;
    static const int64_t lanes[] = {1, 3, 8, 10, 16, 17, 24, 32}, deeps[] = {1, 7, 16, 40};
#ifndef EBB_NO_XSMM
    ebb_ctx *ctx;
    if (!ebb__host_cpu()->avx2_fma) {
        skip();
    }
    assert_int_equal(ebb_ctx_new(&ctx), EBB_OK);
    assert_int_equal(ebb__cpu_xsmm_start(ctx), EBB_OK);
    for (int64_t rows = 1; rows <= MOST_ROWS; rows++) {
        for (int i = 0; i < 8 * 4 * 2; i++) {
            bool across = i % 2 == 1;
            int64_t deep = deeps[i / 2 % 4];
            check_tile(&ebb__conv_xsmm, &(conv_tile){.lanes = lanes[i / 8],
                                                     .rows = rows,
                                                     .deep = deep,
                                                     .a_row = 32,
                                                     .b_row = across ? 64 : deep,
                                                     .out_row = 32,
                                                     .across = across});
        }
    }
    ebb_ctx_free(ctx);
#else
    (void)lanes, (void)deeps;
    skip();
#endif
}

/* ---- kernels ---- */

static void run_kernel(const device_kernel *kernel, const op_case *c, op_data *data, int members) {
    _Alignas(16) unsigned char prepared[DEVICE_PREPARED_BYTES] = {0};
    op_views v;
    size_t bytes = kernel->workspace(&c->graph, &c->node, 0, members);
    unsigned char *block = block_make(bytes);
    views_of(&v, c, data, 0);
    v.call.members = members;
    v.call.workspace = block + GUARD;
    if (kernel->prepare != NULL) {
        assert_int_equal(kernel->prepare(c->ctx, &v.call, prepared), EBB_OK);
    }
    v.call.prepared = prepared;
    for (v.call.member = 0; v.call.member < members; v.call.member++) {
        kernel->run(&v.call);
    }
    block_free(block, bytes);
}

/* Kernels of the baseline are slow where the machine has no fused multiply-add, and have the same
 * loops. */
static void check_kernels(op_code op, const op_sample *samples, int32_t count) {
    const device *dev = ebb__device_default();
    for (int32_t s = 0; s < count; s++) {
        op_case c;
        case_open(&c, (int)op, &samples[s]);
        op_data want = want_of(&c);
        for (int32_t k = 0; k < dev->n_kernels; k++) {
            const device_kernel *kernel = &dev->kernels[k];
            if (kernel->op != op || kernel->accept(&c.graph, &c.node) != NULL ||
                (strstr(kernel->name, "base") != NULL && ebb__host_cpu()->avx2_fma)) {
                continue;
            }
            for (size_t t = 0; t < sizeof teams / sizeof *teams; t++) {
                op_data got = data_make(&c, false, t % 2 == 0 ? 0 : 3, 1.0, 23);
                run_kernel(kernel, &c, &got, teams[t]);
                check_same(&got, &want, kernel->name, s, teams[t]);
                data_free(&got);
            }
        }
        data_free(&want);
        case_close(&c);
    }
}

/* X(groups of images, images a group, blocks of x, lanes, high, wide, blocks of y, lanes, high,
 * wide, channels of a group, window, stride, pad, groups) */
/* clang-format off */
#define SIZES(X)                                               \
    X(1, 8, 9, 32, 5, 5, 2, 16, 5, 5, 288, 1, 1, 0, 1)         \
    X(1, 8, 1, 32, 3, 9, 18, 16, 3, 9, 32, 1, 1, 0, 1)         \
    X(2, 4, 9, 32, 9, 7, 2, 32, 5, 4, 288, 1, 2, 0, 1)         \
    X(1, 8, 1, 16, 4, 70, 1, 16, 4, 70, 16, 3, 1, 1, 1)        \
    X(1, 8, 3, 24, 9, 33, 2, 8, 5, 17, 72, 3, 2, 1, 1)         \
    X(1, 9, 1, 3, 24, 41, 2, 32, 12, 21, 3, 7, 2, 3, 1)        \
    X(1, 8, 1, 1, 12, 13, 1, 20, 8, 9, 1, 5, 1, 0, 1)          \
    X(1, 8, 4, 32, 6, 7, 2, 32, 3, 4, 64, 3, 2, 1, 2)
#define CONV(g, n, xb, xl, xh, xw, yb, yl, yh, yw, c, r, st, p, gr)                             \
    {IN(F1((yb) * (yl)), MAP(g, xb, xh, xw, n, xl), WEIGHTS((yb) * (yl), c, r, r)),             \
     .attr = {.i = {st, p, p, gr, yl}}},
#define CONV_DATA(g, n, xb, xl, xh, xw, yb, yl, yh, yw, c, r, st, p, gr)                        \
    {IN(MAP(g, xb, xh, xw, n, xl), MAP(g, yb, yh, yw, n, yl), WEIGHTS((yb) * (yl), c, r, r)),   \
     .attr = {.i = {st, p, p, gr, xl, xh, xw}}},
#define CONV_WEIGHTS(g, n, xb, xl, xh, xw, yb, yl, yh, yw, c, r, st, p, gr)                     \
    {IN(WEIGHTS((yb) * (yl), c, r, r), MAP(g, yb, yh, yw, n, yl), MAP(g, xb, xh, xw, n, xl)),   \
     .attr = {.i = {st, p, p, gr, 0, r, r}}},
/* clang-format on */
static const op_sample conv_sizes[] = {SIZES(CONV)};
static const op_sample data_sizes[] = {SIZES(CONV_DATA)};
static const op_sample weights_sizes[] = {SIZES(CONV_WEIGHTS)};

static void larger_maps(void **state) {
    (void)state;
    enum { COUNT = sizeof conv_sizes / sizeof *conv_sizes };
    check_kernels(OP_CONV, conv_sizes, COUNT);
    check_kernels(OP_CONV_DATA, data_sizes, COUNT);
    check_kernels(OP_CONV_WEIGHTS, weights_sizes, COUNT);
    check_engines(weights_sizes, COUNT, false);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(equals_reference),
        cmocka_unit_test(many_strips),
        cmocka_unit_test(larger_maps),
        cmocka_unit_test(tiles_are_chains),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
