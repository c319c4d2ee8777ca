/* pool.cl - pools of maps and their gradients (op/ref/pool.inc). Sums start from 0 and go by row and
 * column of the pixels of a window, or of the windows of a pixel. */

/* Along rows or columns. */
typedef struct pool_axis {
    int32_t pixels, windows, size, stride, pad;
} pool_axis;
typedef struct pool {
    map x, y;
    pool_axis rows, cols;
} pool;
typedef struct reach {
    int32_t lo, hi;
} reach;

DEVICE pool_axis pool_axis_of(int32_t pixels, int32_t windows, int32_t size, int32_t stride,
                              int32_t pad) {
    pool_axis a;
    a.pixels = pixels;
    a.windows = windows;
    a.size = size;
    a.stride = stride;
    a.pad = pad;
    return a;
}

DEVICE pool pool_of(GLOBAL const gpu_call *c, const map *x, const map *y) {
    pool p;
    p.x = *x;
    p.y = *y;
    p.rows = pool_axis_of(x->high, y->high, c->i[0], c->i[2], c->i[3]);
    p.cols = pool_axis_of(x->wide, y->wide, c->i[1], c->i[2], c->i[4]);
    return p;
}

/* Pixels of the map that window `o` has, and windows that have pixel `at`. */
DEVICE reach pool_pixels(const pool_axis *a, int32_t o) {
    reach of;
    int32_t lo = o * a->stride - a->pad, hi = lo + a->size;
    of.lo = lo > 0 ? lo : 0;
    of.hi = hi < a->pixels ? hi : a->pixels;
    return of;
}
DEVICE reach pool_windows(const pool_axis *a, int32_t at) {
    reach of;
    int32_t past = at + a->pad, hi = past / a->stride + 1;
    of.lo = past < a->size ? 0 : (past - a->size) / a->stride + 1;
    of.hi = hi < a->windows ? hi : a->windows;
    return of;
}

/* Tap r * wide + s of window (oy, ox) that pixel (y, x) is. */
DEVICE int32_t pool_tap(const pool *p, int32_t oy, int32_t ox, int32_t y, int32_t x) {
    return (y - (oy * p->rows.stride - p->rows.pad)) * p->cols.size +
           (x - (ox * p->cols.stride - p->cols.pad));
}

/* Pixel y * wide + x that window (oy, ox) takes: the first NaN or, where there is none, the first of
 * the largest. x is the map of one image and channel. */
DEVICE int32_t pool_winner(GLOBAL const float *x, const pool *p, int32_t oy, int32_t ox) {
    reach ys = pool_pixels(&p->rows, oy), xs = pool_pixels(&p->cols, ox);
    int32_t winner = ys.lo * p->x.wide + xs.lo;
    float best = x[winner * p->x.of_pixel];
    for (int32_t iy = ys.lo; iy < ys.hi; iy++) {
        for (int32_t ix = xs.lo; ix < xs.hi; ix++) {
            int32_t pixel = iy * p->x.wide + ix;
            float value = x[pixel * p->x.of_pixel];
            if (value > best || (value != value && best == best)) {
                winner = pixel;
                best = value;
            }
        }
    }
    return winner;
}

/* What the sum over window (oy, ox) is multiplied by: padding counts, what is behind it does not. */
DEVICE int32_t pool_counts(const pool_axis *a, int32_t o) {
    int32_t room = a->pixels + 2 * a->pad - o * a->stride;
    return a->size < room ? a->size : room;
}
DEVICE float pool_share(const pool *p, int32_t oy, int32_t ox) {
    return (float)(1.0 / ((double)pool_counts(&p->rows, oy) * (double)pool_counts(&p->cols, ox)));
}

/* Image n and channel k of a map. */
#define PLANE(view, m, n, k) (F32(view, 0) + map_image(m, n) + map_channel(m, k))

ELEMENT(max_pool) {
    map x = map_of(IN(0)), y = map_of(OUT(0));
    pool p = pool_of(c, &x, &y);
    map_place to = map_place_of(&y, r, u);
    GLOBAL const float *from = PLANE(IN(0), &x, to.image, to.channel);
    F32(OUT(0), 0)[to.at] = from[pool_winner(from, &p, to.y, to.x) * x.of_pixel];
}

ELEMENT(avg_pool) {
    map x = map_of(IN(0)), y = map_of(OUT(0));
    pool p = pool_of(c, &x, &y);
    map_place to = map_place_of(&y, r, u);
    GLOBAL const float *from = PLANE(IN(0), &x, to.image, to.channel);
    reach ys = pool_pixels(&p.rows, to.y), xs = pool_pixels(&p.cols, to.x);
    float sum = 0.0f;
    for (int32_t iy = ys.lo; iy < ys.hi; iy++) {
        for (int32_t ix = xs.lo; ix < xs.hi; ix++) {
            sum += from[map_pixel(&x, iy, ix)];
        }
    }
    F32(OUT(0), 0)[to.at] = sum * pool_share(&p, to.y, to.x);
}

/* dy, x: dy of the windows in which the pixel is the winner. */
ELEMENT(max_pool_grad) {
    map x = map_of(OUT(0)), y = map_of(IN(0)), of = map_of(IN(1));
    pool p = pool_of(c, &of, &y);
    map_place to = map_place_of(&x, r, u);
    GLOBAL const float *dy = PLANE(IN(0), &y, to.image, to.channel);
    GLOBAL const float *from = PLANE(IN(1), &of, to.image, to.channel);
    reach ys = pool_windows(&p.rows, to.y), xs = pool_windows(&p.cols, to.x);
    int32_t here = to.y * x.wide + to.x;
    float sum = 0.0f;
    for (int32_t oy = ys.lo; oy < ys.hi; oy++) {
        for (int32_t ox = xs.lo; ox < xs.hi; ox++) {
            if (pool_winner(from, &p, oy, ox) == here) {
                sum += dy[map_pixel(&y, oy, ox)];
            }
        }
    }
    F32(OUT(0), 0)[to.at] = sum;
}

/* dy. */
ELEMENT(avg_pool_grad) {
    map x = map_of(OUT(0)), y = map_of(IN(0));
    pool p = pool_of(c, &x, &y);
    map_place to = map_place_of(&x, r, u);
    GLOBAL const float *dy = PLANE(IN(0), &y, to.image, to.channel);
    reach ys = pool_windows(&p.rows, to.y), xs = pool_windows(&p.cols, to.x);
    float sum = 0.0f;
    for (int32_t oy = ys.lo; oy < ys.hi; oy++) {
        for (int32_t ox = xs.lo; ox < xs.hi; ox++) {
            sum += dy[map_pixel(&y, oy, ox)] * pool_share(&p, oy, ox);
        }
    }
    F32(OUT(0), 0)[to.at] = sum;
}

/* ---- with the winners' taps as codes, in the order of memory of a group ---- */

DEVICE int32_t pool_bits(const pool *p) {
    int32_t taps = p->rows.size * p->cols.size;
    return taps <= 4 ? 2 : taps <= 16 ? 4 : 8;
}

/* An item for each byte u of the row of group r. */
ELEMENT(pool_index) {
    map x = map_of(IN(0));
    map y = map_sized(x.groups, x.blocks, c->i[5], c->i[6], x.images, x.channels);
    pool p = pool_of(c, &x, &y);
    int32_t bits = pool_bits(&p), codes = 8 / bits, byte = 0;
    int64_t row = y.of_pixel * y.wide;
    for (int32_t i = 0; i < codes; i++) {
        int64_t e = (int64_t)u * codes + i;
        if (e < y.pitch) {
            map_place to = map_place_of(&y, r * y.blocks * y.high + e / row, (int32_t)(e % row));
            int32_t winner =
                pool_winner(PLANE(IN(0), &x, to.image, to.channel), &p, to.y, to.x);
            byte |= pool_tap(&p, to.y, to.x, winner / x.wide, winner % x.wide) << i * bits;
        }
    }
    U8(OUT(0))[r * OUT(0)->dim[1] + u] = (uint8_t)byte;
}

/* dy, codes. */
ELEMENT(max_pool_grad_at) {
    map x = map_of(OUT(0)), y = map_of(IN(0));
    pool p = pool_of(c, &x, &y);
    map_place to = map_place_of(&x, r, u);
    map dense = map_sized(1, y.blocks, y.high, y.wide, y.images, y.channels);
    GLOBAL const float *dy = PLANE(IN(0), &y, to.image, to.channel);
    GLOBAL const uint8_t *row = U8(IN(1)) + (int64_t)(to.image / y.images) * IN(1)->dim[1];
    int64_t in_group = map_image(&dense, to.image % y.images) + map_channel(&dense, to.channel);
    reach ys = pool_windows(&p.rows, to.y), xs = pool_windows(&p.cols, to.x);
    int32_t bits = pool_bits(&p);
    float sum = 0.0f;
    for (int32_t oy = ys.lo; oy < ys.hi; oy++) {
        for (int32_t ox = xs.lo; ox < xs.hi; ox++) {
            int64_t e = in_group + map_pixel(&y, oy, ox);
            int32_t tap = row[e * bits / 8] >> (int32_t)(e * bits % 8) & ((1 << bits) - 1);
            if (tap == pool_tap(&p, oy, ox, to.y, to.x)) {
                sum += dy[map_pixel(&y, oy, ox)];
            }
        }
    }
    F32(OUT(0), 0)[to.at] = sum;
}
