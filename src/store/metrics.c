/* metrics.c - formats and appends metric lines; mends the file on open.
 *
 * Numbers are written as the shortest decimals that read back as the same double, whatever the
 * process's locale. Parsing happens only in open(): never while training. */
#include "store/metrics.h"

#include "base/alloc.h"
#include "base/file.h"

#include <inttypes.h>
#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define LINE_BYTES 4096u   /* the longest line that is written or kept */
#define BLOCK_BYTES 65536u /* read at once while mending */

/* ---- writing ------------------------------------------------------------------------------ */

typedef struct line_buffer {
    char text[LINE_BYTES];
    size_t used;
    bool full;
} line_buffer;

static void put(line_buffer *line, const char *text) {
    size_t n = strlen(text);
    if (n > sizeof line->text - line->used) {
        line->full = true;
        return;
    }
    memcpy(line->text + line->used, text, n);
    line->used += n;
}

static void put_real(line_buffer *line, double value) {
    char digits[40], plain[40];
    size_t n = 0;
    for (int precision = 6; precision <= 17; precision++) {
        snprintf(digits, sizeof digits, "%.*g", precision, value);
        if (strtod(digits, NULL) == value) {
            break;
        }
    }
    /* The locale's radix, of one or more bytes, becomes a point. */
    for (const char *c = digits; *c; c++) {
        bool number = strchr("0123456789+-e", *c) != NULL;
        if (number || (n > 0 && plain[n - 1] != '.')) {
            plain[n++] = number ? *c : '.';
        }
    }
    plain[n] = '\0';
    put(line, plain);
}

static const char *nonfinite_name(double value) {
    return isnan(value) ? "nan" : value > 0 ? "inf" : "-inf";
}

static bool is_plain(const char *name) {
    static const char plain[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_";
    return name[0] != '\0' && name[strspn(name, plain)] == '\0';
}

ebb_status ebb__metrics_write(metrics_log *log, const metrics_field *fields, size_t n_fields) {
    line_buffer line = {.used = 0};
    const char *nonfinite = NULL;
    put(&line, "{");
    for (size_t i = 0; i < n_fields; i++) {
        const metrics_field *field = &fields[i];
        if (!is_plain(field->name)) {
            return ebb__fail(log->ctx, EBB_USAGE, "%s: a field's name is not plain", log->path);
        }
        put(&line, i > 0 ? ",\"" : "\"");
        put(&line, field->name);
        put(&line, "\":");
        if (field->is_integer) {
            char digits[24];
            snprintf(digits, sizeof digits, "%" PRId64, field->integer);
            put(&line, digits);
        } else if (isfinite(field->real)) {
            put_real(&line, field->real);
        } else {
            nonfinite = nonfinite ? nonfinite : nonfinite_name(field->real);
            put(&line, "null");
        }
    }
    if (nonfinite) {
        put(&line, ",\"nonfinite\":\"");
        put(&line, nonfinite);
        put(&line, "\"");
    }
    put(&line, "}\n");
    if (line.full) {
        return ebb__fail(log->ctx, EBB_USAGE, "%s: a line is above %u bytes", log->path,
                         LINE_BYTES);
    }
    TRY(ebb__file_write_fd(log->ctx, log->fd, log->path, line.text, line.used));
    log->bytes += line.used;
    return EBB_OK;
}

ebb_status ebb__metrics_sync(metrics_log *log) {
    return ebb__file_sync(log->ctx, log->fd, log->path);
}

void ebb__metrics_close(metrics_log *log) {
    ebb__file_close(log->fd);
    log->fd = -1;
}

/* ---- opening ------------------------------------------------------------------------------ */

/* A whole line, without its newline, of a step that is kept. Memory that runs out makes it false,
 * which costs a line of the log and never the run. */
static bool is_kept(const char *line, size_t bytes, int64_t step) {
    json_t *object = json_loadb(line, bytes, JSON_REJECT_DUPLICATES, NULL);
    const json_t *value = json_object_get(object, "step");
    bool kept = json_is_integer(value) && json_integer_value(value) <= step;
    json_decref(object);
    return kept;
}

/* Whether the first `keep` bytes end with a whole line of a kept step. */
static ebb_status ends_well(ebb_ctx *ctx, int fd, const char *path, uint64_t keep, int64_t step,
                            bool *well) {
    char tail[LINE_BYTES + 1];
    size_t bytes = keep < sizeof tail ? (size_t)keep : sizeof tail, start;
    TRY(ebb__file_pread(ctx, fd, path, tail, bytes, keep - bytes));
    *well = false;
    if (bytes == 0 || tail[bytes - 1] != '\n') {
        *well = bytes == 0;
        return EBB_OK;
    }
    for (start = bytes - 1; start > 0 && tail[start - 1] != '\n'; start--) {
    }
    *well = is_kept(tail + start, bytes - 1 - start, step);
    return EBB_OK;
}

/* Copies to `to` the whole lines of kept steps of `fd`; lines too long to be ours are dropped. */
static ebb_status copy_lines(ebb_ctx *ctx, int fd, const char *path, int64_t step, char *block,
                             file_writer *to) {
    size_t used = 0, got = 0;
    bool skipping = false;
    do {
        char *line = block, *end;
        TRY(ebb__file_read(ctx, fd, path, block + used, BLOCK_BYTES - used, &got));
        used += got;
        while ((end = memchr(line, '\n', used - (size_t)(line - block))) != NULL) {
            size_t bytes = (size_t)(end - line) + 1;
            if (!skipping && bytes <= LINE_BYTES && is_kept(line, bytes - 1, step)) {
                TRY(ebb__file_write(to, line, bytes));
            }
            skipping = false;
            line = end + 1;
        }
        used -= (size_t)(line - block);
        if (used == BLOCK_BYTES) {
            skipping = true;
            used = 0;
        }
        memmove(block, line, used);
    } while (got > 0);
    return EBB_OK;
}

static ebb_status mend(ebb_ctx *ctx, int fd, const char *path, int64_t step) {
    ebb_status status = EBB_OK;
    file_writer to = {.ctx = ctx, .fd = -1};
    char *block = NULL;
    TRY_OUT(ebb__alloc(ctx, BLOCK_BYTES, 1, &block));
    TRY_OUT(ebb__file_create(ctx, path, &to));
    TRY_OUT(copy_lines(ctx, fd, path, step, block, &to));
    TRY_OUT(ebb__file_commit(&to));
out:
    ebb__file_abandon(&to);
    ebb__free(ctx, block);
    return status;
}

static ebb_status mend_unless_well(ebb_ctx *ctx, const char *path, uint64_t keep, int64_t step,
                                   bool *well) {
    ebb_status status = EBB_OK;
    uint64_t have = 0;
    int fd = -1;
    *well = false;
    TRY_OUT(ebb__file_open(ctx, path, &fd, &have));
    if (have >= keep) {
        TRY_OUT(ends_well(ctx, fd, path, keep, step, well));
    }
    if (!*well) {
        ebb__log(ctx, EBB_LOG_WARN,
                 "%s: does not match the checkpoint; keeping its whole lines up to step %" PRId64,
                 path, step);
        TRY_OUT(mend(ctx, fd, path, step));
    }
out:
    ebb__file_close(fd);
    return status;
}

ebb_status ebb__metrics_open(ebb_ctx *ctx, const char *path, uint64_t keep_bytes, int64_t step,
                             metrics_log *out) {
    ebb_status status = EBB_OK;
    bool well = true;
    *out = (metrics_log){.ctx = ctx, .fd = -1};
    int n = snprintf(out->path, sizeof out->path, "%s", path);
    if (n < 0 || (size_t)n >= sizeof out->path) {
        return ebb__fail(ctx, EBB_USAGE, "%.200s...: path too long", path);
    }
    if (keep_bytes > 0 && ebb__file_exists(path)) {
        TRY(mend_unless_well(ctx, path, keep_bytes, step, &well));
    }
    TRY_OUT(ebb__file_append(ctx, path, &out->fd, &out->bytes));
    if (well && out->bytes > keep_bytes) {
        TRY_OUT(ebb__file_truncate(ctx, out->fd, path, keep_bytes));
        out->bytes = keep_bytes;
    }
out:
    if (status != EBB_OK) {
        ebb__metrics_close(out);
    }
    return status;
}
