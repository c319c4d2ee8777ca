/* conv.c - convolution and its gradients: kernels/conv.cl. */
#include "device/gpu/map.h"

#include "op/conv.h"

/* Taps, and pairs of channels. */
static gpu_extent by_weights(const op_call *call) {
    const int32_t *d = call->out[0].type.dim;
    return (gpu_extent){(int64_t)d[2] * d[3], (int64_t)d[0] * d[1]};
}

/* clang-format off */
static const gpu_kernel kernels[] = {
    GPU_ITEMS(CONV, conv, by_map)
    GPU_ITEMS(CONV_DATA, conv_data, by_map)
    GPU_ITEMS(CONV_WEIGHTS, conv_weights, by_weights)
    GPU_ITEMS(CONV_WEIGHTS_NORM, conv_weights_norm, by_weights)
    GPU_ITEMS(CONV_WEIGHTS_NARROW, conv_weights_narrow, by_weights)
    GPU_ITEMS(CONV_BIAS, conv_bias, by_result)
};
/* clang-format on */
GPU_FAMILY(conv, kernels);
