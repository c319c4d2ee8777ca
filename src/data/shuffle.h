/* shuffle.h - a shuffled list of n as a function of a place in it: no memory, any place at once. */
#ifndef DATA_SHUFFLE_H
#define DATA_SHUFFLE_H

#include <stdint.h>

enum { SHUFFLE_ROUNDS = 6 };

typedef struct data_shuffle {
    uint64_t n, wide, high; /* the list as a rectangle of high rows; the last may not be full */
    uint64_t keys[SHUFFLE_ROUNDS];
} data_shuffle;

/* One of many lists of a site (as in rng.h), anew every epoch. n of at least 1, below 2^62. */
data_shuffle ebb__shuffle_make(uint64_t seed, const char *site, uint64_t epoch, uint32_t list,
                               uint64_t n);
/* What stands at place i < n: every number below n does at one place. */
uint64_t ebb__shuffle_at(const data_shuffle *shuffle, uint64_t i);

#endif
