/* test_vocab.c - vocabularies: order and limit, exactness under a tiny counting table, lookup,
 * memory, and the file: round trip of any bytes, and every way in which it can be wrong. */
#include "data_help.h"

#include "data/tally.h"
#include "data/codes.h"
#include "data/vocab.h"

static void build(help_room *room, const char *text, text_mode mode, size_t limit,
                  data_vocab *out) {
    vocab_options options = {.mode = mode, .limit = limit};
    help_write_text(room->path[0], text);
    assert_int_equal(ebb__vocab_build(room->ctx, room->path[0], &options, out), EBB_OK);
}

/* `want`: tokens joined by '|'. Each must be found under its own id. */
static void expect_vocab(const data_vocab *vocab, const char *want) {
    char joined[4096];
    size_t used = 0;
    for (uint32_t id = 0; id < vocab->count; id++) {
        size_t length = 0;
        const char *token = ebb__vocab_token(vocab, id, &length);
        assert_int_equal(ebb__vocab_find(vocab, token, length), id);
        assert_true(used + length + 2 < sizeof joined);
        memcpy(joined + used, token, length);
        used += length;
        joined[used++] = '|';
    }
    joined[used] = 0;
    assert_string_equal(joined, want);
}

static void by_count_then_bytes(void **state) {
    help_room *room = *state;
    data_vocab vocab;
    build(room, "b a b\nzz z <unk> <eos> \xc3\xa9\nc c c <unk>", TEXT_WORD, 0, &vocab);
    expect_vocab(&vocab, "<unk>|<eos>|c|b|a|z|zz|\xc3\xa9|");
    assert_int_equal(ebb__vocab_find(&vocab, "nowhere", 7), VOCAB_UNK);
    assert_int_equal(ebb__vocab_find(&vocab, "<unk>", 5), VOCAB_UNK);
    assert_int_equal(ebb__vocab_find(&vocab, "<eos>", 5), VOCAB_EOS);
    ebb__vocab_free(&vocab);
    build(room, "b a b\nzz z <unk> <eos> \xc3\xa9\nc c c <unk>", TEXT_WORD, 5, &vocab);
    expect_vocab(&vocab, "<unk>|<eos>|c|b|a|");
    ebb__vocab_free(&vocab);
    build(room, "\n", TEXT_WORD, 0, &vocab);
    expect_vocab(&vocab, "<unk>|<eos>|");
    ebb__vocab_free(&vocab);
    build(room, "b a b\n", TEXT_CHAR, 100, &vocab);
    expect_vocab(&vocab, "<unk>|<eos>| |b|a|");
    ebb__vocab_free(&vocab);
}

static void all_bytes_have_ids(void **state) {
    help_room *room = *state;
    data_vocab vocab;
    build(room, "abb\n", TEXT_BYTE, 0, &vocab);
    assert_int_equal(vocab.count, 2 + 255);
    for (int byte = 0; byte < 256; byte++) {
        char c = (char)(unsigned char)byte;
        uint32_t id = ebb__vocab_find(&vocab, &c, 1);
        assert_true(byte == '\n' ? id == VOCAB_UNK : id >= VOCAB_SPECIALS);
    }
    assert_int_equal(ebb__vocab_find(&vocab, "b", 1), 2);
    assert_int_equal(ebb__vocab_find(&vocab, "a", 1), 3);
    assert_int_equal(ebb__vocab_find(&vocab, "\0", 1),
                     4); /* then those with count 0, in byte order */
    ebb__vocab_free(&vocab);
}

static void usage(void **state) {
    help_room *room = *state;
    data_vocab vocab;
    help_write_text(room->path[0], "some text of several different words\n");
    vocab_options options = {.mode = TEXT_WORD, .limit = 2};
    help_expect(room->ctx, ebb__vocab_build(room->ctx, room->path[0], &options, &vocab), EBB_USAGE,
                "at least 3");
    options = (vocab_options){.mode = TEXT_WORD, .max_bytes = 50};
    help_expect(room->ctx, ebb__vocab_build(room->ctx, room->path[0], &options, &vocab), EBB_BUDGET,
                "6 distinct tokens");
    options.limit = 3;
    assert_int_equal(ebb__vocab_build(room->ctx, room->path[0], &options, &vocab), EBB_OK);
    ebb__vocab_free(&vocab);
}

/* Some 12,000 distinct words, frequent and rare ones, many of the same count. */
static void write_many_words(help_room *room) {
    FILE *file = fopen(room->path[0], "wb");
    assert_non_null(file);
    help_dice dice = {.key = ebb__rng_key(3, "vocab")};
    for (int i = 0; i < 60000; i++) {
        uint32_t word = help_throw(&dice, 1 + help_throw(&dice, 40000));
        fprintf(file, "%x-%.*s%c", word, (int)(word % 37),
                "abcdefghijklmnopqrstuvwxyzabcdefghijklm", i % 11 == 0 ? '\n' : ' ');
    }
    assert_int_equal(fclose(file), 0);
}

static void expect_same(const data_vocab *a, const data_vocab *b) {
    assert_int_equal(a->count, b->count);
    assert_int_equal(a->bytes, b->bytes);
    assert_memory_equal(a->block, b->block, a->bytes);
    assert_true(ebb__vocab_hash(a) == ebb__vocab_hash(b));
}

static void table_size_does_not_matter(void **state) {
    help_room *room = *state;
    write_many_words(room);
    const size_t limits[] = {0, 3, 500, 9000};
    for (size_t i = 0; i < sizeof limits / sizeof limits[0]; i++) {
        data_vocab whole, tiny;
        vocab_options options = {.mode = TEXT_WORD, .limit = limits[i]};
        assert_int_equal(ebb__vocab_build(room->ctx, room->path[0], &options, &whole), EBB_OK);
        options.table_bytes = 1;
        assert_int_equal(ebb__vocab_build(room->ctx, room->path[0], &options, &tiny), EBB_OK);
        assert_true(limits[i] == 0 ? whole.count > 10000 : whole.count == limits[i]);
        expect_same(&whole, &tiny);
        ebb__vocab_free(&whole);
        ebb__vocab_free(&tiny);
    }
    tally_list list;
    uint32_t passes = 0;
    tally_options options = {.mode = TEXT_WORD, .keep = 10, .table_bytes = 1};
    uint64_t live = room->ctx->mem.live_bytes;
    room->ctx->mem.peak_bytes = live;
    assert_int_equal(ebb__tally_text(room->ctx, room->path[0], &options, &list, &passes), EBB_OK);
    assert_in_range(passes, 5, 100); /* it did have to split */
    assert_true(room->ctx->mem.peak_bytes - live < TALLY_LEAST_BYTES + TEXT_BUFFER_BYTES + 20000);
    ebb__tally_free(room->ctx, &list);
}

/* Counts and order against a naive count. */
static void counts_are_right(void **state) {
    help_room *room = *state;
    enum { KINDS = 300, WORDS = 4000 };
    uint64_t want[KINDS] = {0};
    FILE *file = fopen(room->path[0], "wb");
    help_dice dice = {.key = ebb__rng_key(5, "vocab")};
    for (int i = 0; i < WORDS; i++) {
        uint32_t word = help_throw(&dice, 1 + help_throw(&dice, KINDS));
        want[word]++;
        fprintf(file, "w%u ", word);
    }
    assert_int_equal(fclose(file), 0);
    tally_list list;
    uint32_t passes = 0;
    tally_options options = {.mode = TEXT_WORD, .table_bytes = 1 << 20};
    assert_int_equal(ebb__tally_text(room->ctx, room->path[0], &options, &list, &passes), EBB_OK);
    assert_int_equal(passes, 1);
    uint64_t total = 0;
    char before[16] = "";
    for (size_t i = 0; i < list.count; i++) {
        char word[16] = "";
        memcpy(word, list.pool + list.entries[i].offset, list.entries[i].length);
        assert_int_equal(list.entries[i].count, want[atoi(word + 1)]);
        if (i > 0 && list.entries[i].count == list.entries[i - 1].count) {
            assert_true(strcmp(before, word) < 0);
        } else if (i > 0) {
            assert_true(list.entries[i].count < list.entries[i - 1].count);
        }
        memcpy(before, word, sizeof word);
        total += list.entries[i].count;
    }
    assert_int_equal(total, WORDS);
    ebb__tally_free(room->ctx, &list);
}

static void memory_is_exact_and_movable(void **state) {
    help_room *room = *state;
    data_vocab vocab, other;
    build(room, "b a b\nccc\n", TEXT_WORD, 0, &vocab);
    build(room, "b a b\nccc\n", TEXT_WORD, 0, &other);
    assert_int_equal(vocab.bytes, ebb__vocab_bytes_for(5, 15));
    uint32_t memory[64];
    memset(memory, 0xee, sizeof memory);
    size_t bytes = vocab.bytes;
    assert_true(bytes < sizeof memory);
    uint64_t blocks = room->ctx->mem.live_blocks;
    ebb__vocab_move(&vocab, memory);
    assert_int_equal(room->ctx->mem.live_blocks, blocks - 1);
    expect_same(&vocab, &other);
    expect_vocab(&vocab, "<unk>|<eos>|b|a|ccc|");
    for (size_t i = bytes; i < sizeof memory; i++) {
        assert_int_equal(((unsigned char *)memory)[i], 0xee);
    }
    ebb__vocab_free(&vocab);
    ebb__vocab_free(&other);
}

static void round_trip(help_room *room, const data_vocab *vocab) {
    data_vocab loaded;
    assert_int_equal(ebb__vocab_save(vocab, room->path[1]), EBB_OK);
    assert_int_equal(ebb__vocab_load(room->ctx, room->path[1], &loaded), EBB_OK);
    expect_same(vocab, &loaded);
    ebb__vocab_free(&loaded);
}

static void file_round_trip(void **state) {
    help_room *room = *state;
    data_vocab vocab;
    char file[256];
    build(room, "a  \\ \t\xc3\xa9\x7f\r\n", TEXT_CHAR, 0, &vocab);
    round_trip(room, &vocab);
    file[help_read(room->path[1], file, sizeof file - 1)] = 0;
    assert_string_equal(file, "<unk>\n<eos>\n\\s\n\\x09\n\\\\\na\n\\x7f\n\xc3\xa9\n");
    ebb__vocab_free(&vocab);
    build(room, "x\n", TEXT_BYTE, 0, &vocab); /* all 255 bytes */
    round_trip(room, &vocab);
    ebb__vocab_free(&vocab);
    build(room, "caf\xe9 \xc3\xa9\xff \\x41 \\s A \xe2\x80\xa8\n", TEXT_WORD, 0, &vocab);
    round_trip(room, &vocab);
    ebb__vocab_free(&vocab);
    build(room, "\n", TEXT_WORD, 0, &vocab);
    round_trip(room, &vocab);
    ebb__vocab_free(&vocab);
    write_many_words(room);
    vocab_options options = {.mode = TEXT_WORD};
    assert_int_equal(ebb__vocab_build(room->ctx, room->path[0], &options, &vocab), EBB_OK);
    round_trip(room, &vocab);
    ebb__vocab_free(&vocab);
}

static void expect_bad(help_room *room, const char *text, size_t bytes, const char *part) {
    data_vocab vocab;
    help_write(room->path[1], text, bytes);
    help_expect(room->ctx, ebb__vocab_load(room->ctx, room->path[1], &vocab), EBB_MODEL, part);
}

static void bad_files(void **state) {
    help_room *room = *state;
    data_vocab vocab;
#define BAD(text, part) expect_bad(room, text, sizeof(text) - 1, part)
    help_expect(room->ctx, ebb__vocab_load(room->ctx, room->path[1], &vocab), EBB_MODEL,
                "no such file");
    BAD("", "/b:1: ends before <unk>");
    BAD("<unk>\n", "/b:2: ends before <unk>");
    BAD("<unk>\n<eos>", "/b:2: the last line is not finished");
    BAD("<unk>\n<eos>\nab\nc", "/b:4: the last line is not finished");
    BAD("<eos>\n<unk>\n", "/b:1: the first token must be <unk>");
    BAD("<unk>\na\n", "/b:2: the second token must be <eos>");
    BAD("<unk>\n<eos>\na\nb\na\n", "/b:5: a token that was there before");
    BAD("<unk>\n<eos>\na\n\\x61\n", "/b:4: a token that was there before");
    BAD("<unk>\n<eos>\n<unk>\n", "/b:3: a token that was there before");
    BAD("<unk>\n<eos>\n\nb\n", "/b:3: an empty line");
    BAD("<unk>\n<eos>\na b\n", "/b:3: a space or control byte");
    BAD("<unk>\n<eos>\na\r\n", "/b:3: a space or control byte");
    BAD("<unk>\n<eos>\na\0\n", "/b:3: a space or control byte");
    BAD("<unk>\n<eos>\n\\q\n", "/b:3: an unknown escape");
    BAD("<unk>\n<eos>\n\\x4\n", "/b:3: an unknown escape");
    BAD("<unk>\n<eos>\n\\xg0\n", "/b:3: an unknown escape");
    BAD("<unk>\n<eos>\nab\\\n", "/b:3: an unfinished escape");
#undef BAD
    enum { LONGEST = TEXT_TOKEN_LIMIT + CODES_JOINER_BYTES }; /* a piece whose word goes on */
    char *text = malloc(LONGEST + 32);
    memcpy(text, "<unk>\n<eos>\n", 12);
    memset(text + 12, 'w', LONGEST + 1);
    text[12 + LONGEST] = '\n';
    help_write(room->path[1], text, 12 + LONGEST + 1);
    assert_int_equal(ebb__vocab_load(room->ctx, room->path[1], &vocab), EBB_OK);
    ebb__vocab_free(&vocab);
    text[12 + LONGEST] = 'w';
    text[12 + LONGEST + 1] = '\n';
    expect_bad(room, text, 12 + LONGEST + 2, "/b:3: a token longer than");
    free(text);
}

static ebb_status build_save_load(help_room *room) {
    ebb_status status = EBB_OK;
    data_vocab vocab = {0}, loaded = {.ctx = room->ctx};
    vocab_options options = {.mode = TEXT_WORD, .table_bytes = 1};
    TRY(ebb__vocab_build(room->ctx, room->path[0], &options, &vocab));
    TRY_OUT(ebb__vocab_save(&vocab, room->path[1]));
    TRY_OUT(ebb__vocab_load(room->ctx, room->path[1], &loaded));
out:
    ebb__vocab_free(&vocab);
    ebb__vocab_free(&loaded);
    return status;
}

static void failures(void **state) {
    help_room *room = *state;
    help_write_text(room->path[0], "a b\nc\n");
    help_fail_each(room, build_save_load);
}

int main(void) {
#define TEST(name) cmocka_unit_test_setup_teardown(name, help_setup, help_teardown)
    const struct CMUnitTest tests[] = {
        TEST(by_count_then_bytes),
        TEST(all_bytes_have_ids),
        TEST(usage),
        TEST(table_size_does_not_matter),
        TEST(counts_are_right),
        TEST(memory_is_exact_and_movable),
        TEST(file_round_trip),
        TEST(bad_files),
        TEST(failures),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
