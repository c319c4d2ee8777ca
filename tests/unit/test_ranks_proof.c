/* test_ranks_proof.c - the proof that ranks' messages fit together (plan/ranks.h): lists of real
 * plans pass, and everything that can be wrong with one is named. */
#include "plan/plan.h"
#include "support/graphs.h"
#include "unit/api_help.h"

enum { MOST_RANKS = 8, MOST_MESSAGES = 16 };

/* Lists by hand: `text` is one word a message node, "s1.5" sends message 5 to rank 1, "S5" waits
 * for that; "r1.5" receives it from rank 1, "G5" waits. The value has the tag's number. */
typedef struct small_lists {
    plan_message at[MOST_RANKS][MOST_MESSAGES];
    plan_messages lists[MOST_RANKS];
    int32_t ranks;
} small_lists;

static int32_t find_start(const plan_messages *list, int32_t kind, int32_t tag) {
    int32_t i = list->n - 1;
    while (i >= 0 && (list->at[i].kind != kind || list->at[i].tag != tag)) {
        i--;
    }
    return i;
}

static void add_rank(small_lists *s, const char *text) {
    plan_messages *list = &s->lists[s->ranks];
    list->at = s->at[s->ranks];
    for (int used = 0; sscanf(text, " %*s%n", &used) != EOF && used > 0; text += used, used = 0) {
        plan_message m = {.dtype = IR_F32, .start = -1, .bytes = 64};
        char kind = 0;
        int peer = -1, tag = 0;
        if (sscanf(text, " %c%d.%d", &kind, &peer, &tag) < 3) {
            tag = peer;
        }
        m.kind = kind == 's'   ? MESSAGE_SEND
                 : kind == 'S' ? MESSAGE_SENT
                 : kind == 'r' ? MESSAGE_RECV
                               : MESSAGE_GOT;
        if (kind == 'S' || kind == 'G') {
            m.start = find_start(list, kind == 'S' ? MESSAGE_SEND : MESSAGE_RECV, tag);
            peer = m.start < 0 ? -1 : list->at[m.start].peer;
        }
        m.peer = peer;
        m.tag = m.value = tag;
        (void)snprintf(m.label, sizeof m.label, "layer%d", tag);
        list->at[list->n++] = m;
    }
    s->ranks++;
}

static small_lists *new_lists(const char *const *texts) {
    small_lists *s = calloc(1, sizeof *s);
    for (; *texts != NULL; texts++) {
        add_rank(s, *texts);
    }
    return s;
}
#define LISTS(...) new_lists((const char *const[]){__VA_ARGS__, NULL})

static void expect(ebb_ctx *ctx, small_lists *s, const char *part) {
    ebb_status status = ebb__plan_prove_messages(ctx, "train", s->lists, s->ranks);
    if (part == NULL) {
        assert_ok(ctx, status);
    } else {
        assert_refused(ctx, status, EBB_INTERNAL, part);
    }
    free(s);
}

/* ---- lists by hand ---- */

static void good_lists_pass(void **state) {
    ebb_ctx *ctx = *state;
    expect(ctx, LISTS("", ""), NULL);
    expect(ctx, LISTS("s1.0 S0", "r0.0 G0"), NULL);
    expect(ctx, LISTS("s1.0 r1.1 S0 G1", "r0.0 s0.1 G0 S1"), NULL);
    expect(ctx, LISTS("s1.0 s1.1 S1 S0", "r0.1 r0.0 G0 G1"), NULL);
    /* Round in a circle, where everybody receives before it waits. */
    expect(ctx, LISTS("s1.0 r2.2 S0 G2", "r0.0 s2.1 G0 S1", "r1.1 s0.2 S2 G1"), NULL);
    /* The other rank has to come there: messages in turn, each after the one before. */
    expect(ctx, LISTS("s1.0 S0 r1.1 G1", "r0.0 G0 s0.1 S1"), NULL);
    /* A tag is the pair's own. */
    small_lists *s = LISTS("s1.0 s2.0 S0 S0", "r0.0 G0", "r0.0 G0");
    s->at[0][2].start = 0;
    expect(ctx, s, NULL);
}

static void missing_messages_are_named(void **state) {
    ebb_ctx *ctx = *state;
    expect(ctx, LISTS("s1.0 s1.1 S0 S1", "r0.0 G0"),
           "in program train rank 0 sends message 1 (layer1) to rank 1, which never receives it");
    expect(ctx, LISTS("s1.1 S1", "r0.0 r0.1 G0 G1"),
           "rank 1 receives message 0 (layer0) from rank 0, which never sends it");
    expect(ctx, LISTS("s2.0 S0", "r0.0 G0", ""),
           "rank 1 receives message 0 (layer0) from rank 0, which never sends it");
    expect(ctx, LISTS("s7.0 S0", ""),
           "rank 0 sends message 0 (layer0) to rank 7, which never receives it");
}

static void double_messages_are_named(void **state) {
    ebb_ctx *ctx = *state;
    small_lists *s = LISTS("s1.0 s1.1 S0 S1", "r0.0 G0");
    s->at[0][1].tag = 0;
    expect(ctx, s, "message 0 from rank 0 to rank 1 is sent twice (layer0, layer1)");
    s = LISTS("s1.0 S0", "r0.0 r0.1 G0 G1");
    s->at[1][1].tag = 0;
    expect(ctx, s, "message 0 from rank 0 to rank 1 is received twice (layer0, layer1)");
}

static void other_bytes_are_named(void **state) {
    ebb_ctx *ctx = *state;
    small_lists *s = LISTS("s1.0 S0", "r0.0 G0");
    s->at[1][0].bytes = 60;
    expect(ctx, s,
           "message 0 from rank 0 to rank 1 is sent as 64 bytes of f32, value 0 (layer0), and "
           "received as 60 bytes of f32, value 0 (layer0)");
    s = LISTS("s1.0 S0", "r0.0 G0");
    s->at[0][0].dtype = IR_I32;
    expect(ctx, s, "is sent as 64 bytes of i32, value 0 (layer0), and received as 64 bytes of f32");
    s = LISTS("s1.0 s1.1 S0 S1", "r0.0 r0.1 G0 G1"); /* two that are swapped */
    s->at[0][0].value = 1;
    s->at[0][1].value = 0;
    expect(ctx, s, "message 0 from rank 0 to rank 1 is sent as 64 bytes of f32, value 1 (layer0)");
}

static void wrong_waits_are_named(void **state) {
    ebb_ctx *ctx = *state;
    small_lists *s = LISTS("s1.0 S0", "r0.0 G0 r0.1");
    s->at[1][1].start = 2;
    expect(ctx, s, "rank 1 waits for message 0 (layer0) before it has started it");
    expect(ctx, LISTS("S0 s1.0", "r0.0 G0"),
           "rank 0 waits for message 0 (layer0) before it has started it");
    s = LISTS("s1.0 S0", "r0.0 G0");
    s->at[1][1].kind = MESSAGE_SENT;
    expect(ctx, s, "rank 1 waits for message 0 (layer0) before it has started it");
    expect(ctx, LISTS("s1.0 S0", "r0.0"),
           "rank 1 starts message 0 (layer0) and never waits for it");
    expect(ctx, LISTS("s1.0", "r0.0 G0"),
           "rank 0 starts message 0 (layer0) and never waits for it");
    expect(ctx, LISTS("s1.0 S0", "r0.0 G0 G0"), "rank 1 waits for message 0 (layer0) twice");
}

static void circles_are_named(void **state) {
    ebb_ctx *ctx = *state;
    /* Both wait for what the other sends only then. */
    expect(ctx, LISTS("r1.1 G1 s1.0 S0", "r0.0 G0 s0.1 S1"),
           "ranks wait for each other: rank 0 waits for rank 1 to send message 1 (layer1), rank 1 "
           "waits for rank 0 to send message 0 (layer0)");
    /* A send is done only when there is room for it. */
    expect(ctx, LISTS("s1.0 S0 r1.1 G1", "s0.1 S1 r0.0 G0"),
           "rank 0 waits for rank 1 to receive message 0 (layer0), rank 1 waits for rank 0 to "
           "receive message 1 (layer1)");
    /* Two messages, taken in the order in which they are not sent. */
    expect(ctx, LISTS("s1.0 S0 s1.1 S1", "r0.1 G1 r0.0 G0"),
           "rank 0 waits for rank 1 to receive message 0 (layer0), rank 1 waits for rank 0 to send "
           "message 1 (layer1)");
    /* Three of five; the others wait for one of them, or are through. */
    expect(ctx,
           LISTS("r3.3 G3 s1.0 S0", "r0.0 G0 s3.1 S1 s2.4 S4", "r1.4 G4", "r1.1 G1 s0.3 S3", ""),
           "rank 0 waits for rank 3 to send message 3 (layer3), rank 3 waits for rank 1 to send "
           "message 1 (layer1), rank 1 waits for rank 0 to send message 0 (layer0)");
}

/* Eight ranks and long labels: the sentence ends, and says that there is more. */
static void long_circles_are_cut(void **state) {
    small_lists *s = calloc(1, sizeof *s);
    for (int32_t rank = 0; rank < MOST_RANKS; rank++) {
        char text[64];
        (void)snprintf(text, sizeof text, "r%d.%d G%d s%d.%d S%d", (rank + 1) % MOST_RANKS,
                       rank + 1, rank + 1, (rank + MOST_RANKS - 1) % MOST_RANKS,
                       rank > 0 ? rank : MOST_RANKS, rank > 0 ? rank : MOST_RANKS);
        add_rank(s, text);
        for (int32_t i = 0; i < s->lists[rank].n; i++) {
            memset(s->at[rank][i].label, 'x', PLAN_MESSAGE_LABEL - 1);
        }
    }
    expect(*state, s, "xxx), and so on");
}

/* ---- real plans ---- */

typedef struct real_plans {
    ir_graph graph;
    ebb_plan *plans[MOST_RANKS];
    plan_messages lists[MOST_RANKS]; /* of the plans' own */
    int32_t ranks;
} real_plans;

typedef struct real_setup {
    lm_cell cell;
    int32_t ranks, stages, shards;
    pass_reduce reduce;
    grad_optimizer optimizer;
} real_setup;

static ebb_plan *make_plan(ebb_ctx *ctx, const real_plans *p, const real_setup *setup, int32_t rank,
                           uint64_t budget) {
    ebb_plan *plan = NULL;
    plan_request request = {
        .name = "train", .graph = &p->graph, .training = true, .shards = setup->shards};
    plan_options options = {
        .members = 1,
        .budget = budget,
        .update =
            {.optimizer = setup->optimizer, .beta1 = 0.9F, .beta2 = 0.99F, .eps = 1e-6F, .clip = 1},
        .ranks = {
            .rank = rank, .count = setup->ranks, .stages = setup->stages, .reduce = setup->reduce}};
    assert_ok(ctx, ebb__plan_make(ctx, &request, 1, NULL, 0, &options, &plan));
    return plan;
}

/* Every second rank has the least plan, the others the fastest. */
static void open_plans(ebb_ctx *ctx, const real_setup *setup, real_plans *p) {
    *p = (real_plans){.ranks = setup->ranks};
    word_lm m = test_lm_small(setup->cell, 6);
    m.batch = 8;
    m.vocab = 700; /* from here on there is something to save */
    test_lm(ctx, &m, &p->graph);
    for (int32_t rank = 0; rank < p->ranks; rank++) {
        ebb_plan *plan = make_plan(ctx, p, setup, rank, UINT64_MAX);
        if (rank % 2 != 0) {
            uint64_t least = plan->least_bytes;
            ebb__plan_free(plan);
            plan = make_plan(ctx, p, setup, rank, least);
        }
        p->plans[rank] = plan;
        p->lists[rank] = plan->programs[0].messages;
        assert_true(p->lists[rank].n > 0);
    }
}

static void close_plans(real_plans *p) {
    for (int32_t rank = 0; rank < p->ranks; rank++) {
        ebb__plan_free(p->plans[rank]);
    }
    ebb__ir_fini(&p->graph);
}

static void real_plans_pass(void **state) {
    static const real_setup all[] = {{LM_LSTM, 2, 1, 2, REDUCE_SLICES, UPDATE_SGD},
                                     {LM_LSTM, 2, 2, 1, REDUCE_SLICES, UPDATE_ADAM},
                                     {LM_GRU, 3, 1, 4, REDUCE_COPIES, UPDATE_ADAM},
                                     {LM_LSTM, 4, 2, 8, REDUCE_CENTRAL, UPDATE_SGD},
                                     {LM_RNN, 4, 4, 2, REDUCE_SLICES, UPDATE_ADAM},
                                     {LM_LSTM, 5, 1, 8, REDUCE_SLICES, UPDATE_SGD},
                                     {LM_LSTM, 6, 2, 4, REDUCE_COPIES, UPDATE_SGD},
                                     {LM_GRU, 8, 1, 8, REDUCE_SLICES, UPDATE_ADAM},
                                     {LM_LSTM, 8, 4, 2, REDUCE_CENTRAL, UPDATE_ADAM}};
    ebb_ctx *ctx = *state;
    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++) {
        real_plans p;
        open_plans(ctx, &all[i], &p);
        assert_ok(ctx, ebb__plan_prove_messages(ctx, "train", p.lists, p.ranks));
        close_plans(&p);
    }
}

/* Takes the start and what waits for it out; what is behind moves up. */
static void take_out(plan_messages *list, int32_t start, plan_message pair[2]) {
    int32_t wait = start + 1, n = 0;
    while (list->at[wait].start != start) {
        wait++;
    }
    pair[0] = list->at[start];
    pair[1] = list->at[wait];
    for (int32_t i = 0; i < list->n; i++) {
        if (i != start && i != wait) {
            plan_message m = list->at[i];
            m.start -= (m.start > start) + (m.start > wait);
            list->at[n++] = m;
        }
    }
    list->n = n;
}

static plan_messages copy_list(const plan_messages *list) {
    plan_messages copy = {malloc((size_t)list->n * sizeof *copy.at), list->n};
    memcpy(copy.at, list->at, (size_t)list->n * sizeof *copy.at);
    return copy;
}

/* One rank has another list; every single message of it may be the wrong one. */
static void refuse_changed(ebb_ctx *ctx, real_plans *p, int32_t rank, int32_t at, int how) {
    static const char *const parts[] = {"bytes of", "bytes of", "bytes of", "which never",
                                        "never waits for it"};
    plan_messages whole = p->lists[rank], changed = copy_list(&whole);
    plan_message *m = &changed.at[at], pair[2];
    if (how == 0) {
        m->bytes += 4;
    } else if (how == 1) {
        m->dtype = m->dtype == IR_F32 ? IR_I32 : IR_F32;
    } else if (how == 2) {
        m->value++;
    } else if (how == 3) {
        take_out(&changed, at, pair);
    } else {
        take_out(&changed, at, pair);
        pair[0].start = -1;
        changed.at[changed.n++] = pair[0];
    }
    p->lists[rank] = changed;
    assert_refused(ctx, ebb__plan_prove_messages(ctx, "train", p->lists, p->ranks), EBB_INTERNAL,
                   parts[how]);
    p->lists[rank] = whole;
    free(changed.at);
}

static void changed_plans_are_refused(void **state) {
    static const real_setup setup = {LM_LSTM, 4, 2, 2, REDUCE_SLICES, UPDATE_ADAM};
    ebb_ctx *ctx = *state;
    real_plans p;
    open_plans(ctx, &setup, &p);
    for (int32_t rank = 0; rank < p.ranks; rank++) {
        for (int32_t at = 0; at < p.lists[rank].n; at++) {
            bool start = p.lists[rank].at[at].start < 0;
            for (int how = 0; start && how < 5; how++) {
                refuse_changed(ctx, &p, rank, at, how);
            }
        }
    }
    close_plans(&p);
}

/* The first stage hands on what it made only when it has the gradient of that. */
static void late_messages_are_refused(void **state) {
    static const real_setup setup = {LM_LSTM, 2, 2, 1, REDUCE_SLICES, UPDATE_SGD};
    ebb_ctx *ctx = *state;
    real_plans p;
    plan_message pair[2];
    open_plans(ctx, &setup, &p);
    plan_messages whole = p.lists[0], changed = copy_list(&whole);
    assert_int_equal(whole.at[0].kind, MESSAGE_SEND);
    take_out(&changed, 0, pair);
    pair[1].start = changed.n;
    changed.at[changed.n++] = pair[0];
    changed.at[changed.n++] = pair[1];
    p.lists[0] = changed;
    assert_refused(ctx, ebb__plan_prove_messages(ctx, "train", p.lists, p.ranks), EBB_INTERNAL,
                   "ranks wait for each other: rank 0 waits for rank 1 to");
    free(changed.at);
    close_plans(&p);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(good_lists_pass, set_up, tear_down),
        cmocka_unit_test_setup_teardown(missing_messages_are_named, set_up, tear_down),
        cmocka_unit_test_setup_teardown(double_messages_are_named, set_up, tear_down),
        cmocka_unit_test_setup_teardown(other_bytes_are_named, set_up, tear_down),
        cmocka_unit_test_setup_teardown(wrong_waits_are_named, set_up, tear_down),
        cmocka_unit_test_setup_teardown(circles_are_named, set_up, tear_down),
        cmocka_unit_test_setup_teardown(long_circles_are_cut, set_up, tear_down),
        cmocka_unit_test_setup_teardown(real_plans_pass, set_up, tear_down),
        cmocka_unit_test_setup_teardown(changed_plans_are_refused, set_up, tear_down),
        cmocka_unit_test_setup_teardown(late_messages_are_refused, set_up, tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
