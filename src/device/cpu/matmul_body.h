/* matmul_body.h - matmul in plain vectors, transposition and pack, over vec.h. The includer defines
 * CPU_FN(name). This is the matmul of machines without libxsmm.
 *
 * A panel of 2 vectors of columns, at most DEPTH deep, is packed into the member's workspace
 * (padded with zeros, transposed if b is), and multiplied with all rows (lanes_body.h). A packed b
 * is read where it lies. */
#include "device/cpu/cpu.h"
#include "device/cpu/lanes_body.h"
#include "device/cpu/matmul.h"

enum { PANEL = 2 * VLEN, DEPTH = MATMUL_VECTOR_DEPTH };
_Static_assert((int)PANEL <= (int)MATMUL_VECTOR_COLUMNS, "a panel fits the workspace");

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

/* ---- pack ------------------------------------------------------------------------------------ */

/* Columns [n, n + wide) of `rows` rows k of b, `wide` <= lanes of them, into a panel whose rows are
 * p->wide apart; zero up to the lanes. */
static void pack_lanes(const op_view *b, bool trans, const op_panels *p, int64_t n, int64_t wide,
                       int64_t rows, float *to) {
    if (wide < p->lanes) {
        for (int64_t k = 0; k < rows; k++) {
            memset(to + k * p->wide + (wide > 0 ? wide : 0), 0,
                   (size_t)(p->lanes - (wide > 0 ? wide : 0)) * sizeof(float));
        }
    }
    if (trans && wide > 0) {
        CPU_FN(transpose_block)(to, p->wide, cpu_at(b, n, 0), b->ld, wide, rows);
        return;
    }
    for (int64_t k = 0; k < rows && wide > 0; k++) {
        memcpy(to + k * p->wide, cpu_at(b, k, n), (size_t)wide * sizeof(float));
    }
}

/* Members share the panels. */
void CPU_FN(pack)(const op_call *call) {
    const op_view *b = &call->in[0], *out = &call->out[0];
    bool trans = call->attr->i[0] != 0;
    int64_t rows = trans ? ir_cols(&b->type) : ebb__ir_rows(&b->type), begin, end;
    op_panels p = op_panels_of(trans ? ebb__ir_rows(&b->type) : ir_cols(&b->type), call->attr->i[1],
                               call->attr->i[2]);
    ebb__team_share(p.count, 1, call->member, call->members, &begin, &end);
    for (int64_t at = begin; at < end; at++) {
        int64_t unit = at * p.lanes, wide = matmul_least(p.units - unit, p.lanes);
        for (int64_t g = 0; g < p.groups; g++) {
            pack_lanes(b, trans, &p, g * p.units + unit, wide, rows, cpu_at(out, at, g * p.lanes));
        }
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
    if (s->trans_b) {
        CPU_FN(transpose_block)(packed, PANEL, b, s->b_col, wide, deep);
        return;
    }
    for (int64_t k = 0; k < deep; k++) {
        for (int64_t n = 0; n < wide; n++) {
            packed[k * PANEL + n] = b[k * s->b_row + n * s->b_col];
        }
    }
}

static void run_plain(const matmul_shape *s, matmul_part part, float *packed) {
    matmul_start(s, part);
    for (int64_t n = part.n0; n < part.n1 && part.m0 < part.m1; n += PANEL) {
        int64_t wide = matmul_least(part.n1 - n, PANEL);
        for (int64_t k = 0; k < s->k; k += DEPTH) {
            int64_t deep = matmul_least(s->k - k, DEPTH);
            pack_panel(s, k, deep, n, wide, packed);
            CPU_FN(matmul_lanes)
            (&(matmul_lanes){.a = s->a + part.m0 * s->a_row + k * s->a_col,
                             .b = packed,
                             .out = s->out + part.m0 * s->ldo + n,
                             .a_row = s->a_row,
                             .a_col = s->a_col,
                             .b_row = PANEL,
                             .ldo = s->ldo,
                             .rows = part.m1 - part.m0,
                             .lanes = wide,
                             .deep = deep});
        }
    }
}

/* Units [lo, hi) of panel `at`, group by group. */
static void run_panel(const matmul_shape *s, int64_t at, int64_t lo, int64_t hi) {
    const op_panels *p = &s->panels;
    int64_t first = at * p->lanes > lo ? at * p->lanes : lo;
    int64_t end = matmul_least((at + 1) * p->lanes, hi);
    for (int64_t g = 0; g < p->groups; g++) {
        CPU_FN(matmul_lanes)
        (&(matmul_lanes){.a = s->a,
                         .b = s->b + at * s->b_row + g * p->lanes + first - at * p->lanes,
                         .out = s->out + g * p->units + first,
                         .a_row = s->a_row,
                         .a_col = s->a_col,
                         .b_row = p->wide,
                         .ldo = s->ldo,
                         .rows = s->m,
                         .lanes = end - first,
                         .deep = s->k});
    }
}

void CPU_FN(matmul)(const op_call *call) {
    matmul_shape s = matmul_shape_of(call);
    matmul_size size = matmul_size_of(&call->in[1].type, &call->out[0].type, call->attr);
    float *packed = (float *)call->workspace + call->worker * matmul_vector_floats(&size);
    int64_t lo, hi;
    if (!s.packed && call->hi == 0) {
        run_plain(&s, matmul_part_of(&s, PANEL, SUMS / 2, call->member, call->members), packed);
        return;
    }
    matmul_units(call, &s, &lo, &hi);
    for (int64_t g = 0; g < s.panels.groups && lo < hi; g++) {
        matmul_part part = {0, s.m, g * s.panels.units + lo, g * s.panels.units + hi};
        if (s.packed) {
            matmul_start(&s, part);
        } else {
            run_plain(&s, part, packed);
        }
    }
    for (int64_t at = lo / s.panels.lanes; s.packed && at * s.panels.lanes < hi; at++) {
        run_panel(&s, at, lo, hi);
    }
}
