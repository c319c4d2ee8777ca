/* loss.c - losses, their mean, and the norm of gradients: kernels/loss.cl. */
#include "device/gpu/family.h"

static size_t one_number(const ir_graph *graph, const ir_node_rec *node) {
    (void)graph, (void)node;
    return sizeof(int32_t);
}

/* clang-format off */
static const gpu_kernel kernels[] = {
    GPU_LANES(XENT, xent, by_rows)
    GPU_ELEMENT(XENT_GRAD, xent_grad, by_result)
    {.op = OP_MEAN_VALID, .forms = {{.name = "", .stages = {{"mean_valid", once, 1, 1, 1, 1}}}}},
    {.op = OP_MEAN_VALID_GRAD,
     .forms = {{.name = "", .workspace = one_number,
                .stages = {{"count_valid", once, 1, 1, 1, 1},
                           {"mean_valid_grad", by_result, 64, 4, 64, 4}}}}},
    {.op = OP_CLIP_SCALE, .forms = {{.name = "", .stages = {{"clip_scale", once, 1, 1, 1, 1}}}}},
};
/* clang-format on */
GPU_FAMILY(loss, kernels);
