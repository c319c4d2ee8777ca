/* test_image_decode.c - PNG and JPEG files: every kind of PNG as RGB, resizing against its
 * definition in floating point, and what is refused: truncated at any byte, too large, CMYK. */
#include "photo_help.h"

#include "data/image_decode.h"

#include <endian.h>
#include <math.h>

#include <zlib.h>

static uint8_t pixels[1 << 16], rows[1 << 16], file[1 << 16];

static ebb_status decode(help_room *room, image_size want) {
    image_decoder decoder;
    ebb_status status = ebb__image_decoder_init(room->ctx, &want, &decoder);
    if (status == EBB_OK) {
        status = ebb__image_decode(&decoder, room->path[0], pixels);
    }
    ebb__image_decoder_free(&decoder);
    return status;
}

static void refuse(help_room *room, const char *part) {
    help_expect(room->ctx, decode(room, (image_size){4, 4, 3}), EBB_DATA, part);
}

/* ---- resizing ---- */

/* How much input pixel i counts for output pixel o: a triangle around the centre of the latter, as
 * wide as two pixels of the coarser of the two grids. */
static double tap(double in, double out, double i, double o) {
    double scale = in / out, width = scale > 1 ? scale : 1;
    double apart = fabs(i + 0.5 - (o + 0.5) * scale) / width;
    return apart < 1 ? 1 - apart : 0;
}

static double resized(const uint8_t *image, uint32_t full, uint32_t top, uint32_t left,
                      uint32_t height, uint32_t width, const image_size *want, uint32_t y,
                      uint32_t x, uint32_t c) {
    double sum = 0, all = 0;
    for (uint32_t i = 0; i < height; i++) {
        double down = tap(height, want->height, i, y);
        for (uint32_t j = 0; down > 0 && j < width; j++) {
            double weight = down * tap(width, want->width, j, x);
            sum += weight * image[((size_t)(top + i) * full + left + j) * 3 + c];
            all += weight;
        }
    }
    return sum / all;
}

static void expect_resized(help_room *room, uint32_t height, uint32_t width, uint32_t side) {
    const image_size want = {side, side, 3};
    uint32_t cut = height < width ? height : width;
    uint32_t top = (height - cut) / 2, left = (width - cut) / 2;
    image_resizer resizer;
    for (size_t i = 0; i < (size_t)height * width * 3; i++) {
        rows[i] = pixel_of(width, i);
    }
    assert_int_equal(ebb__image_resizer_init(room->ctx, &want, &resizer), EBB_OK);
    for (int again = 0; again < 2; again++) {
        ebb__image_resize_begin(&resizer, height, width);
        for (uint32_t y = 0; y < height; y++) {
            ebb__image_resize_row(&resizer, y, rows + (size_t)y * width * 3);
        }
    }
    pixels[side * side * 3] = 77;
    ebb__image_resize_end(&resizer, pixels);
    assert_int_equal(pixels[side * side * 3], 77);
    ebb__image_resizer_free(&resizer);
    for (uint32_t i = 0; i < side * side * 3; i++) {
        double right =
            resized(rows, width, top, left, cut, cut, &want, i / 3 / side, i / 3 % side, i % 3);
        assert_true(fabs(pixels[i] - right) < (side == cut ? 1e-9 : 0.51));
    }
}

static void resizing_as_defined(void **state) {
    help_room *room = *state;
    const uint32_t sides[] = {1, 2, 3, 5, 8, 13, 31, 32, 64};
    for (size_t i = 0; i < 9; i++) {
        for (size_t j = 0; j < 9; j++) {
            for (size_t k = 0; k < 7; k++) {
                expect_resized(room, sides[i], sides[j], sides[k]);
            }
        }
    }
}

static void proportions_are_kept(void **state) {
    help_room *room = *state;
    const image_size want = {10, 20, 3};
    image_resizer resizer;
    assert_int_equal(ebb__image_resizer_init(room->ctx, &want, &resizer), EBB_OK);
    ebb__image_resize_begin(&resizer, 100, 100);
    assert_true(resizer.height == 50 && resizer.width == 100);
    assert_true(resizer.top == 25 && resizer.left == 0);
    ebb__image_resize_begin(&resizer, 1, 20000);
    assert_true(resizer.height == 1 && resizer.width == 2 && resizer.left == 9999);
    ebb__image_resize_begin(&resizer, 20000, 1);
    assert_true(resizer.height == 1 && resizer.width == 1 && resizer.top == 9999);
    ebb__image_resizer_free(&resizer);
    const image_size bad[] = {{0, 4, 3}, {4, 2049, 3}, {4, 4, 2}, {4, 4, 0}};
    for (size_t i = 0; i < 4; i++) {
        help_expect(room->ctx, decode(room, bad[i]), EBB_USAGE, "cannot be brought to");
    }
}

/* The largest sums there can be: white stays white. */
static void largest_image(void **state) {
    help_room *room = *state;
    const image_size want = {1, 1, 1};
    image_resizer resizer;
    memset(rows, 255, 3 * IMAGE_MOST_SIDE);
    assert_int_equal(ebb__image_resizer_init(room->ctx, &want, &resizer), EBB_OK);
    ebb__image_resize_begin(&resizer, IMAGE_MOST_SIDE, IMAGE_MOST_SIDE);
    for (uint32_t y = 0; y < IMAGE_MOST_SIDE; y++) {
        ebb__image_resize_row(&resizer, y, rows);
    }
    ebb__image_resize_end(&resizer, pixels);
    ebb__image_resizer_free(&resizer);
    assert_int_equal(pixels[0], 255);
}

/* ---- PNG ---- */

/* Two rows of three pixels, as they must come out: [2,3,3]. */
static void expect_png(help_room *room, int depth, int type, const uint8_t *from, size_t bytes,
                       const uint8_t *want) {
    for (int interlace = 0; interlace < 2; interlace++) {
        write_png(room->path[0], 2, 3, depth, type,
                  interlace != 0 ? PNG_INTERLACE_ADAM7 : PNG_INTERLACE_NONE, from, bytes);
        assert_int_equal(decode(room, (image_size){2, 3, 3}), EBB_OK);
        assert_memory_equal(pixels, want, 18);
    }
}

static void all_kinds_of_png(void **state) {
    help_room *room = *state;
    const uint8_t rgb[] = {1, 2, 3, 40, 50, 60, 0, 0, 255, 9, 8, 7, 255, 255, 255, 0, 128, 0};
    const uint8_t grey[] = {0, 5, 255, 128, 77, 1};
    const uint8_t spread[] = {0, 0, 0, 5, 5, 5, 255, 255, 255, 128, 128, 128, 77, 77, 77, 1, 1, 1};
    uint8_t alpha[24], deep[36], grey_alpha[12], bits[] = {0xa0, 0x40}, painted[18];
    const uint8_t bits_spread[] = {255, 255, 255, 0,   0,   0,   255, 255, 255,
                                   0,   0,   0,   255, 255, 255, 0,   0,   0};
    for (int i = 0; i < 6; i++) {
        memcpy(alpha + 4 * i, rgb + 3 * i, 3);
        alpha[4 * i + 3] = (uint8_t)(40 * i); /* from wholly transparent on */
        grey_alpha[2 * i] = grey[i];
        grey_alpha[2 * i + 1] = (uint8_t)(255 - 40 * i);
        painted[3 * i] = (uint8_t)(255 - grey[i]);
        painted[3 * i + 1] = grey[i];
        painted[3 * i + 2] = (uint8_t)(grey[i] / 2);
    }
    for (int i = 0; i < 18; i++) {
        deep[2 * i] = deep[2 * i + 1] = rgb[i]; /* 257 times the byte */
    }
    expect_png(room, 8, PNG_COLOR_TYPE_RGB, rgb, 9, rgb);
    expect_png(room, 8, PNG_COLOR_TYPE_RGB_ALPHA, alpha, 12, rgb);
    expect_png(room, 16, PNG_COLOR_TYPE_RGB, deep, 18, rgb);
    expect_png(room, 8, PNG_COLOR_TYPE_GRAY, grey, 3, spread);
    expect_png(room, 8, PNG_COLOR_TYPE_GRAY_ALPHA, grey_alpha, 6, spread);
    expect_png(room, 1, PNG_COLOR_TYPE_GRAY, bits, 1, bits_spread);
    expect_png(room, 8, PNG_COLOR_TYPE_PALETTE, grey, 3, painted);
    assert_int_equal(decode(room, (image_size){2, 3, 1}), EBB_OK);
    for (int i = 0; i < 6; i++) { /* painted, in shades of grey */
        double luma =
            0.299 * painted[3 * i] + 0.587 * painted[3 * i + 1] + 0.114 * painted[3 * i + 2];
        assert_true(fabs(pixels[i] - luma) < 0.51);
    }
}

/* ---- JPEG ---- */

static void kinds_of_jpeg(void **state) {
    help_room *room = *state;
    const uint8_t colour[3] = {200, 90, 30};
    for (int progressive = 0; progressive < 2; progressive++) {
        for (int i = 0; i < 20 * 30; i++) {
            memcpy(rows + 3 * i, colour, 3);
        }
        write_jpeg(room->path[0], 20, 30, 3, JCS_RGB, progressive != 0, rows);
        assert_int_equal(decode(room, (image_size){7, 7, 3}), EBB_OK);
        for (int i = 0; i < 7 * 7 * 3; i++) {
            assert_in_range(pixels[i], colour[i % 3] - 3, colour[i % 3] + 3);
        }
        memset(rows, 140, 20 * 30);
        write_jpeg(room->path[0], 20, 30, 1, JCS_GRAYSCALE, progressive != 0, rows);
        assert_int_equal(decode(room, (image_size){7, 7, 3}), EBB_OK);
        for (int i = 0; i < 7 * 7 * 3; i++) {
            assert_in_range(pixels[i], 138, 142);
        }
    }
    write_jpeg(room->path[0], 20, 30, 4, JCS_CMYK, false, rows);
    refuse(room, "is CMYK");
}

/* The left half dark, the right one light: rows and columns are in their places. */
static void halves_of_a_jpeg(void **state) {
    help_room *room = *state;
    for (int i = 0; i < 64 * 64; i++) {
        memset(rows + 3 * i, i % 64 < 32 ? 20 : 220, 3);
    }
    write_jpeg(room->path[0], 64, 64, 3, JCS_RGB, false, rows);
    assert_int_equal(decode(room, (image_size){64, 64, 3}), EBB_OK);
    for (int i = 0; i < 64 * 64 * 3; i++) {
        int want = i / 3 % 64 < 32 ? 20 : 220;
        assert_in_range(pixels[i], want - 8, want + 8);
    }
}

/* ---- what is refused ---- */

static void every_truncation(void **state) {
    help_room *room = *state;
    for (int form = 0; form < 4; form++) {
        for (size_t i = 0; i < 24 * 24 * 3; i++) {
            rows[i] = pixel_of(5, i);
        }
        if (form < 2) {
            write_png(room->path[0], 24, 24, 8, PNG_COLOR_TYPE_RGB, form, rows, 72);
        } else {
            write_jpeg(room->path[0], 24, 24, 3, JCS_RGB, form == 3, rows);
        }
        size_t size = help_read(room->path[0], file, sizeof file);
        assert_int_equal(decode(room, (image_size){4, 4, 3}), EBB_OK);
        for (size_t cut = size - 1; cut > 0; cut--) {
            assert_int_equal(truncate(room->path[0], (off_t)cut), 0);
            refuse(room, room->path[0]);
        }
    }
    help_write(room->path[0], "", 0);
    refuse(room, "is empty");
    help_write_text(room->path[0], "GIF89a and so on");
    refuse(room, "is neither PNG nor JPEG");
}

static void sizes_beyond(void **state) {
    help_room *room = *state;
    memset(rows, 9, sizeof rows);
    write_png(room->path[0], 1, 20001, 1, PNG_COLOR_TYPE_GRAY, 0, rows, 2501);
    refuse(room, "has 1 x 20001 pixels; 1 to 20000");
    write_png(room->path[0], 1, 20000, 1, PNG_COLOR_TYPE_GRAY, 0, rows, 2500);
    assert_int_equal(decode(room, (image_size){4, 4, 3}), EBB_OK);
    write_png(room->path[0], 8, 8, 1, PNG_COLOR_TYPE_GRAY, PNG_INTERLACE_ADAM7, rows, 0);
    size_t size = help_read(room->path[0], file, sizeof file), at = 0;
    memcpy(file + 16, "\0\0\x3e\x80\0\0\x3e\x80", 8); /* the header: its sides, its sum */
    uint32_t sum = htobe32((uint32_t)crc32(0, file + 12, 17));
    memcpy(file + 29, &sum, sizeof sum);
    help_write(room->path[0], file, size);
    refuse(room, "is interlaced, and decoding it takes more than 256 MiB");
    write_jpeg(room->path[0], 8, 8, 3, JCS_RGB, true, rows);
    size = help_read(room->path[0], file, sizeof file);
    while (file[at] != 0xff || file[at + 1] != 0xc2) { /* the frame: its sides */
        at++;
    }
    memcpy(file + at + 5, "\x3e\x80\x3e\x80", 4);
    help_write(room->path[0], file, size);
    refuse(room, "it is progressive and too large");
    memcpy(file + at + 5, "\x4e\x21\x00\x08", 4);
    help_write(room->path[0], file, size);
    refuse(room, "has 20001 x 8 pixels");
}

/* Images that must be there as a whole, and lie in a file, are those that are decoded by rows. */
static void whole_images_in_little_memory(void **state) {
    help_room *room = *state;
    enum { HIGH = 1024, WIDE = 1504, SIDE = 64, RESULT = SIDE * SIDE * 3 };
    static uint8_t large[HIGH * WIDE * 3], by_rows[RESULT];
    const image_size want = {SIDE, SIDE, 3};
    for (size_t i = 0; i < sizeof large; i++) {
        large[i] = (uint8_t)(i / 3 % WIDE / 7 + i / 3 / WIDE / 5 + i % 3 * 40 + i * i % 13);
    }
    for (int png = 0; png < 2; png++) {
        for (int whole = 0; whole < 2; whole++) {
            if (png == 1) { /* rows that overlap, so that there are enough of them */
                write_png(room->path[0], 2 * HIGH, WIDE, 8, PNG_COLOR_TYPE_RGB,
                          whole == 1 ? PNG_INTERLACE_ADAM7 : PNG_INTERLACE_NONE, large,
                          sizeof large / 3 / HIGH);
            } else {
                write_jpeg(room->path[0], HIGH, WIDE, 3, JCS_RGB, whole == 1, large);
            }
            assert_int_equal(decode(room, want), EBB_OK);
            if (whole == 0) {
                memcpy(by_rows, pixels, RESULT);
            }
        }
        assert_memory_equal(by_rows, pixels, RESULT);
    }
}

static ebb_status decode_job(help_room *room) {
    return decode(room, (image_size){6, 5, 3});
}

static void failures_leave_nothing(void **state) {
    help_room *room = *state;
    memset(rows, 9, sizeof rows);
    write_png(room->path[0], 9, 9, 8, PNG_COLOR_TYPE_RGB, PNG_INTERLACE_ADAM7, rows, 27);
    help_fail_each(room, decode_job);
    write_png(room->path[0], 9, 9, 8, PNG_COLOR_TYPE_PALETTE, 0, rows, 27);
    help_fail_each(room, decode_job);
    for (int progressive = 0; progressive < 2; progressive++) {
        write_jpeg(room->path[0], 9, 9, 3, JCS_RGB, progressive == 1, rows);
        help_fail_each(room, decode_job);
    }
}

int main(void) {
#define TEST(name) cmocka_unit_test_setup_teardown(name, help_setup, image_teardown)
    const struct CMUnitTest tests[] = {
        TEST(resizing_as_defined),
        TEST(proportions_are_kept),
        TEST(largest_image),
        TEST(all_kinds_of_png),
        TEST(kinds_of_jpeg),
        TEST(halves_of_a_jpeg),
        TEST(every_truncation),
        TEST(sizes_beyond),
        TEST(whole_images_in_little_memory),
        TEST(failures_leave_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
