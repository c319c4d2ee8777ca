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
            as[x][row] = m0 + row < p.m && k < p.k ? a[(m0 + row) * p.a_row + k * p.a_step] : 0.0f;
            bs[x][row] =
                n0 + row < p.n && k < p.k ? b[column_of(&p, n0 + row) + k * p.b_step] : 0.0f;
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

/* ---- for devices that are CPUs: an item does two strips of many rows, without shared memory ----
 *
 * A strip is a `wide` of columns. So many rows of two strips are as many sums as such a device has
 * registers for. Chains go on from the result after every PANEL_DEPTH of k, so that this part of b
 * stays near. Panels are 16 columns of b that follow each other: a b whose columns do not, or which
 * many rows read, is packed first. */
#if WIDE == 16
#define PANEL_ROWS 8
#else
#define PANEL_ROWS 6
#endif
#define PANEL_LEAST 4 /* rows, where fewer are left */
#define PANEL_HIGH 96 /* rows of an item */
#define PANEL_COLUMNS 16
#define PANEL_DEPTH 512
#define PACK_DEPTH 256 /* rows of b that an item packs */

/* b in panels of 16 columns, zeros behind the last, in the workspace: an item for some rows of a
 * panel. What is read follows each other where b is transposed, what is written where it is not. */
KERNEL void WG(1, 1) k_matmul_pack(ARGS) {
    GLOBAL const gpu_call *c = CALL(at);
    bool trans = c->i[1] != 0;
    int32_t count = trans ? IN(2)->cols : IN(2)->rows, columns = trans ? IN(2)->rows : IN(2)->cols;
    int32_t n = GROUP(0) * PANEL_COLUMNS, begin = GROUP(1) * PACK_DEPTH;
    int32_t end = begin + PACK_DEPTH < count ? begin + PACK_DEPTH : count;
    GLOBAL float *panel = WORKSPACE(float) + (int64_t)n * count;
    if (n + PANEL_COLUMNS <= columns && !trans) {
        for (int32_t k = begin; k < end; k++) {
            GLOBAL const float *from = F32(IN(2), k) + n;
            for (int32_t j = 0; j < PANEL_COLUMNS; j++) {
                panel[(int64_t)k * PANEL_COLUMNS + j] = from[j];
            }
        }
        return;
    }
    for (int32_t j = 0; j < PANEL_COLUMNS; j++) {
        for (int32_t k = begin; k < end; k++) {
            float w = 0.0f;
            if (n + j < columns) {
                w = trans ? F32(IN(2), n + j)[k] : F32(IN(2), k)[n + j];
            }
            panel[(int64_t)k * PANEL_COLUMNS + j] = w;
        }
    }
}

/* So many of a `wide`, zeros behind them. */
DEVICE wide load_some(GLOBAL const float *from, int32_t columns) {
    float some[WIDE];
    if (columns >= WIDE) {
        return WIDE_LOAD(from);
    }
    for (int32_t j = 0; j < WIDE; j++) {
        some[j] = j < columns ? from[j] : 0.0f;
    }
    return WIDE_LOAD(some);
}
DEVICE void store_some(wide v, GLOBAL float *to, int32_t columns) {
    float some[WIDE];
    if (columns >= WIDE) {
        WIDE_STORE(v, to);
        return;
    }
    WIDE_STORE(v, some);
    for (int32_t j = 0; j < columns; j++) {
        to[j] = some[j];
    }
}

/* Two strips: where their columns begin in results and in b, how many there are of each, at most
 * WIDE. Of a second one without columns b is that of the first. */
typedef struct strips {
    int64_t n0, n1;
    GLOBAL const float *b0, *b1;
    int32_t columns0, columns1;
    int64_t b_step;
    bool wide_b; /* a whole `wide` of b can be read at each */
} strips;

/* Rows [m, m + height), k from k0 on. */
DEVICE void strip_rows(GLOBAL char *arena, GLOBAL const gpu_call *c, const product *p,
                       const strips *s, int32_t m, int32_t k0, int32_t height) {
    GLOBAL const float *a = F32(IN(1), 0) + k0 * p->a_step;
    GLOBAL const float *b0 = s->b0 + k0 * s->b_step, *b1 = s->b1 + k0 * s->b_step;
    int32_t depth = p->k - k0 < PANEL_DEPTH ? p->k - k0 : PANEL_DEPTH;
    GLOBAL const gpu_view *start = k0 == 0 ? IN(0) : OUT(0);
    wide sum[PANEL_ROWS][2];
    int64_t from[PANEL_ROWS];
    UNROLL for (int32_t i = 0; i < PANEL_ROWS; i++) {
        if (i < height) {
            int32_t row = m + i < p->m ? m + i : p->m - 1;
            from[i] = row * p->a_row;
            sum[i][0] = sum[i][1] = WIDE_SET(0.0f);
            if (HAS(start)) {
                GLOBAL const float *x = F32(start, start->rank == 1 && k0 == 0 ? 0 : row);
                sum[i][0] = load_some(x + s->n0, s->columns0);
                sum[i][1] = load_some(x + s->n1, s->columns1);
            }
        }
    }
    if (s->wide_b) {
        for (int32_t k = 0; k < depth; k++, b0 += s->b_step, b1 += s->b_step, a += p->a_step) {
            wide w0 = WIDE_LOAD(b0), w1 = WIDE_LOAD(b1);
            UNROLL for (int32_t i = 0; i < PANEL_ROWS; i++) {
                if (i < height) {
                    wide x = WIDE_SET(a[from[i]]);
                    sum[i][0] = WIDE_FMA(x, w0, sum[i][0]);
                    sum[i][1] = WIDE_FMA(x, w1, sum[i][1]);
                }
            }
        }
    } else {
        for (int32_t k = 0; k < depth; k++, b0 += s->b_step, b1 += s->b_step, a += p->a_step) {
            wide w0 = load_some(b0, s->columns0), w1 = load_some(b1, s->columns1);
            UNROLL for (int32_t i = 0; i < PANEL_ROWS; i++) {
                if (i < height) {
                    wide x = WIDE_SET(a[from[i]]);
                    sum[i][0] = WIDE_FMA(x, w0, sum[i][0]);
                    sum[i][1] = WIDE_FMA(x, w1, sum[i][1]);
                }
            }
        }
    }
    UNROLL for (int32_t i = 0; i < PANEL_ROWS; i++) {
        if (i < height && m + i < p->m) {
            GLOBAL float *y = F32(OUT(0), m + i);
            store_some(sum[i][0], y + s->n0, s->columns0);
            store_some(sum[i][1], y + s->n1, s->columns1);
        }
    }
}

DEVICE void strips_of_rows(GLOBAL char *arena, GLOBAL const gpu_call *c, const product *p,
                           const strips *s, int32_t first, int32_t end) {
    for (int32_t k0 = 0; k0 < p->k; k0 += PANEL_DEPTH) {
        int32_t m = first;
        for (; m + PANEL_LEAST < end; m += PANEL_ROWS) {
            strip_rows(arena, c, p, s, m, k0, PANEL_ROWS);
        }
        if (m < end) {
            strip_rows(arena, c, p, s, m, k0, PANEL_LEAST);
        }
    }
}

/* Up to 16 columns of b that follow each other, from column n on. */
typedef struct panel {
    int64_t n;
    GLOBAL const float *b;
    int32_t columns;
} panel;

/* Some rows of two panels, of which the second may have no columns. */
DEVICE void panels_of_rows(GLOBAL char *arena, GLOBAL const gpu_call *c, const product *p,
                           const panel *x, const panel *y, bool packed, int32_t first,
                           int32_t end) {
    strips s;
    s.b_step = packed && p->lanes == 0 ? PANEL_COLUMNS : p->b_step;
#if WIDE == PANEL_COLUMNS
    s.n0 = x->n;
    s.n1 = y->columns > 0 ? y->n : x->n;
    s.b0 = x->b;
    s.b1 = y->columns > 0 ? y->b : x->b;
    s.columns0 = x->columns;
    s.columns1 = y->columns;
    s.wide_b = packed || (x->columns == WIDE && (y->columns == WIDE || y->columns == 0));
    strips_of_rows(arena, c, p, &s, first, end);
#else
    for (int32_t i = 0; i < 2; i++) {
        const panel *z = i == 0 ? x : y;
        bool more = z->columns > WIDE;
        s.n0 = z->n;
        s.n1 = z->n + (more ? WIDE : 0);
        s.b0 = z->b;
        s.b1 = z->b + (more ? WIDE : 0);
        s.columns0 = more ? WIDE : z->columns;
        s.columns1 = more ? z->columns - WIDE : 0;
        s.wide_b = packed || z->columns == PANEL_COLUMNS;
        if (z->columns > 0) {
            strips_of_rows(arena, c, p, &s, first, end);
        }
    }
#endif
}

/* Panel i of those of all groups, one group after the other. */
DEVICE panel panel_at(GLOBAL char *arena, GLOBAL const gpu_call *c, const product *p, int32_t i,
                      bool packed_first) {
    panel x;
    int64_t units = p->lanes > 0 ? p->units : p->n, groups = p->lanes > 0 ? p->groups : 1;
    int32_t per_group = (int32_t)((units + PANEL_COLUMNS - 1) / PANEL_COLUMNS);
    int64_t left = units - (int64_t)(i % per_group) * PANEL_COLUMNS;
    x.n = (int64_t)(i / per_group) * units + units - left;
    x.columns = left < PANEL_COLUMNS ? (int32_t)left : PANEL_COLUMNS;
    x.columns = i / per_group < groups ? x.columns : 0;
    x.b = packed_first ? WORKSPACE(float) + x.n * p->k
                       : F32(IN(2), 0) + column_of(p, x.columns > 0 ? (int32_t)x.n : 0);
    return x;
}

DEVICE void two_panels(GLOBAL char *arena, GLOBAL const gpu_call *c, bool packed_first) {
    product p = product_of(c);
    panel x = panel_at(arena, c, &p, 2 * GROUP(0), packed_first);
    panel y = panel_at(arena, c, &p, 2 * GROUP(0) + 1, packed_first);
    int32_t first = GROUP(1) * PANEL_HIGH;
    int32_t end = first + PANEL_HIGH < p.m ? first + PANEL_HIGH : p.m;
    panels_of_rows(arena, c, &p, &x, &y, packed_first || p.lanes > 0, first, end);
}

KERNEL void WG(1, 1) k_matmul_panel(ARGS) {
    two_panels(arena, CALL(at), false);
}
KERNEL void WG(1, 1) k_matmul_packed(ARGS) {
    two_panels(arena, CALL(at), true);
}

/* Sixteen units from u on, in all their columns, of some rows: a product that is part of a run. */
DEVICE void panel_units(GLOBAL char *arena, GLOBAL const gpu_call *c, int32_t u, int32_t first,
                        int32_t end) {
    product p = product_of(c);
    panel x, y;
    x.columns = (int32_t)(p.units - u < PANEL_COLUMNS ? p.units - u : PANEL_COLUMNS);
    for (int32_t g = 0; g < p.groups; g += 2) {
        x.n = g * p.units + u;
        x.b = F32(IN(2), 0) + column_of(&p, (int32_t)x.n);
        y = x;
        y.columns = g + 1 < p.groups ? x.columns : 0;
        if (y.columns > 0) {
            y.n += p.units;
            y.b = F32(IN(2), 0) + column_of(&p, (int32_t)y.n);
        }
        panels_of_rows(arena, c, &p, &x, &y, p.lanes > 0, first, end);
    }
}
