/* image_augment.c - see image_augment.h. */
#include "data/image_augment.h"

#include <string.h>

rng_key ebb__image_augment_key(uint64_t seed) {
    return ebb__rng_key(seed, "image augment");
}

/* 0 .. sides - 1 */
static uint32_t scale(uint32_t word, uint32_t sides) {
    return (uint32_t)((uint64_t)word * sides >> 32);
}

image_view ebb__image_augment_draw(rng_key key, const image_size *size, const image_augment *how,
                                   uint64_t epoch, uint64_t number) {
    rng_block block = ebb__rng_block(key, (uint32_t)number, (uint32_t)(number >> 32),
                                     (uint32_t)epoch, (uint32_t)(epoch >> 32));
    uint32_t sides = 2 * how->pad + 1;
    image_view view = {.down = scale(block.word[0], sides),
                       .right = scale(block.word[1], sides),
                       .flip = how->flip && scale(block.word[2], 2) == 1};
    if (how->crop > 0 && how->crop < 1) {
        view.cut = ebb__image_crop_draw(key, size, how->crop, epoch, number);
    }
    return view;
}

/* `n` pixels from one list into another, whose pixels follow each other in steps of +C or -C bytes.
 */
static void put_pixels(const uint8_t *from, size_t channels, uint32_t n, ptrdiff_t step,
                       uint8_t *to) {
    if (step > 0) {
        memcpy(to, from, n * channels);
        return;
    }
    for (uint32_t i = 0; i < n; i++, from += channels, to += step) {
        memcpy(to, from, channels);
    }
}

static void put_border(const uint8_t *border, size_t channels, uint32_t n, ptrdiff_t step,
                       uint8_t *to) {
    for (uint32_t i = 0; i < n; i++, to += step) {
        memcpy(to, border, channels);
    }
}

void ebb__image_augment_show(const image_size *size, uint32_t pad, const image_view *view,
                             const uint8_t *border, const uint8_t *image, uint8_t *out) {
    size_t channels = size->channels, row = size->width * channels;
    if (view->cut.height > 0) {
        ebb__image_crop_show(size, &view->cut, view->flip, image, out);
        return;
    }
    ptrdiff_t step = view->flip ? -(ptrdiff_t)channels : (ptrdiff_t)channels;
    /* A row is `before` pixels of border, then `inside` of the image from `from` on, then border.
     */
    uint32_t before = view->right < pad ? pad - view->right : 0;
    uint32_t from = view->right > pad ? view->right - pad : 0;
    uint32_t inside = size->width - before - from, after = from;
    for (uint32_t y = 0; y < size->height; y++) {
        uint32_t below = y + view->down; /* counted from the border's upper edge */
        uint8_t *to = out + y * row + (view->flip ? row - channels : 0);
        if (below < pad || below - pad >= size->height) {
            put_border(border, channels, size->width, step, to);
            continue;
        }
        put_border(border, channels, before, step, to);
        to += (ptrdiff_t)before * step;
        put_pixels(image + (below - pad) * row + from * channels, channels, inside, step, to);
        put_border(border, channels, after, step, to + (ptrdiff_t)inside * step);
    }
}
