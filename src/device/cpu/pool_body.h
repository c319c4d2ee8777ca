/* pool_body.h - pools and their gradients over the vectors of vec.h. The includer defines
 * CPU_FN(name).
 *
 * All lanes of a pixel are alike: a plane is pixels of `run` floats, of which a member does some
 * `columns`. Windows are gone through in order of row and column, the pixels of a window too. */
#include "device/cpu/cpu.h"
#include "device/cpu/planes.h"
#include "device/cpu/vec.h"
#include "op/pool.h"

#include <string.h>

/* A rectangle of pixels, the first of which is at x: `rows` of `cols` pixels of `run` floats; rows
 * lie `row` floats apart. */
typedef struct pool_area {
    int64_t rows, cols, run, row;
} pool_area;

static inline pool_area area_of(op_reach ys, op_reach xs, const op_map *m) {
    int64_t run = op_map_pixel(m);
    return (pool_area){ys.hi - ys.lo, xs.hi - xs.lo, run, run * m->wide};
}

static inline int64_t area_start(op_reach ys, op_reach xs, const op_map *m) {
    return (ys.lo * m->wide + xs.lo) * op_map_pixel(m);
}

/* step(j, m, vectors) for all columns: `many` vectors at once, then one, then what is left. */
#define EACH_COLUMNS(columns, many, step)                                                          \
    do {                                                                                           \
        int64_t each_ = 0;                                                                         \
        for (; each_ + (many)*VLEN <= (columns); each_ += (many)*VLEN) {                           \
            step(each_, VLEN, many);                                                               \
        }                                                                                          \
        for (; each_ + VLEN <= (columns); each_ += VLEN) {                                         \
            step(each_, VLEN, 1);                                                                  \
        }                                                                                          \
        if (each_ < (columns)) {                                                                   \
            step(each_, (columns)-each_, 1);                                                       \
        }                                                                                          \
    } while (0)
enum { MANY = 4, MANY_WINNERS = 2 }; /* what registers hold */

/* ---- max ------------------------------------------------------------------------------------- */

/* Does x take the place of the best so far: larger, or the first NaN? */
static INLINE vi beats(vf x, vf best) {
    return ~(x <= best) & (best == best);
}

static INLINE void max_area(const float *x, const pool_area *a, float *y, int64_t m, int vectors) {
    vf best[MANY];
    for (int v = 0; v < vectors; v++) {
        best[v] = v_load(x + v * VLEN, m);
    }
    for (int64_t r = 0; r < a->rows; r++, x += a->row) {
        for (int64_t s = r == 0; s < a->cols; s++) {
            for (int v = 0; v < vectors; v++) {
                vf value = v_load(x + s * a->run + v * VLEN, m);
                best[v] = v_select(beats(value, best[v]), value, best[v]);
            }
        }
    }
    for (int v = 0; v < vectors; v++) {
        v_store(y + v * VLEN, best[v], m);
    }
}

static void max_plane(const op_pool *p, const float *x, float *y, int64_t columns) {
    int64_t run = op_map_pixel(&p->y);
    for (int64_t oy = 0; oy < p->y.high; oy++) {
        op_reach ys = op_pool_pixels(&p->rows, oy);
        for (int64_t ox = 0; ox < p->y.wide; ox++, y += run) {
            op_reach xs = op_pool_pixels(&p->cols, ox);
            pool_area a = area_of(ys, xs, &p->x);
            const float *from = x + area_start(ys, xs, &p->x);
#define MAX_STEP(j, m, vectors) max_area(from + (j), &a, y + (j), m, vectors)
            EACH_COLUMNS(columns, MANY, MAX_STEP);
        }
    }
}

void CPU_FN(max_pool)(const op_call *call) {
    op_pool p = op_pool_of(&call->in[0].type, &call->out[0].type, call->attr);
    cpu_planes it = cpu_planes_start(call, &p.x);
    while (cpu_planes_next(&it)) {
        max_plane(&p, cpu_plane(&it, &call->in[0]), cpu_plane(&it, &call->out[0]), it.hi - it.lo);
    }
}

/* dy is added where the window's winner is. No sum is ever -0, so that adding 0 elsewhere changes
 * nothing. only: this is the only window of all its pixels, which nobody cleared. */
static INLINE void max_grad_area(const float *dy, const float *x, const pool_area *a, float *dx,
                                 int64_t m, int vectors, bool only) {
    vf best[MANY_WINNERS];
    vi winner[MANY_WINNERS];
    for (int v = 0; v < vectors; v++) {
        best[v] = v_load(x + v * VLEN, m);
        winner[v] = (vi){0};
    }
    for (int64_t r = 0; r < a->rows; r++) {
        for (int64_t s = r == 0; s < a->cols; s++) {
            vi number = (vi){0} + (int32_t)(r * a->cols + s);
            for (int v = 0; v < vectors; v++) {
                vf value = v_load(x + r * a->row + s * a->run + v * VLEN, m);
                vi taken = beats(value, best[v]);
                best[v] = v_select(taken, value, best[v]);
                winner[v] = (vi)v_select(taken, (vf)number, (vf)winner[v]);
            }
        }
    }
    for (int64_t r = 0; r < a->rows; r++) {
        for (int64_t s = 0; s < a->cols; s++) {
            vi number = (vi){0} + (int32_t)(r * a->cols + s);
            for (int v = 0; v < vectors; v++) {
                float *to = dx + r * a->row + s * a->run + v * VLEN;
                vi d = (winner[v] == number) & (vi)v_load(dy + v * VLEN, m);
                v_store(to, (only ? v_all(0.0f) : v_load(to, m)) + (vf)d, m);
            }
        }
    }
}

/* Zeros in columns of the rows of pixels [from, to) of a plane. */
static void clear_rows(const op_map *m, float *plane, int64_t columns, int64_t from, int64_t to) {
    int64_t run = op_map_pixel(m), row = run * m->wide;
    if (columns == run && to > from) {
        memset(plane + from * row, 0, (size_t)((to - from) * row) * sizeof(float));
        return;
    }
    for (int64_t at = from * m->wide; at < to * m->wide; at++) {
        memset(plane + at * run, 0, (size_t)columns * sizeof(float));
    }
}

/* Is every pixel in exactly one window? */
static bool tiles(const op_pool_axis *a) {
    return a->pad == 0 && a->stride == a->size && a->windows * a->stride >= a->pixels;
}
static bool is_tiled(const op_pool *p) {
    return tiles(&p->rows) && tiles(&p->cols);
}

/* Unless pixels have one window each, rows of dx are cleared when the first window reaches them. */
static INLINE void max_grad_windows(const op_pool *p, const float *dy, const float *x, float *dx,
                                    int64_t columns, bool only) {
    int64_t run = op_map_pixel(&p->y), clear = only ? p->x.high : 0;
    for (int64_t oy = 0; oy < p->y.high; oy++) {
        op_reach ys = op_pool_pixels(&p->rows, oy);
        clear_rows(&p->x, dx, columns, clear, ys.hi);
        clear = clear > ys.hi ? clear : ys.hi;
        for (int64_t ox = 0; ox < p->y.wide; ox++, dy += run) {
            op_reach xs = op_pool_pixels(&p->cols, ox);
            pool_area a = area_of(ys, xs, &p->x);
            const float *from = x + area_start(ys, xs, &p->x);
            float *to = dx + area_start(ys, xs, &p->x);
#define MAX_GRAD_STEP(j, m, vectors)                                                               \
    max_grad_area(dy + (j), from + (j), &a, to + (j), m, vectors, only)
            EACH_COLUMNS(columns, MANY_WINNERS, MAX_GRAD_STEP);
        }
    }
    clear_rows(&p->x, dx, columns, clear, p->x.high);
}

static void max_grad_plane(const op_pool *p, const float *dy, const float *x, float *dx,
                           int64_t columns) {
    if (is_tiled(p)) {
        max_grad_windows(p, dy, x, dx, columns, true);
    } else {
        max_grad_windows(p, dy, x, dx, columns, false);
    }
}

/* dy, x. */
void CPU_FN(max_pool_grad)(const op_call *call) {
    const op_view *dy = &call->in[0], *x = &call->in[1], *dx = &call->out[0];
    op_pool p = op_pool_of(&x->type, &dy->type, call->attr);
    cpu_planes it = cpu_planes_start(call, &p.x);
    while (cpu_planes_next(&it)) {
        max_grad_plane(&p, cpu_plane(&it, dy), cpu_plane(&it, x), cpu_plane(&it, dx),
                       it.hi - it.lo);
    }
}

/* ---- mean ------------------------------------------------------------------------------------ */

/* What the elements of a sum are multiplied by, and the whole; one of them is 1, which changes
 * nothing. Where `uneven`, an element is that of a window whose own share counts, the first of them
 * that of window (y, x). */
typedef struct pool_shares {
    float each, all;
    const op_pool *uneven;
    int64_t y, x;
} pool_shares;

static INLINE void sum_area(const float *x, const pool_area *a, float *y, const pool_shares *w,
                            int64_t m, int vectors) {
    vf sum[MANY];
    for (int v = 0; v < vectors; v++) {
        sum[v] = v_all(0.0f);
    }
    for (int64_t r = 0; r < a->rows; r++, x += a->row) {
        for (int64_t s = 0; s < a->cols; s++) {
            float each =
                w->uneven == NULL ? w->each : (float)op_pool_share(w->uneven, w->y + r, w->x + s);
            for (int v = 0; v < vectors; v++) {
                sum[v] += v_load(x + s * a->run + v * VLEN, m) * each;
            }
        }
    }
    for (int v = 0; v < vectors; v++) {
        v_store(y + v * VLEN, sum[v] * w->all, m);
    }
}

/* Every pixel of `out` is the sum of an area of `in`: of the pixels of a window, or of the windows
 * of a pixel. */
static void sum_plane(const op_pool *p, bool grad, const float *in, float *out, int64_t columns) {
    const op_map *from = grad ? &p->y : &p->x, *to = grad ? &p->x : &p->y;
    op_reach (*reach)(const op_pool_axis *, int64_t) = grad ? op_pool_windows : op_pool_pixels;
    pool_shares w = {.each = grad ? (float)op_pool_share(p, 0, 0) : 1.0f,
                     .all = 1.0f,
                     .uneven = grad && !op_pool_is_even(p) ? p : NULL};
    int64_t run = op_map_pixel(to);
    for (int64_t y = 0; y < to->high; y++) {
        op_reach ys = reach(&p->rows, y);
        w.y = ys.lo;
        for (int64_t x = 0; x < to->wide; x++, out += run) {
            op_reach xs = reach(&p->cols, x);
            pool_area a = area_of(ys, xs, from);
            const float *area = in + area_start(ys, xs, from);
            a.rows = a.cols > 0 ? a.rows : 0; /* a pixel may be in no window */
            w.x = xs.lo;
            w.all = grad ? 1.0f : (float)op_pool_share(p, y, x);
#define SUM_STEP(j, m, vectors) sum_area(area + (j), &a, out + (j), &w, m, vectors)
            EACH_COLUMNS(columns, MANY, SUM_STEP);
        }
    }
}

void CPU_FN(avg_pool)(const op_call *call) {
    op_pool p = op_pool_of(&call->in[0].type, &call->out[0].type, call->attr);
    cpu_planes it = cpu_planes_start(call, &p.x);
    while (cpu_planes_next(&it)) {
        sum_plane(&p, false, cpu_plane(&it, &call->in[0]), cpu_plane(&it, &call->out[0]),
                  it.hi - it.lo);
    }
}

/* dy. */
void CPU_FN(avg_pool_grad)(const op_call *call) {
    op_pool p = op_pool_of(&call->out[0].type, &call->in[0].type, call->attr);
    cpu_planes it = cpu_planes_start(call, &p.x);
    while (cpu_planes_next(&it)) {
        sum_plane(&p, true, cpu_plane(&it, &call->in[0]), cpu_plane(&it, &call->out[0]),
                  it.hi - it.lo);
    }
}
