/* reduce.cl - sums (op/ref/reduce.inc, softmax.inc). The order of every addition is the
 * reference's. */

/* An item for each column. */
ELEMENT(sum_rows) {
    float sum = HAS(IN(0)) ? F32(IN(0), 0)[u] : 0.0f;
    GLOBAL const float *x = F32(IN(1), 0) + u;
    int64_t ld = IN(1)->ld;
    int32_t rows = IN(1)->rows;
    for (int32_t i = 0; i < rows; i++) {
        sum += x[i * ld];
    }
    F32(OUT(0), 0)[u] = sum;
}

/* Rows in 16 lanes, 16 rows at a time, their sums one after the other: one group. */
LANES_KERNEL(sum_all) {
    SHARED float lanes[256];
    SHARED float sums[16];
    GLOBAL const gpu_call *c = CALL(at);
    float sum = 0.0f;
    for (int32_t begin = 0; begin < IN(0)->rows; begin += 16) {
        int32_t r = begin + ITEM(1);
        int32_t n = r < IN(0)->rows ? IN(0)->cols : 0;
        float of_row = row_sum(lanes, F32(IN(0), n > 0 ? r : 0), n);
        if (ITEM(0) == 0) {
            sums[ITEM(1)] = of_row;
        }
        BARRIER();
        for (int32_t i = 0; i < 16 && begin + i < IN(0)->rows; i++) {
            sum += sums[i];
        }
        BARRIER();
    }
    if (ITEM(0) == 0 && ITEM(1) == 0) {
        F32(OUT(0), 0)[0] = sum;
    }
}

/* 16 items for each block of elements, numbered row by row; 16 blocks a group. */
LANES_KERNEL(sum_squares) {
    SHARED double lanes[256];
    GLOBAL const gpu_call *c = CALL(at);
    int64_t cols = IN(0)->cols, count = IN(0)->rows * cols;
    int64_t block = GROUP(1) * 16 + ITEM(1), begin = block * SQUARES_BLOCK;
    int64_t end = begin + SQUARES_BLOCK < count ? begin + SQUARES_BLOCK : count;
    int64_t e = begin + ITEM(0), r = e / cols, j = e % cols;
    double sum = 0.0;
    for (; e < end; e += 16) {
        double v = (double)F32(IN(0), r)[j];
        sum += v * v;
        for (j += 16; j >= cols; j -= cols) {
            r++;
        }
    }
    sum = lanes_sum64(lanes, sum);
    if (ITEM(0) == 0 && begin < count) {
        F64(OUT(0))[block] = sum;
    }
}

/* An item for each lane of a block of the whole, of which x begins with element `first`; a block
 * that ends with x leaves its lanes, one that is complete leaves zeros. */
KERNEL void WG(16, 16) k_sum_squares_part(ARGS) {
    SHARED double lanes[256];
    GLOBAL const gpu_call *c = CALL(at);
    int64_t cols = IN(1)->cols, count = IN(1)->rows * cols, first = c->i[0];
    int64_t block = GROUP(1) * 16 + ITEM(1), last = (first + count - 1) / SQUARES_BLOCK;
    int64_t from = block * SQUARES_BLOCK - first, end = from + SQUARES_BLOCK;
    double sum = 0.0;
    if (from < 0 && HAS(IN(0))) {
        sum = F64(IN(0))[ITEM(0)];
    }
    /* Lane l has the elements whose number in the whole is l mod 16. */
    int64_t e = from < 0 ? (ITEM(0) - first % 16 + 16) % 16 : from + ITEM(0);
    for (; e < (end < count ? end : count); e += 16) {
        double v = (double)F32(IN(1), e / cols)[e % cols];
        sum += v * v;
    }
    if (block == last) {
        F64(OUT(1))[ITEM(0)] = end <= count ? 0.0 : sum;
    }
    sum = lanes_sum64(lanes, sum);
    if (ITEM(0) == 0 && block <= last) {
        F64(OUT(0))[block] = sum;
    }
}

LANES_KERNEL(softmax) {
    LANES_BEGIN
    GLOBAL const float *x = F32(IN(0), r);
    GLOBAL float *y = F32(OUT(0), r);
    float top = row_top(lanes, x, n), sum = 0.0f;
    for (int32_t j = lane; j < n; j += 16) {
        float e = math_exp(x[j] - top);
        y[j] = e;
        sum += e;
    }
    float factor = 1.0f / lanes_sum(lanes, sum);
    for (int32_t j = lane; j < n; j += 16) {
        y[j] *= factor;
    }
}

LANES_KERNEL(softmax_grad) {
    LANES_BEGIN
    GLOBAL const float *dy = F32(IN(0), r), *y = F32(IN(1), r);
    GLOBAL float *dx = F32(OUT(0), r);
    float sum = 0.0f;
    for (int32_t j = lane; j < n; j += 16) {
        sum = FMA(dy[j], y[j], sum);
    }
    sum = lanes_sum(lanes, sum);
    for (int32_t j = lane; j < n; j += 16) {
        dx[j] = y[j] * (dy[j] - sum);
    }
}

LANES_KERNEL(row_max) {
    LANES_BEGIN
    float top = row_top(lanes, F32(IN(0), r), n);
    if (inside && lane == 0) {
        F32(OUT(0), 0)[r] = top;
    }
}
