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

/* ---- for devices that are CPUs: an item does PANEL_ROWS x 16 chains, without shared memory ----
 *
 * Sixteen columns of b that follow each other are two vectors of such a device, or one; its
 * compiler finds them. A b whose columns do not follow each other is packed first. */
#define PANEL_ROWS 6
#define PANEL_COLUMNS 16

/* A transposed b in panels of 16 columns, in the workspace: an item for each k and column. */
KERNEL void WG(64, 4) k_matmul_pack(ARGS) {
    GLOBAL const gpu_call *c = CALL(at);
    int32_t n = GROUP(1) * 4 + ITEM(1), k = GROUP(0) * 64 + ITEM(0), count = IN(2)->cols;
    int32_t wide = (IN(2)->rows + PANEL_COLUMNS - 1) / PANEL_COLUMNS * PANEL_COLUMNS;
    if (k < count && n < wide) {
        GLOBAL float *panel = WORKSPACE(float) + (int64_t)(n / PANEL_COLUMNS) * count * PANEL_COLUMNS;
        panel[k * PANEL_COLUMNS + n % PANEL_COLUMNS] = n < IN(2)->rows ? F32(IN(2), n)[k] : 0.0f;
    }
}

KERNEL void WG(1, 1) k_matmul_panel(ARGS) {
    GLOBAL const gpu_call *c = CALL(at);
    product p = product_of(c);
    int32_t per_group = (int32_t)((p.units + PANEL_COLUMNS - 1) / PANEL_COLUMNS);
    int32_t group = p.lanes > 0 ? GROUP(0) / per_group : 0;
    int64_t limit = p.lanes > 0 ? (group + 1) * p.units : p.n;
    int64_t n0 = p.lanes > 0 ? group * p.units + (int64_t)(GROUP(0) % per_group) * PANEL_COLUMNS
                             : (int64_t)GROUP(0) * PANEL_COLUMNS;
    int32_t m0 = GROUP(1) * PANEL_ROWS;
    bool packed = c->i[1] != 0 && p.lanes == 0;
    GLOBAL const float *a = F32(IN(1), 0);
    GLOBAL const float *b = packed ? WORKSPACE(float) + n0 * p.k : F32(IN(2), 0) + column_of(&p, (int32_t)n0);
    int64_t b_step = packed ? PANEL_COLUMNS : p.b_step;
    int32_t columns = limit - n0 < PANEL_COLUMNS ? (int32_t)(limit - n0) : PANEL_COLUMNS;
    float sum[PANEL_ROWS][PANEL_COLUMNS];
    int64_t from[PANEL_ROWS];
    for (int32_t i = 0; i < PANEL_ROWS; i++) {
        int32_t m = m0 + i < p.m ? m0 + i : p.m - 1;
        from[i] = m * p.a_row;
        for (int32_t j = 0; j < PANEL_COLUMNS; j++) {
            sum[i][j] = j < columns ? START(m, n0 + j) : 0.0f;
        }
    }
    if (columns == PANEL_COLUMNS || packed || p.lanes > 0) {
        for (int32_t k = 0; k < p.k; k++) {
            GLOBAL const float *w = b + k * b_step;
            for (int32_t i = 0; i < PANEL_ROWS; i++) {
                float x = a[from[i] + k * p.a_step];
                for (int32_t j = 0; j < PANEL_COLUMNS; j++) {
                    sum[i][j] = FMA(x, w[j], sum[i][j]);
                }
            }
        }
    } else {
        for (int32_t k = 0; k < p.k; k++) {
            for (int32_t i = 0; i < PANEL_ROWS; i++) {
                float x = a[from[i] + k * p.a_step];
                for (int32_t j = 0; j < columns; j++) {
                    sum[i][j] = FMA(x, b[k * b_step + j], sum[i][j]);
                }
            }
        }
    }
    for (int32_t i = 0; i < PANEL_ROWS && m0 + i < p.m; i++) {
        for (int32_t j = 0; j < columns; j++) {
            F32(OUT(0), m0 + i)[n0 + j] = sum[i][j];
        }
    }
}
