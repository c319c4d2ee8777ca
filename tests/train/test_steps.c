/* test_steps.c - three training steps, with dropout, of every kind of model: the same bits as the
 * reference interpreter for any number of threads, with any optional pass left out and at every
 * budget down to the least, with and without shards; exactly the planned bytes; no allocation after
 * the first step. */
#include "golden/lm_graph.h"
#include "support/graphs.h"

#include <inttypes.h>
#include <math.h>

enum { STEPS = 3 };
enum { MANY_WORDS = 700 }; /* from here on the least plan splits the loss in chunks */

typedef struct setup {
    const char *name;
    lm_cell cell;
    int64_t layers, hidden, embed, vocab, batch, steps, shards;
    bool tie, by_sentence;
    grad_update_settings update;
} setup;

#define SGD .optimizer = UPDATE_SGD
#define ADAM .optimizer = UPDATE_ADAM, .beta1 = 0.9F, .beta2 = 0.999F, .eps = 1e-8F
#define ADAMW .optimizer = UPDATE_ADAMW, .beta1 = 0.9F, .beta2 = 0.999F, .eps = 1e-8F

/* clang-format off */
static const setup setups[] = {
    /*                            L   H   E    V   B   T  S  tie    by sentence */
    {"lstm sgd clip",     LM_LSTM, 2, 19, 13,  61,  5,  7, 1, false, false, {SGD, .clip = 0.25F}},
    {"lstm momentum",     LM_LSTM, 1, 17,  9,  37,  3,  9, 1, false, false, {SGD, .momentum = 0.9F}},
    {"lstm adam clip",    LM_LSTM, 3, 11, 16,  53,  4,  5, 1, false, false, {ADAM, .clip = 0.5F}},
    {"lstm adamw tied",   LM_LSTM, 2, 24, 24,  71,  7,  6, 1, true,  false, {ADAMW, .weight_decay = 0.1F}},
    {"lstm wide",         LM_LSTM, 2, 67, 35, 259,  9,  8, 1, false, false, {SGD, .clip = 1.0F}},
    {"lstm many words",   LM_LSTM, 2, 19, 13, 991,  9, 13, 1, false, false, {SGD, .clip = 0.25F}},
    {"gru many words",    LM_GRU,  1, 23, 11, 767, 11,  9, 1, false, false, {ADAM}},
    {"rnn tied words",    LM_RNN,  2, 18, 18, 883,  7, 15, 1, true,  false, {SGD, .momentum = 0.9F}},
    {"lstm one by one",   LM_LSTM, 1,  1,  1,   2,  1,  1, 1, false, false, {SGD}},
    {"gru sgd",           LM_GRU,  2, 19, 13,  61,  5,  7, 1, false, false, {SGD}},
    {"gru momentum clip", LM_GRU,  3,  9, 15,  37,  3,  9, 1, false, false, {SGD, .momentum = 0.9F, .weight_decay = 0.01F, .clip = 0.25F}},
    {"gru adam tied",     LM_GRU,  1, 21, 21,  53,  6,  5, 1, true,  false, {ADAM}},
    {"gru adamw clip",    LM_GRU,  2, 33, 35, 131,  5,  6, 1, false, false, {ADAMW, .weight_decay = 0.1F, .clip = 0.5F}},
    {"rnn sgd clip tied", LM_RNN,  2, 23, 23,  61,  5,  7, 1, true,  false, {SGD, .clip = 0.25F}},
    {"rnn momentum",      LM_RNN,  1, 17,  9,  37,  3,  9, 1, false, false, {SGD, .momentum = 0.9F}},
    {"rnn adam",          LM_RNN,  3, 11, 16,  53,  4,  5, 1, false, false, {ADAM, .weight_decay = 0.01F}},
    {"rnn adamw clip",    LM_RNN,  2, 40, 32, 100,  8,  4, 1, false, false, {ADAMW, .clip = 0.5F}},
    {"lstm two shards",   LM_LSTM, 2, 19, 13,  61,  6,  7, 2, false, false, {SGD, .clip = 0.25F}},
    {"lstm four shards",  LM_LSTM, 2, 19, 19, 1499, 12, 13, 4, true,  false, {SGD}},
    {"gru three shards",  LM_GRU,  2, 21, 13,  61,  6,  5, 3, false, false, {ADAM, .clip = 0.5F}},
    {"rnn row by row",    LM_RNN,  1, 17,  9,  97,  5,  9, 5, false, false, {SGD, .momentum = 0.9F}},
    {"lstm sentences",    LM_LSTM, 2, 19, 13,  61,  5,  7, 1, false, true,  {SGD, .clip = 0.25F}},
    {"gru sentences",     LM_GRU,  1, 23, 11, 767, 11,  9, 1, false, true,  {ADAM}},
    {"lstm their shards", LM_LSTM, 2, 19, 19,  97, 12,  6, 4, true,  true,  {SGD, .momentum = 0.9F}},
};
/* clang-format on */

typedef struct fixture {
    const setup *setup;
    ebb_ctx *ctx;
    ir_graph forward;  /* what is planned */
    ir_graph training; /* with gradients and updates; what the interpreter runs */
    run_interp reference;
} fixture;

/* ---- the same content on both sides ---- */

static void start_variable(ir_role role, ir_start start, const char *name, void *data,
                           uint64_t bytes) {
    memset(data, 0, (size_t)bytes);
    if (role == IR_PARAM) {
        ebb__ir_draw(start, name, 1, data, 0, bytes / sizeof(float));
    } else if (role == IR_STATE) { /* as if windows had gone before */
        ebb__ir_draw((ir_start){IR_UNIFORM, 0.5F}, name, 2, data, 0, bytes / sizeof(float));
    }
}

static void set_inputs(const fixture *f, int step, int32_t *inputs, int32_t *targets,
                       int32_t *number, float *hyper) {
    int64_t vocab = f->setup->vocab, rows = f->setup->batch * f->setup->steps;
    for (int64_t i = 0; i < rows; i++) {
        inputs[i] = (int32_t)((i * i * 7 + step * 5 + 3) % vocab);
        targets[i] = (int32_t)((i * 11 + step + 5) % vocab);
        if (i % 6 == 5) {
            targets[i] = -1;
        }
    }
    double lr = f->setup->update.optimizer == UPDATE_SGD ? 1.0 : 0.01;
    *number = step;
    hyper[0] = (float)lr;
    hyper[1] = (float)(lr / (1 - pow(0.9, step + 1)));
    hyper[2] = (float)sqrt(1 - pow(0.999, step + 1));
    hyper[3] = 0;
}

/* ---- the reference ---- */

static void run_reference(fixture *f) {
    const ir_graph *g = &f->training;
    must(f->ctx, ebb__interp_init(&f->reference, g));
    void **data = f->reference.data;
    for (ir_val v = 0; v < g->n_values; v++) {
        if (g->values[v].role != IR_TEMP) {
            start_variable(g->values[v].role, g->values[v].start, g->values[v].name, data[v],
                           ebb__ir_type_bytes(&g->values[v].type));
        }
    }
    for (int step = 0; step < STEPS; step++) {
        set_inputs(f, step, data[ebb__ir_find(g, LM_INPUTS)], data[ebb__ir_find(g, LM_TARGETS)],
                   data[ebb__ir_find(g, LM_STEP)], data[ebb__ir_find(g, UPDATE_HYPER)]);
        must(f->ctx, ebb__interp_step(&f->reference));
    }
    float loss = *(const float *)data[ebb__ir_find(g, LM_LOSS)];
    assert_true(isfinite(loss) && loss > 0);
}

static void open_fixture(fixture *f, const setup *s) {
    word_lm model = {.cell = s->cell,
                     .layers = s->layers,
                     .hidden = s->hidden,
                     .embed = s->embed,
                     .vocab = s->vocab,
                     .batch = s->batch,
                     .steps = s->steps,
                     .tie = s->tie,
                     .dropout = 0.3,
                     .seed = 7,
                     .state = s->by_sentence ? NULL : "state"};
    ir_val *grads = NULL;
    int32_t n = 0;
    f->setup = s;
    assert_int_equal(ebb_ctx_new(&f->ctx), EBB_OK);
    ebb__op_graph_init(&f->forward, f->ctx);
    must(f->ctx, ebb__word_lm_build(&f->forward, &model));
    must(f->ctx, ebb__ir_copy(&f->forward, &f->training));
    test_shard(&f->training, (int32_t)s->shards);
    differentiate(&f->training, &grads, &n);
    must(f->ctx, ebb__update_build(&f->training, grads, n, &s->update));
    run_reference(f);
}

static void close_fixture(fixture *f) {
    ebb__interp_fini(&f->reference);
    ebb__ir_fini(&f->training);
    ebb__ir_fini(&f->forward);
    assert_int_equal(f->ctx->mem.live_blocks, 0);
    ebb_ctx_free(f->ctx);
}

/* ---- planned and run ---- */

static ebb_status make_plan(const fixture *f, int threads, uint32_t disabled, uint64_t budget,
                            ebb_plan **plan) {
    plan_request request = {.name = "train",
                            .graph = &f->forward,
                            .training = true,
                            .shards = (int32_t)f->setup->shards};
    plan_options options = {
        .members = threads, .budget = budget, .disabled = disabled, .update = f->setup->update};
    return ebb__plan_make(f->ctx, &request, 1, NULL, 0, &options, plan);
}

/* Takes the plan over. */
static void run_and_compare(const fixture *f, ebb_plan *plan, const char *variant) {
    char what[128];
    run_session *session = NULL;
    uint64_t calls = 0;
    (void)snprintf(what, sizeof what, "%s: %s", f->setup->name, variant);
    must(f->ctx, ebb__run_new(f->ctx, plan, &session));
    for (int32_t i = 0; i < plan->n_variables; i++) {
        const plan_variable *v = &plan->variables[i];
        start_variable(v->role, v->start, v->name, ebb__run_variable(session, v->name, NULL),
                       v->bytes);
    }
    for (int step = 0; step < STEPS; step++) {
        set_inputs(f, step, ebb__run_variable(session, LM_INPUTS, NULL),
                   ebb__run_variable(session, LM_TARGETS, NULL),
                   ebb__run_variable(session, LM_STEP, NULL),
                   ebb__run_variable(session, UPDATE_HYPER, NULL));
        assert_int_equal(ebb__run_step(session, 0), EBB_OK);
        calls = step == 0 ? f->ctx->mem.calls : calls;
    }
    assert_int_equal(f->ctx->mem.calls, calls);
    assert_int_equal(session->measured_bytes, plan->peak_bytes);
    assert_same_bits(what, &f->reference, session);
    ebb__run_free(session);
}

static void check(const fixture *f, int threads, uint32_t disabled) {
    char variant[96];
    ebb_plan *plan = NULL;
    (void)snprintf(variant, sizeof variant, "%d threads, disabled passes %#x", threads, disabled);
    must(f->ctx, make_plan(f, threads, disabled, UINT64_MAX, &plan));
    run_and_compare(f, plan, variant);
}

static uint32_t optional_passes(void) {
    uint32_t all = 0;
    for (int pass = 0; pass < PASS_COUNT; pass++) {
        all |= ebb__pass_optional((pass_id)pass) ? 1U << pass : 0;
    }
    return all;
}

/* ---- tests ---- */

static void threads_and_passes_change_no_bit(void **state) {
    fixture f;
    uint32_t all = optional_passes();
    open_fixture(&f, *state);
    for (int threads = 1; threads <= 3; threads++) {
        check(&f, threads, 0);
        check(&f, threads, all);
    }
    for (int pass = 0; pass < PASS_COUNT; pass++) {
        if ((all >> pass & 1) != 0) {
            check(&f, 2, 1U << pass);
        }
    }
    close_fixture(&f);
}

static void check_least(const fixture *f, int threads, uint64_t least) {
    char variant[96], digits[32];
    ebb_plan *plan = NULL;
    must(f->ctx, make_plan(f, threads, 0, least, &plan));
    (void)snprintf(variant, sizeof variant, "%d threads, least budget", threads);
    run_and_compare(f, plan, variant);
    assert_int_equal(make_plan(f, threads, 0, least - 1, &plan), EBB_BUDGET);
    (void)snprintf(digits, sizeof digits, " %" PRIu64 " ", least);
    assert_non_null(strstr(ebb_last_error(f->ctx), digits));
    ebb__ctx_clear(f->ctx);
    ebb__plan_free(plan);
}

static void budgets_change_no_bit(void **state) {
    fixture f;
    char variant[96];
    open_fixture(&f, *state);
    bool many = f.setup->vocab >= MANY_WORDS;
    for (int threads = many ? 1 : 2; threads <= (many ? 3 : 2); threads++) {
        ebb_plan *all = NULL, *plan = NULL;
        must(f.ctx, make_plan(&f, threads, 0, UINT64_MAX, &all));
        const plan_choice *last = &all->choices[all->n_choices - 1];
        assert_int_equal(last->peak_bytes, all->least_bytes);
        assert_true(!many || last->knobs.chunk_rows > 0);
        for (int32_t i = 0; threads == 2 && i < all->n_choices; i++) {
            uint64_t budget = all->choices[i].peak_bytes;
            must(f.ctx, make_plan(&f, threads, 0, budget, &plan));
            assert_true(plan->peak_bytes <= budget);
            assert_true(plan->seconds_per_step <= 1.02 * all->choices[i].seconds);
            (void)snprintf(variant, sizeof variant, "budget %" PRIu64, budget);
            run_and_compare(&f, plan, variant);
        }
        check_least(&f, threads, all->least_bytes);
        ebb__plan_free(all);
    }
    close_fixture(&f);
}

static float loss_of_step(int32_t number) {
    fixture f;
    open_fixture(&f, &setups[0]);
    *(int32_t *)f.reference.data[ebb__ir_find(&f.training, LM_STEP)] = number;
    must(f.ctx, ebb__interp_step(&f.reference));
    float loss = *(float *)f.reference.data[ebb__ir_find(&f.training, LM_LOSS)];
    close_fixture(&f);
    return loss;
}

/* A dropout that did nothing, or the same every step, would pass all of the above. */
static void dropout_follows_the_step(void **state) {
    (void)state;
    float first = loss_of_step(100), again = loss_of_step(100), next = loss_of_step(101);
    assert_memory_equal(&again, &first, sizeof first);
    assert_memory_not_equal(&next, &first, sizeof first);
}

int main(void) {
    enum { N = sizeof setups / sizeof *setups };
    struct CMUnitTest tests[2 * N + 1];
    char names[2 * N][64];
    for (size_t i = 0; i < N; i++) {
        (void)snprintf(names[2 * i], sizeof *names, "%s: threads and passes", setups[i].name);
        (void)snprintf(names[2 * i + 1], sizeof *names, "%s: budgets", setups[i].name);
        void *with = (void *)(uintptr_t)&setups[i]; /* only read */
        tests[2 * i] =
            (struct CMUnitTest){names[2 * i], threads_and_passes_change_no_bit, NULL, NULL, with};
        tests[2 * i + 1] =
            (struct CMUnitTest){names[2 * i + 1], budgets_change_no_bit, NULL, NULL, with};
    }
    tests[2 * N] = (struct CMUnitTest)cmocka_unit_test(dropout_follows_the_step);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
