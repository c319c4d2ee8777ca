/* test_shard_nets.c - nets over images in parts of the batch: groups of images that suit a shard,
 * their numbers, statistics of each and the mean of all, the order of nodes after every pass, and
 * what cannot be parted. That plans give the same bits is test_fuzz_nets's matter, what they
 * compute test_cnn's of tests/golden. */
#include "support/twin.h"

#include "model/cnn.h"
#include "model/net_text.h"
#include "op/map.h"

#include <stdio.h>

/* Two norms, a pool between two segments, a sum and dropout of a map. */
static const char *const normed = "input 3 8 8\n"
                                  "conv 16 3 pad 1 nobias\nbn\na: relu\n"
                                  "conv 16 3 pad 1\nadd from=a\ndropout 0.3\nmaxpool 2\n"
                                  "conv 24 3 pad 1\nbn\nrelu\ngap\nflatten\nfc 5\n";

static void build_net(ebb_ctx *ctx, const char *text, int64_t batch, int64_t lanes, ir_graph *out) {
    net_model net;
    ebb__net_init(&net, ctx);
    assert_ok(ctx, ebb__net_parse(&net, "net", text));
    assert_ok(ctx, ebb__net_finish(&net));
    cnn_model model = {.net = &net, .batch = batch, .lanes = lanes, .train = true, .dropout = -1};
    ebb__op_graph_init(out, ctx);
    assert_ok(ctx, ebb__cnn_build(out, &model));
    ebb__net_fini(&net);
}

static void build(ebb_ctx *ctx, int64_t batch, int64_t lanes, ir_graph *out) {
    build_net(ctx, normed, batch, lanes, out);
}

/* ---- groups of images ---- */

static void groups_suit_a_shard(void **state) {
    (void)state;
    static const struct {
        int32_t batch, lanes, shards, want;
    } cases[] = {{16, 0, 2, 8}, {16, 0, 4, 4},  {16, 0, 8, 2}, {16, 0, 16, 1},
                 {12, 0, 4, 3}, {36, 0, 2, 18}, {16, 2, 4, 2}, {16, 1, 2, 1}};
    ebb_ctx *ctx = test_ctx_new();
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        ir_graph g;
        int maps = 0;
        build(ctx, cases[i].batch, cases[i].lanes, &g);
        test_shard(&g, cases[i].shards);
        for (ir_val v = 0; v < g.n_values; v++) {
            op_map m = op_map_of(&g.values[v].type);
            if (op_is_map(&g.values[v].type)) {
                assert_int_equal(m.images, cases[i].want);
                assert_int_equal(op_map_images(&m), cases[i].batch / cases[i].shards);
                maps++;
            }
        }
        assert_true(maps > 10 * cases[i].shards);
        ebb__ir_fini(&g);
    }
    test_ctx_free(ctx);
}

/* What is dropped of an image is drawn by its number in the whole batch. */
static void images_keep_their_numbers(void **state) {
    (void)state;
    ebb_ctx *ctx = test_ctx_new();
    ir_graph g;
    build(ctx, 12, 0, &g);
    test_shard(&g, 4);
    assert_int_equal(test_count(&g, OP_DROPOUT), 4);
    for (int shard = 0; shard < 4; shard++) {
        const ir_node_rec *node = test_node(&g, OP_DROPOUT, shard);
        assert_int_equal(node->label.shard, shard);
        assert_int_equal(node->attr.i[ebb__op(OP_DROPOUT)->first_row_attr - 1], 3 * shard);
    }
    ebb__ir_fini(&g);
    test_ctx_free(ctx);
}

/* ---- statistics ---- */

/* The statistic as a tree: "(a+b)" for a sum of two, else the shard's number. */
static void put_tree(const ir_graph *g, ir_val v, char *out, size_t size) {
    const ir_node_rec *node = test_def(g, v);
    char left[64], right[64];
    if (node->op != OP_ADD) {
        assert_int_equal(node->op, OP_BATCH_NORM);
        (void)snprintf(out, size, "%d", node->label.shard);
        return;
    }
    put_tree(g, ir_in(g, node, 0), left, sizeof left);
    put_tree(g, ir_in(g, node, 1), right, sizeof right);
    (void)snprintf(out, size, "(%.30s+%.30s)", left, right);
}

static void running_statistics_take_the_mean_once(void **state) {
    (void)state;
    static const char *const trees[] = {"(0+1)", "((0+1)+2)", "((0+1)+(2+3))", "(((0+1)+(2+3))+4)",
                                        "(((0+1)+(2+3))+(4+5))"};
    ebb_ctx *ctx = test_ctx_new();
    for (int32_t shards = 2; shards <= 6; shards++) {
        ir_graph g;
        build(ctx, 60, 0, &g);
        test_shard(&g, shards);
        assert_int_equal(test_count(&g, OP_BATCH_NORM), 2 * shards);
        assert_int_equal(test_count(&g, OP_BATCH_TRACK), 2);
        for (int nth = 0; nth < 2; nth++) {
            char tree[64];
            const ir_node_rec *track = test_node(&g, OP_BATCH_TRACK, nth);
            const ir_node_rec *mean = test_def(&g, ir_in(&g, track, 2));
            assert_int_equal(mean->op, OP_SCALE);
            assert_true(mean->attr.f[0] == 1.0F / (float)shards);
            put_tree(&g, ir_in(&g, mean, 0), tree, sizeof tree);
            assert_string_equal(tree, trees[shards - 2]);
            assert_int_equal(g.values[ir_in(&g, track, 0)].next, track->out);
            assert_int_equal(g.values[ir_in(&g, track, 1)].next, track->out + 1);
        }
        ebb__ir_fini(&g);
    }
    test_ctx_free(ctx);
}

/* ---- order ---- */

/* Work on maps, but what is done again: every shard's is done before the next one's begins. */
static void check_order(const ir_graph *g, int32_t shards) {
    int32_t now = 0;
    for (int32_t i = 0; i < g->n_order; i++) {
        const ir_node_rec *node = &g->nodes[g->order[i]];
        if (node->op == OP_CONV || node->op == OP_CONV_DATA || node->op == OP_CONV_WEIGHTS ||
            node->op == OP_MAX_POOL || node->op == OP_BATCH_STAT || node->op == OP_RELU) {
            assert_in_range(node->label.shard, now, now + 1);
            now = node->label.shard;
        }
    }
    assert_int_equal(now, shards - 1);
    assert_int_equal(test_count(g, OP_BATCH_TRACK), 2);
}

static void order_survives_every_pass(void **state) {
    (void)state;
    static const pass_config ways[] = {
        {.members = 1},
        {.members = 1, .disabled = 1U << PASS_SIMPLIFY},
        {.members = 1, .knobs.chunk_images = 8},
        {.members = 1, .knobs.chunk_images = 8, .knobs.encode = 1, .knobs.slices = true},
        {.members = 1, .knobs.price = 1e-6, .knobs.places = 1, .knobs.heavy = true},
        {.members = 1, .knobs.encode = 3, .density = {0.6, 0.6}},
        {.members = 1, .stash = 8, .knobs.encode = 1, .knobs.chunk_images = 8},
    };
    ebb_ctx *ctx = test_ctx_new();
    ir_graph g;
    build(ctx, 64, 0, &g);
    for (size_t i = 0; i < sizeof ways / sizeof *ways; i++) {
        pass_config config = ways[i];
        config.training = true;
        ebb_plan *plan = test_compile(
            ctx, &(plan_request){.name = "t", .graph = &g, .training = true, .shards = 4}, &config);
        check_order(&plan->programs[0].unit.graph, 4);
        ebb__plan_free(plan);
    }
    ebb__ir_fini(&g);
    test_ctx_free(ctx);
}

/* Chunks of images are cut in every shard alike, and no chunk has images of two. Biases have as
 * many elements as a shard has images: adding up their gradients is no work on images. */
static void every_shard_is_chunked(void **state) {
    (void)state;
    ebb_ctx *ctx = test_ctx_new();
    ir_graph graph;
    build_net(
        ctx,
        "input 3 8 8\nconv 24 3 pad 1\nrelu\nmaxpool 2\nconv 24 3\nrelu\ngap\nflatten\nfc 24\n", 48,
        0, &graph);
    for (int whole = 0; whole < 2; whole++) {
        test_unit t;
        int pools[2] = {0};
        test_unit_init(&t, &graph);
        t.unit.shards = 2;
        t.config.knobs.chunk_images = 8;
        t.config.knobs.chunk_net = whole != 0;
        test_pass(&t, &ebb__pass_shard);
        test_pass(&t, &ebb__pass_grad);
        test_pass(&t, &ebb__pass_simplify);
        test_pass(&t, &ebb__pass_turns);
        test_pass(&t, &ebb__pass_chunk);
        const ir_graph *g = &t.unit.graph;
        for (int32_t i = 0; i < g->n_order; i++) {
            const ir_node_rec *node = &g->nodes[g->order[i]];
            if (node->op == OP_MAX_POOL) {
                assert_int_equal(op_in_type(g, node, 0)->dim[0], 1); /* a group of 8 */
                pools[node->label.shard]++;
            }
        }
        assert_int_equal(pools[0], 3);
        assert_int_equal(pools[1], 3);
        assert_int_equal(test_count(g, OP_ADD), 6); /* gradients of two shards */
        test_unit_fini(&t);
    }
    ebb__ir_fini(&graph);
    test_ctx_free(ctx);
}

/* ---- what cannot be ---- */

static void images_are_not_mixed(void **state) {
    (void)state;
    static const char *const mixed =
        "input %0 u8[8,2,2,3] \"p\" layer=\"\"\ninput %1 f32[3] \"s\" layer=\"\"\n"
        "input %2 i32[8] \"y\" layer=\"\"\n"
        "%3:f32[4,1,2,2,2,3] = images %0 %1 %1 {lanes=2 channels=3} @ \"\" fwd\n"
        "%4:f32[2,1,2,2,2,3] = slice %3 {axis=0 begin=0 len=2} @ \"\" fwd\n"
        "%5:f32[2,1,2,2,2,3] = slice %3 {axis=0 begin=2 len=2} @ \"\" fwd\n"
        "%6:f32[4,1,2,2,2,3] = stack %5 %4 @ \"\" fwd\n"
        "%7:f32[8,12] = flatten %6 @ \"\" fwd\n"
        "%20:f32[8], %21:f32[8] = xent %7 %2 @ \"\" fwd\n"
        "%22:f32[1] = mean_valid %20 %2 @ \"\" fwd\nloss %22\noutput %22 \"loss\"\n";
    ebb_ctx *ctx = test_ctx_new();
    test_unit t;
    ir_graph g;
    test_unit_text(&t, ctx, mixed);
    t.unit.shards = 2;
    assert_refused(ctx, ebb__pass_shard.run(&t.unit), EBB_USAGE, "part of the batch's rows");
    test_unit_fini(&t);
    build(ctx, 6, 0, &g);
    test_unit_init(&t, &g);
    t.unit.shards = 4;
    assert_refused(ctx, ebb__pass_shard.run(&t.unit), EBB_USAGE, "4 do not divide the 6 rows");
    test_unit_fini(&t);
    ebb__ir_fini(&g);
    test_ctx_free(ctx);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(groups_suit_a_shard),
        cmocka_unit_test(images_keep_their_numbers),
        cmocka_unit_test(running_statistics_take_the_mean_once),
        cmocka_unit_test(order_survives_every_pass),
        cmocka_unit_test(every_shard_is_chunked),
        cmocka_unit_test(images_are_not_mixed),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
