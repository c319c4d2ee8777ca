/* vocab_file.c - vocab.txt: one token a line, escaped so that any bytes survive (rules: vocab.h).
 *
 * A file is checked wholly before it is believed: special tokens in place, no empty line, no
 * unknown escape, no raw control byte, nothing twice, last line finished. It is read whole,
 * since it is at most four times as large as the vocabulary made of it. */
#include "data/vocab.h"

#include "base/alloc.h"
#include "base/file.h"
#include "data/codes.h"
#include "data/sink.h"

#include <string.h>

enum { VOCAB_FILE_LIMIT = 1 << 30, VOCAB_TOKEN_LIMIT = TEXT_TOKEN_LIMIT + CODES_JOINER_BYTES };

static bool well_formed(const unsigned char *bytes, size_t length) {
    for (size_t i = 0, step; i < length; i += step) {
        step = ebb__utf8_length(bytes + i, length - i);
        if (step == 0) {
            return false;
        }
    }
    return true;
}

static ebb_status put_escaped(data_sink *sink, const unsigned char *bytes, size_t length) {
    static const char digits[] = "0123456789abcdef";
    bool utf8 = well_formed(bytes, length);
    for (size_t i = 0; i < length; i++) {
        unsigned char c = bytes[i];
        if (c == '\\') {
            TRY(ebb__sink_put(sink, "\\\\", 2));
        } else if (c == ' ') {
            TRY(ebb__sink_put(sink, "\\s", 2));
        } else if (c < ' ' || c == 0x7f || (c >= 0x80 && !utf8)) {
            char escape[4] = {'\\', 'x', digits[c >> 4], digits[c & 15]};
            TRY(ebb__sink_put(sink, escape, sizeof escape));
        } else {
            TRY(ebb__sink_put(sink, &c, 1));
        }
    }
    return EBB_OK;
}

ebb_status ebb__vocab_save(const data_vocab *vocab, const char *path) {
    ebb_status status = EBB_OK;
    data_sink sink;
    TRY(ebb__sink_open(vocab->ctx, path, &sink));
    for (uint32_t id = 0; id < vocab->count; id++) {
        size_t length = 0;
        const char *token = ebb__vocab_token(vocab, id, &length);
        TRY_OUT(put_escaped(&sink, (const unsigned char *)token, length));
        TRY_OUT(ebb__sink_put(&sink, "\n", 1));
    }
    TRY_OUT(ebb__sink_commit(&sink));
out:
    ebb__sink_close(&sink);
    return status;
}

static int hex_digit(char c) {
    return c >= '0' && c <= '9' ? c - '0' : c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

/* Length of the token that the line stands for, written to `to` unless it is NULL (`to` may be
 * the line itself); *why says what is wrong with the line, NULL if nothing. */
static size_t unescape(const char *line, size_t length, char *to, const char **why) {
    size_t used = 0;
    *why = length == 0 ? "an empty line" : NULL;
    for (size_t i = 0; i < length && *why == NULL;) {
        char c = line[i++];
        if (c == '\\' && i < length) {
            char kind = line[i++];
            int high = kind == 'x' && i + 1 < length ? hex_digit(line[i]) : -1;
            int low = high >= 0 ? hex_digit(line[i + 1]) : -1;
            if (low >= 0) {
                c = (char)(unsigned char)(high * 16 + low);
                i += 2;
            } else if (kind == 's') {
                c = ' ';
            } else if (kind != '\\') {
                *why = "an unknown escape";
            }
        } else if (c == '\\') {
            *why = "an unfinished escape";
        } else if ((unsigned char)c <= ' ' || c == 0x7f) {
            *why = "a space or control byte that is not escaped";
        }
        if (to != NULL) {
            to[used] = c;
        }
        used++;
    }
    if (*why == NULL && used > VOCAB_TOKEN_LIMIT) {
        *why = "a token longer than 65537 bytes";
    }
    return used;
}

static const char *special_trouble(uint64_t line, const char *text, size_t length) {
    if (line == 1 && (length != 5 || memcmp(text, "<unk>", 5) != 0)) {
        return "the first token must be <unk>";
    }
    if (line == 2 && (length != 5 || memcmp(text, "<eos>", 5) != 0)) {
        return "the second token must be <eos>";
    }
    return NULL;
}

/* One walk over the lines: with `vocab` NULL it checks them and sizes the vocabulary, otherwise
 * it adds the tokens, unescaping in place. */
static ebb_status walk(ebb_ctx *ctx, const char *path, char *text, size_t bytes, uint64_t *count,
                       uint64_t *pool_bytes, data_vocab *vocab) {
    uint64_t lines = 0, pool = 0;
    for (size_t start = 0; start < bytes;) {
        char *line = text + start, *newline = memchr(line, '\n', bytes - start);
        const char *why = newline == NULL ? "the last line is not finished" : NULL;
        size_t length = 0;
        lines++;
        if (why == NULL) {
            size_t raw = (size_t)(newline - line);
            why = special_trouble(lines, line, raw);
            start += raw + 1;
            if (why == NULL) {
                length = unescape(line, raw, vocab != NULL ? line : NULL, &why);
            }
        }
        why = why == NULL && lines > VOCAB_MOST ? "more than 8388608 tokens" : why;
        if (why == NULL && vocab != NULL && !ebb__vocab_add(vocab, line, length)) {
            why = "a token that was there before";
        }
        if (why != NULL) {
            return ebb__fail(ctx, EBB_MODEL,
                             "vocabulary %s:%llu: %s; restore the file written by training", path,
                             (unsigned long long)lines, why);
        }
        pool += length;
    }
    *count = lines;
    *pool_bytes = pool;
    return EBB_OK;
}

ebb_status ebb__vocab_load(ebb_ctx *ctx, const char *path, data_vocab *out) {
    ebb_status status = EBB_OK;
    char *text = NULL;
    size_t bytes = 0;
    uint64_t count = 0, pool_bytes = 0;
    *out = (data_vocab){.ctx = ctx};
    if (!ebb__file_exists(path)) {
        return ebb__fail(ctx, EBB_MODEL, "vocabulary %s: there is no such file", path);
    }
    status = ebb__file_read_all(ctx, path, VOCAB_FILE_LIMIT, &text, &bytes);
    if (status == EBB_DATA) { /* larger than any vocabulary */
        ebb__ctx_clear(ctx);
        status = ebb__fail(ctx, EBB_MODEL, "vocabulary %s: more than %d bytes are no vocabulary",
                           path, (int)VOCAB_FILE_LIMIT);
    }
    TRY_OUT(status);
    TRY_OUT(walk(ctx, path, text, bytes, &count, &pool_bytes, NULL));
    if (count < VOCAB_SPECIALS) {
        TRY_OUT(ebb__fail(ctx, EBB_MODEL,
                          "vocabulary %s:%llu: ends before <unk> and <eos>; restore the file "
                          "written by training",
                          path, (unsigned long long)count + 1));
    }
    TRY_OUT(ebb__vocab_init(ctx, count, pool_bytes, out));
    TRY_OUT(walk(ctx, path, text, bytes, &count, &pool_bytes, out));
out:
    ebb__free(ctx, text);
    if (status != EBB_OK) {
        ebb__vocab_free(out);
    }
    return status;
}
