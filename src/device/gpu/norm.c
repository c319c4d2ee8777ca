/* norm.c - layer norm: kernels/norm.cl. */
#include "device/gpu/family.h"

/* clang-format off */
static const gpu_kernel kernels[] = {
    GPU_LANES(LAYER_NORM, layer_norm, by_rows)
    GPU_LANES(LAYER_NORM_GRAD, layer_norm_grad, by_rows)
    GPU_ITEMS(LAYER_NORM_GAIN, layer_norm_gain, by_result)
};
/* clang-format on */
GPU_FAMILY(norm, kernels);
