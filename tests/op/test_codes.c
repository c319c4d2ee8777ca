/* test_codes.c - what reads a code gives the bits of what reads the tensor that it was made of: for
 * every op that has such a pair (op_def.coded), all its samples and numbers of every kind; and what
 * the codes are, bit by bit. */
#include "sample.h"

#include "op/code.h"
#include "op/define.h"

/* ---- pairs ---- */

/* A tensor for a value of the case's graph, as `op` takes it. */
static tensor value_tensor(const op_case *c, const op_def *op, ir_val v) {
    return data_tensor(op, &c->graph.values[v].type, false, 0);
}

/* Runs the reference of the last node. */
static void run_last(const op_case *c, const op_view *in, tensor *out) {
    const ir_node_rec *node = &c->graph.nodes[c->graph.n_nodes - 1];
    op_call call = {.in = in,
                    .out = &out->view,
                    .n_in = node->n_in,
                    .n_out = 1,
                    .attr = &node->attr,
                    .members = 1};
    ebb__op(node->op)->ref(&call);
    assert_true(tensor_guarded(out));
}

/* The results of the case's reader, and of the two nodes that may stand for it. */
static void check_pair(op_case *c, op_data *data, const char *numbers) {
    const op_def *reader = c->op;
    int32_t in = reader->coded.in;
    op_views v;
    ir_val code, out;
    views_of(&v, c, data, 0);
    reader->ref(&v.call);
    assert_int_equal(ebb__op_emit_code(&c->graph, &c->node, &code), EBB_OK);
    tensor coded = value_tensor(c, ebb__op(reader->coded.code), code);
    run_last(c, &v.in[in], &coded);
    assert_int_equal(ebb__op_emit_coded(&c->graph, &c->node, code, &out), EBB_OK);
    assert_true(ebb__ir_type_equal(&c->graph.values[out].type, &data->out[0].view.type));
    tensor got = value_tensor(c, reader, out);
    v.in[in] = coded.view;
    run_last(c, v.in, &got);
    if (!tensor_same(&got, &data->out[0])) {
        fail_msg("%s and %s differ, %s", reader->schema.name,
                 ebb__op(reader->coded.reader)->schema.name, numbers);
    }
    assert_true(tensor_count(&coded) * (int64_t)coded.element <
                tensor_count(&data->in[in]) * (int64_t)sizeof(float));
    tensor_free(&coded);
    tensor_free(&got);
}

/* Numbers of every kind, many of them equal. */
static void fill_any(tensor *t, uint64_t seed) {
    static const float any[] = {0.0f,     -0.0f,   1.0f,   1.0f, -1.0f,    2.5f,
                                -3.4e38f, 3.4e38f, 1e-42f, NAN,  INFINITY, -INFINITY};
    draw d = {seed};
    for (int64_t i = 0; i < tensor_count(t); i++) {
        tensor_set(t, i, (double)any[draw_bits(&d) % (sizeof any / sizeof *any)]);
    }
}

static void check_sample(int code, const op_sample *sample) {
    op_case c;
    case_open(&c, code, sample);
    op_data data = data_make(&c, false, 0, 1.0, 31);
    check_pair(&c, &data, "ordinary numbers");
    fill_any(&data.in[c.op->coded.in], 5);
    check_pair(&c, &data, "special numbers");
    fill_any(&data.in[0], 6);
    check_pair(&c, &data, "special numbers, dy too");
    data_free(&data);
    case_close(&c);
}

static void coded_readers_give_the_same_bits(void **state) {
    (void)state;
    static const op_sample maps[] = {
        /* of the gradients of relus, whose samples are none */
        {IN(MAP(1, 1, 1, 1, 1, 1), MAP(1, 1, 1, 1, 1, 1))},
        {IN(MAP(2, 2, 3, 5, 8, 32), MAP(2, 2, 3, 5, 8, 32))},
        {IN(MAP(3, 1, 2, 3, 5, 3), MAP(3, 1, 2, 3, 5, 3))},
    };
    int pairs = 0;
    for (int code = 0; code < OP_COUNT; code++) {
        const op_def *op = ebb__op(code);
        for (int32_t s = 0; op->coded.code != 0 && s < op->n_samples; s++) {
            check_sample(code, &op->samples[s]);
            pairs++;
        }
    }
    for (size_t s = 0; s < sizeof maps / sizeof *maps; s++) {
        op_sample leaky = maps[s];
        leaky.attr.f[0] = 0.1f;
        check_sample(OP_RELU_GRAD, &maps[s]);
        check_sample(OP_LEAKY_RELU_GRAD, &leaky);
    }
    assert_true(pairs > 0);
}

/* ---- signs ---- */

static void signs_are_bits(void **state) {
    (void)state;
    static const float x[2][10] = {{1, -1, 0, 2, -0.0f, NAN, INFINITY, -INFINITY, 1e-42f, 3},
                                   {-1, -1, -1, -1, -1, -1, -1, 4, -1, -1}};
    static const uint8_t want[2][2] = {{1 | 8 | 64, 1 | 2}, {128, 0}};
    uint8_t bits[2][2];
    op_view in = {(void *)x, F2(2, 10), 10}, out = {bits, {IR_U8, 2, {2, 2}}, 2};
    ebb__op(OP_SIGN_BITS)->ref(&(op_call){.in = &in, .out = &out, .n_in = 1, .n_out = 1});
    assert_memory_equal(bits, want, sizeof want);
}

/* ---- pools ---- */

/* The map of test_ref's pools: windows of 3 x 3, stride 2, padding 1. Its winners: the first 5 in
 * row 0, column 1; the 7 in row 1, column 3; the NaN in row 2, column 0; the 7 again. */
static void taps_are_numbered_in_their_window(void **state) {
    (void)state;
    static const float x[] = {1, 5, 5, 0, /**/ -2, 5, 3, 7, /**/ NAN, 1, 2, 2};
    const ir_attr attr = {.i = {3, 3, 2, 1, 1, 2, 2}};
    uint8_t codes[2];
    op_view in = {(void *)x, MAP(1, 1, 3, 4, 1, 1), 1}, out = {codes, {IR_U8, 2, {1, 2}}, 2};
    ebb__op(OP_POOL_INDEX)
        ->ref(&(op_call){.in = &in, .out = &out, .n_in = 1, .n_out = 1, .attr = &attr});
    assert_int_equal(codes[0], (1 * 3 + 2) | (2 * 3 + 2) << 4);
    assert_int_equal(codes[1], (1 * 3 + 1) | (0 * 3 + 2) << 4);
    /* Four windows of 2 x 2 in a byte. */
    const ir_attr small = {.i = {2, 2, 2, 0, 0, 1, 4}};
    static const float z[] = {1, 0, 0, 1, 0, 0, 0, 0, /**/ 0, 0, 0, 0, 1, 0, 0, 1};
    in = (op_view){(void *)z, MAP(1, 1, 2, 8, 1, 1), 1};
    out = (op_view){codes, {IR_U8, 2, {1, 1}}, 1};
    ebb__op(OP_POOL_INDEX)
        ->ref(&(op_call){.in = &in, .out = &out, .n_in = 1, .n_out = 1, .attr = &small});
    assert_int_equal(codes[0], 0 | 1 << 2 | 2 << 4 | 3 << 6);
}

/* Reports tell what waits for backward by these names. */
static void codes_have_a_form(void **state) {
    op_forms forms = ebb__op_forms();
    (void)state;
    for (int op = 0; op < OP_COUNT; op++) {
        const op_def *code = ebb__op(op)->coded.code != 0 ? ebb__op(ebb__op(op)->coded.code) : NULL;
        assert_true(code == NULL || code->form != NULL);
        const char *form = ebb__op(op)->form;
        assert_string_equal(forms.names[forms.of[op]], form != NULL ? form : "dense");
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(coded_readers_give_the_same_bits),
        cmocka_unit_test(signs_are_bits),
        cmocka_unit_test(taps_are_numbered_in_their_window),
        cmocka_unit_test(codes_have_a_form),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
