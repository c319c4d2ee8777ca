/* attend.c - attention over blocks of batch rows: kernels/attend.cl. */
#include "device/gpu/family.h"

/* The columns of scores, each with all its blocks. */
static gpu_extent by_columns(const op_call *call) {
    return (gpu_extent){1, ir_cols(&call->out[0].type)};
}

/* clang-format off */
static const gpu_kernel kernels[] = {
    GPU_ITEMS(ADD_EACH, add_each, by_result)
    GPU_ITEMS(SUM_EACH, sum_each, by_result)
    GPU_ITEMS(OUTER_ROWS, outer_rows, by_result)
    GPU_ITEMS(OUTER_EACH, outer_each, by_result)
    GPU_ELEMENT(MASK_ROWS, mask_rows, by_result)
    GPU_ITEMS(WEIGHTED_SUM, weighted_sum, by_result)
    GPU_LANES(DOT_ROWS, dot_rows, by_rows)
    GPU_LANES(DOT_EACH, dot_each, by_rows)
    {.op = OP_MASK_SOFTMAX,
     .forms = {{.name = "", .stages = {{"mask_softmax", by_columns, 16, 16, 16, 1}}}}},
    {.op = OP_MASK_SOFTMAX_GRAD,
     .forms = {{.name = "", .stages = {{"mask_softmax_grad", by_columns, 16, 16, 16, 1}}}}},
};
/* clang-format on */
GPU_FAMILY(attend, kernels);
