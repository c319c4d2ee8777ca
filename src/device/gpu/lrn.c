/* lrn.c - local response normalisation: kernels/lrn.cl. */
#include "device/gpu/map.h"

/* clang-format off */
static const gpu_kernel kernels[] = {
    GPU_ITEMS(LRN, lrn, by_map)
    GPU_ITEMS(LRN_GRAD, lrn_grad, by_map)
};
/* clang-format on */
GPU_FAMILY(lrn, kernels);
