/* image_card.h - what a net must know of the images that it was trained on, beside its weights: how
 * pixels are normalised, and what its classes are called. A small file of JSON, so that a trained
 * net can be used where the images themselves are not. */
#ifndef DATA_IMAGE_CARD_H
#define DATA_IMAGE_CARD_H

#include "data/image_set.h"

typedef struct image_card {
    ebb_ctx *ctx;
    image_size size;
    uint32_t classes;
    /* By channel, in the units of pixels; a deviation of 0: one colour throughout. */
    double mean[IMAGE_MOST_CHANNELS], deviation[IMAGE_MOST_CHANNELS];
    char *names; /* of the first classes, each with a zero byte after it; NULL: there are none */
    size_t names_bytes;
    uint64_t hash; /* of the file's bytes */
} image_card;

/* Of the set to train on. Its hash is that of the file that would be written. Free also after a
 * failure, as with the others. */
ebb_status ebb__image_card_make(const image_set *set, image_card *out) EBB_MUST_CHECK;
ebb_status ebb__image_card_write(const image_card *card, const char *path) EBB_MUST_CHECK;
/* EBB_MODEL for what is wrong with it. */
ebb_status ebb__image_card_read(ebb_ctx *ctx, const char *path, image_card *out) EBB_MUST_CHECK;
void ebb__image_card_free(image_card *card);

#endif
