/* test_recompute.c - what is computed again and what is kept: the small graphs of Echo, attention,
 * residual nets, states by scan and by span, and the cut itself against brute force. That no bit
 * changes is test_fuzz's matter. */
#include "pass/mincut.h"
#include "support/twin.h"

#include "plan/walk.h"

#include <stdio.h>

#define LOSS_OF(x, rows)                                                                           \
    "%90:f32[" rows ",5] = matmul - " x " %80 {trans_b=1}\n"                                       \
    "%91:f32[" rows "], %92:f32[" rows "] = xent %90 %81\n"                                        \
    "%93:f32[1] = mean_valid %91 %81\n"                                                            \
    "loss %93\noutput %93 \"loss\"\n"

static void start(test_unit *t, ebb_ctx *ctx, const char *text, pass_knobs how) {
    test_unit_text(t, ctx, text);
    t->config.knobs = how;
    test_pass(t, &ebb__pass_grad);
    test_pass(t, &ebb__pass_simplify);
    test_pass(t, &ebb__pass_recompute);
}

static int count_again(const ir_graph *g, op_code op) {
    int n = 0;
    for (int32_t i = 0; i < g->n_order; i++) {
        const ir_node_rec *node = &g->nodes[g->order[i]];
        n += node->op == op && node->label.phase == IR_RECOMPUTE;
    }
    return n;
}

static const ir_node_rec *find_again(const ir_graph *g, op_code op, int nth) {
    for (int32_t i = 0; i < g->n_order; i++) {
        const ir_node_rec *node = &g->nodes[g->order[i]];
        if (node->op == op && node->label.phase == IR_RECOMPUTE && nth-- == 0) {
            return node;
        }
    }
    fail_msg("no such clone");
    return NULL;
}

/* ---- Echo's own tests ---- */

/* FC(x) + FC(y) -> tanh: keeping tanh releases what both products made. */
static void join_is_kept(void **state) {
    (void)state;
    ebb_ctx *ctx = test_ctx_new();
    test_unit t;
    start(&t, ctx,
          "param %0 f32[4,3] \"w\"\nparam %1 f32[4,3] \"u\"\nparam %80 f32[5,4] \"o\"\n"
          "input %2 f32[6,3] \"x\"\ninput %3 f32[6,3] \"y\"\ninput %81 i32[6] \"labels\"\n"
          "%4:f32[6,4] = matmul - %2 %0 {trans_b=1}\n"
          "%5:f32[6,4] = matmul - %3 %1 {trans_b=1}\n"
          "%6:f32[6,4] = add %4 %5\n"
          "%7:f32[6,4] = tanh %6\n" LOSS_OF("%7", "6"),
          (pass_knobs){.price = 1e-6});
    assert_int_equal(count_again(&t.unit.graph, OP_ADD), 0);
    assert_int_equal(count_again(&t.unit.graph, OP_TANH), 0);
    assert_int_equal(count_again(&t.unit.graph, OP_MATMUL), 0);
    test_unit_fini(&t);
    test_ctx_free(ctx);
}

/* x [T,H] added to T vectors, tanh of each: small in, huge between; all of it is one decision. */
static void broadcast_is_repeated(void **state) {
    (void)state;
    ebb_ctx *ctx = test_ctx_new();
    test_unit t;
    start(&t, ctx,
          "param %0 f32[4,3] \"w\"\nparam %1 f32[4,3] \"u\"\nparam %80 f32[5,4] \"o\"\n"
          "input %2 f32[6,3] \"x\"\ninput %3 f32[1,3] \"y0\"\ninput %4 f32[1,3] \"y1\"\n"
          "input %5 f32[1,3] \"y2\"\ninput %81 i32[18] \"labels\"\n"
          "%6:f32[6,4] = matmul - %2 %0 {trans_b=1}\n"
          "%7:f32[1,4] = matmul - %3 %1 {trans_b=1}\n"
          "%8:f32[1,4] = matmul - %4 %1 {trans_b=1}\n"
          "%9:f32[1,4] = matmul - %5 %1 {trans_b=1}\n"
          "%10:f32[6,4] = add_each %6 %7\n"
          "%11:f32[6,4] = add_each %6 %8\n"
          "%12:f32[6,4] = add_each %6 %9\n"
          "%13:f32[6,4] = tanh %10\n"
          "%14:f32[6,4] = tanh %11\n"
          "%15:f32[6,4] = tanh %12\n"
          "%16:f32[18,4] = stack %13 %14 %15\n" LOSS_OF("%16", "18"),
          (pass_knobs){.price = 1e-6});
    assert_int_equal(count_again(&t.unit.graph, OP_ADD_EACH), 3);
    assert_int_equal(count_again(&t.unit.graph, OP_TANH), 3);
    assert_int_equal(count_again(&t.unit.graph, OP_MATMUL), 0);
    test_unit_fini(&t);
    test_ctx_free(ctx);
}

/* x -> tanh y -> tanh z -> FC: y kept, z repeated, and FC's gradient reads the clone of z. */
static void chain_keeps_the_first(void **state) {
    (void)state;
    ebb_ctx *ctx = test_ctx_new();
    test_unit t;
    start(&t, ctx,
          "param %0 f32[4,3] \"w\"\nparam %80 f32[5,4] \"o\"\n"
          "input %2 f32[6,3] \"x\"\ninput %81 i32[6] \"labels\"\n"
          "%3:f32[6,4] = matmul - %2 %0 {trans_b=1}\n"
          "%4:f32[6,4] = tanh %3\n"
          "%5:f32[6,4] = tanh %4\n" LOSS_OF("%5", "6"),
          (pass_knobs){.price = 1e-6});
    const ir_graph *g = &t.unit.graph;
    assert_int_equal(count_again(g, OP_TANH), 1);
    assert_int_equal(count_again(g, OP_MATMUL), 0);
    const ir_node_rec *z = find_again(g, OP_TANH, 0);
    assert_ptr_equal(test_def(g, ir_in(g, z, 0)), test_node(g, OP_TANH, 0)); /* from y itself */
    ir_val o = ebb__ir_find(g, "o");
    const ir_node_rec *update = test_def(g, g->values[o].next);
    const ir_node_rec *dw = test_def(g, ir_in(g, update, 1));
    assert_int_equal(dw->op, OP_MATMUL);
    assert_int_equal(ir_in(g, dw, 2), z->out);
    test_unit_fini(&t);
    test_ctx_free(ctx);
}

/* Blocks x + W swish(norm(V x)): of a block only what products made need be kept. */
static void residual_net(void **state) {
    (void)state;
    enum { BLOCKS = 30, ROWS = 64, WIDTH = 64 };
    ebb_ctx *ctx = test_ctx_new();
    ir_graph g;
    ebb__op_graph_init(&g, ctx);
    ir_type square = {.dtype = IR_F32, .rank = 2, .dim = {WIDTH, WIDTH}};
    ir_type line = {.dtype = IR_F32, .rank = 1, .dim = {WIDTH}};
    ir_type rows = {.dtype = IR_F32, .rank = 2, .dim = {ROWS, WIDTH}};
    ir_type ids = {.dtype = IR_I32, .rank = 1, .dim = {ROWS}};
    ir_attr trans = {.i = {0, 1}}, eps = {.f = {1e-5F}};
    ir_val x, labels, gain, bias, v, out[2];
    assert_ok(ctx, ebb__ir_add_variable(&g, IR_INPUT, "x", &rows, &x));
    assert_ok(ctx, ebb__ir_add_variable(&g, IR_INPUT, "labels", &ids, &labels));
    assert_ok(ctx, ebb__ir_add_variable(&g, IR_PARAM, "gain", &line, &gain));
    assert_ok(ctx, ebb__ir_add_variable(&g, IR_PARAM, "bias", &line, &bias));
    assert_ok(ctx, ebb__ir_add_variable(&g, IR_PARAM, "v", &square, &v));
    for (int i = 0; i < BLOCKS; i++) {
        ir_val a = IR_NONE;
        assert_ok(ctx, ebb__op_emit(&g, OP_MATMUL, (ir_val[]){IR_NONE, x, v}, 3, &trans, &a));
        assert_ok(ctx, ebb__op_emit(&g, OP_LAYER_NORM, (ir_val[]){a, gain, bias}, 3, &eps, out));
        assert_ok(ctx, ebb__op_emit(&g, OP_SIGMOID, out, 1, NULL, &a));
        assert_ok(ctx, ebb__op_emit(&g, OP_MUL, (ir_val[]){out[0], a}, 2, NULL, &a));
        assert_ok(ctx, ebb__op_emit(&g, OP_MATMUL, (ir_val[]){x, a, v}, 3, &trans, &x));
    }
    assert_ok(ctx, ebb__op_emit(&g, OP_XENT, (ir_val[]){x, labels}, 2, NULL, out));
    assert_ok(ctx, ebb__op_emit(&g, OP_MEAN_VALID, (ir_val[]){out[0], labels}, 2, NULL, &g.loss));
    g.values[g.loss].output = true;
    assert_ok(ctx, ebb__ir_name(&g, g.loss, "loss"));
    plan_request request = {.name = "train", .graph = &g, .training = true};
    pass_config config = {.members = 1};
    ebb_plan *kept = test_compile(ctx, &request, &config);
    config.knobs.price = 1e-6;
    ebb_plan *repeated = test_compile(ctx, &request, &config);
    assert_true((double)repeated->peak_bytes < 0.6 * (double)kept->peak_bytes);
    assert_int_equal(count_again(&repeated->programs[0].unit.graph, OP_MATMUL), 0);
    ebb__plan_free(kept);
    ebb__plan_free(repeated);
    ebb__ir_fini(&g);
    test_ctx_free(ctx);
}

/* ---- time ---- */

static void small_lm(test_unit *t, ebb_ctx *ctx, lm_cell cell, int64_t steps, pass_knobs how) {
    word_lm m = test_lm_small(cell, steps);
    ir_graph graph;
    m.dropout = 0;
    test_lm(ctx, &m, &graph);
    test_unit_init(t, &graph);
    ebb__ir_fini(&graph);
    t->config.knobs = how;
    test_pass(t, &ebb__pass_grad);
    test_pass(t, &ebb__pass_simplify);
    test_pass(t, &ebb__pass_chunk);
    test_pass(t, &ebb__pass_recompute);
}

/* Only embeddings are looked up again: every state is kept, gates never repeated. */
static void states_are_kept(void **state) {
    (void)state;
    ebb_ctx *ctx = test_ctx_new();
    test_unit t;
    small_lm(&t, ctx, LM_LSTM, 8, (pass_knobs){.price = 1e-6});
    const ir_graph *g = &t.unit.graph;
    assert_int_equal(count_again(g, OP_EMBED), 8);
    assert_int_equal(count_again(g, OP_LSTM_STATE), 0);
    assert_int_equal(count_again(g, OP_LSTM_GATES), 0);
    assert_int_equal(count_again(g, OP_MATMUL), 0);
    test_unit_fini(&t);
    test_ctx_free(ctx);
}

/* c every 4 steps; between, rebuilt from gates: 3 of 4 in each of 2 layers. */
static void states_by_scan(void **state) {
    (void)state;
    ebb_ctx *ctx = test_ctx_new();
    test_unit t;
    small_lm(&t, ctx, LM_LSTM, 8, (pass_knobs){.price = 1e-6, .scan = 4});
    const ir_graph *g = &t.unit.graph;
    assert_int_equal(count_again(g, OP_LSTM_STATE), 2 * 6);
    assert_int_equal(count_again(g, OP_LSTM_GATES), 0);
    assert_int_equal(count_again(g, OP_MATMUL), 0);
    test_unit_fini(&t);
    test_ctx_free(ctx);
}

/* Gates again from kept outputs: as many products as input and recurrent ones of all steps. */
static void gates_by_span(void **state) {
    (void)state;
    ebb_ctx *ctx = test_ctx_new();
    test_unit t;
    small_lm(&t, ctx, LM_LSTM, 8, (pass_knobs){.price = 1e-6, .span = 4, .heavy = true});
    const ir_graph *g = &t.unit.graph;
    assert_int_equal(count_again(g, OP_LSTM_GATES), 16);
    assert_int_equal(count_again(g, OP_MATMUL), 32);
    assert_int_equal(count_again(g, OP_LSTM_OUT), 0); /* h is kept */
    /* The loss comes in two chunks, the second after the first span's gradients. */
    assert_int_equal(test_count(g, OP_XENT), 2);
    test_unit_fini(&t);
    test_ctx_free(ctx);
}

/* Only states between spans are kept: all is done again, but no node more than once. */
static void replay_by_span(void **state) {
    (void)state;
    ebb_ctx *ctx = test_ctx_new();
    test_unit t;
    pass_knobs how = {.price = 1e-6, .span = 4, .heavy = true, .replay = true};
    small_lm(&t, ctx, LM_LSTM, 8, how);
    const ir_graph *g = &t.unit.graph;
    assert_int_equal(count_again(g, OP_LSTM_GATES), 16);
    assert_int_equal(count_again(g, OP_MATMUL), 32);
    assert_true(count_again(g, OP_LSTM_OUT) >= 12);
    /* Backward reads nothing of the forward nodes but states that another span handed on. */
    int32_t reads = 0;
    for (int32_t i = 0; i < g->n_order; i++) {
        const ir_node_rec *node = &g->nodes[g->order[i]];
        for (int32_t k = 0; node->label.phase == IR_BACKWARD && k < node->n_in; k++) {
            ir_val v = ir_in(g, node, k);
            const ir_node_rec *def =
                v == IR_NONE || g->values[v].def == IR_NONE ? NULL : test_def(g, v);
            reads += def != NULL && def->op == OP_LSTM_GATES && def->label.phase == IR_FORWARD &&
                     v == def->out;
        }
    }
    assert_int_equal(reads, 0);
    test_unit_fini(&t);
    test_ctx_free(ctx);
}

/* Spans of 2 in chunks of 4 steps: what is between chunks is done a second time. */
static void nested(void **state) {
    (void)state;
    ebb_ctx *ctx = test_ctx_new();
    test_unit once, twice;
    pass_knobs how = {.price = 1e-6, .span = 2, .heavy = true, .replay = true};
    small_lm(&once, ctx, LM_LSTM, 8, how);
    how.outer = 2;
    small_lm(&twice, ctx, LM_LSTM, 8, how);
    assert_true(count_again(&twice.unit.graph, OP_LSTM_GATES) >
                count_again(&once.unit.graph, OP_LSTM_GATES));
    test_unit_fini(&once);
    test_unit_fini(&twice);
    test_ctx_free(ctx);
}

/* ---- the cut ---- */

enum { CHOICES = 9, PAIRS = 12 };

static void cut_is_least(void **state) {
    (void)state;
    ebb_ctx *ctx = test_ctx_new();
    test_dice dice = {7};
    for (int round = 0; round < 2000; round++) {
        int32_t n = 1 + test_below(&dice, CHOICES), pairs = test_below(&dice, PAIRS);
        int64_t cost[CHOICES], best = INT64_MAX, found = 0;
        int32_t from[PAIRS], to[PAIRS], fewest = CHOICES + 1, taken_n = 0;
        bool taken[CHOICES];
        alloc_region region;
        mincut cut;
        ebb__region_init(&region, ctx);
        assert_ok(ctx, ebb__mincut_new(&cut, &region, n));
        for (int32_t i = 0; i < n; i++) {
            cost[i] = test_below(&dice, 41) - 20;
            assert_ok(ctx, ebb__mincut_cost(&cut, i, cost[i]));
        }
        for (int32_t i = 0; i < pairs; i++) {
            from[i] = test_below(&dice, n);
            to[i] = test_below(&dice, n);
            assert_ok(ctx, ebb__mincut_requires(&cut, from[i], to[i]));
        }
        assert_ok(ctx, ebb__mincut_solve(&cut, taken));
        for (int32_t set = 0; set < 1 << n; set++) {
            int64_t sum = 0;
            bool valid = true;
            for (int32_t i = 0; i < n; i++) {
                sum += (set >> i & 1) != 0 ? cost[i] : 0;
            }
            for (int32_t i = 0; i < pairs; i++) {
                valid = valid && ((set >> from[i] & 1) == 0 || (set >> to[i] & 1) != 0);
            }
            if (valid &&
                (sum < best || (sum == best && __builtin_popcount((unsigned)set) < fewest))) {
                best = sum;
                fewest = __builtin_popcount((unsigned)set);
            }
        }
        for (int32_t i = 0; i < n; i++) {
            found += taken[i] ? cost[i] : 0;
            taken_n += taken[i];
        }
        for (int32_t i = 0; i < pairs; i++) {
            assert_true(!taken[from[i]] || taken[to[i]]);
        }
        assert_int_equal(found, best);
        assert_int_equal(taken_n, fewest);
        ebb__region_fini(&region);
    }
    test_ctx_free(ctx);
}

/* ---- the whole walk against every way to recompute ---- */

enum { SMALL_OPS = 7, WAYS = 1 << SMALL_OPS };

/* A product, then pointwise ops on what is there, some of it read twice; then the loss. */
static void make_small(ebb_ctx *ctx, test_dice *dice, ir_graph *g) {
    ir_type w = {.dtype = IR_F32, .rank = 2, .dim = {64, 64}};
    ir_type x = {.dtype = IR_F32, .rank = 2, .dim = {256, 64}};
    ir_type ids = {.dtype = IR_I32, .rank = 1, .dim = {256}};
    ir_attr trans = {.i = {0, 1}};
    ir_val there[SMALL_OPS + 2], labels, rows[2], weight;
    int32_t n = 0;
    ebb__op_graph_init(g, ctx);
    assert_ok(ctx, ebb__ir_add_variable(g, IR_PARAM, "w", &w, &weight));
    assert_ok(ctx, ebb__ir_add_variable(g, IR_INPUT, "x", &x, &there[0]));
    assert_ok(ctx, ebb__ir_add_variable(g, IR_INPUT, "labels", &ids, &labels));
    assert_ok(ctx, ebb__op_emit(g, OP_MATMUL, (ir_val[]){IR_NONE, there[0], weight}, 3, &trans,
                                &there[n]));
    for (int32_t i = 0; i < SMALL_OPS - 2; i++) {
        const op_code ops[] = {OP_TANH, OP_SIGMOID, OP_RELU, OP_ADD, OP_MUL};
        op_code op = ops[test_below(dice, 5)];
        ir_val in[2] = {there[n], there[test_below(dice, n + 1)]};
        n++;
        assert_ok(ctx,
                  ebb__op_emit(g, op, in, op == OP_ADD || op == OP_MUL ? 2 : 1, NULL, &there[n]));
    }
    assert_ok(ctx, ebb__op_emit(g, OP_XENT, (ir_val[]){there[n], labels}, 2, NULL, rows));
    assert_ok(ctx, ebb__op_emit(g, OP_MEAN_VALID, (ir_val[]){rows[0], labels}, 2, NULL, &g->loss));
    g->values[g->loss].output = true;
    assert_ok(ctx, ebb__ir_name(g, g->loss, "loss"));
}

/* Makes backward read what the bits say from clones: bit i for the i-th value that a forward node
 * other than a product makes. Who nobody reads is dropped, and pass schedule moves clones down. */
static void repeat(ir_graph *g, uint32_t bits) {
    ir_val again[64];
    ir_node *order = calloc((size_t)g->n_order + 1, sizeof *order);
    int32_t n = g->n_order, at = 0, i = 0;
    assert_true(g->n_values <= 64);
    memset(again, 0xff, sizeof again);
    memcpy(order, g->order, (size_t)n * sizeof *order);
    while (g->nodes[order[at]].label.phase == IR_FORWARD) {
        const ir_node_rec node = g->nodes[order[at++]];
        ir_val in[3], out[IR_MAX_OUT];
        if (node.op == OP_MATMUL) {
            continue;
        }
        for (int32_t k = 0; k < node.n_in; k++) {
            ir_val x = ir_in(g, &node, k);
            in[k] = again[x] != IR_NONE ? again[x] : x;
        }
        g->label = node.label;
        g->label.phase = IR_RECOMPUTE;
        assert_ok(g->ctx, ebb__op_emit(g, (op_code)node.op, in, node.n_in, &node.attr, out));
        for (int32_t k = 0; k < node.n_out; k++, i++) {
            again[node.out + k] = (bits >> i & 1) != 0 ? out[k] : IR_NONE;
        }
    }
    for (int32_t k = at; k < n; k++) {
        ir_node_rec *late = &g->nodes[order[k]];
        for (int32_t j = 0; j < late->n_in; j++) {
            ir_val x = ir_in(g, late, j);
            if (x != IR_NONE && x < 64 && again[x] != IR_NONE) {
                ir_set_in(g, late, j, again[x]);
            }
        }
    }
    memmove(&g->order[at], &g->order[n], (size_t)(g->n_order - n) * sizeof *order);
    memcpy(&g->order[at + g->n_order - n], &order[at], (size_t)(n - at) * sizeof *order);
    assert_ok(g->ctx, ebb__pass_drop_dead(g));
    free(order);
}

typedef struct way {
    uint64_t bytes;
    double seconds;
} way;

static double fastest(const way *ways, int32_t n, uint64_t budget) {
    double best = 1e30;
    for (int32_t i = 0; i < n; i++) {
        best = ways[i].bytes <= budget && ways[i].seconds < best ? ways[i].seconds : best;
    }
    return best;
}

static void near_the_best(void **state) {
    (void)state;
    enum { ROUNDS = 12 };
    const uint32_t off = 1U << PASS_CHUNK | 1U << PASS_LAYOUT;
    double worst_time = 1, worst_least = 1, sum = 0;
    int32_t compared = 0;
    for (uint64_t seed = 1; seed <= ROUNDS; seed++) {
        ebb_ctx *ctx = test_ctx_new();
        test_dice dice = {seed};
        ir_graph g;
        way all[WAYS], ours[PLAN_MAX_CHOICES];
        uint64_t least = UINT64_MAX;
        make_small(ctx, &dice, &g);
        plan_request request = {.name = "train", .graph = &g, .training = true};
        plan_options options = {.members = 1, .budget = UINT64_MAX, .disabled = off};
        for (uint32_t bits = 0; bits < WAYS; bits++) {
            pass_config config = {.members = 1, .disabled = off, .first = PASS_BATCH_TIME};
            ir_graph done;
            assert_ok(ctx, ebb__walk_prepare(ctx, &options, &request, &done));
            repeat(&done, bits);
            ebb_plan *plan = test_compile(
                ctx, &(plan_request){.name = "train", .graph = &done, .training = true}, &config);
            all[bits] = (way){plan->peak_bytes, plan->seconds_per_step};
            least = plan->peak_bytes < least ? plan->peak_bytes : least;
            ebb__plan_free(plan);
            ebb__ir_fini(&done);
        }
        ebb_plan *plan = NULL;
        assert_ok(ctx, ebb__plan_make(ctx, &request, 1, NULL, 0, &options, &plan));
        for (int32_t i = 0; i < plan->n_choices; i++) {
            ours[i] = (way){plan->choices[i].peak_bytes, plan->choices[i].seconds};
        }
        double gap = (double)plan->least_bytes / (double)least;
        worst_least = gap > worst_least ? gap : worst_least;
        for (int32_t i = 0; i < WAYS; i++) {
            if (all[i].bytes >= plan->least_bytes) {
                gap =
                    fastest(ours, plan->n_choices, all[i].bytes) / fastest(all, WAYS, all[i].bytes);
                worst_time = gap > worst_time ? gap : worst_time;
                sum += gap;
                compared++;
            }
        }
        ebb__plan_free(plan);
        ebb__ir_fini(&g);
        test_ctx_free(ctx);
    }
    print_message(
        "against all %d ways on %d graphs: least bytes at most %.3f times the least there "
        "is, seconds %.3f times on average, %.3f at most\n",
        WAYS, ROUNDS, worst_least, sum / compared, worst_time);
    assert_true(worst_least < 1.1);
    assert_true(sum / compared < 1.1);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(join_is_kept),
        cmocka_unit_test(broadcast_is_repeated),
        cmocka_unit_test(chain_keeps_the_first),
        cmocka_unit_test(residual_net),
        cmocka_unit_test(states_are_kept),
        cmocka_unit_test(states_by_scan),
        cmocka_unit_test(gates_by_span),
        cmocka_unit_test(replay_by_span),
        cmocka_unit_test(nested),
        cmocka_unit_test(cut_is_least),
        cmocka_unit_test(near_the_best),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
