/* cpu.h - what the files of the CPU device share: the list of its vector kernels and how they are
 * named. Every kernel in the list exists once per instruction set (ebb__cpu_tanh_avx2,
 * ebb__cpu_tanh_base), compiled from one body, and does the share of call->member of
 * call->members: any number of members, at once or one after another, gives the same bits. */
#ifndef DEVICE_CPU_CPU_H
#define DEVICE_CPU_CPU_H

#include "device/device.h"

/* clang-format off */
#define CPU_POINTWISE(X)                    \
    X(ADD, add)                             \
    X(SUB, sub)                             \
    X(MUL, mul)                             \
    X(SCALE, scale)                         \
    X(ADD_ROW, add_row)                     \
    X(LOG, log)                             \
    X(TANH, tanh)                           \
    X(TANH_GRAD, tanh_grad)                 \
    X(SIGMOID, sigmoid)                     \
    X(SIGMOID_GRAD, sigmoid_grad)           \
    X(RELU, relu)                           \
    X(RELU_GRAD, relu_grad)                 \
    X(LEAKY_RELU, leaky_relu)               \
    X(LEAKY_RELU_GRAD, leaky_relu_grad)     \
    X(ROUND_TO, round_to)                   \
    X(DROPOUT, dropout)                     \
    X(SGD, sgd)                             \
    X(SGD_MOMENTUM, sgd_momentum)           \
    X(ADAM, adam)                           \
    X(AVERAGE, average)
#define CPU_CELLS(X)                        \
    X(LSTM_GATES, lstm_gates)               \
    X(LSTM_STATE, lstm_state)               \
    X(LSTM_GATES_GRAD, lstm_gates_grad)     \
    X(LSTM_OUT, lstm_out)                   \
    X(LSTM_OUT_GRAD, lstm_out_grad)         \
    X(GRU_CELL, gru_cell)                   \
    X(GRU_CELL_GRAD, gru_cell_grad)
#define CPU_REDUCTIONS(X)                   \
    X(SUM_ROWS, sum_rows)                   \
    X(SUM_SQUARES, sum_squares)             \
    X(SUM_SQUARES_PART, sum_squares_part)   \
    X(SOFTMAX, softmax)                     \
    X(SOFTMAX_GRAD, softmax_grad)           \
    X(XENT, xent)                           \
    X(XENT_GRAD, xent_grad)                 \
    X(ROW_MAX, row_max)                     \
    X(XENT_PART, xent_part)                 \
    X(XENT_END, xent_end)                   \
    X(TOP_LOGS, top_logs)                   \
    X(CONV_BIAS, conv_bias)
/* Ranges are of batch rows; of mask_rows, columns. */
#define CPU_ATTENTION(X)                    \
    X(ADD_EACH, add_each)                   \
    X(SUM_EACH, sum_each)                   \
    X(DOT_ROWS, dot_rows)                   \
    X(OUTER_ROWS, outer_rows)               \
    X(MASK_SOFTMAX, mask_softmax)           \
    X(MASK_SOFTMAX_GRAD, mask_softmax_grad) \
    X(WEIGHTED_SUM, weighted_sum)           \
    X(DOT_EACH, dot_each)                   \
    X(OUTER_EACH, outer_each)               \
    X(MASK_ROWS, mask_rows)                 \
    X(SCORE_TANH, score_tanh)               \
    X(SCORE_TANH_GRAD, score_tanh_grad)     \
    X(SCORE_SLOPE, score_slope)             \
    X(LAYER_NORM, layer_norm)               \
    X(LAYER_NORM_GRAD, layer_norm_grad)     \
    X(LAYER_NORM_GAIN, layer_norm_gain)
/* Of maps, and from and to them. */
#define CPU_MAPS(X)                         \
    X(FLATTEN, flatten)                     \
    X(UNFLATTEN, unflatten)                 \
    X(IMAGES, images)                       \
    X(MAX_POOL, max_pool)                   \
    X(MAX_POOL_GRAD, max_pool_grad)         \
    X(AVG_POOL, avg_pool)                   \
    X(AVG_POOL_GRAD, avg_pool_grad)         \
    X(BATCH_NORM, batch_norm)               \
    X(BATCH_GRAD_AFFINE, batch_grad_affine) \
    X(BATCH_TRACK, batch_track)             \
    X(BATCH_KNOWN, batch_known)
/* Sums of maps, whose parts wait in a workspace for the last share. */
#define CPU_MAP_SUMS(X)                     \
    X(BATCH_STAT, batch_stat)               \
    X(BATCH_GRAD_SUMS, batch_grad_sums)
/* Of maps, row by row of pixels. */
#define CPU_MAP_ROWS(X)                     \
    X(BATCH_APPLY, batch_apply)             \
    X(BATCH_GRAD, batch_grad)
/* Codes, and what reads them. */
#define CPU_CODES(X)                        \
    X(SIGN_BITS, sign_bits)                 \
    X(RELU_GRAD_BITS, relu_grad_bits)       \
    X(LEAKY_RELU_GRAD_BITS, leaky_relu_grad_bits) \
    X(POOL_INDEX, pool_index)               \
    X(MAX_POOL_GRAD_AT, max_pool_grad_at)   \
    X(NARROW, narrow)                       \
    X(RELU_GRAD_CODES, relu_grad_codes)     \
    X(WIDEN, widen)
/* Of heaps: a member has one share, whatever the size. */
#define CPU_HEAPS(X)                        \
    X(SPARSE_STARTS, sparse_starts)         \
    X(SPARSE_PUSH, sparse_push)             \
    X(SPARSE_PULL, sparse_pull)
/* These gather the channels of a pixel in a workspace. */
#define CPU_CHANNELS(X)                     \
    X(LRN, lrn)                             \
    X(LRN_GRAD, lrn_grad)
/* These sort row numbers in a workspace. */
#define CPU_EMBED_ROWS(X)                   \
    X(EMBED_SQUARES, embed_squares)         \
    X(EMBED_SGD, embed_sgd)
/* clang-format on */
/* The ranged ones take ranges of units, the others do not. */
#define CPU_RANGED(X) CPU_POINTWISE(X) CPU_CELLS(X) CPU_ATTENTION(X) CPU_MAP_ROWS(X)
#define CPU_OTHERS(X)                                                                              \
    CPU_REDUCTIONS(X) CPU_MAPS(X) CPU_CODES(X) X(TRANSPOSE, transpose) X(PACK, pack)
#define CPU_VECTOR_KERNELS(X) CPU_RANGED(X) CPU_OTHERS(X) CPU_HEAPS(X)
/* Kernels that only move bytes: one for all instruction sets. */
#define CPU_MOVES(X)                                                                               \
    X(EMBED, embed)                                                                                \
    X(EMBED_GRAD, embed_grad)                                                                      \
    X(COPY, copy)                                                                                  \
    X(FILL, fill)

#define CPU_DECLARE(upper, lower)                                                                  \
    void ebb__cpu_##lower##_avx2(const op_call *call);                                             \
    void ebb__cpu_##lower##_base(const op_call *call);
CPU_VECTOR_KERNELS(CPU_DECLARE)
CPU_EMBED_ROWS(CPU_DECLARE)
CPU_CHANNELS(CPU_DECLARE)
CPU_MAP_SUMS(CPU_DECLARE)
CPU_DECLARE(MATMUL, matmul)
#undef CPU_DECLARE
#define CPU_DECLARE(upper, lower) void ebb__cpu_##lower(const op_call *call);
CPU_MOVES(CPU_DECLARE)
#undef CPU_DECLARE

/* to[c * ldt + r] = from[r * ldf + c] for r < rows, c < cols. */
void ebb__cpu_transpose_block_avx2(float *to, int64_t ldt, const float *from, int64_t ldf,
                                   int64_t rows, int64_t cols);
void ebb__cpu_transpose_block_base(float *to, int64_t ldt, const float *from, int64_t ldf,
                                   int64_t rows, int64_t cols);

/* Updates with a product as gradient (product.c), and the kernels that update. */
#define CPU_PRODUCTS(X)                                                                            \
    X(PRODUCT_SGD, product_sgd, sgd)                                                               \
    X(PRODUCT_MOMENTUM, product_momentum, sgd_momentum)                                            \
    X(PRODUCT_ADAM, product_adam, adam)
#define CPU_DECLARE(upper, lower, update)                                                          \
    void ebb__cpu_##lower##_avx2(const op_call *call);                                             \
    void ebb__cpu_##lower##_base(const op_call *call);
CPU_PRODUCTS(CPU_DECLARE)
#undef CPU_DECLARE

/* Elements [e, e + n) of a step whose bits and starts these are (op/heap.h), decoded. */
typedef struct cpu_heap {
    const void *data;
    int64_t values;
    ir_dtype dtype;
} cpu_heap;
void ebb__cpu_heap_range_avx2(const cpu_heap *heap, const uint8_t *bits, const int32_t *starts,
                              int64_t e, int64_t n, float *to);
void ebb__cpu_heap_range_base(const cpu_heap *heap, const uint8_t *bits, const int32_t *starts,
                              int64_t e, int64_t n, float *to);

/* Convolutions (conv.c), by the engine that does their arithmetic. */
#define CPU_CONVS(X)                                                                               \
    X(CONV, conv)                                                                                  \
    X(CONV_DATA, conv_data)                                                                        \
    X(CONV_WEIGHTS, conv_weights)                                                                  \
    X(CONV_WEIGHTS_NORM, conv_weights_norm)                                                        \
    X(CONV_WEIGHTS_NARROW, conv_weights_narrow)                                                    \
    X(CONV_WEIGHTS_SPARSE, conv_weights_sparse)
#define CPU_DECLARE(upper, lower)                                                                  \
    void ebb__cpu_##lower##_avx2(const op_call *call);                                             \
    void ebb__cpu_##lower##_base(const op_call *call);                                             \
    void ebb__cpu_##lower##_xsmm(const op_call *call);                                             \
    ebb_status ebb__cpu_##lower##_prepare(ebb_ctx *ctx, const op_call *call, void *prepared);
CPU_CONVS(CPU_DECLARE)
#undef CPU_DECLARE

#ifndef EBB_NO_XSMM
/* matmul through libxsmm (matmul_xsmm.c), in forms (matmul_form.c). */
int32_t ebb__cpu_xsmm_forms(const ir_graph *graph, const ir_node_rec *node, int members,
                            int32_t *codes);
void ebb__cpu_xsmm_form_name(int32_t code, char *text, size_t bytes);
size_t ebb__cpu_xsmm_workspace(const ir_graph *graph, const ir_node_rec *node, int32_t form,
                               int members);
ebb_status ebb__cpu_xsmm_prepare(ebb_ctx *ctx, const op_call *call, void *prepared);
void ebb__cpu_matmul_xsmm(const op_call *call);
int32_t ebb__cpu_xsmm_shares(const ir_graph *graph, const ir_node_rec *node, int32_t form,
                             int members);
const char *ebb__cpu_xsmm_version(void);
/* Brings libxsmm up, the first time (xsmm_start.c). EBB_NOMEM where there is no room for it; EBB_IO
 * if the file it locks cannot be one. */
ebb_status ebb__cpu_xsmm_start(ebb_ctx *ctx) EBB_MUST_CHECK;
/* Whether its registers hold 16 lanes. */
bool ebb__cpu_xsmm_wide(void);
/* Whether every sum of its tiles of so many lanes and rows is one chain, k ascending. */
bool ebb__cpu_xsmm_serial(int64_t lanes, int64_t rows);

/* `each` shares for every member, but one at least and `most` at most: device_kernel.shares. */
static inline int32_t cpu_shares(int members, int64_t each, int32_t most) {
    return members * (int32_t)(each < 1 ? 1 : each < most ? each : most);
}
/* Why a kernel did not come: EBB_NOMEM, or EBB_OK if it is not for want of memory. */
ebb_status ebb__cpu_xsmm_no_code(ebb_ctx *ctx) EBB_MUST_CHECK;
#endif

ebb_status ebb__cpu_stream_create(const device *dev, ebb_ctx *ctx, int members,
                                  device_stream **out);
void ebb__cpu_stream_destroy(device_stream *stream);
ebb_status ebb__cpu_stream_run(device_stream *stream, const device_instr *const *instrs,
                               int32_t count, device_observe_fn observe, void *user);

/* probe.c */
ebb_status ebb__cpu_measure_peak(const device *dev, ebb_ctx *ctx, int members,
                                 double *flops_per_second);

extern const device ebb__cpu_device;

#endif
