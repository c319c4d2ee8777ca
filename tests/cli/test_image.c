/* test_image.c - pictures inside pages: the PNG that was written shows the pixels, read back by
 * libpng; large ones the means of squares; and memory that is refused is said. */
#include "unit/data_help.h"

#include "page/image.h"

#include <png.h>

static int digit(char c) {
    static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    const char *at = strchr(digits, c);
    return at != NULL && c != '\0' ? (int)(at - digits) : -1;
}

/* What the text says; gives the number of bytes. */
static size_t undo(const char *text, uint8_t *out) {
    size_t n = 0, length = strlen(text);
    assert_int_equal(length % 4, 0);
    for (size_t i = 0; i < length; i += 4) {
        int d[4];
        for (int k = 0; k < 4; k++) {
            d[k] = digit(text[i + (size_t)k]);
            assert_true(d[k] >= 0 || (text[i + (size_t)k] == '=' && i + 4 == length && k >= 2));
        }
        out[n++] = (uint8_t)(d[0] << 2 | d[1] >> 4);
        if (d[2] >= 0) {
            out[n++] = (uint8_t)(d[1] << 4 | d[2] >> 2);
        }
        if (d[3] >= 0) {
            out[n++] = (uint8_t)(d[2] << 6 | d[3]);
        }
    }
    return n;
}

/* Puts it into a text and takes it out again, as `channels` bytes a pixel. */
static void there_and_back(ebb_ctx *ctx, const page_image *image, uint32_t most, int channels,
                           uint32_t *height, uint32_t *width, uint8_t *out) {
    static const char head[] = "data:image/png;base64,";
    static uint8_t bytes[1 << 16];
    page_text text = {.ctx = ctx};
    png_image png = {.version = PNG_IMAGE_VERSION};
    assert_int_equal(ebb__image_put(&text, image, most), EBB_OK);
    assert_memory_equal(text.bytes, head, sizeof head - 1);
    size_t n = undo(text.bytes + sizeof head - 1, bytes);
    assert_true(png_image_begin_read_from_memory(&png, bytes, n));
    assert_int_equal(png.format, channels == 1 ? PNG_FORMAT_GRAY : PNG_FORMAT_RGB);
    *height = png.height;
    *width = png.width;
    assert_true(png_image_finish_read(&png, NULL, out, 0, NULL));
    ebb__page_text_fini(&text);
}

static void small_ones_are_as_they_are(void **state) {
    help_room *room = *state;
    uint8_t pixels[7 * 5 * 4], got[7 * 5 * 3];
    uint32_t height, width;
    for (size_t i = 0; i < sizeof pixels; i++) {
        pixels[i] = (uint8_t)(i * 37 + i / 7);
    }
    for (uint32_t channels = 1; channels <= 4; channels++) {
        uint32_t shown = channels < 3 ? 1 : 3;
        page_image image = {7, 5, channels, pixels};
        there_and_back(room->ctx, &image, 7, (int)shown, &height, &width, got);
        assert_true(height == 7 && width == 5);
        for (uint32_t i = 0; i < 35 * shown; i++) {
            assert_int_equal(got[i], pixels[i / shown * channels + i % shown]);
        }
    }
}

/* 5 x 3 to at most 3: squares of 2, of which the last ones are cut off. */
static void large_ones_are_means(void **state) {
    static const uint8_t pixels[15] = {0, 4, 9, 8, 12, 255, 1, 2, 3, 4, 5, 6, 100, 201, 7};
    static const uint8_t means[6] = {6, 132, 3, 5, 151, 7};
    help_room *room = *state;
    uint8_t got[6];
    uint32_t height, width;
    page_image image = {5, 3, 1, pixels};
    there_and_back(room->ctx, &image, 3, 1, &height, &width, got);
    assert_true(height == 3 && width == 2);
    assert_memory_equal(got, means, sizeof means);
}

static void refused_memory_is_said(void **state) {
    help_room *room = *state;
    uint8_t pixels[16 * 16 * 3] = {0};
    page_image image = {16, 16, 3, pixels};
    ebb_status status = EBB_NOMEM;
    for (uint64_t n = 1; status != EBB_OK; n++) {
        page_text text = {.ctx = room->ctx};
        room->ctx->mem.fail_at = n;
        status = ebb__image_put(&text, &image, 16);
        room->ctx->mem.fail_at = 0;
        assert_true(n < 1000 && (status == EBB_OK || status == EBB_NOMEM));
        ebb__page_text_fini(&text);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(small_ones_are_as_they_are, help_setup, help_teardown),
        cmocka_unit_test_setup_teardown(large_ones_are_means, help_setup, help_teardown),
        cmocka_unit_test_setup_teardown(refused_memory_is_said, help_setup, help_teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
