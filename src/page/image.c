/* image.c - see image.h. PNG by libpng, whose memory comes from base/alloc; its bytes become text
 * as they are made. */
#include "page/image.h"

#include <png.h>
#include <setjmp.h>
#include <string.h>

typedef struct image_writer {
    page_text *to;
    ebb_status status; /* of the first failure */
    uint8_t rest[3];   /* bytes that do not fill four characters yet */
    int n_rest;
} image_writer;

/* ---- base64 ---- */

static ebb_status put_group(image_writer *w, const uint8_t in[3], int n) {
    static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    unsigned bits = (unsigned)in[0] << 16 | (unsigned)in[1] << 8 | in[2];
    char out[5] = {digits[bits >> 18], digits[bits >> 12 & 63],
                   n > 1 ? digits[bits >> 6 & 63] : '=', n > 2 ? digits[bits & 63] : '=', '\0'};
    return ebb__page_put(w->to, "%s", out);
}

static ebb_status put_bytes(image_writer *w, const uint8_t *bytes, size_t n) {
    for (size_t i = 0; i < n; i++) {
        w->rest[w->n_rest++] = bytes[i];
        if (w->n_rest == 3) {
            TRY(put_group(w, w->rest, 3));
            w->n_rest = 0;
        }
    }
    return EBB_OK;
}

static ebb_status end_bytes(image_writer *w) {
    if (w->n_rest == 0) {
        return EBB_OK;
    }
    memset(w->rest + w->n_rest, 0, sizeof w->rest - (size_t)w->n_rest);
    return put_group(w, w->rest, w->n_rest);
}

/* ---- libpng ---- */

static void on_error(png_structp png, png_const_charp why) {
    image_writer *w = png_get_error_ptr(png);
    if (w->status == EBB_OK) {
        w->status = ebb__fail(w->to->ctx, EBB_INTERNAL, "libpng: %s", why);
    }
    png_longjmp(png, 1);
}

static void on_warning(png_structp png, png_const_charp why) {
    (void)png;
    (void)why;
}

static png_voidp take(png_structp png, png_alloc_size_t bytes) {
    image_writer *w = png_get_mem_ptr(png);
    void *block = NULL;
    ebb_status status = ebb__alloc(w->to->ctx, bytes, 1, &block);
    w->status = w->status == EBB_OK ? status : w->status;
    return status == EBB_OK ? block : NULL;
}

static void give_back(png_structp png, png_voidp block) {
    image_writer *w = png_get_mem_ptr(png);
    ebb__free(w->to->ctx, block);
}

static void write_bytes(png_structp png, png_bytep data, size_t bytes) {
    image_writer *w = png_get_io_ptr(png);
    if (w->status == EBB_OK) {
        w->status = put_bytes(w, data, bytes);
    }
    if (w->status != EBB_OK) {
        png_error(png, "nothing more can be written");
    }
}

static void flush_bytes(png_structp png) {
    (void)png;
}

/* ---- pixels ---- */

/* The mean of a square of `side` pixels, as far as it lies in the image. */
static uint8_t mean_of(const page_image *image, uint32_t y, uint32_t x, uint32_t c, uint32_t side) {
    uint64_t sum = 0, n = 0;
    for (uint32_t i = y * side; i < (y + 1) * side && i < image->height; i++) {
        for (uint32_t k = x * side; k < (x + 1) * side && k < image->width; k++) {
            sum += image->pixels[((size_t)i * image->width + k) * image->channels + c];
            n++;
        }
    }
    n = n > 0 ? n : 1; /* it is: a square begins in the image */
    return (uint8_t)((sum + n / 2) / n);
}

typedef struct small_image {
    const page_image *from;
    uint32_t side, height, width, channels; /* side of the squares that became a pixel */
    uint8_t *row;
} small_image;

static small_image shrink(const page_image *image, uint32_t most) {
    uint32_t longest = image->height > image->width ? image->height : image->width;
    uint32_t side = (longest + most - 1) / most;
    return (small_image){.from = image,
                         .side = side,
                         .height = (image->height + side - 1) / side,
                         .width = (image->width + side - 1) / side,
                         .channels = image->channels < 3 ? 1 : 3};
}

/* Comes back from anywhere in the library if it fails. */
static ebb_status write_image(image_writer *w, png_structp png, png_infop info,
                              const small_image *s) {
    if (setjmp(png_jmpbuf(png)) != 0) {
        return w->status;
    }
    png_set_write_fn(png, w, write_bytes, flush_bytes);
    png_set_IHDR(png, info, s->width, s->height, 8,
                 s->channels == 1 ? PNG_COLOR_TYPE_GRAY : PNG_COLOR_TYPE_RGB, PNG_INTERLACE_NONE,
                 PNG_COMPRESSION_TYPE_DEFAULT, PNG_FILTER_TYPE_DEFAULT);
    png_write_info(png, info);
    for (uint32_t y = 0; y < s->height; y++) {
        for (uint32_t i = 0; i < s->width * s->channels; i++) {
            s->row[i] = mean_of(s->from, y, i / s->channels, i % s->channels, s->side);
        }
        png_write_row(png, s->row);
    }
    png_write_end(png, NULL);
    return w->status;
}

ebb_status ebb__image_put(page_text *to, const page_image *image, uint32_t most) {
    image_writer w = {.to = to};
    small_image s = shrink(image, most);
    png_infop info = NULL;
    ebb_status status = EBB_OK;
    TRY(ebb__page_put(to, "data:image/png;base64,"));
    TRY(ebb__alloc(to->ctx, s.width, s.channels, &s.row));
    png_structp png = png_create_write_struct_2(PNG_LIBPNG_VER_STRING, &w, on_error, on_warning, &w,
                                                take, give_back);
    info = png != NULL ? png_create_info_struct(png) : NULL;
    if (info == NULL) {
        status = w.status != EBB_OK ? w.status
                                    : ebb__fail(to->ctx, EBB_INTERNAL, "libpng does not begin");
    } else {
        status = write_image(&w, png, info, &s);
    }
    png_destroy_write_struct(&png, &info);
    ebb__free(to->ctx, s.row);
    return status == EBB_OK ? end_bytes(&w) : status;
}
