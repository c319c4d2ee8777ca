/* lists_body.h - the products of a list of pairs of tiles, added to one tile of sums (conv.h),
 * which stay in registers for all pairs. The includer defines CPU_FN(name) and includes
 * lanes_body.h first. libxsmm keeps too few sums for tiles of fewer than 4 vectors of lanes. */
#include "device/cpu/conv.h"

/* `rows` rows from row j on, times n vectors; both are constants after inlining. */
static INLINE void list_block(const int rows, const int n, const conv_list *l, int64_t j,
                              float *out, int64_t ldo) {
    const conv_tile *t = &l->tile;
    const int64_t b_row = t->across ? 1 : t->b_row, b_col = t->across ? t->b_row : 1;
    vf sum[SUMS][MOST_VECTORS];
    for (int i = 0; i < rows; i++) {
        for (int v = 0; v < n; v++) {
            sum[i][v] = v_load(out + i * ldo + v * VLEN, VLEN);
        }
    }
    for (int64_t p = 0; p < l->count; p++) {
        const float *a = l->a[p], *b = l->b[p] + j * b_row;
        for (int64_t k = t->deep; k > 0; k--) {
            tile_step(rows, n, b, b_row, a, sum);
            a += t->a_row;
            b += b_col;
        }
    }
    for (int i = 0; i < rows; i++) {
        for (int v = 0; v < n; v++) {
            v_store(out + i * ldo + v * VLEN, sum[i][v], VLEN);
        }
    }
}

typedef struct list_height {
    int rows;
    void (*run)(const conv_list *l, int64_t j, float *out, int64_t ldo);
} list_height;

#define LIST(rows, n)                                                                              \
    static void list_##rows##x##n(const conv_list *l, int64_t j, float *out, int64_t ldo) {        \
        list_block(rows, n, l, j, out, ldo);                                                       \
    }
LIST(12, 1)
LIST(8, 1)
LIST(4, 1)
LIST(1, 1)
LIST(6, 2)
LIST(4, 2)
LIST(2, 2)
LIST(1, 2)
LIST(4, 3)
LIST(3, 3)
LIST(2, 3)
LIST(1, 3)
LIST(3, 4)
LIST(2, 4)
LIST(1, 4)
#undef LIST

/* By the number of vectors, highest first. */
static const list_height list_heights[MOST_VECTORS][4] = {
    {{12, list_12x1}, {8, list_8x1}, {4, list_4x1}, {1, list_1x1}},
    {{6, list_6x2}, {4, list_4x2}, {2, list_2x2}, {1, list_1x2}},
    {{4, list_4x3}, {3, list_3x3}, {2, list_2x3}, {1, list_1x3}},
    {{3, list_3x4}, {2, list_2x4}, {1, list_1x4}},
};

/* The height for what is left: the first, unless the second leaves nothing and the first too little
 * to be done fast. */
static const list_height *list_height_of(int64_t n, int64_t left) {
    const list_height *h = list_heights[n - 1];
    if (left >= h->rows && (left % h[1].rows != 0 || left > 2 * h[1].rows)) {
        return h;
    }
    for (h++; h->rows > left; h++) {
    }
    return h;
}

/* From row j on. Where not all lanes of n vectors are in use, through a copy. */
static void list_at(const list_height *height, int64_t n, const conv_list *l, int64_t j) {
    float *out = l->out + j * l->tile.out_row, sums[SUMS * VLEN] = {0};
    size_t used = (size_t)l->tile.lanes * sizeof(float);
    if (l->tile.lanes == n * VLEN) {
        height->run(l, j, out, l->tile.out_row);
        return;
    }
    for (int i = 0; i < height->rows; i++) {
        memcpy(sums + i * n * VLEN, out + i * l->tile.out_row, used);
    }
    height->run(l, j, sums, n * VLEN);
    for (int i = 0; i < height->rows; i++) {
        memcpy(out + i * l->tile.out_row, sums + i * n * VLEN, used);
    }
}

/* Of at most 4 vectors of lanes. */
void CPU_FN(conv_list)(const conv_list *list) {
    int64_t n = (list->tile.lanes + VLEN - 1) / VLEN;
    const list_height *height;
    for (int64_t j = 0; j < list->tile.rows; j += height->rows) {
        height = list_height_of(n, list->tile.rows - j);
        list_at(height, n, list, j);
    }
}
