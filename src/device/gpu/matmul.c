/* matmul.c - products: kernels/matmul.cl, in tiles for GPUs, in panels for CPUs. */
#include "device/gpu/family.h"

#include "op/pack.h"

enum { PANEL_COLUMNS = 16, PANEL_ROWS = 6 }; /* as kernels/matmul.cl has them */

/* Panels of 16 columns, of each gate by itself where b is packed. */
static gpu_extent by_panels(const op_call *call) {
    int64_t n = ir_cols(&call->out[0].type), groups = 1;
    if (call->attr->i[MATMUL_PACKED] != 0 && call->attr->i[MATMUL_GROUPS] > 1) {
        groups = call->attr->i[MATMUL_GROUPS];
    }
    int64_t panels = (n / groups + PANEL_COLUMNS - 1) / PANEL_COLUMNS;
    return (gpu_extent){ebb__ir_rows(&call->out[0].type), groups * panels};
}
static gpu_extent by_transposed(const op_call *call) {
    const ir_type *b = &call->in[2].type;
    int64_t panels = (ebb__ir_rows(b) + PANEL_COLUMNS - 1) / PANEL_COLUMNS;
    return (gpu_extent){panels * PANEL_COLUMNS, ir_cols(b)};
}
static bool is_transposed(const ir_graph *graph, const ir_node_rec *node) {
    (void)graph;
    return node->attr.i[MATMUL_PACKED] == 0 && node->attr.i[MATMUL_TRANS_B] != 0;
}
static bool has_panels(const ir_graph *graph, const ir_node_rec *node) {
    bool packed = node->attr.i[MATMUL_PACKED] != 0;
    return packed ? node->attr.i[MATMUL_PANEL_LANES] % PANEL_COLUMNS == 0
                  : !is_transposed(graph, node);
}
static size_t transposed_bytes(const ir_graph *graph, const ir_node_rec *node) {
    const ir_type *b = op_in_type(graph, node, 2);
    size_t panels = (size_t)(ebb__ir_rows(b) + PANEL_COLUMNS - 1) / PANEL_COLUMNS;
    return panels * PANEL_COLUMNS * (size_t)ir_cols(b) * sizeof(float);
}

/* clang-format off */
static const gpu_kernel kernels[] = {
    {.op = OP_MATMUL,
     .forms = {{.name = "tile", .stages = {{"matmul_tile", by_result, 16, 16, 64, 64}}},
               {.name = "panel", .able = has_panels, .for_cpu = true,
                .stages = {{"matmul_panel", by_panels, 1, 1, 1, PANEL_ROWS}}},
               {.name = "packed", .able = is_transposed, .for_cpu = true, .workspace = transposed_bytes,
                .stages = {{"matmul_pack", by_transposed, 64, 4, 64, 4},
                           {"matmul_panel", by_panels, 1, 1, 1, PANEL_ROWS}}}}},
};
/* clang-format on */
GPU_FAMILY(matmul, kernels);
