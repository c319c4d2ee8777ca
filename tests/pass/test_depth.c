/* test_depth.c - a deep chain of blocks without time: the place of a node along the chain is its
 * depth. Spans, replay and nesting then lower its bytes as they do for time steps, with the same
 * bits. */
#include "support/graphs.h"
#include "support/twin.h"

#include <stdio.h>

enum { DEPTH = 25, BATCH = 512, WIDTH = 16, CLASSES = 8 };

static ir_val variable(ebb_ctx *ctx, ir_graph *g, ir_role role, const char *name, int32_t rows,
                       int32_t cols) {
    ir_type type = {.dtype = role == IR_INPUT && rows == 0 ? IR_I32 : IR_F32, .rank = 1};
    ir_val v = IR_NONE;
    type.dim[0] = cols;
    if (rows > 0) {
        type.rank = 2;
        type.dim[0] = rows;
        type.dim[1] = cols;
    }
    assert_ok(ctx, ebb__ir_add_variable(g, role, name, &type, &v));
    return v;
}

/* y = x W^T, [BATCH,rows] */
static ir_val project(ebb_ctx *ctx, ir_graph *g, const char *name, ir_val x, int32_t rows) {
    ir_val y = IR_NONE, w = variable(ctx, g, IR_PARAM, name, rows, WIDTH);
    ir_attr attr = {.i = {0, 1}};
    assert_ok(ctx, ebb__op_emit(g, OP_MATMUL, (ir_val[]){IR_NONE, x, w}, 3, &attr, &y));
    return y;
}

static void make_chain(ebb_ctx *ctx, bool labelled, ir_graph *g) {
    ebb__op_graph_init(g, ctx);
    ir_val h = variable(ctx, g, IR_INPUT, "x", BATCH, WIDTH), loss[2], mean = IR_NONE;
    ir_val labels = variable(ctx, g, IR_INPUT, "y", 0, BATCH);
    for (int32_t d = 0; d < DEPTH; d++) {
        char name[32];
        (void)snprintf(name, sizeof name, "block%d", d);
        assert_ok(ctx, ebb__ir_layer(g, name, &g->label.layer));
        g->label.at = labelled ? d : -1;
        h = project(ctx, g, name, h, WIDTH);
        assert_ok(ctx, ebb__op_emit(g, OP_TANH, &h, 1, NULL, &h));
    }
    g->label.at = -1;
    h = project(ctx, g, "out", h, CLASSES);
    assert_ok(ctx, ebb__op_emit(g, OP_XENT, (ir_val[]){h, labels}, 2, NULL, loss));
    assert_ok(ctx, ebb__op_emit(g, OP_MEAN_VALID, (ir_val[]){loss[0], labels}, 2, NULL, &mean));
    g->loss = mean;
    g->values[mean].output = true;
    assert_ok(ctx, ebb__ir_name(g, mean, "loss"));
}

static uint64_t least_of(ebb_ctx *ctx, bool labelled, bool run) {
    static const grad_update_settings update = {.clip = 0.5F};
    plan_options options = {.members = 2, .update = update, .budget = UINT64_MAX};
    ebb_plan *plan = NULL;
    ir_graph g;
    make_chain(ctx, labelled, &g);
    plan_request request = {.name = "chain", .graph = &g, .training = true};
    assert_ok(ctx, ebb__plan_make(ctx, &request, 1, NULL, 0, &options, &plan));
    uint64_t least = plan->least_bytes;
    ebb__plan_free(plan);
    if (run) {
        options.budget = least;
        assert_ok(ctx, ebb__plan_make(ctx, &request, 1, NULL, 0, &options, &plan));
        assert_true(plan->peak_bytes <= least);
        test_run_equal(plan, &g, true, &update, 5, 2);
    }
    ebb__ir_fini(&g);
    return least;
}

static void spans_of_blocks(void **state) {
    (void)state;
    ebb_ctx *ctx = test_ctx_new();
    uint64_t with = least_of(ctx, true, true), without = least_of(ctx, false, false);
    print_message("%d blocks: least %llu bytes with depth, %llu without\n", DEPTH,
                  (unsigned long long)with, (unsigned long long)without);
    assert_true(with < without * 7 / 10);
    test_ctx_free(ctx);
}

/* Is the value read behind forward? */
static bool is_kept(const ir_graph *g, ir_val v) {
    bool kept = false;
    for (int32_t i = 0; i < g->n_order; i++) {
        const ir_node_rec *node = &g->nodes[g->order[i]];
        for (int32_t k = 0; k < node->n_in && pass_is_late(node); k++) {
            kept = kept || ir_in(g, node, k) == v;
        }
    }
    return kept;
}

/* Blocks that are alike, each handing on what it makes: with groups of 7, 6, 5, 4 and 3 the last
 * has 4 kept beside its 3, as many as the first has alone. */
static void groups_grow_smaller(void **state) {
    (void)state;
    ebb_ctx *ctx = test_ctx_new();
    static const int32_t ends[] = {6, 12, 17, 21, 24};
    test_unit t;
    ir_graph g;
    int32_t n = 0;
    make_chain(ctx, true, &g);
    test_unit_init(&t, &g);
    t.config.knobs = (pass_knobs){.price = 1, .heavy = true, .places = 1 << 20, .room = 1};
    test_pass(&t, &ebb__pass_grad);
    test_pass(&t, &ebb__pass_recompute);
    for (int32_t i = 0; i < t.unit.graph.n_order; i++) {
        const ir_node_rec *node = &t.unit.graph.nodes[t.unit.graph.order[i]];
        if (node->op == OP_TANH && !pass_is_late(node) && is_kept(&t.unit.graph, node->out)) {
            assert_true(n < (int32_t)(sizeof ends / sizeof *ends));
            assert_int_equal(node->label.at, ends[n++]);
        }
    }
    assert_int_equal(n, sizeof ends / sizeof *ends);
    test_unit_fini(&t);
    ebb__ir_fini(&g);
    test_ctx_free(ctx);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(spans_of_blocks),
        cmocka_unit_test(groups_grow_smaller),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
