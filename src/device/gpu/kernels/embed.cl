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

/* Into the workspace: the first row of dy with each of `count` indices, then for each row the next
 * one with its index; `rows` where there is none. Looking at all rows, without stopping, is what
 * CPUs do many of at once. */
DEVICE void find_rows(GLOBAL const int32_t *ids, int32_t rows, int32_t count, int32_t u,
                      GLOBAL int32_t *found) {
    if (u < count) {
        int32_t first = rows;
        for (int32_t i = 0; i < rows; i++) {
            first = ids[i] == u && i < first ? i : first;
        }
        found[u] = first;
    }
    if (u < rows) {
        int32_t next = rows, id = ids[u];
        for (int32_t i = u + 1; i < rows; i++) {
            next = ids[i] == id && i < next ? i : next;
        }
        found[count + u] = next;
    }
}
ELEMENT(embed_squares_rows) {
    find_rows(I32(IN(0)), IN(1)->rows, c->i[0], u, WORKSPACE(int32_t));
}
ELEMENT(embed_sgd_rows) {
    find_rows(I32(IN(1)), IN(2)->rows, OUT(0)->rows, u, WORKSPACE(int32_t));
}

/* Element j of the gradient of an index, whose rows are known. */
DEVICE float embed_chain(GLOBAL char *arena, GLOBAL const gpu_view *dy, int32_t first,
                         GLOBAL const int32_t *next, int32_t j) {
    float sum = 0.0f;
    for (int32_t i = first; i < dy->rows; i = next[i]) {
        sum += F32(dy, i)[j];
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
        for (; from < IN(1)->rows && e < stop; e += 16) {
            double g =
                (double)embed_chain(arena, IN(1), from, first + c->i[0], (int32_t)(e - v * cols));
            sum += g * g;
        }
    }
    sum = lanes_sum64(lanes, sum);
    if (ITEM(0) == 0 && begin < count) {
        F64(OUT(0))[block] = sum;
    }
}

/* Rows that no index names stay as they are, unless the numbers to change them by are wrong. */
KERNEL void WG(64, 4) k_embed_sgd(ARGS) {
    GLOBAL const gpu_call *c = CALL(at);
    GLOBAL const int32_t *next = WORKSPACE(int32_t) + c->rows;
    int64_t r = GROUP(1) * 4 + ITEM(1);
    if (r >= c->rows) {
        return;
    }
    int32_t first = WORKSPACE(int32_t)[r], units = c->units;
    float factor = HAS(IN(3)) ? F32(IN(3), 0)[0] : 1.0f, lr = F32(IN(4), 0)[0];
    if (first == IN(2)->rows && IN(0)->at == OUT(0)->at && FMA(-lr, 0.0f * factor, 0.0f) == 0.0f) {
        return;
    }
    for (int32_t u = ITEM(0); u < units; u += 64) {
        float g = embed_chain(arena, IN(2), first, next, u);
        g = HAS(IN(3)) ? g * factor : g;
        PUT(0) = FMA(-lr, g, GET(0));
    }
}
