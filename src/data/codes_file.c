/* codes_file.c - files of codes, as subword-nmt writes and reads them: `#version: 0.2`, then a pair
 * a line, its two pieces with a space between. Without the first line the version is 0.1.
 *
 * A file is checked wholly before it is believed. It is read whole: it has a bound, and is of the
 * size of the codes made of it. */
#include "data/codes.h"

#include "base/file.h"
#include "data/sink.h"

#include <string.h>

static const char head[] = "#version:";

/* A line without the spaces and carriage returns around it. */
typedef struct file_line {
    const char *text;
    size_t bytes;
} file_line;

static file_line strip(const char *text, size_t bytes) {
    while (bytes > 0 && (text[0] == ' ' || text[0] == '\r')) {
        text++;
        bytes--;
    }
    while (bytes > 0 && (text[bytes - 1] == ' ' || text[bytes - 1] == '\r')) {
        bytes--;
    }
    return (file_line){text, bytes};
}

/* The version that the first line tells; *why if it is none that is known. */
static codes_version version_of(file_line line, const char **why) {
    static const char *const known[] = {[CODES_MARK_APART] = "0.1", [CODES_MARK_JOINED] = "0.2"};
    line = strip(line.text + strlen(head), line.bytes - strlen(head));
    while (line.bytes > 3 && memcmp(line.text + line.bytes - 2, ".0", 2) == 0) {
        line.bytes -= 2; /* 0.2.0 */
    }
    for (int v = CODES_MARK_APART; v <= CODES_MARK_JOINED; v++) {
        if (line.bytes == strlen(known[v]) && memcmp(line.text, known[v], line.bytes) == 0) {
            return (codes_version)v;
        }
    }
    *why = "a version other than 0.1 and 0.2";
    return CODES_MARK_JOINED;
}

static ebb_status add_line(codes_builder *b, file_line line, const char **why) {
    const char *space = line.bytes > 0 ? memchr(line.text, ' ', line.bytes) : NULL;
    if (space == NULL) {
        *why = line.bytes == 0 ? "an empty line" : "one piece where two are joined";
        return EBB_OK;
    }
    size_t left = (size_t)(space - line.text), right = line.bytes - left - 1;
    if (memchr(space + 1, ' ', right) != NULL) {
        *why = "more than two pieces";
    } else if (left + right > TEXT_TOKEN_LIMIT) {
        *why = "a piece of more than 65535 bytes";
    } else if (b->n_pairs == CODES_MOST_PAIRS) {
        *why = "more than 1048576 pairs";
    } else {
        return ebb__codes_build_add(b, line.text, left, space + 1, right);
    }
    return EBB_OK;
}

/* All lines; *bad is the one that *why is about. */
static ebb_status read_lines(codes_builder *b, const char *text, size_t bytes, size_t *bad,
                             const char **why) {
    while (bytes > 0 && text[bytes - 1] == '\n') {
        bytes--;
    }
    *bad = 0;
    for (size_t at = 0; at < bytes && *why == NULL;) {
        const char *end = memchr(text + at, '\n', bytes - at);
        size_t raw = end != NULL ? (size_t)(end - text) - at : bytes - at;
        file_line line = strip(text + at, raw);
        if (++*bad == 1 && raw >= strlen(head) && memcmp(text, head, strlen(head)) == 0) {
            b->version = version_of((file_line){text, raw}, why);
        } else {
            TRY(add_line(b, line, why));
        }
        at += raw + 1;
    }
    return EBB_OK;
}

ebb_status ebb__codes_load(ebb_ctx *ctx, const char *path, ebb_status failure, data_codes *out) {
    ebb_status status = EBB_OK;
    codes_builder builder;
    char *text = NULL;
    const char *why = NULL;
    size_t bytes = 0, line = 0, pair = 0;
    *out = (data_codes){.ctx = ctx};
    ebb__codes_build_begin(ctx, CODES_MARK_APART, &builder);
    if (!ebb__file_exists(path)) {
        TRY_OUT(ebb__fail(ctx, failure, "codes %s: there is no such file", path));
    }
    status = ebb__file_read_all(ctx, path, CODES_FILE_LIMIT, &text, &bytes);
    if (status == EBB_DATA) { /* larger than any codes */
        ebb__ctx_clear(ctx);
        status = ebb__fail(ctx, failure, "codes %s: more than %d bytes are no codes", path,
                           (int)CODES_FILE_LIMIT);
    }
    TRY_OUT(status);
    TRY_OUT(read_lines(&builder, text, bytes, &line, &why));
    if (why == NULL && builder.n_pairs == 0) {
        why = "holds no pair";
    }
    if (why == NULL) {
        TRY_OUT(ebb__codes_build_end(&builder, &pair, &why, out));
        line = why != NULL ? line - builder.n_pairs + pair + 1 : line;
    }
    if (why != NULL) {
        TRY_OUT(ebb__fail(ctx, failure,
                          "codes %s:%zu: %s; give a file written by ebb data codes learn or "
                          "subword-nmt",
                          path, line, why));
    }
out:
    ebb__codes_build_free(&builder);
    ebb__free(ctx, text);
    if (status != EBB_OK) {
        ebb__codes_free(out);
    }
    return status;
}

static ebb_status put_pieces(const data_codes *codes, data_sink *sink) {
    const char *first = codes->version == CODES_MARK_JOINED ? "#version: 0.2\n" : "#version: 0.1\n";
    TRY(ebb__sink_put(sink, first, strlen(first)));
    for (uint32_t i = 0; i < codes->n_pairs; i++) {
        const uint32_t pieces[] = {codes->pairs[i].left, codes->pairs[i].right};
        for (int p = 0; p < 2; p++) {
            size_t length = 0;
            const char *bytes = ebb__codes_piece(codes, pieces[p], &length);
            TRY(ebb__sink_put(sink, bytes, length));
            TRY(ebb__sink_put(sink, p == 0 ? " " : "\n", 1));
        }
    }
    return EBB_OK;
}

ebb_status ebb__codes_save(const data_codes *codes, const char *path) {
    data_sink sink;
    TRY(ebb__sink_open_any(codes->ctx, path, &sink));
    ebb_status status = put_pieces(codes, &sink);
    if (status == EBB_OK) {
        status = ebb__sink_commit(&sink);
    }
    ebb__sink_close(&sink);
    return status;
}
