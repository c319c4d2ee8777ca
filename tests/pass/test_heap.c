/* test_heap.c - sparse values in heaps: what is pushed and where, who reads what, and that a step
 * which does not fit leaves no trace. That no bit changes is test_fuzz_nets' matter. */
#include "support/twin.h"

#include "op/heap.h"

/* Two convolutions behind relus, of which the first is read in full by a weight gradient; then a
 * residual sum. */
static const char *const model =
    "param %0 f32[2,1,4,4,8,8] \"x\"\nparam %1 f32[8,8,1,1] \"w\"\nparam %2 f32[4,128] \"v\"\n"
    "param %3 f32[8,8,1,1] \"u\"\n"
    "input %4 i32[16] \"y\"\n"
    "%5:f32[2,1,4,4,8,8] = relu %0 @ \"first\" fwd\n"
    "%6:f32[2,1,4,4,8,8] = conv - %5 %1 {stride=1 groups=1 lanes=8}\n"
    "%7:f32[2,1,4,4,8,8] = add %6 %5\n"
    "%8:f32[2,1,4,4,8,8] = relu %7 @ \"second\" fwd\n"
    "%9:f32[2,1,4,4,8,8] = conv - %8 %3 {stride=1 groups=1 lanes=8}\n"
    "%10:f32[16,128] = flatten %9\n"
    "%11:f32[16,4] = matmul - %10 %2 {trans_b=1}\n"
    "%12:f32[16], %13:f32[16] = xent %11 %4\n"
    "%14:f32[1] = mean_valid %12 %4\n"
    "loss %14\noutput %14 \"loss\"\n";

/* The same of images, for what is rounded: of weights nothing is. */
static const char *const rounded =
    "input %0 f32[2,1,4,4,8,8] \"x\"\nparam %1 f32[8,8,1,1] \"w\"\nparam %2 f32[4,128] \"v\"\n"
    "param %3 f32[8,8,1,1] \"u\"\nparam %4 f32[8,8,1,1] \"s\"\n"
    "input %5 i32[16] \"y\"\n"
    "%6:f32[2,1,4,4,8,8] = conv - %0 %4 {stride=1 groups=1 lanes=8}\n"
    "%7:f32[2,1,4,4,8,8] = relu %6 @ \"first\" fwd\n"
    "%8:f32[2,1,4,4,8,8] = conv - %7 %1 {stride=1 groups=1 lanes=8}\n"
    "%9:f32[2,1,4,4,8,8] = add %8 %7\n"
    "%10:f32[2,1,4,4,8,8] = relu %9 @ \"second\" fwd\n"
    "%11:f32[2,1,4,4,8,8] = conv - %10 %3 {stride=1 groups=1 lanes=8}\n"
    "%12:f32[16,128] = flatten %11\n"
    "%13:f32[16,4] = matmul - %12 %2 {trans_b=1}\n"
    "%14:f32[16], %15:f32[16] = xent %13 %5\n"
    "%16:f32[1] = mean_valid %14 %5\n"
    "loss %16\noutput %16 \"loss\"\n";

static void start_rounded(test_unit *t, ebb_ctx *ctx, int32_t encode, pass_density density,
                          int32_t stash) {
    test_unit_text(t, ctx, stash == 0 ? model : rounded);
    t->config.training = true;
    t->config.knobs.encode = encode;
    t->config.density = density;
    t->config.stash = stash;
    test_pass(t, &ebb__pass_grad);
    test_pass(t, &ebb__pass_stash);
    test_pass(t, &ebb__pass_simplify);
    test_pass(t, &ebb__pass_encode);
    test_pass(t, &ebb__pass_heap);
}

static void start(test_unit *t, ebb_ctx *ctx, int32_t encode, pass_density density) {
    start_rounded(t, ctx, encode, density, 0);
}

/* Of the two values, of the first alone. */
enum { ROOM = OP_HEAP_FIRST + 1024 + 1536, FRONT = ((OP_HEAP_FIRST + 1024) * 11 + 9) / 10 };

static int32_t rows_of(const ir_graph *g, ir_val v) {
    return g->values[v].type.dim[0];
}

static void values_share_a_heap(void **state) {
    (void)state;
    ebb_ctx *ctx = test_ctx_new();
    test_unit t;
    start(&t, ctx, 2, (pass_density){0.5, 0.75});
    const ir_graph *g = &t.unit.graph;
    assert_int_equal(test_count(g, OP_HEAP), 1);
    assert_int_equal(test_count(g, OP_SPARSE_PUSH), 2);
    assert_int_equal(test_count(g, OP_SPARSE_PULL), 2);
    assert_int_equal(test_count(g, OP_GIVE_UP), 1);
    /* Signs are read from the bits that are there anyway. */
    assert_int_equal(test_count(g, OP_SIGN_BITS), 2);
    assert_int_equal(test_count(g, OP_RELU_GRAD), 0);
    assert_int_equal(test_count(g, OP_RELU_GRAD_BITS), 2);
    /* Room for half of one and three quarters of the other, of 2048 elements each. */
    const ir_node_rec *first = test_node(g, OP_SPARSE_STARTS, 0);
    const ir_node_rec *second = test_node(g, OP_SPARSE_STARTS, 1);
    assert_int_equal(rows_of(g, test_node(g, OP_SPARSE_PUSH, 1)->out), ROOM);
    assert_int_equal(second->attr.i[HEAP_CAPACITY], ROOM);
    /* The first keeps to the front, where it may take a tenth more; who reads it sees no more. */
    assert_int_equal(rows_of(g, test_node(g, OP_HEAP, 0)->out), FRONT);
    assert_int_equal(rows_of(g, test_node(g, OP_SPARSE_PUSH, 0)->out), FRONT);
    assert_int_equal(first->attr.i[HEAP_CAPACITY], FRONT);
    assert_int_equal(rows_of(g, ir_in(g, test_node(g, OP_SPARSE_PULL, 0), 0)), ROOM);
    assert_int_equal(rows_of(g, ir_in(g, test_node(g, OP_SPARSE_PULL, 1), 0)), FRONT);
    /* The second goes on where the first ended. */
    assert_int_equal(ir_in(g, first, 1), IR_NONE);
    assert_int_equal(ir_in(g, second, 1), first->out);
    /* Nothing late comes before it is known whether all fits. */
    int32_t known = test_place_of(g, (ir_node)(test_node(g, OP_GIVE_UP, 0) - g->nodes));
    for (int32_t i = 0; i < known; i++) {
        assert_int_equal(g->nodes[g->order[i]].label.phase, IR_FORWARD);
    }
    test_unit_fini(&t);
    test_ctx_free(ctx);
}

/* Bits are those of exact values, and read by relu's gradients; nothing waits as codes but in the
 * heap. */
static void rounded_values_are_codes_there(void **state) {
    (void)state;
    ebb_ctx *ctx = test_ctx_new();
    test_unit t;
    start_rounded(&t, ctx, 3, (pass_density){0.5, 0.75}, 8);
    const ir_graph *g = &t.unit.graph;
    assert_int_equal(test_count(g, OP_HEAP), 1);
    const ir_type *heap = &g->values[test_node(g, OP_HEAP, 0)->out].type;
    assert_int_equal(heap->dtype, IR_U8);
    assert_int_equal(heap->dim[0], FRONT);
    assert_int_equal(test_count(g, OP_SPARSE_PUSH), 2);
    assert_int_equal(test_count(g, OP_SPARSE_PULL), 0);
    assert_int_equal(test_count(g, OP_CONV_WEIGHTS_SPARSE), 2);
    assert_int_equal(test_count(g, OP_SIGN_BITS), 2);
    assert_int_equal(test_count(g, OP_RELU_GRAD_BITS), 2);
    assert_int_equal(test_count(g, OP_RELU_GRAD_CODES), 0);
    const ir_node_rec *push = test_node(g, OP_SPARSE_PUSH, 0);
    ir_val bits = ir_in(g, push, 2);
    assert_int_equal(ir_in(g, &g->nodes[g->values[bits].def], 0), ir_in(g, push, 1));
    assert_int_equal(ebb__op_rounds(&g->nodes[g->values[ir_in(g, push, 1)].def]), 0);
    test_unit_fini(&t);
    /* What is not worth it becomes codes as without heaps; so does all that has three in a word. */
    start_rounded(&t, ctx, 3, (pass_density){0.5, 0.95}, 16);
    assert_int_equal(test_count(&t.unit.graph, OP_SPARSE_PUSH), 1);
    assert_int_equal(test_count(&t.unit.graph, OP_RELU_GRAD_CODES), 1);
    test_unit_fini(&t);
    start_rounded(&t, ctx, 3, (pass_density){0.5, 0.5}, 10);
    assert_int_equal(test_count(&t.unit.graph, OP_SPARSE_PUSH), 0);
    assert_int_equal(test_count(&t.unit.graph, OP_RELU_GRAD_CODES), 2);
    test_unit_fini(&t);
    test_ctx_free(ctx);
}

static void only_where_asked_for(void **state) {
    (void)state;
    ebb_ctx *ctx = test_ctx_new();
    test_unit t;
    start(&t, ctx, 1, (pass_density){0.5, 0.5});
    assert_int_equal(test_count(&t.unit.graph, OP_SPARSE_PUSH), 0);
    test_unit_fini(&t);
    start(&t, ctx, 2, (pass_density){0.5, 0.95}); /* the second would save nothing */
    assert_int_equal(test_count(&t.unit.graph, OP_SPARSE_PUSH), 1);
    test_unit_fini(&t);
    test_ctx_free(ctx);
}

/* Of 3 steps with this density, so many fall back. */
static void check_steps(int32_t stash, double density, uint64_t least, uint64_t most) {
    ebb_ctx *ctx = test_ctx_new();
    ir_graph g;
    test_parse(ctx, stash == 0 ? model : rounded, &g);
    grad_update_settings update = {.optimizer = UPDATE_SGD};
    plan_request request = {.name = "t", .graph = &g, .training = true};
    pass_config config = {.members = 2,
                          .knobs.encode = 2,
                          .stash = stash,
                          .density = {density, density},
                          .update = update};
    ebb_plan *plan = test_compile(ctx, &request, &config);
    assert_true(plan->programs[0].size.heap_bytes > 0);
    run_session *session = NULL;
    test_twin twin;
    test_twin_init_rounded(&twin, &g, true, &update, stash, 3);
    assert_ok(ctx, ebb__run_new(ctx, plan, &session));
    test_twin_load(&twin, session);
    for (int i = 0; i < 3; i++) {
        test_twin_inputs(&twin, session);
        test_twin_step(&twin);
        assert_int_equal(ebb__run_step(session, 0), EBB_OK);
        assert_null(test_twin_differs(&twin, session, 0));
    }
    assert_in_range(session->fallback_steps, least, most);
    /* Two tries that did not fit tell enough: the third step is not tried. */
    assert_int_equal(session->tries_failed, least == 3 ? 2 : 0);
    assert_true(most > 0 || session->sparse_bytes > 0);
    assert_true(session->sparse_bytes <= plan->programs[0].size.heap_bytes);
    assert_int_equal(session->measured_bytes, plan->peak_bytes);
    ebb__run_free(session);
    test_twin_fini(&twin);
    ebb__ir_fini(&g);
    test_ctx_free(ctx);
}

static void steps_fall_back(void **state) {
    (void)state;
    const int32_t stashes[] = {0, 16, 8};
    for (int i = 0; i < 3; i++) {
        check_steps(stashes[i], 0.1, 3, 3);
        check_steps(stashes[i], 0.9, 0, 0);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(values_share_a_heap),
        cmocka_unit_test(rounded_values_are_codes_there),
        cmocka_unit_test(only_where_asked_for),
        cmocka_unit_test(steps_fall_back),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
