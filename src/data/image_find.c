/* image_find.c - from what a user names, files or folders, to a list of files of images, and the
 * names of classes that lie beside them. What is in a file is image_files.c's business. */
#include "data/image_files.h"

#include "base/file.h"
#include "data/text.h"

#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

enum { PATH_BYTES = 1024, NAMES_MOST = 1 << 20, NUMBERS = 99 };

/* ---- folders ---- */

/* The usual names. */
static const struct known_file {
    image_part part;
    bool numbered; /* 1, 2, ... between the two parts of the name */
    const char *name, *end;
} known_files[] = {
    {IMAGE_TRAIN, false, "train-images-idx3-ubyte", ""},
    {IMAGE_TRAIN, false, "train-images.idx3-ubyte", ""},
    {IMAGE_TRAIN, true, "data_batch_", ".bin"},
    {IMAGE_TRAIN, false, "train", ".bin"},
    {IMAGE_TRAIN, false, "train-images", ".npy"},
    {IMAGE_TRAIN, false, "train_images", ".npy"},
    {IMAGE_TEST, false, "t10k-images-idx3-ubyte", ""},
    {IMAGE_TEST, false, "t10k-images.idx3-ubyte", ""},
    {IMAGE_TEST, false, "test_batch", ".bin"},
    {IMAGE_TEST, false, "test", ".bin"},
    {IMAGE_TEST, false, "test-images", ".npy"},
    {IMAGE_TEST, false, "test_images", ".npy"},
};
enum { KNOWN_FILES = sizeof known_files / sizeof known_files[0] };

static const char *const looked_for[] = {
    [IMAGE_TRAIN] = "train-images-idx3-ubyte, data_batch_1.bin, train.bin, train-images.npy",
    [IMAGE_TEST] = "t10k-images-idx3-ubyte, test_batch.bin, test.bin, test-images.npy",
};

static bool is_folder(const char *path) {
    struct stat info;
    return stat(path, &info) == 0 && S_ISDIR(info.st_mode);
}

/* Whether the folder has such a file, packed or not; `path` is then its path. */
static ebb_status find_known(ebb_ctx *ctx, const char *folder, const struct known_file *known,
                             int at, char path[PATH_BYTES], bool *found) {
    char name[64], digits[16] = "";
    *found = false;
    if (known->numbered) {
        (void)snprintf(digits, sizeof digits, "%d", at);
    }
    for (int packed = 0; packed < 2 && !*found; packed++) {
        (void)snprintf(name, sizeof name, "%s%s%s%s", known->name, digits, known->end,
                       packed ? ".gz" : "");
        TRY(ebb__file_join(ctx, folder, name, path, PATH_BYTES));
        *found = ebb__file_exists(path);
    }
    return EBB_OK;
}

/* The first one of a kind was found at `path`: it, and those that are numbered on. */
static ebb_status add_known(image_files *files, const char *folder, const struct known_file *known,
                            char path[PATH_BYTES]) {
    int last = 1;
    TRY(ebb__image_files_add(files, path));
    for (int at = 2; known->numbered && at <= NUMBERS; at++) {
        bool found = false;
        TRY(find_known(files->ctx, folder, known, at, path, &found));
        if (found && at != last + 1) {
            return ebb__fail(files->ctx, EBB_DATA,
                             "image folder %s: has %s%d%s, but not %s%d%s; copy it, or name the "
                             "files to use",
                             folder, known->name, at, known->end, known->name, last + 1,
                             known->end);
        }
        if (found) {
            TRY(ebb__image_files_add(files, path));
            last = at;
        }
    }
    return EBB_OK;
}

/* A folder of folders, if nothing of the usual names was found. */
static ebb_status add_classes(image_files *files, const char *folder,
                              const image_request *request) {
    bool found = false;
    TRY(ebb__image_folder_add(files, folder, request, &found));
    return found ? EBB_OK
                 : ebb__fail(files->ctx, EBB_DATA,
                             "image folder %s: holds no %s images under the usual names (%s; also "
                             "with .gz), and no folders of classes; name the files to use",
                             folder, request->part == IMAGE_TRAIN ? "training" : "test",
                             looked_for[request->part]);
}

static ebb_status add_folder(image_files *files, const char *folder, const image_request *request) {
    const struct known_file *first = NULL;
    char path[PATH_BYTES] = "", other[PATH_BYTES] = "";
    for (int i = 0; i < KNOWN_FILES; i++) {
        const struct known_file *known = &known_files[i];
        bool found = false;
        if (known->part == request->part) {
            TRY(find_known(files->ctx, folder, known, 1, first == NULL ? path : other, &found));
        }
        if (found && first != NULL) {
            return ebb__fail(files->ctx, EBB_DATA,
                             "image folder %s: holds several sets, %s and %s among them; name the "
                             "files to use",
                             folder, strrchr(path, '/') + 1, strrchr(other, '/') + 1);
        }
        first = found ? known : first;
    }
    if (first == NULL) {
        return add_classes(files, folder, request);
    }
    return add_known(files, folder, first, path);
}

/* ---- names of classes ---- */

/* Bytes of the line at `text`, without white space at its end; *next: where the next one starts. */
static size_t line_length(const char *text, const char **next) {
    size_t length = strcspn(text, "\n");
    *next = text + length + (text[length] == '\n');
    while (length > 0 && strchr(" \t\r", text[length - 1]) != NULL) {
        length--;
    }
    return length;
}

bool ebb__image_name_sound(const char *name, size_t length) {
    const unsigned char *bytes = (const unsigned char *)name;
    for (size_t i = 0, step = 0; i < length; i += step) {
        step = ebb__utf8_length(bytes + i, length - i);
        if (step == 0 || bytes[i] < ' ' || bytes[i] == 0x7f) {
            return false;
        }
    }
    return length > 0;
}

/* A name a line into files->names, which has room for all of the text; empty lines are none. */
static ebb_status take_names(image_files *files, const char *path, const char *text) {
    uint32_t found = 0;
    int line = 1;
    for (const char *next = text; *text != '\0'; text = next, line++) {
        size_t length = line_length(text, &next);
        if (length == 0) {
            continue;
        }
        if (!ebb__image_name_sound(text, length)) {
            return ebb__fail(files->ctx, EBB_DATA,
                             "class names %s:%d: is not a line of UTF-8 text; mend or remove it",
                             path, line);
        }
        memcpy(files->names + files->names_bytes, text, length);
        files->names_bytes += length + 1; /* memory of a region is zeros */
        found++;
    }
    return found == files->classes
               ? EBB_OK
               : ebb__fail(files->ctx, EBB_DATA,
                           "class names %s: has %u names, but there are %u classes; mend or remove "
                           "the file",
                           path, found, files->classes);
}

static ebb_status find_names(image_files *files) {
    static const char *const names[] = {
        [IMAGE_CIFAR10] = "batches.meta.txt", [IMAGE_CIFAR100] = "fine_label_names.txt"};
    char folder[PATH_BYTES], path[PATH_BYTES];
    const char *first = files->at[0].path, *slash = strrchr(first, '/');
    if (files->form != IMAGE_CIFAR10 && files->form != IMAGE_CIFAR100) {
        return EBB_OK;
    }
    int length = slash == NULL ? 0 : (int)(slash - first);
    (void)snprintf(folder, sizeof folder, "%.*s", length, first);
    TRY(ebb__file_join(files->ctx, slash == NULL ? "." : folder, names[files->form], path,
                       sizeof path));
    if (!ebb__file_exists(path)) {
        return EBB_OK;
    }
    char *text = NULL;
    size_t bytes = 0;
    TRY(ebb__file_read_all(files->ctx, path, NAMES_MOST, &text, &bytes));
    ebb_status status = ebb__region_alloc(&files->region, bytes + 1, 1, &files->names);
    if (status == EBB_OK) {
        status = take_names(files, path, text);
    }
    ebb__free(files->ctx, text);
    return status;
}

ebb_status ebb__image_files_find(ebb_ctx *ctx, const char *const *paths, size_t n,
                                 const image_request *request, image_files *out) {
    *out = (image_files){.ctx = ctx, .skip_bad = request->skip_bad};
    ebb__region_init(&out->region, ctx);
    if (n == 0) {
        return ebb__fail(ctx, EBB_USAGE, "no file of images was named");
    }
    for (size_t i = 0; i < n; i++) {
        TRY(is_folder(paths[i]) ? add_folder(out, paths[i], request)
                                : ebb__image_files_add(out, paths[i]));
    }
    return find_names(out);
}
