/* test_views.c - tensors of up to six axes, cut and joined along any of them: random graphs give
 * the bits of the reference interpreter, the verifier accepts their plans, and what can be an alias
 * is one. EBB_FUZZ_ROUNDS and EBB_FUZZ_SEED make longer or other runs. */
#include "grad/grad.h"
#include "support/twin.h"

#include <stdio.h>

enum { MOST_POOL = 48, MOST_JOIN = 3, MOST_ELEMENTS = 3000 };

typedef struct maker {
    ebb_ctx *ctx;
    ir_graph *g;
    test_dice *dice;
    ir_val pool[MOST_POOL];
    int32_t n_pool, n_names;
    ir_val step;
} maker;

static int32_t roll(maker *m, int32_t n) {
    return test_below(m->dice, n);
}

static const ir_type *type_of(const maker *m, ir_val v) {
    return &m->g->values[v].type;
}

static int64_t elements(const ir_type *type) {
    return ebb__op_fold_cols(type, 0);
}

static ir_val variable(maker *m, ir_role role, const ir_type *type) {
    char name[32];
    ir_val v = IR_NONE;
    (void)snprintf(name, sizeof name, "v%d", m->n_names++);
    assert_ok(m->ctx, ebb__ir_add_variable(m->g, role, name, type, &v));
    return v;
}

static void keep(maker *m, ir_val v) {
    if (m->n_pool < MOST_POOL && elements(type_of(m, v)) <= MOST_ELEMENTS) {
        m->pool[m->n_pool++] = v;
    }
}

static ir_val any(maker *m) {
    return m->pool[roll(m, m->n_pool)];
}

/* Of the pool, or a new parameter. */
static ir_val like(maker *m, const ir_type *type) {
    for (int32_t i = 0, start = roll(m, m->n_pool); i < m->n_pool; i++) {
        ir_val v = m->pool[(start + i) % m->n_pool];
        if (ebb__ir_type_equal(type_of(m, v), type)) {
            return v;
        }
    }
    const ir_type copy = *type;
    return variable(m, IR_PARAM, &copy);
}

static ir_val emit(maker *m, op_code op, const ir_val *in, int32_t n, const ir_attr *attr) {
    ir_val out = IR_NONE;
    assert_ok(m->ctx, ebb__op_emit(m->g, op, in, n, attr, &out));
    return out;
}

static void make_one(maker *m) {
    static const op_code ops[] = {OP_TANH, OP_SIGMOID, OP_RELU, OP_COPY, OP_SOFTMAX};
    ir_val x = any(m);
    keep(m, emit(m, ops[roll(m, 5)], &x, 1, NULL));
}

static void make_two(maker *m) {
    static const op_code ops[] = {OP_ADD, OP_SUB, OP_MUL};
    ir_val x = any(m), y = like(m, type_of(m, x));
    keep(m, emit(m, ops[roll(m, 3)], (ir_val[]){x, y}, 2, NULL));
}

static void make_dropout(maker *m) {
    ir_val x = any(m);
    ir_attr attr = {.i = {roll(m, 99), roll(m, 99), 1, 0, 1 + roll(m, 4), 0}, .f = {0.3F}};
    keep(m, emit(m, OP_DROPOUT, (ir_val[]){x, m->step}, 2, &attr));
}

static void make_slice(maker *m) {
    ir_val x = any(m);
    int32_t axis = roll(m, type_of(m, x)->rank), extent = type_of(m, x)->dim[axis];
    int32_t begin = roll(m, extent);
    ir_attr attr = {.i = {axis, begin, 1 + roll(m, extent - begin)}};
    keep(m, emit(m, OP_SLICE, &x, 1, &attr));
}

static void make_join(maker *m) {
    ir_val parts[MOST_JOIN] = {any(m)};
    int32_t n = 1 + roll(m, MOST_JOIN), axis = roll(m, type_of(m, parts[0])->rank);
    for (int32_t i = 1; i < n; i++) {
        ir_type type = *type_of(m, parts[0]);
        type.dim[axis] = roll(m, 2) ? type.dim[axis] : 1 + roll(m, 3);
        parts[i] = like(m, &type);
    }
    bool stack = axis == 0 && roll(m, 2) == 0;
    keep(m, emit(m, stack ? OP_STACK : OP_CONCAT, parts, n, &(ir_attr){.i = {stack ? 0 : axis}}));
}

static void name_output(maker *m, ir_val v) {
    char name[32];
    if (m->g->values[v].def != IR_NONE && !m->g->values[v].output) {
        (void)snprintf(name, sizeof name, "out%d", v);
        m->g->values[v].output = true;
        assert_ok(m->ctx, ebb__ir_name(m->g, v, name));
    }
}

/* A little of the sum of some values, each weighted by another. */
static void make_loss(maker *m) {
    for (int32_t i = 0; i < 3; i++) {
        ir_val x = i == 0 ? m->pool[0] : any(m), y = like(m, type_of(m, x)), sum;
        x = emit(m, OP_MUL, (ir_val[]){x, y}, 2, NULL);
        sum = emit(m, OP_SUM_ALL, &x, 1, NULL);
        sum = emit(m, OP_SCALE, &sum, 1, &(ir_attr){.f = {0.01F}});
        m->g->loss = i == 0 ? sum : emit(m, OP_ADD, (ir_val[]){m->g->loss, sum}, 2, NULL);
    }
    m->g->values[m->g->loss].output = true;
    assert_ok(m->ctx, ebb__ir_name(m->g, m->g->loss, "loss"));
}

static void make_graph(ebb_ctx *ctx, test_dice *dice, ir_graph *g) {
    static void (*const makers[])(maker *) = {make_one,   make_one,   make_two,    make_two,
                                              make_slice, make_slice, make_slice,  make_join,
                                              make_join,  make_join,  make_dropout};
    maker m = {.ctx = ctx, .g = g, .dice = dice};
    ir_type type = {.dtype = IR_F32, .rank = (int16_t)(1 + roll(&m, IR_MAX_RANK))};
    ebb__op_graph_init(g, ctx);
    m.step = variable(&m, IR_INPUT, &(ir_type){.dtype = IR_I32, .rank = 1, .dim = {1}});
    for (int32_t d = 0; d < type.rank; d++) {
        type.dim[d] = 1 + roll(&m, type.rank > 3 ? 3 : 5);
    }
    keep(&m, variable(&m, IR_PARAM, &type));
    keep(&m, variable(&m, IR_STATE, &type));
    for (int32_t i = 0, n = 4 + roll(&m, 16); i < n; i++) {
        makers[roll(&m, 11)](&m);
    }
    make_loss(&m);
    ir_val next = emit(&m, OP_TANH, &(ir_val){like(&m, &type)}, 1, NULL);
    g->values[m.pool[1]].next = emit(&m, OP_COPY, &next, 1, NULL);
    name_output(&m, any(&m));
    name_output(&m, any(&m));
}

static void one_round(uint64_t seed) {
    static const grad_update_settings update = {.clip = 0.5F};
    ebb_ctx *ctx = test_ctx_new();
    test_dice dice = {seed};
    ir_graph g;
    make_graph(ctx, &dice, &g);
    bool training = test_below(&dice, 4) > 0;
    pass_config config = {.members = 1 + test_below(&dice, 4), .update = update};
    for (int id = 0; id < PASS_COUNT; id++) {
        bool off = ebb__pass_optional((pass_id)id) && test_below(&dice, 4) == 0;
        config.disabled |= off ? 1U << id : 0;
    }
    plan_request request = {.name = "views", .graph = &g, .training = training};
    ebb_plan *plan = test_compile(ctx, &request, &config);
    test_run_equal(plan, &g, training, &update, seed, 2);
    ebb__ir_fini(&g);
    test_ctx_free(ctx);
}

static void random_graphs(void **state) {
    (void)state;
    uint64_t first = test_asked("EBB_FUZZ_SEED", 1);
    uint64_t rounds = test_asked("EBB_FUZZ_ROUNDS", 300);
    for (uint64_t i = 0; i < rounds; i++) {
        one_round(first + i);
    }
}

/* ---- gradients of slices along several axes of one value ---- */

enum { SLICES = 5 };

/* The sum of slices of x, each times a weight of small integers, so that sums are exact. */
static void make_slices(maker *m, ir_val x, ir_val *weights) {
    for (int32_t i = 0; i < SLICES; i++) {
        int32_t axis = roll(m, type_of(m, x)->rank), extent = type_of(m, x)->dim[axis];
        int32_t begin = roll(m, extent);
        ir_attr attr = {.i = {axis, begin, 1 + roll(m, extent - begin)}};
        ir_val part = emit(m, OP_SLICE, &x, 1, &attr), sum;
        weights[i] = variable(m, IR_INPUT, type_of(m, part));
        sum = emit(m, OP_MUL, (ir_val[]){part, weights[i]}, 2, NULL);
        sum = emit(m, OP_SUM_ALL, &sum, 1, NULL);
        m->g->loss = i == 0 ? sum : emit(m, OP_ADD, (ir_val[]){m->g->loss, sum}, 2, NULL);
    }
}

/* What the weights of all slices put on x: its gradient. */
static void add_weights(const ir_graph *g, const run_interp *interp, const ir_val *weights,
                        float *expected) {
    for (int32_t i = 0, n = 0; i < g->n_order && n < SLICES; i++) {
        op_part part = {0};
        if (g->nodes[g->order[i]].op == OP_SLICE &&
            ebb__op_next_part(g, &g->nodes[g->order[i]], &part)) {
            const float *weight = interp->data[weights[n++]];
            for (int64_t e = 0; e < elements(&g->values[part.piece].type); e++) {
                expected[op_part_element(&part, e)] += weight[e];
            }
        }
    }
}

static void slices_of_one_value(uint64_t seed) {
    ebb_ctx *ctx = test_ctx_new();
    test_dice dice = {seed};
    ir_graph g;
    maker m = {.ctx = ctx, .g = &g, .dice = &dice};
    ir_type type = {.dtype = IR_F32, .rank = (int16_t)(1 + roll(&m, IR_MAX_RANK))};
    ir_val weights[SLICES], one = IR_NONE, *grads;
    run_interp interp;
    for (int32_t d = 0; d < type.rank; d++) {
        type.dim[d] = 1 + roll(&m, 4);
    }
    float *expected = calloc((size_t)elements(&type), sizeof *expected);
    ebb__op_graph_init(&g, ctx);
    ir_val x = variable(&m, IR_PARAM, &type);
    make_slices(&m, x, weights);
    grads = calloc((size_t)g.n_values + 2, sizeof *grads);
    assert_ok(ctx, ebb__op_fill(&g, type_of(&m, g.loss), 1.0F, &one));
    assert_ok(ctx, ebb__grad_build(&g, &g.loss, &one, 1, grads));
    assert_ok(ctx, ebb__op_verify(&g));
    assert_ok(ctx, ebb__interp_init(&interp, &g));
    for (int32_t i = 0; i < SLICES; i++) {
        float *weight = interp.data[weights[i]];
        for (int64_t e = 0; e < elements(type_of(&m, weights[i])); e++) {
            weight[e] = (float)(roll(&m, 19) - 9);
        }
    }
    assert_ok(ctx, ebb__interp_step(&interp));
    add_weights(&g, &interp, weights, expected);
    assert_memory_equal(interp.data[grads[x]], expected, ebb__ir_type_bytes(&type));
    ebb__interp_fini(&interp);
    ebb__ir_fini(&g);
    free(grads);
    free(expected);
    test_ctx_free(ctx);
}

static void gradients_along_several_axes(void **state) {
    (void)state;
    for (uint64_t seed = 1; seed <= 300; seed++) {
        slices_of_one_value(seed);
    }
}

/* How many copies a graph needs. */
static int copies_of(const char *text) {
    ebb_ctx *ctx = test_ctx_new();
    test_unit t;
    test_unit_text(&t, ctx, text);
    test_pass(&t, &ebb__pass_alias);
    int copies = test_count(&t.unit.graph, OP_COPY);
    test_unit_fini(&t);
    test_ctx_free(ctx);
    return copies;
}

#define X "input %0 f32[2,6,4,3] \"x\"\n%1:f32[2,6,4,3] = tanh %0\n"

static void aliases(void **state) {
    (void)state;
    /* Channels taken, worked on and put together again: nothing moves. */
    assert_int_equal(
        copies_of(X "%2:f32[2,2,4,3] = slice %1 {axis=1 begin=1 len=2}\n"
                    "%3:f32[2,2,4,3] = relu %2\n%4:f32[2,4,4,3] = slice %1 {axis=1 len=4}\n"
                    "%5:f32[2,4,4,3] = tanh %4\n%6:f32[2,6,4,3] = concat %5 %3 {axis=1}\n"
                    "%7:f32[2,6,4,3] = tanh %6\noutput %7 \"y\"\n"),
        0);
    /* A kernel that works by rows of the last axis reads a copy of what is cut before it. */
    assert_int_equal(copies_of(X "%2:f32[2,2,4,3] = slice %1 {axis=1 begin=1 len=2}\n"
                                 "%3:f32[2,2,4,3] = softmax %2\noutput %3 \"y\"\n"),
                     1);
    /* So does one that reads parts along two axes: each has a pitch of its own. */
    assert_int_equal(copies_of(X "%2:f32[2,3,4,3] = slice %1 {axis=1 begin=1 len=3}\n"
                                 "%3:f32[2,3,2,3] = slice %2 {axis=2 begin=1 len=2}\n"
                                 "%4:f32[2,3,2,3] = relu %3\noutput %4 \"y\"\n"),
                     1);
    /* Of one image there is one pitch only. */
    assert_int_equal(copies_of(X "%2:f32[1,6,4,3] = slice %1 {axis=0 begin=1 len=1}\n"
                                 "%3:f32[1,3,4,3] = slice %2 {axis=1 begin=1 len=3}\n"
                                 "%4:f32[1,3,2,3] = slice %3 {axis=2 begin=1 len=2}\n"
                                 "%5:f32[1,3,2,3] = relu %4\noutput %5 \"y\"\n"),
                     0);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(random_graphs),
                                       cmocka_unit_test(gradients_along_several_axes),
                                       cmocka_unit_test(aliases)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
