/* optim.c - global-norm clipping and the parameter updates: SGD, SGD with momentum, Adam, AdamW.
 *
 * An exponential average of a parameter is moved by what hyper[3] says, after the update.
 *
 * Formulas and their order are PyTorch's. Updates run in place: result i takes the bytes of its
 * operand. hyper [4] = {lr, lr / (1 - beta1^t), sqrt(1 - beta2^t), share of an average} is written
 * before each step; scale [1], the clipping factor, is optional. Gradients are dense here; embed.c
 * has an update for one that is known by its rows. Or the gradient is a product a^T b, made and
 * used up a few rows at a time, which the updates at the end do together with the sums of its
 * squares.
 */
#include "op/define.h"
#include "op/squares.h"

#define REF_FAMILY "op/ref/optim.inc"
#include "op/ref/twice.h"

/* ---- clip_scale ---- */

static ebb_status infer_clip_scale(const ir_graph *graph, const ir_node_rec *node, ir_type *out) {
    for (int32_t i = 0; i < node->n_in; i++) {
        TRY(ebb__op_need_list(graph, node, i, IR_F64, op_in_type(graph, node, i)->dim[0]));
    }
    if (!isfinite(node->attr.f[0])) {
        return ebb__op_bad(graph, node, "clip must be finite (0 or less: no clipping)");
    }
    out[0] = op_list(IR_F32, 1);
    out[1] = op_list(IR_F64, 1);
    out[2] = op_list(IR_I32, 1);
    return EBB_OK;
}

#define POSITIVE FILL_POSITIVE, FILL_POSITIVE, FILL_POSITIVE
static const op_sample samples_clip_scale[] = {
    {IN(D1(1)), .fill = {POSITIVE}, .attr = {.f = {0.0f}}},
    {IN(D1(3), D1(1)), .fill = {POSITIVE}, .attr = {.f = {0.25f}}},
    {IN(D1(17), D1(33), D1(2)), .fill = {POSITIVE}, .attr = {.f = {1.0f}}},
    {IN(D1(301)), .fill = {POSITIVE}, .attr = {.f = {1000.0f}}},
};

OP_DEFINE(clip_scale, .schema.floats = {"clip"}, .n_in = 1, .n_out = 3,
          .flags = OPF_NOGRAD | OPF_VARIADIC, .layout = LAYOUT_DENSE, .infer = infer_clip_scale,
          .work.flops = 1, SAMPLES(samples_clip_scale));

/* ---- updates: operands w, g, n_state states, scale?, hyper; results w and the states ---- */

static ebb_status infer_update(const ir_graph *graph, const ir_node_rec *node, ir_type *out) {
    int32_t n_same = node->n_in - 2;
    TRY(ebb__op_need(graph, node, 0, IR_F32));
    for (int32_t i = 1; i < n_same; i++) {
        TRY(ebb__op_need_same(graph, node, i, 0));
    }
    TRY(ebb__op_need_list(graph, node, n_same, IR_F32, 1));
    TRY(ebb__op_need_list(graph, node, n_same + 1, IR_F32, 4));
    for (int32_t i = 0; i < node->n_out; i++) {
        out[i] = *op_in_type(graph, node, 0);
    }
    for (int32_t i = 0; i < IR_MAX_FLOATS; i++) {
        if (!(node->attr.f[i] >= 0.0f && isfinite(node->attr.f[i]))) {
            return ebb__op_bad(graph, node, "attributes must be finite and not negative");
        }
    }
    return EBB_OK;
}

static ebb_status infer_adam(const ir_graph *graph, const ir_node_rec *node, ir_type *out) {
    if (!(node->attr.f[0] < 1.0f && node->attr.f[1] < 1.0f)) {
        return ebb__op_bad(graph, node, "beta1 and beta2 must be below 1");
    }
    return infer_update(graph, node, out);
}

static const op_sample samples_sgd[] = {
    {IN(F2(1, 1), F2(1, 1), F1(1), F1(4)), .fill = {0, 0, FILL_ABSENT}},
    {IN(F1(17), F1(17), F1(1), F1(4)), .attr = {.f = {0.01f}}},
    {IN(F2(33, 65), F2(33, 65), F1(1), F1(4))},
    {IN(F2(301, 19), F2(301, 19), F1(1), F1(4)), .fill = {0, 0, FILL_ABSENT},
     .attr = {.f = {0.1f}}},
};

OP_DEFINE(sgd, .schema.floats = {"weight_decay"}, .n_in = 4, .optional = 1u << 2, .n_out = 1,
          .flags = OPF_NOGRAD, .infer = infer_update, INPLACE({0, 0}), .work.flops = 4,
          SAMPLES(samples_sgd));

static const op_sample samples_sgd_momentum[] = {
    {IN(F2(1, 1), F2(1, 1), F2(1, 1), F1(1), F1(4)), .fill = {0, 0, 0, FILL_ABSENT},
     .attr = {.f = {0.9f}}},
    {IN(F1(17), F1(17), F1(17), F1(1), F1(4)), .attr = {.f = {0.9f, 0.01f}}},
    {IN(F2(33, 65), F2(33, 65), F2(33, 65), F1(1), F1(4)), .attr = {.f = {0.5f}}},
    {IN(F2(301, 19), F2(301, 19), F2(301, 19), F1(1), F1(4)), .fill = {0, 0, 0, FILL_ABSENT},
     .attr = {.f = {0.9f, 0.1f}}},
};

OP_DEFINE(sgd_momentum, .schema.floats = {"momentum", "weight_decay"}, .n_in = 5,
          .optional = 1u << 3, .n_out = 2, .flags = OPF_NOGRAD, .infer = infer_update,
          INPLACE({0, 0}, {2, 1}), .work.flops = 4, SAMPLES(samples_sgd_momentum));

/* The second moment and hyper are positive. */
#define ADAM(with, adamw, wd, ...)                                                                 \
    IN(__VA_ARGS__, F1(1), F1(4)), .fill = {0, 0, 0, FILL_POSITIVE, with, FILL_POSITIVE},          \
                                   .attr = {.i = {adamw}, .f = {0.9f, 0.999f, 1e-8f, wd}}
static const op_sample samples_adam[] = {
    {ADAM(FILL_ABSENT, 0, 0.0f, F2(1, 1), F2(1, 1), F2(1, 1), F2(1, 1))},
    {ADAM(FILL_UNIT, 0, 0.01f, F1(17), F1(17), F1(17), F1(17))},
    {ADAM(FILL_UNIT, 1, 0.01f, F2(33, 65), F2(33, 65), F2(33, 65), F2(33, 65))},
    {ADAM(FILL_ABSENT, 1, 0.1f, F2(301, 19), F2(301, 19), F2(301, 19), F2(301, 19))},
    {ADAM(FILL_UNIT, 1, 0.0f, F2(5, 3), F2(5, 3), F2(5, 3), F2(5, 3))},
};

OP_DEFINE(adam, .schema.ints = {"decoupled"},
          .schema.floats = {"beta1", "beta2", "eps", "weight_decay"}, .n_in = 6,
          .optional = 1u << 4, .n_out = 3, .flags = OPF_NOGRAD, .infer = infer_adam,
          INPLACE({0, 0}, {2, 1}, {3, 2}), .work.flops = 4, SAMPLES(samples_adam));

static ebb_status infer_average(const ir_graph *graph, const ir_node_rec *node, ir_type *out) {
    TRY(ebb__op_need(graph, node, 0, IR_F32));
    TRY(ebb__op_need_same(graph, node, 1, 0));
    TRY(ebb__op_need_list(graph, node, 2, IR_F32, 4));
    out[0] = *op_in_type(graph, node, 0);
    return EBB_OK;
}

static const op_sample samples_average[] = {
    {IN(F2(1, 1), F2(1, 1), F1(4))},
    {IN(F1(17), F1(17), F1(4)), .fill = {0, 0, FILL_UNIT}},
    {IN(F2(33, 65), F2(33, 65), F1(4)), .fill = {0, 0, FILL_UNIT}},
    {IN(F2(301, 19), F2(301, 19), F1(4))},
};

OP_DEFINE(average, .n_in = 3, .n_out = 1, .flags = OPF_NOGRAD, .infer = infer_average,
          INPLACE({0, 0}), .work.flops = 3, SAMPLES(samples_average));

/* ---- with a product as gradient: operands w, n_state states, a, b, hyper; results w, the states
 * and the sums of the product's squares ---- */

static ebb_status infer_product(const ir_graph *graph, const ir_node_rec *node, ir_type *out) {
    const int32_t n_same = node->n_in - 3;
    const ir_type *w = op_in_type(graph, node, 0), *a = op_in_type(graph, node, n_same);
    const ir_type *b = op_in_type(graph, node, n_same + 1);
    for (int32_t i = 0; i < n_same + 2; i++) {
        TRY(ebb__op_need_matrix(graph, node, i));
    }
    for (int32_t i = 1; i < n_same; i++) {
        TRY(ebb__op_need_same(graph, node, i, 0));
    }
    if (a->dim[0] != b->dim[0] || a->dim[1] != w->dim[0] || b->dim[1] != w->dim[1]) {
        return ebb__op_bad(graph, node, "a [B,N] and b [B,K] must be those of w [N,K]");
    }
    TRY(ebb__op_need_list(graph, node, n_same + 2, IR_F32, 4));
    int64_t blocks = squares_blocks(ebb__op_elements(w));
    if (blocks > INT32_MAX) {
        return ebb__op_bad(graph, node, "w has too many elements");
    }
    for (int32_t i = 0; i < n_same; i++) {
        out[i] = *w;
    }
    out[n_same] = op_list(IR_F64, (int32_t)blocks);
    return EBB_OK;
}

/* Done in place: w and the states are read and written. */
static op_cost cost_product(const ir_graph *graph, const ir_node_rec *node) {
    const int32_t n_same = node->n_in - 3;
    double elements = (double)ebb__op_elements(op_in_type(graph, node, 0));
    const ir_type *a = op_in_type(graph, node, n_same);
    return ebb__op_cost_work(graph, node, (2.0 * (double)a->dim[0] + 6.0) * elements);
}

#define PRODUCT(b, n, k) F2(b, n), F2(b, k), F1(4)
static const op_sample samples_product_sgd[] = {
    {IN(F2(1, 1), PRODUCT(1, 1, 1))},
    {IN(F2(33, 24), PRODUCT(5, 33, 24)), .attr = {.f = {0.01f}}},
    {IN(F2(130, 128), PRODUCT(17, 130, 128))},
    {IN(F2(19, 37), PRODUCT(8, 19, 37)), .attr = {.f = {0.1f}}},
};
static const op_sample samples_product_momentum[] = {
    {IN(F2(1, 1), F2(1, 1), PRODUCT(3, 1, 1)), .attr = {.f = {0.9f}}},
    {IN(F2(33, 24), F2(33, 24), PRODUCT(5, 33, 24)), .attr = {.f = {0.9f, 0.01f}}},
    {IN(F2(130, 128), F2(130, 128), PRODUCT(17, 130, 128)), .attr = {.f = {0.5f}}},
    {IN(F2(70, 1024), F2(70, 1024), PRODUCT(3, 70, 1024)), .attr = {.f = {0.9f, 0.1f}}},
};
#define PRODUCT_ADAM(adamw, wd, b, n, k)                                                           \
    IN(F2(n, k), F2(n, k), F2(n, k), PRODUCT(b, n, k)),                                            \
        .fill = {0, 0, FILL_POSITIVE, 0, 0, FILL_POSITIVE},                                        \
        .attr = {.i = {adamw}, .f = {0.9f, 0.999f, 1e-8f, wd}}
static const op_sample samples_product_adam[] = {
    {PRODUCT_ADAM(0, 0.0f, 1, 1, 1)},
    {PRODUCT_ADAM(0, 0.01f, 5, 33, 24)},
    {PRODUCT_ADAM(1, 0.01f, 17, 130, 128)},
    {PRODUCT_ADAM(1, 0.0f, 8, 19, 37)},
};

OP_DEFINE(product_sgd, .schema.floats = {"weight_decay"}, .n_in = 4, .n_out = 2,
          .flags = OPF_NOGRAD | OPF_HEAVY, .infer = infer_product, INPLACE({0, 0}),
          .cost = cost_product, SAMPLES(samples_product_sgd));

OP_DEFINE(product_momentum, .schema.floats = {"momentum", "weight_decay"}, .n_in = 5, .n_out = 3,
          .flags = OPF_NOGRAD | OPF_HEAVY, .infer = infer_product, INPLACE({0, 0}, {1, 1}),
          .cost = cost_product, SAMPLES(samples_product_momentum));

OP_DEFINE(product_adam, .schema.ints = {"decoupled"},
          .schema.floats = {"beta1", "beta2", "eps", "weight_decay"}, .n_in = 6, .n_out = 4,
          .flags = OPF_NOGRAD | OPF_HEAVY, .infer = infer_product, INPLACE({0, 0}, {1, 1}, {2, 2}),
          .cost = cost_product, SAMPLES(samples_product_adam));
