/* test_check.c - the verifier against plans with one thing wrong: an address, a leading dimension,
 * the order, the scratch. Every plan it accepts is run; if the bits then differ from the
 * interpreter's, it should have refused. */
#include "support/twin.h"

enum { SEED = 5, STEPS = 2 };

static const grad_update_settings update = {
    .optimizer = UPDATE_SGD, .momentum = 0.9F, .clip = 0.3F};

static ebb_plan *fresh(ebb_ctx *ctx, const ir_graph *graph) {
    pass_config config = {
        .members = 1, .knobs.chunk_rows = 4, .knobs.pack = true, .update = update};
    return test_compile(ctx, &(plan_request){.name = "t", .graph = graph, .training = true},
                        &config);
}

static ebb_status check(ebb_plan *plan) {
    ebb_status status = ebb__plan_check(&plan->programs[0].unit, plan->device_bytes);
    ebb__ctx_clear(plan->ctx);
    return status;
}

typedef void (*corruption)(ebb_plan *plan, test_dice *dice);

static plan_block *some_block(ebb_plan *plan, test_dice *dice) {
    plan_placement *p = plan->programs[0].unit.placement;
    return &p->blocks[test_below(dice, p->n_blocks)];
}

static void move_block(ebb_plan *plan, test_dice *dice) {
    plan_block *block = some_block(plan, dice);
    uint64_t room = (plan->peak_bytes - plan->programs[0].size.program_bytes) / PLAN_ALIGN;
    uint64_t from = block->variable == IR_NONE ? 0 : plan->programs[0].size.program_bytes;
    block->offset = plan_align(from) + test_roll(dice) % (room + 1) * PLAN_ALIGN;
}

static void shift_block(ebb_plan *plan, test_dice *dice) {
    plan_block *block = some_block(plan, dice);
    block->offset += test_below(dice, 2) ? 4 : (uint64_t)-4;
}

static void change_ld(ebb_plan *plan, test_dice *dice) {
    plan_placement *p = plan->programs[0].unit.placement;
    ir_val v = test_below(dice, p->n_values);
    p->ld[v] += test_below(dice, 2) ? 1 : -1;
}

static void change_offset(ebb_plan *plan, test_dice *dice) {
    plan_placement *p = plan->programs[0].unit.placement;
    ir_val v = test_below(dice, p->n_values);
    p->offset[v] += 4 * (uint64_t)(1 + test_below(dice, 8));
}

static void swap_order(ebb_plan *plan, test_dice *dice) {
    ir_graph *g = &plan->programs[0].unit.graph;
    int32_t a = test_below(dice, g->n_order), b = test_below(dice, g->n_order);
    ir_node node = g->order[a];
    g->order[a] = g->order[b];
    g->order[b] = node;
}

static void swap_blocks(ebb_plan *plan, test_dice *dice) {
    plan_placement *p = plan->programs[0].unit.placement;
    ir_val a = test_below(dice, p->n_values), b = test_below(dice, p->n_values);
    int32_t block = p->block[a];
    p->block[a] = p->block[b];
    p->block[b] = block;
}

/* Alters plans at random; returns how many were refused. */
static int try_many(corruption corrupt, int times) {
    int refused = 0;
    for (int i = 0; i < times; i++) {
        ebb_ctx *ctx = test_ctx_new();
        word_lm m = test_lm_small((lm_cell)(i % 3), 3);
        ir_graph graph;
        test_dice dice = {(uint64_t)i};
        test_lm(ctx, &m, &graph);
        ebb_plan *plan = fresh(ctx, &graph);
        assert_int_equal(check(plan), EBB_OK);
        corrupt(plan, &dice);
        if (check(plan) != EBB_OK) {
            refused++;
            ebb__plan_free(plan);
        } else { /* then it does not matter */
            run_session *session = NULL;
            test_twin twin;
            test_twin_init(&twin, &graph, true, &update, SEED);
            /* Variables and outputs may have been moved as well. */
            pass_unit *unit = &plan->programs[0].unit;
            for (int32_t k = 0; k < plan->n_variables; k++) {
                ir_val v = ebb__ir_find(&unit->graph, plan->variables[k].name);
                plan->variables[k].offset = plan_value_address(unit->placement, v);
            }
            for (int32_t k = 0; k < plan->programs[0].n_outputs; k++) {
                plan_output *output = &plan->programs[0].outputs[k];
                ir_val v = ebb__ir_find(&unit->graph, output->name);
                output->offset = plan_value_address(unit->placement, v);
            }
            assert_ok(ctx, ebb__run_new(ctx, plan, &session));
            test_twin_load(&twin, session);
            for (int step = 0; step < STEPS; step++) {
                test_twin_inputs(&twin, session);
                test_twin_step(&twin);
                assert_int_equal(ebb__run_step(session, 0), EBB_OK);
                const char *differs = test_twin_differs(&twin, session, 0);
                if (differs != NULL) {
                    fail_msg("corruption %d was accepted, but %s differs", i, differs);
                }
            }
            ebb__run_free(session);
            test_twin_fini(&twin);
        }
        ebb__ir_fini(&graph);
        test_ctx_free(ctx);
    }
    return refused;
}

static void moved_blocks(void **state) {
    (void)state;
    assert_in_range(try_many(move_block, 60), 30, 60);
}
static void shifted_blocks(void **state) {
    (void)state;
    assert_in_range(try_many(shift_block, 60), 10, 60);
}
static void wrong_leading_dimensions(void **state) {
    (void)state;
    assert_in_range(try_many(change_ld, 60), 10, 60);
}
static void wrong_offsets(void **state) {
    (void)state;
    assert_in_range(try_many(change_offset, 60), 20, 60);
}
static void swapped_order(void **state) {
    (void)state;
    assert_in_range(try_many(swap_order, 60), 30, 60);
}
static void swapped_blocks(void **state) {
    (void)state;
    assert_in_range(try_many(swap_blocks, 60), 30, 60);
}

/* ---- one at a time, with the reason ---- */

static void refused(ebb_plan *plan, const char *why) {
    assert_refused(plan->ctx, ebb__plan_check(&plan->programs[0].unit, plan->device_bytes),
                   EBB_INTERNAL, why);
    ebb__plan_free(plan);
}

static void reasons(void **state) {
    (void)state;
    ebb_ctx *ctx = test_ctx_new();
    ir_graph graph;
    test_parse(ctx,
               "param %0 f32[40,40] \"w\"\ninput %1 f32[40,40] \"x\"\n"
               "state %2 f32[40,40] \"s\" next=%4\n"
               "%3:f32[40,40] = matmul - %1 %0 {trans_b=1}\n%4:f32[40,40] = tanh %3\n"
               "%5:f32[40,40] = matmul - %3 %1\noutput %5 \"y\"\n",
               &graph);
    pass_config config = {.members = 2};
    plan_request request = {.name = "t", .graph = &graph, .training = false};
#define CORRUPT(what, why)                                                                         \
    do {                                                                                           \
        ebb_plan *plan = test_compile(ctx, &request, &config);                                     \
        pass_unit *u = &plan->programs[0].unit;                                                    \
        plan_placement *p = u->placement;                                                          \
        (void)u;                                                                                   \
        (void)p;                                                                                   \
        what;                                                                                      \
        refused(plan, why);                                                                        \
    } while (0)
    CORRUPT(p->block[3] = -1, "no address");
    CORRUPT(p->blocks[p->block[5]].offset = plan->device_bytes, "outside the arena");
    CORRUPT(p->blocks[p->block[0]].offset = p->blocks[p->block[1]].offset,
            "variable over a variable");
    CORRUPT(p->blocks[p->block[5]].offset = p->blocks[p->block[3]].offset,
            "result written over an operand");
    CORRUPT(p->block[4] = p->block[5], "wrong next value");
    CORRUPT(u->graph.order[1] = u->graph.order[2], "wrong next value"); /* tanh never runs */
    CORRUPT(u->shares[u->graph.order[0]].members = 3, "members that cannot take part");
    CORRUPT(u->shares[u->graph.order[1]].members = 0, "members that cannot take part");
    CORRUPT((u->kernels[u->graph.order[0]] = DEVICE_KERNEL_REFERENCE,
             u->shares[u->graph.order[0]].members = 2),
            "members that cannot take part");
    /* Scratch, where a kernel wants some. */
    ebb_plan *sound = test_compile(ctx, &request, &config);
    ir_node product = sound->programs[0].unit.graph.values[3].def;
    size_t bytes = sound->programs[0].unit.workspace[product];
    ebb__plan_free(sound);
    if (bytes > 0) {
        CORRUPT(p->scratch[product] = -1, "too little scratch");
        CORRUPT(u->workspace[product]--, "too little scratch");
        CORRUPT(p->blocks[p->scratch[product]].offset = p->blocks[p->block[3]].offset,
                "scratch over a result");
    }
#undef CORRUPT
    ebb__ir_fini(&graph);
    test_ctx_free(ctx);
}

/* An op that takes rows only as they follow each other: one that reads them with gaps would read
 * something else, though the bytes are where the plan says. */
static void gaps(void **state) {
    (void)state;
    ebb_ctx *ctx = test_ctx_new();
    ir_graph graph;
    test_parse(ctx,
               "input %0 f32[3,4,8] \"x\"\n%1:f32[3,4,8] = relu %0\n"
               "%2:u8[3,4] = sign_bits %1\noutput %2 \"y\"\n",
               &graph);
    pass_config config = {.members = 1};
    ebb_plan *plan = test_compile(
        ctx, &(plan_request){.name = "t", .graph = &graph, .training = false}, &config);
    plan_placement *p = plan->programs[0].unit.placement;
    p->ld[1] += 8;
    p->blocks[p->block[1]].offset = plan_align(plan->device_bytes);
    plan->device_bytes = 2 * plan_align(plan->device_bytes) + 4096;
    refused(plan, "sign_bits: gaps between rows");
    ebb__ir_fini(&graph);
    test_ctx_free(ctx);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(moved_blocks),  cmocka_unit_test(shifted_blocks),
        cmocka_unit_test(wrong_offsets), cmocka_unit_test(wrong_leading_dimensions),
        cmocka_unit_test(swapped_order), cmocka_unit_test(swapped_blocks),
        cmocka_unit_test(reasons),       cmocka_unit_test(gaps)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
