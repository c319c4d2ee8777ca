/* golden.h - for tests: files of PyTorch's results (tools/golden), a model's graph run by the
 * reference interpreter and compared with them, then planned programs against the interpreter. */
#ifndef GOLDEN_GOLDEN_H
#define GOLDEN_GOLDEN_H

#include "golden/lm_graph.h"

#include "store/safetensors.h"

#include <math.h>
#include <stdlib.h>

/* Largest difference of a tensor, relative to its largest element, and norm of the difference,
 * relative to its norm. Gradients are within 2e-6; weights after ten steps of Adam within 4e-6,
 * since float32 holds 1 - 0.999 only to 1.3e-5. */
#define BOUND 1e-5
#define LOSS_BOUND 1e-6

typedef struct golden {
    ebb_ctx *ctx;
    const char *name;
    const char *outputs; /* stands before the names of outputs in the file */
    st_reader file;
} golden;

/* ---- the file ---- */

static inline const char *note(const golden *g, const char *key) {
    const char *text = ebb__safetensors_note(&g->file, key);
    if (text == NULL) {
        fail_msg("%s: no note %s", g->name, key);
    }
    return text;
}

static inline double number(const golden *g, const char *run, const char *key) {
    char name[64];
    (void)snprintf(name, sizeof name, "%s%s%s", run, *run ? "." : "", key);
    return strtod(note(g, name), NULL);
}

static inline void open_golden(golden *g, const char *name) {
    char path[512];
    const char *slash = strrchr(__FILE__, '/');
    int folder = slash == NULL ? 0 : (int)(slash + 1 - __FILE__);
    *g = (golden){.name = name, .outputs = ""};
    assert_int_equal(ebb_ctx_new(&g->ctx), EBB_OK);
    (void)snprintf(path, sizeof path, "%.*s%s.safetensors", folder, __FILE__, name);
    must(g->ctx, ebb__safetensors_open(g->ctx, path, &g->file));
}

static inline void close_golden(golden *g) {
    ebb__safetensors_close(&g->file);
    assert_int_equal(g->ctx->mem.live_blocks, 0);
    ebb_ctx_free(g->ctx);
}

static inline const st_tensor *find(const golden *g, const char *prefix, const char *name) {
    char full[128];
    (void)snprintf(full, sizeof full, "%s%s", prefix, name);
    const st_tensor *tensor = ebb__safetensors_find(&g->file, full);
    if (tensor == NULL) {
        fail_msg("%s: no tensor %s", g->name, full);
    }
    return tensor;
}

/* A variable's content before step `step`; what the file does not hold (slots) is 0. */
static inline void fill(const golden *g, ir_role role, const char *name, void *data, uint64_t bytes,
                        int64_t step) {
    if (role == IR_INPUT) {
        const st_tensor *steps = find(g, "", name);
        size_t all = (size_t)(steps->end - steps->begin);
        char *content = malloc(all);
        assert_non_null(content);
        assert_in_range((uint64_t)step * bytes, 0, all - bytes);
        must(g->ctx, ebb__safetensors_read(&g->file, steps, content, all));
        memcpy(data, content + (uint64_t)step * bytes, (size_t)bytes);
        free(content);
    } else if (role == IR_PARAM || role == IR_STATE || role == IR_BUFFER) {
        must(g->ctx, ebb__safetensors_read(&g->file, find(g, "", name), data, (size_t)bytes));
    } else {
        memset(data, 0, (size_t)bytes);
    }
}

typedef struct golden_error {
    double largest, norm; /* of the differences, relative */
} golden_error;

static inline golden_error compare(const float *got, const float *want, size_t n) {
    double most = 0, worst = 0, all = 0, off = 0;
    for (size_t i = 0; i < n; i++) {
        double difference = fabs((double)got[i] - (double)want[i]), size = fabs((double)want[i]);
        most = fmax(most, size);
        worst = difference <= worst ? worst : difference; /* a NaN stays */
        all += size * size;
        off += difference * difference;
    }
    return (golden_error){most > 0 ? worst / most : worst, all > 0 ? sqrt(off / all) : sqrt(off)};
}

static inline void assert_within(const golden *g, const char *prefix, const char *name,
                                 const float *got, double bound) {
    const st_tensor *tensor = find(g, prefix, name);
    size_t bytes = (size_t)(tensor->end - tensor->begin);
    float *want = malloc(bytes);
    assert_non_null(want);
    must(g->ctx, ebb__safetensors_read(&g->file, tensor, want, bytes));
    golden_error error = compare(got, want, bytes / sizeof *got);
    free(want);
    if (!(error.largest <= bound && error.norm <= bound)) {
        fail_msg("%s: %s%s is off by %.3g of its largest element, %.3g of its norm; allowed %g",
                 g->name, prefix, name, error.largest, error.norm, bound);
    }
}

static inline void assert_close(const golden *g, const char *prefix, const char *name,
                                const float *got) {
    assert_within(g, prefix, name, got, BOUND);
}

/* More than one part of the file's batch: two halves, else every row by itself. */
static inline int64_t shards_of(const golden *g) {
    int64_t batch = (int64_t)number(g, "", "batch");
    return batch % 2 == 0 ? 2 : batch;
}

/* ---- one step: outputs and gradients ---- */

/* Every parameter's gradient becomes the output "grad.<param>". */
static inline void add_gradients(ir_graph *graph) {
    ir_val *grads = NULL;
    int32_t n = 0;
    differentiate(graph, &grads, &n);
    for (ir_val v = 0; v < n; v++) {
        if (graph->values[v].role != IR_PARAM) {
            continue;
        }
        char name[96];
        ir_val grad = grads[v];
        assert_int_not_equal(grad, IR_NONE);
        if (graph->values[grad].name != NULL) { /* both biases of a cell have the same */
            must(graph->ctx, ebb__op_emit(graph, OP_COPY, &grads[v], 1, NULL, &grad));
        }
        (void)snprintf(name, sizeof name, "grad.%s", graph->values[v].name);
        graph->values[grad].output = true;
        must(graph->ctx, ebb__ir_name(graph, grad, name));
    }
}

static inline void run_reference(const golden *g, const ir_graph *graph, run_interp *interp) {
    must(g->ctx, ebb__interp_init(interp, graph));
    for (ir_val v = 0; v < graph->n_values; v++) {
        const ir_value *value = &graph->values[v];
        if (value->role != IR_TEMP) {
            fill(g, value->role, value->name, interp->data[v], ebb__ir_type_bytes(&value->type), 0);
        }
    }
    must(g->ctx, ebb__interp_step(interp));
}

static inline void compare_with_file(const golden *g, const run_interp *interp) {
    const ir_graph *graph = interp->graph;
    for (ir_val v = 0; v < graph->n_values; v++) {
        const ir_value *value = &graph->values[v];
        if (value->role == IR_TEMP && value->output) {
            assert_within(g, g->outputs, value->name, interp->data[v],
                          v == graph->loss ? LOSS_BOUND : BOUND);
        } else if (value->role == IR_STATE) {
            assert_close(g, "final.", value->name + strlen("state."), interp->data[v]);
        } else if (value->role == IR_BUFFER && value->next != IR_NONE) {
            assert_close(g, "after.", value->name, interp->data[v]);
        }
    }
}

static inline run_session *start(const golden *g, const ir_graph *graph, bool training,
                                 const plan_options *options) {
    plan_request request = {
        .name = training ? "train" : "once", .graph = graph, .training = training};
    ebb_plan *plan = NULL;
    run_session *session = NULL;
    must(g->ctx, ebb__plan_make(g->ctx, &request, 1, NULL, 0, options, &plan));
    must(g->ctx, ebb__run_new(g->ctx, plan, &session));
    plan = session->plan;
    for (int32_t i = 0; i < plan->n_variables; i++) {
        const plan_variable *v = &plan->variables[i];
        if (strcmp(v->name, UPDATE_HYPER) != 0) {
            fill(g, v->role, v->name, ebb__run_variable(session, v->name, NULL), v->bytes, 0);
        }
    }
    return session;
}

static inline void compare_with_session(const golden *g, const run_interp *interp, int threads,
                                        uint32_t disabled) {
    char what[96];
    plan_options options = {.members = threads, .budget = UINT64_MAX, .disabled = disabled};
    run_session *session = start(g, interp->graph, false, &options);
    assert_int_equal(ebb__run_step(session, 0), EBB_OK);
    (void)snprintf(what, sizeof what, "%s, %d threads, disabled passes %#x", g->name, threads,
                   disabled);
    assert_same_bits(what, interp, session);
    assert_int_equal(session->measured_bytes, session->plan->peak_bytes);
    ebb__run_free(session);
}

/* The interpreter's bits for several numbers of threads and whatever optional pass is left out. */
static inline void compare_with_sessions(const golden *g, const run_interp *interp) {
    uint32_t all = 0;
    for (int pass = 0; pass < PASS_COUNT; pass++) {
        if (ebb__pass_optional((pass_id)pass)) {
            compare_with_session(g, interp, 2, 1U << pass);
            all |= 1U << pass;
        }
    }
    for (int threads = 1; threads <= 3; threads++) {
        compare_with_session(g, interp, threads, 0);
        compare_with_session(g, interp, threads, all);
    }
}

/* A graph as its builder left it, which ends here. */
static inline void check_graph(const golden *g, ir_graph *graph) {
    run_interp interp;
    if (graph->loss != IR_NONE) {
        add_gradients(graph);
    }
    must(g->ctx, ebb__op_verify(graph));
    run_reference(g, graph, &interp);
    compare_with_file(g, &interp);
    compare_with_sessions(g, &interp);
    ebb__interp_fini(&interp);
    ebb__ir_fini(graph);
}

/* Numbers that an update reads, for step k = 0, 1, ... */
static inline void set_hyper(run_session *session, double lr, int k) {
    float *hyper = ebb__run_variable(session, UPDATE_HYPER, NULL);
    hyper[0] = (float)lr;
    hyper[1] = (float)(lr / (1 - pow(0.9, k + 1)));
    hyper[2] = (float)sqrt(1 - pow(0.999, k + 1));
}

/* Runs the file's steps one after another, the inputs filled before each; then losses, gradient
 * norms and weights must be those of the file's run. */
static inline void check_steps_of(const golden *g, run_session *session, const char *run, int steps,
                                  double lr) {
    float losses[16], norms[16];
    char prefix[16];
    assert_in_range(steps, 1, 16);
    (void)snprintf(prefix, sizeof prefix, "%s.", run);
    for (int k = 0; k < steps; k++) {
        for (int32_t i = 0; i < session->plan->n_variables; i++) {
            const plan_variable *v = &session->plan->variables[i];
            if (v->role == IR_INPUT && strcmp(v->name, UPDATE_HYPER) != 0) {
                fill(g, IR_INPUT, v->name, ebb__run_variable(session, v->name, NULL), v->bytes, k);
            }
        }
        set_hyper(session, lr, k);
        assert_int_equal(ebb__run_step(session, 0), EBB_OK);
        losses[k] = *(const float *)ebb__run_output(session, 0, "loss");
        norms[k] = (float)*(const double *)ebb__run_output(session, 0, UPDATE_NORM);
    }
    assert_close(g, prefix, "losses", losses);
    assert_close(g, prefix, "norms", norms);
    for (int32_t i = 0; i < session->plan->n_variables; i++) {
        const plan_variable *v = &session->plan->variables[i];
        if (v->role == IR_PARAM || v->role == IR_BUFFER) {
            assert_close(g, prefix, v->name, ebb__run_variable(session, v->name, NULL));
        }
    }
}

#endif
