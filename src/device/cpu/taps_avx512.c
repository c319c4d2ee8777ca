/* taps_avx512.c - sums of products for several taps of one row of a convolution at once, with
 * AVX-512 (conv.h). A pixel of x meets as many pixels of dy as there are taps: its channels are
 * broadcast once for all of them, where products tap by tap load one number for every
 * multiply-add. Sums of all taps stay in registers along the row. */
#include "device/cpu/conv.h"

#include <immintrin.h>

#define INLINE inline __attribute__((always_inline))

enum { LANES = CONV_ROW_LANES, ROWS = 8 };

/* ROWS channels of x times one vector of dy, for `taps` taps, a constant after inlining. Of 32
 * registers, 24 hold sums. */
static INLINE void row_block(const int taps, const conv_row *w, const float *x, float *out) {
    __m512 sum[CONV_ROW_TAPS][ROWS];
    const float *dy = w->dy;
    for (int t = 0; t < taps; t++) {
        for (int j = 0; j < ROWS; j++) {
            sum[t][j] = _mm512_loadu_ps(out + t * w->tap + j * LANES);
        }
    }
    for (int64_t k = w->deep; k > 0; k--) {
        __m512 y[CONV_ROW_TAPS];
        for (int t = 0; t < taps; t++) {
            y[t] = _mm512_loadu_ps(dy - t * w->dy_back);
        }
        for (int j = 0; j < ROWS; j++) {
            __m512 of_x = _mm512_set1_ps(x[j]);
            for (int t = 0; t < taps; t++) {
                sum[t][j] = _mm512_fmadd_ps(of_x, y[t], sum[t][j]);
            }
        }
        __builtin_prefetch(x + w->x_ahead, 0, 2);
        __builtin_prefetch(dy + w->dy_ahead, 0, 2);
        x += w->x_row;
        dy += LANES;
    }
    for (int t = 0; t < taps; t++) {
        for (int j = 0; j < ROWS; j++) {
            _mm512_storeu_ps(out + t * w->tap + j * LANES, sum[t][j]);
        }
    }
}

static void one_tap(const conv_row *w, const float *x, float *out) {
    row_block(1, w, x, out);
}
static void two_taps(const conv_row *w, const float *x, float *out) {
    row_block(2, w, x, out);
}
static void three_taps(const conv_row *w, const float *x, float *out) {
    row_block(3, w, x, out);
}

void ebb__cpu_conv_row_avx512(const conv_row *w) {
    static void (*const run[CONV_ROW_TAPS])(const conv_row *, const float *,
                                            float *) = {one_tap, two_taps, three_taps};
    for (int64_t j = 0; j < w->rows; j += ROWS) {
        run[w->taps - 1](w, w->x + j, w->out + j * LANES);
    }
}
