/* conv_sparse.h - a convolution's x that lies in a heap (heap.h), for conv_weights_sparse and its
 * kernels.
 *
 * The op's operands are c, dy, the heap and then, of every part of x, its bits and their starts.
 * Parts are joined along the blocks of channels. How many blocks a part has follows from its bits:
 * a block has 8 elements or more, so that the last byte of a step is of no other. */
#ifndef OP_CONV_SPARSE_H
#define OP_CONV_SPARSE_H

#include "op/conv.h"
#include "op/heap.h"

enum { CONV_HEAP = 2, CONV_PARTS = 3 };

/* Blocks of the part whose bits have this type, of maps with pixels as x has. */
static inline int32_t op_conv_part_blocks(const op_map *x, const ir_type *bits) {
    return (int32_t)((int64_t)bits->dim[1] * 8 / op_map_block(x));
}

/* x but for its blocks, from dy and the attributes. */
static inline op_map op_conv_sparse_x(const ir_type *dy, const ir_attr *attr) {
    op_map y = op_map_of(dy);
    return (op_map){.groups = y.groups,
                    .high = attr->i[CONV_X_HIGH],
                    .wide = attr->i[CONV_X_WIDE],
                    .images = y.images,
                    .channels = attr->i[CONV_X_LANES]};
}

/* x as a kernel sees it. */
static inline ir_type op_conv_sparse_type(const op_view *in, int32_t n_in, const ir_attr *attr) {
    op_map x = op_conv_sparse_x(&in[1].type, attr);
    for (int32_t i = CONV_PARTS; i < n_in; i += 2) {
        x.blocks += op_conv_part_blocks(&x, &in[i].type);
    }
    return op_map_type(x);
}

#endif
