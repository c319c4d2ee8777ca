/* embed.cl - rows of a table by index, and their gradients added back in ascending order
 * (op/ref/embed.inc), without atomics: who finds a row first adds all that have its index. */

ELEMENT(embed) {
    PUT(0) = F32(IN(0), I32(IN(1))[r])[u];
}

ELEMENT(embed_start) {
    PUT(0) = HAS(IN(0)) ? GET(0) : 0.0f;
}

/* A group for each row of dy; one that is not the first of its index has nothing to do. */
KERNEL void WG(64, 1) k_embed_grad(ARGS) {
    GLOBAL const gpu_call *c = CALL(at);
    GLOBAL const int32_t *ids = I32(IN(1));
    int32_t first = GROUP(1), rows = IN(2)->rows, id = ids[first];
    bool found = false;
    for (int32_t i = 0; i < first && !found; i++) {
        found = ids[i] == id;
    }
    GLOBAL float *y = F32(OUT(0), id);
    for (int32_t i = first; i < rows && !found; i++) {
        if (ids[i] == id) {
            GLOBAL const float *d = F32(IN(2), i);
            for (int32_t j = ITEM(0); j < IN(2)->cols; j += 64) {
                y[j] += d[j];
            }
        }
    }
}

/* The first row of dy with each index, or -1, into the workspace. */
DEVICE void find_first(GLOBAL const int32_t *ids, int32_t rows, int32_t v, GLOBAL int32_t *first) {
    int32_t i = 0;
    while (i < rows && ids[i] != v) {
        i++;
    }
    first[v] = i < rows ? i : -1;
}
ELEMENT(embed_squares_first) {
    if (u < c->i[0]) {
        find_first(I32(IN(0)), IN(1)->rows, u, WORKSPACE(int32_t));
    }
}
ELEMENT(embed_sgd_first) {
    if (u < OUT(0)->rows) {
        find_first(I32(IN(1)), IN(2)->rows, u, WORKSPACE(int32_t));
    }
}

/* Element j of the gradient of index v, whose first row is known. */
DEVICE float embed_chain(GLOBAL char *arena, GLOBAL const int32_t *ids, GLOBAL const gpu_view *dy,
                         int32_t v, int32_t first, int32_t j) {
    float sum = 0.0f;
    for (int32_t i = first; first >= 0 && i < dy->rows; i++) {
        if (ids[i] == v) {
            sum += F32(dy, i)[j];
        }
    }
    return sum;
}

/* 16 items for each block of elements of the whole gradient, which is zero in most rows. */
LANES_KERNEL(embed_squares) {
    SHARED double lanes[256];
    GLOBAL const gpu_call *c = CALL(at);
    GLOBAL const int32_t *first = WORKSPACE(int32_t);
    int64_t cols = IN(1)->cols, count = c->i[0] * cols;
    int64_t block = GROUP(1) * 16 + ITEM(1), begin = block * SQUARES_BLOCK;
    int64_t end = begin + SQUARES_BLOCK < count ? begin + SQUARES_BLOCK : count;
    double sum = 0.0;
    for (int64_t v = begin / cols; v * cols < end; v++) {
        int32_t from = first[v];
        /* The elements of row v that are in the block and this lane. */
        int64_t e = v * cols < begin ? begin : v * cols;
        int64_t stop = (v + 1) * cols < end ? (v + 1) * cols : end;
        e += (ITEM(0) - (e - begin) % 16 + 16) % 16;
        for (; from >= 0 && e < stop; e += 16) {
            double g = (double)embed_chain(arena, I32(IN(0)), IN(1), (int32_t)v, from,
                                           (int32_t)(e - v * cols));
            sum += g * g;
        }
    }
    sum = lanes_sum64(lanes, sum);
    if (ITEM(0) == 0 && begin < count) {
        F64(OUT(0))[block] = sum;
    }
}

/* Rows that no index names stay as they are, unless the numbers to change them by are wrong. */
ELEMENT(embed_sgd) {
    int32_t first = WORKSPACE(int32_t)[r];
    float factor = HAS(IN(3)) ? F32(IN(3), 0)[0] : 1.0f, lr = F32(IN(4), 0)[0];
    if (first < 0 && IN(0)->at == OUT(0)->at && FMA(-lr, 0.0f * factor, 0.0f) == 0.0f) {
        return;
    }
    float g = embed_chain(arena, I32(IN(1)), IN(2), (int32_t)r, first, u);
    g = HAS(IN(3)) ? g * factor : g;
    PUT(0) = FMA(-lr, g, GET(0));
}
