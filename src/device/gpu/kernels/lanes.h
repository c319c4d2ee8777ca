/* lanes.h - sums and maxima of rows as the reference has them (op/ref/lanes.inc): column j in lane
 * j % 16, columns ascending; then the upper half of the lanes is folded onto the lower half until
 * one is left. A lane is an item. `lanes` has 256 places, 16 for each row of the group; every item
 * of the group calls these, and every item of a row gets the row's result. */

DEVICE float lanes_sum(LOCAL float *lanes, float x) {
    LOCAL float *own = lanes + 16 * ITEM(1);
    int32_t l = ITEM(0);
    own[l] = x;
    BARRIER();
    for (int32_t half_of = 8; half_of > 0; half_of /= 2) {
        if (l < half_of) {
            own[l] += own[l + half_of];
        }
        BARRIER();
    }
    float sum = own[0];
    BARRIER();
    return sum;
}

DEVICE float lanes_top(LOCAL float *lanes, float x) {
    LOCAL float *own = lanes + 16 * ITEM(1);
    int32_t l = ITEM(0);
    own[l] = x;
    BARRIER();
    for (int32_t half_of = 8; half_of > 0; half_of /= 2) {
        if (l < half_of) {
            own[l] = own[l + half_of] > own[l] ? own[l + half_of] : own[l];
        }
        BARRIER();
    }
    float top = own[0];
    BARRIER();
    return top;
}

/* What a lane has of a row x of n elements: its sum, its maximum (a NaN loses), and the sum of
 * exp(x - m). */
DEVICE float lane_sum(GLOBAL const float *x, int32_t n) {
    float sum = 0.0f;
    for (int32_t j = ITEM(0); j < n; j += 16) {
        sum += x[j];
    }
    return sum;
}

DEVICE float lane_top(GLOBAL const float *x, int32_t n) {
    float top = -INF;
    for (int32_t j = ITEM(0); j < n; j += 16) {
        top = x[j] > top ? x[j] : top;
    }
    return top;
}

DEVICE float lane_exp_sum(GLOBAL const float *x, int32_t n, float m) {
    float sum = 0.0f;
    for (int32_t j = ITEM(0); j < n; j += 16) {
        sum += math_exp(x[j] - m);
    }
    return sum;
}

/* Doubles in 16 lanes, folded as the lanes of rows are. */
DEVICE double lanes_sum64(LOCAL double *lanes, double x) {
    LOCAL double *own = lanes + 16 * ITEM(1);
    int32_t l = ITEM(0);
    own[l] = x;
    BARRIER();
    for (int32_t half_of = 8; half_of > 0; half_of /= 2) {
        if (l < half_of) {
            own[l] += own[l + half_of];
        }
        BARRIER();
    }
    double sum = own[0];
    BARRIER();
    return sum;
}

/* Sums of squares are cut in blocks of so many elements (op/squares.h). */
#define SQUARES_BLOCK 8192
