/* matmul.h - what the matmul kernels share: the sizes of one call, how members divide it, and the
 * values the chains start from. A chain over k belongs to one member and goes through the output
 * between blocks of k, which changes no bit. */
#ifndef DEVICE_CPU_MATMUL_H
#define DEVICE_CPU_MATMUL_H

#include "device/cpu/span.h"

#include <string.h>

/* out[m][n] = c + sum over k of a(m,k) b(k,n), where a(m,k) = a[m * a_row + k * a_col], b likewise.
 */
typedef struct matmul_shape {
    int64_t m, n, k;
    int64_t a_row, a_col, b_row, b_col, ldo;
    const float *a, *b;
    float *out;
} matmul_shape;

/* Rows [m0, m1), columns [n0, n1). */
typedef struct matmul_part {
    int64_t m0, m1, n0, n1;
} matmul_part;

static inline matmul_shape matmul_shape_of(const op_call *call) {
    const op_view *a = &call->in[1], *b = &call->in[2], *out = &call->out[0];
    bool trans_a = call->attr->i[0] != 0, trans_b = call->attr->i[1] != 0;
    return (matmul_shape){.m = ebb__ir_rows(&out->type),
                          .n = ir_cols(&out->type),
                          .k = trans_a ? ebb__ir_rows(&a->type) : ir_cols(&a->type),
                          .a_row = trans_a ? 1 : a->ld,
                          .a_col = trans_a ? a->ld : 1,
                          .b_row = trans_b ? 1 : b->ld,
                          .b_col = trans_b ? b->ld : 1,
                          .ldo = out->ld,
                          .a = a->data,
                          .b = b->data,
                          .out = out->data};
}

/* Whole panels of columns where there are enough of them to share evenly, else whole blocks of
 * rows. */
static inline matmul_part matmul_part_of(const matmul_shape *s, int64_t panel, int64_t rows,
                                         int member, int members) {
    int64_t panels = (s->n + panel - 1) / panel, blocks = (s->m + rows - 1) / rows;
    matmul_part part = {.m1 = s->m, .n1 = s->n};
    if (panels >= 4 * (int64_t)members || panels >= blocks) {
        ebb__team_share(s->n, panel, member, members, &part.n0, &part.n1);
    } else {
        ebb__team_share(s->m, rows, member, members, &part.m0, &part.m1);
    }
    return part;
}

/* Writes c, the bias row or zeros to the part, unless c already lies in the output. */
static inline void matmul_start(const op_call *call, const matmul_shape *s, matmul_part part) {
    const op_view *c = &call->in[0];
    size_t bytes = (size_t)(part.n1 - part.n0) * sizeof(float);
    int64_t ld = c->type.rank == 1 ? 0 : c->ld;
    if (c->data == call->out[0].data) {
        return;
    }
    for (int64_t m = part.m0; m < part.m1; m++) {
        float *out = s->out + m * s->ldo + part.n0;
        if (c->data != NULL) {
            memcpy(out, (const float *)c->data + m * ld + part.n0, bytes);
        } else {
            memset(out, 0, bytes);
        }
    }
}

/* Blocks of near-equal size, at most `most`, rounded up to a multiple of `grain`. */
static inline int64_t matmul_even_block(int64_t count, int64_t most, int64_t grain) {
    int64_t blocks = (count + most - 1) / most;
    int64_t size = (count + blocks - 1) / blocks;
    return (size + grain - 1) / grain * grain;
}

#endif
