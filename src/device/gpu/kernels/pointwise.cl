/* pointwise.cl - element u of row r of the result from the same element of the operands: the text
 * of op/ref/elem.inc, and of dropout and the updates. */

ELEMENT(add) {
    PUT(0) = GET(0) + GET(1);
}
ELEMENT(sub) {
    PUT(0) = GET(0) - GET(1);
}
ELEMENT(mul) {
    PUT(0) = GET(0) * GET(1);
}
ELEMENT(scale) {
    PUT(0) = GET(0) * c->f[0];
}
ELEMENT(add_row) {
    PUT(0) = GET(0) + F32(IN(1), 0)[u];
}
ELEMENT(log) {
    PUT(0) = math_log(GET(0));
}
ELEMENT(tanh) {
    PUT(0) = math_tanh(GET(0));
}
ELEMENT(sigmoid) {
    PUT(0) = math_sigmoid(GET(0));
}
ELEMENT(relu) {
    float a = GET(0);
    PUT(0) = a > 0.0f || a != a ? a : 0.0f;
}
ELEMENT(leaky_relu) {
    float a = GET(0);
    PUT(0) = a > 0.0f ? a : a * c->f[0];
}
ELEMENT(tanh_grad) {
    float y = GET(1);
    PUT(0) = GET(0) * FMA(-y, y, 1.0f);
}
ELEMENT(sigmoid_grad) {
    float y = GET(1);
    PUT(0) = GET(0) * (y * (1.0f - y));
}
ELEMENT(relu_grad) {
    PUT(0) = GET(1) > 0.0f ? GET(0) : 0.0f;
}
ELEMENT(leaky_relu_grad) {
    float dy = GET(0);
    PUT(0) = GET(1) > 0.0f ? dy : dy * c->f[0];
}
ELEMENT(spread) {
    PUT(0) = F32(IN(0), 0)[0];
}

/* ---- dropout: Philox4x32-10 (base/rng.c), one word of a block of four for each unit ---- */

DEVICE uint32_t philox_word(uint32_t k0, uint32_t k1, uint32_t c0, uint32_t c1, uint32_t c2,
                            uint32_t c3, int32_t word) {
    UNROLL for (int32_t round = 0; round < 10; round++) {
        uint32_t high0 = MULHI(0xD2511F53u, c0), low0 = 0xD2511F53u * c0;
        uint32_t high1 = MULHI(0xCD9E8D57u, c2), low1 = 0xCD9E8D57u * c2;
        c0 = high1 ^ c1 ^ k0;
        c1 = low1;
        c2 = high0 ^ c3 ^ k1;
        c3 = low0;
        k0 += 0x9E3779B9u;
        k1 += 0xBB67AE85u;
    }
    uint32_t even = (word & 2) == 0 ? c0 : c2, odd = (word & 2) == 0 ? c1 : c3;
    return (word & 1) == 0 ? even : odd;
}

ELEMENT(dropout) {
    float p = c->f[0], factor = 1.0f / (1.0f - p), x = GET(0);
    int64_t row = c->i[5] + r;
    uint32_t lane = (uint32_t)(row % c->i[4]);
    uint32_t time = (uint32_t)(c->i[2] + c->i[3] * (row / c->i[4]));
    uint32_t word = philox_word((uint32_t)c->i[0], (uint32_t)c->i[1], (uint32_t)(u / 4), lane, time,
                                (uint32_t)I32(IN(1))[0], u % 4);
    PUT(0) = (float)(word >> 8) * 0x1p-24f >= p ? x * factor : 0.0f;
}

/* ---- updates; hyper is {lr, lr / (1 - b1^t), sqrt(1 - b2^t), 0} ---- */

#define CLIPPED(g, scale) (HAS(scale) ? (g)*F32(scale, 0)[0] : (g))

DEVICE float sgd_next(float w, float g, float wd, float lr) {
    g = wd != 0.0f ? FMA(wd, w, g) : g;
    return FMA(-lr, g, w);
}

ELEMENT(sgd) {
    PUT(0) = sgd_next(GET(0), CLIPPED(GET(1), IN(2)), c->f[0], F32(IN(3), 0)[0]);
}

ELEMENT(average) {
    float mean = GET(0);
    PUT(0) = FMA(F32(IN(2), 0)[3], GET(1) - mean, mean);
}

DEVICE float momentum_next(float w, float g, float mu, float wd, float lr, float *m) {
    g = wd != 0.0f ? FMA(wd, w, g) : g;
    *m = FMA(mu, *m, g);
    return FMA(-lr, *m, w);
}

ELEMENT(sgd_momentum) {
    float m = GET(2), g = CLIPPED(GET(1), IN(3));
    PUT(0) = momentum_next(GET(0), g, c->f[0], c->f[1], F32(IN(4), 0)[0], &m);
    PUT(1) = m;
}

DEVICE float adam_next(float w, float g, GLOBAL const gpu_call *c, GLOBAL const float *hyper,
                       float *m, float *v) {
    float b1 = c->f[0], b2 = c->f[1], eps = c->f[2], wd = c->f[3];
    if (wd != 0.0f && c->i[0] != 0) { /* decoupled */
        w = FMA(-(hyper[0] * wd), w, w);
    } else if (wd != 0.0f) {
        g = FMA(wd, w, g);
    }
    *m = FMA(1.0f - b1, g - *m, *m);
    *v = FMA((1.0f - b2) * g, g, b2 * *v);
    float denom = SQRT(*v) / hyper[2] + eps;
    return FMA(-hyper[1], *m / denom, w);
}

ELEMENT(adam) {
    float m = GET(2), v = GET(3), g = CLIPPED(GET(1), IN(4));
    PUT(0) = adam_next(GET(0), g, c, F32(IN(5), 0), &m, &v);
    PUT(1) = m;
    PUT(2) = v;
}
