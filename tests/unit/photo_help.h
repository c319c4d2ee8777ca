/* photo_help.h - PNG and JPEG files for tests, made by the libraries themselves. */
#ifndef TESTS_PHOTO_HELP_H
#define TESTS_PHOTO_HELP_H

#include "image_help.h"

#include <png.h>

#include <jpeglib.h>

/* Rows of `bytes` each; a palette of 256 shades that are turned around. */
static inline void write_png(const char *path, uint32_t height, uint32_t width, int depth, int type,
                             int interlace, const uint8_t *rows, size_t bytes) {
    FILE *file = fopen(path, "wb");
    png_structp png = png_create_write_struct(PNG_LIBPNG_VER_STRING, NULL, NULL, NULL);
    png_infop info = png_create_info_struct(png);
    png_color palette[256];
    assert_true(file != NULL && png != NULL && info != NULL);
    assert_int_equal(setjmp(png_jmpbuf(png)), 0);
    png_init_io(png, file);
    png_set_IHDR(png, info, width, height, depth, type, interlace, PNG_COMPRESSION_TYPE_DEFAULT,
                 PNG_FILTER_TYPE_DEFAULT);
    for (int i = 0; i < 256; i++) {
        palette[i] = (png_color){(uint8_t)(255 - i), (uint8_t)i, (uint8_t)(i / 2)};
    }
    if (type == PNG_COLOR_TYPE_PALETTE) {
        png_set_PLTE(png, info, palette, 1 << depth);
    }
    png_write_info(png, info);
    int passes = png_set_interlace_handling(png);
    for (int pass = 0; pass < passes; pass++) {
        for (uint32_t y = 0; y < height; y++) {
            png_write_row(png, rows + y * bytes);
        }
    }
    png_write_end(png, NULL);
    png_destroy_write_struct(&png, &info);
    assert_int_equal(fclose(file), 0);
}

static inline void write_jpeg(const char *path, uint32_t height, uint32_t width, int channels,
                              J_COLOR_SPACE space, bool progressive, const uint8_t *pixels) {
    FILE *file = fopen(path, "wb");
    struct jpeg_compress_struct cinfo;
    struct jpeg_error_mgr error;
    assert_non_null(file);
    cinfo.err = jpeg_std_error(&error);
    jpeg_create_compress(&cinfo);
    jpeg_stdio_dest(&cinfo, file);
    cinfo.image_width = width;
    cinfo.image_height = height;
    cinfo.input_components = channels;
    cinfo.in_color_space = space;
    jpeg_set_defaults(&cinfo);
    jpeg_set_quality(&cinfo, 100, TRUE);
    if (progressive) {
        jpeg_simple_progression(&cinfo);
    }
    jpeg_start_compress(&cinfo, TRUE);
    while (cinfo.next_scanline < height) {
        JSAMPROW row =
            (JSAMPROW)(uintptr_t)(pixels + cinfo.next_scanline * width * (size_t)channels);
        (void)jpeg_write_scanlines(&cinfo, &row, 1);
    }
    jpeg_finish_compress(&cinfo);
    jpeg_destroy_compress(&cinfo);
    assert_int_equal(fclose(file), 0);
}

#endif
