/* pool_codes.h - vectors of codes of 2, 4 or 8 bits in rows of bytes, lowest bits first.
 *
 * In a vector, the code of lane l keeps the bits that it has among its neighbours in memory: no
 * lane is ever shifted, all that is compared with codes is brought there instead. 8 codes of 8 bits
 * are two words, each for its half of the lanes. */
#ifndef DEVICE_CPU_POOL_CODES_H
#define DEVICE_CPU_POOL_CODES_H

#include "device/cpu/vec.h"

#include <endian.h>

/* Code 1 in every lane. */
static INLINE vu codes_ones(int bits) {
    vu one = {0};
    for (int l = 0; l < VLEN; l++) {
        one[l] = 1u << bits * l % 32;
    }
    return one;
}

/* Codes [at, at + m) of a row. */
static INLINE vu codes_load(const uint8_t *row, int64_t at, int64_t m, int bits) {
    vu all = codes_ones(bits) * ((1u << bits) - 1), words = {0};
    uint64_t word = 0;
    if (m == VLEN && at * bits % 8 == 0) {
        __builtin_memcpy(&word, row + at * bits / 8, (size_t)(VLEN * bits / 8));
        word = le64toh(word);
    } else {
        for (int64_t l = 0; l < m; l++) {
            int64_t bit = (at + l) * bits;
            uint64_t code = (uint32_t)row[bit / 8] >> bit % 8 & ((1u << bits) - 1);
            word |= code << l * bits;
        }
    }
    words += (uint32_t)word;
    for (int l = 32 / bits; l < VLEN; l++) {
        words[l] = (uint32_t)(word >> 32);
    }
    return words & all;
}

/* All lanes of a word, or of each half of one, put together. */
static INLINE uint64_t codes_join(vu codes, int bits) {
    vu64 pairs = (vu64)codes;
    uint64_t low = 0, high = 0;
    for (int l = 0; l < WIDE; l++) {
        *(2 * l * bits < 32 ? &low : &high) |= pairs[l];
    }
    return (uint32_t)(low | low >> 32) | (high | high >> 32) << 32;
}

/* Writes them, from the first of a row on: what a byte held before its lowest code is gone. */
static INLINE void codes_store(uint8_t *row, int64_t at, vu codes, int64_t m, int bits) {
    uint64_t word = codes_join(codes, bits);
    if (m == VLEN && at * bits % 8 == 0) {
        word = htole64(word);
        __builtin_memcpy(row + at * bits / 8, &word, (size_t)(VLEN * bits / 8));
        return;
    }
    for (int64_t l = 0; l < m; l++) {
        int64_t bit = (at + l) * bits;
        unsigned code = (unsigned)(word >> l * bits) & ((1u << bits) - 1);
        unsigned before = bit % 8 == 0 ? 0 : row[bit / 8];
        row[bit / 8] = (uint8_t)(before | code << bit % 8);
    }
}

#endif
