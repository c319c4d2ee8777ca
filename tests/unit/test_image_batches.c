/* test_image_batches.c - batches of images: each image once an epoch, in an order and seen in a way
 * that are functions of seed, epoch and number, whoever fills which rows; shifts and turns against
 * their definition, pixel by pixel; the last batches; what is refused. */
#include "image_help.h"

#include "data/batcher.h"
#include "data/image_batches.h"

enum { MOST_IMAGES = 200, MOST_BYTES = 64 << 10, GUARD = 0x5a };

static void open_set(help_room *room, uint32_t n, uint32_t height, uint32_t width, image_set *out) {
    const image_choice all = {.classes = 0};
    image_files files;
    put_idx(room, n, height, width, 5);
    assert_int_equal(find_in(room, IMAGE_TRAIN, &files), EBB_OK);
    assert_int_equal(ebb__image_set_ensure(&files, &all, room->path[0], out), EBB_OK);
    ebb__image_files_free(&files);
}

/* ---- how an image is seen ---- */

/* By the definition: the image with a border, cut out, turned. */
static uint8_t seen(const image_size *size, uint32_t pad, const image_view *view,
                    const uint8_t *border, const uint8_t *image, uint32_t y, uint32_t x,
                    uint32_t c) {
    x = view->flip ? size->width - 1 - x : x;
    int64_t from_y = (int64_t)y + view->down - pad, from_x = (int64_t)x + view->right - pad;
    bool inside = from_y >= 0 && from_y < size->height && from_x >= 0 && from_x < size->width;
    return inside ? image[((size_t)from_y * size->width + (size_t)from_x) * size->channels + c]
                  : border[c];
}

static void expect_view(const image_size *size, uint32_t pad, const image_view *view,
                        const uint8_t *image) {
    static uint8_t out[4096];
    const uint8_t border[IMAGE_MOST_CHANNELS] = {251, 252, 253, 254};
    size_t bytes = image_bytes(size);
    assert_true(bytes < sizeof out);
    memset(out, 1, bytes);
    out[bytes] = GUARD;
    ebb__image_augment_show(size, pad, view, border, image, out);
    assert_int_equal(out[bytes], GUARD);
    for (uint32_t y = 0; y < size->height; y++) {
        for (uint32_t x = 0; x < size->width; x++) {
            for (uint32_t c = 0; c < size->channels; c++) {
                assert_int_equal(out[((size_t)y * size->width + x) * size->channels + c],
                                 seen(size, pad, view, border, image, y, x, c));
            }
        }
    }
}

static void views_as_defined(void **state) {
    (void)state;
    static uint8_t image[4096];
    for (size_t i = 0; i < sizeof image; i++) {
        image[i] = pixel_of(3, i);
    }
    for (uint32_t channels = 1; channels <= IMAGE_MOST_CHANNELS; channels++) {
        for (uint32_t pad = 0; pad < 5; pad++) {
            for (uint32_t place = 0; place < (2 * pad + 1) * (2 * pad + 1) * 2; place++) {
                uint32_t sides = 2 * pad + 1;
                image_view view = {
                    .down = place / 2 / sides, .right = place / 2 % sides, .flip = place % 2 == 1};
                expect_view(&(image_size){5, 7, channels}, pad, &view, image);
                expect_view(&(image_size){8, 5, channels}, pad, &view, image);
            }
        }
    }
    expect_view(&(image_size){1, 1, 1}, 0, &(image_view){.flip = true}, image);
}

/* Each place and turn about equally often; other seeds, epochs and images are seen otherwise. */
static void draws_are_even(void **state) {
    (void)state;
    enum { N = 40000, PAD = 2, SIDES = 2 * PAD + 1, PLACES = SIDES * SIDES * 2 };
    const image_augment how = {.pad = PAD, .flip = true}, still = {.pad = 0};
    const image_size any = {9, 9, 1};
    uint32_t found[PLACES] = {0}, same[3] = {0};
    for (uint64_t i = 0; i < N; i++) {
        image_view v = ebb__image_augment_draw(ebb__image_augment_key(1), &any, &how, 9, i);
        image_view others[] = {
            ebb__image_augment_draw(ebb__image_augment_key(2), &any, &how, 9, i),
            ebb__image_augment_draw(ebb__image_augment_key(1), &any, &how, 10, i),
            ebb__image_augment_draw(ebb__image_augment_key(1), &any, &how, 9,
                                    i + ((uint64_t)1 << 32))};
        assert_true(v.down < SIDES && v.right < SIDES);
        found[(v.down * SIDES + v.right) * 2 + v.flip]++;
        for (int k = 0; k < 3; k++) {
            same[k] +=
                v.down == others[k].down && v.right == others[k].right && v.flip == others[k].flip;
        }
        image_view none = ebb__image_augment_draw(ebb__image_augment_key(1), &any, &still, 9, i);
        assert_true(none.down == 0 && none.right == 0 && !none.flip);
    }
    for (int i = 0; i < PLACES; i++) {
        assert_in_range(found[i], 650, 950); /* 800, and some 28 either way */
    }
    for (int k = 0; k < 3; k++) {
        assert_in_range(same[k], 650, 950);
    }
}

/* ---- batches ---- */

typedef struct batch {
    uint8_t pixels[MOST_BYTES];
    int32_t labels[MOST_IMAGES];
} batch;

static void init(const image_set *set, const image_batch_options *how, image_batches *out) {
    static uint8_t staging[MOST_BYTES];
    assert_int_equal(image_batches_bytes(&set->facts.size), set->record_bytes);
    assert_int_equal(ebb__image_batches_init(set, how, staging, out), EBB_OK);
}

static void fill(const image_batches *b, uint64_t step, batch *out) {
    uint64_t counted = 0, calls = b->set->ctx->mem.calls, want = 0;
    memset(out, GUARD, sizeof *out);
    assert_int_equal(
        ebb__image_batches_fill(b, step, 0, b->how.images, out->pixels, out->labels, &counted),
        EBB_OK);
    assert_int_equal(b->set->ctx->mem.calls, calls);
    for (uint32_t row = 0; row < b->how.images; row++) {
        want += out->labels[row] >= 0;
    }
    assert_int_equal(counted, want);
    assert_int_equal(out->pixels[b->how.images * image_bytes(&b->set->facts.size)], GUARD);
}

/* A row against the image that it is said to hold, seen as it is drawn. */
static void expect_row(const image_batches *b, uint64_t step, uint32_t row, const batch *got) {
    const image_size *size = &b->set->facts.size;
    uint64_t number = ebb__image_batches_at(b, step, row);
    size_t each = image_bytes(size);
    const uint8_t *pixels = got->pixels + row * each;
    image_view view = {.down = b->how.augment.pad, .right = b->how.augment.pad};
    uint8_t image[1024];
    if (number == IMAGE_NONE) {
        assert_int_equal(got->labels[row], -1);
        for (size_t i = 0; i < each; i++) {
            assert_int_equal(pixels[i], 0);
        }
        return;
    }
    for (size_t i = 0; i < each; i++) {
        image[i] = pixel_of(number, i);
    }
    if (b->how.train) {
        view = ebb__image_augment_draw(b->key, size, &b->how.augment, step / b->batches, number);
    }
    assert_int_equal(got->labels[row], label_of(number, b->set->facts.classes));
    for (uint32_t i = 0; i < each; i++) {
        assert_int_equal(pixels[i], seen(size, b->how.augment.pad, &view, b->border, image,
                                         i / size->width, i % size->width, 0));
    }
}

/* Every image at most once in an epoch; `left` are left out. */
static void expect_epoch(const image_batches *b, uint64_t epoch, uint64_t left) {
    static batch got;
    bool used[MOST_IMAGES] = {false};
    uint64_t total = 0;
    for (uint64_t k = 0; k < b->batches; k++) {
        uint64_t step = epoch * b->batches + k;
        fill(b, step, &got);
        for (uint32_t row = 0; row < b->how.images; row++) {
            uint64_t number = ebb__image_batches_at(b, step, row);
            expect_row(b, step, row, &got);
            if (number != IMAGE_NONE) {
                assert_true(number < b->set->facts.count && !used[number]);
                used[number] = true;
                total++;
            }
        }
    }
    assert_int_equal(total + left, b->set->facts.count);
}

static const uint32_t batch_sizes[] = {1, 2, 7, 8, 16, 49, 50, 99, 100};

static void epochs_to_train(void **state) {
    help_room *room = *state;
    image_set set;
    open_set(room, 100, 4, 6, &set);
    for (size_t i = 0; i < sizeof batch_sizes / sizeof batch_sizes[0]; i++) {
        for (int form = 0; form < 8; form++) {
            image_batch_options how = {batch_sizes[i], true, 5, {0}};
            how.augment.pad = (form & 1) != 0 ? 3 : 0;
            how.augment.flip = (form & 2) != 0;
            how.augment.pad_mean = (form & 4) != 0;
            image_batches batches;
            init(&set, &how, &batches);
            assert_int_equal(batches.batches, 100 / how.images);
            double mean = ebb__image_mean(&set.facts, 0);
            assert_int_equal(batches.border[0], (form & 4) != 0 ? (int)(mean + 0.5) : 0);
            expect_epoch(&batches, 0, 100 % how.images);
            expect_epoch(&batches, 3, 100 % how.images);
        }
    }
    ebb__image_set_close(&set);
}

static void epochs_to_validate(void **state) {
    help_room *room = *state;
    image_set set;
    open_set(room, 100, 4, 6, &set);
    for (uint32_t n = 1; n <= 120; n += n % 8 == 0 ? 3 : 1) {
        image_batch_options how = {n, false, 5, {2, true, true, 0}};
        image_batches batches;
        static batch got;
        init(&set, &how, &batches);
        assert_int_equal(batches.batches, (100 + n - 1) / n);
        expect_epoch(&batches, 0, 0);
        fill(&batches, 0, &got);
        for (uint32_t row = 0; row < n; row++) { /* in order, and as they are */
            assert_int_equal(ebb__image_batches_at(&batches, 0, row), row < 100 ? row : IMAGE_NONE);
            assert_int_equal(got.pixels[(size_t)row * 24 + 5], row < 100 ? pixel_of(row, 5) : 0);
        }
    }
    ebb__image_set_close(&set);
}

/* Steps in any order, rows in any parts, by a reader that was opened again. */
static void expect_same_parts(help_room *room, const image_augment *augment) {
    static batch whole[9], part;
    image_set set, again;
    image_batches batches, other;
    const image_batch_options how = {24, true, 77, *augment};
    open_set(room, 100, 4, 6, &set);
    init(&set, &how, &batches);
    for (uint64_t step = 0; step < 9; step++) {
        fill(&batches, step, &whole[step]);
    }
    assert_int_equal(ebb__image_set_open(room->ctx, room->path[0], &again), EBB_OK);
    init(&again, &how, &other);
    for (uint64_t step = 9; step-- > 0;) {
        memset(&part, GUARD, sizeof part);
        for (uint32_t first = 0, n = 1;
             first<24; first += n, n = first + n + 1> 24 ? 24 - first : n + 1) {
            assert_int_equal(ebb__image_batches_fill(&other, step, first, n,
                                                     part.pixels + (size_t)first * 24,
                                                     part.labels + first, NULL),
                             EBB_OK);
        }
        assert_memory_equal(&part, &whole[step], sizeof part);
    }
    ebb__image_set_close(&again);
    ebb__image_set_close(&set);
}

static void parts_and_resumption_change_nothing(void **state) {
    expect_same_parts(*state, &(image_augment){.pad = 1, .flip = true});
    expect_same_parts(*state, &(image_augment){.flip = true, .crop = 0.3});
}

/* Seeds and epochs give other orders. */
static void orders_differ(void **state) {
    help_room *room = *state;
    image_set set;
    image_batches one, two;
    image_batch_options how = {100, true, 1, {0}};
    uint32_t same[3] = {0};
    open_set(room, 100, 1, 1, &set);
    init(&set, &how, &one);
    how.seed = 2;
    init(&set, &how, &two);
    for (uint32_t row = 0; row < 100; row++) {
        uint64_t number = ebb__image_batches_at(&one, 0, row);
        same[0] += number == row;
        same[1] += number == ebb__image_batches_at(&one, 1, row);
        same[2] += number == ebb__image_batches_at(&two, 0, row);
    }
    assert_true(same[0] < 10 && same[1] < 10 && same[2] < 10);
    ebb__image_set_close(&set);
}

/* ---- refusals ---- */

static void refuse(const image_set *set, image_batch_options how, ebb_status want,
                   const char *part) {
    image_batches batches;
    help_expect(set->ctx, ebb__image_batches_init(set, &how, NULL, &batches), want, part);
}

static void refusals(void **state) {
    help_room *room = *state;
    image_set set;
    open_set(room, 10, 4, 6, &set);
    refuse(&set, (image_batch_options){.images = 0, .train = true}, EBB_USAGE, "batches of 0");
    refuse(&set, (image_batch_options){.images = UINT32_MAX}, EBB_USAGE, "batches of 4294967295");
    refuse(&set, (image_batch_options){.images = 11, .train = true}, EBB_DATA,
           "has 10 images to train on, fewer than the 11 of a batch");
    refuse(&set, (image_batch_options){.images = 1, .train = true, .augment = {.pad = 4}},
           EBB_USAGE, "of 4 x 6 pixels cannot be shifted by up to 4");
    refuse(&set,
           (image_batch_options){.images = 1, .train = true, .augment = {.pad = 1, .crop = 0.5}},
           EBB_USAGE, "not both");
    image_batches batches;
    static batch got;
    init(&set, &(image_batch_options){.images = 10, .train = true}, &batches);
    room->ctx->file.fail_at = 3; /* from now on */
    ebb_status status = ebb__image_batches_fill(&batches, 0, 0, 10, got.pixels, got.labels, NULL);
    room->ctx->file.fail_at = 0;
    help_expect(room->ctx, status, EBB_IO, room->path[0]);
    ebb__image_set_close(&set);
}

int main(void) {
#define TEST(name) cmocka_unit_test_setup_teardown(name, help_setup, image_teardown)
    const struct CMUnitTest tests[] = {
        TEST(views_as_defined),
        TEST(draws_are_even),
        TEST(epochs_to_train),
        TEST(epochs_to_validate),
        TEST(parts_and_resumption_change_nothing),
        TEST(orders_differ),
        TEST(refusals),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
