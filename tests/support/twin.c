/* twin.c - see twin.h. */
#include "support/twin.h"

#include <math.h>
#include <stdio.h>

/* What readers of an i32 variable allow. */
typedef struct limit {
    int32_t most; /* exclusive; 0: any */
    bool label;   /* -1 is allowed */
} limit;

static bool only_moves(const ir_node_rec *node) {
    return node->op == OP_SLICE || node->op == OP_REGROUP;
}

static ir_val behind_moves(const ir_graph *g, ir_val v) {
    while (v != IR_NONE && g->values[v].def != IR_NONE && only_moves(&g->nodes[g->values[v].def])) {
        v = ir_in(g, &g->nodes[g->values[v].def], 0);
    }
    return v;
}

static limit limit_of(const ir_graph *g, ir_val variable) {
    limit found = {.most = 0, .label = true};
    for (int32_t i = 0; i < g->n_order; i++) {
        const ir_node_rec *node = &g->nodes[g->order[i]];
        if (behind_moves(g, ir_in(g, node, 1)) != variable) {
            continue;
        }
        int32_t most = 0;
        if (node->op == OP_EMBED) {
            most = op_in_type(g, node, 0)->dim[0];
            found.label = false;
        } else if (node->op == OP_XENT) {
            most = (int32_t)ir_cols(op_in_type(g, node, 0));
        }
        found.most = most > 0 && (found.most == 0 || most < found.most) ? most : found.most;
    }
    return found;
}

static float small(test_dice *dice) {
    return (float)(test_below(dice, 2001) - 1000) * 0.0007F;
}

static void fill(test_twin *t, ir_val v) {
    const ir_value *value = &t->graph.values[v];
    int64_t n = ebb__ir_rows(&value->type) * ir_cols(&value->type);
    if (value->type.dtype == IR_I32) {
        limit l = limit_of(&t->graph, v);
        int32_t *data = t->interp.data[v];
        for (int64_t i = 0; i < n; i++) {
            data[i] = l.most == 0 ? t->step : test_below(&t->dice, l.most);
            data[i] = l.most > 0 && l.label && test_below(&t->dice, 6) == 0 ? -1 : data[i];
        }
        return;
    }
    if (value->type.dtype != IR_F32) { /* only moved, so any bits will do */
        unsigned char *data = t->interp.data[v];
        for (uint64_t i = 0; i < ebb__ir_type_bytes(&value->type); i++) {
            data[i] = (unsigned char)test_roll(&t->dice);
        }
        return;
    }
    float *data = t->interp.data[v];
    if (strcmp(value->name, UPDATE_HYPER) == 0) {
        const float hyper[4] = {0.1F, 0.02F, 0.5F, 0.25F};
        memcpy(data, hyper, sizeof hyper);
        return;
    }
    for (int64_t i = 0; i < n; i++) {
        data[i] = value->role == IR_SLOT ? 0 : small(&t->dice);
    }
}

void test_twin_init(test_twin *t, const ir_graph *forward, bool training,
                    const grad_update_settings *update, uint64_t seed) {
    test_twin_init_rounded(t, forward, training, update, 0, seed);
}

void test_twin_init_rounded(test_twin *t, const ir_graph *forward, bool training,
                            const grad_update_settings *update, int32_t stash, uint64_t seed) {
    test_unit u;
    *t = (test_twin){.ctx = forward->ctx, .dice = {seed}};
    test_unit_init(&u, forward);
    u.config.training = training;
    u.config.update = *update;
    u.config.stash = stash;
    test_pass(&u, &ebb__pass_infer);
    test_pass(&u, &ebb__pass_grad);
    test_pass(&u, &ebb__pass_stash);
    assert_ok(t->ctx, ebb__ir_copy(&u.unit.graph, &t->graph));
    test_unit_fini(&u);
    assert_ok(t->ctx, ebb__interp_init(&t->interp, &t->graph));
    for (ir_val v = 0; v < t->graph.n_values; v++) {
        if (t->graph.values[v].role != IR_TEMP) {
            fill(t, v);
        }
    }
}

void test_twin_fini(test_twin *t) {
    ebb__interp_fini(&t->interp);
    ebb__ir_fini(&t->graph);
}

static void load(const test_twin *t, run_session *session, ir_val v) {
    uint64_t bytes = 0;
    void *to = ebb__run_variable(session, t->graph.values[v].name, &bytes);
    assert_non_null(to);
    assert_int_equal(bytes, ebb__ir_type_bytes(&t->graph.values[v].type));
    memcpy(to, t->interp.data[v], (size_t)bytes);
}

void test_twin_load(const test_twin *t, run_session *session) {
    for (ir_val v = 0; v < t->graph.n_values; v++) {
        if (t->graph.values[v].role != IR_TEMP) {
            load(t, session, v);
        }
    }
}

void test_twin_inputs(test_twin *t, run_session *session) {
    t->step++;
    for (ir_val v = 0; v < t->graph.n_values; v++) {
        if (t->graph.values[v].role == IR_INPUT) {
            fill(t, v);
            if (session != NULL) {
                load(t, session, v);
            }
        }
    }
}

void test_twin_step(test_twin *t) {
    assert_ok(t->ctx, ebb__interp_step(&t->interp));
}

int64_t test_first_difference(const ir_type *type, const void *a, const void *b) {
    int64_t n = ebb__ir_rows(type) * ir_cols(type);
    for (int64_t i = 0; i < n; i++) {
        size_t size = ebb__ir_dtype_bytes(type->dtype), at = (size_t)i * size;
        bool equal = memcmp((const char *)a + at, (const char *)b + at, size) == 0;
        if (type->dtype == IR_F32) {
            equal = equal || (isnan(((const float *)a)[i]) && isnan(((const float *)b)[i]));
        } else if (type->dtype == IR_F64) {
            equal = equal || (isnan(((const double *)a)[i]) && isnan(((const double *)b)[i]));
        }
        if (!equal) {
            return i;
        }
    }
    return -1;
}

const char *test_twin_differs(const test_twin *t, run_session *session, int32_t program) {
    for (ir_val v = 0; v < t->graph.n_values; v++) {
        const ir_value *value = &t->graph.values[v];
        const void *theirs = NULL;
        if (value->role != IR_TEMP) {
            theirs = ebb__run_variable(session, value->name, NULL);
        } else if (value->output && value->name != NULL) {
            theirs = ebb__run_output(session, program, value->name);
        } else {
            continue;
        }
        if (theirs == NULL) {
            return value->name;
        }
        int64_t at = test_first_difference(&value->type, t->interp.data[v], theirs);
        if (at >= 0) {
            if (value->type.dtype == IR_F32) {
                print_error("%s[%lld]: %a, should be %a\n", value->name, (long long)at,
                            (double)((const float *)theirs)[at],
                            (double)((const float *)t->interp.data[v])[at]);
            }
            return value->name;
        }
    }
    return NULL;
}

void *test_twin_data(const test_twin *t, const char *name) {
    ir_val v = ebb__ir_find(&t->graph, name);
    assert_int_not_equal(v, IR_NONE);
    return t->interp.data[v];
}

void test_twin_same(const char *what, const test_twin *a, const test_twin *b) {
    for (ir_val v = 0; v < a->graph.n_values; v++) {
        const ir_value *value = &a->graph.values[v];
        if (value->role == IR_INPUT || (value->role == IR_TEMP && !value->output)) {
            continue;
        }
        size_t bytes = (size_t)ebb__ir_type_bytes(&value->type);
        if (memcmp(a->interp.data[v], test_twin_data(b, value->name), bytes) != 0) {
            fail_msg("%s: %s differs", what, value->name);
        }
    }
}

void test_twin_copy_weights(const test_twin *from, const test_twin *to) {
    for (ir_val v = 0; v < from->graph.n_values; v++) {
        const ir_value *value = &from->graph.values[v];
        if (value->role == IR_PARAM) {
            memcpy(test_twin_data(to, value->name), from->interp.data[v],
                   (size_t)ebb__ir_type_bytes(&value->type));
        }
    }
}

/* The variables of a request: its own, and those that training adds, as far as the rank has them.
 */
static void add_variables(ebb_plan *plan, const plan_request *request, const pass_config *like) {
    pass_config config = *like;
    pass_unit unit;
    config.training = request->training;
    assert_ok(plan->ctx, ebb__plan_open(&unit, plan->ctx, &config, request));
    assert_ok(plan->ctx, ebb__plan_run_passes(&unit, PASS_TURNS));
    assert_ok(plan->ctx, ebb__plan_add_variables(plan, request, &unit.graph));
    ebb__plan_close(&unit);
}

static void add_program(ebb_plan *plan, const plan_request *request, const pass_config *config) {
    plan_program *program = &plan->programs[plan->n_programs++];
    pass_config silent = *config;
    silent.dump_after = 0;
    program->request = *request;
    program->config = *config;
    assert_ok(plan->ctx, ebb__plan_measure(plan->ctx, request, &silent, NULL, &program->size));
}

ebb_plan *test_compile(ebb_ctx *ctx, const plan_request *request, const pass_config *config) {
    ebb_plan *plan = NULL;
    assert_ok(ctx, ebb__alloc(ctx, 1, sizeof *plan, &plan));
    plan->ctx = ctx;
    plan->dev = device_or_default(config->dev);
    plan->members = config->members;
    (void)snprintf(plan->disk, sizeof plan->disk, "/tmp");
    plan_program *program = &plan->programs[0];
    pass_config plain = *config;
    plain.dump_after = 0;
    add_variables(plan, request, &plain);
    add_program(plan, request, config);
    plain.knobs.encode = 1;
    if (program->size.heap_bytes > 0) {
        add_program(plan, request, &plain); /* where a step does not fit */
        program->fallback = 1;
    }
    plan->seconds_per_step = program->size.seconds;
    ebb__plan_lay_out(plan);
    assert_ok(ctx, ebb__plan_compile(plan, 0));
    assert_ok(ctx, ebb__plan_check(&program->unit, plan->device_bytes));
    assert_ok(ctx, ebb__plan_report(plan, &program->unit));
    return plan;
}

void test_run_equal(ebb_plan *plan, const ir_graph *forward, bool training,
                    const grad_update_settings *update, uint64_t seed, int steps) {
    ebb_ctx *ctx = plan->ctx;
    run_session *session = NULL;
    test_twin twin;
    test_twin_init_rounded(&twin, forward, training, update, plan->programs[0].config.stash, seed);
    assert_ok(ctx, ebb__run_new(ctx, plan, &session));
    test_twin_load(&twin, session);
    for (int i = 0; i < steps; i++) {
        test_twin_inputs(&twin, session);
        test_twin_step(&twin);
        assert_int_equal(ebb__run_step(session, 0), EBB_OK);
        const char *differs = test_twin_differs(&twin, session, 0);
        if (differs != NULL) {
            fail_msg("step %d: %s differs from the interpreter", i, differs);
        }
    }
    assert_int_equal(session->measured_bytes, session->plan->peak_bytes);
    if (session->fallback_steps == 0) {
        assert_int_equal(plan_align(session->away_high), session->plan->away_bytes);
    }
    ebb__run_free(session);
    test_twin_fini(&twin);
}
