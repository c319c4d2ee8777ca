/* matmul.h - what the matmul kernels share: the sizes of one call, how members divide it, and the
 * values the chains start from. A chain over k belongs to one member and goes through the output
 * between blocks of k, which changes no bit. */
#ifndef DEVICE_CPU_MATMUL_H
#define DEVICE_CPU_MATMUL_H

#include "device/cpu/span.h"
#include "op/pack.h"

#include <string.h>

/* Cuts between members and between the ranges of fused runs fall on multiples of this many units,
 * which is also the width of a vector. */
enum { MATMUL_GRAIN = 8 };

/* What the types of a node say. */
typedef struct matmul_size {
    int64_t m, n, k;
    int64_t units; /* n / groups */
    bool trans_a, trans_b, packed;
    int32_t groups, lanes; /* lanes: of the panels, if b is packed */
} matmul_size;

/* out[m][n] = c + sum over k of a(m,k) b(k,n), where a(m,k) = a[m * a_row + k * a_col], b likewise.
 * A packed b has panels b_row floats apart (pack.h). c is NULL or c[m * c_row + n], c_row 0 for a
 * bias. */
typedef struct matmul_shape {
    int64_t m, n, k;
    int64_t a_row, a_col, b_row, b_col, c_row, ldo;
    const float *a, *b, *c;
    float *out;
    op_panels panels;
    bool trans_a, trans_b, packed;
} matmul_shape;

/* Rows [m0, m1), columns [n0, n1). */
typedef struct matmul_part {
    int64_t m0, m1, n0, n1;
} matmul_part;

static inline matmul_size matmul_size_of(const ir_type *a, const ir_type *out,
                                         const ir_attr *attr) {
    matmul_size s = {.m = ebb__ir_rows(out),
                     .n = ir_cols(out),
                     .trans_a = attr->i[0] != 0,
                     .trans_b = attr->i[1] != 0,
                     .groups = attr->i[2] > 1 ? attr->i[2] : 1,
                     .packed = attr->i[MATMUL_PACKED] != 0,
                     .lanes = attr->i[MATMUL_PANEL_LANES]};
    s.k = s.trans_a ? ebb__ir_rows(a) : ir_cols(a);
    s.units = s.n / s.groups;
    return s;
}

static inline matmul_size matmul_size_of_node(const ir_graph *graph, const ir_node_rec *node) {
    return matmul_size_of(op_in_type(graph, node, 1), &graph->values[node->out].type, &node->attr);
}

static inline matmul_shape matmul_shape_of(const op_call *call) {
    const op_view *c = &call->in[0], *a = &call->in[1], *b = &call->in[2], *out = &call->out[0];
    matmul_size s = matmul_size_of(&a->type, &out->type, call->attr);
    return (matmul_shape){.m = s.m,
                          .n = s.n,
                          .k = s.k,
                          .a_row = s.trans_a ? 1 : a->ld,
                          .a_col = s.trans_a ? a->ld : 1,
                          .b_row = s.trans_b ? 1 : b->ld,
                          .b_col = s.trans_b ? b->ld : 1,
                          .c_row = c->data == NULL || c->type.rank == 1 ? 0 : c->ld,
                          .ldo = out->ld,
                          .a = a->data,
                          .b = b->data,
                          .c = c->data,
                          .out = out->data,
                          .panels = op_panels_of(s.n, s.groups, s.lanes),
                          .trans_a = s.trans_a,
                          .trans_b = s.trans_b,
                          .packed = s.packed};
}

/* The units of a call that has a range, or of this member where units are shared. */
static inline void matmul_units(const op_call *call, const matmul_shape *s, int64_t *lo,
                                int64_t *hi) {
    if (call->hi > 0) {
        *lo = call->lo;
        *hi = call->hi;
        return;
    }
    ebb__team_share(s->panels.units, MATMUL_GRAIN, call->member, call->members, lo, hi);
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
static inline void matmul_start(const matmul_shape *s, matmul_part part) {
    size_t bytes = (size_t)(part.n1 - part.n0) * sizeof(float);
    if (s->c == s->out) {
        return;
    }
    for (int64_t m = part.m0; m < part.m1; m++) {
        float *out = s->out + m * s->ldo + part.n0;
        if (s->c != NULL) {
            memcpy(out, s->c + m * s->c_row + part.n0, bytes);
        } else {
            memset(out, 0, bytes);
        }
    }
}

/* Cache lines to be fetched while a kernel computes: `outer` sequences of `inner` lines, all steps
 * in bytes. The next one is line `at` of the first sequence. */
typedef struct matmul_fetch {
    const char *from;
    int64_t inner, inner_step, outer, outer_step, at;
} matmul_fetch;

/* `rows` runs of `floats`, `step` floats apart: along the runs, or down the rows if these are more
 * than a run has lines. */
static inline matmul_fetch matmul_fetch_of(const float *from, int64_t rows, int64_t floats,
                                           int64_t step) {
    enum { LINE = 64, LINE_FLOATS = 16 };
    int64_t lines = (floats + 2 * LINE_FLOATS - 2) / LINE_FLOATS;
    matmul_fetch along = {(const char *)from, lines, LINE, rows, step * (int64_t)sizeof(float), 0};
    matmul_fetch down = {along.from, rows, along.outer_step, lines, LINE, 0};
    return lines >= rows ? along : down; /* rows 0: nothing */
}

/* out[m][n] += sum over k of a(m,k) b[k * b_row + n], k ascending, for `rows` rows and at most
 * MATMUL_LANES lanes; b is readable up to a multiple of MATMUL_GRAIN lanes. */
typedef struct matmul_lanes {
    const float *a, *b;
    float *out;
    int64_t a_row, a_col, b_row, ldo, rows, lanes, deep;
    matmul_fetch *fetch; /* NULL: nothing; advanced */
} matmul_lanes;

void ebb__cpu_matmul_lanes_avx2(const matmul_lanes *lanes);
void ebb__cpu_matmul_lanes_base(const matmul_lanes *lanes);

static inline int64_t matmul_least(int64_t a, int64_t b) {
    return a < b ? a : b;
}

static inline int64_t matmul_round_up(int64_t count, int64_t grain) {
    return (count + grain - 1) / grain * grain;
}

/* Blocks of near-equal size, at most `most`, rounded up to a multiple of `grain`. */
static inline int64_t matmul_even_block(int64_t count, int64_t most, int64_t grain) {
    int64_t blocks = (count + most - 1) / most;
    return matmul_round_up((count + blocks - 1) / blocks, grain);
}

/* The vector kernels pack 16 columns of a plain b at a time, at most this deep. */
enum { MATMUL_VECTOR_COLUMNS = 16, MATMUL_VECTOR_DEPTH = 512 };

/* Floats of workspace of one member of the vector kernels. */
static inline int64_t matmul_vector_floats(const matmul_size *s) {
    return s->packed ? 0 : matmul_least(s->k, MATMUL_VECTOR_DEPTH) * MATMUL_VECTOR_COLUMNS;
}

#endif
