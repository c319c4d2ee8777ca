/* describe.c - an instruction as bytes for kernels (call.h), and the groups of a launch. */
#include "device/gpu/gpu.h"

#include "op/map.h"

#include <string.h>

_Static_assert(GPU_MAX_RANK == (int)IR_MAX_RANK && GPU_MAX_INTS == (int)IR_MAX_INTS &&
                   GPU_MAX_FLOATS == (int)IR_MAX_FLOATS,
               "descriptors hold what nodes do");
_Static_assert(sizeof(gpu_call) % 8 == 0 && sizeof(gpu_view) % 8 == 0, "they follow each other");

static gpu_view describe_view(const op_view *view, const char *base) {
    gpu_view out = {.at = 0};
    if (view->data == NULL) {
        return out;
    }
    out.at = (uint64_t)((const char *)view->data - base);
    out.ld = view->ld;
    out.pitch = op_is_map(&view->type) ? op_map_pitch(view) : 0;
    out.rows = (int32_t)ebb__ir_rows(&view->type);
    out.cols = (int32_t)ir_cols(&view->type);
    memcpy(out.dim, view->type.dim, sizeof out.dim);
    out.rank = view->type.rank;
    out.dtype = (int16_t)view->type.dtype;
    out.element_bytes = (int32_t)ebb__ir_dtype_bytes(view->type.dtype);
    return out;
}

void ebb__gpu_describe(const op_call *call, const gpu_form *form, const char *base, void *out) {
    gpu_call head = {.n_in = call->n_in, .n_out = call->n_out};
    if (call->workspace != NULL) {
        head.workspace = (uint64_t)((const char *)call->workspace - base);
    }
    for (int32_t s = 0; s < ebb__gpu_stages(form); s++) {
        gpu_extent extent = form->stages[s].extent(call);
        head.span[s][0] = head.rows = (int32_t)extent.rows;
        head.span[s][1] = head.units = (int32_t)extent.units;
    }
    memcpy(head.i, call->attr->i, sizeof head.i);
    memcpy(head.f, call->attr->f, sizeof head.f);
    memcpy(out, &head, sizeof head);
    char *to = (char *)out + sizeof head;
    for (int32_t i = 0; i < call->n_in + call->n_out; i++, to += sizeof(gpu_view)) {
        gpu_view view =
            describe_view(i < call->n_in ? &call->in[i] : &call->out[i - call->n_in], base);
        memcpy(to, &view, sizeof view);
    }
}

int32_t ebb__gpu_stages(const gpu_form *form) {
    int32_t n = 0;
    while (n < GPU_MAX_STAGES && form->stages[n].entry != NULL) {
        n++;
    }
    return n;
}

void ebb__gpu_groups(const gpu_stage *stage, gpu_extent extent, size_t groups[2]) {
    bool all = stage->tile_wide == 0;
    groups[0] = all ? 1 : (size_t)((extent.units + stage->tile_wide - 1) / stage->tile_wide);
    groups[1] = (size_t)((extent.rows + stage->tile_high - 1) / stage->tile_high);
}
