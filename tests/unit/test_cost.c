/* test_cost.c - which nodes share a time, what the table answers, which form is taken from it, and
 * how tuning fills it: in which order, within which limits, with large products cut. */
#include "unit/cost_help.h"

#include <math.h>

static void nodes_that_share_a_time(void **state) {
    (void)state;
    cost_room room;
    cost_key a, b;
    cost_room_init(&room, COST_GRAPH, 2);
    const ir_graph *g = &room.graph;
    assert_true(ebb__cost_key(&room.dev, g, cost_node(&room, 0), 0, 2, &a));
    assert_true(ebb__cost_key(&room.dev, g, cost_node(&room, 1), 0, 2, &b));
    assert_memory_equal(&a, &b, sizeof a); /* whether something is added does not matter */
    assert_int_equal(a.m, 12);
    assert_int_equal(a.n, 20);
    assert_int_equal(a.k, 20);
    assert_true(ebb__cost_key(&room.dev, g, cost_node(&room, 2), 0, 2, &b));
    assert_memory_not_equal(&a, &b, sizeof a);
    assert_true(ebb__cost_key(&room.dev, g, cost_node(&room, 0), 0, 1, &b));
    assert_memory_not_equal(&a, &b, sizeof a);
    assert_true(ebb__cost_key(&room.dev, g, test_node(g, OP_TRANSPOSE, 0), 1, 2, &b));
    assert_int_equal(b.k, 0);
    assert_false(ebb__cost_key(&room.dev, g, cost_node(&room, 0), -1, 2, &b));
    assert_false(ebb__cost_key(&room.dev, g, test_node(g, OP_TANH, 0), 1, 2, &b));
    assert_false(ebb__cost_key(&room.dev, g, test_node(g, OP_EMBED, 0), 1, 2, &b));
    cost_room_fini(&room);
}

static void many_entries(void **state) {
    (void)state;
    enum { MANY = 3000 };
    cost_room room;
    cost_entry *entry = NULL;
    cost_room_init(&room, COST_GRAPH, 1);
    cost_key key = cost_add(&room, 0, 1)->key;
    for (int i = 0; i < 2 * MANY; i++) { /* the second time round they are known */
        key.m = 1000 + i % MANY;
        assert_ok(room.ctx, ebb__cost_table_add(&room.table, &key, &entry));
        assert_true(i < MANY ? entry->n_forms == 0 : entry->n_forms == 1);
        assert_int_equal(entry->key.m, key.m);
        entry->n_forms = 1;
    }
    assert_int_equal(room.table.n_entries, MANY + 1);
    key.m = 1000 + MANY;
    assert_null(ebb__cost_table_find(&room.table, &key));
    cost_room_fini(&room);
}

static void the_form_of_a_node(void **state) {
    (void)state;
    cost_room room;
    double seconds;
    cost_room_init(&room, COST_GRAPH, 2);
    const ir_node_rec *node = cost_node(&room, 0);
#define FORM(table) ebb__cost_form(table, &room.dev, &room.graph, node, 0, 2, &seconds)
#define SECONDS(table) ebb__cost_measured(table, &room.dev, &room.graph, node, 0, 2)
    double model = ebb__cost_seconds(&room.dev, &room.graph, node, 0, 2);
    assert_int_equal(FORM(NULL), FORM_SLOW);
    assert_true(seconds < 0);
    assert_true(SECONDS(NULL) == model && SECONDS(&room.table) == model);
    cost_entry *entry = cost_add(&room, 0, 2);
    entry->estimate = 0.5;
    assert_int_equal(FORM(&room.table), FORM_SLOW);
    assert_true(seconds < 0 && SECONDS(&room.table) == 0.5);
    /* A form that the kernel does not offer is never taken, however fast. */
    entry->n_forms = 3;
    entry->forms[0] = (cost_form){FORM_FAST + 1, 1e-6};
    entry->forms[1] = (cost_form){FORM_SLOW, 3e-3};
    entry->forms[2] = (cost_form){FORM_FAST, 1e-3};
    assert_int_equal(FORM(&room.table), FORM_FAST);
    assert_true(seconds == 1e-3 && SECONDS(&room.table) == 1e-3);
    /* Within 3% of the fastest the kernel's own order decides. */
    entry->forms[0] = (cost_form){FORM_LEAN, 0.98e-3};
    assert_int_equal(FORM(&room.table), FORM_FAST);
    assert_true(seconds == 1e-3);
    entry->forms[0].seconds = 0.96e-3;
    assert_int_equal(FORM(&room.table), FORM_LEAN);
    assert_true(seconds == 0.96e-3);
    entry->forms[1].seconds = 0.97e-3;
    assert_int_equal(FORM(&room.table), FORM_SLOW);
#undef FORM
#undef SECONDS
    cost_room_fini(&room);
}

static void select_asks_the_table(void **state) {
    (void)state;
    cost_room room;
    test_unit t;
    cost_room_init(&room, COST_GRAPH, 1);
    cost_entry *entry = cost_add(&room, 0, 1);
    entry->n_forms = 1;
    entry->forms[0] = (cost_form){FORM_LEAN, 1e-3};
    test_unit_init(&t, &room.graph);
    t.unit.dev = &room.dev;
    t.config.table = &room.table;
    test_pass(&t, &ebb__pass_select);
    int products = 0;
    for (int32_t i = 0; i < t.unit.graph.n_order; i++) {
        ir_node n = t.unit.graph.order[i];
        if (t.unit.graph.nodes[n].op == OP_MATMUL) {
            bool known = products++ < 2;
            assert_int_equal(t.unit.forms[n], known ? FORM_LEAN : FORM_SLOW);
            assert_int_equal(t.unit.workspace[n], known ? 8 : 4096);
        }
    }
    assert_int_equal(products, 3);
    test_unit_fini(&t);
    cost_room_fini(&room);
}

static void survey_all(cost_room *room) {
    assert_ok(room->ctx, ebb__cost_survey_add(&room->survey, &room->graph, room->kernels));
}

static void products_are_counted(void **state) {
    (void)state;
    cost_room room;
    cost_room_init(&room, COST_GRAPH, 2);
    survey_all(&room);
    survey_all(&room); /* a second graph that has the same: not more of it in a step */
    const cost_sample *s = room.survey.samples;
    assert_int_equal(room.survey.n_samples, 3);
    assert_int_equal(s[0].count, 2);
    assert_int_equal(s[1].count, 1);
    assert_int_equal(s[2].count, 1);
    assert_true(fabs(s[0].weight - 4 * s[0].model) <= 1e-9 * s[0].weight);
    assert_int_equal(s[0].n_forms, N_FAKE_FORMS);
    assert_int_equal(s[0].forms[0], FORM_SLOW);
    assert_int_equal(s[2].n_forms, 1);
    assert_int_equal(ebb__cost_survey_missing(&room.survey, &room.table, false), 3);
    (void)cost_add(&room, 0, 2);
    assert_int_equal(ebb__cost_survey_missing(&room.survey, &room.table, false), 2);
    assert_int_equal(ebb__cost_survey_missing(&room.survey, &room.table, true), 3);
    cost_room_fini(&room);
}

static void forms_are_timed(void **state) {
    (void)state;
    cost_room room;
    cost_tuned tuned;
    cost_limits limits = {.seconds = 600, .bytes = 1 << 20};
    cost_room_init(&room, COST_GRAPH, 2);
    survey_all(&room);
    assert_ok(room.ctx, ebb__cost_tune(&room.survey, &room.table, &limits, &tuned));
    assert_int_equal(tuned.measured, 3);
    assert_int_equal(tuned.left, 0);
    const cost_entry *entry = ebb__cost_table_find(&room.table, &room.survey.samples[0].key);
    assert_non_null(entry);
    assert_int_equal(entry->n_forms, 3);
    for (int i = 0; i < 3; i++) {
        int32_t form = entry->forms[i].form;
        assert_true(entry->forms[i].seconds == (form == FORM_SLOW   ? fake.slow
                                                : form == FORM_FAST ? fake.fast
                                                                    : fake.lean));
    }
    assert_int_equal(
        ebb__cost_form(&room.table, &room.dev, &room.graph, cost_node(&room, 0), 0, 2, NULL),
        FORM_FAST);
    /* What is known is not measured again. */
    fake.runs = 0;
    assert_ok(room.ctx, ebb__cost_tune(&room.survey, &room.table, &limits, &tuned));
    assert_int_equal(fake.runs, 0);
    assert_int_equal(tuned.measured, 0);
    cost_room_fini(&room);
}

static void no_time_and_no_memory(void **state) {
    (void)state;
    cost_room room;
    cost_tuned tuned;
    cost_limits limits = {.seconds = 0, .bytes = 1 << 20};
    cost_room_init(&room, COST_GRAPH, 2);
    survey_all(&room);
    assert_ok(room.ctx, ebb__cost_tune(&room.survey, &room.table, &limits, &tuned));
    assert_int_equal(tuned.left, 3);
    assert_int_equal(fake.runs, 0);
    for (int i = 0; i < 3; i++) {
        const cost_entry *entry = ebb__cost_table_find(&room.table, &room.survey.samples[i].key);
        assert_non_null(entry);
        assert_int_equal(entry->n_forms, 0);
        assert_true(entry->estimate == room.survey.samples[i].model);
    }
    /* It counts as done, unless one insists. */
    assert_int_equal(ebb__cost_survey_missing(&room.survey, &room.table, false), 0);
    limits = (cost_limits){.seconds = 600, .bytes = 64, .again = true};
    assert_ok(room.ctx, ebb__cost_tune(&room.survey, &room.table, &limits, &tuned));
    assert_int_equal(tuned.left, 3);
    assert_int_equal(fake.runs, 0);
    limits.bytes = UINT64_MAX;
    assert_ok(room.ctx, ebb__cost_tune(&room.survey, &room.table, &limits, &tuned));
    assert_int_equal(tuned.measured, 3);
    assert_true(fake.runs > 0);
    cost_room_fini(&room);
}

static void what_is_left_is_estimated_alike(void **state) {
    (void)state;
    cost_room room;
    cost_tuned tuned;
    cost_limits limits = {.seconds = 0, .bytes = 1 << 20};
    cost_room_init(&room, COST_GRAPH, 2);
    survey_all(&room);
    const cost_sample *s = room.survey.samples;
    cost_entry *entry = cost_add(&room, 0, 2);
    entry->n_forms = 1;
    entry->forms[0] = (cost_form){FORM_FAST, 3 * s[0].model};
    assert_ok(room.ctx, ebb__cost_tune(&room.survey, &room.table, &limits, &tuned));
    const cost_entry *other = ebb__cost_table_find(&room.table, &s[1].key);
    assert_true(fabs(other->estimate - 3 * s[1].model) <= 1e-9 * other->estimate);
    other = ebb__cost_table_find(&room.table, &s[2].key); /* of another kernel */
    assert_true(other->estimate == s[2].model);
    cost_room_fini(&room);
}

/* A product of 16 GFLOP whose operands take 1.6 GB is measured with a few MiB. */
static void large_products_are_cut(void **state) {
    (void)state;
    cost_room room;
    cost_tuned tuned;
    cost_limits limits = {.seconds = 600, .bytes = 4 << 20};
    cost_room_init(&room,
                   "input %0 f32[40,200000] \"x\"\ninput %1 f32[1000,200000] \"w\"\n"
                   "%2:f32[40,1000] = matmul - %0 %1 {trans_b=1}\noutput %2 \"y\"\n",
                   2);
    survey_all(&room);
    uint64_t before = room.ctx->mem.peak_bytes;
    assert_ok(room.ctx, ebb__cost_tune(&room.survey, &room.table, &limits, &tuned));
    assert_int_equal(tuned.measured, 1);
    assert_true(fake.most_bytes <= limits.bytes);
    assert_true(room.ctx->mem.peak_bytes - before <= limits.bytes + (1 << 20));
    const cost_entry *entry = ebb__cost_table_find(&room.table, &room.survey.samples[0].key);
    assert_int_equal(entry->n_forms, 3);
    /* The time is that of the whole: much more than that of the piece which was run. */
    assert_true(entry->forms[0].seconds > 20 * fake.slow);
    assert_true(fabs(entry->forms[0].seconds / entry->forms[1].seconds - fake.slow / fake.fast) <
                1e-6);
    cost_room_fini(&room);
}

static void progress(void *user, int32_t done, int32_t total) {
    int32_t *last = user;
    assert_int_equal(done, *last + 1);
    assert_int_equal(total, 3);
    *last = done;
}

static void progress_is_told(void **state) {
    (void)state;
    cost_room room;
    cost_tuned tuned;
    int32_t last = 0;
    cost_limits limits = {.seconds = 600, .bytes = 1 << 20, .done = progress, .user = &last};
    cost_room_init(&room, COST_GRAPH, 1);
    survey_all(&room);
    assert_ok(room.ctx, ebb__cost_tune(&room.survey, &room.table, &limits, &tuned));
    assert_int_equal(last, 3);
    cost_room_fini(&room);
}

/* Every kernel of the real device in every form it offers, on cut and whole products, with all
 * members: nothing may be written out of place (guard pages, sanitizers). */
static void on_this_machine(void **state) {
    (void)state;
    ebb_ctx *ctx = test_ctx_new();
    word_lm m = test_lm_small(LM_LSTM, 3);
    m.hidden = m.embed = 40;
    m.vocab = 400;
    cost_survey survey;
    cost_table table;
    cost_tuned tuned;
    ir_graph graph;
    test_unit t;
    test_lm(ctx, &m, &graph);
    test_unit_init(&t, &graph);
    t.config.members = 3;
    test_pass(&t, &ebb__pass_grad);
    test_pass(&t, &ebb__pass_alias);
    test_pass(&t, &ebb__pass_select);
    ebb__cost_survey_init(&survey, ctx, t.unit.dev, 3);
    ebb__cost_table_init(&table, ctx, t.unit.dev);
    assert_ok(ctx, ebb__cost_survey_add(&survey, &t.unit.graph, t.unit.kernels));
    cost_limits limits = {.seconds = 600, .bytes = 256 << 10};
    assert_ok(ctx, ebb__cost_tune(&survey, &table, &limits, &tuned));
    assert_true(tuned.measured > 4);
    ebb__cost_table_fini(&table);
    ebb__cost_survey_fini(&survey);
    test_unit_fini(&t);
    ebb__ir_fini(&graph);
    test_ctx_free(ctx);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(nodes_that_share_a_time),
                                       cmocka_unit_test(many_entries),
                                       cmocka_unit_test(the_form_of_a_node),
                                       cmocka_unit_test(select_asks_the_table),
                                       cmocka_unit_test(products_are_counted),
                                       cmocka_unit_test(forms_are_timed),
                                       cmocka_unit_test(no_time_and_no_memory),
                                       cmocka_unit_test(what_is_left_is_estimated_alike),
                                       cmocka_unit_test(large_products_are_cut),
                                       cmocka_unit_test(progress_is_told),
                                       cmocka_unit_test(on_this_machine)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
