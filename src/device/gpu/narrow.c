/* narrow.c - numbers of formats of few bits: kernels/narrow.cl. */
#include "device/gpu/map.h"

#include "op/narrow.h"

/* Codes or, of 10 bits, words of three. */
static gpu_extent by_codes(const op_call *call) {
    gpu_extent extent = by_steps(call);
    extent.units /= call->attr->i[NARROW_FORMAT] == 10 ? 4 : 1;
    return extent;
}

/* clang-format off */
static const gpu_kernel kernels[] = {
    GPU_ELEMENT(ROUND_TO, round_to, by_result)
    GPU_ITEMS(NARROW, narrow, by_codes)
    GPU_ITEMS(WIDEN, widen, by_steps)
    GPU_ITEMS(RELU_GRAD_CODES, relu_grad_codes, by_steps)
};
/* clang-format on */
GPU_FAMILY(narrow, kernels);
