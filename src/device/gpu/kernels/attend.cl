/* attend.cl - attention over blocks of batch rows (op/ref/attend.inc): row j * B + b of a stack
 * belongs to block j and batch row b. Sums over blocks are serial, j ascending, an item for each;
 * sums along a row have 16 lanes. A weight of exactly 0 adds nothing: its row is not read. */

ELEMENT(add_each) {
    PUT(0) = GET(0) + F32(IN(1), r % IN(1)->rows)[u];
}

ELEMENT(sum_each) {
    GLOBAL const float *x = F32(IN(0), r) + u;
    int64_t step = OUT(0)->rows * IN(0)->ld;
    int32_t blocks = IN(0)->rows / OUT(0)->rows;
    float sum = 0.0f;
    for (int32_t j = 0; j < blocks; j++) {
        sum += x[j * step];
    }
    PUT(0) = sum;
}

ELEMENT(outer_rows) {
    PUT(0) = SCORE_AT(IN(0), r) * F32(IN(1), 0)[u];
}

ELEMENT(outer_each) {
    float w = SCORE_AT(IN(1), r), y = HAS(IN(0)) ? GET(0) : 0.0f;
    if (w != 0.0f) {
        float x = F32(IN(2), r % IN(2)->rows)[u];
        y = HAS(IN(0)) ? FMA(w, x, y) : w * x;
    }
    PUT(0) = y;
}

ELEMENT(mask_rows) {
    PUT(0) = c->i[0] < I32(IN(1))[r] ? GET(0) : 0.0f;
}

ELEMENT(weighted_sum) {
    GLOBAL const float *a = F32(IN(0), 0) + r, *e = F32(IN(1), r) + u;
    int64_t step = OUT(0)->rows * IN(1)->ld;
    float sum = 0.0f;
    for (int32_t j = 0; j < IN(0)->rows; j++) {
        float w = a[j * IN(0)->ld];
        if (w != 0.0f) {
            sum = FMA(w, e[j * step], sum);
        }
    }
    PUT(0) = sum;
}

/* ---- 16 lanes for each row of the stack: each a chain of fused multiply-adds ---- */

DEVICE float lane_dot(GLOBAL const float *x, GLOBAL const float *y, int32_t n) {
    float sum = 0.0f;
    for (int32_t j = ITEM(0); j < n; j += 16) {
        sum = FMA(x[j], y[j], sum);
    }
    return sum;
}

LANES_KERNEL(dot_rows) {
    LANES_BEGIN
    float sum = lanes_sum(lanes, lane_dot(F32(IN(0), r), F32(IN(1), 0), n));
    if (inside && lane == 0) {
        SCORE_AT(OUT(0), r) = sum;
    }
}

LANES_KERNEL(dot_each) {
    LANES_BEGIN
    float sum = lanes_sum(lanes, lane_dot(F32(IN(0), r), F32(IN(1), r % IN(1)->rows), n));
    if (inside && lane == 0) {
        SCORE_AT(OUT(0), r) = sum;
    }
}

/* ---- softmax over blocks: 16 items for each batch row, 16 batch rows a group ----
 *
 * Item y of a batch row has the blocks y, y + 16, ...; only the sums are one item's work. Beyond the
 * last batch row items go on with no blocks, since all must come to the barriers. */
#define COLUMNS_BEGIN                                                                              \
    GLOBAL const gpu_call *c = CALL(at);                                                           \
    int32_t x = ITEM(0), y = ITEM(1), b = GROUP(0) * 16 + x;                                       \
    int32_t blocks = b < c->units ? OUT(0)->rows : 0;

/* Block j is position S - 1 - j; only positions below len[b] are read. */
KERNEL void WG(16, 16) k_mask_softmax(ARGS) {
    SHARED float tops[16][16];
    SHARED float factors[16];
    COLUMNS_BEGIN
    int32_t len = blocks > 0 ? I32(IN(1))[b] : 0;
    int32_t first = blocks - (len < 0 ? 0 : len < blocks ? len : blocks);
    float top = -INF;
    for (int32_t j = first + y; j < blocks; j += 16) {
        float s = F32(IN(0), j)[b];
        top = s > top ? s : top;
    }
    tops[y][x] = top;
    BARRIER();
    /* Which of two equal zeros is the largest makes no difference to an exponential. */
    for (int32_t i = 0; i < 16; i++) {
        top = tops[i][x] > top ? tops[i][x] : top;
    }
    for (int32_t j = y; j < blocks; j += 16) {
        F32(OUT(0), j)[b] = j < first ? 0.0f : math_exp(F32(IN(0), j)[b] - top);
    }
    BARRIER();
    if (y == 0) {
        float sum = 0.0f;
        for (int32_t j = first; j < blocks; j++) {
            sum += F32(OUT(0), j)[b];
        }
        factors[x] = 1.0f / sum;
    }
    BARRIER();
    for (int32_t j = y; j < blocks; j += 16) {
        if (j >= first) {
            F32(OUT(0), j)[b] *= factors[x];
        }
    }
}

KERNEL void WG(16, 16) k_mask_softmax_grad(ARGS) {
    SHARED float sums[16];
    COLUMNS_BEGIN
    if (y == 0) {
        float sum = 0.0f;
        for (int32_t j = 0; j < blocks; j++) {
            float w = F32(IN(0), j)[b];
            sum = w == 0.0f ? sum : FMA(w, F32(IN(1), j)[b], sum);
        }
        sums[x] = sum;
    }
    BARRIER();
    for (int32_t j = y; j < blocks; j += 16) {
        float w = F32(IN(0), j)[b], d = F32(IN(1), j)[b];
        F32(OUT(0), j)[b] = w == 0.0f ? 0.0f : w * (d - sums[x]);
    }
}
