/* test_text.c - the tokeniser: what each mode yields, equality with a naive one over random texts
 * that cross the buffer, plain and gzip; and every kind of bad file. */
#include "data_help.h"

#include "data/text.h"

#include <sys/stat.h>

/* ---- a naive tokeniser over a text in memory, writing the same stream as bytes --------------- */

typedef struct stream {
    char *bytes; /* token, 0x00, token, 0x00 ...; <eos> is the byte 0x01 and 0x00 */
    size_t used, room;
    uint64_t tokens;
} stream;

static void stream_put(stream *s, const char *bytes, size_t length) {
    if (s->used + length + 1 > s->room) {
        s->room = 2 * (s->used + length + 1);
        s->bytes = realloc(s->bytes, s->room);
        assert_non_null(s->bytes);
    }
    memcpy(s->bytes + s->used, bytes, length);
    s->used += length;
    s->bytes[s->used++] = 0;
    s->tokens++;
}

static void naive(const char *text, size_t bytes, text_mode mode, stream *out) {
    size_t line = 0;
    while (line < bytes) {
        const char *newline = memchr(text + line, '\n', bytes - line);
        size_t end = newline != NULL ? (size_t)(newline - text) : bytes, i = line;
        size_t stop = end;
        if (mode == TEXT_CHAR && newline != NULL && stop > line && text[stop - 1] == '\r') {
            stop--;
        }
        while (i < stop) {
            size_t n = 1;
            if (mode == TEXT_WORD) {
                n = strcspn(text + i, " \t\n\v\f\r");
                n = n > stop - i ? stop - i : n;
            } else if (mode == TEXT_CHAR) {
                while (i + n < stop && (text[i + n] & 0xc0) == 0x80) {
                    n++;
                }
            }
            if (n > 0) {
                stream_put(out, text + i, n);
            }
            i += n + (mode == TEXT_WORD);
        }
        if (newline != NULL || mode != TEXT_BYTE) {
            stream_put(out, "\x01", 1);
        }
        line = end + 1;
    }
}

/* The same stream by lines in memory, which is what is translated or continued. */
static void split(const char *text, size_t bytes, text_mode mode, stream *out) {
    const char *at = text, *end = text + bytes, *token = NULL;
    while (at < end) {
        size_t n = 0;
        while ((n = ebb__text_split(mode, &at, end, &token)) > 0) {
            stream_put(out, token, n);
        }
        if (at < end || mode != TEXT_BYTE) {
            stream_put(out, "\x01", 1);
        }
        at++; /* the newline */
    }
}

static ebb_status tokenise(ebb_ctx *ctx, const char *path, text_mode mode, stream *out,
                           text_reader *reader) {
    ebb_status status = EBB_OK;
    text_token token;
    TRY(ebb__text_open(ctx, path, mode, "test", NULL, reader));
    do {
        TRY_OUT(ebb__text_next(reader, &token));
        if (token.kind != TEXT_END && out != NULL) {
            stream_put(out, token.kind == TEXT_EOS ? "\x01" : token.bytes,
                       token.kind == TEXT_EOS ? 1 : token.length);
        }
    } while (token.kind != TEXT_END);
    TRY_OUT(ebb__text_next(reader, &token));
    assert_int_equal(token.kind, TEXT_END);
out:
    ebb__text_close(reader);
    return status;
}

/* `want`: tokens joined by '|', <eos> as '$'. */
static void expect_tokens(help_room *room, const char *text, size_t bytes, text_mode mode,
                          const char *want, uint64_t words) {
    stream got = {0};
    text_reader reader;
    help_write(room->path[0], text, bytes);
    assert_int_equal(tokenise(room->ctx, room->path[0], mode, &got, &reader), EBB_OK);
    for (size_t i = 0; i < got.used; i++) {
        got.bytes[i] = got.bytes[i] == 0 ? '|' : got.bytes[i] == 1 ? '$' : got.bytes[i];
    }
    stream_put(&got, "", 0);
    assert_string_equal(got.bytes, want);
    assert_int_equal(reader.words, words);
    assert_int_equal(reader.tokens, got.tokens - 1);
    assert_int_equal(reader.bytes, bytes);
    free(got.bytes);
}

static void words_and_line_ends(void **state) {
    help_room *room = *state;
#define WORDS(text, want, words) expect_tokens(room, text, sizeof(text) - 1, TEXT_WORD, want, words)
    WORDS("a bc\nd\n", "a|bc|$|d|$|", 5);
    WORDS("a bc\nd", "a|bc|$|d|$|", 5);
    WORDS("a\r\nb \r\n", "a|$|b|$|", 4);
    WORDS("\n\n", "$|$|", 2);
    WORDS(" \t x \v\f y ", "x|y|$|", 3);
    WORDS("one", "one|$|", 2);
    WORDS("\n", "$|", 1);
    WORDS("  ", "$|", 1);
    WORDS("\xef\xbb\xbf"
          "a <unk>\n",
          "a|<unk>|$|", 3);
    WORDS("\xff\xfe caf\xe9\n", "\xff\xfe|caf\xe9|$|", 3); /* any bytes but NUL make words */
#undef WORDS
}

static void characters(void **state) {
    help_room *room = *state;
#define CHARS(text, want, words) expect_tokens(room, text, sizeof(text) - 1, TEXT_CHAR, want, words)
    CHARS("ab c\n", "a|b| |c|$|", 3);
    CHARS("\xc3\xa9\xe2\x82\xac\xf0\x9f\x98\x80", "\xc3\xa9|\xe2\x82\xac|\xf0\x9f\x98\x80|$|", 2);
    CHARS("a\r\nb\rc\r\r\n", "a|$|b|\r|c|\r|$|", 5);
    CHARS("\r\n", "$|", 1);
    CHARS("\n\na", "$|$|a|$|", 4);
    CHARS("\xef\xbb\xbfx", "x|$|", 2);
#undef CHARS
}

static void bytes_are_kept(void **state) {
    help_room *room = *state;
    expect_tokens(room, "ab c\r\n", 6, TEXT_BYTE, "a|b| |c|\r|$|", 3);
    expect_tokens(room, "a\nb", 3, TEXT_BYTE, "a|$|b|", 3); /* no <eos> is added */
    expect_tokens(room, "\xef\xbb\xbf\xff", 4, TEXT_BYTE, "\xef|\xbb|\xbf|\xff|", 1);
}

/* Lengths around the buffer's, lines of all kinds, code points of all lengths. */
static size_t random_text(help_dice *dice, char *text, size_t bytes) {
    static const char *const pieces[] = {"a",
                                         "bb",
                                         " ",
                                         "\n",
                                         "\r\n",
                                         "\xc3\xa9",
                                         "\t",
                                         "\r",
                                         "xy",
                                         "\xe2\x82\xac",
                                         "\xf0\x9f\x98\x80",
                                         "q"};
    size_t used = 0;
    uint32_t kinds = 1 + help_throw(dice, 12); /* few kinds give long words */
    while (used + 4 < bytes) {
        const char *piece = pieces[help_throw(dice, kinds)];
        memcpy(text + used, piece, strlen(piece));
        used += strlen(piece);
        if (help_throw(dice, 1000) == 0) {
            text[used++] = '\n';
        }
    }
    text[used] = 0;
    return used;
}

static void equals_naive(void **state) {
    help_room *room = *state;
    enum { MOST = 3 * TEXT_BUFFER_BYTES };
    char *text = malloc(MOST + 16);
    for (uint32_t trial = 0; trial < 36; trial++) {
        help_dice dice = {.key = ebb__rng_key(trial, "text")};
        static const text_mode modes[] = {TEXT_WORD, TEXT_CHAR, TEXT_BYTE};
        text_mode mode = modes[trial % 3];
        size_t wish = trial < 12   ? 5 + help_throw(&dice, 100)
                      : trial < 24 ? TEXT_BUFFER_BYTES - 8 + help_throw(&dice, 24)
                                   : help_throw(&dice, MOST);
        size_t bytes = random_text(&dice, text, wish + 5);
        stream want = {0}, plain = {0}, packed = {0}, lines = {0};
        text_reader reader, gzip_reader;
        naive(text, bytes, mode, &want);
        help_write(room->path[0], text, bytes);
        help_write_gzip(room->path[1], "wb", text, bytes / 2);
        help_write_gzip(room->path[1], "ab", text + bytes / 2, bytes - bytes / 2);
        assert_int_equal(tokenise(room->ctx, room->path[0], mode, &plain, &reader), EBB_OK);
        assert_int_equal(tokenise(room->ctx, room->path[1], mode, &packed, &gzip_reader), EBB_OK);
        assert_int_equal(plain.used, want.used);
        assert_memory_equal(plain.bytes, want.bytes, want.used);
        assert_int_equal(packed.used, want.used);
        assert_memory_equal(packed.bytes, want.bytes, want.used);
        if (text[bytes - 1] != '\r') { /* of a line in memory it counts as part of the line end */
            split(text, bytes, mode, &lines);
            assert_int_equal(lines.used, want.used);
            assert_memory_equal(lines.bytes, want.bytes, want.used);
        }
        assert_int_equal(reader.tokens, want.tokens);
        assert_int_equal(reader.bytes, bytes);
        assert_int_equal(gzip_reader.bytes, bytes);
        assert_int_equal(gzip_reader.words, reader.words);
        free(want.bytes);
        free(plain.bytes);
        free(packed.bytes);
        free(lines.bytes);
    }
    free(text);
}

static void longest_word(void **state) {
    help_room *room = *state;
    enum { BEFORE = 40000 };
    char *text = malloc(BEFORE + TEXT_BUFFER_BYTES + 2);
    for (int extra = 0; extra < 2; extra++) {
        for (int ended = 0; ended < 2; ended++) {
            size_t length = (size_t)TEXT_TOKEN_LIMIT + (size_t)extra;
            memset(text, '\n', BEFORE);
            memset(text + BEFORE, 'w', length);
            text[BEFORE + length] = '\n';
            help_write(room->path[0], text, BEFORE + length + (size_t)ended);
            text_reader reader;
            ebb_status status = tokenise(room->ctx, room->path[0], TEXT_WORD, NULL, &reader);
            if (extra == 0) {
                assert_int_equal(status, EBB_OK);
                assert_int_equal(reader.tokens, BEFORE + 2);
            } else {
                help_expect(room->ctx, status, EBB_DATA, "/a:40001: a word of more than");
            }
        }
    }
    free(text);
}

static void expect_bad(help_room *room, const char *text, size_t bytes, text_mode mode,
                       const char *part) {
    text_reader reader;
    help_write(room->path[0], text, bytes);
    ebb_status status = tokenise(room->ctx, room->path[0], mode, NULL, &reader);
    help_expect(room->ctx, status, EBB_DATA, part);
}

static void bad_bytes(void **state) {
    help_room *room = *state;
    text_reader reader;
#define BAD(mode, text, part) expect_bad(room, text, sizeof(text) - 1, mode, part)
    BAD(TEXT_WORD, "a b\nc\0d\n", "/a:2: holds a NUL byte");
    BAD(TEXT_WORD, "\0", "/a:1: holds a NUL byte");
    BAD(TEXT_CHAR, "a\n\nc\0d\n", "/a:3: holds a NUL byte");
    BAD(TEXT_CHAR, "ok\n\xff", "/a:2: is not valid UTF-8");
    BAD(TEXT_CHAR, "\xc3", "/a:1: is not valid UTF-8");             /* cut */
    BAD(TEXT_CHAR, "\xe2\x82", "/a:1: is not valid UTF-8");         /* cut */
    BAD(TEXT_CHAR, "\xc0\xaf", "/a:1: is not valid UTF-8");         /* over-long */
    BAD(TEXT_CHAR, "\xe0\x9f\xbf", "/a:1: is not valid UTF-8");     /* over-long */
    BAD(TEXT_CHAR, "\xf0\x8f\xbf\xbf", "/a:1: is not valid UTF-8"); /* over-long */
    BAD(TEXT_CHAR, "\xed\xa0\x80", "/a:1: is not valid UTF-8");     /* surrogate */
    BAD(TEXT_CHAR, "\xf4\x90\x80\x80", "/a:1: is not valid UTF-8"); /* beyond U+10FFFF */
    BAD(TEXT_CHAR, "\x80", "/a:1: is not valid UTF-8");
#undef BAD
    help_write(room->path[0], "\xf4\x8f\xbf\xbf\xed\x9f\xbf\xee\x80\x80",
               10); /* the last good ones */
    assert_int_equal(tokenise(room->ctx, room->path[0], TEXT_CHAR, NULL, &reader), EBB_OK);
    assert_int_equal(reader.tokens, 4);
}

static void bad_files(void **state) {
    help_room *room = *state;
    ebb_ctx *ctx = room->ctx;
    text_reader r;
    help_expect(ctx, tokenise(ctx, room->path[1], TEXT_WORD, NULL, &r), EBB_DATA, "No such file");
    help_expect(ctx, tokenise(ctx, room->folder, TEXT_WORD, NULL, &r), EBB_DATA, "is a folder");
    help_write(room->path[1], "", 0);
    help_expect(ctx, tokenise(ctx, room->path[1], TEXT_BYTE, NULL, &r), EBB_DATA, "is empty");
    assert_int_equal(mkfifo(room->path[2], 0600), 0);
    help_expect(ctx, tokenise(ctx, room->path[2], TEXT_WORD, NULL, &r), EBB_DATA, "not a regular");
    help_write_gzip(room->path[1], "wb", "", 0);
    help_expect(ctx, tokenise(ctx, room->path[1], TEXT_WORD, NULL, &r), EBB_DATA,
                "is empty once unpacked");
}

static void bad_gzip(void **state) {
    help_room *room = *state;
    ebb_ctx *ctx = room->ctx;
    text_reader r;
    char text[4000], packed[8000];
    help_dice dice = {.key = ebb__rng_key(1, "gzip")};
    for (size_t i = 0; i < sizeof text; i++) {
        text[i] = (char)('a' + help_throw(&dice, 20));
    }
    help_write_gzip(room->path[0], "wb", text, sizeof text);
    size_t bytes = help_read(room->path[0], packed, sizeof packed);
    for (size_t cut = 2; cut < bytes; cut += 97) {
        help_write(room->path[1], packed, cut);
        help_expect(ctx, tokenise(ctx, room->path[1], TEXT_WORD, NULL, &r), EBB_DATA,
                    "ends in the middle");
    }
    packed[bytes - 6] ^= 1; /* the checksum */
    help_write(room->path[1], packed, bytes);
    help_expect(ctx, tokenise(ctx, room->path[1], TEXT_WORD, NULL, &r), EBB_DATA, "damaged gzip");
    packed[bytes - 6] ^= 1;
    memcpy(packed + bytes, "rubbish rubbish rubbish", 23);
    help_write(room->path[1], packed, bytes + 23);
    help_expect(ctx, tokenise(ctx, room->path[1], TEXT_WORD, NULL, &r), EBB_DATA, "damaged gzip");
}

static void hash_is_of_the_file(void **state) {
    help_room *room = *state;
    uint64_t one = 0, two = 0, packed = 0, bytes = 0;
    help_write_text(room->path[0], "some text");
    help_write_text(room->path[1], "some Text");
    help_write_gzip(room->path[2], "wb", "some text", 9);
    assert_int_equal(ebb__source_hash(room->ctx, room->path[0], &one, &bytes), EBB_OK);
    assert_int_equal(bytes, 9);
    assert_int_equal(ebb__source_hash(room->ctx, room->path[1], &two, &bytes), EBB_OK);
    assert_int_equal(ebb__source_hash(room->ctx, room->path[2], &packed, &bytes), EBB_OK);
    assert_true(one != two && one != packed);
}

static ebb_status read_plain_and_packed(help_room *room) {
    text_reader reader;
    TRY(tokenise(room->ctx, room->path[0], TEXT_WORD, NULL, &reader));
    return tokenise(room->ctx, room->path[1], TEXT_CHAR, NULL, &reader);
}

static void failures(void **state) {
    help_room *room = *state;
    help_write_text(room->path[0], "a b\nc\n");
    help_write_gzip(room->path[1], "wb", "a b\nc\n", 6);
    help_fail_each(room, read_plain_and_packed);
}

int main(void) {
#define TEST(name) cmocka_unit_test_setup_teardown(name, help_setup, help_teardown)
    const struct CMUnitTest tests[] = {
        TEST(words_and_line_ends), TEST(characters), TEST(bytes_are_kept), TEST(equals_naive),
        TEST(longest_word),        TEST(bad_bytes),  TEST(bad_files),      TEST(bad_gzip),
        TEST(hash_is_of_the_file), TEST(failures),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
