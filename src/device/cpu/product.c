/* product.c - updates whose gradient is a product a^T b (op/optim.c): a member makes some rows of
 * it in its part of the workspace, where they are squared and used up while a cache still holds
 * them. Rows are taken by as many as end where a block of squares does, so that members share
 * nothing. */
#include "device/cpu/product.h"

#include "base/team.h"
#include "device/cpu/matmul_form.h"
#include "op/squares.h"

#include <string.h>

enum { SLICE_FLOATS = 1 << 20, MOST_ROWS = 64 };

typedef struct product {
    const op_call *call;
    const op_view *w, *a, *b;
    int32_t n_state;
    int64_t rows, cols, deep; /* of the product, and how many terms an element has */
} product;

/* How many rows are made at a time: whole blocks of squares, and about a slice. */
static int64_t slice_rows(int64_t rows, int64_t cols) {
    int64_t step = squares_rows(cols), least = SLICE_FLOATS / cols;
    least = least < MOST_ROWS ? least : MOST_ROWS;
    int64_t some = step > least ? step : least / step * step;
    return some < rows ? some : rows;
}

const char *ebb__product_accept(const ir_graph *graph, const ir_node_rec *node) {
    return op_in_type(graph, node, 0)->dim[1] % MATMUL_GRAIN == 0
               ? NULL
               : "columns are no multiple of a vector";
}

size_t ebb__product_bytes(const ir_graph *graph, const ir_node_rec *node, int32_t form,
                          int members) {
    const ir_type *w = op_in_type(graph, node, 0);
    (void)form;
    return (size_t)members * (size_t)(slice_rows(w->dim[0], w->dim[1]) * w->dim[1]) * sizeof(float);
}

static product product_of(const op_call *call) {
    const op_view *w = &call->in[0], *b = &call->in[call->n_in - 2];
    return (product){.call = call,
                     .w = w,
                     .a = b - 1,
                     .b = b,
                     .n_state = call->n_out - 2,
                     .rows = w->type.dim[0],
                     .cols = w->type.dim[1],
                     .deep = b->type.dim[0]};
}

/* Rows [first, first + rows) of the product. */
static void multiply(const product *p, void (*lanes)(const matmul_lanes *), int64_t first,
                     int64_t rows, float *to) {
    memset(to, 0, (size_t)(rows * p->cols) * sizeof *to);
    for (int64_t k = 0; k < p->cols; k += MATMUL_LANES) {
        lanes(&(matmul_lanes){.a = (const float *)p->a->data + first,
                              .b = (const float *)p->b->data + k,
                              .out = to + k,
                              .a_row = 1,
                              .a_col = p->a->ld,
                              .b_row = p->b->ld,
                              .ldo = p->cols,
                              .rows = rows,
                              .lanes = matmul_least(MATMUL_LANES, p->cols - k),
                              .deep = p->deep});
    }
}

static op_view rows_of(const op_view *view, int64_t first, int64_t rows) {
    op_view some = *view;
    some.data = (float *)view->data + first * view->ld;
    some.type.dim[0] = (int32_t)rows;
    return some;
}

/* What the kernels of the update and of sum_squares do with these rows of the product. */
static void use_up(const product *p, op_kernel_fn update, op_kernel_fn squares, int64_t first,
                   int64_t rows, float *made) {
    const op_call *call = p->call;
    op_view in[6], out[3], sums = call->out[call->n_out - 1];
    op_view g = {.data = made,
                 .type = {.dtype = IR_F32, .rank = 2, .dim = {(int32_t)rows, (int32_t)p->cols}},
                 .ld = (int32_t)p->cols};
    int64_t block = first * p->cols / SQUARES_BLOCK;
    sums.data = (double *)sums.data + block;
    sums.type.dim[0] = (int32_t)squares_blocks(rows * p->cols);
    squares(&(op_call){.in = &g, .out = &sums, .n_in = 1, .n_out = 1, .members = 1});
    in[0] = rows_of(p->w, first, rows);
    in[1] = g;
    for (int32_t i = 0; i < p->n_state; i++) {
        in[2 + i] = rows_of(&call->in[1 + i], first, rows);
    }
    in[2 + p->n_state] = (op_view){.data = NULL}; /* no clipping */
    in[3 + p->n_state] = call->in[call->n_in - 1];
    for (int32_t i = 0; i <= p->n_state; i++) {
        out[i] = rows_of(&call->out[i], first, rows);
    }
    update(&(op_call){.in = in,
                      .out = out,
                      .n_in = 4 + p->n_state,
                      .n_out = 1 + p->n_state,
                      .attr = call->attr,
                      .members = 1});
}

static void run(const op_call *call, void (*lanes)(const matmul_lanes *), op_kernel_fn update,
                op_kernel_fn squares) {
    product p = product_of(call);
    int64_t some = slice_rows(p.rows, p.cols), begin, end;
    float *made = (float *)call->workspace + call->member * some * p.cols;
    ebb__team_share((p.rows + some - 1) / some, 1, call->member, call->members, &begin, &end);
    for (int64_t i = begin; i < end; i++) {
        int64_t rows = matmul_least(some, p.rows - i * some);
        multiply(&p, lanes, i * some, rows, made);
        use_up(&p, update, squares, i * some, rows, made);
    }
}

#define RUN(upper, lower, update, isa)                                                             \
    void ebb__cpu_##lower##_##isa(const op_call *call) {                                           \
        run(call, ebb__cpu_matmul_lanes_##isa, ebb__cpu_##update##_##isa,                          \
            ebb__cpu_sum_squares_##isa);                                                           \
    }
#define RUN_BASE(upper, lower, update) RUN(upper, lower, update, base)
CPU_PRODUCTS(RUN_BASE)
#ifndef EBB_NO_AVX2
#define RUN_AVX2(upper, lower, update) RUN(upper, lower, update, avx2)
CPU_PRODUCTS(RUN_AVX2)
#endif
