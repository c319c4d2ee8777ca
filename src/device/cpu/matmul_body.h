/* matmul_body.h - matmul in plain vectors, transposition and pack, over vec.h. The includer defines
 * CPU_FN(name). This is the matmul of machines without libxsmm and of forms it has no kernel for.
 *
 * A panel of 2 vectors of columns, at most DEPTH deep, is packed into the member's workspace
 * (padded with zeros, transposed if b is), then rows are taken ROWS at a time with their sums in
 * registers. A packed b is read where it lies, two vectors of a panel at a time. */
#include "device/cpu/cpu.h"
#include "device/cpu/matmul.h"
#include "device/cpu/vec.h"

enum { ROWS = 6, PANEL = 2 * VLEN, DEPTH = MATMUL_VECTOR_DEPTH };
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
    op_panels p =
        op_panels_of(trans ? ebb__ir_rows(&b->type) : ir_cols(&b->type), call->attr->i[1]);
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

/* One or two vectors of columns: where they lie in b and in the output, and how many lanes are in
 * use. */
typedef struct tile_pair {
    const float *b[2];
    float *out[2];
    int64_t wide[2];
    int n;
} tile_pair;

/* Rows of a against those vectors. */
typedef struct tile_rows {
    const float *a;
    int64_t a_row, a_col, b_row, deep, ldo;
} tile_rows;

/* `rows` rows from m on times n vectors, added to the output; both are constants after inlining, as
 * is `full`: all lanes are in use. */
static INLINE void tile(const int rows, const int n, const bool full, const tile_rows *s,
                        const tile_pair *t, int64_t m) {
    const float *a = s->a + m * s->a_row;
    const int64_t wide[2] = {full ? VLEN : t->wide[0], full ? VLEN : t->wide[1]};
    vf sum[2 * ROWS][2];
    for (int i = 0; i < rows; i++) {
        for (int v = 0; v < n; v++) {
            sum[i][v] = v_load(t->out[v] + (m + i) * s->ldo, wide[v]);
        }
    }
    for (int64_t k = 0; k < s->deep; k++) {
        vf b[2];
        for (int v = 0; v < n; v++) {
            b[v] = v_load(t->b[v] + k * s->b_row, VLEN);
        }
        for (int i = 0; i < rows; i++) {
            vf x = v_all(a[i * s->a_row + k * s->a_col]);
            for (int v = 0; v < n; v++) {
                sum[i][v] = v_fma(x, b[v], sum[i][v]);
            }
        }
    }
    for (int i = 0; i < rows; i++) {
        for (int v = 0; v < n; v++) {
            v_store(t->out[v] + (m + i) * s->ldo, sum[i][v], wide[v]);
        }
    }
}

static INLINE void tile_some(const int rows, const int n, const tile_rows *s, const tile_pair *t,
                             int64_t m) {
    if (t->wide[0] == VLEN && (n == 1 || t->wide[1] == VLEN)) {
        tile(rows, n, true, s, t, m);
    } else {
        tile(rows, n, false, s, t, m);
    }
}

/* Rows [m, end): as many sums at a time as there are registers for, whatever n is. */
static void tile_all(const tile_rows *s, const tile_pair *t, int64_t m, int64_t end) {
    for (; t->n == 1 && m + 2 * ROWS <= end; m += 2 * ROWS) {
        tile_some(2 * ROWS, 1, s, t, m);
    }
    for (; m + ROWS <= end; m += ROWS) {
        t->n == 1 ? tile_some(ROWS, 1, s, t, m) : tile_some(ROWS, 2, s, t, m);
    }
    for (; m + 2 <= end; m += 2) {
        t->n == 1 ? tile_some(2, 1, s, t, m) : tile_some(2, 2, s, t, m);
    }
    for (; m < end; m++) {
        t->n == 1 ? tile_some(1, 1, s, t, m) : tile_some(1, 2, s, t, m);
    }
}

/* The vectors of at most PANEL neighbouring columns. */
static tile_pair pair_of(const float *b, float *out, int64_t wide) {
    int64_t low = matmul_least(wide, VLEN);
    return (tile_pair){.b = {b, b + VLEN},
                       .out = {out, out + VLEN},
                       .wide = {low, wide - low},
                       .n = wide > VLEN ? 2 : 1};
}

void CPU_FN(matmul_lanes)(const matmul_lanes *l) {
    tile_rows rows = {l->a, l->a_row, l->a_col, l->b_row, l->deep, l->ldo};
    for (int64_t n = 0; n < l->lanes; n += PANEL) {
        tile_pair pair = pair_of(l->b + n, l->out + n, matmul_least(l->lanes - n, PANEL));
        tile_all(&rows, &pair, 0, l->rows);
    }
}

static void run_plain(const matmul_shape *s, matmul_part part, float *packed) {
    matmul_start(s, part);
    for (int64_t n = part.n0; n < part.n1 && part.m0 < part.m1; n += PANEL) {
        int64_t wide = matmul_least(part.n1 - n, PANEL);
        tile_pair pair = pair_of(packed, s->out + n, wide);
        for (int64_t k = 0; k < s->k; k += DEPTH) {
            int64_t deep = matmul_least(s->k - k, DEPTH);
            tile_rows rows = {s->a + k * s->a_col, s->a_row, s->a_col, PANEL, deep, s->ldo};
            pack_panel(s, k, deep, n, wide, packed);
            tile_all(&rows, &pair, part.m0, part.m1);
        }
    }
}

/* Units [lo, hi) of panel `at`, a pair of its vectors at a time; the last may be without a second.
 */
static void run_panel(const matmul_shape *s, int64_t at, int64_t lo, int64_t hi) {
    const op_panels *p = &s->panels;
    tile_rows rows = {s->a, s->a_row, s->a_col, p->wide, s->k, s->ldo};
    tile_pair pair = {.n = 0};
    for (int64_t i = 0; i < p->wide; i += VLEN) {
        int64_t unit = at * p->lanes + i % p->lanes, wide = matmul_least(hi - unit, VLEN);
        if (unit >= lo && wide > 0) {
            pair.b[pair.n] = s->b + at * s->b_row + i;
            pair.out[pair.n] = s->out + i / p->lanes * p->units + unit;
            pair.wide[pair.n++] = wide;
        }
        if (pair.n == 2 || (pair.n == 1 && i + VLEN >= p->wide)) {
            tile_all(&rows, &pair, 0, s->m);
            pair.n = 0;
        }
    }
}

void CPU_FN(matmul)(const op_call *call) {
    matmul_shape s = matmul_shape_of(call);
    matmul_size size = matmul_size_of(&call->in[1].type, &call->out[0].type, call->attr);
    float *packed = (float *)call->workspace + call->worker * matmul_vector_floats(&size);
    int64_t lo, hi;
    if (!s.packed && call->hi == 0) {
        run_plain(&s, matmul_part_of(&s, PANEL, ROWS, call->member, call->members), packed);
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
