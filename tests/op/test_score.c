/* test_score.c - the scores of attention as one op, and their gradient, against the ops that they
 * stand for: the same bits from the references and from every kernel, also where weights are 0 of
 * either sign, sums begin at -0, products vanish, and numbers are infinite or none. */
#include "sample.h"

#include "device/device.h"
#include "op/define.h"

enum { S = 5, B = 3, H = 37, ROUNDS = 12 };

static const op_sample score = {.n_in = 3, .in = {F2(S * B, H), F2(B, H), F1(H)}};
static const op_sample grad[2] = {
    {.n_in = 5, .in = {F2(S * B, H), F2(S, B), F2(S *B, H), F2(B, H), F1(H)}},
    {.n_in = 5,
     .in = {F2(S * B, H), F2(S, B), F2(S *B, H), F2(B, H), F1(H)},
     .fill = {FILL_ABSENT}}};

/* Strange numbers here and there; in some rounds only finite ones. */
static void make_hard(op_data *data, uint64_t round) {
    static const double strange[] = {
        0, -0.0, 1e-45, -1e-45, 1e-30, 1e30, (double)INFINITY, -(double)INFINITY, (double)NAN};
    draw d = {round};
    for (int32_t i = 0; i < data->n_in; i++) {
        for (int64_t e = 0; data->in[i].block != NULL && e < tensor_count(&data->in[i]); e++) {
            uint64_t at = draw_bits(&d);
            if (at % 8 == 0) {
                tensor_set(&data->in[i], e, strange[at / 8 % (round % 2 == 0 ? 5 : 9)]);
            }
        }
    }
}

static void call(int code, const tensor *const *in, int32_t n_in, const tensor *out) {
    const ir_attr attr = {.i = {B}}; /* whoever has no batch does not look */
    op_view views[5] = {{0}};
    for (int32_t i = 0; i < n_in; i++) {
        views[i] = in[i]->view;
    }
    ebb__op(code)->ref(&(op_call){
        .in = views, .out = &out->view, .n_in = n_in, .n_out = 1, .attr = &attr, .members = 1});
}

#define CALL(code, out, ...)                                                                       \
    do {                                                                                           \
        const tensor *list_[] = {__VA_ARGS__};                                                     \
        call(code, list_, (int32_t)(sizeof list_ / sizeof *list_), out);                           \
    } while (0)

/* What the small ops make of the operands, in place of the results. */
static void unfused_score(op_data *data) {
    tensor a = tensor_make(&data->in[0].view.type, false, 0);
    CALL(OP_ADD_EACH, &a, &data->in[0], &data->in[1]);
    CALL(OP_TANH, &a, &a);
    CALL(OP_DOT_ROWS, &data->out[0], &a, &data->in[2]);
    tensor_free(&a);
}

static void unfused_grad(op_data *data) {
    const tensor *ds = &data->in[1], *x = &data->in[2], *q = &data->in[3], *v = &data->in[4];
    tensor a = tensor_make(&x->view.type, false, 0), g = tensor_make(&x->view.type, false, 0);
    CALL(OP_ADD_EACH, &a, x, q);
    CALL(OP_TANH, &a, &a);
    CALL(OP_OUTER_ROWS, &g, ds, v);
    CALL(OP_WEIGHTED_SUM, &data->out[2], ds, &a);
    CALL(OP_TANH_GRAD, &g, &g, &a);
    CALL(OP_SUM_EACH, &data->out[1], &g);
    if (data->in[0].block != NULL) {
        CALL(OP_ADD, &data->out[0], &data->in[0], &g);
    } else {
        tensor_copy(&data->out[0], &g);
    }
    tensor_free(&a);
    tensor_free(&g);
}

static void check(const op_case *c, op_kernel_fn kernel, const char *name, const op_data *want,
                  uint64_t round) {
    op_data got = data_make(c, false, 0, 1.0, round);
    op_views v;
    make_hard(&got, round);
    views_of(&v, c, &got, 0);
    kernel(&v.call);
    for (int32_t i = 0; i < want->n_out; i++) {
        if (!tensor_same(&got.out[i], &want->out[i])) {
            fail_msg("%s: result %d, round %d", name, i, (int)round);
        }
    }
    data_free(&got);
}

static void compare(int code, const op_sample *sample, void (*unfused)(op_data *data)) {
    const device *dev = ebb__device_default();
    op_case c;
    case_open(&c, code, sample);
    for (uint64_t round = 0; round < ROUNDS; round++) {
        op_data want = data_make(&c, false, 0, 1.0, round);
        make_hard(&want, round);
        unfused(&want);
        check(&c, c.op->ref, "reference", &want, round);
        for (int32_t k = 0; k < dev->n_kernels; k++) {
            const device_kernel *kernel = &dev->kernels[k];
            if ((int)kernel->op == code && kernel->accept(&c.graph, &c.node) == NULL) {
                check(&c, kernel->run, kernel->name, &want, round);
            }
        }
        data_free(&want);
    }
    case_close(&c);
}

static void scores(void **state) {
    (void)state;
    compare(OP_SCORE_TANH, &score, unfused_score);
}

static void gradients(void **state) {
    (void)state;
    compare(OP_SCORE_TANH_GRAD, &grad[0], unfused_grad);
    compare(OP_SCORE_TANH_GRAD, &grad[1], unfused_grad);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(scores), cmocka_unit_test(gradients)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
