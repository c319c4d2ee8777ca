/* matmul.cl - for every element one chain of fused multiply-adds, from c, k ascending
 * (op/ref/matmul.inc). No chain is ever split.
 *
 * a(m, k) lies m * a_row + k * a_step behind a; column n of b begins at column_of(n), its elements
 * b_step apart: so all transpositions and packed panels (op/pack.h) are one text.
 */
typedef struct product {
    int32_t m, n, k;
    int64_t a_row, a_step, b_step, b_column;
    int64_t groups, units, lanes, ldb; /* of a packed b; lanes 0: it is not packed */
} product;

DEVICE product product_of(GLOBAL const gpu_call *c) {
    product p;
    bool trans_a = c->i[0] != 0, trans_b = c->i[1] != 0;
    p.m = OUT(0)->rows;
    p.n = OUT(0)->cols;
    p.k = trans_a ? IN(1)->rows : IN(1)->cols;
    p.a_row = trans_a ? 1 : IN(1)->ld;
    p.a_step = trans_a ? IN(1)->ld : 1;
    p.b_step = trans_b ? 1 : IN(2)->ld;
    p.b_column = trans_b ? IN(2)->ld : 1;
    p.ldb = IN(2)->ld;
    p.lanes = 0;
    p.groups = c->i[2] > 1 ? c->i[2] : 1;
    p.units = p.n / p.groups;
    if (c->i[3] != 0) {
        p.lanes = c->i[4] > 1 ? c->i[4] : 1;
        p.b_step = p.groups * p.lanes;
    }
    return p;
}

DEVICE int64_t column_of(const product *p, int32_t n) {
    if (p->lanes == 0) {
        return n * p->b_column;
    }
    int64_t unit = n % p->units;
    return unit / p->lanes * p->ldb + n / p->units * p->lanes + unit % p->lanes;
}

/* Where the chain of (m, n) starts: a bias, a sum so far, or 0. */
#define START(m, n) (HAS(IN(0)) ? F32(IN(0), IN(0)->rank == 1 ? 0 : (m))[n] : 0.0f)

/* ---- tiles of 64 x 64 with shared memory: 16 x 16 items, 4 x 4 chains each ---- */

KERNEL void WG(16, 16) k_matmul_tile(ARGS) {
    SHARED float as[16][65];
    SHARED float bs[16][65];
    GLOBAL const gpu_call *c = CALL(at);
    product p = product_of(c);
    GLOBAL const float *a = F32(IN(1), 0), *b = F32(IN(2), 0);
    int32_t x = ITEM(0), y = ITEM(1), m0 = GROUP(1) * 64, n0 = GROUP(0) * 64;
    float sum[4][4];
    for (int32_t i = 0; i < 4; i++) {
        for (int32_t j = 0; j < 4; j++) {
            int32_t m = m0 + y + 16 * i, n = n0 + x + 16 * j;
            sum[i][j] = m < p.m && n < p.n ? START(m, n) : 0.0f;
        }
    }
    for (int32_t k0 = 0; k0 < p.k; k0 += 16) {
        for (int32_t i = 0; i < 4; i++) {
            int32_t row = y + 16 * i, k = k0 + x;
            as[x][row] =
                m0 + row < p.m && k < p.k ? a[(m0 + row) * p.a_row + k * p.a_step] : 0.0f;
            bs[x][row] = n0 + row < p.n && k < p.k
                             ? b[column_of(&p, n0 + row) + k * p.b_step]
                             : 0.0f;
        }
        BARRIER();
        int32_t end = p.k - k0 < 16 ? p.k - k0 : 16;
        for (int32_t q = 0; q < end; q++) {
            for (int32_t i = 0; i < 4; i++) {
                for (int32_t j = 0; j < 4; j++) {
                    sum[i][j] = FMA(as[q][y + 16 * i], bs[q][x + 16 * j], sum[i][j]);
                }
            }
        }
        BARRIER();
    }
    for (int32_t i = 0; i < 4; i++) {
        for (int32_t j = 0; j < 4; j++) {
            int32_t m = m0 + y + 16 * i, n = n0 + x + 16 * j;
            if (m < p.m && n < p.n) {
                F32(OUT(0), m)[n] = sum[i][j];
            }
        }
    }
}

/* ---- for devices that are CPUs: an item does 16 columns of many rows, without shared memory ----
 *
 * Sixteen columns of b that follow each other are two `wide`; six rows of them are as many sums as
 * such a device has registers for. Chains go on from the result after every PANEL_DEPTH of k, so that
 * this part of b stays near. A b whose columns do not follow each other, or which many rows read, is
 * packed first. */
#define PANEL_ROWS 6
#define PANEL_HIGH 96 /* rows of an item */
#define PANEL_COLUMNS 16
#define PANEL_DEPTH 512

/* b in panels of 16 columns, zeros behind the last, in the workspace: an item for each k and
 * column. */
KERNEL void WG(64, 4) k_matmul_pack(ARGS) {
    GLOBAL const gpu_call *c = CALL(at);
    bool trans = c->i[1] != 0;
    int32_t count = trans ? IN(2)->cols : IN(2)->rows, columns = trans ? IN(2)->rows : IN(2)->cols;
    int32_t x = GROUP(0) * 64 + ITEM(0), y = GROUP(1) * 4 + ITEM(1);
    int32_t n = trans ? y : x, k = trans ? x : y;
    if (x < SPAN(at)[1] && y < SPAN(at)[0]) {
        GLOBAL float *panel =
            WORKSPACE(float) + (int64_t)(n / PANEL_COLUMNS) * count * PANEL_COLUMNS;
        float w = 0.0f;
        if (n < columns) {
            w = trans ? F32(IN(2), n)[k] : F32(IN(2), k)[n];
        }
        panel[(int64_t)k * PANEL_COLUMNS + n % PANEL_COLUMNS] = w;
    }
}

/* So many of 8 floats, zeros behind them. */
DEVICE wide load_some(GLOBAL const float *from, int32_t columns) {
    float some[8];
    for (int32_t j = 0; j < 8; j++) {
        some[j] = j < columns ? from[j] : 0.0f;
    }
    return WIDE_LOAD(some);
}
DEVICE void store_some(wide v, GLOBAL float *to, int32_t columns) {
    float some[8];
    WIDE_STORE(v, some);
    for (int32_t j = 0; j < 8 && j < columns; j++) {
        to[j] = some[j];
    }
}

/* Rows [m, m + 6) of the panel of `columns` columns at n, k from k0 on; b is at k0. */
DEVICE void panel_rows(GLOBAL char *arena, GLOBAL const gpu_call *c, const product *p, int32_t m,
                       int64_t n, int32_t columns, GLOBAL const float *b, int64_t b_step,
                       bool wide_b, int32_t k0) {
    bool whole = columns == PANEL_COLUMNS;
    GLOBAL const float *a = F32(IN(1), 0) + k0 * p->a_step;
    int32_t depth = p->k - k0 < PANEL_DEPTH ? p->k - k0 : PANEL_DEPTH;
    GLOBAL const gpu_view *start = k0 == 0 ? IN(0) : OUT(0);
    wide sum[PANEL_ROWS][2];
    int64_t from[PANEL_ROWS];
    UNROLL for (int32_t i = 0; i < PANEL_ROWS; i++) {
        int32_t row = m + i < p->m ? m + i : p->m - 1;
        from[i] = row * p->a_row;
        sum[i][0] = sum[i][1] = WIDE_SET(0.0f);
        if (HAS(start)) {
            GLOBAL const float *s = F32(start, start->rank == 1 && k0 == 0 ? 0 : row) + n;
            sum[i][0] = whole ? WIDE_LOAD(s) : load_some(s, columns);
            sum[i][1] = whole ? WIDE_LOAD(s + 8) : load_some(s + 8, columns - 8);
        }
    }
    if (wide_b) {
        for (int32_t k = 0; k < depth; k++, b += b_step, a += p->a_step) {
            wide b0 = WIDE_LOAD(b), b1 = WIDE_LOAD(b + 8);
            UNROLL for (int32_t i = 0; i < PANEL_ROWS; i++) {
                wide x = WIDE_SET(a[from[i]]);
                sum[i][0] = WIDE_FMA(x, b0, sum[i][0]);
                sum[i][1] = WIDE_FMA(x, b1, sum[i][1]);
            }
        }
    } else {
        for (int32_t k = 0; k < depth; k++, b += b_step, a += p->a_step) {
            wide b0 = load_some(b, columns), b1 = load_some(b + 8, columns - 8);
            UNROLL for (int32_t i = 0; i < PANEL_ROWS; i++) {
                wide x = WIDE_SET(a[from[i]]);
                sum[i][0] = WIDE_FMA(x, b0, sum[i][0]);
                sum[i][1] = WIDE_FMA(x, b1, sum[i][1]);
            }
        }
    }
    UNROLL for (int32_t i = 0; i < PANEL_ROWS; i++) {
        GLOBAL float *y = F32(OUT(0), m + i) + n;
        if (m + i < p->m && whole) {
            WIDE_STORE(sum[i][0], y);
            WIDE_STORE(sum[i][1], y + 8);
        } else if (m + i < p->m) {
            store_some(sum[i][0], y, columns);
            store_some(sum[i][1], y + 8, columns - 8);
        }
    }
}

DEVICE void panel_of(GLOBAL char *arena, GLOBAL const gpu_call *c, bool packed) {
    product p = product_of(c);
    int32_t per_group = (int32_t)((p.units + PANEL_COLUMNS - 1) / PANEL_COLUMNS);
    int32_t group = p.lanes > 0 ? GROUP(0) / per_group : 0;
    int64_t limit = p.lanes > 0 ? (group + 1) * p.units : p.n;
    int64_t n = p.lanes > 0 ? group * p.units + (int64_t)(GROUP(0) % per_group) * PANEL_COLUMNS
                            : (int64_t)GROUP(0) * PANEL_COLUMNS;
    int32_t columns = limit - n < PANEL_COLUMNS ? (int32_t)(limit - n) : PANEL_COLUMNS;
    GLOBAL const float *b =
        packed ? WORKSPACE(float) + n * p.k : F32(IN(2), 0) + column_of(&p, (int32_t)n);
    int64_t b_step = packed ? PANEL_COLUMNS : p.b_step;
    bool wide_b = packed || p.lanes > 0 || columns == PANEL_COLUMNS;
    int32_t end = (GROUP(1) + 1) * PANEL_HIGH < p.m ? (GROUP(1) + 1) * PANEL_HIGH : p.m;
    for (int32_t k0 = 0; k0 < p.k; k0 += PANEL_DEPTH) {
        for (int32_t m = GROUP(1) * PANEL_HIGH; m < end; m += PANEL_ROWS) {
            panel_rows(arena, c, &p, m, n, columns, b + k0 * b_step, b_step, wide_b, k0);
        }
    }
}

/* Sixteen units from u on, in all their columns, of some rows: a product that is part of a run. */
DEVICE void panel_units(GLOBAL char *arena, GLOBAL const gpu_call *c, int32_t u, int32_t first,
                        int32_t end) {
    product p = product_of(c);
    int32_t columns = (int32_t)(p.units - u < PANEL_COLUMNS ? p.units - u : PANEL_COLUMNS);
    bool wide_b = p.lanes > 0 || columns == PANEL_COLUMNS;
    for (int32_t g = 0; g < p.groups; g++) {
        int64_t n = g * p.units + u;
        GLOBAL const float *b = F32(IN(2), 0) + column_of(&p, (int32_t)n);
        for (int32_t k0 = 0; k0 < p.k; k0 += PANEL_DEPTH) {
            for (int32_t m = first; m < end; m += PANEL_ROWS) {
                panel_rows(arena, c, &p, m, n, columns, b + k0 * p.b_step, p.b_step, wide_b, k0);
            }
        }
    }
}

KERNEL void WG(1, 1) k_matmul_panel(ARGS) {
    panel_of(arena, CALL(at), false);
}
KERNEL void WG(1, 1) k_matmul_packed(ARGS) {
    panel_of(arena, CALL(at), true);
}
