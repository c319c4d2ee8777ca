/* test_inplace.c - reference kernels: in place equals out of place bit for bit, for every pair and
 * every usable combination; strided equals dense; guard bytes hold; operands stay as they were. */
#include "sample.h"

static void run_and_compare(const op_case *c, const op_data *want, int32_t pad, unsigned inplace) {
    op_data got = data_make(c, false, pad, 1.0, 7), before = data_make(c, false, pad, 1.0, 7);
    op_views v;
    views_of(&v, c, &got, inplace);
    c->op->ref(&v.call);
    for (int32_t i = 0; i < got.n_out; i++) {
        int in = inplace_operand(c->op, inplace, i);
        if (!tensor_same(in < 0 ? &got.out[i] : &got.in[in], &want->out[i])) {
            fail_msg("%s: pad %d, pairs %x: result %d differs", c->op->schema.name, pad, inplace,
                     i);
        }
    }
    for (int32_t i = 0; i < got.n_in; i++) {
        if (c->in[i] != IR_NONE && !is_overwritten(c->op, inplace, i)) {
            assert_true(tensor_same(&got.in[i], &before.in[i]));
        }
    }
    assert_true(data_guarded(&got));
    data_free(&got);
    data_free(&before);
}

static void pairs_and_strides(void **state) {
    (void)state;
    for (int code = 0; code < OP_COUNT; code++) {
        const op_def *op = ebb__op(code);
        for (int32_t s = 0; s < op->n_samples; s++) {
            op_case c;
            op_views v;
            case_open(&c, code, &op->samples[s]);
            op_data want = data_make(&c, false, 0, 1.0, 7);
            views_of(&v, &c, &want, 0);
            op->ref(&v.call);
            assert_true(data_guarded(&want));
            for (unsigned inplace = 0; inplace < 1u << op->n_inplace; inplace++) {
                if (pairs_usable(&c, inplace)) {
                    run_and_compare(&c, &want, 0, inplace);
                    run_and_compare(&c, &want, 3, inplace);
                }
            }
            data_free(&want);
            case_close(&c);
        }
    }
}

/* Results in bytes that held `pattern` before. */
static op_data run_over(const op_case *c, int pattern) {
    op_data data = data_make(c, false, 0, 1.0, 11);
    op_views v;
    for (int32_t i = 0; i < data.n_out; i++) {
        tensor *t = &data.out[i];
        memset(tensor_at(t, 0, 0), pattern, (size_t)tensor_count(t) * t->element);
    }
    views_of(&v, c, &data, 0);
    c->op->ref(&v.call);
    return data;
}

/* Every byte of every result is written: what was there before does not matter. */
static void results_are_complete(void **state) {
    (void)state;
    for (int code = 0; code < OP_COUNT; code++) {
        const op_def *op = ebb__op(code);
        for (int32_t s = 0; (op->flags & OPF_ROOM) == 0 && s < op->n_samples; s++) {
            op_case c;
            case_open(&c, code, &op->samples[s]);
            op_data data = run_over(&c, PATTERN), other = run_over(&c, PATTERN ^ 0xff);
            for (int32_t i = 0; i < data.n_out; i++) {
                const tensor *t = &data.out[i];
                assert_memory_equal(tensor_at(t, 0, 0), tensor_at(&other.out[i], 0, 0),
                                    (size_t)tensor_count(t) * t->element);
            }
            data_free(&data);
            data_free(&other);
            case_close(&c);
        }
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(pairs_and_strides),
        cmocka_unit_test(results_are_complete),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
