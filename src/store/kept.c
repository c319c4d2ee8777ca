/* kept.c - see kept.h. */
#include "store/kept.h"

#include "base/file.h"

#include <dirent.h>
#include <errno.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

typedef struct kept_name {
    char text[64];
} kept_name;

static kept_name name_of(const char *before, uint64_t step) {
    kept_name name;
    (void)snprintf(name.text, sizeof name.text, "%s-%" PRIu64 ".safetensors", before, step);
    return name;
}

/* "step-<step>.safetensors" as we write it, and nothing else: what we may delete. */
static bool parse(const char *text, uint64_t *step) {
    return sscanf(text, "step-%20" SCNu64, step) == 1 &&
           strcmp(text, name_of("step", *step).text) == 0;
}

/* How many there are, and the oldest. */
static ebb_status look(ebb_ctx *ctx, const char *dir, uint64_t *count, uint64_t *oldest) {
    DIR *stream = opendir(dir);
    *count = 0;
    *oldest = UINT64_MAX;
    if (stream == NULL) {
        return ebb__fail(ctx, EBB_IO, "%s: cannot list: %s", dir, strerror(errno));
    }
    for (const struct dirent *entry = readdir(stream); entry != NULL; entry = readdir(stream)) {
        uint64_t step = 0;
        if (parse(entry->d_name, &step)) {
            ++*count;
            *oldest = step < *oldest ? step : *oldest;
        }
    }
    (void)closedir(stream);
    return EBB_OK;
}

ebb_status ebb__kept_prune(ebb_ctx *ctx, const char *dir, uint64_t keep) {
    uint64_t count = 0, oldest = 0;
    char path[1024];
    TRY(look(ctx, dir, &count, &oldest));
    while (count > keep) {
        TRY(ebb__file_join(ctx, dir, name_of("step", oldest).text, path, sizeof path));
        TRY(ebb__file_remove(ctx, path));
        TRY(look(ctx, dir, &count, &oldest));
    }
    return EBB_OK;
}

ebb_status ebb__kept_add(ebb_ctx *ctx, const char *dir, uint64_t step, uint64_t keep) {
    char from[1024], to[1024];
    TRY(ebb__file_join(ctx, dir, name_of("ckpt", step).text, from, sizeof from));
    TRY(ebb__file_join(ctx, dir, name_of("step", step).text, to, sizeof to));
    TRY(ebb__file_link(ctx, from, to));
    return ebb__kept_prune(ctx, dir, keep);
}
