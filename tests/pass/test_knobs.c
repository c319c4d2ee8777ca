/* test_knobs.c - the table that the walk reads: every way is another candidate, a knob that
 * somebody adds is walked like the others, and no list is written beyond its end. */
#include "support/twin.h"

#include "plan/walk.h"

static const plan_reach LARGE = {.rows = 1 << 20, .steps = 1 << 16};

static void every_way_is_another_candidate(void **state) {
    (void)state;
    plan_grid grid = ebb__knobs_grid(LARGE);
    uint64_t seen[256];
    int32_t n = 0;
    for (int32_t k = 0; k < grid.n_knobs; k++) {
        assert_true(grid.knobs[k].n > 1 && strlen(grid.knobs[k].name) > 0);
        for (int32_t i = k == 0 ? 0 : 1; i < grid.knobs[k].n; i++) { /* way 0 of all is one point */
            int32_t at[PLAN_MAX_KNOBS] = {0};
            at[k] = i;
            pass_knobs knobs = ebb__knobs_at(&grid, at);
            seen[n] = ebb__knobs_hash(&knobs);
            for (int32_t j = 0; j < n; j++) {
                assert_true(seen[j] != seen[n]);
            }
            n++;
        }
    }
    assert_true(n > 30);
}

/* Whatever is added to the list of settings belongs to the identity by itself. */
static void every_setting_counts(void **state) {
    (void)state;
    const pass_knobs none = {.pack = false};
    int32_t n = 0;
#define CHANGE(type, name, last)                                                                   \
    {                                                                                              \
        pass_knobs one = none;                                                                     \
        one.name = 1;                                                                              \
        assert_true(ebb__knobs_hash(&one) != ebb__knobs_hash(&none));                              \
        ebb__knobs_spend(&one, last);                                                              \
        assert_true(one.name == 1); /* that pass still reads it */                                 \
        ebb__knobs_spend(&one, (pass_id)(last + 1));                                               \
        assert_true(one.name == 0);                                                                \
        n++;                                                                                       \
    }
    PASS_KNOB_LIST(CHANGE)
#undef CHANGE
    assert_true(n >= 9);
}

static void disabled_passes_leave_way_0(void **state) {
    (void)state;
    plan_reach reach = LARGE;
    reach.disabled = ~0U;
    plan_grid grid = ebb__knobs_grid(reach);
    for (int32_t k = 0; k < grid.n_knobs; k++) {
        plan_way way = {.saving = 0};
        assert_true(ebb__knobs_way(&grid, k, 0, &way));
        assert_false(ebb__knobs_way(&grid, k, 1, &way));
    }
}

/* Signs and the like, and what has zeros without them; never read where it lies, nothing cut in
 * parts or repeated. */
static void gist_has_its_forms_alone(void **state) {
    (void)state;
    const plan_reach reach = {
        .rows = 1 << 20, .steps = 64, .images = 64, .encode = ENCODE_GIST, .sparse = true};
    plan_grid grid = ebb__knobs_grid(reach);
    int32_t encoded = 0;
    for (int32_t k = 0; k < grid.n_knobs; k++) {
        for (int32_t i = 1; i < grid.knobs[k].n; i++) {
            plan_way way = {.saving = 0};
            if (ebb__knobs_way(&grid, k, i, &way) && k != PLAN_KNOB_WHOLE) {
                assert_true(way.knobs.encode == i && way.knobs.encode <= 2 && way.knobs.decode);
                encoded++;
            }
        }
    }
    assert_int_equal(encoded, 2);
}

/* Every chunk has nodes of its own, whatever batch somebody asks for. */
static void chunks_are_not_countless(void **state) {
    (void)state;
    for (int32_t images = 16; images <= 1 << 20; images *= 4) {
        plan_grid grid =
            ebb__knobs_grid((plan_reach){.rows = images, .steps = 1, .images = images});
        int32_t ways = 0;
        for (int32_t k = 0; k < grid.n_knobs; k++) {
            for (int32_t i = 0; i < grid.knobs[k].n; i++) {
                plan_way way = {.saving = 0};
                if (ebb__knobs_way(&grid, k, i, &way) && way.knobs.chunk_images > 0) {
                    assert_true(images / way.knobs.chunk_images <= 512);
                    ways++;
                }
            }
        }
        assert_true((ways > 0) == (images <= 1 << 15));
    }
}

static void words(void **state) {
    (void)state;
    char text[96];
    ebb__knobs_describe(&(pass_knobs){0}, false, text, sizeof text);
    assert_string_equal(text, "all kept");
    ebb__knobs_describe(&(pass_knobs){.pack = true, .chunk_rows = 64, .price = 1}, true, text,
                        sizeof text);
    assert_string_equal(text, "recompute, loss by 64 rows, packed");
    ebb__knobs_describe(
        &(pass_knobs){.price = 1, .span = 4, .heavy = true, .replay = true, .outer = 2}, true, text,
        sizeof text);
    assert_string_equal(text, "replay 4 steps twice");
    ebb__knobs_describe(&(pass_knobs){.pack = true, .price = 1, .span = 4}, true, text, 12);
    assert_string_equal(text, "spans of 4 "); /* as much as there is room for */
}

/* ---- a knob of the test's own ---- */

typedef struct walked {
    ebb_ctx *ctx;
    ir_graph forward, graph;
    plan_options options;
    plan_walk *w;
} walked;

static void prepare(walked *t) {
    word_lm m = test_lm_small(LM_LSTM, 8);
    t->ctx = test_ctx_new();
    t->w = calloc(1, sizeof *t->w);
    t->options = (plan_options){.members = 1, .budget = UINT64_MAX};
    m.embed = m.hidden = 32;
    m.batch = 32; /* so that values count for more than instructions */
    test_lm(t->ctx, &m, &t->forward);
    plan_request request = {.name = "train", .graph = &t->forward, .training = true};
    assert_ok(t->ctx, ebb__walk_prepare(t->ctx, &t->options, &request, &t->graph));
    request.graph = &t->graph;
    *t->w = (plan_walk){.ctx = t->ctx, .options = &t->options, .program = request};
    t->w->grid = ebb__knobs_grid((plan_reach){.rows = ebb__walk_rows(&t->graph), .steps = 8});
}

static void finish(walked *t) {
    ebb__ir_fini(&t->graph);
    ebb__ir_fini(&t->forward);
    test_ctx_free(t->ctx);
    free(t->w);
}

/* Prices of the stash other than ebb's own. */
static bool odd_way(const plan_reach *reach, int32_t i, plan_way *out) {
    (void)reach;
    out->knobs.price = 3e-8 * i;
    return true;
}

/* The table with another row, and ebb's own recomputation cut down to none. */
static int32_t with_odd(walked *t, plan_knob table[PLAN_MAX_KNOBS], int32_t ways) {
    int32_t n = t->w->grid.n_knobs;
    memcpy(table, t->w->grid.knobs, (size_t)n * sizeof *table);
    table[PLAN_KNOB_SAVING].n = 1;
    table[n] = (plan_knob){
        .name = "odd", .pass = PASS_RECOMPUTE, .training = true, .n = ways, .way = odd_way};
    t->w->grid.knobs = table;
    t->w->grid.n_knobs = n + 1;
    return n;
}

static void an_added_knob_is_walked(void **state) {
    (void)state;
    walked with, without;
    plan_knob table[PLAN_MAX_KNOBS];
    int32_t found = 0;
    prepare(&without);
    (void)with_odd(&without, table, 1);
    assert_ok(without.ctx, ebb__walk_run(without.w));
    prepare(&with);
    int32_t odd = with_odd(&with, table, 3);
    assert_ok(with.ctx, ebb__walk_run(with.w));
    for (int32_t i = 0; i < with.w->n_list; i++) {
        const plan_choice *choice = &with.w->list[i];
        found += choice->at[odd] > 0;
        assert_true((choice->at[odd] > 0) == (choice->knobs.price > 0));
    }
    assert_true(found > 0);
    const plan_choice *a = &with.w->list[with.w->n_list - 1];
    const plan_choice *b = &without.w->list[without.w->n_list - 1];
    assert_true(a->peak_bytes < b->peak_bytes && b->knobs.price == 0);
    finish(&with);
    finish(&without);
}

static void lists_end(void **state) {
    (void)state;
    walked t;
    plan_knob table[PLAN_MAX_KNOBS];
    prepare(&t);
    (void)with_odd(&t, table, 2);
    table[PLAN_KNOB_WHOLE].n = PLAN_MAX_WHOLE + 1;
    assert_refused(t.ctx, ebb__walk_run(t.w), EBB_INTERNAL, "pack has more than");
    table[PLAN_KNOB_WHOLE].n = 2;
    t.w->n_list = 0;
    plan_choice list[PLAN_MAX_CHOICES];
    int32_t n;
    table[PLAN_KNOB_SERIES].way = odd_way;
    table[PLAN_KNOB_SERIES].n = 1000;
    assert_refused(t.ctx, ebb__walk_plain(t.ctx, &t.w->grid, list, &n), EBB_INTERNAL,
                   "plain plans");
    finish(&t);
}

/* Were each of very many candidates neither beaten nor like another one. */
static void listed_plans_end(void **state) {
    (void)state;
    ebb_ctx *ctx = test_ctx_new();
    plan_choice list[PLAN_MAX_CHOICES];
    int32_t n = 0;
    for (int32_t i = 0; i < PLAN_MAX_CHOICES; i++) {
        plan_choice fresh = {.seconds = i, .peak_bytes = 1000 - (uint64_t)i};
        assert_ok(ctx, ebb__walk_add(ctx, list, &n, UINT64_MAX, fresh));
    }
    assert_refused(ctx, ebb__walk_add(ctx, list, &n, UINT64_MAX, (plan_choice){.seconds = 1000}),
                   EBB_INTERNAL, "plans to list");
    test_ctx_free(ctx);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(every_way_is_another_candidate),
                                       cmocka_unit_test(every_setting_counts),
                                       cmocka_unit_test(disabled_passes_leave_way_0),
                                       cmocka_unit_test(gist_has_its_forms_alone),
                                       cmocka_unit_test(chunks_are_not_countless),
                                       cmocka_unit_test(words),
                                       cmocka_unit_test(an_added_knob_is_walked),
                                       cmocka_unit_test(lists_end),
                                       cmocka_unit_test(listed_plans_end)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
