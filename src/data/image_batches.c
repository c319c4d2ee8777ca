/* image_batches.c - see image_batches.h. It keeps no position: a row is a function of its step and
 * its number, which is what resuming needs. */
#include "data/image_batches.h"

#include "data/batcher.h"
#include "data/shuffle.h"

#include <string.h>

static ebb_status check_options(const image_set *set, const image_batch_options *how) {
    const image_size *size = &set->facts.size;
    if (how->images == 0 || how->images > INT32_MAX) {
        return ebb__fail(set->ctx, EBB_USAGE,
                         "batches of %u images: there must be 1 to 2^31 - 1 of them", how->images);
    }
    if (how->train && (how->augment.pad >= size->height || how->augment.pad >= size->width)) {
        return ebb__fail(
            set->ctx, EBB_USAGE,
            "images of %u x %u pixels cannot be shifted by up to %u, or nothing of them "
            "may be left; choose less",
            size->height, size->width, how->augment.pad);
    }
    if (how->train && how->augment.pad > 0 && how->augment.crop > 0 && how->augment.crop < 1) {
        return ebb__fail(set->ctx, EBB_USAGE,
                         "images are shifted, or parts of them are seen, not both; choose one");
    }
    if (how->train && set->facts.count < how->images) {
        return ebb__fail(set->ctx, EBB_DATA,
                         "image set %s: has %llu images to train on, fewer than the %u of a batch; "
                         "choose a smaller batch",
                         set->path, (unsigned long long)set->facts.count, how->images);
    }
    return EBB_OK;
}

ebb_status ebb__image_batches_init(const image_set *set, const image_batch_options *options,
                                   void *staging, image_batches *out) {
    TRY(check_options(set, options));
    uint64_t count = set->facts.count, whole = count / options->images;
    bool rest = !options->train && count % options->images != 0;
    *out = (image_batches){.set = set,
                           .how = *options,
                           .batches = whole + rest,
                           .key = ebb__image_augment_key(options->seed),
                           .staging = staging};
    for (uint32_t c = 0; c < set->facts.size.channels && options->augment.pad_mean; c++) {
        out->border[c] = (uint8_t)(ebb__image_mean(&set->facts, c) + 0.5);
    }
    return EBB_OK;
}

/* ---- order ---- */

static data_shuffle order_of(const image_batches *b, uint64_t step) {
    return ebb__shuffle_make(b->how.seed, "images", step / b->batches, 0, b->set->facts.count);
}

static uint64_t number_of(const image_batches *b, const data_shuffle *order, uint64_t step,
                          uint32_t row) {
    uint64_t place = step % b->batches * b->how.images + row;
    if (b->how.train) {
        return ebb__shuffle_at(order, place);
    }
    return place < b->set->facts.count ? place : IMAGE_NONE;
}

uint64_t ebb__image_batches_at(const image_batches *batches, uint64_t step, uint32_t row) {
    data_shuffle order = order_of(batches, step);
    return number_of(batches, &order, step, row);
}

/* ---- filling ---- */

static ebb_status fill_row(const image_batches *b, uint64_t epoch, uint64_t number, uint8_t *pixels,
                           int32_t *label) {
    const image_augment *how = &b->how.augment;
    const image_size *size = &b->set->facts.size;
    TRY(ebb__image_set_read(b->set, number, b->staging, label));
    if (b->how.train && image_is_augmented(how)) {
        image_view view = ebb__image_augment_draw(b->key, size, how, epoch, number);
        ebb__image_augment_show(size, how->pad, &view, b->border, b->staging + IMAGE_LABEL, pixels);
    } else {
        memcpy(pixels, b->staging + IMAGE_LABEL, image_bytes(size));
    }
    return EBB_OK;
}

ebb_status ebb__image_batches_fill(const image_batches *batches, uint64_t step, uint32_t first,
                                   uint32_t n, uint8_t *pixels, int32_t *labels,
                                   uint64_t *counted) {
    data_shuffle order = order_of(batches, step);
    uint64_t total = 0;
    size_t each = image_bytes(&batches->set->facts.size);
    for (uint32_t i = 0; i < n; i++) {
        uint64_t number = number_of(batches, &order, step, first + i);
        if (number == IMAGE_NONE) {
            memset(pixels + i * each, 0, each);
            labels[i] = BATCH_IGNORED;
            continue;
        }
        TRY(fill_row(batches, step / batches->batches, number, pixels + i * each, &labels[i]));
        total++;
    }
    if (counted != NULL) {
        *counted = total;
    }
    return EBB_OK;
}
