/* norm.cl - layer norm of rows and its gradients (op/ref/norm.inc). A row of stat is {mean, 1 /
 * standard deviation}. */

LANES_KERNEL(layer_norm) {
    LANES_BEGIN
    GLOBAL const float *x = F32(IN(0), r), *gain = F32(IN(1), 0), *bias = F32(IN(2), 0);
    GLOBAL float *y = F32(OUT(0), r), *stat = F32(OUT(1), r);
    float count = (float)c->units, sum = 0.0f;
    float mean = row_sum(lanes, x, n) / count;
    for (int32_t j = lane; j < n; j += 16) {
        sum = FMA(x[j] - mean, x[j] - mean, sum);
    }
    float variance = lanes_sum(lanes, sum) / count;
    float scale = 1.0f / SQRT(variance + c->f[0]);
    for (int32_t j = lane; j < n; j += 16) {
        y[j] = FMA((x[j] - mean) * scale, gain[j], bias[j]);
    }
    if (inside && lane == 0) {
        stat[0] = mean;
        stat[1] = scale;
    }
}

/* dy, x, gain, stat. */
LANES_KERNEL(layer_norm_grad) {
    LANES_BEGIN
    GLOBAL const float *dy = F32(IN(0), r), *x = F32(IN(1), r), *gain = F32(IN(2), 0);
    GLOBAL const float *stat = F32(IN(3), r);
    GLOBAL float *dx = F32(OUT(0), r);
    float count = (float)c->units, sum = 0.0f, sum_hat = 0.0f;
    float center = stat[0], scale = stat[1];
    for (int32_t j = lane; j < n; j += 16) {
        float d = dy[j] * gain[j];
        sum += d;
        sum_hat = FMA(d, (x[j] - center) * scale, sum_hat);
    }
    float mean = lanes_sum(lanes, sum) / count;
    float mean_hat = lanes_sum(lanes, sum_hat) / count;
    for (int32_t j = lane; j < n; j += 16) {
        float d = dy[j] * gain[j], hat = (x[j] - center) * scale;
        dx[j] = scale * FMA(-hat, mean_hat, d - mean);
    }
}

/* dy, x, stat: an item for each element of the result, which sums rows r, r + B, ... */
ELEMENT(layer_norm_gain) {
    float sum = 0.0f;
    for (int64_t i = r; i < IN(0)->rows; i += OUT(0)->rows) {
        GLOBAL const float *stat = F32(IN(2), i);
        sum = FMA(F32(IN(0), i)[u], (F32(IN(1), i)[u] - stat[0]) * stat[1], sum);
    }
    PUT(0) = sum;
}
