/* pool.c - pools of maps: kernels/pool.cl. */
#include "device/gpu/map.h"

/* clang-format off */
static const gpu_kernel kernels[] = {
    GPU_ITEMS(MAX_POOL, max_pool, by_map)
    GPU_ITEMS(MAX_POOL_GRAD, max_pool_grad, by_map)
    GPU_ITEMS(AVG_POOL, avg_pool, by_map)
    GPU_ITEMS(AVG_POOL_GRAD, avg_pool_grad, by_map)
    GPU_ITEMS(POOL_INDEX, pool_index, by_steps)
    GPU_ITEMS(MAX_POOL_GRAD_AT, max_pool_grad_at, by_map)
};
/* clang-format on */
GPU_FAMILY(pool, kernels);
