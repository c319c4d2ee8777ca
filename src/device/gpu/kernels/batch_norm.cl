/* batch_norm.cl - batch norm, its pieces and its gradient (op/ref/batch_norm.inc). Sums are in
 * double: for each group of 8 images a chain from 0 over rows, pixels and images; groups are added
 * ascending. Tables for channels are dense. */

#define BATCH_IMAGES 8 /* of a chain */
#define STAT_MEAN 0
#define STAT_SCALE 1
#define STAT_VARIANCE 2
#define SUMS_PLAIN 0
#define SUMS_HAT 1

/* Row i of a table for channels. */
#define TABLE(view, i) (F32(view, 0) + (i) * (view)->dim[1])
#define HAT(x, mean, scale) (((x) - (mean)) * (scale))

/* One chain: of x and its squares or, if there is dy, of dy and dy times the normalised x. Products
 * of floats are exact in double. */
DEVICE void batch_chain(GLOBAL const float *x, const map *m, GLOBAL const float *dy, const map *of,
                        int32_t k, int32_t first, float mean, float scale, double *plain,
                        double *other) {
    int32_t images = map_images(m), pixels = m->high * m->wide;
    int32_t last = first + BATCH_IMAGES < images ? first + BATCH_IMAGES : images;
    int64_t from[BATCH_IMAGES], from_dy[BATCH_IMAGES];
    double a_sum = 0.0, b_sum = 0.0;
    for (int32_t n = first; n < last; n++) {
        from[n - first] = map_image(m, n) + map_channel(m, k);
        from_dy[n - first] = map_image(of, n) + map_channel(of, k);
    }
    for (int32_t at = 0; at < pixels; at++) {
        for (int32_t i = 0; i < last - first; i++) {
            float a = x[from[i] + at * m->of_pixel], b = a;
            if (dy != 0) {
                a = dy[from_dy[i] + at * of->of_pixel];
                b = HAT(b, mean, scale);
            }
            a_sum += (double)a;
            b_sum += (double)a * (double)b;
        }
    }
    *plain = a_sum;
    *other = b_sum;
}

/* Both sums of channel k, in all items of the group that have it: 32 channels by 8 chains, of
 * further images 8 more at a time. `parts` has 512 places. */
DEVICE void batch_sums(LOCAL double *parts, GLOBAL const float *x, const map *m,
                       GLOBAL const float *dy, const map *of, int32_t k, float mean, float scale,
                       double *plain, double *other) {
    int32_t images = map_images(m), channels = map_channels(m), here = ITEM(1) * 32 + ITEM(0);
    double a_total = 0.0, b_total = 0.0;
    for (int32_t begin = 0; begin < images; begin += 8 * BATCH_IMAGES) {
        int32_t first = begin + ITEM(1) * BATCH_IMAGES;
        double a = 0.0, b = 0.0;
        if (k < channels && first < images) {
            batch_chain(x, m, dy, of, k, first, mean, scale, &a, &b);
        }
        parts[here] = a;
        parts[256 + here] = b;
        BARRIER();
        for (int32_t i = 0; i < 8 && begin + i * BATCH_IMAGES < images; i++) {
            a_total += parts[i * 32 + ITEM(0)];
            b_total += parts[256 + i * 32 + ITEM(0)];
        }
        BARRIER();
    }
    *plain = a_total;
    *other = b_total;
}

/* From the sums of `count` numbers and of their squares; a NaN stays. */
DEVICE void batch_moments(double sum, double squares, double count, double eps,
                          GLOBAL float *stat, int32_t channels) {
    double mean = sum / count, biased = squares / count - mean * mean;
    biased = biased < 0.0 ? 0.0 : biased;
    stat[STAT_MEAN * channels] = (float)mean;
    stat[STAT_SCALE * channels] = (float)(1.0 / SQRT64(biased + eps));
    stat[STAT_VARIANCE * channels] =
        (float)(count > 1.0 ? biased * count / (count - 1.0) : biased);
}

/* x; the statistics are the last result. */
KERNEL void WG(32, 8) k_batch_stat(ARGS) {
    SHARED double parts[512];
    GLOBAL const gpu_call *c = CALL(at);
    GLOBAL const gpu_view *to = OUT(c->n_out - 1);
    map m = map_of(IN(0));
    int32_t k = GROUP(0) * 32 + ITEM(0), channels = to->dim[1];
    double sum, squares;
    batch_sums(parts, F32(IN(0), 0), &m, 0, &m, k, 0.0f, 0.0f, &sum, &squares);
    if (ITEM(1) == 0 && k < channels) {
        double count = (double)map_images(&m) * (double)m.high * (double)m.wide;
        batch_moments(sum, squares, count, (double)c->f[0], F32(to, 0) + k, channels);
    }
}

/* dy, x, stat. */
KERNEL void WG(32, 8) k_batch_grad_sums(ARGS) {
    SHARED double parts[512];
    GLOBAL const gpu_call *c = CALL(at);
    map of = map_of(IN(0)), m = map_of(IN(1));
    int32_t k = GROUP(0) * 32 + ITEM(0), channels = OUT(0)->dim[1];
    float mean = k < channels ? TABLE(IN(2), STAT_MEAN)[k] : 0.0f;
    float scale = k < channels ? TABLE(IN(2), STAT_SCALE)[k] : 0.0f;
    double plain, hat;
    batch_sums(parts, F32(IN(1), 0), &m, F32(IN(0), 0), &of, k, mean, scale, &plain, &hat);
    if (ITEM(1) == 0 && k < channels) {
        F64(OUT(0))[SUMS_PLAIN * channels + k] = plain;
        F64(OUT(0))[SUMS_HAT * channels + k] = hat;
    }
}

/* ---- every element: an item for each row of pixels and lane, so that a channel's numbers are made
 * once for all pixels of the row ---- */

DEVICE void batch_apply_row(GLOBAL char *arena, GLOBAL const gpu_view *x, GLOBAL const gpu_view *y,
                            GLOBAL const gpu_view *stat, GLOBAL const gpu_view *gain,
                            GLOBAL const gpu_view *bias, int64_t r, int32_t u) {
    map from = map_of(x), to = map_of(y);
    map_place p = map_place_of(&from, r, u), q = map_place_of(&to, r, u);
    float mean = TABLE(stat, STAT_MEAN)[p.channel], scale = TABLE(stat, STAT_SCALE)[p.channel];
    float g = F32(gain, 0)[p.channel], b = F32(bias, 0)[p.channel];
    GLOBAL const float *in = F32(x, 0) + p.at;
    GLOBAL float *out = F32(y, 0) + q.at;
    for (int32_t i = 0; i < from.wide; i++) {
        out[i * to.of_pixel] = FMA(HAT(in[i * from.of_pixel], mean, scale), g, b);
    }
}

/* x, gain, bias; y, stat. */
ELEMENT(batch_norm) {
    batch_apply_row(arena, IN(0), OUT(0), OUT(1), IN(1), IN(2), r, u);
}

/* x, stat, gain, bias. */
ELEMENT(batch_apply) {
    batch_apply_row(arena, IN(0), OUT(0), IN(1), IN(2), IN(3), r, u);
}

/* dy, x, stat, gain, sums. */
ELEMENT(batch_grad) {
    map of = map_of(IN(0)), m = map_of(IN(1)), to = map_of(OUT(0));
    map_place d = map_place_of(&of, r, u), p = map_place_of(&m, r, u);
    map_place q = map_place_of(&to, r, u);
    int32_t channels = map_channels(&m), k = p.channel;
    double count = (double)c->i[0] * (double)m.high * (double)m.wide;
    float plain = (float)(F64(IN(4))[SUMS_PLAIN * channels + k] / count);
    float hat = (float)(F64(IN(4))[SUMS_HAT * channels + k] / count);
    float mean = TABLE(IN(2), STAT_MEAN)[k], scale = TABLE(IN(2), STAT_SCALE)[k];
    float factor = F32(IN(3), 0)[k] * scale;
    GLOBAL const float *dy = F32(IN(0), 0) + d.at, *x = F32(IN(1), 0) + p.at;
    GLOBAL float *dx = F32(OUT(0), 0) + q.at;
    for (int32_t i = 0; i < m.wide; i++) {
        dx[i * m.of_pixel] =
            factor *
            FMA(-HAT(x[i * m.of_pixel], mean, scale), hat, dy[i * m.of_pixel] - plain);
    }
}

/* ---- tables: an item for each channel u ---- */

/* sums; of the gain, of the bias. */
ELEMENT(batch_grad_affine) {
    int32_t channels = c->units;
    F32(OUT(0), 0)[u] = (float)F64(IN(0))[SUMS_HAT * channels + u];
    F32(OUT(1), 0)[u] = (float)F64(IN(0))[SUMS_PLAIN * channels + u];
}

/* mean, variance, stat. */
ELEMENT(batch_track) {
    float mean = F32(IN(0), 0)[u], variance = F32(IN(1), 0)[u];
    F32(OUT(0), 0)[u] = FMA(c->f[0], TABLE(IN(2), STAT_MEAN)[u] - mean, mean);
    F32(OUT(1), 0)[u] = FMA(c->f[0], TABLE(IN(2), STAT_VARIANCE)[u] - variance, variance);
}

/* mean, variance. */
ELEMENT(batch_known) {
    float variance = F32(IN(1), 0)[u];
    double inside = (double)variance + (double)c->f[0];
    TABLE(OUT(0), STAT_MEAN)[u] = F32(IN(0), 0)[u];
    TABLE(OUT(0), STAT_SCALE)[u] = (float)(1.0 / SQRT64(inside));
    TABLE(OUT(0), STAT_VARIANCE)[u] = variance;
}
