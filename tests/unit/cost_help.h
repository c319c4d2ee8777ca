/* cost_help.h - a device whose time is made up, for the tests of measured times: one product kernel
 * with three forms, and a stream that runs nothing but lets `fake.now` go on as if it had. */
#ifndef TESTS_UNIT_COST_HELP_H
#define TESTS_UNIT_COST_HELP_H

#include "support/graphs.h"

#include "cost/store.h"
#include "cost/tune.h"

#include <stdio.h>

enum { FORM_SLOW = 7, FORM_FAST = 300, FORM_LEAN = -4, N_FAKE_FORMS = 3 };

/* The time, what each form takes of it, and what the stream saw. */
typedef struct fake_clock {
    bool on;                      /* there is a fake device */
    double now, slow, fast, lean; /* seconds */
    double cold;                  /* more, where another form ran before */
    double (*load)(double now);   /* how many times as long all takes; NULL: once */
    int32_t last;                 /* the form that ran before */
    int runs;
    uintptr_t low, high;   /* addresses of all operands and results */
    int64_t most_elements; /* of a result */
    uint64_t most_bytes;   /* between the lowest and the highest address of one product */
    const char *machine;
    double away; /* share of all time in which others have the core */
} fake_clock;
static fake_clock fake;

static inline int32_t fake_forms(const ir_graph *graph, const ir_node_rec *node, int members,
                                 int32_t *list) {
    (void)graph;
    (void)node;
    (void)members;
    list[0] = FORM_SLOW;
    list[1] = FORM_FAST;
    list[2] = FORM_LEAN;
    return N_FAKE_FORMS;
}

static inline void fake_name(int32_t form, char *text, size_t bytes) {
    /* Codes come from the kernel alone: those of a file are never shown to it. */
    assert_true(form == FORM_SLOW || form == FORM_FAST || form == FORM_LEAN);
    (void)snprintf(text, bytes, "form %d", form);
}

static inline size_t fake_scratch(const ir_graph *graph, const ir_node_rec *node, int32_t form,
                                  int members) {
    (void)graph;
    (void)node;
    assert_true(form == FORM_SLOW || form == FORM_FAST || form == FORM_LEAN);
    return (size_t)members * (form == FORM_LEAN ? 8 : 4096);
}

static inline void fake_kernel(const op_call *call) {
    (void)call;
}

static inline ebb_status fake_create(const device *dev, ebb_ctx *ctx, int members,
                                     device_stream **out) {
    (void)dev, (void)ctx;
    (void)members;
    *out = (device_stream *)(void *)&fake;
    return EBB_OK;
}

static inline void fake_destroy(device_stream *stream) {
    (void)stream;
}

static inline void look_at(const op_call *call) {
    uintptr_t low = UINTPTR_MAX, high = 0;
    for (int32_t i = 0; i < call->n_in + call->n_out; i++) {
        const op_view *view = i < call->n_in ? &call->in[i] : &call->out[i - call->n_in];
        uintptr_t at = (uintptr_t)view->data;
        if (view->data != NULL) {
            low = at < low ? at : low;
            high = at + ebb__ir_type_bytes(&view->type) > high
                       ? at + ebb__ir_type_bytes(&view->type)
                       : high;
        }
    }
    fake.low = low < fake.low ? low : fake.low;
    fake.high = high > fake.high ? high : fake.high;
    int64_t elements = ebb__ir_rows(&call->out[0].type) * ir_cols(&call->out[0].type);
    fake.most_elements = elements > fake.most_elements ? elements : fake.most_elements;
    fake.most_bytes = high - low > fake.most_bytes ? high - low : fake.most_bytes;
    memset(call->out[0].data, 0, ebb__ir_type_bytes(&call->out[0].type)); /* it is really there */
    if (call->workspace != NULL) {
        memset(call->workspace, 0, call->workspace_bytes);
    }
}

static inline ebb_status fake_run(device_stream *stream, const device_instr *const *instrs,
                                  int32_t count, device_observe_fn observe, void *user) {
    (void)user;
    assert_ptr_equal(stream, &fake);
    assert_null(observe); /* would be told times that this stream does not have */
    for (int32_t i = 0; i < count; i++) {
        int32_t form = instrs[i]->call.form;
        double seconds = form == FORM_FAST ? fake.fast : form == FORM_LEAN ? fake.lean : fake.slow;
        look_at(&instrs[i]->call);
        fake.now += (seconds + (form == fake.last ? 0 : fake.cold)) *
                    (fake.load == NULL ? 1 : fake.load(fake.now));
        fake.last = form;
        fake.runs++;
    }
    return EBB_OK;
}

static inline void fake_describe(const device *dev, char *text, size_t bytes) {
    (void)dev;
    (void)snprintf(text, bytes, "%s", fake.machine);
}

static const device_kernel fake_kernels[] = {
    {.name = "matmul.fake",
     .op = OP_MATMUL,
     .forms = fake_forms,
     .form_name = fake_name,
     .workspace = fake_scratch,
     .run = fake_kernel},
    {.name = "transpose.fake", .op = OP_TRANSPOSE, .run = fake_kernel}};

static inline device fake_device(void) {
    device dev = *ebb__device_default();
    fake = (fake_clock){.on = true,
                        .slow = 3e-3,
                        .fast = 1e-3,
                        .lean = 2e-3,
                        .cold = 5e-3,
                        .low = UINTPTR_MAX,
                        .machine = "a machine"};
    dev.kernels = fake_kernels;
    dev.n_kernels = 2;
    dev.stream = (device_stream_table){fake_create, fake_destroy, .run = fake_run};
    dev.describe = fake_describe;
    return dev;
}

/* Two products of one kind, one of another, a transpose, and what is not worth a measurement. */
#define COST_GRAPH                                                                                 \
    "input %0 f32[12,20] \"x\"\ninput %1 f32[20,20] \"w\"\ninput %2 i32[12] \"ids\"\n"             \
    "%3:f32[12,20] = matmul - %0 %1\n%4:f32[12,20] = matmul %3 %3 %1\n"                            \
    "%5:f32[12,20] = matmul - %4 %1 {trans_b=1}\n%6:f32[20,12] = transpose %5\n"                   \
    "%7:f32[12,20] = embed %1 %2\n%8:f32[12,20] = tanh %7\n"                                       \
    "output %6 \"y\"\noutput %8 \"z\"\n"

typedef struct cost_room {
    ebb_ctx *ctx;
    device dev;
    ir_graph graph;
    int32_t kernels[64]; /* by node */
    cost_table table;
    cost_survey survey;
} cost_room;

static inline void cost_room_init(cost_room *room, const char *text, int members) {
    room->ctx = test_ctx_new();
    room->dev = fake_device();
    test_parse(room->ctx, text, &room->graph);
    assert_true(room->graph.n_nodes <= 64);
    for (int32_t i = 0; i < room->graph.n_nodes; i++) {
        int op = room->graph.nodes[i].op;
        room->kernels[i] = op == OP_MATMUL ? 0 : op == OP_TRANSPOSE ? 1 : -1;
    }
    ebb__cost_table_init(&room->table, room->ctx, &room->dev);
    ebb__cost_survey_init(&room->survey, room->ctx, &room->dev, members);
}

static inline void cost_room_fini(cost_room *room) {
    ebb__cost_survey_fini(&room->survey);
    ebb__cost_table_fini(&room->table);
    ebb__ir_fini(&room->graph);
    test_ctx_free(room->ctx);
    fake.on = false;
}

/* The n-th product of the room's graph. */
static inline const ir_node_rec *cost_node(const cost_room *room, int nth) {
    return test_node(&room->graph, OP_MATMUL, nth);
}

static inline cost_entry *cost_add(cost_room *room, int nth, int members) {
    cost_key key;
    cost_entry *entry = NULL;
    assert_true(ebb__cost_key(&room->dev, &room->graph, cost_node(room, nth), 0, members, &key));
    assert_ok(room->ctx, ebb__cost_table_add(&room->table, &key, &entry));
    return entry;
}

#endif
