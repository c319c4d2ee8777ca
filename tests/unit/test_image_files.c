/* test_image_files.c - IDX and CIFAR files, plain and packed, by name and in folders: what is told
 * of them, every pixel and label in order, and one sentence for each way in which they can be
 * wrong. */
#include "image_help.h"

#include <sys/stat.h>

static made_file one, two;

/* ---- what is read ---- */

/* All images, `most` at a time: number, pixels, labels. */
static void expect_images(const image_files *files, size_t most) {
    static uint8_t pixels[MOST_FILE];
    static int32_t labels[4096];
    size_t each = image_bytes(&files->size), n = 1;
    uint64_t done = 0;
    image_reader reader;
    assert_int_equal(ebb__image_reader_open(files, "test", &reader), EBB_OK);
    for (;;) {
        assert_int_equal(ebb__image_reader_next(&reader, most, pixels, labels, &n), EBB_OK);
        if (n == 0) {
            break;
        }
        assert_true(n <= most);
        for (size_t k = 0; k < n; k++) {
            assert_int_equal(labels[k], label_of(done + k, files->classes));
            for (size_t i = 0; i < each; i++) {
                assert_int_equal(pixels[k * each + i], pixel_of(done + k, i));
            }
        }
        done += n;
    }
    assert_int_equal(done, files->count);
    assert_int_equal(ebb__image_reader_next(&reader, most, pixels, labels, &n), EBB_OK);
    assert_int_equal(n, 0);
    ebb__image_reader_close(&reader);
}

static void expect_all(const help_room *room, image_part part, image_form form, uint64_t count,
                       const image_size *size, uint32_t classes) {
    image_files files;
    assert_int_equal(find_in(room, part, &files), EBB_OK);
    assert_int_equal(files.form, form);
    assert_int_equal(files.count, count);
    assert_memory_equal(&files.size, size, sizeof *size);
    assert_int_equal(files.classes, classes);
    expect_images(&files, 1);
    expect_images(&files, 3);
    expect_images(&files, 4000);
    ebb__image_files_free(&files);
}

static void idx_in_all_packings(void **state) {
    help_room *room = *state;
    const image_size size = {3, 5, 1};
    make_idx(&one, &two, 0, 11, 3, 5, 7);
    for (int packing = 0; packing < 4; packing++) {
        bool images = (packing & 1) != 0, labels = (packing & 2) != 0;
        put_file(room, images ? "train-images-idx3-ubyte.gz" : "train-images-idx3-ubyte", one.bytes,
                 one.size);
        put_file(room, labels ? "train-labels-idx1-ubyte.gz" : "train-labels-idx1-ubyte", two.bytes,
                 two.size);
        expect_all(room, IMAGE_TRAIN, IMAGE_IDX, 11, &size, 7);
        remove_files(room);
    }
    put_file(room, "t10k-images.idx3-ubyte", one.bytes, one.size);
    put_file(room, "t10k-labels.idx1-ubyte", two.bytes, two.size);
    expect_all(room, IMAGE_TEST, IMAGE_IDX, 11, &size, 7);
}

/* Bytes as others write them: two images of 1 x 2. */
static void idx_of_known_bytes(void **state) {
    help_room *room = *state;
    const uint8_t images[] = {0, 0, 8, 3, 0, 0, 0, 2, 0, 0, 0, 1, 0, 0, 0, 2, 10, 20, 30, 255};
    const uint8_t labels[] = {0, 0, 8, 1, 0, 0, 0, 2, 4, 0};
    uint8_t pixels[4];
    int32_t got[2];
    size_t n = 0;
    image_files files;
    image_reader reader;
    put_file(room, "train-images-idx3-ubyte", images, sizeof images);
    put_file(room, "train-labels-idx1-ubyte", labels, sizeof labels);
    assert_int_equal(find_in(room, IMAGE_TRAIN, &files), EBB_OK);
    assert_int_equal(files.classes, 5);
    assert_null(files.names);
    assert_int_equal(ebb__image_reader_open(&files, "test", &reader), EBB_OK);
    assert_int_equal(ebb__image_reader_next(&reader, 2, pixels, got, &n), EBB_OK);
    assert_int_equal(n, 2);
    assert_memory_equal(pixels, images + 16, 4);
    assert_true(got[0] == 4 && got[1] == 0);
    ebb__image_reader_close(&reader);
    ebb__image_files_free(&files);
}

static const image_size cifar_size = {32, 32, 3};

static void cifar_batches_in_order(void **state) {
    help_room *room = *state;
    make_cifar(&one, 0, 5, 1);
    put_file(room, "data_batch_1.bin", one.bytes, one.size);
    expect_all(room, IMAGE_TRAIN, IMAGE_CIFAR10, 5, &cifar_size, 10);
    make_cifar(&one, 5, 4, 1);
    put_file(room, "data_batch_2.bin.gz", one.bytes, one.size);
    make_cifar(&one, 9, 2, 1);
    put_file(room, "data_batch_3.bin", one.bytes, one.size);
    expect_all(room, IMAGE_TRAIN, IMAGE_CIFAR10, 11, &cifar_size, 10);
    make_cifar(&one, 0, 3, 1);
    put_file(room, "test_batch.bin", one.bytes, one.size);
    expect_all(room, IMAGE_TEST, IMAGE_CIFAR10, 3, &cifar_size, 10);
}

static void cifar_100_has_fine_labels(void **state) {
    help_room *room = *state;
    make_cifar(&one, 0, 6, 2);
    put_file(room, "train.bin", one.bytes, one.size);
    put_file(room, "test.bin.gz", one.bytes, one.size);
    expect_all(room, IMAGE_TRAIN, IMAGE_CIFAR100, 6, &cifar_size, 100);
    expect_all(room, IMAGE_TEST, IMAGE_CIFAR100, 6, &cifar_size, 100);
}

/* A record whose first bytes are those of IDX, which a .bin is not taken for. */
static void cifar_that_looks_like_idx(void **state) {
    help_room *room = *state;
    image_files files;
    make_cifar(&one, 0, 2, 1);
    memcpy(one.bytes, "\0\0\x08\x03", 4);
    put_file(room, "data_batch_1.bin", one.bytes, one.size);
    assert_int_equal(find_in(room, IMAGE_TRAIN, &files), EBB_OK);
    assert_true(files.form == IMAGE_CIFAR10 && files.count == 2);
    ebb__image_files_free(&files);
}

static void files_by_name(void **state) {
    help_room *room = *state;
    image_path first = in_room(room, "data_batch_1.bin"), second = in_room(room, "test_batch.bin");
    const char *paths[] = {first.text, second.text};
    image_files files;
    make_cifar(&one, 0, 3, 1);
    put_file(room, "data_batch_1.bin", one.bytes, one.size);
    make_cifar(&one, 3, 2, 1);
    put_file(room, "test_batch.bin", one.bytes, one.size);
    assert_int_equal(
        ebb__image_files_find(room->ctx, paths, 2, &(image_request){.part = IMAGE_TRAIN}, &files),
        EBB_OK);
    expect_images(&files, 2);
    uint64_t hash = files.hash;
    assert_int_equal(files.bytes, 5 * 3073);
    ebb__image_files_free(&files);
    paths[0] = second.text;
    paths[1] = first.text;
    assert_int_equal(
        ebb__image_files_find(room->ctx, paths, 2, &(image_request){.part = IMAGE_TRAIN}, &files),
        EBB_OK);
    assert_true(files.hash != hash);
    ebb__image_files_free(&files);
}

/* ---- names of classes ---- */

static void names_of_classes(void **state) {
    help_room *room = *state;
    const char text[] =
        "airplane\nauto mobile \r\nbird\ncat\ndeer\n\ndog\nfrog\nhorse\nship\ntruck";
    const char want[] = "airplane\0auto mobile\0bird\0cat\0deer\0dog\0frog\0horse\0ship\0truck";
    image_files files;
    make_cifar(&one, 0, 1, 1);
    put_file(room, "data_batch_1.bin", one.bytes, one.size);
    put_file(room, "batches.meta.txt", text, sizeof text - 1);
    assert_int_equal(find_in(room, IMAGE_TRAIN, &files), EBB_OK);
    assert_int_equal(files.names_bytes, sizeof want);
    assert_memory_equal(files.names, want, sizeof want);
    ebb__image_files_free(&files);
}

/* ---- what is refused ---- */

static void refuse(help_room *room, const char *part) {
    image_files files;
    ebb_status status = find_in(room, IMAGE_TRAIN, &files);
    ebb__image_files_free(&files);
    help_expect(room->ctx, status, EBB_DATA, part);
}

static void refuse_images(help_room *room, const char *part) {
    put_file(room, "train-images-idx3-ubyte", one.bytes, one.size);
    put_file(room, "train-labels-idx1-ubyte", two.bytes, two.size);
    refuse(room, part);
    make_idx(&one, &two, 0, 4, 3, 5, 7);
}

static void set_word(made_file *file, size_t at, uint32_t word) {
    size_t size = file->size;
    file->size = at;
    put_word(file, word);
    file->size = size;
}

static void idx_that_lies(void **state) {
    help_room *room = *state;
    make_idx(&one, &two, 0, 4, 3, 5, 7);
    one.size--;
    refuse_images(room, "train-images-idx3-ubyte: ends early: its header tells 4 of 15 byte(s), "
                        "which end at byte 76, but it has 75 bytes");
    one.size++;
    refuse_images(room, "goes on after its end");
    set_word(&one, 4, 5);
    refuse_images(room, "ends early: its header tells 5 of 15");
    set_word(&one, 4, 0);
    refuse_images(room, "tells 0 images of 3 x 5");
    set_word(&one, 8, 0);
    refuse_images(room, "tells 4 images of 0 x 5");
    set_word(&one, 12, 20001);
    refuse_images(room, "tells 4 images of 3 x 20001");
    for (size_t at = 4; at < 16; at += 4) {
        set_word(&one, at, UINT32_MAX);
        refuse_images(room, "its header tells ");
    }
    set_word(&one, 0, 0x801);
    refuse_images(room, "holds labels, not images");
    set_word(&one, 0, 0x804);
    refuse_images(room, "IDX of type 08 with 4 axes");
    set_word(&one, 0, 0xd03);
    refuse_images(room, "IDX of type 0d with 3 axes");
    set_word(&one, 0, 0x80030000);
    refuse_images(room, "is a Python pickle, neither");
    set_word(&one, 0, 0x803 << 8);
    refuse_images(room, "is neither IDX (00 00 08 03 at its start) nor CIFAR's");
    for (size_t size = 1; size < 16; size++) {
        one.size = size;
        refuse_images(room, size < 4 ? "is neither IDX" : "its header tells");
    }
    one.size = 0;
    refuse_images(room, "train-images-idx3-ubyte: is empty");
}

static void labels_that_lie(void **state) {
    help_room *room = *state;
    make_idx(&one, &two, 0, 4, 3, 5, 7);
    two.size--;
    refuse_images(room, "train-labels-idx1-ubyte: ends early");
    two.size++;
    refuse_images(room, "train-labels-idx1-ubyte: goes on after its end");
    set_word(&two, 4, 3);
    two.size--;
    refuse_images(room, "has 3 labels, but there are 4 images in");
    set_word(&two, 0, 0x803);
    refuse_images(room, "train-labels-idx1-ubyte: is not IDX of bytes with one axis");
    two.size = 5;
    refuse_images(room, "train-labels-idx1-ubyte: is not IDX of bytes");
    (void)unlink(in_room(room, "train-labels-idx1-ubyte").text);
    refuse(room, "its labels are not there: no");
    put_file(room, "odd", one.bytes, one.size);
    image_path odd = in_room(room, "odd");
    const char *path = odd.text;
    image_files files;
    ebb_status status =
        ebb__image_files_find(room->ctx, &path, 1, &(image_request){.part = IMAGE_TRAIN}, &files);
    ebb__image_files_free(&files);
    help_expect(room->ctx, status, EBB_DATA, "must hold \"images\"");
}

static void cifar_that_lies(void **state) {
    help_room *room = *state;
    image_files files;
    image_reader reader;
    static uint8_t pixels[4 * CIFAR_PIXELS];
    int32_t labels[4];
    size_t n = 0;
    make_cifar(&one, 0, 3, 1);
    put_file(room, "data_batch_1.bin", one.bytes, one.size - 1);
    refuse(room, "data_batch_1.bin: is neither IDX");
    put_file(room, "data_batch_1.bin", one.bytes, one.size + 1);
    refuse(room, "it has 9220 bytes");
    one.bytes[3073] = 10;
    put_file(room, "data_batch_1.bin", one.bytes, one.size);
    assert_int_equal(find_in(room, IMAGE_TRAIN, &files), EBB_OK);
    assert_int_equal(ebb__image_reader_open(&files, "test", &reader), EBB_OK);
    help_expect(room->ctx, ebb__image_reader_next(&reader, 4, pixels, labels, &n), EBB_DATA,
                "data_batch_1.bin: image 1, at byte 3073, has the label 10, but there are 10");
    ebb__image_reader_close(&reader);
    ebb__image_files_free(&files);
}

static void folders_that_do_not_tell(void **state) {
    help_room *room = *state;
    refuse(room, "holds no training images under the usual names");
    make_cifar(&one, 0, 3, 1);
    put_file(room, "test_batch.bin", one.bytes, one.size);
    refuse(room, "holds no training images under the usual names");
    put_file(room, "data_batch_1.bin", one.bytes, one.size);
    put_file(room, "data_batch_3.bin", one.bytes, one.size);
    refuse(room, "has data_batch_3.bin, but not data_batch_2.bin");
    make_cifar(&one, 0, 3, 2);
    put_file(room, "train.bin", one.bytes, one.size);
    refuse(room, "holds several sets, data_batch_1.bin and train.bin among them");
    (void)unlink(in_room(room, "train.bin").text);
    (void)unlink(in_room(room, "data_batch_3.bin").text);
    put_file(room, "data_batch_2.bin.gz", one.bytes, one.size);
    refuse(room, "holds images of CIFAR-100, 32 x 32, but");
    put_file(room, "data_batch_2.bin.gz", one.bytes, 0);
    refuse(room, "it has 0 bytes");
    (void)unlink(in_room(room, "data_batch_2.bin.gz").text);
    make_cifar(&one, 0, 3, 1);
    put_file(room, "data_batch_1.bin", one.bytes, one.size);
    put_file(room, "batches.meta.txt", "a\nb\n", 4);
    refuse(room, "batches.meta.txt: has 2 names, but there are 10 classes");
    put_file(room, "batches.meta.txt", "a\nb\x1b[1m\n", 8);
    refuse(room, "batches.meta.txt:2: is not a line of UTF-8");
    put_file(room, "batches.meta.txt", "\xff\n", 2);
    refuse(room, "batches.meta.txt:1: is not a line of UTF-8");
    const char *none = "/nowhere/at/all";
    image_files files;
    ebb_status status =
        ebb__image_files_find(room->ctx, &none, 1, &(image_request){.part = IMAGE_TRAIN}, &files);
    ebb__image_files_free(&files);
    help_expect(room->ctx, status, EBB_DATA, "/nowhere/at/all");
    status =
        ebb__image_files_find(room->ctx, &none, 0, &(image_request){.part = IMAGE_TRAIN}, &files);
    ebb__image_files_free(&files);
    help_expect(room->ctx, status, EBB_USAGE, "no file of images");
}

/* A packed file that was cut, and files that change after they were looked at. */
static void changes_are_noticed(void **state) {
    help_room *room = *state;
    static uint8_t packed[MOST_FILE], pixels[64];
    int32_t labels[4];
    make_idx(&one, &two, 0, 4, 3, 5, 7);
    put_file(room, "train-images-idx3-ubyte.gz", one.bytes, one.size);
    put_file(room, "train-labels-idx1-ubyte", two.bytes, two.size);
    size_t size = help_read(in_room(room, "train-images-idx3-ubyte.gz").text, packed, MOST_FILE);
    help_write(in_room(room, "train-images-idx3-ubyte.gz").text, packed, size - 3);
    refuse(room, "ends in the middle of its gzip data");
    (void)unlink(in_room(room, "train-images-idx3-ubyte.gz").text);
    for (int change = 0; change < 5; change++) {
        image_files files;
        image_reader reader;
        ebb_status status = EBB_OK;
        size_t n = 1;
        put_file(room, "train-images-idx3-ubyte", one.bytes, one.size);
        put_file(room, "train-labels-idx1-ubyte", two.bytes, two.size);
        assert_int_equal(find_in(room, IMAGE_TRAIN, &files), EBB_OK);
        made_file *file = change < 3 ? &one : &two;
        uint8_t saved = file->bytes[20 - (change < 3 ? 0 : 10)];
        file->bytes[20 - (change < 3 ? 0 : 10)] = change == 4 ? 200 : (uint8_t)(saved ^ 1);
        put_file(room, change < 3 ? "train-images-idx3-ubyte" : "train-labels-idx1-ubyte",
                 file->bytes,
                 change == 1   ? 30
                 : change == 2 ? file->size + 1
                               : file->size);
        file->bytes[20 - (change < 3 ? 0 : 10)] = saved;
        assert_int_equal(ebb__image_reader_open(&files, "test", &reader), EBB_OK);
        while (status == EBB_OK && n > 0) {
            status = ebb__image_reader_next(&reader, 2, pixels, labels, &n);
        }
        help_expect(room->ctx, status, EBB_DATA, "changed while it was read; run again");
        ebb__image_reader_close(&reader);
        ebb__image_files_free(&files);
    }
}

static ebb_status read_job(help_room *room) {
    static uint8_t pixels[2 * CIFAR_PIXELS];
    int32_t labels[2];
    size_t n = 1;
    image_files files;
    image_reader reader;
    ebb_status status = find_in(room, IMAGE_TRAIN, &files);
    if (status == EBB_OK) {
        status = ebb__image_reader_open(&files, "test", &reader);
        while (status == EBB_OK && n > 0) {
            status = ebb__image_reader_next(&reader, 2, pixels, labels, &n);
        }
        ebb__image_reader_close(&reader);
    }
    ebb__image_files_free(&files);
    return status;
}

static void failures_leave_nothing(void **state) {
    help_room *room = *state;
    const char names[] = "a\nb\nc\nd\ne\nf\ng\nh\ni\nj\n";
    make_cifar(&one, 0, 3, 1);
    put_file(room, "data_batch_1.bin", one.bytes, one.size);
    put_file(room, "data_batch_2.bin.gz", one.bytes, one.size);
    put_file(room, "batches.meta.txt", names, sizeof names - 1);
    help_fail_each(room, read_job);
    remove_files(room);
    put_idx(room, 5, 4, 4, 3);
    help_fail_each(room, read_job);
}

/* ---- real files, where they are ---- */

typedef struct real_set {
    const char *folder;
    image_part part;
    uint64_t count;
    image_size size;
    int32_t first[5]; /* labels of its first images, from outside */
} real_set;

static const real_set real_sets[] = {
    {"fashion-mnist", IMAGE_TRAIN, 60000, {28, 28, 1}, {9, 0, 0, 3, 0}},
    {"fashion-mnist", IMAGE_TEST, 10000, {28, 28, 1}, {9, 2, 1, 1, 6}},
    {"mnist10k", IMAGE_TEST, 10000, {28, 28, 1}, {7, 2, 1, 0, 4}},
    {"cifar10", IMAGE_TRAIN, 10000, {32, 32, 3}, {1, 4, 9, 2, 1}},
    {"cifar10", IMAGE_TEST, 2000, {32, 32, 3}, {3, 4, 4, 3, 0}},
};

static void real_files(void **state) {
    help_room *room = *state;
    static uint8_t pixels[4000 * CIFAR_PIXELS];
    static int32_t labels[4000];
    for (size_t i = 0; i < sizeof real_sets / sizeof real_sets[0]; i++) {
        const real_set *set = &real_sets[i];
        char folder[256];
        const char *path = folder;
        uint64_t of_class[10] = {0};
        size_t n = 0;
        image_files files;
        image_reader reader;
        (void)snprintf(folder, sizeof folder, "../shared/data/%s", set->folder);
        if (!ebb__file_exists(folder)) {
            print_message("SKIPPED: no folder %s with real images\n", folder);
            skip();
        }
        assert_int_equal(
            ebb__image_files_find(room->ctx, &path, 1, &(image_request){.part = set->part}, &files),
            EBB_OK);
        assert_true(files.count == set->count && files.classes == 10);
        assert_memory_equal(&files.size, &set->size, sizeof set->size);
        assert_int_equal(ebb__image_reader_open(&files, "test", &reader), EBB_OK);
        do {
            bool first = reader.taken == 0;
            assert_int_equal(ebb__image_reader_next(&reader, 4000, pixels, labels, &n), EBB_OK);
            for (size_t k = 0; k < n; k++) {
                of_class[labels[k]]++;
            }
            assert_true(!first || memcmp(labels, set->first, sizeof set->first) == 0);
        } while (n > 0);
        for (int c = 0; c < 10 && i < 2; c++) { /* Fashion-MNIST is balanced */
            assert_int_equal(of_class[c], set->count / 10);
        }
        ebb__image_reader_close(&reader);
        ebb__image_files_free(&files);
    }
}

int main(void) {
#define TEST(name) cmocka_unit_test_setup_teardown(name, help_setup, image_teardown)
    const struct CMUnitTest tests[] = {
        TEST(idx_in_all_packings),       TEST(idx_of_known_bytes),
        TEST(cifar_batches_in_order),    TEST(cifar_100_has_fine_labels),
        TEST(cifar_that_looks_like_idx), TEST(files_by_name),
        TEST(names_of_classes),          TEST(idx_that_lies),
        TEST(labels_that_lie),           TEST(cifar_that_lies),
        TEST(folders_that_do_not_tell),  TEST(changes_are_noticed),
        TEST(failures_leave_nothing),    TEST(real_files),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
