/* conv_cut.h - how the work of a convolution's weight gradient is cut into units (conv_cut.c), for
 * the loops that do it (conv_weights.c). */
#ifndef EBB_DEVICE_CPU_CONV_CUT_H
#define EBB_DEVICE_CPU_CONV_CUT_H

#include "device/cpu/conv.h"

enum {
    CONV_MOST_SIDE = 32,  /* tiles of a side, in a unit */
    CONV_LEAST_LANES = 8, /* of part of a block */
};

/* Tiles of dy and of x in a unit, parts of the taps, and the most channels of a tile of x. */
typedef struct conv_cut {
    int64_t k, c, parts, lanes;
} conv_cut;

/* What follows from a cut. */
typedef struct conv_cut_sizes {
    int64_t units;        /* that members share */
    int64_t tile_floats;  /* of a tile's sums, of one tap */
    int64_t sums_floats;  /* of a unit */
    int64_t strip_rows;   /* rows of dy that go through all tiles before the next */
    int64_t strip_pixels; /* where a strip is one row: of them at most about so many */
    int64_t ring_rows;    /* rows of x that are held for a strip, of each tile and group */
    int64_t row_floats;   /* of one of them */
    int64_t groups_held;  /* groups of images of the map that a group of 8 of the chain may touch */
    int64_t member_floats; /* workspace of a member: sums, then rows of x if they are held */
} conv_cut_sizes;

static inline int64_t conv_taps(const op_conv *v) {
    return (int64_t)v->high * v->wide;
}

static inline int64_t conv_up(int64_t count, int64_t of) {
    return (count + of - 1) / of;
}

/* Are rows of x copied by remainders of the stride? */
bool ebb__conv_copies(const op_conv *v);
/* The best cut for so many members; holds: rows of x are copied or made by a source. */
conv_cut ebb__conv_cut_of(const op_conv *v, bool holds, int members);
conv_cut_sizes ebb__conv_cut_sizes(const op_conv *v, bool holds, const conv_cut *cut);

#endif
