/* conv.c - the convolution kernels of the CPU: the loops with one engine each, and libxsmm's code
 * made ready for them. */
#include "device/cpu/conv.h"
#include "op/conv_sparse.h"

#include <math.h>

static void loops_conv(const op_call *call, conv_codes *codes) {
    ebb__conv_gather(call, codes, false);
}
static void loops_conv_data(const op_call *call, conv_codes *codes) {
    ebb__conv_gather(call, codes, true);
}
static void loops_conv_weights(const op_call *call, conv_codes *codes) {
    ebb__conv_weights(call, codes);
}
static void loops_conv_weights_norm(const op_call *call, conv_codes *codes) {
    ebb__conv_norm(call, codes);
}
static void loops_conv_weights_narrow(const op_call *call, conv_codes *codes) {
    ebb__conv_narrow(call, codes);
}

static void loops_conv_weights_sparse(const op_call *call, conv_codes *codes) {
    ebb__conv_weights_sparse(call, codes);
}

#define RUN_BASE(upper, lower)                                                                     \
    void ebb__cpu_##lower##_base(const op_call *call) {                                            \
        loops_##lower(call, &(conv_codes){.engine = &ebb__conv_base});                             \
    }
CPU_CONVS(RUN_BASE)

#ifndef EBB_NO_AVX2
#define RUN_AVX2(upper, lower)                                                                     \
    void ebb__cpu_##lower##_avx2(const op_call *call) {                                            \
        loops_##lower(call, &(conv_codes){.engine = &ebb__conv_avx2});                             \
    }
CPU_CONVS(RUN_AVX2)
#endif

#ifndef EBB_NO_XSMM

/* ---- how long they take ---- */

/* The share of a window's taps along one axis that fall on the image, over all places. */
static double taps_on(int64_t size, int64_t places, int64_t window, int64_t stride, int64_t pad) {
    int64_t on = 0;
    for (int64_t r = 0; r < window; r++) { /* place o meets pixel o * stride + r - pad */
        int64_t lo = conv_most(0, (pad - r + stride - 1) / stride);
        int64_t hi = conv_least(places, (size + pad - r + stride - 1) / stride);
        on += conv_most(0, hi - lo);
    }
    return (double)on / (double)(places * window);
}

/* The convolution that a node is about, whatever form its x has. */
static op_conv conv_of(const ir_graph *graph, const ir_node_rec *node) {
    const ir_type *out = &graph->values[node->out].type, *a = op_in_type(graph, node, 1),
                  *b = op_in_type(graph, node, 2);
    ir_type x;
    if (node->op == OP_CONV || node->op == OP_CONV_DATA) {
        return node->op == OP_CONV ? op_conv_of(a, b, out, &node->attr)
                                   : op_conv_of(out, b, a, &node->attr);
    }
    if (node->op == OP_CONV_WEIGHTS_NARROW) {
        x = op_conv_narrow_x(a, &node->attr);
    } else if (node->op == OP_CONV_WEIGHTS_SPARSE) {
        op_map m = op_conv_sparse_x(a, &node->attr);
        m.blocks = out->dim[1] * node->attr.i[CONV_GROUPS] / m.channels;
        x = op_map_type(m);
    } else {
        x = *b;
    }
    return op_conv_of(&x, out, a, &node->attr);
}

/* Measured by shapes on one core of the device's 76 GFLOP/s: 3x3 at 90, windows of a pixel at 78,
 * strided ones at 78, tiles of few lanes at 74, first layers at 66. The op counts all taps; those
 * that are skipped take a fifth of the time, in runs that they cut. */
double ebb__conv_pace(const ir_graph *graph, const ir_node_rec *node) {
    op_conv v = conv_of(graph, node);
    double on = taps_on(v.x.high, v.y.high, v.high, v.stride, v.pad_y) *
                taps_on(v.x.wide, v.y.wide, v.wide, v.stride, v.pad_x);
    int64_t lanes = node->op == OP_CONV_DATA ? v.x.channels : v.y.channels;
    double speed = v.high == 1 && v.wide == 1 ? 78 : 90;
    speed = v.stride > 1 && node->op != OP_CONV_DATA ? 78 : speed;
    speed = lanes < OP_MAP_CHANNELS ? fmin(speed, 74) : speed;
    speed = lanes < 8 ? 20 : v.x.channels < 8 ? 66 : speed;
    return (on + 0.2 * (1 - on)) * 76 / speed;
}

/* What it takes to make a number of x again, in bytes that would be moved meanwhile. CIFAR's
 * ResNets, where a number meets few channels, show it; what codes take is hidden behind their few
 * bytes. */
static double made_bytes(int32_t op) {
    return op == OP_CONV_WEIGHTS_NORM ? 1 : op == OP_CONV_WEIGHTS_SPARSE ? 10 : 0;
}

/* Weights are packed, or sums of them taken and put back, once for every call, against the grain.
 * Rows of x are made for each unit that reads them. */
double ebb__conv_packing(const ir_graph *graph, const ir_node_rec *node) {
    bool reads = node->op == OP_CONV || node->op == OP_CONV_DATA;
    const ir_type *w = reads ? op_in_type(graph, node, 2) : &graph->values[node->out].type;
    double bytes = 3.0 * (double)ebb__ir_type_bytes(w), made = made_bytes(node->op);
    if (made > 0) {
        op_conv v = conv_of(graph, node);
        bytes += made * (double)(op_map_images(&v.x) * op_map_channels(&v.x)) *
                 (double)(v.x.high * v.x.wide) * (double)ebb__conv_sums_times(&v);
    }
    return bytes;
}

/* ---- libxsmm ---- */

/* Images do not differ in the tiles that they need, but a chain may meet the ends of groups of 8 of
 * them in several groups of a map. */
static void few_groups(op_view *view) {
    if (op_is_map(&view->type) && view->type.dim[0] > OP_MAP_IMAGES) {
        view->type.dim[0] = OP_MAP_IMAGES;
    }
}

/* Goes through the loops for all members as one. What prepare stores is whether all code is there;
 * where executable memory is forbidden, say, our own kernel does the work. */
static ebb_status prepare(ebb_ctx *ctx, const op_call *call, void *prepared,
                          void (*loops)(const op_call *, conv_codes *)) {
    op_view in[CONV_MOST_IN], out = call->out[0];
    op_call dry = {.in = in,
                   .out = &out,
                   .n_in = call->n_in,
                   .n_out = 1,
                   .attr = call->attr,
                   .workspace = out.data, /* an address: nothing is read or written */
                   .members = 1};
    conv_codes codes = {.engine = &ebb__conv_xsmm_prepare};
    TRY(ebb__cpu_xsmm_start(ctx));
    for (int32_t i = 0; i < call->n_in; i++) {
        in[i] = call->in[i];
        few_groups(&in[i]);
    }
    few_groups(&out);
    loops(&dry, &codes);
    if (codes.failed) {
        TRY(ebb__cpu_xsmm_no_code(ctx));
    }
    *(bool *)prepared = !codes.failed;
    return EBB_OK;
}

#define RUN_XSMM(upper, lower)                                                                     \
    ebb_status ebb__cpu_##lower##_prepare(ebb_ctx *ctx, const op_call *call, void *prepared) {     \
        return prepare(ctx, call, prepared, loops_##lower);                                        \
    }                                                                                              \
    void ebb__cpu_##lower##_xsmm(const op_call *call) {                                            \
        bool ready = *(const bool *)call->prepared;                                                \
        loops_##lower(call, &(conv_codes){.engine = ready ? &ebb__conv_xsmm : &ebb__conv_avx2});   \
    }
CPU_CONVS(RUN_XSMM)
#endif
