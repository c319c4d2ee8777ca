/* text_list.c - see text_list.h. */
#include "data/text_list.h"

#include "base/alloc.h"
#include "base/file.h"

#include <errno.h>
#include <glob.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

enum { COPY_BYTES = 65536 };

/* ---- names ---- */

static ebb_status add(ebb_ctx *ctx, text_list *list, const char *path) {
    TRY(ebb__realloc(ctx, list->at, list->n + 1, sizeof *list->at, &list->at));
    TRY(ebb__strdup(ctx, path, &list->at[list->n]));
    list->n++;
    return EBB_OK;
}

static bool is_pattern(const char *name) {
    return strpbrk(name, "*?[") != NULL;
}

static ebb_status add_matches(ebb_ctx *ctx, text_list *list, const char *pattern) {
    glob_t found = {0};
    ebb_status status = EBB_OK;
    int code = glob(pattern, 0, NULL, &found);
    if (code == GLOB_NOSPACE) {
        status = ebb__fail(ctx, EBB_NOMEM, "no memory to list %s", pattern);
    } else if (code != 0) {
        status = ebb__fail(ctx, EBB_DATA, "data file %s: no file has such a name", pattern);
    }
    for (size_t i = 0; status == EBB_OK && i < found.gl_pathc; i++) {
        status = add(ctx, list, found.gl_pathv[i]);
    }
    globfree(&found);
    return status;
}

/* One of the names between commas. */
static ebb_status add_name(ebb_ctx *ctx, text_list *list, const char *name) {
    bool plain = !is_pattern(name) || ebb__file_exists(name);
    return plain ? add(ctx, list, name) : add_matches(ctx, list, name);
}

static ebb_status add_parts(ebb_ctx *ctx, text_list *list, const char *names) {
    char *own = NULL;
    ebb_status status = ebb__strdup(ctx, names, &own);
    for (char *name = own; status == EBB_OK && *name != '\0';) {
        size_t n = strcspn(name, ",");
        bool last = name[n] == '\0';
        name[n] = '\0';
        status = add_name(ctx, list, name);
        name += n + !last;
    }
    ebb__free(ctx, own);
    return status;
}

ebb_status ebb__text_list(ebb_ctx *ctx, const char *name, text_list *out) {
    *out = (text_list){0};
    bool several = strchr(name, ',') != NULL && !ebb__file_exists(name);
    ebb_status status = several ? add_parts(ctx, out, name) : add_name(ctx, out, name);
    if (status != EBB_OK) {
        ebb__text_list_free(ctx, out);
    }
    return status;
}

void ebb__text_list_free(ebb_ctx *ctx, text_list *list) {
    for (size_t i = 0; i < list->n; i++) {
        ebb__free(ctx, list->at[i]);
    }
    ebb__free(ctx, list->at);
    *list = (text_list){0};
}

/* ---- standard input ---- */

static ebb_status copy_input(ebb_ctx *ctx, file_writer *to) {
    char *buffer = NULL;
    size_t got = 1;
    ebb_status status;
    TRY_OUT(ebb__alloc(ctx, COPY_BYTES, 1, &buffer));
    while (got > 0) {
        TRY_OUT(ebb__poll_stop(ctx, "standard input"));
        TRY_OUT(ebb__file_read(ctx, STDIN_FILENO, "standard input", buffer, COPY_BYTES, &got));
        TRY_OUT(ebb__file_write(to, buffer, got));
    }
out:
    ebb__free(ctx, buffer);
    return status;
}

ebb_status ebb__text_input(ebb_ctx *ctx, text_input *out) {
    if (ctx->input == 0) {
        file_writer copy;
        TRY(ebb__file_create_unnamed(ctx, "/tmp/standard-input", &copy));
        ebb_status status = copy_input(ctx, &copy);
        int fd = status == EBB_OK ? dup(copy.fd) : -1;
        ebb__file_abandon(&copy);
        TRY(status);
        if (fd < 0) {
            return ebb__fail(ctx, EBB_IO, "standard input: %s", strerror(errno));
        }
        ctx->input = fd;
    }
    (void)snprintf(out->path, sizeof out->path, "/proc/self/fd/%d", ctx->input);
    return EBB_OK;
}
