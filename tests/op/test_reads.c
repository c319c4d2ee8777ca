/* test_reads.c - what ops say they make use of in an operand is enough: with another operand that
 * is the same in just that, results have the same bits; and it is needed. */
#include "sample.h"

/* Another number that is, or is not, above zero likewise. */
static double same_sign(double x, draw *d) {
    double size = 0.1 + draw_unit(d);
    return x > 0 ? size : draw_unit(d) < 0.3 ? 0.0 : -size;
}

static double other_sign(double x, draw *d) {
    return same_sign(-x, d) + (x > 0 ? 0 : 0.1);
}

/* Results with operand `k` replaced element by element; false: they differ from `want`. */
static bool same_with(const op_case *c, const op_data *want, int32_t k,
                      double (*replace)(double, draw *)) {
    op_data data = data_make(c, false, 0, 1.0, 7);
    draw d = {41};
    op_views v;
    bool same = true;
    for (int64_t i = 0; i < tensor_count(&data.in[k]); i++) {
        tensor_set(&data.in[k], i, replace(tensor_get(&data.in[k], i), &d));
    }
    views_of(&v, c, &data, 0);
    c->op->ref(&v.call);
    for (int32_t i = 0; i < data.n_out; i++) {
        same = same && tensor_same(&data.out[i], &want->out[i]);
    }
    data_free(&data);
    return same;
}

static void check_sign(int code, const op_sample *sample, int32_t k) {
    op_case c;
    op_views v;
    case_open(&c, code, sample);
    op_data want = data_make(&c, false, 0, 1.0, 7);
    views_of(&v, &c, &want, 0);
    c.op->ref(&v.call);
    if (!same_with(&c, &want, k, same_sign)) {
        fail_msg("%s reads more than the signs of operand %d", c.op->schema.name, k);
    }
    if (same_with(&c, &want, k, other_sign)) {
        fail_msg("%s does not even read the signs of operand %d", c.op->schema.name, k);
    }
    data_free(&want);
    case_close(&c);
}

static void check_index(const op_sample *sample, int32_t k) {
    assert_int_equal(sample->in[k].dtype, IR_I32);
    assert_true(sample->fill[k] == FILL_INDEX || sample->fill[k] == FILL_LABEL);
    assert_true(sample->limit > 0);
}

static void reads_are_enough(void **state) {
    (void)state;
    int signs = 0, indices = 0;
    for (int code = 0; code < OP_COUNT; code++) {
        const op_def *op = ebb__op(code);
        for (int32_t k = 0; k < OP_MAX_READS; k++) {
            assert_true(op->reads[k] == READ_VALUE || k < op->n_in);
            for (int32_t s = 0; s < op->n_samples; s++) {
                if (op->reads[k] == READ_SIGN) {
                    check_sign(code, &op->samples[s], k);
                    signs++;
                } else if (op->reads[k] == READ_INDEX) {
                    check_index(&op->samples[s], k);
                    indices++;
                } else { /* numbers of rows are nothing but that */
                    assert_true(k >= op->samples[s].n_in || op->samples[s].fill[k] != FILL_INDEX);
                }
            }
        }
    }
    assert_true(signs > 0 && indices > 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(reads_are_enough)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
