/* image_rows.h - the rows of an image that cannot be decoded one after the other, in little memory:
 * some rows that follow each other lie there, all of them in a file without a name. What fits
 * wholly needs no file. */
#ifndef DATA_IMAGE_ROWS_H
#define DATA_IMAGE_ROWS_H

#include "base/file.h"

typedef struct image_rows {
    ebb_ctx *ctx;
    const char *path; /* of the image: for messages, and the file lies in its folder */
    size_t bytes;     /* of a row */
    uint32_t rows;    /* in all */
    uint32_t window;  /* in memory, from `first` on */
    uint32_t first;
    bool changed; /* since they were read */
    uint8_t *data;
    file_writer file;
} image_rows;

/* Rows of zeros. Free also after a failure. */
ebb_status ebb__image_rows_init(ebb_ctx *ctx, const char *path, uint32_t rows, size_t bytes,
                                uint32_t window, image_rows *out) EBB_MUST_CHECK;
void ebb__image_rows_free(image_rows *rows);
/* Rows [first, first + n), n at most `window`, until the next call; `change`: they will be written.
 */
ebb_status ebb__image_rows_at(image_rows *rows, uint32_t first, uint32_t n, bool change,
                              uint8_t **out) EBB_MUST_CHECK;

#endif
