/* text.c - splits a byte source into words, code points or bytes.
 *
 * Invariant: bytes [cursor, end) of the buffer are unread; a token never straddles the buffer
 * because need() moves the unread tail to the front before it reads on. It does not know
 * vocabularies: it yields bytes. */
#include "data/text.h"

#include "base/alloc.h"
#include "data/codes.h"

#include <string.h>

/* Makes at least `count` unread bytes available unless the text ends before. */
static ebb_status need(text_reader *reader, size_t count) {
    if (reader->end - reader->cursor >= count || reader->ended) {
        return EBB_OK;
    }
    size_t kept = reader->end - reader->cursor;
    memmove(reader->buffer, reader->buffer + reader->cursor, kept);
    reader->cursor = 0;
    reader->end = kept;
    size_t got = 0, want = TEXT_BUFFER_BYTES - kept;
    TRY(ebb__source_read(&reader->source, reader->buffer + kept, want, &got));
    reader->end += got;
    reader->ended = got < want;
    return EBB_OK;
}

static void consume(text_reader *reader, size_t count) {
    reader->cursor += count;
    reader->bytes += count;
    reader->line_open = true;
}

static void give_token(text_reader *reader, size_t length, text_token *out) {
    *out = (text_token){.kind = TEXT_TOKEN,
                        .length = (uint32_t)length,
                        .bytes = (const char *)reader->buffer + reader->cursor};
    reader->tokens++;
    consume(reader, length);
}

static void give_eos(text_reader *reader, text_token *out) {
    *out = (text_token){.kind = TEXT_EOS};
    reader->tokens++;
    reader->words++;
    reader->line_open = false;
    reader->word_open = false;
}

static void give_newline(text_reader *reader, text_token *out) {
    consume(reader, 1);
    reader->line++;
    give_eos(reader, out);
}

/* The text is used up: an unfinished line still ends. */
static void give_end(text_reader *reader, text_token *out) {
    if (reader->line_open && reader->mode != TEXT_BYTE) {
        give_eos(reader, out);
    } else {
        *out = (text_token){.kind = TEXT_END};
    }
}

static void count_word(text_reader *reader, unsigned char first) {
    bool space = text_is_space(first);
    reader->words += !space && !reader->word_open;
    reader->word_open = !space;
}

static ebb_status refuse(const text_reader *reader, const char *why) {
    return ebb__fail(reader->source.ctx, EBB_DATA, "%s:%llu: %s", reader->source.path,
                     (unsigned long long)reader->line, why);
}

static ebb_status refuse_nul(const text_reader *reader) {
    return refuse(reader,
                  "holds a NUL byte, so it is no text; give a text file, or use byte tokens");
}

static ebb_status next_word(text_reader *reader, text_token *out) {
    for (;;) {
        TRY(need(reader, 1));
        if (reader->cursor == reader->end) {
            give_end(reader, out);
            return EBB_OK;
        }
        unsigned char first = reader->buffer[reader->cursor];
        if (first == '\n') {
            give_newline(reader, out);
            return EBB_OK;
        }
        if (!text_is_space(first)) {
            break;
        }
        consume(reader, 1);
    }
    size_t length = 0;
    for (;;) {
        size_t available = reader->end - reader->cursor;
        const unsigned char *start = reader->buffer + reader->cursor;
        while (length < available && !text_is_space(start[length])) {
            if (start[length] == 0) {
                return refuse_nul(reader);
            }
            length++;
        }
        if (length > TEXT_TOKEN_LIMIT) {
            return refuse(reader, "a word of more than 65535 bytes; split it with white space, or "
                                  "use char or byte tokens");
        }
        if (length < available || reader->ended) {
            break;
        }
        TRY(need(reader, length + 1));
    }
    reader->words++;
    give_token(reader, length, out);
    return EBB_OK;
}

/* The next run of a line that is cut into bytes: with all its white space. */
static ebb_status next_run(text_reader *reader, text_token *out) {
    size_t length = 0;
    for (;;) {
        size_t available = reader->end - reader->cursor;
        const char *start = (const char *)reader->buffer + reader->cursor;
        length = ebb__codes_run(start, available, reader->ended);
        bool ends = (available > 0 && start[0] == '\n') ||
                    (available > 1 && start[0] == '\r' && start[1] == '\n');
        if (length > 0 || ends || reader->ended) {
            break;
        }
        if (available == TEXT_BUFFER_BYTES) {
            length = available;
            break;
        }
        TRY(need(reader, available + 1));
    }
    const char *start = (const char *)reader->buffer + reader->cursor;
    if (length > TEXT_TOKEN_LIMIT) {
        return refuse(reader, "more than 65535 bytes of one kind (letters, digits, white space, "
                              "others) on end; split them, or use char or byte tokens");
    }
    if (length == 0) {
        if (reader->cursor < reader->end && start[0] == '\r') {
            consume(reader, 1);
        }
        if (reader->cursor == reader->end) {
            give_end(reader, out);
        } else {
            give_newline(reader, out);
        }
        return EBB_OK;
    }
    if (memchr(start, 0, length) != NULL) {
        return refuse_nul(reader);
    }
    for (size_t i = 0; i < length; i++) {
        count_word(reader, (unsigned char)start[i]);
    }
    give_token(reader, length, out);
    return EBB_OK;
}

static ebb_status cut(text_reader *reader, const text_token *word) {
    codes_throws *throws = reader->throws;
    TRY(ebb__codes_cut(reader->codes, reader->cutter, word->bytes, word->length));
    reader->plain += reader->cutter->n_ends;
    if (throws == NULL) {
        return EBB_OK;
    }
    if (throws->place[0] != (uint32_t)reader->line) {
        throws->place[0] = (uint32_t)reader->line;
        throws->place[1] = (uint32_t)(reader->line >> 32);
        throws->thrown = 0;
    }
    return ebb__codes_cut_dropping(reader->codes, reader->cutter, word->bytes, word->length, throws);
}

/* The pieces of a word, one a call. A piece is counted as a token when it is given; the word was
 * when it was read. */
static ebb_status next_piece(text_reader *reader, text_token *out) {
    if (reader->cutter == NULL) {
        return ebb__fail(reader->source.ctx, EBB_INTERNAL,
                         "text: words are to be cut without codes");
    }
    if (reader->word == NULL) {
        TRY(codes_of_bytes(reader->codes) ? next_run(reader, out) : next_word(reader, out));
        if (out->kind != TEXT_TOKEN) {
            return EBB_OK;
        }
        reader->tokens--;
        reader->word = out->bytes;
        reader->piece = 0;
        TRY(cut(reader, out));
    }
    size_t length = 0;
    const char *bytes = ebb__codes_token(reader->cutter, reader->word, reader->piece++, &length);
    *out = (text_token){.kind = TEXT_TOKEN, .length = (uint32_t)length, .bytes = bytes};
    reader->tokens++;
    reader->word = reader->piece < reader->cutter->n_ends ? reader->word : NULL;
    return EBB_OK;
}

ebb_status ebb__text_cut_with(text_reader *reader, const struct data_codes *codes) {
    ebb_ctx *ctx = reader->source.ctx;
    if (reader->mode != TEXT_BPE) {
        return EBB_OK;
    }
    TRY(ebb__alloc(ctx, 1, sizeof *reader->cutter, &reader->cutter));
    reader->cutter->ctx = ctx;
    reader->codes = codes;
    return ebb__codes_cutter_remember(reader->cutter);
}

ebb_status ebb__text_drop(text_reader *reader, double share, uint64_t seed, const char *site) {
    if (reader->mode != TEXT_BPE || share <= 0) {
        return EBB_OK;
    }
    TRY(ebb__alloc(reader->source.ctx, 1, sizeof *reader->throws, &reader->throws));
    *reader->throws = (codes_throws){.key = ebb__rng_key(seed, site), .share = (float)share};
    return EBB_OK;
}

static ebb_status next_char(text_reader *reader, text_token *out) {
    TRY(need(reader, 4));
    size_t available = reader->end - reader->cursor;
    const unsigned char *start = reader->buffer + reader->cursor;
    if (available == 0) {
        give_end(reader, out);
        return EBB_OK;
    }
    if (available >= 2 && start[0] == '\r' && start[1] == '\n') {
        consume(reader, 1);
        start++;
    }
    if (start[0] == '\n') {
        give_newline(reader, out);
        return EBB_OK;
    }
    if (start[0] == 0) {
        return refuse_nul(reader);
    }
    size_t length = ebb__utf8_length(start, available);
    if (length == 0) {
        return refuse(reader,
                      "is not valid UTF-8; convert it (iconv -t UTF-8), or use byte tokens");
    }
    count_word(reader, start[0]);
    give_token(reader, length, out);
    return EBB_OK;
}

static ebb_status next_byte(text_reader *reader, text_token *out) {
    TRY(need(reader, 1));
    if (reader->cursor == reader->end) {
        give_end(reader, out);
    } else if (reader->buffer[reader->cursor] == '\n') {
        give_newline(reader, out);
    } else {
        count_word(reader, reader->buffer[reader->cursor]);
        give_token(reader, 1, out);
    }
    return EBB_OK;
}

ebb_status ebb__text_next(text_reader *reader, text_token *out) {
    switch (reader->mode) {
    case TEXT_WORD:
        return next_word(reader, out);
    case TEXT_CHAR:
        return next_char(reader, out);
    case TEXT_BPE:
        return next_piece(reader, out);
    case TEXT_BYTE:
        return next_byte(reader, out);
    }
    return ebb__fail(reader->source.ctx, EBB_INTERNAL, "text: unknown mode %d", (int)reader->mode);
}

ebb_status ebb__text_open(ebb_ctx *ctx, const char *path, text_mode mode, const char *phase,
                          struct XXH3_state_s *tap, text_reader *out) {
    ebb_status status = EBB_OK;
    *out = (text_reader){.source = {.ctx = ctx, .fd = -1}, .mode = mode, .line = 1};
    TRY_OUT(ebb__source_open(ctx, path, phase, tap, &out->source));
    TRY_OUT(ebb__alloc(ctx, TEXT_BUFFER_BYTES, 1, &out->buffer));
    TRY_OUT(need(out, 1));
    if (out->end == 0) {
        TRY_OUT(ebb__fail(ctx, EBB_DATA, "data file %s: is empty once unpacked", path));
    }
    if (mode != TEXT_BYTE) {
        consume(out, ebb__utf8_mark(out->buffer, out->end));
        out->line_open = false;
    }
out:
    if (status != EBB_OK) {
        ebb__text_close(out);
    }
    return status;
}

void ebb__text_close(text_reader *reader) {
    ebb__free(reader->source.ctx, reader->buffer);
    reader->buffer = NULL;
    if (reader->cutter != NULL) {
        ebb__codes_cutter_free(reader->cutter);
        ebb__free(reader->source.ctx, reader->cutter);
        reader->cutter = NULL;
    }
    ebb__free(reader->source.ctx, reader->throws);
    reader->throws = NULL;
    ebb__source_close(&reader->source);
}

size_t ebb__text_split(text_mode mode, const char **at, const char *end, const char **token) {
    const char *p = *at;
    size_t n = 1;
    bool words = mode == TEXT_WORD || mode == TEXT_BPE;
    while (words && p < end && *p != '\n' && text_is_space((unsigned char)*p)) {
        p++;
    }
    p += mode == TEXT_CHAR && p < end && *p == '\r' && (p + 1 == end || p[1] == '\n');
    if (p == end || *p == '\n') {
        n = 0;
    } else if (mode == TEXT_CHAR) {
        size_t whole = ebb__utf8_length((const unsigned char *)p, (size_t)(end - p));
        n = whole > 0 ? whole : 1;
    }
    while (words && n > 0 && p + n < end && !text_is_space((unsigned char)p[n])) {
        n++;
    }
    *token = p;
    *at = p + n;
    return n;
}

size_t ebb__text_join(text_joint *joint, const char *token, size_t length, bool *space) {
    size_t cut = length >= CODES_JOINER_BYTES ? length - CODES_JOINER_BYTES : length;
    bool goes_on = joint->mode == TEXT_BPE && !joint->plain && cut < length &&
                   memcmp(token + cut, CODES_JOINER, CODES_JOINER_BYTES) == 0;
    *space = joint->inside && !joint->open && !joint->plain &&
             (joint->mode == TEXT_WORD || joint->mode == TEXT_BPE);
    joint->inside = true;
    joint->open = goes_on;
    return goes_on ? cut : length;
}

size_t ebb__utf8_mark(const void *bytes, size_t available) {
    return available >= 3 && memcmp(bytes, "\xef\xbb\xbf", 3) == 0 ? 3 : 0;
}

size_t ebb__utf8_length(const unsigned char *bytes, size_t available) {
    if (available == 0) {
        return 0;
    }
    unsigned char lead = bytes[0];
    if (lead < 0x80) {
        return 1;
    }
    size_t length = lead >= 0xf0 ? 4 : lead >= 0xe0 ? 3 : 2;
    if (lead < 0xc2 || lead > 0xf4 || available < length) {
        return 0;
    }
    for (size_t i = 1; i < length; i++) {
        if ((bytes[i] & 0xc0) != 0x80) {
            return 0;
        }
    }
    /* Over-long forms, surrogates and what lies above U+10FFFF show in the second byte. */
    bool bad = (lead == 0xe0 && bytes[1] < 0xa0) || (lead == 0xed && bytes[1] > 0x9f) ||
               (lead == 0xf0 && bytes[1] < 0x90) || (lead == 0xf4 && bytes[1] > 0x8f);
    return bad ? 0 : length;
}
