/* rng.c - Philox4x32-10 from Random123, keyed by the hash of a site's name. Stateless. */
#include "base/rng.h"

#include <string.h>

#include <Random123/philox.h>
#include <xxhash.h>

rng_key ebb__rng_key(uint64_t seed, const char *site) {
    uint64_t hash = XXH64(site, strlen(site), seed);
    return (rng_key){.word = {(uint32_t)hash, (uint32_t)(hash >> 32)}};
}

rng_block ebb__rng_block(rng_key key, uint32_t c0, uint32_t c1, uint32_t c2, uint32_t c3) {
    philox4x32_ctr_t counter = {{c0, c1, c2, c3}};
    philox4x32_key_t philox_key = {{key.word[0], key.word[1]}};
    philox4x32_ctr_t result = philox4x32_R(10, counter, philox_key);
    return (rng_block){.word = {result.v[0], result.v[1], result.v[2], result.v[3]}};
}
