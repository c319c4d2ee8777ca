/* test_budget.c - the walk over plans and what is reported of the one taken: least budget, one byte
 * less, order of the list, bytes by kind and layer. */
#include "support/twin.h"

#include <inttypes.h>
#include <stdio.h>

static ebb_status make(const ir_graph *graph, uint64_t budget, uint32_t disabled, ebb_plan **out) {
    plan_options options = {
        .members = 2, .budget = budget, .disabled = disabled, .update = {.clip = 0.5F}};
    plan_request request = {.name = "train", .graph = graph, .training = true};
    return ebb__plan_make(graph->ctx, &request, 1, NULL, 0, &options, out);
}

static word_lm wide_model(void) {
    word_lm m = test_lm_small(LM_LSTM, 8);
    m.vocab = 300;
    m.batch = 6;
    return m;
}

static void least_budget(void **state) {
    (void)state;
    ebb_ctx *ctx = test_ctx_new();
    word_lm m = wide_model();
    ir_graph graph;
    ebb_plan *plan = NULL;
    char digits[32];
    test_lm(ctx, &m, &graph);
    assert_ok(ctx, make(&graph, UINT64_MAX, 0, &plan));
    uint64_t least = plan->least_bytes, fastest = plan->peak_bytes;
    assert_true(least < fastest);
    assert_true(plan->keep_all_bytes >= least);
    assert_true(plan->keep_all_bytes >= plan->peak_bytes);
    assert_true(plan->keep_all_activation_bytes >= plan->activation_bytes);
    ebb__plan_free(plan);
    assert_ok(ctx, make(&graph, least, 0, &plan));
    assert_int_equal(plan->peak_bytes, least);
    grad_update_settings update = {.clip = 0.5F};
    test_run_equal(plan, &graph, true, &update, 1, 2);
    (void)snprintf(digits, sizeof digits, " %" PRIu64 " bytes", least);
    ebb_status status = make(&graph, least - 1, 0, &plan);
    assert_int_equal(status, EBB_BUDGET);
    assert_non_null(strstr(ebb_last_error(ctx), digits));
    assert_non_null(strstr(ebb_last_error(ctx), "largest: "));
    assert_non_null(plan); /* reports can still show it */
    assert_int_equal(plan->least_bytes, least);
    ebb__plan_free(plan);
    ebb__ir_fini(&graph);
    test_ctx_free(ctx);
}

/* A smaller budget never gives a higher peak, a larger one never a slower plan. */
static void monotone(void **state) {
    (void)state;
    ebb_ctx *ctx = test_ctx_new();
    word_lm m = wide_model();
    ir_graph graph;
    ebb_plan *all = NULL;
    test_lm(ctx, &m, &graph);
    assert_ok(ctx, make(&graph, UINT64_MAX, 0, &all));
    assert_true(all->n_choices > 1);
    assert_int_equal(all->chosen, 0);
    assert_int_equal(all->choices[all->n_choices - 1].peak_bytes, all->least_bytes);
    for (int32_t i = 1; i < all->n_choices; i++) {
        assert_true(all->choices[i].seconds > all->choices[i - 1].seconds);
        assert_true(all->choices[i].peak_bytes < all->choices[i - 1].peak_bytes);
    }
    for (int32_t i = 0; i < all->n_choices; i++) {
        ebb_plan *plan = NULL;
        assert_ok(ctx, make(&graph, all->choices[i].peak_bytes, 0, &plan));
        int32_t want = i; /* the smallest within 2% of the fastest that fits */
        while (want + 1 < all->n_choices &&
               all->choices[want + 1].seconds <= 1.02 * all->choices[i].seconds) {
            want++;
        }
        assert_int_equal(plan->chosen, want);
        assert_int_equal(plan->peak_bytes, all->choices[want].peak_bytes);
        assert_int_equal(plan->least_bytes, all->least_bytes);
        assert_true(want == 0 ? plan->hash == all->hash : plan->hash != all->hash);
        ebb__plan_free(plan);
    }
    ebb__plan_free(all);
    ebb__ir_fini(&graph);
    test_ctx_free(ctx);
}

/* With chunking disabled nothing is left of it in the list, and keep-all is the plan. */
static void disabled(void **state) {
    (void)state;
    ebb_ctx *ctx = test_ctx_new();
    word_lm m = wide_model();
    ir_graph graph;
    ebb_plan *plan = NULL;
    test_lm(ctx, &m, &graph);
    assert_ok(ctx, make(&graph, UINT64_MAX, 1U << PASS_CHUNK | 1U << PASS_LAYOUT, &plan));
    assert_int_equal(plan->n_choices, 1);
    assert_int_equal(plan->peak_bytes, plan->keep_all_bytes);
    assert_int_equal(plan->activation_bytes, plan->keep_all_activation_bytes);
    ebb__plan_free(plan);
    ebb__ir_fini(&graph);
    test_ctx_free(ctx);
}

static void every_byte_has_an_owner(void **state) {
    (void)state;
    for (int i = 0; i < 6; i++) {
        ebb_ctx *ctx = test_ctx_new();
        word_lm m = test_lm_small((lm_cell)(i % 3), 5), v = m;
        ir_graph train, valid;
        ebb_plan *plan = NULL;
        uint64_t kinds = 0, layers = 0, weights = 0, slots = 0;
        v.dropout = 0;
        v.state = "valid";
        test_lm(ctx, &m, &train);
        test_lm(ctx, &v, &valid);
        plan_request requests[] = {{.name = "train", .graph = &train, .training = true},
                                   {.name = "valid", .graph = &valid, .training = false}};
        plan_extra extra = {"staging", 1000};
        plan_options options = {.members = 1,
                                .budget = UINT64_MAX,
                                .update = {.optimizer = i < 3 ? UPDATE_ADAM : UPDATE_SGD,
                                           .beta1 = 0.9F,
                                           .beta2 = 0.9F,
                                           .eps = 1e-8F,
                                           .clip = i % 2 ? 1.0F : 0}};
        assert_ok(ctx, ebb__plan_make(ctx, requests, 2, &extra, 1, &options, &plan));
        for (int k = 0; k < IR_KINDS; k++) {
            kinds += plan->bytes_by_kind[k];
        }
        for (int32_t k = 0; k < plan->n_layers; k++) {
            layers += plan->layers[k].bytes;
        }
        for (int32_t k = 0; k < plan->n_variables; k++) {
            weights += plan->variables[k].role == IR_PARAM ? plan->variables[k].bytes : 0;
            slots += plan->variables[k].role == IR_SLOT ? plan->variables[k].bytes : 0;
        }
        assert_int_equal(kinds, plan->peak_bytes);
        assert_int_equal(layers + plan->bytes_by_kind[IR_PROGRAM] + plan->bytes_by_kind[IR_UNUSED],
                         plan->peak_bytes);
        assert_int_equal(plan->bytes_by_kind[IR_WEIGHTS], weights);
        assert_int_equal(plan->bytes_by_kind[IR_OPTIMIZER], slots);
        assert_int_equal(slots, i < 3 ? 2 * weights : 0);
        assert_true(plan->bytes_by_kind[IR_DATA] >= 1000);
        assert_true(plan->bytes_by_kind[IR_UNUSED] < plan->peak_bytes / 4);
        for (int32_t k = 1; k < plan->n_largest; k++) {
            assert_true(plan->largest[k].bytes <= plan->largest[k - 1].bytes);
        }
        ebb__plan_free(plan);
        ebb__ir_fini(&train);
        ebb__ir_fini(&valid);
        test_ctx_free(ctx);
    }
}

/* Programs share variables by name; the same name with another type is refused. */
static void programs_must_agree(void **state) {
    (void)state;
    ebb_ctx *ctx = test_ctx_new();
    word_lm m = test_lm_small(LM_GRU, 3), v = m;
    ir_graph train, valid;
    ebb_plan *plan = NULL;
    v.batch = 2; /* the state would have another size */
    test_lm(ctx, &m, &train);
    test_lm(ctx, &v, &valid);
    plan_request requests[] = {{.name = "train", .graph = &train, .training = true},
                               {.name = "valid", .graph = &valid, .training = false}};
    plan_options options = {.members = 1, .budget = UINT64_MAX};
    assert_refused(ctx, ebb__plan_make(ctx, requests, 2, NULL, 0, &options, &plan), EBB_USAGE,
                   "different types");
    assert_null(plan);
    assert_refused(ctx, ebb__plan_make(ctx, requests, 0, NULL, 0, &options, &plan), EBB_USAGE,
                   "1 to 80 programs");
    ebb__ir_fini(&train);
    ebb__ir_fini(&valid);
    test_ctx_free(ctx);
}

/* An input has one room, as large as the largest of the programs needs; a program is found by what
 * it was requested for. */
static void inputs_share_a_room(void **state) {
    (void)state;
    ebb_ctx *ctx = test_ctx_new();
    word_lm m = test_lm_small(LM_GRU, 3), v = m;
    ir_graph train, valid;
    ebb_plan *plan = NULL;
    v.batch = 2 * m.batch;
    v.state = "valid";
    v.scratch = true;
    test_lm(ctx, &m, &train);
    test_lm(ctx, &v, &valid);
    plan_request requests[] = {
        {.name = "train", .graph = &train, .training = true, .use = 4, .item = 1},
        {.name = "valid", .graph = &valid, .training = false, .use = 5, .item = 0}};
    plan_options options = {.members = 1, .budget = UINT64_MAX};
    assert_ok(ctx, ebb__plan_make(ctx, requests, 2, NULL, 0, &options, &plan));
    const plan_variable *inputs = ebb__plan_variable(plan, LM_INPUTS);
    assert_int_equal(inputs->bytes, v.batch * v.steps * (int64_t)sizeof(int32_t));
    assert_int_equal(inputs->type.dim[0], v.batch * v.steps);
    assert_int_equal(ebb__plan_variable(plan, "state.h.0")->role, IR_STATE);
    assert_int_equal(ebb__plan_variable(plan, "valid.h.0")->role, IR_SCRATCH);
    assert_int_equal(ebb__plan_program(plan, 4, 1), 0);
    assert_int_equal(ebb__plan_program(plan, 5, 0), 1);
    assert_true(ebb__plan_program(plan, 4, 0) < 0 && ebb__plan_program(plan, 0, 0) < 0);
    ebb__plan_free(plan);
    ebb__ir_fini(&train);
    ebb__ir_fini(&valid);
    test_ctx_free(ctx);
}

/* ---- several programs ---- */

typedef struct built {
    word_lm models[3];
    int32_t asked[3];
} built;

static ebb_status build(const plan_request *request, ir_graph *out) {
    built *b = (built *)(uintptr_t)request->user;
    static const char *const inputs[] = {LM_INPUTS, LM_TARGETS};
    b->asked[request->index]++;
    TRY(ebb__word_lm_build(out, &b->models[request->index]));
    for (int i = 0; i < 2; i++) { /* of another size in each */
        char name[32];
        (void)snprintf(name, sizeof name, "%s.%d", inputs[i], request->index);
        TRY(ebb__ir_name(out, ebb__ir_find(out, inputs[i]), name));
    }
    return EBB_OK;
}

static void list_requests(built *b, const double shares[3], plan_request list[3]) {
    static const char *const names[] = {"train", "train.1", "train.2"};
    for (int32_t i = 0; i < 3; i++) {
        list[i] = (plan_request){.name = names[i],
                                 .training = true,
                                 .build = build,
                                 .user = b,
                                 .index = i,
                                 .share = shares[i]};
    }
}

/* The largest leads, wherever it stands; seconds are those of the mean step; the least budget of
 * all is not that of keeping everything. */
static void the_largest_leads(void **state) {
    (void)state;
    const int64_t steps[] = {3, 24, 9};
    plan_options options = {.members = 1, .budget = UINT64_MAX, .update = {.clip = 1.0F}};
    double alone[3] = {0}, shares[] = {1, 0, 3};
    uint64_t least[3] = {0};
    ebb_ctx *ctx = test_ctx_new();
    built b = {.asked = {0}};
    plan_request list[3];
    ebb_plan *plan = NULL;
    for (int i = 0; i < 3; i++) {
        b.models[i] = wide_model();
        b.models[i].steps = steps[i];
        b.models[i].state = NULL;
    }
    list_requests(&b, shares, list);
    for (int i = 0; i < 3; i++) {
        assert_ok(ctx, ebb__plan_make(ctx, &list[i], 1, NULL, 0, &options, &plan));
        alone[i] = plan->choices[0].seconds;
        least[i] = plan->least_bytes;
        ebb__plan_free(plan);
    }
    assert_ok(ctx, ebb__plan_make(ctx, list, 3, NULL, 0, &options, &plan));
    assert_int_equal(plan->lead, 1);
    assert_true(plan->choices[0].seconds > 0.99 * (alone[0] + 3 * alone[2]) / 4);
    assert_true(plan->choices[0].seconds < 1.05 * (alone[0] + 3 * alone[2]) / 4);
    assert_true(plan->least_bytes >= least[1]);
    assert_true(plan->least_bytes < plan->keep_all_bytes);
    uint64_t planned = plan->least_bytes;
    ebb__plan_free(plan);
    options.budget = planned;
    assert_ok(ctx, ebb__plan_make(ctx, list, 3, NULL, 0, &options, &plan));
    assert_int_equal(plan->peak_bytes, planned);
    run_session *session = NULL;
    int32_t before = b.asked[0];
    assert_ok(ctx, ebb__run_new(ctx, plan, &session));
    assert_true(b.asked[0] > before); /* only the leading program was still there */
    for (int32_t i = 0; i < 3; i++) {
        assert_true(session->plan->programs[i].n_outputs > 0);
        assert_int_equal(ebb__run_step(session, i), EBB_OK);
    }
    assert_int_equal(session->measured_bytes, planned);
    ebb__run_free(session);
    test_ctx_free(ctx);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(least_budget),
                                       cmocka_unit_test(monotone),
                                       cmocka_unit_test(disabled),
                                       cmocka_unit_test(every_byte_has_an_owner),
                                       cmocka_unit_test(programs_must_agree),
                                       cmocka_unit_test(inputs_share_a_room),
                                       cmocka_unit_test(the_largest_leads)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
