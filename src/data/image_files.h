/* image_files.h - which files hold labelled images, and what is in them: IDX (MNIST and its kin),
 * the binary form of CIFAR-10 and CIFAR-100, and NumPy's, each file plain or gzip; folders of PNG
 * and JPEG files.
 *
 *   IDX     images: 00 00 08 03, number, height, width (32 bits, big-endian), then a byte a pixel;
 *           labels in a file of their own, found by the name: "images" -> "labels", "idx3" ->
 *           "idx1"; 00 00 08 01, number, then a byte each
 *   CIFAR   records of 1 label (10 classes) or 2 (20 coarse, then the 100 fine classes, which are
 *           taken) and 3072 bytes: a plane of 32 x 32 for red, green, blue
 *   npy     bytes [N,Y,X] or [N,Y,X,C] in C order; labels likewise in a file of their own, whole
 *           numbers [N] or [N,1]: "images" -> "labels"
 *   folder  a folder for each class, which names it, numbered in the order of their names; in it,
 *           or in folders below, PNG and JPEG files, which all become one size
 *
 * A file is told by what is in it; CIFAR's, which have no mark, by their size. All that can be said
 * against a file but labels of CIFAR is said here: headers that lie, bytes missing or left over,
 * labels that do not match. Images are read by image_reader.h, and trained on from image_set.h. */
#ifndef DATA_IMAGE_FILES_H
#define DATA_IMAGE_FILES_H

#include "base/alloc.h"

enum { IMAGE_MOST_SIDE = 20000, IMAGE_MOST_CHANNELS = 4, IMAGE_MOST_CLASSES = 65536 };
/* Pixels of all images together: sums of squares stay below 2^64. */
#define IMAGE_MOST_PIXELS ((uint64_t)1 << 47)

typedef enum image_form {
    IMAGE_IDX,
    IMAGE_CIFAR10,
    IMAGE_CIFAR100,
    IMAGE_NPY,
    IMAGE_FOLDER
} image_form;
typedef enum image_part { IMAGE_TRAIN, IMAGE_TEST } image_part; /* of what a folder holds */

typedef struct image_size {
    uint32_t height, width, channels;
} image_size;
/* Bytes of an image, u8 [Y,X,C]. */
static inline size_t image_bytes(const image_size *size) {
    return (size_t)size->height * size->width * size->channels;
}
/* Whether there can be `count` images of this size, which may come from anywhere. */
bool ebb__image_size_sound(const image_size *size, uint64_t count);

typedef struct image_file {
    char *path, *labels;        /* labels NULL: they lie among the images */
    uint64_t count;             /* images */
    uint32_t head, labels_head; /* bytes before the first of each */
    uint32_t label_bytes;       /* of each, little-endian, where they have a file */
    uint64_t hash, labels_hash; /* XXH3-64 of the files as they lie on disk; of a PNG or JPEG file
                                   of its size and time */
    int32_t label;              /* of a PNG or JPEG file */
} image_file;

typedef struct image_files {
    ebb_ctx *ctx;
    alloc_region region; /* of all below */
    image_form form;
    bool skip_bad; /* as asked for */
    bool told;     /* what is left out was said before: not again */
    image_size size;
    uint64_t count;   /* images of all files; with skip_bad some may be left out */
    uint32_t classes; /* 10 or 100 of CIFAR; of IDX and npy the largest label and one more */
    image_file *at;   /* [n], in the order in which they are read */
    size_t n, room;
    char *names; /* of the classes, each with a zero byte after it; NULL: not known */
    size_t names_bytes;
    uint64_t hash, bytes; /* of all files as they lie on disk: one number for all; their sizes */
} image_files;

typedef struct image_request {
    image_part part;
    image_size want; /* what PNG and JPEG files become: image_resize.h says what it may be */
    bool skip_bad; /* of these, what cannot be decoded is left out with a warning; else it fails */
} image_request;

/* What `paths` hold. Each is a file of images, or a folder with files of the usual names, of which
 * those of `part` are taken: train-images-idx3-ubyte, data_batch_1.bin and what follows it,
 * train.bin, train-images.npy; t10k-images-idx3-ubyte, test_batch.bin, test.bin, test-images.npy;
 * each also with .gz. A folder of
 * folders of PNG and JPEG files is named alone, and `part` does not count. All must be of one form
 * and one size. Names of classes are read where CIFAR has them beside the first file
 * (batches.meta.txt, fine_label_names.txt). Reads every file once, but for PNG and JPEG, which
 * are only listed; two lists of these have the same classes if their names are the same bytes.
 * EBB_DATA for what is wrong with them. Free also after a failure. */
ebb_status ebb__image_files_find(ebb_ctx *ctx, const char *const *paths, size_t n,
                                 const image_request *request, image_files *out) EBB_MUST_CHECK;
void ebb__image_files_free(image_files *files);

/* Of a folder of classes: numbers them as others are numbered, by their names, and takes these
 * over. The names are of `classes` classes at most, each with a zero byte after it. EBB_DATA for a
 * class that is not among them; of other forms, whose labels are numbers, nothing changes. */
ebb_status ebb__image_files_renumber(image_files *files, const char *names, size_t bytes,
                                     uint32_t classes) EBB_MUST_CHECK;

/* Whether a class's name can be shown to people: not empty, UTF-8 without control characters. */
bool ebb__image_name_sound(const char *name, size_t length);

/* For image_reader.c: a label of so many bytes. */
uint64_t ebb__image_label(const uint8_t *bytes, uint32_t n);
/* For image_find.c: lists a folder of folders, if it is one; *found tells. */
ebb_status ebb__image_folder_add(image_files *files, const char *folder,
                                 const image_request *request, bool *found) EBB_MUST_CHECK;
/* A number that changes with the file's size and time; EBB_DATA if there is no such file. */
ebb_status ebb__image_folder_stamp(ebb_ctx *ctx, const char *path, uint64_t *bytes,
                                   uint64_t *out) EBB_MUST_CHECK;
/* For image_find.c: looks at a file of images and adds it to the list. */
ebb_status ebb__image_files_add(image_files *files, const char *path) EBB_MUST_CHECK;

#endif
