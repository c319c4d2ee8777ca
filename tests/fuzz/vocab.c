/* vocab.c - the file of a vocabulary; the two special tokens are put before the input if its first
 * byte says so. What is accepted is saved and loaded again, to the same. */
#include "data/vocab.h"
#include "fuzz/fuzz.h"

#include <stdlib.h>
#include <string.h>

static void write_file(fuzz_path path, fuzz_input input, const char *before) {
    size_t first = strlen(before);
    char *text = malloc(first + input.left + 1);
    fuzz_require(text != NULL, "no memory");
    memcpy(text, before, first);
    if (input.left > 0) {
        memcpy(text + first, input.at, input.left);
    }
    fuzz_write(path, text, first + input.left);
    free(text);
}

static void round_trip(fuzz_room *room, const data_vocab *vocab) {
    fuzz_path path = fuzz_file(room, "again");
    data_vocab again;
    for (uint32_t id = 0; id < vocab->count; id++) {
        size_t length = 0;
        const char *token = ebb__vocab_token(vocab, id, &length);
        fuzz_require(ebb__vocab_find(vocab, token, length) == id, "a token is not found");
    }
    fuzz_require(ebb__vocab_save(vocab, path.text) == EBB_OK, "it cannot be saved");
    if (ebb__vocab_load(room->ctx, path.text, &again) != EBB_OK) {
        fuzz_require(false, ebb_last_error(room->ctx));
    }
    fuzz_require(ebb__vocab_hash(vocab) == ebb__vocab_hash(&again), "another was loaded");
    ebb__vocab_free(&again);
}

void fuzz_vocab(fuzz_room *room, fuzz_input input) {
    bool specials = (fuzz_byte(&input) & 1) != 0;
    fuzz_path path = fuzz_file(room, "vocab");
    data_vocab vocab;
    write_file(path, input, specials ? "<unk>\n<eos>\n" : "");
    if (fuzz_fine(room, ebb__vocab_load(room->ctx, path.text, &vocab))) {
        round_trip(room, &vocab);
        ebb__vocab_free(&vocab);
    }
}
