/* test_select.c - every node gets a kernel that accepts it, the first that does; refusals are
 * logged. */
#include "support/graphs.h"

#include <stdio.h>

typedef struct log_count {
    int refusals;
    char last[256];
} log_count;

static void count_refusals(void *user, ebb_log_level level, const char *line) {
    log_count *log = user;
    if (level == EBB_LOG_DEBUG && strstr(line, "refuses") != NULL) {
        log->refusals++;
        (void)snprintf(log->last, sizeof log->last, "%s", line);
    }
}

/* Refuses products that read b transposed, takes the others. */
static const char *no_transposes(const ir_graph *graph, const ir_node_rec *node) {
    (void)graph;
    return node->attr.i[1] != 0 ? "b is transposed" : NULL;
}
static size_t some_scratch(const ir_graph *graph, const ir_node_rec *node, int32_t form,
                           int members) {
    (void)graph;
    (void)node;
    (void)form;
    return (size_t)members * 40;
}
static void nothing(const op_call *call) {
    (void)call;
}

static void first_that_accepts(void **state) {
    (void)state;
    const device_kernel kernels[] = {
        {.name = "matmul.picky",
         .op = OP_MATMUL,
         .accept = no_transposes,
         .workspace = some_scratch,
         .run = nothing},
        {.name = "matmul.any", .op = OP_MATMUL, .run = nothing},
        {.name = "tanh.never", .op = OP_TANH, .accept = no_transposes, .run = nothing},
    };
    device dev = *ebb__device_default();
    dev.kernels = kernels;
    dev.n_kernels = 3;
    ebb_ctx *ctx = test_ctx_new();
    log_count log = {0};
    ebb_ctx_on_log(ctx, count_refusals, &log);
    test_unit t;
    test_unit_text(&t, ctx,
                   "input %0 f32[3,3] \"x\"\n%1:f32[3,3] = matmul - %0 %0\n"
                   "%2:f32[3,3] = matmul - %0 %1 {trans_b=1} @ \"here\" t=1 fwd\n"
                   "%3:f32[2,3] = slice %2 {len=2}\n%4:f32[2,3] = sigmoid %3\n"
                   "%5:f32[2,3] = tanh %4\noutput %5 \"y\"\n");
    t.unit.dev = &dev;
    t.config.members = 3;
    test_pass(&t, &ebb__pass_select);
    const int32_t wanted[] = {0, 1, DEVICE_KERNEL_NONE, DEVICE_KERNEL_REFERENCE, 2};
    for (int i = 0; i < 5; i++) {
        assert_int_equal(t.unit.kernels[t.unit.graph.order[i]], wanted[i]);
        assert_int_equal(t.unit.workspace[t.unit.graph.order[i]], i == 0 ? 120 : 0);
    }
    assert_int_equal(log.refusals, 1);
    assert_non_null(strstr(log.last, "here"));
    assert_non_null(strstr(log.last, "matmul.picky: b is transposed"));
    test_unit_fini(&t);
    test_ctx_free(ctx);
}

static void every_node_of_the_models(void **state) {
    (void)state;
    for (int cell = LM_LSTM; cell <= LM_RNN; cell++) {
        ebb_ctx *ctx = test_ctx_new();
        word_lm m = test_lm_small((lm_cell)cell, 4);
        ir_graph graph;
        test_unit t;
        test_lm(ctx, &m, &graph);
        test_unit_init(&t, &graph);
        test_pass(&t, &ebb__pass_grad);
        test_pass(&t, &ebb__pass_alias);
        test_pass(&t, &ebb__pass_select);
        const ir_graph *g = &t.unit.graph;
        for (int32_t i = 0; i < g->n_order; i++) {
            const ir_node_rec *node = &g->nodes[g->order[i]];
            int32_t k = t.unit.kernels[g->order[i]];
            bool alias = (ebb__op(node->op)->flags & OPF_ALIAS) != 0;
            assert_int_equal(k == DEVICE_KERNEL_NONE, alias);
            if (k >= 0) {
                const device_kernel *kernel = &t.unit.dev->kernels[k];
                assert_true(k < t.unit.dev->n_kernels);
                assert_int_equal(kernel->op, node->op);
                assert_true(kernel->accept == NULL || kernel->accept(g, node) == NULL);
            }
        }
        test_unit_fini(&t);
        ebb__ir_fini(&graph);
        test_ctx_free(ctx);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(first_that_accepts),
                                       cmocka_unit_test(every_node_of_the_models)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
