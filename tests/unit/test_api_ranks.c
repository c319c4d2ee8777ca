/* test_api_ranks.c - ebb.h on several processes, which are threads here: the bits of one, nothing
 * allocated by a step, and what only the leader, or only a follower, may call. */
#include "comm_help.h"

#include "api/api.h"

enum { ROWS = 8, IN = 5, UNITS = 6, OUT = 4, STEPS = 3, TICKETS = 256 };

/* Two layers; parameters before them. */
static ebb_graph *new_net(help_rank *me, double dropout) {
    ebb_graph *g = NULL;
    CHECK_OK(me, ebb_graph_new(me->ctx, &g));
    ebb_value w1 = ebb_param(g, "w1", EBB_DIMS(UNITS, IN));
    ebb_value w2 = ebb_param(g, "w2", EBB_DIMS(OUT, UNITS)), b2 = ebb_param(g, "b2", EBB_DIMS(OUT));
    ebb_value x = ebb_input_f32(g, "x", EBB_DIMS(ROWS, IN));
    ebb_value y = ebb_input_i32(g, "y", EBB_DIMS(ROWS));
    ebb_layer(g, "low");
    ebb_value h = ebb_dropout(g, ebb_tanh(g, ebb_linear(g, x, w1, EBB_NO_VALUE)), dropout, "low");
    ebb_layer(g, "high");
    ebb_value logits = ebb_linear(g, h, w2, b2);
    ebb_output(g, "logits", logits);
    ebb_loss(g, ebb_cross_entropy(g, logits, y));
    return g;
}

static ebb_options options_of(int64_t shards, int32_t stages, ebb_ranks *ranks) {
    ebb_options o = ebb_options_default();
    o.threads = 1;
    o.memory = 64 << 20;
    o.optimizer = EBB_ADAM;
    o.clip = 0.1;
    o.shards = shards;
    o.stages = stages;
    o.ranks = ranks;
    return o;
}

typedef struct net_values {
    float w1[UNITS * IN], w2[OUT * UNITS], logits[ROWS * OUT];
    double loss, norm;
} net_values;

static void train(help_rank *me, ebb_program *p, net_values *out) {
    float x[ROWS * IN];
    int32_t y[ROWS];
    uint64_t calls = 0;
    CHECK_OK(me, ebb_program_init(p, 5));
    for (int step = 0; step < STEPS; step++) {
        for (int i = 0; i < ROWS * IN; i++) {
            x[i] = (float)((i * 7 + step) % 11) / 5 - 1;
        }
        for (int i = 0; i < ROWS; i++) {
            y[i] = (i + step) % OUT;
        }
        CHECK_OK(me, ebb_program_set(p, "x", x, sizeof x));
        CHECK_OK(me, ebb_program_set(p, "y", y, sizeof y));
        CHECK_OK(me, ebb_program_run(p, 0.1));
        CHECK(me, step == 0 || me->ctx->mem.calls == calls);
        calls = me->ctx->mem.calls;
    }
    CHECK_OK(me, ebb_program_get(p, "logits", out->logits, sizeof out->logits));
    CHECK_OK(me, ebb_program_get(p, "w1", out->w1, sizeof out->w1));
    CHECK_OK(me, ebb_program_get(p, "w2", out->w2, sizeof out->w2));
    CHECK_OK(me, ebb_program_set(p, "w2", out->w2, sizeof out->w2));
    CHECK(me, me->ctx->mem.calls == calls);
    out->loss = ebb_program_loss(p);
    out->norm = ebb_program_grad_norm(p);
}

/* Set before the ranks begin. */
static struct {
    int64_t shards;
    int32_t stages, reduce;
    net_values alone;
} way;

static ebb_ranks *ranks_of(help_rank *me) {
    ebb_ranks *ranks = NULL;
    CHECK_OK(me, ebb__api_ranks_of(me->ctx, me->link, LIMIT, &ranks));
    me->link = NULL; /* it is theirs */
    CHECK(me, ebb_ranks_count(ranks) == me->ranks && ebb_ranks_number(ranks) == me->rank);
    return ranks;
}

static void bytes_are_planned(help_rank *me, ebb_program *p) {
    ebb_plan_info info;
    CHECK_OK(me, ebb_program_plan(p, &info));
    CHECK(me, info.peak_bytes == ebb_program_measured(p));
    CHECK(me, info.reduce == way.reduce || (way.reduce == EBB_REDUCE_AUTO && info.reduce <= 1));
}

static void share_net(help_rank *me) {
    ebb_ranks *ranks = ranks_of(me);
    ebb_options options = options_of(way.shards, way.stages, ranks);
    ebb_graph *g = new_net(me, 0.2);
    ebb_program *p = NULL;
    options.reduce = way.reduce;
    CHECK_OK(me, ebb_compile(g, &options, &p));
    ebb_graph_free(g);
    if (p != NULL && me->rank > 0) {
        CHECK_OK(me, ebb_program_follow(p));
        bytes_are_planned(me, p);
    } else if (p != NULL) {
        net_values got;
        train(me, p, &got);
        CHECK(me, memcmp(&got, &way.alone, sizeof got) == 0);
        bytes_are_planned(me, p);
    }
    ebb_program_free(p);
    ebb_ranks_close(ranks);
}

static void train_alone(help_rank *me) {
    ebb_options options = options_of(way.shards, 0, NULL);
    ebb_graph *g = new_net(me, 0.2);
    ebb_program *p = NULL;
    CHECK_OK(me, ebb_compile(g, &options, &p));
    ebb_graph_free(g);
    if (p != NULL) {
        train(me, p, &way.alone);
    }
    ebb_program_free(p);
}

static void bits_are_those_of_one(void **state) {
    static const struct {
        int ranks, stages;
        int64_t shards;
        ebb_reduce reduce;
    } ways[] = {{2, 0, 2, EBB_REDUCE_SLICES}, {2, 2, 1, EBB_REDUCE_AUTO},
                {4, 2, 2, EBB_REDUCE_AUTO},   {2, 2, 4, EBB_REDUCE_SLICES},
                {4, 1, 4, EBB_REDUCE_COPIES}, {2, 1, 2, EBB_REDUCE_AUTO}};
    (void)state;
    for (size_t i = 0; i < sizeof ways / sizeof ways[0]; i++) {
        memset(&way, 0, sizeof way);
        way.shards = ways[i].shards;
        way.stages = ways[i].stages;
        way.reduce = (int32_t)ways[i].reduce;
        help_run(1, TICKETS, train_alone);
        help_run(ways[i].ranks, TICKETS, share_net);
    }
}

/* What one may call and another may not; nothing of it disturbs the others. */
static void call_wrongly(help_rank *me) {
    ebb_ranks *ranks = ranks_of(me);
    ebb_options options = options_of(1, 2, ranks);
    ebb_graph *g = new_net(me, 0);
    ebb_program *p = NULL, *again = NULL;
    void *data;
    float w[OUT * UNITS] = {0};
    CHECK_OK(me, ebb_compile(g, &options, &p));
    CHECK_ERROR(me, ebb_compile(g, &options, &again), EBB_USAGE, "ranks have programs already");
    if (me->rank == 0) {
        CHECK_ERROR(me, ebb_program_follow(p), EBB_USAGE, "this process leads");
        CHECK_ERROR(me, ebb_program_data(p, "w2", &data, NULL), EBB_USAGE,
                    "w2: several processes keep it");
        CHECK_OK(me, ebb_program_data(p, "x", &data, NULL));
        CHECK_ERROR(me, ebb_program_set(p, "w2", w, 4), EBB_USAGE, "it has 96 bytes, not 4");
        CHECK_ERROR(me, ebb_program_set(p, "logits", w, sizeof w), EBB_USAGE, "cannot be set");
        CHECK_ERROR(me, ebb_program_run(p, -1), EBB_USAGE, "learning rate");
        CHECK_OK(me, ebb_program_init(p, 1));
        CHECK_OK(me, ebb_program_run(p, 0.1));
    } else {
        CHECK_ERROR(me, ebb_program_set(p, "w2", w, sizeof w), EBB_USAGE,
                    "process 1 does what the first one says");
        CHECK_ERROR(me, ebb_program_run(p, 0.1), EBB_USAGE, "ebb_program_follow()");
        CHECK_OK(me, ebb_program_follow(p));
        CHECK_ERROR(me, ebb_program_follow(p), EBB_USAGE, "has freed its programs");
    }
    ebb_program_free(p);
    p = NULL;
    CHECK_OK(me, ebb_compile(g, &options, &p)); /* and once more, when the first is gone */
    if (me->rank > 0) {
        CHECK_OK(me, ebb_program_follow(p));
    }
    ebb_program_free(p);
    ebb_graph_free(g);
    ebb_ranks_close(ranks);
}

static void wrong_calls_are_refused(void **state) {
    (void)state;
    help_run(2, TICKETS, call_wrongly);
}

static void compile_apart(help_rank *me) {
    ebb_ranks *ranks = ranks_of(me);
    ebb_options options = options_of(2, 1, ranks);
    ebb_graph *g = new_net(me, me->rank == 1 ? 0.5 : 0.25), *loose = NULL;
    ebb_program *p = NULL;
    CHECK_ERROR(me, ebb_compile(g, &options, &p), EBB_USAGE, "process 1 has another version");
    ebb_graph_free(g);
    g = new_net(me, 0);
    options.clip = me->rank == 0 ? 1 : 2;
    CHECK_ERROR(me, ebb_compile(g, &options, &p), EBB_USAGE, "process 1 has another version");
    options.clip = me->rank == 1 ? -1 : 1; /* a mistake of one is everybody's */
    CHECK_ERROR(me, ebb_compile(g, &options, &p), EBB_USAGE, "clip -1 is not in");
    options.clip = 1;
    options.memory = me->rank == 1 ? 1000 : 64 << 20;
    CHECK_ERROR(me, ebb_compile(g, &options, &p), EBB_BUDGET, "the least that works is");
    options.memory = 64 << 20;
    /* A graph that is only computed, by the leader of two groups: none of its own to carry. */
    CHECK_OK(me, ebb_graph_new(me->ctx, &loose));
    ebb_value s = ebb_state(loose, "s", EBB_DIMS(2, 2));
    ebb_carry(loose, s, ebb_tanh(loose, s));
    const ebb_graph *both[] = {g, loose};
    ebb_program *two[2];
    CHECK_ERROR(me, ebb_compile_all(both, 2, 1, &options, two), EBB_USAGE,
                "s: where several groups");
    options.optimizer = EBB_FORWARD;
    CHECK_ERROR(me, ebb_compile_all(both, 1, 0, &options, two), EBB_USAGE, "nothing is");
    ebb_graph_free(loose);
    ebb_graph_free(g);
    ebb_ranks_close(ranks);
}

static void all_compile_the_same(void **state) {
    (void)state;
    help_run(2, TICKETS, compile_apart);
}

/* One that ends before it follows is lost for the one that waits for it. */
static void leave_early(help_rank *me) {
    ebb_ranks *ranks = ranks_of(me);
    ebb_options options = options_of(1, 2, ranks);
    ebb_graph *g = new_net(me, 0);
    ebb_program *p = NULL;
    if (me->rank > 0) {
        CHECK_OK(me, ebb_compile(g, &options, &p));
    } else {
        CHECK_ERROR(me, ebb_compile(g, &options, &p), EBB_LOST, "rank 1");
    }
    ebb_graph_free(g);
    ebb_program_free(p);
    ebb_ranks_close(ranks);
}

static void who_leaves_early_is_lost(void **state) {
    (void)state;
    help_run(2, TICKETS, leave_early);
}

/* Without mpirun there is one process, and nothing else changes. */
static void one_process_is_alone(void **state) {
    static help_rank one, *me = &one;
    ebb_ranks_options o = ebb_ranks_options_default();
    ebb_ranks *ranks = NULL;
    (void)state;
    assert_int_equal(ebb_ctx_new(&one.ctx), EBB_OK);
    CHECK_OK(me, ebb_ranks_open(one.ctx, NULL, NULL, &ranks));
    CHECK(me, ebb_ranks_count(ranks) == 1 && ebb_ranks_number(ranks) == 0);
    CHECK(me, ebb_ranks_count(NULL) == 1 && ebb_ranks_number(NULL) == 0);
    ebb_options options = options_of(0, 0, ranks);
    ebb_graph *g = new_net(me, 0);
    ebb_program *p = NULL;
    CHECK_OK(me, ebb_compile(g, &options, &p));
    CHECK_ERROR(me, ebb_program_follow(p), EBB_USAGE, "this process leads");
    ebb_program_free(p);
    options.stages = 2;
    CHECK_ERROR(me, ebb_compile(g, &options, &p), EBB_USAGE,
                "stages 2 do not divide the number of processes, 1");
    options = options_of(0, 0, ranks);
    options.reduce = EBB_REDUCE_AUTO; /* nothing to choose */
    CHECK_OK(me, ebb_compile(g, &options, &p));
    ebb_program_free(p);
    options.reduce = EBB_REDUCE_AUTO + 1;
    CHECK_ERROR(me, ebb_compile(g, &options, &p), EBB_USAGE, "no reduce 4");
    ebb_graph_free(g);
    ebb_ranks_close(ranks);
    ebb_ranks_close(NULL);
    o.version = 9;
    CHECK_ERROR(me, ebb_ranks_open(one.ctx, NULL, &o, &ranks), EBB_USAGE, "options_default");
    o = ebb_ranks_options_default();
    o.lost_after = 0;
    CHECK_ERROR(me, ebb_ranks_open(one.ctx, NULL, &o, &ranks), EBB_USAGE, "lost_after 0");
    CHECK(me, ebb_ranks_open(NULL, NULL, NULL, &ranks) == EBB_USAGE);
    CHECK(me, ebb_program_follow(NULL) == EBB_USAGE);
    if (one.wrong != 0) {
        fail_msg("line %d: %s", one.wrong, one.why);
    }
    assert_int_equal(one.ctx->mem.live_blocks, 0);
    ebb_ctx_free(one.ctx);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(bits_are_those_of_one), cmocka_unit_test(wrong_calls_are_refused),
        cmocka_unit_test(all_compile_the_same), cmocka_unit_test(who_leaves_early_is_lost),
        cmocka_unit_test(one_process_is_alone)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
