/* test_image_crop.c - parts of images: inside the image, of the areas and proportions that were
 * asked for, functions of seed, epoch and number alone; brought to the image's size as
 * interpolation is defined, pixel by pixel. */
#include "image_help.h"

#include "data/image_augment.h"

#include <math.h>

static image_cut draw(uint64_t seed, const image_size *size, double least, uint64_t epoch,
                      uint64_t number) {
    return ebb__image_crop_draw(ebb__image_augment_key(seed), size, least, epoch, number);
}

/* ---- draws ---- */

/* Sides are rounded, by half a pixel at most. */
static void expect_allowed(const image_size *size, double least, const image_cut *cut) {
    double whole = (double)size->height * size->width;
    double more = (cut->height + 0.5) * (cut->width + 0.5), less = (cut->height - 0.5);
    less *= cut->width - 0.5;
    assert_true(cut->height >= 1 && cut->top + cut->height <= size->height);
    assert_true(cut->width >= 1 && cut->left + cut->width <= size->width);
    assert_true(more >= least * whole && less <= whole);
    assert_true((cut->width + 0.5) / (cut->height - 0.5) > 3.0 / 4);
    assert_true((cut->width - 0.5) / (cut->height + 0.5) < 4.0 / 3);
}

static void parts_are_as_asked_for(void **state) {
    (void)state;
    static const image_size sizes[] = {{1, 1, 1}, {2, 2, 3}, {8, 8, 1}, {32, 32, 3}, {28, 33, 1}};
    static const double least[] = {1e-6, 0.08, 0.5, 0.99};
    for (size_t k = 0; k < sizeof sizes / sizeof *sizes; k++) {
        for (size_t j = 0; j < sizeof least / sizeof *least; j++) {
            for (uint64_t i = 0; i < 3000; i++) {
                image_cut cut = draw(1, &sizes[k], least[j], i % 7, i);
                expect_allowed(&sizes[k], least[j], &cut);
            }
        }
    }
    /* No part of such an image has the proportions: it stays whole. */
    image_cut cut = draw(1, &(image_size){1, 100, 1}, 0.99, 0, 0);
    assert_true(cut.top == 0 && cut.left == 0 && cut.height == 1 && cut.width == 100);
}

/* Areas are drawn evenly, as far as they fit; widths and heights alike; all places occur. */
static void draws_are_even(void **state) {
    (void)state;
    enum { N = 20000, SIDE = 64, BINS = 4 };
    const image_size size = {SIDE, SIDE, 1};
    uint32_t areas[BINS] = {0}, wide = 0, high = 0, first[2] = {0}, last[2] = {0}, same[3] = {0};
    for (uint64_t i = 0; i < N; i++) {
        image_cut c = draw(1, &size, 0.1, 9, i);
        image_cut others[] = {draw(2, &size, 0.1, 9, i), draw(1, &size, 0.1, 10, i),
                              draw(1, &size, 0.1, 9, i + ((uint64_t)1 << 32))};
        double share = (double)c.height * c.width / (SIDE * SIDE);
        areas[(int)fmin(BINS - 1, BINS * (share - 0.1) / 0.5)] += share < 0.6;
        wide += c.width > c.height;
        high += c.height > c.width;
        first[0] += c.top == 0;
        first[1] += c.left == 0;
        last[0] += c.top + c.height == SIDE;
        last[1] += c.left + c.width == SIDE;
        for (int k = 0; k < 3; k++) {
            same[k] += memcmp(&c, &others[k], sizeof c) == 0;
        }
    }
    for (int k = 1; k < BINS; k++) { /* up to where the widest still fit */
        assert_in_range(areas[k], areas[0] * 85 / 100, areas[0] * 115 / 100);
    }
    assert_in_range(wide, high * 9 / 10, high * 11 / 10);
    for (int k = 0; k < 2; k++) {
        assert_in_range(first[k], last[k] * 8 / 10, last[k] * 12 / 10);
        assert_true(first[k] > 500);
    }
    assert_true(same[0] < 20 && same[1] < 20 && same[2] < 20);
}

/* The same on every machine. */
static void known_draws(void **state) {
    (void)state;
    static const image_cut want[] = {
        {0, 14, 224, 174}, {22, 16, 194, 202}, {9, 84, 65, 79}, {0, 22, 222, 190}};
    for (uint64_t i = 0; i < sizeof want / sizeof *want; i++) {
        image_cut got = draw(7, &(image_size){224, 224, 3}, 0.08, 3, 1000 * i);
        if (memcmp(&got, &want[i], sizeof got) != 0) {
            fail_msg("draw %d is {%u, %u, %u, %u}", (int)i, got.top, got.left, got.height,
                     got.width);
        }
    }
}

/* ---- what is seen ---- */

static double place(uint32_t o, uint32_t in, uint32_t out) {
    return fmin(fmax((o + 0.5) * in / out - 0.5, 0), in - 1);
}

/* By the definition: between the four pixels around the place, in double. */
static double seen(const image_size *size, const image_cut *cut, const uint8_t *image, uint32_t y,
                   uint32_t x, uint32_t c) {
    double at_y = place(y, cut->height, size->height), at_x = place(x, cut->width, size->width);
    double sum = 0;
    for (uint32_t i = 0; i < cut->height; i++) {
        for (uint32_t j = 0; j < cut->width; j++) {
            double w = fmax(0, 1 - fabs(i - at_y)) * fmax(0, 1 - fabs(j - at_x));
            size_t pixel = (size_t)(cut->top + i) * size->width + cut->left + j;
            sum += w * image[pixel * size->channels + c];
        }
    }
    return sum;
}

static void expect_cut(const image_size *size, const image_cut *cut, const uint8_t *image) {
    enum { GUARD = 0x5a };
    static uint8_t out[2][4096];
    size_t bytes = image_bytes(size), n = size->channels;
    for (int flip = 0; flip < 2; flip++) {
        out[flip][bytes] = GUARD;
        ebb__image_crop_show(size, cut, flip == 1, image, out[flip]);
        assert_int_equal(out[flip][bytes], GUARD);
    }
    for (size_t i = 0; i < bytes; i++) {
        uint32_t c = (uint32_t)(i % n), x = (uint32_t)(i / n % size->width);
        uint32_t y = (uint32_t)(i / n / size->width);
        double want = seen(size, cut, image, y, x, c);
        assert_true(fabs(out[0][i] - want) <= 0.5 + 2 * 255.0 / 2048);
        assert_int_equal(out[1][((size_t)y * size->width + size->width - 1 - x) * n + c],
                         out[0][i]);
    }
}

static void parts_as_defined(void **state) {
    (void)state;
    static uint8_t image[4096];
    for (size_t i = 0; i < sizeof image; i++) {
        image[i] = pixel_of(3, i);
    }
    for (uint32_t channels = 1; channels <= 4; channels++) {
        const image_size sizes[] = {{9, 9, channels}, {7, 12, channels}, {1, 1, channels}};
        for (size_t k = 0; k < sizeof sizes / sizeof *sizes; k++) {
            for (uint64_t i = 0; i < 60; i++) {
                image_cut cut = draw(i, &sizes[k], 0.02, 0, i);
                expect_cut(&sizes[k], &cut, image);
            }
        }
    }
}

/* Nothing is lost of a whole image, and what has one shade keeps it. */
static void whole_images_and_plain_ones_stay(void **state) {
    (void)state;
    static uint8_t image[3 * 64 * 64], out[3 * 64 * 64];
    const image_size size = {64, 64, 3};
    for (size_t i = 0; i < sizeof image; i++) {
        image[i] = pixel_of(5, i);
    }
    ebb__image_crop_show(&size, &(image_cut){0, 0, 64, 64}, false, image, out);
    assert_memory_equal(out, image, sizeof image);
    memset(image, 255, sizeof image);
    for (uint64_t i = 0; i < 20; i++) {
        image_cut cut = draw(3, &size, 0.05, 0, i);
        ebb__image_crop_show(&size, &cut, i % 2 == 1, image, out);
        assert_memory_equal(out, image, sizeof image);
    }
}

/* A least share of 1, or none: images are seen as they are. */
static void no_parts_unless_asked_for(void **state) {
    (void)state;
    const image_size size = {8, 8, 1};
    static const double least[] = {0, 1};
    for (int k = 0; k < 2; k++) {
        const image_augment how = {.crop = least[k]};
        image_view view = ebb__image_augment_draw(ebb__image_augment_key(1), &size, &how, 0, 4);
        assert_true(!image_is_augmented(&how) && view.cut.height == 0);
    }
    const image_augment some = {.crop = 0.999};
    assert_true(image_is_augmented(&some));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(parts_are_as_asked_for),
        cmocka_unit_test(draws_are_even),
        cmocka_unit_test(known_draws),
        cmocka_unit_test(parts_as_defined),
        cmocka_unit_test(whole_images_and_plain_ones_stay),
        cmocka_unit_test(no_parts_unless_asked_for),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
