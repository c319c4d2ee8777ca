/* test_ref.c - what the reference kernels compute, against numbers worked out another way: by hand
 * or by the textbook formula. Float and double kernels are one text; that they agree is checked for
 * every sample. */
#include "sample.h"

#include "op/define.h"
#include "op/map.h"

/* ---- running one op on given numbers ---- */

typedef struct result {
    op_case c;
    op_data data;
} result;

static result run(int code, const op_sample *sample, const double *const *values) {
    result r;
    op_views v;
    case_open(&r.c, code, sample);
    r.data = data_make(&r.c, false, 0, 1.0, 3);
    for (int32_t i = 0; i < sample->n_in; i++) {
        for (int64_t e = 0; values[i] != NULL && e < tensor_count(&r.data.in[i]); e++) {
            tensor_set(&r.data.in[i], e, values[i][e]);
        }
    }
    views_of(&v, &r.c, &r.data, 0);
    r.c.op->ref(&v.call);
    return r;
}

static void expect(const result *r, int out, const double *want) {
    const tensor *t = &r->data.out[out];
    for (int64_t e = 0; e < tensor_count(t); e++) {
        double got = tensor_get(t, e);
        if (!(fabs(got - want[e]) <= 1e-6 * (1 + fabs(want[e])))) {
            fail_msg("%s: result %d element %lld is %.9g, not %.9g", r->c.op->schema.name, out,
                     (long long)e, got, want[e]);
        }
    }
}

static void done(result *r) {
    data_free(&r->data);
    case_close(&r->c);
}

#define SAMPLE(...) (&(op_sample){__VA_ARGS__})
#define NUMBERS(...) ((const double[]){__VA_ARGS__})
#define VALUES(...) ((const double *const[]){__VA_ARGS__})

/* ---- tests ---- */

/* Numbers of any codes are of any size: sums of them are as exact as the largest is. */
static double most_of(int code, const tensor *t) {
    double most = 0;
    bool codes = code == OP_CONV_WEIGHTS_NARROW || code == OP_CONV_WEIGHTS_SPARSE;
    for (int64_t e = 0; codes && e < tensor_count(t); e++) {
        most = fmax(most, fabs(tensor_get(t, e))); /* a NaN is no number */
    }
    return most;
}

static void float_and_double_agree(void **state) {
    (void)state;
    for (int code = 0; code < OP_COUNT; code++) {
        const op_def *op = ebb__op(code);
        for (int32_t s = 0; s < op->n_samples; s++) {
            op_case c;
            op_views v;
            case_open(&c, code, &op->samples[s]);
            op_data narrow = data_make(&c, false, 0, 1.0, 17),
                    wide = data_make(&c, true, 0, 1.0, 17);
            views_of(&v, &c, &narrow, 0);
            op->ref(&v.call);
            views_of(&v, &c, &wide, 0);
            op->ref64(&v.call);
            assert_true(data_guarded(&wide));
            for (int32_t i = 0; i < narrow.n_out; i++) {
                double most = most_of(code, &wide.out[i]);
                for (int64_t e = 0;
                     narrow.out[i].view.type.dtype != IR_I32 && e < tensor_count(&narrow.out[i]);
                     e++) {
                    double a = tensor_get(&narrow.out[i], e), b = tensor_get(&wide.out[i], e);
                    double size = fmax(most, fabs(b));
                    if (!(fabs(a - b) <= 2e-5 * (1 + size)) && !(isnan(a) && isnan(b))) {
                        fail_msg("%s: sample %d: %.9g in float, %.9g in double", op->schema.name, s,
                                 a, b);
                    }
                }
            }
            data_free(&narrow);
            data_free(&wide);
            case_close(&c);
        }
    }
}

static void matmul_forms(void **state) {
    (void)state;
    const double *a = NUMBERS(1, 2, 3, 4, 5, 6), *at = NUMBERS(1, 4, 2, 5, 3, 6);
    const double *b = NUMBERS(1, 0, 2, -1, 3, 1), *bt = NUMBERS(1, 2, 3, 0, -1, 1);
    const double *full = NUMBERS(10, 20, 30, 40), *row = NUMBERS(100, 200);
    for (int form = 0; form < 4; form++) {
        bool ta = form & 1, tb = form >> 1;
        op_sample s = {.n_in = 3, .in = {F2(2, 2), F2(2, 3), F2(3, 2)}, .attr = {.i = {ta, tb}}};
        s.in[1] = ta ? (ir_type)F2(3, 2) : s.in[1];
        s.in[2] = tb ? (ir_type)F2(2, 3) : s.in[2];
        const double *const full_values[] = {full, ta ? at : a, tb ? bt : b};
        const double *const row_values[] = {row, ta ? at : a, tb ? bt : b};
        result r = run(OP_MATMUL, &s, full_values);
        expect(&r, 0, NUMBERS(24, 21, 62, 41));
        done(&r);
        s.in[0] = (ir_type)F1(2);
        r = run(OP_MATMUL, &s, row_values);
        expect(&r, 0, NUMBERS(114, 201, 132, 201));
        done(&r);
    }
}

static void embedding(void **state) {
    (void)state;
    const double *ids = NUMBERS(2, 0, 2);
    result r = run(OP_EMBED,
                   SAMPLE(.n_in = 2, .in = {F2(3, 2), I1(3)}, .fill = {0, FILL_INDEX}, .limit = 3),
                   VALUES(NUMBERS(1, 2, 3, 4, 5, 6), ids));
    expect(&r, 0, NUMBERS(5, 6, 1, 2, 5, 6));
    done(&r);
    r = run(OP_EMBED_GRAD,
            SAMPLE(.n_in = 3, .in = {F2(3, 2), I1(3), F2(3, 2)}, .fill = {0, FILL_INDEX},
                   .limit = 3, .attr = {.i = {3}}),
            VALUES(NUMBERS(1, 1, 1, 1, 1, 1), ids, NUMBERS(10, 20, 30, 40, 50, 60)));
    expect(&r, 0, NUMBERS(31, 41, 1, 1, 61, 81));
    done(&r);
}

static double sigmoid(double x) {
    return 1 / (1 + exp(-x));
}

static void cells(void **state) {
    (void)state;
    const double z[] = {0.1, 0.2, -0.3, 0.4, 0.5, -0.6, 0.7, 0.8}, cp[] = {1.5, -2};
    double gates[8], c[2], h[2], s[8];
    for (int j = 0; j < 2; j++) {
        gates[j] = sigmoid(z[j]);
        gates[2 + j] = sigmoid(z[2 + j]);
        gates[4 + j] = tanh(z[4 + j]);
        gates[6 + j] = sigmoid(z[6 + j]);
        c[j] = gates[2 + j] * cp[j] + gates[j] * gates[4 + j];
        h[j] = gates[6 + j] * tanh(c[j]);
    }
    result r = run(OP_LSTM_GATES, SAMPLE(.n_in = 2, .in = {F2(1, 8), F2(1, 2)}), VALUES(z, cp));
    expect(&r, 0, gates);
    expect(&r, 1, c);
    done(&r);
    r = run(OP_LSTM_OUT, SAMPLE(.n_in = 2, .in = {F2(1, 2), F2(1, 2)}), VALUES(&gates[6], c));
    expect(&r, 0, h);
    done(&r);

    const double gx[] = {0.1, -0.2, 0.3, 0.4, -0.5, 0.6}, gh[] = {0.2, 0.1, -1, 0.5, 0.9, -0.8};
    for (int j = 0; j < 2; j++) {
        double reset = sigmoid(gx[j] + gh[j]), update = sigmoid(gx[2 + j] + gh[2 + j]);
        double n = tanh(gx[4 + j] + reset * gh[4 + j]);
        h[j] = (1 - update) * n + update * cp[j];
        s[j] = reset;
        s[2 + j] = update;
        s[4 + j] = n;
        s[6 + j] = gh[4 + j];
    }
    r = run(OP_GRU_CELL, SAMPLE(.n_in = 3, .in = {F2(1, 6), F2(1, 6), F2(1, 2)}),
            VALUES(gx, gh, cp));
    expect(&r, 0, h);
    expect(&r, 1, s);
    done(&r);
}

static void losses(void **state) {
    (void)state;
    const double *x = NUMBERS(1, 2, 3, 0, 0, 0, 5, -5, 0), *labels = NUMBERS(2, -1, 0);
    double lse0 = log(exp(1) + exp(2) + exp(3)), lse2 = log(exp(5) + exp(-5) + 1);
    const op_sample *s =
        SAMPLE(.n_in = 2, .in = {F2(3, 3), I1(3)}, .fill = {0, FILL_LABEL}, .limit = 3);
    result r = run(OP_XENT, s, VALUES(x, labels));
    expect(&r, 0, NUMBERS(lse0 - 3, 0, lse2 - 5));
    expect(&r, 1, NUMBERS(lse0, log(3), lse2));
    done(&r);
    s = SAMPLE(.n_in = 2, .in = {F1(3), I1(3)}, .fill = {0, FILL_LABEL}, .limit = 3);
    r = run(OP_MEAN_VALID, s, VALUES(NUMBERS(1, 100, 4), labels));
    expect(&r, 0, NUMBERS(2.5));
    done(&r);
    r = run(OP_MEAN_VALID, s, VALUES(NUMBERS(1, 2, 4), NUMBERS(-1, -1, -1)));
    expect(&r, 0, NUMBERS(0));
    done(&r);
    s = SAMPLE(.n_in = 1, .in = {F2(2, 3)});
    r = run(OP_SOFTMAX, s, VALUES(NUMBERS(0, 0, 0, 1000, 1000, -1000)));
    expect(&r, 0, NUMBERS(1.0 / 3, 1.0 / 3, 1.0 / 3, 0.5, 0.5, 0));
    done(&r);
}

static void clipping(void **state) {
    (void)state;
    op_sample s = {.n_in = 2, .in = {D1(2), D1(1)}, .attr = {.f = {1.0f}}};
    result r = run(OP_CLIP_SCALE, &s, VALUES(NUMBERS(4, 5), NUMBERS(16)));
    expect(&r, 0, NUMBERS(1 / (5 + 1e-6)));
    expect(&r, 1, NUMBERS(5));
    assert_int_equal(*(int32_t *)r.data.out[2].view.data, -1);
    done(&r);
    s.attr.f[0] = 6.0f; /* above the norm */
    r = run(OP_CLIP_SCALE, &s, VALUES(NUMBERS(4, 5), NUMBERS(16)));
    expect(&r, 0, NUMBERS(1));
    done(&r);
    r = run(OP_CLIP_SCALE, &s, VALUES(NUMBERS(4, 5), NUMBERS((double)NAN)));
    assert_int_equal(*(int32_t *)r.data.out[2].view.data, 1);
    done(&r);
    r = run(OP_CLIP_SCALE, &s, VALUES(NUMBERS(4, (double)INFINITY), NUMBERS((double)NAN)));
    assert_int_equal(*(int32_t *)r.data.out[2].view.data, 0);
    done(&r);
}

static void updates(void **state) {
    (void)state;
    const double w = 0.5, g = 2, m = 0.25, v = 0.125, lr = 0.1, wd = 0.01, scale = 0.5;
    double gg = g * scale + wd * w;
    result r =
        run(OP_SGD, SAMPLE(.n_in = 4, .in = {F1(1), F1(1), F1(1), F1(4)}, .attr = {.f = {0.01f}}),
            VALUES(&w, &g, &scale, NUMBERS(lr, 0, 0, 0)));
    expect(&r, 0, NUMBERS(w - lr * gg));
    done(&r);
    r = run(
        OP_SGD_MOMENTUM,
        SAMPLE(.n_in = 5, .in = {F1(1), F1(1), F1(1), F1(1), F1(4)}, .attr = {.f = {0.9f, 0.01f}}),
        VALUES(&w, &g, &m, &scale, NUMBERS(lr, 0, 0, 0)));
    expect(&r, 0, NUMBERS(w - lr * (0.9 * m + gg)));
    expect(&r, 1, NUMBERS(0.9 * m + gg));
    done(&r);
    const double b1 = 0.9, b2 = 0.99, eps = 1e-6, step = lr / (1 - b1 * b1),
                 bias = sqrt(1 - b2 * b2);
    for (int decoupled = 0; decoupled < 2; decoupled++) {
        double shrunk = decoupled ? w * (1 - lr * wd) : w, grad = decoupled ? g : g + wd * w;
        double m1 = b1 * m + (1 - b1) * grad, v1 = b2 * v + (1 - b2) * grad * grad;
        r = run(OP_ADAM,
                SAMPLE(.n_in = 6, .in = {F1(1), F1(1), F1(1), F1(1), F1(1), F1(4)},
                       .fill = {0, 0, 0, 0, FILL_ABSENT},
                       .attr = {.i = {decoupled}, .f = {0.9f, 0.99f, 1e-6f, 0.01f}}),
                VALUES(&w, &g, &m, &v, NULL, NUMBERS(lr, step, bias, 0)));
        expect(&r, 0, NUMBERS(shrunk - step * m1 / (sqrt(v1) / bias + eps)));
        expect(&r, 1, &m1);
        expect(&r, 2, &v1);
        done(&r);
    }
}

/* Rows of several time steps in one op draw what one op a step draws; so does a chunk of rows. */
static void dropout_follows_rows(void **state) {
    (void)state;
    enum { LANES = 3, TIMES = 4, UNITS = 50, ROWS = LANES * TIMES };
    static double ones[ROWS * UNITS];
    for (int i = 0; i < ROWS * UNITS; i++) {
        ones[i] = 1;
    }
    op_sample s = {.n_in = 2,
                   .in = {F2(ROWS, UNITS), I1(1)},
                   .fill = {0, FILL_SMALL_INT},
                   .attr = {.i = {11, 22, 5, 1, LANES, 0}, .f = {0.25f}}};
    const double step = 9;
    result all = run(OP_DROPOUT, &s, VALUES(ones, &step));
    int kept = 0;
    for (int64_t e = 0; e < ROWS * UNITS; e++) {
        double y = tensor_get(&all.data.out[0], e);
        assert_true(y == 0 || fabs(y - 1 / 0.75) < 1e-6);
        kept += y != 0;
    }
    assert_in_range(kept, ROWS * UNITS * 6 / 10, ROWS * UNITS * 9 / 10);
    for (int t = 0; t < TIMES; t++) {
        op_sample one = s;
        one.in[0].dim[0] = LANES;
        one.attr.i[2] = 5 + t; /* as a step of its own */
        result a = run(OP_DROPOUT, &one, VALUES(ones, &step));
        one.attr.i[2] = 5;
        one.attr.i[5] = t * LANES; /* as a chunk of rows */
        result b = run(OP_DROPOUT, &one, VALUES(ones, &step));
        for (int64_t e = 0; e < LANES * UNITS; e++) {
            double want = tensor_get(&all.data.out[0], t * LANES * UNITS + e);
            assert_true(tensor_get(&a.data.out[0], e) == want);
            assert_true(tensor_get(&b.data.out[0], e) == want);
        }
        done(&a);
        done(&b);
    }
    const double later = 10;
    result other = run(OP_DROPOUT, &s, VALUES(ones, &later));
    assert_false(tensor_same(&other.data.out[0], &all.data.out[0]));
    done(&other);
    done(&all);
}

static void sums(void **state) {
    (void)state;
    const double *x = NUMBERS(1, 2, 3, 4, 5, 6);
    result r = run(OP_SUM_ROWS, SAMPLE(.n_in = 2, .in = {F1(3), F2(2, 3)}),
                   VALUES(NUMBERS(10, 20, 30), x));
    expect(&r, 0, NUMBERS(15, 27, 39));
    done(&r);
    r = run(OP_SUM_ALL, SAMPLE(.n_in = 1, .in = {F2(2, 3)}), VALUES(x));
    expect(&r, 0, NUMBERS(21));
    done(&r);
    static double many[9000];
    for (int i = 0; i < 9000; i++) {
        many[i] = i < 8192 ? 2 : 3;
    }
    r = run(OP_SUM_SQUARES, SAMPLE(.n_in = 1, .in = {F2(90, 100)}), VALUES(many));
    assert_int_equal(tensor_count(&r.data.out[0]), 2);
    expect(&r, 0, NUMBERS(4 * 8192, 9 * 808));
    done(&r);
}

static void moves(void **state) {
    (void)state;
    const double *x = NUMBERS(1, 2, 3, 4, 5, 6), *y = NUMBERS(7, 8, 9);
    result r =
        run(OP_SLICE, SAMPLE(.n_in = 1, .in = {F2(2, 3)}, .attr = {.i = {1, 1, 2}}), VALUES(x));
    expect(&r, 0, NUMBERS(2, 3, 5, 6));
    done(&r);
    r = run(OP_SLICE, SAMPLE(.n_in = 1, .in = {F2(3, 2)}, .attr = {.i = {0, 1, 2}}), VALUES(x));
    expect(&r, 0, NUMBERS(3, 4, 5, 6));
    done(&r);
    r = run(OP_STACK, SAMPLE(.n_in = 2, .in = {F2(2, 3), F2(1, 3)}), VALUES(x, y));
    expect(&r, 0, NUMBERS(1, 2, 3, 4, 5, 6, 7, 8, 9));
    done(&r);
    r = run(OP_CONCAT, SAMPLE(.n_in = 2, .in = {F2(3, 2), F2(3, 1)}, .attr = {.i = {1}}),
            VALUES(x, y));
    expect(&r, 0, NUMBERS(1, 2, 7, 3, 4, 8, 5, 6, 9));
    done(&r);
    r = run(OP_CONCAT, SAMPLE(.n_in = 2, .in = {F3(1, 3, 2), F3(1, 1, 2)}, .attr = {.i = {1}}),
            VALUES(x, y));
    expect(&r, 0, NUMBERS(1, 2, 3, 4, 5, 6, 7, 8));
    done(&r);
    r = run(OP_CONCAT, SAMPLE(.n_in = 2, .in = {F3(3, 1, 2), F3(3, 1, 1)}, .attr = {.i = {2}}),
            VALUES(x, y));
    expect(&r, 0, NUMBERS(1, 2, 7, 3, 4, 8, 5, 6, 9));
    done(&r);
    r = run(OP_SLICE, SAMPLE(.n_in = 1, .in = {F3(2, 3, 1)}, .attr = {.i = {1, 1, 2}}), VALUES(x));
    expect(&r, 0, NUMBERS(2, 3, 5, 6));
    done(&r);
    r = run(OP_REGROUP, SAMPLE(.n_in = 1, .in = {F1(6)}, .attr = {.i = {3, 2}}), VALUES(x));
    expect(&r, 0, NUMBERS(1, 3, 5, 2, 4, 6));
    done(&r);
    r = run(OP_REGROUP, SAMPLE(.n_in = 1, .in = {F2(6, 1)}, .attr = {.i = {1, 3}}), VALUES(x));
    expect(&r, 0, NUMBERS(1, 2, 3, 4, 5, 6));
    done(&r);
    r = run(OP_TRANSPOSE, SAMPLE(.n_in = 1, .in = {F2(2, 3)}), VALUES(x));
    expect(&r, 0, NUMBERS(1, 4, 2, 5, 3, 6));
    done(&r);
}

/* ---- maps ---- */

/* Element i of a map as it lies, by image, channel and pixel: 1000 n + 100 c + 10 y + x. */
static void number_map(const op_map *m, double *values) {
    for (int64_t n = 0; n < op_map_images(m); n++) {
        for (int64_t c = 0; c < op_map_channels(m); c++) {
            for (int64_t at = 0; at < (int64_t)m->high * m->wide; at++) {
                int64_t y = at / m->wide, x = at % m->wide;
                values[op_map_at(m, op_map_group(m), n, c, y, x)] =
                    (double)(1000 * n + 100 * c + 10 * y + x);
            }
        }
    }
}

static void flat_maps(void **state) {
    (void)state;
    const op_map m = {2, 3, 2, 3, 2, 2}; /* images 0 1 | 2 3, channels 0 1 | 2 3 | 4 5 */
    double lying[4 * 6 * 6], rows[4 * 6 * 6];
    number_map(&m, lying);
    for (int i = 0; i < 4 * 36; i++) {
        rows[i] = 1000 * (i / 36) + 100 * (i / 6 % 6) + 10 * (i / 3 % 2) + i % 3;
    }
    assert_true(lying[12 * 2] == 100 * 2 && lying[36 * 2] == 2000 && lying[2] == 1000);
    result r = run(OP_FLATTEN, SAMPLE(.n_in = 1, .in = {MAP(2, 3, 2, 3, 2, 2)}), VALUES(lying));
    expect(&r, 0, rows);
    done(&r);
    r = run(OP_UNFLATTEN, SAMPLE(.n_in = 1, .in = {F2(4, 36)}, .attr = {.i = {3, 2, 3, 2, 2}}),
            VALUES(rows));
    expect(&r, 0, lying);
    done(&r);
    /* Two images of 1 x 2 pixels and 3 channels. */
    r = run(
        OP_IMAGES,
        SAMPLE(.n_in = 3, .in = {{IR_U8, 4, {2, 1, 2, 3}}, F1(3), F1(3)}, .attr = {.i = {2, 3}}),
        VALUES(NUMBERS(0, 1, 2, 3, 4, 5, 255, 128, 12, 13, 14, 15), NUMBERS(1, 2, 0.5),
               NUMBERS(10, 0, -1)));
    expect(&r, 0, NUMBERS(10, 2, 0, 265, 256, 5, 13, 8, 1.5, 23, 28, 6.5));
    done(&r);
}

/* One image, one channel: a map is its pixels. */
static void pools(void **state) {
    (void)state;
    const double nan = (double)NAN;
    const double *x = NUMBERS(1, 5, 5, 0, /**/ -2, 5, 3, 7, /**/ nan, 1, 2, 2);
    const ir_type map = MAP(1, 1, 3, 4, 1, 1), four = MAP(1, 1, 2, 2, 1, 1);
    /* Windows of 3 x 3, stride 2, padding 1: rows 0-1 and 1-2, columns 0-1 and 1-3. */
    const ir_attr with = {.i = {3, 3, 2, 1, 1, 2, 2}}, grad = {.i = {3, 3, 2, 1, 1}};
    result r = run(OP_MAX_POOL, SAMPLE(.n_in = 1, .in = {map}, .attr = with), VALUES(x));
    for (int i = 0; i < 4; i++) {
        double y = tensor_get(&r.data.out[0], i);
        assert_true(i == 2 ? isnan(y) : y == (i == 0 ? 5 : 7));
    }
    done(&r);
    /* The first of three 5s takes the first window, the NaN the third, the 7 the others. */
    const double *dy = NUMBERS(1, 20, 300, 4000);
    r = run(OP_MAX_POOL_GRAD, SAMPLE(.n_in = 2, .in = {four, map}, .attr = grad), VALUES(dy, x));
    expect(&r, 0, NUMBERS(0, 1, 0, 0, /**/ 0, 0, 0, 4020, /**/ 300, 0, 0, 0));
    done(&r);
    const double *z = NUMBERS(9, 18, 27, 36, /**/ 45, 54, 63, 72, /**/ 81, 90, 99, 108);
    r = run(OP_AVG_POOL, SAMPLE(.n_in = 1, .in = {map}, .attr = with), VALUES(z));
    expect(&r, 0, NUMBERS(14, 30, 30, 54)); /* over 9, inside or not */
    done(&r);
    r = run(OP_AVG_POOL_GRAD, SAMPLE(.n_in = 1, .in = {four}, .attr = {.i = {3, 3, 2, 1, 1, 3, 4}}),
            VALUES(NUMBERS(9, 180, 2700, 36000)));
    expect(&r, 0, NUMBERS(1, 21, 20, 20, /**/ 301, 4321, 4020, 4020, /**/ 300, 4300, 4000, 4000));
    done(&r);
    /* Windows of 2 x 2, stride 2: the lower ones end behind the map and are means of two. */
    r = run(OP_AVG_POOL, SAMPLE(.n_in = 1, .in = {map}, .attr = {.i = {2, 2, 2, 0, 0, 2, 2}}),
            VALUES(z));
    expect(&r, 0, NUMBERS(31.5, 49.5, 85.5, 103.5));
    done(&r);
    r = run(OP_AVG_POOL_GRAD, SAMPLE(.n_in = 1, .in = {four}, .attr = {.i = {2, 2, 2, 0, 0, 3, 4}}),
            VALUES(NUMBERS(4, 40, 200, 2000)));
    expect(&r, 0, NUMBERS(1, 1, 10, 10, /**/ 1, 1, 10, 10, /**/ 100, 100, 1000, 1000));
    done(&r);
    /* Columns are padded, rows are not: column 0; 1 and 2; 3. */
    r = run(OP_MAX_POOL, SAMPLE(.n_in = 1, .in = {map}, .attr = {.i = {3, 2, 2, 0, 1, 1, 3}}),
            VALUES(z));
    expect(&r, 0, NUMBERS(81, 99, 108));
    done(&r);
}

/* Windows of an even size reach further back than ahead; 7 channels in 7 blocks or in 1. */
static void local_response(void **state) {
    (void)state;
    const double x[7] = {1, -2, 3, 0.5, 4, -1, 2}, alpha = 0.75, k = 2;
    double y[7];
    for (int c = 0; c < 7; c++) {
        double sum = 0;
        for (int i = c - 2 < 0 ? 0 : c - 2; i <= c + 1 && i < 7; i++) { /* size 4 */
            sum += x[i] * x[i];
        }
        y[c] = x[c] / pow(k + alpha / 4 * sum, 0.75);
    }
    const ir_attr attr = {.i = {4}, .f = {0.75f, 2}};
    result r =
        run(OP_LRN, SAMPLE(.n_in = 1, .in = {MAP(1, 1, 1, 1, 1, 7)}, .attr = attr), VALUES(x));
    expect(&r, 0, y);
    done(&r);
    r = run(OP_LRN, SAMPLE(.n_in = 1, .in = {MAP(1, 7, 1, 1, 1, 1)}, .attr = attr), VALUES(x));
    expect(&r, 0, y);
    done(&r);
}

/* 12 images of two channels and 1 x 2 pixels in groups of 4; the first channel is one number. */
static void batch_norms(void **state) {
    (void)state;
    enum { COUNT = 24, CHANNELS = 2 };
    double x[COUNT * CHANNELS], y[COUNT * CHANNELS], sum = 0, squares = 0;
    const double gain[] = {3, 2}, bias[] = {-1, 0.5}, eps = (double)1e-3f;
    for (int i = 0; i < COUNT; i++) {
        x[2 * i] = 7;
        x[2 * i + 1] = (i * 5 % 24) * 0.25 - 2;
        sum += x[2 * i + 1];
    }
    for (int i = 0; i < COUNT; i++) {
        squares += (x[2 * i + 1] - sum / COUNT) * (x[2 * i + 1] - sum / COUNT);
    }
    double mean = sum / COUNT, scale = 1 / sqrt(squares / COUNT + eps);
    double stat[] = {7, mean, 1 / sqrt(eps), scale, 0, squares / (COUNT - 1)};
    for (int i = 0; i < COUNT; i++) {
        y[2 * i] = bias[0];
        y[2 * i + 1] = (x[2 * i + 1] - mean) * scale * gain[1] + bias[1];
    }
    const ir_type map = MAP(3, 1, 1, 2, 4, 2), lists = F2(3, 2);
    const ir_attr attr = {.f = {1e-3f}};
    result r = run(OP_BATCH_NORM, SAMPLE(.n_in = 3, .in = {map, F1(2), F1(2)}, .attr = attr),
                   VALUES(x, gain, bias));
    expect(&r, 0, y);
    expect(&r, 1, stat);
    done(&r);
    r = run(OP_BATCH_STAT, SAMPLE(.n_in = 1, .in = {map}, .attr = attr), VALUES(x));
    expect(&r, 0, stat);
    done(&r);
    r = run(OP_BATCH_APPLY, SAMPLE(.n_in = 4, .in = {map, lists, F1(2), F1(2)}),
            VALUES(x, stat, gain, bias));
    expect(&r, 0, y);
    done(&r);
    r = run(OP_BATCH_TRACK, SAMPLE(.n_in = 3, .in = {F1(2), F1(2), lists}, .attr = {.f = {0.25f}}),
            VALUES(NUMBERS(4, 8), NUMBERS(1, 2), NUMBERS(8, 4, 100, 100, 5, 6)));
    expect(&r, 0, NUMBERS(5, 7));
    expect(&r, 1, NUMBERS(2, 3));
    done(&r);
    r = run(OP_BATCH_KNOWN, SAMPLE(.n_in = 2, .in = {F1(2), F1(2)}, .attr = attr),
            VALUES(NUMBERS(4, 8), NUMBERS(0, 2)));
    expect(&r, 0, NUMBERS(4, 8, 1 / sqrt(eps), 1 / sqrt(2 + eps), 0, 2));
    done(&r);
}

/* As PyTorch's leaky_relu: 0 and -0 are not above 0, NaN stays. */
static void leaky(void **state) {
    (void)state;
    const ir_attr slope = {.f = {0.25f}};
    const double *x = NUMBERS(3, -4, 0, 1e-3, -1e30, 0.5), *dy = NUMBERS(1, 2, 3, -4, -5, 6);
    result r = run(OP_LEAKY_RELU, SAMPLE(IN(F1(6)), .attr = slope), VALUES(x));
    expect(&r, 0, NUMBERS(3, -1, 0, 1e-3, -0.25e30, 0.5));
    done(&r);
    r = run(OP_LEAKY_RELU_GRAD, SAMPLE(IN(F1(6), F1(6)), .attr = slope), VALUES(dy, x));
    expect(&r, 0, NUMBERS(1, 0.5, 0.75, -4, -1.25, 6));
    done(&r);
    r = run(OP_LEAKY_RELU, SAMPLE(IN(F1(1)), .attr = slope), VALUES(NUMBERS((double)NAN)));
    assert_true(isnan(tensor_get(&r.data.out[0], 0)));
    done(&r);
}

/* Where operands already lie inside the result, an alias op touches nothing. */
static void aliases_do_nothing(void **state) {
    (void)state;
    float block[6] = {1, 2, 3, 4, 5, 6};
    op_view whole = {block, F2(2, 3), 3}, left = {block, F2(2, 1), 3},
            right = {block + 1, F2(2, 2), 3};
    op_view parts[2] = {left, right};
    ir_attr attr = {.i = {1, 1, 2}};
    op_call concat = {.in = parts, .out = &whole, .n_in = 2, .n_out = 1, .attr = &attr};
    op_call slice = {.in = &whole, .out = &right, .n_in = 1, .n_out = 1, .attr = &attr};
    ebb__op(OP_CONCAT)->ref(&concat);
    ebb__op(OP_SLICE)->ref(&slice);
    for (int i = 0; i < 6; i++) {
        assert_true(block[i] == (float)(i + 1));
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(float_and_double_agree),
        cmocka_unit_test(matmul_forms),
        cmocka_unit_test(embedding),
        cmocka_unit_test(cells),
        cmocka_unit_test(losses),
        cmocka_unit_test(clipping),
        cmocka_unit_test(updates),
        cmocka_unit_test(dropout_follows_rows),
        cmocka_unit_test(sums),
        cmocka_unit_test(moves),
        cmocka_unit_test(flat_maps),
        cmocka_unit_test(pools),
        cmocka_unit_test(local_response),
        cmocka_unit_test(batch_norms),
        cmocka_unit_test(leaky),
        cmocka_unit_test(aliases_do_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
