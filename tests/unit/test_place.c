/* test_place.c - addresses: no two pieces alive at the same time share a byte (all pairs are looked
 * at), no placement goes below the load, and nested lifetimes reach it. */
#include "support/twin.h"

#include "plan/fit.h"

static void no_overlap(const plan_placement *p) {
    for (int32_t i = 0; i < p->n_pieces; i++) {
        const plan_piece *a = &p->pieces[i];
        uint64_t from = plan_block_address(p, a->block) + a->lo, to = from + (a->hi - a->lo);
        assert_int_equal(plan_block_address(p, a->block) % PLAN_ALIGN, 0);
        assert_true(a->birth <= a->death && a->lo < a->hi);
        for (int32_t k = i + 1; k < p->n_pieces; k++) {
            const plan_piece *b = &p->pieces[k];
            uint64_t at = plan_block_address(p, b->block) + b->lo;
            if (b->block != a->block && a->birth <= b->death && b->birth <= a->death) {
                assert_true(at >= to || at + (b->hi - b->lo) <= from);
            }
        }
    }
}

static void all_pairs(void **state) {
    (void)state;
    for (int i = 0; i < 12; i++) {
        ebb_ctx *ctx = test_ctx_new();
        word_lm m = test_lm_small((lm_cell)(i % 3), i < 9 ? 4 + i : 60);
        ir_graph graph;
        test_lm(ctx, &m, &graph);
        pass_config config = {.members = 1 + i % 3,
                              .knobs.chunk_rows = i % 2 ? 5 : 0,
                              .knobs.pack = i % 2 != 0,
                              .update = {.clip = i % 4 ? 1.0F : 0}};
        ebb_plan *plan = test_compile(
            ctx, &(plan_request){.name = "t", .graph = &graph, .training = i % 5 != 0}, &config);
        const plan_placement *p = plan->programs[0].unit.placement;
        no_overlap(p);
        assert_true(p->transient_bytes >= p->load_bytes);
        /* No byte is planned that nothing ever uses. */
        uint64_t top = 0;
        for (int32_t k = 0; k < p->n_pieces; k++) {
            uint64_t end = plan_block_address(p, p->pieces[k].block) + p->pieces[k].hi;
            top = end > top ? end : top;
        }
        assert_int_equal(top, plan->device_bytes);
        ebb__plan_free(plan);
        ebb__ir_fini(&graph);
        test_ctx_free(ctx);
    }
}

/* ---- first fit against looking at every offset ---- */

enum { BLOCKS = 60, MOST_PIECES = 6, POSITIONS = 300 };

static bool meets(const plan_placement *p, int32_t a, int32_t b) {
    for (int32_t i = p->blocks[a].first; i < p->blocks[a].first + p->blocks[a].n; i++) {
        for (int32_t k = p->blocks[b].first; k < p->blocks[b].first + p->blocks[b].n; k++) {
            const plan_piece *x = &p->pieces[i], *y = &p->pieces[k];
            if (x->birth <= y->death && y->birth <= x->death &&
                p->blocks[a].offset + x->lo < p->blocks[b].offset + y->hi &&
                p->blocks[b].offset + y->lo < p->blocks[a].offset + x->hi) {
                return true;
            }
        }
    }
    return false;
}

static void lowest_of_all(void **state) {
    (void)state;
    for (uint64_t seed = 1; seed <= 20; seed++) {
        ebb_ctx *ctx = test_ctx_new();
        test_dice dice = {seed};
        plan_piece pieces[BLOCKS * MOST_PIECES];
        plan_block blocks[BLOCKS];
        plan_placement p = {
            .blocks = blocks, .pieces = pieces, .n_blocks = BLOCKS, .n_positions = POSITIONS};
        plan_fit fit;
        for (int32_t b = 0; b < BLOCKS; b++) {
            uint64_t at = 0;
            blocks[b] = (plan_block){.variable = IR_NONE, .first = p.n_pieces};
            blocks[b].n = 1 + test_below(&dice, MOST_PIECES);
            for (int32_t i = 0; i < blocks[b].n; i++) { /* long ones and short ones */
                int32_t birth = test_below(&dice, POSITIONS);
                int32_t most = test_below(&dice, 3) == 0 ? POSITIONS : 9;
                int32_t death = birth + test_below(&dice, most);
                uint64_t bytes = (uint64_t)(1 + test_below(&dice, 500));
                pieces[p.n_pieces++] = (plan_piece){.block = b,
                                                    .lo = at,
                                                    .hi = at + bytes,
                                                    .birth = birth,
                                                    .death = death < POSITIONS ? death : POSITIONS};
                at = plan_align(at + bytes);
            }
            blocks[b].bytes = at;
        }
        assert_ok(ctx, ebb__fit_init(&fit, ctx, &p));
        for (int32_t b = 0; b < BLOCKS; b++) {
            uint64_t found = 0;
            assert_ok(ctx, ebb__fit_lowest(&fit, b, &found));
            for (blocks[b].offset = 0; blocks[b].offset <= found; blocks[b].offset += PLAN_ALIGN) {
                bool free = true;
                for (int32_t k = 0; k < b; k++) {
                    free = free && !meets(&p, b, k);
                }
                assert_int_equal(free, blocks[b].offset == found);
            }
            blocks[b].offset = found;
            assert_ok(ctx, ebb__fit_add(&fit, b));
        }
        ebb__fit_fini(&fit);
        test_ctx_free(ctx);
    }
}

/* a b c d, then read in reverse: a stack of lifetimes. Sizes are multiples of the alignment. */
static void nested_lifetimes_reach_the_load(void **state) {
    (void)state;
    ebb_ctx *ctx = test_ctx_new();
    ir_graph graph;
    test_parse(ctx,
               "input %0 f32[1,16] \"x\"\ninput %1 f32[3,16] \"y\"\ninput %2 f32[7,16] \"z\"\n"
               "%3:f32[1,16] = tanh %0\n%4:f32[3,16] = tanh %1\n%5:f32[7,16] = tanh %2\n"
               "%6:f32[7,16] = softmax %5\n"
               "%7:f32[3,7] = matmul - %4 %6 {trans_b=1}\n"
               "%8:f64[1] = sum_squares %7\n%9:f64[1] = sum_squares %4\n"
               "%10:f64[1] = sum_squares %3\noutput %8 \"a\"\noutput %9 \"b\"\noutput %10 \"c\"\n",
               &graph);
    pass_config config = {.members = 1};
    ebb_plan *plan = test_compile(
        ctx, &(plan_request){.name = "t", .graph = &graph, .training = false}, &config);
    const plan_placement *p = plan->programs[0].unit.placement;
    no_overlap(p);
    assert_true(p->transient_bytes <= p->load_bytes + PLAN_ALIGN);
    assert_true(p->load_bytes >= (1 + 3 + 7) * 64);
    ebb__plan_free(plan);
    ebb__ir_fini(&graph);
    test_ctx_free(ctx);
}

/* Columns of one block are not counted twice: the load stays what no placement can go below. */
static void load_of_columns(void **state) {
    (void)state;
    ebb_ctx *ctx = test_ctx_new();
    ir_graph graph;
    test_parse(
        ctx,
        "input %0 f32[64,16] \"x\"\n%1:f32[64,16] = tanh %0\n%2:f32[64,16] = sigmoid %0\n"
        "%3:f32[64,32] = concat %1 %2 {axis=1}\n%4:f64[1] = sum_squares %3\noutput %4 \"y\"\n",
        &graph);
    pass_config config = {.members = 1};
    ebb_plan *plan = test_compile(
        ctx, &(plan_request){.name = "t", .graph = &graph, .training = false}, &config);
    const plan_placement *p = plan->programs[0].unit.placement;
    assert_true(p->load_bytes <= p->transient_bytes);
    assert_in_range(p->load_bytes, 64 * 32 * 4, 64 * 32 * 4 + 8);
    ebb__plan_free(plan);
    ebb__ir_fini(&graph);
    test_ctx_free(ctx);
}

/* Nothing transient: the peak is the end of the last variable, not of its padding. */
static void only_variables(void **state) {
    (void)state;
    ebb_ctx *ctx = test_ctx_new();
    ir_graph graph;
    test_parse(ctx, "state %0 f32[3] \"s\" next=%1\n%1:f32[3] = tanh %0\n", &graph);
    pass_config config = {.members = 1};
    ebb_plan *plan = test_compile(
        ctx, &(plan_request){.name = "t", .graph = &graph, .training = false}, &config);
    assert_int_equal(plan->device_bytes, 12);
    assert_int_equal(plan->peak_bytes, plan->host_bytes + 12);
    test_run_equal(plan, &graph, false, &config.update, 3, 2);
    ebb__ir_fini(&graph);
    test_ctx_free(ctx);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(all_pairs), cmocka_unit_test(lowest_of_all),
                                       cmocka_unit_test(nested_lifetimes_reach_the_load),
                                       cmocka_unit_test(load_of_columns),
                                       cmocka_unit_test(only_variables)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
