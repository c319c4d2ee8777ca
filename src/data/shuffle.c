/* shuffle.c - see shuffle.h. A Feistel network on the rectangle: in turn, column and row are turned
 * by a hash of the other. The few places beyond n are walked through again, so that the list stays
 * a permutation. */
#include "data/shuffle.h"

#include "base/rng.h"

data_shuffle ebb__shuffle_make(uint64_t seed, const char *site, uint64_t epoch, uint32_t list,
                               uint64_t n) {
    data_shuffle out = {.n = n};
    rng_key key = ebb__rng_key(seed, site);
    for (uint64_t bit = (uint64_t)1 << 31; bit > 0; bit >>= 1) { /* the root, rounded down */
        out.wide += (out.wide + bit) * (out.wide + bit) <= n ? bit : 0;
    }
    out.high = (n + out.wide - 1) / out.wide;
    for (uint32_t i = 0; i < SHUFFLE_ROUNDS; i++) {
        rng_block block = ebb__rng_block(key, i, (uint32_t)epoch, (uint32_t)(epoch >> 32), list);
        out.keys[i] = (uint64_t)block.word[1] << 32 | block.word[0];
    }
    return out;
}

/* The finaliser of splitmix64. */
static uint64_t hash(uint64_t x, uint64_t key) {
    x += key;
    x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9U;
    x = (x ^ (x >> 27)) * 0x94D049BB133111EBU;
    return x ^ (x >> 31);
}

/* x turned by 0 .. n-1; n below 2^32 */
static uint64_t turn(uint64_t x, uint64_t by, uint64_t n) {
    x += (by >> 32) * n >> 32;
    return x < n ? x : x - n;
}

uint64_t ebb__shuffle_at(const data_shuffle *s, uint64_t i) {
    do {
        uint64_t column = i % s->wide, row = i / s->wide;
        for (int round = 0; round < SHUFFLE_ROUNDS; round += 2) {
            column = turn(column, hash(row, s->keys[round]), s->wide);
            row = turn(row, hash(column, s->keys[round + 1]), s->high);
        }
        i = row * s->wide + column;
    } while (i >= s->n);
    return i;
}
