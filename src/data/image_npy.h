/* image_npy.h - what the header of a NumPy file (.npy) says: of what its elements are, and how many
 * there are along each axis.
 *
 *   93 "NUMPY", version (2 bytes), length of the text (16 bits; from version 2 on 32), then a text
 *   such as {'descr': '|u1', 'fortran_order': False, 'shape': (60000, 28, 28), }, then elements
 */
#ifndef DATA_IMAGE_NPY_H
#define DATA_IMAGE_NPY_H

#include "base/ctx.h"

enum { NPY_MOST_HEAD = 4096, NPY_MOST_RANK = 4 };

typedef struct npy_head {
    uint32_t bytes;   /* of the header, before the first element */
    bool is_signed;   /* whole numbers, with a sign or without */
    uint32_t element; /* bytes of each: 1, 2, 4 or 8; little-endian */
    uint32_t rank;
    uint64_t dim[NPY_MOST_RANK]; /* their product fits 63 bits */
} npy_head;

/* Whether a file that begins so is one. */
bool ebb__npy_known(const uint8_t *bytes, size_t n);
/* From its first n bytes, at most NPY_MOST_HEAD of which are looked at. EBB_DATA with a sentence if
 * it is not an array of whole numbers in C order, or lies; `what`: "image file". */
ebb_status ebb__npy_read(ebb_ctx *ctx, const char *what, const char *path, const uint8_t *bytes,
                         size_t n, npy_head *out) EBB_MUST_CHECK;

#endif
