/* The CPU's stream: a chain of instructions that read each other's results across the shares of all
 * members gives the bits of the reference kernels, run one after another by one thread. */
#include "device/device.h"

#include "base/alloc.h"
#include "base/host.h"

#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

enum { ROWS = 37, COLS = 53, LAYERS = 12, MOST_INSTRS = 128, MOST_MEMBERS = 5 };

/* A graph, bytes for every value, and instructions either of the device or of the references. */
typedef struct test_program {
    ebb_ctx *ctx;
    ir_graph graph;
    alloc_region region;
    op_view *views; /* one for each value */
    device_instr *instrs;
    const device_instr *list[MOST_INSTRS];
    int32_t count;
} test_program;

static ir_val emit(ir_graph *graph, op_code op, const ir_val *in, int32_t n_in,
                   const ir_attr *attr) {
    ir_val out = IR_NONE;
    assert_int_equal(ebb__op_emit(graph, op, in, n_in, attr, &out), EBB_OK);
    return out;
}

/* x = x + sigmoid(x w + b) seen through two transpositions, again and again; then reductions. */
static void build(ir_graph *graph) {
    const ir_type matrix = {IR_F32, 2, {ROWS, COLS}}, square = {IR_F32, 2, {COLS, COLS}};
    const ir_type row = {IR_F32, 1, {COLS}};
    ir_val x, w, b;
    assert_int_equal(ebb__ir_add_variable(graph, IR_INPUT, "x", &matrix, &x), EBB_OK);
    assert_int_equal(ebb__ir_add_variable(graph, IR_PARAM, "w", &square, &w), EBB_OK);
    assert_int_equal(ebb__ir_add_variable(graph, IR_PARAM, "b", &row, &b), EBB_OK);
    for (int i = 0; i < LAYERS; i++) {
        ir_val z = emit(graph, OP_MATMUL, (ir_val[]){b, x, w}, 3, NULL);
        ir_val turned = emit(graph, OP_TRANSPOSE, &z, 1, NULL);
        ir_val gate = emit(graph, OP_SIGMOID, &turned, 1, NULL);
        ir_val back = emit(graph, OP_TRANSPOSE, &gate, 1, NULL);
        x = emit(graph, OP_ADD, (ir_val[]){x, back}, 2, NULL);
        b = emit(graph, OP_SUM_ROWS, (ir_val[]){b, x}, 2, NULL);
        x = emit(graph, OP_SCALE, &x, 1, &(ir_attr){.f = {0.5f}});
        b = emit(graph, OP_SCALE, &b, 1, &(ir_attr){.f = {0.02f}});
    }
    x = emit(graph, OP_SOFTMAX, &x, 1, NULL);
    emit(graph, OP_SUM_SQUARES, &x, 1, NULL);
}

/* Variables get fixed numbers, results a pattern that none of them has. */
static void refill(test_program *p) {
    uint32_t state = 1;
    for (int32_t v = 0; v < p->graph.n_values; v++) {
        size_t bytes = (size_t)ebb__ir_type_bytes(&p->graph.values[v].type);
        memset(p->views[v].data, 0xa5, bytes);
        float *data = p->views[v].data;
        for (size_t i = 0; p->graph.values[v].role != IR_TEMP && i < bytes / sizeof(float); i++) {
            state = state * 1664525u + 1013904223u;
            data[i] = (float)(state >> 8) * 0x1p-24f - 0.5f;
        }
    }
}

static void choose_kernel(test_program *p, device_instr *instr, const ir_node_rec *node,
                          int members) {
    const device *dev = ebb__device_default();
    for (int32_t k = 0; k < dev->n_kernels; k++) {
        const device_kernel *kernel = &dev->kernels[k];
        if (kernel->op != node->op || kernel->accept(&p->graph, node) != NULL) {
            continue;
        }
        int32_t list[DEVICE_MAX_FORMS] = {0};
        if (kernel->forms != NULL) {
            (void)kernel->forms(&p->graph, node, members, list);
        }
        instr->call.form = list[0];
        size_t bytes =
            kernel->workspace ? kernel->workspace(&p->graph, node, instr->call.form, members) : 0;
        assert_int_equal(ebb__region_alloc(&p->region, 1, bytes + 1, &instr->call.workspace),
                         EBB_OK);
        instr->call.workspace_bytes = bytes;
        if (kernel->prepare != NULL) {
            assert_int_equal(kernel->prepare(p->ctx, &instr->call, instr->prepared), EBB_OK);
        }
        instr->run = kernel->run;
        instr->kernel = k;
        return;
    }
}

static void compile(test_program *p, const ir_node_rec *node, int members, device_instr *instr) {
    op_view *in;
    assert_int_equal(ebb__region_alloc(&p->region, (size_t)node->n_in, sizeof *in, &in), EBB_OK);
    for (int32_t i = 0; i < node->n_in; i++) {
        ir_val v = ir_in(&p->graph, node, i);
        in[i] = v == IR_NONE ? (op_view){0} : p->views[v];
    }
    instr->run = ebb__op(node->op)->ref;
    instr->kernel = -1;
    instr->attr = node->attr;
    instr->call = (op_call){.in = in,
                            .out = &p->views[node->out],
                            .n_in = node->n_in,
                            .n_out = node->n_out,
                            .attr = &instr->attr,
                            .prepared = instr->prepared,
                            .members = members};
    if (members > 0) {
        choose_kernel(p, instr, node, members);
    }
}

/* members 0: reference kernels. */
static void program_open(test_program *p, ebb_ctx *ctx, int members) {
    memset(p, 0, sizeof *p);
    p->ctx = ctx;
    ebb__op_graph_init(&p->graph, ctx);
    ebb__region_init(&p->region, ctx);
    build(&p->graph);
    size_t n = (size_t)p->graph.n_values;
    p->count = p->graph.n_order;
    assert_in_range(p->count, 1, MOST_INSTRS);
    assert_int_equal(ebb__region_alloc(&p->region, n, sizeof *p->views, &p->views), EBB_OK);
    assert_int_equal(ebb__region_alloc(&p->region, (size_t)p->count, sizeof *p->instrs, &p->instrs),
                     EBB_OK);
    for (int32_t v = 0; v < p->graph.n_values; v++) {
        const ir_type *type = &p->graph.values[v].type;
        p->views[v].type = *type;
        p->views[v].ld = (int32_t)ir_cols(type);
        assert_int_equal(
            ebb__region_alloc(&p->region, 1, (size_t)ebb__ir_type_bytes(type), &p->views[v].data),
            EBB_OK);
    }
    for (int32_t i = 0; i < p->count; i++) {
        compile(p, &p->graph.nodes[p->graph.order[i]], members, &p->instrs[i]);
        p->list[i] = &p->instrs[i];
    }
    refill(p);
}

static void program_close(test_program *p) {
    ebb__region_fini(&p->region);
    ebb__ir_fini(&p->graph);
}

static void run_reference(test_program *p) {
    for (int32_t i = 0; i < p->count; i++) {
        op_call call = p->instrs[i].call;
        call.members = 1;
        p->instrs[i].run(&call);
    }
}

static void assert_same_values(const test_program *a, const test_program *b) {
    for (int32_t v = 0; v < a->graph.n_values; v++) {
        assert_memory_equal(a->views[v].data, b->views[v].data,
                            (size_t)ebb__ir_type_bytes(&a->graph.values[v].type));
    }
}

static ebb_ctx *new_ctx(void) {
    ebb_ctx *ctx;
    assert_int_equal(ebb_ctx_new(&ctx), EBB_OK);
    return ctx;
}

static void any_number_of_members_gives_the_same_bits(void **state) {
    (void)state;
    const int sizes[] = {1, 2, MOST_MEMBERS};
    const device *dev = ebb__device_default();
    ebb_ctx *ctx = new_ctx();
    test_program expected;
    program_open(&expected, ctx, 0);
    run_reference(&expected);
    for (size_t s = 0; s < sizeof sizes / sizeof *sizes; s++) {
        device_stream *stream;
        test_program p;
        program_open(&p, ctx, sizes[s]);
        assert_int_equal(dev->stream.create(dev, ctx, sizes[s], &stream), EBB_OK);
        for (int repeat = 0; repeat < 10; repeat++) {
            refill(&p);
            uint64_t calls = ctx->mem.calls;
            dev->stream.run(stream, p.list, p.count, NULL, NULL);
            assert_int_equal(ctx->mem.calls, calls);
            assert_same_values(&p, &expected);
        }
        dev->stream.destroy(stream);
        program_close(&p);
    }
    program_close(&expected);
    assert_int_equal(ctx->mem.live_bytes, 0);
    ebb_ctx_free(ctx);
}

typedef struct test_watch {
    const test_program *program;
    pthread_t caller;
    int32_t seen, wrong;
} test_watch;

static void watch(void *user, const device_instr *instr, double seconds) {
    test_watch *w = user;
    bool right = w->seen < w->program->count && instr == w->program->list[w->seen] &&
                 seconds >= 0.0 && pthread_equal(w->caller, pthread_self());
    w->wrong += !right;
    w->seen++;
}

static void observer_sees_each_instruction_in_order(void **state) {
    (void)state;
    const device *dev = ebb__device_default();
    ebb_ctx *ctx = new_ctx();
    test_program expected, p;
    device_stream *stream;
    program_open(&expected, ctx, 0);
    run_reference(&expected);
    program_open(&p, ctx, 3);
    assert_int_equal(dev->stream.create(dev, ctx, 3, &stream), EBB_OK);
    test_watch w = {.program = &p, .caller = pthread_self()};
    dev->stream.run(stream, p.list, p.count, watch, &w);
    assert_int_equal(w.seen, p.count);
    assert_int_equal(w.wrong, 0);
    assert_same_values(&p, &expected);
    dev->stream.run(stream, p.list, 0, watch, &w); /* an empty list is fine */
    assert_int_equal(w.seen, p.count);
    dev->stream.destroy(stream);
    program_close(&p);
    program_close(&expected);
    ebb_ctx_free(ctx);
}

/* ---- a run whose blocks are mostly done by another member than the one that observes ---- */

enum { BLOCKS = 6, WORK = 200000 };

typedef struct test_run {
    atomic_int taken[2]; /* blocks of the first instruction, by member */
    _Atomic double spent;
    double told[2], all;
} test_run;

static test_run lopsided;

/* Takes a while, and notes how long. */
static void work_kernel(const op_call *call) {
    double start = ebb__clock_seconds(), spent = atomic_load(&lopsided.spent);
    volatile double x = 1;
    for (int i = 0; i < WORK; i++) {
        x = 0.5 * x + 1;
    }
    double seconds = ebb__clock_seconds() - start;
    while (!atomic_compare_exchange_weak(&lopsided.spent, &spent, spent + seconds)) {
    }
    atomic_fetch_add(&lopsided.taken[call->worker], 1);
}

/* Member 0 stays here with its first block until all other blocks were taken over. */
static void wait_kernel(const op_call *call) {
    while (call->worker == 0 &&
           atomic_load(&lopsided.taken[0]) + atomic_load(&lopsided.taken[1]) < BLOCKS) {
    }
}

static void hear(void *user, const device_instr *instr, double seconds) {
    test_run *r = user;
    r->told[instr->node] += seconds;
    r->all += seconds;
}

/* An instruction never seems faster than its members together were. */
static void times_are_those_of_all_members(void **state) {
    (void)state;
    const device *dev = ebb__device_default();
    ebb_ctx *ctx = new_ctx();
    device_stream *stream;
    device_instr instrs[2] = {
        {.run = work_kernel, .call = {.members = 2}, .units = BLOCKS, .block = 1, .node = 0},
        {.run = wait_kernel, .call = {.members = 2}, .joined = true, .node = 1}};
    const device_instr *list[2] = {&instrs[0], &instrs[1]};
    memset(&lopsided, 0, sizeof lopsided);
    assert_int_equal(dev->stream.create(dev, ctx, 2, &stream), EBB_OK);
    double start = ebb__clock_seconds();
    dev->stream.run(stream, list, 2, hear, &lopsided);
    double wall = ebb__clock_seconds() - start;
    assert_int_equal(lopsided.taken[0] + lopsided.taken[1], BLOCKS);
    assert_true(lopsided.told[0] >= lopsided.spent / 2);
    assert_true(lopsided.all <= wall);
    dev->stream.destroy(stream);
    ebb_ctx_free(ctx);
}

static void failed_creation_leaves_nothing(void **state) {
    (void)state;
    const device *dev = ebb__device_default();
    ebb_ctx *ctx = new_ctx();
    ebb_status status = EBB_INTERNAL;
    for (uint64_t n = 1; status != EBB_OK; n++) {
        device_stream *stream;
        assert_in_range(n, 1, 100);
        ctx->mem.fail_at = n;
        status = dev->stream.create(dev, ctx, 2, &stream);
        ctx->mem.fail_at = 0;
        if (status == EBB_OK) {
            assert_true(n > 1);
            dev->stream.destroy(stream);
        } else {
            assert_null(stream);
        }
        ebb__ctx_clear(ctx);
        assert_int_equal(ctx->mem.live_bytes, 0);
    }
    ebb_ctx_free(ctx);
}

static void buffer_is_zero_and_writable_to_its_last_byte(void **state) {
    (void)state;
    const device *dev = ebb__device_default();
    const size_t sizes[] = {1, 4096, 100001};
    ebb_ctx *ctx = new_ctx();
    for (size_t s = 0; s < sizeof sizes / sizeof *sizes; s++) {
        void *buffer;
        assert_int_equal(dev->buffer.create(dev, ctx, sizes[s], &buffer), EBB_OK);
        dev->buffer.touch(buffer, sizes[s]);
        unsigned char *bytes = buffer, any = 0;
        for (size_t i = 0; i < sizes[s]; i++) {
            any |= bytes[i];
            bytes[i] = 1;
        }
        assert_int_equal(any, 0);
        dev->buffer.touch(buffer, sizes[s]); /* keeps what is there */
        assert_int_equal(bytes[0], 1);
        assert_int_equal(bytes[sizes[s] - 1], 1);
        dev->buffer.destroy(ctx, buffer, sizes[s]);
    }
    assert_int_equal(ctx->mem.live_bytes, 0);
    ebb_ctx_free(ctx);
}

static void device_says_what_it_is(void **state) {
    (void)state;
    const device *dev = ebb__device_default();
    char text[256] = "", tiny[4];
    dev->describe(dev, text, sizeof text);
    assert_true(strlen(text) > 0);
    dev->describe(dev, tiny, sizeof tiny); /* cut, not overrun */
    assert_int_equal(strlen(tiny), 3);
    assert_true(dev->flops_per_second > 0 && dev->bytes_per_second > 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(any_number_of_members_gives_the_same_bits),
        cmocka_unit_test(observer_sees_each_instruction_in_order),
        cmocka_unit_test(times_are_those_of_all_members),
        cmocka_unit_test(failed_creation_leaves_nothing),
        cmocka_unit_test(buffer_is_zero_and_writable_to_its_last_byte),
        cmocka_unit_test(device_says_what_it_is),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
