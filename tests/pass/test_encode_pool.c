/* test_encode_pool.c - the gradient of a pool by halves of its channels: which are made so, in what
 * order they are read, and that no bit changes. */
#include "support/twin.h"

#include <stdio.h>

/* Two convolutions with a pool behind the second, of `channels` channels in lanes, which `groups`
 * of them share. */
static const char *const model =
    "param %%0 f32[32,3,3,3] \"u\"\nparam %%1 f32[%d,%d,3,3] \"w\"\nparam %%2 f32[4,%d] \"v\"\n"
    "input %%3 i32[8] \"y\"\nparam %%4 f32[%d] \"bias\"\ninput %%5 f32[1,1,2,4,8,3] \"x\"\n"
    "%%6:f32[1,1,2,4,8,32] = conv - %%5 %%0 {stride=1 pad_y=1 pad_x=1 groups=1 lanes=32}\n"
    "%%7:f32[1,1,2,4,8,32] = relu %%6\n"
    "%%8:f32[1,%d,2,4,8,%d] = conv %%4 %%7 %%1 {stride=1 pad_y=1 pad_x=1 groups=%d lanes=%d}\n"
    "%%9:f32[1,%d,1,2,8,%d] = max_pool %%8 {window_y=2 window_x=2 stride=2 high=1 wide=2}\n"
    "%%10:f32[1,%d,1,2,8,%d] = relu %%9\n"
    "%%11:f32[8,%d] = flatten %%10\n"
    "%%12:f32[8,4] = matmul - %%11 %%2 {trans_b=1}\n"
    "%%13:f32[8], %%14:f32[8] = xent %%12 %%3\n"
    "%%15:f32[1] = mean_valid %%13 %%3\n"
    "loss %%15\noutput %%15 \"loss\"\n";

static void write_model(char *text, size_t bytes, int channels, int lanes, int groups) {
    int blocks = channels / lanes, flat = channels * 2;
    (void)snprintf(text, bytes, model, channels, 32 / groups, flat, channels, blocks, lanes, groups,
                   lanes, blocks, lanes, blocks, lanes, flat);
}

static void start(test_unit *t, ebb_ctx *ctx, int channels, int groups, int32_t encode) {
    char text[2048];
    write_model(text, sizeof text, channels, channels % 32 == 0 ? 32 : 16, groups);
    test_unit_text(t, ctx, text);
    t->config.training = true;
    t->config.knobs.encode = encode;
    t->config.density = (pass_density){0.9, 0.9};
    test_pass(t, &ebb__pass_grad);
    test_pass(t, &ebb__pass_simplify);
    test_pass(t, &ebb__pass_encode);
}

static void halves_are_made_where_they_are_read(void **state) {
    (void)state;
    ebb_ctx *ctx = test_ctx_new();
    test_unit t;
    start(&t, ctx, 64, 1, 3);
    const ir_graph *g = &t.unit.graph;
    assert_int_equal(test_count(g, OP_MAX_POOL_GRAD_AT), 4);
    assert_int_equal(test_count(g, OP_CONV_BIAS), 2);
    assert_int_equal(test_count(g, OP_CONV_WEIGHTS), 3); /* with that of the first */
    assert_int_equal(test_count(g, OP_CONV_DATA), 2);
    for (int32_t i = 0; i < 4; i++) {
        const ir_node_rec *half = test_node(g, OP_MAX_POOL_GRAD_AT, i);
        assert_int_equal(g->values[half->out].type.dim[1], 1);
    }
    /* The gradient of the map goes on from the first half to the second, behind both sums. */
    const ir_node_rec *first = test_node(g, OP_CONV_DATA, 0),
                      *second = test_node(g, OP_CONV_DATA, 1);
    assert_int_equal(ir_in(g, first, 0), IR_NONE);
    assert_int_equal(ir_in(g, second, 0), first->out);
    assert_true(test_place_of(g, (ir_node)(test_node(g, OP_CONV_WEIGHTS, 1) - g->nodes)) <
                test_place_of(g, (ir_node)(first - g->nodes)));
    test_unit_fini(&t);
    test_ctx_free(ctx);
}

static void others_stay(void **state) {
    (void)state;
    static const struct {
        int channels, groups;
        int32_t encode;
    } of[] = {{64, 1, 2},  /* not asked for */
              {32, 1, 3},  /* one block of sums */
              {48, 1, 3},  /* blocks of sums are no halves */
              {64, 2, 3}}; /* halves of the operand's channels would be read */
    ebb_ctx *ctx = test_ctx_new();
    for (int i = 0; i < 4; i++) {
        test_unit t;
        start(&t, ctx, of[i].channels, of[i].groups, of[i].encode);
        assert_int_equal(test_count(&t.unit.graph, OP_MAX_POOL_GRAD_AT), 1);
        assert_int_equal(test_count(&t.unit.graph, OP_CONV_DATA), 1);
        test_unit_fini(&t);
    }
    test_ctx_free(ctx);
}

static void bits_are_the_same(void **state) {
    (void)state;
    static const int32_t stashes[] = {0, 8};
    ebb_ctx *ctx = test_ctx_new();
    for (int i = 0; i < 6; i++) {
        char text[2048];
        ir_graph g;
        write_model(text, sizeof text, 64, i % 3 == 0 ? 16 : 32, 1);
        test_parse(ctx, text, &g);
        grad_update_settings update = {.optimizer = UPDATE_SGD,
                                       .momentum = i % 2 == 0 ? 0.9F : 0,
                                       .clip = i % 4 < 2 ? 0.5F : 0};
        plan_request request = {.name = "t", .graph = &g, .training = true};
        pass_config config = {.members = 1 + i % 3,
                              .knobs = {.encode = 3, .slices = i % 4 == 0},
                              .stash = stashes[i / 3],
                              .density = {0.9, 0.9},
                              .update = update};
        ebb_plan *plan = test_compile(ctx, &request, &config);
        test_run_equal(plan, &g, true, &update, (uint64_t)i, 2);
        ebb__ir_fini(&g);
    }
    test_ctx_free(ctx);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(halves_are_made_where_they_are_read),
        cmocka_unit_test(others_stay),
        cmocka_unit_test(bits_are_the_same),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
