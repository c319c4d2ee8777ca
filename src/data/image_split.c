/* image_split.c - see image_split.h. */
#include "data/image_split.h"

#include "base/alloc.h"

enum { AHEAD = IMAGE_AHEAD - 1 };

ebb_status ebb__image_split_init(ebb_ctx *ctx, uint64_t seed, uint32_t share, uint32_t classes,
                                 image_split *out) {
    *out = (image_split){
        .ctx = ctx, .key = ebb__rng_key(seed, "image split"), .share = (int32_t)share};
    if (share == 0 || share >= IMAGE_WHOLE) {
        return ebb__fail(ctx, EBB_USAGE,
                         "a share of %g of the images cannot be held back for validation; choose "
                         "one above 0 and below 1",
                         (double)share / IMAGE_WHOLE);
    }
    return ebb__alloc(ctx, classes, sizeof *out->owed, &out->owed);
}

void ebb__image_split_free(image_split *split) {
    ebb__free(split->ctx, split->owed);
    split->owed = NULL;
}

bool ebb__image_split_next(image_split *split, int32_t label) {
    int32_t *owed = &split->owed[label]; /* above -(AHEAD + 1) images, below one */
    uint32_t low = (uint32_t)split->number, high = (uint32_t)(split->number >> 32);
    uint32_t word = ebb__rng_block(split->key, low, high, 0, 0).word[0];
    bool drawn = (int32_t)((uint64_t)word * IMAGE_WHOLE >> 32) < split->share;
    bool too_many = *owed <= -AHEAD * IMAGE_WHOLE, too_few = *owed + split->share >= IMAGE_WHOLE;
    bool held = too_few || (drawn && !too_many);
    *owed += split->share - (held ? IMAGE_WHOLE : 0);
    split->number++;
    return held;
}
