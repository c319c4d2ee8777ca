/* view.c - slices and joins made and recognised for passes, which do not name ops, and what a view
 * is: where its elements lie inside another tensor's. */
#include "op/map.h"
#include "op/op.h"

ebb_status ebb__op_slice(ir_graph *graph, ir_val x, int32_t axis, int32_t begin, int32_t len,
                         ir_val *out) {
    if (begin == 0 && len == graph->values[x].type.dim[axis]) {
        *out = x;
        return EBB_OK;
    }
    ir_attr attr = {.i = {axis, begin, len}};
    return ebb__op_emit(graph, OP_SLICE, &x, 1, &attr, out);
}

ebb_status ebb__op_slice_all(ir_graph *graph, ir_val x, ir_val *out) {
    ir_attr attr = {.i = {0, 0, graph->values[x].type.dim[0]}};
    return ebb__op_emit(graph, OP_SLICE, &x, 1, &attr, out);
}

ebb_status ebb__op_join(ir_graph *graph, int32_t axis, const ir_val *parts, int32_t n,
                        ir_val *out) {
    if (n == 1) {
        *out = parts[0];
        return EBB_OK;
    }
    ir_attr attr = {.i = {axis}};
    return ebb__op_emit(graph, axis == 0 ? OP_STACK : OP_CONCAT, parts, n, &attr, out);
}

bool ebb__op_is_slice(const ir_node_rec *node, op_range *out) {
    if (node->op != OP_SLICE) {
        return false;
    }
    *out = (op_range){.axis = node->attr.i[0], .begin = node->attr.i[1], .len = node->attr.i[2]};
    return true;
}

bool ebb__op_begins_with(const ir_node_rec *node, const ir_type *out, const ir_type *in) {
    bool grows = (ebb__op(node->op)->flags & OPF_GROWS) != 0 && out->dtype == in->dtype &&
                 out->rank == 1 && in->rank == 1 && out->dim[0] > in->dim[0];
    return grows || ebb__ir_type_equal(out, in);
}

void ebb__op_shift_slice(ir_node_rec *node, int32_t by) {
    node->attr.i[1] += by;
}

bool ebb__op_is_join(const ir_node_rec *node, int32_t *axis) {
    *axis = node->op == OP_CONCAT ? node->attr.i[0] : 0;
    return node->op == OP_STACK || node->op == OP_CONCAT;
}

/* ---- what a view is ---- */

static int64_t product(const ir_type *type, int32_t begin, int32_t end) {
    int64_t n = 1;
    for (int32_t d = begin; d < end; d++) {
        n *= type->dim[d];
    }
    return n;
}

bool ebb__op_next_part(const ir_graph *graph, const ir_node_rec *node, op_part *part) {
    op_range range;
    if (ebb__op_is_slice(node, &range) && part->number == 0) {
        part->axis = range.axis;
        part->begin = range.begin;
        part->whole = ir_in(graph, node, 0);
        part->piece = node->out;
    } else if (ebb__op_is_join(node, &part->axis) && part->number < node->n_in) {
        part->begin += part->len;
        part->whole = node->out;
        part->piece = ir_in(graph, node, part->number);
    } else {
        return false;
    }
    const ir_type *type = &graph->values[part->whole].type;
    part->number++;
    part->outer = product(type, 0, part->axis);
    part->len = graph->values[part->piece].type.dim[part->axis];
    part->extent = type->dim[part->axis];
    part->inner = product(type, part->axis + 1, type->rank);
    return true;
}

op_lay ebb__op_plain(const ir_type *type) {
    return (op_lay){.fold = (int16_t)(type->rank - 1), .ld = (int32_t)ir_cols(type)};
}

int32_t ebb__op_rows_axes(const op_def *op, const ir_type *type) {
    bool rows = op->layout == LAYOUT_STEPS && type->rank == 2 && type->dtype == IR_F32;
    return !op_layout_has_maps(op->layout) ? type->rank - 1 : op_is_map(type) || rows ? 1 : 0;
}

int64_t ebb__op_fold_cols(const ir_type *type, int32_t fold) {
    return product(type, fold, type->rank);
}

bool ebb__op_is_gapless(const ir_type *type, op_lay lay) {
    return product(type, 0, lay.fold) == 1 || lay.ld == ebb__op_fold_cols(type, lay.fold);
}

bool ebb__op_part_lay(const ir_graph *graph, const op_part *part, op_lay whole, op_lay *out) {
    const ir_type *type = &graph->values[part->whole].type;
    const ir_type *piece = &graph->values[part->piece].type;
    bool rows = part->axis < whole.fold && part->outer == 1;
    bool cols = part->axis >= whole.fold && product(type, whole.fold, part->axis) == 1;
    if (!rows && !cols && !ebb__op_is_gapless(type, whole)) {
        return false;
    }
    *out = (op_lay){.fold = whole.fold, .ld = whole.ld};
    if (!rows && !cols) {
        *out = (op_lay){.fold = (int16_t)part->axis, .ld = (int32_t)(part->extent * part->inner)};
    }
    if (!op_is_plain(piece, *out) && ebb__op_is_gapless(piece, *out)) {
        *out = ebb__op_plain(piece);
    }
    return true;
}
