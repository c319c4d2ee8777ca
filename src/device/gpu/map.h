/* map.h - what the items of kernels over feature maps and codes count (kernels/map.h, code.h). */
#ifndef DEVICE_GPU_MAP_H
#define DEVICE_GPU_MAP_H

#include "device/gpu/family.h"

#include "op/code.h"

/* Elements of a map: rows of pixels, and their floats. */
static inline gpu_extent extent_of_map(const op_view *view) {
    op_map m = op_map_of(&view->type);
    return (gpu_extent){op_map_rows(&m), op_map_row(&m)};
}
static inline gpu_extent by_map(const op_call *call) {
    return extent_of_map(&call->out[0]);
}
static inline gpu_extent by_operand_map(const op_call *call) {
    return extent_of_map(&call->in[0]);
}
/* Rows of pixels, and the lanes of one. */
static inline gpu_extent by_map_lanes(const op_call *call) {
    op_map m = op_map_of(&call->out[0].type);
    return (gpu_extent){op_map_rows(&m), op_map_pixel(&m)};
}
/* Elements of the steps of a result, and of the codes that it is. */
static inline gpu_extent by_steps(const op_call *call) {
    const ir_type *type = &call->out[0].type;
    return (gpu_extent){type->dim[0], op_step_elements(type)};
}

#endif
