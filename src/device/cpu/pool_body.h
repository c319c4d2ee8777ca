/* pool_body.h - pools and their gradients over the vectors of vec.h. The includer defines
 * CPU_FN(name).
 *
 * All lanes of a pixel are alike: a plane is pixels of `run` floats, of which a member does some
 * `columns`. Windows are gone through in order of row and column, the pixels of a window too. */
#include "device/cpu/cpu.h"
#include "device/cpu/planes.h"
#include "device/cpu/pool_codes.h"
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
    vf same = best; /* a NaN is none */
    return ~(x <= best) & (best == same);
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

/* How the taps of an area are numbered: the first, the step to the next, and what is left out at
 * the end of a row of them. Numbers of a code stand where the code of their lane does. */
typedef struct pool_numbers {
    vu first, step, skip;
} pool_numbers;

static INLINE pool_numbers numbers_plain(void) {
    return (pool_numbers){{0}, (vu){0} + 1, {0}};
}

static INLINE pool_numbers numbers_coded(const op_pool *p, int64_t tap, int64_t cols, int bits) {
    vu one = codes_ones(bits);
    return (pool_numbers){one * (uint32_t)tap, one, one * (uint32_t)(p->cols.size - cols)};
}

/* The numbers of the taps that are taken. */
static INLINE void find_winners(const float *x, const pool_area *a, const pool_numbers *n,
                                int64_t m, int vectors, vu *winner) {
    vf best[MANY_WINNERS];
    vu number = n->first;
    for (int v = 0; v < vectors; v++) {
        best[v] = v_load(x + v * VLEN, m);
        winner[v] = number;
    }
    number += n->step;
    for (int64_t r = 0; r < a->rows; r++, number += n->skip) {
        for (int64_t s = r == 0; s < a->cols; s++, number += n->step) {
            for (int v = 0; v < vectors; v++) {
                vf value = v_load(x + r * a->row + s * a->run + v * VLEN, m);
                vi taken = beats(value, best[v]);
                best[v] = v_select(taken, value, best[v]);
                winner[v] = (vu)v_select(taken, (vf)number, (vf)winner[v]);
            }
        }
    }
}

/* dy is added where the window's winner is. No sum is ever -0, so that adding 0 elsewhere changes
 * nothing. only: this is the only window of all its pixels, which nobody cleared. */
static INLINE void give_winners(const float *dy, const vu *winner, const pool_area *a,
                                const pool_numbers *n, float *dx, int64_t m, int vectors,
                                bool only) {
    vu number = n->first;
    for (int64_t r = 0; r < a->rows; r++, number += n->skip) {
        for (int64_t s = 0; s < a->cols; s++, number += n->step) {
            for (int v = 0; v < vectors; v++) {
                float *to = dx + r * a->row + s * a->run + v * VLEN;
                vi d = (vi)(winner[v] == number) & (vi)v_load(dy + v * VLEN, m);
                v_store(to, (only ? v_all(0.0f) : v_load(to, m)) + (vf)d, m);
            }
        }
    }
}

/* Where the winners of a plane of windows are known from: the map, or codes, in `row` of a group
 * from code `at` on. */
typedef struct pool_source {
    const float *x;
    const uint8_t *row;
    int64_t at;
} pool_source;

static INLINE void max_grad_area(const float *dy, const float *x, const pool_area *a, float *dx,
                                 int64_t m, int vectors, bool only) {
    vu winner[MANY_WINNERS];
    pool_numbers n = numbers_plain();
    find_winners(x, a, &n, m, vectors, winner);
    give_winners(dy, winner, a, &n, dx, m, vectors, only);
}

static INLINE void max_grad_codes(const float *dy, const uint8_t *row, int64_t at, int bits,
                                  const pool_area *a, const pool_numbers *n, float *dx, int64_t m,
                                  int vectors, bool only) {
    vu winner[MANY_WINNERS];
    for (int v = 0; v < vectors; v++) {
        winner[v] = codes_load(row, at + v * VLEN, m, bits);
    }
    give_winners(dy, winner, a, n, dx, m, vectors, only);
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

/* Unless pixels have one window each, rows of dx are cleared when the first window reaches them.
 * bits: of a code; 0: winners are found in x. */
static INLINE void max_grad_windows(const op_pool *p, const float *dy, const pool_source *source,
                                    float *dx, int64_t columns, int bits, bool only) {
    int64_t run = op_map_pixel(&p->y), clear = only ? p->x.high : 0, at = source->at;
    for (int64_t oy = 0; oy < p->y.high; oy++) {
        op_reach ys = op_pool_pixels(&p->rows, oy);
        clear_rows(&p->x, dx, columns, clear, ys.hi);
        clear = clear > ys.hi ? clear : ys.hi;
        for (int64_t ox = 0; ox < p->y.wide; ox++, dy += run, at += run) {
            op_reach xs = op_pool_pixels(&p->cols, ox);
            pool_area a = area_of(ys, xs, &p->x);
            float *to = dx + area_start(ys, xs, &p->x);
            if (bits == 0) {
                const float *from = source->x + area_start(ys, xs, &p->x);
#define MAX_GRAD_STEP(j, m, vectors)                                                               \
    max_grad_area(dy + (j), from + (j), &a, to + (j), m, vectors, only)
                EACH_COLUMNS(columns, MANY_WINNERS, MAX_GRAD_STEP);
            } else {
                int64_t tap = op_pool_tap(p, oy, ox, ys.lo, xs.lo);
                pool_numbers n = numbers_coded(p, tap, a.cols, bits);
#define GRAD_AT_STEP(j, m, vectors)                                                                \
    max_grad_codes(dy + (j), source->row, at + (j), bits, &a, &n, to + (j), m, vectors, only)
                EACH_COLUMNS(columns, MANY_WINNERS, GRAD_AT_STEP);
            }
        }
    }
    clear_rows(&p->x, dx, columns, clear, p->x.high);
}

static INLINE void max_grad_plane(const op_pool *p, const float *dy, const pool_source *source,
                                  float *dx, int64_t columns, int bits) {
    if (is_tiled(p)) {
        max_grad_windows(p, dy, source, dx, columns, bits, true);
    } else {
        max_grad_windows(p, dy, source, dx, columns, bits, false);
    }
}

/* dy, x. */
void CPU_FN(max_pool_grad)(const op_call *call) {
    const op_view *dy = &call->in[0], *x = &call->in[1], *dx = &call->out[0];
    op_pool p = op_pool_of(&x->type, &dy->type, call->attr);
    cpu_planes it = cpu_planes_start(call, &p.x);
    while (cpu_planes_next(&it)) {
        pool_source source = {.x = cpu_plane(&it, x)};
        max_grad_plane(&p, cpu_plane(&it, dy), &source, cpu_plane(&it, dx), it.hi - it.lo, 0);
    }
}

/* ---- codes of winners ------------------------------------------------------------------------ */

/* The share of a member: columns of planes where a pixel's codes are whole bytes, else groups,
 * whose codes are written in order. */
static cpu_planes coded_planes(const op_call *call, const op_pool *p) {
    bool bytes = op_map_pixel(&p->y) * op_pool_bits(p) % 8 == 0;
    return bytes ? cpu_planes_start(call, &p->x) : cpu_planes_groups(call, &p->x);
}

static INLINE void index_area(const float *x, const pool_area *a, const pool_numbers *n,
                              uint8_t *row, int64_t at, int64_t m, int vectors, int bits) {
    vu winner[MANY_WINNERS];
    find_winners(x, a, n, m, vectors, winner);
    for (int v = 0; v < vectors; v++) {
        codes_store(row, at + v * VLEN, winner[v], m, bits);
    }
}

static INLINE void index_plane(const op_pool *p, const float *x, uint8_t *row, int64_t at,
                               int64_t columns, int bits) {
    int64_t run = op_map_pixel(&p->y);
    for (int64_t oy = 0; oy < p->y.high; oy++) {
        op_reach ys = op_pool_pixels(&p->rows, oy);
        for (int64_t ox = 0; ox < p->y.wide; ox++, at += run) {
            op_reach xs = op_pool_pixels(&p->cols, ox);
            pool_area a = area_of(ys, xs, &p->x);
            const float *from = x + area_start(ys, xs, &p->x);
            int64_t tap = op_pool_tap(p, oy, ox, ys.lo, xs.lo);
            pool_numbers n = numbers_coded(p, tap, a.cols, bits);
#define INDEX_STEP(j, m, vectors) index_area(from + (j), &a, &n, row, at + (j), m, vectors, bits)
            EACH_COLUMNS(columns, MANY_WINNERS, INDEX_STEP);
        }
    }
}

/* fn(..., bits) with bits known when it is compiled. */
#define WITH_BITS(bits, fn, ...)                                                                   \
    do {                                                                                           \
        if ((bits) == 2) {                                                                         \
            fn(__VA_ARGS__, 2);                                                                    \
        } else if ((bits) == 4) {                                                                  \
            fn(__VA_ARGS__, 4);                                                                    \
        } else {                                                                                   \
            fn(__VA_ARGS__, 8);                                                                    \
        }                                                                                          \
    } while (0)

void CPU_FN(pool_index)(const op_call *call) {
    const op_view *x = &call->in[0], *codes = &call->out[0];
    ir_type y = op_pool_resized(&x->type, call->attr);
    op_pool p = op_pool_of(&x->type, &y, call->attr);
    cpu_planes it = coded_planes(call, &p);
    while (cpu_planes_next(&it)) {
        uint8_t *row = (uint8_t *)codes->data + it.group * codes->type.dim[1];
        int64_t at = it.block * op_map_block(&p.y) + it.lo;
        WITH_BITS(op_pool_bits(&p), index_plane, &p, cpu_plane(&it, x), row, at, it.hi - it.lo);
    }
}

/* dy, codes. */
void CPU_FN(max_pool_grad_at)(const op_call *call) {
    const op_view *dy = &call->in[0], *codes = &call->in[1], *dx = &call->out[0];
    op_pool p = op_pool_of(&dx->type, &dy->type, call->attr);
    cpu_planes it = cpu_planes_start(call, &p.x);
    while (cpu_planes_next(&it)) {
        pool_source source = {.row = (const uint8_t *)codes->data + it.group * codes->type.dim[1],
                              .at = it.block * op_map_block(&p.y) + it.lo};
        WITH_BITS(op_pool_bits(&p), max_grad_plane, &p, cpu_plane(&it, dy), &source,
                  cpu_plane(&it, dx), it.hi - it.lo);
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
