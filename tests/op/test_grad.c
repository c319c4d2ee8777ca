/* test_grad.c - every op's gradient against central differences, all in double.
 *
 * A graph applies the op of a sample once or twice to the same operands (twice: sums accumulate);
 * the loss is the sum of the differentiable results times random seeds. Gradients come from the
 * emitted nodes run with the double kernels; differences from running the forward nodes again.
 */
#include "sample.h"

#include "grad/grad.h"

enum { MAX_TARGETS = 4, PROBES = 24 };

/* ---- a naive evaluator: every value has its own memory ---- */

typedef struct machine {
    const ir_graph *graph;
    tensor *values;
} machine;

static machine machine_make(const ir_graph *graph) {
    machine m = {graph, calloc((size_t)graph->n_values, sizeof(tensor))};
    assert_non_null(m.values);
    for (ir_val v = 0; v < graph->n_values; v++) {
        m.values[v] = tensor_make(&graph->values[v].type, true, 0);
    }
    return m;
}

static void machine_free(machine *m) {
    for (ir_val v = 0; v < m->graph->n_values; v++) {
        tensor_free(&m->values[v]);
    }
    free(m->values);
}

static void machine_run(machine *m, int32_t begin, int32_t end) {
    for (int32_t k = begin; k < end; k++) {
        const ir_node_rec *node = &m->graph->nodes[m->graph->order[k]];
        op_view in[32], out[IR_MAX_OUT];
        assert_in_range(node->n_in, 0, 32);
        for (int32_t i = 0; i < node->n_in; i++) {
            ir_val v = ir_in(m->graph, node, i);
            in[i] = v == IR_NONE ? (op_view){0} : m->values[v].view;
        }
        for (int32_t i = 0; i < node->n_out; i++) {
            out[i] = m->values[node->out + i].view;
        }
        op_call call = {.in = in,
                        .out = out,
                        .n_in = node->n_in,
                        .n_out = node->n_out,
                        .attr = &node->attr,
                        .members = 1};
        ebb__op(node->op)->ref64(&call);
    }
}

/* ---- the graph under test ---- */

typedef struct problem {
    op_case c;
    ir_val of[MAX_TARGETS], seeds[MAX_TARGETS];
    int32_t n_targets;
    int32_t n_forward;
    ir_val grads[OP_MAX_SAMPLE_IN]; /* of each operand */
} problem;

/* What of a node's results has a gradient: the first; of lstm_gates c and the columns of o. */
static void add_targets(problem *p, ir_val first, unsigned which) {
    ir_graph *g = &p->c.graph;
    ir_val targets[2] = {first, IR_NONE};
    if (p->c.op == ebb__op(OP_LSTM_GATES)) {
        int32_t h = (int32_t)ir_cols(&g->values[first + 1].type);
        targets[0] = first + 1;
        assert_int_equal(ebb__op_slice(g, first, 1, 3 * h, h, &targets[1]), EBB_OK);
    }
    for (unsigned i = 0; i < 2; i++) {
        if (targets[i] != IR_NONE && (which >> i & 1) != 0) {
            p->of[p->n_targets++] = targets[i];
        }
    }
}

static void build(problem *p, int code, const op_sample *sample, int copies, unsigned which) {
    *p = (problem){0};
    case_open(&p->c, code, sample);
    ir_graph *g = &p->c.graph;
    add_targets(p, p->c.node.out, which);
    for (int i = 1; i < copies; i++) {
        ir_val out[IR_MAX_OUT];
        assert_int_equal(ebb__op_emit(g, (op_code)code, p->c.in, sample->n_in, &sample->attr, out),
                         EBB_OK);
        add_targets(p, out[0], which);
    }
    for (int32_t i = 0; i < p->n_targets; i++) {
        char name[] = "seed0";
        name[4] = (char)('0' + i);
        ir_type type = g->values[p->of[i]].type;
        assert_int_equal(ebb__ir_add_variable(g, IR_INPUT, name, &type, &p->seeds[i]), EBB_OK);
    }
    p->n_forward = g->n_order;
    ir_val *grads = calloc((size_t)g->n_values, sizeof *grads);
    assert_non_null(grads);
    ebb_status status = ebb__grad_build(g, p->of, p->seeds, p->n_targets, grads);
    if (status != EBB_OK) {
        fail_msg("%s: %s", p->c.op->schema.name, ebb_last_error(p->c.ctx));
    }
    for (int32_t i = 0; i < sample->n_in; i++) {
        p->grads[i] = p->c.in[i] == IR_NONE ? IR_NONE : grads[p->c.in[i]];
    }
    free(grads);
    status = ebb__op_verify(g);
    if (status != EBB_OK) {
        fail_msg("%s: %s", p->c.op->schema.name, ebb_last_error(p->c.ctx));
    }
}

/* Of a large tensor the sum itself would cancel more than a difference shows. */
static double loss(const problem *p, machine *m) {
    long double sum = 0;
    machine_run(m, 0, p->n_forward);
    for (int32_t i = 0; i < p->n_targets; i++) {
        const tensor *y = &m->values[p->of[i]], *s = &m->values[p->seeds[i]];
        for (int64_t e = 0; e < tensor_count(y); e++) {
            sum += (long double)tensor_get(y, e) * (long double)tensor_get(s, e);
        }
    }
    return (double)sum;
}

/* ---- comparison ---- */

static void check_operand(const problem *p, machine *m, int32_t operand, draw *d) {
    const double h = 1e-5;
    tensor *x = &m->values[p->c.in[operand]];
    int64_t count = tensor_count(x), probes = count < PROBES ? count : PROBES;
    assert_true(p->grads[operand] != IR_NONE);
    for (int64_t k = 0; k < probes; k++) {
        int64_t e = count <= PROBES ? k : (int64_t)(draw_bits(d) % (uint64_t)count);
        double at = tensor_get(x, e), got = tensor_get(&m->values[p->grads[operand]], e);
        bool bends = p->c.op == ebb__op(OP_RELU) || p->c.op == ebb__op(OP_LEAKY_RELU);
        if (bends && fabs(at) < 10 * h) {
            continue; /* the kink */
        }
        tensor_set(x, e, at + h);
        double above = loss(p, m);
        tensor_set(x, e, at - h);
        double below = loss(p, m);
        tensor_set(x, e, at);
        double want = (above - below) / (2 * h);
        double scale = fabs(want) + 1e-3 * (1 + fabs(above)); /* what cancellation leaves */
        if (!(fabs(got - want) <= 1e-6 * scale)) {
            fail_msg("%s: operand %d element %lld: gradient %.12g, difference %.12g",
                     p->c.op->schema.name, operand, (long long)e, got, want);
        }
    }
}

static void check_sample(int code, const op_sample *sample, int copies, unsigned which) {
    problem p;
    draw d = {(uint64_t)code * 1000 + (uint64_t)copies};
    build(&p, code, sample, copies, which);
    machine m = machine_make(&p.c.graph);
    for (int32_t i = 0; i < sample->n_in; i++) {
        if (p.c.in[i] != IR_NONE) {
            tensor_fill(&m.values[p.c.in[i]], sample->fill[i], sample->limit, 1.0, &d);
        }
    }
    for (int32_t i = 0; i < p.n_targets; i++) {
        tensor_fill(&m.values[p.seeds[i]], FILL_NORMAL, 0, 1.0, &d);
    }
    machine_run(&m, 0, p.c.graph.n_order);
    for (int32_t i = 0; i < sample->n_in; i++) {
        if (p.c.in[i] != IR_NONE && sample->in[i].dtype == IR_F32) {
            check_operand(&p, &m, i, &d);
        }
    }
    machine_free(&m);
    case_close(&p.c);
}

/* A packed operand is made by passes, after gradients: those samples refuse. */
static bool is_packed(int code, const op_sample *sample) {
    return code == OP_MATMUL && sample->attr.i[3] != 0;
}

static bool differentiable(int code, const op_sample *sample) {
    bool any = false;
    if (is_packed(code, sample)) {
        return false;
    }
    for (int32_t i = 0; i < sample->n_in; i++) {
        any = any || (sample->fill[i] != FILL_ABSENT && sample->in[i].dtype == IR_F32);
    }
    return any;
}

static void gradients_match_differences(void **state) {
    (void)state;
    for (int code = 0; code < OP_COUNT; code++) {
        const op_def *op = ebb__op(code);
        for (int32_t s = 0; op->grad != NULL && s < op->n_samples; s++) {
            if (differentiable(code, &op->samples[s])) {
                check_sample(code, &op->samples[s], 1, 3);
                check_sample(code, &op->samples[s], 2, 3);
            }
        }
    }
}

/* One of the two gradients that reach lstm_gates may be missing. */
static void lstm_gates_take_either(void **state) {
    (void)state;
    const op_def *op = ebb__op(OP_LSTM_GATES);
    for (unsigned which = 1; which <= 2; which++) {
        check_sample(OP_LSTM_GATES, &op->samples[1], 1, which);
    }
}

/* Results kept for the gradient only refuse to be differentiated, rather than give wrong numbers.
 */
static void kept_results_have_no_gradient(void **state) {
    (void)state;
    static const int codes[] = {OP_XENT, OP_GRU_CELL, OP_LAYER_NORM, OP_BATCH_NORM};
    for (size_t i = 0; i < sizeof codes / sizeof *codes; i++) {
        op_case c;
        ir_val seed, of, grads[16];
        case_open(&c, codes[i], &ebb__op(codes[i])->samples[1]);
        of = c.node.out + 1;
        ir_type type = c.graph.values[of].type;
        assert_int_equal(ebb__ir_add_variable(&c.graph, IR_INPUT, "seed", &type, &seed), EBB_OK);
        assert_true(c.graph.n_values <= 16);
        assert_int_equal(ebb__grad_build(&c.graph, &of, &seed, 1, grads), EBB_USAGE);
        case_close(&c);
    }
}

static void packed_products_have_no_gradient(void **state) {
    (void)state;
    const op_def *op = ebb__op(OP_MATMUL);
    int32_t refused = 0;
    for (int32_t s = 0; s < op->n_samples; s++) {
        op_case c;
        ir_val seed, grads[16];
        if (!is_packed(OP_MATMUL, &op->samples[s])) {
            continue;
        }
        case_open(&c, OP_MATMUL, &op->samples[s]);
        ir_type type = c.graph.values[c.node.out].type;
        assert_int_equal(ebb__ir_add_variable(&c.graph, IR_INPUT, "seed", &type, &seed), EBB_OK);
        assert_true(c.graph.n_values <= 16);
        assert_int_equal(ebb__grad_build(&c.graph, &c.node.out, &seed, 1, grads), EBB_USAGE);
        refused++;
        case_close(&c);
    }
    assert_true(refused > 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(gradients_match_differences),
        cmocka_unit_test(lstm_gates_take_either),
        cmocka_unit_test(kept_results_have_no_gradient),
        cmocka_unit_test(packed_products_have_no_gradient),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
