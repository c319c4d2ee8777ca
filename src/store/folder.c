/* folder.c - see folder.h. A folder that ebb has used holds its lock file or, if that was tidied
 * away, manifests of checkpoints. */
#include "store/folder.h"

#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>

typedef struct folder_look {
    bool ours;
    char foreign[256]; /* a name that would be written over; "": there is none */
} folder_look;

static bool has_ends(const char *name, const char *start, const char *end) {
    size_t length = strlen(name), head = strlen(start), tail = strlen(end);
    return length > head + tail && strncmp(name, start, head) == 0 &&
           strcmp(name + length - tail, end) == 0;
}

/* Whether a run writes files of this name. */
static bool is_run_file(const char *name) {
    static const char *const names[] = {
        "config",           "metrics.jsonl",    "events",        "best.safetensors",
        "last.safetensors", "vocab.txt",        "vocab.src.txt", "vocab.tgt.txt",
        "vocab.new",        "vocab.src.new",    "vocab.tgt.new", "train.tokens",
        "train.src.tokens", "train.tgt.tokens", "valid.tokens",  "valid.src.tokens",
        "valid.tgt.tokens", "codes.txt",        "codes.src.txt", "codes.tgt.txt",
        "codes.new",        "codes.src.new",    "codes.tgt.new", "net.txt",
        "images.json",      "images.new",       "train.images",  "valid.images"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        if (strcmp(name, names[i]) == 0) {
            return true;
        }
    }
    return has_ends(name, "ckpt-", ".safetensors") || has_ends(name, "step-", ".safetensors");
}

static ebb_status look(ebb_ctx *ctx, const char *dir, folder_look *out) {
    *out = (folder_look){.ours = false};
    DIR *stream = opendir(dir);
    if (stream == NULL) {
        return ebb__fail(ctx, EBB_IO, "%s: cannot list: %m", dir);
    }
    for (const struct dirent *entry = readdir(stream); entry != NULL; entry = readdir(stream)) {
        const char *name = entry->d_name;
        out->ours |= strcmp(name, "lock") == 0 || has_ends(name, "ckpt-", ".json");
        if (is_run_file(name)) {
            (void)snprintf(out->foreign, sizeof out->foreign, "%s", name);
        }
    }
    (void)closedir(stream);
    return EBB_OK;
}

ebb_status ebb__folder_lock(ebb_ctx *ctx, const char *dir, file_lock *out) {
    folder_look seen;
    *out = FILE_UNLOCKED;
    TRY(look(ctx, dir, &seen));
    if (!seen.ours && seen.foreign[0] != '\0') {
        return ebb__fail(ctx, EBB_USAGE,
                         "%s/%s: is no file of a run (none was ever in this folder) and would be "
                         "written over; move it away, or name another --out",
                         dir, seen.foreign);
    }
    return ebb__file_lock_dir(ctx, dir, out);
}
