/* start.c - starting values of variables. */
#include "ir/graph.h"

#include "base/rng.h"

#include <math.h>

static float uniform(rng_key key, uint64_t i) {
    uint64_t at = i / 4;
    rng_block block = ebb__rng_block(key, (uint32_t)at, (uint32_t)(at >> 32), 0, 0);
    return 2.0F * ebb__rng_unit(block.word[i % 4]) - 1.0F;
}

/* Box-Muller on one block of random words: the first of the pair. */
static float normal(rng_key key, uint64_t i) {
    rng_block block = ebb__rng_block(key, (uint32_t)i, (uint32_t)(i >> 32), 0, 0);
    double u = ((double)block.word[0] + 1.0) * 0x1p-32, v = (double)block.word[1] * 0x1p-32;
    return (float)(sqrt(-2.0 * log(u)) * cos(6.283185307179586 * v));
}

void ebb__ir_draw(ir_start start, const char *name, uint64_t seed, float *data, uint64_t first,
                  uint64_t count) {
    rng_key key = ebb__rng_key(seed, name);
    for (uint64_t k = 0; k < count; k++) {
        uint64_t i = first + k;
        float one = start.draw == IR_UNIFORM  ? uniform(key, i)
                    : start.draw == IR_NORMAL ? normal(key, i)
                                              : 1.0F;
        data[k] = one * start.scale;
    }
}
