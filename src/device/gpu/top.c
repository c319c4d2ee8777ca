/* top.c - the largest logits of rows: kernels/top.cl. */
#include "device/gpu/family.h"

/* clang-format off */
static const gpu_kernel kernels[] = {
    {.op = OP_TOP_LOGS, .forms = {{.name = "", .stages = {{"top_logs", by_rows, 256, 1, 0, 1}}}}},
};
/* clang-format on */
GPU_FAMILY(top, kernels);
