/* update.c - updates whose gradient is a product that lies nowhere: kernels/update.cl. */
#include "device/gpu/family.h"

/* A group for each block of squares. */
static gpu_extent by_blocks(const op_call *call) {
    return (gpu_extent){ir_cols(&call->out[call->n_out - 1].type), 1};
}

#define PRODUCT(upper, lower)                                                                      \
    {.op = OP_##upper, .forms = {{.name = "", .stages = {{#lower, by_blocks, 16, 16, 0, 1}}}}},

/* clang-format off */
static const gpu_kernel kernels[] = {
    PRODUCT(PRODUCT_SGD, product_sgd)
    PRODUCT(PRODUCT_MOMENTUM, product_momentum)
    PRODUCT(PRODUCT_ADAM, product_adam)
};
/* clang-format on */
GPU_FAMILY(update, kernels);
