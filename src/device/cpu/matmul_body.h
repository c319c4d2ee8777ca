/* matmul_body.h - matmul in plain vectors, transposition and pack, over vec.h. The includer defines
 * CPU_FN(name). This is the matmul of machines without libxsmm and of what it has no good kernel
 * for.
 *
 * A panel of 2 vectors of columns, at most DEPTH deep, is packed into the member's workspace
 * (padded with zeros, transposed if b is), then rows are taken a few at a time with their sums in
 * registers. A packed b is read where it lies, a vector of a panel at a time. */
#include "device/cpu/cpu.h"
#include "device/cpu/matmul.h"
#include "device/cpu/vec.h"

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

/* As many vectors of sums as registers have room for beside one row of b, or one column of a. */
enum { SUMS = 12, MOST_VECTORS = 4 };

/* One line is fetched every FETCH_STEPS steps of k: so few are under way at a time that none is
 * dropped, and nothing waits for them. */
enum { FETCH_STEPS = 4 };

/* Where a tile fetches: `line`, then every `step` bytes. */
typedef struct tile_fetch {
    const char *line;
    int64_t step;
} tile_fetch;

/* The lines of one tile, at most those up to the end of a sequence; without any, one that is in
 * cache already. */
static tile_fetch fetch_next(const matmul_lanes *l) {
    matmul_fetch *f = l->fetch;
    if (f == NULL || f->outer <= 0) {
        return (tile_fetch){(const char *)l->b, 0};
    }
    tile_fetch next = {f->from + f->at * f->inner_step, f->inner_step};
    f->at += l->deep / FETCH_STEPS;
    if (f->at >= f->inner) {
        f->at = 0;
        f->from += f->outer_step;
        f->outer--;
    }
    return next;
}

/* One step of k. b and n, rows as below. */
static INLINE void tile_step(const int rows, const int n, const float *a, int64_t a_row,
                             const float *b, vf sum[SUMS][MOST_VECTORS]) {
    if (n == MOST_VECTORS) {
        vf x[SUMS];
        for (int i = 0; i < rows; i++) {
            x[i] = v_all(a[i * a_row]);
        }
        for (int v = 0; v < n; v++) {
            vf y = v_load(b + v * VLEN, VLEN);
            for (int i = 0; i < rows; i++) {
                sum[i][v] = v_fma(x[i], y, sum[i][v]);
            }
        }
        return;
    }
    vf y[MOST_VECTORS];
    for (int v = 0; v < n; v++) {
        y[v] = v_load(b + v * VLEN, VLEN);
    }
    for (int i = 0; i < rows; i++) {
        vf x = v_all(a[i * a_row]);
        for (int v = 0; v < n; v++) {
            sum[i][v] = v_fma(x, y[v], sum[i][v]);
        }
    }
}

/* `rows` rows times n vectors; both are constants after inlining. */
static INLINE void tile(const int rows, const int n, const matmul_lanes *l, const float *a,
                        float *out, int64_t ldo) {
    const float *b = l->b;
    const int64_t a_row = l->a_row, a_col = l->a_col, b_row = l->b_row;
    int64_t left = l->deep;
    tile_fetch next = fetch_next(l);
    vf sum[SUMS][MOST_VECTORS];
    for (int i = 0; i < rows; i++) {
        for (int v = 0; v < n; v++) {
            sum[i][v] = v_load(out + i * ldo + v * VLEN, VLEN);
        }
    }
    for (; left > 0; left--) {
        if (left % FETCH_STEPS == 0) {
            __builtin_prefetch(next.line, 0, 2);
            next.line += next.step;
        }
        tile_step(rows, n, a, a_row, b, sum);
        a += a_col;
        b += b_row;
    }
    for (int i = 0; i < rows; i++) {
        for (int v = 0; v < n; v++) {
            v_store(out + i * ldo + v * VLEN, sum[i][v], VLEN);
        }
    }
}

typedef struct tile_height {
    int rows;
    void (*run)(const matmul_lanes *l, const float *a, float *out, int64_t ldo);
} tile_height;

#define TILE(rows, n)                                                                              \
    static void tile_##rows##x##n(const matmul_lanes *l, const float *a, float *out,               \
                                  int64_t ldo) {                                                   \
        tile(rows, n, l, a, out, ldo);                                                             \
    }
TILE(12, 1)
TILE(6, 1)
TILE(2, 1)
TILE(1, 1)
TILE(6, 2)
TILE(4, 2)
TILE(2, 2)
TILE(1, 2)
TILE(4, 3)
TILE(2, 3)
TILE(1, 3)
TILE(3, 4)
TILE(2, 4)
TILE(1, 4)
#undef TILE

/* By the number of vectors, highest first. Low ones keep few sums and wait for them: only the last
 * rows are taken so. */
static const tile_height heights[MOST_VECTORS][4] = {
    {{12, tile_12x1}, {6, tile_6x1}, {2, tile_2x1}, {1, tile_1x1}},
    {{6, tile_6x2}, {4, tile_4x2}, {2, tile_2x2}, {1, tile_1x2}},
    {{4, tile_4x3}, {2, tile_2x3}, {1, tile_1x3}},
    {{3, tile_3x4}, {2, tile_2x4}, {1, tile_1x4}},
};

/* From row m on. Where not all lanes of n vectors are in use, through a copy. */
static void tile_at(const tile_height *height, int64_t n, const matmul_lanes *l, int64_t m) {
    const float *a = l->a + m * l->a_row;
    float *out = l->out + m * l->ldo;
    size_t used = (size_t)l->lanes * sizeof(float);
    if (l->lanes == n * VLEN) {
        height->run(l, a, out, l->ldo);
        return;
    }
    float sums[SUMS * VLEN] = {0};
    for (int i = 0; i < height->rows; i++) {
        memcpy(sums + i * n * VLEN, out + i * l->ldo, used);
    }
    height->run(l, a, sums, n * VLEN);
    for (int i = 0; i < height->rows; i++) {
        memcpy(out + i * l->ldo, sums + i * n * VLEN, used);
    }
}

void CPU_FN(matmul_lanes)(const matmul_lanes *lanes) {
    matmul_lanes l = *lanes;
    for (int64_t left = lanes->lanes; left > 0; left -= l.lanes) {
        l.lanes = matmul_least(left, MOST_VECTORS * VLEN);
        int64_t n = (l.lanes + VLEN - 1) / VLEN, m = 0;
        for (const tile_height *height = heights[n - 1]; m < l.rows; height++) {
            for (; m + height->rows <= l.rows; m += height->rows) {
                tile_at(height, n, &l, m);
            }
        }
        l.b += l.lanes;
        l.out += l.lanes;
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
