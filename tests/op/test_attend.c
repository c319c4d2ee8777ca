/* test_attend.c - what is special about attention, layer norm and label smoothing, for the
 * references and every kernel: scores and rows beyond a length are never read, whatever they hold;
 * lengths of 0; numbers so small that products vanish; and the textbook formulas in double. */
#include "sample.h"

#include "device/device.h"
#include "op/define.h"

enum { S = 7, B = 9, H = 37 };

static const double lengths[B] = {0, 1, 2, 3, 5, 7, 8, -1, 4};

static bool is_padding(int64_t block, int64_t b) {
    return (double)(S - 1 - block) >= lengths[b];
}

/* ---- an op with given numbers: by the reference and by every kernel ---- */

typedef void (*change_fn)(op_data *data, double garbage);

typedef struct attempt {
    int code;
    const op_sample *sample;
    change_fn change; /* of the drawn operands */
    double garbage, magnitude;
} attempt;

static op_data run_by(const attempt *a, const op_case *c, op_kernel_fn kernel) {
    op_data data = data_make(c, false, 0, a->magnitude, 31);
    op_views v;
    if (a->change != NULL) {
        a->change(&data, a->garbage);
    }
    views_of(&v, c, &data, 0);
    kernel(&v.call);
    return data;
}

static void same_results(const op_data *got, const op_data *want, const char *what) {
    for (int32_t i = 0; i < want->n_out; i++) {
        if (!tensor_same(&got->out[i], &want->out[i])) {
            fail_msg("%s: result %d differs", what, i);
        }
    }
}

/* The reference's results; every kernel gives the same bits. */
static op_data run_all(const attempt *a) {
    const device *dev = ebb__device_default();
    op_case c;
    case_open(&c, a->code, a->sample);
    op_data want = run_by(a, &c, c.op->ref);
    int checked = 0;
    for (int32_t k = 0; k < dev->n_kernels; k++) {
        const device_kernel *kernel = &dev->kernels[k];
        if ((int)kernel->op == a->code && kernel->accept(&c.graph, &c.node) == NULL) {
            op_data got = run_by(a, &c, kernel->run);
            same_results(&got, &want, kernel->name);
            data_free(&got);
            checked++;
        }
    }
    assert_true(checked > 0);
    case_close(&c);
    return want;
}

/* Whatever is written where nobody may look, the results are the same. */
static void ignores_garbage(attempt a) {
    static const double garbage[] = {1e30, -0.0, (double)INFINITY, -(double)INFINITY, (double)NAN};
    a.magnitude = 1.0;
    op_data want = run_all(&a);
    for (int32_t i = 0; i < want.n_out; i++) {
        for (int64_t e = 0; e < tensor_count(&want.out[i]); e++) {
            assert_true(isfinite(tensor_get(&want.out[i], e)));
        }
    }
    for (size_t g = 0; g < sizeof garbage / sizeof *garbage; g++) {
        a.garbage = garbage[g];
        op_data got = run_all(&a);
        same_results(&got, &want, ebb__op(a.code)->schema.name);
        data_free(&got);
    }
    data_free(&want);
}

/* ---- padding ---- */

static void set_lengths(tensor *t) {
    for (int64_t b = 0; b < B; b++) {
        tensor_set(t, b, lengths[b]);
    }
}

/* The padded elements of a tensor [S,B]. */
static void set_padding(tensor *t, double value) {
    for (int64_t e = 0; e < tensor_count(t); e++) {
        if (is_padding(e / B, e % B)) {
            tensor_set(t, e, value);
        }
    }
}

static void set_padded_rows(tensor *t, double value) {
    for (int64_t e = 0; e < tensor_count(t); e++) {
        if (is_padding(e / H / B, e / H % B)) {
            tensor_set(t, e, value);
        }
    }
}

static void garbage_scores(op_data *data, double garbage) {
    set_lengths(&data->in[1]);
    set_padding(&data->in[0], garbage);
}

static void garbage_slopes(op_data *data, double garbage) {
    set_padding(&data->in[0], 0);
    set_padding(&data->in[1], garbage);
}

static void garbage_rows(op_data *data, double garbage) {
    set_padding(&data->in[0], 0);
    set_padded_rows(&data->in[1], garbage);
}

/* Batch row 0 has no weight at all. */
static void garbage_products(op_data *data, double garbage) {
    set_padding(&data->in[1], 0);
    for (int64_t h = 0; h < H; h++) {
        tensor_set(&data->in[2], h, garbage);
    }
}

static void garbage_states(op_data *data, double garbage) {
    set_lengths(&data->in[1]);
    for (int64_t e = 0; e < tensor_count(&data->in[0]); e++) {
        if (lengths[e / H] <= 3) {
            tensor_set(&data->in[0], e, garbage);
        }
    }
}

static const op_sample scores = {
    .n_in = 2, .in = {F2(S, B), I1(B)}, .fill = {FILL_NORMAL, FILL_LABEL}, .limit = S};
static const op_sample slopes = {
    .n_in = 2, .in = {F2(S, B), F2(S, B)}, .fill = {FILL_UNIT, FILL_NORMAL}};
static const op_sample weighted = {.n_in = 2, .in = {F2(S, B), F2(S *B, H)}};
static const op_sample outer = {.n_in = 3, .in = {F2(S * B, H), F2(S, B), F2(B, H)}};
static const op_sample outer_only = {
    .n_in = 3, .in = {F2(S * B, H), F2(S, B), F2(B, H)}, .fill = {FILL_ABSENT}};
static const op_sample states = {.n_in = 2,
                                 .in = {F2(B, H), I1(B)},
                                 .fill = {FILL_NORMAL, FILL_LABEL},
                                 .limit = S,
                                 .attr = {.i = {3}}};

static void padding_is_never_read(void **state) {
    (void)state;
    ignores_garbage((attempt){OP_MASK_SOFTMAX, &scores, garbage_scores, 5.0, 1.0});
    ignores_garbage((attempt){OP_MASK_SOFTMAX_GRAD, &slopes, garbage_slopes, 5.0, 1.0});
    ignores_garbage((attempt){OP_WEIGHTED_SUM, &weighted, garbage_rows, 5.0, 1.0});
    ignores_garbage((attempt){OP_OUTER_EACH, &outer, garbage_products, 5.0, 1.0});
    ignores_garbage((attempt){OP_OUTER_EACH, &outer_only, garbage_products, 5.0, 1.0});
    ignores_garbage((attempt){OP_MASK_ROWS, &states, garbage_states, 5.0, 1.0});
}

/* Against exp(x) / sum of exp(x); padding is +0 and nothing else, also where all is padding. */
static void softmax_of_lengths(void **state) {
    (void)state;
    op_data r = run_all(&(attempt){OP_MASK_SOFTMAX, &scores, garbage_scores, (double)NAN, 1.0});
    for (int64_t b = 0; b < B; b++) {
        double sum = 0, total = 0;
        for (int64_t j = 0; j < S; j++) {
            sum += is_padding(j, b) ? 0 : exp(tensor_get(&r.in[0], j * B + b));
        }
        for (int64_t j = 0; j < S; j++) {
            double a = tensor_get(&r.out[0], j * B + b);
            double want = is_padding(j, b) ? 0 : exp(tensor_get(&r.in[0], j * B + b)) / sum;
            assert_true(fabs(a - want) <= 1e-6 && (want != 0 || (a == 0 && !signbit(a))));
            total += a;
        }
        assert_true(fabs(total - (lengths[b] > 0 ? 1.0 : 0.0)) < 1e-6);
    }
    data_free(&r);
}

/* Products that vanish leave zeros of either sign in the lanes; columns that a row does not have
 * must not touch them. */
static void vanishing_products(void **state) {
    (void)state;
    static const int codes[] = {OP_DOT_ROWS,        OP_DOT_EACH,        OP_WEIGHTED_SUM,
                                OP_OUTER_EACH,      OP_OUTER_ROWS,      OP_LAYER_NORM,
                                OP_LAYER_NORM_GRAD, OP_LAYER_NORM_GAIN, OP_MASK_SOFTMAX_GRAD};
    for (size_t i = 0; i < sizeof codes / sizeof *codes; i++) {
        const op_def *op = ebb__op(codes[i]);
        for (int32_t s = 0; s < op->n_samples; s++) {
            static const double tiny[] = {1e-19, 3e-23, 1e-30};
            for (size_t t = 0; t < sizeof tiny / sizeof *tiny; t++) {
                op_data r = run_all(&(attempt){codes[i], &op->samples[s], NULL, 0, tiny[t]});
                data_free(&r);
            }
        }
    }
}

/* ---- textbook formulas ---- */

static void expect(double got, double want, double within) {
    if (!(fabs(got - want) <= within * (1 + fabs(want)))) {
        fail_msg("%.9g, not %.9g", got, want);
    }
}

static void attention_by_hand(void **state) {
    (void)state;
    static const op_sample each = {.n_in = 2, .in = {F2(S * B, H), F2(B, H)}};
    static const op_sample rows = {.n_in = 2, .in = {F2(S * B, H), F1(H)}, .attr = {.i = {B}}};
    op_data d = run_all(&(attempt){OP_DOT_EACH, &each, NULL, 0, 1.0});
    op_data v = run_all(&(attempt){OP_DOT_ROWS, &rows, NULL, 0, 1.0});
    op_data w = run_all(&(attempt){OP_WEIGHTED_SUM, &weighted, NULL, 0, 1.0});
    double context[B][H] = {{0}};
    for (int64_t r = 0; r < S * B; r++) {
        double each_sum = 0, rows_sum = 0;
        for (int64_t h = 0; h < H; h++) {
            each_sum += tensor_get(&d.in[0], r * H + h) * tensor_get(&d.in[1], r % B * H + h);
            rows_sum += tensor_get(&v.in[0], r * H + h) * tensor_get(&v.in[1], h);
            context[r % B][h] += tensor_get(&w.in[0], r) * tensor_get(&w.in[1], r * H + h);
        }
        expect(tensor_get(&d.out[0], r), each_sum, 1e-5);
        expect(tensor_get(&v.out[0], r), rows_sum, 1e-5);
    }
    for (int64_t e = 0; e < B * H; e++) {
        expect(tensor_get(&w.out[0], e), context[e / H][e % H], 1e-5);
    }
    data_free(&d);
    data_free(&v);
    data_free(&w);
}

/* Biased variance; rows far from 0 too. */
static void shift_rows(op_data *data, double by) {
    for (int64_t e = 0; e < tensor_count(&data->in[0]); e++) {
        tensor_set(&data->in[0], e, tensor_get(&data->in[0], e) + by);
    }
}

static void norm_by_hand(void **state) {
    (void)state;
    static const op_sample norm = {
        .n_in = 3, .in = {F2(B, H), F1(H), F1(H)}, .attr = {.f = {1e-3f}}};
    static const double shifts[] = {0, 50};
    for (size_t i = 0; i < sizeof shifts / sizeof *shifts; i++) {
        op_data r = run_all(&(attempt){OP_LAYER_NORM, &norm, shift_rows, shifts[i], 1.0});
        for (int64_t b = 0; b < B; b++) {
            double mean = 0, variance = 0;
            for (int64_t h = 0; h < H; h++) {
                mean += tensor_get(&r.in[0], b * H + h) / H;
            }
            for (int64_t h = 0; h < H; h++) {
                variance += pow(tensor_get(&r.in[0], b * H + h) - mean, 2) / H;
            }
            double scale = 1 / sqrt(variance + (double)1e-3f);
            expect(tensor_get(&r.out[1], 2 * b), mean, 1e-6);
            expect(tensor_get(&r.out[1], 2 * b + 1), scale, 1e-5);
            for (int64_t h = 0; h < H; h++) {
                double hat = (tensor_get(&r.in[0], b * H + h) - mean) * scale;
                expect(tensor_get(&r.out[0], b * H + h),
                       hat * tensor_get(&r.in[1], h) + tensor_get(&r.in[2], h), 1e-5);
            }
        }
        data_free(&r);
    }
}

/* The sum over blocks of every batch row is the sum over all rows. */
static void gains_of_blocks(void **state) {
    (void)state;
    static const op_sample blocks = {.n_in = 3,
                                     .in = {F2(S * B, H), F2(S * B, H), F2(S * B, 2)},
                                     .fill = {FILL_NORMAL, FILL_NORMAL, FILL_POSITIVE},
                                     .attr = {.i = {B}}};
    op_sample alone = blocks;
    alone.attr.i[0] = 0;
    op_data r = run_all(&(attempt){OP_LAYER_NORM_GAIN, &blocks, NULL, 0, 1.0});
    op_data one = run_all(&(attempt){OP_LAYER_NORM_GAIN, &alone, NULL, 0, 1.0});
    assert_int_equal(tensor_count(&one.out[0]), S * B * H);
    for (int64_t e = 0; e < B * H; e++) {
        double sum = 0;
        for (int64_t j = 0; j < S; j++) {
            sum += tensor_get(&one.out[0], j * B * H + e);
        }
        expect(tensor_get(&r.out[0], e), sum, 1e-5);
    }
    data_free(&r);
    data_free(&one);
}

/* (1-e) of the loss of the label and e of the mean loss of all classes; its gradient is the
 * probability less what the label has become. */
static void smoothed_labels(void **state) {
    (void)state;
    static const float parts[] = {0.0f, 0.1f, 0.6f, 1.0f};
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++) {
        double e = (double)parts[i];
        const op_sample loss = {.n_in = 2,
                                .in = {F2(S, H), I1(S)},
                                .fill = {FILL_NORMAL, FILL_LABEL},
                                .limit = H,
                                .attr = {.f = {parts[i]}}};
        const op_sample slope = {.n_in = 4,
                                 .in = {F2(S, H), I1(S), F1(S), F1(S)},
                                 .fill = {FILL_NORMAL, FILL_LABEL, FILL_POSITIVE, FILL_NORMAL},
                                 .limit = H,
                                 .attr = {.f = {parts[i]}}};
        op_data r = run_all(&(attempt){OP_XENT, &loss, NULL, 0, 2.0});
        op_data g = run_all(&(attempt){OP_XENT_GRAD, &slope, NULL, 0, 2.0});
        for (int64_t row = 0; row < S; row++) {
            int32_t label = ((const int32_t *)r.in[1].view.data)[row];
            double sum = 0, all = 0, scale = tensor_get(&g.in[3], row);
            for (int64_t h = 0; h < H; h++) {
                sum += exp(tensor_get(&r.in[0], row * H + h));
            }
            for (int64_t h = 0; h < H; h++) {
                all += (log(sum) - tensor_get(&r.in[0], row * H + h)) / H;
                double p = exp(tensor_get(&g.in[0], row * H + h) - tensor_get(&g.in[2], row));
                double target = e / H + (h == label ? 1 - e : 0);
                expect(tensor_get(&g.out[0], row * H + h), label < 0 ? 0 : (p - target) * scale,
                       1e-5);
            }
            double plain = label < 0 ? 0 : log(sum) - tensor_get(&r.in[0], row * H + label);
            expect(tensor_get(&r.out[0], row), label < 0 ? 0 : (1 - e) * plain + e * all, 1e-5);
        }
        data_free(&r);
        data_free(&g);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(padding_is_never_read), cmocka_unit_test(softmax_of_lengths),
        cmocka_unit_test(vanishing_products),    cmocka_unit_test(attention_by_hand),
        cmocka_unit_test(norm_by_hand),          cmocka_unit_test(gains_of_blocks),
        cmocka_unit_test(smoothed_labels),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
