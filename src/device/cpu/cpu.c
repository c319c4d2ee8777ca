/* cpu.c - the CPU as a device: its kernels, best first, its memory, what it says of itself. */
#include "device/cpu/cpu.h"

#include "base/host.h"
#include "op/lrn.h"
#include "op/pack.h"
#include "device/cpu/conv.h"
#include "device/cpu/matmul.h"
#include "device/cpu/matmul_form.h"
#include "device/cpu/product.h"

#include <stdio.h>
#include <sys/mman.h>
#include <unistd.h>

/* ---- kernels --------------------------------------------------------------------------------- */

#if !defined(EBB_NO_AVX2) || !defined(EBB_NO_XSMM)
static const char *accept_avx2(const ir_graph *graph, const ir_node_rec *node) {
    (void)graph, (void)node;
    return ebb__host_cpu()->avx2_fma ? NULL : "the CPU has no AVX2 and FMA";
}
#endif

static const char *accept_any(const ir_graph *graph, const ir_node_rec *node) {
    (void)graph, (void)node;
    return NULL;
}

/* Panels of other lanes than this device packs are left to the reference. */
static const char *accept_panels(const ir_graph *graph, const ir_node_rec *node) {
    matmul_size s = matmul_size_of_node(graph, node);
    return !s.packed || s.lanes == (s.groups > 1 ? MATMUL_GATE_LANES : MATMUL_LANES)
               ? NULL
               : "b is packed in panels of another device";
}

#if !defined(EBB_NO_AVX2) || !defined(EBB_NO_XSMM)
static const char *accept_panels_avx2(const ir_graph *graph, const ir_node_rec *node) {
    const char *why = accept_avx2(graph, node);
    return why != NULL ? why : accept_panels(graph, node);
}
#endif

static const char *accept_f32(const ir_graph *graph, const ir_node_rec *node) {
    return graph->values[node->out].type.dtype == IR_F32 ? NULL : "only f32 is moved by rows";
}

#define accept_product ebb__product_accept
#ifndef EBB_NO_AVX2
static const char *accept_product_avx2(const ir_graph *graph, const ir_node_rec *node) {
    const char *why = accept_avx2(graph, node);
    return why != NULL ? why : accept_product(graph, node);
}
#endif

static size_t matmul_workspace(const ir_graph *graph, const ir_node_rec *node, int32_t form,
                               int members) {
    matmul_size size = matmul_size_of_node(graph, node);
    (void)form;
    return (size_t)members * (size_t)matmul_vector_floats(&size) * sizeof(float);
}

#ifndef EBB_NO_XSMM
/* Panels of a weight are written and read once more at every call, unless a pass packed it; against
 * the grain that takes about twice as long as the bytes would. */
static double matmul_packing(const ir_graph *graph, const ir_node_rec *node) {
    bool trans_a = node->attr.i[MATMUL_TRANS_A] != 0, trans_b = node->attr.i[MATMUL_TRANS_B] != 0;
    bool packed = node->attr.i[MATMUL_PACKED] != 0;
    double bytes = (double)ebb__ir_type_bytes(op_in_type(graph, node, 2));
    return packed || trans_a ? 0.0 : trans_b ? 4.0 * bytes : 2.0 * bytes;
}
#endif

/* Row numbers, sorted, twice for each member; ids are an operand in front of dx [R,E]. */
static size_t embed_workspace(const ir_graph *graph, const ir_node_rec *node, int32_t form,
                              int members) {
    const ir_type *dx = op_in_type(graph, node, node->op == OP_EMBED_SGD ? 2 : 1);
    (void)form;
    return (size_t)members * 2 * (size_t)ebb__ir_rows(dx) * sizeof(int32_t);
}

/* For each member and operand a row of channels, and one with the zeros around it. */
static size_t channels_workspace(const ir_graph *graph, const ir_node_rec *node, int32_t form,
                                 int members) {
    op_map m = op_map_of(op_in_type(graph, node, 0));
    int64_t floats = 2 * op_map_channels(&m) + node->attr.i[LRN_SIZE] - 1;
    (void)form;
    return (size_t)members * (size_t)(node->n_in * floats) * sizeof(float);
}

/* Long work in several shares for each member: on a shared machine a core may be gone for a while,
 * and who is done takes over. Of large tensors; the kernels have no scratch of their own. */
static int32_t element_shares(const ir_graph *graph, const ir_node_rec *node, int32_t form,
                              int members) {
    enum { SHARE_FLOATS = 1 << 16, MOST_SHARES = 8 };
    const ir_type *out = &graph->values[node->out].type;
    const ir_type *in = node->n_in > 0 ? op_in_type(graph, node, 0) : NULL;
    int64_t elements = ebb__op_fold_cols(out, 0);
    int64_t read = in != NULL ? ebb__op_fold_cols(in, 0) : 0;
    int64_t each = (read > elements ? read : elements) / SHARE_FLOATS / members;
    (void)form;
    return cpu_shares(members, each, MOST_SHARES);
}

/* Two sums for each group of 8 images and channel. */
static size_t map_sums_workspace(const ir_graph *graph, const ir_node_rec *node, int32_t form,
                                 int members) {
    op_map m = op_map_of(op_in_type(graph, node, 0));
    (void)form, (void)members;
    return (size_t)(op_map_chains(&m) * 2 * op_map_channels(&m)) * sizeof(double);
}

/* Not more than there are blocks of groups. */
static int32_t map_sums_shares(const ir_graph *graph, const ir_node_rec *node, int32_t form,
                               int members) {
    op_map m = op_map_of(op_in_type(graph, node, 0));
    int32_t each = element_shares(graph, node, form, members) / members;
    int64_t most = op_map_chains(&m) * m.blocks / members;
    return cpu_shares(members, most, each);
}

/* Kernels of vectors, by the names that they and what they are compiled for have. */
#define KERNEL(upper, lower, isa, test, ...)                                                       \
    {.name = #lower "." #isa,                                                                      \
     .op = OP_##upper,                                                                             \
     .accept = accept_##test,                                                                      \
     .run = ebb__cpu_##lower##_##isa,                                                              \
     __VA_ARGS__},
#define KERNEL_AVX2(upper, lower) KERNEL(upper, lower, avx2, avx2, .shares = element_shares)
#define KERNEL_BASE(upper, lower) KERNEL(upper, lower, base, any, .shares = element_shares)
#define HEAP_AVX2(upper, lower) KERNEL(upper, lower, avx2, avx2, .ranges = false)
#define HEAP_BASE(upper, lower) KERNEL(upper, lower, base, any, .ranges = false)
#define RANGED_AVX2(upper, lower)                                                                  \
    KERNEL(upper, lower, avx2, avx2, .ranges = true, .shares = element_shares)
#define RANGED_BASE(upper, lower)                                                                  \
    KERNEL(upper, lower, base, any, .ranges = true, .shares = element_shares)
#define EMBED_AVX2(upper, lower) KERNEL(upper, lower, avx2, avx2, .workspace = embed_workspace)
#define EMBED_BASE(upper, lower) KERNEL(upper, lower, base, any, .workspace = embed_workspace)
#define CONV_BYTES_CONV ebb__conv_gather_bytes
#define CONV_BYTES_CONV_DATA ebb__conv_gather_bytes
#define CONV_BYTES_CONV_WEIGHTS ebb__conv_weights_bytes
#define CONV_BYTES_CONV_WEIGHTS_NORM ebb__conv_norm_bytes
#define CONV_BYTES_CONV_WEIGHTS_NARROW ebb__conv_narrow_bytes
#define CONV_BYTES_CONV_WEIGHTS_SPARSE ebb__conv_weights_sparse_bytes
#define CONV_SHARES_CONV ebb__conv_gather_shares
#define CONV_SHARES_CONV_DATA ebb__conv_gather_shares
#define CONV_SHARES_CONV_WEIGHTS NULL
#define CONV_SHARES_CONV_WEIGHTS_NORM NULL
#define CONV_SHARES_CONV_WEIGHTS_NARROW NULL
#define CONV_SHARES_CONV_WEIGHTS_SPARSE NULL
#define CONV_AVX2(upper, lower)                                                                    \
    KERNEL(upper, lower, avx2, avx2, .workspace = CONV_BYTES_##upper, .shares = CONV_SHARES_##upper)
#define CONV_BASE(upper, lower)                                                                    \
    KERNEL(upper, lower, base, any, .workspace = CONV_BYTES_##upper, .shares = CONV_SHARES_##upper)
#define CONV_XSMM(upper, lower)                                                                    \
    KERNEL(upper, lower, xsmm, avx2, .workspace = CONV_BYTES_##upper,                              \
           .shares = CONV_SHARES_##upper, .prepare = ebb__cpu_##lower##_prepare,                   \
           .pace = ebb__conv_pace, .extra_bytes = ebb__conv_packing)
#define CHANNELS_AVX2(upper, lower)                                                                \
    KERNEL(upper, lower, avx2, avx2, .workspace = channels_workspace)
#define CHANNELS_BASE(upper, lower) KERNEL(upper, lower, base, any, .workspace = channels_workspace)
#define MAP_SUMS_AVX2(upper, lower)                                                                \
    KERNEL(upper, lower, avx2, avx2, .workspace = map_sums_workspace, .shares = map_sums_shares)
#define MAP_SUMS_BASE(upper, lower)                                                                \
    KERNEL(upper, lower, base, any, .workspace = map_sums_workspace, .shares = map_sums_shares)
#define PRODUCT_AVX2(upper, lower, update)                                                         \
    KERNEL(upper, lower, avx2, product_avx2, .workspace = ebb__product_bytes)
#define PRODUCT_BASE(upper, lower, update)                                                         \
    KERNEL(upper, lower, base, product, .workspace = ebb__product_bytes)
#define KERNEL_MOVE(upper, lower)                                                                  \
    {.name = #lower ".rows", .op = OP_##upper, .accept = accept_f32, .run = ebb__cpu_##lower},

/* clang-format off */
static const device_kernel kernels[] = {
#ifndef EBB_NO_XSMM
    {.name = "matmul.xsmm", .op = OP_MATMUL, .accept = accept_panels_avx2, .ranges = true,
     .forms = ebb__cpu_xsmm_forms, .form_name = ebb__cpu_xsmm_form_name,
     .shares = ebb__cpu_xsmm_shares, .workspace = ebb__cpu_xsmm_workspace,
     .prepare = ebb__cpu_xsmm_prepare, .run = ebb__cpu_matmul_xsmm, .extra_bytes = matmul_packing},
    CPU_CONVS(CONV_XSMM)
#endif
#ifndef EBB_NO_AVX2
    KERNEL(MATMUL, matmul, avx2, panels_avx2, .ranges = true, .workspace = matmul_workspace)
    CPU_RANGED(RANGED_AVX2) CPU_OTHERS(KERNEL_AVX2) CPU_HEAPS(HEAP_AVX2) CPU_EMBED_ROWS(EMBED_AVX2)
    CPU_CHANNELS(CHANNELS_AVX2) CPU_MAP_SUMS(MAP_SUMS_AVX2) CPU_PRODUCTS(PRODUCT_AVX2) CPU_CONVS(CONV_AVX2)
#endif
    KERNEL(MATMUL, matmul, base, panels, .ranges = true, .workspace = matmul_workspace)
    CPU_RANGED(RANGED_BASE) CPU_OTHERS(KERNEL_BASE) CPU_HEAPS(HEAP_BASE) CPU_EMBED_ROWS(EMBED_BASE)
    CPU_CHANNELS(CHANNELS_BASE) CPU_MAP_SUMS(MAP_SUMS_BASE) CPU_PRODUCTS(PRODUCT_BASE) CPU_CONVS(CONV_BASE)
    CPU_MOVES(KERNEL_MOVE)};
/* clang-format on */

/* ---- memory ---------------------------------------------------------------------------------- */

/* Large pages where the system has them: panels of weights are read across rows, a page each. They
 * never reach beyond the mapping, all of which touch() makes resident anyway. */
static ebb_status buffer_create(const device *dev, ebb_ctx *ctx, size_t bytes, void **out) {
    (void)dev;
    TRY(ebb__map(ctx, bytes, out));
    (void)madvise(*out, bytes, MADV_HUGEPAGE);
    return EBB_OK;
}

static void buffer_destroy(ebb_ctx *ctx, void *buffer, size_t bytes) {
    ebb__unmap(ctx, buffer, bytes);
}

static void *buffer_address(void *buffer) {
    return buffer;
}

/* ---- device ---------------------------------------------------------------------------------- */

static void describe(const device *dev, char *text, size_t bytes) {
    (void)dev;
    const host_cpu *cpu = ebb__host_cpu();
#ifndef EBB_NO_XSMM
    const char *version = ebb__cpu_xsmm_version();
    bool wide = cpu->avx512f;
#else
    const char *version = "not built in";
    bool wide = false;
#endif
    const char *isa = !cpu->avx2_fma ? "baseline"
                      : wide         ? "AVX2+FMA, products AVX-512"
                                     : "AVX2+FMA";
    snprintf(text, bytes, "%s, %s, libxsmm %s", cpu->model, isa, version);
}

const device ebb__cpu_device = {
    .name = "cpu",
    .kernels = kernels,
    .n_kernels = (int32_t)(sizeof kernels / sizeof *kernels),
    .buffer = {buffer_create, ebb__map_touch, buffer_destroy, .address = buffer_address},
    .stream = {ebb__cpu_stream_create, ebb__cpu_stream_destroy, .run = ebb__cpu_stream_run},
    .describe = describe,
    .measure_peak = ebb__cpu_measure_peak,
    /* One core of a 2020s server, well fed. */
    .flops_per_second = 76e9,
    .bytes_per_second = 20e9,
    .away_bytes_per_second = 0.5e9, /* a disk */
    .seconds_per_instr = 2e-6,
    .scalar_share = 1.0 / 32,
    .bus_members = 1.5, /* two already saturate most of the bus */
    .cache_bytes = 16 << 20,
    .cache_speed = 4,
    .meeting_seconds = 5e-6,
    .panel_lanes = MATMUL_LANES,
    .gate_lanes = MATMUL_GATE_LANES,
    .row_grain = 8, /* the width of a vector */
    .run_units = 32,
    .run_floats = 16 << 10,
};
