/* pool.c - the largest and the mean of windows of a map, with their gradients.
 *
 * The gradient of max_pool finds the winners again from x, unless pool_index has noted them: for
 * every element of the pool's result, of a group in the order of memory, the tap of the window in
 * 2, 4 or 8 bits, lowest first. Padding counts in a mean, as it does in PyTorch, and what a window
 * has behind it does not; the mean of a whole map is a window of its size. */
#include "op/pool.h"

#include "op/code.h"
#include "op/define.h"

#define REF_FAMILY "op/ref/pool.inc"
#include "op/ref/twice.h"

/* ---- types ---- */

/* Whether the first and the last window of an axis have a pixel of the map, and so all. */
static bool fits(const op_pool_axis *a) {
    return a->pad < a->size && (a->windows - 1) * a->stride - a->pad < a->pixels;
}

/* Pools have all their operands. */
static const ir_type *in_type(const ir_graph *graph, const ir_node_rec *node, int32_t i) {
    return &graph->values[ir_in(graph, node, i)].type;
}

static ebb_status need_fit(const ir_graph *graph, const ir_node_rec *node, const op_pool *p) {
    const op_pool_axis *rows = &p->rows, *cols = &p->cols;
    if (rows->size < 1 || rows->size > OP_MAP_WINDOW || cols->size < 1 ||
        cols->size > OP_MAP_WINDOW || rows->stride < 1 || rows->stride > OP_MAP_WINDOW ||
        rows->pad < 0 || cols->pad < 0) {
        return ebb__op_bad(graph, node, "window and stride must be 1 to %d, padding 0 or more",
                           OP_MAP_WINDOW);
    }
    if (p->x.high < 1 || p->x.wide < 1 || p->y.high < 1 || p->y.wide < 1) {
        return ebb__op_bad(graph, node, "sizes must be 1 or more");
    }
    if (!fits(rows) || !fits(cols)) {
        const int32_t *a = node->attr.i;
        return ebb__op_bad(graph, node,
                           "of %d x %d windows of %d x %d, stride %d, padding %d x %d, some lie "
                           "outside the map of %d x %d",
                           p->y.high, p->y.wide, a[POOL_WINDOW_Y], a[POOL_WINDOW_X], a[POOL_STRIDE],
                           a[POOL_PAD_Y], a[POOL_PAD_X], p->x.high, p->x.wide);
    }
    return EBB_OK;
}

static ebb_status infer_pool(const ir_graph *graph, const ir_node_rec *node, ir_type *out) {
    TRY(ebb__op_need_map(graph, node, 0));
    out[0] = op_pool_resized(in_type(graph, node, 0), &node->attr);
    op_pool p = op_pool_of(in_type(graph, node, 0), &out[0], &node->attr);
    return need_fit(graph, node, &p);
}

/* dy, x. */
static ebb_status infer_max_pool_grad(const ir_graph *graph, const ir_node_rec *node,
                                      ir_type *out) {
    TRY(ebb__op_need_map(graph, node, 0));
    TRY(ebb__op_need_map(graph, node, 1));
    const ir_type *dy = in_type(graph, node, 0);
    out[0] = *in_type(graph, node, 1);
    op_pool p = op_pool_of(&out[0], dy, &node->attr);
    if (p.x.groups != p.y.groups || p.x.blocks != p.y.blocks || p.x.images != p.y.images ||
        p.x.channels != p.y.channels) {
        return ebb__op_bad(graph, node, "operands must have the same images and channels");
    }
    return need_fit(graph, node, &p);
}

/* dy; the map's size is an attribute. */
static ebb_status infer_avg_pool_grad(const ir_graph *graph, const ir_node_rec *node,
                                      ir_type *out) {
    TRY(ebb__op_need_map(graph, node, 0));
    out[0] = op_pool_resized(in_type(graph, node, 0), &node->attr);
    op_pool p = op_pool_of(&out[0], in_type(graph, node, 0), &node->attr);
    return need_fit(graph, node, &p);
}

static ebb_status need_taps(const ir_graph *graph, const ir_node_rec *node, const op_pool *p) {
    TRY(need_fit(graph, node, p));
    return p->rows.size * p->cols.size <= POOL_MOST_TAPS
               ? EBB_OK
               : ebb__op_bad(graph, node, "windows of more than %d pixels have no code",
                             POOL_MOST_TAPS);
}

static ebb_status infer_pool_index(const ir_graph *graph, const ir_node_rec *node, ir_type *out) {
    ir_type y;
    TRY(infer_pool(graph, node, &y));
    TRY(ebb__ir_type_check(graph->ctx, &y, "pool_index"));
    op_pool p = op_pool_of(in_type(graph, node, 0), &y, &node->attr);
    TRY(need_taps(graph, node, &p));
    int64_t wide = op_code_bytes(op_map_group(&p.y), op_pool_bits(&p));
    return ebb__op_code_type(graph, node, &y, IR_U8, wide, &out[0]);
}

/* dy, codes; the map's size is an attribute. */
static ebb_status infer_max_pool_grad_at(const ir_graph *graph, const ir_node_rec *node,
                                         ir_type *out) {
    TRY(infer_avg_pool_grad(graph, node, out));
    const ir_type *dy = in_type(graph, node, 0);
    op_pool p = op_pool_of(&out[0], dy, &node->attr);
    TRY(need_taps(graph, node, &p));
    int64_t wide = op_code_bytes(op_map_group(&p.y), op_pool_bits(&p));
    return ebb__op_need_code(graph, node, 1, dy, IR_U8, wide);
}

/* Of max_pool_grad(dy, x): pool_index counts windows as dy does, max_pool_grad_at pixels as x. */
static void coded_attr(const ir_graph *graph, const ir_node_rec *node, op_coded_attr *out) {
    op_map dy = op_map_of(in_type(graph, node, 0)), x = op_map_of(in_type(graph, node, 1));
    out->code = out->reader = node->attr;
    out->code.i[POOL_HIGH] = dy.high;
    out->code.i[POOL_WIDE] = dy.wide;
    out->reader.i[POOL_HIGH] = x.high;
    out->reader.i[POOL_WIDE] = x.wide;
}

/* A window of more pixels than a code can number is compared again. */
static bool is_coded(const ir_graph *graph, const ir_node_rec *node) {
    op_pool p = op_pool_of(in_type(graph, node, 1), in_type(graph, node, 0), &node->attr);
    return p.rows.size * p.cols.size <= POOL_MOST_TAPS;
}

/* ---- gradients ---- */

static ebb_status max_pool_grad(op_grad *g) {
    ir_attr attr = g->node.attr;
    attr.i[POOL_HIGH] = attr.i[POOL_WIDE] = 0;
    return ebb__op_grad_emit(g, 0, OP_MAX_POOL_GRAD, (ir_val[]){g->dy, op_grad_in(g, 0)}, 2, &attr);
}

static ebb_status avg_pool_grad(op_grad *g) {
    op_map x = op_map_of(&g->graph->values[op_grad_in(g, 0)].type);
    ir_attr attr = g->node.attr;
    attr.i[POOL_HIGH] = x.high;
    attr.i[POOL_WIDE] = x.wide;
    return ebb__op_grad_emit(g, 0, OP_AVG_POOL_GRAD, &g->dy, 1, &attr);
}

/* ---- cost ---- */

/* An operation or two for every pixel of every window; `y` has the windows. */
static op_cost cost_of(const ir_graph *graph, const ir_node_rec *node, const ir_type *y) {
    const int32_t *a = node->attr.i;
    double pixels = (double)a[POOL_WINDOW_Y] * a[POOL_WINDOW_X];
    return ebb__op_cost_work(graph, node, 2 * pixels * (double)ebb__op_elements(y));
}
static op_cost cost_pool(const ir_graph *graph, const ir_node_rec *node) {
    return cost_of(graph, node, &graph->values[node->out].type);
}
static op_cost cost_pool_index(const ir_graph *graph, const ir_node_rec *node) {
    ir_type y = op_pool_resized(in_type(graph, node, 0), &node->attr);
    return cost_of(graph, node, &y);
}
static op_cost cost_pool_grad(const ir_graph *graph, const ir_node_rec *node) {
    return cost_of(graph, node, in_type(graph, node, 0));
}

/* ---- samples ---- */

/* clang-format off */
/* X(groups, blocks, images a group, channels a block, map high, wide, window high, wide, stride, pads,
 * windows high, wide) */
#define SIZES(X)                               \
    X(1, 1, 1, 1, 1, 1, 1, 1, 1, 0, 0, 1, 1) \
    X(2, 1, 8, 32, 6, 6, 2, 2, 2, 0, 0, 3, 3) \
    X(1, 2, 8, 16, 7, 9, 3, 3, 2, 0, 0, 3, 4) \
    X(1, 1, 4, 24, 7, 6, 3, 3, 2, 1, 1, 4, 3) \
    X(3, 1, 5, 3, 8, 6, 3, 3, 2, 0, 0, 4, 3) \
    X(2, 1, 8, 10, 7, 8, 7, 8, 1, 0, 0, 1, 1) \
    X(1, 3, 9, 8, 9, 9, 2, 3, 4, 1, 1, 3, 2) \
    X(1, 1, 8, 16, 5, 4, 3, 3, 1, 1, 1, 5, 4) \
    X(2, 2, 1, 7, 4, 5, 2, 4, 1, 1, 1, 5, 3) \
    X(1, 1, 8, 24, 5, 7, 2, 2, 2, 0, 0, 3, 4) \
    X(1, 1, 8, 8, 6, 7, 3, 3, 2, 0, 1, 3, 4) \
    X(1, 2, 4, 5, 7, 5, 2, 5, 3, 1, 0, 3, 1) \
    X(2, 2, 7, 5, 5, 7, 2, 2, 2, 0, 0, 3, 4) \
    X(2, 1, 3, 9, 5, 6, 5, 4, 1, 2, 2, 5, 6)
#define POOL(g, b, n, c, y, x, wy, wx, st, py, px, high, wide) \
    {IN(MAP(g, b, y, x, n, c)), .attr = {.i = {wy, wx, st, py, px, high, wide}}},
#define MAX_GRAD(g, b, n, c, y, x, wy, wx, st, py, px, high, wide) \
    {IN(MAP(g, b, high, wide, n, c), MAP(g, b, y, x, n, c)), .attr = {.i = {wy, wx, st, py, px}}},
#define AVG_GRAD(g, b, n, c, y, x, wy, wx, st, py, px, high, wide) \
    {IN(MAP(g, b, high, wide, n, c)), .attr = {.i = {wy, wx, st, py, px, y, x}}},
/* Any codes, of taps that are outside or not there too: nobody takes those. */
#define CODES(g, elements, taps) \
    {IR_U8, 2, {g, ((elements) * ((taps) <= 4 ? 2 : (taps) <= 16 ? 4 : 8) + 7) / 8}}
#define GRAD_AT(g, b, n, c, y, x, wy, wx, st, py, px, high, wide)                                   \
    {IN(MAP(g, b, high, wide, n, c), CODES(g, (b) * (high) * (wide) * (n) * (c), (wy) * (wx))), \
     .fill = {FILL_NORMAL, FILL_BYTE}, .attr = {.i = {wy, wx, st, py, px, y, x}}},
/* clang-format on */
static const op_sample samples_pool[] = {SIZES(POOL)};
static const op_sample samples_max_grad[] = {SIZES(MAX_GRAD)};
static const op_sample samples_avg_grad[] = {SIZES(AVG_GRAD)};
static const op_sample samples_grad_at[] = {SIZES(GRAD_AT)};

/* ---- definitions ---- */

#define NUMBERS "window_y", "window_x", "stride", "pad_y", "pad_x"

OP_DEFINE(max_pool, .schema.ints = {NUMBERS, "high", "wide"}, .n_in = 1, .n_out = 1,
          .layout = LAYOUT_MAPS, .zeros = ZEROS_FEWER, .infer = infer_pool, .grad = max_pool_grad,
          .cost = cost_pool, .rows = ebb__op_rows_split, .stash = {STASH_EITHER},
          SAMPLES(samples_pool));

OP_DEFINE(max_pool_grad, .schema.ints = {NUMBERS}, .n_in = 2, .n_out = 1, .flags = OPF_NOGRAD,
          .layout = LAYOUT_MAPS, .infer = infer_max_pool_grad, .cost = cost_pool_grad,
          .coded = {.code = OP_POOL_INDEX,
                    .reader = OP_MAX_POOL_GRAD_AT,
                    .in = 1,
                    .attr = coded_attr,
                    .able = is_coded},
          .rows = ebb__op_rows_split, SAMPLES(samples_max_grad));

OP_DEFINE(pool_index, .schema.ints = {NUMBERS, "high", "wide"}, .n_in = 1, .n_out = 1,
          .flags = OPF_NOGRAD, .layout = LAYOUT_MAPS, .form = "index", .infer = infer_pool_index,
          .cost = cost_pool_index, .rows = ebb__op_rows_split, SAMPLES(samples_pool));

OP_DEFINE(max_pool_grad_at, .schema.ints = {NUMBERS, "high", "wide"}, .n_in = 2, .n_out = 1,
          .flags = OPF_NOGRAD, .layout = LAYOUT_MAPS, .infer = infer_max_pool_grad_at,
          .cost = cost_pool_grad, .rows = ebb__op_rows_split, SAMPLES(samples_grad_at));

OP_DEFINE(avg_pool, .schema.ints = {NUMBERS, "high", "wide"}, .n_in = 1, .n_out = 1,
          .layout = LAYOUT_MAPS, .infer = infer_pool, .grad = avg_pool_grad, .cost = cost_pool,
          .rows = ebb__op_rows_split, SAMPLES(samples_pool));

OP_DEFINE(avg_pool_grad, .schema.ints = {NUMBERS, "high", "wide"}, .n_in = 1, .n_out = 1,
          .flags = OPF_NOGRAD, .layout = LAYOUT_MAPS, .infer = infer_avg_pool_grad,
          .cost = cost_pool_grad, .rows = ebb__op_rows_split, SAMPLES(samples_avg_grad));
