/* test_shard.c - parts of the batch: what the shard pass makes of models, the order of nodes after
 * every pass, the tree that gradients are added up by, state and masks as without shards, and what
 * it saves. Random graphs are test_shard_random's, that plans give the same bits test_steps's and
 * test_nmt's matter. */
#include "support/twin.h"

#include <math.h>
#include <stdio.h>

/* A model of four time steps, not yet parted. */
static void build(ebb_ctx *ctx, lm_cell cell, int64_t batch, ir_graph *out) {
    word_lm m = test_lm_small(cell, 4);
    m.batch = batch;
    test_lm(ctx, &m, out);
}

static void start(test_unit *t, ebb_ctx *ctx, lm_cell cell, int64_t batch, int32_t shards) {
    ir_graph graph;
    build(ctx, cell, batch, &graph);
    test_unit_init(t, &graph);
    t->unit.shards = shards;
    ebb__ir_fini(&graph);
    test_pass(t, &ebb__pass_infer);
    test_pass(t, &ebb__pass_shard);
    test_pass(t, &ebb__pass_grad);
}

/* ---- order ---- */

static bool computes(const ir_node_rec *node) {
    return (ebb__op(node->op)->flags & OPF_ALIAS) == 0;
}

/* Work of time steps, or with all of them: every shard's is done before the next one's begins, all
 * of them are met. Returns how many nodes were looked at. */
static int check_order(const ir_graph *g, int32_t shards) {
    int32_t now = 0, n = 0;
    for (int32_t i = 0; i < g->n_order; i++) {
        const ir_node_rec *node = &g->nodes[g->order[i]];
        bool work = node->op == OP_LSTM_GATES || node->op == OP_LSTM_GATES_GRAD ||
                    node->op == OP_MATMUL || node->op == OP_XENT || node->op == OP_XENT_GRAD;
        if (!work) {
            continue;
        }
        assert_true(node->label.shard == now || node->label.shard == now + 1);
        now = node->label.shard;
        n++;
    }
    assert_int_equal(now, shards - 1);
    return n;
}

/* What a node computes from is its own shard's, or nobody's. */
static void check_apart(const ir_graph *g) {
    for (int32_t i = 0; i < g->n_order; i++) {
        const ir_node_rec *node = &g->nodes[g->order[i]];
        if (node->label.shard <= 0 || !computes(node)) {
            continue;
        }
        for (int32_t k = 0; k < node->n_in; k++) {
            ir_val v = ir_in(g, node, k);
            ir_node def = v == IR_NONE ? (ir_node)IR_NONE : g->values[v].def;
            int32_t shard = def == IR_NONE ? 0 : g->nodes[def].label.shard;
            bool carried = node->op == OP_COPY; /* the stack of all last states */
            assert_true(carried || shard <= 0 || shard == node->label.shard);
        }
    }
}

static void one_after_the_other(void **state) {
    (void)state;
    ebb_ctx *ctx = test_ctx_new();
    for (int simplified = 0; simplified < 2; simplified++) {
        test_unit t;
        start(&t, ctx, LM_LSTM, 6, 3);
        if (simplified != 0) {
            test_pass(&t, &ebb__pass_simplify);
        }
        test_pass(&t, &ebb__pass_turns);
        assert_true(check_order(&t.unit.graph, 3) > 3 * 4 * 2 * 4);
        check_apart(&t.unit.graph);
        test_unit_fini(&t);
    }
    test_ctx_free(ctx);
}

static void no_shards_no_change(void **state) {
    (void)state;
    ebb_ctx *ctx = test_ctx_new();
    test_unit t, u;
    start(&t, ctx, LM_GRU, 6, 0);
    start(&u, ctx, LM_GRU, 6, 1);
    char *before = test_text(&t.unit.graph), *same = test_text(&u.unit.graph);
    assert_string_equal(before, same);
    test_pass(&t, &ebb__pass_turns);
    char *after = test_text(&t.unit.graph);
    assert_string_equal(before, after);
    assert_null(strstr(before, " s="));
    free(before);
    free(same);
    free(after);
    test_unit_fini(&t);
    test_unit_fini(&u);
    test_ctx_free(ctx);
}

/* The order holds to the end, whatever other passes do. */
static void order_survives_every_pass(void **state) {
    (void)state;
    static const pass_config ways[] = {
        {.members = 1, .training = true},
        {.members = 1, .training = true, .disabled = 1U << PASS_BATCH_TIME | 1U << PASS_SIMPLIFY},
        {.members = 1, .training = true, .knobs.chunk_rows = 3, .knobs.pack = true},
        {.members = 1, .training = true, .knobs.price = 1e-6, .knobs.scan = 2},
        {.members = 1,
         .training = true,
         .knobs.chunk_rows = 4,
         .knobs.price = 1e-6,
         .knobs.span = 2,
         .knobs.heavy = true},
        {.members = 1,
         .training = true,
         .knobs.price = 1e-6,
         .knobs.span = 1,
         .knobs.outer = 2,
         .knobs.heavy = true,
         .knobs.replay = true},
    };
    ebb_ctx *ctx = test_ctx_new();
    ir_graph graph;
    build(ctx, LM_LSTM, 8, &graph);
    for (size_t i = 0; i < sizeof ways / sizeof *ways; i++) {
        ebb_plan *plan = test_compile(
            ctx, &(plan_request){.name = "t", .graph = &graph, .training = true, .shards = 4},
            &ways[i]);
        (void)check_order(&plan->programs[0].unit.graph, 4);
        check_apart(&plan->programs[0].unit.graph);
        ebb__plan_free(plan);
    }
    ebb__ir_fini(&graph);
    test_ctx_free(ctx);
}

/* ---- gradients ---- */

/* The gradient as a tree: "(a+b)" for a sum of two, else the shard's number. */
static void put_tree(const ir_graph *g, ir_val v, char *out, size_t size) {
    const ir_node_rec *node = test_def(g, v);
    char left[64], right[64];
    if (node->op != OP_ADD) {
        (void)snprintf(out, size, "%d", node->label.shard);
        return;
    }
    put_tree(g, ir_in(g, node, 0), left, sizeof left);
    put_tree(g, ir_in(g, node, 1), right, sizeof right);
    (void)snprintf(out, size, "(%.30s+%.30s)", left, right);
}

static void gradients_are_added_up_by_a_tree(void **state) {
    (void)state;
    static const char *const trees[] = {
        "0", "(1+0)", "(2+(1+0))", "((3+2)+(1+0))", "(4+((3+2)+(1+0)))", "((5+4)+((3+2)+(1+0)))"};
    ebb_ctx *ctx = test_ctx_new();
    for (int shards = 1; shards <= 6; shards++) {
        test_unit t;
        start(&t, ctx, LM_RNN, 60, shards);
        for (int simplified = 0; simplified < 2; simplified++) {
            const ir_graph *g = &t.unit.graph;
            int n = 0;
            for (int32_t i = 0; i < g->n_order; i++) {
                const ir_node_rec *node = &g->nodes[g->order[i]];
                char tree[64];
                if (node->op == OP_SUM_SQUARES) {
                    put_tree(g, ir_in(g, node, 0), tree, sizeof tree);
                    assert_string_equal(tree, trees[shards - 1]);
                    n++;
                }
            }
            assert_int_equal(n, 1 + 2 * 4 + 2);
            test_pass(&t, &ebb__pass_simplify);
        }
        test_unit_fini(&t);
    }
    test_ctx_free(ctx);
}

/* At no time more of a parameter's gradients than the tree is deep, and one. */
static void few_gradients_at_a_time(void **state) {
    (void)state;
    ebb_ctx *ctx = test_ctx_new();
    test_unit t;
    start(&t, ctx, LM_LSTM, 8, 8);
    test_pass(&t, &ebb__pass_simplify);
    test_pass(&t, &ebb__pass_turns);
    const ir_graph *g = &t.unit.graph;
    const ir_type bias = g->values[ebb__ir_find(g, "out.bias")].type;
    int alive = 0, most = 0, sums = 0;
    for (int32_t i = 0; i < g->n_order; i++) {
        const ir_node_rec *node = &g->nodes[g->order[i]];
        if (node->label.phase != IR_BACKWARD ||
            !ebb__ir_type_equal(&g->values[node->out].type, &bias)) {
            continue;
        }
        assert_true(g->values[node->out].param_grad);
        alive += node->op == OP_ADD ? -1 : 1;
        sums += node->op == OP_ADD;
        most = alive > most ? alive : most;
    }
    assert_int_equal(alive, 1);
    assert_int_equal(sums, 7);
    assert_int_equal(most, 4);
    test_unit_fini(&t);
    test_ctx_free(ctx);
}

/* ---- the same rows ---- */

static const void *data_of(const test_twin *t, const char *name, size_t *bytes) {
    ir_val v = ebb__ir_find(&t->graph, name);
    assert_int_not_equal(v, IR_NONE);
    *bytes = (size_t)ebb__ir_type_bytes(&t->graph.values[v].type);
    return t->interp.data[v];
}

/* Carried state to the bit, dropout included; the loss but for the order of its sum. */
static void rows_go_through_alone(void **state) {
    (void)state;
    static const grad_update_settings sgd = {.optimizer = UPDATE_SGD};
    static const char *const names[] = {"state.h.0", "state.c.0", "state.h.1", "state.c.1"};
    ebb_ctx *ctx = test_ctx_new();
    for (int shards = 2; shards <= 6; shards++) {
        ir_graph graph;
        test_twin a, b;
        size_t bytes = 0;
        build(ctx, LM_LSTM, 60, &graph);
        test_twin_init(&a, &graph, true, &sgd, 9);
        test_shard(&graph, shards);
        test_twin_init(&b, &graph, true, &sgd, 9);
        ebb__ir_fini(&graph);
        test_twin_step(&a);
        test_twin_step(&b);
        for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
            const void *x = data_of(&a, names[i], &bytes), *y = data_of(&b, names[i], &bytes);
            assert_memory_equal(x, y, bytes);
        }
        float x = *(const float *)data_of(&a, LM_LOSS, &bytes);
        float y = *(const float *)data_of(&b, LM_LOSS, &bytes);
        assert_true(isfinite(x) && fabsf(x - y) < 1e-5F);
        test_twin_fini(&a);
        test_twin_fini(&b);
    }
    test_ctx_free(ctx);
}

/* ---- what it saves ---- */

static uint64_t peak(ebb_ctx *ctx, int32_t shards) {
    word_lm m = test_lm_small(LM_LSTM, 4);
    ir_graph graph;
    m.batch = 64;
    m.hidden = m.embed = 24;
    m.steps = 20;
    test_lm(ctx, &m, &graph);
    pass_config config = {.members = 1, .training = true};
    ebb_plan *plan = test_compile(
        ctx, &(plan_request){.name = "t", .graph = &graph, .training = true, .shards = shards},
        &config);
    uint64_t bytes = plan->peak_bytes - plan->bytes_by_kind[IR_PROGRAM];
    ebb__plan_free(plan);
    ebb__ir_fini(&graph);
    return bytes;
}

static void activations_are_those_of_a_shard(void **state) {
    (void)state;
    ebb_ctx *ctx = test_ctx_new();
    uint64_t whole = peak(ctx, 1), two = peak(ctx, 2), four = peak(ctx, 4);
    assert_true(two < whole * 6 / 10);
    assert_true(four < two * 7 / 10);
    test_ctx_free(ctx);
}

/* ---- text and sizes ---- */

static void labels_survive_text(void **state) {
    (void)state;
    ebb_ctx *ctx = test_ctx_new();
    ir_graph g;
    static const char given[] = "input %0 f32[2] \"x\" layer=\"\"\n"
                                "%1:f32[2] = tanh %0 @ \"a\" t=3 s=2 fwd\n"
                                "%2:f32[2] = tanh %1 @ \"a\" t=3 bwd\n"
                                "output %2 \"y\"\n";
    test_parse(ctx, given, &g);
    assert_int_equal(test_node(&g, OP_TANH, 0)->label.shard, 2);
    assert_int_equal(test_node(&g, OP_TANH, 1)->label.shard, 0);
    char *text = test_text(&g);
    assert_string_equal(text, given);
    free(text);
    ebb__ir_fini(&g);
    static const char *const wrong[] = {"-2", "1024"};
    for (size_t i = 0; i < 2; i++) {
        char line[128];
        (void)snprintf(line, sizeof line,
                       "input %%0 f32[2] \"x\"\n%%1:f32[2] = tanh %%0 @ \"\" s=%s fwd\n", wrong[i]);
        ebb__op_graph_init(&g, ctx);
        assert_refused(ctx, ebb__ir_parse(&g, line), EBB_DATA, "shard out of range");
        ebb__ir_fini(&g);
    }
    test_ctx_free(ctx);
}

static void check_refused(ebb_ctx *ctx, const char *text, int32_t shards, const char *words) {
    test_unit t;
    test_unit_text(&t, ctx, text);
    t.unit.shards = shards;
    assert_refused(ctx, ebb__pass_shard.run(&t.unit), EBB_USAGE, words);
    test_unit_fini(&t);
}

#define VARIABLES                                                                                  \
    "input %0 f32[6,4] \"x\" layer=\"\"\ninput %1 i32[6] \"y\" layer=\"\"\n"                       \
    "param %2 f32[6,4] \"w\" layer=\"\"\nparam %3 f32[4] \"b\" layer=\"\"\n"
#define LOSS(logits)                                                                               \
    "%20:f32[6], %21:f32[6] = xent " logits " %1 @ \"\" fwd\n"                                     \
    "%22:f32[1] = mean_valid %20 %1 @ \"\" fwd\nloss %22\noutput %22 \"loss\"\n"

static void what_cannot_be_parted_is_refused(void **state) {
    (void)state;
    ebb_ctx *ctx = test_ctx_new();
    static const char plain[] = VARIABLES "%10:f32[6,4] = add_row %0 %3 @ \"\" fwd\n" LOSS("%10");
    static const char own[] = VARIABLES "%10:f32[6,4] = add %0 %2 @ \"\" fwd\n" LOSS("%10");
    static const char turned[] =
        VARIABLES "%10:f32[4,6] = transpose %0 @ \"\" fwd\n"
                  "%11:f32[6,4] = transpose %10 @ \"net\" fwd\n" LOSS("%11");
    static const char mixed[] =
        VARIABLES "%10:f32[6,6] = matmul - %0 %0 {trans_b=1} @ \"net\" fwd\n" LOSS("%10");
    static const char none[] = VARIABLES "%10:f32[6,4] = tanh %0 @ \"\" fwd\noutput %10 \"z\"\n";
    static const char askew[] = VARIABLES "%10:f32[3,4] = slice %0 {begin=1 len=3} @ \"\" fwd\n"
                                          "%11:f32[3,4] = slice %0 {begin=3 len=3} @ \"\" fwd\n"
                                          "%12:f32[6,4] = stack %10 %11 @ \"\" fwd\n" LOSS("%12");
    static const char within[] =
        VARIABLES "input %4 f32[6,2,4] \"z\" layer=\"\"\n"
                  "%10:f32[6,1,4] = slice %4 {axis=1 len=1} @ \"\" fwd\n" LOSS("%10");
    check_refused(ctx, within, 2, "slice(f32[6,2,4] z): shards: this cannot be done");
    check_refused(ctx, askew, 3, "shards: 3 do not divide the 1 rows of the batch");
    check_refused(ctx, plain, 4, "shards: 4 do not divide the 6 rows of the batch");
    check_refused(ctx, plain, 2048, "shards: 2048 is not in 1..1024");
    check_refused(ctx, plain, -1, "shards: -1 is not in 1..1024");
    check_refused(ctx, own, 2, "w is a parameter with a row for each of the batch");
    check_refused(ctx, turned, 2,
                  "transpose(f32[4,6]) in net: shards: this cannot be done for a "
                  "part of the batch's rows");
    check_refused(ctx, mixed, 2, "matmul(-, f32[6,4] x, f32[6,4] x) in net: shards: this cannot");
    check_refused(ctx, none, 2, "shards: nothing is summed over the rows of a batch");
    test_ctx_free(ctx);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(one_after_the_other),
        cmocka_unit_test(no_shards_no_change),
        cmocka_unit_test(order_survives_every_pass),
        cmocka_unit_test(gradients_are_added_up_by_a_tree),
        cmocka_unit_test(few_gradients_at_a_time),
        cmocka_unit_test(rows_go_through_alone),
        cmocka_unit_test(activations_are_those_of_a_shard),
        cmocka_unit_test(labels_survive_text),
        cmocka_unit_test(what_cannot_be_parted_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
