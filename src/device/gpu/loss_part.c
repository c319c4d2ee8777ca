/* loss_part.c - cross-entropy in parts of its classes: kernels/loss_part.cl. */
#include "device/gpu/family.h"

/* Rows and classes of the part. */
static gpu_extent by_logits(const op_call *call) {
    return extent_of(&call->in[1]);
}

/* clang-format off */
static const gpu_kernel kernels[] = {
    GPU_LANES(XENT_PART, xent_part, by_logits)
    GPU_LANES(XENT_END, xent_end, by_rows)
};
/* clang-format on */
GPU_FAMILY(loss_part, kernels);
