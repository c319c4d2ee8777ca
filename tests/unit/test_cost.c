/* test_cost.c - which nodes share a time, what the table answers, which form is taken from it, and
 * how tuning fills it: in which order, within which limits, with large products cut.
 *
 * Where the device is fake, so is the clock: forms take exactly what the test says, however busy
 * the machine is. */
#include "unit/cost_help.h"

#include <math.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

/* Stands for the C library's in this program, so also below ebb__clock_seconds. */
int clock_gettime(clockid_t id, struct timespec *now) {
    if (!fake.on) {
        return (int)syscall(SYS_clock_gettime, id, now);
    }
    double seconds = fake.now * (id == CLOCK_THREAD_CPUTIME_ID ? 1 - fake.away : 1);
    now->tv_sec = (time_t)seconds;
    now->tv_nsec = (long)(1e9 * (seconds - floor(seconds)));
    return 0;
}

static bool close_to(double a, double b) {
    return fabs(a - b) <= 1e-5 * b;
}

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
    /* Close to the fastest the kernel's own order decides. */
    entry->forms[0] = (cost_form){FORM_LEAN, 0.99e-3};
    assert_int_equal(FORM(&room.table), FORM_FAST);
    assert_true(seconds == 1e-3);
    entry->forms[0].seconds = 0.80e-3;
    assert_int_equal(FORM(&room.table), FORM_LEAN);
    assert_true(seconds == 0.80e-3);
    entry->forms[1].seconds = 0.81e-3;
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

static const cost_entry *entry_of(const cost_room *room, int32_t sample) {
    const cost_entry *entry = ebb__cost_table_find(&room->table, &room->survey.samples[sample].key);
    assert_non_null(entry);
    return entry;
}

/* The measured seconds of a form of a product. */
static double time_of(const cost_room *room, int32_t sample, int32_t form) {
    const cost_entry *entry = entry_of(room, sample);
    for (int32_t i = 0; i < entry->n_forms; i++) {
        if (entry->forms[i].form == form) {
            return entry->forms[i].seconds;
        }
    }
    fail();
    return 0;
}

/* The least mean, without what the first run of a form takes longer. */
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
    assert_true(close_to(tuned.seconds, fake.now));
    for (int32_t i = 0; i < 2; i++) {
        assert_int_equal(entry_of(&room, i)->n_forms, 3);
        assert_true(close_to(time_of(&room, i, FORM_SLOW), fake.slow));
        assert_true(close_to(time_of(&room, i, FORM_FAST), fake.fast));
        assert_true(close_to(time_of(&room, i, FORM_LEAN), fake.lean));
    }
    assert_int_equal(entry_of(&room, 2)->n_forms, 1);
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
        assert_int_equal(entry_of(&room, i)->n_forms, 0);
        assert_true(entry_of(&room, i)->estimate == room.survey.samples[i].model);
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

/* Time for one form of one product: that is kept, and the others are left. */
static void time_runs_out(void **state) {
    (void)state;
    cost_room room;
    cost_tuned tuned;
    cost_limits limits = {.seconds = 4e-3, .bytes = 1 << 20};
    cost_room_init(&room, COST_GRAPH, 2);
    survey_all(&room);
    assert_ok(room.ctx, ebb__cost_tune(&room.survey, &room.table, &limits, &tuned));
    assert_int_equal(tuned.measured, 1);
    assert_int_equal(tuned.left, 2);
    int forms = 0;
    for (int32_t i = 0; i < 3; i++) {
        const cost_entry *entry = entry_of(&room, i);
        forms += entry->n_forms;
        assert_true(entry->n_forms == 0 ? entry->estimate > 0
                                        : close_to(entry->forms[0].seconds, fake.slow));
    }
    assert_int_equal(forms, 1);
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
    assert_int_equal(entry_of(&room, 0)->n_forms, 3);
    /* The time is that of the whole: much more than that of the piece which was run. */
    double slow = time_of(&room, 0, FORM_SLOW);
    assert_true(slow > 20 * fake.slow);
    assert_true(close_to(slow / time_of(&room, 0, FORM_FAST), fake.slow / fake.fast));
    cost_room_fini(&room);
}

static uint64_t tuned_reach(const char *text, const cost_limits *limits) {
    cost_room room;
    cost_tuned tuned;
    cost_room_init(&room, text, 2);
    survey_all(&room);
    assert_ok(room.ctx, ebb__cost_tune(&room.survey, &room.table, limits, &tuned));
    assert_int_equal(tuned.left, 0);
    cost_room_fini(&room);
    return fake.high - fake.low;
}

/* Operands of 3 MB are others every time, as far as the buffer goes; those of a few KiB stay. */
static void large_operands_come_from_memory(void **state) {
    (void)state;
    cost_limits limits = {.seconds = 600, .bytes = 16 << 20};
    uint64_t large = tuned_reach("input %0 f32[40,1000] \"x\"\ninput %1 f32[1000,700] \"w\"\n"
                                 "%2:f32[40,700] = matmul - %0 %1\noutput %2 \"y\"\n",
                                 &limits);
    assert_true(large > limits.bytes / 2 && large <= limits.bytes);
    assert_true(tuned_reach(COST_GRAPH, &limits) <= 16 << 10);
}

/* ---- rounds ---- */

typedef struct told {
    int32_t last, total, calls;
} told;

static void progress(void *user, int32_t done, int32_t total) {
    told *p = user;
    assert_true(done == p->last + 1 || done == total);
    assert_true(p->total == 0 || p->total == total);
    *p = (told){done, total, p->calls + 1};
}

/* Tunes the three products of COST_GRAPH; how often each was timed. *most: how often at most. */
static int32_t rounds_of(cost_room *room, double (*load)(double now), int32_t *most) {
    cost_tuned tuned;
    told p = {0};
    cost_limits limits = {.seconds = 600, .bytes = 1 << 20, .done = progress, .user = &p};
    cost_room_init(room, COST_GRAPH, 1);
    fake.load = load;
    fake.cold = 0;
    survey_all(room);
    assert_ok(room->ctx, ebb__cost_tune(&room->survey, &room->table, &limits, &tuned));
    assert_int_equal(tuned.left, 0);
    assert_int_equal(p.last, p.total); /* whenever it ends */
    assert_int_equal(p.total % 3, 0);
    assert_int_equal((p.calls - 1) % 3, 0);
    *most = p.total / 3;
    return (p.calls - 1) / 3;
}

/* Times that stay as they are are confirmed, and then it ends. */
static void few_rounds_for_a_quiet_machine(void **state) {
    (void)state;
    cost_room room;
    int32_t most, rounds = rounds_of(&room, NULL, &most);
    assert_true(rounds >= 3 && rounds < most);
    cost_room_fini(&room);
}

/* Ever less loaded, so that every round finds lesser times. */
static double falling(double now) {
    return 100 / (1 + now);
}

static void more_rounds_while_they_help(void **state) {
    (void)state;
    cost_room room;
    int32_t most, rounds = rounds_of(&room, falling, &most);
    assert_int_equal(rounds, most);
    cost_room_fini(&room);
}

/* The first round takes 3.8 seconds and is ten times as slow as what comes later. */
static double at_first(double now) {
    return now < 4 ? 10 : 1;
}

static void a_slow_moment_does_not_stick(void **state) {
    (void)state;
    cost_room room;
    int32_t most;
    (void)rounds_of(&room, at_first, &most);
    for (int32_t i = 0; i < 2; i++) {
        assert_true(close_to(time_of(&room, i, FORM_FAST), fake.fast));
    }
    /* The kernel's own first form was far behind, and is timed again before it is passed over. */
    assert_true(close_to(time_of(&room, 0, FORM_SLOW), fake.slow));
    cost_room_fini(&room);
}

/* Other work comes and goes, twentieth of a second by twentieth, so that runs are short or long. */
static double in_turns(double now) {
    uint32_t turn = (uint32_t)(20 * now);
    return (turn * 2654435761U >> 24 & 1) != 0 ? 4.5 : 1.5;
}

static void tune_under(cost_room *room, double (*load)(double now)) {
    cost_limits limits = {.seconds = 600, .bytes = 64 << 20};
    cost_tuned tuned;
    fake.load = load;
    assert_ok(room->ctx, ebb__cost_tune(&room->survey, &room->table, &limits, &tuned));
}

/* Times from a busy machine are used, but measured again by the next runs, until one has the
 * machine to itself; three times at most. */
static void a_busy_machine_is_measured_again(void **state) {
    (void)state;
    cost_room room;
    cost_room_init(&room, COST_GRAPH, 2);
    assert_ok(room.ctx, ebb__cost_survey_add(&room.survey, &room.graph, room.kernels));
    int32_t all = ebb__cost_survey_missing(&room.survey, &room.table, false);
    tune_under(&room, in_turns);
    assert_true(time_of(&room, 0, FORM_FAST) > 1.4 * fake.fast);
    assert_int_equal(ebb__cost_survey_missing(&room.survey, &room.table, false), all);
    tune_under(&room, NULL);
    assert_true(close_to(time_of(&room, 0, FORM_FAST), fake.fast));
    assert_int_equal(ebb__cost_survey_missing(&room.survey, &room.table, false), 0);

    ebb__cost_table_fini(&room.table);
    for (int i = 0; i < COST_MOST_LOADED; i++) {
        assert_int_equal(ebb__cost_survey_missing(&room.survey, &room.table, false), all);
        tune_under(&room, in_turns);
    }
    assert_int_equal(ebb__cost_survey_missing(&room.survey, &room.table, false), 0);
    int runs = fake.runs;
    tune_under(&room, NULL);
    assert_int_equal(fake.runs, runs);
    cost_room_fini(&room);
}

/* All runs are slow alike, since others have the core in between. */
static void a_core_that_others_have_is_busy(void **state) {
    (void)state;
    cost_room room;
    cost_room_init(&room, COST_GRAPH, 2);
    assert_ok(room.ctx, ebb__cost_survey_add(&room.survey, &room.graph, room.kernels));
    int32_t all = ebb__cost_survey_missing(&room.survey, &room.table, false);
    fake.away = 0.5;
    tune_under(&room, NULL);
    assert_int_equal(ebb__cost_survey_missing(&room.survey, &room.table, false), all);
    fake.away = 0.05;
    tune_under(&room, NULL);
    assert_int_equal(ebb__cost_survey_missing(&room.survey, &room.table, false), 0);
    cost_room_fini(&room);
}

/* The pace is that of the model's own products, not of a few that it shares with another. */
static void few_products_set_no_pace(void **state) {
    (void)state;
    cost_room room;
    cost_room_init(&room,
                   "input %0 f32[1000,1000] \"x\"\ninput %1 f32[1000,1000] \"w\"\n"
                   "input %2 f32[1000,10] \"v\"\n%3:f32[1000,1000] = matmul - %0 %1\n"
                   "%4:f32[1000,10] = matmul - %3 %2\noutput %4 \"y\"\n",
                   2);
    survey_all(&room);
    for (int nth = 1; nth >= 0; nth--) { /* the small one, then the large one too */
        cost_entry *entry = cost_add(&room, nth, 2);
        entry->n_forms = 1;
        entry->forms[0] = (cost_form){FORM_SLOW, 3 * room.survey.samples[nth].model};
        assert_ok(room.ctx, ebb__cost_survey_pace(&room.survey, &room.table));
        assert_true(close_to(room.table.pace, nth == 1 ? 1 : 3));
    }
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
                                       cmocka_unit_test(time_runs_out),
                                       cmocka_unit_test(what_is_left_is_estimated_alike),
                                       cmocka_unit_test(large_products_are_cut),
                                       cmocka_unit_test(large_operands_come_from_memory),
                                       cmocka_unit_test(few_rounds_for_a_quiet_machine),
                                       cmocka_unit_test(more_rounds_while_they_help),
                                       cmocka_unit_test(a_slow_moment_does_not_stick),
                                       cmocka_unit_test(a_busy_machine_is_measured_again),
                                       cmocka_unit_test(a_core_that_others_have_is_busy),
                                       cmocka_unit_test(few_products_set_no_pace),
                                       cmocka_unit_test(on_this_machine)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
