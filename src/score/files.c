/* files.c - see files.h. */
#include "score/files.h"

#include "base/alloc.h"
#include "data/text.h"

#include <string.h>

static ebb_status refuse(const score_file *file, const char *why) {
    return ebb__fail(file->source.ctx, EBB_DATA, "%s:%llu: %s", file->source.path,
                     (unsigned long long)file->lines + 1, why);
}

static ebb_status refill(score_file *file) {
    size_t got = 0;
    TRY(ebb__source_read(&file->source, file->buffer, SCORE_BUFFER_BYTES, &got));
    file->cursor = 0;
    file->end = got;
    return EBB_OK;
}

static ebb_status check_utf8(const score_file *file) {
    const unsigned char *at = (const unsigned char *)file->line.bytes;
    size_t left = file->line.used;
    while (left > 0) {
        size_t length = ebb__utf8_length(at, left);
        if (length == 0) {
            return refuse(file, "is not valid UTF-8; convert it (iconv -t UTF-8)");
        }
        at += length;
        left -= length;
    }
    return EBB_OK;
}

static ebb_status append(score_file *file, size_t bytes) {
    score_text *line = &file->line;
    if (bytes > SCORE_MOST_LINE - line->used) {
        return refuse(file, "is a line of more than 1 GiB, so this is hardly a text");
    }
    TRY(ebb__score_reserve(file->source.ctx, line, line->used + bytes));
    memcpy(line->bytes + line->used, file->buffer + file->cursor, bytes);
    line->used += bytes;
    file->cursor += bytes;
    return EBB_OK;
}

static ebb_status next_line(score_file *file) {
    const unsigned char *newline = NULL;
    file->line.used = 0;
    while (newline == NULL) {
        if (file->cursor == file->end) {
            TRY(refill(file));
        }
        if (file->end == 0) {
            file->ended = file->line.used == 0;
            break;
        }
        const unsigned char *start = file->buffer + file->cursor;
        newline = memchr(start, '\n', file->end - file->cursor);
        TRY(append(file, newline != NULL ? (size_t)(newline - start) : file->end - file->cursor));
        file->cursor += newline != NULL;
    }
    if (file->ended) {
        return EBB_OK;
    }
    TRY(check_utf8(file));
    file->line.used = ebb__score_strip(file->line.bytes, file->line.used);
    file->lines++;
    return EBB_OK;
}

static void close_file(ebb_ctx *ctx, score_file *file) {
    ebb__score_text_free(ctx, &file->line);
    ebb__free(ctx, file->buffer);
    file->buffer = NULL;
    ebb__source_close(&file->source);
}

static ebb_status open_file(ebb_ctx *ctx, const char *path, score_file *out) {
    TRY(ebb__source_open(ctx, path, "score", NULL, &out->source));
    TRY(ebb__alloc(ctx, SCORE_BUFFER_BYTES, 1, &out->buffer));
    TRY(refill(out));
    if (out->end == 0) {
        return ebb__fail(ctx, EBB_DATA, "data file %s: is empty once unpacked", path);
    }
    return EBB_OK;
}

ebb_status ebb__score_open(ebb_ctx *ctx, const char *const *paths, size_t n, score_files *out) {
    ebb_status status;
    *out = (score_files){.ctx = ctx};
    TRY(ebb__alloc(ctx, n, sizeof *out->at, &out->at));
    for (; out->n < n; out->n++) {
        out->at[out->n] = (score_file){.source = {.ctx = ctx, .fd = -1}};
    }
    for (size_t i = 0; i < n; i++) {
        TRY_OUT(open_file(ctx, paths[i], &out->at[i]));
    }
out:
    if (status != EBB_OK) {
        ebb__score_close(out);
    }
    return status;
}

/* One text has ended before the other, whose lines are counted to its end. */
static ebb_status refuse_counts(const score_file *shorter, score_file *longer) {
    while (!longer->ended) {
        TRY(next_line(longer));
    }
    return ebb__fail(
        longer->source.ctx, EBB_DATA,
        "%s has %llu lines and %s has %llu, but line by line they must belong together",
        shorter->source.path, (unsigned long long)shorter->lines, longer->source.path,
        (unsigned long long)longer->lines);
}

ebb_status ebb__score_next(score_files *files, bool *got) {
    score_file *first = &files->at[0];
    for (size_t i = 0; i < files->n; i++) {
        TRY(next_line(&files->at[i]));
    }
    for (size_t i = 1; i < files->n; i++) {
        if (first->ended != files->at[i].ended) {
            return first->ended ? refuse_counts(first, &files->at[i])
                                : refuse_counts(&files->at[i], first);
        }
    }
    *got = !first->ended;
    return EBB_OK;
}

void ebb__score_close(score_files *files) {
    for (size_t i = 0; i < files->n; i++) {
        close_file(files->ctx, &files->at[i]);
    }
    ebb__free(files->ctx, files->at);
    *files = (score_files){.ctx = files->ctx};
}
