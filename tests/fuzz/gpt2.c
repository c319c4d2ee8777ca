/* gpt2.c - GPT-2's files: up to a zero byte the input is vocab.json, up to the next merges.txt, the
 * rest a text. What is accepted is saved and loaded again, to the same; pieces have numbers of
 * their own; runs and pieces of any line make the line. */
#include "data/codes_gpt2.h"
#include "fuzz/fuzz.h"

#include <string.h>

static void check_ids(const gpt2_ids *ids) {
    size_t n = ids->pieces.count - VOCAB_SPECIALS + ids->n_own;
    for (uint32_t i = VOCAB_SPECIALS; i < ids->pieces.count; i++) {
        size_t length = 0;
        const char *piece = ebb__vocab_token(&ids->pieces, i, &length);
        int64_t id = ebb__gpt2_id(ids, piece, length);
        fuzz_require(id >= 0 && (size_t)id < n, "a piece has no number");
    }
}

static void cut_text(fuzz_room *room, const data_codes *codes, const char *text, size_t bytes) {
    codes_cutter cutter = {.ctx = room->ctx};
    const char *at = text, *end = text + bytes, *run;
    while (at < end) {
        size_t n = ebb__codes_split(&at, end, &run);
        fuzz_require(at == run + n || n == 0, "a run leaves something out");
        fuzz_require(n > 0 || at == end || *at == '\n', "a line ends where it does not");
        at += n == 0 && at < end;
        if (n == 0 || n > TEXT_TOKEN_LIMIT) {
            continue;
        }
        fuzz_require(ebb__codes_run(run, (size_t)(end - run), true) == n, "another run");
        fuzz_require(ebb__codes_cut(codes, &cutter, run, n) == EBB_OK, "no cut");
        fuzz_require(cutter.n_ends > 0 && cutter.ends[cutter.n_ends - 1] == n,
                     "pieces do not make the run");
    }
    ebb__codes_cutter_free(&cutter);
}

/* Letters and bytes are each other's. */
static void round_letters(fuzz_input input) {
    char letters[128], back[128];
    size_t used = 0, n = input.left < 64 ? input.left : 64;
    for (size_t i = 0; i < n; i++) {
        used += ebb__codes_letter(input.at[i], letters + used);
    }
    fuzz_require(ebb__codes_from_letters(letters, used, back) == (int64_t)n &&
                     memcmp(back, input.at, n) == 0,
                 "letters stand for other bytes");
}

static void use_codes(fuzz_room *room, const data_codes *codes, fuzz_input text) {
    fuzz_path path = fuzz_file(room, "again");
    data_codes again;
    fuzz_require(ebb__codes_save(codes, path.text) == EBB_OK, "codes cannot be saved");
    fuzz_require(ebb__codes_load(room->ctx, path.text, EBB_MODEL, &again) == EBB_OK,
                 "what was saved is refused");
    fuzz_require(ebb__codes_hash(codes) == ebb__codes_hash(&again), "other codes were loaded");
    cut_text(room, &again, (const char *)text.at, text.left);
    ebb__codes_free(&again);
}

void fuzz_gpt2(fuzz_room *room, fuzz_input input) {
    fuzz_input json = fuzz_part(&input, 0), merges = fuzz_part(&input, 0);
    fuzz_path folder = fuzz_file(room, "gpt2");
    data_codes codes;
    gpt2_ids ids;
    fuzz_write(fuzz_file(room, "gpt2/vocab.json"), json.at, json.left);
    fuzz_write(fuzz_file(room, "gpt2/merges.txt"), merges.at, merges.left);
    if (fuzz_fine(room, ebb__gpt2_load_ids(room->ctx, folder.text, EBB_DATA, &ids))) {
        check_ids(&ids);
        ebb__vocab_free(&ids.pieces);
    }
    if (fuzz_fine(room, ebb__gpt2_load(room->ctx, folder.text, EBB_DATA, &codes, &ids))) {
        ebb__vocab_free(&ids.pieces);
        ebb__codes_free(&codes);
    }
    if (fuzz_fine(room, ebb__codes_load_merges(room->ctx, fuzz_file(room, "gpt2/merges.txt").text,
                                               EBB_DATA, &codes))) {
        use_codes(room, &codes, input);
        ebb__codes_free(&codes);
    }
    round_letters(input);
}
