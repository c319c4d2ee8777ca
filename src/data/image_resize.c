/* image_resize.c - see image_resize.h.
 *
 * An axis has `in` pixels that become `out`. On a scale on which an input pixel is 2 out wide and
 * an output pixel 2 in, the centres of both lie at whole numbers, and an input pixel counts for an
 * output pixel by how much nearer than 2 max(in, out) their centres are: a whole number, too. */
#include "data/image_resize.h"

#include "base/num.h"

#include <string.h>

typedef struct axis {
    int64_t in, out;
} axis;

static int64_t reach(axis a) {
    return 2 * (a.in > a.out ? a.in : a.out);
}

static int64_t weight(axis a, int64_t i, int64_t o) {
    int64_t apart = (2 * i + 1) * a.out - (2 * o + 1) * a.in;
    return reach(a) - (apart < 0 ? -apart : apart);
}

/* Input pixels [first, end) are those with a weight above 0. */
static int64_t first_tap(axis a, int64_t o) {
    int64_t low = (2 * o + 1) * a.in - reach(a) - a.out;
    return low < 0 ? 0 : low / (2 * a.out) + 1;
}

static int64_t end_tap(axis a, int64_t o) {
    int64_t high = (2 * o + 1) * a.in + reach(a) - a.out, end = (high - 1) / (2 * a.out) + 1;
    return end < a.in ? end : a.in;
}

static uint64_t all_weights(axis a, int64_t o) {
    uint64_t sum = 0;
    for (int64_t i = first_tap(a, o), end = end_tap(a, o); i < end; i++) {
        sum += (uint64_t)weight(a, i, o);
    }
    return sum > 0 ? sum : 1; /* it is: the nearest tap has a weight */
}

ebb_status ebb__image_resizer_init(ebb_ctx *ctx, const image_size *want, image_resizer *out) {
    *out = (image_resizer){.ctx = ctx, .want = *want};
    bool sides = want->height > 0 && want->height <= IMAGE_MOST_RESIZED && want->width > 0 &&
                 want->width <= IMAGE_MOST_RESIZED;
    if (!sides || (want->channels != 1 && want->channels != IMAGE_RGB)) {
        return ebb__fail(ctx, EBB_USAGE,
                         "images cannot be brought to %u x %u pixels of %u channels: there must be "
                         "1 to %d pixels on a side, and 1 channel or 3",
                         want->height, want->width, want->channels, IMAGE_MOST_RESIZED);
    }
    size_t row = (size_t)want->width * IMAGE_RGB;
    TRY(ebb__alloc(ctx, row, sizeof *out->row, &out->row));
    return ebb__alloc(ctx, row * want->height, sizeof *out->sums, &out->sums);
}

void ebb__image_resizer_free(image_resizer *resizer) {
    ebb__free(resizer->ctx, resizer->row);
    ebb__free(resizer->ctx, resizer->sums);
    resizer->row = NULL;
    resizer->sums = NULL;
}

/* The other side of the part of `side` pixels that has the proportions of the result. */
static uint32_t in_proportion(uint32_t side, uint32_t to, uint32_t of, uint32_t most) {
    uint64_t other = ((uint64_t)side * to + of / 2) / of;
    return other < most ? (uint32_t)num_larger(other, 1) : most;
}

void ebb__image_resize_begin(image_resizer *resizer, uint32_t height, uint32_t width) {
    const image_size *want = &resizer->want;
    resizer->height = in_proportion(width, want->height, want->width, height);
    resizer->width = in_proportion(height, want->width, want->height, width);
    resizer->top = (height - resizer->height) / 2;
    resizer->left = (width - resizer->width) / 2;
    resizer->done = 0;
    memset(resizer->sums, 0,
           (size_t)want->height * want->width * IMAGE_RGB * sizeof *resizer->sums);
}

/* A row of the part, resized along x. */
static void resize_along_x(image_resizer *resizer, const uint8_t *row) {
    axis a = {resizer->width, resizer->want.width};
    for (int64_t x = 0; x < a.out; x++) {
        uint64_t sum[IMAGE_RGB] = {0}, all = 0;
        for (int64_t i = first_tap(a, x), end = end_tap(a, x); i < end; i++) {
            uint64_t w = (uint64_t)weight(a, i, x);
            all += w;
            for (int c = 0; c < IMAGE_RGB; c++) {
                sum[c] += w * row[IMAGE_RGB * i + c];
            }
        }
        all = all > 0 ? all : 1; /* it is: the nearest tap has a weight */
        for (int c = 0; c < IMAGE_RGB; c++) {
            resizer->row[IMAGE_RGB * x + c] = (uint16_t)((256 * sum[c] + all / 2) / all);
        }
    }
}

void ebb__image_resize_row(image_resizer *resizer, uint32_t y, const uint8_t *row) {
    if (y < resizer->top || y - resizer->top >= resizer->height) {
        return;
    }
    axis a = {resizer->height, resizer->want.height};
    size_t n = (size_t)resizer->want.width * IMAGE_RGB;
    int64_t at = y - resizer->top;
    resize_along_x(resizer, row + (size_t)resizer->left * IMAGE_RGB);
    while (resizer->done < a.out && end_tap(a, resizer->done) <= at) {
        resizer->done++;
    }
    for (int64_t o = resizer->done; o < a.out && first_tap(a, o) <= at; o++) {
        uint64_t w = (uint64_t)weight(a, at, o), *sums = resizer->sums + (size_t)o * n;
        for (size_t i = 0; i < n; i++) {
            sums[i] += w * resizer->row[i];
        }
    }
}

void ebb__image_resize_end(const image_resizer *resizer, uint8_t *pixels) {
    axis a = {resizer->height, resizer->want.height};
    size_t width = resizer->want.width;
    for (int64_t y = 0; y < a.out; y++) {
        uint64_t all = all_weights(a, y), rgb[IMAGE_RGB];
        for (size_t x = 0; x < width; x++) {
            const uint64_t *sums = resizer->sums + ((size_t)y * width + x) * IMAGE_RGB;
            for (int c = 0; c < IMAGE_RGB; c++) {
                rgb[c] = (sums[c] + 128 * all) / (256 * all);
            }
            if (resizer->want.channels == 1) { /* luma, as ITU-R 601 weighs it, in 1/65536 */
                *pixels++ =
                    (uint8_t)((19595 * rgb[0] + 38470 * rgb[1] + 7471 * rgb[2] + 32768) >> 16);
            } else {
                for (int c = 0; c < IMAGE_RGB; c++) {
                    *pixels++ = (uint8_t)rgb[c];
                }
            }
        }
    }
}
