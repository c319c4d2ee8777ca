/* move.c - kernels that only move elements: kernels/move.cl. */
#include "device/gpu/family.h"

/* clang-format off */
static const gpu_kernel kernels[] = {
    GPU_ELEMENT(COPY, copy, by_result)
    GPU_ELEMENT(REGROUP, regroup, by_result)
    GPU_ELEMENT(FILL, fill, by_result)
    GPU_ELEMENT(TRANSPOSE, transpose, by_result)
    GPU_ELEMENT(PACK, pack, by_result)
};
/* clang-format on */
GPU_FAMILY(move, kernels);
