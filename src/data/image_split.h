/* image_split.h - which images of one set are held back for validation, where there is no other to
 * validate on. Each is drawn by (seed, number of the image). A class that comes to have an image
 * less than its share, or some images more, is put right by its next image: so every class keeps
 * its share, and one that is large enough for an image to be held back has one. */
#ifndef DATA_IMAGE_SPLIT_H
#define DATA_IMAGE_SPLIT_H

#include "base/ctx.h"
#include "base/rng.h"

enum { IMAGE_WHOLE = 1000000 }; /* shares are in millionths */
enum { IMAGE_AHEAD = 5 };       /* a class has fewer images beyond its share: room for chance */

typedef struct image_split {
    ebb_ctx *ctx;
    rng_key key;
    int32_t share;
    uint64_t number; /* of the next image */
    int32_t *owed;   /* of each class, in millionths of an image */
} image_split;

/* A share of 1 to IMAGE_WHOLE - 1. Free also after a failure. */
ebb_status ebb__image_split_init(ebb_ctx *ctx, uint64_t seed, uint32_t share, uint32_t classes,
                                 image_split *out) EBB_MUST_CHECK;
/* Whether the next image, of this label, is held back: to be asked for each in turn. */
bool ebb__image_split_next(image_split *split, int32_t label);
void ebb__image_split_free(image_split *split);

#endif
