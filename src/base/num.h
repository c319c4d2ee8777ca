/* num.h - the larger of two sizes, with each operand computed once. */
#ifndef BASE_NUM_H
#define BASE_NUM_H

#include <stdint.h>

static inline uint64_t num_larger(uint64_t a, uint64_t b) {
    return a > b ? a : b;
}
static inline uint32_t num_larger32(uint32_t a, uint32_t b) {
    return a > b ? a : b;
}

#endif
