/* pack.h - how pack lays out the columns of a matrix, for matmul to read.
 *
 * The N columns are `groups` blocks of `units` columns each (the gates of a cell). A panel holds
 * `lanes` units, as many as the device likes: wide = groups * lanes columns, row after row of K.
 * Element (p, k * wide + g * lanes + j) of the packed value is b(k, g * units + p * lanes + j),
 * zero where the unit does not exist. */
#ifndef OP_PACK_H
#define OP_PACK_H

#include <stdint.h>

enum { OP_MAX_GROUPS = 4, OP_MAX_LANES = 1024 };

/* Integer attributes of matmul; MATMUL_PACKED is the number of columns of a packed b, or 0, and
 * MATMUL_PANEL_LANES how it was packed. */
enum { MATMUL_TRANS_A, MATMUL_TRANS_B, MATMUL_GROUPS, MATMUL_PACKED, MATMUL_PANEL_LANES };

typedef struct op_panels {
    int64_t groups, units, lanes, wide, count;
} op_panels;

/* 0 groups or lanes mean 1. */
static inline op_panels op_panels_of(int64_t columns, int32_t groups, int32_t lanes) {
    int64_t g = groups > 1 ? groups : 1, l = lanes > 1 ? lanes : 1, units = columns / g;
    return (op_panels){
        .groups = g, .units = units, .lanes = l, .wide = g * l, .count = (units + l - 1) / l};
}

/* Where column n of row 0 lies in a packed value whose rows are ld apart. */
static inline int64_t op_panels_at(const op_panels *p, int64_t ld, int64_t n) {
    int64_t unit = n % p->units;
    return unit / p->lanes * ld + n / p->units * p->lanes + unit % p->lanes;
}

#endif
