/* test_timeline.c - bytes over a step: every column and band against a count of all pieces, the
 * fullest column against the placement's load, however few columns there are. */
#include "plan/timeline.h"
#include "support/twin.h"

/* Transient bytes of a layer and kind alive at a position; NULL: of all. */
static uint64_t count_alive(const pass_unit *unit, int32_t position, const plan_band *band) {
    const plan_placement *p = unit->placement;
    uint64_t bytes = 0;
    for (int32_t i = 0; i < p->n_pieces; i++) {
        const plan_piece *piece = &p->pieces[i];
        const ir_label *label =
            piece->node == IR_NONE ? NULL : &unit->graph.nodes[piece->node].label;
        if (p->blocks[piece->block].variable == IR_NONE && piece->birth <= position &&
            position <= piece->death &&
            (band == NULL || (piece->kind == band->kind &&
                              strcmp(unit->graph.layers[label->layer], band->layer) == 0))) {
            bytes += piece->own;
        }
    }
    return bytes;
}

/* Positions of instructions: the order without what moves no byte. */
static int32_t list_instrs(const pass_unit *unit, int32_t *positions) {
    int32_t n = 0;
    for (int32_t i = 0; i < unit->graph.n_order; i++) {
        if (unit->kernels[unit->graph.order[i]] != DEVICE_KERNEL_NONE) {
            positions[n++] = i;
        }
    }
    return n;
}

static void check_column(const pass_unit *unit, const plan_timeline *t, int32_t index,
                         const int32_t *positions) {
    const plan_column *c = &t->columns[index];
    int32_t shown = positions[c->fullest], by_phase[IR_PHASES] = {0};
    uint64_t sum = 0;
    assert_true(c->n > 0 && c->fullest >= c->first && c->fullest < c->first + c->n);
    assert_int_equal(c->node, unit->graph.order[shown]);
    for (int32_t i = c->first; i < c->first + c->n; i++) {
        assert_true(count_alive(unit, positions[i], NULL) <= c->bytes);
        by_phase[unit->graph.nodes[unit->graph.order[positions[i]]].label.phase]++;
    }
    for (int k = 0; k < IR_PHASES; k++) {
        assert_true(by_phase[k] <= by_phase[c->phase]);
    }
    for (int32_t b = 0; b < t->n_bands; b++) {
        assert_int_equal(t->bands[b].bytes[index], count_alive(unit, shown, &t->bands[b]));
        assert_true(t->bands[b].bytes[index] <= t->bands[b].most);
        sum += t->bands[b].bytes[index];
    }
    assert_int_equal(sum, c->bytes);
    assert_int_equal(sum, count_alive(unit, shown, NULL));
}

static void check_timeline(const ebb_plan *plan, int32_t columns) {
    const pass_unit *unit = &plan->programs[0].unit;
    int32_t *positions = calloc((size_t)unit->graph.n_order + 1, sizeof *positions), next = 0;
    int32_t n = list_instrs(unit, positions), in_phases = 0;
    uint64_t fixed = 0, most = 0;
    plan_timeline t;
    assert_ok(plan->ctx, ebb__timeline_make(plan, columns, &t));
    assert_int_equal(t.n_instrs, n);
    assert_int_equal(t.n_columns, n < columns ? n : columns);
    for (int32_t i = 0; i < t.n_columns; i++) {
        assert_int_equal(t.columns[i].first, next);
        next += t.columns[i].n;
        check_column(unit, &t, i, positions);
        most = t.columns[i].bytes > most ? t.columns[i].bytes : most;
    }
    assert_int_equal(next, n);
    assert_int_equal(t.load, most);
    assert_int_equal(t.load, unit->placement->load_bytes);
    assert_int_equal(t.load, t.columns[t.fullest].bytes);
    for (int k = 0; k < IR_PHASES; k++) {
        in_phases += t.instrs[k];
    }
    assert_int_equal(in_phases, n);
    for (int k = 0; k < IR_KINDS; k++) {
        bool always = k == IR_WEIGHTS || k == IR_OPTIMIZER || k == IR_DATA || k == IR_PROGRAM;
        assert_int_equal(t.fixed[k], always ? plan->bytes_by_kind[k] : 0);
        fixed += t.fixed[k];
    }
    assert_true(fixed + t.load <= plan->peak_bytes);
    ebb__timeline_free(&t);
    free(positions);
}

static void against_brute_force(void **state) {
    (void)state;
    for (int i = 0; i < 9; i++) {
        ebb_ctx *ctx = test_ctx_new();
        word_lm m = test_lm_small((lm_cell)(i % 3), 2 + i);
        ir_graph graph;
        test_lm(ctx, &m, &graph);
        pass_config config = {
            .members = 1 + i % 2,
            .knobs.chunk_rows = i % 2 ? 4 : 0,
            .knobs.pack = i % 3 == 0,
            .disabled = i % 4 == 3 ? 1U << PASS_BATCH_TIME : 0,
            .update = {.optimizer = i % 2 ? UPDATE_ADAM : UPDATE_SGD, .clip = i % 4 ? 1.0F : 0}};
        ebb_plan *plan = test_compile(
            ctx, &(plan_request){.name = "t", .graph = &graph, .training = i != 4}, &config);
        static const int32_t widths[] = {1, 2, 7, 30, 1 << 20};
        for (size_t k = 0; k < sizeof widths / sizeof *widths; k++) {
            check_timeline(plan, widths[k]);
        }
        ebb__plan_free(plan);
        ebb__ir_fini(&graph);
        test_ctx_free(ctx);
    }
}

/* Counted by hand: a chain in one block, a value that waits beside it, a scalar at the end. */
static void by_hand(void **state) {
    (void)state;
    ebb_ctx *ctx = test_ctx_new();
    ir_graph graph;
    test_parse(ctx,
               "input %0 f32[4,16] \"x\"\n"
               "%1:f32[4,16] = tanh %0 @ \"a\" fwd\n"                       /* 256 */
               "%2:f32[4,16] = sigmoid %1 @ \"b\" fwd\n"                    /* 256 beside it */
               "%3:f32[4,16] = relu %2 @ \"b\" fwd\n"                       /* in place */
               "%4:f32[4,32] = concat %1 %3 {axis=1} @ \"c\" fwd\n"         /* nothing to run */
               "%5:f64[1] = sum_squares %4 @ \"c\" fwd\noutput %5 \"y\"\n", /* 8 more */
               &graph);
    pass_config config = {.members = 1};
    ebb_plan *plan = test_compile(
        ctx, &(plan_request){.name = "t", .graph = &graph, .training = false}, &config);
    static const uint64_t expected[] = {256, 512, 512, 520};
    plan_timeline t;
    assert_int_equal(plan->lead, 0);
    assert_ok(ctx, ebb__timeline_make(plan, 100, &t));
    assert_int_equal(t.n_columns, 4);
    for (int i = 0; i < 4; i++) {
        assert_int_equal(t.columns[i].bytes, expected[i]);
    }
    assert_int_equal(t.fullest, 3);
    assert_int_equal(t.instrs[IR_FORWARD], 4);
    assert_int_equal(t.n_bands, 3);
    assert_string_equal(t.bands[1].layer, "b");
    assert_int_equal(t.bands[1].kind, IR_WORKSPACE);
    assert_int_equal(t.bands[1].bytes[0], 0);
    assert_int_equal(t.bands[1].most, 256);
    assert_int_equal(t.fixed[IR_DATA], 256);
    ebb__timeline_free(&t);
    ebb__plan_free(plan);
    ebb__ir_fini(&graph);
    test_ctx_free(ctx);
}

/* A step that keeps nothing still has columns; one without instructions has none. */
static void nothing_transient(void **state) {
    (void)state;
    static const char *const texts[] = {"state %0 f32[3] \"s\" next=%1\n%1:f32[3] = tanh %0\n",
                                        "input %0 f32[3] \"x\"\n"};
    for (int i = 0; i < 2; i++) {
        ebb_ctx *ctx = test_ctx_new();
        ir_graph graph;
        plan_timeline t;
        test_parse(ctx, texts[i], &graph);
        pass_config config = {.members = 1};
        ebb_plan *plan = test_compile(
            ctx, &(plan_request){.name = "t", .graph = &graph, .training = false}, &config);
        assert_ok(ctx, ebb__timeline_make(plan, 10, &t));
        assert_int_equal(t.n_columns, i == 0 ? 1 : 0);
        assert_int_equal(t.n_bands, 0);
        assert_int_equal(t.load, 0);
        assert_int_equal(t.fullest, i == 0 ? 0 : -1);
        ebb__timeline_free(&t);
        ebb__plan_free(plan);
        ebb__ir_fini(&graph);
        test_ctx_free(ctx);
    }
}

/* Whichever allocation fails, nothing is left behind. */
static void without_memory(void **state) {
    (void)state;
    ebb_ctx *ctx = test_ctx_new();
    word_lm m = test_lm_small(LM_LSTM, 40);
    ir_graph graph;
    test_lm(ctx, &m, &graph);
    pass_config config = {.members = 1};
    ebb_plan *plan =
        test_compile(ctx, &(plan_request){.name = "t", .graph = &graph, .training = true}, &config);
    uint64_t live = ctx->mem.live_bytes;
    ebb_status status = EBB_NOMEM;
    int failures = 0;
    while (status != EBB_OK) {
        plan_timeline t;
        ctx->mem.fail_at = (uint64_t)failures + 1;
        status = ebb__timeline_make(plan, 1 << 20, &t);
        assert_true(status == EBB_OK || status == EBB_NOMEM);
        ebb__timeline_free(&t);
        assert_int_equal(ctx->mem.live_bytes, live);
        ebb__ctx_clear(ctx);
        failures += status != EBB_OK;
    }
    ctx->mem.fail_at = 0;
    assert_true(failures > 0);
    ebb__plan_free(plan);
    ebb__ir_fini(&graph);
    test_ctx_free(ctx);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(against_brute_force), cmocka_unit_test(by_hand),
        cmocka_unit_test(nothing_transient), cmocka_unit_test(without_memory)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
