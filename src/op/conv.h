/* conv.h - the sizes of a convolution and where its taps fall, for its ops and their kernels.
 *
 * y[n,k,oy,ox] = bias[k] + the sum of x[n,c,oy*stride+r-pad_y,ox*stride+s-pad_x] w[k,c,r,s] over
 * the channels c of k's group of channels, r and s. Taps outside the image are skipped. */
#ifndef OP_CONV_H
#define OP_CONV_H

#include "op/map.h"

/* Attributes. From the fifth on they say what operands do not tell: the lanes of the result's
 * channels; two sizes, of conv_data the image's, of conv_weights the window's; and of an x that
 * does not lie as a map (conv_sparse.h) its size and lanes of channels. */
enum {
    CONV_STRIDE,
    CONV_PAD_Y,
    CONV_PAD_X,
    CONV_GROUPS,
    CONV_LANES,
    CONV_HIGH,
    CONV_WIDE,
    CONV_X_HIGH,
    CONV_X_WIDE,
    CONV_X_LANES
};

/* A further attribute of conv_weights_norm: whether relu comes last. */
enum { CONV_NORM_RELU = CONV_WIDE + 1 };

/* Further attributes of conv_weights_narrow: the format of its codes (narrow.h), whether relu comes
 * last, and from here on the sizes of x but for its groups, which are those of dy. */
enum { CONV_FORMAT = CONV_WIDE + 1, CONV_RELU, CONV_X };
static inline ir_type op_conv_narrow_x(const ir_type *dy, const ir_attr *attr) {
    const int32_t *x = &attr->i[CONV_X];
    return op_map_type((op_map){dy->dim[0], x[0], x[1], x[2], x[3], x[4]});
}

typedef struct op_conv {
    op_map x, y;
    int32_t groups;
    int32_t inputs, outputs; /* channels of a group, of x and of y */
    int32_t high, wide;      /* of the window: R, S */
    int32_t stride, pad_y, pad_x;
} op_conv;

/* From the types of x, w and y. */
static inline op_conv op_conv_of(const ir_type *x, const ir_type *w, const ir_type *y,
                                 const ir_attr *attr) {
    int32_t groups = attr->i[CONV_GROUPS];
    return (op_conv){.x = op_map_of(x),
                     .y = op_map_of(y),
                     .groups = groups,
                     .inputs = w->dim[1],
                     .outputs = w->dim[0] / groups,
                     .high = w->dim[2],
                     .wide = w->dim[3],
                     .stride = attr->i[CONV_STRIDE],
                     .pad_y = attr->i[CONV_PAD_Y],
                     .pad_x = attr->i[CONV_PAD_X]};
}

/* How many positions a window has along an axis; below 1: it does not fit. */
static inline int64_t op_conv_places(int64_t size, int64_t window, int64_t stride, int64_t pad) {
    return size + 2 * pad < window ? 0 : (size + 2 * pad - window) / stride + 1;
}

#endif
