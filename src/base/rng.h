/* rng.h - counter-based random numbers (Philox4x32-10, Random123): a pure function of key and
 * counter, so that nothing is stored and any replay gives the same bits. */
#ifndef BASE_RNG_H
#define BASE_RNG_H

#include <stdint.h>

typedef struct rng_key {
    uint32_t word[2];
} rng_key;
typedef struct rng_block {
    uint32_t word[4];
} rng_block;

/* Key of one site (a stable name such as "rnn.l0.drop") under a seed. */
rng_key ebb__rng_key(uint64_t seed, const char *site);
rng_block ebb__rng_block(rng_key key, uint32_t c0, uint32_t c1, uint32_t c2, uint32_t c3);
/* [0,1) with 24 bits, exact in fp32. */
static inline float ebb__rng_unit(uint32_t word) {
    return (float)(word >> 8) * 0x1p-24f;
}

#endif
