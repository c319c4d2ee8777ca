/* image_folder.c - folders of PNG and JPEG files, a folder a class, listed as torchvision's
 * ImageFolder does: classes by name; in each, folders by their path, in each of these, files by
 * name, all in the order of bytes. Files are not opened here: there may be millions, so what is
 * known of them is their size and time. */
#include "data/image_files.h"

#include "base/file.h"

#include <dirent.h>
#include <endian.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>

#include <xxhash.h>

enum { PATH_BYTES = 1024, DEEPEST = 16, NAMES_MOST = 1 << 20 };

/* A file or folder below a folder. */
typedef struct entry {
    char *path;
    size_t folder; /* bytes of it before the last slash */
} entry;
typedef struct entry_list {
    alloc_region *region;
    entry *at;
    size_t n, room;
} entry_list;

static int compare(const void *left, const void *right) {
    const entry *a = left, *b = right;
    size_t shorter = a->folder < b->folder ? a->folder : b->folder;
    int order = memcmp(a->path, b->path, shorter);
    if (order == 0 && a->folder != b->folder) {
        order = a->folder < b->folder ? -1 : 1;
    }
    return order != 0 ? order : strcmp(a->path + a->folder, b->path + b->folder);
}

static ebb_status add_entry(entry_list *list, const char *path, size_t folder) {
    entry new = {.folder = folder};
    TRY(ebb__region_strdup(list->region, path, &new.path));
    TRY(ebb__region_grow(list->region, &list->at, &list->room, list->n + 1, sizeof *list->at));
    list->at[list->n++] = new;
    return EBB_OK;
}

static bool ends_in(const char *name, const char *const *ends) {
    const char *dot = strrchr(name, '.');
    for (; dot != NULL && *ends != NULL; ends++) {
        if (strcasecmp(dot, *ends) == 0) {
            return true;
        }
    }
    return false;
}

/* ---- walking ---- */

/* What the names in a folder are for: its folders into one list, its images into the other; a list
 * may be NULL. */
static ebb_status sort_out(ebb_ctx *ctx, const char *folder, const char *name, entry_list *folders,
                           entry_list *images) {
    static const char *const good[] = {".png", ".jpg", ".jpeg", NULL};
    static const char *const other[] = {".ppm", ".pgm", ".bmp", ".tif", ".tiff", ".webp", NULL};
    char path[PATH_BYTES];
    struct stat info;
    TRY(ebb__file_join(ctx, folder, name, path, sizeof path));
    bool is_folder = stat(path, &info) == 0 && S_ISDIR(info.st_mode);
    if (is_folder) {
        return folders == NULL || name[0] == '.' ? EBB_OK
                                                 : add_entry(folders, path, strlen(folder));
    }
    if (images != NULL && ends_in(name, other)) {
        return ebb__fail(ctx, EBB_DATA,
                         "image %s: only PNG and JPEG files are read; convert it, or remove it",
                         path);
    }
    return images != NULL && ends_in(name, good) ? add_entry(images, path, strlen(folder)) : EBB_OK;
}

static ebb_status list_folder(ebb_ctx *ctx, const char *folder, entry_list *folders,
                              entry_list *images) {
    ebb_status status = EBB_OK;
    const struct dirent *item;
    TRY(ebb__poll_stop(ctx, folder));
    DIR *stream = opendir(folder);
    if (stream == NULL) {
        return ebb__fail(ctx, EBB_DATA, "image folder %s: cannot be read: %s", folder,
                         strerror(errno));
    }
    while ((item = readdir(stream)) != NULL) {
        TRY_OUT(sort_out(ctx, folder, item->d_name, folders, images));
    }
out:
    (void)closedir(stream);
    return status;
}

/* All images of a class, also those of folders in it: a list of folders that grows as it is walked.
 */
static ebb_status list_class(ebb_ctx *ctx, const char *folder, entry_list *images) {
    entry_list folders = {.region = images->region};
    size_t level_end = 0;
    int level = 0;
    TRY(list_folder(ctx, folder, &folders, images));
    for (size_t i = 0; i < folders.n; i++) {
        if (i == level_end) {
            level_end = folders.n;
            level++;
        }
        if (level > DEEPEST) {
            return ebb__fail(ctx, EBB_DATA,
                             "image folder %s: folders lie more than %d deep, or in a circle",
                             folder, DEEPEST);
        }
        TRY(list_folder(ctx, folders.at[i].path, &folders, images));
    }
    if (images->n > 0) {
        qsort(images->at, images->n, sizeof *images->at, compare);
    }
    return EBB_OK;
}

/* ---- the list of files ---- */

ebb_status ebb__image_folder_stamp(ebb_ctx *ctx, const char *path, uint64_t *bytes, uint64_t *out) {
    struct stat info;
    if (stat(path, &info) != 0) {
        return ebb__fail(ctx, EBB_DATA, "image %s: %s", path, strerror(errno));
    }
    const uint64_t facts[] = {htole64((uint64_t)info.st_size),
                              htole64((uint64_t)info.st_mtim.tv_sec),
                              htole64((uint64_t)info.st_mtim.tv_nsec)};
    *out = XXH3_64bits(facts, sizeof facts);
    *bytes = (uint64_t)info.st_size;
    return EBB_OK;
}

static ebb_status add_image(image_files *files, char *path, size_t folder, int32_t label) {
    image_file file = {.path = path, .count = 1, .label = label};
    uint64_t bytes = 0;
    TRY(ebb__image_folder_stamp(files->ctx, path, &bytes, &file.hash));
    /* The name below the folder counts, not where the folder is. */
    const uint64_t parts[] = {htole64(files->hash), htole64(file.hash),
                              XXH3_64bits(path + folder, strlen(path + folder))};
    files->hash = XXH3_64bits(parts, sizeof parts);
    files->bytes += bytes;
    TRY(ebb__region_grow(&files->region, &files->at, &files->room, files->n + 1,
                         sizeof *files->at));
    files->at[files->n++] = file;
    return EBB_OK;
}

static ebb_status add_class(image_files *files, const entry *class, int32_t label) {
    const char *name = class->path + class->folder + 1;
    entry_list images = {.region = &files->region};
    if (!ebb__image_name_sound(name, strlen(name))) {
        return ebb__fail(
            files->ctx, EBB_DATA,
            "image folder %.*s: the name of its folder %d, by name, is not UTF-8 text; "
            "rename it",
            (int)class->folder, class->path, label + 1);
    }
    TRY(list_class(files->ctx, class->path, &images));
    if (images.n == 0) {
        return ebb__fail(files->ctx, EBB_DATA,
                         "image folder %s: holds no PNG or JPEG file; every folder is a class, and "
                         "needs one at least",
                         class->path);
    }
    for (size_t i = 0; i < images.n; i++) {
        TRY(add_image(files, images.at[i].path, class->folder, label));
    }
    memcpy(files->names + files->names_bytes, name, strlen(name)); /* a zero byte follows */
    files->names_bytes += strlen(name) + 1;
    return EBB_OK;
}

/* Room for all names. */
static ebb_status take_names(image_files *files, const entry_list *classes) {
    size_t bytes = 0;
    for (size_t i = 0; i < classes->n; i++) {
        bytes += strlen(classes->at[i].path) - classes->at[i].folder; /* slash: zero byte */
    }
    if (classes->n > IMAGE_MOST_CLASSES || bytes > NAMES_MOST) {
        return ebb__fail(files->ctx, EBB_DATA,
                         "image folder %.*s: has %zu folders, whose names take %zu bytes; at most "
                         "%d classes of %d bytes are allowed",
                         (int)classes->at[0].folder, classes->at[0].path, classes->n, bytes,
                         IMAGE_MOST_CLASSES, NAMES_MOST);
    }
    return ebb__region_alloc(&files->region, bytes, 1, &files->names);
}

/* The number of the name among others; -1: it is none of them. */
static int32_t find_name(const char *name, const char *names, size_t bytes) {
    int32_t number = 0;
    for (size_t at = 0; at < bytes; at += strlen(names + at) + 1, number++) {
        if (strcmp(names + at, name) == 0) {
            return number;
        }
    }
    return -1;
}

/* Files lie in the order of their classes: what was number `from` in it becomes `to`. */
static size_t number_class(image_files *files, size_t first, int32_t from, int32_t to) {
    while (first < files->n && files->at[first].label == from) {
        files->at[first++].label = to;
    }
    return first;
}

ebb_status ebb__image_files_renumber(image_files *files, const char *names, size_t bytes,
                                     uint32_t classes) {
    size_t first = 0;
    int32_t from = 0;
    if (files->form != IMAGE_FOLDER || bytes == 0 ||
        (files->names_bytes == bytes && memcmp(files->names, names, bytes) == 0)) {
        return EBB_OK;
    }
    for (size_t at = 0; at < files->names_bytes; at += strlen(files->names + at) + 1) {
        int32_t to = find_name(files->names + at, names, bytes);
        if (to < 0) {
            return ebb__fail(files->ctx, EBB_DATA,
                             "image %s: its class, %s, is none of those to learn from; rename or "
                             "remove the folder",
                             files->at[first].path, files->names + at);
        }
        first = number_class(files, first, from++, to);
    }
    TRY(ebb__region_alloc(&files->region, bytes, 1, &files->names));
    memcpy(files->names, names, bytes);
    files->names_bytes = bytes;
    files->classes = classes;
    return EBB_OK;
}

ebb_status ebb__image_folder_add(image_files *files, const char *folder,
                                 const image_request *request, bool *found) {
    entry_list classes = {.region = &files->region};
    TRY(list_folder(files->ctx, folder, &classes, NULL));
    *found = classes.n > 0;
    if (!*found) {
        return EBB_OK;
    }
    if (files->n > 0) {
        return ebb__fail(files->ctx, EBB_DATA,
                         "image folder %s: a folder of classes is named alone, without other files",
                         folder);
    }
    qsort(classes.at, classes.n, sizeof *classes.at, compare);
    TRY(take_names(files, &classes));
    for (size_t i = 0; i < classes.n; i++) {
        TRY(add_class(files, &classes.at[i], (int32_t)i));
    }
    files->hash += files->skip_bad; /* another set may come of it */
    files->form = IMAGE_FOLDER;
    files->size = request->want;
    files->classes = (uint32_t)classes.n;
    files->count = files->n;
    return ebb__image_size_sound(&files->size, files->count)
               ? EBB_OK
               : ebb__fail(files->ctx, EBB_USAGE,
                           "image folder %s: images of many sizes need one to be brought to, but "
                           "%u x %u is none for %llu images",
                           folder, files->size.height, files->size.width,
                           (unsigned long long)files->count);
}
