/* flatten.c - maps and what is not one: rows of a matrix in PyTorch's order of elements, which
 * linear layers take, and the bytes of images.
 *
 * Axis 0 of the matrix is images, axis 0 of the map groups of them, so none of these ops can be cut
 * by rows without knowing both. */
#include "op/define.h"
#include "op/map.h"

#define REF_FAMILY "op/ref/flatten.inc"
#include "op/ref/twice.h"

/* Attributes of unflatten: the map, but for the number of its groups. */
enum { FLAT_BLOCKS, FLAT_HIGH, FLAT_WIDE, FLAT_IMAGES, FLAT_CHANNELS, FLAT_SIZES };
enum { LANES, CHANNELS }; /* of images, how many lie side by side, and how many channels */

/* ---- types ---- */

static ebb_status infer_flatten(const ir_graph *graph, const ir_node_rec *node, ir_type *out) {
    TRY(ebb__op_need_map(graph, node, 0));
    op_map m = op_map_of(op_in_type(graph, node, 0));
    int64_t image = op_map_group(&m) / m.images, images = op_map_images(&m);
    if (image > INT32_MAX || images > INT32_MAX) {
        return ebb__op_bad(graph, node, "%lld images of %lld elements do not fit a matrix",
                           (long long)images, (long long)image);
    }
    out[0] = (ir_type){.dtype = IR_F32, .rank = 2, .dim = {(int32_t)images, (int32_t)image}};
    return EBB_OK;
}

static ebb_status infer_unflatten(const ir_graph *graph, const ir_node_rec *node, ir_type *out) {
    const int32_t *a = node->attr.i;
    TRY(ebb__op_need_matrix(graph, node, 0));
    const ir_type *x = op_in_type(graph, node, 0);
    int64_t image = 1;
    for (int32_t i = 0; i < FLAT_SIZES; i++) {
        if (a[i] < 1) {
            return ebb__op_bad(graph, node, "a map has sizes of 1 or more, not %d", a[i]);
        }
        /* Stops short of an overflow: it is more than the columns already. */
        image *= i == FLAT_IMAGES || image > x->dim[1] ? 1 : a[i];
    }
    if (image != x->dim[1] || x->dim[0] % a[FLAT_IMAGES] != 0) {
        return ebb__op_bad(graph, node, "%d rows of %d are not such a map", x->dim[0], x->dim[1]);
    }
    out[0] = op_map_type((op_map){x->dim[0] / a[FLAT_IMAGES], a[FLAT_BLOCKS], a[FLAT_HIGH],
                                  a[FLAT_WIDE], a[FLAT_IMAGES], a[FLAT_CHANNELS]});
    return EBB_OK;
}

/* x, scale, shift. */
static ebb_status infer_images(const ir_graph *graph, const ir_node_rec *node, ir_type *out) {
    int32_t lanes = node->attr.i[LANES], channels = node->attr.i[CHANNELS];
    const ir_type *x = op_in_type(graph, node, 0);
    TRY(ebb__op_need(graph, node, 0, IR_U8));
    if (x->rank != 4) {
        return ebb__op_bad(graph, node, "images must be [N, Y, X, C]");
    }
    if (lanes < 1 || x->dim[0] % lanes != 0) {
        return ebb__op_bad(graph, node, "%d images do not come in lanes of %d", x->dim[0], lanes);
    }
    if (channels < 1 || x->dim[3] % channels != 0) {
        return ebb__op_bad(graph, node, "%d channels do not come in lanes of %d", x->dim[3],
                           channels);
    }
    TRY(ebb__op_need_list(graph, node, 1, IR_F32, x->dim[3]));
    TRY(ebb__op_need_list(graph, node, 2, IR_F32, x->dim[3]));
    out[0] = op_map_type(
        (op_map){x->dim[0] / lanes, x->dim[3] / channels, x->dim[1], x->dim[2], lanes, channels});
    return EBB_OK;
}

/* ---- gradients: each is the other's ---- */

static ebb_status flatten_grad(op_grad *g) {
    op_map m = op_map_of(op_grad_type(g, 0));
    const ir_attr attr = {.i = {m.blocks, m.high, m.wide, m.images, m.channels}};
    return ebb__op_grad_emit(g, 0, OP_UNFLATTEN, &g->dy, 1, &attr);
}

static ebb_status unflatten_grad(op_grad *g) {
    return ebb__op_grad_emit(g, 0, OP_FLATTEN, &g->dy, 1, NULL);
}

static void rows_images(const ir_graph *graph, const ir_node_rec *node, op_row_role *in,
                        op_row_role *out) {
    ebb__op_rows_split(graph, node, in, out);
    in[1] = in[2] = ROWS_WHOLE;
}

/* ---- samples ---- */

/* clang-format off */
/* X(groups, blocks, high, wide, images a group, channels a block) */
#define SIZES(X)                                                                 \
    X(1, 1, 1, 1, 1, 1) X(3, 2, 1, 1, 8, 32) X(2, 3, 4, 5, 4, 8) X(1, 1, 9, 7, 9, 10) \
    X(1, 2, 6, 6, 8, 32) X(2, 1, 3, 11, 5, 3)
#define FLATTEN(g, b, y, x, n, c) {IN(MAP(g, b, y, x, n, c))},
#define UNFLATTEN(g, b, y, x, n, c) \
    {IN(F2((g) * (n), (b) * (c) * (y) * (x))), .attr = {.i = {b, y, x, n, c}}},
#define IMAGES(g, b, y, x, n, c) \
    {IN({IR_U8, 4, {(g) * (n), y, x, (b) * (c)}}, F1((b) * (c)), F1((b) * (c))), \
     .fill = {FILL_BYTE}, .attr = {.i = {n, c}}},
/* clang-format on */
static const op_sample samples_flatten[] = {SIZES(FLATTEN)};
static const op_sample samples_unflatten[] = {SIZES(UNFLATTEN)};
static const op_sample samples_images[] = {SIZES(IMAGES)};

/* ---- definitions ---- */

OP_DEFINE(flatten, .n_in = 1, .n_out = 1, .layout = LAYOUT_MAPS, .infer = infer_flatten,
          .grad = flatten_grad, .rows = ebb__op_rows_split, .stash = {STASH_EITHER},
          SAMPLES(samples_flatten));

OP_DEFINE(unflatten, .schema.ints = {"blocks", "high", "wide", "images", "channels"}, .n_in = 1,
          .n_out = 1, .layout = LAYOUT_MAPS, .lanes_attr = 1 + FLAT_IMAGES,
          .infer = infer_unflatten, .grad = unflatten_grad, .rows = ebb__op_rows_split,
          .stash = {STASH_EITHER}, SAMPLES(samples_unflatten));

OP_DEFINE(images, .schema.ints = {"lanes", "channels"}, .n_in = 3, .n_out = 1,
          .flags = OPF_NOGRAD | OPF_DECODES, .layout = LAYOUT_MAPS, .lanes_attr = 1 + LANES,
          .infer = infer_images, .work.flops = 2, .rows = rows_images, .stash = {STASH_AGAIN},
          SAMPLES(samples_images));
