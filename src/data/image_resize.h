/* image_resize.h - an RGB image of any size brought to one size, row by row as it is decoded: the
 * largest part of the wanted proportions is cut out of its middle and resized by a triangle filter
 * that is as wide as two pixels of the smaller grid (of what is made smaller every pixel counts;
 * what is made larger is interpolated; what has the size already stays as it is). Whole numbers
 * throughout: the same bytes on every machine. */
#ifndef DATA_IMAGE_RESIZE_H
#define DATA_IMAGE_RESIZE_H

#include "data/image_files.h"

enum { IMAGE_MOST_RESIZED = 2048, IMAGE_RGB = 3 };

typedef struct image_resizer {
    ebb_ctx *ctx;
    image_size want;                   /* channels: 3, or 1 for shades of grey */
    uint32_t top, left, height, width; /* the part that is cut out of the image at hand */
    uint32_t done;                     /* rows of the result that no further row adds to */
    uint64_t *sums;                    /* [Y,X,3] */
    uint16_t *row;                     /* [X,3], in 1/256 */
} image_resizer;

/* EBB_USAGE for a size that cannot be. Free also after a failure. */
ebb_status ebb__image_resizer_init(ebb_ctx *ctx, const image_size *want,
                                   image_resizer *out) EBB_MUST_CHECK;
void ebb__image_resizer_free(image_resizer *resizer);

/* An image of 1 to IMAGE_MOST_SIDE pixels on a side; then its rows, u8 [width,3], each once, from
 * the first to the last; then what became of it, u8 [Y,X,C]. Nothing here allocates. */
void ebb__image_resize_begin(image_resizer *resizer, uint32_t height, uint32_t width);
void ebb__image_resize_row(image_resizer *resizer, uint32_t y, const uint8_t *row);
void ebb__image_resize_end(const image_resizer *resizer, uint8_t *pixels);

#endif
