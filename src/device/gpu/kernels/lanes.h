/* lanes.h - sums and maxima of rows as the reference has them (op/ref/lanes.inc): column j in lane
 * j % 16, columns ascending; then the upper half of the lanes is folded onto the lower half until
 * one is left. A lane is an item. `lanes` has 256 places, 16 for each row of the group; every item
 * of the group calls these, and every item of a row gets the row's result. */

/* What is in the row's places becomes one number. */
DEVICE float lanes_fold(LOCAL float *lanes, bool sums) {
    LOCAL float *own = lanes + 16 * ITEM(1);
    int32_t l = ITEM(0);
    BARRIER();
    for (int32_t half_of = 8; half_of > 0; half_of /= 2) {
        if (l < half_of) {
            float other = own[l + half_of];
            own[l] = sums ? own[l] + other : other > own[l] ? other : own[l];
        }
        BARRIER();
    }
    float all = own[0];
    BARRIER();
    return all;
}

DEVICE float lanes_sum(LOCAL float *lanes, float x) {
    lanes[16 * ITEM(1) + ITEM(0)] = x;
    return lanes_fold(lanes, true);
}

/* Fills the row's places: each lane begins with `start` and becomes `next`, an expression of `lane`
 * and j, for each of its columns j < n. On CPUs one item does so for all lanes, which are one or
 * two vectors then. */
#ifdef TOGETHER
#define FILL_LANES(lanes, n, start, next)                                                          \
    if (ITEM(0) == 0) {                                                                            \
        float all[16];                                                                             \
        for (int32_t l = 0; l < 16; l++) {                                                         \
            all[l] = start;                                                                        \
        }                                                                                          \
        for (int32_t first = 0; first + 16 <= (n); first += 16) {                                  \
            TOGETHER for (int32_t l = 0; l < 16; l++) {                                            \
                int32_t j = first + l;                                                             \
                float lane = all[l];                                                               \
                all[l] = next;                                                                     \
            }                                                                                      \
        }                                                                                          \
        for (int32_t j = (n) / 16 * 16; j < (n); j++) {                                            \
            float lane = all[j % 16];                                                              \
            all[j % 16] = next;                                                                    \
        }                                                                                          \
        for (int32_t l = 0; l < 16; l++) {                                                         \
            (lanes)[16 * ITEM(1) + l] = all[l];                                                    \
        }                                                                                          \
    }
#else
#define FILL_LANES(lanes, n, start, next)                                                          \
    float lane = start;                                                                            \
    for (int32_t j = ITEM(0); j < (n); j += 16) {                                                  \
        lane = next;                                                                               \
    }                                                                                              \
    (lanes)[16 * ITEM(1) + ITEM(0)] = lane;
#endif

/* Of a row x of n elements: its sum, its maximum (a NaN loses), and the sum of exp(x - m). */
DEVICE float row_sum(LOCAL float *lanes, GLOBAL const float *x, int32_t n) {
    FILL_LANES(lanes, n, 0.0f, lane + x[j])
    return lanes_fold(lanes, true);
}

DEVICE float row_top(LOCAL float *lanes, GLOBAL const float *x, int32_t n) {
    FILL_LANES(lanes, n, -INF, x[j] > lane ? x[j] : lane)
    return lanes_fold(lanes, false);
}

DEVICE float row_exp_sum(LOCAL float *lanes, GLOBAL const float *x, int32_t n, float m) {
    FILL_LANES(lanes, n, 0.0f, lane + math_exp(x[j] - m))
    return lanes_fold(lanes, true);
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
