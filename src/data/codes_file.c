/* codes_file.c - files of codes, as subword-nmt writes and reads them: `#version: 0.2`, then a pair
 * a line, its two pieces with a space between. Without the first line the version is 0.1. Codes of
 * bytes have `#version: bytes`; GPT-2's merges.txt are such lines behind a first one of any
 * version.
 *
 * A file is checked wholly before it is believed. It is read whole: it has a bound, and is of the
 * size of the codes made of it. */
#include "data/codes.h"

#include "base/file.h"
#include "data/codes_gpt2.h"
#include "data/sink.h"

#include <string.h>

static const char head[] = "#version:";
static const char *const versions[] = {
    [CODES_MARK_APART] = "0.1", [CODES_MARK_JOINED] = "0.2", [CODES_BYTES] = "bytes"};

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
    line = strip(line.text + strlen(head), line.bytes - strlen(head));
    while (line.bytes > 3 && memcmp(line.text + line.bytes - 2, ".0", 2) == 0) {
        line.bytes -= 2; /* 0.2.0 */
    }
    for (int v = CODES_MARK_APART; v <= CODES_BYTES; v++) {
        if (line.bytes == strlen(versions[v]) && memcmp(line.text, versions[v], line.bytes) == 0) {
            return (codes_version)v;
        }
    }
    *why = "a version other than 0.1 and 0.2";
    return CODES_MARK_JOINED;
}

/* The same pair, of bytes where the line has letters for them. */
static ebb_status add_letters(codes_builder *b, char *left, size_t n_left, char *right,
                              size_t n_right, const char **why) {
    int64_t first = ebb__codes_from_letters(left, n_left, left);
    int64_t second = ebb__codes_from_letters(right, n_right, right);
    if (first <= 0 || second <= 0) {
        *why = first < 0 || second < 0 ? "a letter that stands for no byte" : "an empty piece";
        return EBB_OK;
    }
    return ebb__codes_build_add(b, left, (size_t)first, right, (size_t)second);
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
    } else if (b->version == CODES_BYTES) {
        char *text = (char *)line.text; /* of the file's copy in memory, which is ours */
        return add_letters(b, text, left, text + left + 1, right, why);
    } else {
        return ebb__codes_build_add(b, line.text, left, space + 1, right);
    }
    return EBB_OK;
}

/* All lines; *bad is the one that *why is about. Of a list of merges the version is known. */
static ebb_status read_lines(codes_builder *b, bool merges, char *text, size_t bytes, size_t *bad,
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
            b->version = merges ? CODES_BYTES : version_of((file_line){text, raw}, why);
        } else {
            TRY(add_line(b, line, why));
        }
        at += raw + 1;
    }
    return EBB_OK;
}

static ebb_status load_file(ebb_ctx *ctx, const char *path, bool merges, ebb_status failure,
                            data_codes *out) {
    ebb_status status = EBB_OK;
    codes_builder builder;
    char *text = NULL;
    const char *why = NULL;
    size_t bytes = 0, line = 0, pair = 0;
    *out = (data_codes){.ctx = ctx};
    ebb__codes_build_begin(ctx, merges ? CODES_BYTES : CODES_MARK_APART, &builder);
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
    TRY_OUT(read_lines(&builder, merges, text, bytes, &line, &why));
    if (why == NULL && builder.n_pairs == 0) {
        why = "holds no pair";
    }
    if (why == NULL) {
        TRY_OUT(ebb__codes_build_end(&builder, &pair, &why, out));
        line = why != NULL ? line - builder.n_pairs + pair + 1 : line;
    }
    if (why != NULL) {
        TRY_OUT(ebb__fail(ctx, failure,
                          merges ? "codes %s:%zu: %s; give the merges.txt that was published with "
                                   "the vocab.json beside it"
                                 : "codes %s:%zu: %s; give a file written by ebb data codes learn "
                                   "or subword-nmt, or a folder with GPT-2's files",
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

ebb_status ebb__codes_load_merges(ebb_ctx *ctx, const char *path, ebb_status failure,
                                  data_codes *out) {
    return load_file(ctx, path, true, failure, out);
}

ebb_status ebb__codes_load(ebb_ctx *ctx, const char *path, ebb_status failure, data_codes *out) {
    gpt2_ids ids;
    if (!ebb__gpt2_is_folder(path)) {
        return load_file(ctx, path, false, failure, out);
    }
    TRY(ebb__gpt2_load(ctx, path, failure, out, &ids));
    ebb__vocab_free(&ids.pieces);
    return EBB_OK;
}

ebb_status ebb__codes_put_piece(data_sink *sink, codes_version version, const char *bytes,
                                size_t length) {
    for (size_t i = 0; version == CODES_BYTES && i < length; i++) {
        char letter[2];
        TRY(ebb__sink_put(sink, letter, ebb__codes_letter((unsigned char)bytes[i], letter)));
    }
    return version == CODES_BYTES ? EBB_OK : ebb__sink_put(sink, bytes, length);
}

static ebb_status put_pieces(const data_codes *codes, data_sink *sink) {
    const char *const first[] = {head, " ", versions[codes->version], "\n"};
    for (size_t i = 0; i < sizeof first / sizeof *first; i++) {
        TRY(ebb__sink_put(sink, first[i], strlen(first[i])));
    }
    for (uint32_t i = 0; i < codes->n_pairs; i++) {
        const uint32_t pieces[] = {codes->pairs[i].left, codes->pairs[i].right};
        for (int p = 0; p < 2; p++) {
            size_t length = 0;
            const char *bytes = ebb__codes_piece(codes, pieces[p], &length);
            TRY(ebb__codes_put_piece(sink, codes->version, bytes, length));
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
