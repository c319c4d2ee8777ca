/* embed.c - rows of a table by index: kernels/embed.cl. */
#include "device/gpu/family.h"

static gpu_extent by_rows_of_dy(const op_call *call) {
    return (gpu_extent){ebb__ir_rows(&call->in[2].type), 1};
}
/* Rows of the table, and those of the gradient, as columns of a launch. */
static gpu_extent by_either(int64_t table, const ir_type *dy) {
    int64_t rows = ebb__ir_rows(dy);
    return (gpu_extent){1, table > rows ? table : rows};
}
static gpu_extent by_indices(const op_call *call) {
    return by_either(call->attr->i[0], &call->in[1].type);
}
static gpu_extent by_table(const op_call *call) {
    return by_either(ebb__ir_rows(&call->out[0].type), &call->in[2].type);
}
/* A number for each of both. */
static size_t squares_bytes(const ir_graph *graph, const ir_node_rec *node) {
    return (size_t)(node->attr.i[0] + ebb__ir_rows(op_in_type(graph, node, 1))) * sizeof(int32_t);
}
static size_t table_bytes(const ir_graph *graph, const ir_node_rec *node) {
    return (size_t)(ebb__ir_rows(op_in_type(graph, node, 0)) +
                    ebb__ir_rows(op_in_type(graph, node, 2))) *
           sizeof(int32_t);
}

/* clang-format off */
static const gpu_kernel kernels[] = {
    GPU_ELEMENT(EMBED, embed, by_result)
    {.op = OP_EMBED_GRAD,
     .forms = {{.name = "", .stages = {{"embed_start", by_result, 64, 4, 64, 4},
                                       {"embed_grad", by_rows_of_dy, 64, 1, 0, 1}}}}},
    {.op = OP_EMBED_SQUARES,
     .forms = {{.name = "", .workspace = squares_bytes,
                .stages = {{"embed_squares_rows", by_indices, 64, 4, 64, 4},
                           {"embed_squares", by_sums, 16, 16, 0, 16}}}}},
    {.op = OP_EMBED_SGD,
     .forms = {{.name = "", .workspace = table_bytes,
                .stages = {{"embed_sgd_rows", by_table, 64, 4, 64, 4},
                           {"embed_sgd", by_result, 64, 4, 0, 4}}}}},
};
/* clang-format on */
GPU_FAMILY(embed, kernels);
