/* reduce.c - sums and what is made of the sums of rows: kernels/reduce.cl. */
#include "device/gpu/family.h"

/* clang-format off */
static const gpu_kernel kernels[] = {
    GPU_ITEMS(SUM_ROWS, sum_rows, by_result)
    GPU_LANES(SUM_ALL, sum_all, once)
    GPU_LANES(SUM_SQUARES, sum_squares, by_sums)
    GPU_LANES(SUM_SQUARES_PART, sum_squares_part, by_sums)
    GPU_LANES(SOFTMAX, softmax, by_rows)
    GPU_LANES(SOFTMAX_GRAD, softmax_grad, by_rows)
    GPU_LANES(ROW_MAX, row_max, by_rows)
};
/* clang-format on */
GPU_FAMILY(reduce, kernels);
