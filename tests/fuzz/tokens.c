/* tokens.c - a file of ids that was changed: the one that ebb makes of a small text, of which the
 * input replaces cells of 32 bits and the length; the first byte says which hashes are put right
 * afterwards. Whatever is there, what is read are ids of the vocabulary, and lengths of lines that
 * add up. */
#include "base/alloc.h"
#include "base/file.h"
#include "data/tokens.h"
#include "fuzz/fuzz.h"

#include <endian.h>
#include <string.h>
#include <xxhash.h>

enum { RIGHT_IDS = 1, RIGHT_LENGTHS = 2, RIGHT_TRAILER = 4, CUT = 8 };
enum { FIELD_COUNT = 2, FIELD_IDS_HASH = 11, FIELD_LENGTHS_HASH = 12, FIELDS = 14, MOST = 64 };

static const char text[] = "a b c\nb c\n\nd a\n", words[] = "<unk>\n<eos>\na\nb\nc\nd\n";

static void put_right(char *file, size_t bytes, uint8_t what) {
    uint64_t field[FIELDS];
    char *trailer = file + bytes - sizeof field;
    memcpy(field, trailer, sizeof field);
    size_t cells = (bytes - sizeof field) / 4, count = (size_t)le64toh(field[FIELD_COUNT]);
    count = count <= cells ? count : cells;
    if ((what & RIGHT_IDS) != 0) {
        field[FIELD_IDS_HASH] = htole64(XXH3_64bits(file, 4 * count));
    }
    if ((what & RIGHT_LENGTHS) != 0) {
        field[FIELD_LENGTHS_HASH] = htole64(XXH3_64bits(file + 4 * count, 4 * (cells - count)));
    }
    if ((what & RIGHT_TRAILER) != 0) {
        field[FIELDS - 1] = htole64(XXH3_64bits(field, sizeof field - sizeof field[0]));
    }
    memcpy(trailer, field, sizeof field);
}

static void change(fuzz_room *room, fuzz_path path, fuzz_input input) {
    uint8_t what = fuzz_byte(&input);
    size_t bytes = 0;
    char *file = NULL;
    fuzz_require(ebb__file_read_all(room->ctx, path.text, 1 << 16, &file, &bytes) == EBB_OK,
                 "no file of ids was made");
    for (int i = 0; i < MOST && input.left > 0; i++) {
        size_t cell = fuzz_byte(&input) % (bytes / 4);
        uint32_t value = htole32(fuzz_word(&input));
        memcpy(file + 4 * cell, &value, sizeof value);
    }
    put_right(file, bytes, what);
    fuzz_write(path, file, (what & CUT) != 0 ? bytes - what % bytes : bytes);
    ebb__free(room->ctx, file);
}

static void read_all(tokens_reader *reader) {
    uint32_t cell = 0;
    uint64_t sum = 0;
    for (uint64_t i = 0; i < reader->count; i++) {
        fuzz_require(ebb__tokens_read(reader, i, 1, &cell) == EBB_OK, "an id is not read");
        fuzz_require(cell < reader->vocab_count, "an id that is none");
    }
    for (uint64_t i = 0; i < reader->lines; i++) {
        fuzz_require(ebb__tokens_lengths(reader, i, 1, &cell) == EBB_OK, "a length is not read");
        sum += cell;
    }
    fuzz_require(sum == reader->count, "lengths do not add up");
}

static bool ensure(fuzz_room *room, const data_vocab *vocab, tokens_reader *out) {
    return fuzz_fine(room, ebb__tokens_ensure(room->ctx, fuzz_file(room, "text").text, TEXT_WORD,
                                              vocab, fuzz_file(room, "ids").text, out));
}

void fuzz_tokens(fuzz_room *room, fuzz_input input) {
    fuzz_path vocab_path = fuzz_file(room, "vocab");
    data_vocab vocab;
    tokens_reader reader;
    fuzz_write(fuzz_file(room, "text"), text, sizeof text - 1);
    fuzz_write(vocab_path, words, sizeof words - 1);
    fuzz_require(ebb__vocab_load(room->ctx, vocab_path.text, &vocab) == EBB_OK, "no vocabulary");
    fuzz_require(ensure(room, &vocab, &reader), "no file of ids");
    ebb__tokens_close(&reader);
    change(room, fuzz_file(room, "ids"), input);
    fuzz_require(ensure(room, &vocab, &reader), "a wrong file was not made again");
    read_all(&reader);
    ebb__tokens_close(&reader);
    ebb__vocab_free(&vocab);
}
