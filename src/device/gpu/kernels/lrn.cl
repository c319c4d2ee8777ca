/* lrn.cl - local response normalisation and its gradient (op/ref/lrn.inc). Sums start from 0 and take
 * the channels of a window that exist, ascending. x and dy are pixels of one image. */

DEVICE float lrn_scale(GLOBAL const gpu_call *c) {
    return c->f[0] / (float)c->i[0];
}

/* s = k + scale times the sum of the squares of the window of channel `of`. */
DEVICE float lrn_s(GLOBAL const float *x, const map *m, GLOBAL const gpu_call *c, int32_t of) {
    int32_t lo = of - c->i[0] / 2, hi = of + (c->i[0] - 1) / 2, channels = map_channels(m);
    float sum = 0.0f;
    for (int32_t i = lo > 0 ? lo : 0; i <= hi && i < channels; i++) {
        float value = x[map_channel(m, i)];
        sum = FMA(value, value, sum);
    }
    return FMA(lrn_scale(c), sum, c->f[1]);
}

/* s^-0.75. */
DEVICE float lrn_root(float s) {
    float root = SQRT(s);
    return 1.0f / (root * SQRT(root));
}

ELEMENT(lrn) {
    map to = map_of(OUT(0)), m = map_of(IN(0));
    map_place p = map_place_of(&to, r, u);
    GLOBAL const float *x = F32(IN(0), 0) + map_image(&m, p.image) + map_pixel(&m, p.y, p.x);
    F32(OUT(0), 0)[p.at] = x[map_channel(&m, p.channel)] * lrn_root(lrn_s(x, &m, c, p.channel));
}

/* dy, x: dy s^-0.75, less 1.5 scale x times the sum of dy x s^-1.75 of the channels whose window has
 * this one. */
ELEMENT(lrn_grad) {
    map to = map_of(OUT(0)), of_dy = map_of(IN(0)), m = map_of(IN(1));
    map_place p = map_place_of(&to, r, u);
    GLOBAL const float *dy =
        F32(IN(0), 0) + map_image(&of_dy, p.image) + map_pixel(&of_dy, p.y, p.x);
    GLOBAL const float *x = F32(IN(1), 0) + map_image(&m, p.image) + map_pixel(&m, p.y, p.x);
    int32_t lo = p.channel - (c->i[0] - 1) / 2, hi = p.channel + c->i[0] / 2;
    int32_t channels = map_channels(&m);
    float sum = 0.0f;
    for (int32_t i = lo > 0 ? lo : 0; i <= hi && i < channels; i++) {
        float s = lrn_s(x, &m, c, i);
        sum += dy[map_channel(&of_dy, i)] * x[map_channel(&m, i)] * (lrn_root(s) / s);
    }
    float factor = -1.5f * lrn_scale(c);
    float root = lrn_root(lrn_s(x, &m, c, p.channel));
    F32(OUT(0), 0)[p.at] = FMA(factor * x[map_channel(&m, p.channel)], sum,
                               dy[map_channel(&of_dy, p.channel)] * root);
}
