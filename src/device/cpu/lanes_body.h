/* lanes_body.h - rows of a times at most MATMUL_LANES lanes of b, added to the output. The includer
 * defines CPU_FN(name). Sums stay in registers for all k: 3 rows of 4 vectors, 4 of 3, 6 of 2 or 12
 * of one. With operands in the second-level cache it runs at 98% of the FMA peak (Zen 4), as
 * libxsmm's kernels do, but at any width, and it fetches from further away while it computes. */
#include "device/cpu/cpu.h"
#include "device/cpu/matmul.h"
#include "device/cpu/vec.h"

/* Of 16 registers, 12 hold sums. */
enum { SUMS = 12, MOST_VECTORS = 4 };

/* One line is fetched every FETCH_STEPS steps of k: so few are under way at a time that none is
 * dropped, and nothing waits for them. */
enum { FETCH_STEPS = 4 };

/* Where a tile fetches: `line`, then every `step` bytes. */
typedef struct tile_fetch {
    const char *line;
    int64_t step;
} tile_fetch;

/* The lines of one tile, at most those up to the end of a sequence; without any, one that is in
 * cache already. */
static tile_fetch fetch_next(const matmul_lanes *l) {
    matmul_fetch *f = l->fetch;
    if (f == NULL || f->outer <= 0) {
        return (tile_fetch){(const char *)l->b, 0};
    }
    tile_fetch next = {f->from + f->at * f->inner_step, f->inner_step};
    f->at += l->deep / FETCH_STEPS;
    if (f->at >= f->inner) {
        f->at = 0;
        f->from += f->outer_step;
        f->outer--;
    }
    return next;
}

/* One step of k: n vectors of b are held and the elements of a pass by, or, with 4 vectors, the
 * other way round. */
static INLINE void tile_step(const int rows, const int n, const float *a, int64_t a_row,
                             const float *b, vf sum[SUMS][MOST_VECTORS]) {
    if (n == MOST_VECTORS) {
        vf x[SUMS];
        for (int i = 0; i < rows; i++) {
            x[i] = v_all(a[i * a_row]);
        }
        for (int v = 0; v < n; v++) {
            vf y = v_load(b + v * VLEN, VLEN);
            for (int i = 0; i < rows; i++) {
                sum[i][v] = v_fma(x[i], y, sum[i][v]);
            }
        }
        return;
    }
    vf y[MOST_VECTORS];
    for (int v = 0; v < n; v++) {
        y[v] = v_load(b + v * VLEN, VLEN);
    }
    for (int i = 0; i < rows; i++) {
        vf x = v_all(a[i * a_row]);
        for (int v = 0; v < n; v++) {
            sum[i][v] = v_fma(x, y[v], sum[i][v]);
        }
    }
}

/* `rows` rows times n vectors; both are constants after inlining. */
static INLINE void tile(const int rows, const int n, const matmul_lanes *l, const float *a,
                        float *out, int64_t ldo) {
    const float *b = l->b;
    const int64_t a_row = l->a_row, a_col = l->a_col, b_row = l->b_row;
    int64_t left = l->deep;
    tile_fetch next = fetch_next(l);
    vf sum[SUMS][MOST_VECTORS];
    for (int i = 0; i < rows; i++) {
        for (int v = 0; v < n; v++) {
            sum[i][v] = v_load(out + i * ldo + v * VLEN, VLEN);
        }
    }
    for (; left > 0; left--) {
        if (left % FETCH_STEPS == 0) {
            __builtin_prefetch(next.line, 0, 2);
            next.line += next.step;
        }
        tile_step(rows, n, a, a_row, b, sum);
        a += a_col;
        b += b_row;
    }
    for (int i = 0; i < rows; i++) {
        for (int v = 0; v < n; v++) {
            v_store(out + i * ldo + v * VLEN, sum[i][v], VLEN);
        }
    }
}

typedef struct tile_height {
    int rows;
    void (*run)(const matmul_lanes *l, const float *a, float *out, int64_t ldo);
} tile_height;

#define TILE(rows, n)                                                                              \
    static void tile_##rows##x##n(const matmul_lanes *l, const float *a, float *out,               \
                                  int64_t ldo) {                                                   \
        tile(rows, n, l, a, out, ldo);                                                             \
    }
TILE(12, 1)
TILE(6, 1)
TILE(2, 1)
TILE(1, 1)
TILE(6, 2)
TILE(4, 2)
TILE(2, 2)
TILE(1, 2)
TILE(4, 3)
TILE(2, 3)
TILE(1, 3)
TILE(3, 4)
TILE(2, 4)
TILE(1, 4)
#undef TILE

/* By the number of vectors, highest first. Low ones keep few sums and wait for them: only the last
 * rows are taken so. */
static const tile_height heights[MOST_VECTORS][4] = {
    {{12, tile_12x1}, {6, tile_6x1}, {2, tile_2x1}, {1, tile_1x1}},
    {{6, tile_6x2}, {4, tile_4x2}, {2, tile_2x2}, {1, tile_1x2}},
    {{4, tile_4x3}, {2, tile_2x3}, {1, tile_1x3}},
    {{3, tile_3x4}, {2, tile_2x4}, {1, tile_1x4}},
};

/* From row m on. Where not all lanes of n vectors are in use, through a copy. */
static void tile_at(const tile_height *height, int64_t n, const matmul_lanes *l, int64_t m) {
    const float *a = l->a + m * l->a_row;
    float *out = l->out + m * l->ldo;
    size_t used = (size_t)l->lanes * sizeof(float);
    if (l->lanes == n * VLEN) {
        height->run(l, a, out, l->ldo);
        return;
    }
    float sums[SUMS * VLEN] = {0};
    for (int i = 0; i < height->rows; i++) {
        memcpy(sums + i * n * VLEN, out + i * l->ldo, used);
    }
    height->run(l, a, sums, n * VLEN);
    for (int i = 0; i < height->rows; i++) {
        memcpy(out + i * l->ldo, sums + i * n * VLEN, used);
    }
}

void CPU_FN(matmul_lanes)(const matmul_lanes *lanes) {
    matmul_lanes l = *lanes;
    for (int64_t left = lanes->lanes; left > 0; left -= l.lanes) {
        l.lanes = matmul_least(left, MOST_VECTORS * VLEN);
        int64_t n = (l.lanes + VLEN - 1) / VLEN, m = 0;
        for (const tile_height *height = heights[n - 1]; m < l.rows; height++) {
            for (; m + height->rows <= l.rows; m += height->rows) {
                tile_at(height, n, &l, m);
            }
        }
        l.b += l.lanes;
        l.out += l.lanes;
    }
}
