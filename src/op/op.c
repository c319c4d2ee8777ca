/* op.c - the table of ops, how nodes are added with inferred types, and what the families share.
 *
 * The table is made from ops.def and lies in read-only memory. No meaning of any op is here.
 */
#include "op/op.h"
#include "op/define.h"
#include "op/map.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

const op_def *const ebb__ops[OP_COUNT] = {
#define OP(upper, lower, operands, text) &ebb__op_def_##lower,
#include "op/ops.def"
#undef OP
};

/* The schema is what the ir layer sees of a definition. */
static const ir_schema *const schemas[OP_COUNT] = {
#define OP(upper, lower, operands, text) &ebb__op_def_##lower.schema,
#include "op/ops.def"
#undef OP
};

bool ebb__op_reads(int code, op_read what) {
    bool found = false;
    for (int32_t i = 0; i < OP_MAX_READS; i++) {
        found = found || ebb__ops[code]->reads[i] == what;
    }
    return found;
}

void ebb__op_graph_init(ir_graph *graph, ebb_ctx *ctx) {
    ebb__ir_init(graph, ctx, schemas, OP_COUNT);
}

/* Number of operands and which may be absent: what infer relies on. */
static ebb_status check_operands(const ir_graph *graph, const ir_node_rec *node) {
    const op_def *op = ebb__ops[node->op];
    bool variadic = (op->flags & OPF_VARIADIC) != 0;
    if (node->n_in < op->n_in || (node->n_in > op->n_in && !variadic)) {
        return ebb__op_bad(graph, node, "takes %s%d operands, not %d", variadic ? "at least " : "",
                           op->n_in, node->n_in);
    }
    for (int32_t i = 0; i < node->n_in; i++) {
        ir_val value = ir_in(graph, node, i);
        bool may_lack = i < op->n_in && (op->optional >> i & 1) != 0;
        if (value == IR_NONE ? !may_lack : value < 0 || value >= graph->n_values) {
            return ebb__op_bad(graph, node, "operand %d is missing or not a value", i);
        }
    }
    return EBB_OK;
}

static ebb_status infer(const ir_graph *graph, const ir_node_rec *node, ir_type *out) {
    TRY(check_operands(graph, node));
    return ebb__ops[node->op]->infer(graph, node, out);
}

ebb_status ebb__op_emit(ir_graph *graph, op_code op, const ir_val *in, int32_t n_in,
                        const ir_attr *attr, ir_val *out) {
    static const ir_attr no_attr;
    const op_def *def = ebb__ops[op];
    /* infer reads operands through the graph: show it one whose operands are these. */
    ir_graph view = *graph;
    view.operands = (ir_val *)in;
    view.n_operands = n_in;
    ir_node_rec node = {.op = (uint16_t)op,
                        .n_in = n_in,
                        .n_out = (uint16_t)def->n_out,
                        .out = IR_NONE,
                        .attr = attr != NULL ? *attr : no_attr,
                        .label = graph->label};
    ir_type types[IR_MAX_OUT];
    TRY(infer(&view, &node, types));
    for (int32_t i = 0; i < def->n_out; i++) {
        TRY(ebb__ir_type_check(graph->ctx, &types[i], def->schema.name));
    }
    return ebb__ir_add_node(graph, node.op, in, n_in, &node.attr, types, def->n_out, out);
}

ebb_status ebb__op_fill(ir_graph *graph, const ir_type *type, float value, ir_val *out) {
    ir_attr attr = ebb__op_attr_of(type);
    attr.f[0] = value;
    return ebb__op_emit(graph, OP_FILL, NULL, 0, &attr, out);
}

ebb_status ebb__op_verify(const ir_graph *graph) {
    TRY(ebb__ir_verify(graph));
    for (int32_t k = 0; k < graph->n_order; k++) {
        const ir_node_rec *node = &graph->nodes[graph->order[k]];
        if (node->op >= OP_COUNT || node->n_out != ebb__ops[node->op]->n_out) {
            return ebb__fail(graph->ctx, EBB_INTERNAL, "graph: node %d has a wrong op or results",
                             graph->order[k]);
        }
        ir_type types[IR_MAX_OUT];
        TRY(infer(graph, node, types));
        for (int32_t i = 0; i < node->n_out; i++) {
            if (!ebb__ir_type_equal(&types[i], &graph->values[node->out + i].type)) {
                return ebb__op_bad(graph, node, "result %d has another type than inferred", i);
            }
        }
    }
    return EBB_OK;
}

/* ---- shared by the families ---- */

/* Adds to a text of `size` bytes, cut where it is full. */
__attribute__((format(printf, 3, 4))) static void add_text(char *text, size_t size,
                                                           const char *format, ...) {
    size_t used = strlen(text);
    va_list args;
    va_start(args, format);
    (void)vsnprintf(text + used, size - used, format, args);
    va_end(args);
}

/* f32[2,3] x; - where there is no operand. */
static void add_operand(const ir_graph *graph, ir_val v, char *text, size_t size) {
    if (v < 0 || v >= graph->n_values) {
        add_text(text, size, "-");
        return;
    }
    const ir_value *value = &graph->values[v];
    add_text(text, size, "%s[", ebb__ir_dtype_name(value->type.dtype));
    for (int32_t d = 0; d < value->type.rank; d++) {
        add_text(text, size, "%s%d", d > 0 ? "," : "", value->type.dim[d]);
    }
    add_text(text, size, value->name != NULL ? "] %.60s" : "]", value->name);
}

/* What it was applied to, and where: (-, f32[2,3] x, f32[4,5] w) in rnn.l0 at time 3. */
static void describe(const ir_graph *graph, const ir_node_rec *node, char *text, size_t size) {
    enum { SHOWN = 6 };
    for (int32_t i = 0; i < node->n_in && i < SHOWN; i++) {
        add_text(text, size, i > 0 ? ", " : "(");
        add_operand(graph, ir_in(graph, node, i), text, size);
    }
    if (node->n_in > 0) {
        add_text(text, size, node->n_in > SHOWN ? ", ...)" : ")");
    }
    bool known = node->label.layer >= 0 && node->label.layer < graph->n_layers;
    const char *layer = known ? graph->layers[node->label.layer] : "";
    if (layer[0] != '\0') {
        add_text(text, size, " in %.60s", layer);
    }
    if (node->label.at >= 0) {
        add_text(text, size, " at time %d", node->label.at);
    }
}

ebb_status ebb__op_bad(const ir_graph *graph, const ir_node_rec *node, const char *format, ...) {
    char sentence[384], where[480] = "";
    va_list args;
    va_start(args, format);
    (void)vsnprintf(sentence, sizeof sentence, format, args);
    va_end(args);
    describe(graph, node, where, sizeof where);
    return ebb__fail(graph->ctx, EBB_USAGE, "%s%s: %s", ebb__ops[node->op]->schema.name, where,
                     sentence);
}

ebb_status ebb__op_need(const ir_graph *graph, const ir_node_rec *node, int32_t i, ir_dtype dtype) {
    const ir_type *type = op_in_type(graph, node, i);
    if (type != NULL && type->dtype != dtype) {
        return ebb__op_bad(graph, node, "operand %d must be %s", i, ebb__ir_dtype_name(dtype));
    }
    return EBB_OK;
}

ebb_status ebb__op_need_matrix(const ir_graph *graph, const ir_node_rec *node, int32_t i) {
    TRY(ebb__op_need(graph, node, i, IR_F32));
    return op_in_type(graph, node, i)->rank == 2
               ? EBB_OK
               : ebb__op_bad(graph, node, "operand %d must be a matrix", i);
}

ebb_status ebb__op_need_map(const ir_graph *graph, const ir_node_rec *node, int32_t i) {
    return op_is_map(op_in_type(graph, node, i))
               ? EBB_OK
               : ebb__op_bad(graph, node, "operand %d must be a map", i);
}

ebb_status ebb__op_need_list(const ir_graph *graph, const ir_node_rec *node, int32_t i,
                             ir_dtype dtype, int64_t count) {
    const ir_type *type = op_in_type(graph, node, i);
    TRY(ebb__op_need(graph, node, i, dtype));
    if (type != NULL && (type->rank != 1 || type->dim[0] != count)) {
        return ebb__op_bad(graph, node, "operand %d must have one axis of %lld elements", i,
                           (long long)count);
    }
    return EBB_OK;
}

ebb_status ebb__op_need_same(const ir_graph *graph, const ir_node_rec *node, int32_t i, int32_t j) {
    const ir_type *a = op_in_type(graph, node, i), *b = op_in_type(graph, node, j);
    if (a != NULL && b != NULL && !ebb__ir_type_equal(a, b)) {
        return ebb__op_bad(graph, node, "operands %d and %d differ in type", i, j);
    }
    return EBB_OK;
}

ebb_status ebb__op_need_slope(const ir_graph *graph, const ir_node_rec *node) {
    float slope = node->attr.f[0];
    return isfinite(slope) && slope >= 0
               ? EBB_OK
               : ebb__op_bad(graph, node, "slope must be finite and not below 0");
}

ebb_status ebb__op_need_wide(const ir_graph *graph, const ir_node_rec *node, int32_t i, int32_t j,
                             int32_t times) {
    const ir_type *wide = op_in_type(graph, node, i), *base = op_in_type(graph, node, j);
    bool ok = wide->dtype == base->dtype && wide->rank == base->rank &&
              ir_cols(wide) == times * ir_cols(base);
    for (int32_t d = 0; ok && d < base->rank - 1; d++) {
        ok = wide->dim[d] == base->dim[d];
    }
    return ok ? EBB_OK
              : ebb__op_bad(graph, node,
                            "operand %d must be like operand %d with %d times its columns", i, j,
                            times);
}

int64_t ebb__op_elements(const ir_type *type) {
    return ebb__ir_rows(type) * ir_cols(type);
}

ebb_status ebb__op_infer_same(const ir_graph *graph, const ir_node_rec *node, ir_type *out) {
    TRY(ebb__op_need(graph, node, 0, IR_F32));
    for (int32_t i = 1; i < node->n_in; i++) {
        TRY(ebb__op_need_same(graph, node, i, 0));
    }
    out[0] = *op_in_type(graph, node, 0);
    return EBB_OK;
}

ir_attr ebb__op_attr_of(const ir_type *type) {
    ir_attr attr = {.i = {[OP_ATTR_RANK] = type->rank, [OP_ATTR_DTYPE] = type->dtype}};
    memcpy(&attr.i[OP_ATTR_DIM], type->dim, (size_t)type->rank * sizeof *type->dim);
    return attr;
}

ebb_status ebb__op_infer_attr(const ir_graph *graph, const ir_node_rec *node, ir_type *out) {
    const int32_t *i = node->attr.i;
    if (i[OP_ATTR_RANK] < 1 || i[OP_ATTR_RANK] > IR_MAX_RANK) {
        return ebb__op_bad(graph, node, "rank must be 1 to %d", IR_MAX_RANK);
    }
    out[0] = (ir_type){.dtype = (ir_dtype)i[OP_ATTR_DTYPE], .rank = (int16_t)i[OP_ATTR_RANK]};
    for (int32_t d = 0; d < out[0].rank; d++) {
        out[0].dim[d] = i[OP_ATTR_DIM + d];
        if (out[0].dim[d] < 1) {
            return ebb__op_bad(graph, node, "dimension %d must be at least 1", d);
        }
    }
    return EBB_OK;
}

op_cost ebb__op_cost_work(const ir_graph *graph, const ir_node_rec *node, double flops) {
    op_cost cost = {.flops = flops};
    for (int32_t i = 0; i < node->n_in; i++) {
        const ir_type *type = op_in_type(graph, node, i);
        cost.bytes += type != NULL ? (double)ebb__ir_type_bytes(type) : 0.0;
    }
    for (int32_t i = 0; i < node->n_out; i++) {
        cost.bytes += (double)ebb__ir_type_bytes(&graph->values[node->out + i].type);
    }
    return cost;
}

op_cost ebb__op_cost(const ir_graph *graph, const ir_node_rec *node) {
    const op_def *op = ebb__op(node->op);
    double elements = 0;
    if (op->cost != NULL) {
        return op->cost(graph, node);
    }
    if (op->work.of > 0) {
        elements = (double)ebb__op_elements(op_in_type(graph, node, op->work.of - 1));
    }
    for (int32_t i = 0; op->work.of == 0 && i < node->n_out; i++) {
        elements += (double)ebb__op_elements(&graph->values[node->out + i].type);
    }
    return ebb__op_cost_work(graph, node, op->work.flops * elements);
}

void ebb__op_rows_split(const ir_graph *graph, const ir_node_rec *node, op_row_role *in,
                        op_row_role *out) {
    (void)graph;
    for (int32_t i = 0; i < node->n_in; i++) {
        in[i] = ROWS_SPLIT;
    }
    for (int32_t i = 0; i < node->n_out; i++) {
        out[i] = ROWS_SPLIT;
    }
}

void ebb__op_rows_any(const ir_graph *graph, const ir_node_rec *node, op_row_role *in,
                      op_row_role *out) {
    (void)graph;
    for (int32_t i = 0; i < node->n_in; i++) {
        in[i] = ROWS_ANY;
    }
    out[0] = ROWS_WHOLE;
}

int32_t ebb__op_units_columns(const ir_graph *graph, const ir_node_rec *node, uint32_t *whole) {
    const ir_type *type = &graph->values[node->out].type;
    op_map m = op_map_of(type);
    *whole = 0;
    if (op_is_map(type)) {
        return op_map_rows(&m) <= INT32_MAX ? (int32_t)op_map_rows(&m) : 0;
    }
    return (int32_t)ir_cols(type);
}

bool ebb__op_grad_wanted(const op_grad *g, int32_t i) {
    return ebb__adjoint_wanted(g->adjoint, op_grad_in(g, i));
}

ebb_status ebb__op_grad_add(op_grad *g, int32_t i, ir_val d) {
    return ebb__adjoint_add(g->adjoint, op_grad_in(g, i), d);
}

ebb_status ebb__op_grad_emit(op_grad *g, int32_t i, op_code op, const ir_val *in, int32_t n_in,
                             const ir_attr *attr) {
    ir_val d;
    if (!ebb__op_grad_wanted(g, i)) {
        return EBB_OK;
    }
    TRY(ebb__op_emit(g->graph, op, in, n_in, attr, &d));
    return ebb__op_grad_add(g, i, d);
}

ebb_status ebb__op_grad_sum(op_grad *g, int32_t i, op_code op, const ir_val *in, int32_t n_in,
                            const ir_attr *attr) {
    ir_val with_sum[OP_MAX_SAMPLE_IN] = {ebb__adjoint_withdraw(g->adjoint, op_grad_in(g, i))};
    memcpy(&with_sum[1], in, (size_t)n_in * sizeof *in);
    return ebb__op_grad_emit(g, i, op, with_sum, n_in + 1, attr);
}
