/* test_stash.c - what backward reads where values that wait for it are rounded: which are, which
 * are made again of those, which stay exact; and how they wait. That plans agree on the bits is the
 * matter of test_fuzz and test_fuzz_nets, which draw formats. */
#include "op/conv.h"
#include "support/graphs.h"

/* Pixels through convolution, norm and relu, a second convolution, relu and pool, and a product. */
static const char *const model =
    "input %0 u8[8,4,4,3] \"pixels\"\ninput %1 f32[3] \"scale\"\ninput %2 f32[3] \"shift\"\n"
    "param %3 f32[3,3,1,1] \"w\"\nparam %4 f32[3] \"gain\"\nparam %5 f32[3] \"bias\"\n"
    "param %6 f32[3,3,1,1] \"w2\"\nparam %7 f32[5,12] \"v\"\ninput %8 i32[8] \"y\"\n"
    "%9:f32[1,1,4,4,8,3] = images %0 %1 %2 {lanes=8 channels=3}\n"
    "%10:f32[1,1,4,4,8,3] = conv - %9 %3 {stride=1 groups=1 lanes=3}\n"
    "%11:f32[1,1,4,4,8,3], %12:f32[3,3] = batch_norm %10 %4 %5 {eps=0x1p-10}\n"
    "%13:f32[1,1,4,4,8,3] = relu %11\n"
    "%14:f32[1,1,4,4,8,3] = conv - %13 %6 {stride=1 groups=1 lanes=3}\n"
    "%15:f32[1,1,4,4,8,3] = relu %14\n"
    "%16:f32[1,1,2,2,8,3] = max_pool %15 {window_y=2 window_x=2 stride=2 high=2 wide=2}\n"
    "%17:f32[8,12] = flatten %16\n"
    "%18:f32[8,5] = matmul - %17 %7 {trans_b=1}\n"
    "%19:f32[8], %20:f32[8] = xent %18 %8\n"
    "%21:f32[1] = mean_valid %19 %8\n"
    "loss %21\noutput %21 \"loss\"\n";

static void start(test_unit *t, ebb_ctx *ctx, int32_t stash, bool encode) {
    test_unit_text(t, ctx, model);
    t->config.training = true;
    t->config.stash = stash;
    t->config.knobs.encode = encode;
    test_pass(t, &ebb__pass_grad);
    test_pass(t, &ebb__pass_stash);
    test_pass(t, &ebb__pass_encode);
}

/* The node that makes operand k of the node; it has this op and phase. */
static const ir_node_rec *from(const ir_graph *g, const ir_node_rec *node, int32_t k, op_code op,
                               ir_phase phase) {
    const ir_node_rec *def = test_def(g, ir_in(g, node, k));
    assert_non_null(def);
    assert_string_equal(ebb__op(def->op)->schema.name, ebb__op((int)op)->schema.name);
    assert_int_equal(def->label.phase, phase);
    return def;
}

/* The weight gradient of convolution n, from the last to the first. */
static const ir_node_rec *weights(const ir_graph *g, int n) {
    return test_node(g, OP_CONV_WEIGHTS, n);
}

static void products_are_rounded(void **state) {
    (void)state;
    ebb_ctx *ctx = test_ctx_new();
    test_unit t;
    start(&t, ctx, 8, false);
    const ir_graph *g = &t.unit.graph;
    /* Of the first convolution's result, what the norm's gradient reads. */
    const ir_node_rec *norm = test_node(g, OP_BATCH_GRAD, 0);
    const ir_node_rec *rounded = from(g, norm, 1, OP_ROUND_TO, IR_FORWARD);
    assert_ptr_equal(from(g, rounded, 0, OP_CONV, IR_FORWARD), test_node(g, OP_CONV, 0));
    assert_int_equal(rounded->attr.i[0], 8);
    assert_int_equal(ir_in(g, test_node(g, OP_BATCH_GRAD_SUMS, 0), 1), rounded->out);
    from(g, norm, 2, OP_BATCH_STAT, IR_FORWARD); /* of what is exact */
    /* Relu and pool: the smallest of a chain that rounding may come before or behind. */
    const ir_node_rec *flat = from(g, test_node(g, OP_ROUND_TO, 1), 0, OP_FLATTEN, IR_FORWARD);
    from(g, flat, 0, OP_MAX_POOL, IR_FORWARD);
    assert_int_equal(test_count(g, OP_ROUND_TO), 2);
    test_unit_fini(&t);
    test_ctx_free(ctx);
}

static void the_rest_is_made_again(void **state) {
    (void)state;
    ebb_ctx *ctx = test_ctx_new();
    test_unit t;
    start(&t, ctx, 16, false);
    const ir_graph *g = &t.unit.graph;
    const ir_node_rec *relu = from(g, weights(g, 0), 2, OP_RELU, IR_RECOMPUTE);
    const ir_node_rec *apply = from(g, relu, 0, OP_BATCH_APPLY, IR_RECOMPUTE);
    assert_int_equal(relu->label.layer, weights(g, 0)->label.layer);
    assert_int_equal(from(g, apply, 0, OP_ROUND_TO, IR_FORWARD)->attr.i[0], 16);
    from(g, apply, 1, OP_BATCH_STAT, IR_FORWARD);
    /* Images are made of pixels once more. */
    const ir_node_rec *images = from(g, weights(g, 1), 2, OP_IMAGES, IR_RECOMPUTE);
    assert_int_equal(g->values[ir_in(g, images, 0)].role, IR_INPUT);
    test_unit_fini(&t);
    test_ctx_free(ctx);
}

static void signs_places_and_the_loss_are_exact(void **state) {
    (void)state;
    ebb_ctx *ctx = test_ctx_new();
    test_unit t;
    start(&t, ctx, 10, false);
    const ir_graph *g = &t.unit.graph;
    from(g, test_node(g, OP_RELU_GRAD, 0), 1, OP_RELU, IR_FORWARD);
    from(g, test_node(g, OP_RELU_GRAD, 1), 1, OP_RELU, IR_FORWARD);
    from(g, test_node(g, OP_MAX_POOL_GRAD, 0), 1, OP_RELU, IR_FORWARD);
    from(g, test_node(g, OP_XENT_GRAD, 0), 0, OP_MATMUL, IR_FORWARD);
    /* Forward reads nothing that is rounded. */
    for (int32_t i = 0; i < g->n_order; i++) {
        const ir_node_rec *node = &g->nodes[g->order[i]];
        for (int32_t k = 0; node->label.phase == IR_FORWARD && k < node->n_in; k++) {
            ir_val v = ir_in(g, node, k);
            ir_node def = v == IR_NONE ? (ir_node)IR_NONE : g->values[v].def;
            assert_true(def == IR_NONE || ebb__op_rounds(&g->nodes[def]) == 0);
        }
    }
    test_unit_fini(&t);
    test_ctx_free(ctx);
}

static void nothing_without_a_format(void **state) {
    (void)state;
    ebb_ctx *ctx = test_ctx_new();
    test_unit t, plain;
    start(&t, ctx, 0, false);
    test_unit_text(&plain, ctx, model);
    plain.config.training = true;
    test_pass(&plain, &ebb__pass_grad);
    char *text = test_text(&plain.unit.graph);
    test_expect(&t.unit.graph, text);
    free(text);
    test_unit_fini(&plain);
    test_unit_fini(&t);
    test_ctx_free(ctx);
}

/* What is rounded waits in its bits, for every layer that reads it. */
static void codes_wait(void **state) {
    (void)state;
    ebb_ctx *ctx = test_ctx_new();
    test_unit t;
    start(&t, ctx, 8, true);
    const ir_graph *g = &t.unit.graph;
    assert_int_equal(test_count(g, OP_ROUND_TO), 0);
    assert_int_equal(test_count(g, OP_NARROW), 2);
    const ir_node_rec *code = test_node(g, OP_NARROW, 0);
    assert_int_equal(code->label.phase, IR_FORWARD);
    assert_ptr_equal(from(g, code, 0, OP_CONV, IR_FORWARD), test_node(g, OP_CONV, 0));
    const ir_node_rec *numbers = from(g, test_node(g, OP_BATCH_GRAD, 0), 1, OP_WIDEN, IR_RECOMPUTE);
    assert_int_equal(ir_in(g, numbers, 0), code->out);
    /* The second convolution's gradient normalises them itself; the first reads images. */
    assert_int_equal(test_count(g, OP_CONV_WEIGHTS), 1);
    const ir_node_rec *sums = test_node(g, OP_CONV_WEIGHTS_NARROW, 0);
    assert_int_equal(ir_in(g, sums, 2), code->out);
    from(g, sums, 3, OP_BATCH_STAT, IR_FORWARD);
    assert_int_equal(sums->attr.i[CONV_RELU], 1);
    assert_int_equal(test_count(g, OP_BATCH_APPLY), 1); /* forward's */
    assert_int_equal(test_count(g, OP_SIGN_BITS), 2);
    assert_int_equal(test_count(g, OP_POOL_INDEX), 1);
    test_unit_fini(&t);
    test_ctx_free(ctx);
}

/* A relu's result that waits as codes: its signs need no bits of their own. */
static void codes_tell_signs(void **state) {
    (void)state;
    ebb_ctx *ctx = test_ctx_new();
    test_unit t;
    test_unit_text(&t, ctx,
                   "input %0 f32[1,1,2,2,8,3] \"x\"\nparam %1 f32[3,3,1,1] \"w\"\n"
                   "param %2 f32[3,3,1,1] \"w2\"\ninput %3 i32[8] \"y\"\n"
                   "%4:f32[1,1,2,2,8,3] = conv - %0 %1 {stride=1 groups=1 lanes=3}\n"
                   "%5:f32[1,1,2,2,8,3] = relu %4\n"
                   "%6:f32[1,1,2,2,8,3] = conv - %5 %2 {stride=1 groups=1 lanes=3}\n"
                   "%7:f32[8,12] = flatten %6\n"
                   "%8:f32[8], %9:f32[8] = xent %7 %3\n"
                   "%10:f32[1] = mean_valid %8 %3\n"
                   "loss %10\noutput %10 \"loss\"\n");
    t.config = (pass_config){.training = true, .stash = 8, .knobs.encode = true};
    test_pass(&t, &ebb__pass_grad);
    test_pass(&t, &ebb__pass_stash);
    test_pass(&t, &ebb__pass_encode);
    const ir_graph *g = &t.unit.graph;
    const ir_node_rec *grad = test_node(g, OP_RELU_GRAD_CODES, 0);
    const ir_node_rec *code = from(g, grad, 1, OP_NARROW, IR_FORWARD);
    assert_int_equal(code->attr.i[1], 1); /* marked */
    assert_int_equal(test_count(g, OP_SIGN_BITS), 0);
    const ir_node_rec *sums = test_node(g, OP_CONV_WEIGHTS_NARROW, 0);
    assert_int_equal(ir_in(g, sums, 2), code->out);
    assert_int_equal(sums->attr.i[CONV_RELU], 1);
    test_unit_fini(&t);
    test_ctx_free(ctx);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(products_are_rounded),
        cmocka_unit_test(the_rest_is_made_again),
        cmocka_unit_test(signs_places_and_the_loss_are_exact),
        cmocka_unit_test(nothing_without_a_format),
        cmocka_unit_test(codes_wait),
        cmocka_unit_test(codes_tell_signs),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
