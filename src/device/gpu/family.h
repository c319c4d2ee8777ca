/* family.h - what the families' lists share: what the items of a launch count, and the two shapes
 * of launches that kernels/access.h has. A family is a list of kernels in a file of its own,
 * src/device/gpu/FAMILY.c, beside their texts, kernels/FAMILY.cl; families.def names it. */
#ifndef DEVICE_GPU_FAMILY_H
#define DEVICE_GPU_FAMILY_H

#include "device/gpu/gpu.h"

static inline gpu_extent extent_of(const op_view *view) {
    return (gpu_extent){ebb__ir_rows(&view->type), ir_cols(&view->type)};
}
/* Elements of a result: of a cell's, the one that has a column for each unit. */
static inline gpu_extent by_result(const op_call *call) {
    return extent_of(&call->out[0]);
}
static inline gpu_extent by_second(const op_call *call) {
    return extent_of(&call->out[1]);
}
static inline gpu_extent by_third(const op_call *call) {
    return extent_of(&call->out[2]);
}
/* Rows of the first operand, whose columns are the units. */
static inline gpu_extent by_rows(const op_call *call) {
    return extent_of(&call->in[0]);
}
static inline gpu_extent once(const op_call *call) {
    (void)call;
    return (gpu_extent){1, 1};
}
/* A row for each partial sum. */
static inline gpu_extent by_sums(const op_call *call) {
    return (gpu_extent){ir_cols(&call->out[0].type), 1};
}

/* An item for each element: groups of 64 x 4. */
#define GPU_ELEMENT(upper, lower, extent)                                                          \
    {.op = OP_##upper,                                                                             \
     .element = true,                                                                              \
     .forms = {{.name = "", .stages = {{#lower, extent, 64, 4, 64, 4}}}}},
/* The same where an item reads what belongs to others, or counts something else: no part of a run.
 */
#define GPU_ITEMS(upper, lower, extent)                                                            \
    {.op = OP_##upper, .forms = {{.name = "", .stages = {{#lower, extent, 64, 4, 64, 4}}}}},
/* 16 items for each row: groups of 16 lanes x 16 rows. */
#define GPU_LANES(upper, lower, extent)                                                            \
    {.op = OP_##upper, .forms = {{.name = "", .stages = {{#lower, extent, 16, 16, 0, 16}}}}},

/* The family of this name, from its array of kernels. */
#define GPU_FAMILY(family, array)                                                                  \
    const gpu_family ebb__gpu_##family = {array, (int32_t)(sizeof(array) / sizeof *(array))}

#endif
