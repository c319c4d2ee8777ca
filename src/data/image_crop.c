/* image_crop.c - see image_crop.h.
 *
 * What is drawn goes through products, sums and square roots of doubles, which are the same on
 * every machine, and interpolation through whole numbers. A part is never larger than the image, so
 * that pixels of it are interpolated and never averaged. */
#include "data/image_crop.h"

#include <math.h>
#include <string.h>

/* ---- draws ---- */

enum { TRIES = 10, TRY_SHIFT = 28 /* of a counter whose epochs never come as far */ };
static const double LOG_WIDEST = 0.28768207245178093; /* of 4/3 */

/* exp(x) of |x| at most LOG_WIDEST, to the last bits of a double: libraries differ there. */
static double small_exp(double x) {
    double sum = 1;
    for (int i = 14; i > 0; i--) {
        sum = 1 + sum * x / i;
    }
    return sum;
}

static double unit(uint32_t word) {
    return word * 0x1p-32;
}

/* 0 .. n - 1 */
static uint32_t below(uint32_t word, uint32_t n) {
    return (uint32_t)((uint64_t)word * n >> 32);
}

image_cut ebb__image_crop_draw(rng_key key, const image_size *size, double least, uint64_t epoch,
                               uint64_t number) {
    for (uint32_t i = 1; i <= TRIES; i++) {
        rng_block block =
            ebb__rng_block(key, (uint32_t)number, (uint32_t)(number >> 32), (uint32_t)epoch,
                           (uint32_t)(epoch >> 32) + (i << TRY_SHIFT));
        double share = least + (1 - least) * unit(block.word[0]);
        double area = (double)size->height * size->width * share;
        double ratio = small_exp(LOG_WIDEST * (2 * unit(block.word[1]) - 1));
        double height = floor(sqrt(area / ratio) + 0.5), width = floor(sqrt(area * ratio) + 0.5);
        if (height >= 1 && height <= size->height && width >= 1 && width <= size->width) {
            uint32_t high = (uint32_t)height, wide = (uint32_t)width;
            return (image_cut){.top = below(block.word[2], size->height - high + 1),
                               .left = below(block.word[3], size->width - wide + 1),
                               .height = high,
                               .width = wide};
        }
    }
    return (image_cut){.height = size->height, .width = size->width};
}

/* ---- interpolation ---- */

enum { WEIGHT_BITS = 11, WEIGHT_ONE = 1 << WEIGHT_BITS }; /* 255 of two axes fit 32 bits */

/* Where pixel `o` of `out` has its centre among `in` of them: behind the centre of pixel `at` by
 * `weight` of WEIGHT_ONE; of the last pixel by nothing. */
typedef struct place {
    uint32_t at, weight;
} place;

static place place_of(uint32_t o, uint32_t in, uint32_t out) {
    int64_t centre = (2 * (int64_t)o + 1) * in - out, pixel = 2 * (int64_t)out;
    if (centre <= 0) {
        return (place){0, 0};
    }
    uint32_t at = (uint32_t)(centre / pixel);
    return at >= in - 1 ? (place){in - 1, 0}
                        : (place){at, (uint32_t)(centre % pixel * WEIGHT_ONE / pixel)};
}

static void show_row(const image_size *size, const image_cut *cut, const uint8_t *upper,
                     const uint8_t *lower, uint32_t down, bool flip, uint8_t *out) {
    size_t channels = size->channels;
    for (uint32_t x = 0; x < size->width; x++) {
        place p = place_of(x, cut->width, size->width);
        size_t left = p.at * channels, right = left + (p.weight > 0 ? channels : 0);
        uint8_t *to = out + (flip ? size->width - 1 - x : x) * channels;
        for (size_t c = 0; c < channels; c++) {
            uint32_t above =
                upper[left + c] * (WEIGHT_ONE - p.weight) + upper[right + c] * p.weight;
            uint32_t under =
                lower[left + c] * (WEIGHT_ONE - p.weight) + lower[right + c] * p.weight;
            uint32_t sum = above * (WEIGHT_ONE - down) + under * down;
            to[c] = (uint8_t)((sum + (1U << (2 * WEIGHT_BITS - 1))) >> 2 * WEIGHT_BITS);
        }
    }
}

void ebb__image_crop_show(const image_size *size, const image_cut *cut, bool flip,
                          const uint8_t *image, uint8_t *out) {
    size_t row = (size_t)size->width * size->channels;
    const uint8_t *first = image + cut->top * row + (size_t)cut->left * size->channels;
    for (uint32_t y = 0; y < size->height; y++) {
        place p = place_of(y, cut->height, size->height);
        const uint8_t *upper = first + p.at * row;
        show_row(size, cut, upper, p.weight > 0 ? upper + row : upper, p.weight, flip,
                 out + y * row);
    }
}
