/* test_tokens.c - token files: the ids, line lengths and counts of a text, reuse only of what is
 * sound and made of this very text and vocabulary; every flipped bit, every cut and what lies under
 * right hashes found. */
#include "data_help.h"

#include "data/tokens.h"

#include <sys/stat.h>

#include <xxhash.h>

typedef struct token_job {
    help_room *room;
    data_vocab vocab;
    text_mode mode;
} token_job;

static void make_vocab(help_room *room, const char *text, text_mode mode, size_t limit,
                       token_job *out) {
    *out = (token_job){.room = room, .mode = mode};
    vocab_options options = {.mode = mode, .limit = limit};
    help_write_text(room->path[0], text);
    assert_int_equal(ebb__vocab_build(room->ctx, room->path[0], &options, &out->vocab), EBB_OK);
}

static ebb_status ensure(const token_job *job, tokens_reader *out) {
    help_room *room = job->room;
    return ebb__tokens_ensure(room->ctx, room->path[0], job->mode, &job->vocab, room->path[1], out);
}

/* The file's inode: another one means that it was made again. */
static ino_t ensured_inode(const token_job *job) {
    tokens_reader reader;
    struct stat info;
    assert_int_equal(ensure(job, &reader), EBB_OK);
    ebb__tokens_close(&reader);
    assert_int_equal(stat(job->room->path[1], &info), 0);
    /* A second name keeps the inode's number from being given to the next file. */
    (void)unlink(job->room->path[3]);
    assert_int_equal(link(job->room->path[1], job->room->path[3]), 0);
    return info.st_ino;
}

/* The lengths, a list that ends with 0, as a whole and one by one. */
static void expect_lengths(const tokens_reader *reader, const uint32_t *want) {
    uint32_t lengths[64];
    size_t lines = 0;
    while (want[lines] != 0) {
        lines++;
    }
    assert_int_equal(reader->lines, lines);
    assert_int_equal(ebb__tokens_lengths(reader, 0, lines, lengths), EBB_OK);
    assert_memory_equal(lengths, want, lines * sizeof *lengths);
    for (size_t i = 0; i < lines; i++) {
        assert_int_equal(ebb__tokens_lengths(reader, i, 1, lengths), EBB_OK);
        assert_int_equal(lengths[0], want[i]);
    }
    help_expect(reader->ctx, ebb__tokens_lengths(reader, lines, 1, lengths), EBB_INTERNAL,
                "1 lengths at");
    help_expect(reader->ctx, ebb__tokens_lengths(reader, 1, SIZE_MAX, lengths), EBB_INTERNAL,
                "lengths at 1");
}

static void expect_ids(const token_job *job, const uint32_t *want, size_t count,
                       const uint32_t *lengths, uint64_t words, uint64_t unknown) {
    tokens_reader reader;
    uint32_t ids[64];
    assert_int_equal(ensure(job, &reader), EBB_OK);
    assert_int_equal(reader.count, count);
    assert_int_equal(reader.words, words);
    assert_int_equal(reader.unknown, unknown);
    assert_int_equal(reader.vocab_count, job->vocab.count);
    assert_int_equal(ebb__tokens_read(&reader, 0, count, ids), EBB_OK);
    assert_memory_equal(ids, want, count * sizeof *ids);
    assert_int_equal(ebb__tokens_read(&reader, count - 1, 1, ids), EBB_OK);
    assert_int_equal(ids[0], want[count - 1]);
    help_expect(job->room->ctx, ebb__tokens_read(&reader, count, 1, ids), EBB_INTERNAL, "1 ids at");
    expect_lengths(&reader, lengths);
    uint64_t hash = 0;
    assert_int_equal(
        ebb__tokens_hash(job->room->ctx, job->room->path[0], job->mode, &job->vocab, &hash),
        EBB_OK);
    assert_true(hash == reader.ids_hash);
    ebb__tokens_close(&reader);
}

#define LIST(...) ((const uint32_t[]){__VA_ARGS__})

static void ids_and_counts(void **state) {
    help_room *room = *state;
    token_job job;
    make_vocab(room, "b a b\nc <unk>\n\nb", TEXT_WORD, 4, &job); /* <unk> <eos> b a */
    expect_ids(&job, LIST(2, 3, 2, 1, 0, 0, 1, 1, 2, 1), 10, LIST(4, 3, 1, 2, 0), 10, 2);
    help_write_text(room->path[0], "a <eos> b\n \n"); /* the word is a line end */
    expect_ids(&job, LIST(3, 1, 2, 1, 1), 5, LIST(2, 2, 1, 0), 5, 0);
    ebb__vocab_free(&job.vocab);
    make_vocab(room, "bb a\n", TEXT_CHAR, 0, &job); /* <unk> <eos> b space a */
    expect_ids(&job, LIST(2, 2, 3, 4, 1), 5, LIST(5, 0), 3, 0);
    help_write_text(room->path[0], "a?b"); /* another text, the same vocabulary */
    expect_ids(&job, LIST(4, 0, 2, 1), 4, LIST(4, 0), 2, 1);
    ebb__vocab_free(&job.vocab);
    make_vocab(room, "bba\nx", TEXT_BYTE, 0, &job); /* its last line has no end */
    expect_ids(&job, LIST(2, 2, 3, 1, 4), 5, LIST(4, 1, 0), 3, 0);
    ebb__vocab_free(&job.vocab);
}

static void text_without_a_token(void **state) {
    help_room *room = *state;
    token_job job;
    tokens_reader reader;
    make_vocab(room, "a\n", TEXT_WORD, 0, &job);
    help_write_text(room->path[0], "\xef\xbb\xbf"); /* nothing but a byte order mark */
    for (int i = 0; i < 2; i++) {
        assert_int_equal(ensure(&job, &reader), EBB_OK);
        assert_true(reader.count == 0 && reader.lines == 0);
        ebb__tokens_close(&reader);
    }
    assert_true(ensured_inode(&job) == ensured_inode(&job));
    ebb__vocab_free(&job.vocab);
}

static void large_text_crosses_chunks(void **state) {
    help_room *room = *state;
    enum { WORDS = 40000 };
    FILE *file = fopen(room->path[0], "wb");
    for (int i = 0; i < WORDS; i++) {
        fprintf(file, "w%d%c", i % 977, i % 10 == 9 ? '\n' : ' ');
    }
    assert_int_equal(fclose(file), 0);
    token_job job = {.room = room, .mode = TEXT_WORD};
    vocab_options options = {.mode = TEXT_WORD};
    assert_int_equal(ebb__vocab_build(room->ctx, room->path[0], &options, &job.vocab), EBB_OK);
    tokens_reader reader;
    assert_int_equal(ensure(&job, &reader), EBB_OK);
    assert_int_equal(reader.count, WORDS + WORDS / 10);
    uint64_t position = 0;
    for (int i = 0; i < WORDS; i++) {
        char word[16];
        uint32_t ids[2];
        int length = snprintf(word, sizeof word, "w%d", i % 977);
        assert_int_equal(ebb__tokens_read(&reader, position, 2, ids), EBB_OK);
        assert_int_equal(ids[0], ebb__vocab_find(&job.vocab, word, (size_t)length));
        assert_true(i % 10 == 9 ? ids[1] == VOCAB_EOS : ids[1] != VOCAB_EOS);
        position += i % 10 == 9 ? 2 : 1;
    }
    ebb__tokens_close(&reader);
    ebb__vocab_free(&job.vocab);
}

/* Line i has i % 5 bytes and its end. */
static void many_lines_cross_chunks(void **state) {
    help_room *room = *state;
    enum { LINES = 50000, PART = 7001 };
    static uint32_t lengths[PART];
    FILE *file = fopen(room->path[0], "wb");
    for (int i = 0; i < LINES; i++) {
        fprintf(file, "%.*s\n", i % 5, "abcd");
    }
    fprintf(file, "abc");
    assert_int_equal(fclose(file), 0);
    token_job job = {.room = room, .mode = TEXT_BYTE};
    vocab_options options = {.mode = TEXT_BYTE};
    assert_int_equal(ebb__vocab_build(room->ctx, room->path[0], &options, &job.vocab), EBB_OK);
    ino_t made = ensured_inode(&job);
    assert_true(ensured_inode(&job) == made);
    tokens_reader reader;
    assert_int_equal(ensure(&job, &reader), EBB_OK);
    assert_int_equal(reader.lines, LINES + 1);
    assert_int_equal(reader.count, LINES * 3 + 3);
    for (uint64_t line = 0; line < reader.lines; line += PART) {
        size_t part = reader.lines - line < PART ? (size_t)(reader.lines - line) : PART;
        assert_int_equal(ebb__tokens_lengths(&reader, line, part, lengths), EBB_OK);
        for (size_t i = 0; i < part; i++) {
            uint64_t at = line + i;
            assert_int_equal(lengths[i], at == LINES ? 3 : at % 5 + 1);
        }
    }
    ebb__tokens_close(&reader);
    ebb__vocab_free(&job.vocab);
}

static void reused_only_if_the_same(void **state) {
    help_room *room = *state;
    token_job job, smaller;
    make_vocab(room, "b a b\nc\n", TEXT_WORD, 4, &smaller);
    make_vocab(room, "b a b\nc\n", TEXT_WORD, 0, &job);
    ino_t first = ensured_inode(&job);
    assert_true(ensured_inode(&job) == first);
    help_write_text(room->path[0], "b a b\nc\n"); /* a new file of the same content */
    assert_true(ensured_inode(&job) == first);
    ino_t other = ensured_inode(&smaller);
    assert_true(other != first);
    ino_t back = ensured_inode(&job);
    assert_true(back != other);
    help_write_text(room->path[0], "b a c\nc\n"); /* the same size */
    ino_t changed = ensured_inode(&job);
    assert_true(changed != back);
    job.mode = TEXT_CHAR;
    ino_t chars = ensured_inode(&job);
    assert_true(chars != changed);
    ebb__vocab_free(&job.vocab);
    ebb__vocab_free(&smaller.vocab);
}

/* A file in the place of the good one must be found wanting, and the good one made again. */
typedef struct token_file {
    char bytes[512];
    size_t size;
} token_file;

static token_file read_file(const token_job *job) {
    token_file file = {.size = 0};
    file.size = help_read(job->room->path[1], file.bytes, sizeof file.bytes);
    return file;
}

static void expect_made_again(const token_job *job, const token_file *bad, const token_file *good) {
    const char *path = job->room->path[1];
    (void)unlink(path);
    help_write(path, bad->bytes, bad->size);
    (void)ensured_inode(job);
    token_file found = read_file(job);
    assert_int_equal(found.size, good->size);
    assert_memory_equal(found.bytes, good->bytes, good->size);
}

enum { TRAILER = 112, WORDS = 6, LINES = 2 }; /* of "b a b\nc\n": lengths 4 and 2 */

static token_file make_good(help_room *room, token_job *job) {
    make_vocab(room, "b a b\nc\n", TEXT_WORD, 0, job);
    (void)ensured_inode(job);
    token_file good = read_file(job);
    assert_int_equal(good.size, 4 * WORDS + 4 * LINES + TRAILER);
    return good;
}

static void damage_is_found(void **state) {
    help_room *room = *state;
    token_job job;
    token_file good = make_good(room, &job);
    for (size_t bit = 0; bit < 8 * good.size; bit++) {
        token_file bad = good;
        bad.bytes[bit / 8] = (char)(bad.bytes[bit / 8] ^ (1 << bit % 8));
        expect_made_again(&job, &bad, &good);
    }
    for (size_t size = 0; size < good.size; size++) {
        token_file bad = good;
        bad.size = size;
        expect_made_again(&job, &bad, &good);
    }
    for (size_t more = 1; more <= 12; more++) { /* behind, then before the trailer, then in front */
        token_file bad = good;
        bad.size += more;
        memcpy(bad.bytes + good.size, good.bytes, more);
        expect_made_again(&job, &bad, &good);
        memcpy(bad.bytes + bad.size - TRAILER, good.bytes + good.size - TRAILER, TRAILER);
        expect_made_again(&job, &bad, &good);
        memcpy(bad.bytes + more, good.bytes, good.size);
        expect_made_again(&job, &bad, &good);
    }
    ebb__vocab_free(&job.vocab);
}

/* ---- files made to deceive: all hashes are right ---- */

enum {
    AT_COUNT = 2,
    AT_LINES,
    AT_WORDS,
    AT_TEXT_BYTES,
    AT_UNKNOWN,
    AT_VOCAB_COUNT,
    AT_IDS_HASH = 11,
    AT_LENGTHS_HASH,
    AT_TRAILER_HASH
};

static void put_field(token_file *file, int which, uint64_t value) {
    memcpy(file->bytes + file->size - TRAILER + 8 * which, &value, sizeof value);
}

static uint64_t get_field(const token_file *file, int which) {
    uint64_t value;
    memcpy(&value, file->bytes + file->size - TRAILER + 8 * which, sizeof value);
    return value;
}

static void seal_trailer(token_file *file) {
    put_field(file, AT_TRAILER_HASH,
              XXH3_64bits(file->bytes + file->size - TRAILER, 8 * AT_TRAILER_HASH));
}

/* Of so many ids and lengths. */
static token_file forge(const token_file *good, const uint32_t *ids, size_t n_ids,
                        const uint32_t *lengths, size_t n_lengths) {
    token_file file = {.size = 4 * n_ids + 4 * n_lengths + TRAILER};
    memcpy(file.bytes, ids, 4 * n_ids);
    memcpy(file.bytes + 4 * n_ids, lengths, 4 * n_lengths);
    memcpy(file.bytes + file.size - TRAILER, good->bytes + good->size - TRAILER, TRAILER);
    put_field(&file, AT_COUNT, n_ids);
    put_field(&file, AT_LINES, n_lengths);
    put_field(&file, AT_IDS_HASH, XXH3_64bits(ids, 4 * n_ids));
    put_field(&file, AT_LENGTHS_HASH, XXH3_64bits(lengths, 4 * n_lengths));
    seal_trailer(&file);
    return file;
}

static void fields_are_checked_beyond_hashes(void **state) {
    help_room *room = *state;
    token_job job;
    token_file good = make_good(room, &job);
    assert_int_equal(get_field(&good, AT_COUNT), WORDS);
    assert_int_equal(get_field(&good, AT_LINES), LINES);
    assert_int_equal(get_field(&good, AT_VOCAB_COUNT), job.vocab.count);
    for (int which = 0; which < AT_TRAILER_HASH; which++) {
        uint64_t right = get_field(&good, which);
        uint64_t wrong[] = {right + 1,
                            right - 1,
                            0,
                            UINT64_MAX,
                            right ^ (uint64_t)1 << 63,
                            right ^ (uint64_t)1 << 62};
        for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
            token_file bad = good;
            put_field(&bad, which, wrong[i]);
            seal_trailer(&bad);
            /* Counts of the text, of which only the possible can be told from the ids. */
            bool possible = (which == AT_WORDS && wrong[i] <= WORDS) ||
                            (which == AT_TEXT_BYTES && wrong[i] >= WORDS - 1);
            if (wrong[i] != right && !possible) {
                expect_made_again(&job, &bad, &good);
            }
        }
    }
    /* Counts that only together have the size of the file. */
    token_file bad = good;
    put_field(&bad, AT_COUNT, WORDS + 1);
    put_field(&bad, AT_LINES, LINES - 1);
    seal_trailer(&bad);
    expect_made_again(&job, &bad, &good);
    put_field(&bad, AT_COUNT, WORDS + 3);
    put_field(&bad, AT_LINES, (uint64_t)LINES - 3);
    seal_trailer(&bad);
    expect_made_again(&job, &bad, &good);
    ebb__vocab_free(&job.vocab);
}

static void ids_are_checked_beyond_hashes(void **state) {
    help_room *room = *state;
    token_job job;
    token_file good = make_good(room, &job);
    uint32_t ids[WORDS], lengths[LINES];
    memcpy(ids, good.bytes, sizeof ids);
    memcpy(lengths, good.bytes + sizeof ids, sizeof lengths);
    token_file same = forge(&good, ids, WORDS, lengths, LINES);
    assert_memory_equal(same.bytes, good.bytes, good.size);
    for (int i = 0; i < WORDS; i++) {
        uint32_t right = ids[i], wrong[] = {job.vocab.count, UINT32_MAX, VOCAB_UNK};
        for (size_t k = 0; k < sizeof wrong / sizeof *wrong; k++) {
            ids[i] = wrong[k];
            token_file bad = forge(&good, ids, WORDS, lengths, LINES);
            expect_made_again(&job, &bad, &good);
        }
        ids[i] = right;
    }
    ebb__vocab_free(&job.vocab);
}

static void lengths_are_checked_beyond_hashes(void **state) {
    help_room *room = *state;
    token_job job;
    token_file good = make_good(room, &job);
    uint32_t ids[WORDS];
    memcpy(ids, good.bytes, sizeof ids);
    const struct {
        size_t n;
        uint32_t lengths[4];
    } wrong[] = {{2, {5, 2}},    {2, {3, 2}},          {2, {0, 2}},      {2, {UINT32_MAX, 2}},
                 {2, {4, 3}},    {2, {4, 1}},          {2, {4, 0}},      {2, {3, 3}},
                 {2, {2, 4}},    {2, {7, UINT32_MAX}}, {1, {6}},         {1, {4}},
                 {0, {0}},       {3, {3, 1, 2}},       {3, {4, 2, 0}},   {3, {4, 0, 2}},
                 {3, {0, 4, 2}}, {3, {4, 2, 2}},       {4, {4, 1, 1, 0}}};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        token_file bad = forge(&good, ids, WORDS, wrong[i].lengths, wrong[i].n);
        expect_made_again(&job, &bad, &good);
    }
    ebb__vocab_free(&job.vocab);
}

/* Under the reader's feet, in the same inode. */
static void changes_while_open_are_found(void **state) {
    help_room *room = *state;
    token_job job;
    tokens_reader reader;
    uint32_t cell = 0;
    token_file good = make_good(room, &job);
    assert_int_equal(ensure(&job, &reader), EBB_OK);
    for (uint32_t wrong = 0; wrong <= WORDS + 1; wrong += WORDS + 1) {
        token_file bad = good;
        memcpy(bad.bytes, &job.vocab.count, sizeof job.vocab.count);
        memcpy(bad.bytes + sizeof cell * (WORDS + 1), &wrong, sizeof wrong);
        FILE *file = fopen(room->path[1], "r+b");
        assert_int_equal(fwrite(bad.bytes, 1, bad.size, file), bad.size);
        assert_int_equal(fclose(file), 0);
        help_expect(room->ctx, ebb__tokens_read(&reader, 0, 1, &cell), EBB_DATA, "was changed");
        assert_int_equal(ebb__tokens_lengths(&reader, 0, 1, &cell), EBB_OK);
        assert_int_equal(cell, 4);
        help_expect(room->ctx, ebb__tokens_lengths(&reader, 1, 1, &cell), EBB_DATA, "was changed");
    }
    ebb__tokens_close(&reader);
    ebb__vocab_free(&job.vocab);
}

static void bad_text(void **state) {
    help_room *room = *state;
    token_job job;
    tokens_reader reader;
    make_vocab(room, "b a b\nc\n", TEXT_WORD, 0, &job);
    (void)ensured_inode(&job);
    help_write(room->path[0], "x\n\0y", 4);
    help_expect(room->ctx, ensure(&job, &reader), EBB_DATA, "/a:2: holds a NUL byte");
    assert_true(ebb__file_exists(room->path[1])); /* the old file stays */
    (void)unlink(room->path[0]);
    help_expect(room->ctx, ensure(&job, &reader), EBB_DATA, "No such file");
    ebb__vocab_free(&job.vocab);
}

static ebb_status ensure_twice(help_room *room) {
    data_vocab vocab;
    tokens_reader reader;
    (void)unlink(room->path[1]);
    TRY(ebb__vocab_load(room->ctx, room->path[2], &vocab));
    ebb_status status = EBB_OK;
    for (int i = 0; i < 2 && status == EBB_OK; i++) {
        status =
            ebb__tokens_ensure(room->ctx, room->path[0], TEXT_WORD, &vocab, room->path[1], &reader);
        if (status == EBB_OK) {
            assert_true(reader.made == (i == 0));
            ebb__tokens_close(&reader);
        }
    }
    uint64_t hash = 0;
    if (status == EBB_OK) {
        status = ebb__tokens_hash(room->ctx, room->path[0], TEXT_WORD, &vocab, &hash);
    }
    ebb__vocab_free(&vocab);
    return status;
}

static void failures(void **state) {
    help_room *room = *state;
    token_job job;
    make_vocab(room, "a b\nc\n", TEXT_WORD, 0, &job);
    assert_int_equal(ebb__vocab_save(&job.vocab, room->path[2]), EBB_OK);
    ebb__vocab_free(&job.vocab);
    help_fail_each(room, ensure_twice);
}

int main(void) {
#define TEST(name) cmocka_unit_test_setup_teardown(name, help_setup, help_teardown)
    const struct CMUnitTest tests[] = {
        TEST(ids_and_counts),
        TEST(text_without_a_token),
        TEST(large_text_crosses_chunks),
        TEST(many_lines_cross_chunks),
        TEST(reused_only_if_the_same),
        TEST(damage_is_found),
        TEST(bad_text),
        TEST(fields_are_checked_beyond_hashes),
        TEST(ids_are_checked_beyond_hashes),
        TEST(lengths_are_checked_beyond_hashes),
        TEST(changes_while_open_are_found),
        TEST(failures),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
