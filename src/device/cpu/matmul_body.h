/* matmul_body.h - matmul in plain vectors, and transposition, over vec.h. The includer defines
 * CPU_FN(name). This is the matmul of machines without libxsmm and of forms it has no kernel for.
 *
 * A panel of 2 vectors of columns, at most DEPTH deep, is packed into the member's workspace
 * (padded with zeros, transposed if b is), then rows are taken ROWS at a time with their sums in
 * registers. */
#include "device/cpu/cpu.h"
#include "device/cpu/matmul.h"
#include "device/cpu/vec.h"

enum { ROWS = 6, PANEL = 2 * VLEN, DEPTH = CPU_PANEL_FLOATS / PANEL };

/* ---- transposition --------------------------------------------------------------------------- */

/* to[c * ldt + r] = from[r * ldf + c] for VLEN x VLEN elements. */
static INLINE void transpose_tile(float *to, int64_t ldt, const float *from, int64_t ldf) {
#if VBYTES == 32
    vf r[8], s[8];
    for (int i = 0; i < 8; i++) {
        r[i] = v_load(from + i * ldf, VLEN);
    }
    for (int i = 0; i < 8; i += 2) {
        s[i] = __builtin_shufflevector(r[i], r[i + 1], 0, 8, 1, 9, 4, 12, 5, 13);
        s[i + 1] = __builtin_shufflevector(r[i], r[i + 1], 2, 10, 3, 11, 6, 14, 7, 15);
    }
    for (int i = 0; i < 8; i += 4) {
        r[i] = __builtin_shufflevector(s[i], s[i + 2], 0, 1, 8, 9, 4, 5, 12, 13);
        r[i + 1] = __builtin_shufflevector(s[i], s[i + 2], 2, 3, 10, 11, 6, 7, 14, 15);
        r[i + 2] = __builtin_shufflevector(s[i + 1], s[i + 3], 0, 1, 8, 9, 4, 5, 12, 13);
        r[i + 3] = __builtin_shufflevector(s[i + 1], s[i + 3], 2, 3, 10, 11, 6, 7, 14, 15);
    }
    for (int i = 0; i < 4; i++) {
        v_store(to + i * ldt, __builtin_shufflevector(r[i], r[i + 4], 0, 1, 2, 3, 8, 9, 10, 11),
                VLEN);
        v_store(to + (i + 4) * ldt,
                __builtin_shufflevector(r[i], r[i + 4], 4, 5, 6, 7, 12, 13, 14, 15), VLEN);
    }
#else
    for (int i = 0; i < VLEN; i++) {
        for (int j = 0; j < VLEN; j++) {
            to[j * ldt + i] = from[i * ldf + j];
        }
    }
#endif
}

void CPU_FN(transpose_block)(float *to, int64_t ldt, const float *from, int64_t ldf, int64_t rows,
                             int64_t cols) {
    for (int64_t r = 0; r < rows; r += VLEN) {
        int64_t high = rows - r < VLEN ? rows - r : VLEN;
        for (int64_t c = 0; c < cols; c += VLEN) {
            int64_t wide = cols - c < VLEN ? cols - c : VLEN;
            if (high == VLEN && wide == VLEN) {
                transpose_tile(to + c * ldt + r, ldt, from + r * ldf + c, ldf);
                continue;
            }
            for (int64_t i = 0; i < high; i++) {
                for (int64_t j = 0; j < wide; j++) {
                    to[(c + j) * ldt + r + i] = from[(r + i) * ldf + c + j];
                }
            }
        }
    }
}

/* Members share the rows of the result; 64 columns at a time, so that both sides stay in cache. */
void CPU_FN(transpose)(const op_call *call) {
    const op_view *in = &call->in[0], *out = &call->out[0];
    int64_t rows = ebb__ir_rows(&in->type), begin, end;
    ebb__team_share(ir_cols(&in->type), 16, call->member, call->members, &begin, &end);
    for (int64_t r = 0; r < rows; r += 64) {
        CPU_FN(transpose_block)
        (cpu_at(out, begin, r), out->ld, cpu_at(in, r, begin), in->ld,
         rows - r < 64 ? rows - r : 64, end - begin);
    }
}

/* ---- matmul ---------------------------------------------------------------------------------- */

/* packed[k][PANEL] = b(k0 + k, n0 + n), zero beyond `wide` columns. */
static void pack_panel(const matmul_shape *s, int64_t k0, int64_t deep, int64_t n0, int64_t wide,
                       float *packed) {
    const float *b = s->b + k0 * s->b_row + n0 * s->b_col;
    if (wide < PANEL) {
        memset(packed, 0, (size_t)(deep * PANEL) * sizeof(float));
    }
    if (s->b_row == 1 && s->b_col != 1) {
        CPU_FN(transpose_block)(packed, PANEL, b, s->b_col, wide, deep);
        return;
    }
    for (int64_t k = 0; k < deep; k++) {
        for (int64_t n = 0; n < wide; n++) {
            packed[k * PANEL + n] = b[k * s->b_row + n * s->b_col];
        }
    }
}

/* `rows` (a constant after inlining) rows of a times the packed panel, added to the output. */
static INLINE void tile(const int rows, const float *a, int64_t a_row, int64_t a_col,
                        const float *packed, int64_t deep, float *out, int64_t ldo, int64_t wide) {
    vf sum[ROWS][2];
    int64_t low = wide < VLEN ? wide : VLEN, high = wide - low;
    for (int i = 0; i < rows; i++) {
        sum[i][0] = v_load(out + i * ldo, low);
        sum[i][1] = v_load(out + i * ldo + VLEN, high);
    }
    for (int64_t k = 0; k < deep; k++) {
        vf b0 = v_load(packed + k * PANEL, VLEN), b1 = v_load(packed + k * PANEL + VLEN, VLEN);
        for (int i = 0; i < rows; i++) {
            vf x = v_all(a[i * a_row + k * a_col]);
            sum[i][0] = v_fma(x, b0, sum[i][0]);
            sum[i][1] = v_fma(x, b1, sum[i][1]);
        }
    }
    for (int i = 0; i < rows; i++) {
        v_store(out + i * ldo, sum[i][0], low);
        v_store(out + i * ldo + VLEN, sum[i][1], high);
    }
}

static INLINE void tile_columns(const int rows, const matmul_shape *s, int64_t m, int64_t k0,
                                int64_t deep, int64_t n0, int64_t wide, const float *packed) {
    const float *a = s->a + m * s->a_row + k0 * s->a_col;
    float *out = s->out + m * s->ldo + n0;
    if (wide == PANEL) {
        tile(rows, a, s->a_row, s->a_col, packed, deep, out, s->ldo, PANEL);
    } else {
        tile(rows, a, s->a_row, s->a_col, packed, deep, out, s->ldo, wide);
    }
}

void CPU_FN(matmul)(const op_call *call) {
    matmul_shape s = matmul_shape_of(call);
    matmul_part part = matmul_part_of(&s, PANEL, ROWS, call->member, call->members);
    float *packed = (float *)call->workspace + (int64_t)call->member * CPU_PANEL_FLOATS;
    matmul_start(call, &s, part);
    for (int64_t n = part.n0; n < part.n1 && part.m0 < part.m1; n += PANEL) {
        int64_t wide = part.n1 - n < PANEL ? part.n1 - n : PANEL;
        for (int64_t k = 0; k < s.k; k += DEPTH) {
            int64_t deep = s.k - k < DEPTH ? s.k - k : DEPTH, m = part.m0;
            pack_panel(&s, k, deep, n, wide, packed);
            for (; m + ROWS <= part.m1; m += ROWS) {
                tile_columns(ROWS, &s, m, k, deep, n, wide, packed);
            }
            for (; m < part.m1; m++) {
                tile_columns(1, &s, m, k, deep, n, wide, packed);
            }
        }
    }
}
