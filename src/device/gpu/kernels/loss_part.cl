/* loss_part.cl - cross-entropy whose classes lie in parts (op/ref/loss_part.inc). A row of sums: 16
 * lanes of exponentials, the label's logit, and for smoothing 16 lanes of the logits themselves. */
#define PART_LABEL 16
#define PART_PLAIN 17

/* The largest of row r in all lists of a row each; a NaN loses. */
DEVICE float largest_of(GLOBAL const float *tops, int32_t count, int32_t rows, int32_t r) {
    float m = -INF;
    for (int32_t j = r; j < count; j += rows) {
        m = tops[j] > m ? tops[j] : m;
    }
    return m;
}

/* c, logits, labels, tops; an item for each lane, no barrier. */
LANES_KERNEL(xent_part) {
    GLOBAL const gpu_call *c = CALL(at);
    int32_t lane = ITEM(0), r = GROUP(1) * 16 + ITEM(1);
    if (r >= c->rows) {
        return;
    }
    GLOBAL const float *x = F32(IN(1), r), *from = F32(IN(0), r);
    GLOBAL float *sums = F32(OUT(0), r);
    bool plain = OUT(0)->cols > PART_PLAIN, more = HAS(IN(0));
    float m = largest_of(F32(IN(3), 0), IN(3)->cols, c->rows, r);
    float sum = more ? from[lane] : 0.0f, sum_plain = more && plain ? from[PART_PLAIN + lane] : 0.0f;
    for (int32_t j = lane; j < c->units; j += 16) {
        sum += math_exp(x[j] - m);
        sum_plain += x[j];
    }
    sums[lane] = sum;
    if (plain) {
        sums[PART_PLAIN + lane] = sum_plain;
    }
    if (lane == 0) {
        int64_t label = (int64_t)I32(IN(2))[r] - c->i[0];
        float so_far = more ? from[PART_LABEL] : 0.0f;
        sums[PART_LABEL] = label >= 0 && label < c->units ? x[label] : so_far;
    }
}

/* sums, labels, tops. */
LANES_KERNEL(xent_end) {
    LANES_BEGIN
    GLOBAL const float *sums = F32(IN(0), r);
    float e = c->f[0], classes = (float)c->i[0];
    float sum = lanes_sum(lanes, n > 0 ? sums[lane] : 0.0f);
    float sum_plain = lanes_sum(lanes, n > PART_PLAIN ? sums[PART_PLAIN + lane] : 0.0f);
    if (inside && lane == 0) {
        int32_t label = I32(IN(1))[r];
        float lse = largest_of(F32(IN(2), 0), IN(2)->cols, c->rows, r) + math_log(sum);
        float loss = lse - sums[PART_LABEL];
        if (e > 0.0f) {
            loss = FMA(e, lse - sum_plain / classes, (1.0f - e) * loss);
        }
        F32(OUT(1), 0)[r] = lse;
        F32(OUT(0), 0)[r] = label < 0 ? 0.0f : loss;
    }
}
