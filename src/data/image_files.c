/* image_files.c - what a file of images holds (forms: image_files.h). Every file is read whole
 * once: unpacked bytes are counted, since only they can be compared with what a header tells, and
 * raw ones hashed, so that whoever reads it later can tell that it is still the same. */
#include "data/image_files.h"

#include "base/file.h"
#include "data/image_npy.h"
#include "data/source.h"

#include <endian.h>
#include <stdio.h>
#include <string.h>

#define XXH_STATIC_LINKING_ONLY /* the state's size, so that it can live on the stack */
#include <xxhash.h>

enum { HEAD = 16, LABEL_HEAD = 8, PART = 65536 };
enum { IDX_U8 = 8, IDX_LABELS = 1, IDX_IMAGES = 3 }; /* type, then how many axes */
enum { CIFAR_SIDE = 32, CIFAR_PIXELS = 3 * CIFAR_SIDE * CIFAR_SIDE };

typedef unsigned long long number; /* as messages print it */

/* ---- looking at a file ---- */

typedef struct file_look {
    uint8_t head[HEAD];       /* its first bytes, unpacked; zeros beyond its end */
    uint64_t bytes;           /* unpacked */
    uint64_t raw_bytes, hash; /* as it lies on disk */
    uint8_t largest;          /* byte after the first LABEL_HEAD */
} file_look;

static void look_at_part(const uint8_t *part, size_t got, file_look *out) {
    if (out->bytes == 0) {
        memcpy(out->head, part, got < HEAD ? got : HEAD);
    }
    for (size_t i = out->bytes == 0 ? LABEL_HEAD : 0; i < got; i++) {
        out->largest = part[i] > out->largest ? part[i] : out->largest;
    }
    out->bytes += got;
}

static ebb_status look(ebb_ctx *ctx, const char *path, file_look *out) {
    ebb_status status;
    XXH3_state_t hash;
    data_source source;
    uint8_t *part = NULL;
    size_t got = 0;
    *out = (file_look){.bytes = 0};
    XXH3_64bits_reset(&hash);
    TRY(ebb__source_open(ctx, path, "check images", &hash, &source));
    TRY_OUT(ebb__alloc(ctx, PART, 1, &part));
    do {
        TRY_OUT(ebb__source_read(&source, part, PART, &got));
        look_at_part(part, got, out);
    } while (got > 0);
    out->raw_bytes = source.raw_done;
    out->hash = XXH3_64bits_digest(&hash);
out:
    ebb__free(ctx, part);
    ebb__source_close(&source);
    return status;
}

static uint32_t head_word(const file_look *file, size_t at) {
    uint32_t word;
    memcpy(&word, file->head + at, sizeof word);
    return be32toh(word);
}

static bool ends_with(const char *text, const char *end) {
    size_t length = strlen(text), tail = strlen(end);
    return length >= tail && strcmp(text + length - tail, end) == 0;
}

static const char *base_name(const char *path) {
    const char *slash = strrchr(path, '/');
    return slash != NULL ? slash + 1 : path;
}

bool ebb__image_size_sound(const image_size *size, uint64_t count) {
    uint64_t pixels = (uint64_t)size->height * size->width; /* each below 2^32 */
    return size->height > 0 && size->height <= IMAGE_MOST_SIDE && size->width > 0 &&
           size->width <= IMAGE_MOST_SIDE && size->channels > 0 &&
           size->channels <= IMAGE_MOST_CHANNELS && count <= IMAGE_MOST_PIXELS / pixels;
}

/* ---- IDX ---- */

/* Two zeros, a type, how many axes. A record of CIFAR can look so, hence the name. */
static bool looks_like_idx(const char *path, const file_look *file) {
    return file->head[0] == 0 && file->head[1] == 0 && file->head[2] >= IDX_U8 &&
           file->head[2] <= 0x0e && file->head[3] >= 1 && file->head[3] <= 4 &&
           !ends_with(path, ".bin") && !ends_with(path, ".bin.gz");
}

static ebb_status check_length(ebb_ctx *ctx, const char *what, const char *path,
                               const file_look *file, uint64_t head, uint64_t count,
                               uint64_t each) {
    uint64_t want = head + count * each;
    return file->bytes == want
               ? EBB_OK
               : ebb__fail(ctx, EBB_DATA,
                           "%s %s: %s: its header tells %llu of %llu byte(s), which end at byte "
                           "%llu, but it has %llu bytes; copy it again",
                           what, path, file->bytes < want ? "ends early" : "goes on after its end",
                           (number)count, (number)each, (number)want, (number)file->bytes);
}

static ebb_status check_idx_head(ebb_ctx *ctx, const char *path, const file_look *file,
                                 image_size *size) {
    if (file->head[2] == IDX_U8 && file->head[3] == IDX_LABELS) {
        return ebb__fail(ctx, EBB_DATA,
                         "image file %s: holds labels, not images; name the file of images, beside "
                         "which labels are found",
                         path);
    }
    if (file->head[2] != IDX_U8 || file->head[3] != IDX_IMAGES) {
        return ebb__fail(ctx, EBB_DATA,
                         "image file %s: is IDX of type %02x with %u axes; images are of type 08 "
                         "(bytes) with 3 axes: number, height, width",
                         path, file->head[2], file->head[3]);
    }
    *size = (image_size){head_word(file, 8), head_word(file, 12), 1};
    if (!ebb__image_size_sound(size, head_word(file, 4)) || head_word(file, 4) == 0) {
        return ebb__fail(ctx, EBB_DATA,
                         "image file %s: its header tells %u images of %u x %u; there must be one "
                         "at least, of 1 to %d pixels on a side",
                         path, head_word(file, 4), size->height, size->width, IMAGE_MOST_SIDE);
    }
    return EBB_OK;
}

/* A name of the same length in the place of the last occurrence of another. */
static bool rename_part(char *name, const char *from, const char *to) {
    char *found = NULL;
    for (char *at = strstr(name, from); at != NULL; at = strstr(at + 1, from)) {
        found = at;
    }
    for (size_t i = 0; found != NULL && to[i] != '\0'; i++) {
        found[i] = to[i];
    }
    return found != NULL;
}

/* The labels of a file of images, packed or not whatever the images are. */
static ebb_status find_labels(image_files *files, const char *path, char **out) {
    size_t length = strlen(path);
    char *labels = NULL;
    TRY(ebb__region_alloc(&files->region, length + sizeof ".gz", 1, &labels));
    (void)snprintf(labels, length + 1, "%s", path);
    char *name = labels + (base_name(path) - path);
    if (!rename_part(name, "images", "labels")) {
        return ebb__fail(files->ctx, EBB_DATA,
                         "image file %s: labels are found by the name of the images, which must "
                         "hold \"images\": rename both, as in train-images-idx3-ubyte and "
                         "train-labels-idx1-ubyte",
                         path);
    }
    (void)rename_part(name, "idx3", "idx1");
    char *end = labels + length - (ends_with(labels, ".gz") ? strlen(".gz") : 0);
    *end = '\0';
    *out = labels;
    if (!ebb__file_exists(labels)) {
        memcpy(end, ".gz", sizeof ".gz");
    }
    return ebb__file_exists(labels)
               ? EBB_OK
               : ebb__fail(files->ctx, EBB_DATA,
                           "image file %s: its labels are not there: no %.*s, packed or not", path,
                           (int)(end - labels), labels);
}

static ebb_status check_labels(ebb_ctx *ctx, const image_file *images, const file_look *file) {
    const char *path = images->labels;
    if (file->bytes < LABEL_HEAD || file->head[0] != 0 || file->head[1] != 0 ||
        file->head[2] != IDX_U8 || file->head[3] != IDX_LABELS) {
        return ebb__fail(ctx, EBB_DATA,
                         "label file %s: is not IDX of bytes with one axis (it must begin with 00 "
                         "00 08 01)",
                         path);
    }
    TRY(check_length(ctx, "label file", path, file, LABEL_HEAD, head_word(file, 4), 1));
    return head_word(file, 4) == images->count
               ? EBB_OK
               : ebb__fail(ctx, EBB_DATA,
                           "label file %s: has %u labels, but there are %llu images in %s; take "
                           "files that belong together",
                           path, head_word(file, 4), (number)images->count, images->path);
}

/* Bytes and hash of one more file into those of all. */
static void join(image_files *files, const file_look *file) {
    const uint64_t both[2] = {htole64(files->hash), htole64(file->hash)};
    files->hash = XXH3_64bits(both, sizeof both);
    files->bytes += file->raw_bytes;
}

static ebb_status add_idx(image_files *files, image_file *file, const file_look *images,
                          image_size *size) {
    file_look labels;
    TRY(check_idx_head(files->ctx, file->path, images, size));
    file->count = head_word(images, 4);
    file->head = HEAD;
    file->labels_head = LABEL_HEAD;
    file->label_bytes = 1;
    TRY(check_length(files->ctx, "image file", file->path, images, HEAD, file->count,
                     image_bytes(size)));
    TRY(find_labels(files, file->path, &file->labels));
    TRY(look(files->ctx, file->labels, &labels));
    TRY(check_labels(files->ctx, file, &labels));
    file->labels_hash = labels.hash;
    files->classes = labels.largest >= files->classes ? labels.largest + 1U : files->classes;
    join(files, &labels);
    return EBB_OK;
}

/* ---- NumPy ---- */

/* The first bytes, unpacked: at most NPY_MOST_HEAD of them. */
static ebb_status read_head(ebb_ctx *ctx, const char *what, const char *path, npy_head *out) {
    data_source source;
    uint8_t *bytes = NULL;
    size_t got = 0;
    ebb_status status;
    TRY(ebb__source_open(ctx, path, "check images", NULL, &source));
    TRY_OUT(ebb__alloc(ctx, NPY_MOST_HEAD, 1, &bytes));
    TRY_OUT(ebb__source_read(&source, bytes, NPY_MOST_HEAD, &got));
    TRY_OUT(ebb__npy_read(ctx, what, path, bytes, got, out));
out:
    ebb__free(ctx, bytes);
    ebb__source_close(&source);
    return status;
}

/* The number of little-endian bytes; one with a sign that is negative is large. */
uint64_t ebb__image_label(const uint8_t *bytes, uint32_t n) {
    uint64_t label = 0;
    for (uint32_t i = 0; i < n; i++) {
        label |= (uint64_t)bytes[i] << (8 * i);
    }
    return label;
}

/* The largest label of the file, each below IMAGE_MOST_CLASSES. */
static ebb_status scan_labels(ebb_ctx *ctx, const image_file *file, uint64_t *largest) {
    data_source source;
    uint8_t *part = NULL;
    size_t got = 0;
    uint64_t number_of = 0;
    ebb_status status;
    *largest = 0;
    TRY(ebb__source_open(ctx, file->labels, "check images", NULL, &source));
    TRY_OUT(ebb__alloc(ctx, PART, 1, &part));
    TRY_OUT(ebb__source_read(&source, part, file->labels_head, &got));
    do {
        TRY_OUT(ebb__source_read(&source, part, PART, &got));
        for (size_t at = 0; at + file->label_bytes <= got; at += file->label_bytes, number_of++) {
            uint64_t label = ebb__image_label(part + at, file->label_bytes);
            *largest = label > *largest ? label : *largest;
            if (label >= IMAGE_MOST_CLASSES) {
                status = ebb__fail(ctx, EBB_DATA,
                                   "label file %s: label %llu is not a number from 0 to %d",
                                   file->labels, (number)number_of, IMAGE_MOST_CLASSES - 1);
                goto out;
            }
        }
    } while (got > 0);
out:
    ebb__free(ctx, part);
    ebb__source_close(&source);
    return status;
}

static ebb_status check_npy_images(ebb_ctx *ctx, image_file *file, const file_look *images,
                                   image_size *size) {
    npy_head head;
    TRY(read_head(ctx, "image file", file->path, &head));
    *size = (image_size){0, 0, 0};
    if (head.rank >= 3 && head.dim[1] <= IMAGE_MOST_SIDE && head.dim[2] <= IMAGE_MOST_SIDE &&
        (head.rank == 3 || head.dim[3] <= IMAGE_MOST_CHANNELS)) {
        *size = (image_size){(uint32_t)head.dim[1], (uint32_t)head.dim[2],
                             head.rank == 4 ? (uint32_t)head.dim[3] : 1};
    }
    if (head.element != 1 || head.is_signed || head.dim[0] == 0 ||
        !ebb__image_size_sound(size, head.dim[0])) {
        return ebb__fail(ctx, EBB_DATA,
                         "image file %s: images are bytes without a sign (uint8) [N,Y,X] or "
                         "[N,Y,X,C], of 1 to %d pixels on a side and up to %d channels",
                         file->path, IMAGE_MOST_SIDE, IMAGE_MOST_CHANNELS);
    }
    file->count = head.dim[0];
    file->head = head.bytes;
    return check_length(ctx, "image file", file->path, images, head.bytes, file->count,
                        image_bytes(size));
}

static ebb_status check_npy_labels(ebb_ctx *ctx, image_file *file, const file_look *labels) {
    npy_head head;
    TRY(read_head(ctx, "label file", file->labels, &head));
    if (head.rank < 1 || (head.rank > 1 && (head.rank > 2 || head.dim[1] != 1)) ||
        head.dim[0] != file->count) {
        return ebb__fail(ctx, EBB_DATA,
                         "label file %s: is not a list of %llu numbers, one for each image of %s",
                         file->labels, (number)file->count, file->path);
    }
    file->labels_head = head.bytes;
    file->label_bytes = head.element;
    return check_length(ctx, "label file", file->labels, labels, head.bytes, file->count,
                        head.element);
}

static ebb_status add_npy(image_files *files, image_file *file, const file_look *images,
                          image_form *form, image_size *size) {
    file_look labels;
    uint64_t largest = 0;
    *form = IMAGE_NPY;
    TRY(check_npy_images(files->ctx, file, images, size));
    TRY(find_labels(files, file->path, &file->labels));
    TRY(look(files->ctx, file->labels, &labels));
    TRY(check_npy_labels(files->ctx, file, &labels));
    TRY(scan_labels(files->ctx, file, &largest));
    file->labels_hash = labels.hash;
    files->classes = largest >= files->classes ? (uint32_t)largest + 1 : files->classes;
    join(files, &labels);
    return EBB_OK;
}

/* ---- CIFAR ---- */

static ebb_status not_known(ebb_ctx *ctx, const char *path, const file_look *file) {
    bool pickle = file->head[0] == 0x80 && file->head[1] <= 5;
    return ebb__fail(ctx, EBB_DATA,
                     "image file %s: %s neither IDX (00 00 08 03 at its start) nor CIFAR's binary "
                     "form (records of 3073 or 3074 bytes; it has %llu bytes) nor NumPy's%s",
                     path, pickle ? "is a Python pickle," : "is", (number)file->bytes,
                     pickle ? "; take the binary version of the data" : "; copy it again");
}

/* By the size. Where it fits both, by the names of CIFAR-100's two files. */
static ebb_status add_cifar(image_files *files, image_file *file, const file_look *images,
                            image_form *form, image_size *size) {
    const char *name = base_name(file->path);
    bool ten = images->bytes % (1 + CIFAR_PIXELS) == 0;
    bool hundred = images->bytes % (2 + CIFAR_PIXELS) == 0;
    if (images->bytes == 0 || (!ten && !hundred)) {
        return not_known(files->ctx, file->path, images);
    }
    if (ten && hundred) {
        ten = strncmp(name, "train.", 6) != 0 && strncmp(name, "test.", 5) != 0;
    }
    *form = ten ? IMAGE_CIFAR10 : IMAGE_CIFAR100;
    *size = (image_size){CIFAR_SIDE, CIFAR_SIDE, 3};
    file->count = images->bytes / (ten ? 1 + CIFAR_PIXELS : 2 + CIFAR_PIXELS);
    files->classes = ten ? 10 : 100;
    return EBB_OK;
}

/* ---- the list ---- */

static const char *form_name(image_form form) {
    static const char *const names[] = {"IDX", "CIFAR-10", "CIFAR-100", "NumPy", "folders"};
    return names[form];
}

/* All files must agree with the first. */
static ebb_status check_alike(image_files *files, const image_file *file, image_form form,
                              const image_size *size) {
    const image_size *first = &files->size;
    if (files->n == 0) {
        files->form = form;
        files->size = *size;
    } else if (files->form != form || memcmp(first, size, sizeof *size) != 0) {
        return ebb__fail(files->ctx, EBB_DATA,
                         "image file %s: holds images of %s, %u x %u, but %s of %s, %u x %u; all "
                         "must be alike",
                         file->path, form_name(form), size->height, size->width, files->at[0].path,
                         form_name(files->form), first->height, first->width);
    }
    files->count += file->count;
    return ebb__image_size_sound(size, files->count)
               ? EBB_OK
               : ebb__fail(files->ctx, EBB_DATA, "image file %s: too many images; use fewer files",
                           file->path);
}

ebb_status ebb__image_files_add(image_files *files, const char *path) {
    image_file file = {.path = NULL};
    image_form form = IMAGE_IDX;
    image_size size = {0, 0, 0};
    file_look images;
    TRY(ebb__region_strdup(&files->region, path, &file.path));
    TRY(look(files->ctx, path, &images));
    file.hash = images.hash;
    join(files, &images);
    if (ebb__npy_known(images.head, sizeof images.head)) {
        TRY(add_npy(files, &file, &images, &form, &size));
    } else {
        TRY(looks_like_idx(path, &images) ? add_idx(files, &file, &images, &size)
                                          : add_cifar(files, &file, &images, &form, &size));
    }
    TRY(check_alike(files, &file, form, &size));
    TRY(ebb__region_grow(&files->region, &files->at, &files->room, files->n + 1,
                         sizeof *files->at));
    files->at[files->n++] = file;
    return EBB_OK;
}

void ebb__image_files_free(image_files *files) {
    ebb__region_fini(&files->region);
    files->at = NULL;
    files->names = NULL;
    files->n = files->room = 0;
}
