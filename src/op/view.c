/* view.c - slices and joins made and recognised for passes, which do not name ops. */
#include "op/op.h"

int32_t ebb__op_extent(const ir_type *type, int32_t axis) {
    return axis == 0 ? type->dim[0] : (int32_t)ir_cols(type);
}

ebb_status ebb__op_slice(ir_graph *graph, ir_val x, int32_t axis, int32_t begin, int32_t len,
                         ir_val *out) {
    if (begin == 0 && len == ebb__op_extent(&graph->values[x].type, axis)) {
        *out = x;
        return EBB_OK;
    }
    ir_attr attr = {.i = {axis, begin, len}};
    return ebb__op_emit(graph, OP_SLICE, &x, 1, &attr, out);
}

ebb_status ebb__op_view(ir_graph *graph, ir_val x, ir_val *out) {
    ir_attr attr = {.i = {0, 0, graph->values[x].type.dim[0]}};
    return ebb__op_emit(graph, OP_SLICE, &x, 1, &attr, out);
}

ebb_status ebb__op_copy(ir_graph *graph, ir_val x, ir_val *out) {
    return ebb__op_emit(graph, OP_COPY, &x, 1, NULL, out);
}

ebb_status ebb__op_regroup(ir_graph *graph, ir_val x, int32_t outer, int32_t inner, ir_val *out) {
    ir_attr attr = {.i = {outer, inner}};
    return ebb__op_emit(graph, OP_REGROUP, &x, 1, &attr, out);
}

ebb_status ebb__op_join(ir_graph *graph, int32_t axis, const ir_val *parts, int32_t n,
                        ir_val *out) {
    if (n == 1) {
        *out = parts[0];
        return EBB_OK;
    }
    return ebb__op_emit(graph, axis == 0 ? OP_STACK : OP_CONCAT, parts, n, NULL, out);
}

bool ebb__op_is_slice(const ir_node_rec *node, op_range *out) {
    if (node->op != OP_SLICE) {
        return false;
    }
    *out = (op_range){.axis = node->attr.i[0], .begin = node->attr.i[1], .len = node->attr.i[2]};
    return true;
}

void ebb__op_shift_slice(ir_node_rec *node, int32_t by) {
    node->attr.i[1] += by;
}

bool ebb__op_is_join(const ir_node_rec *node, int32_t *axis) {
    *axis = node->op == OP_CONCAT;
    return node->op == OP_STACK || node->op == OP_CONCAT;
}
