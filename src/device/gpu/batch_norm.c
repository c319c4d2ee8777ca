/* batch_norm.c - batch norm and its gradient: kernels/batch_norm.cl. */
#include "device/gpu/map.h"

/* As kernels/batch_norm.cl has them: a group does 32 channels, its further items groups of images.
 */
enum { CHANNELS = 32, CHAINS = 8 };

static gpu_extent by_channels(const op_call *call) {
    return (gpu_extent){1, ir_cols(&call->out[call->n_out - 1].type)};
}
static gpu_extent by_table(const op_call *call) {
    return (gpu_extent){1, ir_cols(&call->out[0].type)};
}

#define SUMS(entry)                                                                                \
    { entry, by_channels, CHANNELS, CHAINS, CHANNELS, CHAINS }

/* clang-format off */
static const gpu_kernel kernels[] = {
    {.op = OP_BATCH_NORM,
     .forms = {{.name = "", .stages = {SUMS("batch_stat"), {"batch_norm", by_map_lanes, 64, 4, 64, 4}}}}},
    {.op = OP_BATCH_STAT, .forms = {{.name = "", .stages = {SUMS("batch_stat")}}}},
    {.op = OP_BATCH_GRAD_SUMS, .forms = {{.name = "", .stages = {SUMS("batch_grad_sums")}}}},
    GPU_ITEMS(BATCH_APPLY, batch_apply, by_map_lanes)
    GPU_ITEMS(BATCH_GRAD, batch_grad, by_map_lanes)
    GPU_ITEMS(BATCH_GRAD_AFFINE, batch_grad_affine, by_table)
    GPU_ITEMS(BATCH_TRACK, batch_track, by_table)
    GPU_ITEMS(BATCH_KNOWN, batch_known, by_table)
};
/* clang-format on */
GPU_FAMILY(batch_norm, kernels);
