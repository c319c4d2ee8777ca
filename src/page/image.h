/* image.h - small pictures of pixels as PNG, inside the page itself. */
#ifndef PAGE_IMAGE_H
#define PAGE_IMAGE_H

#include "page/text.h"

typedef struct page_image {
    uint32_t height, width, channels; /* 1 and 2: the first is grey; else red, green, blue */
    const uint8_t *pixels;            /* [Y,X,C] */
} page_image;

/* Appends "data:image/png;base64,...". Larger sides than `most` are made smaller by a whole number:
 * squares of pixels become their mean. */
ebb_status ebb__image_put(page_text *to, const page_image *image, uint32_t most) EBB_MUST_CHECK;

#endif
