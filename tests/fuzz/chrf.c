/* chrf.c - chrF of two texts. */
#include "fuzz/scores.h"

void fuzz_chrf(fuzz_room *room, fuzz_input input) {
    fuzz_pair pair = fuzz_write_pair(room, input);
    const char *const paths[] = {pair.hyp.text, pair.ref.text};
    chrf_counts counts = {0};
    uint64_t sentences = 0;
    if (fuzz_fine(room, ebb__score_chrf(room->ctx, paths, 2, &counts, &sentences))) {
        fuzz_require_score(ebb__chrf_score(&counts));
        for (int i = 0; i < CHRF_ORDERS; i++) {
            fuzz_require(counts.match[i] <= counts.hyp[i] && counts.match[i] <= counts.ref[i],
                         "more runs match than there are");
        }
    }
}
