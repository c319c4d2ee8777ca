/* text.c - a text, in any mode but that of codes (codes.c): its tokens, the lengths of its lines,
 * its vocabulary, and a file of its ids, all of which must count alike. The first byte chooses the
 * mode. */
#include "data/lengths.h"
#include "data/tokens.h"
#include "fuzz/fuzz.h"

static bool count_tokens(fuzz_room *room, fuzz_path path, text_mode mode, uint64_t *tokens) {
    text_reader reader;
    text_token token = {.kind = TEXT_TOKEN};
    *tokens = 0;
    if (!fuzz_fine(room, ebb__text_open(room->ctx, path.text, mode, "fuzz", NULL, &reader))) {
        return false;
    }
    bool good = true;
    while (good && token.kind != TEXT_END) {
        good = fuzz_fine(room, ebb__text_next(&reader, &token));
        *tokens += good && token.kind != TEXT_END;
        fuzz_require(!good || token.kind != TEXT_TOKEN || token.length >= 1, "an empty token");
    }
    fuzz_require(!good || reader.tokens == *tokens, "the reader counts otherwise");
    ebb__text_close(&reader);
    return good;
}

static void check_ids(fuzz_room *room, fuzz_path path, text_mode mode, uint64_t tokens) {
    vocab_options options = {.mode = mode, .limit = 50, .table_bytes = 4096};
    fuzz_path ids = fuzz_file(room, "ids");
    data_vocab vocab;
    tokens_reader reader;
    if (!fuzz_fine(room, ebb__vocab_build(room->ctx, path.text, &options, &vocab))) {
        return;
    }
    if (fuzz_fine(room,
                  ebb__tokens_ensure(room->ctx, path.text, mode, &vocab, ids.text, &reader))) {
        fuzz_require(reader.count == tokens, "the file of ids counts otherwise");
        ebb__tokens_close(&reader);
    }
    ebb__vocab_free(&vocab);
}

void fuzz_text(fuzz_room *room, fuzz_input input) {
    static const text_mode modes[] = {TEXT_WORD, TEXT_CHAR, TEXT_BYTE};
    text_mode mode = modes[fuzz_byte(&input) % 3];
    fuzz_path path = fuzz_file(room, "text");
    uint64_t tokens = 0;
    fuzz_write(path, input.at, input.left);
    if (count_tokens(room, path, mode, &tokens)) {
        check_ids(room, path, mode, tokens);
    }
    lengths_texts texts = {.target = path.text, .mode = mode, .max_len = 20};
    data_lengths lengths = {.ctx = room->ctx};
    if (fuzz_fine(room, ebb__lengths_scan(room->ctx, &texts, &lengths))) {
        fuzz_require(lengths.used + lengths.empty + lengths.over == lengths.lines,
                     "a line was lost");
    }
    ebb__lengths_free(&lengths);
}
