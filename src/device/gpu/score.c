/* score.c - scores of attention through a tanh: kernels/score.cl. */
#include "device/gpu/family.h"

/* clang-format off */
static const gpu_kernel kernels[] = {
    GPU_LANES(SCORE_TANH, score_tanh, by_rows)
    GPU_ITEMS(SCORE_TANH_GRAD, score_tanh_grad, by_second)
    GPU_ITEMS(SCORE_SLOPE, score_slope, by_result)
};
/* clang-format on */
GPU_FAMILY(score, kernels);
