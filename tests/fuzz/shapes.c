/* shapes.c - a list of lengths as --shapes takes it; the first byte says whether of pairs. What is
 * accepted is in order and without doubles. */
#include "data/buckets.h"
#include "fuzz/fuzz.h"

#include <stdlib.h>

void fuzz_shapes(fuzz_room *room, fuzz_input input) {
    bool pairs = (fuzz_byte(&input) & 1) != 0;
    char *text = fuzz_string(input);
    bucket_options options = {0};
    if (fuzz_fine(room, ebb__buckets_list(room->ctx, text, pairs, &options))) {
        fuzz_require(options.n_listed >= 1 && options.n_listed <= BUCKETS_MOST_LISTED,
                     "a list of no length, or of too many");
        for (int32_t i = 0; i < options.n_listed; i++) {
            const data_shape *bound = &options.list[i];
            fuzz_require(bound->target >= 1 && (bound->source >= 1) == pairs, "a wrong length");
        }
    }
    free(text);
}
