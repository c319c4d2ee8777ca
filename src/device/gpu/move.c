/* move.c - kernels that only move elements: kernels/move.cl. */
#include "device/gpu/family.h"

/* The lanes of a panel for each k and group. */
static gpu_extent by_lanes(const op_call *call) {
    int32_t lanes = call->attr->i[2] > 1 ? call->attr->i[2] : 1;
    gpu_extent all = extent_of(&call->out[0]);
    return (gpu_extent){all.rows, all.units / lanes};
}

/* clang-format off */
static const gpu_kernel kernels[] = {
    GPU_ELEMENT(COPY, copy, by_result)
    GPU_ELEMENT(REGROUP, regroup, by_result)
    GPU_ELEMENT(FILL, fill, by_result)
    GPU_ELEMENT(TRANSPOSE, transpose, by_result)
    {.op = OP_PACK, .forms = {{.name = "", .stages = {{"pack", by_lanes, 16, 4, 16, 4}}}}},
};
/* clang-format on */
GPU_FAMILY(move, kernels);
