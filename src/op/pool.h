/* pool.h - the sizes of a pool and where its windows fall, for its ops and their kernels.
 *
 * Window (oy, ox) has the pixels [oy*stride - pad, + high) by [ox*stride - pad, + wide) of the map,
 * of which at least one is inside; those outside are skipped. */
#ifndef OP_POOL_H
#define OP_POOL_H

#include "op/map.h"

/* Attributes. The last two are the result's sizes where operands do not tell them: how many windows
 * there are (so that rounding up is the builder's business), of avg_pool_grad the map's. */
enum { POOL_WINDOW_Y, POOL_WINDOW_X, POOL_STRIDE, POOL_PAD, POOL_HIGH, POOL_WIDE };

typedef struct op_pool {
    op_map x, y;
    int32_t high, wide; /* of a window */
    int32_t stride, pad;
} op_pool;

static inline op_pool op_pool_of(const ir_type *x, const ir_type *y, const ir_attr *attr) {
    return (op_pool){op_map_of(x),           op_map_of(y),         attr->i[POOL_WINDOW_Y],
                     attr->i[POOL_WINDOW_X], attr->i[POOL_STRIDE], attr->i[POOL_PAD]};
}

/* [lo, hi) along one axis. */
typedef struct op_reach {
    int64_t lo, hi;
} op_reach;

/* Pixels inside, of `size`, that window `o` has. */
static inline op_reach op_pool_pixels(const op_pool *p, int64_t o, int64_t window, int64_t size) {
    int64_t lo = o * p->stride - p->pad, hi = lo + window;
    return (op_reach){lo > 0 ? lo : 0, hi < size ? hi : size};
}

/* Windows, of `count`, that have pixel `at`. */
static inline op_reach op_pool_windows(const op_pool *p, int64_t at, int64_t window,
                                       int64_t count) {
    int64_t past = at + p->pad, lo = past < window ? 0 : (past - window) / p->stride + 1;
    int64_t hi = past / p->stride + 1;
    return (op_reach){lo, hi < count ? hi : count};
}

/* What a sum over a window is multiplied by. */
static inline double op_pool_share(const op_pool *p) {
    return 1.0 / ((double)p->high * p->wide);
}

#endif
