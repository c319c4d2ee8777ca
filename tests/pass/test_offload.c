/* test_offload.c - what waits for backward outside the device's memory: which values go and when
 * they come back, that no bit changes, that planned bytes are those used, what the verifier
 * refuses, and when such a plan is taken. */
#include "support/far.h"
#include "support/twin.h"

#include "plan/walk.h"

#include <stdio.h>

static const grad_update_settings update = {
    .optimizer = UPDATE_SGD, .momentum = 0.9F, .clip = 0.3F};

static const char *const model =
    "param %0 f32[8,8] \"w\"\nparam %1 f32[4,8] \"v\"\ninput %2 f32[16,8] \"x\"\n"
    "input %3 i32[16] \"y\"\n"
    "%4:f32[16,8] = matmul - %2 %0 {trans_b=1}\n"
    "%5:f32[16,8] = tanh %4\n"
    "%6:f32[16,8] = matmul - %5 %0 {trans_b=1}\n"
    "%7:f32[16,8] = tanh %6\n"
    "%8:f32[16,4] = matmul - %7 %1 {trans_b=1}\n"
    "%9:f32[16], %10:f32[16] = xent %8 %3\n"
    "%11:f32[1] = mean_valid %9 %3\n"
    "loss %11\noutput %11 \"loss\"\n";

static void start(test_unit *t, ebb_ctx *ctx, int32_t percent, int32_t least) {
    test_unit_text(t, ctx, model);
    t->config.training = true;
    t->config.knobs.offload = percent;
    t->config.knobs.offload_least = least;
    test_pass(t, &ebb__pass_grad);
    test_pass(t, &ebb__pass_simplify);
    test_pass(t, &ebb__pass_offload);
}

/* Of every op that moves, its operand's and its readers' sides: forward leaves, late ones read. */
static void expect_moves(const ir_graph *g) {
    for (int32_t i = 0; i < g->n_order; i++) {
        const ir_node_rec *node = &g->nodes[g->order[i]];
        for (int32_t k = 0; k < node->n_in; k++) {
            ir_val v = ir_in(g, node, k);
            ir_node def = v == IR_NONE ? (ir_node)IR_NONE : g->values[v].def;
            bool away = def != IR_NONE && g->nodes[def].op == OP_TO_HOST;
            assert_true(away == (node->op == OP_TO_DEVICE));
        }
        if (node->op == OP_TO_HOST) {
            assert_int_equal(node->label.phase, IR_FORWARD);
        }
    }
}

/* Both tanh wait, and what xent leaves for its gradient; the first tanh waits longest. */
static void the_longest_way_first(void **state) {
    (void)state;
    ebb_ctx *ctx = test_ctx_new();
    test_unit t;
    start(&t, ctx, 1, 300);
    const ir_graph *g = &t.unit.graph;
    assert_int_equal(test_count(g, OP_TO_HOST), 1);
    assert_int_equal(test_count(g, OP_TO_DEVICE), 1);
    assert_int_equal(ir_in(g, test_node(g, OP_TO_HOST, 0), 0), test_node(g, OP_TANH, 0)->out);
    expect_moves(g);
    test_unit_fini(&t);
    start(&t, ctx, 100, 300);
    assert_true(test_count(&t.unit.graph, OP_TO_HOST) >= 2);
    assert_int_equal(test_count(&t.unit.graph, OP_TO_DEVICE),
                     test_count(&t.unit.graph, OP_TO_HOST));
    expect_moves(&t.unit.graph);
    test_unit_fini(&t);
    test_ctx_free(ctx);
}

/* Nothing asked for, and nothing as large as that. */
static void nothing_goes(void **state) {
    (void)state;
    ebb_ctx *ctx = test_ctx_new();
    for (int i = 0; i < 2; i++) {
        test_unit t;
        start(&t, ctx, i == 0 ? 0 : 100, i == 0 ? 1 : 1 << 20);
        assert_int_equal(test_count(&t.unit.graph, OP_TO_HOST), 0);
        test_unit_fini(&t);
    }
    test_ctx_free(ctx);
}

static ebb_plan *compile_lm(ebb_ctx *ctx, lm_cell cell, const pass_knobs *knobs, ir_graph *graph) {
    word_lm m = test_lm_small(cell, 6);
    test_lm(ctx, &m, graph);
    pass_config config = {.members = 2, .knobs = *knobs, .update = update};
    return test_compile(ctx, &(plan_request){.name = "t", .graph = graph, .training = true},
                        &config);
}

/* The interpreter's bits, whatever else is done; every planned byte outside is used, none beyond.
 */
static void no_bit_changes(void **state) {
    (void)state;
    static const pass_knobs all[] = {
        {.offload = 100, .offload_least = 1},
        {.offload = 50, .offload_least = 1, .chunk_rows = 4, .pack = true},
        {.offload = 100, .offload_least = 1, .span = 2},
        {.offload = 100, .offload_least = 1, .span = 2, .chunk_rows = 4},
        {.offload = 100, .offload_least = 1, .price = 1e-6, .scan = 2},
        {.offload = 100,
         .offload_least = 1,
         .price = 1e-6,
         .span = 2,
         .heavy = true,
         .replay = true},
    };
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        for (int cell = 0; cell < 3; cell++) {
            ebb_ctx *ctx = test_ctx_new();
            ir_graph graph;
            ebb_plan *plan = compile_lm(ctx, (lm_cell)cell, &all[i], &graph);
            assert_true(plan->away_bytes > 0);
            assert_int_equal(plan->away_bytes, plan->programs[0].size.away_bytes);
            test_run_equal(plan, &graph, true, &update, 7, 2);
            ebb__ir_fini(&graph);
            test_ctx_free(ctx);
        }
    }
}

/* ---- the verifier ---- */

static int32_t place_of(const ir_graph *g, op_code op, int32_t nth) {
    return test_place_of(g, (ir_node)(test_node(g, op, nth) - g->nodes));
}

static void refused(ebb_plan *plan, const char *why) {
    assert_refused(plan->ctx, ebb__plan_check(&plan->programs[0].unit, plan->device_bytes),
                   EBB_INTERNAL, why);
    ebb__plan_free(plan);
}

static void what_is_refused(void **state) {
    (void)state;
    const pass_knobs knobs = {.offload = 100, .offload_least = 1};
#define CORRUPT(what, why)                                                                         \
    do {                                                                                           \
        ebb_ctx *ctx = test_ctx_new();                                                             \
        ir_graph graph;                                                                            \
        ebb_plan *plan = compile_lm(ctx, LM_LSTM, &knobs, &graph);                                 \
        ir_graph *g = &plan->programs[0].unit.graph;                                               \
        plan_placement *p = plan->programs[0].unit.placement;                                      \
        const ir_node_rec *out = test_node(g, OP_TO_HOST, 0);                                      \
        const ir_node_rec *back = test_node(g, OP_TO_DEVICE, 0);                                   \
        (void)p, (void)out, (void)back;                                                            \
        what;                                                                                      \
        refused(plan, why);                                                                        \
        ebb__ir_fini(&graph);                                                                      \
        test_ctx_free(ctx);                                                                        \
    } while (0)
    /* It comes back before it has left. */
    CORRUPT(
        {
            int32_t from = place_of(g, OP_TO_DEVICE, 0);
            ir_node n = g->order[from];
            memmove(&g->order[1], &g->order[0], (size_t)from * sizeof *g->order);
            g->order[0] = n;
        },
        "never written");
    /* Two values in the same bytes outside. */
    CORRUPT(p->blocks[p->block[out->out]].offset =
                p->blocks[p->block[test_node(g, OP_TO_HOST, 1)->out]].offset,
            "overwritten");
    CORRUPT(p->blocks[p->block[out->out]].offset = p->away_bytes, "outside the arena");
    /* Inside the device's memory, and what another op reads outside it. */
    CORRUPT(p->blocks[p->block[out->out]].away = false, "outside the arena");
    CORRUPT(p->away_base -= PLAN_ALIGN, "begins inside the arena");
    CORRUPT(ir_set_in(g, back, 0, ir_in(g, out, 0)), "wrong side");
#undef CORRUPT
}

/* ---- the walk ---- */

/* Seconds and bytes of a plan that keeps everything in the device's memory, or does not. */
static plan_choice like(double seconds, uint64_t bytes, int32_t knob, bool offloaded) {
    plan_choice c = {.seconds = seconds, .peak_bytes = bytes};
    c.at[knob] = offloaded;
    return c;
}

/* Never slower than without; where it is not faster, not. */
static void when_it_is_taken(void **state) {
    (void)state;
    plan_grid grid = ebb__knobs_grid((plan_reach){.rows = 100, .steps = 100});
    int32_t knob = grid.n_knobs - 1;
    assert_int_equal(grid.knobs[knob].pass, PASS_OFFLOAD);
    const plan_choice list[] = {like(1.00, 100, knob, false), like(1.01, 90, knob, true),
                                like(1.015, 80, knob, false), like(1.10, 60, knob, true),
                                like(1.20, 50, knob, false),  like(3.00, 40, knob, true)};
    const struct {
        uint64_t budget;
        int32_t taken;
    } cases[] = {{100, 1}, {99, 1}, {85, 2}, {70, 3}, {55, 4}, {45, 5}, {30, 5}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        assert_int_equal(ebb__walk_choose(&grid, list, 6, &(plan_choice){0}, cases[i].budget),
                         cases[i].taken);
    }
}

/* Two programs beside a device with a memory of its own; host 0: no limit there. */
static ebb_status make_beside(const device *dev, const ir_graph *graphs, uint64_t budget,
                              uint64_t host, uint32_t disabled, ebb_plan **out) {
    plan_request requests[] = {{.name = "train", .graph = &graphs[0], .training = true},
                               {.name = "valid", .graph = &graphs[1], .training = false}};
    plan_options options = {.dev = dev,
                            .members = 1,
                            .budget = budget,
                            .host_budget = host,
                            .disabled = disabled,
                            .update = update};
    return ebb__plan_make(graphs[0].ctx, requests, 2, NULL, 0, &options, out);
}

/* Where the host has no room for what would wait there, because of what other programs have of it,
 * less waits there, or nothing: a budget of the host is no reason to refuse while a plan keeps it.
 */
static void others_have_their_part_of_the_host(void **state) {
    (void)state;
    ebb_ctx *ctx = test_ctx_new();
    word_lm m = test_lm_small(LM_LSTM, 20), v;
    ir_graph graphs[2];
    ebb_plan *plan = NULL;
    device apart = *test_far_device();
    apart.instr_bytes = apart.view_bytes = 64;
    apart.away_bytes_per_second = 1e12; /* whatever else saves is slower */
    m.hidden = m.embed = 64;
    m.batch = 16;
    v = m;
    v.dropout = 0;
    v.state = "valid";
    test_lm(ctx, &m, &graphs[0]);
    test_lm(ctx, &v, &graphs[1]);
    assert_ok(ctx, make_beside(&apart, graphs, UINT64_MAX, 0, 0, &plan));
    uint64_t budget = 0; /* for which values go there */
    for (int32_t i = 0; i < plan->n_choices; i++) {
        const plan_choice *c = &plan->choices[i];
        budget = c->size.away_bytes > 0 ? c->peak_bytes : budget;
    }
    ebb__plan_free(plan);
    assert_ok(ctx, make_beside(&apart, graphs, budget, 0, 1U << PASS_OFFLOAD, &plan));
    uint64_t least = plan->host_bytes;
    ebb__plan_free(plan);
    assert_ok(ctx, make_beside(&apart, graphs, budget, 0, 0, &plan));
    uint64_t most = plan->host_bytes;
    assert_true(plan->away_bytes > 0 && most > least);
    ebb__plan_free(plan);
    for (int i = 0; i <= 4; i++) {
        uint64_t host = i == 0 ? most - 1 : most - (most - least) * (uint64_t)i / 4;
        assert_ok(ctx, make_beside(&apart, graphs, budget, host, 0, &plan));
        assert_true(plan->host_bytes <= host && plan->peak_bytes <= budget);
        ebb__plan_free(plan);
    }
    ebb__ir_fini(&graphs[0]);
    ebb__ir_fini(&graphs[1]);
    test_ctx_free(ctx);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_longest_way_first),
        cmocka_unit_test(nothing_goes),
        cmocka_unit_test(no_bit_changes),
        cmocka_unit_test(what_is_refused),
        cmocka_unit_test(when_it_is_taken),
        cmocka_unit_test(others_have_their_part_of_the_host),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
