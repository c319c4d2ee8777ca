/* flatten.c - maps from and to rows, and from bytes: kernels/flatten.cl. */
#include "device/gpu/map.h"

/* clang-format off */
static const gpu_kernel kernels[] = {
    GPU_ITEMS(FLATTEN, flatten, by_operand_map)
    GPU_ITEMS(UNFLATTEN, unflatten, by_map)
    GPU_ITEMS(IMAGES, images, by_map)
};
/* clang-format on */
GPU_FAMILY(flatten, kernels);
