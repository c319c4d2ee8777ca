/* bleu.c - BLEU of two texts; the first byte chooses how words are told apart. */
#include "fuzz/scores.h"

#include <string.h>

void fuzz_bleu(fuzz_room *room, fuzz_input input) {
    score_tok tok = fuzz_byte(&input) & 1 ? SCORE_NONE : SCORE_13A;
    fuzz_pair pair = fuzz_write_pair(room, input);
    const char *const paths[] = {pair.hyp.text, pair.ref.text, pair.ref.text};
    bleu_counts counts = {0};
    uint64_t sentences = 0;
    /* The same reference twice is as good as once. */
    for (size_t n = 2; n <= 3; n++) {
        bleu_counts again = counts;
        if (!fuzz_fine(room, ebb__score_bleu(room->ctx, paths, n, tok, &counts, &sentences))) {
            continue;
        }
        fuzz_require(n == 2 || memcmp(&again, &counts, sizeof counts) == 0,
                     "a reference that is there twice counts twice");
        fuzz_require_score(ebb__bleu_score(&counts));
        fuzz_require(counts.match[0] <= counts.hyp_len, "more words match than there are");
    }
    /* A text is as like itself as can be. */
    if (fuzz_fine(room, ebb__score_bleu(room->ctx, paths + 1, 2, tok, &counts, &sentences))) {
        fuzz_require(counts.match[0] == counts.hyp_len && counts.hyp_len == counts.ref_len,
                     "a text does not match itself");
    }
}
