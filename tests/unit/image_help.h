/* image_help.h - what the tests of images share: files of the usual names in the room's folder, and
 * IDX and CIFAR files whose pixels and labels are functions of the image's number. */
#ifndef TESTS_IMAGE_HELP_H
#define TESTS_IMAGE_HELP_H

#include "data_help.h"

#include "data/image_reader.h"

enum { CIFAR_PIXELS = 3072, MOST_FILE = 1 << 20 };

static const char *const image_help_names[] = {
    "train-images-idx3-ubyte",
    "train-images-idx3-ubyte.gz",
    "train-labels-idx1-ubyte",
    "train-labels-idx1-ubyte.gz",
    "t10k-images.idx3-ubyte",
    "t10k-labels.idx1-ubyte",
    "data_batch_1.bin",
    "data_batch_2.bin.gz",
    "data_batch_3.bin",
    "test_batch.bin",
    "train.bin",
    "test.bin.gz",
    "batches.meta.txt",
    "fine_label_names.txt",
    "odd",
};

typedef struct image_path {
    char text[128];
} image_path;

static inline image_path in_room(const help_room *room, const char *name) {
    image_path path;
    (void)snprintf(path.text, sizeof path.text, "%s/%s", room->folder, name);
    return path;
}

static inline void remove_files(const help_room *room) {
    for (size_t i = 0; i < sizeof image_help_names / sizeof image_help_names[0]; i++) {
        (void)unlink(in_room(room, image_help_names[i]).text);
    }
}

static inline int image_teardown(void **state) {
    remove_files(*state);
    return help_teardown(state);
}

/* Packed if the name says so. */
static inline void put_file(const help_room *room, const char *name, const void *data,
                            size_t bytes) {
    image_path path = in_room(room, name);
    if (strstr(name, ".gz") != NULL) {
        help_write_gzip(path.text, "wb", data, bytes);
    } else {
        help_write(path.text, data, bytes);
    }
}

/* ---- images as functions of their number ---- */

/* Of the pixel at place i of [Y,X,C]. */
static inline uint8_t pixel_of(uint64_t image, size_t i) {
    return (uint8_t)((image * 7919 + i * 31 + i / 5 + (image ^ i) % 3) % 256);
}

static inline int32_t label_of(uint64_t image, uint32_t classes) {
    return (int32_t)((image * 3 + image / 5) % classes);
}

typedef struct made_file {
    uint8_t bytes[MOST_FILE];
    size_t size;
} made_file;

static inline void put_word(made_file *file, uint32_t word) {
    for (int shift = 24; shift >= 0; shift -= 8) {
        file->bytes[file->size++] = (uint8_t)(word >> shift);
    }
}

/* Images [first, first + n). */
static inline void make_idx(made_file *images, made_file *labels, uint64_t first, uint32_t n,
                            uint32_t height, uint32_t width, uint32_t classes) {
    images->size = labels->size = 0;
    put_word(images, 0x803);
    put_word(images, n);
    put_word(images, height);
    put_word(images, width);
    put_word(labels, 0x801);
    put_word(labels, n);
    for (uint64_t k = first; k < first + n; k++) {
        for (size_t i = 0; i < (size_t)height * width; i++) {
            images->bytes[images->size++] = pixel_of(k, i);
        }
        labels->bytes[labels->size++] = (uint8_t)label_of(k, classes);
    }
    assert_true(images->size <= MOST_FILE);
}

/* marks: 1 label a record, or 2, of which the first is a coarse one. */
static inline void make_cifar(made_file *file, uint64_t first, uint32_t n, uint32_t marks) {
    file->size = 0;
    for (uint64_t k = first; k < first + n; k++) {
        if (marks == 2) {
            file->bytes[file->size++] = (uint8_t)(k % 20);
        }
        file->bytes[file->size++] = (uint8_t)label_of(k, marks == 2 ? 100 : 10);
        for (size_t c = 0; c < 3; c++) {
            for (size_t i = 0; i < 1024; i++) {
                file->bytes[file->size++] = pixel_of(k, 3 * i + c);
            }
        }
    }
    assert_true(file->size <= MOST_FILE);
}

/* The images of a folder's training part. */
static inline ebb_status find_in(const help_room *room, image_part part, image_files *out) {
    const char *folder = room->folder;
    return ebb__image_files_find(room->ctx, &folder, 1,
                                 &(image_request){.part = part, .want = {8, 8, 3}}, out);
}

/* A set of n images of IDX in the folder. */
static inline void put_idx(const help_room *room, uint32_t n, uint32_t height, uint32_t width,
                           uint32_t classes) {
    static made_file images, labels;
    make_idx(&images, &labels, 0, n, height, width, classes);
    put_file(room, "train-images-idx3-ubyte", images.bytes, images.size);
    put_file(room, "train-labels-idx1-ubyte", labels.bytes, labels.size);
}

#endif
