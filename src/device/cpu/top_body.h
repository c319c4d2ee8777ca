/* top_body.h - the largest logits of rows over the vectors of vec.h. The includer defines
 * CPU_FN(name).
 *
 * Maxima of groups of columns give a bound that at least k columns reach, and few more do; a second
 * pass compares with it and takes down those columns; a third is the sum of exponentials, by far
 * the longest. Members share rows. */
#include "device/cpu/cpu.h"
#include "device/cpu/span.h"
#include "device/cpu/vexp.h"
#include "op/math.h"

#include <math.h>
#include <string.h>

/* A step has GROUPS columns, one of each group. A piece of the row gives GROUPS maxima, and there
 * are enough pieces for twice k, k being at most 128. */
enum { GROUPS = 4 * LANES, GROUP_VECTORS = GROUPS / VLEN, MOST_PIECES = 4, HALVINGS = 8 };
/* As many columns are taken down before those that are not among the k largest are dropped. */
enum { MOST_TAKEN = 256 };

static void group_maxima(vf *top, const float *x, int64_t steps) {
    for (int q = 0; q < GROUP_VECTORS; q++) {
        top[q] = v_all(-__builtin_inff());
    }
    for (int64_t s = 0; s < steps; s++) {
        for (int q = 0; q < GROUP_VECTORS; q++) {
            top[q] = v_larger(v_load(x + s * GROUPS + q * VLEN, VLEN), top[q]);
        }
    }
}

/* A number that at least k of the row's columns are not below; -inf: none was found. Columns that
 * fill no step do not matter, nor does how close the halving comes. */
static float lower_bound(const float *x, int64_t n, int64_t k) {
    vf top[MOST_PIECES * GROUP_VECTORS];
    int64_t pieces = (2 * k + GROUPS - 1) / GROUPS, steps = n / GROUPS;
    if (steps < pieces) {
        return -__builtin_inff();
    }
    for (int64_t p = 0; p < pieces; p++) {
        int64_t begin = steps * p / pieces, end = steps * (p + 1) / pieces;
        group_maxima(top + p * GROUP_VECTORS, x + begin * GROUPS, end - begin);
    }
    vf least = top[0], most = top[0];
    for (int64_t q = 1; q < pieces * GROUP_VECTORS; q++) {
        least = v_smaller(top[q], least);
        most = v_larger(top[q], most);
    }
    float low = least[0], high = most[0];
    for (int l = 1; l < VLEN; l++) {
        low = least[l] < low ? least[l] : low;
        high = most[l] > high ? most[l] : high;
    }
    for (int i = 0; i < HALVINGS; i++) {
        float middle = 0.5f * low + 0.5f * high;
        vi reach = {0};
        for (int64_t q = 0; q < pieces * GROUP_VECTORS; q++) {
            reach -= (vi)(top[q] >= v_all(middle));
        }
        int64_t count = 0;
        for (int l = 0; l < VLEN; l++) {
            count += reach[l];
        }
        if (count >= k) {
            low = middle;
        } else {
            high = middle;
        }
    }
    return low;
}

/* Columns above the bound, numbers only, and such that of equal ones the lower stands first. */
typedef struct taken {
    _Alignas(32) float x[MOST_TAKEN];
    int32_t at[MOST_TAKEN];
    int64_t n;
    float bound;
} taken;

/* How many come before the i-th: larger ones, and equal ones that stand before it. */
static INLINE int64_t rank_of(const taken *all, int64_t i) {
    vf x = v_all(all->x[i]);
    vi place = {0}, count = {0};
    int64_t rank = 0;
    for (int l = 0; l < VLEN; l++) {
        place[l] = l;
    }
    for (int64_t j = 0; j < all->n; j += VLEN) { /* beyond the last they are -inf */
        vf other = v_load(all->x + j, VLEN);
        vi before = place < (vi){0} + (int32_t)(i - j);
        count -= (vi)(other > x) | ((vi)(other == x) & (vi)before);
    }
    for (int l = 0; l < VLEN; l++) {
        rank += count[l];
    }
    return rank;
}

/* The k first of all that were taken, in order. */
static void sort_taken(taken *all, int64_t k, float *x, int32_t *at) {
    for (int64_t j = all->n; j % VLEN != 0; j++) {
        all->x[j] = -__builtin_inff();
    }
    for (int64_t i = 0; i < all->n; i++) {
        int64_t rank = rank_of(all, i);
        if (rank < k) {
            x[rank] = all->x[i];
            at[rank] = all->at[i];
        }
    }
}

static void take(taken *all, float x, int64_t column, int64_t k, float *best, int32_t *at) {
    if (all->n == MOST_TAKEN) {
        sort_taken(all, k, best, at);
        memcpy(all->x, best, (size_t)k * sizeof *best);
        memcpy(all->at, at, (size_t)k * sizeof *at);
        all->n = k;
        all->bound = best[k - 1];
    }
    if (x > all->bound) {
        all->x[all->n] = x;
        all->at[all->n++] = (int32_t)column;
    }
}

/* The k largest columns, all of which are above `bound`. */
static void take_above(const float *x, int64_t n, float bound, int64_t k, float *best,
                       int32_t *at) {
    taken all;
    int64_t j = 0;
    all.n = 0;
    all.bound = bound;
    for (; j + GROUPS <= n; j += GROUPS) {
        vi above[GROUP_VECTORS], any = {0};
        for (int q = 0; q < GROUP_VECTORS; q++) {
            above[q] = (vi)(v_load(x + j + q * VLEN, VLEN) > v_all(all.bound));
            any |= above[q];
        }
        if (v_bits(any) == 0) {
            continue;
        }
        for (int q = 0; q < GROUP_VECTORS; q++) {
            for (unsigned bits = v_bits(above[q]); bits != 0; bits &= bits - 1) {
                int64_t column = j + q * VLEN + __builtin_ctz(bits);
                take(&all, x[column], column, k, best, at);
            }
        }
    }
    for (; j < n; j++) {
        if (x[j] > all.bound) {
            take(&all, x[j], j, k, best, at);
        }
    }
    sort_taken(&all, k, best, at);
}

/* Any row, a column at a time: short ones, and those with little but -inf and NaN. A NaN is
 * smaller than everything. */
static void insert_all(const float *x, int64_t n, int64_t k, float *best, int32_t *at) {
    for (int64_t j = 0; j < n; j++) {
        int64_t i = j < k ? j : k;
        for (; i > 0 && (x[j] > best[i - 1] || (isnan(best[i - 1]) && !isnan(x[j]))); i--) {
            if (i < k) {
                best[i] = best[i - 1];
                at[i] = at[i - 1];
            }
        }
        if (i < k) {
            best[i] = x[j];
            at[i] = (int32_t)j;
        }
    }
}

void CPU_FN(top_logs)(const op_call *call) {
    int64_t n = ir_cols(&call->in[0].type), k = ir_cols(&call->out[0].type), begin, end;
    ebb__team_share(ebb__ir_rows(&call->in[0].type), 1, call->member, call->members, &begin, &end);
    for (int64_t r = begin; r < end; r++) {
        const float *x = cpu_at(&call->in[0], r, 0);
        float *y = cpu_at(&call->out[0], r, 0), bound = lower_bound(x, n, k);
        int32_t *at = (int32_t *)call->out[1].data + r * call->out[1].ld;
        if (bound > -__builtin_inff()) {
            take_above(x, n, nextafterf(bound, -__builtin_inff()), k, y, at);
        } else {
            insert_all(x, n, k, y, at);
        }
        float top = y[0], log_sum = ebb__math_log(row_sum_exp(x, n, top, NULL, NULL));
        for (int64_t i = 0; i < k; i++) {
            y[i] = (y[i] - top) - log_sum;
        }
    }
}
