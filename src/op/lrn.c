/* lrn.c - local response normalisation across channels, as PyTorch's LocalResponseNorm with beta
 * 0.75: an exponent that square roots reach, so that vectors give the bits of the reference. */
#include "op/lrn.h"

#include "op/define.h"

#define REF_FAMILY "op/ref/lrn.inc"
#include "op/ref/twice.h"

/* x; or dy, x. */
static ebb_status infer_lrn(const ir_graph *graph, const ir_node_rec *node, ir_type *out) {
    int32_t size = node->attr.i[LRN_SIZE];
    float alpha = node->attr.f[LRN_ALPHA], k = node->attr.f[LRN_K];
    TRY(ebb__op_need_map(graph, node, 0));
    if (size < 1 || size > OP_MAP_WINDOW) {
        return ebb__op_bad(graph, node, "size must be 1 to %d, is %d", OP_MAP_WINDOW, size);
    }
    if (!(alpha >= 0.0f && isfinite(alpha) && k > 0.0f && isfinite(k))) {
        return ebb__op_bad(graph, node, "alpha must be 0 or more, k above 0, both finite");
    }
    return ebb__op_infer_same(graph, node, out);
}

static ebb_status lrn_grad(op_grad *g) {
    return ebb__op_grad_emit(g, 0, OP_LRN_GRAD, (ir_val[]){g->dy, op_grad_in(g, 0)}, 2,
                             &g->node.attr);
}

/* A window's products, two roots and a quotient; the gradient has a window more. */
static op_cost cost_lrn(const ir_graph *graph, const ir_node_rec *node) {
    double each = node->n_in * (2.0 * node->attr.i[LRN_SIZE] + 24.0);
    return ebb__op_cost_work(graph, node,
                             each * (double)ebb__op_elements(op_in_type(graph, node, 0)));
}

/* clang-format off */
/* X(groups, blocks, high, wide, images a group, channels a block, size) */
#define SIZES(X)                                                                     \
    X(1, 1, 1, 1, 1, 1, 1) X(2, 2, 3, 2, 8, 32, 5) X(1, 3, 2, 3, 4, 16, 5) X(1, 1, 2, 2, 9, 10, 4) \
    X(1, 4, 1, 3, 5, 3, 7) X(2, 1, 2, 1, 1, 3, 9)
#define LRN(g, b, y, x, n, c, size) \
    {IN(MAP(g, b, y, x, n, c)), .attr = {.i = {size}, .f = {0.3f, 1.5f}}},
#define LRN_BACK(g, b, y, x, n, c, size) \
    {IN(MAP(g, b, y, x, n, c), MAP(g, b, y, x, n, c)), .attr = {.i = {size}, .f = {0.3f, 1.5f}}},
/* clang-format on */
static const op_sample samples_lrn[] = {SIZES(LRN)};
static const op_sample samples_lrn_grad[] = {SIZES(LRN_BACK)};

OP_DEFINE(lrn, .schema.ints = {"size"}, .schema.floats = {"alpha", "k"}, .n_in = 1, .n_out = 1,
          .layout = LAYOUT_MAPS, .zeros = ZEROS_KEPT, .infer = infer_lrn, .grad = lrn_grad,
          .cost = cost_lrn, .rows = ebb__op_rows_split, .stash = {STASH_AGAIN},
          SAMPLES(samples_lrn));

OP_DEFINE(lrn_grad, .schema.ints = {"size"}, .schema.floats = {"alpha", "k"}, .n_in = 2, .n_out = 1,
          .flags = OPF_NOGRAD, .layout = LAYOUT_MAPS, .infer = infer_lrn, .cost = cost_lrn,
          .rows = ebb__op_rows_split, SAMPLES(samples_lrn_grad));
