/* disk.h - a disk that power can be taken from: recorded calls (calls.h) are played into it, and
 * what a cut leaves is written into a folder.
 *
 * It promises no more than POSIX: bytes are safe once their file was synced, names (made, moved,
 * removed) once their folder was. What is not safe may be there or not, each change of a name by
 * itself; bytes may be torn, or zeros. */
#ifndef TESTS_SUPPORT_DISK_H
#define TESTS_SUPPORT_DISK_H

#include "support/calls.h"
#include "support/graphs.h"

#include <dirent.h>
#include <sys/stat.h>

enum { DISK_FDS = 64, DISK_NAMES = 128 };

typedef struct disk_bytes {
    char *data;
    size_t n;
} disk_bytes;

typedef struct disk_file {
    disk_bytes now, safe;
} disk_file;

/* A name that comes, one that goes, or both at once. */
typedef struct disk_change {
    char set[256], gone[256];
    int file; /* of `set`; -1: a folder */
    bool safe;
} disk_change;

typedef struct disk {
    disk_file *files;
    disk_change *changes;
    int n_files, n_changes, room_files, room_changes;
    struct {
        int file; /* -1: a folder, or nothing that counts */
        char path[256];
    } fd[DISK_FDS];
} disk;

/* What of all that is not safe is lost. */
typedef enum disk_loss { LOSE_ALL, LOSE_SOME, LOSE_LATE, LOSE_NONE } disk_loss;

static inline void disk_init(disk *d) {
    *d = (disk){0};
    for (int i = 0; i < DISK_FDS; i++) {
        d->fd[i].file = -1;
    }
}

static inline void disk_fini(disk *d) {
    for (int i = 0; i < d->n_files; i++) {
        free(d->files[i].now.data);
        free(d->files[i].safe.data);
    }
    free(d->files);
    free(d->changes);
}

static inline void disk_set(disk_bytes *to, const char *data, size_t n) {
    char *copy = malloc(n + 1);
    assert_non_null(copy);
    memcpy(copy, data != NULL ? data : "", n);
    free(to->data);
    *to = (disk_bytes){copy, n};
}

static inline int disk_new_file(disk *d) {
    if (d->n_files == d->room_files) {
        d->room_files = 2 * d->room_files + 16;
        d->files = realloc(d->files, (size_t)d->room_files * sizeof *d->files);
        assert_non_null(d->files);
    }
    disk_file *f = &d->files[d->n_files];
    *f = (disk_file){0};
    disk_set(&f->now, NULL, 0);
    disk_set(&f->safe, NULL, 0);
    return d->n_files++;
}

static inline disk_change *disk_name(disk *d, const char *set, const char *gone, int file) {
    if (d->n_changes == d->room_changes) {
        d->room_changes = 2 * d->room_changes + 64;
        d->changes = realloc(d->changes, (size_t)d->room_changes * sizeof *d->changes);
        assert_non_null(d->changes);
    }
    disk_change *c = &d->changes[d->n_changes++];
    *c = (disk_change){.file = file};
    assert_true(strlen(set) < sizeof c->set && strlen(gone) < sizeof c->gone);
    memcpy(c->set, set, strlen(set) + 1);
    memcpy(c->gone, gone, strlen(gone) + 1);
    return c;
}

/* The file that has this name now; -1: none. */
static inline int disk_find(const disk *d, const char *path) {
    for (int i = d->n_changes - 1; i >= 0; i--) {
        if (strcmp(d->changes[i].set, path) == 0) {
            return d->changes[i].file;
        }
        if (strcmp(d->changes[i].gone, path) == 0) {
            return -1;
        }
    }
    return -1;
}

static inline bool disk_lies_in(const char *path, const char *dir) {
    size_t n = strlen(dir);
    return strncmp(path, dir, n) == 0 && path[n] == '/' && strchr(path + n + 1, '/') == NULL;
}

/* ---- playing ---- */

static inline void disk_open(disk *d, const call *c) {
    assert_in_range(c->fd, 0, DISK_FDS - 1);
    int file = disk_find(d, c->path);
    bool unnamed = (c->flags & O_TMPFILE) == O_TMPFILE;
    if (file < 0 && !unnamed && (c->flags & O_CREAT) != 0) {
        file = disk_new_file(d);
        (void)disk_name(d, c->path, "", file);
    }
    assert_int_equal(c->flags & O_TRUNC, 0);
    d->fd[c->fd].file = file;
    (void)snprintf(d->fd[c->fd].path, sizeof d->fd[c->fd].path, "%s", unnamed ? "" : c->path);
}

static inline void disk_sync(disk *d, int fd) {
    if (d->fd[fd].file >= 0) {
        disk_file *f = &d->files[d->fd[fd].file];
        disk_set(&f->safe, f->now.data, f->now.n);
        return;
    }
    for (int i = 0; i < d->n_changes; i++) {
        disk_change *c = &d->changes[i];
        c->safe |= disk_lies_in(c->set[0] != '\0' ? c->set : c->gone, d->fd[fd].path);
    }
}

static inline void disk_write(disk *d, const call *c) {
    if (d->fd[c->fd].file < 0) {
        return;
    }
    disk_bytes *now = &d->files[d->fd[c->fd].file].now;
    now->data = realloc(now->data, now->n + c->bytes + 1);
    assert_non_null(now->data);
    memcpy(now->data + now->n, c->data, c->bytes);
    now->n += c->bytes;
}

static inline void disk_play(disk *d, const call *c) {
    int file;
    switch (c->kind) {
    case CALL_OPEN:
        disk_open(d, c);
        break;
    case CALL_CLOSE:
        if (c->fd < DISK_FDS) {
            d->fd[c->fd].file = -1;
            d->fd[c->fd].path[0] = '\0';
        }
        break;
    case CALL_WRITE:
        disk_write(d, c);
        break;
    case CALL_TRUNCATE:
        file = d->fd[c->fd].file;
        assert_true(file >= 0 && c->bytes <= d->files[file].now.n);
        d->files[file].now.n = c->bytes;
        break;
    case CALL_SYNC:
        disk_sync(d, c->fd);
        break;
    case CALL_RENAME:
        file = disk_find(d, c->path);
        if (file >= 0 && file != disk_find(d, c->to)) { /* else nothing happens */
            (void)disk_name(d, c->to, c->path, file);
        }
        break;
    case CALL_LINK:
        (void)disk_name(d, c->to, "", disk_find(d, c->path));
        break;
    case CALL_UNLINK:
        (void)disk_name(d, "", c->path, -1);
        break;
    case CALL_MKDIR:
        (void)disk_name(d, c->path, "", -1);
        break;
    }
}

/* A folder that is there from the start, with its files. */
static inline void disk_seed(disk *d, const char *dir) {
    DIR *stream = opendir(dir);
    disk_name(d, dir, "", -1)->safe = true;
    assert_non_null(stream);
    for (struct dirent *entry = readdir(stream); entry != NULL; entry = readdir(stream)) {
        char path[512], block[4096];
        struct stat info;
        (void)snprintf(path, sizeof path, "%s/%s", dir, entry->d_name);
        if (stat(path, &info) != 0 || !S_ISREG(info.st_mode)) {
            continue;
        }
        int file = disk_new_file(d), fd = open(path, O_RDONLY);
        call all = {.fd = 0};
        assert_true(fd >= 0);
        d->fd[0].file = file;
        for (ssize_t n; (n = read(fd, block, sizeof block)) > 0;) {
            all.data = block;
            all.bytes = (size_t)n;
            disk_write(d, &all);
        }
        close(fd);
        disk_set(&d->files[file].safe, d->files[file].now.data, d->files[file].now.n);
        disk_name(d, path, "", file)->safe = true;
        d->fd[0].file = -1;
    }
    closedir(stream);
}

/* ---- the cut ---- */

typedef struct disk_left {
    struct {
        char path[256];
        int file;
    } name[DISK_NAMES];
    int n;
} disk_left;

static inline void disk_drop(disk_left *left, const char *path) {
    for (int i = 0; i < left->n; i++) {
        if (strcmp(left->name[i].path, path) == 0) {
            left->name[i] = left->name[--left->n];
            return;
        }
    }
}

static inline void disk_apply(disk_left *left, const disk_change *c) {
    disk_drop(left, c->gone);
    if (c->set[0] != '\0') {
        disk_drop(left, c->set);
        assert_in_range(left->n, 0, DISK_NAMES - 1);
        (void)snprintf(left->name[left->n].path, sizeof left->name[0].path, "%s", c->set);
        left->name[left->n++].file = c->file;
    }
}

/* The names that are left. LOSE_LATE loses what comes after some moment. */
static inline void disk_cut_names(const disk *d, disk_loss loss, test_dice *dice, disk_left *left) {
    int until = loss == LOSE_LATE ? test_below(dice, d->n_changes + 1) : d->n_changes;
    left->n = 0;
    for (int i = 0; i < d->n_changes; i++) {
        bool kept = loss == LOSE_NONE || (loss == LOSE_LATE && i < until) ||
                    (loss == LOSE_SOME && test_below(dice, 2) == 0);
        if (d->changes[i].safe || kept) {
            disk_apply(left, &d->changes[i]);
        }
    }
}

/* Up to where both hold the same is never lost. */
static inline size_t disk_common(const disk_file *f) {
    size_t n = 0;
    while (n < f->now.n && n < f->safe.n && f->now.data[n] == f->safe.data[n]) {
        n++;
    }
    return n;
}

static inline void disk_cut_bytes(const disk_file *f, disk_loss loss, test_dice *dice,
                                  disk_bytes *out) {
    bool torn = loss == LOSE_SOME || loss == LOSE_LATE;
    int how = test_below(dice, 4);
    if (loss == LOSE_ALL || (torn && how == 0)) {
        disk_set(out, f->safe.data, f->safe.n);
        return;
    }
    disk_set(out, f->now.data, f->now.n);
    size_t common = disk_common(f);
    if (torn && how >= 2 && f->now.n > common) {
        size_t kept = common + (size_t)test_below(dice, (int32_t)(f->now.n - common + 1));
        memset(out->data + kept, 0, out->n - kept);
        out->n = how == 2 ? kept : out->n;
    }
}

/* Writes what a cut leaves of `from` to the folder `to`, which is not there yet. */
static inline void disk_cut(const disk *d, disk_loss names, disk_loss bytes, test_dice *dice,
                            const char *from, const char *to) {
    static disk_left left;
    size_t head = strlen(from);
    disk_cut_names(d, names, dice, &left);
    for (int folders = 1; folders >= 0; folders--) { /* those that are made last lie deepest */
        for (int i = 0; i < left.n; i++) {
            char path[512];
            int file = left.name[i].file;
            if (strncmp(left.name[i].path, from, head) != 0 || (file < 0) != (folders == 1)) {
                continue;
            }
            (void)snprintf(path, sizeof path, "%s%s", to, left.name[i].path + head);
            if (folders == 1) {
                (void)mkdir(path, 0777); /* without the folder above it is lost */
                continue;
            }
            disk_bytes content = {0};
            disk_cut_bytes(&d->files[file], bytes, dice, &content);
            int fd = open(path, O_WRONLY | O_CREAT | O_EXCL, 0666);
            if (fd >= 0) {
                assert_int_equal(write(fd, content.data, content.n), content.n);
                close(fd);
            }
            free(content.data);
        }
    }
}

#endif
