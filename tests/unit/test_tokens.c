/* test_tokens.c - token files: the ids and counts of a text, reuse only of what is sound and made
 * of this very text and vocabulary, every flipped bit and every cut found. */
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

static void expect_ids(const token_job *job, const uint32_t *want, size_t count, uint64_t words,
                       uint64_t unknown) {
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
    ebb__tokens_close(&reader);
}

static void ids_and_counts(void **state) {
    help_room *room = *state;
    token_job job;
    make_vocab(room, "b a b\nc <unk>\n\nb", TEXT_WORD, 4, &job); /* <unk> <eos> b a */
    expect_ids(&job, (const uint32_t[]){2, 3, 2, 1, 0, 0, 1, 1, 2, 1}, 10, 10, 2);
    ebb__vocab_free(&job.vocab);
    make_vocab(room, "bb a\n", TEXT_CHAR, 0, &job); /* <unk> <eos> b space a */
    expect_ids(&job, (const uint32_t[]){2, 2, 3, 4, 1}, 5, 3, 0);
    help_write_text(room->path[0], "a?b"); /* another text, the same vocabulary */
    expect_ids(&job, (const uint32_t[]){4, 0, 2, 1}, 4, 2, 1);
    ebb__vocab_free(&job.vocab);
    make_vocab(room, "bba\nx", TEXT_BYTE, 0, &job);
    expect_ids(&job, (const uint32_t[]){2, 2, 3, 1, 4}, 5, 3, 0);
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

static void damage_is_found(void **state) {
    help_room *room = *state;
    token_job job;
    char good[512], found[512];
    make_vocab(room, "b a b\nc\n", TEXT_WORD, 0, &job);
    (void)ensured_inode(&job);
    size_t bytes = help_read(room->path[1], good, sizeof good);
    assert_int_equal(bytes, 6 * 4 + 96);
    for (size_t i = 0; i < 8 * bytes + bytes; i++) {
        size_t length = i < 8 * bytes ? bytes : i - 8 * bytes;
        memcpy(found, good, bytes);
        if (i < 8 * bytes) {
            found[i / 8] = (char)(found[i / 8] ^ (1 << i % 8));
        }
        (void)unlink(room->path[1]);
        help_write(room->path[1], found, length);
        (void)ensured_inode(&job);
        assert_int_equal(help_read(room->path[1], found, sizeof found), bytes);
        assert_memory_equal(found, good, bytes);
    }
    memcpy(found, good, bytes);
    memcpy(found + bytes, good, 4); /* longer than it tells */
    (void)unlink(room->path[1]);
    help_write(room->path[1], found, bytes + 4);
    (void)ensured_inode(&job);
    assert_int_equal(help_read(room->path[1], found, sizeof found), bytes);
    ebb__vocab_free(&job.vocab);
}

/* All hashes right, one id beyond the vocabulary. */
static void ids_are_checked_beyond_hashes(void **state) {
    help_room *room = *state;
    token_job job;
    char good[512], forged[512];
    make_vocab(room, "b a b\nc\n", TEXT_WORD, 0, &job);
    (void)ensured_inode(&job);
    size_t bytes = help_read(room->path[1], good, sizeof good), ids = bytes - 96;
    memcpy(forged, good, bytes);
    forged[0] = (char)job.vocab.count;
    uint64_t hash = XXH3_64bits(forged, ids);
    memcpy(forged + ids + 80, &hash, 8);
    hash = XXH3_64bits(forged + ids, 88);
    memcpy(forged + ids + 88, &hash, 8);
    (void)unlink(room->path[1]);
    help_write(room->path[1], forged, bytes);
    (void)ensured_inode(&job);
    assert_int_equal(help_read(room->path[1], forged, sizeof forged), bytes);
    assert_memory_equal(forged, good, bytes);

    tokens_reader reader;
    uint32_t id = 0;
    assert_int_equal(ensure(&job, &reader), EBB_OK);
    forged[0] = (char)job.vocab.count; /* now under the reader's feet, in the same inode */
    FILE *file = fopen(room->path[1], "r+b");
    assert_int_equal(fwrite(forged, 1, bytes, file), bytes);
    assert_int_equal(fclose(file), 0);
    help_expect(room->ctx, ebb__tokens_read(&reader, 0, 1, &id), EBB_DATA, "was changed");
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
            ebb__tokens_close(&reader);
        }
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
        TEST(large_text_crosses_chunks),
        TEST(reused_only_if_the_same),
        TEST(damage_is_found),
        TEST(bad_text),
        TEST(ids_are_checked_beyond_hashes),
        TEST(failures),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
