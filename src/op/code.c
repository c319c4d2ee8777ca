/* code.c - types of codes, and the two nodes that stand for one that reads a tensor in full: what
 * makes its code, and what reads that instead; and codes of rounded numbers. */
#include "op/code.h"

#include "op/define.h"
#include "op/narrow.h"

ebb_status ebb__op_code_type(const ir_graph *graph, const ir_node_rec *node, const ir_type *of,
                             ir_dtype dtype, int64_t wide, ir_type *out) {
    if (wide > INT32_MAX) {
        return ebb__op_bad(graph, node, "rows of %lld elements do not fit a code",
                           (long long)op_step_elements(of));
    }
    *out = (ir_type){.dtype = dtype, .rank = 2, .dim = {of->dim[0], (int32_t)wide}};
    return EBB_OK;
}

ebb_status ebb__op_need_code(const ir_graph *graph, const ir_node_rec *node, int32_t i,
                             const ir_type *of, ir_dtype dtype, int64_t wide) {
    ir_type type;
    TRY(ebb__op_code_type(graph, node, of, dtype, wide, &type));
    return ebb__ir_type_equal(op_in_type(graph, node, i), &type)
               ? EBB_OK
               : ebb__op_bad(graph, node, "operand %d must be a code %s[%d,%d]", i,
                             ebb__ir_dtype_name(dtype), type.dim[0], type.dim[1]);
}

/* ---- in place of a reader ---- */

static op_coded_attr attributes(const ir_graph *graph, const ir_node_rec *reader) {
    const op_def *def = ebb__op(reader->op);
    op_coded_attr attr = {{.i = {0}}, {.i = {0}}};
    if (def->coded.attr != NULL) {
        def->coded.attr(graph, reader, &attr);
    }
    return attr;
}

ebb_status ebb__op_emit_code(ir_graph *graph, const ir_node_rec *reader, ir_val *out) {
    const op_def *def = ebb__op(reader->op);
    op_coded_attr attr = attributes(graph, reader);
    ir_val x = ir_in(graph, reader, def->coded.in);
    return ebb__op_emit(graph, (op_code)def->coded.code, &x, 1, &attr.code, out);
}

ebb_status ebb__op_emit_coded(ir_graph *graph, const ir_node_rec *reader, ir_val code,
                              ir_val *out) {
    const op_def *def = ebb__op(reader->op);
    op_coded_attr attr = attributes(graph, reader);
    ir_val in[OP_MAX_SAMPLE_IN];
    for (int32_t i = 0; i < reader->n_in; i++) {
        in[i] = i == def->coded.in ? code : ir_in(graph, reader, i);
    }
    return ebb__op_emit(graph, (op_code)def->coded.reader, in, reader->n_in, &attr.reader, out);
}

/* ---- rounded ---- */

ebb_status ebb__op_round_to(ir_graph *graph, ir_val x, int32_t format, ir_val *out) {
    const ir_attr attr = {.i = {[NARROW_FORMAT] = format}};
    return ebb__op_emit(graph, OP_ROUND_TO, &x, 1, &attr, out);
}

int32_t ebb__op_rounds(const ir_node_rec *node) {
    return node->op == OP_ROUND_TO ? node->attr.i[NARROW_FORMAT] : 0;
}

ebb_status ebb__op_narrow(ir_graph *graph, ir_val x, int32_t format, bool mark, ir_val *out) {
    const ir_attr attr = {.i = {[NARROW_FORMAT] = format, [NARROW_MARK] = mark}};
    return ebb__op_emit(graph, OP_NARROW, &x, 1, &attr, out);
}

ebb_status ebb__op_widen(ir_graph *graph, ir_val codes, int32_t format, const ir_type *like,
                         ir_val *out) {
    ir_attr attr = {.i = {[NARROW_FORMAT] = format, [WIDEN_RANK] = like->rank}};
    for (int32_t d = 1; d < like->rank; d++) {
        attr.i[WIDEN_DIM + d - 1] = like->dim[d];
    }
    return ebb__op_emit(graph, OP_WIDEN, &codes, 1, &attr, out);
}
