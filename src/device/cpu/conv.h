/* conv.h - what the convolution kernels share: products of small tiles as one chain, and channels
 * in the pieces that chains take them by.
 *
 * The loops of conv_gather.c and conv_weights.c are the same for every instruction set; an engine
 * does the arithmetic (conv_tiles.c). A chain belongs to one member and goes through the output, or
 * a tile of sums, between lists, which changes no bit. */
#ifndef DEVICE_CPU_CONV_H
#define DEVICE_CPU_CONV_H

#include "device/cpu/cpu.h"
#include "op/conv.h"

/* out[j * out_row + i] += the sum over k of b(j, k) a[k * a_row + i], k ascending, for i < lanes,
 * j < rows, k < deep. b(j, k) is b[j * b_row + k] or, if `across`, b[k * b_row + j]. Up to a
 * multiple of 8 lanes of a may be read, unless `across`. */
typedef struct conv_tile {
    int64_t lanes, rows, deep;
    int64_t a_row, b_row, out_row;
    bool across;
} conv_tile;

enum { CONV_MOST_TILES = 32, CONV_MOST_CODES = 16, CONV_MOST_IN = 24 };

/* Pairs of one size, whose products are added one after the other. */
typedef struct conv_list {
    conv_tile tile;
    float *out;
    const float *a[CONV_MOST_TILES], *b[CONV_MOST_TILES];
    int64_t count;
} conv_list;

/* Adds the products of a list of at most 32 lanes, which are a multiple of 8 if `across`. */
void ebb__cpu_conv_list_avx2(const conv_list *list);

/* Pixels and images of a row of x, each with those of dy, of 16 channels, that `taps` taps lead to:
 * out[t * tap + j * 16 + i] += x[k * x_row + j] dy[k * 16 - t * dy_back + i], k ascending, for
 * t < taps, j < rows (by the 8), k < deep. What lies so far ahead is fetched from memory. */
typedef struct conv_row {
    const float *x, *dy;
    float *out;
    int64_t rows, deep, taps;
    int64_t x_row, dy_back, tap;
    int64_t x_ahead, dy_ahead;
} conv_row;
enum { CONV_ROW_TAPS = 3, CONV_ROW_LANES = 16 }; /* at most so many taps; so many channels of dy */
void ebb__cpu_conv_row_avx512(const conv_row *row);

typedef struct conv_engine conv_engine;

/* Elements [first, first + len) of a row of n codes as numbers, or of numbers as they are,
 * normalised and without those below 0 if that is asked for. Where they are normalised, the numbers
 * of `channels` channels repeat, and `lanes` of them from `lane` on are wanted. */
typedef struct conv_made {
    const uint8_t *row;
    const float *plain; /* numbers from `first` on; NULL: there are codes */
    int64_t first, len, n;
    int32_t bits;
    bool relu;
    int64_t channels, lane, lanes;
    const float *mean, *scale, *gain, *bias; /* mean NULL: not, which plain ones always are */
} conv_made;
void ebb__cpu_made_rows_avx2(const conv_made *from, float *to);
void ebb__cpu_made_rows_base(const conv_made *from, float *to);

/* Code that was generated for sizes met so far in a call. */
typedef struct conv_codes {
    const conv_engine *engine;
    int32_t count;
    bool failed; /* dry: there is no code for some tile */
    struct {
        conv_tile tile;
        void (*run)(void);
    } at[CONV_MOST_CODES];
} conv_codes;

struct conv_engine {
    bool dry; /* nothing is computed, read or written: only code is made ready */
    /* Adds the products of the list, which is used up. */
    void (*run)(conv_codes *codes, conv_list *list);
    /* to[c * ldt + r] = from[r * ldf + c] for r < rows, c < cols. */
    void (*transpose)(float *to, int64_t ldt, const float *from, int64_t ldf, int64_t rows,
                      int64_t cols);
    void (*make)(const conv_made *from, float *to);
    /* Several taps at once; for engines whose machine may have AVX-512. */
    void (*row)(const conv_row *row);
};
#ifndef EBB_NO_XSMM
extern const conv_engine ebb__conv_xsmm;
/* Generates the code of every tile that the loops come to. */
extern const conv_engine ebb__conv_xsmm_prepare;
#endif
#ifndef EBB_NO_AVX2
extern const conv_engine ebb__conv_avx2;
#endif
extern const conv_engine ebb__conv_base;

static inline void conv_flush(conv_codes *codes, conv_list *list) {
    if (list->count > 0) {
        codes->engine->run(codes, list);
    }
    list->count = 0;
}

/* Adds a pair of tiles `deep` deep to a list of at most `most`. */
static inline void conv_push(conv_codes *codes, conv_list *list, const float *a, const float *b,
                             int64_t deep, int64_t most) {
    if (list->count >= most || list->count >= CONV_MOST_TILES || list->tile.deep != deep) {
        conv_flush(codes, list);
    }
    list->tile.deep = deep;
    list->a[list->count] = a;
    list->b[list->count++] = b;
}

/* Channels that lie side by side: `len` from lane `lane` of a block. */
typedef struct conv_piece {
    int64_t begin; /* the first of them, counted from where a range of channels begins */
    int64_t len, block, lane;
} conv_piece;

/* The piece of channels [first, first + count) of a map that begins `begin` behind first: it ends
 * where a block of the chain or of the map does. */
static inline conv_piece conv_piece_at(const op_map *m, int64_t first, int64_t count,
                                       int64_t begin) {
    int64_t channel = first + begin, lane = channel % m->channels;
    int64_t len = OP_MAP_CHANNELS - begin % OP_MAP_CHANNELS;
    len = len < m->channels - lane ? len : m->channels - lane;
    len = len < count - begin ? len : count - begin;
    return (conv_piece){begin, len, channel / m->channels, lane};
}

/* Channels of results are done in tiles of at most `most` (32 or fewer) that lie in one block of
 * the map and in one group of `of_group` channels: the tile that begins at a channel. */
static inline conv_piece conv_tile_at(const op_map *m, int64_t of_group, int64_t most,
                                      int64_t begin) {
    int64_t lane = begin % m->channels, len = of_group - begin % of_group;
    len = len < most ? len : most;
    len = len < m->channels - lane ? len : m->channels - lane;
    return (conv_piece){begin, len, begin / m->channels, lane};
}

/* How many tiles channels [begin, end) have. */
static inline int64_t conv_tile_count(const op_map *m, int64_t of_group, int64_t most,
                                      int64_t begin, int64_t end) {
    int64_t count = 0;
    for (; begin < end; count++) {
        begin += conv_tile_at(m, of_group, most, begin).len;
    }
    return count;
}

static inline int64_t conv_least(int64_t a, int64_t b) {
    return a < b ? a : b;
}
static inline int64_t conv_most(int64_t a, int64_t b) {
    return a > b ? a : b;
}

static inline int64_t conv_round_lanes(int64_t lanes) {
    return (lanes + 7) / 8 * 8;
}

/* ---- strides ---- */

/* Rows whose pixels are copied so that those which a tap reads, `stride` from each other, lie side
 * by side: where pixel x of them is, and how many pixels such a row takes. */
static inline int64_t conv_copied_at(int64_t wide, int64_t stride, int64_t x) {
    return x % stride * ((wide + stride - 1) / stride) + x / stride;
}
static inline int64_t conv_copied_wide(int64_t wide, int64_t stride) {
    return (wide + stride - 1) / stride * stride;
}

/* Copies a row of x, but for pixels that no tap of a window of `window` pixels meets. */
void ebb__conv_copy_row(const op_map *x, int64_t stride, int64_t window, int64_t pad,
                        const float *from, float *to);

/* ---- x in another form ---- */

/* Where backward's x does not lie as a map: the rows are written as they are needed, into a buffer
 * of some rows. A kernel's own source has this as its first member. */
typedef struct conv_source conv_source;
struct conv_source {
    /* Row y of the block in which some channels lie, of a group of images, [x][n][c] without gaps;
     * other channels than these may be left out. */
    void (*row)(const conv_source *source, int64_t group, const conv_piece *channels, int64_t y,
                float *to);
};

/* A gradient of weights: dw = start + the sum of dy times x. */
typedef struct conv_sums {
    op_conv v;
    const float *dy, *x; /* x: where there is no source */
    int64_t dy_pitch, x_pitch;
    const conv_source *source; /* NULL: x lies as it is */
    const float *start;        /* [K, C, R, S]; NULL: zeros */
    float *result;
} conv_sums;

/* Of a call with the operands c, dy and then, in whatever form, an x of this type; x and source are
 * still to be set. */
conv_sums ebb__conv_sums_of(const op_call *call, const ir_type *x);
size_t ebb__conv_sums_bytes(const op_conv *v, bool source, int members);
/* How often a source is asked for the same row, by one member that does all. */
int64_t ebb__conv_sums_times(const op_conv *v);
/* The share of the call's member, in its workspace. */
void ebb__conv_sums_add(const conv_sums *sums, const op_call *call, conv_codes *codes);

/* ---- the loops, and what workspace they want ---- */
size_t ebb__conv_gather_bytes(const ir_graph *graph, const ir_node_rec *node, int32_t form,
                              int members);
int32_t ebb__conv_gather_shares(const ir_graph *graph, const ir_node_rec *node, int32_t form,
                                int members);
size_t ebb__conv_weights_bytes(const ir_graph *graph, const ir_node_rec *node, int32_t form,
                               int members);
/* device_kernel.pace and extra_bytes of the kernels through libxsmm. */
double ebb__conv_pace(const ir_graph *graph, const ir_node_rec *node);
double ebb__conv_packing(const ir_graph *graph, const ir_node_rec *node);
size_t ebb__conv_narrow_bytes(const ir_graph *graph, const ir_node_rec *node, int32_t form,
                              int members);
void ebb__conv_narrow(const op_call *call, conv_codes *codes);
size_t ebb__conv_norm_bytes(const ir_graph *graph, const ir_node_rec *node, int32_t form,
                            int members);
void ebb__conv_norm(const op_call *call, conv_codes *codes);
void ebb__conv_gather(const op_call *call, conv_codes *codes, bool back);
void ebb__conv_weights(const op_call *call, conv_codes *codes);
/* conv_sparse.c: the same where x lies in a heap. */
size_t ebb__conv_weights_sparse_bytes(const ir_graph *graph, const ir_node_rec *node, int32_t form,
                                      int members);
void ebb__conv_weights_sparse(const op_call *call, conv_codes *codes);

#endif
