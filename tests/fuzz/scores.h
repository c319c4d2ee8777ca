/* scores.h - what bleu.c and chrf.c share: two texts, hypotheses and references, between which
 * stands a byte that is never text. */
#ifndef TESTS_FUZZ_SCORES_H
#define TESTS_FUZZ_SCORES_H

#include "fuzz/fuzz.h"
#include "score/corpus.h"

typedef struct fuzz_pair {
    fuzz_path hyp, ref;
} fuzz_pair;

static inline fuzz_pair fuzz_write_pair(fuzz_room *room, fuzz_input input) {
    fuzz_pair pair = {fuzz_file(room, "hyp"), fuzz_file(room, "ref")};
    fuzz_input hyp = fuzz_part(&input, 0xff);
    fuzz_write(pair.hyp, hyp.at, hyp.left);
    fuzz_write(pair.ref, input.at, input.left);
    return pair;
}

static inline void fuzz_require_score(double score) {
    fuzz_require(score >= 0 && score <= 100.0001, "a score is not between 0 and 100");
}

#endif
