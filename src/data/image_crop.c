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

/* Pixels of an axis, one after the other: the centre of each of `out` lies behind that of pixel
 * `at` of the part's `in` by `rest` in units of which `pixel` are one; before the first if below 0.
 */
typedef struct axis {
    int64_t rest, step, pixel;
    uint64_t inverse; /* of pixel: rest times it is a weight and 32 bits behind the point */
    uint32_t at, last;
} axis;

static axis axis_start(uint32_t in, uint32_t out) {
    int64_t pixel = 2 * (int64_t)out;
    return (axis){.rest = (int64_t)in - out,
                  .step = 2 * (int64_t)in,
                  .pixel = pixel,
                  .inverse = ((uint64_t)WEIGHT_ONE << 32) / (uint64_t)pixel,
                  .last = in - 1};
}

static void axis_next(axis *a) {
    a->rest += a->step; /* at most a pixel */
    if (a->rest >= a->pixel) {
        a->rest -= a->pixel;
        a->at++;
    }
}

/* How much the pixel behind `at` counts, of WEIGHT_ONE; 0 also where there is none. */
static uint32_t axis_weight(const axis *a) {
    return a->rest <= 0 || a->at >= a->last ? 0 : (uint32_t)((uint64_t)a->rest * a->inverse >> 32);
}

static void show_row(const image_size *size, uint32_t width, const uint8_t *upper,
                     const uint8_t *lower, uint32_t down, bool flip, uint8_t *out) {
    size_t channels = size->channels;
    axis a = axis_start(width, size->width);
    for (uint32_t x = 0; x < size->width; x++, axis_next(&a)) {
        uint32_t w = axis_weight(&a);
        size_t left = a.at * channels, right = left + (w > 0 ? channels : 0);
        uint8_t *to = out + (flip ? size->width - 1 - x : x) * channels;
        for (size_t c = 0; c < channels; c++) {
            uint32_t above = upper[left + c] * (WEIGHT_ONE - w) + upper[right + c] * w;
            uint32_t under = lower[left + c] * (WEIGHT_ONE - w) + lower[right + c] * w;
            uint32_t sum = above * (WEIGHT_ONE - down) + under * down;
            to[c] = (uint8_t)((sum + (1U << (2 * WEIGHT_BITS - 1))) >> 2 * WEIGHT_BITS);
        }
    }
}

void ebb__image_crop_show(const image_size *size, const image_cut *cut, bool flip,
                          const uint8_t *image, uint8_t *out) {
    size_t row = (size_t)size->width * size->channels;
    const uint8_t *first = image + cut->top * row + (size_t)cut->left * size->channels;
    axis a = axis_start(cut->height, size->height);
    for (uint32_t y = 0; y < size->height; y++, axis_next(&a)) {
        uint32_t w = axis_weight(&a);
        const uint8_t *upper = first + a.at * row;
        show_row(size, cut->width, upper, w > 0 ? upper + row : upper, w, flip, out + y * row);
    }
}
