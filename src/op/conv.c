/* conv.c - convolution of maps with weights [K, C/groups, R, S], and its three gradients.
 *
 * The gradients of x and of the weights continue from the sum so far, as matmul does, so that they
 * accumulate without a buffer of their own. That of the weights can also read x where it lies in a
 * heap (conv_sparse.h). */
#include "op/conv_sparse.h"

#include "op/batch_norm.h"
#include "op/define.h"
#include "op/narrow.h"

#define REF_FAMILY "op/ref/conv.inc"
#include "op/ref/twice.h"

/* ---- types ---- */

/* The attributes alone. */
static ebb_status need_numbers(const ir_graph *graph, const ir_node_rec *node) {
    const int32_t *a = node->attr.i;
    if (a[CONV_STRIDE] < 1 || a[CONV_STRIDE] > OP_MAP_WINDOW || a[CONV_PAD_Y] < 0 ||
        a[CONV_PAD_Y] > OP_MAP_WINDOW || a[CONV_PAD_X] < 0 || a[CONV_PAD_X] > OP_MAP_WINDOW) {
        return ebb__op_bad(graph, node, "stride must be 1 to %d, padding 0 to %d", OP_MAP_WINDOW,
                           OP_MAP_WINDOW);
    }
    return a[CONV_GROUPS] >= 1
               ? EBB_OK
               : ebb__op_bad(graph, node, "groups must be 1 or more, is %d", a[CONV_GROUPS]);
}

/* Whether x, w and y are those of one convolution. */
static ebb_status need_fit(const ir_graph *graph, const ir_node_rec *node, const op_map *x,
                           const ir_type *w, const op_map *y) {
    const int32_t *a = node->attr.i, groups = a[CONV_GROUPS];
    if (w->rank != 4 || w->dim[2] > OP_MAP_WINDOW || w->dim[3] > OP_MAP_WINDOW) {
        return ebb__op_bad(graph, node, "weights must be [K, C, R, S] with R and S up to %d",
                           OP_MAP_WINDOW);
    }
    if (w->dim[0] % groups != 0 || (int64_t)w->dim[1] * groups != op_map_channels(x) ||
        w->dim[0] != op_map_channels(y)) {
        return ebb__op_bad(graph, node,
                           "weights [%d, %d] do not take %lld channels to %lld in %d groups",
                           w->dim[0], w->dim[1], (long long)op_map_channels(x),
                           (long long)op_map_channels(y), groups);
    }
    if (x->groups != y->groups || x->images != y->images ||
        op_conv_places(x->high, w->dim[2], a[CONV_STRIDE], a[CONV_PAD_Y]) != y->high ||
        op_conv_places(x->wide, w->dim[3], a[CONV_STRIDE], a[CONV_PAD_X]) != y->wide) {
        return ebb__op_bad(graph, node, "a window of %d x %d does not take %d x %d to %d x %d",
                           w->dim[2], w->dim[3], x->high, x->wide, y->high, y->wide);
    }
    return EBB_OK;
}

/* Lanes of `channels` as the attribute says. */
static ebb_status need_lanes(const ir_graph *graph, const ir_node_rec *node, int64_t channels) {
    int32_t lanes = node->attr.i[CONV_LANES];
    return lanes >= 1 && channels % lanes == 0
               ? EBB_OK
               : ebb__op_bad(graph, node, "%lld channels do not come in lanes of %d",
                             (long long)channels, lanes);
}

/* bias, x, w. */
static ebb_status infer_conv(const ir_graph *graph, const ir_node_rec *node, ir_type *out) {
    const int32_t *a = node->attr.i;
    const ir_type *w = op_in_type(graph, node, 2);
    TRY(ebb__op_need(graph, node, 2, IR_F32));
    TRY(ebb__op_need_map(graph, node, 1));
    TRY(need_numbers(graph, node));
    op_map x = op_map_of(op_in_type(graph, node, 1)), y = x;
    if (w->rank == 4) {
        TRY(need_lanes(graph, node, w->dim[0]));
        y.channels = a[CONV_LANES];
        y.blocks = w->dim[0] / a[CONV_LANES];
        y.high = (int32_t)op_conv_places(x.high, w->dim[2], a[CONV_STRIDE], a[CONV_PAD_Y]);
        y.wide = (int32_t)op_conv_places(x.wide, w->dim[3], a[CONV_STRIDE], a[CONV_PAD_X]);
    }
    TRY(need_fit(graph, node, &x, w, &y));
    if (y.high < 1 || y.wide < 1) {
        return ebb__op_bad(graph, node, "a window of %d x %d is larger than the map of %d x %d",
                           w->dim[2], w->dim[3], x.high, x.wide);
    }
    out[0] = op_map_type(y);
    return ebb__op_need_list(graph, node, 0, IR_F32, w->dim[0]);
}

/* c, dy, w; the map's size and lanes are attributes. */
static ebb_status infer_conv_data(const ir_graph *graph, const ir_node_rec *node, ir_type *out) {
    const int32_t *a = node->attr.i;
    const ir_type *c = op_in_type(graph, node, 0), *w = op_in_type(graph, node, 2);
    TRY(ebb__op_need(graph, node, 2, IR_F32));
    TRY(ebb__op_need_map(graph, node, 1));
    TRY(need_numbers(graph, node));
    op_map y = op_map_of(op_in_type(graph, node, 1)), x = y;
    if (w->rank == 4) {
        int64_t channels = (int64_t)w->dim[1] * a[CONV_GROUPS];
        TRY(need_lanes(graph, node, channels));
        x.channels = a[CONV_LANES];
        x.blocks = (int32_t)(channels / a[CONV_LANES]);
    }
    x.high = a[CONV_HIGH];
    x.wide = a[CONV_WIDE];
    TRY(need_fit(graph, node, &x, w, &y));
    out[0] = op_map_type(x);
    return c == NULL || ebb__ir_type_equal(c, &out[0])
               ? EBB_OK
               : ebb__op_bad(graph, node, "c must be like the result");
}

/* c, dy and, in whatever form, an x of this type; the window is an attribute. */
static ebb_status infer_sums(const ir_graph *graph, const ir_node_rec *node, const ir_type *of,
                             ir_type *out) {
    const int32_t *a = node->attr.i;
    const ir_type *c = op_in_type(graph, node, 0);
    TRY(need_numbers(graph, node));
    op_map y = op_map_of(op_in_type(graph, node, 1)), x = op_map_of(of);
    int32_t groups = a[CONV_GROUPS];
    out[0] =
        (ir_type){.dtype = IR_F32,
                  .rank = 4,
                  .dim = {(int32_t)op_map_channels(&y), (int32_t)(op_map_channels(&x) / groups),
                          a[CONV_HIGH], a[CONV_WIDE]}};
    TRY(need_fit(graph, node, &x, &out[0], &y));
    return c == NULL || ebb__ir_type_equal(c, &out[0])
               ? EBB_OK
               : ebb__op_bad(graph, node, "c must be like the result");
}

/* c, dy, x. */
static ebb_status infer_conv_weights(const ir_graph *graph, const ir_node_rec *node, ir_type *out) {
    TRY(ebb__op_need_map(graph, node, 1));
    TRY(ebb__op_need_map(graph, node, 2));
    return infer_sums(graph, node, op_in_type(graph, node, 2), out);
}

/* Statistics, gain and bias of so many channels, all or none of them. */
static ebb_status need_norm(const ir_graph *graph, const ir_node_rec *node, int64_t channels) {
    const ir_type *stat = op_in_type(graph, node, 3);
    bool gain = op_in_type(graph, node, 4) != NULL, bias = op_in_type(graph, node, 5) != NULL;
    if (gain != (stat != NULL) || bias != gain) {
        return ebb__op_bad(graph, node, "stat, gain and bias come together");
    }
    if (stat != NULL && (stat->dtype != IR_F32 || stat->rank != 2 || stat->dim[0] != STAT_ROWS ||
                         stat->dim[1] != channels)) {
        return ebb__op_bad(graph, node, "stat must be [%d,%lld]", STAT_ROWS, (long long)channels);
    }
    TRY(ebb__op_need_list(graph, node, 4, IR_F32, channels));
    return ebb__op_need_list(graph, node, 5, IR_F32, channels);
}

/* c, dy, x, stat, gain, bias. */
static ebb_status infer_conv_weights_norm(const ir_graph *graph, const ir_node_rec *node,
                                          ir_type *out) {
    TRY(ebb__op_need_map(graph, node, 1));
    TRY(ebb__op_need_map(graph, node, 2));
    op_map m = op_map_of(op_in_type(graph, node, 2));
    TRY(need_norm(graph, node, op_map_channels(&m)));
    return infer_sums(graph, node, op_in_type(graph, node, 2), out);
}

/* c, dy, codes, stat, gain, bias. */
static ebb_status infer_conv_weights_narrow(const ir_graph *graph, const ir_node_rec *node,
                                            ir_type *out) {
    op_format f = op_format_of(node->attr.i[CONV_FORMAT]);
    TRY(ebb__op_need_map(graph, node, 1));
    if (f.bits == 0) {
        return ebb__op_bad(graph, node, "format must be 16, 10 or 8, not %d",
                           node->attr.i[CONV_FORMAT]);
    }
    ir_type x = op_conv_narrow_x(op_in_type(graph, node, 1), &node->attr);
    TRY(ebb__ir_type_check(graph->ctx, &x, "conv_weights_narrow"));
    TRY(ebb__op_need_code(graph, node, 2, &x, op_format_dtype(&f),
                          op_format_wide(&f, op_step_elements(&x))));
    op_map m = op_map_of(&x);
    TRY(need_norm(graph, node, op_map_channels(&m)));
    return infer_sums(graph, node, &x, out);
}

/* Operand i and the one behind it are the bits and starts of a part of x. */
static ebb_status need_part(const ir_graph *graph, const ir_node_rec *node, int32_t i, op_map *x) {
    const ir_type *bits = op_in_type(graph, node, i), *starts = op_in_type(graph, node, i + 1);
    int64_t block = op_map_block(x);
    bool codes = bits != NULL && starts != NULL && bits->dtype == IR_U8 && bits->rank == 2 &&
                 bits->dim[0] == x->groups && starts->dtype == IR_I32 && starts->rank == 2 &&
                 starts->dim[0] == x->groups && starts->dim[1] == op_heap_blocks(bits->dim[1]) + 1;
    int32_t blocks = codes && block >= 8 ? op_conv_part_blocks(x, bits) : 0;
    x->blocks += blocks;
    return blocks > 0 && bits->dim[1] == op_code_bytes(blocks * block, 1)
               ? EBB_OK
               : ebb__op_bad(graph, node,
                             "operands %d and %d must be bits and starts of blocks of "
                             "%lld elements, at least 8",
                             i, i + 1, (long long)block);
}

/* c, dy, heap, then bits and starts of every part of x. */
static ebb_status infer_conv_weights_sparse(const ir_graph *graph, const ir_node_rec *node,
                                            ir_type *out) {
    const int32_t *a = node->attr.i;
    const ir_type *c = op_in_type(graph, node, 0);
    if (node->n_in < CONV_PARTS + 2 || node->n_in % 2 != CONV_PARTS % 2) {
        return ebb__op_bad(graph, node, "%d operands are no c, dy, heap and pairs", node->n_in);
    }
    TRY(ebb__op_need_map(graph, node, 1));
    TRY(ebb__op_need_heap(graph, node, CONV_HEAP));
    TRY(need_numbers(graph, node));
    if (a[CONV_X_HIGH] < 1 || a[CONV_X_WIDE] < 1 || a[CONV_X_LANES] < 1 ||
        op_in_type(graph, node, 1) == NULL) {
        return ebb__op_bad(graph, node, "x must have a size, and dy be there");
    }
    op_map y = op_map_of(op_in_type(graph, node, 1)),
           x = op_conv_sparse_x(op_in_type(graph, node, 1), &node->attr);
    for (int32_t i = CONV_PARTS; i < node->n_in; i += 2) {
        TRY(need_part(graph, node, i, &x));
    }
    out[0] = (ir_type){.dtype = IR_F32,
                       .rank = 4,
                       .dim = {(int32_t)op_map_channels(&y),
                               (int32_t)(op_map_channels(&x) / a[CONV_GROUPS]), a[CONV_HIGH],
                               a[CONV_WIDE]}};
    TRY(need_fit(graph, node, &x, &out[0], &y));
    return c == NULL || ebb__ir_type_equal(c, &out[0])
               ? EBB_OK
               : ebb__op_bad(graph, node, "c must be like the result");
}

/* Of conv_weights, for the op that reads x from a heap. */
static bool heaped_attr(const ir_graph *graph, const ir_node_rec *node, ir_attr *out) {
    op_map x = op_map_of(op_in_type(graph, node, 2));
    *out = node->attr;
    out->i[CONV_X_HIGH] = x.high;
    out->i[CONV_X_WIDE] = x.wide;
    out->i[CONV_X_LANES] = x.channels;
    return op_map_block(&x) >= 8;
}

/* c, dy. */
static ebb_status infer_conv_bias(const ir_graph *graph, const ir_node_rec *node, ir_type *out) {
    TRY(ebb__op_need_map(graph, node, 1));
    op_map y = op_map_of(op_in_type(graph, node, 1));
    out[0] = op_list(IR_F32, (int32_t)op_map_channels(&y));
    return ebb__op_need_list(graph, node, 0, IR_F32, op_map_channels(&y));
}

/* ---- gradient ---- */

static ebb_status conv_grad(op_grad *g) {
    ir_val x = op_grad_in(g, 1), w = op_grad_in(g, 2);
    op_map m = op_map_of(op_grad_type(g, 1));
    const ir_type window = *op_grad_type(g, 2);
    ir_attr data = g->node.attr, weights = g->node.attr;
    data.i[CONV_LANES] = m.channels;
    data.i[CONV_HIGH] = m.high;
    data.i[CONV_WIDE] = m.wide;
    weights.i[CONV_LANES] = 0;
    weights.i[CONV_HIGH] = window.dim[2];
    weights.i[CONV_WIDE] = window.dim[3];
    TRY(ebb__op_grad_sum(g, 0, OP_CONV_BIAS, &g->dy, 1, NULL));
    TRY(ebb__op_grad_sum(g, 2, OP_CONV_WEIGHTS, (ir_val[]){g->dy, x}, 2, &weights));
    return ebb__op_grad_sum(g, 1, OP_CONV_DATA, (ir_val[]){g->dy, w}, 2, &data);
}

/* ---- cost, rows ---- */

static op_cost cost_of(const ir_graph *graph, const ir_node_rec *node, const ir_type *x,
                       const ir_type *w, const ir_type *y) {
    op_conv v = op_conv_of(x, w, y, &node->attr);
    double taps = (double)v.inputs * v.high * v.wide;
    return ebb__op_cost_work(graph, node, 2.0 * taps * (double)ebb__op_elements(y));
}

static op_cost cost_conv(const ir_graph *graph, const ir_node_rec *node) {
    return cost_of(graph, node, op_in_type(graph, node, 1), op_in_type(graph, node, 2),
                   &graph->values[node->out].type);
}
static op_cost cost_conv_data(const ir_graph *graph, const ir_node_rec *node) {
    return cost_of(graph, node, &graph->values[node->out].type, op_in_type(graph, node, 2),
                   op_in_type(graph, node, 1));
}
static op_cost cost_conv_weights(const ir_graph *graph, const ir_node_rec *node) {
    return cost_of(graph, node, op_in_type(graph, node, 2), &graph->values[node->out].type,
                   op_in_type(graph, node, 1));
}

static op_cost cost_conv_weights_narrow(const ir_graph *graph, const ir_node_rec *node) {
    ir_type x = op_conv_narrow_x(op_in_type(graph, node, 1), &node->attr);
    return cost_of(graph, node, &x, &graph->values[node->out].type, op_in_type(graph, node, 1));
}

/* Of the heap only what x has of it; half of x is not 0, about. */
static op_cost cost_conv_weights_sparse(const ir_graph *graph, const ir_node_rec *node) {
    op_map x = op_conv_sparse_x(op_in_type(graph, node, 1), &node->attr);
    const ir_type *dw = &graph->values[node->out].type, *dy = op_in_type(graph, node, 1);
    x.blocks = dw->dim[1] * node->attr.i[CONV_GROUPS] / x.channels;
    ir_type type = op_map_type(x);
    op_conv v = op_conv_of(&type, dw, dy, &node->attr);
    double elements = (double)ebb__op_elements(&type);
    double taps = (double)v.inputs * v.high * v.wide;
    double value = (double)ebb__ir_dtype_bytes(op_in_type(graph, node, CONV_HEAP)->dtype);
    return (op_cost){2.0 * taps * (double)ebb__op_elements(dy),
                     (double)ebb__ir_type_bytes(dy) + 2 * (double)ebb__ir_type_bytes(dw) +
                         (0.25 + value / 2) * elements};
}

static void rows_conv(const ir_graph *graph, const ir_node_rec *node, op_row_role *in,
                      op_row_role *out) {
    (void)graph, (void)node;
    in[0] = in[2] = ROWS_WHOLE;
    in[1] = out[0] = ROWS_SPLIT;
}
static void rows_conv_data(const ir_graph *graph, const ir_node_rec *node, op_row_role *in,
                           op_row_role *out) {
    (void)graph, (void)node;
    in[2] = ROWS_WHOLE;
    in[0] = in[1] = out[0] = ROWS_SPLIT;
}
static void rows_conv_sum(const ir_graph *graph, const ir_node_rec *node, op_row_role *in,
                          op_row_role *out) {
    (void)graph;
    in[0] = out[0] = ROWS_CARRY;
    for (int32_t i = 1; i < node->n_in; i++) {
        in[i] = ROWS_SPLIT;
    }
}

static void rows_conv_norm(const ir_graph *graph, const ir_node_rec *node, op_row_role *in,
                           op_row_role *out) {
    (void)graph, (void)node;
    in[0] = out[0] = ROWS_CARRY;
    in[1] = in[2] = ROWS_SPLIT;
    in[3] = in[4] = in[5] = ROWS_WHOLE;
}

/* ---- samples ---- */

/* clang-format off */
#define F4(a, b, c, d) {IR_F32, 4, {a, b, c, d}}
/* X(groups of images, images a group, blocks of x, lanes, high, wide, blocks of y, lanes, high, wide,
 * channels of a group, window high, wide, stride, pads, groups, first operand absent) */
/* A heap has room for these. */
#define SPARSE_SIZES(X) \
    X(1, 8, 1, 32, 5, 6, 1, 32, 5, 6, 32, 3, 3, 1, 1, 1, 1, FILL_NORMAL) \
    X(2, 8, 2, 32, 3, 4, 1, 16, 3, 4, 64, 1, 1, 1, 0, 0, 1, FILL_ABSENT) \
    X(1, 3, 1, 3, 9, 7, 1, 8, 5, 4, 3, 5, 5, 2, 2, 2, 1, FILL_NORMAL) \
    X(3, 4, 3, 16, 4, 3, 2, 16, 4, 3, 24, 3, 3, 1, 1, 1, 2, FILL_NORMAL) \
    X(2, 8, 1, 16, 2, 8, 1, 10, 2, 8, 16, 1, 7, 1, 0, 3, 1, FILL_NORMAL) \
    X(1, 5, 2, 25, 3, 3, 2, 32, 5, 5, 50, 3, 3, 1, 2, 2, 1, FILL_ABSENT) \
    X(1, 8, 2, 32, 6, 6, 3, 32, 3, 3, 64, 1, 1, 2, 0, 0, 1, FILL_NORMAL)
#define SIZES(X) \
    SPARSE_SIZES(X) \
    X(1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 0, 0, 1, FILL_ABSENT) \
    X(1, 9, 5, 8, 5, 5, 1, 24, 3, 3, 40, 3, 3, 2, 1, 1, 1, FILL_ABSENT) \
    X(1, 2, 1, 3, 19, 15, 2, 5, 5, 4, 3, 11, 11, 4, 4, 4, 1, FILL_NORMAL)
#define CONV(g, n, xb, xl, xh, xw, yb, yl, yh, yw, c, r, s, st, py, px, gr, f) \
    {IN(F1((yb) * (yl)), MAP(g, xb, xh, xw, n, xl), F4((yb) * (yl), c, r, s)), .fill = {f}, \
     .attr = {.i = {st, py, px, gr, yl}}},
#define CONV_DATA(g, n, xb, xl, xh, xw, yb, yl, yh, yw, c, r, s, st, py, px, gr, f) \
    {IN(MAP(g, xb, xh, xw, n, xl), MAP(g, yb, yh, yw, n, yl), F4((yb) * (yl), c, r, s)), \
     .fill = {f}, .attr = {.i = {st, py, px, gr, xl, xh, xw}}},
#define CONV_WEIGHTS(g, n, xb, xl, xh, xw, yb, yl, yh, yw, c, r, s, st, py, px, gr, f) \
    {IN(F4((yb) * (yl), c, r, s), MAP(g, yb, yh, yw, n, yl), MAP(g, xb, xh, xw, n, xl)), \
     .fill = {f}, .attr = {.i = {st, py, px, gr, 0, r, s}}},
#define NORMED(g, n, xb, xl, xh, xw, yb, yl, yh, yw, c, r, s, st, py, px, gr, f) \
    {IN(F4((yb) * (yl), c, r, s), MAP(g, yb, yh, yw, n, yl), MAP(g, xb, xh, xw, n, xl), \
        F2(STAT_ROWS, (xb) * (xl)), F1((xb) * (xl)), F1((xb) * (xl))), \
     .fill = {f}, .attr = {.i = {st, py, px, gr, 0, r, s, (g) % 2}}},
#define CODED(g, n, xb, xl, xh, xw, yb, yl, yh, yw, c, r, s, st, py, px, gr, f, type, wide, format, last, norm) \
    {IN(F4((yb) * (yl), c, r, s), MAP(g, yb, yh, yw, n, yl), {type, 2, {g, wide}}, \
        F2(STAT_ROWS, (xb) * (xl)), F1((xb) * (xl)), F1((xb) * (xl))), \
     .fill = {f, FILL_NORMAL, FILL_BYTE, norm, norm, norm}, \
     .attr = {.i = {st, py, px, gr, 0, r, s, format, last, xb, xh, xw, n, xl}}},
#define CODED_8(g, n, xb, xl, xh, xw, ...) \
    CODED(g, n, xb, xl, xh, xw, __VA_ARGS__, IR_U8, (xb) * (xl) * (xh) * (xw) * (n), 8, 1, FILL_NORMAL)
#define CODED_10(g, n, xb, xl, xh, xw, ...) \
    CODED(g, n, xb, xl, xh, xw, __VA_ARGS__, IR_U8, ((xb) * (xl) * (xh) * (xw) * (n) + 2) / 3 * 4, 10, 0, FILL_NORMAL)
#define CODED_16(g, n, xb, xl, xh, xw, ...) \
    CODED(g, n, xb, xl, xh, xw, __VA_ARGS__, IR_U16, (xb) * (xl) * (xh) * (xw) * (n), 16, 0, FILL_ABSENT)
#define CONV_BIAS(g, n, xb, xl, xh, xw, yb, yl, yh, yw, c, r, s, st, py, px, gr, f) \
    {IN(F1((yb) * (yl)), MAP(g, yb, yh, yw, n, yl)), .fill = {f}},
#define BYTES(xb, xh, xw, n, xl) (((xb) * (xh) * (xw) * (n) * (xl) + 7) / 8)
#define PART(g, bytes) {IR_U8, 2, {g, bytes}}, {IR_I32, 2, {g, ((bytes) * 8 + 255) / 256 + 1}}
#define SPARSE(g, n, xb, xl, xh, xw, yb, yl, yh, yw, c, r, s, st, py, px, gr, f, type, values) \
    {IN(F4((yb) * (yl), c, r, s), MAP(g, yb, yh, yw, n, yl), {type, 1, {1300}}, PART(g, BYTES(xb, xh, xw, n, xl))), \
     .fill = {f, FILL_NORMAL, values, FILL_BYTE, FILL_LABEL}, .limit = 1300 - 256 + 1, \
     .attr = {.i = {st, py, px, gr, 0, r, s, xh, xw, xl}}},
#define SPARSE_32(...) SPARSE(__VA_ARGS__, IR_F32, FILL_NORMAL)
#define SPARSE_16(...) SPARSE(__VA_ARGS__, IR_U16, FILL_BYTE)
#define SPARSE_8(...) SPARSE(__VA_ARGS__, IR_U8, FILL_BYTE)
/* clang-format on */
static const op_sample samples_conv[] = {SIZES(CONV)};
static const op_sample samples_conv_data[] = {SIZES(CONV_DATA)};
static const op_sample samples_conv_weights[] = {SIZES(CONV_WEIGHTS)};
static const op_sample samples_conv_norm[] = {SIZES(NORMED)};
static const op_sample samples_conv_narrow[] = {SIZES(CODED_8) SIZES(CODED_10) SIZES(CODED_16)};
static const op_sample samples_conv_bias[] = {SIZES(CONV_BIAS)};
static const op_sample samples_conv_sparse[] = {
    SPARSE_SIZES(SPARSE_32) SPARSE_SIZES(SPARSE_16) SPARSE_SIZES(SPARSE_8)
    /* 24 channels and 40, of which the parts have 1 and 2 blocks, or 3 and 2. */
    {IN(F4(16, 24, 3, 3), MAP(2, 1, 5, 4, 8, 16), F1(1300), PART(2, BYTES(1, 5, 4, 8, 8)),
        PART(2, BYTES(2, 5, 4, 8, 8))),
     .fill = {FILL_NORMAL, FILL_NORMAL, FILL_NORMAL, FILL_BYTE, FILL_LABEL, FILL_BYTE, FILL_LABEL},
     .limit = 1300 - 256 + 1, .attr = {.i = {1, 1, 1, 1, 0, 3, 3, 5, 4, 8}}},
    {IN(F4(8, 15, 1, 1), MAP(1, 1, 3, 3, 5, 8), F1(1300), PART(1, BYTES(3, 3, 3, 5, 3)),
        PART(1, BYTES(2, 3, 3, 5, 3))),
     .fill = {FILL_ABSENT, FILL_NORMAL, FILL_NORMAL, FILL_BYTE, FILL_LABEL, FILL_BYTE, FILL_LABEL},
     .limit = 1300 - 256 + 1, .attr = {.i = {1, 0, 0, 1, 0, 1, 1, 3, 3, 3}}},
};

/* ---- definitions ---- */

#define NUMBERS "stride", "pad_y", "pad_x", "groups"

OP_DEFINE(conv, .schema.ints = {NUMBERS, "lanes"}, .n_in = 3, .optional = 1u << 0, .n_out = 1,
          .flags = OPF_HEAVY, .layout = LAYOUT_MAPS, .infer = infer_conv, .grad = conv_grad,
          .cost = cost_conv, .rows = rows_conv, SAMPLES(samples_conv));

OP_DEFINE(conv_data, .schema.ints = {NUMBERS, "lanes", "high", "wide"}, .n_in = 3,
          .optional = 1u << 0, .n_out = 1, .flags = OPF_HEAVY | OPF_NOGRAD, .layout = LAYOUT_MAPS,
          .infer = infer_conv_data, INPLACE({0, 0}), .cost = cost_conv_data, .rows = rows_conv_data,
          SAMPLES(samples_conv_data));

OP_DEFINE(conv_weights, .schema.ints = {NUMBERS, "lanes", "high", "wide"}, .n_in = 3,
          .optional = 1u << 0, .n_out = 1, .flags = OPF_HEAVY | OPF_NOGRAD, .layout = LAYOUT_MAPS,
          .infer = infer_conv_weights, INPLACE({0, 0}), .cost = cost_conv_weights,
          .heaped = {.reader = OP_CONV_WEIGHTS_SPARSE, .in = 2, .attr = heaped_attr},
          .rows = rows_conv_sum, SAMPLES(samples_conv_weights));

OP_DEFINE(conv_weights_norm, .schema.ints = {NUMBERS, "lanes", "high", "wide", "relu"}, .n_in = 6,
          .optional = 1u << 0, .n_out = 1, .flags = OPF_HEAVY | OPF_NOGRAD, .layout = LAYOUT_MAPS,
          .infer = infer_conv_weights_norm, INPLACE({0, 0}), .cost = cost_conv_weights,
          .rows = rows_conv_norm, SAMPLES(samples_conv_norm));

OP_DEFINE(conv_weights_narrow,
          .schema.ints = {NUMBERS, "lanes", "high", "wide", "format", "relu", "x_blocks", "x_high",
                          "x_wide", "x_images", "x_channels"},
          .n_in = 6, .optional = 1u << 0 | 1u << 3 | 1u << 4 | 1u << 5, .n_out = 1,
          .flags = OPF_HEAVY | OPF_NOGRAD, .layout = LAYOUT_MAPS,
          .infer = infer_conv_weights_narrow, INPLACE({0, 0}), .cost = cost_conv_weights_narrow,
          .rows = rows_conv_norm, SAMPLES(samples_conv_narrow));

OP_DEFINE(conv_weights_sparse,
          .schema.ints = {NUMBERS, "lanes", "high", "wide", "x_high", "x_wide", "x_lanes"},
          .n_in = 1, .optional = 1u << 0, .n_out = 1,
          .flags = OPF_HEAVY | OPF_NOGRAD | OPF_VARIADIC, .layout = LAYOUT_MAPS,
          .infer = infer_conv_weights_sparse, INPLACE({0, 0}), .cost = cost_conv_weights_sparse,
          SAMPLES(samples_conv_sparse));

OP_DEFINE(conv_bias, .n_in = 2, .optional = 1u << 0, .n_out = 1, .flags = OPF_NOGRAD,
          .layout = LAYOUT_MAPS, .infer = infer_conv_bias, INPLACE({0, 0}), .work = {1, OPERAND(1)},
          .rows = rows_conv_sum, SAMPLES(samples_conv_bias));
