/* conv_tiles.c - the engines of convolution: libxsmm's batch-reduce kernels, which add a list of
 * products to one tile of sums, each a serial chain of fused multiply-adds; our own of the same
 * form, for tiles of few lanes and builds without; and our kernel for a panel of lanes, tile by
 * tile, for other machines. */
#include "device/cpu/conv.h"

#include "device/cpu/matmul.h"

#include <math.h>

/* ---- our own ---- */

/* Lanes that are no multiple of a vector and lie side by side with others: one at a time. */
static void run_single(const conv_list *list) {
    const conv_tile *t = &list->tile;
    for (int64_t n = 0; n < list->count; n++) {
        for (int64_t j = 0; j < t->rows; j++) {
            for (int64_t i = 0; i < t->lanes; i++) {
                float *out = &list->out[j * t->out_row + i];
                for (int64_t k = 0; k < t->deep; k++) {
                    *out = fmaf(list->b[n][k * t->b_row + j], list->a[n][k * t->a_row + i], *out);
                }
            }
        }
    }
}

/* Such lanes lie in a pixel, not in a panel that has room behind them. */
static bool is_single(const conv_tile *t) {
    return t->across && t->lanes % MATMUL_GRAIN != 0;
}

static void run_base(conv_codes *codes, conv_list *list) {
    const conv_tile *t = &list->tile;
    (void)codes;
    if (is_single(t)) {
        run_single(list);
        return;
    }
    for (int64_t n = 0; n < list->count; n++) {
        ebb__cpu_matmul_lanes_base(&(matmul_lanes){.a = list->b[n],
                                                   .b = list->a[n],
                                                   .out = list->out,
                                                   .a_row = t->across ? 1 : t->b_row,
                                                   .a_col = t->across ? t->b_row : 1,
                                                   .b_row = t->a_row,
                                                   .ldo = t->out_row,
                                                   .rows = t->rows,
                                                   .lanes = t->lanes,
                                                   .deep = t->deep});
    }
}

const conv_engine ebb__conv_base = {false, run_base, ebb__cpu_transpose_block_base,
                                    ebb__cpu_made_rows_base, NULL};

#ifndef EBB_NO_AVX2
static void run_avx2(conv_codes *codes, conv_list *list) {
    (void)codes;
    if (is_single(&list->tile)) {
        run_single(list);
    } else {
        ebb__cpu_conv_list_avx2(list);
    }
}
const conv_engine ebb__conv_avx2 = {false, run_avx2, ebb__cpu_transpose_block_avx2,
                                    ebb__cpu_made_rows_avx2, NULL};
#endif

/* ---- libxsmm ---- */

#ifndef EBB_NO_XSMM
#include <libxsmm.h>

static libxsmm_smmfunction_reducebatch_addr dispatch(const conv_tile *t) {
    const libxsmm_blasint lda = (libxsmm_blasint)t->a_row, ldb = (libxsmm_blasint)t->b_row;
    const libxsmm_blasint ldc = (libxsmm_blasint)t->out_row;
    const float one = 1.0f;
    const int flags = t->across ? LIBXSMM_GEMM_FLAG_TRANS_B : LIBXSMM_GEMM_FLAG_NONE;
    const int prefetch = LIBXSMM_GEMM_PREFETCH_NONE;
    return libxsmm_smmdispatch_reducebatch_addr((libxsmm_blasint)t->lanes, (libxsmm_blasint)t->rows,
                                                (libxsmm_blasint)t->deep, &lda, &ldb, &ldc, &one,
                                                &one, &flags, &prefetch);
}

/* Of a call, tiles differ in their sizes only. */
static bool same_code(const conv_tile *a, const conv_tile *b) {
    return a->lanes == b->lanes && a->rows == b->rows && a->deep == b->deep;
}

/* The code of a tile: that found before in this call, else libxsmm's registry knows it. */
static libxsmm_smmfunction_reducebatch_addr code_of(conv_codes *codes, const conv_tile *t) {
    for (int32_t i = 0; i < codes->count; i++) {
        if (same_code(&codes->at[i].tile, t)) {
            return (libxsmm_smmfunction_reducebatch_addr)codes->at[i].run;
        }
    }
    libxsmm_smmfunction_reducebatch_addr run = dispatch(t);
    if (codes->count < CONV_MOST_CODES) {
        codes->at[codes->count].tile = *t;
        codes->at[codes->count++].run = (void (*)(void))run;
    }
    return run;
}

/* With AVX2 libxsmm keeps sums of 3 rows in registers, whatever the lanes: too few of few lanes.
 * What a list has most, tiles of 32 lanes, does not ask for the machine. */
static bool is_ours(const conv_tile *t) {
    return t->lanes < OP_MAP_CHANNELS && !is_single(t) &&
           (t->lanes < OP_MAP_CHANNELS / 2 || !ebb__cpu_xsmm_wide() ||
            !ebb__cpu_xsmm_serial(t->lanes, t->rows));
}

/* libxsmm's code may move the list's addresses on. */
static void run_tile(conv_codes *codes, conv_list *list) {
    unsigned long long count = (unsigned long long)list->count;
    code_of(codes, &list->tile)(list->a, list->b, list->out, &count);
}

/* One row at a time, whose chains libxsmm never splits. */
static void run_rows(conv_codes *codes, const conv_list *list) {
    const conv_tile *t = &list->tile;
    for (int64_t j = 0; j < t->rows; j++) {
        conv_list row = *list;
        row.tile.rows = 1;
        row.out += j * t->out_row;
        for (int64_t n = 0; n < row.count; n++) {
            row.b[n] += t->across ? j : j * t->b_row;
        }
        run_tile(codes, &row);
    }
}

static void run_xsmm(conv_codes *codes, conv_list *list) {
    if (is_ours(&list->tile)) {
        ebb__cpu_conv_list_avx2(list);
    } else if (ebb__cpu_xsmm_serial(list->tile.lanes, list->tile.rows)) {
        run_tile(codes, list);
    } else {
        run_rows(codes, list);
    }
}
const conv_engine ebb__conv_xsmm = {false, run_xsmm, ebb__cpu_transpose_block_avx2,
                                    ebb__cpu_made_rows_avx2, ebb__cpu_conv_row_avx512};

static void prepare_xsmm(conv_codes *codes, conv_list *list) {
    conv_tile tile = list->tile;
    tile.rows = ebb__cpu_xsmm_serial(tile.lanes, tile.rows) ? tile.rows : 1;
    if (!is_ours(&list->tile)) {
        codes->failed = code_of(codes, &tile) == NULL || codes->failed;
    }
}
static void prepare_row(const conv_row *row) {
    (void)row; /* its code is there */
}
const conv_engine ebb__conv_xsmm_prepare = {true, prepare_xsmm, NULL, NULL, prepare_row};
#endif
