/* pool.h - the sizes of a pool and where its windows fall, for its ops and their kernels.
 *
 * Window (oy, ox) has the pixels [oy*stride - pad_y, + high) by [ox*stride - pad_x, + wide) of the
 * map, of which at least one is inside; those outside are skipped. */
#ifndef OP_POOL_H
#define OP_POOL_H

#include "op/map.h"

/* Attributes. The last two are the result's sizes where operands do not tell them: how many windows
 * there are (so that rounding up is the builder's business), of gradients the map's. */
enum { POOL_WINDOW_Y, POOL_WINDOW_X, POOL_STRIDE, POOL_PAD_Y, POOL_PAD_X, POOL_HIGH, POOL_WIDE };

/* What goes along rows or along columns. */
typedef struct op_pool_axis {
    int64_t pixels, windows; /* of the map; of the result */
    int64_t size, stride, pad;
} op_pool_axis;

typedef struct op_pool {
    op_map x, y;
    op_pool_axis rows, cols;
} op_pool;

static inline op_pool op_pool_of(const ir_type *x, const ir_type *y, const ir_attr *attr) {
    const int32_t *a = attr->i;
    op_map from = op_map_of(x), to = op_map_of(y);
    return (op_pool){.x = from,
                     .y = to,
                     .rows = {from.high, to.high, a[POOL_WINDOW_Y], a[POOL_STRIDE], a[POOL_PAD_Y]},
                     .cols = {from.wide, to.wide, a[POOL_WINDOW_X], a[POOL_STRIDE], a[POOL_PAD_X]}};
}

/* [lo, hi) along one axis. */
typedef struct op_reach {
    int64_t lo, hi;
} op_reach;

/* Pixels of the map that window `o` has. */
static inline op_reach op_pool_pixels(const op_pool_axis *a, int64_t o) {
    int64_t lo = o * a->stride - a->pad, hi = lo + a->size;
    return (op_reach){lo > 0 ? lo : 0, hi < a->pixels ? hi : a->pixels};
}

/* Windows that have pixel `at`. */
static inline op_reach op_pool_windows(const op_pool_axis *a, int64_t at) {
    int64_t past = at + a->pad, lo = past < a->size ? 0 : (past - a->size) / a->stride + 1;
    int64_t hi = past / a->stride + 1;
    return (op_reach){lo, hi < a->windows ? hi : a->windows};
}

/* A map like x, of the sizes that the attributes say. */
static inline ir_type op_pool_resized(const ir_type *x, const ir_attr *attr) {
    ir_type type = *x;
    type.dim[2] = attr->i[POOL_HIGH];
    type.dim[3] = attr->i[POOL_WIDE];
    return type;
}

/* Tap r * wide + s of window (oy, ox) that pixel (y, x) is. */
static inline int64_t op_pool_tap(const op_pool *p, int64_t oy, int64_t ox, int64_t y, int64_t x) {
    return (y - (oy * p->rows.stride - p->rows.pad)) * p->cols.size +
           (x - (ox * p->cols.stride - p->cols.pad));
}

/* Bits that say which tap of a window was taken: no code of any lies in two bytes. */
enum { POOL_MOST_TAPS = 256 };
static inline int32_t op_pool_bits(const op_pool *p) {
    int64_t taps = p->rows.size * p->cols.size;
    return taps <= 4 ? 2 : taps <= 16 ? 4 : 8;
}

/* What the sum over window (oy, ox) is multiplied by: padding counts, what is behind it does not,
 * as in PyTorch. */
static inline int64_t op_pool_counts(const op_pool_axis *a, int64_t o) {
    int64_t room = a->pixels + 2 * a->pad - o * a->stride;
    return a->size < room ? a->size : room;
}
static inline double op_pool_share(const op_pool *p, int64_t oy, int64_t ox) {
    return 1.0 / ((double)op_pool_counts(&p->rows, oy) * (double)op_pool_counts(&p->cols, ox));
}

/* Whether all windows have the same share: only the last ones may reach behind the padding. */
static inline bool op_pool_is_even(const op_pool *p) {
    return op_pool_counts(&p->rows, p->rows.windows - 1) == p->rows.size &&
           op_pool_counts(&p->cols, p->cols.windows - 1) == p->cols.size;
}

#endif
