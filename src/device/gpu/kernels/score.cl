/* score.cl - the scores v . tanh(x + q) of attention and their gradients (op/ref/score.inc). Every
 * operation, its order and its rounding are those of the ops that they stand for. */

LANES_KERNEL(score_tanh) {
    LANES_BEGIN
    GLOBAL const float *x = F32(IN(0), r), *q = F32(IN(1), r % IN(1)->rows), *v = F32(IN(2), 0);
    float sum = 0.0f;
    for (int32_t j = lane; j < n; j += 16) {
        sum = FMA(math_tanh(x[j] + q[j]), v[j], sum);
    }
    sum = lanes_sum(lanes, sum);
    if (inside && lane == 0) {
        SCORE_AT(OUT(0), r) = sum;
    }
}

/* c, ds, x, q, v; an item for each batch row and unit, its sums over blocks serial. */
ELEMENT(score_tanh_grad) {
    int32_t batch = IN(3)->rows;
    float add = GET(3), v = F32(IN(4), 0)[u], sum = 0.0f, weighted = 0.0f;
    for (int32_t j = 0; j < IN(1)->rows; j++) {
        int64_t of = (int64_t)j * batch + r;
        float w = F32(IN(1), j)[r], a = math_tanh(F32(IN(2), of)[u] + add);
        float g = (w * v) * FMA(-a, a, 1.0f);
        F32(OUT(0), of)[u] = HAS(IN(0)) ? F32(IN(0), of)[u] + g : g;
        sum += g;
        weighted = w == 0.0f ? weighted : FMA(w, a, weighted);
    }
    PUT(1) = sum;
    PUT(2) = weighted;
}

/* ds, v, a. */
ELEMENT(score_slope) {
    float a = GET(2);
    PUT(0) = (SCORE_AT(IN(0), r) * F32(IN(1), 0)[u]) * FMA(-a, a, 1.0f);
}
