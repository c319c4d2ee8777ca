/* test_conv_source.c - gradients of weights whose x is written row by row as it is needed: the bits
 * of the reference, for all samples and for maps of many strips, with every engine and teams of 1,
 * 2, 3 and 5; only rows that exist are asked for and the workspace holds. */
#include "sample.h"

#include "base/host.h"
#include "device/cpu/conv.h"
#include "op/define.h"

static const int teams[] = {1, 2, 3, 5};

/* A source that copies a map. */
typedef struct copy {
    conv_source source;
    op_map map;
    const float *x;
    int64_t pitch;
} copy;

static void copy_rows(const conv_source *source, int64_t group, int64_t block, int64_t y0,
                      int64_t y1, float *to) {
    const copy *c = (const copy *)source;
    int64_t row = c->map.wide * op_map_pixel(&c->map);
    assert_true(group >= 0 && group < c->map.groups && block >= 0 && block < c->map.blocks);
    assert_true(y0 >= 0 && y0 < y1 && y1 <= c->map.high);
    memcpy(to, c->x + group * c->pitch + block * op_map_block(&c->map) + y0 * row,
           (size_t)((y1 - y0) * row) * sizeof(float));
}

static void run_source(op_views *v, const conv_engine *engine, int members) {
    conv_sums s = ebb__conv_sums_of(&v->call, &v->in[2].type);
    copy from = {{copy_rows}, op_map_of(&v->in[2].type), v->in[2].data, op_map_pitch(&v->in[2])};
    size_t bytes = ebb__conv_sums_bytes(&s.v, true, members);
    assert_true(bytes > ebb__conv_sums_bytes(&s.v, false, members));
    unsigned char *block = aligned_alloc(GUARD, (2 * GUARD + bytes + GUARD - 1) / GUARD * GUARD);
    assert_non_null(block);
    memset(block, PATTERN, 2 * GUARD + bytes);
    s.source = &from.source;
    v->call.workspace = block + GUARD;
    v->call.members = members;
    for (v->call.member = 0; v->call.member < members; v->call.member++) {
        conv_codes codes = {.engine = engine};
        ebb__conv_sums_add(&s, &v->call, &codes);
    }
    for (size_t i = 0; i < GUARD; i++) {
        assert_int_equal(block[i], PATTERN);
        assert_int_equal(block[GUARD + bytes + i], PATTERN);
    }
    free(block);
}

static void check(const op_case *c, const conv_engine *engine, const char *name, int32_t sample,
                  const op_data *want) {
    op_views v;
    for (size_t t = 0; t < sizeof teams / sizeof *teams; t++) {
        int32_t pad = t % 2 == 0 ? 0 : 3;
        op_data got = data_make(c, false, pad, 1.0, 23);
        views_of(&v, c, &got, 0);
        run_source(&v, engine, teams[t]);
        if (!tensor_same(&got.out[0], &want->out[0])) {
            fail_msg("%s: sample %d, members %d, pad %d: differs", name, sample, teams[t], pad);
        }
        assert_true(data_guarded(&got));
        data_free(&got);
    }
}

/* slow: also with the engine of the baseline, in which large samples take long. */
static void check_engines(const op_sample *samples, int32_t count, bool slow) {
    for (int32_t s = 0; s < count; s++) {
        op_case c;
        op_views v;
        case_open(&c, OP_CONV_WEIGHTS, &samples[s]);
        op_data want = data_make(&c, false, 0, 1.0, 23);
        views_of(&v, &c, &want, 0);
        c.op->ref(&v.call);
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

#define WEIGHTS(k, c, r, s)                                                                        \
    {                                                                                              \
        IR_F32, 4, {                                                                               \
            k, c, r, s                                                                             \
        }                                                                                          \
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

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(equals_reference),
        cmocka_unit_test(many_strips),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
