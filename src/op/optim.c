/* optim.c - global-norm clipping and the parameter updates: SGD, SGD with momentum, Adam, AdamW.
 *
 * Formulas and their order are PyTorch's. Updates run in place: result i takes the bytes of its
 * operand. hyper [4] = {lr, lr / (1 - beta1^t), sqrt(1 - beta2^t), 0} is written before each step;
 * scale [1], the clipping factor, is optional. Gradients are dense here; embed.c has an update
 * for one that is known by its rows.
 */
#include "op/define.h"

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
          .flags = OPF_NOGRAD, .layout = LAYOUT_DENSE, .infer = infer_update, INPLACE({0, 0}),
          .work.flops = 4, SAMPLES(samples_sgd));

static const op_sample samples_sgd_momentum[] = {
    {IN(F2(1, 1), F2(1, 1), F2(1, 1), F1(1), F1(4)), .fill = {0, 0, 0, FILL_ABSENT},
     .attr = {.f = {0.9f}}},
    {IN(F1(17), F1(17), F1(17), F1(1), F1(4)), .attr = {.f = {0.9f, 0.01f}}},
    {IN(F2(33, 65), F2(33, 65), F2(33, 65), F1(1), F1(4)), .attr = {.f = {0.5f}}},
    {IN(F2(301, 19), F2(301, 19), F2(301, 19), F1(1), F1(4)), .fill = {0, 0, 0, FILL_ABSENT},
     .attr = {.f = {0.9f, 0.1f}}},
};

OP_DEFINE(sgd_momentum, .schema.floats = {"momentum", "weight_decay"}, .n_in = 5,
          .optional = 1u << 3, .n_out = 2, .flags = OPF_NOGRAD, .layout = LAYOUT_DENSE,
          .infer = infer_update, INPLACE({0, 0}, {2, 1}), .work.flops = 4,
          SAMPLES(samples_sgd_momentum));

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
          .optional = 1u << 4, .n_out = 3, .flags = OPF_NOGRAD, .layout = LAYOUT_DENSE,
          .infer = infer_adam, INPLACE({0, 0}, {2, 1}, {3, 2}), .work.flops = 4,
          SAMPLES(samples_adam));
