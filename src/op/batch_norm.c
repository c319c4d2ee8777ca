/* batch_norm.c - batch norm of maps, as PyTorch's: every channel less its mean, over its deviation,
 * times gain, plus bias; statistics of all images and pixels.
 *
 * batch_norm is batch_stat and batch_apply in one, with the same bits. Its gradient has two sums
 * for each channel, from which batch_grad makes dx element by element and batch_grad_affine the
 * gradients of gain and bias. batch_track carries running averages on, batch_known makes statistics
 * of them. */
#include "op/batch_norm.h"

#include "op/define.h"

#define REF_FAMILY "op/ref/batch_norm.inc"
#include "op/ref/twice.h"

/* ---- types ---- */

static ebb_status need_eps(const ir_graph *graph, const ir_node_rec *node) {
    float eps = node->attr.f[BATCH_EPS];
    return eps > 0.0f && isfinite(eps) ? EBB_OK
                                       : ebb__op_bad(graph, node, "eps must be above 0 and finite");
}

static ir_type table(ir_dtype dtype, int32_t rows, int32_t channels) {
    return (ir_type){.dtype = dtype, .rank = 2, .dim = {rows, channels}};
}

/* Operand i has `rows` numbers for each of the channels. */
static ebb_status need_table(const ir_graph *graph, const ir_node_rec *node, int32_t i,
                             ir_dtype dtype, int32_t rows, int32_t channels) {
    const ir_type want = table(dtype, rows, channels);
    return ebb__ir_type_equal(op_in_type(graph, node, i), &want)
               ? EBB_OK
               : ebb__op_bad(graph, node, "operand %d must be %s [%d, %d]", i,
                             ebb__ir_dtype_name(dtype), rows, channels);
}

/* Operand i is a map; so many channels. */
static ebb_status need_channels(const ir_graph *graph, const ir_node_rec *node, int32_t i,
                                int32_t *channels) {
    TRY(ebb__op_need_map(graph, node, i));
    op_map m = op_map_of(op_in_type(graph, node, i));
    if (op_map_channels(&m) > INT32_MAX) {
        return ebb__op_bad(graph, node, "operand %d has too many channels", i);
    }
    *channels = (int32_t)op_map_channels(&m);
    return EBB_OK;
}

/* x, gain, bias. */
static ebb_status infer_batch_norm(const ir_graph *graph, const ir_node_rec *node, ir_type *out) {
    int32_t channels;
    TRY(need_channels(graph, node, 0, &channels));
    TRY(ebb__op_need_list(graph, node, 1, IR_F32, channels));
    TRY(ebb__op_need_list(graph, node, 2, IR_F32, channels));
    out[0] = *op_in_type(graph, node, 0);
    out[1] = table(IR_F32, STAT_ROWS, channels);
    return need_eps(graph, node);
}

static ebb_status infer_batch_stat(const ir_graph *graph, const ir_node_rec *node, ir_type *out) {
    int32_t channels;
    TRY(need_channels(graph, node, 0, &channels));
    out[0] = table(IR_F32, STAT_ROWS, channels);
    return need_eps(graph, node);
}

/* x, stat, gain, bias. */
static ebb_status infer_batch_apply(const ir_graph *graph, const ir_node_rec *node, ir_type *out) {
    int32_t channels;
    TRY(need_channels(graph, node, 0, &channels));
    TRY(need_table(graph, node, 1, IR_F32, STAT_ROWS, channels));
    TRY(ebb__op_need_list(graph, node, 2, IR_F32, channels));
    TRY(ebb__op_need_list(graph, node, 3, IR_F32, channels));
    out[0] = *op_in_type(graph, node, 0);
    return EBB_OK;
}

/* dy, x, stat. */
static ebb_status infer_batch_grad_sums(const ir_graph *graph, const ir_node_rec *node,
                                        ir_type *out) {
    int32_t channels;
    TRY(need_channels(graph, node, 0, &channels));
    TRY(ebb__op_need_same(graph, node, 1, 0));
    TRY(need_table(graph, node, 2, IR_F32, STAT_ROWS, channels));
    out[0] = table(IR_F64, SUMS_ROWS, channels);
    return EBB_OK;
}

/* dy, x, stat, gain, sums. */
static ebb_status infer_batch_grad(const ir_graph *graph, const ir_node_rec *node, ir_type *out) {
    int32_t channels;
    TRY(need_channels(graph, node, 0, &channels));
    TRY(ebb__op_need_same(graph, node, 1, 0));
    TRY(need_table(graph, node, 2, IR_F32, STAT_ROWS, channels));
    TRY(ebb__op_need_list(graph, node, 3, IR_F32, channels));
    TRY(need_table(graph, node, 4, IR_F64, SUMS_ROWS, channels));
    out[0] = *op_in_type(graph, node, 0);
    op_map m = op_map_of(&out[0]);
    return node->attr.i[BATCH_IMAGES] >= op_map_images(&m)
               ? EBB_OK
               : ebb__op_bad(graph, node, "a batch of %d images has no part of %lld",
                             node->attr.i[BATCH_IMAGES], (long long)op_map_images(&m));
}

static ebb_status infer_batch_grad_affine(const ir_graph *graph, const ir_node_rec *node,
                                          ir_type *out) {
    const ir_type *sums = op_in_type(graph, node, 0);
    TRY(need_table(graph, node, 0, IR_F64, SUMS_ROWS, sums->dim[sums->rank - 1]));
    out[0] = out[1] = op_list(IR_F32, sums->dim[1]);
    return EBB_OK;
}

/* mean, var: lists of one length. */
static ebb_status need_running(const ir_graph *graph, const ir_node_rec *node, int32_t *channels) {
    *channels = op_in_type(graph, node, 0)->dim[0];
    TRY(ebb__op_need_list(graph, node, 0, IR_F32, *channels));
    return ebb__op_need_list(graph, node, 1, IR_F32, *channels);
}

/* mean, var, stat. */
static ebb_status infer_batch_track(const ir_graph *graph, const ir_node_rec *node, ir_type *out) {
    int32_t channels;
    float momentum = node->attr.f[BATCH_MOMENTUM];
    TRY(need_running(graph, node, &channels));
    TRY(need_table(graph, node, 2, IR_F32, STAT_ROWS, channels));
    out[0] = out[1] = op_list(IR_F32, channels);
    return momentum >= 0.0f && momentum <= 1.0f
               ? EBB_OK
               : ebb__op_bad(graph, node, "momentum must be 0 to 1");
}

/* mean, var. */
static ebb_status infer_batch_known(const ir_graph *graph, const ir_node_rec *node, ir_type *out) {
    int32_t channels;
    TRY(need_running(graph, node, &channels));
    out[0] = table(IR_F32, STAT_ROWS, channels);
    return need_eps(graph, node);
}

/* ---- gradient ---- */

static ebb_status batch_norm_grad(op_grad *g) {
    ir_val x = op_grad_in(g, 0), gain = op_grad_in(g, 1), stat = g->node.out + 1, sums;
    op_map m = op_map_of(op_grad_type(g, 0));
    const ir_attr images = {.i = {(int32_t)op_map_images(&m)}};
    ir_val in[] = {g->dy, x, stat};
    TRY(ebb__op_emit(g->graph, OP_BATCH_GRAD_SUMS, in, 3, NULL, &sums));
    if (ebb__op_grad_wanted(g, 1) || ebb__op_grad_wanted(g, 2)) {
        ir_val affine[IR_MAX_OUT];
        TRY(ebb__op_emit(g->graph, OP_BATCH_GRAD_AFFINE, &sums, 1, NULL, affine));
        TRY(ebb__op_grad_add(g, 1, affine[0]));
        TRY(ebb__op_grad_add(g, 2, affine[1]));
    }
    ir_val all[] = {g->dy, x, stat, gain, sums};
    return ebb__op_grad_emit(g, 0, OP_BATCH_GRAD, all, 5, &images);
}

/* ---- rows: maps are split, what there is for channels is read whole, or made of a part ---- */

static void rows_batch(const ir_graph *graph, const ir_node_rec *node, op_row_role *in,
                       op_row_role *out) {
    for (int32_t i = 0; i < node->n_in; i++) {
        in[i] = op_is_map(op_in_type(graph, node, i)) ? ROWS_SPLIT : ROWS_WHOLE;
    }
    out[0] = ROWS_SPLIT;
    for (int32_t i = 1; i < node->n_out; i++) {
        out[i] = ROWS_MEAN;
    }
}

static void rows_stat(const ir_graph *graph, const ir_node_rec *node, op_row_role *in,
                      op_row_role *out) {
    (void)graph;
    (void)node;
    in[0] = ROWS_SPLIT;
    out[0] = ROWS_MEAN;
}

/* ---- samples ---- */

/* clang-format off */
/* X(groups, blocks, high, wide, images a group, channels a block) */
#define SIZES(X)                                                                            \
    X(1, 1, 1, 1, 1, 1) X(2, 2, 3, 4, 8, 32) X(3, 1, 5, 3, 4, 16) X(1, 1, 3, 3, 9, 10)       \
    X(5, 3, 2, 2, 3, 3) X(2, 1, 9, 9, 8, 48) X(1, 3, 4, 5, 8, 8) X(1, 2, 1, 2, 12, 67)
#define STAT(c) {IR_F32, 2, {STAT_ROWS, c}}
#define SUMS(c) {IR_F64, 2, {SUMS_ROWS, c}}
#define NORM(g, b, y, x, n, c) \
    {IN(MAP(g, b, y, x, n, c), F1((b) * (c)), F1((b) * (c))), .attr = {.f = {1e-5f}}},
#define MOMENTS(g, b, y, x, n, c) {IN(MAP(g, b, y, x, n, c)), .attr = {.f = {1e-5f}}},
#define APPLY(g, b, y, x, n, c) \
    {IN(MAP(g, b, y, x, n, c), STAT((b) * (c)), F1((b) * (c)), F1((b) * (c))), \
     .fill = {FILL_NORMAL, FILL_POSITIVE}},
#define GRAD_SUMS(g, b, y, x, n, c) \
    {IN(MAP(g, b, y, x, n, c), MAP(g, b, y, x, n, c), STAT((b) * (c))), \
     .fill = {FILL_NORMAL, FILL_NORMAL, FILL_POSITIVE}},
/* As a part of twice as many images. */
#define GRAD(g, b, y, x, n, c) \
    {IN(MAP(g, b, y, x, n, c), MAP(g, b, y, x, n, c), STAT((b) * (c)), F1((b) * (c)), \
        SUMS((b) * (c))), \
     .fill = {FILL_NORMAL, FILL_NORMAL, FILL_POSITIVE}, .attr = {.i = {2 * (g) * (n)}}},
#define AFFINE(g, b, y, x, n, c) {IN(SUMS((b) * (c)))},
#define TRACK(g, b, y, x, n, c) \
    {IN(F1((b) * (c)), F1((b) * (c)), STAT((b) * (c))), \
     .fill = {FILL_NORMAL, FILL_POSITIVE, FILL_POSITIVE}, .attr = {.f = {0.1f}}},
#define KNOWN(g, b, y, x, n, c) \
    {IN(F1((b) * (c)), F1((b) * (c))), .fill = {FILL_NORMAL, FILL_POSITIVE}, \
     .attr = {.f = {1e-5f}}},
/* clang-format on */
static const op_sample samples_norm[] = {SIZES(NORM)};
static const op_sample samples_stat[] = {SIZES(MOMENTS)};
static const op_sample samples_apply[] = {SIZES(APPLY)};
static const op_sample samples_grad_sums[] = {SIZES(GRAD_SUMS)};
static const op_sample samples_grad[] = {SIZES(GRAD)};
static const op_sample samples_affine[] = {SIZES(AFFINE)};
static const op_sample samples_track[] = {SIZES(TRACK)};
static const op_sample samples_known[] = {SIZES(KNOWN)};

/* x, then tables; dy and x, then tables. */
static int32_t units_apply(const ir_graph *graph, const ir_node_rec *node, uint32_t *whole) {
    int32_t units = ebb__op_units_columns(graph, node, whole);
    *whole = ~1U;
    return units;
}
static int32_t units_grad(const ir_graph *graph, const ir_node_rec *node, uint32_t *whole) {
    int32_t units = ebb__op_units_columns(graph, node, whole);
    *whole = ~3U;
    return units;
}

/* ---- definitions ---- */

OP_DEFINE(batch_norm, .schema.floats = {"eps"}, .n_in = 3, .n_out = 2, .layout = LAYOUT_MAPS,
          .infer = infer_batch_norm, .grad = batch_norm_grad, .take = {TAKE_WHOLE, TAKE_NONE},
          INPLACE({0, 0}), .work = {8, OPERAND(0)}, .rows = rows_batch,
          .stash = {STASH_ROUND, STASH_EXACT}, SAMPLES(samples_norm));

OP_DEFINE(batch_stat, .schema.floats = {"eps"}, .n_in = 1, .n_out = 1, .flags = OPF_NOGRAD,
          .layout = LAYOUT_MAPS, .infer = infer_batch_stat, .work = {4, OPERAND(0)},
          .rows = rows_stat, .stash = {STASH_EXACT}, SAMPLES(samples_stat));

OP_DEFINE(batch_apply, .n_in = 4, .n_out = 1, .flags = OPF_NOGRAD, .layout = LAYOUT_MAPS,
          .infer = infer_batch_apply, INPLACE({0, 0}), .work.flops = 4, .rows = rows_batch,
          .units = units_apply, .stash = {STASH_AGAIN}, SAMPLES(samples_apply));

OP_DEFINE(batch_grad_sums, .n_in = 3, .n_out = 1, .flags = OPF_NOGRAD, .layout = LAYOUT_MAPS,
          .infer = infer_batch_grad_sums, .work = {6, OPERAND(0)}, SAMPLES(samples_grad_sums));

OP_DEFINE(batch_grad, .schema.ints = {"images"}, .n_in = 5, .n_out = 1, .flags = OPF_NOGRAD,
          .layout = LAYOUT_MAPS, .batch_rows_attr = 1 + BATCH_IMAGES, .infer = infer_batch_grad,
          INPLACE({0, 0}, {1, 0}), .work.flops = 6, .rows = rows_batch, .units = units_grad,
          SAMPLES(samples_grad));

OP_DEFINE(batch_grad_affine, .n_in = 1, .n_out = 2, .flags = OPF_NOGRAD, .layout = LAYOUT_MAPS,
          .infer = infer_batch_grad_affine, SAMPLES(samples_affine));

OP_DEFINE(batch_track, .schema.floats = {"momentum"}, .n_in = 3, .n_out = 2, .flags = OPF_NOGRAD,
          .layout = LAYOUT_MAPS, .infer = infer_batch_track, INPLACE({0, 0}, {1, 1}),
          .work.flops = 3, SAMPLES(samples_track));

OP_DEFINE(batch_known, .schema.floats = {"eps"}, .n_in = 2, .n_out = 1, .flags = OPF_NOGRAD,
          .layout = LAYOUT_MAPS, .infer = infer_batch_known, .work.flops = 10,
          SAMPLES(samples_known));
