/* loss.cl - cross-entropy of rows of logits, and the mean over rows that count
 * (op/ref/loss.inc). */

LANES_KERNEL(xent) {
    LANES_BEGIN
    GLOBAL const float *x = F32(IN(0), r);
    float top = row_top(lanes, x, n), e = c->f[0];
    float lse = top + math_log(row_exp_sum(lanes, x, n, top));
    float mean = row_sum(lanes, x, e > 0.0f ? n : 0) / (float)c->units;
    if (inside && lane == 0) {
        int32_t label = I32(IN(1))[r];
        float plain = label < 0 ? 0.0f : lse - x[label];
        float smooth = e > 0.0f ? FMA(e, lse - mean, (1.0f - e) * plain) : plain;
        F32(OUT(0), 0)[r] = label < 0 ? 0.0f : smooth;
        F32(OUT(1), 0)[r] = lse;
    }
}

ELEMENT(xent_grad) {
    float e = c->f[0], share = e / (float)(c->i[1] > 0 ? c->i[1] : c->units);
    int32_t label = I32(IN(1))[r];
    float target = c->i[0] + u == label ? share + (1.0f - e) : share;
    float d = (math_exp(GET(0) - F32(IN(2), 0)[r]) - target) * F32(IN(3), 0)[r];
    PUT(0) = label < 0 ? 0.0f : d;
}

KERNEL void WG(1, 1) k_mean_valid(ARGS) {
    GLOBAL const gpu_call *c = CALL(at);
    double sum = 0.0;
    int32_t count = 0;
    for (int32_t r = 0; r < IN(1)->cols; r++) {
        if (I32(IN(1))[r] >= 0) {
            sum += (double)F32(IN(0), 0)[r];
            count++;
        }
    }
    F32(OUT(0), 0)[0] = count > 0 ? (float)(sum / (double)count) : 0.0f;
}

KERNEL void WG(1, 1) k_count_valid(ARGS) {
    GLOBAL const gpu_call *c = CALL(at);
    int32_t count = 0;
    for (int32_t r = 0; r < IN(1)->cols; r++) {
        count += I32(IN(1))[r] >= 0 ? 1 : 0;
    }
    *WORKSPACE(int32_t) = count;
}

ELEMENT(mean_valid_grad) {
    float count = (float)*WORKSPACE(int32_t);
    F32(OUT(0), 0)[u] = I32(IN(1))[u] >= 0 ? F32(IN(0), 0)[0] / count : 0.0f;
}

/* The norm of all gradients, in the order of their parts. */
KERNEL void WG(1, 1) k_clip_scale(ARGS) {
    GLOBAL const gpu_call *c = CALL(at);
    double clip = (double)c->f[0], total = 0.0;
    int32_t bad = -1;
    for (int32_t i = 0; i < c->n_in; i++) {
        GLOBAL const double *part = F64(IN(i));
        double sum = 0.0;
        for (int32_t j = 0; j < IN(i)->cols; j++) {
            total += part[j];
            sum += part[j];
        }
        bad = bad < 0 && !(sum - sum == 0.0) ? i : bad;
    }
    double norm = SQRT64(total);
    F32(OUT(0), 0)[0] = clip > 0.0 && norm > clip ? (float)(clip / (norm + 1e-6)) : 1.0f;
    F64(OUT(1))[0] = norm;
    I32(OUT(2))[0] = bad;
}
