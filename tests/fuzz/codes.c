/* codes.c - files of byte-pair codes, and learning and cutting: up to a zero byte the input is a
 * file, the rest a text. What is accepted is saved and loaded again, to the same; codes that the
 * text teaches are accepted; and cutting takes nothing away: joined again, the text is the text. */
#include "data/codes_words.h"
#include "fuzz/fuzz.h"

#include <string.h>

static void round_trip(fuzz_room *room, const data_codes *codes) {
    fuzz_path path = fuzz_file(room, "again");
    data_codes again;
    fuzz_require(ebb__codes_save(codes, path.text) == EBB_OK, "codes cannot be saved");
    if (ebb__codes_load(room->ctx, path.text, EBB_MODEL, &again) != EBB_OK) {
        fuzz_require(false, ebb_last_error(room->ctx));
    }
    fuzz_require(ebb__codes_hash(codes) == ebb__codes_hash(&again), "other codes were loaded");
    ebb__codes_free(&again);
}

static void cut_words(fuzz_room *room, const data_codes *codes, const char *path) {
    codes_cutter cutter = {.ctx = room->ctx};
    words_reader reader;
    words_item item = {.kind = WORDS_BREAK};
    fuzz_require(ebb__codes_cutter_remember(&cutter) == EBB_OK, "no memory");
    fuzz_require(ebb__words_open(room->ctx, path, "fuzz", &reader) == EBB_OK, "no words");
    while (item.kind != WORDS_END && fuzz_fine(room, ebb__words_next(&reader, &item))) {
        if (item.kind != WORDS_WORD) {
            continue;
        }
        fuzz_require(ebb__codes_cut(codes, &cutter, item.bytes, item.length) == EBB_OK, "no cut");
        uint32_t begin = 0;
        for (size_t i = 0; i < cutter.n_ends; begin = cutter.ends[i++]) {
            fuzz_require(cutter.ends[i] > begin, "an empty piece");
        }
        fuzz_require(begin == item.length, "pieces do not make the word");
    }
    ebb__words_close(&reader);
    ebb__codes_cutter_free(&cutter);
}

void fuzz_codes(fuzz_room *room, fuzz_input input) {
    fuzz_input file = fuzz_part(&input, 0);
    fuzz_path codes_path = fuzz_file(room, "codes"), text_path = fuzz_file(room, "text");
    data_codes codes;
    words_list words;
    fuzz_write(codes_path, file.at, file.left);
    fuzz_write(text_path, input.left > 0 ? (const void *)input.at : "x",
               input.left > 0 ? input.left : 1);
    if (fuzz_fine(room, ebb__codes_load(room->ctx, codes_path.text, EBB_DATA, &codes))) {
        round_trip(room, &codes);
        cut_words(room, &codes, text_path.text);
        ebb__codes_free(&codes);
    }
    ebb__words_list_init(room->ctx, 0, &words);
    if (fuzz_fine(room, ebb__words_list_read(&words, text_path.text)) &&
        fuzz_fine(room, ebb__codes_learn(&words, 200, 0, &codes))) {
        round_trip(room, &codes);
        cut_words(room, &codes, text_path.text);
        ebb__codes_free(&codes);
    }
    ebb__words_list_free(&words);
}
