/* image_augment.h - images seen anew in every epoch: shifted by up to `pad` pixels (as a random
 * crop of the image with a border of so many around it) or a part of them enlarged (image_crop.h),
 * and turned left to right, each with probability one half. How an image is seen is a function of
 * (seed, epoch, number of the image) alone. */
#ifndef DATA_IMAGE_AUGMENT_H
#define DATA_IMAGE_AUGMENT_H

#include "base/rng.h"
#include "data/image_crop.h"

typedef struct image_augment {
    uint32_t pad;  /* 0: images are not shifted */
    bool flip;     /* some are turned left to right */
    bool pad_mean; /* the border has the set's mean, rounded, by channel; else it is 0 */
    double crop;   /* least share of its area that a part of an image has, which is seen instead of
                      it; 0 or 1: the whole is. Not with `pad` */
} image_augment;

/* Whether any image is seen otherwise than it is. */
static inline bool image_is_augmented(const image_augment *how) {
    return how->pad > 0 || how->flip || (how->crop > 0 && how->crop < 1);
}

/* How one image is seen: the pixel (y, x) is what lies at (y + down - pad, x + right - pad) of the
 * image; with `flip`, what would have been at (y, width - 1 - x). */
typedef struct image_view {
    uint32_t down, right; /* 0 .. 2 pad */
    bool flip;
    image_cut cut; /* what is seen instead of the image; of height 0: the image */
} image_view;

rng_key ebb__image_augment_key(uint64_t seed);
image_view ebb__image_augment_draw(rng_key key, const image_size *size, const image_augment *how,
                                   uint64_t epoch, uint64_t number);
/* u8 [Y,X,C] from `image` to `out`, which do not overlap; `border` has a byte for each channel. */
void ebb__image_augment_show(const image_size *size, uint32_t pad, const image_view *view,
                             const uint8_t *border, const uint8_t *image, uint8_t *out);

#endif
