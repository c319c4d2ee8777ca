/* test_cut.c - a step that ranks share, each under a plan of its own: ranks are threads here.
 * Random graphs, grids of ranks, modes of reduction, passes, knobs and budgets: every variable that
 * a rank has, or has rows of, and every output holds the bits of the reference interpreter on the
 * whole graph after each step, all of them are somewhere, and the bytes handed out are the planned
 * ones. */
#include "fuzz_help.h"

#include "model/nmt.h"
#include "op/message.h"
#include "support/random.h"
#include "unit/comm_help.h"

enum { STEPS = 3, TICKETS = 4096, MOST_STAGES = 4 };

/* ---- what must come out ---- */

typedef struct expectation {
    test_twin twin;
    void **start;        /* by value: variables */
    void **given[STEPS]; /* by value: inputs before a step */
    void **after[STEPS]; /* by value: variables and outputs */
} expectation;

static bool is_compared(const ir_value *value) {
    return value->role != IR_TEMP || (value->output && value->name != NULL);
}

static void **copy_values(const test_twin *t) {
    void **copies = calloc((size_t)t->graph.n_values, sizeof *copies);
    assert_non_null(copies);
    for (ir_val v = 0; v < t->graph.n_values; v++) {
        size_t bytes = (size_t)ebb__ir_type_bytes(&t->graph.values[v].type);
        if (is_compared(&t->graph.values[v])) {
            copies[v] = malloc(bytes);
            assert_non_null(copies[v]);
            memcpy(copies[v], t->interp.data[v], bytes);
        }
    }
    return copies;
}

static void free_values(const test_twin *t, void **copies) {
    for (ir_val v = 0; v < t->graph.n_values; v++) {
        free(copies[v]);
    }
    free(copies);
}

/* Of a forward graph in one piece. */
static void expect(expectation *e, ir_graph *graph, int32_t shards, const pass_config *config,
                   uint64_t seed) {
    test_shard(graph, shards);
    test_twin_init_rounded(&e->twin, graph, config->training, &config->update, config->stash, seed);
    e->start = copy_values(&e->twin);
    for (int i = 0; i < STEPS; i++) {
        test_twin_inputs(&e->twin, NULL);
        e->given[i] = copy_values(&e->twin);
        test_twin_step(&e->twin);
        e->after[i] = copy_values(&e->twin);
    }
}

static void forget(expectation *e) {
    free_values(&e->twin, e->start);
    for (int i = 0; i < STEPS; i++) {
        free_values(&e->twin, e->given[i]);
        free_values(&e->twin, e->after[i]);
    }
    test_twin_fini(&e->twin);
}

/* ---- ranks ---- */

/* A rank plans with a context, and so a graph, of its own. */
typedef struct one_rank {
    ebb_ctx *ctx;
    ir_graph graph;
    ebb_plan *plan;
} one_rank;

static struct {
    expectation e;
    one_rank rank[RANKS_MOST];
    int32_t count;
} now; /* the case that ranks run */

static const ir_value *value_at(ir_val v) {
    return &now.e.twin.graph.values[v];
}

/* The variable of the rank that value v of the whole graph is, and its place in that; NULL: other
 * ranks have it. */
static const plan_variable *find_variable(const ebb_plan *plan, ir_val v, uint64_t *from) {
    const plan_variable *found = ebb__plan_variable(plan, value_at(v)->name);
    if (found != NULL) {
        uint64_t row = found->bytes / (uint64_t)found->type.dim[0];
        *from = row * (uint64_t)found->first_row;
    }
    return found;
}

/* Every row of every variable is on some rank. */
static void check_all_kept(void) {
    const ir_graph *g = &now.e.twin.graph;
    for (ir_val v = 0; v < g->n_values; v++) {
        const ir_type *type = &g->values[v].type;
        bool seen[4096] = {false};
        for (int32_t r = 0; g->values[v].role != IR_TEMP && r < now.count; r++) {
            const plan_variable *own = ebb__plan_variable(now.rank[r].plan, g->values[v].name);
            for (int32_t k = 0; own != NULL && k < own->type.dim[0]; k++) {
                assert_true(own->first_row + k < type->dim[0]);
                seen[own->first_row + k] = true;
            }
        }
        for (int32_t k = 0; g->values[v].role != IR_TEMP && k < type->dim[0]; k++) {
            if (!seen[k]) {
                fail_msg("no rank has row %d of %s", k, g->values[v].name);
            }
        }
    }
}

/* What went wrong in a rank, with its own context's sentence. */
static bool went_well(help_rank *me, ebb_status status, const char *what) {
    const char *sentence = ebb_last_error(now.rank[me->rank].ctx);
    if (status != EBB_OK && me->wrong == 0) {
        me->wrong = __LINE__;
        (void)snprintf(me->why, sizeof me->why, "%s: status %d: %.400s; %.400s", what, (int)status,
                       sentence, me->ctx->error);
    }
    return status == EBB_OK;
}

static void write_values(run_session *s, void *const *values, bool inputs) {
    for (ir_val v = 0; v < now.e.twin.graph.n_values; v++) {
        uint64_t from = 0;
        const ir_value *value = value_at(v);
        const plan_variable *own = value->role == IR_TEMP ? NULL : find_variable(s->plan, v, &from);
        if (own != NULL && (!inputs || value->role == IR_INPUT)) {
            memcpy(ebb__run_address(s, run_at(own)), (const char *)values[v] + from,
                   (size_t)own->bytes);
        }
    }
}

static void check_same(help_rank *me, ir_val v, int step, const ir_type *type, const void *theirs,
                       uint64_t from) {
    const char *right = (const char *)now.e.after[step][v] + from;
    int64_t at = theirs == NULL ? 0 : test_first_difference(type, theirs, right);
    if (at >= 0 && me->wrong == 0) {
        me->wrong = __LINE__;
        (void)snprintf(me->why, sizeof me->why, "step %d: %s[%lld] %s", step, value_at(v)->name,
                       (long long)at, theirs == NULL ? "is missing" : "differs");
    }
}

/* All variables that the rank has. Of outputs the first rank has all; the others, of training, what
 * their learners look at. */
static void check_values(help_rank *me, run_session *s, int step) {
    for (ir_val v = 0; v < now.e.twin.graph.n_values; v++) {
        const ir_value *value = value_at(v);
        uint64_t from = 0;
        if (value->role != IR_TEMP) {
            const plan_variable *own = find_variable(s->plan, v, &from);
            if (own != NULL) {
                check_same(me, v, step, &own->type, ebb__run_address(s, run_at(own)), from);
            }
        } else if (is_compared(value)) {
            const void *theirs = ebb__run_output(s, 0, value->name);
            bool looked_at =
                strcmp(value->name, UPDATE_NORM) == 0 || strcmp(value->name, UPDATE_BAD) == 0;
            if (me->rank == 0 || looked_at || theirs != NULL) {
                check_same(me, v, step, &value->type, theirs, 0);
            }
        }
    }
}

static void run_rank(help_rank *me) {
    one_rank *r = &now.rank[me->rank];
    run_session *s = NULL;
    ebb_plan *plan = r->plan;
    r->plan = NULL; /* the session's */
    if (!went_well(me, ebb__run_new(r->ctx, plan, &s), "open")) {
        return;
    }
    s->link = me->link;
    s->lost_seconds = LIMIT;
    write_values(s, now.e.start, false);
    for (int i = 0; i < STEPS && me->wrong == 0; i++) {
        write_values(s, now.e.given[i], true);
        if (went_well(me, ebb__run_step(s, 0), "step")) {
            check_values(me, s, i);
        }
    }
    CHECK(me, me->wrong != 0 || s->measured_bytes == s->plan->peak_bytes);
    CHECK_OK(me, ebb__comm_barrier(me->link, LIMIT));
    ebb__run_free(s);
}

static void end_ranks(void) {
    for (int32_t i = 0; i < now.count; i++) {
        ebb__plan_free(now.rank[i].plan);
        ebb__ir_fini(&now.rank[i].graph);
        test_ctx_free(now.rank[i].ctx);
    }
    forget(&now.e);
}

/* ---- random cases ---- */

enum { MOST_CUTS = 5 };

/* The most stages, up to so many, that the graph's layers can be parted into; one of the ways. */
static int32_t part_layers(pass_unit *unit, int32_t most, alloc_region *region, pass_ranks *ranks,
                           test_dice *dice) {
    pass_stages cuts[MOST_CUTS];
    int32_t n = 1 + test_below(dice, MOST_CUTS), asked = n;
    ranks->stages = most;
    while (ebb__stages_cuts(unit, NULL, ranks, region, cuts, &n) != EBB_OK) {
        ebb__ctx_clear(unit->ctx);
        ranks->stages = --most;
        assert_true(most > 0);
    }
    assert_in_range(n, 1, asked);
    for (int32_t i = 0; i < n; i++) {
        assert_true(i == 0 || cuts[i - 1].seconds <= cuts[i].seconds);
        int32_t found[MOST_STAGES] = {0};
        for (int32_t l = 0; l < cuts[i].n_layers; l++) {
            found[cuts[i].layers[l].stage]++;
        }
        for (int32_t k = 0; k < most; k++) {
            assert_true(found[k] > 0);
        }
    }
    const pass_stages *cut = &cuts[test_below(dice, n)];
    ranks->layers = cut->layers;
    ranks->n_layers = cut->n_layers;
    ranks->early = cut->early;
    return most;
}

/* A grid of at least two ranks that graph and shards allow; count 1: there is none. */
static pass_ranks some_ranks(ebb_ctx *ctx, const plan_request *request, alloc_region *region,
                             test_dice *dice) {
    pass_ranks ranks = {.reduce = (pass_reduce)test_below(dice, 3)};
    pass_config config = {0};
    pass_unit unit;
    assert_ok(ctx, ebb__plan_open(&unit, ctx, &config, request));
    int32_t most = part_layers(&unit, MOST_STAGES, region, &ranks, dice);
    int32_t stages = part_layers(&unit, 1 + test_below(dice, most), region, &ranks, dice);
    int32_t groups = RANKS_MOST / stages;
    groups = 1 + test_below(dice, request->shards < groups ? request->shards : groups);
    if (stages * groups == 1) { /* as many as there can be */
        groups = request->shards < RANKS_MOST ? request->shards : RANKS_MOST;
        stages = groups == 1 ? part_layers(&unit, most, region, &ranks, dice) : 1;
    }
    ebb__plan_close(&unit);
    ranks.stages = stages;
    ranks.count = stages * groups;
    if (test_below(dice, 3) == 0) { /* not parted by classes, though it may be */
        while (ranks.n_layers > 0 && ranks.layers[ranks.n_layers - 1].end > 0) {
            ranks.n_layers--;
        }
    }
    if (stages > 1 && groups == request->shards && test_below(dice, 2) == 0) {
        ranks.chunk_steps = 1 + test_below(dice, 3);
        ranks.sum_steps = ranks.chunk_steps * (1 + test_below(dice, 3));
        ranks.early = 0.25 * test_below(dice, 5);
    }
    return ranks;
}

/* A rank's own: whatever comes behind the cut. */
static ebb_plan *some_plan(ebb_ctx *ctx, const plan_request *request, const pass_config *all,
                           test_dice *dice) {
    const uint32_t before = (1U << PASS_CUT) - 1;
    pass_config config = *all;
    config.knobs = some_knobs(dice);
    if (all->ranks.chunk_steps > 0) {
        config.knobs.span = all->ranks.chunk_steps;
    }
    config.members = 1 + test_below(dice, 2);
    config.disabled |= some_passes(dice) & ~before;
    plan_options options = {.stash = all->stash,
                            .members = config.members,
                            .disabled = config.disabled,
                            .update = all->update,
                            .density = all->density,
                            .ranks = all->ranks};
    bool by_itself = all->ranks.stages == 1 || all->ranks.layers != NULL;
    return by_itself && test_below(dice, 4) == 0 ? by_budget(ctx, request, &options, dice)
                                                 : test_compile(ctx, request, &config);
}

/* Every rank makes the graph and its plan; then all run. dice: for plans; NULL: as `all` says. */
static void run_all(fuzz_make make, test_dice drawn, const pass_config *all, test_dice *dice) {
    ebb_ctx *ctx = test_ctx_new();
    ir_graph whole;
    test_dice first = drawn;
    int32_t shards = make(ctx, &first, all->training, &whole);
    now.count = all->ranks.count;
    for (int32_t i = 0; i < now.count; i++) {
        one_rank *r = &now.rank[i];
        test_dice again = drawn;
        pass_config own = *all;
        r->ctx = test_ctx_new();
        (void)make(r->ctx, &again, all->training, &r->graph);
        plan_request request = {
            .name = "cut", .graph = &r->graph, .training = all->training, .shards = shards};
        own.ranks.rank = i;
        r->plan = dice != NULL ? some_plan(r->ctx, &request, &own, dice)
                               : test_compile(r->ctx, &request, &own);
    }
    expect(&now.e, &whole, shards, all, drawn.state);
    check_all_kept();
    help_run(now.count, TICKETS, run_rank);
    end_ranks();
    ebb__ir_fini(&whole);
    test_ctx_free(ctx);
}

/* Without a list of layers, those that nothing of is left when the graph is cut do not count. */
static bool can_choose(ebb_ctx *ctx, const plan_request *request, const pass_config *all) {
    pass_config config = *all;
    pass_unit unit;
    config.ranks.layers = NULL;
    assert_ok(ctx, ebb__plan_open(&unit, ctx, &config, request));
    bool can = ebb__plan_run_passes(&unit, PASS_TURNS) == EBB_OK;
    ebb__ctx_clear(ctx);
    ebb__plan_close(&unit);
    return can;
}

static void show_case(uint64_t seed, int32_t shards, const pass_config *all) {
    if (getenv("EBB_FUZZ_SHOW") != NULL) {
        print_message("seed %llu: %d ranks, %d stages, %d shards, reduce %d, optimizer %d, "
                      "momentum %g, clip %g, average %d, stash %d, density %g, training %d, "
                      "disabled %x, layers %d, "
                      "classes %d\n",
                      (unsigned long long)seed, all->ranks.count, all->ranks.stages, shards,
                      (int)all->ranks.reduce, (int)all->update.optimizer,
                      (double)all->update.momentum, (double)all->update.clip, all->update.average,
                      all->stash, all->density.cut, all->training, all->disabled,
                      all->ranks.layers != NULL, pass_has_parts(&all->ranks));
    }
}

static void cut_round(uint64_t seed, fuzz_make make) {
    ebb_ctx *ctx = test_ctx_new();
    test_dice dice = {seed};
    bool training = test_below(&dice, 6) > 0;
    const int32_t formats[] = {0, 0, 0, 0, 16, 8};
    pass_config all = {.training = training,
                       .update = some_update(&dice),
                       .disabled = test_below(&dice, 4) == 0 ? 1U << PASS_SIMPLIFY : 0};
    all.stash = formats[test_below(&dice, 6)];
    all.density = test_below(&dice, 2) == 0 ? (pass_density){0} : some_density(&dice);
    const test_dice drawn = dice;
    ir_graph whole;
    alloc_region region;
    int32_t shards = make(ctx, &dice, training, &whole);
    plan_request request = {.name = "cut", .graph = &whole, .training = training, .shards = shards};
    ebb__region_init(&region, ctx);
    all.ranks = some_ranks(ctx, &request, &region, &dice);
    if (test_below(&dice, 3) == 0 && can_choose(ctx, &request, &all)) {
        all.ranks.layers = NULL;
    }
    show_case(seed, shards, &all);
    run_all(make, drawn, &all, &dice);
    ebb__region_fini(&region);
    ebb__ir_fini(&whole);
    test_ctx_free(ctx);
}

/* ---- graphs ---- */

static int32_t make_words(ebb_ctx *ctx, test_dice *dice, bool training, ir_graph *g) {
    word_lm m = test_lm_small((lm_cell)test_below(dice, 3), 2 + test_below(dice, 4));
    int32_t shards = 1 + test_below(dice, 8);
    m.layers = 1 + test_below(dice, 4);
    m.hidden = m.embed = 4 + test_below(dice, 9);
    m.vocab = test_below(dice, 4) == 0 ? 2000 + test_below(dice, 2000) : 5 + test_below(dice, 60);
    m.batch = shards * (1 + test_below(dice, 2));
    m.tie = test_below(dice, 3) == 0;
    m.dropout = training && test_below(dice, 2) == 0 ? 0.3 : 0;
    m.state = test_below(dice, 4) == 0 ? NULL : "state";
    test_lm(ctx, &m, g);
    return shards;
}

static int32_t make_translation(ebb_ctx *ctx, test_dice *dice, bool training, ir_graph *g) {
    int32_t shards = 1 + test_below(dice, 6), words = 9 + 30 * test_below(dice, 2);
    nmt_model m = {.cell = (lm_cell)test_below(dice, 3),
                   .attention = (nmt_attention)test_below(dice, 2),
                   .src_vocab = words,
                   .tgt_vocab = words,
                   .embed = 6,
                   .hidden = 6,
                   .enc_layers = 1 + test_below(dice, 3),
                   .dec_layers = 1 + test_below(dice, 3),
                   .batch = shards * (1 + test_below(dice, 2)),
                   .src_len = STEPS + test_below(dice, 2),
                   .tgt_len = 1 + test_below(dice, 4),
                   .feed = test_below(dice, 2) == 0,
                   .layer_norm = test_below(dice, 2) == 0,
                   .tie = test_below(dice, 3) == 0,
                   .tie_src = test_below(dice, 3) == 0,
                   .dropout = training && test_below(dice, 2) == 0 ? 0.3 : 0,
                   .smoothing = test_below(dice, 2) == 0 ? 0.1 : 0,
                   .seed = 7};
    ebb__op_graph_init(g, ctx);
    assert_ok(ctx, ebb__nmt_build(g, &m));
    return shards;
}

static int32_t make_rows(ebb_ctx *ctx, test_dice *dice, bool training, ir_graph *g) {
    uint64_t seed = test_roll(dice) >> 8;
    (void)training;
    test_random_rows(ctx, seed, 1, 0, g);
    return test_random_rows_shards(seed);
}

static void words(void **state) {
    (void)state;
    fuzz_rounds(25, cut_round, make_words);
}

static void translations(void **state) {
    (void)state;
    fuzz_rounds(10, cut_round, make_translation);
}

static void rows(void **state) {
    (void)state;
    fuzz_rounds(40, cut_round, make_rows);
}

static void matrices(void **state) {
    (void)state;
    fuzz_rounds(40, cut_round, test_random_matrices);
}

/* A stack of a layer's outputs and the state that it began with was sent on when the state's next
 * rows had come: readers of a join do not read the variable in it (order.c). */
static void matrices_found(void **state) {
    (void)state;
    cut_round(65, test_random_matrices);
}

/* What a receive waits for beside the message lies with gaps between its rows: nobody reads it. */
static void rows_found(void **state) {
    (void)state;
    cut_round(117, make_rows);
}

static void nets(void **state) {
    (void)state;
    fuzz_rounds(25, cut_round, test_random_net);
}

/* ---- chosen cases ---- */

static word_lm chosen;
static int32_t chosen_shards;

static int32_t make_chosen(ebb_ctx *ctx, test_dice *dice, bool training, ir_graph *g) {
    (void)dice, (void)training;
    test_lm(ctx, &chosen, g);
    return chosen_shards;
}

static void choose(int64_t layers, bool tie, int64_t batch, int32_t shards) {
    chosen = test_lm_small(LM_LSTM, 3);
    chosen.layers = layers;
    chosen.tie = tie;
    chosen.batch = batch;
    chosen_shards = shards;
}

static pass_config plain_config(int32_t count, int32_t stages, pass_reduce reduce) {
    return (pass_config){.training = true,
                         .members = 1,
                         .update = {.optimizer = UPDATE_ADAM,
                                    .beta1 = 0.9F,
                                    .beta2 = 0.99F,
                                    .eps = 1e-6F,
                                    .clip = 0.5F},
                         .ranks = {.count = count, .stages = stages, .reduce = reduce}};
}

static void run_chosen(int32_t count, int32_t stages) {
    for (int mode = 0; mode < 3; mode++) {
        pass_config config = plain_config(count, stages, (pass_reduce)mode);
        run_all(make_chosen, (test_dice){7}, &config, NULL);
    }
}

/* Both ends of the model read the one table: they are on one rank. */
static void tied_table(void **state) {
    (void)state;
    choose(2, true, 4, 2);
    run_chosen(2, 2);
    run_chosen(4, 2);
}

static void stages_alone(void **state) {
    (void)state;
    choose(3, false, 3, 1);
    run_chosen(3, 3);
}

static void uneven_shards(void **state) {
    (void)state;
    choose(2, false, 10, 5);
    run_chosen(2, 1);
    run_chosen(3, 1);
    run_chosen(4, 2);
}

/* A grid that cannot be, with what is said of it. */
static void check_refused(int32_t count, int32_t stages, const char *part) {
    ebb_ctx *ctx = test_ctx_new();
    ir_graph graph;
    ebb_plan *plan = NULL;
    test_lm(ctx, &chosen, &graph);
    plan_request request = {
        .name = "cut", .graph = &graph, .training = true, .shards = chosen_shards};
    plan_options options = {
        .members = 1, .budget = UINT64_MAX, .ranks = {.count = count, .stages = stages}};
    assert_refused(ctx, ebb__plan_make(ctx, &request, 1, NULL, 0, &options, &plan), EBB_USAGE,
                   part);
    assert_null(plan);
    ebb__ir_fini(&graph);
    test_ctx_free(ctx);
}

static void refused(void **state) {
    (void)state;
    choose(2, false, 4, 2);
    check_refused(9, 9, "--stages 9: the model has 4 layers");
    check_refused(3, 2, "--stages 2 does not divide the number of processes, 3");
    check_refused(4, 1, "use --shards 4 or more");
    check_refused(6, 2, "use --shards 3 or more");
    check_refused(65, 1, "65 processes are more than 64");
    choose(2, true, 4, 2);
    check_refused(4, 4, "--stages 4: the model has 3 layers");
}

/* ---- the chain ---- */

/* Every message node comes behind the one before it, by an operand; gives how many there are. */
static int count_chained(const ir_graph *g) {
    static const int32_t operand[] = {
        [MESSAGE_SEND] = 1, [MESSAGE_SENT] = 2, [MESSAGE_RECV] = 0, [MESSAGE_GOT] = 2};
    ir_val last = IR_NONE;
    int n = 0;
    for (int32_t i = 0; i < g->n_order; i++) {
        const ir_node_rec *node = &g->nodes[g->order[i]];
        op_message message = ebb__op(node->op)->message;
        if (message != MESSAGE_NONE) {
            assert_int_equal(ir_in(g, node, operand[message]), last);
            last = node->out + node->n_out - 1;
            n++;
        }
    }
    return n;
}

static int count_messages(uint32_t disabled) {
    ebb_ctx *ctx = test_ctx_new();
    ir_graph graph;
    pass_config config = plain_config(4, 2, REDUCE_SLICES);
    config.ranks.rank = 1;
    config.disabled = disabled;
    test_lm(ctx, &chosen, &graph);
    ebb_plan *plan = test_compile(
        ctx,
        &(plan_request){.name = "cut", .graph = &graph, .training = true, .shards = chosen_shards},
        &config);
    int n = count_chained(&plan->programs[0].unit.graph);
    ebb__plan_free(plan);
    ebb__ir_fini(&graph);
    test_ctx_free(ctx);
    return n;
}

static void messages_keep_their_order(void **state) {
    (void)state;
    choose(3, false, 8, 4);
    const int all = count_messages(0);
    uint32_t every = 0;
    assert_true(all > 20);
    for (int id = 0; id < PASS_COUNT; id++) {
        if (ebb__pass_optional((pass_id)id)) {
            every |= 1U << id;
            if (id > PASS_CUT) {
                assert_int_equal(count_messages(1U << id), all);
            }
        }
    }
    assert_int_equal(count_messages(every & ~(1U << PASS_SIMPLIFY)), all);
    assert_true(count_messages(every) > 20);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(tied_table),
                                       cmocka_unit_test(stages_alone),
                                       cmocka_unit_test(uneven_shards),
                                       cmocka_unit_test(refused),
                                       cmocka_unit_test(messages_keep_their_order),
                                       cmocka_unit_test(words),
                                       cmocka_unit_test(translations),
                                       cmocka_unit_test(rows),
                                       cmocka_unit_test(matrices),
                                       cmocka_unit_test(matrices_found),
                                       cmocka_unit_test(rows_found),
                                       cmocka_unit_test(nets)};
    cmocka_set_test_filter(getenv("EBB_FUZZ_ONLY")); /* NULL: all */
    return cmocka_run_group_tests(tests, NULL, NULL);
}
