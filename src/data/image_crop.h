/* image_crop.h - a random part of an image, brought to the size of the whole: as torchvision's
 * RandomResizedCrop does with the images at hand. The part has a share of the area between `least`
 * and 1, and is between 3/4 and 4/3 as wide as it is high; where ten draws find none inside the
 * image, it is the image itself. */
#ifndef DATA_IMAGE_CROP_H
#define DATA_IMAGE_CROP_H

#include "base/rng.h"
#include "data/image_files.h"

typedef struct image_cut {
    uint32_t top, left, height, width;
} image_cut;

/* Of image `number` in an epoch; `least` is above 0 and below 1. The same part on every machine. */
image_cut ebb__image_crop_draw(rng_key key, const image_size *size, double least, uint64_t epoch,
                               uint64_t number);
/* The part, interpolated between its pixels; `flip`: turned left to right. A part that is the whole
 * image stays as it is. u8 [Y,X,C] from `image` to `out`, which do not overlap. */
void ebb__image_crop_show(const image_size *size, const image_cut *cut, bool flip,
                          const uint8_t *image, uint8_t *out);

#endif
