/* matmul.c - products: kernels/matmul.cl, in tiles for GPUs, in panels for CPUs. */
#include "device/gpu/family.h"

#include "op/pack.h"

enum { PANEL_COLUMNS = 16, PANEL_HIGH = 96, PACK_DEPTH = 256 }; /* as kernels/matmul.cl has them */
enum { LEAST_ROWS = 48 }; /* from which on packing pays where it need not be */

/* Panels of 16 columns, of each gate by itself where b is packed. */
static gpu_extent by_panels(const op_call *call) {
    int64_t n = ir_cols(&call->out[0].type), groups = 1;
    if (call->attr->i[MATMUL_PACKED] != 0 && call->attr->i[MATMUL_GROUPS] > 1) {
        groups = call->attr->i[MATMUL_GROUPS];
    }
    int64_t panels = (n / groups + PANEL_COLUMNS - 1) / PANEL_COLUMNS;
    return (gpu_extent){ebb__ir_rows(&call->out[0].type), groups * panels};
}
static int64_t round_up(int64_t columns) {
    return (columns + PANEL_COLUMNS - 1) / PANEL_COLUMNS * PANEL_COLUMNS;
}
/* All of b, packed: rows of k and columns. */
static gpu_extent by_weights(const op_call *call) {
    const ir_type *b = &call->in[2].type;
    bool trans = call->attr->i[MATMUL_TRANS_B] != 0;
    int64_t rows = ebb__ir_rows(b), cols = ir_cols(b);
    return trans ? (gpu_extent){cols, rows} : (gpu_extent){rows, cols};
}
/* Columns of b follow each other. */
static bool has_panels(const ir_graph *graph, const ir_node_rec *node) {
    (void)graph;
    return node->attr.i[MATMUL_PACKED] != 0 ? node->attr.i[MATMUL_PANEL_LANES] % PANEL_COLUMNS == 0
                                            : node->attr.i[MATMUL_TRANS_B] == 0;
}
/* Nobody packed it: they do not follow each other, or are read often enough. */
static bool is_packed_first(const ir_graph *graph, const ir_node_rec *node) {
    bool many = ebb__ir_rows(&graph->values[node->out].type) >= LEAST_ROWS;
    return node->attr.i[MATMUL_PACKED] == 0 && (many || node->attr.i[MATMUL_TRANS_B] != 0);
}
static size_t packed_bytes(const ir_graph *graph, const ir_node_rec *node) {
    const ir_type *b = op_in_type(graph, node, 2);
    bool trans = node->attr.i[MATMUL_TRANS_B] != 0;
    int64_t n = trans ? ebb__ir_rows(b) : ir_cols(b), k = trans ? ir_cols(b) : ebb__ir_rows(b);
    return (size_t)round_up(n) * (size_t)k * sizeof(float);
}

/* What packing moves beside the operands; across the grain it takes longer than the bytes would. */
static double packing(const ir_graph *graph, const ir_node_rec *node) {
    double bytes = (double)ebb__ir_type_bytes(op_in_type(graph, node, 2));
    return node->attr.i[MATMUL_PACKED] != 0    ? 0.0
           : node->attr.i[MATMUL_TRANS_B] != 0 ? 4.0 * bytes
                                               : 2.0 * bytes;
}

/* Units of a row: each has a column of every gate. */
static gpu_extent by_units(const op_call *call) {
    int32_t groups = call->attr->i[MATMUL_GROUPS];
    return (gpu_extent){ebb__ir_rows(&call->out[0].type),
                        ir_cols(&call->out[0].type) / (groups > 1 ? groups : 1)};
}

/* clang-format off */
static const gpu_kernel kernels[] = {
    {.op = OP_MATMUL,
     .forms = {{.name = "tile", .stages = {{"matmul_tile", by_result, 16, 16, 64, 64}}},
               {.name = "packed", .able = is_packed_first, .for_cpu = true, .workspace = packed_bytes,
                .stages = {{"matmul_pack", by_weights, 1, 1, PANEL_COLUMNS, PACK_DEPTH},
                           {"matmul_packed", by_panels, 1, 1, 2, PANEL_HIGH}}},
               {.name = "panel", .able = has_panels, .for_cpu = true, .in_runs = by_units,
                .stages = {{"matmul_panel", by_panels, 1, 1, 2, PANEL_HIGH}}}},
     .extra_bytes = packing},
};
/* clang-format on */
GPU_FAMILY(matmul, kernels);
