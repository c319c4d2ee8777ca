/* define.h - what the family files share: the name of a definition, checks of operands, common
 * columns, and short forms to write samples with. Only src/op and its tests include this. */
#ifndef OP_DEFINE_H
#define OP_DEFINE_H

#include "op/op.h"

#define OP(upper, lower, operands, text) extern const op_def ebb__op_def_##lower;
#include "op/ops.def"
#undef OP
/* The definition of an op, from its name in ops.def, by which its reference kernels are called too,
 * and its other columns. */
#define OP_DEFINE(lower, ...)                                                                      \
    const op_def ebb__op_def_##lower = {                                                           \
        .schema.name = #lower, .ref = lower##_ref, .ref64 = lower##_ref64, __VA_ARGS__}
/* Column `work.of`. */
#define OPERAND(i) (1 + (i))
/* Column `inplace`, from pairs {operand, result}. */
#define INPLACE(...)                                                                               \
    .inplace = {__VA_ARGS__},                                                                      \
    .n_inplace = (int32_t)(sizeof((op_pair[]){__VA_ARGS__}) / sizeof(op_pair))

/* ---- checks: EBB_USAGE with a sentence if it does not hold; absent operands pass ---- */
ebb_status ebb__op_need(const ir_graph *graph, const ir_node_rec *node, int32_t i,
                        ir_dtype dtype) EBB_MUST_CHECK;
/* Operand i is an f32 matrix. */
ebb_status ebb__op_need_matrix(const ir_graph *graph, const ir_node_rec *node,
                               int32_t i) EBB_MUST_CHECK;
/* Operand i is a map (map.h). */
ebb_status ebb__op_need_map(const ir_graph *graph, const ir_node_rec *node,
                            int32_t i) EBB_MUST_CHECK;
/* Operand i has one axis of `count` elements. */
ebb_status ebb__op_need_list(const ir_graph *graph, const ir_node_rec *node, int32_t i,
                             ir_dtype dtype, int64_t count) EBB_MUST_CHECK;
/* Operands i and j have the same type. */
ebb_status ebb__op_need_same(const ir_graph *graph, const ir_node_rec *node, int32_t i,
                             int32_t j) EBB_MUST_CHECK;
/* Operand i is like j with `times` as many columns. */
ebb_status ebb__op_need_wide(const ir_graph *graph, const ir_node_rec *node, int32_t i, int32_t j,
                             int32_t times) EBB_MUST_CHECK;

/* Attribute `slope`, the first number, is finite and not below 0. */
ebb_status ebb__op_need_slope(const ir_graph *graph, const ir_node_rec *node) EBB_MUST_CHECK;

/* ---- types ---- */
static inline ir_type op_list(ir_dtype dtype, int32_t count) {
    return (ir_type){.dtype = dtype, .rank = 1, .dim = {count}};
}
static inline ir_type op_with_cols(const ir_type *like, int32_t cols) {
    ir_type type = *like;
    type.dim[type.rank - 1] = cols;
    return type;
}
int64_t ebb__op_elements(const ir_type *type);

/* A result's type as attributes, for ops whose operands do not tell it: rank, sizes, dtype. */
enum { OP_ATTR_RANK, OP_ATTR_DIM, OP_ATTR_DTYPE = OP_ATTR_DIM + IR_MAX_RANK };
#define OP_ATTR_TYPE_NAMES "rank", "d0", "d1", "d2", "d3", "d4", "d5"
ir_attr ebb__op_attr_of(const ir_type *type);
/* The only result has the type that the attributes say. */
ebb_status ebb__op_infer_attr(const ir_graph *graph, const ir_node_rec *node, ir_type *out);

/* ---- columns ---- */
/* Every operand f32 and of the first one's type; so is the only result. */
ebb_status ebb__op_infer_same(const ir_graph *graph, const ir_node_rec *node, ir_type *out);
/* A column reads nothing but itself. */
int32_t ebb__op_units_columns(const ir_graph *graph, const ir_node_rec *node, uint32_t *whole);
op_cost ebb__op_cost_work(const ir_graph *graph, const ir_node_rec *node, double flops);

/* ---- gradients ---- */
static inline ir_val op_grad_in(const op_grad *g, int32_t i) {
    return ir_in(g->graph, &g->node, i);
}
static inline const ir_type *op_grad_type(const op_grad *g, int32_t i) {
    return op_in_type(g->graph, &g->node, i);
}
/* Does anybody want the gradient of operand i? The functions below do nothing if not. */
bool ebb__op_grad_wanted(const op_grad *g, int32_t i);
/* Adds d to the gradient of operand i. */
ebb_status ebb__op_grad_add(op_grad *g, int32_t i, ir_val d) EBB_MUST_CHECK;
/* Adds what `op` makes of `in` to the gradient of operand i. */
ebb_status ebb__op_grad_emit(op_grad *g, int32_t i, op_code op, const ir_val *in, int32_t n_in,
                             const ir_attr *attr) EBB_MUST_CHECK;
/* The same by an op that accumulates: it takes the sum so far as an operand before `in`. */
ebb_status ebb__op_grad_sum(op_grad *g, int32_t i, op_code op, const ir_val *in, int32_t n_in,
                            const ir_attr *attr) EBB_MUST_CHECK;

/* ---- samples ---- */
/* clang-format off */
#define F1(a) {IR_F32, 1, {a}}
#define F2(a, b) {IR_F32, 2, {a, b}}
#define F3(a, b, c) {IR_F32, 3, {a, b, c}}
#define I1(a) {IR_I32, 1, {a}}
#define D1(a) {IR_F64, 1, {a}}
#define MAP(g, b, y, x, n, c) {IR_F32, 6, {g, b, y, x, n, c}}
/* clang-format on */
/* The operands of a sample, by type. */
#define IN(...)                                                                                    \
    .in = {__VA_ARGS__}, .n_in = (int32_t)(sizeof((ir_type[]){__VA_ARGS__}) / sizeof(ir_type))
#define SAMPLES(array) .samples = array, .n_samples = (int32_t)(sizeof(array) / sizeof *(array))

#endif
