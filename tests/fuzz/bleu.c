/* bleu.c - BLEU of two texts; the first byte chooses how words are told apart. */
#include "fuzz/scores.h"

void fuzz_bleu(fuzz_room *room, fuzz_input input) {
    score_tok tok = fuzz_byte(&input) & 1 ? SCORE_NONE : SCORE_13A;
    fuzz_pair pair = fuzz_write_pair(room, input);
    bleu_counts counts = {0};
    uint64_t sentences = 0;
    if (fuzz_fine(room, ebb__score_bleu(room->ctx, pair.hyp.text, pair.ref.text, tok, &counts,
                                        &sentences))) {
        fuzz_require_score(ebb__bleu_score(&counts));
        fuzz_require(counts.match[0] <= counts.hyp_len, "more words match than there are");
    }
    /* A text is as like itself as can be. */
    if (fuzz_fine(room, ebb__score_bleu(room->ctx, pair.ref.text, pair.ref.text, tok, &counts,
                                        &sentences))) {
        fuzz_require(counts.match[0] == counts.hyp_len && counts.hyp_len == counts.ref_len,
                     "a text does not match itself");
    }
}
