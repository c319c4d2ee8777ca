/* top.cl - the largest logits of every row as log probabilities, and where they are
 * (op/ref/top.inc): a group for each row. */
#define TOP_ITEMS 256

/* Whether a in column i comes before b in column j: descending, a NaN last, of equal ones the first
 * column. Nothing is a NaN in column INT32_MAX. */
DEVICE bool comes_before(float a, int32_t i, float b, int32_t j) {
    bool larger = a > b || (b != b && a == a), smaller = b > a || (a != a && b == b);
    return larger || (!smaller && i < j);
}

/* Every item knows the best of its columns, t, t + 256, ...; the best of all is taken, and only the
 * item that it belongs to looks for its next one. */
KERNEL void WG(TOP_ITEMS, 1) k_top_logs(ARGS) {
    SHARED float values[TOP_ITEMS];
    SHARED int32_t columns[TOP_ITEMS];
    SHARED float lanes[16];
    GLOBAL const gpu_call *c = CALL(at);
    int32_t t = ITEM(0), r = GROUP(1), n = c->units, k = OUT(0)->cols;
    GLOBAL const float *x = F32(IN(0), r);
    GLOBAL float *y = F32(OUT(0), r);
    GLOBAL int32_t *where = I32(OUT(1)) + r * OUT(1)->ld;
    float nothing = INF - INF, best = nothing, shift = 0.0f;
    int32_t of_best = INT32_MAX;
    for (int32_t j = t; j < n; j += TOP_ITEMS) {
        if (comes_before(x[j], j, best, of_best)) {
            best = x[j];
            of_best = j;
        }
    }
    for (int32_t i = 0; i < k; i++) {
        values[t] = best;
        columns[t] = of_best;
        BARRIER();
        for (int32_t apart = TOP_ITEMS / 2; apart > 0; apart /= 2) {
            if (t < apart && comes_before(values[t + apart], columns[t + apart], values[t],
                                          columns[t])) {
                values[t] = values[t + apart];
                columns[t] = columns[t + apart];
            }
            BARRIER();
        }
        float taken = values[0];
        int32_t of_taken = columns[0];
        shift = i == 0 ? taken : shift;
        if (t == 0) {
            y[i] = taken;
            where[i] = of_taken;
        }
        if (of_taken == of_best) {
            best = nothing;
            of_best = INT32_MAX;
            for (int32_t j = t; j < n; j += TOP_ITEMS) {
                if (comes_before(taken, of_taken, x[j], j) &&
                    comes_before(x[j], j, best, of_best)) {
                    best = x[j];
                    of_best = j;
                }
            }
        }
        BARRIER();
    }
    /* The sum of exponentials in 16 lanes: 256 at a time, 16 items add them. */
    float sum = 0.0f;
    for (int32_t begin = 0; begin < n; begin += TOP_ITEMS) {
        values[t] = begin + t < n ? math_exp(x[begin + t] - shift) : 0.0f;
        BARRIER();
        for (int32_t j = t; t < 16 && j < TOP_ITEMS && begin + j < n; j += 16) {
            sum += values[j];
        }
        BARRIER();
    }
    if (t < 16) {
        lanes[t] = sum;
    }
    BARRIER();
    for (int32_t apart = 8; apart > 0; apart /= 2) {
        if (t < apart) {
            lanes[t] += lanes[t + apart];
        }
        BARRIER();
    }
    float log_sum = math_log(lanes[0]);
    for (int32_t i = t; i < k; i += TOP_ITEMS) {
        y[i] = (y[i] - shift) - log_sum;
    }
}
