/* embed.c - rows of a table by index: kernels/embed.cl. */
#include "device/gpu/family.h"

static gpu_extent by_rows_of_dy(const op_call *call) {
    return (gpu_extent){ebb__ir_rows(&call->in[2].type), 1};
}
/* Rows of the table as columns of a launch. */
static gpu_extent by_indices(const op_call *call) {
    return (gpu_extent){1, call->attr->i[0]};
}
static gpu_extent by_table(const op_call *call) {
    return (gpu_extent){1, ebb__ir_rows(&call->out[0].type)};
}
static size_t squares_bytes(const ir_graph *graph, const ir_node_rec *node) {
    (void)graph;
    return (size_t)node->attr.i[0] * sizeof(int32_t);
}
static size_t table_bytes(const ir_graph *graph, const ir_node_rec *node) {
    return (size_t)ebb__ir_rows(op_in_type(graph, node, 0)) * sizeof(int32_t);
}

/* clang-format off */
static const gpu_kernel kernels[] = {
    GPU_ELEMENT(EMBED, embed, by_result)
    {.op = OP_EMBED_GRAD,
     .forms = {{.name = "", .stages = {{"embed_start", by_result, 64, 4, 64, 4},
                                       {"embed_grad", by_rows_of_dy, 64, 1, 0, 1}}}}},
    {.op = OP_EMBED_SQUARES,
     .forms = {{.name = "", .workspace = squares_bytes,
                .stages = {{"embed_squares_first", by_indices, 64, 4, 64, 4},
                           {"embed_squares", by_sums, 16, 16, 0, 16}}}}},
    {.op = OP_EMBED_SGD,
     .forms = {{.name = "", .workspace = table_bytes,
                .stages = {{"embed_sgd_first", by_table, 64, 4, 64, 4},
                           {"embed_sgd", by_result, 64, 4, 64, 4}}}}},
};
/* clang-format on */
GPU_FAMILY(embed, kernels);
