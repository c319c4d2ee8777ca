/* matmul.c - matmul(c, a, b) = c + a b in all four transpositions, and transpose.
 *
 * The sum is part of the op: c is a matrix of the result's type, a bias row, or absent. Gradients
 * therefore accumulate inside the product and need no buffer of their own. Operands of more than
 * two axes count as matrices of all their rows. b may have gone through pack, which a pass does
 * where one b serves many products; the columns may be groups of units (op_def.units).
 */
#include "op/define.h"
#include "op/pack.h"

#define REF_FAMILY "op/ref/matmul.inc"
#include "op/ref/twice.h"

enum { C, A, B }; /* operands */

static bool same_leading(const ir_type *a, const ir_type *b) {
    bool same = a->rank == b->rank;
    for (int32_t d = 0; same && d < a->rank - 1; d++) {
        same = a->dim[d] == b->dim[d];
    }
    return same;
}

/* The number of columns of a product with a packed b. */
static ebb_status infer_packed(const ir_graph *graph, const ir_node_rec *node, int32_t *n) {
    const ir_type *a = op_in_type(graph, node, A), *b = op_in_type(graph, node, B);
    int32_t groups = node->attr.i[MATMUL_GROUPS], lanes = node->attr.i[MATMUL_PANEL_LANES];
    *n = node->attr.i[MATMUL_PACKED];
    if (node->attr.i[MATMUL_TRANS_A] != 0 || node->attr.i[MATMUL_TRANS_B] != 0 || a->rank < 2 ||
        *n < 1 || groups > OP_MAX_GROUPS || lanes < 1 || lanes > OP_MAX_LANES) {
        return ebb__op_bad(graph, node, "a packed b takes a plain matrix and up to %d groups",
                           OP_MAX_GROUPS);
    }
    op_panels p = op_panels_of(*n, groups, lanes);
    int64_t k = ir_cols(a);
    if (b->rank != 2 || b->dim[0] != p.count || b->dim[1] != k * p.wide) {
        return ebb__op_bad(graph, node, "b is not %lld rows packed in panels for %d columns",
                           (long long)k, *n);
    }
    return EBB_OK;
}

/* The number of columns of a product with a plain b. */
static ebb_status infer_plain(const ir_graph *graph, const ir_node_rec *node, int32_t *n) {
    bool ta = node->attr.i[MATMUL_TRANS_A] != 0, tb = node->attr.i[MATMUL_TRANS_B] != 0;
    const ir_type *a = op_in_type(graph, node, A), *b = op_in_type(graph, node, B);
    /* Rows of b may be spread over axes only where they are summed over along with those of a. */
    bool spread = ta && !tb ? same_leading(a, b) : b->rank == 2 && (!ta || a->rank == 2);
    if (a->rank < 2 || !spread) {
        return ebb__op_bad(graph, node, "operands must be matrices");
    }
    int64_t k = ta ? ebb__ir_rows(a) : ir_cols(a);
    if (k != (tb ? ir_cols(b) : ebb__ir_rows(b))) {
        return ebb__op_bad(graph, node, "inner sizes differ: %lld and %lld", (long long)k,
                           (long long)(tb ? ir_cols(b) : ebb__ir_rows(b)));
    }
    *n = tb ? b->dim[0] : b->dim[b->rank - 1];
    return EBB_OK;
}

static ebb_status infer_matmul(const ir_graph *graph, const ir_node_rec *node, ir_type *out) {
    int32_t n = 0, groups = node->attr.i[MATMUL_GROUPS];
    for (int32_t i = 0; i < 3; i++) {
        TRY(ebb__op_need(graph, node, i, IR_F32));
    }
    const ir_type *a = op_in_type(graph, node, A);
    TRY((node->attr.i[MATMUL_PACKED] != 0 ? infer_packed : infer_plain)(graph, node, &n));
    if (groups < 0 || n % (groups > 1 ? groups : 1) != 0) {
        return ebb__op_bad(graph, node, "%d columns are not %d groups", n, groups);
    }
    if (node->attr.i[MATMUL_TRANS_A] != 0) {
        out[0] = (ir_type){.dtype = IR_F32, .rank = 2, .dim = {a->dim[a->rank - 1], n}};
    } else {
        out[0] = op_with_cols(a, n);
    }
    const ir_type *c = op_in_type(graph, node, C);
    if (c != NULL && c->rank == 1) {
        return ebb__op_need_list(graph, node, C, IR_F32, n);
    }
    if (c != NULL && !ebb__ir_type_equal(c, &out[0])) {
        return ebb__op_bad(graph, node, "c must be like the result or a row of %d", n);
    }
    return EBB_OK;
}

/* Adds x y to the gradient of operand i, within the product. */
static ebb_status add_product(op_grad *g, int32_t i, ir_val x, ir_val y, bool tx, bool ty) {
    ir_attr attr = {.i = {tx, ty}};
    return ebb__op_grad_sum(g, i, OP_MATMUL, (ir_val[]){x, y}, 2, &attr);
}

static ebb_status matmul_grad(op_grad *g) {
    const ir_attr *attr = &g->node.attr;
    bool ta = attr->i[MATMUL_TRANS_A] != 0, tb = attr->i[MATMUL_TRANS_B] != 0;
    ir_val a = op_grad_in(g, A), b = op_grad_in(g, B), dy = g->dy;
    const ir_type *c = op_grad_type(g, C);
    if (attr->i[MATMUL_PACKED] != 0) {
        return ebb__op_bad(g->graph, &g->node, "a product with a packed b has no gradient");
    }
    if (c != NULL && c->rank == 1) {
        TRY(ebb__op_grad_sum(g, C, OP_SUM_ROWS, &dy, 1, NULL));
    } else {
        TRY(ebb__op_grad_add(g, C, dy));
    }
    /* a as used is da' = dy b'^T; a transposed operand takes the transposed product. */
    TRY(ta ? add_product(g, A, b, dy, tb, true) : add_product(g, A, dy, b, false, !tb));
    return tb ? add_product(g, B, dy, a, true, ta) : add_product(g, B, a, dy, !ta, false);
}

static op_cost cost_matmul(const ir_graph *graph, const ir_node_rec *node) {
    const ir_type *a = op_in_type(graph, node, A);
    double k = (double)(node->attr.i[MATMUL_TRANS_A] ? ebb__ir_rows(a) : ir_cols(a));
    double elements = (double)ebb__op_elements(&graph->values[node->out].type);
    return ebb__op_cost_work(graph, node, 2.0 * k * elements);
}

static void rows_matmul(const ir_graph *graph, const ir_node_rec *node, op_row_role *in,
                        op_row_role *out) {
    bool ta = node->attr.i[MATMUL_TRANS_A] != 0, tb = node->attr.i[MATMUL_TRANS_B] != 0;
    const ir_type *c = op_in_type(graph, node, C);
    in[C] = in[A] = in[B] = out[0] = ROWS_WHOLE; /* both transposed: no rows to split */
    if (!ta) {
        in[A] = out[0] = ROWS_SPLIT;
        in[C] = c != NULL && c->rank == 1 ? ROWS_WHOLE : ROWS_SPLIT;
    } else if (!tb) {
        in[A] = in[B] = ROWS_SPLIT;
        in[C] = out[0] = ROWS_CARRY;
    }
}

/* Columns of a plain a's product are computed apart; those of a transposed a belong to weight
 * gradients, which nothing cuts by units. */
static int32_t units_matmul(const ir_graph *graph, const ir_node_rec *node, uint32_t *whole) {
    int32_t groups = node->attr.i[MATMUL_GROUPS];
    *whole = 1u << A | 1u << B;
    if (node->attr.i[MATMUL_TRANS_A] != 0) {
        return 0;
    }
    return (int32_t)ir_cols(&graph->values[node->out].type) / (groups > 1 ? groups : 1);
}

/* c of a sample: its type and fill. */
#define TYPE_NONE(m, n) F1(1)
#define TYPE_ROW(m, n) F1(n)
#define TYPE_FULL(m, n) F2(m, n)
#define WITH_NONE FILL_ABSENT
#define WITH_ROW FILL_NORMAL
#define WITH_FULL FILL_NORMAL
/* clang-format off */
#define FORM(c, m, n, a, b, ta, tb) \
    {IN(TYPE_##c(m, n), a, b), .fill = {WITH_##c}, .attr = {.i = {ta, tb}}}
/* clang-format on */
#define NN(c, m, k, n) FORM(c, m, n, F2(m, k), F2(k, n), 0, 0)
#define NT(c, m, k, n) FORM(c, m, n, F2(m, k), F2(n, k), 0, 1)
#define TN(c, m, k, n) FORM(c, m, n, F2(k, m), F2(k, n), 1, 0)
#define TT(c, m, k, n) FORM(c, m, n, F2(k, m), F2(n, k), 1, 1)
/* n columns in `groups`, packed in panels of `wide` columns, and plain. */
/* clang-format off */
#define PK(c, m, k, n, groups, panels, wide) \
    {IN(TYPE_##c(m, n), F2(m, k), F2(panels, (k) * (wide))), .fill = {WITH_##c}, \
     .attr = {.i = {0, 0, groups, n, (wide) / ((groups) > 1 ? (groups) : 1)}}}
#define GROUPED(c, m, k, n, groups) \
    {IN(TYPE_##c(m, n), F2(m, k), F2(k, n)), .fill = {WITH_##c}, \
     .attr = {.i = {0, 0, groups}}}
/* clang-format on */
#define ALL_FORMS(c, m, k, n) NN(c, m, k, n), NT(c, m, k, n), TN(c, m, k, n), TT(c, m, k, n)

static const op_sample samples_matmul[] = {
    ALL_FORMS(NONE, 1, 1, 1),
    ALL_FORMS(FULL, 3, 4, 5),
    ALL_FORMS(ROW, 5, 7, 17),
    ALL_FORMS(NONE, 3, 17, 33),
    ALL_FORMS(FULL, 17, 3, 33),
    ALL_FORMS(ROW, 20, 33, 65),
    ALL_FORMS(FULL, 33, 65, 48),
    ALL_FORMS(NONE, 64, 32, 96),
    ALL_FORMS(FULL, 7, 130, 1),
    {IN(F1(9), F3(2, 3, 5), F2(5, 9))},
    {IN(F2(5, 9), F3(2, 3, 5), F3(2, 3, 9)), .attr = {.i = {1, 0}}},
    NN(ROW, 301, 19, 33),
    NT(FULL, 301, 19, 33),
    TN(FULL, 19, 301, 33),
    NT(ROW, 7, 300, 40),
    TN(FULL, 70, 9, 270),
    TN(NONE, 36, 40, 530),
    GROUPED(FULL, 5, 9, 66, 3),
    GROUPED(ROW, 33, 20, 100, 4),
    PK(NONE, 1, 1, 1, 0, 1, 32),
    PK(ROW, 4, 7, 33, 1, 2, 32),
    PK(FULL, 20, 130, 65, 1, 3, 32),
    PK(FULL, 31, 300, 72, 1, 3, 32),
    PK(NONE, 64, 17, 24, 2, 2, 16),
    PK(FULL, 5, 40, 51, 3, 3, 24),
    PK(ROW, 20, 33, 96, 3, 4, 24),
    PK(ROW, 3, 19, 4, 4, 1, 32),
    PK(FULL, 20, 290, 68, 4, 3, 32),
    PK(NONE, 130, 65, 96, 4, 3, 32),
    PK(ROW, 4, 7, 33, 1, 7, 5),
    PK(FULL, 3, 5, 12, 2, 6, 2),
};

OP_DEFINE(matmul, .schema.ints = {"trans_a", "trans_b", "groups", "packed", "lanes"}, .n_in = 3,
          .optional = 1u << C, .n_out = 1, .flags = OPF_HEAVY, .infer = infer_matmul,
          .grad = matmul_grad, INPLACE({C, 0}), .cost = cost_matmul, .rows = rows_matmul,
          .units = units_matmul, SAMPLES(samples_matmul));

static ebb_status infer_transpose(const ir_graph *graph, const ir_node_rec *node, ir_type *out) {
    const ir_type *x = op_in_type(graph, node, 0);
    TRY(ebb__op_need(graph, node, 0, IR_F32));
    if (x->rank != 2) {
        return ebb__op_bad(graph, node, "operand must be a matrix");
    }
    out[0] = (ir_type){.dtype = IR_F32, .rank = 2, .dim = {x->dim[1], x->dim[0]}};
    return EBB_OK;
}

static ebb_status transpose_grad(op_grad *g) {
    return ebb__op_grad_emit(g, 0, OP_TRANSPOSE, &g->dy, 1, NULL);
}

static const op_sample samples_transpose[] = {
    {IN(F2(1, 1))}, {IN(F2(3, 17))}, {IN(F2(33, 8))}, {IN(F2(65, 40))}, {IN(F2(301, 19))},
};

OP_DEFINE(transpose, .n_in = 1, .n_out = 1, .infer = infer_transpose, .grad = transpose_grad,
          SAMPLES(samples_transpose));
