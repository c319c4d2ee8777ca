/* update.cl - updates whose gradient is a product that lies nowhere (op/ref/optim.inc): a^T b, each
 * element a chain of fused multiply-adds over rows, and its sums of squares in blocks of 8192 of 16
 * lanes (reduce.cl).
 *
 * A group has a block; of 256 elements at a time every item makes one, and updates what belongs to
 * it; then the lanes add their 16 squares in order. */

DEVICE float product_at(GLOBAL char *arena, GLOBAL const gpu_view *a, GLOBAL const gpu_view *b,
                        int64_t n, int64_t k) {
    GLOBAL const float *left = F32(a, 0) + n, *right = F32(b, 0) + k;
    float sum = 0.0f;
    for (int32_t r = 0; r < a->rows; r++) {
        sum = FMA(left[r * a->ld], right[r * b->ld], sum);
    }
    return sum;
}

/* name_update(arena, c, r, u, g) updates element u of row r; `of` is a, and b follows it. */
#define PRODUCT_KERNEL(name, of)                                                                   \
    KERNEL void WG(16, 16) k_##name(ARGS) {                                                        \
        SHARED float made[256];                                                                    \
        SHARED double lanes[256];                                                                  \
        GLOBAL const gpu_call *c = CALL(at);                                                       \
        GLOBAL const gpu_view *a = IN(of), *b = IN((of) + 1), *sums = OUT(c->n_out - 1);           \
        int64_t cols = b->cols, count = a->cols * cols, begin = (int64_t)GROUP(1) * SQUARES_BLOCK; \
        double sum = 0.0;                                                                          \
        for (int32_t from = 0; from < SQUARES_BLOCK && begin + from < count; from += 256) {        \
            int64_t e = begin + from + ITEM(1) * 16 + ITEM(0);                                     \
            if (e < count) {                                                                       \
                float g = product_at(arena, a, b, e / cols, e % cols);                             \
                name##_update(arena, c, e / cols, (int32_t)(e % cols), g);                         \
                made[ITEM(1) * 16 + ITEM(0)] = g;                                                  \
            }                                                                                      \
            BARRIER();                                                                             \
            int64_t left = ITEM(1) == 0 ? count - begin - from - ITEM(0) : 0;                      \
            for (int32_t i = 0; i < 256 && i < left; i += 16) {                                    \
                double g = (double)made[i + ITEM(0)];                                              \
                sum += g * g;                                                                      \
            }                                                                                      \
            BARRIER();                                                                             \
        }                                                                                          \
        sum = lanes_sum64(lanes, sum);                                                             \
        if (ITEM(0) == 0 && ITEM(1) == 0) {                                                        \
            F64(sums)[GROUP(1)] = sum;                                                             \
        }                                                                                          \
    }

/* w, a, b, hyper. */
DEVICE void product_sgd_update(GLOBAL char *arena, GLOBAL const gpu_call *c, int64_t r, int32_t u,
                               float g) {
    PUT(0) = sgd_next(GET(0), g, c->f[0], F32(IN(3), 0)[0]);
}
PRODUCT_KERNEL(product_sgd, 1)

/* w, m, a, b, hyper. */
DEVICE void product_momentum_update(GLOBAL char *arena, GLOBAL const gpu_call *c, int64_t r,
                                    int32_t u, float g) {
    float m = GET(1);
    PUT(0) = momentum_next(GET(0), g, c->f[0], c->f[1], F32(IN(4), 0)[0], &m);
    PUT(1) = m;
}
PRODUCT_KERNEL(product_momentum, 2)

/* w, m, v, a, b, hyper. */
DEVICE void product_adam_update(GLOBAL char *arena, GLOBAL const gpu_call *c, int64_t r, int32_t u,
                                float g) {
    float m = GET(1), v = GET(2);
    PUT(0) = adam_next(GET(0), g, c, F32(IN(5), 0), &m, &v);
    PUT(1) = m;
    PUT(2) = v;
}
PRODUCT_KERNEL(product_adam, 3)
