/* image_batches.h - batches of images by number. A batch is a function of seed and step alone: what
 * is resumed, and whoever fills which rows of it, changes nothing.
 *
 * To train, the images of a set are shuffled anew in every epoch and cut into batches of N; what is
 * left over at the end of an epoch is left out of it, and a set of fewer than N images is refused.
 * Each image is seen as image_augment.h draws it. To validate, images come in the order of the set,
 * as they are, and rows of the last batch that have no image are black with the label -1, which a
 * loss ignores. */
#ifndef DATA_IMAGE_BATCHES_H
#define DATA_IMAGE_BATCHES_H

#include "data/image_augment.h"
#include "data/image_set.h"

#define IMAGE_NONE UINT64_MAX /* no image */

typedef struct image_batch_options {
    uint32_t images;       /* N, of a batch */
    bool train;            /* else to validate */
    uint64_t seed;         /* of order and augmentation, to train */
    image_augment augment; /* to train */
} image_batch_options;

typedef struct image_batches {
    const image_set *set;
    image_batch_options how;
    uint64_t batches; /* of an epoch; step s is batch s % batches of epoch s / batches */
    rng_key key;
    uint8_t border[IMAGE_MOST_CHANNELS];
    uint8_t *staging; /* one record */
} image_batches;

/* Bytes of the staging memory: one image of this size, and its label. */
static inline size_t image_batches_bytes(const image_size *size) {
    return IMAGE_LABEL + image_bytes(size);
}

/* `set` and `staging`, of so many bytes, must outlive it; staging may be NULL until something is
 * filled in. EBB_DATA if the set is too small, EBB_USAGE for a batch of 0 or beyond 2^31 images, a
 * border as wide as the images, or parts of images and a border. */
ebb_status ebb__image_batches_init(const image_set *set, const image_batch_options *options,
                                   void *staging, image_batches *out) EBB_MUST_CHECK;
/* The number, in the set, of the image in a row of a step's batch; IMAGE_NONE: there is none. */
uint64_t ebb__image_batches_at(const image_batches *batches, uint64_t step, uint32_t row);
/* Rows [first, first + n) of a step's batch: pixels u8 [n,Y,X,C], labels [n]; first + n is at most
 * N. *counted (may be NULL): labels that are not -1. Allocates nothing. Several threads may fill
 * rows at once, each through a copy of `batches` that has a staging memory of its own. */
ebb_status ebb__image_batches_fill(const image_batches *batches, uint64_t step, uint32_t first,
                                   uint32_t n, uint8_t *pixels, int32_t *labels,
                                   uint64_t *counted) EBB_MUST_CHECK;

#endif
