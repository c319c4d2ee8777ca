/* sign.c - which elements are above 0, a bit each: kernels/sign.cl. */
#include "device/gpu/map.h"

/* clang-format off */
static const gpu_kernel kernels[] = {
    GPU_ITEMS(SIGN_BITS, sign_bits, by_steps)
    GPU_ITEMS(RELU_GRAD_BITS, relu_grad_bits, by_steps)
    GPU_ITEMS(LEAKY_RELU_GRAD_BITS, leaky_relu_grad_bits, by_steps)
};
/* clang-format on */
GPU_FAMILY(sign, kernels);
